"""The part of request encoding that all wires share.

An `Encoder` keeps the messages that it has written, so that the next request of a conversation
costs only its new messages. A `MessageWriter` writes them. The functions below map names and ids
that a provider forbids, and write the blocks that every wire writes alike; each reports what it
changed. Nothing here knows a provider.
"""

from __future__ import annotations

import base64
import hashlib
import re
from abc import ABC, abstractmethod
from typing import Any, Final, NamedTuple, TypeAlias, assert_never, final

import msgspec

from steno.messages.call import AnyToolCall, Seal, ToolCall
from steno.messages.change import ChangeCode
from steno.messages.content import (
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    Opaque,
    Resource,
)
from steno.messages.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.wire.extras import (
    check_reserved_extras,
    get_extras,
    get_form,
    note_conflicting_extras,
    replace_extras,
)
from steno.wire.report import ChangeCollector, EncodedRequest

WHOLE_MESSAGE_KIND: Final = "message"
"""The kind of an Opaque block that is a whole message of its wire."""
STREAM_EVENT_PREFIX: Final = "event:"
"""The kind of an Opaque block that is an event of a stream begins with this; it is never sent."""
ANY_NAME: Final = re.compile(r".+", re.DOTALL)
"""The names that a wire without rules for names allows: all of them."""
_INVALID_CALL_NAME: Final = "invalid_tool_call"
"""The name of an invalid call whose own name may not be sent."""

_MAX_PIECES: Final = 64
_ALWAYS_WRITTEN: Final = object()
"""A value that differs from anything in extras: the member is written in any case."""

_MALFORMED_NOTE_ERRORS: Final = (TypeError, AttributeError, LookupError)
"""Errors of the encoder if notes under `$form` are not of the types that steno writes."""

PartJson: TypeAlias = dict[str, Any] | msgspec.Raw
"""A part of a message, written or as it was received."""

encode_json: Final = msgspec.json.Encoder().encode


class RequestTarget(NamedTuple):
    """The reader of a request: a seal is valid for exactly one of these."""

    provider: str
    api: str
    model: str

    def accepts(self, seal: Seal) -> bool:
        """Return whether the target made the seal, and so takes it back."""
        return (seal.provider, seal.api, seal.model) == self

    def seal(self, data: str) -> Seal:
        """Return a seal of this target."""
        return Seal(data=data, provider=self.provider, api=self.api, model=self.model)


# -- messages --------------------------------------------------------------------------------


class MessageWriter(ABC):
    """Writes messages one after the other; what is written stays as it is."""

    def __init__(self, target: RequestTarget) -> None:
        self.target = target
        self.losses: ChangeCollector = ChangeCollector()

    @abstractmethod
    def add(self, message: Message) -> None:
        """Write one more message."""

    @abstractmethod
    def finish(self) -> bytes:
        """Return everything written; more may follow."""


def compact_pieces(pieces: list[bytes]) -> list[bytes]:
    """Return the pieces of an array, few enough to be joined for every request.

    Joining copies a whole conversation, so it happens once in a while and not for every message.
    """
    return [b",".join(pieces)] if len(pieces) > _MAX_PIECES else pieces


def to_bytes(message: dict[str, Any] | bytes) -> bytes:
    """Return a message as JSON, if it is not yet."""
    return message if isinstance(message, bytes) else encode_json(message)


class MessageListWriter(MessageWriter):
    """Writes an object for each message, one after the other."""

    def __init__(self, target: RequestTarget) -> None:
        super().__init__(target)
        self._written: list[bytes] = []

    def add(self, message: Message) -> None:
        """Write one more message."""
        match message:
            case SystemMessage() | UserMessage():
                self._add_prompt(message)
            case AssistantMessage():
                self._add_assistant(message)
            case ToolResultMessage():
                self._add_result(message)
            case _:
                assert_never(message)

    def finish(self) -> bytes:
        """Return everything written; more may follow."""
        self._written = compact_pieces(self._written)
        return b",".join(self._written)

    @abstractmethod
    def _add_prompt(self, message: SystemMessage | UserMessage) -> None:
        """Write a message for the model."""

    @abstractmethod
    def _add_assistant(self, message: AssistantMessage) -> None:
        """Write a turn of the model."""

    @abstractmethod
    def _add_result(self, message: ToolResultMessage) -> None:
        """Write the result of a call."""


