"""Encode requests for the OpenAI chat completions API, in the dialect of a server.

The server of some dialects wants user and assistant to take turns: adjacent messages of one role
become one there.
"""

from __future__ import annotations

from typing import Any, assert_never, final

import msgspec

from steno.messages.call import InvalidToolCall, ToolCall
from steno.messages.change import ChangeCode
from steno.messages.content import FileReference, Image, Opaque, Resource, Text, Thinking
from steno.messages.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.wire.extras import FORM_KEY, get_form, merge_extras, pop_form, pop_object, select_extras
from steno.wire.openai_chat.dialect import (
    DEFAULT_CALL_ID,
    FUNCTION_EXTRAS,
    LEGACY_CALL,
    MAX_TOKENS_FIELDS,
    OPENAI,
    USAGE_STREAM_OPTIONS,
    Dialect,
)
from steno.wire.openai_chat.payload import LEGAL_NAME, NAME
from steno.wire.report import ChangeCollector, EncodedRequest
from steno.wire.request_encoder import (
    WHOLE_MESSAGE_KIND,
    MessageWriter,
    PartJson,
    RequestTarget,
    call_name,
    compact_pieces,
    encode_json,
    expand_content,
    image_url,
    is_sendable,
    reference_text,
    to_bytes,
    wire_id,
)
from steno.wire.request_encoder import Encoder as BaseEncoder
from steno.wire.tolerant import read_as
from steno.wire.tools_and_settings import (
    drop_none,
    function_name,
    note_unenforced_schema,
    wrap_function,
    write_function,
    write_tool_choice,
    write_tools,
)


def encode_request(
    request: Request, *, dialect: Dialect = OPENAI, stream: bool | None = None
) -> EncodedRequest:
    """Encode one request; an `Encoder` does the same for every turn of a conversation."""
    return Encoder(dialect).encode(request, stream=stream)


@final
class Encoder(BaseEncoder):
    """Encodes the requests of a conversation, each message once."""

    def __init__(self, dialect: Dialect = OPENAI) -> None:
        """Take the dialect of the server."""
        super().__init__()
        self._dialect = dialect

    def _target(self, request: Request) -> RequestTarget:
        return RequestTarget(self._dialect.provider, NAME, request.model)

    def _new_writer(self, target: RequestTarget) -> MessageWriter:
        return CompletionMessageWriter(target, self._dialect)

    def _body(
        self, request: Request, messages: bytes, losses: ChangeCollector, *, stream: bool | None
    ) -> bytes:
        members = _write_settings(request, self._dialect, losses)
        if stream is not None:
            members["stream"] = stream
            if stream and self._dialect.has_stream_options:
                members.setdefault("stream_options", USAGE_STREAM_OPTIONS)
        # Messages last: the body of the next turn then begins with the bytes of this one.
        head = encode_json(members)[:-1]
        return b"".join([head, b"," if members else b"", b'"messages":[', messages, b"]}"])


def _write_settings(request: Request, dialect: Dialect, losses: ChangeCollector) -> dict[str, Any]:
    extras = select_extras(request, NAME, losses)
    form = pop_form(extras)
    limit: str = form.get("max_tokens", dialect.max_tokens_field)
    is_string = form.get("stop") == "string" and len(request.stop) == 1
    members = drop_none(
        model=request.model or None,
        **{limit: request.max_tokens},
        temperature=request.temperature,
        top_p=request.top_p,
        stop=request.stop[0] if is_string else list(request.stop) or None,
        stream_options=USAGE_STREAM_OPTIONS if "stream_options" in form else None,
    )
    members |= write_tools(request, extras, lambda tool, at: _write_tool(tool, dialect, losses, at))
    members |= write_tool_choice(
        request, lambda tool: wrap_function({"name": _write_tool_name(tool, losses)})
    )
    if "max_tokens" not in form and limit in members:
        # No server takes a limit under both names, unless a recording shows that it does.
        extras = {
            limit if name in MAX_TOKENS_FIELDS else name: value for name, value in extras.items()
        }
    return merge_extras(members, extras, losses)


def _write_tool(
    tool: ToolDefinition, dialect: Dialect, losses: ChangeCollector, at: str
) -> dict[str, Any]:
    extras = select_extras(tool, NAME, losses, at=at)
    form = pop_form(extras)
    function = write_function(tool, _write_tool_name(tool, losses, at=at))
    if not dialect.has_strict_tools:
        note_unenforced_schema(tool, losses, at=at)
    elif tool.strict:
        function["strict"] = True
    function = _omit(form.get("absent", []), function) | pop_object(form, "function")
    return wrap_function(function) | extras


