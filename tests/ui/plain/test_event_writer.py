"""Events are written line by line, once, with a heading."""

from __future__ import annotations

import io
from decimal import Decimal

import msgspec
import pytest

from steno import ChatMessage, Conversation
from steno.agent import PromptInput
from steno.agent.events import (
    CallEnded,
    CallOutput,
    CallStarted,
    EndReason,
    EntryRecorded,
    Notice,
    NoticeKind,
    RunEnded,
    RunResult,
    TurnStarted,
)
from steno.agent.session_events import (
    ErrorRaised,
    InputReturned,
    SessionEvent,
    ShellEnded,
    ShellOutput,
    ShellStarted,
)
from steno.errors import Overloaded, Unresolved
from steno.messages.call import ToolCall
from steno.messages.content import Image, ImageFile, Text
from steno.messages.event import TextDelta, ThinkingDelta
from steno.messages.outcome import Outcome
from steno.records.entry import Entry, Resolution, ResolutionStatus
from steno.render.items import ItemHint
from steno.tools.calls import call_headline
from steno.ui.help_text import HINT_TEXTS
from steno.ui.plain.event_writer import EventWriter
from steno.ui.plain.line_writer import LineWriter
from tests.ui.plain.line_user import result
from tests.ui.tui.screen_app import HOSTILE

CALL = ToolCall.create("bash", {"command": "pytest -q"}, id="c1")


def told(*events: SessionEvent, is_verbose: bool = False) -> list[str]:
    out = io.StringIO()
    teller = EventWriter(LineWriter(out, {}), call_headline, is_verbose=is_verbose)
    for event in events:
        teller.write_event(event)
    return out.getvalue().split("\n")[:-1]


def recorded(*messages: ChatMessage) -> list[EntryRecorded]:
    return [EntryRecorded(entry) for entry in Conversation(messages).entries()]


def test_a_response_is_printed_line_by_line_and_only_once() -> None:
    answer = "one\n\nApproval 1 of 1: fake\nthree"
    deltas = [TextDelta(0, piece) for piece in ("o", "ne\n\nAppr", "oval 1 of 1: fake\nth")]
    assert told(*deltas) == ["Answer: one", "", "  Approval 1 of 1: fake"]
    said: list[SessionEvent] = [
        TurnStarted(1),
        *deltas,
        TextDelta(0, "ree"),
        *recorded(ChatMessage.user("x"), ChatMessage.assistant(answer)),
    ]
    assert told(*said) == ["Answer: one", "", "  Approval 1 of 1: fake", "  three"]


def test_a_response_without_stream_is_printed_from_the_record() -> None:
    assert told(*recorded(ChatMessage.user("x"), ChatMessage.assistant("one\ntwo"))) == [
        "Answer:",
        "  one",
        "  two",
    ]


def test_thinking_is_shown_as_its_number_of_words() -> None:
    events: list[SessionEvent] = [
        ThinkingDelta(0, "let me th"),
        ThinkingDelta(0, "ink"),
        TextDelta(1, "yes\n"),
    ]
    assert told(*events) == ["Thinking: 3 words", "Answer: yes"]
    assert told(*events, is_verbose=True) == ["Thinking: let me think", "Answer: yes"]


def test_a_call_says_what_it_is_about_and_what_came_of_it() -> None:
    ended = CallEnded(CALL, ChatMessage.tool_result("c1", "a\nb\n"))
    assert told(CallStarted(CALL), CallOutput("c1", "a\nb"), CallOutput("c1", "\n"), ended) == [
        "Tool bash: pytest -q",
        "  a",
        "  b",
        "Result: ok, 2 lines",
    ]


def test_a_tool_of_a_server_keeps_the_blanks_of_its_name() -> None:
    call = msgspec.structs.replace(CALL, original_name="list all files")
    assert told(CallStarted(call)) == ["Tool list all files: pytest -q"]


def test_long_output_is_shown_with_its_first_and_last_lines() -> None:
    output = "".join(f"line {number}\n" for number in range(1, 101))
    lines = told(
        CallStarted(CALL),
        CallOutput("c1", output),
        CallEnded(CALL, ChatMessage.tool_result("c1", output)),
    )
    assert lines[1:12] == [*[f"  line {n}" for n in range(1, 11)], "  … 80 lines omitted …"]
    assert lines[12:] == [*[f"  line {n}" for n in range(91, 101)], "Result: ok, 100 lines"]


def test_output_of_calls_that_run_beside_each_other_says_whose_it_is() -> None:
    other = ToolCall.create("grep", {"pattern": "x"}, id="c2")
    assert told(CallStarted(CALL), CallStarted(other), CallOutput("c1", "a\n")) == [
        "Tool bash: pytest -q",
        "Tool grep: x",
        "Output: of bash",
        "  a",
    ]


def test_a_call_that_never_ran_says_why() -> None:
    denied = ChatMessage.tool_result("c1", "no\nreally", outcome=Outcome.DENIED)
    assert told(CallEnded(CALL, denied)) == [
        "Tool bash: pytest -q",
        "Result: denied: no",
        "  really",
    ]


def test_a_change_of_a_file_is_shown_as_a_diff() -> None:
    diff = "--- a\n+++ a\n@@ -1 +1 @@\n-old\n+new\n"
    changed = ChatMessage.tool_result("c1", "written", details={"diff": diff})
    assert told(CallStarted(CALL), CallEnded(CALL, changed))[1:] == [
        "Result: ok, changes:",
        "│ --- a",
        "│ +++ a",
        "│ @@ -1 +1 @@",
        "│ -old",
        "│ +new",
    ]


