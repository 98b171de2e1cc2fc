"""Arguments that were mixed up are refused where they are given, in one line with the remedy."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from steno import ChatMessage, Conversation, InvalidMessage, InvalidValue, ToolDefinition
from steno.agent import (
    Agent,
    AllowingApprover,
    Capability,
    EndReason,
    Gate,
    Limits,
    ModelTarget,
    Permissions,
    Runner,
    Tool,
)
from steno.agent.replay.verify import replay
from steno.store import MemoryStore
from steno.testing import ScriptedProvider, ScriptedTool
from steno.tools import CommandLimits, Toolbox, Workspace, tool
from tests.agent.agent_setup import run


def provider() -> ScriptedProvider:
    return ScriptedProvider(["Done."])


def bare(town: str) -> str:
    """Return the temperature of a town."""
    return town


class Half:
    """Has a definition, and nothing else of a tool."""

    definition = ToolDefinition(name="half", description="Half.", parameters={"type": "object"})


class Undefined:
    """Has every member of a tool, and a text as its definition."""

    definition = "undefined"
    capability = Capability.READ
    rule_aliases = ()
    subjects = preview = run = bare


class WithoutRuleAliases(Half):
    """Has every member of a tool but one."""

    capability = Capability.READ
    subjects = preview = run = bare


class OneRuleAlias(WithoutRuleAliases):
    """Has a text as its rule aliases."""

    rule_aliases = "read"


# -- provider and conversation ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "place", "code"),
    [
        ("anthropic", Conversation(), "provider", "wrong_type"),
        (Conversation(), provider(), "provider", "arguments_swapped"),
        (ScriptedProvider, Conversation(), "provider", "wrong_type"),
        (provider(), MemoryStore(), "conversation", "wrong_type"),
        (provider(), [ChatMessage.user("Hello.")], "conversation", "wrong_type"),
    ],
)
def test_an_agent_needs_a_provider_and_a_conversation_in_this_order(
    first: Any, second: Any, place: str, code: str
) -> None:
    with pytest.raises(InvalidValue) as refused:
        Agent(first, second)
    assert (refused.value.place, refused.value.code) == (place, code)


def test_a_refusal_names_the_expected_and_the_given_type() -> None:
    store: Any = MemoryStore()
    with pytest.raises(InvalidValue) as refused:
        Agent(provider(), Conversation(), runner=store)
    assert (refused.value.place, refused.value.code) == ("runner", "runner_is_store")
    assert all(name in refused.value.message for name in ("MemoryStore", "Runner(store)"))


def test_a_provider_that_is_not_here_yet_has_to_be_awaited() -> None:
    async def find() -> ScriptedProvider:
        return provider()

    found: Any = find()
    with pytest.raises(InvalidValue) as refused:
        Agent(found, Conversation())
    assert (refused.value.place, refused.value.code) == ("provider", "not_awaited")
    assert Agent(run(found), Conversation()).conversation.messages() == ()


def test_no_text_of_the_caller_is_in_a_refusal() -> None:
    key: Any = "sk-secret"
    right: dict[str, Any] = {"provider": provider(), "conversation": Conversation()}
    for wrong in ({"provider": key}, {"gate": key}, {"tools": [key]}, {"limits": key}):
        with pytest.raises(InvalidValue) as refused:
            Agent(**(right | wrong))
        assert key not in str(refused.value)


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("gate", Permissions(), "gate_is_permissions"),
        ("gate", AllowingApprover(), "gate_is_approver"),
        ("gate", Gate, "wrong_type"),
        ("gate", "read", "wrong_type"),
        ("runner", MemoryStore(), "runner_is_store"),
        ("runner", Runner, "wrong_type"),
        ("limits", {"turns": 3}, "wrong_type"),
        ("limits", CommandLimits(), "wrong_type"),
        ("telemetry", None, "wrong_type"),
        ("target", "m-1", "wrong_type"),
        ("model", ModelTarget(model="m-1"), "wrong_type"),
        ("actor", 7, "wrong_type"),
        ("price_of", Decimal(3), "wrong_type"),
        ("count_tokens", 4, "wrong_type"),
        ("sleep", 0, "wrong_type"),
    ],
)
def test_a_setting_that_is_something_else_is_refused(name: str, value: Any, code: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Agent(provider(), Conversation(), **{name: value})
    assert (refused.value.place, refused.value.code) == (name, code)


@pytest.mark.parametrize(
    ("tools", "place", "code"),
    [
        ([ScriptedTool("read"), bare], "tools[1]", "tool_is_function"),
        ([Half], "tools[0]", "tool_is_class"),
        ([Half()], "tools[0]", "tool_without_capability"),
        ([Half.definition], "tools[0]", "tool_without_definition"),
        ("read", "tools[0]", "tool_without_definition"),
        (ScriptedTool("read"), "tools", "tools_not_listed"),
        (bare, "tools", "tools_not_listed"),
        (
            [ScriptedTool("read", capability="read")],  # type: ignore[arg-type] # as people do
            "tools[0]",
            "tool_capability_type",
        ),
        ([Undefined()], "tools[0]", "tool_definition_type"),
        ([WithoutRuleAliases()], "tools[0]", "tool_without_rule_aliases"),
        ([OneRuleAlias()], "tools[0]", "tool_rule_aliases_type"),
    ],
)
def test_an_invalid_tool_is_refused_with_its_place(tools: Any, place: str, code: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Agent(provider(), Conversation(), tools=tools)
    assert (refused.value.place, refused.value.code) == (place, code)


def test_a_toolbox_for_its_tools_is_refused(tmp_path: Any) -> None:
    async def main() -> None:
        async with Toolbox(Workspace([tmp_path])) as toolbox:
            boxed: Any = toolbox
            with pytest.raises(InvalidValue) as refused:
                Agent(provider(), Conversation(), tools=boxed)
            assert refused.value.code == "tools_is_toolbox"
            Agent(provider(), Conversation(), tools=toolbox.tools)

    run(main())


def test_everything_that_is_right_is_taken_and_tools_may_come_from_an_iterator() -> None:
    store = MemoryStore()
    made: list[Tool] = [tool(capability=Capability.READ)(bare), ScriptedTool("read")]
    agent = Agent(
        provider(),
        store.new(),
        tools=iter(made),
        gate=Gate(Permissions()),
        runner=Runner(store),
        model="lab/m",
        target=ModelTarget(model="m"),
        limits=Limits(turns=1),
        actor="ada",
    )
    assert run(agent.run("Go.")).end_reason is EndReason.DONE


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ({"turns": "3"}, "limit_type"),
        ({"turns": 2.5}, "limit_type"),
        ({"turns": True}, "limit_type"),
        ({"tokens": 1e6}, "limit_type"),
        ({"seconds": timedelta(minutes=1)}, "limit_type"),
        ({"seconds": float("nan")}, "limit_not_positive"),
        ({"cost": 0.5}, "limit_type"),
        ({"cost": Decimal("NaN")}, "limit_not_positive"),
        ({"invalid_calls": None}, "limit_type"),
    ],
)
def test_a_limit_that_is_no_number_of_its_kind_is_refused(limit: Any, code: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Limits(**limit)
    assert (refused.value.place, refused.value.code) == (f"limits.{next(iter(limit))}", code)


def test_limits_of_their_kind_are_taken() -> None:
    limits = Limits(turns=None, tokens=10**9, seconds=0.5, cost=Decimal("0.01"), invalid_calls=1)
    assert (limits.turns, limits.seconds) == (None, 0.5)


# -- replays and conversations ---------------------------------------------------------------------


def test_a_replay_needs_records() -> None:
    store = MemoryStore()
    conversation = store.new([ChatMessage.user("Hello.")])
    mixed_up: list[Any] = [
        conversation,
        conversation.id,
        conversation.entries(),
        store,
        [*store.records(conversation.id), None],
    ]
    for records in mixed_up:
        with pytest.raises(InvalidValue) as refused:
            run(replay(records))
        assert (refused.value.place, refused.value.code) == ("replay", "not_records")
    assert run(replay(store.records(conversation.id))).is_same


def test_a_conversation_of_dicts_is_refused_with_the_constructor() -> None:
    messages: Any = [{"role": "user", "content": "Hello."}]
    with pytest.raises(InvalidMessage) as refused:
        Conversation(messages)
    assert refused.value.place == "conversation"
    assert all(name in refused.value.message for name in ("ChatMessage.user", "dict"))
