"""What the parts that touch the world look like from inside: protocols, and nothing that acts.

A `Provider` answers requests with a `Stream` of events, and a `Transport` carries bytes for it; a
`Tool` does what a model asks for, once an `Approver` agreed; a `Resolver` opens what a person
points at; a `Journal` keeps what was said. Who
writes one of these needs to know nothing else of steno, and who uses one nothing about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self, TypeAlias, final
from urllib.parse import urlsplit

from steno.errors import ToolFailed
from steno.messages.call import ToolCall
from steno.messages.content import FileReference, Image, Opaque, Resource, Text
from steno.messages.event import Event
from steno.messages.message import AssistantMessage, ResultBlock
from steno.messages.outcome import Outcome
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.records.entry import Entry, Payload, PayloadT, Resolution
from steno.values import RedactedRepr

# -- carrier ---------------------------------------------------------------------------------------
#
# What carries bytes for a provider: one request out, its answer back.


class HttpRequest(NamedTuple):
    """One HTTP request. Its `repr` leaves out what is secret or long."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def address(self) -> str:
        """Where it goes, for messages: the URL without user, password, query and fragment."""
        return strip_url_secrets(self.url) or "http"

    def __repr__(self) -> str:
        return f"Outgoing({self.method} {self.address}, <{len(self.body)} bytes>)"


def strip_url_secrets(url: str) -> str | None:
    """Return a URL without user, password, query and fragment; None if it has no host."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return None
    return f"{parts.scheme}://{host}{parts.path}" if host and url.isprintable() else None


class HttpResponse(Protocol):
    """An HTTP response whose head has arrived."""

    @property
    def status(self) -> int:
        """The status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, names in lower case."""
        ...

    async def read(self) -> bytes:
        """Return the next bytes of the body as they arrived; none at its end.

        Raises Unreachable if the connection breaks or stays silent too long, ProtocolError if
        the body is larger than allowed.
        """
        ...

    def close(self) -> None:
        """Drop what is left of the body. A read that waits ends at once, with or without an error.

        A connection whose body was read to its end is kept for the next request.
        """
        ...


class Transport(Protocol):
    """Carries requests to servers and their answers back; never follows a redirect."""

    async def open(self, outgoing: HttpRequest) -> HttpResponse:
        """Send a request and wait for the head of its answer.

        Raises Unreachable if there is none. When cancelled it leaves no connection behind.
        """
        ...

    async def close(self) -> None:
        """Let go of all connections."""
        ...


# -- captions --------------------------------------------------------------------------------------
#
# What is on record, in a line for people: what things are called, what was decided and changed.
#
# A thing is called the same wherever it is read: on a terminal, on a page, in a list. Everything
# here is printable, and no address shows a password. How it looks is none of our business.


_URL_USER: Final = re.compile(r"(?<=://)[^/?#\s]*@")


def strip_url_user(uri: str) -> str:
    """Return an address without who reads it, which may come with a password."""
    return _URL_USER.sub("", uri)


# -- tool ------------------------------------------------------------------------------------------
#
# What does the work that a model asks for. How a tool is described is `ToolDefinition`.


PrepareImage: TypeAlias = Callable[[bytes], Image]
"""Makes an image one that a model takes, small and without metadata.

Raises ToolFailed for what is no image, ImportError where the parts for it are not installed.
"""


UNKNOWN_SUBJECT_PREFIX: Final = "\n"
"""How a subject begins that may turn out to be anything: no pattern but `*` alone covers it."""


class Capability(StrEnum):
    """What a tool may do to the world; each is more than the one before, in most eyes."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"


