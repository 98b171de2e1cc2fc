"""The strategies draw every kind of value, including odd ones."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any, get_args

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from steno import AssistantMessage, Block, Event, ToolCallDelta, ToolResult, check_order, testing
from steno.messages.content import ImageSource
from steno.messages.message import Message
from steno.messages.order import OrderCode
from steno.messages.outcome import Outcome
from steno.messages.usage import StopReason
from steno.records.entry import Payload
from steno.testing import StreamHabits

STRATEGIES = [name for name in testing.__all__ if name[0].islower()]
FIRST_FOUND = settings(max_examples=10_000, database=None, phases=[Phase.generate])


def is_found(strategy: SearchStrategy[Any], condition: Callable[[Any], bool]) -> bool:
    """Check that the strategy draws such a value; fails the test if it does not."""
    find(strategy, condition, settings=FIRST_FOUND)
    return True


# -- public names ------------------------------------------------------------------------------


def test_every_public_name_exists_and_is_documented() -> None:
    assert testing.__all__ == sorted(testing.__all__)
    for name in testing.__all__:
        assert inspect.getdoc(getattr(testing, name)), name


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_makes_values_and_is_shown_by_its_name(name: str) -> None:
    strategy = getattr(testing, name)()
    assert repr(strategy) == f"{name}()"
    assert is_found(strategy, lambda _: True)


def without_hypothesis(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program where hypothesis is not installed, and nothing else of test tools is."""
    absent = "import sys; sys.modules.update(hypothesis=None, pytest=None)\n"
    return subprocess.run(
        [sys.executable, "-c", absent + code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_doubles_and_kits_need_no_hypothesis() -> None:
    run = without_hypothesis(
        """
import asyncio
import steno.testing.conformance, steno.testing.stores
from steno import ChatMessage, Conversation, ToolCall
from steno.agent import Agent
from steno.testing import ReplayingProvider, ScriptedProvider, ScriptedTool, ScriptRanOut

provider = ScriptedProvider([ChatMessage.assistant(None, [ToolCall(id="c1", name="t")]), "Done."])
agent = Agent(provider, Conversation(), tools=[ScriptedTool("t")])
print(asyncio.run(agent.run("Go.")).text)
"""
    )
    assert (run.stdout, run.stderr) == ("Done.\n", "")


@pytest.mark.parametrize(
    "code",
    [
        "from steno.testing import messages",
        "from steno.testing import *",
        "import steno.testing; steno.testing.StreamHabits()",
        "import steno.testing.strategies",
    ],
)
def test_without_hypothesis_a_strategy_names_the_extra(code: str) -> None:
    run = without_hypothesis(code)
    expected = (
        "steno.errors.MissingExtra: steno.testing: strategies need hypothesis: "
        "pip install 'steno-agent[testing]'"
    )
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1] == expected


def test_a_strategy_is_the_same_wherever_its_module_was_loaded_from() -> None:
    """Some modules have the name of a strategy; importing must return the strategy."""
    code = """
import steno.testing.strategies.message_strategies, steno.testing.strategies.event_strategies
from steno.testing import *
from steno.testing import blocks, events, messages
from steno import testing
assert messages is testing.messages is testing.strategies.messages
assert all([callable(getattr(testing, name)) for name in testing.__all__ if name.islower()])
assert callable(blocks) and callable(events)
print("fine")
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (run.stdout, run.stderr) == ("fine\n", "")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'steno\.testing' has no attribute 'nothing'"):
        testing.nothing  # noqa: B018 - it raises


# -- every kind is drawn -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "union"),
    [
        (testing.blocks, Block),
        (testing.image_sources, ImageSource),
        (testing.messages, Message),
        (testing.payloads, Payload),
        (testing.events, Event),
    ],
)
def test_every_member_of_a_union_is_drawn(strategy: Any, union: Any) -> None:
    for kind in get_args(union):
        assert is_found(strategy().map(type), [kind].__contains__)


def test_every_outcome_and_stop_reason_is_drawn() -> None:
    for outcome in Outcome:
        assert is_found(testing.tool_results().map(lambda r: r.outcome), [outcome].__contains__)
    for reason in (None, *StopReason):
        found = testing.assistant_messages().map(lambda message: message.stop_reason)
        assert is_found(found, [reason].__contains__)


@pytest.mark.parametrize(
    "part",
    ["", "\0", "\u2028", "\u202e", "\u0301", "\ufeff", "\r", "\\", '"', "😀", "\U0010ffff"],
)
def test_text_contains_odd_characters(part: str) -> None:
    assert is_found(testing.texts(), lambda text: part in text if part else text == "")


@given(testing.texts() | testing.identifiers() | testing.visible_texts())
def test_text_never_contains_a_lone_surrogate(text: str) -> None:
    assert text.encode().decode() == text


def test_json_is_deep_and_has_large_numbers() -> None:
    def depth(value: Any) -> int:
        inner = value.values() if isinstance(value, dict) else value
        return 1 + max(map(depth, inner), default=0) if isinstance(value, (dict, list)) else 0

    values = testing.json_values()
    assert is_found(values, lambda value: type(value) is int and abs(value) > 2**100)
    assert is_found(values, lambda value: type(value) is float and abs(value) > 1e100)
    assert is_found(values, lambda value: depth(value) > 30)
    assert is_found(values, lambda value: isinstance(value, dict) and "" in value)
    texts = testing.json_object_texts()
    assert is_found(texts, lambda text: "\\u" in text)
    assert is_found(texts, lambda text: text != text.strip())


def test_values_that_may_be_empty_are_sometimes_empty() -> None:
    assert is_found(testing.assistant_messages(), lambda message: not message.content)
    assert is_found(testing.assistant_messages(), lambda message: message.text == "")
    assert is_found(testing.tool_results(), lambda result: not result.content)
    assert is_found(testing.documents(), lambda document: not document.entries)
    assert is_found(testing.usages(), lambda usage: usage.input_tokens is None)


# -- conversations -----------------------------------------------------------------------------


def test_conversations_hold_every_role_and_several_calls() -> None:
    found = testing.conversations()
    assert is_found(found, lambda ms: len({message.role for message in ms}) == 4)
    assert is_found(found, lambda ms: any(len(message.tool_calls) > 1 for message in ms))


@pytest.mark.parametrize("code", OrderCode)
def test_every_kind_of_damage_is_drawn(code: OrderCode) -> None:
    assert is_found(
        testing.damaged_conversations(),
        lambda messages: code in {i.code for i in check_order(messages, alternating=True)},
    )


def test_ids_can_be_chosen() -> None:
    own = st.sampled_from(("a", "b"))
    assert is_found(testing.tool_calls(own), lambda call: call.id == "b")
    assert is_found(testing.tool_results(own), lambda result: result.tool_call_id == "a")


# -- streams -----------------------------------------------------------------------------------


def deltas(stream: testing.EventStream) -> list[ToolCallDelta]:
    return [event for event in stream.events if isinstance(event, ToolCallDelta)]


def test_streams_have_the_requested_habits() -> None:
    quiet = st.just(StreamHabits(index="missing", ids="missing", absent="", announces=False))

    @settings(max_examples=50)
    @given(testing.event_streams(quiet))
    def check(stream: testing.EventStream) -> None:
        assert all(delta.index is None and delta.id == "" for delta in deltas(stream))

    check()
    shared = st.just(StreamHabits(index="shared", ids="every"))
    assert is_found(
        testing.event_streams(shared),
        lambda stream: (
            len({delta.id for delta in deltas(stream)}) > 1
            and {delta.index for delta in deltas(stream)} == {0}
        ),
    )


def test_streams_are_mixed_and_cut_off() -> None:
    def is_mixed(stream: testing.EventStream) -> bool:
        ids = [delta.id for delta in deltas(stream)]
        runs = sum(first != second for first, second in pairwise(ids))
        return runs >= len(set(ids)) > 1

    every = st.just(StreamHabits(ids="every", interleaves=True))
    assert is_found(testing.event_streams(every), is_mixed)
    cut = st.just(StreamHabits(finishes=False))
    assert is_found(
        testing.event_streams(cut), lambda stream: stream.message.stop_reason is StopReason.UNKNOWN
    )


@given(testing.event_streams())
def test_a_stream_comes_with_its_message(stream: testing.EventStream) -> None:
    assert isinstance(stream.message, AssistantMessage)
    assert stream.expected(stream.message) == stream.message
    assert stream.habits == stream.habits.made_decodable()


@given(testing.conversations())
def test_results_are_in_the_order_of_their_calls(messages: tuple[Message, ...]) -> None:
    calls = [call.id for message in messages for call in message.tool_calls]
    results = [message.tool_call_id for message in messages if isinstance(message, ToolResult)]
    assert results == calls
