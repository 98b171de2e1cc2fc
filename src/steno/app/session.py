"""The session of an interface: status, events and requests.

An interface subscribes to events (`SessionEvent`), reads entries, and sends requests. It knows no
provider, store or tool; `app` creates the session.

Everything is called in the event loop of the interface. A refused request raises StenoError with a
message for the user, and has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple, Protocol, TypeAlias, final

from msgspec import Struct

from steno.agent.events import LoopEvent
from steno.messages.call import ToolCall
from steno.messages.usage import Usage
from steno.ports import ApprovalDecision, ApprovalRequest
from steno.records.entry import Entry, Mode
from steno.render.items import TextForm

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


class Suggestion(NamedTuple):
    """A completion of the typed text."""

    text: str
    """The replacement, including the sign: `@src/main.py`, `@docs:readme://x`, `/mode`."""
    description: str = ""
    expects_more: bool = False
    """Whether more follows: a folder, a command with an argument."""


class CommandReply(NamedTuple):
    """The output of a command."""

    text: str
    title: str = ""
    form: TextForm = TextForm.MARKDOWN


class PromptInput(NamedTuple):
    """A prompt of the user."""

    text: str
    images: tuple[str | bytes, ...] = ()
    """Names of files and addresses, or pasted bytes."""


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
    | PendingCallsChanged
    | InputReturned
    | ErrorRaised
    | ShellStarted
    | ShellOutput
    | ShellEnded
)


SessionListener: TypeAlias = Callable[[SessionEvent], None]


# -- requests ---------------------------------------------------------------------------------


class BranchTree(Protocol):
    """The branch tree of a session. It cannot be changed while the agent runs."""

    def names(self) -> Sequence[str]:
        """Return the branches, the active one first."""
        ...

    async def rows(self) -> Sequence[BranchTreeRow]:
        """Return the whole tree from top to bottom; all of the session is read for it."""
        ...

    def fork(self, name: str = "", *, at: str | None = None) -> str:
        """Start a branch after an entry or after the last one, and switch to it; return its name."""
        ...

    def fork_before(self, entry: str, name: str = "") -> PromptInput:
        """Switch to a new branch just before a user message; return its prompt.

        The next prompt takes its place there.
        """
        ...

    def switch(self, name: str) -> None:
        """Switch to another branch."""
        ...

    def label(self, entry: str, text: str) -> None:
        """Label an entry."""
        ...


class SessionList(Protocol):
    """All stored sessions."""

    async def summaries(self, search: str = "") -> Sequence[SessionSummary]:
        """Return the sessions, the latest first; a search keeps those with all its words."""
        ...

    async def new(self, title: str = "") -> None:
        """Start another session, and switch to it."""
        ...

    async def resume(self, session: str) -> None:
        """Resume a session: by its id, the beginning of it, or `last`."""
        ...

    async def rename(self, session: str, title: str) -> None:
        """Rename a session."""
        ...

    async def delete(self, session: str) -> None:
        """Delete a session; not the open one."""
        ...


class AgentSession(Protocol):
    """One open session, the agent that works on it, and the requests of an interface."""

    @property
    def actor(self) -> str:
        """The name of the user, for recorded decisions."""
        ...

    @property
    def status(self) -> SessionStatus:
        """The status; reading it costs nothing, however long the session."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether the agent or a shell command runs."""
        ...

    @property
    def is_unfinished(self) -> bool:
        """Whether the log ends inside a turn: a call or a prompt without an answer."""
        ...

    @property
    def pending_calls(self) -> Sequence[PendingCall]:
        """The calls that await a decision, requested ones first."""
        ...

    @property
    def branches(self) -> BranchTree:
        """The tree of this session."""
        ...

    @property
    def session_list(self) -> SessionList:
        """All sessions."""
        ...

    def subscribe(self, listener: SessionListener) -> None:
        """Set the listener of all further events; there is one at a time."""
        ...

    def entries(self, branch: str | None = None) -> Sequence[Entry]:
        """Return the entries of the active branch, or of another; reading them costs nothing."""
        ...

    def find_image(self, entry: str, block: int) -> ImageReader | None:
        """Return a reader for an image of an entry, for any thread; None if it is not available."""
        ...

    async def send(self, prompt: PromptInput) -> None:
        """Send a prompt: it starts a run, or steers the current one.

        Returns once the prompt is accepted; the listener receives the results.
        """
        ...

    async def run_shell(self, command: str) -> None:
        """Run a shell command of the user; its output is recorded as a user message."""
        ...

    def interrupt(self) -> None:
        """Interrupt the run and the shell command. Nothing happens if nothing runs.

        Prompts that no model has read, or that wait for servers, return as `InputReturned`; those
        that are still being prepared, or wait for their turn, are refused. The output of a shell
        command is recorded all the same.
        """
        ...

    def decide(self, call_id: str, decision: ApprovalDecision) -> None:
        """Decide about a pending call, or about one that waits for it."""
        ...

    async def preview(self, call: ToolCall) -> str:
        """Return the effect that a call would have now, as text for the user."""
        ...

    def change_mode(self, mode: Mode) -> None:
        """Switch between plan and act; it counts from the next decision on."""
        ...

    async def change_model(self, name: str) -> CommandReply:
        """Switch to another model; return the changes in what it sees."""
        ...

    async def list_models(self) -> Sequence[Suggestion]:
        """Return the models that there are to choose from."""
        ...

    async def run_command(self, name: str, argument: str = "") -> CommandReply:
        """Run a slash command, and return its output."""
        ...

    async def complete(self, typed: str) -> Sequence[Suggestion]:
        """Return completions of `@...` (files, folders, resources) or `/...` (prompts)."""
        ...

    async def close(self) -> None:
        """Interrupt whatever runs, and release all resources."""
        ...