@final
class ToolOutput(RedactedRepr, frozen=True, kw_only=True):
    """What came of a call: blocks for the model, details for people and programs.

    An outcome other than ok is a failure that the tool itself reports, such as a test that
    fails or a file that is not there.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"outcome"})

    content: tuple[ResultBlock, ...]
    outcome: Outcome = Outcome.OK
    details: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls, text: str, *, outcome: Outcome = Outcome.OK, details: Mapping[str, Any] | None = None
    ) -> ToolOutput:
        """Return an output of one text."""
        return cls(content=(Text(text),), outcome=outcome, details=details)


class ToolContext(Protocol):
    """What a tool has around it while it runs."""

    @property
    def subjects(self) -> tuple[str, ...] | None:
        """What `Tool.subjects` returned when the call was decided about; None where nobody looked.

        A tool that opens what they name opens just that: to look up a path of the arguments once
        more could lead elsewhere by now.
        """
        ...

    def is_denied(self, subject: str) -> bool:
        """Tell whether a rule forbids the tool something that it came across, such as a file.

        May be called from any thread.
        """
        ...

    def report_output(self, text: str) -> None:
        """Show people something of the output while the tool still runs.

        The model sees of it only what was said in a call that is stopped.
        """
        ...

    def put_blob(self, data: bytes) -> str:
        """Keep bytes beside the record, such as the whole of a long output; return their SHA-256.

        Name it in the details of the output: what no record names is removed some day.
        """
        ...

    def read_blob(self, sha256: str) -> bytes:
        """Return bytes that were kept. Raises Missing, Damaged."""
        ...


class Tool(Protocol):
    """Something that a model can ask for.

    What a model should know is a `ToolOutput`, or `ToolFailed` where nothing came of it. Any
    other exception is a fault of the tool. A tool that is cancelled ends what it began.
    """

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told about it."""
        ...

    @property
    def capability(self) -> Capability:
        """The most that it does."""
        ...

    @property
    def ruled_as(self) -> tuple[str, ...]:
        """Names of other tools whose deny rules count for this one too; most have none."""
        ...

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return what a call is about, for rules: paths, commands, addresses.

        Rules allow a call if together they cover all of them, and deny it if one covers any. They
        are in one spelling: paths relative to the workspace with links resolved, commands one by
        one. What may turn out to be anything begins with `UNKNOWN_SUBJECT_PREFIX`. None at all
        means that only the name of the tool can be ruled about. Raises ToolFailed for arguments
        that make no sense.
        """
        ...

    async def preview(self, call: ToolCall) -> str:
        """Return what a person should see who decides about the call: a diff, a command.

        Changes nothing. Raises ToolFailed if the call cannot succeed as things are.
        """
        ...

    async def run(self, call: ToolCall, stage: ToolContext) -> ToolOutput:
        """Do it. The arguments fit the definition. Raises ToolFailed."""
        ...


# -- approver --------------------------------------------------------------------------------------
#
# Who decides about a call that no rule decides about, and where wider decisions are kept.


class GrantScope(StrEnum):
    """How far a decision reaches."""

    ONCE = "once"
    SESSION = "session"
    PROJECT = "project"
    USER = "user"


@final
class ApprovalRequest(RedactedRepr, frozen=True, kw_only=True):
    """A call that somebody has to decide about, with what there is to know about it."""

    shown: ClassVar[frozenset[str]] = frozenset({"capability"})

    call: ToolCall
    capability: Capability
    subjects: tuple[str, ...] = ()
    preview: str = ""
    """What the call would do, for people to read; may hold anything that a model wrote."""
    rule: str = ""
    """A rule that would cover this call and its like: `bash(git log *)`. Empty if none should."""


@final
class ApprovalDecision(RedactedRepr, frozen=True, kw_only=True):
    """What was decided, and by whom."""

    shown: ClassVar[frozenset[str]] = frozenset({"allowed", "actor", "scope", "rule"})

    allowed: bool
    actor: str
    """The person or program that decided; for the record."""
    scope: GrantScope = GrantScope.ONCE
    rule: str | None = None
    """What is allowed from now on, where the scope is wider than once; that of the question if None."""
    reason: str | None = None


class Approver(Protocol):
    """Decides about calls, by asking a person or otherwise."""

    async def ask(self, question: ApprovalRequest) -> ApprovalDecision:
        """Return a verdict. While it waits, the question is on record as pending."""
        ...


class GrantStore(Protocol):
    """Rules that a person has allowed beyond one session."""

    def rules(self) -> tuple[str, ...]:
        """Return what is allowed for this project and this user."""
        ...

    def add(self, rule: str, scope: GrantScope) -> None:
        """Allow a rule for the project or for the user from now on. Raises Unavailable."""
        ...


# -- kept ------------------------------------------------------------------------------------------
#
# Where things are kept: the entries of a conversation, and the bytes that lie beside them.


class Journal(Protocol):
    """The place where one conversation is kept. A `Conversation` writes to it and reads from it."""

    def extract_blobs(self, payload: Payload) -> Payload:
        """Return the payload as it is to be recorded: what is large lies elsewhere by then."""
        ...

    def restore_blobs(self, payload: PayloadT) -> PayloadT:
        """Return a payload with what was put aside in it again. Raises Missing, Damaged."""
        ...

    def append(self, entry: Entry, *, branch: str, digest: str, expected: str | None) -> None:
        """Put an entry at the end of a branch; it is there for good when this returns.

        `expected` is the last entry of the branch as the writer knows it. Raises Conflict if it
        is another, Unavailable if nothing can be written; then nothing was.
        """
        ...

    def begin_branch(self, name: str, at: str | None) -> None:
        """Let a branch begin behind an entry. Raises Conflict if there is one of that name."""
        ...

    def heads(self) -> Mapping[str, str | None]:
        """Return the last entry of every branch, the branch whose entry came last at the end."""
        ...

    def read_back(self, entry_id: str) -> Iterator[tuple[Entry, str]]:
        """Return an entry and its digest, then its parent and so on, up to the first.

        Raises Missing if there is no such entry, Damaged if what is stored cannot be read.
        """
        ...


class BlobStore(Protocol):
    """Bytes under their SHA-256, beside the records that name them. Every store is one."""

    def put_blob(self, data: bytes) -> str:
        """Keep bytes and return their SHA-256; they are durable when this returns."""
        ...

    def blob(self, sha256: str) -> bytes:
        """Return the bytes. Raises Missing, and Damaged if they are not those of the name."""
        ...


# -- model -----------------------------------------------------------------------------------------
#
# What answers requests: a provider, and the stream of one answer.


class Stream(Protocol):
    """One answer of a model, pulled event by event.

        async with provider.stream(request) as stream:
            async for event in stream:
                ...
        message = stream.message()

    Nothing is sent before the first event is asked for. Events are told in full, as `Assembler`
    returns them. Faults of the provider, the protocol and the connection are raised where the
    next event was expected; whoever catches one still has what came before it. After the end,
    an error or `close`, iterating again ends at once.

    Two more attributes are looked at where a stream has them: `losses`, what the model does not
    see as it is in the request, each with a `str`; and `envelope`, a mapping in which `id` and
    `model` are what the provider calls its answer and its model.
    """

    def __aiter__(self) -> Self:
        """Return the stream itself: it is read once."""
        ...

    async def __anext__(self) -> Event:
        """Return the next event. Raises ProviderError, ProtocolError, and StopAsyncIteration."""
        ...

    async def __aenter__(self) -> Self:
        """Begin to use the stream; nothing is sent yet."""
        ...

    async def __aexit__(self, *exc: object) -> None:
        """Close the stream, however its use ended."""
        ...

    async def collect(self) -> AssistantMessage:
        """Read to the end and return the message; the events are not needed then."""
        ...

    def message(self) -> AssistantMessage:
        """Return what was said so far: all of it after the end, else as much as was read.

        Its stop reason is `error` after a fault and `aborted` after a cancelled read or `close`.
        Raises StenoError if nothing was read yet.
        """
        ...

    def close(self) -> None:
        """Drop the connection. A read that waits in another task ends at once."""
        ...


class Provider(Protocol):
    """Whatever answers requests: a vendor, a server of one's own, a script in a test."""

    def stream(self, request: Request) -> Stream:
        """Return the answer to a request, to be read.

        Raises InvalidRequest for what cannot be put into this provider's words.
        """
        ...


