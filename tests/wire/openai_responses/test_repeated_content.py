"""OpenAI's responses repeat most content: each content becomes events once."""

from __future__ import annotations

from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import (
    AssistantMessage,
    ChatMessage,
    InvalidToolCall,
    Opaque,
    Request,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
)
from steno.errors import CutShort, ProviderError
from steno.wire import openai_responses
from steno.wire.openai_responses.items import BlockText
from steno.wire.openai_responses.payload import REASONING_KIND
from tests.wire.decode_helpers import assemble_message, decode_events, sse
from tests.wire.openai_responses.response_events import (
    NAME,
    added,
    arguments_delta,
    call,
    created,
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

AT = {"item_id": "msg_1", "output_index": 0, "content_index": 0}


def reasoning_delta(text: str) -> dict[str, Any]:
    """A delta of thinking in the content, not the summary."""
    return event(
        "reasoning_text.delta", item_id="rs_1", output_index=0, content_index=0, delta=text
    )


def content(text: str) -> list[dict[str, Any]]:
    return [{"type": "reasoning_text", "text": text}]


def thinking_of(*payloads: Any) -> str:
    return "".join([b.text for b in decode(*payloads).content if isinstance(b, Thinking)])


def sent_back(turn: AssistantMessage) -> list[dict[str, Any]]:
    request = Request(messages=(ChatMessage.user("Hi"), turn), model="m-1")
    items: list[dict[str, Any]] = openai_responses.encode_request(request).json["input"]
    return items[1:]


# -- items without content -----------------------------------------------------------------------


@pytest.mark.parametrize("members", [{}, {"item": None}], ids=["absent", "null"])
def test_an_item_that_is_announced_without_json_is_ignored(members: dict[str, Any]) -> None:
    empty = event("output_item.added", output_index=0, **members)
    assert decode(empty, text_delta("Hi"), end()).content == (Text("Hi"),)


# -- content without deltas ----------------------------------------------------------------------


def test_arguments_that_come_at_once_are_those_of_the_call() -> None:
    at_once = event("function_call_arguments.done", item_id="fc_1", arguments='{"a":1}')
    [asked] = decode(added(call()), at_once, end()).tool_calls
    assert (asked.id, asked.name, asked.arguments) == ("call_1", "read", '{"a":1}')
    [asked] = decode(added(call()), at_once, done(call("")), end()).tool_calls
    assert asked.arguments == '{"a":1}'


@pytest.mark.parametrize("start", [(), (added(message()),)], ids=["unannounced", "announced"])
@pytest.mark.parametrize("last", [(), (done(message()),)], ids=["not done", "done empty"])
def test_text_that_comes_at_once_is_text(start: Any, last: Any) -> None:
    at_once = event("output_text.done", **AT, text="Hi")
    assert decode(created(), *start, at_once, *last, end()).content == (Text("Hi"),)


def test_a_whole_part_follows_one_that_grew() -> None:
    steps = [
        event("output_text.done", **AT | {"content_index": part}, text=text)
        for part, text in enumerate(["One", "Two"])
    ]
    found = decode(added(message()), text_delta("One"), *steps, end())
    assert found.content == (Text("One"), Text("Two"))


def test_a_refusal_that_comes_at_once_is_one() -> None:
    found = decode(added(message()), event("refusal.done", **AT, refusal="No."), end())
    assert (found.text, found.stop_reason) == (None, StopReason.CONTENT_FILTER)
    assert msgspec.json.decode(found.content[0].raw) == {"type": "refusal", "refusal": "No."}


@pytest.mark.parametrize("kind", ["reasoning_summary_text", "reasoning_text"])
def test_thinking_that_comes_at_once_is_thinking(kind: str) -> None:
    at_once = event(f"{kind}.done", item_id="rs_1", output_index=0, text="Hm")
    assert thinking_of(added(reasoning()), at_once, end()) == "Hm"
    assert thinking_of(added(reasoning()), at_once, done(reasoning()), end()) == "Hm"


@pytest.mark.parametrize("tail", [(), (done(message(text_part("Hi"))),)], ids=["not done", "done"])
@pytest.mark.parametrize("position", [AT, {"output_index": 0}, {"item_id": "other"}, {}])
def test_content_of_deltas_is_not_repeated(position: dict[str, Any], tail: Any) -> None:
    at_once = event("output_text.done", **{"content_index": 0} | position, text="Hi")
    assert decode(added(message()), text_delta("Hi"), at_once, *tail, at_once, end()).text == "Hi"


def test_deltas_of_calls_refusals_and_thinking_are_not_repeated() -> None:
    refusal = event("refusal.done", **AT, refusal="No.")
    found = decode(added(message()), refusal_delta("No."), refusal, end())
    assert msgspec.json.decode(found.content[0].raw)["refusal"] == "No."
    at_once = event("function_call_arguments.done", item_id="fc_1", arguments="{}")
    assert (
        decode(added(call()), arguments_delta("{}"), at_once, end()).tool_calls[0].arguments == "{}"
    )
    thought = event("reasoning_summary_text.done", output_index=0, summary_index=0, text="Hm")
    assert thinking_of(added(reasoning()), summary_delta("Hm"), thought, end()) == "Hm"


FAULT = {"type": "error", "code": "server_error", "message": "engine died"}


@pytest.mark.parametrize(
    ("tail", "error"),
    [(b"", CutShort), (sse(FAULT, {"type": "ping"}), ProviderError)],
    ids=["cut", "fault"],
)
def test_content_without_deltas_is_kept_if_the_response_breaks_off(
    tail: bytes, error: type[Exception]
) -> None:
    decoder = openai_responses.StreamDecoder()
    at_once = event("output_text.done", **AT, text="Hal")
    events = chain(decoder.feed(sse(at_once) + tail), decoder.close())
    assert next(events) == TextDelta(0, "Hal")
    with pytest.raises(error):
        next(events)


# -- repeated items ------------------------------------------------------------------------------


def test_members_that_only_the_end_knows_are_kept() -> None:
    decode_in_pieces = message(text_part("Hi"))
    again = message(text_part("Hi", logprobs=[], annotations=[{"url": "u"}]), phase="final_answer")
    [text] = decode(
        added(message()), text_delta("Hi"), done(decode_in_pieces), end("completed", again)
    ).content
    assert text.text == "Hi"
    assert extras_of(text)["$item"] == {
        "id": "msg_1",
        "status": "completed",
        "phase": "final_answer",
    }
    assert extras_of(text)["annotations"] == [{"url": "u"}]
    assert sent_back(decode(done(decode_in_pieces), done(again), end())) == [again]


def test_the_first_version_counts_except_for_the_status() -> None:
    first, second = call("{}", id="fc_1", status="completed"), call("{}", id="fc_2", status="x")
    [asked] = decode(done(first), end("completed", second | {"namespace": "fs"})).tool_calls
    assert extras_of(asked) == {"id": "fc_1", "status": "x", "namespace": "fs"}


def test_a_seal_may_come_with_the_end() -> None:
    decode_in_pieces, sealed = reasoning("Hm"), reasoning("Hm", encrypted_content="gAAA")
    [thinking] = decode(
        added(reasoning()), summary_delta("Hm"), done(decode_in_pieces), end("completed", sealed)
    ).content
    assert (thinking.text, thinking.seal.data) == ("Hm", "gAAA")
    assert decode(done(decode_in_pieces), end("completed", sealed), model="m-1") == whole(sealed)


def test_a_summary_may_come_with_the_end() -> None:
    bare = {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA"}
    found = decode(done(bare), end("completed", bare | reasoning("Hm")), model="m-1")
    assert found.content[0].text == "Hm"
    assert sent_back(found) == [bare | reasoning("Hm")]


def test_text_and_arguments_may_arrive_at_the_end() -> None:
    found = decode(
        *(done(message(text_part(""))), done(call(""), 1)),
        end("completed", message(text_part("Hi")), call('{"p":1}')),
    )
    assert found.text == "Hi"
    assert [c.arguments for c in found.tool_calls] == ['{"p":1}']
    assert found.content == whole(message(text_part("Hi")), call('{"p":1}')).content


def test_a_name_may_come_with_the_end() -> None:
    nameless = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "arguments": "{}"}
    [asked] = decode(done(nameless), end("completed", nameless | {"name": "read"})).tool_calls
    assert isinstance(asked, ToolCall)
    assert (asked.id, asked.name, asked.arguments) == ("call_1", "read", "{}")


def test_an_empty_message_may_get_its_text_at_the_end() -> None:
    found = decode(done(message()), end("completed", message(text_part("Hi"))))
    assert found.text == "Hi"
    ids = [item["id"] for item in sent_back(found) if "id" in item]
    assert ids == ["msg_1"]


def test_a_part_may_come_with_the_end() -> None:
    both = message(text_part("One"), text_part("Two"))
    found = decode(
        added(message()), text_delta("One"), done(message(text_part("One"))), end("completed", both)
    )
    assert sent_back(found) == [both]


def test_parts_are_found_by_their_numbers() -> None:
    item = message(text_part("One"), text_part("Two", logprobs=[1]))
    found = decode(added(message()), text_delta("Two", part=1), done(item), end())
    assert sorted(block.text for block in found.content) == ["One", "Two"]
    assert [extras_of(b)["logprobs"] for b in found.content if b.text == "Two"] == [[1]]


@pytest.mark.parametrize(
    "other",
    [message(text_part("Bye"), id="x", phase="x"), call("{}", id="x"), reasoning("Hm", id="x")],
)
def test_another_item_at_the_same_position_adds_nothing(other: dict[str, Any]) -> None:
    item = message(text_part("Hi"))
    assert decode(done(item), end("completed", other)).content == whole(item).content


def test_unknown_blocks_are_kept_unchanged() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    [opaque] = decode(done(search), end("completed", search | {"action": {}})).content
    assert msgspec.json.decode(opaque.raw) == search


# -- thinking in two places ----------------------------------------------------------------------

HELD = reasoning("Hm, hm", content=content("Hm, hm"))


@pytest.mark.parametrize(
    "deltas",
    [
        (
            summary_delta("Hm, "),
            summary_delta("hm"),
            reasoning_delta("Hm,"),
            reasoning_delta(" hm"),
        ),
        (reasoning_delta("Hm, "), reasoning_delta("hm"), summary_delta("Hm, hm")),
        (
            summary_delta("Hm, "),
            reasoning_delta("Hm, "),
            summary_delta("hm"),
            reasoning_delta("hm"),
        ),
        (summary_delta("Hm, "), reasoning_delta("Hm, hm"), summary_delta("hm")),
        (summary_delta("Hm, hm"),),
        (summary_delta("Hm"),),
        (),
    ],
)
def test_the_same_thinking_in_both_places_is_sent_once(deltas: Any) -> None:
    assert thinking_of(added(reasoning()), *deltas, done(HELD), end()) == "Hm, hm"
    if len(deltas) > 1:
        assert thinking_of(added(reasoning()), *deltas, end()) == "Hm, hm"


@given(st.lists(st.tuples(st.sampled_from(["summary", "content"]), st.text("ab", max_size=3))))
def test_thinking_waits_exactly_as_long_as_it_may_be_a_repetition(said: list[Any]) -> None:
    thoughts, first = BlockText(REASONING_KIND, 0), said[0][0] if said else ""
    decode_in_pieces, waiting, is_different = "", "", False
    for place, text in said:
        if place == first or is_different:
            expected = text
        else:
            waiting += text
            is_different = not (
                decode_in_pieces.startswith(waiting) or waiting.startswith(decode_in_pieces)
            )
            expected = waiting if is_different else ""
            waiting = "" if is_different else waiting
        assert thoughts.add_delta(text, (place, 0)) == expected
        decode_in_pieces += expected
    is_repeated = decode_in_pieces.startswith(waiting) or waiting.startswith(decode_in_pieces)
    assert thoughts.take_remaining() == (
        waiting[len(decode_in_pieces) :] if is_repeated else waiting
    )


def test_different_thinking_is_sent_as_it_arrives() -> None:
    item = reasoning("So.", content=content("Sooner or later."))
    body = sse(
        added(reasoning()),
        summary_delta("So."),
        reasoning_delta("Soon"),
        reasoning_delta("er or later."),
        done(item),
        end(),
    )
    events = decode_events(openai_responses, body)
    assert events[:3] == [
        ThinkingDelta(0, decode_in_pieces) for decode_in_pieces in ("So.", "Soon", "er or later.")
    ]
    assert assemble_message(events) == whole(item)


def test_thinking_that_was_held_back_is_sent_at_the_end() -> None:
    decode_in_pieces = (added(reasoning()), summary_delta("Hm, hm"), reasoning_delta("Hm"))
    item = reasoning("Hm, hm", content=content("Hm"))
    assert thinking_of(*decode_in_pieces, done(item), end()) == "Hm, hmHm"


def test_thinking_with_deltas_in_one_place_only_is_whole() -> None:
    item = reasoning("So.", content=content("Later."))
    assert thinking_of(summary_delta("So."), done(item), end()) == "So.Later."
    assert sorted(thinking_of(reasoning_delta("Later."), done(item), end())) == sorted("So.Later.")


# -- custom tools --------------------------------------------------------------------------------


def custom(input: Any = "select 1", **members: Any) -> dict[str, Any]:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "sql"}
    return item | {"input": input, "status": "completed"} | members