def _write_tool_name(tool: ToolDefinition, losses: ChangeCollector, *, at: str = "") -> str:
    return function_name(tool, NAME, LEGAL_NAME, losses, at=at)


# -- messages --------------------------------------------------------------------------------------


@final
class CompletionMessageWriter(MessageWriter):
    """Writes one object for each message."""

    def __init__(self, target: RequestTarget, dialect: Dialect) -> None:
        super().__init__(target)
        self._dialect = dialect
        self._parsed_fields = {"arguments"} if dialect.parses_arguments else set[str]()
        """The fields that the server parses as JSON; the input of a custom tool is any text."""
        self._written: list[bytes] = []
        self._latest: dict[str, Any] | bytes | None = None
        """The newest message, which the next one may be merged into."""
        self._images: list[PartJson] = []
        """Images of tool results, which follow the last result."""
        self._legacy_names: dict[str, str | None] = {}
        """The name of each legacy call, by the id that steno made up for it."""

    def add(self, message: Message) -> None:
        """Write one more message."""
        if self._images and not isinstance(message, ToolResultMessage):
            self._write({"role": "user", "content": self._images})
            self._images = []
        match message:
            case SystemMessage():
                self._write(self._write_system(message))
            case UserMessage():
                self._write(self._write_user(message))
            case AssistantMessage():
                self._write(self._write_assistant(message))
            case ToolResultMessage():
                self._write(self._write_result(message))
            case _:
                assert_never(message)

    def finish(self) -> bytes:
        """Return everything written; more may follow."""
        self._written = compact_pieces(self._written)
        waiting = [{"role": "user", "content": self._images}] if self._images else []
        newest = [] if self._latest is None else [self._latest]
        return b",".join([*self._written, *map(to_bytes, [*newest, *waiting])])

    def _write(self, message: dict[str, Any] | bytes | None) -> None:
        if message is None:
            return
        if self._dialect.merges_neighbours and isinstance(message, dict):
            if message["role"] == "system" and self._latest is not None:
                self.losses.note(ChangeCode.SYSTEM, "sent_as_user")
                message["role"] = "user"
            thinking = self._dialect.thinking_field
            if isinstance(self._latest, dict) and _can_merge(self._latest, message, thinking):
                self.losses.note(ChangeCode.ORDER, "merged")
                self._latest = _merge_adjacent(self._latest, message, thinking)
                return
        if self._latest is not None:
            self._written.append(to_bytes(self._latest))
        self._latest = message

    def _write_system(self, message: SystemMessage) -> dict[str, Any]:
        extras = select_extras(message, NAME, self.losses)
        form = pop_form(extras)
        members = {"role": self._dialect.system_role}
        return self._with_content(members, self._write_texts(message.content), form) | extras

    def _write_user(self, message: UserMessage) -> dict[str, Any] | bytes | None:
        first = message.content[0]
        if isinstance(first, Opaque) and first.kind == WHOLE_MESSAGE_KIND:
            sendable = is_sendable(first, NAME, self.losses, at=".content[0]")
            return first.raw.encode() if sendable else None
        extras = select_extras(message, NAME, self.losses)
        form = pop_form(extras)
        parts: list[PartJson] = []
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            parts += self._write_parts(block, at)
        if not parts:
            self._note_empty_message()
            return None
        return self._with_content({"role": "user"}, parts, form) | extras

    def _note_empty_message(self) -> None:
        """Note a message without content, which is not sent: servers refuse null."""
        self.losses.note(ChangeCode.BLANK, "empty_message")

    def _write_parts(self, block: UserBlock, at: str) -> list[PartJson]:
        """Write a block of a user or a tool."""
        match block:
            case Text():
                return [self._write_text(block, at)]
            case Image():
                return self._write_image(block, at)
            case FileReference() | Resource():
                return [{"type": "text", "text": reference_text(block, self.losses, at=at)}]
            case Opaque():
                sendable = is_sendable(block, NAME, self.losses, at=at)
                return [msgspec.Raw(block.raw.encode())] if sendable else []
            case _:
                assert_never(block)

    def _write_assistant(self, message: AssistantMessage) -> dict[str, Any] | None:
        extras = select_extras(message, NAME, self.losses)
        form = pop_form(extras)
        parts: list[PartJson] = []
        calls: list[dict[str, Any]] = []
        legacy: dict[str, Any] = {}
        thinking: list[str] = []
        field = form.get("thinking", self._dialect.thinking_field)
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            match block:
                case Text():
                    parts.append(self._write_text(block, at))
                case Thinking():
                    thinking += self._write_thinking(block, field, at)
                case ToolCall() | InvalidToolCall():
                    if not legacy and _is_legacy_call(block):
                        legacy[LEGACY_CALL] = self._write_legacy_call(block, at)
                    else:
                        calls.append(self._write_call(block, at))
                case Image():
                    self.losses.note(ChangeCode.IMAGE, "from_model", at=at)
                case Opaque():
                    if is_sendable(block, NAME, self.losses, at=at):
                        parts.append(msgspec.Raw(block.raw.encode()))
                case _:
                    assert_never(block)
        members = self._with_content({"role": "assistant"}, parts, form)
        if field is not None and any(thinking):
            members[field] = "".join(thinking)
        details = self._write_details(message)
        if details:
            members["reasoning_details"] = details
        if calls:
            members["tool_calls"] = calls
        members |= legacy | extras
        if message.content and members == {"role": "assistant", "content": None}:
            self._note_empty_message()
            return None
        return members

    def _write_thinking(self, block: Thinking, field: str | None, at: str) -> list[str]:
        if block.seal is not None and not self.target.accepts(block.seal):
            self.losses.note(ChangeCode.SEAL, "other_model", at=at)
        if field is not None or not block.text:
            return [block.text]
        self.losses.note(ChangeCode.THINKING, "no_place", at=at)
        return []

    def _write_details(self, message: AssistantMessage) -> list[msgspec.Raw]:
        """Return the seals of thinking: lists of reasoning details, in their order."""
        found: list[msgspec.Raw] = []
        for number, block in enumerate(message.content):
            if isinstance(block, Thinking) and block.seal and self.target.accepts(block.seal):
                details = read_as(block.seal.data.encode(), list[msgspec.Raw])
                if details is None:
                    at = f".content[{number}]"
                    self.losses.note(ChangeCode.SEAL, "unreadable", at=at)
                found += details or ()
        return found

    def _write_call(self, call: ToolCall | InvalidToolCall, at: str) -> dict[str, Any]:
        extras = select_extras(call, NAME, self.losses, at=at)
        form = pop_form(extras)
        is_custom = extras.get("type") == "custom"
        if is_custom and not self._dialect.has_custom_tools:
            self.losses.note(ChangeCode.TOOL, "sent_as_function_call", at=at)
            del extras["type"]
            is_custom = False
        members: dict[str, Any] = {"id": self._write_call_id(call.id, form)}
        if is_custom:
            members["type"] = extras.pop("type")
        elif form.get("type") != "absent":
            members["type"] = form.get("type", "function")
        field = "input" if is_custom else "arguments"
        function = self._write_function(call, form, at, field=field)
        if form.get("function") != "absent":
            members["custom" if is_custom else "function"] = function
        return merge_extras(members, extras, self.losses, at=at)

    def _write_legacy_call(self, call: ToolCall | InvalidToolCall, at: str) -> dict[str, Any]:
        form: dict[str, Any] = select_extras(call, NAME, self.losses, at=at)[FORM_KEY]
        function = self._write_function(call, form, at, field="arguments")
        self._legacy_names[call.id] = function.get("name")
        return function

    def _write_function(
        self, call: ToolCall | InvalidToolCall, form: dict[str, Any], at: str, *, field: str
    ) -> dict[str, Any]:
        """Write name and arguments."""
        if call.seal is not None and not self.target.accepts(call.seal):
            self.losses.note(ChangeCode.SEAL, "other_model", at=at)
        absent: list[str] = form.get("absent", [])
        name = "" if "name" in absent else form.get("name")
        if name is None:
            name = call_name(call, LEGAL_NAME, self.losses, at=at)
        arguments: Any = form.get("arguments", call.arguments)
        if form.get("arguments_are") == "object":
            arguments = msgspec.Raw(call.arguments.encode())
        elif isinstance(call, InvalidToolCall) and field in self._parsed_fields:
            self.losses.note(ChangeCode.INVALID_CALL, "raw_text_as_argument", at=at)
            arguments = encode_json({"invalid_arguments": call.arguments}).decode()
        return _omit(absent, {"name": name, field: arguments}) | pop_object(form, FUNCTION_EXTRAS)

    def _write_result(self, message: ToolResultMessage) -> dict[str, Any]:
        extras = select_extras(message, NAME, self.losses)
        form = pop_form(extras)
        parts: list[PartJson] = []
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            if isinstance(block, Image) and form.get("images") != "inside":
                self.losses.note(ChangeCode.IMAGE, "moved_to_user_message", at=at)
                self._images += self._write_image(block, at)
            else:
                parts += self._write_parts(block, at)
        if message.is_error:
            self.losses.note(ChangeCode.OUTCOME, "not_sent", value=message.outcome.value)
        if not parts and "content" not in form:
            parts.append({"type": "text", "text": str(message.outcome) if message.is_error else ""})
        members = self._with_content(self._write_call_reference(message, form), parts, form)
        return merge_extras(members, extras, self.losses)

    def _write_call_reference(
        self, message: ToolResultMessage, form: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the members that name the call of a result: by id; a legacy call by name."""
        id = message.tool_call_id
        if LEGACY_CALL in form or id in self._legacy_names:
            name = form.get(LEGACY_CALL, self._legacy_names.get(id))
            return {"role": "function"} | drop_none(name=name)
        return {"role": "tool", "tool_call_id": self._write_call_id(id, form)}

    def _write_call_id(self, id: str, form: dict[str, Any]) -> str:
        """Return the id to send; a recorded id that breaks the rule stays."""
        legal, length = self._dialect.call_id, self._dialect.call_id_length
        if "id" in form and legal is DEFAULT_CALL_ID:
            return id
        return wire_id(id, legal, self.losses, length=length)

    # -- parts -------------------------------------------------------------------------------

    def _with_content(
        self, members: dict[str, Any], parts: list[PartJson], form: dict[str, Any]
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

    def _write_texts(self, blocks: tuple[Text, ...]) -> list[PartJson]:
        return [
            self._write_text(block, f".content[{number}]") for number, block in enumerate(blocks)
        ]

    def _write_text(self, block: Text, at: str) -> dict[str, Any]:
        if block.seal is not None and not self.target.accepts(block.seal):
            self.losses.note(ChangeCode.SEAL, "other_model", at=at)
        extras = select_extras(block, NAME, self.losses, at=at)
        return merge_extras({"type": "text", "text": block.text}, extras, self.losses, at=at)

    def _write_image(self, block: Image, at: str) -> list[PartJson]:
        url = image_url(block)
        if url is None:
            self.losses.note(ChangeCode.IMAGE, "bytes_missing", at=at)
            return []
        extras = select_extras(block, NAME, self.losses, at=at)
        inner = merge_extras({"url": url}, pop_object(extras, "image_url"), self.losses, at=at)
        part = {"type": "image_url", "image_url": inner}
        return [merge_extras(part, extras, self.losses, at=at)]


def _is_legacy_call(call: ToolCall | InvalidToolCall) -> bool:
    return LEGACY_CALL in get_form(call, NAME)


def _omit(absent: list[str], members: dict[str, Any]) -> dict[str, Any]:
    """Leave out the members that the recording did not have."""
    return {name: value for name, value in members.items() if name not in absent}


# -- adjacent messages -----------------------------------------------------------------------------


def _can_merge(first: dict[str, Any], second: dict[str, Any], thinking: str | None) -> bool:
    """Return whether two messages can become one without a loss."""
    if first["role"] != second["role"] or first["role"] not in ("user", "assistant"):
        return False
    merged = {"role", "content", "tool_calls", thinking}
    return all(
        first.get(name) == second.get(name) for name in (first.keys() | second.keys()) - merged
    )


def _merge_adjacent(
    first: dict[str, Any], second: dict[str, Any], thinking: str | None
) -> dict[str, Any]:
    """Merge two adjacent messages."""
    contents = [message["content"] for message in (first, second) if message.get("content")]
    merged = first | second
    if all(isinstance(content, str) for content in contents):
        merged["content"] = "\n\n".join(contents) if contents else None
    else:
        merged["content"] = [part for content in contents for part in expand_content(content)]
    calls = [*(first.get("tool_calls") or ()), *(second.get("tool_calls") or ())]
    if thinking is not None:
        thoughts = [message[thinking] for message in (first, second) if message.get(thinking)]
        merged |= {thinking: "\n\n".join(thoughts)} if thoughts else {}
    return merged | ({"tool_calls": calls} if calls else {})
