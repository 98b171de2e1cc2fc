"""`steno explain`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from steno import ChatMessage, ToolCall
from steno.codec import decode_message
from steno.messages.call import Seal
from steno.messages.content import Image, ImageData, Opaque, Resource, Text, Thinking
from steno.messages.message import AssistantMessage
from steno.records.entry import Compaction, Feedback, Mode
from steno.store import MemoryStore
from tests.app.project_setup import write_settings
from tests.cli.guide_commands import BLOCK, ROOT, run_guide_line
from tests.cli.program import copy_to_store, run_steno, sample_session, store_sample_session


def test_the_context_of_a_model_is_printed_with_its_report(address: str) -> None:
    store_sample_session(address)
    output = run_steno("explain", "talk", "--branch", "main", "--model", "anthropic/claude-x")
    assert (output.status, output.err) == (0, "")
    assert output.out.splitlines() == [
        "session talk, branch main, context for anthropic/claude-x",
        "6 messages, about 61 tokens",
        "",
        "#1 system  You mend code.",
        "#2 user  Is it broken?",
        '#3 assistant  I look. → run_tests (c1) {"path": "tests"}',
        "#5 tool_result  3 passed",
        "#6 assistant  All green.",
        "#13 user  Once more",
        "",
        "the context is the same as the log",
    ]


def sealed(address: str) -> None:
    """Keep a session that holds something for every part of the report."""
    made = MemoryStore()
    conversation = made.new(id="odd")
    conversation.append(
        ChatMessage.user([Text("see "), Image(source=ImageData(b"x"), mime_type="image/png")])
    )
    seal = Seal(data="s", provider="openai", api="openai_responses", model="gpt-5")
    calls = ToolCall(id="not/legal", name="read")
    conversation.append(AssistantMessage(content=(Thinking("hm", seal=seal), calls)))
    conversation.change_mode(Mode.PLAN)
    copy_to_store(made, address)


def test_changes_and_losses_are_reported_with_their_entries(address: str, home: Path) -> None:
    write_settings(home, '[models."groq/blind"]\nvision = false\n')
    sealed(address)
    output = run_steno("explain", "odd", "--model", "groq/blind")
    lines = output.out.splitlines()
    assert lines[3].startswith("+ system  You are in plan mode")
    assert (
        lines[4] == "#1 user  see [image: image/png, not shown: this model does not accept images]"
    )
    assert lines[6].startswith("+ tool_result  No result was recorded")
    report = lines[8:]
    assert report[:3] == [
        "#3: the system message explains plan mode (mode)",
        "#2: added a note in place of the result of a call, which is missing (repaired)",
        "#1: block 1 (image/png): the model does not accept images; a note is sent instead (image_left_out)",
    ]
    assert any(line.startswith("#2 ") and line.endswith("(seal)") for line in report[3:])


@pytest.mark.requirement("S2-33", "S2-09", "P-24")
def test_the_report_names_resources_and_unknown_types(address: str) -> None:
    made = MemoryStore()
    conversation = made.new(id="odd")
    long = Resource(server="docs", uri="docs://manual", text="x " * 40_000)
    newer = b'{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"hologram"}]}'
    conversation.append(decode_message(newer))
    conversation.append(Opaque(kind="vote", raw='{"type":"vote"}', origin="steno"))
    conversation.append(ChatMessage.user([Text("see "), long]))
    conversation.append(ChatMessage.assistant("I see."))
    conversation.append(ChatMessage.user("And now?"))
    copy_to_store(made, address)
    arguments = ("explain", "odd", "--model", "groq/any", "--context-tokens", "400")
    report = run_steno(*arguments).out.splitlines()
    [left_out] = [line for line in report if line.endswith("(resource_left_out)")]
    assert "docs://manual" in left_out
    [unknown] = [line for line in report if line.endswith("(unknown)")]
    assert "vote" in unknown
    [opaque] = [line for line in report if line.endswith("(opaque)")]
    assert "hologram" in opaque
    changes = json.loads(run_steno(*arguments, "--json").out)["changes"]
    assert "docs://manual" in [change["target"] for change in changes]


def test_a_vendor_reports_what_its_protocol_cannot_express(address: str) -> None:
    sealed(address)
    report = json.loads(run_steno("explain", "odd", "--model", "anthropic/claude-x", "--json").out)
    assert (report["session"], report["branch"], report["model"]) == (
        "odd",
        "main",
        "anthropic/claude-x",
    )
    assert {change["code"] for change in report["changes"]} == {"mode", "repaired"}
    assert {loss["code"] for loss in report["losses"]} >= {"thinking", "call_id"}
    assert [message["number"] for message in report["messages"]] == [None, 1, 2, None]
    assert report["messages"][2]["message"]["type"] == "assistant"
    assert report["tokens"] > 0
    assert report["is_over_budget"] is False


def test_without_a_model_the_one_on_record_sees_it(address: str) -> None:
    made = MemoryStore()
    conversation = sample_session(made)
    conversation.change_model("openai/gpt-5")
    copy_to_store(made, address)
    assert "context for openai/gpt-5" in run_steno("explain", "talk").out


def test_without_a_known_model_no_vendor_is_assumed(address: str) -> None:
    made = MemoryStore()
    conversation = sample_session(made)
    copy_to_store(made, address)
    output = run_steno("explain", "last")
    assert "context for any model" in output.out
    assert output.err == ""
    with_model = MemoryStore()
    conversation = with_model.new([ChatMessage.user("u")], id="own")
    conversation.change_model("house/own")
    copy_to_store(with_model, address)
    output = run_steno("explain", "own")
    assert "context for house/own" in output.out
    assert (output.err.count("\n"), "--model" in output.err) == (1, True)


@pytest.mark.parametrize(
    ("model", "code", "place", "suggestion"),
    [
        ("unknown/x", "provider_unknown", "--model unknown/x", "anthropic, "),
        ("gpt-5", "model_name_malformed", "--model gpt-5", ""),
        ("Antropic/x", "provider_unknown", "--model Antropic/x", " anthropic?\n"),
        ("anthropic", "model_name_missing", "--model", "anthropic/MODEL"),
        ("anthropic/", "model_name_missing", "--model", "anthropic/MODEL"),
        ("\x1b[2Jx/y", "provider_unknown", "--model \\x1b[2Jx/y", ""),
    ],
)
def test_a_model_that_cannot_be_meant_is_refused(
    address: str, model: str, code: str, place: str, suggestion: str
) -> None:
    store_sample_session(address)
    output = run_steno("explain", "talk", "--model", model)
    assert (output.status, output.out) == (2, "")
    assert (output.code, output.place) == (code, place)
    assert suggestion in output.err
    assert "\x1b" not in output.err


def test_models_that_run_here_see_a_session_too(address: str) -> None:
    store_sample_session(address)
    assert "context for offline" in run_steno("explain", "talk", "--model", "offline").out
    assert "context for embedded" in run_steno("explain", "talk", "--model", "embedded").out


@pytest.mark.requirement("S1-12")
def test_feedback_and_summaries_are_shown_as_the_model_gets_them(address: str) -> None:
    made = MemoryStore()
    conversation = made.new([ChatMessage.user("one"), ChatMessage.assistant("two")], id="fed")
    first, second = conversation.entries()
    conversation.append(Feedback(target=second.id, text="Sure?"))
    conversation.append(Compaction(through=first.id, summary="They met."))
    copy_to_store(made, address)
    output = run_steno("explain", "fed", "--full")
    assert output.out.splitlines()[2:] == [
        "",
        "#4 user",
        "    [Summary of the earlier conversation, which is left out here]",
        "",
        "    They met.",
        "",
        "#2 assistant",
        "    two",
        "",
        "#3 user",
        '    [Feedback on the assistant message that begins "two"]',
        "    Sure?",
        "",
        "#4: a summary replaces the earlier messages (compacted)",
        "#3: the feedback on an earlier message is sent as a user message (feedback)",
    ]


def long_talk(address: str) -> None:
    """Keep a session of about 2,000 tokens."""
    made = MemoryStore()
    made.new([ChatMessage.user(f"{n} " + "x" * 350) for n in range(20)], id="long")
    copy_to_store(made, address)


def test_a_model_with_little_room_is_shown_what_fits(address: str) -> None:
    long_talk(address)
    output = run_steno("explain", "long", "--context-tokens", "1500")
    assert "messages left out here" in output.out.splitlines()[3]
    assert "(left_out)" in output.out
    output = run_steno("explain", "long", "--context-tokens", "10")
    assert output.out.endswith("the context does not fit the context window of the model\n")


def left_out(*options: str) -> bool:
    """Return whether messages of the long session are left out."""
    report = json.loads(run_steno("explain", "long", "--json", *options).out)
    return "left_out" in {change["code"] for change in report["changes"]}


def test_settings_of_a_model_take_precedence_over_the_row_of_its_vendor(
    address: str, home: Path
) -> None:
    row = (
        '[providers.lab]\nlike = "vllm"\nbase_url = "http://lab.example"\n'
        "context_tokens = 1500\ncapabilities = { vision = false }\n"
    )
    own = '[models."lab/large"]\ncontext_tokens = 9000\nvision = true\n'
    write_settings(home, row + own)
    long_talk(address)
    assert left_out("--model", "lab/small")
    assert not left_out("--model", "lab/large")
    assert left_out("--model", "lab/large", "--context-tokens", "1500")
    sealed(address)
    note = "this model does not accept images"
    assert note in run_steno("explain", "odd", "--model", "lab/small").out
    assert note not in run_steno("explain", "odd", "--model", "lab/large").out


def test_settings_of_a_model_of_an_unknown_vendor_are_used(address: str, home: Path) -> None:
    write_settings(home, '[models."house/own"]\ncontext_tokens = 1500\n')
    made = MemoryStore()
    messages = [ChatMessage.user(f"{n} " + "x" * 350) for n in range(20)]
    made.new(messages, id="long").change_model("house/own")
    copy_to_store(made, address)
    assert left_out()


def test_the_budget_for_the_response_is_that_of_a_run(address: str, home: Path) -> None:
    long_talk(address)
    model = ("--model", "groq/x", "--context-tokens", "4000")
    assert not left_out(*model)
    write_settings(home, "max_tokens = 3000\n")
    assert left_out(*model)


def test_known_limits_of_local_models_are_used(address: str, home: Path) -> None:
    sealed(address)
    for name in ("offline", "embedded"):
        assert (
            "this model does not accept images" in run_steno("explain", "odd", "--model", name).out
        )
    write_settings(home, '[models."offline/assistant"]\nvision = true\n')
    assert "does not accept images" not in run_steno("explain", "odd", "--model", "offline").out


@pytest.mark.parametrize("path", ["/nowhere/m.gguf", "/a\0b"])
def test_the_file_of_a_model_on_record_is_not_opened(address: str, path: str) -> None:
    made = MemoryStore()
    sample_session(made).change_model(f"embedded:{path}")
    copy_to_store(made, address)
    output = run_steno("explain", "talk")
    assert (output.status, output.err) == (0, "")
    assert "context for embedded:/" in output.out


def test_long_results_are_brought_back_and_shown_as_one_line(address: str) -> None:
    made = MemoryStore()
    call = ChatMessage.assistant(None, [ToolCall(id="c", name="read")])
    made.new([call, ChatMessage.tool_result("c", "long \n" * 60_000)], id="long")
    copy_to_store(made, address)
    line = run_steno("explain", "long").out.splitlines()[4]
    assert line.startswith("#2 tool_result  long long long")
    assert line.endswith("…")
    assert len(line) == 100


def test_control_characters_do_not_reach_the_terminal(address: str) -> None:
    made = MemoryStore()
    made.new([ChatMessage.user("a\x1b]0;owned\x07b")], id="odd")
    copy_to_store(made, address)
    for option in ("--full", "--json", "--branch=main"):
        assert "\x1b" not in run_steno("explain", "odd", option).out


def test_an_empty_session_cannot_be_explained(address: str) -> None:
    made = MemoryStore()
    made.new(id="empty")
    copy_to_store(made, address)
    output = run_steno("explain", "empty")
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == ("nothing_to_send", "context")


def test_the_commands_of_the_guide_print_what_is_shown(tmp_path: Path) -> None:
    environment = os.environ | {"STENO_STORE": "sqlite:work.db"}
    guide = (ROOT / "docs" / "guides" / "context.md").read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(guide))
    assert len(blocks) == 2
    for block in blocks:
        printed = [
            run_guide_line(line, tmp_path, environment) for line in block["commands"].splitlines()
        ]
        assert block["output"] is None or "".join(printed) == block["output"]
