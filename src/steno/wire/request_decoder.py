"""The base classes and functions of all request decoders.

A decoder takes the members of a JSON object one by one; the remaining members become extras. OpenAI
and Ollama define a tool as a function with a name, a description and parameters, with or without
an object with `type` and `function` around it. If a protocol allows several forms of a value, the
decoder notes the recorded form, so that the encoder can reproduce it.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, final

import msgspec
from msgspec import Raw

from steno.errors import InvalidRequest, InvalidTool, InvalidValue
from steno.json_object import is_json_text, replace_lone_surrogate_escapes
from steno.messages.call import AnyToolCall, InvalidToolCall, build_call, map_tool_name
from steno.messages.content import EMPTY_TEXT_KIND, Image, ImageData, ImageUrl, Opaque, Text
from steno.messages.message import Message, UserMessage
from steno.messages.request import MAX_TEMPERATURE
from steno.messages.tool import ToolDefinition
from steno.schema import close_objects
from steno.values import FORM_KEY
from steno.wire.extras import Members
from steno.wire.request_encoder import WHOLE_MESSAGE_KIND
from steno.wire.tolerant import (
    DECODE_ERRORS,
    NULL,
    DecodeProblem,
    decode_elements,
    decode_members,
    explain_decode_error,
    raw_text,
)

T = TypeVar("T")
B = TypeVar("B")

_TOOL_CHOICES: Final = ("auto", "none", "required")
_UTF16_BOMS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The byte order marks of UTF-16; UTF-32 starts with one of them or with zero bytes."""
_LONE_SURROGATE: Final = DecodeProblem(
    "lone_surrogate", r"the JSON contains a lone surrogate; replace it, for example with \ufffd"
)
_ASCII_ESCAPE: Final = re.compile(r"\\u00([0-7][0-9A-Fa-f])")


class ObjectMembers:
    """The members of a JSON object; members that are not taken become extras."""

    def __init__(self, data: bytes | str | Raw, place: str) -> None:
        """Decode a JSON object. Raises InvalidRequest, with this place, for any other data."""
        data = data if isinstance(data, Raw) else strip_bom(data, place)
        try:
            self.raw: str = data if isinstance(data, str) else raw_text(data)
            self._remaining = decode_members(data)
        except DECODE_ERRORS as exc:
            raise _build_invalid_json(exc, data, place) from None
        self._place = place
        self.form: Members = {}
        """Notes on the recorded form of the value."""

    def __contains__(self, name: str) -> bool:
        return name in self._remaining

    def peek(self, name: str, hint: type[T]) -> T | None:
        """Return a member if it has the type `hint`, without taking it; else None."""
        text = self._remaining.get(name)
        if text is None:
            return None
        try:
            return msgspec.json.decode(text, type=hint)
        except DECODE_ERRORS:
            return None

    def take(self, name: str, hint: type[T]) -> T | None:
        """Take and return a member if it has the type `hint`; else return None.

        A member of another type is not taken, so it becomes an extra.
        """
        value = self.peek(name, hint)
        if value is not None:
            del self._remaining[name]
        return value

    def take_nonempty(self, name: str, hint: type[T]) -> T | None:
        """Take and return a nonempty member of the type `hint`; else return None.

        Any other member is not taken, so it becomes an extra.
        """
        return self.take(name, hint) if self.peek(name, hint) else None

    def take_list(self, name: str) -> list[Raw] | None:
        """Take an array, and return its elements as JSON text; None if it is not an array."""
        return self.take(name, list[Raw])

    def put_back(self, name: str, value: object) -> None:
        """Put back a value that could not be used, so that it becomes an extra."""
        self._remaining[name] = Raw(msgspec.json.encode(value))

    def note_form(self, name: str, value: object) -> None:
        """Add a note on the recorded form, so that the encoder can reproduce it."""
        self.form[name] = value

    def keep_rest(self, name: str, inner: ObjectMembers, *, is_empty_kept: bool = False) -> None:
        """Put back the remaining members of an inner object, as the member `name`.

        If there are none, an empty object is put back only if `is_empty_kept`.
        """
        left = inner.remaining()
        if left or is_empty_kept:
            self.put_back(name, left)

    def extras(self, wire: str) -> dict[str, Members] | None:
        """Return the remaining members and the notes as extras; None if there are none."""
        found = self.remaining() | ({FORM_KEY: self.form} if self.form else {})
        return {wire: found} if found else None

    def remaining(self) -> Members:
        """Return the members that were not taken.

        Raises InvalidRequest if a member cannot be decoded or its name is reserved for steno.
        """
        if FORM_KEY in self._remaining:
            raise InvalidRequest(
                f"the member name {FORM_KEY} is reserved for steno",
                code="reserved_name",
                place=self._place,
            )
        try:
            return {name: msgspec.json.decode(text) for name, text in self._remaining.items()}
        except DECODE_ERRORS as exc:
            code, message = explain_decode_error(exc)
            raise InvalidRequest(message, code=code, place=self._place) from None