class Encoder(ABC):
    """Encodes the requests of a conversation; messages that were sent before are not written again.

    Keep one for each conversation and target. `encode` costs the new messages, and a copy.
    """

    def __init__(self) -> None:
        self._messages: tuple[Message, ...] = ()
        self._writer: MessageWriter | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages that are written: a request that begins with them costs only the others."""
        return () if self._writer is None else self._messages

    def encode(self, request: Request, *, stream: bool | None = None) -> EncodedRequest:
        """Return the body to send and its losses; `stream` asks for a streamed response."""
        writer = self._write_new_messages(request)
        messages = writer.finish()
        losses = ChangeCollector()
        losses.place = "request"
        try:
            request = self._without_conflicting_extras(request, messages, losses, stream=stream)
            body = self._body(request, messages, losses, stream=stream)
        except _MALFORMED_NOTE_ERRORS:
            check_reserved_extras(
                (request, *request.tools), self._target(request).api, at=losses.place
            )
            raise
        return EncodedRequest(body, (*losses.found, *writer.losses.found))

    @abstractmethod
    def _target(self, request: Request) -> RequestTarget:
        """Return the reader of a request."""

    @abstractmethod
    def _new_writer(self, target: RequestTarget) -> MessageWriter:
        """Return a writer for the messages."""

    @abstractmethod
    def _body(
        self, request: Request, messages: bytes, losses: ChangeCollector, *, stream: bool | None
    ) -> bytes:
        """Put the messages and everything else together, messages last."""

    def _without_conflicting_extras(
        self, request: Request, messages: bytes, losses: ChangeCollector, *, stream: bool | None
    ) -> Request:
        """Return the request without extras for members that every body has.

        Extras for settings are merged by the wire, which alone knows the names of its members.
        """
        wire = self._target(request).api
        extras, holder = get_extras(request, wire), messages_field(wire)
        written: dict[str, Any] = {} if stream is None else {"stream": stream}
        if request.model:
            written["model"] = request.model
        if messages or get_form(request, wire).get(holder) != "absent":
            written[holder] = _ALWAYS_WRITTEN
        if request.tools and not isinstance(extras.get("tools"), list):
            written["tools"] = _ALWAYS_WRITTEN  # a list would be merged
        if written.keys().isdisjoint(extras):
            return request
        note_conflicting_extras(written, extras, losses)
        kept = {name: member for name, member in extras.items() if name not in written}
        return replace_extras(request, wire, kept)

    def _write_new_messages(self, request: Request) -> MessageWriter:
        target = self._target(request)
        writer, count = self._writer, len(self._messages)
        if writer is None or writer.target != target or request.messages[:count] != self._messages:
            writer, count = self._new_writer(target), 0
        self._writer = None  # a writer that failed half-way is not used again
        for position, message in enumerate(request.messages[count:], start=count):
            writer.losses.place = f"messages[{position}]"
            try:
                writer.add(message)
            except _MALFORMED_NOTE_ERRORS:
                check_reserved_extras(
                    (message, *message.content), target.api, at=writer.losses.place
                )
                raise
        self._writer, self._messages = writer, request.messages
        return writer


_MESSAGES_FIELDS: Final = {"gemini": "contents", "openai_responses": "input"}


def messages_field(wire: str) -> str:
    """Return the name of the member of a body that holds the messages."""
    return _MESSAGES_FIELDS.get(wire, "messages")


# -- names and ids ---------------------------------------------------------------------------


def wire_name(
    value: ToolCall | ToolDefinition,
    legal: re.Pattern[str],
    losses: ChangeCollector,
    *,
    at: str = "",
) -> str:
    """Return the name to send: the original one if the target allows it, else the one of steno."""
    if value.original_name is None:
        return value.name
    if legal.fullmatch(value.original_name):
        return value.original_name
    losses.note(ChangeCode.TOOL_NAME, "renamed", at=at, value=value.name)
    return value.name


def call_name(
    call: AnyToolCall, legal: re.Pattern[str], losses: ChangeCollector, *, at: str = ""
) -> str:
    """Return the name to send for a call, whether or not the call is valid."""
    if isinstance(call, ToolCall):
        return wire_name(call, legal, losses, at=at)
    if legal.fullmatch(call.name):
        return call.name
    losses.note(ChangeCode.TOOL_NAME, "renamed", at=at, value=_INVALID_CALL_NAME)
    return _INVALID_CALL_NAME


def wire_id(id: str, legal: re.Pattern[str], losses: ChangeCollector, *, length: int = 24) -> str:
    """Return the id to send: the same, or a hash of it where the target forbids it."""
    if legal.fullmatch(id):
        return id
    mapped = hashlib.sha256(id.encode()).hexdigest()[:length]
    losses.note(ChangeCode.CALL_ID, "replaced", value=mapped)
    return mapped


@final
class AnonymousCalls:
    """Calls that are sent without an id: the target matches their results by name and order."""

    def __init__(self, losses: ChangeCollector) -> None:
        """Start without any; a result that the target will mistake is noted in `losses`."""
        self._losses = losses
        self._names: dict[str, str] = {}
        self._waiting: dict[str, dict[str, None]] = {}

    def add_call(self, id: str, name: str) -> None:
        """Add a call that is sent without its id."""
        self._names[id] = name
        self._waiting.setdefault(name, {})[id] = None

    def add_result(self, id: str) -> None:
        """Add a result, and note it if an earlier call of the same tool has none yet."""
        name = self._names.pop(id, None)
        if name is None:
            return
        waiting = self._waiting[name]
        if next(iter(waiting)) != id:
            self._losses.note(ChangeCode.ORDER, "taken_for_earlier_result", value=name)
        del waiting[id]


# -- blocks ----------------------------------------------------------------------------------


def expand_content(content: str | list[PartJson]) -> list[PartJson]:
    """Return content as a list."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def reference_text(block: FileReference | Resource, losses: ChangeCollector, *, at: str) -> str:
    """Return text for a reference that should have been resolved before the request was built."""
    if isinstance(block, Resource):
        if block.text is None:
            losses.note(ChangeCode.REFERENCE, "resource_address", at=at)
        return f"{block.uri}\n{block.text}" if block.text is not None else block.uri
    losses.note(ChangeCode.REFERENCE, "file_name", at=at)
    lines = "" if block.start_line is None else f":{block.start_line}"
    lines += "" if block.end_line is None else f"-{block.end_line}"
    return f"@{block.path}{lines}"


