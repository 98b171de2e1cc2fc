"""Write requests."""

from __future__ import annotations

from typing import Any, assert_never, final

import msgspec

from steno.call import InvalidToolCall, ToolCall
from steno.content import FileReference, Image, Opaque, Resource, Text, Thinking
from steno.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.request import Request
from steno.tool import ToolDefinition
from steno.wire.extras import FORM, extras_of, form_of, merge_extras
from steno.wire.functions import (
    function_name,
    function_of,
    given,
    note_not_strict,
    wrap,
    write_choice,
    write_tools,
)
from steno.wire.openai_chat.dialect import COUNTED, LEGACY, LIMITS, OPENAI, USUAL_ID, Dialect
from steno.wire.openai_chat.neighbours import Part, is_neighbour, merge
from steno.wire.openai_chat.shapes import LEGAL_NAME, NAME
from steno.wire.report import Encoded, LossCode, Losses
from steno.wire.writing import (
    MESSAGE,
    MessageWriter,
    Target,
    call_name,
    dump,
    gathered,
    image_url,
    is_sendable,
    reference_text,
    wire_id,
)
from steno.wire.writing import Encoder as BaseEncoder


def encode_request(
    request: Request, *, dialect: Dialect = OPENAI, stream: bool | None = None
) -> Encoded:
    """Encode one request; an `Encoder` does the same for every turn of a conversation."""
    return Encoder(dialect).encode(request, stream=stream)


@final
class Encoder(BaseEncoder):
    """Encodes the requests of a conversation, each message once."""

    def __init__(self, dialect: Dialect = OPENAI) -> None:
        """Take the dialect of the server."""
        super().__init__()
        self._dialect = dialect

    def _target(self, request: Request) -> Target:
        return Target(self._dialect.provider, NAME, request.model)

    def _new_writer(self, target: Target) -> MessageWriter:
        return _Writer(target, self._dialect)

    def _body(
        self, request: Request, messages: bytes, losses: Losses, *, stream: bool | None
    ) -> bytes:
        members = _settings(request, self._dialect, losses)
        if stream is not None:
            members["stream"] = stream
            if stream and self._dialect.has_stream_options:
                members.setdefault("stream_options", COUNTED)
        # Messages last: the body of the next turn then begins with the bytes of this one.
        head = dump(members)[:-1]
        return b"".join([head, b"," if members else b"", b'"messages":[', messages, b"]}"])


# -- settings and tools ----------------------------------------------------------------------


def _settings(request: Request, dialect: Dialect, losses: Losses) -> dict[str, Any]:
    extras = extras_of(request, NAME, losses)
    form: dict[str, Any] = extras.pop(FORM, {})
    limit: str = form.get("max_tokens", dialect.max_tokens_field)
    is_word = form.get("stop") == "string" and len(request.stop) == 1
    members = given(
        model=request.model or None,
        **{limit: request.max_tokens},
        temperature=request.temperature,
        top_p=request.top_p,
        stop=request.stop[0] if is_word else list(request.stop) or None,
        stream_options=COUNTED if "stream_options" in form else None,
    )
    members |= write_tools(request, extras, lambda tool, at: _tool(tool, dialect, losses, at))
    members |= write_choice(request, lambda tool: wrap({"name": _tool_name(tool, losses)}))
    if "max_tokens" not in form and limit in members:
        # No server takes a limit under both names, unless somebody recorded that it does.
        extras = {limit if name in LIMITS else name: value for name, value in extras.items()}
    return merge_extras(members, extras, losses)


def _tool(tool: ToolDefinition, dialect: Dialect, losses: Losses, at: str) -> dict[str, Any]:
    extras = extras_of(tool, NAME, losses, at=at)
    form: dict[str, Any] = extras.pop(FORM, {})
    function = function_of(tool, _tool_name(tool, losses, at=at))
    if not dialect.has_strict_tools:
        note_not_strict(tool, losses, at=at)
    elif tool.strict:
        function["strict"] = True
    function = _without(form.get("absent", []), function) | form.get("function", {})
    return wrap(function) | extras


def _tool_name(tool: ToolDefinition, losses: Losses, *, at: str = "") -> str:
    return function_name(tool, NAME, LEGAL_NAME, losses, at=at)


# -- messages --------------------------------------------------------------------------------


