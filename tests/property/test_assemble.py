"""The message is the same for all ways in which providers send ids, indexes and fragments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import event as record
from hypothesis import given
from hypothesis import strategies as st

from steno import (
    Assembler,
    AssistantMessage,
    Event,
    Finished,
    InvalidToolCall,
    StopReason,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
)
from steno.testing import EventStream, StreamHabits, event_streams, events, json_object_texts, texts

streams = event_streams()


def assemble(found: Iterable[Event]) -> AssistantMessage:
    assembler = Assembler()
    for event in found:
        assembler.feed(event)
    return assembler.message()


# -- the message -------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-94", "FR-004a-96", "FR-004a-98", "FR-004a-100", "S4-05", "S4-09")
@given(streams)
def test_a_stream_becomes_the_message_that_it_means(stream: EventStream) -> None:
    record(f"index {stream.habits.index}, ids {stream.habits.ids}")
    message = assemble(stream.events)
    assert message == stream.expected(message)
    ids = [call.id for call in message.tool_calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)


LATER = ("late", "missing")
HABITS = [
    (index, ids, names)
    for index in ("block", "call", "first", "shared", "missing")
    for ids in ("first", "every", "late", "missing")
    for names in ("first", "every", "late")
    # Without id and index, and with the name behind, nobody could tell where a call begins.
    if (index, ids, names) not in {(i, d, "late") for i in ("shared", "missing") for d in LATER}
]


@pytest.mark.parametrize(("index", "ids", "names"), HABITS)
def test_every_habit_of_providers_is_understood(index: Any, ids: Any, names: Any) -> None:
    """Two calls of the same tool, sent with each habit of servers."""
    habits = StreamHabits(index=index, ids=ids, names=names, announces=False, ends=False)
    assert habits == habits.made_decodable()

    def said(number: int, place: int, fragment: str) -> ToolCallDelta:
        own = {"shared": 0, "missing": None, "first": None if place else number}
        at = {"first": 0, "late": 1}
        return ToolCallDelta(
            own.get(index, number),
            f"id{number}" if ids == "every" or at.get(ids) == place else None,
            "read" if names == "every" or at.get(names) == place else None,
            fragment,
        )

    is_told_by_name = not habits.shows_new_calls
    if is_told_by_name and names == "every":
        # Only a whole call can be told from the next one then.
        found = [said(0, 0, '{"n":0}'), said(1, 0, '{"n":1}')]
    else:
        found = [said(number, place, part) for number in (0, 1) for place, part in parts(number)]
    message = assemble(found)
    assert [call.arguments for call in message.tool_calls] == ['{"n":0}', '{"n":1}']
    assert [call.name for call in message.tool_calls] == ["read", "read"]
    if ids == "every" or (ids != "missing" and not (is_told_by_name and names == "every")):
        assert [call.id for call in message.tool_calls] == ["id0", "id1"]


def parts(number: int) -> Iterator[tuple[int, str]]:
    yield from enumerate(('{"n"', f":{number}}}"))


@given(st.lists(events(), max_size=12))
def test_any_events_in_any_order_become_a_message(found: list[Event]) -> None:
    assembler = Assembler()
    for event in found:
        assembler.feed(event)
        assert isinstance(assembler.message(), AssistantMessage)
    assert assembler.message() == assembler.message()


# -- what is told in full ----------------------------------------------------------------------


@given(streams)
def test_normalized_events_contain_every_call_in_full(stream: EventStream) -> None:
    assembler = Assembler()
    told = [answer for event in stream.events for answer in assembler.feed(event)]
    calls = assembler.message().tool_calls
    begun = [event.index for event in told if isinstance(event, ToolCallBegin)]
    ended = [event for event in told if isinstance(event, ToolCallEnd)]
    assert begun == list(range(len(calls)))
    assert len({event.index for event in ended}) == len(ended)
    if stream.habits.finishes:
        assert len(ended) == len(calls)
        assert isinstance(told[-1], Finished)
    for end in ended:
        assert end.index is not None
        assert end.call == calls[end.index]
        assert end.id == calls[end.index].id
    for number, call in enumerate(calls):
        own = [event for event in told if getattr(event, "index", None) == number]
        check_call(call, [event for event in own if isinstance(event, CALL_EVENTS)])


CALL_EVENTS = (ToolCallBegin, ToolCallDelta, ToolCallEnd)


def check_call(call: ToolCall | InvalidToolCall, told: list[Any]) -> None:
    """Check all events of one call, under its number."""
    assert isinstance(told[0], ToolCallBegin)
    assert not any(isinstance(event, ToolCallEnd) for event in told[:-1])
    deltas = [event for event in told if isinstance(event, ToolCallDelta)]
    said = "".join([delta.arguments_delta or "" for delta in deltas])
    assert call.arguments == said or (call.arguments == "{}" and not said.strip())
    opening = [event for event in told if not isinstance(event, ToolCallEnd)]
    ids = [event.id for event in opening if event.id]
    names = [event.name for event in opening if event.name]
    assert len(ids) <= 1
    assert ids in ([], [call.id])
    assert len(names) == 1
    assert names[0] == (getattr(call, "original_name", None) or call.name)


@given(streams)
def test_texts_and_blocks_are_returned_unchanged(stream: EventStream) -> None:
    assembler = Assembler()
    for event in stream.events:
        answers = assembler.feed(event)
        if isinstance(event, CALL_EVENTS):
            assert all(isinstance(answer, CALL_EVENTS) for answer in answers)
        elif isinstance(event, Finished):
            told = answers[-1]
            assert isinstance(told, Finished)
            assert (told.raw_stop_reason, told.usage) == (event.raw_stop_reason, event.usage)
            assert told.stop_reason is assembler.message().stop_reason
        else:
            assert answers[-1] is event


@given(streams)
def test_normalized_events_make_the_same_message(stream: EventStream) -> None:
    """A caller that records the normalized events can assemble them again."""
    assembler = Assembler()
    told = [answer for event in stream.events for answer in assembler.feed(event)]
    if stream.habits.index == "block" and any(isinstance(event, CALL_EVENTS) for event in told):
        return  # calls are numbered for themselves now, and seals name the block
    message = assembler.message()
    again = assemble(told)
    made = iter(message.tool_calls)
    content = [
        msgspec.structs.replace(block, id=next(made).id)
        if isinstance(block, (ToolCall, InvalidToolCall))
        else block
        for block in again.content
    ]
    assert msgspec.structs.replace(again, content=tuple(content)) == message


# -- fragments ---------------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-99", "FR-004a-100")
@given(streams, st.data())
def test_it_does_not_matter_where_fragments_are_cut(
    stream: EventStream, data: st.DataObject
) -> None:
    finer = [piece for event in stream.events for piece in cut(event, data)]
    message = assemble(finer)
    assert message == stream.expected(message)


def cut(event: Event, data: st.DataObject) -> list[Event]:
    """Cut a fragment in two; its id and name stay with the first half."""
    match event:
        case TextDelta(index, text) if len(text) > 1:
            place = data.draw(st.integers(1, len(text) - 1))
            return [TextDelta(index, text[:place]), TextDelta(index, text[place:])]
        case ThinkingDelta(index, text, redacted) if len(text) > 1:
            place = data.draw(st.integers(1, len(text) - 1))
            return [
                ThinkingDelta(index, text[:place], redacted),
                ThinkingDelta(index, text[place:], redacted),
            ]
        case ToolCallDelta(index, id, name, str(text)) if len(text.lstrip()) > 1:
            start = len(text) - len(text.lstrip()) + 1
            place = data.draw(st.integers(start, len(text) - 1))
            return [
                ToolCallDelta(index, id, name, text[:place]),
                ToolCallDelta(index, id, None, text[place:]),
            ]
        case _:
            return [event]


@given(streams)
def test_it_does_not_matter_whether_fragments_are_cut(stream: EventStream) -> None:
    message = assemble(merge(stream.events))
    assert message == stream.expected(message)


def merge(found: Iterable[Event]) -> list[Event]:
    """Join adjacent events of the same block or call."""
    merged: list[Event] = []
    for event in found:
        match (merged[-1] if merged else None, event):
            case TextDelta(index, text), TextDelta(same, more) if index == same:
                merged[-1] = TextDelta(index, text + more)
            case ThinkingDelta(index, text, redacted), ThinkingDelta(same, more) if index == same:
                merged[-1] = ThinkingDelta(index, text + more, redacted)
            case ToolCallDelta(index, id, name, text), ToolCallDelta(
                same, None | "", None | "", more
            ) if index == same:
                merged[-1] = ToolCallDelta(index, id, name, (text or "") + (more or ""))
            case _:
                merged.append(event)
    return merged


@given(
    json_object_texts().map(str.strip),
    st.text(st.sampled_from(" \t\r\n"), min_size=1, max_size=3),
    st.sampled_from((0, None)),
)
def test_blanks_after_the_arguments_do_not_begin_a_call(
    arguments: str, blanks: str, index: int | None
) -> None:
    """A server that repeats the name in every fragment also sends it with the last line feed."""
    message = assemble([ToolCallDelta(index, None, "read", part) for part in (arguments, blanks)])
    assert [call.arguments for call in message.tool_calls] == [arguments + blanks]


@given(texts(), json_object_texts(), st.data())
def test_a_character_cut_in_half_is_joined_again(
    text: str, arguments: str, data: st.DataObject
) -> None:
    """JavaScript counts in halves, and so do the servers written in it."""
    assembler = Assembler()
    for piece in halves(text, data):
        assembler.feed(TextDelta(0, piece))
    assembler.feed(ToolCallBegin(0, "a", "read"))
    for piece in halves(arguments, data):
        assembler.feed(ToolCallDelta(0, arguments_delta=piece))
    assembler.feed(Finished(StopReason.TOOL_USE))
    message = assembler.message()
    assert (message.text or "") == text
    assert message.tool_calls == (ToolCall(id="a", name="read", arguments=arguments),)


def halves(text: str, data: st.DataObject) -> list[str]:
    starts = [len(text[:place].encode("utf-16-le")) for place in range(len(text))]
    inside = [
        start + 2 for start, character in zip(starts, text, strict=True) if character > "\uffff"
    ]
    place = data.draw(st.sampled_from(inside or [0]))
    units = text.encode("utf-16-le")
    return [half.decode("utf-16-le", "surrogatepass") for half in (units[:place], units[place:])]


@given(
    st.lists(st.sampled_from(("\ud83d", "\ude00", "a", "\ufffd")), max_size=4),
    st.sampled_from(("id", "name", "arguments", "text", "thinking", "raw_stop_reason")),
)
def test_half_a_character_in_any_event_does_no_harm(pieces: list[str], field: str) -> None:
    broken = "".join(pieces)
    said: dict[str, Any] = {"id": "a", "name": "read", "arguments": "{}", field: broken}
    found: list[Event] = [
        TextDelta(0, said.get("text", "")),
        ThinkingDelta(1, said.get("thinking", "")),
        ToolCallBegin(0, said["id"], said["name"]),
        ToolCallDelta(0, arguments_delta=said["arguments"]),
        Finished(StopReason.END_TURN, said.get("raw_stop_reason")),
    ]
    message = assemble(found)
    assert len(message.tool_calls) == 1


# -- streams that are cut off ------------------------------------------------------------------


@given(streams, st.data())
def test_a_truncated_stream_keeps_the_received_content(
    stream: EventStream, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(stream.events)))
    partial = assemble(stream.events[:place])
    whole = assemble(stream.events)
    if not stream.habits.interleaves:
        assert (whole.text or "").startswith(partial.text or "")
        assert "".join(thoughts(whole)).startswith("".join(thoughts(partial)))
    assert len(partial.tool_calls) <= len(whole.tool_calls)
    for so_far, call in zip(partial.tool_calls, whole.tool_calls, strict=False):
        assert call.arguments.startswith(so_far.arguments) or so_far.arguments == "{}"
    if place < len(stream.events):
        assert partial.stop_reason is StopReason.UNKNOWN


def thoughts(message: AssistantMessage) -> list[str]:
    return [block.text for block in message.content if isinstance(block, Thinking)]


@pytest.mark.parametrize("stop_reason", [StopReason.ABORTED, StopReason.ERROR])
@given(stream=streams, data=st.data())
def test_a_truncated_message_has_the_stop_reason_of_the_caller(
    stop_reason: StopReason, stream: EventStream, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(stream.events)))
    assembler = Assembler()
    for event in stream.events[:place]:
        assembler.feed(event)
    message = assembler.message(stop_reason)
    assert message.stop_reason is stop_reason
    for cut, block in zip(message.content, assembler.message().content, strict=True):
        if cut != block:  # it was cut off before its arguments
            assert isinstance(cut, InvalidToolCall)
            assert isinstance(block, ToolCall)
            assert (cut.id, block.arguments) == (block.id, "{}")


@given(streams, st.data())
def test_asking_for_the_message_early_changes_nothing(
    stream: EventStream, data: st.DataObject
) -> None:
    assembler = Assembler()
    for event in stream.events:
        assembler.feed(event)
        if data.draw(st.booleans()):
            assembler.message()
    message = assembler.message()
    assert message == stream.expected(message)
