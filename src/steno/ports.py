"""Protocols of the parts that do I/O; this module itself does none.

A `Provider` answers requests with a `Stream` of events, and a `Transport` carries its bytes. A
`Tool` runs the calls of a model, after an `Approver` has allowed them. A `Resolver` opens the
references of a user message. A `Journal` stores the entries of a conversation. An implementation of
one protocol needs no other part of steno, and a caller does not depend on the implementation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self, TypeAlias, final
from urllib.parse import urlsplit

from msgspec.structs import force_setattr

from steno.errors import InvalidArguments, ToolFailed
from steno.messages.call import NO_ARGUMENTS, AnyToolCall, ToolCall
from steno.messages.content import Image, Opaque, ReferenceBlock, Resource, Text
from steno.messages.event import Event
from steno.messages.message import AssistantMessage, ResultBlock
from steno.messages.outcome import Outcome
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.records.entry import Entry, Payload, PayloadT, Resolution
from steno.values import RedactedRepr, replace_lone_surrogates

# -- providers -------------------------------------------------------------------------------


class Stream(Protocol):
    """One response of a model, pulled event by event.

        async with provider.stream(request) as stream:
            async for event in stream:
                ...
        message = stream.message()

    Nothing is sent before the first event is pulled. Events are normalized, as `Assembler`
    returns them. Errors of the provider, the protocol and the connection are raised in place of
    the next event; `message` still returns the part before them. After the end, an error or
    `close`, the iteration ends at once.

    A stream may have two more attributes: `losses`, a `Change` for each part of the request that
    the model does not see as it is; and `envelope`, a mapping with the `id` of the response and the
    name of the `model` as the provider sent them.
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
        """Read to the end and return the message, for callers that do not need the events."""
        ...

    def message(self) -> AssistantMessage:
        """Return the message so far: all of it after the end, else the part that was read.

        Its stop reason is `error` after an error and `aborted` after a cancelled read or `close`.
        Raises StenoError if nothing was read yet.
        """
        ...

    def close(self) -> None:
        """Drop the connection. A read that waits in another task ends at once."""
        ...


class Provider(Protocol):
    """A source of responses: a vendor, a local server, a script in a test."""

    def stream(self, request: Request) -> Stream:
        """Return the response to a request, to be read.

        Raises InvalidRequest for a request that this provider's wire cannot express.
        """
        ...


# -- transport -------------------------------------------------------------------------------


class HttpRequest(NamedTuple):
    """One HTTP request. Its `repr` leaves out secret and long parts."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def address(self) -> str:
        """The URL for messages: without user, password, query and fragment."""
        return strip_url_secrets(self.url) or "http"

    def __repr__(self) -> str:
        size = "1 byte" if len(self.body) == 1 else f"{len(self.body)} bytes"
        return f"HttpRequest({self.method} {self.address}, <{size}>)"


def strip_url_secrets(url: str) -> str | None:
    """Return a URL without user, password, query and fragment; None if it has no host."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return None
    return f"{parts.scheme}://{host}{parts.path}" if host and url.isprintable() else None


def strip_url_user(uri: str) -> str:
    """Return a URI without its user and password; query and fragment stay."""
    return _URL_USER.sub("", uri)


_URL_USER: Final = re.compile(r"(?<=://)[^/?#\s]*@")


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
        """Return the next bytes of the body as they arrived; empty at its end.

        Raises Unreachable if the connection breaks or sends nothing for too long, ProtocolError if
        the body is larger than allowed.
        """
        ...

    def close(self) -> None:
        """Drop the rest of the body. A read that waits ends at once, with or without an error.

        A connection whose body was read to its end is kept for the next request.
        """
        ...


class Transport(Protocol):
    """Sends requests to servers and returns their responses; never follows a redirect."""

    async def open(self, request: HttpRequest, /) -> HttpResponse:
        """Send a request and wait for the head of its response.

        Raises Unreachable if no response arrives. When cancelled it leaves no open connection.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


# -- tools -----------------------------------------------------------------------------------


PrepareImage: TypeAlias = Callable[[bytes], Image]
"""Makes an image block that models accept from bytes: small and without metadata.

Raises ToolFailed for bytes that are not an image, ImportError if the extra is not installed.
"""

UNKNOWN_SUBJECT_PREFIX: Final = "\n"
"""The prefix of a subject that is not known in advance: only the pattern `*` covers it."""


class Capability(StrEnum):
    """The most that a tool may do. For most users, each one is riskier than the one before."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"


