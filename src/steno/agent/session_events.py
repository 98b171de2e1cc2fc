"""The events of a session: those of its runs, and those between runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, final

from msgspec import Struct

from steno.agent.events import LoopEvent
from steno.agent.steering import PromptInput


@final
class BranchChanged(Struct, frozen=True):
    """Another session, branch or head is active: draw everything again."""


@final
class RunStarted(Struct, frozen=True):
    """A run has begun: the session and the prompt are recorded."""


@final
class PendingCallsChanged(Struct, frozen=True):
    """The calls that await approval have changed."""


@final
class InputReturned(Struct, frozen=True):
    """Prompts that were withdrawn before a model read them.

    A prompt with an unresolved reference returns together with those after it, just before the end
    of its run; a retry sends all of them.
    """

    prompts: tuple[PromptInput, ...]


@final
class ErrorRaised(Struct, frozen=True):
    """An error to show; `text` is for the user, `code` for programs."""

    text: str
    code: str = "error"


@final
class RunFailed(Struct, frozen=True):
    """A run has ended with an error, in place of a `RunEnded`; see `ErrorRaised`.

    `RunStarted` is followed by this or by a `RunEnded`. A prompt that is interrupted while it waits
    for MCP servers fails without a `RunStarted`; one that fails at once raises from `send` instead.
    """

    text: str
    code: str = "error"


@final
class ShellStarted(Struct, frozen=True):
    """A shell command of the user runs."""

    command: str


@final
class ShellOutput(Struct, frozen=True):
    """The running shell command has printed output."""

    text: str


@final
class ShellEnded(Struct, frozen=True):
    """The shell command has ended, and its output is recorded."""

    status: int | None
    """The exit status; None if the command was stopped."""


SessionEvent: TypeAlias = (
    LoopEvent
    | BranchChanged
    | RunStarted
    | PendingCallsChanged
    | InputReturned
    | ErrorRaised
    | RunFailed
    | ShellStarted
    | ShellOutput
    | ShellEnded
)


SessionListener: TypeAlias = Callable[[SessionEvent], None]
