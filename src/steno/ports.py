"""Protocols for the parts of steno that do I/O; this module itself does no I/O.

A `Provider` answers requests with a `Stream` of events, and a `Transport` sends HTTP requests. A
`Tool` runs the calls of a model, after a permission rule or an `Approver` has allowed them. A
`Resolver` opens the references in a user message. A `Journal` stores the entries of a conversation.
An implementation of one protocol needs no other part of steno, and callers depend on the protocols
alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self, TypeAlias, assert_never, final
from urllib.parse import urlsplit

from msgspec.structs import force_setattr

from steno.errors import InvalidArguments, ToolFailed
from steno.invisible import is_visible
from steno.messages.call import NO_ARGUMENTS, AnyToolCall, ToolCall
from steno.messages.content import (
    FileReference,
    Image,
    ImageFile,
    ImageUrl,
    Opaque,
    ReferenceBlock,
    Resource,
    Text,
)
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
    the next event; `message` still returns the part that arrived before the error. After the end,
    an error or `close`, the iteration stops immediately.

    A stream may have two more attributes: `losses`, a `Change` for each part of the request that
    was altered or left out for this provider, or None if that is unknown; and `envelope`, a mapping
    with the `id` of the response and the name of the `model` as the provider sent them. A stream
    without `losses` sends the request unchanged.
    """

    def __aiter__(self) -> Self:
        """Return the stream itself, which can be iterated only once."""
        ...

    async def __anext__(self) -> Event:
        """Return the next event. Raises StopAsyncIteration at the end of the response.

        Raises ProviderError if the provider fails, and ProtocolError if it sends invalid bytes.
        """
        ...

    async def __aenter__(self) -> Self:
        """Return the stream itself; nothing is sent yet."""
        ...

    async def __aexit__(self, *exc: object) -> None:
        """Close the stream, whether or not an exception occurred."""
        ...

    async def collect(self) -> AssistantMessage:
        """Read to the end and return the message, for callers that do not need the events."""
        ...

    def message(self) -> AssistantMessage:
        """Return the complete message after the end, or the part that was read before the end.

        The stop reason is `error` after an error, and `aborted` after a cancelled read or `close`.
        Raises StenoError if nothing has been read yet.
        """
        ...

    def close(self) -> None:
        """Close the connection; a pending read in another task ends immediately."""
        ...


class Provider(Protocol):
    """A source of model responses, such as a vendor, a local server or a script in a test."""

    def stream(self, request: Request) -> Stream:
        """Return a stream of the response to a request.

        Raises InvalidRequest if the wire of this provider cannot express the request.
        """
        ...


# -- transport -------------------------------------------------------------------------------


