"""What happens while an agent works, for whoever watches: a terminal, a program, a test.

`LoopEvent` is what a model says while it speaks (`Event`), and what the harness does about it.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple, TypeAlias, final

from steno.errors import StenoError
from steno.messages.call import AnyToolCall
from steno.messages.change import Change
from steno.messages.event import Event
from steno.messages.message import AssistantMessage, ToolResultMessage
from steno.messages.usage import Usage
from steno.ports import ApprovalRequest
from steno.records.entry import Entry
from steno.values import RedactedRepr

# -- limits ----------------------------------------------------------------------------------------
#
# How far a run may go, and how one can end.


class EndReason(StrEnum):
    """Why a run ended."""

    DONE = "done"
    """The model had nothing more to do."""
    LIMIT = "limit"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    """The provider failed for good."""


class RunResult(NamedTuple):
    """What came of a run. The conversation is in order, however it ended."""

    ending: EndReason
    message: AssistantMessage | None
    """The last thing that the model said in this run."""
    turns: int
    usage: Usage
    cost: Decimal | None = None
    """None where the price of the model is not known."""
    reason: str = ""
    """Which limit it was, what went wrong, or why the last answer is not whole; else empty."""
    error: StenoError | None = None

    @property
    def text(self) -> str:
        """The last words of the model; empty if there were none."""
        return (self.message.text if self.message is not None else None) or ""


@final
class TurnStarted(RedactedRepr, frozen=True):
    """A request is about to be sent; turns count from 1."""

    number: int


@final
class EntryRecorded(RedactedRepr, frozen=True):
    """An entry is in the log, for good."""

    entry: Entry


@final
class ApprovalRequested(RedactedRepr, frozen=True):
    """Somebody has to decide about a call."""

    question: ApprovalRequest


@final
class CallStarted(RedactedRepr, frozen=True):
    """A tool begins to run."""

    call: AnyToolCall


@final
class CallOutput(RedactedRepr, frozen=True):
    """A tool that still runs has said something."""

    call_id: str
    text: str


@final
class CallEnded(RedactedRepr, frozen=True):
    """A call has its result, whether or not it was run."""

    call: AnyToolCall
    result: ToolResultMessage


class NoticeCode(StrEnum):
    """What kind of thing a notice is about."""

    CONTEXT = "context"
    """How the next request comes about, where no `Change` reports it."""
    RETRY = "retry"
    """A turn failed and is tried again."""
    LIMIT = "limit"
    """A limit was reached, or does not hold."""
    INPUT = "input"
    """Something that a message points at: what is done about it, or that it has changed."""
    PERMISSION = "permission"
    """A decision reaches less far than somebody may think."""


@final
class Notice(RedactedRepr, frozen=True):
    """Something that a person would want to know."""

    code: NoticeCode
    text: str
    reason: str = ""
    """Which notice of its kind it is, in snake_case, where a program has to know: stable."""


@final
class ContextChanged(RedactedRepr, frozen=True):
    """The model sees something otherwise than it is on record; `steno.render` has sentences."""

    change: Change


@final
class RunEnded(RedactedRepr, frozen=True):
    """The run is over; nothing comes behind this."""

    result: RunResult


LoopEvent: TypeAlias = (
    Event
    | TurnStarted
    | EntryRecorded
    | ApprovalRequested
    | CallStarted
    | CallOutput
    | CallEnded
    | Notice
    | ContextChanged
    | RunEnded
)
