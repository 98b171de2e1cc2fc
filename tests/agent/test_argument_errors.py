"""Arguments that were mixed up are refused where they are given, in one line that says what to do."""

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
    """Has everything that a tool has, and says what it is in a text."""

    definition = "undefined"
    capability = Capability.READ
    ruled_as = ()
    subjects = preview = run = bare


# -- who speaks with whom --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (
            "anthropic",
            Conversation(),
            'provider: must be one, such as connect("anthropic"), not str',
        ),
        (
            Conversation(),
            provider(),
            (
                'provider: must be one, such as connect("anthropic"), not Conversation;'
                " the provider comes first, then the conversation"
            ),
        ),
        (
            ScriptedProvider,
            Conversation(),
            'provider: must be one, such as connect("anthropic"), not the class ScriptedProvider',
        ),
        (
            provider(),
            MemoryStore(),
            (
                "conversation: must be a Conversation, such as Conversation() or store.new(), "
                "not MemoryStore"
            ),
        ),
        (
            provider(),
            [ChatMessage.user("Hello.")],
            "conversation: must be a Conversation, such as Conversation() or store.new(), not list",
        ),
    ],
)
def test_an_agent_needs_a_provider_and_a_conversation_in_this_order(
    first: Any, second: Any, said: str
) -> None:
    with pytest.raises(InvalidValue) as refused:
        Agent(first, second)
    assert str(refused.value) == said


def test_a_provider_that_is_not_here_yet_has_to_be_awaited() -> None:
    async def find() -> ScriptedProvider:
        return provider()

    found: Any = find()
    with pytest.raises(InvalidValue, match=r"not coroutine; await\?$"):
        Agent(found, Conversation())
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
    ("name", "value", "said"),
    [
        ("gate", Permissions(), "gate: must be a Gate, not Permissions; Gate(permissions)?"),
        (
            "gate",
            AllowingApprover(),
            "gate: must be a Gate, not AllowingApprover; Gate(approver=…)?",
        ),
        ("gate", Gate, "gate: must be a Gate, not the class Gate"),
        ("gate", "read", "gate: must be a Gate, not str"),
        ("runner", MemoryStore(), "runner: must be a Runner, not MemoryStore; Runner(store)?"),
        ("runner", Runner, "runner: must be a Runner, not the class Runner"),
        (
            "limits",
            {"turns": 3},
            "limits: must be Limits of steno.agent, such as Limits(turns=20), not dict",
        ),
        (
            "limits",
            CommandLimits(),
            "limits: must be Limits of steno.agent, such as Limits(turns=20), not CommandLimits",
        ),
        ("telemetry", None, "telemetry: must be one, such as OpenTelemetry(), not NoneType"),
        ("target", "m-1", 'target: must be a Target, such as Target(model="…"), not str'),
        ("model", ModelTarget(model="m-1"), "model: must be a string, not Target"),
        ("actor", 7, "actor: must be a string, not int"),
        ("price_of", Decimal(3), "price_of: must be a function, not Decimal"),
        ("count", 4, "count: must be a function, not int"),
        ("sleep", 0, "sleep: must be a function, not int"),
    ],
)
def test_a_setting_that_is_something_else_is_refused(name: str, value: Any, said: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Agent(provider(), Conversation(), **{name: value})
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ([ScriptedTool("read"), bare], "tools[1]: must be a tool, not function; @tool?"),
        ([Half], "tools[0]: must be a tool, not the class Half; Half(…)?"),
        ([Half()], "tools[0]: must be a tool, not Half; it has no capability"),
        ([Half.definition], "tools[0]: must be a tool, not ToolDefinition; it has no definition"),
        ("read", "tools[0]: must be a tool, not str; it has no definition"),
        (ScriptedTool("read"), "tools: must be a list of tools, not ScriptedTool; tools=[…]?"),
        (bare, "tools: must be a list of tools, not function; tools=[…]?"),
        (
            [ScriptedTool("read", capability="read")],  # type: ignore[arg-type] # as people do
            (
                "tools[0]: must be a tool, not ScriptedTool; "
                "its capability must be a Capability, such as Capability.READ"
            ),
        ),
        (
            [Undefined()],
            "tools[0]: must be a tool, not Undefined; its definition must be a ToolDefinition",
        ),
    ],
)
def test_what_is_no_tool_is_refused_with_its_place(tools: Any, said: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Agent(provider(), Conversation(), tools=tools)
    assert str(refused.value) == said


def test_a_toolbox_for_its_tools_is_refused(tmp_path: Any) -> None:
    async def main() -> None:
        async with Toolbox(Workspace([tmp_path])) as toolbox:
            boxed: Any = toolbox
            with pytest.raises(InvalidValue, match=r"not Toolbox; its \.tools\?$"):
                Agent(provider(), Conversation(), tools=boxed)
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
    assert run(agent.run("Go.")).ending is EndReason.DONE


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"turns": "3"}, "limits.turns: must be a whole number, not str"),
        ({"turns": 2.5}, "limits.turns: must be a whole number, not float"),
        ({"turns": True}, "limits.turns: must be a whole number, not bool"),
        ({"tokens": 1e6}, "limits.tokens: must be a whole number, not float"),
        (
            {"seconds": timedelta(minutes=1)},
            "limits.seconds: must be a number of seconds, not timedelta",
        ),
        ({"seconds": float("nan")}, "limits.seconds: must be above 0"),
        ({"cost": 0.5}, 'limits.cost: must be a Decimal, such as Decimal("0.50"), not float'),
        ({"cost": Decimal("NaN")}, "limits.cost: must be above 0"),
        ({"invalid_calls": None}, "limits.invalid_calls: must be a whole number, not NoneType"),
    ],
)
def test_a_limit_that_is_no_number_of_its_kind_is_refused(limit: Any, said: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Limits(**limit)
    assert str(refused.value) == said


def test_limits_of_their_kind_are_taken() -> None:
    limits = Limits(turns=None, tokens=10**9, seconds=0.5, cost=Decimal("0.01"), invalid_calls=1)
    assert (limits.turns, limits.seconds) == (None, 0.5)


# -- replays and conversations ---------------------------------------------------------------------


def test_a_replay_takes_records_and_says_where_they_are() -> None:
    store = MemoryStore()
    conversation = store.new([ChatMessage.user("Hello.")])
    mixed_up: list[tuple[Any, str]] = [
        (conversation, "Conversation"),
        (conversation.id, "str"),
        (conversation.entries(), "Entry"),
        (store, "MemoryStore"),
        ([*store.records(conversation.id), None], "NoneType"),
    ]
    for records, kind in mixed_up:
        with pytest.raises(InvalidValue) as refused:
            run(replay(records))
        said = f"replay: takes the records of a session, not {kind}; store.records(id)?"
        assert str(refused.value) == said
    assert run(replay(store.records(conversation.id))).is_same


def test_a_conversation_of_dicts_is_told_what_messages_are_made_with() -> None:
    said: Any = [{"role": "user", "content": "Hello."}]
    with pytest.raises(InvalidMessage) as refused:
        Conversation(said)
    assert str(refused.value) == (
        "conversation: use ChatMessage.user(…) or steno.formats, not dict"
    )
