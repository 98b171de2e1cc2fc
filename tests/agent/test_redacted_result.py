"""A redacted result stays redacted: its call is not run again."""

from __future__ import annotations

import asyncio

import pytest

from steno import ChatMessage, ToolCall, ToolResultMessage, check_order
from steno.agent import Agent
from steno.messages.outcome import Outcome
from steno.store import MemoryStore
from steno.testing import ScriptedProvider, ScriptedTool


@pytest.mark.parametrize("calls", [1, 2])
def test_a_call_whose_result_was_taken_out_is_not_run_again(calls: int) -> None:
    """Running the call again would bring back the redacted content."""
    store = MemoryStore()
    reader = ScriptedTool("peek", ["a secret"] * calls)
    asked = [ToolCall.create("peek", id=f"c{number}") for number in range(calls)]
    conversation = store.new([ChatMessage.user("Look.")])
    conversation.append(ChatMessage.assistant("I look.", asked))
    entry = conversation.append(ChatMessage.tool_result("c0", "a secret"))
    store.redact(conversation.id, entry.id, actor="ada", reason="a secret")

    reopened = store.open(conversation.id)
    provider = ScriptedProvider(["Gone."])
    asyncio.run(Agent(provider, reopened, tools=[reader]).run("Go on."))

    assert reader.calls == []
    assert not any("a secret" in (message.text or "") for message in reopened.messages())
    outcomes = [m.outcome for m in reopened.messages() if isinstance(m, ToolResultMessage)]
    assert outcomes == [Outcome.CANCELLED] * calls
    assert not check_order(provider.requests[-1].messages)