class HttpRequest(NamedTuple):
    """An HTTP request whose `repr` omits the headers, the body and the secret parts of the URL."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""
    addresses: tuple[str, ...] | None = None
    """The IP addresses that were checked for the host; a direct connection uses no other address.

    None allows any address. A proxy resolves the host itself.
    """

    @property
    def address(self) -> str:
        """The URL as `strip_url_secrets` returns it; "http" if that function returns None."""
        return strip_url_secrets(self.url) or "http"

    def __repr__(self) -> str:
        size = "1 byte" if len(self.body) == 1 else f"{len(self.body)} bytes"
        return f"HttpRequest({self.method} {self.address}, <{size}>)"


def strip_url_secrets(url: str) -> str | None:
    """Return a URL without user, password, query and fragment.

    Return None if the URL is invalid, has no host, or contains unprintable characters.
    """
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return None
    return f"{parts.scheme}://{host}{parts.path}" if host and is_visible(url) else None


def strip_url_user(uri: str) -> str:
    """Return a URI without user and password, also of addresses in its path or query."""
    return _URL_USER.sub("", uri)


_URL_USER: Final = re.compile(r"(?:(?<=://)|(?<=\A//))[^/?#]*@")


def reference_address(reference: ReferenceBlock) -> str:
    """Return the path or the address of a reference, without the parts that usually hold secrets.

    The URI of a resource and the URL of an image lose the user and the password, the query and the
    fragment, as RFC 3986 delimits them; the path stays, without users of addresses in it. A
    `data:` URI keeps only its scheme and MIME type. An HTTP URL that `strip_url_secrets` refuses,
    and a URI of which nothing is left, become `an address`. An image that has no path and no URL
    becomes its MIME type. The text is not cleaned for a terminal.
    """
    match reference:
        case FileReference(path=path) | Image(source=ImageFile(path)):
            return path
        case Resource(uri=uri) | Image(source=ImageUrl(uri)):
            is_web = _WEB_URL.match(uri) is not None
            return (strip_url_secrets(uri) if is_web else _strip_uri_secrets(uri)) or "an address"
        case Image():
            return reference.mime_type or "image"
        case _:
            assert_never(reference)


def _strip_uri_secrets(uri: str) -> str:
    """Return a URI of any scheme without user, password, query, fragment and embedded data."""
    uri = "".join(filter(is_visible, uri)).strip()  # as lenient parsers of URLs do
    data_uri = _DATA_URI.match(uri)
    if data_uri is not None:
        return data_uri[0]
    return strip_url_user(_QUERY_OR_FRAGMENT.split(uri, maxsplit=1)[0])


_WEB_URL: Final = re.compile(r"https?:", re.IGNORECASE)
_DATA_URI: Final = re.compile(r"data:(?:[\w.+-]+/[\w.+-]+(?=[;,]))?", re.IGNORECASE)
"""The beginning of a `data:` URI, with the MIME type if there is one."""
_QUERY_OR_FRAGMENT: Final = re.compile(r"[?#]")


class HttpResponse(Protocol):
    """An HTTP response whose status and headers have arrived, and whose body can be read."""

    @property
    def status(self) -> int:
        """The HTTP status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, with names in lower case."""
        ...

    async def read(self) -> bytes:
        """Return the next chunk of the body as it arrived; empty bytes at the end of the body.

        Raises Unreachable if the connection breaks or times out, and ProtocolError if the body is
        larger than allowed.
        """
        ...

    def close(self) -> None:
        """Discard the unread part of the body; a pending read returns or raises immediately.

        If the body was read to its end, the connection is reused for the next request.
        """
        ...


class Transport(Protocol):
    """Sends HTTP requests and returns the responses; never follows a redirect."""

    async def open(self, request: HttpRequest, /) -> HttpResponse:
        """Send a request and wait for the status and the headers of its response.

        Raises Unreachable if no response arrives. If cancelled, it leaves no open connection.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


# -- tools -----------------------------------------------------------------------------------


PrepareImage: TypeAlias = Callable[[bytes], Image]
"""Converts image bytes to a block that models accept: small and without metadata.

Raises ToolFailed if the bytes are not an image, and ImportError if Pillow is not installed.
"""