def test_a_call_of_a_custom_tool_is_a_call() -> None:
    found = decode(
        added(custom("")),
        event("custom_tool_call_input.delta", item_id="ctc_1", output_index=0, delta="select"),
        event("custom_tool_call_input.delta", item_id="ctc_1", output_index=0, delta=" 1"),
        event("custom_tool_call_input.done", item_id="ctc_1", output_index=0, input="select 1"),
        done(custom()),
        end("completed", custom()),
    )
    assert found.stop_reason is StopReason.TOOL_USE
    [asked] = found.tool_calls
    assert isinstance(asked, InvalidToolCall)
    assert (asked.id, asked.name, asked.arguments) == ("call_1", "sql", "select 1")
    assert found == whole(custom())
    assert sent_back(found) == [custom()]


def test_the_input_of_a_custom_tool_may_come_at_once() -> None:
    at_once = event("custom_tool_call_input.done", item_id="ctc_1", input="select 1")
    [item] = sent_back(decode(added(custom("")), at_once, end()))
    assert (item["type"], item["input"]) == ("custom_tool_call", "select 1")


@pytest.mark.parametrize("input", ["", " \n", "{}", '{"a": 1}', {"a": 1}, None])
def test_any_input_of_a_custom_tool_is_sent_back_unchanged(input: Any) -> None:
    assert sent_back(whole(custom(input))) == [custom(input)]