def read_elements(data: bytes | str | Raw, place: str) -> list[Raw]:
    """Return the elements of an array as JSON text. Raises InvalidRequest for any other data."""
    try:
        return decode_elements(data)
    except DECODE_ERRORS as exc:
        raise _build_invalid_json(exc, data, place) from None


def strip_bom(data: bytes | str, place: str) -> bytes | str:
    """Return recorded JSON without a byte order mark.

    Raises InvalidRequest if `data` is neither str nor bytes.
    """
    if isinstance(data, bytes):
        return data.removeprefix(codecs.BOM_UTF8)
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    kind = type(data).__name__
    raise InvalidRequest(
        f"must be JSON as str or bytes, not {kind}; pass json.dumps(...)",
        code="not_json_text",
        place=place,
    )


def take_messages(body: ObjectMembers, name: str = "messages") -> list[Raw]:
    """Take the messages of a request. Raises InvalidRequest if they are missing or not a list."""
    found = body.take_list(name)
    if found is None:
        raise InvalidRequest(f"{name} must be a list", code="messages_missing", place="request")
    return found


def _build_invalid_json(exc: Exception, data: bytes | str | Raw, place: str) -> InvalidRequest:
    code, message = _explain_invalid_json(exc, data)
    return InvalidRequest(message, code=code, place=place)


def _explain_invalid_json(exc: Exception, data: bytes | str | Raw) -> DecodeProblem:
    """Return the reason why recorded JSON could not be decoded.

    Lone surrogates are detected here, because msgspec reports them with several messages.
    """
    if isinstance(data, str):
        if isinstance(exc, UnicodeError):
            return _LONE_SURROGATE
        data = data.encode()
    data = bytes(data)
    if data.startswith(_UTF16_BOMS) or b"\0" in data[:4]:
        return DecodeProblem("utf16_document", "the text is UTF-16 or UTF-32; save it as UTF-8")
    if not data.strip():
        return DecodeProblem("empty_document", "invalid JSON: the input is empty")
    if type(exc) is msgspec.DecodeError:
        repaired, count = replace_lone_surrogate_escapes(data)
        if count and is_json_text(repaired.decode(errors="replace")):
            return _LONE_SURROGATE
    return explain_decode_error(exc)


# -- messages --------------------------------------------------------------------------------


def read_messages(
    raws: list[Raw], wire: str, read: Callable[[ObjectMembers], Message | None]
) -> tuple[Message, ...]:
    """Read messages; one that `read` rejects becomes a user message with an opaque block."""
    found: list[Message] = []
    for number, raw in enumerate(raws):
        members = ObjectMembers(raw, f"messages[{number}]")
        try:
            message = read(members)
        except InvalidValue:
            message = None
        found.append(message or build_opaque_message(members.raw, wire))
    return tuple(found)


def build_opaque_message(raw: str, wire: str) -> UserMessage:
    """Build a user message with an opaque block, for a message that steno has no type for.

    Only the encoder of `wire` sends it.
    """
    return UserMessage((Opaque(kind=WHOLE_MESSAGE_KIND, raw=raw, origin=wire),))