class Capability(StrEnum):
    """The highest level of access that a tool has; the levels are in order of increasing risk."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"


class CommandWord(NamedTuple):
    """A word of a command, in the spelling that permission rules match."""

    text: str
    may_be_option: bool
    """Whether the value begins with `-`, or is unknown and may begin with it."""


@final
class Subject(RedactedRepr, frozen=True, kw_only=True):
    """A path, a command or an address that a call is about, as permission rules match it."""

    shown: ClassVar[frozenset[str]] = frozenset({"capability"})

    text: str
    """The canonical spelling, such as `src/app.py`, `git log -3` or `pypi.org`."""
    capability: Capability
    """The access that the call needs to this subject."""
    rule_tool: str = ""
    """The tool whose rules match the subject, such as `write` for a redirection of a command.

    Empty for the tool of the call.
    """
    words: tuple[CommandWord, ...] = ()
    """The words of a command; empty for other subjects."""
    is_unknown: bool = False
    """Whether the target is unknown before the call runs. Only rules for every call match it."""
    is_protected: bool = False
    """Whether only an approval of this call allows the access; no rule and no grant does."""
    is_confined: bool = False
    """Whether a sandbox limits the effects of the command."""
    is_routine: bool = False
    """Whether the command is common work in a project, and confined; act mode allows it."""
    pattern: str = ""
    """A pattern that safely covers similar commands, to offer for a grant; empty if none does."""
    has_input: bool = False
    """Whether a command reads input that its text does not show, which may be code.

    Of the rules that approvals granted, only those for every command count.
    """
    other_texts: tuple[str, ...] = ()
    """Other spellings of a command, such as that without `timeout 5`, for rules that deny."""
    unnamed_access: Capability | None = None
    """The access of a command to files that it does not name; None if it names all.

    While a deny rule for such files exists, no default allows the command.
    """


class AccessKind(StrEnum):
    """The kinds of access that a sandbox blocks and a user can approve."""

    NETWORK = "network"
    """Connections to one domain, or to all if the target is `*`."""
    WRITE = "write"
    """Writing to a file or folder."""
    READ = "read"
    """Reading a file or folder that is hidden because it may contain secrets."""
    EVERYTHING = "everything"
    """All rights of the user, without a sandbox."""


@final
class SandboxAccess(RedactedRepr, frozen=True):
    """An access that a sandbox blocked, or that a user approved for one call."""

    shown: ClassVar[frozenset[str]] = frozenset({"kind"})

    kind: AccessKind
    target: str = ""
    """A domain or a real path; empty for `EVERYTHING`."""


@final
class ToolOutput(RedactedRepr, frozen=True, kw_only=True):
    """The result of a tool call, with content for the model and details for users and programs.

    An outcome other than ok is a failure that the tool itself reports, such as a failing test or
    a missing file.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"outcome"})

    content: tuple[ResultBlock, ...]
    outcome: Outcome = Outcome.OK
    details: Mapping[str, Any] | None = None
    blocked: tuple[SandboxAccess, ...] = ()
    """The accesses that a sandbox blocked; the user can approve them, and the call runs again."""

    @classmethod
    def of(
        cls,
        text: str,
        *,
        outcome: Outcome = Outcome.OK,
        details: Mapping[str, Any] | None = None,
        blocked: tuple[SandboxAccess, ...] = (),
    ) -> ToolOutput:
        """Return an output that consists of one text block."""
        return cls(content=(Text(text),), outcome=outcome, details=details, blocked=blocked)


class ToolContext(Protocol):
    """Per-call context that the dispatcher passes to a tool."""

    @property
    def subjects(self) -> tuple[Subject, ...] | None:
        """The approved subjects from `Tool.subjects`; None if permissions were not checked.

        A tool opens exactly these subjects, because resolving a path from the arguments a second
        time could yield a different file.
        """
        ...

    @property
    def access(self) -> tuple[SandboxAccess, ...]:
        """The access beyond the sandbox that rules and approvals give to the call."""
        ...

    def is_denied(self, subject: str) -> bool:
        """Return whether a rule denies the tool access to a subject, such as a file that it found.

        This method may be called from any thread.
        """
        ...

    def report_output(self, text: str) -> None:
        """Display a part of the output to the user while the tool is running.

        The model receives this text only if the call is stopped.
        """
        ...

    def put_blob(self, data: bytes) -> str:
        """Store bytes, such as a long output, as a blob and return their SHA-256.

        Include the SHA-256 in the details of the output, because blobs that no entry references
        are removed later.
        """
        ...

    def read_blob(self, sha256: str) -> bytes:
        """Return the bytes of a blob.

        Raises Missing if the blob does not exist, and Damaged if its content has changed.
        """
        ...


class PreviewKind(StrEnum):
    """The kinds of parts that a preview consists of."""

    TEXT = "text"
    NOTE = "note"
    """A note of the tool about the call, such as its working directory or its limits."""
    DIFF = "diff"
    """A unified diff."""
    CODE = "code"
    """The content of a file."""
    ARGUMENTS = "arguments"
    """All arguments of the call; a user interface may format them in its own way."""


class PreviewPart(NamedTuple):
    """A part of a preview; its text is untrusted, because a model may have written it."""

    kind: PreviewKind
    text: str
    language: str = ""
    """The suffix of the file name, without its dot, if the part is code; otherwise empty."""