@final
class ToolOutput(RedactedRepr, frozen=True, kw_only=True):
    """The result of a call: blocks for the model, details for people and programs.

    An outcome other than ok is a failure that the tool itself reports, such as a test that
    fails or a file that is missing.
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
    """Per-call context that the dispatcher passes to a tool."""

    @property
    def subjects(self) -> tuple[str, ...] | None:
        """The subjects from `Tool.subjects` that were approved; None where nothing was checked.

        A tool opens exactly these: a second lookup of a path from the arguments could lead to
        another file by now.
        """
        ...

    def is_denied(self, subject: str) -> bool:
        """Return whether a rule denies the tool a subject that it found, such as a file.

        May be called from any thread.
        """
        ...

    def report_output(self, text: str) -> None:
        """Show a part of the output to people while the tool still runs.

        The model sees it only if the call is stopped.
        """
        ...

    def put_blob(self, data: bytes) -> str:
        """Store bytes as a blob, such as the whole of a long output; return their SHA-256.

        Put the SHA-256 into the details of the output: blobs that no entry names are removed later.
        """
        ...

    def read_blob(self, sha256: str) -> bytes:
        """Return stored bytes. Raises Missing, Damaged."""
        ...


class PreviewKind(StrEnum):
    """The kind of a part of a preview."""

    TEXT = "text"
    NOTE = "note"
    """A note of the tool about the call: where it would run, its limits."""
    DIFF = "diff"
    """A unified diff."""
    CODE = "code"
    """The content of a file."""
    ARGUMENTS = "arguments"
    """All arguments; an interface may write them in its own way instead."""


class PreviewPart(NamedTuple):
    """A part of a preview. Its text is not trusted: a model may have written it."""

    kind: PreviewKind
    text: str
    language: str = ""
    """The suffix of the file, for code."""


@final
class CallPreview(RedactedRepr, frozen=True):
    """The effect of a call, for the person who decides: a diff, a command, a note.

    `shown_arguments` names the arguments that the parts already show. Lone surrogates are replaced.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"shown_arguments"})

    parts: tuple[PreviewPart, ...] = ()
    shown_arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        parts = [part._replace(text=replace_lone_surrogates(part.text)) for part in self.parts]
        force_setattr(self, "parts", tuple(parts))

    @classmethod
    def of(cls, text: str, *, shown_arguments: tuple[str, ...] = ()) -> CallPreview:
        """Return a preview of one text."""
        return cls((PreviewPart(PreviewKind.TEXT, text),), shown_arguments)

    @property
    def text(self) -> str:
        """The parts one below the other, with an empty line before a note."""
        texts = [part.text for part in self.parts[:1]]
        for part in self.parts[1:]:
            texts += "\n\n" if part.kind is PreviewKind.NOTE else "\n", part.text
        return "".join(texts)


_HEADLINE_ARGUMENTS: Final = ("command", "path", "pattern", "url", "uri", "query", "job", "name")
_MAX_HEADLINE_CHARACTERS: Final = 640


def default_headline(call: AnyToolCall, names: Sequence[str] = ()) -> str:
    """Return the headline of a call of any tool: its main argument, else all arguments as JSON.

    The main argument is the first of `names` that is present, then `command`, `path` and the like.
    """
    arguments: Mapping[str, Any] = {}
    if isinstance(call, ToolCall):
        with suppress(InvalidArguments):  # JSON that Python has no value for
            arguments = call.parsed
    for name in (*names, *_HEADLINE_ARGUMENTS):
        if isinstance(value := arguments.get(name), str) and value:
            return value
    return "" if call.arguments == NO_ARGUMENTS else call.arguments[:_MAX_HEADLINE_CHARACTERS]


