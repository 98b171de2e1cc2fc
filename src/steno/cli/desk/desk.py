"""The desk of a person at a terminal (`steno.tui.desk.Desk`), over everything that there is.

It hands out the work: who watches and what is at hand is `bench`, what runs is `working`, and each
thing that can be asked for has a file of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, final

from steno.agent.gate import last_decision
from steno.call import ToolCall
from steno.cli.choosing import choose_model
from steno.cli.compose import store_for
from steno.cli.configuration import Loaded
from steno.cli.desk.bench import Bench, Site
from steno.cli.desk.boughs import Boughs
from steno.cli.desk.completing import complete
from steno.cli.desk.models import list_models
from steno.cli.desk.own import OwnCommands
from steno.cli.desk.pictures import Pictures
from steno.cli.desk.shelved import Shelved
from steno.cli.desk.switching import change_mode, change_model, unless_stopped
from steno.cli.desk.working import Work
from steno.cli.opening import Outside
from steno.cli.session import Start, go_on, open_session
from steno.conversation import Conversation
from steno.entry import ApprovalStatus, Entry, Mode
from steno.errors import ToolFailed
from steno.ports import Approver, Verdict
from steno.store import MemoryStore, Store
from steno.tui.desk import (
    Branches,
    Candidate,
    Desk,
    Pending,
    ReadsImage,
    Reply,
    Shelf,
    Standing,
    Watcher,
    Words,
)
from steno.value import replace_lone_surrogates
from steno.views import decision_of

_ANY_SERVER: Final = Outside()


@asynccontextmanager
async def opened_desk(
    loaded: Loaded,
    start: Start,
    *,
    keeps: bool = True,
    mode: str | None = None,
    outside: Outside = _ANY_SERVER,
    approver: Approver | None = None,
    verbose: bool = False,
    say: Callable[[str], object] = lambda _: None,
) -> AsyncGenerator[Desk]:
    """Open a desk for work in a folder; everything is closed behind it.

    A session that `start` names goes on; a new one is begun when something is said. `mode` is
    the one to go on in, if that is not the one on record; `approver` decides in place of the
    person; who is `verbose` tells each thing that a server does not look at; and `say` is told
    what is waited for.
    """
    keeps = keeps or not start.is_new
    say("looking for a model")
    store = await asyncio.to_thread(_store, loaded, keeps=keeps, is_new=start.is_new)
    bench = Bench(Site(loaded, start.folder, store, keeps, outside, say, approver, verbose))
    desk = DeskAtWork(bench)
    passed_over: list[str] = []
    try:
        going_on: Conversation | None = None
        if not start.is_new:
            going_on = await asyncio.to_thread(_going_on, store, start, passed_over.append)
        recorded = "" if going_on is None else going_on.model or ""
        await bench.use_model(await choose_model(loaded, recorded))
        if going_on is None:
            bench.prepare_new_session("", loaded.settings.mode)
        else:
            go_on(going_on, start, mode)
            bench.resume(bench.read_session(going_on))
        bench.emit_notes((*passed_over, *loaded.notes))
        yield desk
    finally:
        await desk.close()


def _store(loaded: Loaded, *, keeps: bool, is_new: bool) -> Store:
    return store_for(loaded.settings, is_new=is_new) if keeps else MemoryStore()


def _going_on(store: Store, start: Start, tell: Callable[[str], object]) -> Conversation:
    conversation = open_session(store, start, is_shown=False, tell=tell)
    conversation.entries_view()  # is read here, and not when it is shown
    return conversation


@final
class DeskAtWork:
    """One session at a time, an agent at work on it, and everything that may be asked of both."""

    def __init__(self, bench: Bench) -> None:
        """Take what everything here shares."""
        self._state = bench
        self._active_run = Work(bench)
        self._images = Pictures(bench.config.store)
        self._branches = Boughs(bench)
        self._session_list = Shelved(bench)
        self._commands = OwnCommands(bench, self._active_run, self._branches, self._session_list)

    # -- what there is to see ----------------------------------------------------------------

    @property
    def actor(self) -> str:
        """Who works here."""
        return self._state.actor

    @property
    def status(self) -> Standing:
        """Where things stand."""
        return self._state.status

    @property
    def is_running(self) -> bool:
        """Whether the agent is at work, or a command of the person is."""
        return self._active_run.is_running

    @property
    def is_unfinished(self) -> bool:
        """Whether the record ends in the middle."""
        return self._active_run.is_unfinished

    @property
    def pending_calls(self) -> Sequence[Pending]:
        """The calls that await a decision, those that were asked about first."""
        return self._state.approvals.pending_calls(self._undecided_calls().values())

    @property
    def branches(self) -> Branches:
        """The tree of this session."""
        return self._branches

    @property
    def session_list(self) -> Shelf:
        """All sessions."""
        return self._session_list

    def subscribe(self, watcher: Watcher) -> None:
        """Tell somebody what happens from now on."""
        self._state.subscribe(watcher)

    def entries(self, branch: str | None = None) -> Sequence[Entry]:
        """Return what is on record."""
        return self._state.conversation.entries_view(branch) if self._state.is_recorded else ()

    def find_image(self, entry: str, block: int) -> ReadsImage | None:
        """Return what reads an image: as it was said, or as it was opened."""
        return self._images.find(self._state.conversation, entry, block)

    def _undecided_calls(self) -> dict[str, ToolCall]:
        """Return the calls of this turn that nobody has decided about yet."""
        conversation = self._state.conversation
        if not self._state.is_agent_running:
            return {}
        calls = [conversation.outstanding_call(id) for id in conversation.outstanding]
        decided = {call.id: last_decision(conversation.entries_view(), call) for call in calls}
        return {
            call.id: call
            for call in calls
            if isinstance(call, ToolCall) and _is_undecided(decided[call.id])
        }

    # -- what can be asked for ---------------------------------------------------------------

    async def send(self, words: Words) -> None:
        """Say something: it begins a run, or steers the one that is under way."""
        await self._active_run.send(words)

    async def run_shell(self, command: str) -> None:
        """Run a command of the person; returns as soon as it runs."""
        await self._active_run.run_shell(command)

    def interrupt(self) -> None:
        """Stop what is being said and done."""
        self._active_run.interrupt()

    def decide(self, call_id: str, verdict: Verdict) -> None:
        """Decide about a pending call, or about one that waits behind it."""
        self._state.approvals.decide(call_id, verdict, self._undecided_calls())

    async def preview(self, call: ToolCall) -> str:
        """Return what a call would do as things are now. Raises ToolFailed if it cannot succeed."""
        questions = self._state.approvals
        try:
            text = replace_lone_surrogates(await self._preview_text(call))
        except ToolFailed as exc:
            questions.record_preview(call, str(exc))
            raise
        questions.record_preview(call, text)
        return text

    async def _preview_text(self, call: ToolCall) -> str:
        tools = {tool.definition.name: tool for tool in self._state.environment.tools}
        tool = tools.get(call.name)
        if tool is None or tool.definition.check(call):
            return call.arguments
        return await tool.preview(call)

    def change_mode(self, mode: Mode) -> None:
        """Let the agent only plan, or act."""
        change_mode(self._state, mode)

    async def change_model(self, name: str) -> Reply:
        """Let another model answer from here on; return what it will see otherwise."""
        return await change_model(self._state, name)

    async def list_models(self) -> Sequence[Candidate]:
        """Return the models that there are to choose from."""
        return await unless_stopped(self._state, list_models(self._state.config.loaded_settings))

    async def run_command(self, name: str, argument: str = "") -> Reply:
        """Do what a command asks for."""
        return await self._commands.run(name, argument)

    async def complete(self, typed: str) -> Sequence[Candidate]:
        """Return what may be meant by what was typed."""
        return await complete(self._state.command_context, typed)

    async def close(self) -> None:
        """Stop what runs, and let go of everything."""
        self._state.is_closed = True  # from here on nothing begins
        self._state.subscribe(None)
        try:
            await self._active_run.close()
        finally:  # also if nobody wants to wait for it
            await self._state.close()


def _is_undecided(decision: Entry | None) -> bool:
    return decision is None or decision_of(decision) == ApprovalStatus.PENDING
