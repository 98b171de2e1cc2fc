"""The stop reason of a model, and the tokens of its turn."""

from __future__ import annotations

from typing import Any

import pytest

from steno import Assembler, AssistantMessage, ChatMessage, Finished, StopReason, TextDelta, Usage
from steno.codec import decode_message, encode_message
from steno.values import RawJson
from tests.code_probes import expect_error

FIELDS = [name for name in Usage.__struct_fields__ if name != "unknown"]


@pytest.mark.requirement("S4-09")
def test_the_reasons_to_stop_are_a_fixed_set_with_room_for_the_unknown() -> None:
    """S4's, plus content_filter and pause."""
    assert {reason.value for reason in StopReason} == {
        *("end_turn", "length", "tool_use", "error", "aborted", "unknown"),
        *("content_filter", "pause"),
    }


@pytest.mark.requirement("S4-09")
@pytest.mark.parametrize(
    ("mapped", "word"),
    [(StopReason.END_TURN, "stop"), (StopReason.UNKNOWN, "brand_new_reason"), *[
        (reason, reason.value) for reason in StopReason
    ]],
)  # fmt: skip
def test_the_stop_reason_of_the_provider_is_kept(mapped: StopReason, word: str) -> None:
    assembler = Assembler()
    assembler.feed(TextDelta(0, "Hello"))
    assembler.feed(Finished(mapped, word))
    message = assembler.message()
    assert message.stop_reason is mapped
    assert message.raw_stop_reason == word
    assert decode_message(encode_message(message)) == message


@pytest.mark.requirement("S4-09")
@pytest.mark.parametrize("wrong", ["end_turn", "stop", 7, None.__class__], ids=repr)
def test_a_stop_reason_is_a_member_of_the_enumeration(wrong: Any) -> None:
    expect_error(lambda: ChatMessage.assistant("Hello", stop_reason=wrong))


@pytest.mark.requirement("S4-10")
def test_tokens_are_counted_with_the_message() -> None:
    usage = Usage(input_tokens=1200, output_tokens=80, cache_read_tokens=1000, thinking_tokens=12)
    message = ChatMessage.assistant("Hello", usage=usage)
    assert message.usage == usage
    loaded = decode_message(encode_message(message))
    assert isinstance(loaded, AssistantMessage)
    assert loaded.usage == usage
    assert loaded.usage is not None
    assert (loaded.usage.input_tokens, loaded.usage.output_tokens) == (1200, 80)


@pytest.mark.requirement("S4-10")
def test_an_unreported_count_is_not_zero() -> None:
    assert Usage() == Usage(input_tokens=None)
    assert Usage() != Usage(input_tokens=0)
    assert Usage(input_tokens=0) != Usage(output_tokens=0)
    assert b"0" in encode_message(ChatMessage.assistant("a", usage=Usage(output_tokens=0)))


@pytest.mark.requirement("S4-10", "NFR-004a-24")
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("wrong", [-1, -(10**20), 1.0, 1.5, True, "1", b"1", [1]], ids=repr)
def test_a_count_is_a_whole_number_that_is_not_negative(field: str, wrong: Any) -> None:
    error = expect_error(lambda: Usage(**{field: wrong}))
    code = "out_of_range" if type(wrong) is int else "wrong_type"
    assert (error.place, error.code, error.field) == ("usage", code, field)


@pytest.mark.requirement("S4-10", "NFR-004a-27")
def test_usage_adds_up_field_by_field() -> None:
    total = Usage(input_tokens=1, cache_read_tokens=5) + Usage(input_tokens=2, output_tokens=3)
    assert total == Usage(input_tokens=3, output_tokens=3, cache_read_tokens=5)
    assert Usage() + Usage() == Usage()
    assert Usage(input_tokens=0) + Usage() == Usage(input_tokens=0)
    assert Usage(input_tokens=10**20) + Usage(input_tokens=1) == Usage(input_tokens=10**20 + 1)


def test_unknown_members_are_left_out_of_a_sum() -> None:
    newer = Usage(input_tokens=1, unknown=RawJson('"watts":3'))
    assert newer + newer == Usage(input_tokens=2)


@pytest.mark.requirement("S4-10")
def test_the_total_counts_input_and_output() -> None:
    assert Usage(input_tokens=10, output_tokens=5, cache_read_tokens=8).total_tokens == 15
    assert Usage(output_tokens=5).total_tokens == 5
    assert Usage().total_tokens == 0


def test_usage_adds_only_to_usage() -> None:
    with pytest.raises(TypeError):
        Usage() + 5  # type: ignore[operator]