@final
class CallIdGenerator:
    """Generates deterministic ids, which do not occur in the request, for calls without an id."""

    def __init__(self, request: bytes | str, prefix: str) -> None:
        """Set the JSON of the request, and the prefix of the generated ids."""
        self._request = request
        self._prefix = prefix
        self._count = 0
        self._taken: frozenset[str] | None = None
        """The strings in the request that look like generated ids; None before the first search."""

    def make(self) -> str:
        """Return a new id."""
        if self._taken is None:
            data = self._request
            text = data if isinstance(data, str) else data.decode(errors="replace")
            # JSON may write any character of an id as an escape.
            text = _ASCII_ESCAPE.sub(lambda match: chr(int(match.group(1), 16)), text)
            self._taken = frozenset(re.findall(rf'"({re.escape(self._prefix)}\d+)"', text))
        while True:
            self._count += 1
            id = f"{self._prefix}{self._count}"
            if id not in self._taken:
                return id


# -- blocks ----------------------------------------------------------------------------------


def read_image_url(url: str) -> Image | None:
    """Build an image from its URL; None if the encoder would not write the same URL."""
    if url.startswith(("https://", "http://")):
        return Image(source=ImageUrl(url))
    head, _, data = url.partition(";base64,")
    mime_type = head.removeprefix("data:")
    if mime_type == head or not mime_type.startswith("image/"):
        return None
    found = read_base64(data)
    return Image(source=ImageData(found), mime_type=mime_type) if found else None


