"""Steering input: withdrawn before it is sent, or sent without an answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from steno import ChatMessage, Conversation
from steno.agent import Agent, ApprovalRequest, CallbackApprover, EndReason, Gate, PromptInput
from steno.errors import InvalidMessage
from steno.messages.message import UserMessage
from steno.records.entry import Approval, ApprovalStatus, Mode, ShellCommand
from steno.testing import ScriptedProvider
from tests.agent.agent_setup import AgentHarness, call, run, turn_with_calls, write_tool


def agent_with(turns: list[Any], gate: Gate | None = None) -> tuple[Agent, Conversation]:
    conversation = Conversation([ChatMessage.system("Work.")])
    provider = ScriptedProvider(turns)
    return Agent(provider, conversation, tools=[write_tool()], gate=gate), conversation


def user_texts(conversation: Conversation) -> list[str | None]:
    return [m.text for m in conversation.messages() if isinstance(m, UserMessage)]


def shell_commands(conversation: Conversation) -> list[str]:
    payloads = [entry.payload for entry in conversation.entries()]
    return [payload.command for payload in payloads if isinstance(payload, ShellCommand)]


def asked_once(agent: list[Agent], then: str) -> Gate:
    """Build a gate whose approver acts on the agent while it is asked, and allows the call."""

    def decide(question: ApprovalRequest) -> bool:
        match then:
            case "withdraw":
                agent[0].steer("rather not")
                agent[0].steer(ShellCommand(command="ls", output=""))
                (taken,) = agent[0].withdraw()
                assert taken.text == "rather not"
            case "aside":
                agent[0].steer(ShellCommand(command="ls", output=""))
            case _:
                agent[0].conversation.change_mode(Mode.PLAN)
        return True

    return Gate(approver=CallbackApprover(decide, actor="ann"))


def test_withdrawn_input_is_never_sent_and_input_without_an_answer_stays() -> None:
    agents: list[Agent] = []
    turns = [turn_with_calls(call("1", "write")), "Done."]
    agent, conversation = agent_with(turns, asked_once(agents, "withdraw"))
    agents.append(agent)
    result = run(agent.run("Go."))
    assert result.end_reason is EndReason.DONE
    assert user_texts(conversation) == ["Go.", "$ ls\n"]
    assert shell_commands(conversation) == ["ls"]
    assert agent.withdraw() == ()


def test_input_that_wants_no_answer_starts_no_turn() -> None:
    provider = ScriptedProvider(["Done."])
    conversation = Conversation([ChatMessage.system("Work.")])
    agent = Agent(provider, conversation)

    async def main() -> EndReason:
        async for event in agent.events("Go."):
            if type(event).__name__ == "TextDelta":
                agent.steer(ShellCommand(command="ls", output=""))
        await asyncio.sleep(0)
        return EndReason.DONE

    assert run(main()) is EndReason.DONE
    assert user_texts(conversation) == ["Go.", "$ ls\n"]
    assert conversation.entries()[-1].payload == ShellCommand(command="ls", output="")


def test_an_allowed_call_is_denied_if_the_mode_has_changed() -> None:
    agents: list[Agent] = []
    tool = write_tool()
    turns = [turn_with_calls(call("1", "write")), "I see."]
    harness = AgentHarness(turns, tool, gate=asked_once(agents, "plan"))
    agents.append(harness.agent)
    run(harness.run())
    assert tool.calls == []
    decisions = [
        entry.payload
        for entry in harness.conversation.entries()
        if isinstance(entry.payload, Approval)
    ]
    assert [decision.status for decision in decisions] == [
        ApprovalStatus.PENDING,
        ApprovalStatus.DENIED,
    ]
    assert decisions[-1].rule == "mode plan"


@pytest.mark.parametrize("prompt", [PromptInput("Look.", ("a.png",)), PromptInput("", piped="a")])
def test_a_prompt_whose_attachments_are_not_in_its_message_is_refused(prompt: PromptInput) -> None:
    agent, conversation = agent_with([], Gate())
    with pytest.raises(InvalidMessage) as caught:
        run(agent.run(prompt))
    assert caught.value.code == "invalid_prompt"
    assert user_texts(conversation) == []