# -- resolver --------------------------------------------------------------------------------------
#
# Who finds out what a user message points at: files, images, resources of servers.


ReferenceBlock: TypeAlias = FileReference | Image | Resource
"""A block that points at something, or holds what has to be made fit for a model."""


class InputAuthorizer(Protocol):
    """Whoever lets something be opened that a person points at."""

    async def __call__(
        self, tool: str, capability: Capability, subject: str, *, preview: str = ""
    ) -> str:
        """Return what allows it, for the record: a rule, or who was asked.

        The rules are those of a tool (`read`, `fetch`, ...), and the subject is spelled as they
        spell it. Raises ToolFailed, which says why not, and not of what.
        """
        ...


class ResolveContext(NamedTuple):
    """For whom something is looked up, and what there is around it meanwhile."""

    authorize: InputAuthorizer
    vision: bool | None = None
    """Whether the model takes images; None: nobody knows."""
    image_refusal: str = ""
    """Why it took none that were sent to it, if that has happened."""
    report_progress: Callable[[str], object] = lambda _: None
    """Tells people what is being done, where that takes a while."""

    async def require_permission(
        self, tool: str, capability: Capability, subject: str, *, name: str, preview: str = ""
    ) -> str:
        """Return the rule or the person that allows it. Raises ToolFailed with `name` as its place.

        The name stands in errors, so it must hold no secret; the subject may.
        """
        try:
            return await self.authorize(tool, capability, subject, preview=preview)
        except ToolFailed as exc:
            raise ToolFailed(str(exc), code=exc.code, place=name) from exc


