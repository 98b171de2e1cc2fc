"""Encode requests for the chat API of Ollama.

A message is one text, with thinking, images and calls in members of their own. Their order cannot
be written: the server puts images before the text and calls after it, and another order is
reported. The server also reads a schema into fields of its own and drops keywords that it has no
field for. They are sent all the same, since newer servers know more of them, and reported.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final, assert_never, final

from msgspec import Raw

from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall
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
    Text,
    Thinking,
)
from steno.messages.message import (
    AssistantMessage,
    SystemMessage,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.wire.extras import FORM_KEY, merge_extras, pop_form, pop_object, select_extras
from steno.wire.ollama_chat.payload import NAME, OPAQUE_IMAGE_KIND, PROVIDER
from steno.wire.report import ChangeCollector, EncodedRequest
from steno.wire.request_encoder import (
    ANY_NAME,
    WHOLE_MESSAGE_KIND,
    AnonymousCalls,
    MessageListWriter,
    MessageWriter,
    RequestTarget,
    call_name,
    encode_json,
    is_sendable,
    reference_text,
    wire_name,
    write_arguments,
)
from steno.wire.request_encoder import Encoder as BaseEncoder
from steno.wire.tools_and_settings import drop_none, wrap_function, write_function, write_tools

_TEXT_SEPARATOR: Final = "\n\n"
"""Between the texts of a user or a tool; those of a model are pieces of one text."""
_ANNOTATION_KEYWORDS: Final = frozenset({"$schema", "$id", "$comment", "title"})
"""Keywords without an effect on the model."""
_TOP_LEVEL_KEYWORDS: Final = (
    frozenset({"type", "$defs", "items", "required", "properties"}) | _ANNOTATION_KEYWORDS
)
_PROPERTY_KEYWORDS: Final = _ANNOTATION_KEYWORDS | frozenset(
    {"anyOf", "type", "items", "description", "enum", "properties", "required"}
)
_THINKING_POSITION: Final = 0
_IMAGES_POSITION: Final = 1
_TEXT_POSITION: Final = 2
_CALLS_POSITION: Final = 3


def encode_request(request: Request, *, stream: bool | None = None) -> EncodedRequest:
    """Encode one request; an `Encoder` does the same for every turn of a conversation.

    The server streams unless `stream` is False.
    """
    return Encoder().encode(request, stream=stream)


@final
class Encoder(BaseEncoder):
    """Encodes the requests of a conversation, each message once."""

    def _target(self, request: Request) -> RequestTarget:
        return RequestTarget(PROVIDER, NAME, request.model)

    def _new_writer(self, target: RequestTarget) -> MessageWriter:
        return _OllamaMessageWriter(target)

    def _body(
        self, request: Request, messages: bytes, losses: ChangeCollector, *, stream: bool | None
    ) -> bytes:
        members = _write_settings(request, losses)
        if stream is not None:
            members["stream"] = stream
        # Messages last: the body of the next turn then begins with the bytes of this one.
        head = encode_json(members)[:-1]
        return b"".join([head, b"," if members else b"", b'"messages":[', messages, b"]}"])


def _write_settings(request: Request, losses: ChangeCollector) -> dict[str, Any]:
    extras = select_extras(request, NAME, losses)
    extras.pop(FORM_KEY, None)
    members = drop_none(model=request.model or None)
    members |= write_tools(request, extras, lambda tool, at: _write_tool(tool, losses, at))
    if request.tool_choice not in (None, "auto"):
        losses.note(ChangeCode.SETTING, "tool_choice_left_out")
    options = drop_none(
        num_predict=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop=list(request.stop) or None,
    )
    if options and isinstance(extras.get("options"), dict):
        options = merge_extras(options, extras.pop("options"), losses, at=".options")
    return merge_extras(members | drop_none(options=options or None), extras, losses)


def _write_tool(tool: ToolDefinition, losses: ChangeCollector, at: str) -> dict[str, Any]:
    """Write a definition, and note the keywords that the server ignores."""
    extras = select_extras(tool, NAME, losses, at=at)
    form = pop_form(extras)
    function = write_function(tool, wire_name(tool, ANY_NAME, losses, at=at))
    ignored = sorted(set(_find_ignored_keywords(function["parameters"], _TOP_LEVEL_KEYWORDS)))
    function = {name: value for name, value in function.items() if form.get(name) != "absent"}
    if ignored:
        losses.note(ChangeCode.TOOL, "keywords_ignored", at=at, names=tuple(ignored))
    return wrap_function(function | pop_object(extras, "function")) | extras


def _find_ignored_keywords(schema: object, known: frozenset[str]) -> Iterator[str]:
    """Return the keywords without effect; `$defs` and `items` reach the model as they are."""
    if not isinstance(schema, Mapping):
        return
    yield from schema.keys() - known
    properties, choices = schema.get("properties"), schema.get("anyOf")
    for inner in properties.values() if isinstance(properties, Mapping) else ():
        yield from _find_ignored_keywords(inner, _PROPERTY_KEYWORDS)
    for inner in choices if isinstance(choices, list) and "anyOf" in known else ():
        yield from _find_ignored_keywords(inner, _PROPERTY_KEYWORDS)


# -- messages --------------------------------------------------------------------------------------


@final
class _OllamaMessageWriter(MessageListWriter):
    """Writes one object for each message."""

    def __init__(self, target: RequestTarget) -> None:
        super().__init__(target)
        self._names: dict[str, tuple[str, str]] = {}
        """By the id of a call: the name of its tool in the log, and the one that was sent."""
        self._generated_ids: set[str] = set()
        """Ids that steno made up, and that are not sent."""
        self._anonymous_calls = AnonymousCalls(self.losses)

    def _add_prompt(self, message: SystemMessage | UserMessage) -> None:
        first = message.content[0]
        if isinstance(first, Opaque) and first.kind == WHOLE_MESSAGE_KIND:
            if is_sendable(first, NAME, self.losses, at=".content[0]"):
                self._written.append(first.raw.encode())
            return
        extras = select_extras(message, NAME, self.losses)
        form = pop_form(extras)
        parts = MessageParts(self.losses, _TEXT_SEPARATOR)
        for number, block in enumerate(message.content):
            parts.add(block, f".content[{number}]")
        self._write({"role": message.role.value}, parts.members(form), extras)

    def _add_assistant(self, message: AssistantMessage) -> None:
        extras = select_extras(message, NAME, self.losses)
        form = pop_form(extras)
        parts = MessageParts(self.losses, "")
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            match block:
                case Thinking():
                    parts.add_thinking(block, at)
                case ToolCall() | InvalidToolCall():
                    parts.note_seal_loss(block, at)
                    parts.add_call(self._write_call(block, at))
                case Text() | Image() | Opaque():
                    parts.add(block, at)
                case _:
                    assert_never(block)
        self._write({"role": "assistant"}, parts.members(form), extras)

    def _write_call(self, call: AnyToolCall, at: str) -> dict[str, Any]:
        extras = select_extras(call, NAME, self.losses, at=at)
        form = pop_form(extras)
        name: str = (
            form["name"] if "name" in form else call_name(call, ANY_NAME, self.losses, at=at)
        )
        self._names[call.id] = (call.name, name)
        function: dict[str, Any] = {
            "name": name,
            **write_arguments(call, form.get("arguments"), self.losses, at=at),
        }
        if "index" in form:
            function["index"] = form["index"]
        members: dict[str, Any] = {"id": call.id}
        if form.get("id") == "absent":
            self._generated_ids.add(call.id)
            self._anonymous_calls.add_call(call.id, name)
            members = {}
        if "type" in form:
            members["type"] = form["type"]
        inner = merge_extras(function, pop_object(extras, "function"), self.losses, at=at)
        return merge_extras(members | {"function": inner}, extras, self.losses, at=at)

    def _add_result(self, message: ToolResultMessage) -> None:
        extras = select_extras(message, NAME, self.losses)
        form = pop_form(extras)
        members: dict[str, Any] = {"role": "tool"}
        id = message.tool_call_id
        self._anonymous_calls.add_result(id)
        name = form.get("tool_name") or self._tool_name(message)
        if name and name != "absent":
            members["tool_name"] = name
        if form.get("tool_call_id") != "absent" and id not in self._generated_ids:
            members["tool_call_id"] = id
        parts = MessageParts(self.losses, _TEXT_SEPARATOR)
        for number, block in enumerate(message.content):
            parts.add(block, f".content[{number}]")
        if message.is_error:
            self.losses.note(ChangeCode.OUTCOME, "not_sent", value=message.outcome.value)
        otherwise = message.outcome.value if message.is_error else ""
        self._write(members, parts.members(form, otherwise=otherwise), extras)

    def _tool_name(self, message: ToolResultMessage) -> str:
        """Return the name that the server has for the tool."""
        ours, theirs = self._names.get(message.tool_call_id, ("", ""))
        return theirs if message.tool_name in ("", ours) else message.tool_name

    def _write(self, *members: dict[str, Any]) -> None:
        written: dict[str, Any] = {}
        for some in members:
            written |= some
        self._written.append(encode_json(written))


# -- parts of a message ----------------------------------------------------------------------------


@final
class MessageParts:
    """Collects the parts of one message, block by block."""

    def __init__(self, losses: ChangeCollector, separator: str) -> None:
        """Start empty. `separator` stands between two texts that are joined."""
        self._losses = losses
        self._separator = separator
        self._texts: list[str] = []
        self._thinking: list[str] = []
        self._images: list[str | Raw] = []
        self._calls: list[dict[str, Any]] = []
        self._latest_position = _THINKING_POSITION
        self._is_reordered = False

    def add(self, block: UserBlock, at: str) -> None:
        """Add a block of a user or a tool."""
        match block:
            case Text():
                self.add_text(block, at)
            case Image():
                self.add_image(block, at)
            case FileReference() | Resource():
                self._note_position(_TEXT_POSITION)
                self._note_extras_loss(block, at)
                self._texts.append(reference_text(block, self._losses, at=at))
            case Opaque():
                self.add_opaque(block, at)
            case _:
                assert_never(block)

    def add_text(self, block: Text, at: str) -> None:
        """Add a text."""
        self._note_position(_TEXT_POSITION)
        self.note_seal_loss(block, at)
        self._note_extras_loss(block, at)
        self._texts.append(block.text)

    def add_thinking(self, block: Thinking, at: str) -> None:
        """Add thinking, of this model or another: the server takes both."""
        self._note_position(_THINKING_POSITION)
        self.note_seal_loss(block, at)
        self._note_extras_loss(block, at)
        self._thinking.append(block.text)

    def add_image(self, block: Image, at: str) -> None:
        """Add an image, if it holds its bytes."""
        match block.source:
            case ImageData():
                self._note_position(_IMAGES_POSITION)
                self._note_extras_loss(block, at)
                self._images.append(base64.b64encode(block.source.data).decode())
            case ImageUrl():
                self._losses.note(ChangeCode.IMAGE, "not_fetched", at=at)
            case ImageBlob() | ImageFile():
                self._losses.note(ChangeCode.IMAGE, "bytes_required", at=at)
            case _:
                assert_never(block.source)

    def add_opaque(self, block: Opaque, at: str) -> None:
        """Add an opaque block: an image in an unknown format is sent."""
        if not is_sendable(block, NAME, self._losses, at=at):
            return
        if block.kind == OPAQUE_IMAGE_KIND:
            self._note_position(_IMAGES_POSITION)
            self._images.append(Raw(block.raw.encode()))
        else:
            self._losses.note(ChangeCode.OPAQUE, "no_place_in_message", at=at)

    def add_call(self, call: dict[str, Any]) -> None:
        """Add a call that is written."""
        self._note_position(_CALLS_POSITION)
        self._calls.append(call)

    def members(self, form: dict[str, Any], *, otherwise: str = "") -> dict[str, Any]:
        """Return the members of a message, and note what was moved or joined.

        `form` has the form of a message without text; `otherwise` is the text if there is none.
        """
        if self._is_reordered:
            self._losses.note(ChangeCode.ORDER, "parts_reordered")
        if len(self._texts) > 1:
            self._losses.note(ChangeCode.ORDER, "texts_joined")
        members: dict[str, Any] = {}
        text = self._separator.join(self._texts) or otherwise
        if text or "content" not in form:
            members["content"] = text
        elif form["content"] == "null":
            members["content"] = None
        thinking = "".join(self._thinking)
        if thinking:
            members["thinking"] = thinking
        if self._images:
            members["images"] = self._images
        if self._calls:
            members["tool_calls"] = self._calls
        return members

    def note_seal_loss(self, block: Text | Thinking | AnyToolCall, at: str) -> None:
        """Note that a seal is left out: the server has none."""
        if block.seal is not None:
            self._losses.note(ChangeCode.SEAL, "other_model", at=at)

    def _note_extras_loss(self, block: UserBlock | Thinking, at: str) -> None:
        if select_extras(block, NAME, self._losses, at=at):
            self._losses.note(ChangeCode.EXTRAS, "no_place_in_blocks", at=at)

    def _note_position(self, place: int) -> None:
        """Note whether a part follows one that the server puts after it."""
        self._is_reordered = self._is_reordered or place < self._latest_position
        self._latest_position = max(place, self._latest_position)