class Tool(Protocol):
    """A tool that a model can call.

    `run` returns a `ToolOutput`, or raises `ToolFailed` with a text for the model. Any other
    exception is a bug of the tool. A cancelled tool ends the work that it began.

    A tool may also have `content(call: ToolCall) -> PreviewPart | None`: the text that a call
    writes, for a transcript. Like `headline`, it needs nothing but the call, and never raises.
    """

    @property
    def definition(self) -> ToolDefinition:
        """The description that the model receives."""
        ...

    @property
    def capability(self) -> Capability:
        """The most that the tool may do."""
        ...

    @property
    def rule_aliases(self) -> tuple[str, ...]:
        """Names of other tools whose deny rules also apply to this one; most have none."""
        ...

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return the subjects of a call, for permission rules: paths, commands, addresses.

        Rules allow a call if together they cover all subjects, and deny it if one covers any.
        Subjects have one spelling: paths relative to the workspace with links resolved, commands
        one by one. A subject that is not known in advance begins with `UNKNOWN_SUBJECT_PREFIX`.
        Without subjects, only rules about the name of the tool apply. Raises ToolFailed for
        invalid arguments.
        """
        ...

    def headline(self, call: AnyToolCall, /) -> str:
        """Return the main part of the call for a list: a command, a path; without the tool's name.

        Accepts any arguments and never raises. For a tool without it, `default_headline` is used.
        """
        ...

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return a preview of the call for the person who decides.

        Changes nothing. Raises ToolFailed if the call cannot succeed at present.
        """
        ...

    async def run(self, call: ToolCall, context: ToolContext, /) -> ToolOutput:
        """Run the call. The arguments fit the definition. Raises ToolFailed."""
        ...


# -- approvals -------------------------------------------------------------------------------


class GrantScope(StrEnum):
    """The scope of a decision: one call, the session, the project, or all projects of the user."""

    ONCE = "once"
    SESSION = "session"
    PROJECT = "project"
    USER = "user"


@final
class ApprovalRequest(RedactedRepr, frozen=True, kw_only=True):
    """A call that no rule decides, with the facts for a decision."""

    shown: ClassVar[frozenset[str]] = frozenset({"capability"})

    call: ToolCall
    capability: Capability
    subjects: tuple[str, ...] = ()
    headline: str | None = None
    """The headline of the call from its tool; like the preview, it may hold text of a model."""
    preview: CallPreview = CallPreview()
    """The effect of the call, for people to read."""
    rule: str = ""
    """A rule to offer for this call and similar ones: `bash(git log *)`. Empty if there is none."""


@final
class ApprovalDecision(RedactedRepr, frozen=True, kw_only=True):
    """A decision about a call, and its actor."""

    shown: ClassVar[frozenset[str]] = frozenset({"allowed", "actor", "scope", "rule"})

    allowed: bool
    actor: str
    """The person or program that decided; for the log."""
    scope: GrantScope = GrantScope.ONCE
    rule: str | None = None
    """The rule to grant if the scope is wider than once; None grants the rule of the request."""
    reason: str | None = None


class Approver(Protocol):
    """Decides whether calls may run, for example by asking a person."""

    async def ask(self, request: ApprovalRequest, /) -> ApprovalDecision:
        """Return a decision. While it waits, the log shows the approval as pending."""
        ...


class GrantStore(Protocol):
    """Storage of the permission rules that a person has granted beyond one session."""

    def rules(self) -> tuple[str, ...]:
        """Return the rules that are allowed for this project and this user."""
        ...

    def add(self, rule: str, scope: GrantScope) -> None:
        """Allow a rule for the project or for the user from now on. Raises Unavailable."""
        ...


# -- references ------------------------------------------------------------------------------


class InputAuthorizer(Protocol):
    """Decides whether a reference of a user message may be opened."""

    async def __call__(
        self, tool: str, capability: Capability, subject: str, *, preview: str = ""
    ) -> str:
        """Return the rule or the approver that allows the access, for the log.

        The rules for `tool` (`read`, `fetch`, ...) apply, and `subject` has the spelling that they
        use. Raises ToolFailed with the reason; its message does not contain the subject.
        """
        ...


class ResolveContext(NamedTuple):
    """The model for which a reference is resolved, and the callbacks for it."""

    authorize: InputAuthorizer
    vision: bool | None = None
    """Whether the model accepts images; None if it is unknown."""
    image_refusal: str = ""
    """The error with which the model refused an earlier image, if it did."""
    report_progress: Callable[[str], object] = lambda _: None
    """Shows the current step to people, if it takes long."""

    async def require_permission(
        self, tool: str, capability: Capability, subject: str, *, name: str, preview: str = ""
    ) -> str:
        """Return the rule or the person that allows it. Raises ToolFailed with `name` as its place.

        The name appears in errors, so it must not contain a secret; the subject may.
        """
        try:
            return await self.authorize(tool, capability, subject, preview=preview)
        except ToolFailed as exc:
            raise ToolFailed(str(exc), code=exc.code, place=name) from exc