@final
class CallPreview(RedactedRepr, frozen=True):
    """A preview of the effect of a call for its approver, such as a diff, a command or a note.

    `shown_arguments` names the arguments that the parts contain. Lone surrogates are replaced.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"shown_arguments"})

    parts: tuple[PreviewPart, ...] = ()
    shown_arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        parts = [part._replace(text=replace_lone_surrogates(part.text)) for part in self.parts]
        force_setattr(self, "parts", tuple(parts))

    @classmethod
    def of(cls, text: str, *, shown_arguments: tuple[str, ...] = ()) -> CallPreview:
        """Return a preview that consists of one text part."""
        return cls((PreviewPart(PreviewKind.TEXT, text),), shown_arguments)

    @property
    def text(self) -> str:
        """The text of all parts, each on a new line, with an empty line before a note."""
        texts = [part.text for part in self.parts[:1]]
        for part in self.parts[1:]:
            texts += "\n\n" if part.kind is PreviewKind.NOTE else "\n", part.text
        return "".join(texts)


_HEADLINE_ARGUMENTS: Final = ("command", "path", "pattern", "url", "uri", "query", "job", "name")
_MAX_HEADLINE_CHARACTERS: Final = 640


def default_headline(call: AnyToolCall, names: Sequence[str] = ()) -> str:
    """Return the main argument of a call; without one, a prefix of the arguments as JSON.

    The main argument is the first argument that is a non-empty string, in the order of `names` and
    then of `_HEADLINE_ARGUMENTS`. The headline of a call without arguments is empty.
    """
    arguments: Mapping[str, Any] = {}
    if isinstance(call, ToolCall):
        with suppress(InvalidArguments):  # valid JSON that Python cannot represent
            arguments = call.parsed
    for name in (*names, *_HEADLINE_ARGUMENTS):
        if isinstance(value := arguments.get(name), str) and value:
            return value
    return "" if call.arguments == NO_ARGUMENTS else call.arguments[:_MAX_HEADLINE_CHARACTERS]


class Tool(Protocol):
    """A tool that a model can call.

    `run` returns a `ToolOutput`, or raises `ToolFailed` with a text for the model. Any other
    exception is a bug in the tool. When cancelled, a tool stops the work that it started.

    A tool may also define `content(call: ToolCall) -> PreviewPart | None`, which returns the text
    that a call writes, for a transcript. Like `headline`, it needs only the call and never raises.
    A tool whose capability is more than READ may define `has_reading_calls: bool`, which is true
    if the subjects of some calls only need READ; such calls can also run in plan mode. A tool with
    a sandbox may define `folder: str`, the real path to which relative paths in rules refer;
    without it, a deny rule for a relative path withholds every access to files.
    """

    @property
    def definition(self) -> ToolDefinition:
        """The definition that the model receives."""
        ...

    @property
    def capability(self) -> Capability:
        """The highest level of access that the tool has."""
        ...

    @property
    def rule_aliases(self) -> tuple[str, ...]:
        """Names of other tools whose deny rules also apply to this tool; usually empty."""
        ...

    def subjects(self, call: ToolCall) -> tuple[Subject | str, ...]:
        """Return the subjects of a call that permission rules match, such as paths or commands.

        A call is allowed if each subject is allowed, and denied if a deny rule matches any subject.
        Subjects are normalized: paths are relative to the workspace with links resolved, and every
        command is a subject of its own. A plain string is a subject with the capability of the
        tool. Without subjects, only rules for the name of the tool apply. Raises ToolFailed if the
        arguments are invalid.
        """
        ...

    def headline(self, call: AnyToolCall, /) -> str:
        """Return the main part of the call, such as a command or a path, without the tool's name.

        Accepts any arguments and never raises. If a tool lacks this method, `default_headline` is
        used.
        """
        ...

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return a preview of the call for its approver, without side effects.

        Raises ToolFailed if the call cannot succeed at present.
        """
        ...

    async def run(self, call: ToolCall, context: ToolContext, /) -> ToolOutput:
        """Run a call whose arguments fit the definition. Raises ToolFailed if the call fails."""
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
    """A call that no rule allows or denies, with the information that an approver needs."""

    shown: ClassVar[frozenset[str]] = frozenset({"capability"})

    call: ToolCall
    capability: Capability
    subjects: tuple[Subject, ...] = ()
    uncovered: tuple[Subject, ...] = ()
    """The subjects for which the call needs approval; empty if the call has no subjects."""
    headline: str | None = None
    """The headline from the tool; like the preview, it may contain text written by a model."""
    preview: CallPreview = CallPreview()
    """A human-readable preview of the effect of the call."""
    rule: str = ""
    """A rule to offer for this and similar calls, such as `bash(git log *)`; may be empty."""
    access: tuple[SandboxAccess, ...] = ()
    """The access that the sandbox blocked when the call ran, if the question is to run it again.

    Empty for a call that has not run yet.
    """
    may_run_unconfined: bool = False
    """Whether the decision about a request with `access` may give `EVERYTHING` instead."""


