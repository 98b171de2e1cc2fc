"""A desk for tests of faces: a real conversation in memory, and everything else by script.

What a face asks for is noted in `asked`; what happens is said with `happen`. Nobody answers by
itself: a test says what the agent does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from steno import Conversation, StenoError
from steno.call import ToolCall
from steno.captions import type_of
from steno.entry import Entry, Mode
from steno.errors import Missing
from steno.message import ChatMessage, UserMessage
from steno.ports import Verdict
from steno.tui.desk import (
    Candidate,
    Decided,
    DeskEvent,
    Kept,
    Moved,
    Pending,
    ReadsImage,
    Reply,
    Standing,
    Twig,
    Watcher,
    Words,
)
from steno.views import text_of, usage_of

Asked = tuple[Any, ...]


class FakeBranches:
    def __init__(self, desk: FakeDesk) -> None:
        self._desk = desk

    def names(self) -> Sequence[str]:
        active = self._desk.conversation.branch
        return [active, *[n for n in self._desk.conversation.branches if n != active]]

    async def rows(self) -> Sequence[Twig]:
        return self.all_twigs()

    def all_twigs(self) -> Sequence[Twig]:
        """Return every entry of every branch, what parts from an earlier branch one step right."""
        conversation = self._desk.conversation
        labels: dict[str, list[str]] = {}
        for text, target in conversation.labels.items():
            labels.setdefault(target, []).append(text)
        heads: dict[str | None, list[str]] = {}
        for name, head in conversation.branches.items():
            heads.setdefault(head, []).append(name)
        active = {entry.id for entry in conversation.entries()}
        seen: set[str] = set()
        twigs: list[Twig] = []
        for name in reversed(self.names()):
            new = [entry for entry in conversation.entries(name) if entry.id not in seen]
            rails = "" if name == conversation.branch else "| "
            for entry in new:
                seen.add(entry.id)
                twigs.append(
                    Twig(
                        rails="" if entry.id in active else rails,
                        entry=entry,
                        number=len(twigs) + 1,
                        kind=type_of(entry),
                        gist=" ".join(text_of(entry).split()),
                        labels=tuple(labels.get(entry.id, ())),
                        branches=tuple(heads.get(entry.id, ())),
                        is_active=entry.id in active,
                        is_notable=isinstance(entry.payload, UserMessage) or entry.id in heads,
                    )
                )
        return twigs

    def fork(self, name: str = "", *, at: str | None = None) -> str:
        self._desk.note("fork", name, at)
        name = name or f"fork-{len(self._desk.conversation.branches)}"
        self._desk.conversation.fork(name, at=at)
        self._desk.conversation.switch(name)
        self._desk.happen(Moved())
        return name

    def fork_before(self, entry: str, name: str = "") -> Words:
        self._desk.note("fork_before", entry, name)
        found = self._desk.conversation.entry(entry)
        self.fork(name, at=found.parent)
        return Words(text_of(found))

    def switch(self, name: str) -> None:
        self._desk.note("switch", name)
        self._desk.conversation.switch(name)
        self._desk.happen(Moved())

    def label(self, entry: str, text: str) -> None:
        self._desk.note("label", entry, text)
        self._desk.conversation.label(entry, text)


class FakeShelf:
    def __init__(self, desk: FakeDesk) -> None:
        self._desk = desk
        self.kept: list[Kept] = []

    async def summaries(self, search: str = "") -> Sequence[Kept]:
        self._desk.note("sessions", search)
        return [one for one in self.kept if search.lower() in one.title.lower()]

    async def new(self, title: str = "") -> None:
        self._desk.note("new", title)
        self._desk.conversation = Conversation()
        self._desk.happen(Moved())

    async def resume(self, session: str) -> None:
        self._desk.note("resume", session)
        if session not in [one.id for one in self.kept]:
            raise Missing(f"session {session}: there is none of this name")
        self._desk.happen(Moved())

    async def rename(self, session: str, title: str) -> None:
        self._desk.note("rename", session, title)
        self.kept = [one._replace(title=title) if one.id == session else one for one in self.kept]

    async def delete(self, session: str) -> None:
        self._desk.note("delete", session)
        self.kept = [one for one in self.kept if one.id != session]


class FakeDesk:
    """See above; every attribute may be set by a test."""

    def __init__(self, messages: Iterable[ChatMessage] = ()) -> None:
        self.conversation = Conversation(messages)
        self.asked: list[Asked] = []
        self.actor = "ann"
        self.is_running = False
        self.is_unfinished = False
        self.pending_calls: list[Pending] = []
        self.branches = FakeBranches(self)
        self.session_list = FakeShelf(self)
        self.replies: dict[str, Reply | StenoError] = {}
        self.candidates: list[Candidate] = []
        self.refusal: StenoError | None = None
        """What `say` raises next."""
        self.images: dict[tuple[str, int], bytes] = {}
        self.is_closed = False
        self._watchers: list[Watcher] = []

    def note(self, *asked: Any) -> None:
        self.asked.append(asked)

    def happen(self, *events: DeskEvent) -> None:
        """Tell whoever watches what happens."""
        for event in events:
            for watcher in self._watchers:
                watcher(event)

    @property
    def status(self) -> Standing:
        return Standing(
            session="0198-session",
            title="a test",
            folder="~/project",
            branch=self.conversation.branch,
            model="offline/steno",
            mode=self.conversation.mode,
            usage=usage_of(self.conversation.entries()),
            cost=Decimal("0.0123"),
            context_tokens=4_200,
            context_limit=32_000,
        )

    def subscribe(self, watcher: Watcher) -> None:
        self._watchers = [watcher]

    def entries(self, branch: str | None = None) -> Sequence[Entry]:
        return self.conversation.entries_view(branch)

    def find_image(self, entry: str, block: int) -> ReadsImage | None:
        data = self.images.get((entry, block))
        return None if data is None else lambda: data

    async def send(self, words: Words) -> None:
        self.note("say", words)
        if self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            raise refusal

    async def run_shell(self, command: str) -> None:
        self.note("shell", command)

    def interrupt(self) -> None:
        self.note("interrupt")

    def decide(self, call_id: str, verdict: Verdict) -> None:
        self.note("decide", call_id, verdict)
        self.pending_calls = [one for one in self.pending_calls if one.call.id != call_id]
        self.happen(Decided())

    async def preview(self, call: ToolCall) -> str:
        self.note("preview", call.id)
        return f"preview of {call.name} {call.arguments}"

    def change_mode(self, mode: Mode) -> None:
        self.note("change_mode", mode)
        self.conversation.change_mode(mode)

    async def change_model(self, name: str) -> Reply:
        self.note("change_model", name)
        return Reply(f"{name} answers from here on")

    async def list_models(self) -> Sequence[Candidate]:
        return [Candidate("offline/steno", "no model"), Candidate("ollama/qwen3", "32k")]

    async def run_command(self, name: str, argument: str = "") -> Reply:
        self.note("command", name, argument)
        reply = self.replies.get(name, Reply(f"done: {name} {argument}".rstrip()))
        if isinstance(reply, StenoError):
            raise reply
        return reply

    async def complete(self, typed: str) -> Sequence[Candidate]:
        return [one for one in self.candidates if one.text.startswith(typed)]

    async def close(self) -> None:
        self.is_closed = True
