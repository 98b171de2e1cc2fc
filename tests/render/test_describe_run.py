"""The sentences about events: every interface has the same."""

from __future__ import annotations

from decimal import Decimal

import pytest

from steno import ToolCall, Usage
from steno.agent import CallStarted, EndReason, RunResult, TurnStarted
from steno.agent.session_events import SessionEvent, ShellEnded, ShellStarted
from steno.errors import ProviderError
from steno.messages.event import TextDelta
from steno.render.describe_run import describe_activity, describe_run_end, describe_run_usage
from steno.render.items import ItemKind


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


def test_the_usage_of_a_run_has_its_price_if_that_is_known() -> None:
    done = result(EndReason.DONE)
    assert describe_run_usage(done) == "1,001 tokens"
    assert describe_run_usage(done._replace(cost=Decimal("0.5"))) == "1,001 tokens, $0.5000"


@pytest.mark.parametrize(
    ("event", "activity"),
    [
        (TextDelta(0, "x"), "answering"),
        (TurnStarted(1), "waiting for a/model"),
        (CallStarted(ToolCall(id="1", name="bash", arguments="{}")), "running bash"),
        (ShellStarted("ls \x1b[2J"), "running ls \\x1b[2J"),
        (ShellEnded(0), "working"),
    ],
)
def test_an_activity_is_one_printable_line(event: SessionEvent, activity: str) -> None:
    assert describe_activity(event, lambda: "a/model") == activity