def test_an_empty_done_item_does_not_remove_the_input_of_a_custom_tool() -> None:
    more = event("custom_tool_call_input.delta", item_id="ctc_1", output_index=0, delta="select 1")
    assert sent_back(decode(added(custom("")), more, done(custom("")), end())) == [custom()]
    assert sent_back(decode(done(custom("")), end("completed", custom()))) == [custom()]


def test_the_result_of_a_custom_tool_goes_back_as_one() -> None:
    turn = decode(done(custom()), done(call("{}", call_id="call_2"), 1), end())
    results = [ChatMessage.tool_result(id, "1") for id in ("call_1", "call_2")]
    request = Request(messages=(ChatMessage.user("Hi"), turn, *results), model="m-1")
    encoded = openai_responses.encode_request(request)
    assert encoded.json["input"][3:] == [
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1"},
        {"type": "function_call_output", "call_id": "call_2", "output": "1"},
    ]
    assert encoded.losses == ()


def test_a_custom_tool_stays_one_for_another_provider() -> None:
    turn = decode(done(custom()), end())
    result = ChatMessage.tool_result("call_1", "1")
    request = Request(messages=(ChatMessage.user("Hi"), turn, result), model="m-1")
    [_, asked, answered] = openai_responses.encode_request(request, provider="xai").json["input"]
    assert asked == {
        "type": "custom_tool_call",
        "call_id": "call_1",
        "name": "sql",
        "input": "select 1",
    }
    assert answered["type"] == "custom_tool_call_output"


