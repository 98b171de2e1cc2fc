"""How people write it every day; `test_typing` sees that a strict type checker has no complaint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, assert_never, assert_type

import msgspec

from steno import (
    Assembler,
    AssistantMessage,
    Block,
    BlockAdded,
    BlockSealed,
    ChatMessage,
    ConversationHistory,
    Entry,
    Event,
    ExtrasAdded,
    FileReference,
    Finished,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    InvalidToolCall,
    Message,
    MessageRole,
    Opaque,
    Outcome,
    Request,
    Resource,
    SystemMessage,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
    ToolDefinition,
    ToolResult,
    ToolResultMessage,
    UserMessage,
    check_order,
    repair,
)
from steno.codec import Document, decode_messages, encode_messages
from steno.messages import ImageSource
from steno.records import Payload


class Edit(msgspec.Struct):
    line: int


def name_message(message: Message) -> str:
    match message:
        case SystemMessage() | UserMessage():
            return assert_type(message.text, str)
        case AssistantMessage():
            return message.text or ""
        case ToolResultMessage(tool_call_id=id):
            return assert_type(id, str)
        case _:
            assert_never(message)


def name_block(block: Block) -> str:
    match block:
        case Text(text) | Thinking(text):
            return assert_type(text, str)
        case Image(source=source):
            return name_source(source)
        case FileReference(path=path):
            return path
        case Resource(uri=uri):
            return uri
        case ToolCall(id=id) | InvalidToolCall(id=id):
            return id
        case Opaque(kind=kind):
            return kind
        case _:
            assert_never(block)


def name_source(source: ImageSource) -> str:
    match source:
        case ImageData():
            return "data"
        case ImageBlob(sha256=sha256):
            return sha256
        case ImageUrl(url):
            return url
        case ImageFile(path):
            return path
        case _:
            assert_never(source)


def name_event(event: Event) -> int | None:
    match event:
        case TextDelta(index, _) | ThinkingDelta(index, _):
            return assert_type(index, int)
        case ToolCallBegin(number) | ToolCallDelta(number) | ToolCallEnd(number):
            return number
        case BlockSealed(index) | BlockAdded(index):
            return index
        case ExtrasAdded(maybe_index):
            return maybe_index
        case Finished():
            return None
        case _:
            assert_never(event)


def is_sent(payload: Payload) -> bool:
    return isinstance(payload, ChatMessage)


def make_messages() -> list[Message]:
    call = ToolCall(id="call_1", name="read", arguments='{"path": "a.py"}')
    return [
        ChatMessage.system("Be brief."),
        ChatMessage.user("Hello"),
        ChatMessage.user([Text("Look:"), Image(source=ImageUrl("https://example.org/a.png"))]),
        ChatMessage.assistant("I look.", [call, ToolCall.create("read", {"path": "b.py"})]),
        ChatMessage.assistant(None, (call,)),
        ChatMessage.assistant("Done."),
        ChatMessage.tool_result("call_1", "ok", outcome=Outcome.OK, details={"lines": [1]}),
        ToolResult.error("call_1", "no such file"),
    ]


def read_message(message: ChatMessage) -> None:
    assert_type(message.role, MessageRole)
    assert_type(message.text, str | None)
    assert_type(message.tool_calls, tuple[ToolCall | InvalidToolCall, ...])
    assert_type(message.tool_call_id, str | None)


def read_call(call: ToolCall) -> None:
    assert_type(call.get("path", str), str | None)
    assert_type(call.get("line", int, 0), int)
    assert_type(call.get("line", int, "none"), int | str)
    assert_type(call.arguments_as(Edit), Edit)
    assert_type(call.arguments_as(dict[str, Any]), dict[str, Any])


def keep_history() -> Iterator[Message]:
    history = ConversationHistory()
    history.add(ChatMessage.system("Be brief."))
    for message in make_messages():
        history.add(message)
    assert_type(history.messages, tuple[Message, ...])
    assert_type(history.last, Message | None)
    encode_messages(history)
    check_order(history)
    assert_type(repair(history).messages, tuple[Message, ...])
    ConversationHistory(m for m in decode_messages(b"[]") if not isinstance(m, Opaque))
    Document.of(history, id="d1")
    return iter(history)


def define_tool(parameters: Mapping[str, object]) -> Request:
    by_hand = ToolDefinition(name="read", description="Reads.", parameters=parameters)
    by_type = ToolDefinition.from_type(Edit, description="Edits.")
    by_function = ToolDefinition.from_function(read_call, strict=False)
    return Request(
        messages=(ChatMessage.system("Be brief."), ChatMessage.user("Hello")),
        tools=(by_hand, by_type, by_function),
        temperature=0,
    )


def assemble(events: list[Event]) -> AssistantMessage:
    assembler = Assembler()
    for event in events:
        for told in assembler.feed(event):
            name_event(told)
    return assembler.message()


def record(message: Message) -> Message | None:
    return Entry(id="e1", payload=message).message
