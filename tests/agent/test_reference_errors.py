"""Runs that are stopped or killed while something is opened, and resolvers that fail."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from steno import ChatMessage, Text
from steno.agent import EndReason, Limits, SteeringPolicy
from steno.errors import ServerFailed, StenoError, Unresolved
from steno.ports import ReferenceBlock, ResolvedReference
from steno.records.entry import Resolution, ResolutionStatus
from steno.store.sqlite.store import SqliteStore
from tests.agent.agent_setup import AgentHarness, call, read_tool, run, turn_with_calls
from tests.agent.reference_doubles import (
    ScriptedResolver,
    SlowResolver,
    agent_in,
    entry_kinds,
    file_reference,
    payloads,
    prompt_with,
    recorded_kinds,
    statuses,
    text_in_message,
)

RESOLVED, FAILED = ResolutionStatus.RESOLVED, ResolutionStatus.FAILED


# -- stopped while something is opened -----------------------------------------------------------


async def begun(harness: AgentHarness, resolver: SlowResolver, prompt: Any) -> asyncio.Task[Any]:
    """Run as far as something is being opened."""
    task = asyncio.ensure_future(harness.run(prompt))
    await resolver.begun.wait()
    return task


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_an_interrupted_resolution_is_completed_in_the_next_run(
    is_cancelled: bool,
) -> None:
    resolver = SlowResolver()
    harness = AgentHarness(["I see."], resolver=resolver)

    async def talk() -> None:
        task = await begun(
            harness, resolver, prompt_with("Look.", file_reference("a.py"), file_reference("b.py"))
        )
        if is_cancelled:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            harness.agent.interrupt()
            assert (await task).end_reason is EndReason.INTERRUPTED
        harness.check()
        assert recorded_kinds(harness) == ["SystemMessage", "UserMessage"]
        assert harness.provider.requests == []
        resolver.go_on.set()
        assert (await harness.run(None)).end_reason is EndReason.DONE

    run(talk())
    assert [pointer for pointer, _ in resolver.asked] == [
        file_reference("a.py"),
        file_reference("b.py"),
    ]
    assert statuses(harness) == [RESOLVED, RESOLVED]
    harness.check()


def test_a_prompt_before_a_stop_is_resolved_with_the_next_prompt() -> None:
    resolver = SlowResolver()
    harness = AgentHarness(["I see."], resolver=resolver)

    async def talk() -> None:
        task = await begun(harness, resolver, prompt_with("Look.", file_reference("a.py")))
        harness.agent.interrupt()
        await task
        resolver.go_on.set()
        await harness.run("Well?")

    run(talk())
    (request,) = harness.provider.requests
    assert "what is there" in text_in_message(request, -2)
    assert text_in_message(request) == "Well?"


def test_input_during_resolution_gets_one_answer_with_the_prompt() -> None:
    resolver = SlowResolver()
    harness = AgentHarness(["I see."], resolver=resolver)

    async def talk() -> None:
        task = await begun(harness, resolver, prompt_with("Look.", file_reference("a.py")))
        resolver.go_on.set()
        harness.agent.steer(
            prompt_with("Or this.", file_reference("b.py")), SteeringPolicy.INTERRUPT
        )
        assert (await task).end_reason is EndReason.DONE

    run(talk())
    (request,) = harness.provider.requests
    assert [text_in_message(request, n).split() for n in (-2, -1)] == [
        [*text.split(), "what", "is", "there"] for text in ("Look.", "Or this.")
    ]
    harness.check()


def test_a_run_that_is_out_of_time_while_something_is_opened_ends_in_order() -> None:
    resolver = SlowResolver()
    harness = AgentHarness(["I see."], resolver=resolver, limits=Limits(seconds=0.01))
    assert (
        run(harness.run(prompt_with("Look.", file_reference("a.py")))).end_reason is EndReason.LIMIT
    )
    assert recorded_kinds(harness) == ["SystemMessage", "UserMessage"]
    harness.check()


@pytest.mark.parametrize("opened", [0, 1])
def test_a_program_killed_during_resolution_resumes_there(tmp_path: Path, opened: int) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(f"this is {name}\n")
    path = tmp_path / "log.sqlite"
    with SqliteStore(path) as store:
        conversation = store.new([ChatMessage.system("Work.")])
        entry = conversation.append(
            prompt_with("Look.", file_reference("a.py"), file_reference("b.py"))
        )
        for block in range(1, 1 + opened):
            found = (Text("what was found then"),)
            conversation.append(
                Resolution(target=entry.id, block=block, status=RESOLVED, content=found)
            )
    with SqliteStore(path) as store:
        conversation = store.open(conversation.id)
        harness = agent_in(tmp_path, ["I see."], store=store, conversation=conversation)
        assert run(harness.run(None)).end_reason is EndReason.DONE
        text = text_in_message(harness.provider.requests[0])
        assert ("this is a.py" in text) is (opened == 0)
        assert ("what was found then" in text) is (opened == 1)
        assert "this is b.py" in text
        assert statuses(harness) == [RESOLVED, RESOLVED]
        harness.check()


# -- resolvers that fail -------------------------------------------------------------------------


def failing(error: Exception) -> ScriptedResolver:
    def find(pointer: ReferenceBlock) -> str:
        if pointer == file_reference("bad.py"):
            raise error
        return "what is there"

    return ScriptedResolver(find)


def test_an_error_that_a_resolver_raises_is_reported_like_one_that_it_returns() -> None:
    harness = AgentHarness(["Never."], resolver=failing(ServerFailed("mcp lib: it is gone")))
    result = run(harness.run(prompt_with("Look.", file_reference("bad.py"))))
    assert isinstance(result.error, Unresolved)
    assert "mcp lib: it is gone" in result.reason
    assert recorded_kinds(harness)[-2:] == ["Resolution failed", "Rewind"]
    harness.check()


def test_a_fault_of_a_resolver_is_raised_and_the_branch_is_as_before() -> None:
    harness = AgentHarness(["Hello."], resolver=failing(KeyError("private text")))
    with pytest.raises(KeyError):
        run(harness.run(prompt_with("Look.", file_reference("a.py"), file_reference("bad.py"))))
    assert not harness.agent.is_running
    assert entry_kinds(harness.conversation.entries()) == ["SystemMessage", "Rewind"]
    assert statuses(harness) == [RESOLVED, FAILED]
    error = payloads(harness, Resolution)[-1].error
    assert error is not None
    assert error.endswith(": KeyError")
    assert run(harness.run("Hi.")).end_reason is EndReason.DONE
    harness.check()


def test_a_fault_of_a_resolver_in_the_middle_does_not_come_up_in_every_run_to_come() -> None:
    def interfere(*_: Any) -> str:
        harness.agent.steer(prompt_with("And this?", file_reference("bad.py")))
        return "Read."

    turns = [turn_with_calls(call("c1", "look")), "Hello."]
    harness = AgentHarness(turns, read_tool("look", interfere), resolver=failing(KeyError("bad")))
    with pytest.raises(KeyError):
        run(harness.run())
    harness.check()
    assert run(harness.run("Go on.")).end_reason is EndReason.DONE
    assert ": KeyError" in text_in_message(harness.provider.requests[-1], -2)
    harness.check()


@pytest.mark.parametrize(
    "finding",
    [
        ResolvedReference(),
        ResolvedReference(content=(Text("x"),), details={"when": object()}),
        None,
    ],
)
def test_a_finding_that_is_none_is_a_fault_and_leaves_the_record_in_order(finding: Any) -> None:
    harness = AgentHarness(["Hello."], resolver=ScriptedResolver(lambda _: finding))
    with pytest.raises((StenoError, AttributeError)):
        run(harness.run(prompt_with("Look.", file_reference("a.py"))))
    assert entry_kinds(harness.conversation.entries()) == ["SystemMessage", "Rewind"]
    assert run(harness.run("Hi.")).end_reason is EndReason.DONE
    harness.check()


def test_an_error_may_be_long_and_hold_what_no_text_may(tmp_path: Path) -> None:
    finding = ResolvedReference(error="\ud800" + "x" * 5_000)
    harness = AgentHarness(["Never."], resolver=ScriptedResolver(lambda _: finding))
    assert (
        run(harness.run(prompt_with("Look.", file_reference("a.py")))).end_reason
        is EndReason.FAILED
    )
    error = payloads(harness, Resolution)[0].error
    assert error is not None
    assert len(error) == 1_000
    harness.check()


def test_of_many_things_that_cannot_be_opened_a_few_are_named(tmp_path: Path) -> None:
    harness = agent_in(tmp_path, [])
    result = run(harness.run(prompt_with("Look.", *[file_reference(f"no{n}") for n in range(500)])))
    assert result.reason.endswith("; and 495 more")
    assert len(result.reason) < 2_000