@final
class ResolvedReference(RedactedRepr, frozen=True, kw_only=True):
    """What came of it: what the model sees in place of the pointer, or why there is nothing."""

    shown: ClassVar[frozenset[str]] = frozenset({"error", "note"})

    content: tuple[Text | Image | Resource | Opaque, ...] = ()
    error: str | None = None
    """Why nothing came of it, and what can be done; there is content or an error."""
    error_code: str | None = None
    """The stable code of the error; not recorded."""
    details: Mapping[str, Any] | None = None
    """How it came about: hash, size, mode, engine, confidence. For the record, never sent."""
    note: str = ""
    """What a person should know who would expect something else."""


class Resolver(Protocol):
    """Opens what messages point at, with the rights of whoever works here."""

    async def resolve(self, pointer: ReferenceBlock, viewer: ResolveContext) -> ResolvedReference:
        """Find out what is behind a pointer. What cannot be opened is a finding with an error."""
        ...

    def is_current(
        self, pointer: ReferenceBlock, resolution: Resolution, viewer: ResolveContext
    ) -> bool:
        """Tell whether what was found once still serves: it is not too old, the model can see it."""
        ...

    async def changes(
        self,
        pointer: ReferenceBlock,
        resolution: Resolution,
        *,
        known: frozenset[str] = frozenset(),
    ) -> tuple[str, ...]:
        """Return what has changed of it since, a line each: `notes.md has changed`.

        Left out are files that the model knows by now, by their names in the workspace.
        """
        ...


__all__ = [
    "UNKNOWN_SUBJECT_PREFIX",
    "ApprovalDecision",
    "ApprovalRequest",
    "Approver",
    "BlobStore",
    "Capability",
    "GrantScope",
    "GrantStore",
    "HttpRequest",
    "HttpResponse",
    "InputAuthorizer",
    "Journal",
    "PrepareImage",
    "Provider",
    "ReferenceBlock",
    "ResolveContext",
    "ResolvedReference",
    "Resolver",
    "Stream",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "Transport",
    "strip_url_secrets",
]