@pytest.mark.parametrize(
    "items",
    [
        [custom(), {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1"}],
        [custom(), {"type": "function_call_output", "call_id": "call_1", "output": "1"}],
        [call("{}"), {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1"}],
        [{"type": "custom_tool_call_output", "call_id": "call_1", "output": "1", "id": "x"}],
        [
            custom(call_id=None),
            custom(name="my tool"),
            {"type": "custom_tool_call", "call_id": "a"},
        ],
        [{"type": "custom_tool_call_output", "call_id": "call_1", "output": {"x": 1}}],
    ],
    ids=["both", "answered otherwise", "function", "alone", "odd", "odd result"],
)
def test_recorded_calls_of_custom_tools_are_written_as_they_were(items: list[Any]) -> None:
    body = {"model": "m-1", "input": [{"role": "user", "content": "Hi"}, *items]}
    request = openai_responses.decode_request(msgspec.json.encode(body))
    assert openai_responses.encode_request(request).json == body


def test_recorded_results_of_custom_tools_are_results() -> None:
    answered = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1"}
    body = {"model": "m-1", "input": [{"role": "user", "content": "Hi"}, custom(), answered]}
    [_, turn, result] = openai_responses.decode_request(msgspec.json.encode(body)).messages
    assert [c.arguments for c in turn.tool_calls] == ["select 1"]
    assert not any(isinstance(block, Opaque) for block in turn.content)
    assert (result.tool_call_id, result.text, result.extras) == ("call_1", "1", None)
    assert NAME in (turn.content[0].extras or {})
