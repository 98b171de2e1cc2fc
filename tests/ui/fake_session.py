"""A session for tests of the interfaces: a real conversation in memory, the rest is scripted.

Requests of an interface are recorded in `asked`; `happen` sends an event. The session does nothing
by itself: a test decides what the agent does.
"""

# A test sets attributes that a real session computes:
# pyright: reportAssignmentType=false, reportIncompatibleMethodOverride=false
# pyright: reportIncompatibleVariableOverride=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from steno import Conversation, StenoError
from steno.agent import PromptInput
from steno.agent.session_events import (
    BranchChanged,
    PendingCallsChanged,
    SessionEvent,
    SessionListener,
)
from steno.app.approval_queue import PendingCall
from steno.app.branch_tree import BranchTree, editable_message
from steno.app.commands.report import Report, text_report
from steno.app.commands.table import Suggestion
from steno.app.session import AgentSession, ImageReader
from steno.app.session_list import SessionList
from steno.app.session_log import BranchTreeRow
from steno.app.session_lookup import SessionSummary
from steno.errors import Missing
from steno.log.queries import check_label_text, searchable_text, total_usage
from steno.messages.call import AnyToolCall, ToolCall
from steno.messages.message import ChatMessage, UserMessage
from steno.ports import ApprovalDecision, CallPreview, PreviewPart
from steno.records.entry import Entry, Mode
from steno.render.describe import entry_type
from steno.render.items import SessionStatus
from steno.tools.calls import call_content, call_headline

Asked = tuple[Any, ...]


class FakeBranches(BranchTree):
    def __init__(self, session: FakeSession) -> None:
        self._session = session

    def names(self) -> Sequence[str]:
        active = self._session.conversation.branch
        return [active, *[n for n in self._session.conversation.branches if n != active]]

    async def rows(self) -> Sequence[BranchTreeRow]:
        return self.all_rows()

    def all_rows(self) -> Sequence[BranchTreeRow]:
        """Return every entry of every branch; side branches are indented."""
        conversation = self._session.conversation
        labels: dict[str, list[str]] = {}
        for text, target in conversation.labels.items():
            labels.setdefault(target, []).append(text)
        heads: dict[str | None, list[str]] = {}
        for name, head in conversation.branches.items():
            heads.setdefault(head, []).append(name)
        active = {entry.id for entry in conversation.entries()}
        seen: set[str] = set()
        rows: list[BranchTreeRow] = []
        for name in reversed(self.names()):
            new = [entry for entry in conversation.entries(name) if entry.id not in seen]
            graph_prefix = "" if name == conversation.branch else "| "
            for entry in new:
                seen.add(entry.id)
                rows.append(
                    BranchTreeRow(
                        graph_prefix="" if entry.id in active else graph_prefix,
                        entry=entry,
                        number=len(rows) + 1,
                        kind=entry_type(entry),
                        summary=" ".join(searchable_text(entry).split()),
                        labels=tuple(labels.get(entry.id, ())),
                        branches=tuple(heads.get(entry.id, ())),
                        is_active=entry.id in active,
                        is_notable=isinstance(entry.payload, UserMessage) or entry.id in heads,
                    )
                )
        return rows

    def fork(self, name: str = "", *, at: str | None = None) -> str:
        self._session.note("fork", name, at)
        name = name or f"fork-{len(self._session.conversation.branches)}"
        self._session.conversation.fork(name, at=at)
        self._session.conversation.switch(name)
        self._session.happen(BranchChanged())
        return name

    def fork_before(self, entry: str, name: str = "") -> PromptInput:
        self._session.note("fork_before", entry, name)
        found = self._session.conversation.entry(entry)
        editable_message(found)
        self.fork(name, at=found.parent)
        return PromptInput(searchable_text(found))

    def switch(self, name: str) -> None:
        self._session.note("switch", name)
        self._session.conversation.switch(name)
        self._session.happen(BranchChanged())

    def label(self, entry: str, text: str) -> None:
        check_label_text(text)
        self._session.note("label", entry, text)
        self._session.conversation.label(entry, text)


