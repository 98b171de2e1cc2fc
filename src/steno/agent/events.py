"""The events of a run, for a terminal, a program or a test.

A `LoopEvent` is an event of the model's stream (`Event`) or reports an action of the agent.
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


class EndReason(StrEnum):
    """The reason why a run ended."""

    DONE = "done"
    """The model finished its work."""
    LIMIT = "limit"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    """The request could not be sent, or the provider failed and retries did not help."""


class RunResult(NamedTuple):
    """The result of a run. However the run ended, the conversation can be continued."""

    end_reason: EndReason
    message: AssistantMessage | None
    """The last response of the run; None if the model did not respond."""
    turns: int
    usage: Usage
    cost: Decimal | None = None
    """The cost of the run; None if the price of the model is unknown."""
    reason: str = ""
    """The limit, the error, or the reason why the last response is incomplete; else empty."""
    error: StenoError | None = None

    @property
    def text(self) -> str:
        """The text of the last response; empty if there is none."""
        return (self.message.text if self.message is not None else None) or ""


@final
class TurnStarted(RedactedRepr, frozen=True):
    """The request of a turn is about to be sent; `number` counts turns from 1."""

    number: int


@final
class EntryRecorded(RedactedRepr, frozen=True):
    """An entry was written to the log."""

    entry: Entry


@final
class ApprovalRequested(RedactedRepr, frozen=True):
    """A call needs approval."""

    request: ApprovalRequest


@final
class CallStarted(RedactedRepr, frozen=True):
    """A tool begins to run."""

    call: AnyToolCall


@final
class CallOutput(RedactedRepr, frozen=True):
    """A running tool has produced output."""

    call_id: str
    text: str


@final
class CallEnded(RedactedRepr, frozen=True):
    """A call has its result, whether or not it was run."""

    call: AnyToolCall
    result: ToolResultMessage


class NoticeKind(StrEnum):
    """The subject of a notice."""

    CONTEXT = "context"
    """Information about the next request that no `Change` describes."""
    RETRY = "retry"
    """A turn failed and is repeated."""
    LIMIT = "limit"
    """A limit was reached, or cannot be enforced."""
    INPUT = "input"
    """The resolution of a reference in a message, or a change of its target."""
    PERMISSION = "permission"
    """A decision has less effect than the user may expect."""


@final
class Notice(RedactedRepr, frozen=True):
    """Information for the user about the run; the model does not see it."""

    kind: NoticeKind
    text: str
    code: str
    """The stable code of the notice, in snake_case."""


@final
class ContextChanged(RedactedRepr, frozen=True):
    """A request differs from the log; `steno.render` describes the change as text."""

    change: Change


@final
class RunEnded(RedactedRepr, frozen=True):
    """The run is over; this is the last event."""

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