@final
class _Writer(MessageWriter):
    """Writes one object for each message."""

    def __init__(self, target: Target, dialect: Dialect) -> None:
        super().__init__(target)
        self._dialect = dialect
        self._parsed = {"arguments"} if dialect.parses_arguments else set[str]()
        """What the server reads as JSON; the input of a custom tool is any text."""
        self._written: list[bytes] = []
        self._latest: dict[str, Any] | bytes | None = None
        """The newest message, which a neighbour may be merged into."""
        self._images: list[Part] = []
        """Images of tool results, which have to wait until all results are told."""
        self._legacy: dict[str, str | None] = {}
        """The name that a legacy call goes by, by the id that we made up for it."""

    def add(self, message: Message) -> None:
        if self._images and not isinstance(message, ToolResultMessage):
            self._write({"role": "user", "content": self._images})
            self._images = []
        match message:
            case SystemMessage():
                self._write(self._system(message))
            case UserMessage():
                self._write(self._user(message))
            case AssistantMessage():
                self._write(self._assistant(message))
            case ToolResultMessage():
                self._write(self._result(message))
            case _:
                assert_never(message)

    def finish(self) -> bytes:
        self._written = gathered(self._written)
        waiting = [{"role": "user", "content": self._images}] if self._images else []
        newest = [] if self._latest is None else [self._latest]
        return b",".join([*self._written, *map(_bytes, [*newest, *waiting])])

    def _write(self, message: dict[str, Any] | bytes | None) -> None:
        if message is None:
            return
        if self._dialect.merges_neighbours and isinstance(message, dict):
            if message["role"] == "system" and self._latest is not None:
                self.losses.note(LossCode.SYSTEM, "sent as the words of the user")
                message["role"] = "user"
            thinking = self._dialect.thinking_field
            if isinstance(self._latest, dict) and is_neighbour(self._latest, message, thinking):
                self.losses.note(LossCode.ORDER, "merged with the message before it")
                self._latest = merge(self._latest, message, thinking)
                return
        if self._latest is not None:
            self._written.append(_bytes(self._latest))
        self._latest = message

    def _system(self, message: SystemMessage) -> dict[str, Any]:
        extras = extras_of(message, NAME, self.losses)
        form: dict[str, Any] = extras.pop(FORM, {})
        members = {"role": self._dialect.system_role}
        return self._with_content(members, self._texts(message.content), form) | extras

    def _user(self, message: UserMessage) -> dict[str, Any] | bytes | None:
        first = message.content[0]
        if isinstance(first, Opaque) and first.kind == MESSAGE:
            sendable = is_sendable(first, NAME, self.losses, at=".content[0]")
            return first.raw.encode() if sendable else None
        extras = extras_of(message, NAME, self.losses)
        form: dict[str, Any] = extras.pop(FORM, {})
        parts: list[Part] = []
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            match block:
                case Text():
                    parts.append(self._text(block, at))
                case Image():
                    parts += self._image(block, at)
                case FileReference() | Resource():
                    parts.append(
                        {"type": "text", "text": reference_text(block, self.losses, at=at)}
                    )
                case Opaque():
                    if is_sendable(block, NAME, self.losses, at=at):
                        parts.append(msgspec.Raw(block.raw.encode()))
                case _:
                    assert_never(block)
        return self._with_content({"role": "user"}, parts, form) | extras

    def _assistant(self, message: AssistantMessage) -> dict[str, Any]:
        extras = extras_of(message, NAME, self.losses)
        form: dict[str, Any] = extras.pop(FORM, {})
        parts: list[Part] = []
        calls: list[dict[str, Any]] = []
        legacy: dict[str, Any] = {}
        thinking: list[str] = []
        field = form.get("thinking", self._dialect.thinking_field)
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            match block:
                case Text():
                    parts.append(self._text(block, at))
                case Thinking():
                    thinking += self._thinking(block, field, at)
                case ToolCall() | InvalidToolCall():
                    if not legacy and _is_legacy(block):
                        legacy[LEGACY] = self._legacy_call(block, at)
                    else:
                        calls.append(self._call(block, at))
                case Image():
                    self.losses.note(LossCode.IMAGE, "left out an image of the model's", at=at)
                case Opaque():
                    if is_sendable(block, NAME, self.losses, at=at):
                        parts.append(msgspec.Raw(block.raw.encode()))
                case _:
                    assert_never(block)
        members = self._with_content({"role": "assistant"}, parts, form)
        if field is not None and any(thinking):
            members[field] = "".join(thinking)
        for block in message.content:
            if isinstance(block, Thinking) and block.seal and self.target.accepts(block.seal):
                members["reasoning_details"] = msgspec.Raw(block.seal.data.encode())
        if calls:
            members["tool_calls"] = calls
        return members | legacy | extras

    def _thinking(self, block: Thinking, field: str | None, at: str) -> list[str]:
        if block.seal is not None and not self.target.accepts(block.seal):
            self.losses.note(LossCode.SEAL, "left out the seal of another model", at=at)
        if field is not None or not block.text:
            return [block.text]
        self.losses.note(LossCode.THINKING, "left out what the model thought", at=at)
        return []

    def _call(self, call: ToolCall | InvalidToolCall, at: str) -> dict[str, Any]:
        extras = extras_of(call, NAME, self.losses, at=at)
        form: dict[str, Any] = extras.pop(FORM, {})
        is_custom = extras.get("type") == "custom"
        id = self._id(call.id, form)
        function = self._function(call, form, at, field="input" if is_custom else "arguments")
        if is_custom:
            return {"id": id, "custom": function} | extras
        kind = {} if form.get("type") == "absent" else {"type": "function"}
        return {"id": id} | kind | {"function": function} | extras

    def _legacy_call(self, call: ToolCall | InvalidToolCall, at: str) -> dict[str, Any]:
        form: dict[str, Any] = extras_of(call, NAME, self.losses, at=at)[FORM]
        function = self._function(call, form, at, field="arguments")
        self._legacy[call.id] = function.get("name")
        return function

    def _function(
        self, call: ToolCall | InvalidToolCall, form: dict[str, Any], at: str, *, field: str
    ) -> dict[str, Any]:
        """Write name and arguments."""
        if call.seal is not None and not self.target.accepts(call.seal):
            self.losses.note(LossCode.SEAL, "left out the seal of another model", at=at)
        absent: list[str] = form.get("absent", [])
        name = "" if "name" in absent else form.get("name")
        if name is None:
            name = call_name(call, LEGAL_NAME, self.losses, at=at)
        arguments: Any = form.get("arguments", call.arguments)
        if form.get("arguments_are") == "object":
            arguments = msgspec.Raw(call.arguments.encode())
        elif isinstance(call, InvalidToolCall) and field in self._parsed:
            self.losses.note(LossCode.INVALID_CALL, "sent the raw text as an argument", at=at)
            arguments = dump({"invalid_arguments": call.arguments}).decode()
        inner: dict[str, Any] = form.get("inner", {})
        return _without(absent, {"name": name, field: arguments}) | inner

    def _result(self, message: ToolResultMessage) -> dict[str, Any]:
        extras = extras_of(message, NAME, self.losses)
        form: dict[str, Any] = extras.pop(FORM, {})
        parts: list[Part] = []
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            match block:
                case Text():
                    parts.append(self._text(block, at))
                case Image() if form.get("images") == "inside":
                    parts += self._image(block, at)
                case Image():
                    self.losses.note(LossCode.IMAGE, "moved into a user message behind", at=at)
                    self._images += self._image(block, at)
                case FileReference() | Resource():
                    parts.append(
                        {"type": "text", "text": reference_text(block, self.losses, at=at)}
                    )
                case Opaque():
                    if is_sendable(block, NAME, self.losses, at=at):
                        parts.append(msgspec.Raw(block.raw.encode()))
                case _:
                    assert_never(block)
        if message.is_error:
            self.losses.note(LossCode.OUTCOME, f"not told that the call ended as {message.outcome}")
        if not parts and "content" not in form:
            parts.append({"type": "text", "text": str(message.outcome) if message.is_error else ""})
        return self._with_content(self._answered(message, form), parts, form) | extras

    def _answered(self, message: ToolResultMessage, form: dict[str, Any]) -> dict[str, Any]:
        """Say which call a result is of: by its id, or by name if the call is a legacy one."""
        id = message.tool_call_id
        if LEGACY in form or id in self._legacy:
            name = form.get(LEGACY, self._legacy.get(id))
            return {"role": "function"} | given(name=name)
        return {"role": "tool", "tool_call_id": self._id(id, form)}

    def _id(self, id: str, form: dict[str, Any]) -> str:
        """Return the id of a call; one that was recorded here and breaks the rule stays."""
        legal, length = self._dialect.call_id, self._dialect.call_id_length
        if "id" in form and legal is USUAL_ID:
            return id
        return wire_id(id, legal, self.losses, length=length)

    # -- parts -------------------------------------------------------------------------------

    def _with_content(
        self, members: dict[str, Any], parts: list[Part], form: dict[str, Any]
    ) -> dict[str, Any]:
        """Write a single plain text as a string, unless it came as a list."""
        content: Any = parts
        if not parts:
            content = [] if form.get("content") == "parts" else None
        elif len(parts) == 1 and "content" not in form:
            only = parts[0]
            if isinstance(only, dict) and only.keys() == {"type", "text"}:
                content = only["text"]
        if content is None and form.get("content") == "absent":
            return members
        return members | {"content": content}

    def _texts(self, blocks: tuple[Text, ...]) -> list[Part]:
        return [self._text(block, f".content[{number}]") for number, block in enumerate(blocks)]

    def _text(self, block: Text, at: str) -> dict[str, Any]:
        if block.seal is not None and not self.target.accepts(block.seal):
            self.losses.note(LossCode.SEAL, "left out the seal of another model", at=at)
        return {"type": "text", "text": block.text} | extras_of(block, NAME, self.losses, at=at)

    def _image(self, block: Image, at: str) -> list[Part]:
        url = image_url(block)
        if url is None:
            self.losses.note(LossCode.IMAGE, "left out an image whose bytes are not here", at=at)
            return []
        extras = extras_of(block, NAME, self.losses, at=at)
        inner = {"url": url} | extras.pop("image_url", {})
        return [{"type": "image_url", "image_url": inner} | extras]


def _is_legacy(call: ToolCall | InvalidToolCall) -> bool:
    return LEGACY in form_of(call, NAME)


def _without(absent: list[str], members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if name not in absent}


def _bytes(message: dict[str, Any] | bytes) -> bytes:
    return message if isinstance(message, bytes) else dump(message)