def read_base64(text: str) -> bytes | None:
    """Decode base64; None if it is invalid, or if the encoder would not write the same text."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


def take_content(
    members: ObjectMembers, read: Callable[[Raw], B], name: str = "content"
) -> tuple[B | Text, ...] | None:
    """Take content that is a string or a list of parts; None if it is neither.

    If the content is a list, this form is recorded in a note.
    """
    text = members.take(name, str)
    if text is not None:
        return (Text(text),)
    parts = members.take_list(name)
    if parts is None:
        return None
    members.note_form(name, "parts")
    return tuple(map(read, parts))


def preserve_empty_text(read: Callable[[Raw], B], wire: str) -> Callable[[Raw], B | Opaque]:
    """Return a function that reads a part like `read`, but reads an empty text as `Opaque`.

    A message of the system or the user contains no empty text. The block is sent back as it was;
    other wires leave it out and report it.
    """

    def read_part(raw: Raw) -> B | Opaque:
        block = read(raw)
        if isinstance(block, Text) and not block.text:
            return Opaque(kind=EMPTY_TEXT_KIND, raw=raw_text(raw), origin=wire)
        return block

    return read_part


def take_empty_content(members: ObjectMembers) -> None:
    """Record whether content is absent or null. Raises InvalidRequest for any other content."""
    if "content" not in members:
        members.note_form("content", "absent")
    elif raw_text(members.take("content", Raw) or b"") == "null":
        members.note_form("content", "null")
    else:
        raise InvalidRequest(
            "content has a type that this protocol does not allow",
            code="content_not_text",
            place="message",
        )


def read_call(
    members: ObjectMembers, function: ObjectMembers, new_ids: CallIdGenerator, wire: str
) -> AnyToolCall:
    """Read a call whose arguments should be an object.

    `function` has the name and the arguments; it may be `members` itself. Raises InvalidRequest if
    the name is missing.
    """
    name = function.take("name", str)
    if name is None:
        raise InvalidRequest("the name is missing", code="call_name_missing", place="call")
    if not name:
        members.note_form("name", name)
    id = members.take_nonempty("id", str)
    if id is None:
        members.note_form("id", "absent")  # null or an empty text stays among the members
    text, raw = function.peek("arguments", str), function.peek("arguments", Raw)
    arguments, form = "", None
    if raw is None or raw_text(raw) == "null" or (text is not None and not text.strip()):
        form = "absent"  # null and blank text stay among the members
    else:
        function.take("arguments", Raw)
        arguments, form = (raw_text(raw), None) if text is None else (text, "string")
    call = build_call(id or new_ids.make(), name, arguments)
    if isinstance(call, InvalidToolCall):
        form = form or "raw"
    if form is not None:
        members.note_form("arguments", form)
    if function is not members:
        members.keep_rest("function", function)
    return msgspec.structs.replace(call, extras=members.extras(wire))


# -- settings --------------------------------------------------------------------------------


def take_settings(
    body: ObjectMembers,
    *,
    limit: str | None,
    stop: str | None = None,
    top_p: str = "top_p",
    highest_temperature: float = MAX_TEMPERATURE,
) -> Members:
    """Take the temperature, `top_p`, token limit and stop sequences of a request.

    `limit`, `stop` and `top_p` are the names of the members in this protocol; None omits a member.
    A value out of range and an empty list of stop sequences become extras.
    """
    found: Members = {}
    if limit is not None and has_token_limit(body, limit):
        found["max_tokens"] = body.take(limit, int)
    rows = (("temperature", "temperature", highest_temperature), ("top_p", top_p, 1))
    for field, name, highest in rows:
        value = body.peek(name, float)
        if value is not None and 0 <= value <= highest:
            found[field] = body.take(name, float)
    if stop is not None and (sequences := body.take_nonempty(stop, list[str])):
        found["stop"] = tuple(sequences)
    return found


def take_model(body: ObjectMembers) -> str:
    """Take the name of the model; an empty name becomes an extra."""
    return body.take_nonempty("model", str) or ""


def has_token_limit(body: ObjectMembers, name: str) -> bool:
    """Return whether a token limit is above 0.

    Any other value becomes an extra, since it may have a special meaning: Ollama reads -1 as no
    limit.
    """
    return (body.peek(name, int) or 0) > 0


def take_tool_choice(
    body: ObjectMembers, tools: tuple[ToolDefinition, ...], named: Callable[[str], Members]
) -> dict[str, str]:
    """Take the tool choice; `named` writes the choice of a single tool.

    An ambiguous or unknown choice becomes an extra.
    """
    names = {tool.original_name or tool.name: tool.name for tool in tools}
    mode = body.peek("tool_choice", str)
    choice = mode if mode in _TOOL_CHOICES and mode not in names.values() else None
    found = body.peek("tool_choice", Members)
    for theirs, ours in names.items():
        if found == named(theirs):
            choice = ours
    if choice is None:
        return {}
    body.take("tool_choice", Raw)
    return {"tool_choice": choice}


# -- tools -----------------------------------------------------------------------------------


def take_tools(
    body: ObjectMembers, read: Callable[[ObjectMembers], ToolDefinition | None]
) -> tuple[ToolDefinition, ...]:
    """Take the tools; one that `read` rejects or that repeats a name becomes an extra.

    The extra also has the position of the tool.
    """
    raws = body.take_list("tools")
    if raws is None:
        return ()
    tools: dict[str, ToolDefinition] = {}
    others: list[tuple[int, Raw]] = []
    for position, raw in enumerate(raws):
        members = _read_object(raw)
        tool = None if members is None else read(members)
        if tool is None or tool.name in tools:
            others.append((position, raw))
        else:
            tools[tool.name] = tool
    if others or not raws:
        body.put_back("tools", others)
    return tuple(tools.values())


def _read_object(raw: Raw) -> ObjectMembers | None:
    try:
        return ObjectMembers(raw, "tool")
    except InvalidRequest:
        return None


def unwrap_function(members: ObjectMembers) -> ObjectMembers | None:
    """Take the function from a tool; None if the tool is not a function."""
    if members.take("type", str) != "function":
        return None
    return _read_object(members.take("function", Raw) or NULL)


def build_tool(
    name: str,
    description: str | None,
    parameters: Mapping[str, Any] | None,
    *,
    strict: bool = False,
    extras: Mapping[str, Any] | None = None,
) -> ToolDefinition | None:
    """Build the definition of a recorded tool; None if it breaks the rules of ToolDefinition."""
    try:
        ours = map_tool_name(name)
        return ToolDefinition(
            name=ours,
            description=description or name,
            parameters=parameters or {"type": "object", "properties": {}},
            strict=strict,
            original_name=None if ours == name else name,
            extras=extras,
        )
    except InvalidValue:
        return None


def map_tool_name_or_empty(name: str | None) -> str:
    """Return steno's name for a tool; empty if the name is missing or invalid."""
    try:
        return map_tool_name(name) if name else ""
    except InvalidTool:
        return ""


def is_closed_schema(schema: Members) -> bool:
    """Return whether all objects of a schema are closed, as a strict tool requires."""
    try:
        return close_objects(schema) == schema
    except InvalidValue:  # nested too deeply
        return False