@final
class ResolvedReference(RedactedRepr, frozen=True, kw_only=True):
    """The result of a reference: content that replaces it for the model, or an error."""

    shown: ClassVar[frozenset[str]] = frozenset({"error", "notice"})

    content: tuple[Text | Image | Resource | Opaque, ...] = ()
    error: str | None = None
    """The reason why there is no content, and the remedy; None if there is content."""
    error_code: str | None = None
    """The stable code of the error; not recorded."""
    details: Mapping[str, Any] | None = None
    """Facts about the content: hash, size, mode, engine, confidence. For the log, never sent."""
    notice: str = ""
    """A notice for the user, if the result is not the expected one."""


class Resolver(Protocol):
    """Opens the references of messages, with the permissions of the user."""

    async def resolve(
        self, reference: ReferenceBlock, context: ResolveContext, /
    ) -> ResolvedReference:
        """Return the content of a reference. A failure is a result with an error."""
        ...

    def is_current(
        self, reference: ReferenceBlock, resolution: Resolution, context: ResolveContext, /
    ) -> bool:
        """Return whether an earlier result can be used again: recent, and readable by the model."""
        ...

    async def changes(
        self,
        reference: ReferenceBlock,
        resolution: Resolution,
        /,
        *,
        known: frozenset[str] = frozenset(),
    ) -> tuple[str, ...]:
        """Return the changes since an earlier result, a line each: `notes.md has changed`.

        `known` names the files of the workspace whose changes the model knows; they are left out.
        """
        ...


# -- notices ---------------------------------------------------------------------------------


class SetupNotice(NamedTuple):
    """A notice for the user about settings, servers or a prompt; the text is for people."""

    code: str
    """The name of the notice for programs; it stays the same from release to release."""
    text: str


# -- storage ---------------------------------------------------------------------------------


class Journal(Protocol):
    """The storage of one conversation. A `Conversation` writes to it and reads from it."""

    def extract_blobs(self, payload: Payload) -> Payload:
        """Return the payload as it is recorded: large parts are stored as blobs."""
        ...

    def restore_blobs(self, payload: PayloadT) -> PayloadT:
        """Return a payload with the content of its blobs. Raises Missing, Damaged."""
        ...

    def append(self, entry: Entry, *, branch: str, digest: str, expected: str | None) -> None:
        """Write an entry at the end of a branch; it is durable when this returns.

        `expected` is the last entry of the branch as the writer knows it. Raises Conflict if the
        branch ends with another one, Unavailable if the storage cannot be written. After an error,
        nothing was written.
        """
        ...

    def begin_branch(self, name: str, at: str | None) -> None:
        """Begin a branch after an entry. Raises Conflict if the name is taken."""
        ...

    def heads(self) -> Mapping[str, str | None]:
        """Return the last entry of every branch, by id; the branch written most recently is last."""
        ...

    def read_back(self, entry_id: str) -> Iterator[tuple[Entry, str]]:
        """Yield an entry and its digest, then its parent and so on, up to the first entry.

        Raises Missing if the entry does not exist, Damaged if a stored record cannot be read.
        """
        ...


class BlobStore(Protocol):
    """Storage of bytes under their SHA-256. Every store is one."""

    def put_blob(self, data: bytes) -> str:
        """Store bytes and return their SHA-256; they are durable when this returns."""
        ...

    def blob(self, sha256: str) -> bytes:
        """Return the bytes. Raises Missing, and Damaged if they do not match the name."""
        ...


__all__ = [
    "UNKNOWN_SUBJECT_PREFIX",
    "ApprovalDecision",
    "ApprovalRequest",
    "Approver",
    "BlobStore",
    "CallPreview",
    "Capability",
    "GrantScope",
    "GrantStore",
    "HttpRequest",
    "HttpResponse",
    "InputAuthorizer",
    "Journal",
    "PrepareImage",
    "PreviewKind",
    "PreviewPart",
    "Provider",
    "ReferenceBlock",
    "ResolveContext",
    "ResolvedReference",
    "Resolver",
    "SetupNotice",
    "Stream",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "Transport",
    "default_headline",
    "strip_url_secrets",
    "strip_url_user",
]
