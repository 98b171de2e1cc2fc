"""The Assembler: from the events of real servers to one message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

import pytest

from steno import (
    Assembler,
    AssistantMessage,
    BlockAdded,
    BlockSealed,
    ChatMessage,
    Conversation,
    Event,
    Finished,
    InvalidToolCall,
    InvalidValue,
    Opaque,
    Seal,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
    Usage,
)
from steno.assemble import WireEvent, events_from_message
from steno.messages.call import build_call

SEAL = Seal(data="sig", provider="anthropic", api="anthropic_messages", model="m")


def made_ids() -> Iterator[str]:
    return (f"made_{number}" for number in count())


def assemble(*events: WireEvent) -> tuple[AssistantMessage, list[Event]]:
    ids = made_ids()
    assembler = Assembler(new_id=lambda: next(ids))
    told: list[Event] = []
    for event in events:
        told += assembler.feed(event)
    return assembler.message(), told


def calls(*events: Event) -> list[tuple[str, str, str]]:
    message, _ = assemble(*events)
    return [(call.id, call.name, call.arguments) for call in message.tool_calls]


def delta(
    index: int | None = None,
    id: str | None = None,
    name: str | None = None,
    args: str | None = None,
) -> ToolCallDelta:
    return ToolCallDelta(index, id, name, args)


END = Finished(StopReason.END_TURN, "stop")
TOLD_END = Finished(StopReason.TOOL_USE, "stop")
"""How the same end is told of a turn that holds calls."""


# -- words -----------------------------------------------------------------------------------


def test_text_and_thinking_become_blocks_in_the_order_they_began() -> None:
    message, _ = assemble(
        ThinkingDelta(0, "let me "),
        ThinkingDelta(0, "see"),
        TextDelta(1, "Hello "),
        TextDelta(1, "there"),
        END,
    )
    assert message.content == (Thinking("let me see"), Text("Hello there"))
    assert message.stop_reason is StopReason.END_TURN
    assert message.raw_stop_reason == "stop"


def test_blocks_of_one_kind_under_two_indexes_stay_apart() -> None:
    message, _ = assemble(TextDelta(0, "a"), TextDelta(2, "b"), TextDelta(0, "c"))
    assert message.content == (Text("ac"), Text("b"))


@pytest.mark.requirement("P-21")
def test_a_call_with_the_id_of_an_earlier_call_gets_an_id_of_its_own() -> None:
    message, events = assemble(
        ToolCallDelta(0, "c1", "read", '{"n": 1}'),
        ToolCallDelta(1, "c1", "read", '{"n"'),
        ToolCallDelta(1, None, None, ": 2}"),
        Finished(StopReason.TOOL_USE),
    )
    assert [(call.id, call.arguments) for call in message.tool_calls] == [
        ("c1", '{"n": 1}'),
        ("made_0", '{"n": 2}'),
    ]
    assert [event.id for event in events if isinstance(event, ToolCallBegin)] == ["c1", "made_0"]
    conversation = Conversation([ChatMessage.user("Read.")])
    conversation.append(message)
    assert conversation.outstanding == ("c1", "made_0")


@pytest.mark.requirement("P-21")
@pytest.mark.parametrize("late_name", [None, "write"])
def test_a_late_id_of_an_earlier_call_is_that_of_the_call_at_its_index(
    late_name: str | None,
) -> None:
    message, events = assemble(
        ToolCallDelta(0, "c1", "read", "{}"),
        ToolCallDelta(1, None, "write", ""),
        ToolCallDelta(1, "c1", late_name, '{"n": '),
        ToolCallDelta(1, "c1", None, "1}"),
        Finished(StopReason.TOOL_USE),
    )
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [
        ("c1", "read", "{}"),
        ("made_0", "write", '{"n": 1}'),
    ]
    late = [event.id for event in events if isinstance(event, ToolCallDelta) and event.id]
    assert late == ["made_0"]


@pytest.mark.requirement("P-21")
def test_an_end_with_the_id_of_an_earlier_call_ends_the_call_without_id_at_its_index() -> None:
    _, events = assemble(
        ToolCallDelta(0, "c1", "read", "{"),
        ToolCallDelta(1, None, "write", "{}"),
        ToolCallEnd(1, "c1"),
        ToolCallDelta(0, "c1", None, "}"),
        Finished(StopReason.TOOL_USE),
    )
    ended = [event.call for event in events if isinstance(event, ToolCallEnd)]
    found = [(call.name, call.arguments) for call in ended if call is not None]
    assert found == [("write", "{}"), ("read", "{}")]


def begun_and_ended(first: str, second: str) -> list[Event]:
    return [
        *(ToolCallBegin(0, "c1", first), ToolCallDelta(0, arguments_delta='{"n": 1}')),
        *(ToolCallEnd(0, "c1"), ToolCallBegin(1, "c1", second)),
        *(ToolCallDelta(1, arguments_delta='{"n": 2}'), ToolCallEnd(1, "c1")),
    ]


def begun_at_once(first: str, second: str) -> list[Event]:
    return [
        *(ToolCallBegin(0, "c1", first), ToolCallBegin(1, "c1", second)),
        *(ToolCallDelta(0, arguments_delta='{"n": 1}'), ToolCallEnd(0, "c1")),
        *(ToolCallDelta(1, arguments_delta='{"n": 2}'), ToolCallEnd(1, "c1")),
    ]


def repeating_the_id(first: str, second: str) -> list[Event]:
    return [
        *(ToolCallBegin(0, "c1", first), ToolCallBegin(1, "c1", second)),
        *(ToolCallDelta(0, "c1", None, '{"n": 1}'), ToolCallDelta(1, "c1", None, '{"n": 2}')),
        *(ToolCallEnd(0, "c1"), ToolCallEnd(1, "c1")),
    ]


@pytest.mark.requirement("P-21")
@pytest.mark.parametrize("script", [begun_and_ended, begun_at_once, repeating_the_id])
@pytest.mark.parametrize("second", ["read", "write"])
def test_a_call_that_begins_with_the_id_of_an_earlier_call_is_another_call(
    script: Callable[[str, str], list[Event]], second: str
) -> None:
    message, events = assemble(*script("read", second), END)
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [
        ("c1", "read", '{"n": 1}'),
        ("made_0", second, '{"n": 2}'),
    ]
    ends = [(event.index, event.id) for event in events if isinstance(event, ToolCallEnd)]
    assert ends == [(0, "c1"), (1, "made_0")]


@pytest.mark.parametrize("arguments", ["{}", "", "{", "text"])
@pytest.mark.parametrize("second", ["read", "write"])
def test_a_message_in_which_two_calls_share_an_id_is_rebuilt_with_two_ids(
    arguments: str, second: str
) -> None:
    content = tuple(build_call("c1", name, arguments) for name in ("read", second))
    told = list(
        events_from_message(AssistantMessage(content=content, stop_reason=StopReason.TOOL_USE))
    )
    message = assemble(*told)[0]
    assert [(call.name, call.arguments) for call in message.tool_calls] == [
        (call.name, call.arguments) for call in content
    ]
    assert [call.id for call in message.tool_calls] == ["c1", "made_0"]


def test_a_name_that_a_second_begin_adds_is_in_a_message_that_was_read_before() -> None:
    assembler = Assembler()
    assembler.feed(ToolCallBegin(0, "c1"))
    assert assembler.message().tool_calls[0].name == ""
    assembler.feed(ToolCallBegin(0, "c1", "read"))
    assert assembler.message().tool_calls == (ToolCall(id="c1", name="read"),)


@pytest.mark.parametrize("late", [ToolCallBegin(0, "c1", "read"), ToolCallDelta(0, None, "read")])
def test_a_call_that_gets_its_name_after_its_end_ends_again_with_the_name(late: Event) -> None:
    message, events = assemble(ToolCallBegin(0, "c1"), ToolCallEnd(0, "c1"), late, END)
    ended = [event.call for event in events if isinstance(event, ToolCallEnd)]
    assert [call.name for call in ended if call is not None] == ["", "read"]
    assert ended[-1] == message.tool_calls[0]


def test_text_and_thinking_may_share_an_index() -> None:
    """OpenAI-like servers number neither."""
    message, _ = assemble(ThinkingDelta(0, "t"), TextDelta(0, "a"), ThinkingDelta(0, "u"))
    assert message.content == (Thinking("tu"), Text("a"))


def test_empty_text_makes_no_block() -> None:
    message, _ = assemble(TextDelta(0, ""), delta(0, "a", "read", "{}"), END)
    assert message.content == (ToolCall(id="a", name="read"),)


def test_a_seal_goes_to_the_block_at_its_index() -> None:
    message, _ = assemble(
        ThinkingDelta(0, "hm"), BlockSealed(0, SEAL), TextDelta(1, "a"), BlockSealed(1, SEAL)
    )
    assert message.content == (Thinking("hm", seal=SEAL), Text("a", seal=SEAL))


def test_a_seal_may_belong_to_a_call() -> None:
    """Gemini signs the first call of a step."""
    message, _ = assemble(ToolCallBegin(0, "a", "read"), BlockSealed(0, SEAL), END)
    assert message.tool_calls[0].seal == SEAL


def test_a_seal_without_a_block_is_carried_by_empty_text() -> None:
    """Gemini may send a last part with nothing but its signature."""
    message, _ = assemble(BlockSealed(3, SEAL))
    assert message.content == (Text("", seal=SEAL),)


def test_redacted_thinking_keeps_its_seal() -> None:
    message, _ = assemble(ThinkingDelta(0, "", True), BlockSealed(0, SEAL))
    assert message.content == (Thinking("", seal=SEAL, redacted=True),)


def test_blocks_that_arrive_whole_keep_their_place() -> None:
    odd = Opaque(kind="server_tool_use", raw="{}", origin="anthropic_messages")
    message, _ = assemble(TextDelta(0, "a"), BlockAdded(1, odd), TextDelta(2, "b"))
    assert message.content == (Text("a"), odd, Text("b"))


def test_a_surrogate_pair_cut_between_two_deltas_is_joined() -> None:
    message, _ = assemble(TextDelta(0, "\ud83d"), TextDelta(0, "\ude00 \ud800"))
    assert message.text == "\U0001f600 \ufffd"


# -- calls -----------------------------------------------------------------------------------


def test_one_call_in_fragments() -> None:
    fragments = ["{", '"path"', ":", '"READ', 'ME.md"', "}"]
    message, told = assemble(
        delta(0, "a", "read", ""), *(delta(0, args=part) for part in fragments), END
    )
    call = ToolCall(id="a", name="read", arguments='{"path":"README.md"}')
    assert message.tool_calls == (call,)
    assert told[0] == ToolCallBegin(0, "a", "read")
    assert told[1] == delta(0, args="{")
    assert told[-2:] == [ToolCallEnd(0, "a", call), TOLD_END]


def test_two_calls_one_after_the_other() -> None:
    assert calls(
        delta(0, "a", "read", '{"p":'), delta(0, args="1}"), delta(1, "b", "write", "{}")
    ) == [("a", "read", '{"p":1}'), ("b", "write", "{}")]


def test_interleaved_calls_go_by_index() -> None:
    assert calls(
        delta(0, "a", "read"),
        delta(1, "b", "write"),
        delta(0, args='{"p":'),
        delta(1, args='{"q":'),
        delta(0, args="1}"),
        delta(1, args="2}"),
    ) == [("a", "read", '{"p":1}'), ("b", "write", '{"q":2}')]


def test_interleaved_calls_without_index_are_matched_by_id() -> None:
    assert calls(
        delta(None, "a", "read", '{"p":'),
        delta(None, "b", "write", '{"q":'),
        delta(None, "a", args="1}"),
        delta(None, "b", args="2}"),
    ) == [("a", "read", '{"p":1}'), ("b", "write", '{"q":2}')]


def test_a_new_id_opens_a_new_call_even_under_a_used_index() -> None:
    """Ollama up to 0.20.4 and dynamo number every call 0."""
    _, told = assemble(delta(0, "a", "read", '{"p":1}'), delta(0, "b", "write", '{"p":2}'), END)
    assert [event.index for event in told if isinstance(event, ToolCallBegin)] == [0, 1]
    assert calls(delta(0, "a", "read", '{"p":1}'), delta(0, "b", "write", '{"p":2}')) == [
        ("a", "read", '{"p":1}'),
        ("b", "write", '{"p":2}'),
    ]


def test_two_calls_at_one_index_without_ids_are_distinguished_by_name() -> None:
    assert calls(delta(0, None, "read", '{"p":1}'), delta(0, None, "write", '{"p":2}')) == [
        ("made_0", "read", '{"p":1}'),
        ("made_1", "write", '{"p":2}'),
    ]


def test_the_same_tool_again_without_ids_is_a_second_call() -> None:
    assert calls(delta(0, None, "read", '{"p":1}'), delta(0, None, "read", '{"p":2}')) == [
        ("made_0", "read", '{"p":1}'),
        ("made_1", "read", '{"p":2}'),
    ]


def test_a_server_that_repeats_the_name_with_each_fragment_makes_one_call() -> None:
    assert calls(
        delta(0, None, "read", '{"p"'), delta(0, None, "read", ":1"), delta(0, None, "read", "}")
    ) == [("made_0", "read", '{"p":1}')]


def test_a_server_that_repeats_the_id_with_each_fragment_makes_one_call() -> None:
    assert calls(delta(0, "a", "read", '{"p"'), delta(0, "a", "read", ":1}")) == [
        ("a", "read", '{"p":1}')
    ]


def test_fragments_without_id_and_index_belong_to_the_open_call() -> None:
    assert calls(delta(None, "a", "read"), delta(args="{"), delta(args="}")) == [
        ("a", "read", "{}")
    ]


def test_a_call_begun_without_an_index_takes_the_first_that_comes() -> None:
    assert calls(
        delta(None, "a", "read"), delta(0, args='{"p":1}'), delta(1, None, "write", "{}")
    ) == [("a", "read", '{"p":1}'), ("made_0", "write", "{}")]


def test_an_id_may_come_late() -> None:
    assert calls(delta(0, None, "read", '{"p"'), delta(0, "a", None, ":1}")) == [
        ("a", "read", '{"p":1}')
    ]


def test_an_id_may_arrive_after_the_message_was_read() -> None:
    assembler = Assembler(new_id=lambda: "made")
    assembler.feed(delta(0, None, "read", "{"))
    assert assembler.message().tool_calls[0].id == "made"
    assembler.feed(delta(0, "a", None, "}"))
    assert assembler.message().tool_calls == (ToolCall(id="a", name="read"),)


def test_a_name_may_come_late() -> None:
    """SGLang sends arguments first."""
    message, told = assemble(delta(0, "a", None, "{"), delta(0, None, "read"), delta(0, args="}"))
    assert message.tool_calls == (ToolCall(id="a", name="read"),)
    assert delta(0, name="read") in told


def test_empty_ids_and_names_count_as_absent() -> None:
    assert calls(delta(0, "a", "read", "{"), delta(0, "", "", "}")) == [("a", "read", "{}")]


def test_calls_without_an_id_get_one() -> None:
    message, _ = assemble(delta(0, "", "read", "{}"), delta(1, None, "read", "{}"), END)
    assert [call.id for call in message.tool_calls] == ["made_0", "made_1"]


def test_made_ids_differ_by_default() -> None:
    assembler = Assembler()
    assembler.feed(delta(0, None, "read", "{}"))
    assembler.feed(delta(1, None, "write", "{}"))
    first, second = assembler.message().tool_calls
    assert first.id != second.id
    assert assembler.message().tool_calls == (first, second)


@pytest.mark.parametrize("arguments", ["", "  ", None])
def test_a_call_whose_arguments_never_came_has_none(arguments: str | None) -> None:
    """Anthropic streams a call without arguments as an empty string."""
    assert calls(delta(0, "a", "now", arguments), END) == [("a", "now", "{}")]


@pytest.mark.parametrize(
    "arguments",
    ['{"path": "READ', "[1]", '"text"', "{} {}", '{"x": NaN}', '{"x": "\\ud800"}', "{" * 5000],
)
def test_arguments_that_never_become_an_object_are_kept_as_they_are(arguments: str) -> None:
    message, _ = assemble(delta(0, "a", "read", arguments), END)
    (call,) = message.tool_calls
    assert isinstance(call, InvalidToolCall)
    assert (call.id, call.name, call.arguments) == ("a", "read", arguments)
    assert "arguments" in call.reason
    assert message.stop_reason is StopReason.TOOL_USE


@pytest.mark.parametrize("name", ["", "two words", "x" * 129, "read\n"])
def test_an_impossible_name_makes_an_invalid_call(name: str) -> None:
    message, _ = assemble(delta(0, "a", name, "{}"), END)
    (call,) = message.tool_calls
    assert isinstance(call, InvalidToolCall)
    assert (call.name, call.arguments) == (name, "{}")
    assert "name" in call.reason


def test_a_name_from_outside_is_mapped_and_kept() -> None:
    message, _ = assemble(delta(0, "a", "fs.read", "{}"))
    (call,) = message.tool_calls
    assert isinstance(call, ToolCall)
    assert call.original_name == "fs.read"
    assert call.name.startswith("fs_read_")


def test_arguments_are_kept_to_the_letter() -> None:
    text = '{ "b":1.0,\n"a" : [ 1e2 ],"b":2}'
    message, _ = assemble(delta(0, "a", "read", text))
    assert message.tool_calls[0].arguments == text


def test_an_explicit_begin_and_end_frame_a_call() -> None:
    """Anthropic and the Responses API mark the start and the end of a call."""
    call = ToolCall(id="a", name="read")
    message, told = assemble(
        ToolCallBegin(1, "a", "read"), delta(1, args="{}"), ToolCallEnd(1), ToolCallEnd(1), END
    )
    assert message.tool_calls == (call,)
    assert told == [
        ToolCallBegin(0, "a", "read"),
        delta(0, args="{}"),
        ToolCallEnd(0, "a", call),
        TOLD_END,
    ]


def test_an_end_may_name_its_call_by_id() -> None:
    _, told = assemble(delta(None, "a", "read", "{}"), ToolCallEnd(None, "a"))
    assert told[-1] == ToolCallEnd(0, "a", ToolCall(id="a", name="read"))


def test_the_end_of_a_call_that_never_began_is_ignored() -> None:
    assert assemble(ToolCallEnd(4), ToolCallEnd(None, "x"))[1] == []


def test_a_call_that_begins_twice_is_one_call() -> None:
    assert calls(ToolCallBegin(0, "a", "read"), ToolCallBegin(0, "a", "read")) == [
        ("a", "read", "{}")
    ]


# -- the end ---------------------------------------------------------------------------------


@pytest.mark.requirement("S4-09")
def test_a_plain_stop_with_calls_means_tool_use() -> None:
    message, _ = assemble(delta(0, "a", "read", "{}"), END)
    assert message.stop_reason is StopReason.TOOL_USE
    assert message.raw_stop_reason == "stop"


@pytest.mark.requirement("S4-09")
def test_an_unknown_reason_is_kept_raw() -> None:
    message, _ = assemble(TextDelta(0, "a"), Finished(StopReason.UNKNOWN, "full_moon"))
    assert (message.stop_reason, message.raw_stop_reason) == (StopReason.UNKNOWN, "full_moon")


@pytest.mark.requirement("S4-10")
def test_usage_comes_with_the_end() -> None:
    usage = Usage(input_tokens=3, output_tokens=5)
    message, _ = assemble(TextDelta(0, "a"), Finished(StopReason.END_TURN, "stop", usage))
    assert message.usage == usage


@pytest.mark.requirement("S4-05")
def test_a_truncated_turn_has_the_usage_so_far() -> None:
    counted, in_the_end = Usage(input_tokens=3), Usage(input_tokens=3, output_tokens=5)
    assembler = Assembler()
    assembler.feed(TextDelta(0, "a"))
    assert assembler.message(StopReason.ABORTED, usage=counted).usage == counted
    assembler.feed(Finished(StopReason.END_TURN, "stop", in_the_end))
    assert assembler.message(usage=counted).usage == in_the_end


@pytest.mark.requirement("S4-05")
def test_a_truncated_turn_keeps_the_received_content() -> None:
    assembler = Assembler()
    for event in (TextDelta(0, "I will "), delta(0, "a", "read", '{"path": "RE')):
        assembler.feed(event)
    message = assembler.message(StopReason.ABORTED)
    assert message.text == "I will "
    assert isinstance(message.tool_calls[0], InvalidToolCall)
    assert message.stop_reason is StopReason.ABORTED


@pytest.mark.parametrize("begun", [ToolCallBegin(0, "a", "read"), delta(0, "a", "read", "")])
def test_a_call_that_was_cut_before_its_arguments_cannot_be_run(begun: Event) -> None:
    assembler = Assembler()
    assembler.feed(begun)
    assert assembler.message().tool_calls == (ToolCall(id="a", name="read"),)
    [call] = assembler.message(StopReason.ERROR).tool_calls
    assert isinstance(call, InvalidToolCall)
    assert (call.id, call.name) == ("a", "read")
    assert "ended before the arguments" in call.reason
    assembler.feed(END)
    assert assembler.message(StopReason.ERROR).tool_calls == (ToolCall(id="a", name="read"),)


def test_a_turn_without_a_word_is_a_message_too() -> None:
    assert assemble(END)[0] == AssistantMessage(
        content=(), stop_reason=StopReason.END_TURN, raw_stop_reason="stop"
    )
    assert assemble()[0].stop_reason is StopReason.UNKNOWN


def test_feed_all_returns_the_same_events_as_feed() -> None:
    events: list[Event] = [
        TextDelta(0, "a"),
        TextDelta(0, "b"),
        delta(1, "a", "read", '{"p"'),
        TextDelta(0, "c"),
        delta(1, args=":1}"),
        END,
    ]
    one_by_one, together = Assembler(), Assembler()
    told = [told for event in events for told in one_by_one.feed(event)]
    assert together.feed_all(events) == told
    assert together.message() == one_by_one.message()
    assert together.message().text == "abc"


def test_looking_at_the_message_changes_nothing() -> None:
    events: Iterable[Event] = [
        TextDelta(0, "a"),
        delta(0, "a", "read", "{"),
        delta(0, args='"p":1'),
        delta(0, args="}"),
        END,
    ]
    assembler = Assembler()
    for event in events:
        assembler.feed(event)
        assembler.message()
    assert assembler.message() == assemble(*events)[0]


@pytest.mark.parametrize("wrong", [None, "hunter2", b"hunter2", {"text": "hunter2"}, Text("a")])
def test_values_that_are_not_events_are_refused_with_their_type(wrong: Any) -> None:
    assembler = Assembler()
    assembler.feed(TextDelta(0, "a"))
    with pytest.raises(InvalidValue) as caught:
        assembler.feed(wrong)
    assert (caught.value.place, caught.value.code) == ("assembler", "not_an_event")
    assert type(wrong).__name__ in caught.value.message
    assert "hunter2" not in str(caught.value)
    assert assembler.message().text == "a"
