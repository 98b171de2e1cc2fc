"""One of every value of the vocabulary, with a secret in every field that holds content.

Each call of `build` makes everything anew, so two builds share nothing and still must be equal.
Fields that are labels (ids, names, models) hold no secret: a `repr` may show them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from steno import (
    AssistantMessage,
    BlockAdded,
    BlockSealed,
    ChatMessage,
    Entry,
    ExtrasAdded,
    Failure,
    FileReference,
    Finished,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    InvalidToolCall,
    Opaque,
    OrderIssue,
    Outcome,
    RecognitionMode,
    Request,
    Resource,
    Seal,
    StopReason,
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
    ToolResultMessage,
    Usage,
    UserMessage,
)
from steno.assemble import ToolCallPart
from steno.codec import Document
from steno.messages.change import Change, ChangeCode
from steno.messages.order import OrderCode, Severity
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    BranchSwitch,
    Clear,
    Compaction,
    Feedback,
    GrantRevoked,
    ImageAnalysis,
    Label,
    Mode,
    ModeChange,
    ModelChange,
    Redacted,
    Redaction,
    Repair,
    Resolution,
    ResolutionStatus,
    Rewind,
    ShellCommand,
)
from steno.records.stored_record import Header, Record
from steno.values import RawJson

SECRET = "hunter2-secret"
NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


class Sample(NamedTuple):
    """A type, and keyword arguments that make a valid value of it with every field set."""

    name: str
    type: type[Any]
    fields: Callable[[], dict[str, Any]]

    def build(self, **changes: object) -> Any:
        """Make the value, with some of its fields replaced."""
        return self.type(**(self.fields() | changes))


def unknown() -> RawJson:
    return RawJson(f'"later":"{SECRET}"')


def extras() -> dict[str, Any]:
    return {"openai_chat": {"later": [SECRET, {"deeper": [SECRET]}]}}


def seal() -> Seal:
    return Seal(data=SECRET, provider="anthropic", api="anthropic_messages", model="m-1")


def text() -> Text:
    return Text(SECRET)


def image() -> Image:
    return Image(source=ImageData(SECRET.encode()), mime_type="image/png")


def call(id: str = "call_1") -> ToolCall:
    return ToolCall(id=id, name="read_file", arguments=f'{{"path": "{SECRET}"}}')


def invalid_call() -> InvalidToolCall:
    return InvalidToolCall(id="call_2", name=SECRET, arguments=SECRET, reason="cut")


def usage() -> Usage:
    return Usage(input_tokens=1200, output_tokens=80)


def definition() -> ToolDefinition:
    return ToolDefinition(
        name="read_file",
        description=f"Reads a file. {SECRET}",
        parameters={"type": "object", "properties": {SECRET: {"type": "string"}}},
    )


def details() -> dict[str, Any]:
    return {"lines": [1, 2.5, None, {"deep": [SECRET, {"deeper": True}]}], SECRET: {}}


PARTS: tuple[Sample, ...] = (
    Sample(
        "seal",
        Seal,
        lambda: {
            "data": SECRET,
            "provider": "anthropic",
            "api": "anthropic_messages",
            "model": "m-1",
            "unknown": unknown(),
        },
    ),
    Sample(
        "failure",
        Failure,
        lambda: {
            "message": SECRET,
            "traceback": f"File … {SECRET}",
            "recoverable": False,
            "unknown": unknown(),
        },
    ),
    Sample(
        "usage",
        Usage,
        lambda: {
            "input_tokens": 1200,
            "output_tokens": 80,
            "cache_read_tokens": 1000,
            "cache_write_tokens": 0,
            "thinking_tokens": 12,
            "unknown": unknown(),
        },
    ),
    Sample("image_data", ImageData, lambda: {"data": SECRET.encode(), "unknown": unknown()}),
    Sample("image_blob", ImageBlob, lambda: {"sha256": "ab" * 32, "size": 9, "unknown": unknown()}),
    Sample(
        "image_url",
        ImageUrl,
        lambda: {
            "url": f"https://example.org/{SECRET}",
            "unknown": unknown(),
        },
    ),
    Sample("image_file", ImageFile, lambda: {"path": f"docs/{SECRET}", "unknown": unknown()}),
)

BLOCKS: tuple[Sample, ...] = (
    Sample(
        "text",
        Text,
        lambda: {"text": SECRET, "seal": seal(), "extras": extras(), "unknown": unknown()},
    ),
    Sample(
        "thinking",
        Thinking,
        lambda: {
            "text": SECRET,
            "seal": seal(),
            "redacted": True,
            "extras": extras(),
            "unknown": unknown(),
        },
    ),
    Sample(
        "image",
        Image,
        lambda: {
            "source": ImageData(SECRET.encode()),
            "mime_type": "image/png",
            "mode": RecognitionMode.OCR,
            "extras": extras(),
            "unknown": unknown(),
        },
    ),
    Sample(
        "file_reference",
        FileReference,
        lambda: {
            "path": f"src/{SECRET}",
            "start_line": 3,
            "end_line": 9,
            "extras": extras(),
            "unknown": unknown(),
        },
    ),
    Sample(
        "resource",
        Resource,
        lambda: {
            "server": "db",
            "uri": f"db://{SECRET}",
            "mime_type": "text/sql",
            "text": SECRET,
            "retrieved_at": NOON,
            "extras": extras(),
            "unknown": unknown(),
        },
    ),
    Sample(
        "resource_of_bytes",
        Resource,
        lambda: {
            "server": "db",
            "uri": f"db://{SECRET}",
            "mime_type": "image/png",
            "data": SECRET.encode(),
            "retrieved_at": NOON,
        },
    ),
    Sample(
        "tool_call",
        ToolCall,
        lambda: {
            "id": "call_1",
            "name": "read_file_07f4",
            "original_name": "read-file",
            "seal": seal(),
            "arguments": f'{{"path": "{SECRET}", "deep": {{"list": [1, {{"x": "{SECRET}"}}]}}}}',
            "extras": extras(),
            "unknown": unknown(),
        },
    ),
    Sample(
        "invalid_tool_call",
        InvalidToolCall,
        lambda: {
            "id": "call_2",
            "name": SECRET,
            "arguments": f'{{"path": "{SECRET}',
            "reason": "cut",
            "seal": seal(),
            "extras": extras(),
            "unknown": unknown(),
        },
    ),
    Sample(
        "opaque",
        Opaque,
        lambda: {
            "kind": "input_audio",
            "raw": f'{{"a": "{SECRET}"}}',
            "origin": "openai_chat",
            "extras": extras(),
            "unknown": unknown(),
        },
    ),
    Sample(
        "opaque_of_ours",
        Opaque,
        lambda: {
            "kind": "annotation",
            "raw": f'{{"type": "annotation", "a": "{SECRET}"}}',
            "origin": "steno",
        },
    ),
)

MESSAGES: tuple[Sample, ...] = (
    Sample(
        "system",
        SystemMessage,
        lambda: {
            "content": (text(), Text("Be brief.")),
            "extras": extras(),
            "unknown": unknown(),
        },
    ),
    Sample(
        "user",
        UserMessage,
        lambda: {
            "content": (
                text(),
                image(),
                FileReference(path=SECRET),
                Resource(server="db", uri=SECRET),
                Opaque(kind="x", raw=f'"{SECRET}"', origin="gemini"),
            ),
            "extras": extras(),
            "unknown": unknown(),
        },
    ),
    Sample(
        "assistant",
        AssistantMessage,
        lambda: {
            "content": (Thinking(SECRET, seal=seal()), text(), call(), invalid_call(), image()),
            "stop_reason": StopReason.TOOL_USE,
            "raw_stop_reason": "tool_use",
            "usage": usage(),
            "extras": extras(),
            "unknown": unknown(),
        },
    ),
    Sample(
        "tool_result",
        ToolResultMessage,
        lambda: {
            "tool_call_id": "call_1",
            "content": (text(), image()),
            "outcome": Outcome.OK,
            "tool_name": "read_file",
            "details": details(),
            "started_at": NOON,
            "duration_s": 0.25,
            "extras": extras(),
            "unknown": unknown(),
        },
    ),
    Sample(
        "failed_tool_result",
        ToolResultMessage,
        lambda: {
            "tool_call_id": "call_1",
            "content": (text(),),
            "outcome": Outcome.TIMEOUT,
            "failure": Failure(message=SECRET, traceback=SECRET),
        },
    ),
)

TOOLS: tuple[Sample, ...] = (
    Sample(
        "tool_definition",
        ToolDefinition,
        lambda: {
            "name": "read_file",
            "description": f"Reads a file. {SECRET}",
            "strict": False,
            "original_name": "read-file",
            "extras": extras(),
            "unknown": unknown(),
            "parameters": {
                "type": "object",
                "properties": {SECRET: {"type": "array", "items": {"enum": [SECRET, None]}}},
                "required": [SECRET],
            },
        },
    ),
    Sample(
        "request",
        Request,
        lambda: {
            "messages": (SystemMessage((text(),)), UserMessage((text(), image()))),
            "model": "m-1",
            "tools": (definition(),),
            "max_tokens": 100,
            "temperature": 0.5,
            "top_p": 0.9,
            "stop": (SECRET,),
            "tool_choice": "read_file",
            "extras": extras(),
            "unknown": unknown(),
        },
    ),
)

EVENTS: tuple[Sample, ...] = (
    Sample("text_delta", TextDelta, lambda: {"index": 0, "text": SECRET}),
    Sample(
        "thinking_delta",
        ThinkingDelta,
        lambda: {
            "index": 0,
            "text": SECRET,
            "redacted": True,
        },
    ),
    Sample(
        "tool_call_begin",
        ToolCallBegin,
        lambda: {
            "index": 0,
            "id": "call_1",
            "name": "read_file",
        },
    ),
    Sample(
        "tool_call_delta",
        ToolCallDelta,
        lambda: {
            "index": 0,
            "id": "call_1",
            "name": "read_file",
            "arguments_delta": f'{{"a": "{SECRET}',
        },
    ),
    Sample("tool_call_end", ToolCallEnd, lambda: {"index": 0, "id": "call_1", "call": call()}),
    Sample("block_sealed", BlockSealed, lambda: {"index": 0, "seal": seal()}),
    Sample("block_added", BlockAdded, lambda: {"index": 0, "block": image()}),
    Sample("extras_added", ExtrasAdded, lambda: {"index": 0, "extras": extras()}),
    Sample(
        "finished",
        Finished,
        lambda: {
            "stop_reason": StopReason.END_TURN,
            "raw_stop_reason": "stop",
            "usage": usage(),
        },
    ),
)

PAYLOADS: tuple[Sample, ...] = (
    Sample(
        "mode_change",
        ModeChange,
        lambda: {
            "old": Mode.PLAN,
            "new": Mode.ACT,
            "unknown": unknown(),
        },
    ),
    Sample(
        "branch_switch",
        BranchSwitch,
        lambda: {
            "old": "main",
            "new": "try-2",
            "unknown": unknown(),
        },
    ),
    Sample("rewind", Rewind, lambda: {"left": "e1", "unknown": unknown()}),
    Sample(
        "model_change",
        ModelChange,
        lambda: {
            "old": "m-1",
            "new": "m-2",
            "unknown": unknown(),
        },
    ),
    Sample("label", Label, lambda: {"target": "e1", "text": SECRET, "unknown": unknown()}),
    Sample(
        "compaction",
        Compaction,
        lambda: {
            "through": "e1",
            "summary": SECRET,
            "unknown": unknown(),
        },
    ),
    Sample("clear", Clear, lambda: {"unknown": unknown()}),
    Sample(
        "approval",
        Approval,
        lambda: {
            "call_id": "call_1",
            "status": ApprovalStatus.DENIED,
            "arguments_sha256": "cd" * 32,
            "actor": "ada",
            "rule": "read(src/**)",
            "reason": SECRET,
            "unknown": unknown(),
        },
    ),
    Sample(
        "resolution",
        Resolution,
        lambda: {
            "target": "e1",
            "block": 2,
            "status": ResolutionStatus.RESOLVED,
            "content": (text(), image()),
            "details": details(),
            "unknown": unknown(),
        },
    ),
    Sample(
        "failed_resolution",
        Resolution,
        lambda: {
            "target": "e1",
            "block": 2,
            "status": ResolutionStatus.FAILED,
            "error": SECRET,
            "details": details(),
        },
    ),
    Sample(
        "image_analysis",
        ImageAnalysis,
        lambda: {"target": "e1", "block": 2, "answer": "e2", "unknown": unknown()},
    ),
    Sample("feedback", Feedback, lambda: {"target": "e1", "text": SECRET, "unknown": unknown()}),
    Sample(
        "repair",
        Repair,
        lambda: {
            "code": "call_unanswered",
            "explanation": SECRET,
            "target": "e1",
            "unknown": unknown(),
        },
    ),
    Sample(
        "shell_command",
        ShellCommand,
        lambda: {"command": SECRET, "output": SECRET, "status": 1, "unknown": unknown()},
    ),
    Sample(
        "grant_revoked",
        GrantRevoked,
        lambda: {"grant": "bash(ls)", "target": "e1", "unknown": unknown()},
    ),
    Sample(
        "redacted",
        Redacted,
        lambda: {
            "kind": "user",
            "sha256": "ab" * 32,
            "audit_sha256": "cd" * 32,
            "unknown_sha256": "ef" * 32,
            "unknown": unknown(),
        },
    ),
    Sample(
        "redaction",
        Redaction,
        lambda: {
            "target": "e1",
            "actor": "ada",
            "reason": SECRET,
            "unknown": unknown(),
        },
    ),
)

RECORDS: tuple[Sample, ...] = (
    Sample(
        "header",
        Header,
        lambda: {
            "id": "s1",
            "created_at": NOON,
            "title": SECRET,
            "cloned_from": "s0",
            "about": details(),
            "unknown": unknown(),
        },
    ),
    Sample(
        "record",
        Record,
        lambda: {
            "seq": 7,
            "branch": "main",
            "entry": Entry(id="e1", payload=ChatMessage.user(SECRET)),
            "digest": "ef" * 32,
            "unknown": unknown(),
        },
    ),
    Sample(
        "branch", Record, lambda: {"seq": 8, "branch": "try-2", "at": "e1", "unknown": unknown()}
    ),
    Sample(
        "entry",
        Entry,
        lambda: {
            "id": "e2",
            "parent": "e1",
            "time": NOON,
            "payload": ChatMessage.user(SECRET),
            "decision": "approved",
            "audit": details(),
            "unknown": unknown(),
        },
    ),
    Sample(
        "document",
        Document,
        lambda: {
            "id": "d1",
            "created_at": NOON,
            "updated_at": NOON,
            "unknown": unknown(),
            "entries": (Entry(id="e1", payload=ChatMessage.user(SECRET)),),
        },
    ),
)

STORED: tuple[Sample, ...] = (*PARTS, *BLOCKS, *MESSAGES, *TOOLS, *PAYLOADS, *RECORDS)
"""Everything that can be written down; each has a field `unknown`."""

ALL: tuple[Sample, ...] = (
    *STORED,
    *EVENTS,
    Sample(
        "part",
        ToolCallPart,
        lambda: {
            "block": 0,
            "id": "call_1",
            "name": "read_file",
            "arguments": f'{{"a": "{SECRET}',
            "starts": True,
            "ends": True,
        },
    ),
    Sample(
        "order_issue",
        OrderIssue,
        lambda: {
            "code": OrderCode.RESULT_LATE,
            "position": 3,
            "severity": Severity.WARNING,
            "call_id": "call_1",
        },
    ),
    Sample(
        "change",
        Change,
        lambda: {
            "code": ChangeCode.EXTRAS,
            "reason": "other_wire",
            "place": "messages[1].content[0]",
            "entry": "e1",
            "value": "openai_chat",
            "names": ("seed", "user"),
            "number": 2,
        },
    ),
)


def name_of(sample: Sample) -> str:
    """Name the case of a parametrised test."""
    return sample.name
