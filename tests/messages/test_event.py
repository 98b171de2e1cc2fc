"""Events: the response of a model, piece by piece."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from steno import (
    Assembler,
    AssistantMessage,
    BlockAdded,
    BlockSealed,
    Event,
    ExtrasAdded,
    Finished,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
)
from steno.assemble import ToolCallPart
from steno.errors import InvalidValue
from tests.code_probes import record_calls
from tests.value_samples import EVENTS


def assemble(*events: Event) -> AssistantMessage:
    assembler = Assembler()
    for event in events:
        assembler.feed(event)
    return assembler.message()


# -- the union -----------------------------------------------------------------------------------


@pytest.mark.requirement("S4-05")
def test_events_carry_only_output_of_a_model() -> None:
    """An error of transport or protocol is raised; no event represents one."""
    assert set(get_args(Event)) == {
        *(TextDelta, ThinkingDelta, ToolCallBegin, ToolCallDelta, ToolCallEnd),
        *(BlockSealed, BlockAdded, ExtrasAdded, Finished),
    }
    fields = {name for event in get_args(Event) for name in event.__struct_fields__}
    assert fields == {
        *("index", "text", "redacted", "id", "name", "arguments_delta", "call", "seal", "block"),
        *("extras", "stop_reason", "raw_stop_reason", "usage"),
    }


def test_every_event_has_a_sample() -> None:
    assert {sample.type for sample in EVENTS} == set(get_args(Event))


def test_events_can_be_matched_by_position() -> None:
    """Index first, so that `match` stays short."""
    match TextDelta(3, "Hello"):
        case TextDelta(index, text):
            assert (index, text) == (3, "Hello")
    match ToolCallDelta(0, "call_1", "read", '{"a'):
        case ToolCallDelta(number, id, name, fragment):
            assert (number, id, name, fragment) == (0, "call_1", "read", '{"a')
    match Finished(StopReason.END_TURN, "stop"):
        case Finished(stop, raw_stop):
            assert (stop, raw_stop) == (StopReason.END_TURN, "stop")


# -- a fragment of a call ------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-91", "FR-004a-93", "FR-004a-95", "FR-004a-97", "FR-004a-99")
def test_a_fragment_has_an_index_and_perhaps_an_id_a_name_and_a_piece_of_arguments() -> None:
    bare = ToolCallDelta(2)
    assert (bare.index, bare.id, bare.name, bare.arguments_delta) == (2, None, None, None)
    full = ToolCallDelta(index=2, id="call_1", name="read", arguments_delta='{"pa')
    assert (full.index, full.id, full.name, full.arguments_delta) == (2, "call_1", "read", '{"pa')
    with pytest.raises(TypeError, match="index"):
        ToolCallDelta()  # type: ignore[call-arg]


@pytest.mark.requirement("FR-004a-92")
@pytest.mark.parametrize("field", ["index", "id", "name", "arguments_delta"])
def test_a_fragment_cannot_be_altered(field: str) -> None:
    fragment = ToolCallDelta(0, arguments_delta='{"pa')
    with pytest.raises(AttributeError):
        setattr(fragment, field, None)
    assert fragment == ToolCallDelta(0, arguments_delta='{"pa')


@pytest.mark.requirement("FR-004a-94")
def test_the_index_assigns_a_fragment_to_its_call() -> None:
    message = assemble(
        ToolCallDelta(0, "call_a", "read", '{"path"'),
        ToolCallDelta(1, "call_b", "write", '{"text"'),
        ToolCallDelta(0, arguments_delta=': "a.py"}'),
        ToolCallDelta(1, arguments_delta=': "b"}'),
        Finished(StopReason.TOOL_USE),
    )
    assert message.tool_calls == (
        ToolCall(id="call_a", name="read", arguments='{"path": "a.py"}'),
        ToolCall(id="call_b", name="write", arguments='{"text": "b"}'),
    )


@pytest.mark.requirement("FR-004a-96", "FR-004a-98")
def test_id_and_name_on_the_first_fragment_are_enough() -> None:
    pieces = ['{"p', 'ath":', ' "a.py"', "}"]
    first = ToolCallDelta(0, "call_a", "read")
    message = assemble(first, *(ToolCallDelta(0, arguments_delta=piece) for piece in pieces))
    assert message.tool_calls == (ToolCall(id="call_a", name="read", arguments='{"path": "a.py"}'),)


@pytest.mark.requirement("FR-004a-100")
@pytest.mark.parametrize("piece", ["", "{", '"', "\\", "\\u00", "tru", "}", " ", "\ud83d", "é"])
def test_a_piece_of_arguments_need_not_be_json(piece: str) -> None:
    assert ToolCallDelta(0, arguments_delta=piece).arguments_delta == piece


@pytest.mark.requirement("FR-004a-100", "NFR-004a-30")
@pytest.mark.parametrize("arguments", ['{"a": "🧾 é \\n"}', '{"a":{"b":[1,2]}}'])
def test_pieces_of_any_size_join_to_the_same_arguments(arguments: str) -> None:
    for size in range(1, len(arguments) + 1):
        pieces = [arguments[i : i + size] for i in range(0, len(arguments), size)]
        deltas = (ToolCallDelta(0, arguments_delta=piece) for piece in pieces)
        message = assemble(ToolCallBegin(0, "call_a", "write"), *deltas, ToolCallEnd(0))
        assert message.tool_calls[0].arguments == arguments


@pytest.mark.requirement("NFR-004a-11")
def test_pieces_are_joined_once_at_the_end() -> None:
    """Counted: 16,000 pieces are not joined while they come, and once when they are asked for."""
    events: list[Event] = [
        *[TextDelta(0, "x")] * 8_000,
        ToolCallDelta(1, "call_a", "write", '{"a":"'),
        *[ToolCallDelta(1, arguments_delta="x")] * 8_000,
        ToolCallDelta(1, arguments_delta='"}'),
    ]
    assembler = Assembler()

    def feed() -> None:
        for event in events:
            assembler.feed(event)

    def joins(functions: list[Any]) -> int:
        return sum(function.__name__ == "join" for function in functions)

    assert joins(record_calls(feed).c) == 0
    assert joins(record_calls(assembler.message).c) == 2
    assert assembler.message().text == "x" * 8_000
    assert len(assembler.message().tool_calls[0].arguments) == 8_008


# -- the index -----------------------------------------------------------------------------------


CHECKED = [
    sample
    for sample in EVENTS
    if "index" in sample.type.__struct_fields__
    if sample.type not in (TextDelta, ThinkingDelta)  # pieces of text check nothing
]


@pytest.mark.requirement("FR-004a-94", "P-17")
@pytest.mark.parametrize("sample", CHECKED, ids=lambda sample: sample.type.__name__)
def test_a_negative_index_is_refused(sample: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        sample.build(index=-1)
    assert (caught.value.code, caught.value.field) == ("out_of_range", "index")


@pytest.mark.requirement("FR-004a-94", "P-17")
@pytest.mark.parametrize("index", ["0", 0.0, True])
@pytest.mark.parametrize("sample", CHECKED, ids=lambda sample: sample.type.__name__)
def test_an_index_of_a_wrong_type_is_refused(sample: Any, index: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        sample.build(index=index)
    assert (caught.value.code, caught.value.field) == ("wrong_type", "index")


@pytest.mark.parametrize("sample", CHECKED, ids=lambda sample: sample.type.__name__)
def test_only_an_event_about_one_block_needs_an_index(sample: Any) -> None:
    if sample.type not in (BlockSealed, BlockAdded):
        assert sample.build(index=None).index is None
        return
    with pytest.raises(InvalidValue) as caught:
        sample.build(index=None)
    assert (caught.value.code, caught.value.field) == ("wrong_type", "index")


@pytest.mark.requirement("P-17")
def test_arguments_of_a_wrong_type_are_refused() -> None:
    with pytest.raises(InvalidValue) as caught:
        ToolCallDelta(0, arguments_delta={})  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.field) == ("wrong_type", "arguments_delta")


@pytest.mark.parametrize(("block", "code"), [(-1, "out_of_range"), ("0", "wrong_type")])
def test_a_part_of_a_call_with_an_invalid_block_is_refused(block: Any, code: str) -> None:
    """The assembler refuses it, because a check of each of the many parts takes too long."""
    first = ToolCallPart(None, "call_a", "read")
    for parts in ([ToolCallPart(block, starts=True)], [first, ToolCallPart(block, arguments="{")]):
        with pytest.raises(InvalidValue) as caught:
            Assembler().feed_all(parts)
        assert (caught.value.code, caught.value.field) == (code, "block")