@final
class ApprovalDecision(RedactedRepr, frozen=True, kw_only=True):
    """A decision about a call, with the actor that made it."""

    shown: ClassVar[frozenset[str]] = frozenset({"allowed", "actor", "scope", "rule", "access"})

    allowed: bool
    actor: str
    """The person or program that made the decision, for the log."""
    scope: GrantScope = GrantScope.ONCE
    rule: str | None = None
    """The rule to grant if the scope is wider than one call; None means the rule of the request."""
    reason: str | None = None
    access: tuple[SandboxAccess, ...] = ()
    """The access to run the call again with, as an answer to a request with `access`.

    A decision that names no access gives none, even if it allows the call. Access that is not in
    the request is not given, except `EVERYTHING` if the request has `may_run_unconfined`.
    """


class Approver(Protocol):
    """Decides whether calls may run, for example by asking a person."""

    async def ask(self, request: ApprovalRequest, /) -> ApprovalDecision:
        """Return a decision. The log lists the approval as pending until this method returns."""
        ...


class GrantStore(Protocol):
    """Storage for the permission rules that a user granted for longer than one session."""

    def rules(self) -> tuple[str, ...]:
        """Return the rules that are granted for this project or this user."""
        ...

    def add(self, rule: str, scope: GrantScope) -> None:
        """Store a rule for the project or the user. Raises Unavailable if it cannot be written."""
        ...


# -- references ------------------------------------------------------------------------------


class InputAuthorizer(Protocol):
    """Decides whether a reference in a user message may be opened."""

    async def __call__(
        self, tool: str, capability: Capability, subject: str, *, preview: str = ""
    ) -> str:
        """Return the rule or the approver that allows the access, for the log.

        The rules for `tool` (`read`, `fetch`, ...) apply; `subject` is normalized as in
        `Tool.subjects`. Raises ToolFailed, whose message does not contain the subject, if access is
        denied.
        """
        ...


class ResolveContext(NamedTuple):
    """Properties of the model for which a reference is resolved, and callbacks to the agent."""

    authorize: InputAuthorizer
    vision: bool | None = None
    """Whether the model accepts images; None if it is unknown."""
    image_refusal: str = ""
    """The error with which the model refused an earlier image; empty if it refused no image."""
    report_progress: Callable[[str], object] = lambda _: None
    """Reports the current step of a slow resolution to the user."""
    run_cache: MutableMapping[Hashable, Any] | None = None
    """Values that resolvers keep until the run ends, under their own keys; None outside a run."""

    async def require_permission(
        self, tool: str, capability: Capability, subject: str, *, name: str, preview: str = ""
    ) -> str:
        """Return the rule or the approver that allows the access, like `authorize`.

        Raises ToolFailed with `name` as its place if access is denied. The name appears in errors,
        so it must not contain a secret; the subject may contain one.
        """
        try:
            return await self.authorize(tool, capability, subject, preview=preview)
        except ToolFailed as exc:
            raise ToolFailed(str(exc), code=exc.code, place=name) from exc


