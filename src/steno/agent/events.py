"""What happens while an agent works, for whoever watches: a terminal, a program, a test.

`LoopEvent` is what a model says while it speaks (`Event`), and what the harness does about it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias, final

from steno.agent.limits import RunResult
from steno.call import AnyToolCall
from steno.entry import Entry
from steno.event import Event
from steno.message import ToolResultMessage
from steno.ports import Question
from steno.value import Quiet


@final
class TurnStarted(Quiet, frozen=True):
    """A request is about to be sent; turns count from 1."""

    number: int


@final
class Recorded(Quiet, frozen=True):
    """An entry is in the log, for good."""

    entry: Entry


@final
class Asked(Quiet, frozen=True):
    """Somebody has to decide about a call."""

    question: Question


@final
class CallStarted(Quiet, frozen=True):
    """A tool begins to run."""

    call: AnyToolCall


@final
class CallOutput(Quiet, frozen=True):
    """A tool that still runs has said something."""

    call_id: str
    text: str


@final
class CallEnded(Quiet, frozen=True):
    """A call has its result, whether or not it was run."""

    call: AnyToolCall
    result: ToolResultMessage


class NoticeCode(StrEnum):
    """What kind of thing a notice is about."""

    CONTEXT = "context"
    """The model sees something else than what is on record."""
    RETRY = "retry"
    """A turn failed and is tried again."""
    LIMIT = "limit"
    """A limit was reached, or does not hold."""
    INPUT = "input"
    """Something that a message points at: what is done about it, or that it has changed."""
    PERMISSION = "permission"
    """A decision reaches less far than somebody may think."""


@final
class Notice(Quiet, frozen=True):
    """Something that a person would want to know."""

    code: NoticeCode
    text: str


@final
class RunEnded(Quiet, frozen=True):
    """The run is over; nothing comes behind this."""

    result: RunResult


LoopEvent: TypeAlias = (
    Event
    | TurnStarted
    | Recorded
    | Asked
    | CallStarted
    | CallOutput
    | CallEnded
    | Notice
    | RunEnded
)
