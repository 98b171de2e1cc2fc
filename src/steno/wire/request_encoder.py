"""The base classes and functions of all request encoders.

An `Encoder` caches the JSON of written messages, so that the next request of a conversation encodes
only its new messages. A `MessageWriter` writes the messages. References, blocks of other protocols,
and names and ids that a provider forbids are handled here, so that a wire receives only blocks that
it may be able to send. Every change is reported. This module has no code for a particular provider.
"""

from __future__ import annotations

import base64
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, assert_never, final

import msgspec
from msgspec.structs import replace

from steno.json_object import JsonObject, as_json_object, is_json_text, raw_members
from steno.messages.call import AnyToolCall, InvalidToolCall, Seal, ToolCall
from steno.messages.change import Change, ChangeCode
from steno.messages.content import (
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    Opaque,
    Resource,
    Text,
    Thinking,
)
from steno.messages.framed_text import (
    ShownBlocks,
    binary_resource_note,
    frame_resource,
    join_shown_blocks,
    link_note,
)
from steno.messages.message import (
    AssistantBlock,
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.ports import reference_address
from steno.values import FORM_KEY, RedactedRepr, Sendable
from steno.wire.extras import (
    RESERVED_PREFIX,
    Members,
    check_reserved_extras,
    get_extras,
    get_form,
    is_nonempty,
    pop_form,
    replace_extras,
)

WHOLE_MESSAGE_KIND: Final = "message"
"""The kind of an Opaque block that contains a whole message of its wire."""
STREAM_EVENT_PREFIX: Final = "event:"
"""The prefix of the kind of an Opaque block that contains a stream event; it is never sent."""
ANY_NAME: Final = re.compile(r".+", re.DOTALL)
"""Matches all names, for wires that do not restrict names."""
_INVALID_CALL_NAME: Final = "invalid_tool_call"
"""The name that is sent for an invalid call whose own name the target forbids."""

_MAX_PIECES: Final = 64
"""The number of JSON fragments above which they are joined into one."""
_ALWAYS_WRITTEN: Final = object()
"""A placeholder for the value of a member that the encoder writes; no value in extras equals it."""

_MALFORMED_NOTE_ERRORS: Final = (TypeError, AttributeError, LookupError)
"""The errors that an encoder may raise if the notes under `$form` were not written by steno."""

PartJson: TypeAlias = Members | msgspec.Raw
"""A part of a message: members that are not encoded yet, or recorded JSON."""
PromptBlock: TypeAlias = Text | Image | Opaque
"""A block of a user message or tool result, after each reference has been replaced."""
ModelBlock: TypeAlias = Text | Thinking | Image | ToolCall | InvalidToolCall | Opaque
"""A block of an assistant message; it includes the types of `PromptBlock`."""

encode_json: Final = msgspec.json.Encoder().encode


class RequestTarget(NamedTuple):
    """The provider, protocol and model that a request is sent to.

    A seal is an opaque token that a model adds to its output, such as a signature. It is valid for
    exactly one target: providers reject the seal of another model, even of one of their own models.
    """

    provider: str
    api: str
    model: str

    def accepts(self, seal: Seal) -> bool:
        """Return whether this target issued the seal and therefore accepts it."""
        return (seal.provider, seal.api, seal.model) == self

    def seal(self, data: str) -> Seal:
        """Return a seal that this target issued."""
        return Seal(data=data, provider=self.provider, api=self.api, model=self.model)


# -- losses ----------------------------------------------------------------------------------


@final
class ChangeCollector:
    """Collects changes, each with its place in the request."""

    def __init__(self) -> None:
        self.found: list[Change] = []
        self.place = ""

    def note(
        self,
        code: ChangeCode,
        reason: str,
        *,
        at: str = "",
        value: str = "",
        names: tuple[str, ...] = (),
        number: int | None = None,
        target: str = "",
        kind: str = "",
    ) -> None:
        """Add a change at the current place; `at` is appended to the place."""
        change = Change(
            code,
            reason,
            self.place + at,
            value=value,
            names=names,
            number=number,
            target=target,
            kind=kind,
        )
        self.found.append(change)


@final
class EncodedRequest(RedactedRepr, frozen=True):
    """A request in the JSON of a provider, with the losses of the conversion."""

    body: bytes
    losses: tuple[Change, ...] = ()
    """The parts of the request that the body does not contain, or contains in another form."""

    @property
    def json(self) -> dict[str, Any]:
        """The body as Python values."""
        decoded: dict[str, Any] = msgspec.json.decode(self.body)
        return decoded


def select_extras(value: Sendable, wire: str, losses: ChangeCollector, *, at: str = "") -> Members:
    """Return the extras of `value` for this wire; report extras for other wires as losses."""
    if value.extras is None:
        return {}
    for name, members in value.extras.items():
        if name != wire and isinstance(members, JsonObject):
            _note_foreign_extras(value, name, losses, at)
    return dict(get_extras(value, wire))


def note_conflicting_extras(
    members: Mapping[str, Any], extras: Mapping[str, Any], losses: ChangeCollector, *, at: str = ""
) -> None:
    """Report the extras that are not sent because a member of the same name has another value."""
    names = [
        name
        for name, member in extras.items()
        if name in members and is_nonempty(member) and member != members[name]
    ]
    if names:
        losses.note(ChangeCode.EXTRAS, "conflicting", at=at, names=tuple(names))


def _note_foreign_extras(value: Sendable, wire: str, losses: ChangeCollector, at: str) -> None:
    """Report the extras that only another wire can send, unless a field has the same value.

    Leaving out steno's notes under `$form` is not a loss. However, objects in these notes, or under
    another reserved name, contain recorded members of nested objects, which are lost.
    """
    members = get_extras(value, wire)
    ours = {
        n: m for n, m in members.items() if n.startswith(RESERVED_PREFIX) and isinstance(m, dict)
    }
    form = ours.pop(FORM_KEY, {})
    inner = [*ours.values(), *(found for found in form.values() if isinstance(found, dict))]
    fields = {field: getattr(value, field) for field in value.__struct_fields__}
    names = [
        name
        for found in (members, *inner)
        for name, member in found.items()
        if name not in (FORM_KEY, "tools", *ours)
        and is_nonempty(member)
        and member != fields.get(name)
    ]
    if names:
        losses.note(ChangeCode.EXTRAS, "other_wire", at=at, value=wire, names=tuple(names))
    if is_nonempty(members.get("tools")) or is_nonempty(form.get("tools")):
        losses.note(ChangeCode.TOOL, "other_wire", at=f"{at}.tools", value=wire)


# -- messages --------------------------------------------------------------------------------


class ValueWriter:
    """Converts values to the JSON of one target, and collects the losses.

    References become text, and blocks of other protocols are left out, so that a wire receives only
    blocks that it may be able to send.
    """

    def __init__(self, target: RequestTarget, losses: ChangeCollector) -> None:
        self.target: RequestTarget = target
        self.losses: ChangeCollector = losses

    def read_extras(self, value: Sendable, at: str = "") -> tuple[Members, Members]:
        """Return the extras of a value for this wire, and the notes on its recorded form."""
        if value.extras is None:  # nearly always
            return {}, {}
        extras = select_extras(value, self.target.api, self.losses, at=at)
        return extras, pop_form(extras)

    def merge(self, members: Members, extras: Members, at: str = "") -> Members:
        """Return the members of a value with the extras added.

        A member takes precedence over an extra of the same name; a difference is reported as a
        loss.
        """
        if not extras:
            return members
        note_conflicting_extras(members, extras, self.losses, at=at)
        return members | {name: extras[name] for name in extras if name not in members}

    def note_foreign_seal(self, block: Text | Thinking | AnyToolCall, at: str) -> None:
        """Report, as a loss, the seal of a block if another target issued it."""
        if block.seal is not None and not self.target.accepts(block.seal):
            self.losses.note(ChangeCode.SEAL, "other_model", at=at)

    def prompt_blocks(self, blocks: tuple[UserBlock, ...]) -> Iterator[tuple[str, PromptBlock]]:
        """Yield the blocks of a user message or tool result to send, each with its place.

        An unresolved reference is replaced by text.
        """
        for number, block in enumerate(blocks):
            at = f".content[{number}]"
            if isinstance(block, (FileReference, Resource)):
                yield at, self.write_reference(block, at)
            elif not isinstance(block, Opaque) or self.is_sendable(block, at):
                yield at, block

    def model_blocks(self, blocks: tuple[AssistantBlock, ...]) -> Iterator[tuple[str, ModelBlock]]:
        """Yield the blocks of an assistant message to send, each with its place."""
        for number, block in enumerate(blocks):
            at = f".content[{number}]"
            if not isinstance(block, Opaque) or self.is_sendable(block, at):
                yield at, block

    def write_prompt(self, blocks: tuple[UserBlock, ...]) -> list[PartJson]:
        """Write the blocks of a user message or a tool result as parts."""
        if len(blocks) == 1 and isinstance(blocks[0], Text):  # nearly always
            return self.write_text(blocks[0], ".content[0]")
        parts: list[PartJson] = []
        for at, block in self.prompt_blocks(blocks):
            match block:
                case Text():
                    parts += self.write_text(block, at)
                case Image():
                    parts += self.write_image(block, at)
                case Opaque():
                    parts += self.write_opaque(block, at)
                case _:
                    assert_never(block)
        return parts

    def write_text(self, block: Text, at: str) -> list[PartJson]:
        """Write a text block of a user message or a tool result."""
        raise NotImplementedError

    def write_image(self, block: Image, at: str) -> list[PartJson]:
        """Write an image block; the result is empty if the protocol cannot send the image."""
        raise NotImplementedError

    def write_opaque(self, block: Opaque, at: str) -> list[PartJson]:
        """Write a block of this protocol that steno has no type for."""
        return [msgspec.Raw(block.raw.encode())]

    def is_sendable(self, block: Opaque, at: str) -> bool:
        """Return whether an opaque block can be sent.

        A block of another protocol is reported as a loss, and so is one whose text is not JSON: it
        would break the request, or replace other members of it.
        """
        if block.origin == self.target.api:
            if is_json_text(block.raw):
                return not block.kind.startswith(STREAM_EVENT_PREFIX)
            self.losses.note(ChangeCode.OPAQUE, "not_json", at=at, kind=block.kind)
            return False
        if block.is_empty_text:
            self.losses.note(ChangeCode.BLANK, "empty_text", at=at)
        else:
            origin = block.origin
            self.losses.note(ChangeCode.OPAQUE, "other_wire", at=at, value=origin, kind=block.kind)
        return False

    def write_reference(self, block: FileReference | Resource, at: str) -> Text | Opaque:
        """Return the text for an unresolved reference; a wire may return another block."""
        address = reference_address(block)
        if isinstance(block, Resource):
            if block.text is not None:  # in a tool result; see `_frame_resources`
                return Text(f"{block.uri}\n{block.text}", extras=block.extras)
            if block.data is not None:
                self.losses.note(
                    ChangeCode.REFERENCE, "resource_description", at=at, target=address
                )
                return binary_resource_note(block, len(block.data))
            self.losses.note(ChangeCode.REFERENCE, "resource_address", at=at, target=address)
            return link_note(block)
        self.losses.note(ChangeCode.REFERENCE, "file_name", at=at, target=address)
        lines = "" if block.start_line is None else f":{block.start_line}"
        lines += "" if block.end_line is None else f"-{block.end_line}"
        return Text(f"@{block.path}{lines}", extras=block.extras)

    # -- names, ids and arguments ------------------------------------------------------------

    def tool_name(self, tool: ToolDefinition, legal: re.Pattern[str], at: str = "") -> str:
        """Return the tool name to send: the name recorded for this wire, or else a legal name."""
        recorded: str | None = get_form(tool, self.target.api).get("name")
        return recorded or self._legal_name(tool, legal, at)

    def call_name(self, call: AnyToolCall, form: Members, legal: re.Pattern[str], at: str) -> Any:
        """Return the tool name to send for a call, valid or invalid."""
        if "name" in form:
            return form["name"]
        if isinstance(call, ToolCall):
            return self._legal_name(call, legal, at)
        if legal.fullmatch(call.name):
            return call.name
        self.losses.note(ChangeCode.TOOL_NAME, "renamed", at=at, value=_INVALID_CALL_NAME)
        return _INVALID_CALL_NAME

    def _legal_name(self, value: ToolCall | ToolDefinition, legal: re.Pattern[str], at: str) -> str:
        """Return the original tool name if the target allows it, else steno's name for the tool."""
        if value.original_name is None:
            return value.name
        if legal.fullmatch(value.original_name):
            return value.original_name
        self.losses.note(ChangeCode.TOOL_NAME, "renamed", at=at, value=value.name)
        return value.name

    def legal_id(self, id: str, legal: re.Pattern[str], *, length: int = 24) -> str:
        """Return the id to send: the id itself if `legal` matches it, else its hash."""
        if legal.fullmatch(id):
            return id
        # A hash, because replacing characters could make two ids equal.
        mapped = hashlib.sha256(id.encode()).hexdigest()[:length]
        self.losses.note(ChangeCode.CALL_ID, "replaced", value=mapped)
        return mapped

    def write_arguments(self, call: AnyToolCall, at: str) -> msgspec.Raw:
        """Return the arguments of a call as a JSON object.

        The text of invalid arguments becomes the only member of the object.
        """
        if isinstance(call, ToolCall):
            # The exact text of the model, since another order or spacing would miss prompt caches.
            return msgspec.Raw(call.arguments.encode())
        self.losses.note(
            ChangeCode.INVALID_CALL,
            "raw_text_as_only_argument",
            at=at,
            value=call.name,
            target=call.id,
        )
        return msgspec.Raw(encode_json({"invalid_arguments": call.arguments}))

    def write_recorded_arguments(self, call: AnyToolCall, form: str | None, at: str) -> Members:
        """Return the member `arguments` in its recorded form: absent, string, raw JSON or object.

        Raw JSON is a value that is not an object. A form of None means an object.
        """
        match form:
            case "absent":
                return {}
            case "string":
                return {"arguments": call.arguments}
            case "raw":
                return {"arguments": msgspec.Raw(call.arguments.encode())}
            case _:
                return {"arguments": self.write_arguments(call, at)}

    def note_unenforced_schema(self, tool: ToolDefinition, at: str) -> None:
        """Report a loss if the tool is strict, because the target does not enforce its schema."""
        if tool.strict:
            self.losses.note(ChangeCode.TOOL, "schema_not_enforced", at=at)


class MessageWriter(ValueWriter, ABC):
    """Writes messages in order; written bytes never change, since prompt caches depend on them."""

    def __init__(self, target: RequestTarget) -> None:
        super().__init__(target, ChangeCollector())
        self._written: list[bytes] = []
        self._latest: Members | None = None
        """The newest message, if later messages may still extend it."""
        self._previous: Message | None = None
        """The message that was added last."""

    def add(self, message: Message) -> None:
        """Write the next message."""
        match message:
            case SystemMessage():
                self._add_system(message)
            case UserMessage():
                first = message.content[0]
                if not isinstance(first, Opaque) or not self._is_whole(message, first):
                    self._add_user(_frame_resources(message))
                elif self.is_sendable(first, ".content[0]"):
                    self._add_raw(first.raw.encode())
            case AssistantMessage():
                self._add_assistant(message)
            case ToolResultMessage():
                self._add_result(message)
            case _:
                assert_never(message)
        self._previous = message

    @property
    def _follows_result(self) -> bool:
        return isinstance(self._previous, ToolResultMessage)

    def finish(self) -> bytes:
        """Return the JSON of all messages so far; more messages may be added later."""
        if len(self._written) > _MAX_PIECES:
            # Joining copies the whole conversation, so it is done rarely.
            self._written = [b",".join(self._written)]
        return b",".join([*self._written, *map(encode_json, self._unfinished())])

    def _unfinished(self) -> list[Members]:
        """Return the messages that later messages may still extend."""
        return [] if self._latest is None else [self._latest]

    def _is_whole(self, message: UserMessage, first: Opaque) -> bool:
        """Return whether the first block contains a whole message of this wire."""
        return first.kind == WHOLE_MESSAGE_KIND

    def _add_raw(self, message: Members | bytes) -> None:
        """Finish the previous message and add this one; bytes cannot be extended later."""
        if self._latest is not None:
            self._written.append(encode_json(self._latest))
            self._latest = None
        if isinstance(message, bytes):
            self._written.append(message)
        else:
            self._latest = message

    def _add_system(self, message: SystemMessage) -> None:
        self._add_prompt(message)

    def _add_user(self, message: UserMessage) -> None:
        self._add_prompt(message)

    def _add_prompt(self, message: SystemMessage | UserMessage) -> None:
        """Write a system or user message; for wires that write both in the same way."""
        raise NotImplementedError

    @abstractmethod
    def _add_assistant(self, message: AssistantMessage) -> None: ...

    @abstractmethod
    def _add_result(self, message: ToolResultMessage) -> None: ...


def _frame_resources(message: UserMessage) -> UserMessage:
    """Return the message with the text of each resource framed as information from the system.

    The context builder has done so for a message in a log.
    """
    if not any(isinstance(block, Resource) and block.text is not None for block in message.content):
        return message
    shown = [
        ShownBlocks((frame_resource(block),), is_replaced=True)
        if isinstance(block, Resource) and block.text is not None
        else ShownBlocks((block,), is_replaced=False)
        for block in message.content
    ]
    content: Any = tuple(join_shown_blocks(shown))  # a framed resource is a Text
    return replace(message, content=content)


class Encoder(ABC):
    """Encodes the requests of a conversation, and reuses the JSON of earlier messages.

    Use one encoder for each conversation and target. `encode` converts only the new messages.
    """

    def __init__(
        self, provider: str, api: str, new_writer: Callable[[RequestTarget], MessageWriter]
    ) -> None:
        """Set the provider whose seals are sent, the wire, and the class that writes messages."""
        self._provider = provider
        self._api = api
        self._new_writer = new_writer
        self._messages: tuple[Message, ...] = ()
        self._writer: MessageWriter | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages written so far; a request that begins with them reuses their JSON."""
        return () if self._writer is None else self._messages

    def encode(self, request: Request, *, stream: bool | None = None) -> EncodedRequest:
        """Return the body to send and its losses; `stream` requests a streamed response."""
        target = RequestTarget(self._provider, self._api, request.model)
        writer = self._write_new_messages(request, target)
        messages = writer.finish()
        values = ValueWriter(target, ChangeCollector())
        values.losses.place = "request"
        try:
            request = self._without_conflicting_extras(request, messages, values, stream=stream)
            body = self._body(request, messages, values, stream=stream)
        except _MALFORMED_NOTE_ERRORS:
            check_reserved_extras((request, *request.tools), self._api, at=values.losses.place)
            raise
        return EncodedRequest(body, (*values.losses.found, *writer.losses.found))

    @abstractmethod
    def _body(
        self, request: Request, messages: bytes, values: ValueWriter, *, stream: bool | None
    ) -> bytes:
        """Return the body with the encoded messages and all other members; see `join_body`."""

    def _without_conflicting_extras(
        self, request: Request, messages: bytes, values: ValueWriter, *, stream: bool | None
    ) -> Request:
        """Return the request without extras for `model`, `tools`, `stream` and the messages.

        An extra is removed only if the encoder itself writes a member of that name. Each wire
        merges the extras for other settings, because only the wire defines their names.
        """
        extras, holder = get_extras(request, self._api), messages_field(self._api)
        written: Members = {} if stream is None else {"stream": stream}
        if request.model:
            written["model"] = request.model
        if messages or get_form(request, self._api).get(holder) != "absent":
            written[holder] = _ALWAYS_WRITTEN
        if request.tools and not isinstance(extras.get("tools"), list):
            written["tools"] = _ALWAYS_WRITTEN  # a list is merged with the tools of the request
        if written.keys().isdisjoint(extras):
            return request
        note_conflicting_extras(written, extras, values.losses)
        kept = {name: member for name, member in extras.items() if name not in written}
        return replace_extras(request, self._api, kept)

    def _write_new_messages(self, request: Request, target: RequestTarget) -> MessageWriter:
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


def join_body(members: Members, name: str, *messages: bytes) -> bytes:
    """Return a body with the messages last, so that the next body begins with the same bytes."""
    comma = b"," if members else b""
    return b"".join([encode_json(members)[:-1], comma, f'"{name}":'.encode(), *messages, b"}"])


_MESSAGES_FIELDS: Final = {"gemini": "contents", "openai_responses": "input"}


def messages_field(wire: str) -> str:
    """Return the name of the body member that contains the messages."""
    return _MESSAGES_FIELDS.get(wire, "messages")


# -- settings and tools ----------------------------------------------------------------------


def drop_none(**members: Any) -> Members:
    """Return the keyword arguments that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def write_tools(
    request: Request, extras: Members, write: Callable[[ToolDefinition, str], Any]
) -> Members:
    """Return the member `tools`, with the tools of the extras at their recorded positions.

    Tools without a recorded position, which a caller added to the extras, are last.
    """
    if not request.tools and "tools" not in extras:
        return {}
    tools = [write(tool, f".tools[{number}]") for number, tool in enumerate(request.tools)]
    others = extras.pop("tools", None)
    if not isinstance(others, list):
        return {"tools": tools or others}
    for other in others:
        match other:
            case [int(position), tool]:
                tools.insert(position, tool)
            case _:
                tools.append(other)
    return {"tools": tools}


def write_tool_choice(request: Request, named: Callable[[ToolDefinition], Any]) -> Members:
    """Return the member `tool_choice`, if set; `named` writes the choice of a single tool."""
    choice = request.tool_choice
    for tool in request.tools:
        if tool.name == choice:
            return {"tool_choice": named(tool)}
    return drop_none(tool_choice=choice)


def write_schema(tool: ToolDefinition) -> Members:
    """Return the JSON schema of a tool's parameters."""
    return raw_members(as_json_object(tool.parameters))


def write_function(tool: ToolDefinition, name: str) -> Members:
    """Return the function of a tool: the name to send, description and parameters."""
    return {"name": name, "description": tool.description, "parameters": write_schema(tool)}


def wrap_function(function: Members) -> Members:
    """Wrap a function in a tool of the type `function`."""
    return {"type": "function", "function": function}


# -- calls and blocks ------------------------------------------------------------------------


@final
class AnonymousCalls:
    """Calls that are sent without an id, so that the target matches results by name and order.

    Ollama before 0.12.10 sends no ids, and Gemini may omit ids.
    """

    def __init__(self, losses: ChangeCollector) -> None:
        """Start without calls; `losses` collects results that the target would match wrongly."""
        self._losses = losses
        self._names: dict[str, str] = {}
        self._waiting: dict[str, dict[str, None]] = {}

    def add_call(self, id: str, name: str) -> None:
        """Add a call that is sent without its id."""
        self._names[id] = name
        self._waiting.setdefault(name, {})[id] = None

    def add_result(self, id: str) -> None:
        """Add a result; report a loss if an earlier call of the same tool has no result yet."""
        name = self._names.pop(id, None)
        if name is None:
            return
        waiting = self._waiting[name]
        if next(iter(waiting)) != id:
            self._losses.note(ChangeCode.ORDER, "taken_for_earlier_result", value=name)
        del waiting[id]


def expand_content(content: str | list[PartJson]) -> list[PartJson]:
    """Return content as a list of parts; a string becomes one text part."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def get_plain_text(parts: list[PartJson]) -> str | None:
    """Return the text of content that is a single plain text; None for other content."""
    only = parts[0] if len(parts) == 1 else None
    is_plain = isinstance(only, dict) and only.keys() == {"type", "text"}
    return str(only["text"]) if is_plain and isinstance(only, dict) else None


def image_url(image: Image) -> str | None:
    """Return the URL of an image, a `data:` URL for bytes in memory; None for a blob or a file."""
    match image.source:
        case ImageData():
            return f"data:{image.mime_type};base64,{base64.b64encode(image.source.data).decode()}"
        case ImageUrl():
            return image.source.url
        case ImageBlob() | ImageFile():
            return None
