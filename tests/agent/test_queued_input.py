"""Input queued after a prompt with references: it is sent with it, or returned with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from steno.agent import EndReason, SteeringPolicy
from steno.errors import ProviderError, Unresolved
from steno.messages.message import UserMessage
from steno.messages.request import Request
from steno.ports import ResolvedReference
from steno.records.entry import Mode, ShellCommand
from tests.agent.agent_setup import AgentHarness, run
from tests.agent.reference_doubles import (
    FakeOcr,
    ScriptedResolver,
    SlowResolver,
    agent_in,
    file_reference,
    image_file,
    images_in,
    prompt_with,
    text_in_message,
    unsent_prompt,
)
from tests.inputs.images.image_samples import encode_image, red_image

pytestmark = pytest.mark.requirement("S2-28")
PROMPT = prompt_with("Look.", file_reference("a.py"))
NO_IMAGES = ProviderError("image input is not supported", status=400)
AT_ONCE = [SteeringPolicy.AFTER_CALLS, SteeringPolicy.INTERRUPT]


def user_texts(harness: AgentHarness) -> list[str | None]:
    return [m.text for m in harness.conversation.messages() if isinstance(m, UserMessage)]


def nothing(_: object) -> ResolvedReference:
    return ResolvedReference(error="no such file")


async def steered(
    harness: AgentHarness, resolver: SlowResolver, policy: SteeringPolicy
) -> asyncio.Task[Any]:
    """Steer while a prompt is resolved, and let a shell command print something."""
    task = asyncio.ensure_future(harness.run(PROMPT))
    await resolver.begun.wait()
    harness.agent.steer("And be brief.", policy)
    harness.agent.steer(ShellCommand(command="ls", output=""))
    return task


def taken_back(policy: SteeringPolicy) -> AgentHarness:
    """Queue input after a prompt that cannot be resolved."""
    resolver = SlowResolver()
    resolver.find = nothing
    harness = AgentHarness(["I see."], resolver=resolver)

    async def talk() -> None:
        task = await steered(harness, resolver, policy)
        resolver.go_on.set()
        assert isinstance((await task).error, Unresolved)

    run(talk())
    assert harness.provider.requests == []
    resolver.find = lambda _: "what is there"
    return harness


@pytest.mark.parametrize("policy", SteeringPolicy)
def test_input_after_an_unresolved_prompt_can_be_withdrawn_with_it(
    policy: SteeringPolicy,
) -> None:
    harness = taken_back(policy)
    assert user_texts(harness) == ["$ ls\n"]
    assert unsent_prompt(harness.conversation) == PROMPT
    assert [one.text for one in harness.agent.withdraw()] == ["And be brief."]
    assert harness.agent.withdraw() == ()
    harness.check()


def test_input_that_is_not_withdrawn_is_sent_in_the_next_run() -> None:
    harness = taken_back(SteeringPolicy.AFTER_CALLS)
    assert run(harness.run(PROMPT)).end_reason is EndReason.DONE
    assert user_texts(harness) == ["$ ls\n", "Look.", "And be brief."]
    (request,) = harness.provider.requests
    assert text_in_message(request) == "And be brief."
    harness.check()


@pytest.mark.parametrize("policy", AT_ONCE)
def test_input_after_a_resolved_prompt_is_sent_with_it(policy: SteeringPolicy) -> None:
    resolver = SlowResolver()
    harness = AgentHarness(["I see."], resolver=resolver)

    async def talk() -> None:
        task = await steered(harness, resolver, policy)
        resolver.go_on.set()
        assert (await task).end_reason is EndReason.DONE

    run(talk())
    assert sorted(filter(None, user_texts(harness))) == ["$ ls\n", "And be brief.", "Look."]
    assert user_texts(harness)[0] == "Look."
    (request,) = harness.provider.requests
    assert {text_in_message(request, n) for n in (-2, -1)} == {"$ ls\n", "And be brief."}
    harness.check()


def test_interrupting_resolution_and_withdrawing_later_input_ends_the_run() -> None:
    resolver = SlowResolver()
    harness = AgentHarness([], resolver=resolver)

    async def talk() -> None:
        task = await steered(harness, resolver, SteeringPolicy.AFTER_CALLS)
        assert len(harness.agent.withdraw()) == 1
        harness.agent.interrupt()
        assert (await task).end_reason is EndReason.INTERRUPTED

    run(talk())
    assert user_texts(harness) == ["Look.", "$ ls\n"]
    harness.check()


def test_input_after_a_refused_unreadable_image_is_returned_with_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "plan.png").write_bytes(encode_image(red_image()))
    prompt = prompt_with("Which colour?", image_file())

    def refuse(_: Request) -> ProviderError:
        harness.agent.steer("And be brief.")
        return NO_IMAGES

    harness = agent_in(tmp_path, [refuse])
    assert isinstance(run(harness.run(prompt)).error, Unresolved)
    assert user_texts(harness) == []
    assert unsent_prompt(harness.conversation) == prompt
    assert [one.text for one in harness.agent.withdraw()] == ["And be brief."]
    harness.check()


def test_input_after_a_prompt_that_a_fault_rewinds_can_be_withdrawn() -> None:
    def stumble(_: object) -> str:
        harness.agent.steer("And be brief.")
        raise KeyError("a fault")

    harness = AgentHarness([], resolver=ScriptedResolver(stumble))
    with pytest.raises(KeyError):
        run(harness.run(PROMPT))
    assert user_texts(harness) == []
    assert [one.text for one in harness.agent.withdraw()] == ["And be brief."]


@pytest.mark.requirement("S2-27")
def test_a_refusal_of_images_is_one_even_if_the_mode_has_changed_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "plan.png").write_bytes(encode_image(red_image()))

    def refuse(_: Request) -> ProviderError:
        harness.conversation.change_mode(Mode.ACT)
        return NO_IMAGES

    harness = agent_in(tmp_path, [refuse, "I read."], ocr=FakeOcr())
    harness.conversation.change_mode(Mode.PLAN)
    assert run(harness.run(prompt_with("How much?", image_file()))).text == "I read."
    assert [len(images_in(request)) for request in harness.provider.requests] == [1, 0]
    assert harness.conversation.mode is Mode.ACT
    harness.check()
