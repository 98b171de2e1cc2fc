"""The desk that a person works at: the port between a terminal and everything behind it.

A terminal is told what happens (`SessionEvent`), reads what is on record (entries), and asks for
things. It knows no provider, no store and no tool; whoever puts everything together brings the desk.

Everything here is called in the event loop of the terminal. What is refused raises StenoError with
words for the person, and then nothing has happened.
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


# -- what there is to see ----------------------------------------------------------------------


class SessionStatus(NamedTuple):
    """Where things stand now; what a status line shows."""

    session: str | None
    """None where nothing is kept; empty before it is begun."""
    title: str
    folder: str
    branch: str
    model: str
    mode: Mode
    usage: Usage
    """Of the active branch."""
    cost: Decimal | None
    """In dollars; None where no price is known."""
    context_tokens: int | None
    """How much the model saw last; None where nobody knows."""
    context_limit: int | None
    """How much it can see."""


class PendingCall(NamedTuple):
    """A call that awaits a decision, or will."""

    call: ToolCall
    request: ApprovalRequest | None
    """None: it waits behind another call of its turn, and a rule may yet decide about it."""
    decision: ApprovalDecision | None = None
    """What the person has decided about it ahead of the question."""


class Suggestion(NamedTuple):
    """Something that may be meant by what was typed so far."""

    text: str
    """What to put in its place, from the sign on: `@src/main.py`, `@docs:readme://x`, `/mode`."""
    about: str = ""
    expects_more: bool = False
    """Whether more is to be typed behind it: a folder, a command with an argument."""


class CommandReply(NamedTuple):
    """What a command has brought, for the person to read."""

    text: str
    title: str = ""
    form: TextForm = TextForm.MARKDOWN


class PromptInput(NamedTuple):
    """What a person says."""

    text: str
    images: tuple[str | bytes, ...] = ()
    """Files and addresses by name, or what was pasted."""


class BranchTreeRow(NamedTuple):
    """One line of a drawn tree: an entry of the record and where it hangs.

    What goes on stands below; what leads elsewhere is drawn first, one step to the right.
    """

    rails: str
    """How far right it is, drawn: `| | `."""
    entry: Entry
    number: int
    """What people call the entry: #12."""
    kind: str
    """`user`, `assistant`, `mode_change`, ..."""
    gist: str
    """Its content on one line, printable."""
    labels: tuple[str, ...]
    branches: tuple[str, ...]
    """The branches that end here."""
    is_active: bool
    """Whether the active branch leads through it."""
    is_notable: bool
    """Whether it is drawn even where the rest is folded."""


class SessionSummary(NamedTuple):
    """A session as a list shows it."""

    id: str
    title: str
    entries: int
    branches: int
    changed_at: datetime | None
    folder: str | None
    is_in_this_folder: bool
    """Whether it was begun in this folder."""
    snippet: str = ""
    """Where the words were found that were searched for."""


# -- what happens ------------------------------------------------------------------------------


@final
class BranchChanged(Struct, frozen=True):
    """The session, the branch or its end is another now: show everything anew."""


@final
class PendingCallsChanged(Struct, frozen=True):
    """Which calls await a decision has changed."""


@final
class InputReturned(Struct, frozen=True):
    """What was said and not heard, taken back: nobody will hear it, unless it is said again.

    A prompt that could not be opened comes back with what was said behind it, just before the end
    of its run; to try again says both.
    """

    prompts: tuple[PromptInput, ...]


@final
class ErrorRaised(Struct, frozen=True):
    """Something went wrong; `text` is for the user, `code` for programs."""

    text: str
    code: str = "error"


@final
class ShellStarted(Struct, frozen=True):
    """A command of the person runs."""

    command: str


@final
class ShellOutput(Struct, frozen=True):
    """It has said something."""

    text: str


@final
class ShellEnded(Struct, frozen=True):
    """It is over, and what came of it is on record."""

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


# -- what can be asked for ---------------------------------------------------------------------