class FakeSessionList(SessionList):
    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.kept: list[SessionSummary] = []

    async def summaries(self, search: str = "") -> Sequence[SessionSummary]:
        self._session.note("summaries", search)
        return [one for one in self.kept if search.lower() in one.title.lower()]

    async def new(self, title: str = "") -> None:
        self._session.note("new", title)
        self._session.conversation = Conversation()
        self._session.happen(BranchChanged())

    async def resume(self, session: str) -> None:
        self._session.note("resume", session)
        if session not in [one.id for one in self.kept]:
            raise Missing(f"session {session}: unknown session")
        self._session.happen(BranchChanged())

    async def rename(self, session: str, title: str) -> None:
        self._session.note("rename", session, title)
        self.kept = [one._replace(title=title) if one.id == session else one for one in self.kept]

    async def delete(self, session: str) -> None:
        self._session.note("delete", session)
        self.kept = [one for one in self.kept if one.id != session]


class FakeSession(AgentSession):
    """A scripted session; a test may set every attribute."""

    actor = "ann"
    is_running = False
    is_unfinished = False
    pending_calls: Sequence[PendingCall] = ()
    branches: FakeBranches
    session_list: FakeSessionList

    def __init__(self, messages: Iterable[ChatMessage] = ()) -> None:
        self.conversation = Conversation(messages)
        self.asked: list[Asked] = []
        self.branches = FakeBranches(self)
        self.session_list = FakeSessionList(self)
        self.replies: dict[str, Report | StenoError] = {}
        self.candidates: list[Suggestion] = []
        self.headlines: dict[str, str] = {}
        """The headlines that tools give, by call."""
        self.refusal: StenoError | None = None
        """What `say` raises next."""
        self.images: dict[tuple[str, int], bytes] = {}
        self.is_closed = False
        self._watchers: list[SessionListener] = []

    def note(self, *asked: Any) -> None:
        self.asked.append(asked)

    def happen(self, *events: SessionEvent) -> None:
        """Send an event to all listeners."""
        for event in events:
            for listener in self._watchers:
                listener(event)

    @property
    def status(self) -> SessionStatus:
        return SessionStatus(
            session="0198-session",
            title="a test",
            folder="~/project",
            branch=self.conversation.branch,
            model="offline/steno",
            mode=self.conversation.mode,
            usage=total_usage(self.conversation.entries()),
            cost=Decimal("0.0123"),
            context_tokens=4_200,
            context_limit=32_000,
        )

    def subscribe(self, listener: SessionListener) -> Callable[[], None]:
        self._watchers = [listener]
        return self._watchers.clear

    def entries(self, branch: str | None = None) -> Sequence[Entry]:
        return self.conversation.entries_view(branch)

    def find_image(self, entry: str, block: int) -> ImageReader | None:
        data = self.images.get((entry, block))
        return None if data is None else lambda: data

    async def send(self, prompt: PromptInput) -> None:
        self.note("send", prompt)
        if self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            raise refusal

    async def run_shell(self, command: str) -> None:
        self.note("run_shell", command)

    def interrupt(self) -> None:
        self.note("interrupt")

    def decide(self, call_id: str, decision: ApprovalDecision) -> None:
        self.note("decide", call_id, decision)
        self.pending_calls = [one for one in self.pending_calls if one.call.id != call_id]
        self.happen(PendingCallsChanged())

    def headline(self, call: AnyToolCall) -> str:
        return self.headlines.get(call.id) or call_headline(call)

    def call_content(self, call: ToolCall) -> PreviewPart | None:
        return call_content(call)

    async def preview(self, call: ToolCall) -> CallPreview:
        self.note("preview", call.id)
        names = tuple(call.parsed)
        return CallPreview.of(f"preview of {call.name} {call.arguments}", shown_arguments=names)

    def change_mode(self, mode: Mode) -> None:
        self.note("change_mode", mode)
        self.conversation.change_mode(mode)

    async def change_model(self, name: str) -> Report:
        self.note("change_model", name)
        return text_report(f"{name} answers from here on")

    async def list_models(self) -> Sequence[Suggestion]:
        return [Suggestion("offline/steno", "no model"), Suggestion("ollama/qwen3", "32k")]

    async def run_command(self, name: str, argument: str = "") -> Report:
        self.note("run_command", name, argument)
        reply = self.replies.get(name, text_report(f"done: {name} {argument}".rstrip()))
        if isinstance(reply, StenoError):
            raise reply
        return reply

    async def complete(self, typed: str) -> Sequence[Suggestion]:
        return [one for one in self.candidates if one.text.startswith(typed)]

    async def close(self) -> None:
        self.is_closed = True
