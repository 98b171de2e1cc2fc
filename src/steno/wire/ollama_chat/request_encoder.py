"""Encode requests for the chat API of Ollama.

A message is one text, with thinking, images and calls in separate members. Their order cannot be
expressed: the server puts images before the text and calls after it. Blocks in another order are
reported as a loss. The server parses a schema into fixed fields and drops other keywords. Such
keywords are sent nevertheless, since newer servers may know them, and reported.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, assert_never, final

from msgspec import Raw

from steno.messages.call import AnyToolCall
from steno.messages.change import ChangeCode
from steno.messages.content import (
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    Opaque,
    Text,
    Thinking,
)
from steno.messages.message import AssistantMessage, SystemMessage, ToolResultMessage, UserMessage
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.wire import request_encoder as base
from steno.wire.extras import Members, pop_object
from steno.wire.ollama_chat.payload import NAME, OPAQUE_IMAGE_KIND, PROVIDER
from steno.wire.request_encoder import RequestTarget, ValueWriter

_TEXT_SEPARATOR: Final = "\n\n"
"""Separates the texts of a prompt or tool result; the texts of a model are joined without it."""
_ANNOTATION_KEYWORDS: Final = frozenset({"$schema", "$id", "$comment", "title"})
"""Schema keywords that have no effect on the model."""
# The fields of the server's Go types, at the top of a schema and in its properties.
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


def encode_request(request: Request, *, stream: bool | None = None) -> base.EncodedRequest:
    """Encode one request; use an `Encoder` for the successive requests of a conversation.

    The server streams unless `stream` is False.
    """
    return Encoder().encode(request, stream=stream)


@final
class Encoder(base.Encoder):
    """Encodes the successive requests of a conversation; each message is encoded only once."""

    def __init__(self) -> None:
        super().__init__(PROVIDER, NAME, _OllamaMessageWriter)

    def _body(
        self, request: Request, messages: bytes, values: ValueWriter, *, stream: bool | None
    ) -> bytes:
        extras, _ = values.read_extras(request)
        members = base.drop_none(model=request.model or None)
        members |= base.write_tools(request, extras, lambda tool, at: _write_tool(tool, values, at))
        if request.tool_choice not in (None, "auto"):  # the API has no tool_choice
            values.losses.note(ChangeCode.SETTING, "tool_choice_left_out")
        options = base.drop_none(
            num_predict=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            stop=list(request.stop) or None,
        )
        if options and isinstance(extras.get("options"), dict):
            options = values.merge(options, extras.pop("options"), ".options")
        members = values.merge(members | base.drop_none(options=options or None), extras)
        return base.join_body(
            members | base.drop_none(stream=stream), "messages", b"[", messages, b"]"
        )


def _write_tool(tool: ToolDefinition, values: ValueWriter, at: str) -> Members:
    """Write a tool definition; report the schema keywords that the server ignores as a loss."""
    extras, form = values.read_extras(tool, at)
    function = base.write_function(tool, values.tool_name(tool, base.ANY_NAME, at))
    ignored = sorted(set(_find_ignored_keywords(function["parameters"], _TOP_LEVEL_KEYWORDS)))
    function = {name: value for name, value in function.items() if form.get(name) != "absent"}
    if ignored:
        values.losses.note(ChangeCode.TOOL, "keywords_ignored", at=at, names=tuple(ignored))
    return base.wrap_function(function | pop_object(extras, "function")) | extras


def _find_ignored_keywords(schema: object, known: frozenset[str]) -> Iterator[str]:
    """Yield the keywords of a schema that the server ignores, including those in its properties.

    `$defs` and `items` are not searched, because the server passes them on unchanged.
    """
    if not isinstance(schema, Mapping):
        return
    yield from schema.keys() - known
    properties, choices = schema.get("properties"), schema.get("anyOf")
    for inner in properties.values() if isinstance(properties, Mapping) else ():
        yield from _find_ignored_keywords(inner, _PROPERTY_KEYWORDS)
    for inner in choices if isinstance(choices, list) and "anyOf" in known else ():
        yield from _find_ignored_keywords(inner, _PROPERTY_KEYWORDS)


@final
class _OllamaMessageWriter(base.MessageWriter):
    """Writes one object for each message."""

    def __init__(self, target: RequestTarget) -> None:
        super().__init__(target)
        self._names: dict[str, tuple[str, str]] = {}
        """By call id, the tool name of the call in the log and the tool name that was sent."""
        self._generated_ids: set[str] = set()
        """Call ids that steno generated, which are not sent."""
        self._anonymous_calls = base.AnonymousCalls(self.losses)

    def _add_prompt(self, message: SystemMessage | UserMessage) -> None:
        extras, form = self.read_extras(message)
        parts = self._new_parts(_TEXT_SEPARATOR, self.prompt_blocks(message.content))
        self._written.append(
            base.encode_json({"role": message.role.value} | parts.members(form) | extras)
        )

    def _add_assistant(self, message: AssistantMessage) -> None:
        extras, form = self.read_extras(message)
        parts = self._new_parts("", self.model_blocks(message.content))
        self._written.append(base.encode_json({"role": "assistant"} | parts.members(form) | extras))

    def _new_parts(
        self, separator: str, blocks: Iterable[tuple[str, base.ModelBlock]]
    ) -> _MessageParts:
        parts = _MessageParts(self, separator)
        for at, block in blocks:
            if isinstance(block, AnyToolCall):
                self.note_foreign_seal(block, at)
                parts.add_call(self._write_call(block, at))
            else:
                parts.add(block, at)
        return parts

    def _write_call(self, call: AnyToolCall, at: str) -> Members:
        extras, form = self.read_extras(call, at)
        name = self.call_name(call, form, base.ANY_NAME, at)
        self._names[call.id] = (call.name, name)
        function: Members = {
            "name": name,
            **self.write_recorded_arguments(call, form.get("arguments"), at),
        }
        if "index" in form:
            function["index"] = form["index"]
        members: Members = {"id": call.id}
        if form.get("id") == "absent":
            self._generated_ids.add(call.id)
            self._anonymous_calls.add_call(call.id, name)
            members = {}
        if "type" in form:
            members["type"] = form["type"]
        inner = self.merge(function, pop_object(extras, "function"), at)
        return self.merge(members | {"function": inner}, extras, at)

    def _add_result(self, message: ToolResultMessage) -> None:
        extras, form = self.read_extras(message)
        members: Members = {"role": "tool"}
        id = message.tool_call_id
        self._anonymous_calls.add_result(id)
        # The server pairs a result with its call by the name of the tool, as it was sent.
        ours, theirs = self._names.get(id, ("", ""))
        sent = theirs if message.tool_name in ("", ours) else message.tool_name
        name = form.get("tool_name") or sent
        if name and name != "absent":
            members["tool_name"] = name
        if form.get("tool_call_id") != "absent" and id not in self._generated_ids:
            members["tool_call_id"] = id
        parts = self._new_parts(_TEXT_SEPARATOR, self.prompt_blocks(message.content))
        if message.is_error:
            self.losses.note(ChangeCode.OUTCOME, "not_sent", value=message.outcome.value)
        default = message.outcome.value if message.is_error else ""
        content = parts.members(form, default_text=default)
        self._written.append(base.encode_json(members | content | extras))


@final
class _MessageParts:
    """Collects the parts of one message, block by block."""

    def __init__(self, values: ValueWriter, separator: str) -> None:
        """Start without parts; `separator` is inserted between texts."""
        self._values = values
        self._losses = values.losses
        self._separator = separator
        self._texts: list[str] = []
        self._thinking: list[str] = []
        self._images: list[str | Raw] = []
        self._calls: list[Members] = []
        self._latest_position = _THINKING_POSITION
        self._is_reordered = False

    def add(self, block: Text | Thinking | Image | Opaque, at: str) -> None:
        """Add a block that is not a call.

        Thinking of other models is also added, because the server accepts it.
        """
        match block:
            case Text():
                self._note_position(_TEXT_POSITION)
                self._values.note_foreign_seal(block, at)
                self._note_extras_loss(block, at)
                self._texts.append(block.text)
            case Thinking():
                self._note_position(_THINKING_POSITION)
                self._values.note_foreign_seal(block, at)
                self._note_extras_loss(block, at)
                self._thinking.append(block.text)
            case Image():
                self._add_image(block, at)
            case Opaque(kind=kind) if kind == OPAQUE_IMAGE_KIND:
                self._note_position(_IMAGES_POSITION)
                self._images.append(Raw(block.raw.encode()))
            case Opaque():
                self._losses.note(ChangeCode.OPAQUE, "no_place_in_message", at=at, kind=block.kind)
            case _:
                assert_never(block)

    def _add_image(self, block: Image, at: str) -> None:
        """Add an image whose bytes are in memory; report any other image as a loss."""
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

    def add_call(self, call: Members) -> None:
        """Add a call that is already converted to JSON."""
        self._note_position(_CALLS_POSITION)
        self._calls.append(call)

    def members(self, form: Members, *, default_text: str = "") -> Members:
        """Return the members of a message; report parts that were moved or joined as losses.

        `form` has the notes on how a message without text was recorded. `default_text` is used if
        the message has no text.
        """
        if self._is_reordered:
            self._losses.note(ChangeCode.ORDER, "parts_reordered")
        if len(self._texts) > 1:
            self._losses.note(ChangeCode.ORDER, "texts_joined")
        members: Members = {}
        text = self._separator.join(self._texts) or default_text
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

    def _note_extras_loss(self, block: Text | Thinking | Image, at: str) -> None:
        if base.select_extras(block, NAME, self._losses, at=at):
            self._losses.note(ChangeCode.EXTRAS, "no_place_in_blocks", at=at)

    def _note_position(self, place: int) -> None:
        """Record whether the server will move this part before an earlier part."""
        self._is_reordered = self._is_reordered or place < self._latest_position
        self._latest_position = max(place, self._latest_position)