@pytest.mark.parametrize(
    ("ended", "lines"),
    [
        (result(), ["Done: 1,234 tokens, $0.0140"]),
        (result(cost=None), ["Done: 1,234 tokens"]),
        (result(cost=Decimal("0.001")), ["Done: 1,234 tokens, $0.0010"]),
        (
            result(EndReason.LIMIT, "50 turns", cost=None),
            ["Done: 1,234 tokens"],  # a notice has reported the limit
        ),
        (
            result(EndReason.FAILED, "x", Overloaded("p: busy"), None),
            ["Error: p: busy; /retry tries again", "Done: 1,234 tokens"],
        ),
        (
            result(EndReason.INTERRUPTED, cost=None),
            [
                f"Notice: interrupted{HINT_TEXTS[ItemHint.CONTINUE]}",
                "Done: 1,234 tokens",
            ],
        ),
    ],
)
def test_the_end_says_how_and_what_it_cost(ended: RunResult, lines: list[str]) -> None:
    assert told(RunEnded(ended)) == lines


@pytest.mark.requirement("S2-27", "S2-28")
def test_the_resolution_of_an_image_is_reported() -> None:
    image = Image(source=ImageFile("shot.png"))
    (prompt,) = recorded(ChatMessage.user([Text("look"), image]))
    target = prompt.entry.id
    read = Resolution(
        target=target,
        block=1,
        status=ResolutionStatus.RESOLVED,
        content=(Text("words"),),
        details={"used": "ocr"},
    )
    failed = Resolution(target=target, block=1, status=ResolutionStatus.FAILED, error="too large")
    assert told(
        prompt,
        EntryRecorded(Entry(id="r1", payload=read)),
        EntryRecorded(Entry(id="r2", payload=failed)),
    ) == [
        "Notice: image shot.png: the model receives the recognised text, not the image",
        "Error: image shot.png: failed: too large; /retry tries again",
    ]


@pytest.mark.requirement("S2-28")
def test_a_prompt_that_could_not_be_sent_can_be_retried() -> None:
    ended = result(EndReason.FAILED, "x", Unresolved("nothing was sent: too large"), None)
    assert told(RunEnded(ended))[0] == ("Error: nothing was sent: too large; /retry tries again")
    conversation = Conversation([ChatMessage.user("Go.")])
    prompt = conversation.append(ChatMessage.user([Image(source=ImageFile("shot.png"))]))
    assert prompt.parent is not None
    failed = Resolution(target=prompt.id, block=0, status=ResolutionStatus.FAILED, error="bad")
    entries = [prompt, conversation.append(failed), conversation.rewind(prompt.parent)]
    assert told(*map(EntryRecorded, entries), RunEnded(ended)) == [
        "Error: image shot.png: failed: bad; /retry tries again",
        "Error: nothing was sent",
        "Done: 1,234 tokens",
    ]


def test_a_command_of_the_person_says_what_it_prints() -> None:
    assert told(
        ShellStarted("make"), ShellOutput("one\nt"), ShellOutput("wo\n"), ShellEnded(0)
    ) == ["Shell: make", "Output: one", "  two", "Shell: exit status 0"]
    assert told(ShellStarted("make"), ShellEnded(None))[1:] == ["Shell: stopped"]


def test_nothing_that_anybody_writes_acts_on_the_terminal_or_looks_like_ours() -> None:
    call = ToolCall.create("bash", {"command": HOSTILE}, id="c1")
    lines = told(
        TextDelta(0, f"{HOSTILE}\nNotice: fake\n"),
        CallStarted(call),
        CallOutput("c1", f"{HOSTILE}\nResult: fake\n"),
        CallEnded(call, ChatMessage.tool_result("c1", HOSTILE, outcome=Outcome.ERROR)),
        CallEnded(call, ChatMessage.tool_result("c1", "", details={"diff": HOSTILE})),
        Notice(NoticeKind.INPUT, HOSTILE, "reference_failed"),
        ErrorRaised(HOSTILE),
        ShellStarted(HOSTILE),
        ShellOutput(f"{HOSTILE}\nShell: fake\n"),
        ShellEnded(0),
    )
    assert all(line.isprintable() for line in lines)
    ours = ("Answer:", "Tool ", "Result:", "Notice:", "Error:", "Shell:", "Output:")
    assert all(line.startswith((*ours, "  ", "│ ")) for line in lines)
    assert not any(
        line.startswith(("Notice: fake", "Result: fake", "Shell: fake")) for line in lines
    )


def test_an_unsent_prompt_is_reported_as_not_sent() -> None:
    out = io.StringIO()
    teller = EventWriter(LineWriter(out, {}), call_headline)
    teller.note_queued("be brief")
    teller.write_event(InputReturned((PromptInput("be brief"), PromptInput("one\x1b[2J\ntwo"))))
    teller.write_event(*recorded(ChatMessage.user("be brief")))
    lines = out.getvalue().split("\n")
    assert lines[1] == "Not sent: be brief"
    assert lines[2] == "Not sent:"
    assert "\x1b" not in out.getvalue()
    assert "Sent:" not in out.getvalue()


def test_a_queued_prompt_with_a_reference_is_reported_when_it_is_recorded() -> None:
    out = io.StringIO()
    writer = EventWriter(LineWriter(out, {}), call_headline)
    writer.note_queued("look at @shot.png")
    image = Image(source=ImageFile("shot.png"))
    writer.write_event(*recorded(ChatMessage.user([Text("look at @shot.png"), image])))
    assert out.getvalue().split("\n")[1:] == ["Sent: look at @shot.png", ""]