@final
class ResolvedReference(RedactedRepr, frozen=True, kw_only=True):
    """The result of resolving a reference: the content for the model, or an error."""

    shown: ClassVar[frozenset[str]] = frozenset({"error", "notice"})

    content: tuple[Text | Image | Resource | Opaque, ...] = ()
    error: str | None = None
    """The reason why there is no content, and the remedy; None if there is content."""
    error_code: str | None = None
    """The stable code of the error; not recorded."""
    details: Mapping[str, Any] | None = None
    """Details for the log, never sent to a model: hash, size, mode, engine, confidence."""
    notice: str = ""
    """A notice for the user, such as that files were left out; empty if there is no notice."""


class Resolver(Protocol):
    """Opens the references in messages, with the permissions of the user."""

    async def resolve(
        self, reference: ReferenceBlock, context: ResolveContext, /
    ) -> ResolvedReference:
        """Return the content of a reference, or a result with an error if resolving fails."""
        ...

    def is_current(
        self, reference: ReferenceBlock, resolution: Resolution, context: ResolveContext, /
    ) -> bool:
        """Return whether an earlier result is still valid, and in a form that the model accepts."""
        ...

    async def changes(
        self,
        reference: ReferenceBlock,
        resolution: Resolution,
        /,
        *,
        known: frozenset[str] = frozenset(),
    ) -> tuple[str, ...]:
        """Return the changes since an earlier result as lines, such as `notes.md has changed`.

        `known` names workspace files whose changes the model already knows; they are omitted.
        """
        ...


# -- notices ---------------------------------------------------------------------------------


class SetupNotice(NamedTuple):
    """A notice for the user about settings, servers or a prompt."""

    code: str
    """The name of the notice for programs; stable across releases."""
    text: str


# -- storage ---------------------------------------------------------------------------------


class Journal(Protocol):
    """The storage of one conversation. A `Conversation` writes to it and reads from it."""

    def extract_blobs(self, payload: Payload) -> Payload:
        """Store the large parts of a payload as blobs, and return the payload with references."""
        ...

    def restore_blobs(self, payload: PayloadT) -> PayloadT:
        """Return a payload with the content of its blobs.

        Raises Missing if a blob does not exist, and Damaged if its content has changed.
        """
        ...

    def append(self, entry: Entry, *, branch: str, digest: str, expected: str | None) -> None:
        """Write an entry at the end of a branch; the entry is durable when this method returns.

        `expected` is the last entry of the branch as the writer knows it. Raises Conflict if the
        branch ends with another entry, and Unavailable if the storage cannot be written. After a
        LogError, nothing was written, unless it is an UnconfirmedWrite of `PostgresStore`.
        """
        ...

    def begin_branch(self, name: str, at: str | None) -> None:
        """Create a branch that starts after entry `at`. Raises Conflict if the name is taken."""
        ...

    def heads(self) -> Mapping[str, str | None]:
        """Return the id of the last entry of each branch, the most recently written branch last."""
        ...

    def read_back(self, entry_id: str) -> Iterator[tuple[Entry, str]]:
        """Yield an entry with its digest, then each of its ancestors, back to the first entry.

        Raises Missing if the entry does not exist, and Damaged if a stored record is unreadable.
        """
        ...


class BlobStore(Protocol):
    """Storage of bytes under their SHA-256; every store implements this protocol."""

    def put_blob(self, data: bytes) -> str:
        """Store bytes and return their SHA-256; the bytes are durable when this method returns."""
        ...

    def blob(self, sha256: str) -> bytes:
        """Return the bytes of a blob.

        Raises Missing if the blob does not exist, and Damaged if its content has changed.
        """
        ...


__all__ = [
    "AccessKind",
    "ApprovalDecision",
    "ApprovalRequest",
    "Approver",
    "BlobStore",
    "CallPreview",
    "Capability",
    "CommandWord",
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
    "SandboxAccess",
    "SetupNotice",
    "Stream",
    "Subject",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "Transport",
    "default_headline",
    "reference_address",
    "strip_url_secrets",
    "strip_url_user",
]
