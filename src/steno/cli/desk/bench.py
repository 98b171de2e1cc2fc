"""What the parts of a desk share: the session at hand, what it works with, and who watches.

A session is begun when something is said: whoever opens a desk and leaves it leaves nothing behind.
Until then there is a conversation in memory, which holds no more than the mode.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from functools import cache
from itertools import islice, takewhile
from pathlib import Path
from typing import Final, NamedTuple, final

from steno.agent import Notice, NoticeCode, Recorded, Runner
from steno.cli.choosing import choose_model
from steno.cli.compose import (
    Equipment,
    check_room,
    equip_beside,
    notes_on,
    notes_on_session,
    system_prompt,
    user_name,
)
from steno.cli.configuration import Loaded
from steno.cli.desk.arriving import Arrivals
from steno.cli.desk.ledger import Ledger
from steno.cli.desk.patient import PatientAgent
from steno.cli.desk.plainly import said_plainly
from steno.cli.desk.questions import Questions
from steno.cli.desk.scene import Scene
from steno.cli.desk.turns import Turns
from steno.cli.folding import Folding
from steno.cli.listing import shown_folder
from steno.cli.opening import Outside, set_up_servers
from steno.cli.session import new_session, set_mode
from steno.content import Image
from steno.conversation import Conversation
from steno.entry import Entry, Mode, Rewind
from steno.errors import StenoError
from steno.ports import Approver
from steno.providers.finding import Found
from steno.providers.prices import price_of
from steno.store import Store
from steno.store.store import NEARBY, title_of
from steno.tui.desk import Decided, DeskEvent, Moved, Standing, Trouble, Watcher

_logger: Final = logging.getLogger("steno.cli")


class Site(NamedTuple):
    """Where a desk stands; it never changes."""

    loaded: Loaded
    folder: Path
    store: Store
    keeps: bool
    outside: Outside
    say: Callable[[str], object]
    """Is told what is waited for."""
    approver: Approver | None = None
    """Who decides in place of the person."""
    verbose: bool = False
    """Whether each thing that a server does not look at is told by itself."""


class OnRecord(NamedTuple):
    """A session that can be gone on with, and what is known of it."""

    conversation: Conversation
    title: str
    notes: tuple[str, ...]


@final
class Bench:
    """One session at a time, and everything around it."""

    def __init__(self, site: Site) -> None:
        """Take the place; there is no model yet, and nothing can be said."""
        self.site = site
        self.actor = user_name() or "somebody"
        self.turn = Turns()
        """Held by whoever begins or exchanges something, one after the other."""
        self.is_agent_at_work = False
        self.is_shell_at_work = False
        self.is_closed = False
        self.questions = Questions(lambda: self.tell(Decided()))
        self.equipment: Equipment
        self.conversation = Conversation()
        self.is_begun = False
        """Whether the session is on record; else it is only thought of."""
        self.title = ""
        self._prompt = ""
        self._agent: PatientAgent | None = None
        self._folding = Folding()
        """What the server of this agent does not look at."""
        self._room: int | None = None
        """How much the model reads at once."""
        self._ledger = Ledger(cache(price_of))
        self._arrivals: Arrivals | None = None
        """What servers bring: they are found with the first model, and outlive it."""
        self._equipped = AsyncExitStack()
        self._watcher: Watcher | None = None
        self._untold: list[DeskEvent] = []
        self._has_stumbled = False
        self._noted: set[str] = set()

    # -- who watches -------------------------------------------------------------------------

    def watch(self, watcher: Watcher | None) -> None:
        """Tell somebody what happens from now on, and soon what they should know by now."""
        self._watcher = watcher
        if watcher is not None and self._untold:
            asyncio.get_running_loop().call_soon(self._catch_up)

    def _catch_up(self) -> None:
        untold, self._untold = self._untold, []
        for event in untold:
            self.tell(event)

    def tell(self, event: DeskEvent) -> None:
        """Tell who watches what happens; what has to be known waits for somebody."""
        if isinstance(event, Recorded):
            self._take_note_of(event.entry)
        if not self.site.verbose:
            if isinstance(event, Notice) and self._folding.takes(event):
                return
            if told := self._folding.told():
                self.tell(Notice(NoticeCode.CONTEXT, told))
            plain = said_plainly(event) if isinstance(event, Notice) else event
            if plain is None:
                return
            event = plain
        if self._watcher is None:
            if isinstance(event, (Notice, Trouble)):
                self._untold.append(event)
            return
        try:
            self._watcher(event)
        except Exception as exc:  # noqa: BLE001 - whoever works goes on, whatever a face makes of it
            self._stumble(event, exc)

    def _stumble(self, event: DeskEvent, exc: Exception) -> None:
        """Say that a face has a fault; once, since it may have it with every word."""
        if not self._has_stumbled:
            self._has_stumbled = True
            name = type(event).__name__
            _logger.error("desk: who watches failed at %s", name, exc_info=exc)
            fault = f"{type(exc).__name__}: {exc}"
            self.tell(Trouble(f"a fault in steno: {fault}; what is on record is safe"))

    def note(self, texts: Iterable[str]) -> None:
        """Tell what a person should know of how things are; once."""
        for text in texts:
            if text not in self._noted:
                self._noted.add(text)
                self.tell(Notice(NoticeCode.CONTEXT, text))

    # -- how things stand --------------------------------------------------------------------

    def check_open(self) -> None:
        """Refuse what cannot begin any more. Raises StenoError."""
        if self.is_closed:
            raise StenoError("desk: it is closed")

    def check_idle(self) -> None:
        """Refuse what cannot be done while something runs. Raises StenoError."""
        self.check_open()
        if self.is_agent_at_work:
            raise StenoError("the agent is at work; interrupt it, or wait until it is done")
        if self.is_shell_at_work:
            raise StenoError("your command still runs; interrupt it, or wait until it is done")

    @property
    def agent(self) -> PatientAgent:
        """Who works on the session."""
        if self._agent is None:
            self._agent = PatientAgent(
                self.conversation,
                lambda: self.equipment,
                begin=self.begin,
                runner=Runner(self.site.store),
                wait=self._wait_for_tools,
            )
            self._folding = Folding()
        return self._agent

    @property
    def scene(self) -> Scene:
        """Everything, for a command to look at."""
        site = self.site
        return Scene(
            loaded=site.loaded,
            folder=site.folder,
            store=site.store,
            keeps=site.keeps,
            equipment=self.equipment,
            conversation=self.conversation,
            actor=self.actor,
        )

    @property
    def standing(self) -> Standing:
        """What a status line shows."""
        ledger, conversation = self._ledger, self.conversation
        return Standing(
            session=(conversation.id if self.is_begun else "") if self.site.keeps else None,
            title=self.title,
            folder=shown_folder(str(self.site.folder)),
            branch=conversation.branch,
            model=self.equipment.found.name,
            mode=conversation.mode,
            usage=ledger.usage,
            cost=ledger.cost,
            context_tokens=ledger.context_tokens,
            context_room=self._room,
        )

    def _take_note_of(self, entry: Entry) -> None:
        if isinstance(entry.payload, Rewind):
            # What was recorded again behind it is there already, and will be told as well.
            past = self.conversation.past()
            self._ledger.read(takewhile(lambda one: one.id != entry.id, past))
        else:
            self._ledger.add(entry)
        self.title = self.title or title_of([entry])

    # -- the session -------------------------------------------------------------------------

    def think_of(self, title: str, mode: Mode) -> None:
        """Let the next words begin a session."""
        self._prompt, notes = system_prompt(self.site.loaded, self.site.folder)
        conversation = Conversation()
        set_mode(conversation, mode)
        self._take(conversation, is_begun=False, title=title)
        self.note(notes)

    def check_room(self, said: str) -> None:
        """Refuse what is too long for the model. Raises InvalidValue.

        That is told only of models of which it is known before they are loaded.
        """
        check_room(self.equipment, said if self.is_begun else self._prompt + said)

    def begin(self) -> Conversation:
        """Begin the session, if it was only thought of; return its conversation.

        Whoever is at work stays so: the words that begin it may be those that wait for tools.
        """
        if not self.is_begun:
            site, mode = self.site, self.conversation.mode
            begun = new_session(site.store, site.folder, self._prompt, mode, title=self.title)
            self.conversation, self.is_begun = begun, True
            for entry in begun.past():
                self.tell(Recorded(entry))
        return self.conversation

    def read(self, conversation: Conversation) -> OnRecord:
        """Read a session that is on record, from any thread; nothing is taken yet."""
        store, entries = self.site.store, conversation.past()
        title = store.header(conversation.id).title or title_of(islice(entries, NEARBY))
        notes = notes_on_session(store, conversation, self.site.folder)
        return OnRecord(conversation, title, tuple(notes))

    def go_on_with(self, session: OnRecord) -> None:
        """Take a session that is on record."""
        self._take(session.conversation, is_begun=True, title=session.title)
        self._ledger.read(session.conversation.past())
        self.note(session.notes)

    def _take(self, conversation: Conversation, *, is_begun: bool, title: str) -> None:
        self.conversation, self.is_begun, self.title = conversation, is_begun, title
        self._agent = None
        self._ledger.read(())

    def move(self) -> None:
        """Read the branch anew, and say that everything is to be shown anew."""
        self._ledger.read(self.conversation.past() if self.is_begun else ())
        self.tell(Moved())

    # -- what it works with ------------------------------------------------------------------

    async def equip(self, found: Found) -> None:
        """Work with a model from here on; what the last one worked with is closed.

        Servers are the same for every model: they go on. What cannot be opened leaves everything
        as it was.
        """
        site, stack = self.site, AsyncExitStack()
        # What it costs and how much it reads takes a moment to look up for the first time.
        await asyncio.to_thread(price_of, found.name)
        arrivals = self._arrivals = self._arrivals or self._found_servers()
        approver = site.approver or self.questions
        opener = equip_beside(site.loaded, found, site.folder, approver, arrivals.set_up)
        equipment = await stack.enter_async_context(opener)
        if self.is_closed:
            await stack.aclose()
        self.check_open()
        last, self._equipped = self._equipped, stack
        self.equipment, self._agent = equipment, None
        target = equipment.target
        self._room = target.context_tokens
        try:
            await last.aclose()
        except Exception:
            _logger.exception("desk: what the last model worked with was not closed")
        self.note((*equipment.notes, *notes_on(equipment, site.folder)))
        if equipment.takes_tools:
            arrivals.ask()
            self._take_tools()
        else:
            self.note([f"{found.name} calls no tools: it can only talk"])

    def _found_servers(self) -> Arrivals:
        """Find the servers that are wanted. Raises InvalidValue."""
        site = self.site
        return Arrivals(
            set_up_servers(site.loaded, site.folder, site.outside, notify=self._inform),
            fit=self._fit,
            changed=self._take_tools,
            say=site.say,
            tell=self._inform,
        )

    def _fit(self, data: bytes) -> Image:
        """Make an image fit for the model that answers by now."""
        return self.equipment.opened.inputs.fit(data)

    def _inform(self, text: str) -> None:
        self.tell(Notice(NoticeCode.INPUT, text))

    def _take_tools(self) -> None:
        """Take what servers have brought by now; the next run has it."""
        if self._arrivals is not None and self.equipment.takes_tools:
            self.equipment = self.equipment.with_foreign(self._arrivals.found)
            self.note(self.equipment.opened.notes)

    def ask_for_tools(self) -> bool:
        """Ask servers who were not asked yet; tell whether what is said now waits for any."""
        if self._arrivals is None or not self.equipment.takes_tools:
            return False
        self._arrivals.ask()
        return self._arrivals.are_awaited

    async def _wait_for_tools(self) -> None:
        if self._arrivals is not None and self.equipment.takes_tools:
            await self._arrivals.wait()

    async def equip_as_recorded(self, recorded: str | None) -> None:
        """Work with the model that a session was left with, if that can be had."""
        if recorded is None or recorded == self.equipment.found.name:
            return
        try:
            found = await choose_model(self.site.loaded, recorded)
            if found.name != self.equipment.found.name:
                await self.equip(found)
        except StenoError as exc:
            self.tell(Notice(NoticeCode.CONTEXT, f"{exc}; {self.equipment.found.name} answers"))

    async def close(self) -> None:
        """Let go of everything. Calling it twice is fine."""
        self.is_closed = True
        async with AsyncExitStack() as stack:  # each of them, whatever becomes of the others
            stack.callback(self.site.store.close)
            stack.push_async_callback(self._equipped.aclose)
            if self._arrivals is not None:
                stack.push_async_callback(self._arrivals.aclose)
