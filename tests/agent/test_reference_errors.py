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


async def begun(desk: AgentHarness, resolver: SlowResolver, prompt: Any) -> asyncio.Task[Any]:
    """Run as far as something is being opened."""
    task = asyncio.ensure_future(desk.run(prompt))
    await resolver.begun.wait()
    return task


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_who_stops_while_something_is_opened_finds_it_opened_in_the_next_run(
    is_cancelled: bool,
) -> None:
    resolver = SlowResolver()
    desk = AgentHarness(["I see."], resolver=resolver)

    async def talk() -> None:
        task = await begun(
            desk, resolver, prompt_with("Look.", file_reference("a.py"), file_reference("b.py"))
        )
        if is_cancelled:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            desk.agent.interrupt()
            assert (await task).ending is EndReason.INTERRUPTED
        desk.check()
        assert recorded_kinds(desk) == ["SystemMessage", "UserMessage"]
        assert desk.provider.requests == []
        resolver.go_on.set()
        assert (await desk.run(None)).ending is EndReason.DONE

    run(talk())
    assert [pointer for pointer, _ in resolver.asked] == [
        file_reference("a.py"),
        file_reference("b.py"),
    ]
    assert statuses(desk) == [RESOLVED, RESOLVED]
    desk.check()


def test_what_was_said_before_a_stop_is_opened_with_the_next_prompt() -> None:
    resolver = SlowResolver()
    desk = AgentHarness(["I see."], resolver=resolver)

    async def talk() -> None:
        task = await begun(desk, resolver, prompt_with("Look.", file_reference("a.py")))
        desk.agent.interrupt()
        await task
        resolver.go_on.set()
        await desk.run("Well?")

    run(talk())
    (request,) = desk.provider.requests
    assert "what is there" in text_in_message(request, -2)
    assert text_in_message(request) == "Well?"


def test_who_says_something_else_while_a_prompt_is_opened_gets_one_answer_to_both() -> None:
    resolver = SlowResolver()
    desk = AgentHarness(["I see."], resolver=resolver)

    async def talk() -> None:
        task = await begun(desk, resolver, prompt_with("Look.", file_reference("a.py")))
        resolver.go_on.set()
        desk.agent.steer(prompt_with("Or this.", file_reference("b.py")), SteeringPolicy.INTERRUPT)
        assert (await task).ending is EndReason.DONE

    run(talk())
    (request,) = desk.provider.requests
    assert [text_in_message(request, n).split() for n in (-2, -1)] == [
        [*words.split(), "what", "is", "there"] for words in ("Look.", "Or this.")
    ]
    desk.check()


def test_a_run_that_is_out_of_time_while_something_is_opened_ends_in_order() -> None:
    resolver = SlowResolver()
    desk = AgentHarness(["I see."], resolver=resolver, limits=Limits(seconds=0.01))
    assert run(desk.run(prompt_with("Look.", file_reference("a.py")))).ending is EndReason.LIMIT
    assert recorded_kinds(desk) == ["SystemMessage", "UserMessage"]
    desk.check()


@pytest.mark.parametrize("opened", [0, 1])
def test_a_program_that_was_killed_while_something_was_opened_goes_on_there(
    tmp_path: Path, opened: int
) -> None:
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
        desk = agent_in(tmp_path, ["I see."], store=store, conversation=conversation)
        assert run(desk.run(None)).ending is EndReason.DONE
        said = text_in_message(desk.provider.requests[0])
        assert ("this is a.py" in said) is (opened == 0)
        assert ("what was found then" in said) is (opened == 1)
        assert "this is b.py" in said
        assert statuses(desk) == [RESOLVED, RESOLVED]
        desk.check()


# -- resolvers that fail -------------------------------------------------------------------------


def failing(error: Exception) -> ScriptedResolver:
    def find(pointer: ReferenceBlock) -> str:
        if pointer == file_reference("bad.py"):
            raise error
        return "what is there"

    return ScriptedResolver(find)


def test_an_error_that_a_resolver_raises_is_told_like_one_that_it_returns() -> None:
    desk = AgentHarness(["Never."], resolver=failing(ServerFailed("mcp lib: it is gone")))
    result = run(desk.run(prompt_with("Look.", file_reference("bad.py"))))
    assert isinstance(result.error, Unresolved)
    assert "mcp lib: it is gone" in result.reason
    assert recorded_kinds(desk)[-2:] == ["Resolution failed", "Rewind"]
    desk.check()


def test_a_fault_of_a_resolver_is_raised_and_the_branch_is_as_before() -> None:
    desk = AgentHarness(["Hello."], resolver=failing(KeyError("private words")))
    with pytest.raises(KeyError):
        run(desk.run(prompt_with("Look.", file_reference("a.py"), file_reference("bad.py"))))
    assert not desk.agent.is_running
    assert entry_kinds(desk.conversation.entries()) == ["SystemMessage", "Rewind"]
    assert statuses(desk) == [RESOLVED, FAILED]
    error = payloads(desk, Resolution)[-1].error
    assert error == "a fault came up while it was opened: KeyError"
    assert run(desk.run("Hi.")).ending is EndReason.DONE
    desk.check()


def test_a_fault_of_a_resolver_in_the_middle_does_not_come_up_in_every_run_to_come() -> None:
    def interfere(*_: Any) -> str:
        desk.agent.steer(prompt_with("And this?", file_reference("bad.py")))
        return "Read."

    turns = [turn_with_calls(call("c1", "look")), "Hello."]
    desk = AgentHarness(turns, read_tool("look", interfere), resolver=failing(KeyError("bad")))
    with pytest.raises(KeyError):
        run(desk.run())
    desk.check()
    assert run(desk.run("Go on.")).ending is EndReason.DONE
    assert "a fault came up" in text_in_message(desk.provider.requests[-1], -2)
    desk.check()


@pytest.mark.parametrize(
    "finding",
    [
        ResolvedReference(),
        ResolvedReference(content=(Text("x"),), details={"when": object()}),
        None,
    ],
)
def test_a_finding_that_is_none_is_a_fault_and_leaves_the_record_in_order(finding: Any) -> None:
    desk = AgentHarness(["Hello."], resolver=ScriptedResolver(lambda _: finding))
    with pytest.raises((StenoError, AttributeError)):
        run(desk.run(prompt_with("Look.", file_reference("a.py"))))
    assert entry_kinds(desk.conversation.entries()) == ["SystemMessage", "Rewind"]
    assert run(desk.run("Hi.")).ending is EndReason.DONE
    desk.check()


def test_an_error_may_be_long_and_hold_what_no_text_may(tmp_path: Path) -> None:
    finding = ResolvedReference(error="\ud800" + "x" * 5_000)
    desk = AgentHarness(["Never."], resolver=ScriptedResolver(lambda _: finding))
    assert run(desk.run(prompt_with("Look.", file_reference("a.py")))).ending is EndReason.FAILED
    error = payloads(desk, Resolution)[0].error
    assert error is not None
    assert len(error) == 1_000
    desk.check()


def test_of_many_things_that_cannot_be_opened_a_few_are_named(tmp_path: Path) -> None:
    desk = agent_in(tmp_path, [])
    result = run(desk.run(prompt_with("Look.", *[file_reference(f"no{n}") for n in range(500)])))
    assert "495 more like these" in result.reason
    assert len(result.reason) < 2_000