def image_url(image: Image) -> str | None:
    """Return the image as a URL, `data:` where its bytes are here; None if they are elsewhere."""
    match image.source:
        case ImageData():
            return f"data:{image.mime_type};base64,{base64.b64encode(image.source.data).decode()}"
        case ImageUrl():
            return image.source.url
        case ImageBlob() | ImageFile():
            return None


def is_sendable(block: Opaque, wire: str, losses: ChangeCollector, *, at: str) -> bool:
    """Return whether an opaque block is sent: only to the protocol that it came from."""
    if block.origin == wire and not block.kind.startswith(STREAM_EVENT_PREFIX):
        return True
    if block.origin != wire:
        losses.note(ChangeCode.OPAQUE, "other_wire", at=at, value=block.origin)
    return False


def raw_arguments(call: AnyToolCall, losses: ChangeCollector, *, at: str) -> msgspec.Raw:
    """Return arguments as a JSON object; invalid arguments become its only member."""
    if isinstance(call, ToolCall):
        return msgspec.Raw(call.arguments.encode())
    losses.note(ChangeCode.INVALID_CALL, "raw_text_as_only_argument", at=at)
    return msgspec.Raw(encode_json({"invalid_arguments": call.arguments}))


def write_arguments(
    call: AnyToolCall, form: str | None, losses: ChangeCollector, *, at: str
) -> dict[str, Any]:
    """Return the member `arguments`, in the form in which it was read."""
    match form:
        case "absent":
            return {}
        case "string":
            return {"arguments": call.arguments}
        case "raw":
            return {"arguments": msgspec.Raw(call.arguments.encode())}
        case _:
            return {"arguments": raw_arguments(call, losses, at=at)}
