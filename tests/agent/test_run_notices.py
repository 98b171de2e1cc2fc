"""Notices of a run: limits without effect, tools left out, responses cut off."""

from __future__ import annotations

from decimal import Decimal

import pytest

from steno import ChatMessage, StopReason
from steno.agent import ContextChanged, EndReason, Limits, ModelTarget, Notice
from steno.log.queries import Price
from steno.messages.change import Change, ChangeCode
from tests.agent.agent_setup import AgentHarness, read_tool, run


@pytest.mark.parametrize(
    ("stop_reason", "named"),
    [
        (StopReason.END_TURN, ""),
        (StopReason.LENGTH, "token limit"),
        (StopReason.CONTENT_FILTER, "filter"),
    ],
)
def test_an_incomplete_response_is_reported(stop_reason: StopReason, named: str) -> None:
    result = run(AgentHarness([ChatMessage.assistant("Wel", stop_reason=stop_reason)]).run())
    assert (result.end_reason, bool(result.reason)) == (EndReason.DONE, bool(named))
    assert named in result.reason


@pytest.mark.parametrize("price", [None, Price(Decimal(1), Decimal(1))])
def test_a_cost_limit_without_a_price_is_reported_as_no_limit(price: Price | None) -> None:
    harness = AgentHarness(
        ["Yes."], limits=Limits(cost=Decimal(1)), price_of=lambda _: price, model="a/b"
    )
    run(harness.run())
    reasons = [notice.code for notice in harness.events_of(Notice)]
    assert reasons == (["price_unknown"] if price is None else [])


def test_tools_that_a_model_cannot_take_are_left_out_and_reported() -> None:
    harness = AgentHarness(["Yes."], read_tool("read"), target=ModelTarget(tools=False))
    run(harness.run())
    assert harness.provider.requests[0].tools == ()
    [event] = harness.events_of(ContextChanged)
    assert event.change == Change(ChangeCode.TOOLS_LEFT_OUT, "model_without_tools", number=1)
