"""The events of a session, during its runs and between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, final

from msgspec import Struct

from steno.agent.events import LoopEvent
from steno.agent.steering import PromptInput


@final
class BranchChanged(Struct, frozen=True):
    """The active session, branch or head has changed; the whole transcript must be redrawn."""


@final
class RunStarted(Struct, frozen=True):
    """A run has begun; its session and its prompt are recorded."""


@final
class PendingCallsChanged(Struct, frozen=True):
    """The calls that await approval have changed."""


@final
class InputReturned(Struct, frozen=True):
    """Prompts were returned to the user before a model received them.

    A prompt with an unresolved reference is returned just before its run ends, together with the
    prompts queued after it; a retry sends all of them.
    """

    prompts: tuple[PromptInput, ...]


@final
class ErrorRaised(Struct, frozen=True):
    """An error to display; `text` is for the user, `code` for programs."""

    text: str
    code: str = "error"


@final
class RunFailed(Struct, frozen=True):
    """A run has ended with an error; the event replaces `RunEnded`.

    Every `RunStarted` is followed by a `RunEnded` or a `RunFailed`. If a prompt is interrupted
    while it waits for MCP servers, a `RunFailed` is sent without a `RunStarted`. If a prompt fails
    at once, `send` raises the error and there is no event.
    """

    text: str
    code: str = "error"


@final
class ShellStarted(Struct, frozen=True):
    """A shell command of the user has started."""

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
