"""OpenAI's responses whose repeated content differs: it is neither lost nor duplicated."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steno import ChatMessage, InvalidToolCall, Request, Text, TextDelta, Thinking, ToolCall
from steno.assemble import WireEvent
from steno.errors import CutShort
from steno.messages.event import ExtrasAdded
from steno.wire import openai_responses
from tests.wire.decode_helpers import assemble_message, decode_events, sse
from tests.wire.openai_responses.response_events import (
    added,
    arguments_delta,
    call,
    decode,
    done,
    end,
    event,
    extras_of,
    message,
    reasoning,
    refusal_delta,
    summary_delta,
    text_delta,
    text_part,
    whole,
)


def reasoning_delta(text: str, **position: Any) -> dict[str, Any]:
    """A delta of thinking in the content, not the summary."""
    return event("reasoning_text.delta", item_id="rs_1", delta=text, **position)


def decode_cut(*payloads: Any) -> Any:
    """Decode a stream that ends too early."""
    decoder = openai_responses.StreamDecoder()
    events: list[WireEvent] = list(decoder.feed(sse(*payloads)))
    with pytest.raises(CutShort):
        events += iter(decoder.close())
    return assemble_message(events)


def texts_of(found: Any) -> list[str]:
    return [block.text for block in found.content if isinstance(block, Text | Thinking)]


def sent_back(turn: Any) -> list[dict[str, Any]]:
    """Encode a turn and return its JSON."""
    request = Request(messages=(ChatMessage.user("Hi"), turn), model="m-1")
    body = openai_responses.encode_request(request).body
    items: list[dict[str, Any]] = msgspec.json.decode(body)["input"]
    return items[1:]


# -- a done part without a number ----------------------------------------------------------------

NOWHERE: list[dict[str, Any]] = [
    {"item_id": "msg_1", "output_index": 0},
    {"item_id": "made up"},
    {"item_id": "made up", "content_index": 3},
    {"item_id": "made up", "output_index": 7},
    {},
]


@pytest.mark.parametrize("position", NOWHERE)
def test_text_is_sent_once_if_its_part_is_unknown(position: dict[str, Any]) -> None:
    steps = (text_delta("hello"), event("output_text.done", **position, text="hello"))
    assert texts_of(decode(*steps, end())) == ["hello"]
    assert texts_of(decode(*steps, done(message(text_part("hello"))), end())) == ["hello"]
    assert texts_of(decode_cut(*steps)) == ["hello"]


@pytest.mark.parametrize("position", NOWHERE)
def test_text_is_sent_once_if_other_content_came_between(position: dict[str, Any]) -> None:
    at_once = event("output_text.done", **position, text="hello")
    found = decode(text_delta("hello"), added(call(), 7), arguments_delta("{}", 7), at_once, end())
    assert texts_of(found) == ["hello"]
    assert [c.arguments for c in found.tool_calls] == ["{}"]


def test_text_is_sent_once_if_its_index_is_that_of_a_call() -> None:
    at_once = event("output_text.done", output_index=0, content_index=0, text="hello")
    assert texts_of(
        decode(text_delta("hello"), added(call()), arguments_delta("{}"), at_once, end())
    ) == ["hello"]


@pytest.mark.parametrize("position", [{}, {"item_id": "rs_1"}, {"output_index": 0}])
def test_thinking_is_sent_once_if_its_part_is_unknown(position: dict[str, Any]) -> None:
    at_once = event("reasoning_summary_text.done", **position, text="Hm")
    assert texts_of(decode(summary_delta("Hm"), at_once, end())) == ["Hm"]
    unnumbered = event("reasoning_summary_text.delta", item_id="rs_1", delta="Hm")
    numbered = at_once | {"item_id": "rs_1", "summary_index": 0}
    assert texts_of(decode(unnumbered, numbered, end())) == ["Hm"]


@pytest.mark.parametrize("position", [{}, {"item_id": "made up"}, {"content_index": 0}])
def test_a_done_text_without_deltas_is_sent_wherever_it_belongs(position: dict[str, Any]) -> None:
    at_once = event("output_text.done", **position, text="hello")
    assert texts_of(decode(at_once, end())) == ["hello"]
    assert texts_of(decode(added(call()), arguments_delta("{}"), at_once, end())) == ["hello"]


# -- text and arguments that were sent in part ---------------------------------------------------


def test_the_missing_end_of_text_is_sent() -> None:
    at_once = event("output_text.done", item_id="msg_1", content_index=0, text="hello")
    item = message(text_part("hello"))
    assert texts_of(decode_cut(text_delta("hel"), at_once)) == ["hello"]
    assert texts_of(decode_cut(text_delta("hel"), done(item))) == ["hello"]
    assert texts_of(decode(text_delta("hel"), at_once, done(item), end("completed", item))) == [
        "hello"
    ]
    assert texts_of(decode(text_delta("hel"), end("completed", item))) == ["hello"]


def test_an_item_may_grow_when_it_is_repeated() -> None:
    longer = message(text_part("hello, and more"))
    found = decode(text_delta("hel"), done(message(text_part("hello"))), end("completed", longer))
    assert texts_of(found) == ["hello, and more"]
    assert sent_back(found) == [longer]
    shorter = decode(done(longer), end("completed", message(text_part("hello"))))
    assert sent_back(shorter) == [longer]


def test_a_second_part_may_grow_too() -> None:
    item = message(text_part("One"), text_part("Two"))
    found = decode(text_delta("On"), text_delta("Tw", part=1), done(item), end())
    assert texts_of(found) == ["One", "Two"]


@pytest.mark.parametrize("other", ["hallo", "oh, hello", "HELLO, and more"])
def test_different_text_does_not_replace_the_sent_text(other: str) -> None:
    at_once = event("output_text.done", item_id="msg_1", content_index=0, text=other)
    item = message(text_part(other))
    assert texts_of(decode_cut(text_delta("hello"), at_once)) == ["hello"]
    assert texts_of(decode(text_delta("hello"), done(item), end("completed", item))) == ["hello"]
    assert texts_of(decode(done(message(text_part("hello"))), done(item), end())) == ["hello"]


def test_repeated_text_with_a_split_surrogate_pair_is_recognized() -> None:
    body = sse(
        text_delta("<"),
        text_delta(">"),
        text_delta("!"),
        done(message(text_part("\N{GRINNING FACE}!?"))),
        end(),
    )
    body = body.replace(b"<", rb"\ud83d").replace(b">", rb"\ude00")
    assert assemble_message(decode_events(openai_responses, body)).text == "\N{GRINNING FACE}!?"


@pytest.mark.parametrize("decode_in_pieces", ["{", '{"a":', '{"a":1}'])
def test_the_missing_end_of_arguments_is_sent(decode_in_pieces: str) -> None:
    at_once = event("function_call_arguments.done", item_id="fc_1", arguments='{"a":1}')
    item = call('{"a":1}')
    for last in [(at_once,), (done(item),), (at_once, done(item)), (at_once, done(call("")))]:
        [asked] = decode(added(call()), arguments_delta(decode_in_pieces), *last, end()).tool_calls
        assert isinstance(asked, ToolCall)
        assert asked.arguments == '{"a":1}'
    [asked] = decode(done(call(decode_in_pieces)), end("completed", item)).tool_calls
    assert (asked.id, asked.arguments) == ("call_1", '{"a":1}')


def test_the_missing_end_of_thinking_is_sent() -> None:
    at_once = event("reasoning_summary_text.done", item_id="rs_1", summary_index=0, text="Hm, so")
    more = event("reasoning_summary_text.delta", item_id="rs_1", summary_index=1, delta="Yes")
    assert texts_of(decode_cut(summary_delta("Hm"), at_once)) == ["Hm, so"]
    assert texts_of(decode_cut(summary_delta("Hm"), at_once, more)) == ["Hm, soYes"]
    assert texts_of(decode(summary_delta("Hm"), done(reasoning("Hm, so")), end())) == ["Hm, so"]
    found = decode(done(reasoning("Hm")), end("completed", reasoning("Hm, so")))
    assert texts_of(found) == ["Hm, so"]
    assert sent_back(found) == [reasoning("Hm, so")]


def test_the_missing_end_of_a_refusal_is_sent() -> None:
    at_once = event("refusal.done", item_id="msg_1", content_index=0, refusal="I will not.")
    [opaque] = decode(refusal_delta("I will"), at_once, end()).content
    assert msgspec.json.decode(opaque.raw)["refusal"] == "I will not."


def test_thinking_that_is_repeated_in_the_other_place_is_sent_once() -> None:
    assert texts_of(decode_cut(summary_delta("I think so"), reasoning_delta("I think"))) == [
        "I think so"
    ]
    assert texts_of(decode_cut(summary_delta("I think"), reasoning_delta("I think so"))) == [
        "I think so"
    ]
    assert texts_of(decode_cut(summary_delta("I think so"), reasoning_delta("But no"))) == [
        "I think soBut no"
    ]


# -- arguments that are not text -----------------------------------------------------------------


@pytest.mark.parametrize("decode_in_pieces", ['{"a":', '{ "a":', "[", '{"a": 1}'])
def test_arguments_that_are_an_object_are_written_as_json_whatever_the_deltas_were(
    decode_in_pieces: str,
) -> None:
    item = call("") | {"arguments": {"a": 1}}
    found = decode(added(call()), arguments_delta(decode_in_pieces), done(item), end())
    [asked], [written] = found.tool_calls, sent_back(found)
    if isinstance(asked, InvalidToolCall):
        assert written["arguments"] == decode_in_pieces
    else:
        assert written["arguments"] == {"a": 1}


# -- two items with one id -----------------------------------------------------------------------

TWINS = [call("{}", call_id="call_1", name="read"), call("[]", call_id="call_2", name="write")]


def test_two_calls_may_share_an_item_id() -> None:
    expected = [("call_1", "read", "{}"), ("call_2", "write", "[]")]
    streams = {
        "done": [done(item, n) for n, item in enumerate(TWINS)],
        "unnumbered": [event("output_item.done", item=item) for item in TWINS],
        "at one index": [done(item) for item in TWINS],
        "announced": [
            *(added(TWINS[0] | {"arguments": ""}), added(TWINS[1] | {"arguments": ""}, 1)),
            *(
                arguments_delta("{}", 0),
                arguments_delta("[]", 1),
                done(TWINS[0]),
                done(TWINS[1], 1),
            ),
        ],
    }
    for steps in streams.values():
        for last in (end(), end("completed", *TWINS)):
            found = decode(*steps, last).tool_calls
            assert [(c.id, c.name, c.arguments) for c in found] == expected
    assert [(c.id, c.name, c.arguments) for c in whole(*TWINS).tool_calls] == expected


def test_items_of_other_kinds_may_share_an_id() -> None:
    items = (reasoning("Hm", id="x"), message(text_part("One"), id="x"), call("{}", id="x"))
    found = decode(*[done(item, n) for n, item in enumerate(items)], end("completed", *items))
    assert [type(block) for block in found.content] == [Thinking, Text, ToolCall]
    assert found.content == whole(*items).content


@pytest.mark.parametrize("start", [(), (added(message()), added(message(), 1))])
def test_two_messages_that_share_an_id_may_grow(start: Any) -> None:
    items = (message(text_part("One")), message(text_part("Two")))
    steps = (
        text_delta("O"),
        text_delta("ne"),
        done(items[0]),
        text_delta("T", 1),
        text_delta("wo", 1),
        done(items[1], 1),
    )
    for last in (end(), end("completed", *items)):
        found = decode(*start, *steps, last)
        assert texts_of(found) == ["One", "Two"]
        assert sent_back(found) == [*items]


def test_text_may_grow_under_the_id_of_thinking_that_is_done() -> None:
    thought, text = reasoning("Hm", id="x"), message(text_part("One"), id="x")
    more = event("output_text.delta", item_id="x", content_index=0, delta="On")
    steps = [event("output_item.done", item=thought), more, event("output_item.done", item=text)]
    assert texts_of(decode(*steps, end("completed", thought, text))) == ["Hm", "One"]


def test_two_messages_may_share_an_id() -> None:
    items = (message(text_part("One")), message(text_part("Two")))
    assert texts_of(whole(*items)) == ["One", "Two"]
    assert texts_of(decode(*[done(item, n) for n, item in enumerate(items)], end())) == [
        "One",
        "Two",
    ]
    unnumbered = [event("output_item.done", item=item) for item in items]
    assert texts_of(decode(*unnumbered, end("completed", *items))) == ["One", "Two"]
    assert texts_of(whole(items[0], items[0])) == ["One", "One"]


# -- repeated members ----------------------------------------------------------------------------


def test_a_status_is_the_latest() -> None:
    first = message(text_part("hello"), status="in_progress")
    found = decode(done(first), end("completed", message(text_part("hello"))))
    assert extras_of(found.content[0])["$item"]["status"] == "completed"
    silent = message(text_part("hello"), status=None)
    found = decode(done(message(text_part("hello"))), end("completed", silent))
    assert extras_of(found.content[0])["$item"]["status"] == "completed"


def test_a_list_with_only_a_blank_is_empty() -> None:
    item = msgspec.json.encode(done(message(text_part("hello"))))
    body = b"data: " + item.replace(b'"annotations":[]', b'"annotations":[ ]') + b"\n\n"
    cited = message(text_part("hello", annotations={"url": "u"}))
    found = assemble_message(decode_events(openai_responses, body, sse(end("completed", cited))))
    assert extras_of(found.content[0])["annotations"] == {"url": "u"}


def count_added_extras(count: int, item: dict[str, Any]) -> int:
    """Return the number of members in events of an item that has one more in each version."""
    body = [done(item | {f"x{number}": 1}) for number in range(count)]
    events = decode_events(openai_responses, sse(*body, end()))
    return sum(
        len(members)
        for event in events
        if isinstance(event, ExtrasAdded)
        for members in event.extras["openai_responses"].to_dict().values()
        if isinstance(members, dict)
    ) + len(events)


@pytest.mark.parametrize("item", [reasoning(), message(text_part("Hi")), call("{}")])
def test_the_cost_of_a_repeated_item_is_bounded(item: dict[str, Any]) -> None:
    assert count_added_extras(80, item) == count_added_extras(40, item) < 40


def test_only_new_members_of_an_item_are_sent_as_events() -> None:
    first, second = call("{}"), call("{}", namespace="fs")
    events = decode_events(openai_responses, sse(done(first), done(second), end()))
    [_, extras] = [event for event in events if isinstance(event, ExtrasAdded)]
    assert extras.extras["openai_responses"].to_dict() == {"namespace": "fs"}


# -- bytes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", "\ufeff"])
def test_a_byte_order_mark_is_not_part_of_a_response(mark: Any) -> None:
    answer = msgspec.json.encode({"status": "completed", "output": [message(text_part("Hi"))]})
    body = mark + (answer if isinstance(mark, bytes) else answer.decode())
    assert openai_responses.decode_response(body).text == "Hi"


def test_text_arrives_no_later_for_being_compared() -> None:
    decoder = openai_responses.StreamDecoder()
    assert list(decoder.feed(sse(text_delta("hel")))) == [TextDelta(0, "hel")]
    at_once = event("output_text.done", item_id="msg_1", content_index=0, text="hello")
    assert list(decoder.feed(sse(at_once))) == [TextDelta(0, "lo")]