class BranchTree(Protocol):
    """The tree of a session. Nothing of it may be changed while the agent is at work."""

    def names(self) -> Sequence[str]:
        """Return the branches, the active one first."""
        ...

    async def rows(self) -> Sequence[BranchTreeRow]:
        """Return the whole tree from top to bottom; all of the session is read for it."""
        ...

    def fork(self, name: str = "", *, at: str | None = None) -> str:
        """Begin a branch behind an entry, or behind the last one, and go over; return its name."""
        ...

    def fork_before(self, entry: str, name: str = "") -> PromptInput:
        """Go on in a new branch just before a message of the person; return what it said.

        What is said next takes its place there.
        """
        ...

    def switch(self, name: str) -> None:
        """Go over to another branch."""
        ...

    def label(self, entry: str, text: str) -> None:
        """Give an entry a name."""
        ...


class SessionList(Protocol):
    """All sessions that are kept."""

    async def summaries(self, search: str = "") -> Sequence[SessionSummary]:
        """Return them, the latest first; those that hold all the words, where there are any."""
        ...

    async def new(self, title: str = "") -> None:
        """Begin another session, and go over to it."""
        ...

    async def resume(self, session: str) -> None:
        """Go on with a session: by its id, the beginning of it, or `last`."""
        ...

    async def rename(self, session: str, title: str) -> None:
        """Give a session another title."""
        ...

    async def delete(self, session: str) -> None:
        """Remove a session for good; not the one at hand."""
        ...


class AgentSession(Protocol):
    """One session at a time, an agent at work on it, and everything that may be asked of both."""

    @property
    def actor(self) -> str:
        """Who works here, for the record of what is decided."""
        ...

    @property
    def status(self) -> SessionStatus:
        """Where things stand; asking costs nothing, however long the session."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether the agent is at work, or a command of the person is."""
        ...

    @property
    def is_unfinished(self) -> bool:
        """Whether the record ends in the middle: calls without results, words without an answer."""
        ...

    @property
    def pending_calls(self) -> Sequence[PendingCall]:
        """The calls that await a decision, those that were asked about first."""
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
        """Tell somebody what happens from now on; one at a time."""
        ...

    def entries(self, branch: str | None = None) -> Sequence[Entry]:
        """Return what is on record, of the active branch or another; asking costs nothing."""
        ...

    def find_image(self, entry: str, block: int) -> ImageReader | None:
        """Return what reads an image of an entry, in any thread; None where it is not at hand."""
        ...

    async def send(self, prompt: PromptInput) -> None:
        """Say something: it begins a run, or steers the one that is under way.

        Returns as soon as it is taken; what comes of it is told to the watcher.
        """
        ...

    async def run_shell(self, command: str) -> None:
        """Run a command of the person; what it prints goes on record as said by them."""
        ...

    def interrupt(self) -> None:
        """Stop what is being said and done. Nothing happens if nothing is.

        What was said and not heard yet, or waits for servers, comes back as `InputReturned`; what is
        still being read, or waits for its turn, is refused. What a command of the person has
        printed goes on record all the same.
        """
        ...

    def decide(self, call_id: str, decision: ApprovalDecision) -> None:
        """Decide about a pending call, or about one that waits behind it."""
        ...

    async def preview(self, call: ToolCall) -> str:
        """Return what a call would do as things are now, for a person to read."""
        ...

    def change_mode(self, mode: Mode) -> None:
        """Let the agent only plan, or act; it counts from the next decision on."""
        ...

    async def change_model(self, name: str) -> CommandReply:
        """Let another model answer from here on; return what it will see otherwise."""
        ...

    async def list_models(self) -> Sequence[Suggestion]:
        """Return the models that there are to choose from."""
        ...

    async def run_command(self, name: str, argument: str = "") -> CommandReply:
        """Do what a command of `commands` asks for, and return what there is to read."""
        ...

    async def complete(self, typed: str) -> Sequence[Suggestion]:
        """Return what may be meant by `@...` (files, folders, resources) or `/...` (prompts)."""
        ...

    async def close(self) -> None:
        """Stop what runs, and let go of everything."""
        ...
