"""One document that holds every payload, every block and every optional field at least once."""

from __future__ import annotations

from datetime import UTC, datetime

from steno import (
    AssistantMessage,
    ChatMessage,
    Entry,
    Failure,
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    InvalidToolCall,
    Opaque,
    Outcome,
    RecognitionMode,
    Resource,
    Seal,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from steno.codec import Document
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
    Payload,
    Redacted,
    Redaction,
    Repair,
    Resolution,
    ResolutionStatus,
    Rewind,
    ShellCommand,
)

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
SEAL = Seal(data="c2VhbA==", provider="anthropic", api="anthropic_messages", model="m-1")

PAYLOADS_OF_VERSION_2: tuple[Payload, ...] = (
    ChatMessage.system("You keep records."),
    ChatMessage.user(
        [
            Text("Compare these. 比较一下 \u2028 🧾"),
            FileReference(path="src/app.py", start_line=3, end_line=9),
            Image(source=ImageData(b"\x89PNG"), mime_type="image/png", mode=RecognitionMode.OCR),
            Image(source=ImageBlob(sha256="ab" * 32, size=4096), mime_type="image/jpeg"),
            Image(source=ImageUrl("https://example.org/plan.webp"), mode=RecognitionMode.VISION),
            Image(source=ImageFile("docs/plan.png"), mime_type="image/png"),
            Resource(server="db", uri="db://schema", mime_type="text/sql", text="create table t"),
            Resource(server="db", uri="db://dump", data=b"\x00\x01", retrieved_at=NOON),
            Opaque(kind="input_audio", raw='{"format": "wav"}', origin="openai_chat"),
        ]
    ),
    AssistantMessage(
        content=(
            Thinking("First the plan.", seal=SEAL),
            Thinking("", seal=SEAL, redacted=True),
            Text("I read both.", seal=SEAL),
            ToolCall(id="call_1", name="read_file", arguments='{"path": "src/app.py"}', seal=SEAL),
            ToolCall(id="call_2", name="fs_read_4074bc02", original_name="fs.read"),
            InvalidToolCall(id="call_3", name="write", arguments='{"a', reason="cut", seal=SEAL),
            Image(source=ImageData(b"\x89PNG"), mime_type="image/png"),
            Opaque(kind="server_tool_use", raw='{"id": "s1"}', origin="anthropic_messages"),
        ),
        stop_reason=StopReason.TOOL_USE,
        raw_stop_reason="tool_use",
        usage=Usage(
            input_tokens=1200,
            output_tokens=80,
            cache_read_tokens=1000,
            cache_write_tokens=0,
            thinking_tokens=12,
        ),
    ),
    ChatMessage.tool_result(
        "call_1",
        [Text("1  import app"), Image(source=ImageUrl("https://example.org/a.png"))],
        tool_name="read_file",
        details={"lines": 1, "nested": {"deep": [1, 2.5, None, True, "x"]}, "big": 2**64},
        started_at=NOON,
        duration_s=0.25,
    ),
    ChatMessage.tool_result(
        "call_2",
        "denied",
        outcome=Outcome.DENIED,
        failure=Failure(message="not in plan mode", traceback="File …", recoverable=False),
    ),
    ModeChange(old=Mode.PLAN, new=Mode.ACT),
    BranchSwitch(old="main", new="try-2"),
    ModelChange(old="", new="openai/any"),
    Label(target="e3", text="before the edit"),
    Compaction(through="e5", summary="They compared two plans."),
    Approval(call_id="call_1", status=ApprovalStatus.PENDING, arguments_sha256="cd" * 32),
    Approval(
        call_id="call_1",
        status=ApprovalStatus.APPROVED,
        arguments_sha256="cd" * 32,
        actor="ada",
        rule="read(src/**)",
        reason="just reading",
    ),
    Resolution(target="e2", block=1, status=ResolutionStatus.PENDING),
    Resolution(
        target="e2",
        block=2,
        status=ResolutionStatus.RESOLVED,
        content=(Text("Ground floor"),),
        details={"engine": "ocr", "confidence": 0.98, "language": "en"},
    ),
    Resolution(target="e2", block=3, status=ResolutionStatus.FAILED, error="no such blob"),
    Feedback(target="e3", text="Please reconsider."),
    Repair(code="call_unanswered", explanation="the turn was interrupted", target="e3"),
    Rewind(left="e7"),
    Redacted(kind="user", sha256="0f" * 32, audit_sha256="1e" * 32),
    Redaction(target="e2", actor="ada", reason="a key was pasted"),
    Opaque(kind="annotation", raw='{"type":"annotation", "by": "v9"}', origin="steno"),
)

PAYLOADS_OF_VERSION_3: tuple[Payload, ...] = (
    ShellCommand(command="git status", output="clean\n", status=0),
    ShellCommand(command="sleep 9 # \u2028 🧾", output=""),
    GrantRevoked(grant="bash(git push *)", target="e3"),
    ImageAnalysis(target="e1", block=2, answer="e2"),
    Clear(),
)
PAYLOADS = PAYLOADS_OF_VERSION_2 + PAYLOADS_OF_VERSION_3


def _document(payloads: tuple[Payload, ...]) -> Document:
    return Document(
        id="everything",
        created_at=NOON,
        updated_at=NOON,
        entries=tuple(
            Entry(
                id=f"e{number}",
                parent=f"e{number - 1}" if number > 1 else None,
                time=NOON,
                payload=payload,
                decision="tool_call_approved" if number == 3 else None,
                audit={"permission": "read", "granted": True} if number == 3 else None,
            )
            for number, payload in enumerate(payloads, start=1)
        ),
    )


DOCUMENT = _document(PAYLOADS_OF_VERSION_2)
DOCUMENT_OF_VERSION_3 = _document(PAYLOADS_OF_VERSION_3)
