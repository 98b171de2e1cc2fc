"""The events of a session, and the values that an interface reads and sends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple, TypeAlias, final

from msgspec import Struct

from steno.agent import LoopEvent, PromptInput
from steno.messages.call import ToolCall
from steno.messages.usage import Usage
from steno.ports import ApprovalDecision, ApprovalRequest
from steno.records.entry import Entry, Mode

ImageReader: TypeAlias = Callable[[], bytes | None]
"""Returns the bytes of an image; None if they cannot be read. That may take a while."""


# -- values -----------------------------------------------------------------------------------


class SessionStatus(NamedTuple):
    """The values of a status line."""

    session: str | None
    """None if the session is not stored; empty before it is recorded."""
    title: str
    folder: str
    branch: str
    model: str
    mode: Mode
    usage: Usage
    """Of the active branch."""
    cost: Decimal | None
    """In dollars; None if no price is known."""
    context_tokens: int | None
    """Tokens of the last request; None if unknown."""
    context_limit: int | None
    """The context window of the model."""


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
