"""The items of entries, and the sentences about events: every interface has the same."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from steno import ChatMessage, ToolCall, Usage
from steno.agent import (
    CallEnded,
    CallStarted,
    ContextChanged,
    EndReason,
    EntryRecorded,
    Notice,
    RunResult,
    TurnStarted,
)
from steno.agent.session_events import SessionEvent, ShellEnded, ShellStarted
from steno.errors import ProviderError
from steno.log.queries import as_version_2
from steno.messages.call import map_tool_name
from steno.messages.change import Change, ChangeCode
from steno.messages.event import TextDelta
from steno.messages.outcome import Outcome
from steno.ports import PreviewKind, PreviewPart
from steno.records.entry import Entry, ModelChange, ShellCommand
from steno.render.items import CallState, ItemHint, ItemKind, TextForm
from steno.render.run_output import (
    JsonReporter,
    RunDescription,
    RunReporter,
    event_as_json,
)
from steno.render.session_items import (
    ChangeSummarizer,
    EventDescriber,
    describe_activity,
    describe_run_end,
    describe_run_usage,
    item_from_prompt,
)


def result(reason: EndReason, text: str = "", error: ProviderError | None = None) -> RunResult:
    return RunResult(reason, None, 1, Usage(input_tokens=1_000, output_tokens=1), None, text, error)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (EndReason.FAILED, ItemKind.ERROR),
        (EndReason.INTERRUPTED, ItemKind.NOTICE),
        (EndReason.DONE, ItemKind.NOTICE),
    ],
)
def test_every_end_with_a_reason_is_described(reason: EndReason, kind: ItemKind) -> None:
    ending = describe_run_end(result(reason, "it was cut"))
    assert ending is not None
    assert ending.kind is kind


def test_a_run_that_is_simply_done_or_has_reported_its_limit_needs_no_sentence() -> None:
    assert describe_run_end(result(EndReason.DONE)) is None
    assert describe_run_end(result(EndReason.LIMIT, "50 turns")) is None


def test_the_content_of_a_call_comes_from_its_tool() -> None:
    call = ToolCall.create("deploy", {"to": "test"})
    entry = Entry(id="a", payload=ChatMessage.assistant(None, [call]))
    (plain,) = EventDescriber().describe_entry(entry)
    assert (plain.body, plain.form) == ("", TextForm.PLAIN)
    part = PreviewPart(PreviewKind.CODE, "x = 1", "toml")
    (item,) = EventDescriber(content=lambda _: part).describe_entry(entry)
    assert (item.body, item.form, item.language) == ("x = 1", TextForm.CODE, "toml")


def test_the_usage_of_a_run_has_its_price_if_that_is_known() -> None:
    done = result(EndReason.DONE)
    assert describe_run_usage(done) == "1,001 tokens"
    assert describe_run_usage(done._replace(cost=Decimal("0.5"))) == "1,001 tokens, $0.5000"


@pytest.mark.parametrize(("session", "line"), [("s1", "! interrupted; -x goes on\n"), (None, "")])
def test_the_command_line_names_its_options(
    capsys: pytest.CaptureFixture[str], session: str | None, line: str
) -> None:
    """A run that is not stored cannot be continued."""
    reporter = RunReporter(hints={ItemHint.CONTINUE: "; -x goes on"})
    reporter.begin(RunDescription(session, "main", "a/model", "act", "/"))
    capsys.readouterr()
    reporter.end(result(EndReason.INTERRUPTED))
    assert capsys.readouterr().err == line


FOREIGN_CALL = ToolCall(id="1", name=map_tool_name("fs.read"), original_name="fs.read")


def test_a_run_is_reported_with_the_names_that_the_model_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    denied = ChatMessage.tool_result("1", "no", outcome=Outcome.DENIED)
    reporter = JsonReporter(streams=False)
    reporter.begin(RunDescription("s", "main", "a/model", "act", "/"))
    for event in (CallStarted(FOREIGN_CALL), CallEnded(FOREIGN_CALL, denied)):
        reporter.on_event(event)
    reporter.end(result(EndReason.DONE))
    output = capsys.readouterr()
    assert json.loads(output.out)["denied"][0]["tool"] == "fs.read"
    assert output.err.count("fs.read") == 2
    assert FOREIGN_CALL.name not in output.err
    line = event_as_json(CallStarted(FOREIGN_CALL))
    assert line is not None
    assert line["call"]["name"] == "fs.read"


@pytest.mark.parametrize(
    ("event", "activity"),
    [
        (TextDelta(0, "x"), "answering"),
        (TurnStarted(1), "waiting for a/model"),
        (CallStarted(ToolCall(id="1", name="bash", arguments="{}")), "running bash"),
        (CallStarted(FOREIGN_CALL), "running fs.read"),
        (ShellStarted("ls \x1b[2J"), "running ls \\x1b[2J"),
        (ShellEnded(0), "working"),
    ],
)
def test_an_activity_is_one_printable_line(event: SessionEvent, activity: str) -> None:
    assert describe_activity(event, lambda: "a/model") == activity


# -- changes ----------------------------------------------------------------------------------


def notices(*events: SessionEvent, is_verbose: bool = False) -> list[str]:
    shown: list[SessionEvent] = []
    summarizer = ChangeSummarizer(shown.append, is_verbose=is_verbose)
    for event in events:
        summarizer(event)
    return [event.code for event in shown if isinstance(event, Notice)]


def test_ignored_fields_are_summarized_once_for_each_model() -> None:
    ignored = ContextChanged(Change(ChangeCode.TOOL, "keywords_ignored", place="request.tools[0]"))
    change = EntryRecorded(Entry(id="1", payload=ModelChange(old="a/b", new="c/d")))
    run = (ignored, ignored, TurnStarted(1), ignored, TurnStarted(2))
    assert notices(*run) == ["fields_ignored"]
    assert notices(*run, change, *run) == ["fields_ignored", "fields_ignored"]
    assert notices(*run, is_verbose=True) == [ChangeCode.TOOL] * 3


def test_a_run_without_a_user_prints_the_same_notices(capsys: pytest.CaptureFixture[str]) -> None:
    shortened = ContextChanged(Change(ChangeCode.SHORTENED, "old_result", place="#3"))
    mode = ContextChanged(Change(ChangeCode.MODE, "in_system_message", value="plan"))
    printed: list[str] = []
    for is_verbose in (False, True):
        reporter = RunReporter(verbose=is_verbose)
        for event in (shortened, mode, TurnStarted(1)):
            reporter.on_event(event)
        printed.append(capsys.readouterr().err)
    text = "the middle of an old tool result is left out to save room"
    assert printed[0] == f"! {text}\n"
    assert printed[1].startswith(f"! #3: {text} (shortened)\n! ")


# -- entries ---------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["ls", "for name in *; do\n  echo $name\ndone"])
def test_body_of_a_shell_command_is_its_output(command: str) -> None:
    recorded = ShellCommand(command=command, output="one\ntwo\n", status=0)
    entry = Entry(id="e1", payload=recorded)
    for found in (entry, as_version_2(entry)):
        item = item_from_prompt(found, recorded.message)
        assert (item.kind, item.state, item.body) == (ItemKind.SHELL, CallState.DONE, "one\ntwo\n")
