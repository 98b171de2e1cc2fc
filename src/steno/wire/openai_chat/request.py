"""Write requests."""

from __future__ import annotations

from typing import Any, assert_never, final

import msgspec

from steno.call import InvalidToolCall, ToolCall
from steno.content import FileReference, Image, Opaque, Resource, Text, Thinking
from steno.json_object import freeze_mapping
from steno.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.request import Request
from steno.tool import ToolDefinition
from steno.wire.openai_chat.dialect import OPENAI, USUAL_ID, Dialect
from steno.wire.openai_chat.shapes import LEGAL_NAME, NAME
from steno.wire.report import Encoded, LossCode
from steno.wire.writing import (
    FORM,
    MESSAGE,
    Losses,
    MessageWriter,
    Target,
    add_others,
    call_name,
    dump,
    extras_of,
    image_url,
    is_sendable,
    reference_text,
    wire_id,
    wire_name,
)
from steno.wire.writing import (
    Encoder as BaseEncoder,
)

Part = dict[str, Any] | msgspec.Raw


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
                members.setdefault("stream_options", {"include_usage": True})
        # Messages last: the body of the next turn then begins with the bytes of this one.
        head = dump(members)[:-1]
        return head + (b"," if members else b"") + b'"messages":[' + messages + b"]}"


# -- settings and tools ----------------------------------------------------------------------


def _settings(request: Request, dialect: Dialect, losses: Losses) -> dict[str, Any]:
    extras = extras_of(request, NAME, losses)
    form: dict[str, Any] = extras.pop(FORM, {})
    members: dict[str, Any] = {}
    if request.model:
        members["model"] = request.model
    if request.max_tokens is not None:
        members[form.get("max_tokens", dialect.max_tokens_field)] = request.max_tokens
    if request.temperature is not None:
        members["temperature"] = request.temperature
    if request.top_p is not None:
        members["top_p"] = request.top_p
    if request.stop:
        members["stop"] = request.stop[0] if form.get("stop") == "string" else request.stop
    if request.tools or "tools" in extras:
        tools = [
            _tool(tool, dialect, losses, f".tools[{n}]") for n, tool in enumerate(request.tools)
        ]
        members["tools"] = add_others(tools, extras.pop("tools", None))
    if request.tool_choice is not None:
        members["tool_choice"] = _tool_choice(request, losses)
    return members | extras


def _tool_choice(request: Request, losses: Losses) -> Any:
    choice = request.tool_choice
    for tool in request.tools:
        if tool.name == choice:
            name = wire_name(tool, LEGAL_NAME, losses)
            return {"type": "function", "function": {"name": name}}
    return choice


def _tool(tool: ToolDefinition, dialect: Dialect, losses: Losses, at: str) -> dict[str, Any]:
    extras = extras_of(tool, NAME, losses, at=at)
    form: dict[str, Any] = extras.pop(FORM, {})
    function: dict[str, Any] = {
        "name": form.get("name") or wire_name(tool, LEGAL_NAME, losses, at=at),
        "description": tool.description,
        "parameters": freeze_mapping(tool.parameters).thaw(),
    }
    if tool.strict and dialect.has_strict_tools:
        function["strict"] = True
    for name in form.get("absent", ()):
        function.pop(name, None)
    function |= form.get("function", {})
    return {"type": "function", "function": function} | extras


# -- messages --------------------------------------------------------------------------------


@final
class _Writer(MessageWriter):
    """Writes one object for each message."""

    def __init__(self, target: Target, dialect: Dialect) -> None:
        super().__init__(target)
        self._dialect = dialect
        self._written: list[bytes] = []
        self._latest: dict[str, Any] | bytes | None = None
        """The newest message, which a neighbour may be merged into."""
        self._images: list[Part] = []
        """Images of tool results, which have to wait until all results are told."""

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
        if len(self._written) > 1:
            self._written = [b",".join(self._written)]
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
            if isinstance(self._latest, dict) and _is_neighbour(self._latest, message, thinking):
                self.losses.note(LossCode.ORDER, "merged with the message before it")
                self._latest = _merge(self._latest, message, thinking)
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
        return members | extras

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
        id = self._id(call.id, form)
        if call.seal is not None and not self.target.accepts(call.seal):
            self.losses.note(LossCode.SEAL, "left out the seal of another model", at=at)
        absent: list[str] = form.get("absent", [])
        name = "" if "name" in absent else form.get("name")
        if name is None:
            name = call_name(call, LEGAL_NAME, self.losses, at=at)
        inner: dict[str, Any] = form.get("inner", {})
        arguments: Any = form.get("arguments", call.arguments)
        if extras.get("type") == "custom":
            custom = _without(absent, {"name": name, "input": arguments})
            return {"id": id, "custom": custom | inner} | extras
        if form.get("arguments_are") == "object":
            arguments = msgspec.Raw(call.arguments.encode())
        elif isinstance(call, InvalidToolCall) and self._dialect.parses_arguments:
            self.losses.note(LossCode.INVALID_CALL, "sent the raw text as an argument", at=at)
            arguments = dump({"invalid_arguments": call.arguments}).decode()
        kind = {} if form.get("type") == "absent" else {"type": "function"}
        function = _without(absent, {"name": name, "arguments": arguments}) | inner
        return {"id": id} | kind | {"function": function} | extras

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
        id = self._id(message.tool_call_id, form)
        members = {"role": "tool", "tool_call_id": id}
        return self._with_content(members, parts, form) | extras

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


def _without(absent: list[str], members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if name not in absent}


def _bytes(message: dict[str, Any] | bytes) -> bytes:
    return message if isinstance(message, bytes) else dump(message)


def _is_neighbour(first: dict[str, Any], second: dict[str, Any], thinking: str | None) -> bool:
    """Tell whether two messages are one turn, and have nothing that would get lost in one."""
    if first["role"] != second["role"] or first["role"] not in ("user", "assistant"):
        return False
    merged = {"role", "content", "tool_calls", thinking}
    return all(
        first.get(name) == second.get(name) for name in (first.keys() | second.keys()) - merged
    )


def _merge(first: dict[str, Any], second: dict[str, Any], thinking: str | None) -> dict[str, Any]:
    contents = [message["content"] for message in (first, second) if message.get("content")]
    merged = first | second
    if all(isinstance(content, str) for content in contents):
        merged["content"] = "\n\n".join(contents) if contents else None
    else:
        merged["content"] = [part for content in contents for part in _as_parts(content)]
    calls = [*(first.get("tool_calls") or ()), *(second.get("tool_calls") or ())]
    if thinking is not None:
        thoughts = [message[thinking] for message in (first, second) if message.get(thinking)]
        merged |= {thinking: "\n\n".join(thoughts)} if thoughts else {}
    return merged | ({"tool_calls": calls} if calls else {})


def _as_parts(content: str | list[Part]) -> list[Part]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
