"""The events of a session, the values that an interface reads and sends, and their sentences."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias, final

from msgspec import Struct

from steno.agent import (
    CallEnded,
    CallStarted,
    ContextChanged,
    EndReason,
    EntryRecorded,
    LoopEvent,
    Notice,
    NoticeKind,
    PromptInput,
    RunEnded,
    RunResult,
    TurnStarted,
)
from steno.messages.call import ToolCall
from steno.messages.event import TextDelta, ThinkingDelta, ToolCallBegin
from steno.messages.usage import StopReason
from steno.ports import ApprovalDecision, ApprovalRequest
from steno.records.entry import Entry, ModelChange
from steno.render.changes import IgnoredFieldCounter, format_change, notice_text
from steno.render.items import ItemKind
from steno.render.quantities import format_count, format_dollars
from steno.render.terminal_text import terminal_line

RETRY_HINT: Final = "/retry tries again"
UNFINISHED_NOTICE: Final = "this session stopped in the middle; /retry goes on there"
ImageReader: TypeAlias = Callable[[], bytes | None]
"""Returns the bytes of an image; None if they cannot be read. That may take a while."""


# -- values -----------------------------------------------------------------------------------


class PendingCall(NamedTuple):
    """A call that awaits a decision, or will."""

    call: ToolCall
    request: ApprovalRequest | None
    """None: it waits for another call of its turn, and a rule may still decide about it."""
    decision: ApprovalDecision | None = None
    """The user's decision before the request."""

    @property
    def headline(self) -> str | None:
        """The headline that the tool gives; None before the request."""
        return None if self.request is None else self.request.headline


class Suggestion(NamedTuple):
    """A completion of the typed text."""

    text: str
    """The replacement, including the sign: `@src/main.py`, `@docs:readme://x`, `/mode`."""
    description: str = ""
    expects_more: bool = False
    """Whether more follows: a folder, a command with an argument."""


class BranchTreeRow(NamedTuple):
    """One row of a drawn tree: an entry and its position.

    The continuation of an entry is below it; other branches come first, one step to the right.
    """

    graph_prefix: str
    """The indentation, drawn: `| | `."""
    entry: Entry
    number: int
    """The number of the entry for users: #12."""
    kind: str
    """`user`, `assistant`, `mode_change`, ..."""
    summary: str
    """Its content on one line, printable."""
    labels: tuple[str, ...]
    branches: tuple[str, ...]
    """The branches that end here."""
    is_active: bool
    """Whether the active branch contains it."""
    is_notable: bool
    """Whether it is drawn even where other rows are folded."""


class SessionSummary(NamedTuple):
    """A session as a list shows it."""

    id: str
    title: str
    entries: int
    branches: int
    changed_at: datetime | None
    folder: str | None
    is_in_this_folder: bool
    """Whether it was started in this folder."""
    snippet: str = ""
    """The text around the first match of a search."""


# -- events -----------------------------------------------------------------------------------


@final
class BranchChanged(Struct, frozen=True):
    """Another session, branch or head is active: show everything again."""


@final
class RunStarted(Struct, frozen=True):
    """The agent begins to work on a prompt; the session is recorded from here on."""


@final
class PendingCallsChanged(Struct, frozen=True):
    """The pending calls have changed."""


@final
class InputReturned(Struct, frozen=True):
    """Prompts that were withdrawn before a model read them.

    A prompt with an unresolved reference returns together with those after it, just before the end
    of its run; a retry sends all of them.
    """

    prompts: tuple[PromptInput, ...]


@final
class ErrorRaised(Struct, frozen=True):
    """Something went wrong; `text` is for the user, `code` for programs."""

    text: str
    code: str = "error"


@final
class ShellStarted(Struct, frozen=True):
    """A shell command of the user runs."""

    command: str


@final
class ShellOutput(Struct, frozen=True):
    """It has printed something."""

    text: str


@final
class ShellEnded(Struct, frozen=True):
    """It has ended, and its output is recorded."""

    status: int | None
    """None where it was stopped."""


SessionEvent: TypeAlias = (
    LoopEvent
    | BranchChanged
    | RunStarted
    | PendingCallsChanged
    | InputReturned
    | ErrorRaised
    | ShellStarted
    | ShellOutput
    | ShellEnded
)


SessionListener: TypeAlias = Callable[[SessionEvent], None]


# -- sentences --------------------------------------------------------------------------------


def describe_run_end(result: RunResult) -> tuple[ItemKind, str] | None:
    """Return why a run ended early or its answer is incomplete, with a hint; else None."""
    if result.end_reason is EndReason.FAILED:
        return ItemKind.ERROR, f"{result.error or result.reason}; {RETRY_HINT}"
    if result.end_reason is EndReason.INTERRUPTED:
        kept = "interrupted; what was said and done is kept"
        return ItemKind.NOTICE, f"{kept}, and {RETRY_HINT} or goes on"
    if not result.reason:
        return None
    message = result.message
    is_cut = message is not None and message.stop_reason is StopReason.LENGTH
    hint = " (max_tokens); say: go on. --max-tokens allows more" if is_cut else ""
    return ItemKind.NOTICE, f"{result.reason}{hint}"


def describe_activity(event: SessionEvent, model: Callable[[], str]) -> str | None:
    """Return the activity of a session after an event; None if the event does not change it."""
    match event:
        case TextDelta():
            return "answering"
        case ThinkingDelta():
            return "thinking"
        case ToolCallBegin(_, _, name):
            return f"calling {terminal_line(name or 'a tool')}"
        case TurnStarted():
            return f"waiting for {terminal_line(model())}"
        case CallStarted(call):
            return f"running {terminal_line(call.name)}"
        case ShellStarted(command):
            return f"running {terminal_line(command)}"
        case CallEnded() | RunEnded() | ShellEnded():  # another one may still be running
            return "working"
        case _:
            return None


def describe_run_usage(result: RunResult) -> str:
    """Return the tokens of a run, and their price if it is known."""
    tokens = format_count(result.usage.total_tokens, "token", "tokens")
    return tokens if result.cost is None else f"{tokens}, {format_dollars(result.cost)}"


def describe_bug(error: Exception) -> str:
    """Describe an exception that steno did not raise on purpose."""
    return f"a fault in steno: {type(error).__name__}: {error}; what is on record is safe"


@final
class ChangeSummarizer:
    """A listener for another listener: changes become notices, and ignored fields one line."""

    def __init__(self, listener: SessionListener, *, is_verbose: bool) -> None:
        """Take the listener; with `is_verbose` it gets a notice on each change."""
        self._listener = listener
        self._is_verbose = is_verbose
        self._ignored_fields = IgnoredFieldCounter()

    def __call__(self, event: SessionEvent) -> None:
        """Pass on an event, or a notice in its place."""
        change = event.change if isinstance(event, ContextChanged) else None
        if isinstance(event, EntryRecorded) and isinstance(event.entry.payload, ModelChange):
            self._ignored_fields = IgnoredFieldCounter()  # another server ignores other fields
        if not self._is_verbose:
            if change is not None and self._ignored_fields.count(change):
                return
            if summary := self._ignored_fields.summary():
                self._listener(Notice(NoticeKind.CONTEXT, summary, "fields_ignored"))
        if change is None:
            self._listener(event)
        elif text := format_change(change) if self._is_verbose else notice_text(change):
            self._listener(Notice(NoticeKind.CONTEXT, text, change.code))
