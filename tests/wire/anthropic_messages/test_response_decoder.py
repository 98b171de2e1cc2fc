"""Anthropic's Messages: responses, whole and streamed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steno import (
    AssistantMessage,
    InvalidToolCall,
    Opaque,
    Seal,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
)
from steno.assemble import ToolCallPart
from steno.wire import anthropic_messages
from steno.wire.anthropic_messages import NAME, StreamDecoder
from tests.wire.anthropic_messages.response_events import (
    FOUND,
    MODEL,
    SEARCH,
    START,
    STOP,
    delta,
    end,
    less,
    read,
    start,
    stop,
    text,
    whole,
)
from tests.wire.decode_helpers import assemble_message, decode_events, sse

NONE: tuple[Any, ...] = (None, [])


def only(message: AssistantMessage) -> Any:
    [block] = message.content
    return block


def opaque(block: Any) -> Any:
    assert isinstance(block, Opaque)
    assert block.origin == NAME
    return msgspec.json.decode(block.raw)


# -- text and thinking ---------------------------------------------------------------------------


def test_text_arrives_piece_by_piece() -> None:
    payloads = [START, {"type": "ping"}, *text(0, "Hel", "lo"), end(), STOP]
    events = decode_events(anthropic_messages, sse(*payloads))
    assert events[:2] == [TextDelta(0, "Hel"), TextDelta(0, "lo")]
    message = assemble_message(events)
    assert message.content == (Text("Hello"),)
    assert (message.stop_reason, message.raw_stop_reason) == (StopReason.END_TURN, "end_turn")


def test_a_block_may_start_with_text() -> None:
    assert (
        read(start(0, "text", text="Hel"), delta(0, "text_delta", text="lo"), end()).text == "Hello"
    )


def test_thinking_carries_the_seal_of_the_model_that_was_asked() -> None:
    payloads = [
        start(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Let me "),
        delta(0, "thinking_delta", thinking="see"),
        delta(0, "signature_delta", signature="c2ln"),
        stop(0),
        *text(1, "4"),
        end(),
    ]
    seal = Seal(data="c2ln", provider="anthropic", api=NAME, model="claude")
    assert read(*payloads, model="claude").content == (Thinking("Let me see", seal=seal), Text("4"))
    assert read(*payloads).content[0].seal.model == MODEL  # type: ignore[union-attr] # it has one


def test_thinking_whose_text_is_left_out_keeps_its_seal() -> None:
    payloads = [
        start(0, "thinking", thinking="", signature=""),
        delta(0, "signature_delta", signature="c2ln"),
        stop(0),
        end(),
    ]
    block = only(read(*payloads))
    assert isinstance(block, Thinking)
    assert (block.text, block.seal and block.seal.data) == ("", "c2ln")


def test_redacted_thinking_is_only_a_seal() -> None:
    for message in (
        read(start(0, "redacted_thinking", data="ZW5j"), stop(0), end()),
        whole({"type": "redacted_thinking", "data": "ZW5j"}),
    ):
        block = only(message)
        assert isinstance(block, Thinking)
        assert block.redacted
        assert block.seal is not None
        assert block.seal.data == "ZW5j"


def test_citations_are_collected_on_their_text() -> None:
    first, second = {"cited_text": "a", "url": "u"}, {"cited_text": "b", "url": "v"}
    message = read(
        start(0, "text", text="", citations=[]),
        delta(0, "citations_delta", citation=first),
        delta(0, "text_delta", text="Both."),
        delta(0, "citations_delta", citation=second),
        stop(0),
        end(),
    )
    assert only(message).text == "Both."
    assert only(message).extras[NAME]["citations"] == (first, second)
    block = {"type": "text", "text": "Both.", "citations": [first, second]}
    assert message.content == whole(block).content


def test_an_empty_list_of_citations_is_not_kept() -> None:
    for none in NONE:
        assert only(whole({"type": "text", "text": "a", "citations": none})) == Text("a")


def test_a_surrogate_pair_over_two_deltas_is_joined() -> None:
    halves = rb'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}'
    body = sse(START)
    for half in (rb"a\ud83d", rb"\ude00b"):
        body += b"data: " + halves % half + b"\n\n"
    assert (
        assemble_message(decode_events(anthropic_messages, body + sse(end(), STOP))).text == "a😀b"
    )


def test_a_lone_surrogate_beside_a_number_that_python_cannot_read_is_replaced() -> None:
    body = sse(START, delta(0, "text_delta", text="a<"), end(), STOP)
    body = body.replace(b'a<"}', rb'a\ud83d"},"zz":' + b"1" * 5000)
    said = assemble_message(decode_events(anthropic_messages, body)).text
    assert said == "a\N{REPLACEMENT CHARACTER}"


# -- calls ---------------------------------------------------------------------------------------


def test_input_keeps_the_text_it_came_in() -> None:
    body = sse(
        START,
        start(0, "tool_use", id="toolu_1", name="read", input={}),
        delta(0, "input_json_delta", partial_json=""),
        delta(0, "input_json_delta", partial_json='{"path" : '),
        delta(0, "input_json_delta", partial_json='"a.py", "n": 1.0}'),
        stop(0),
        end("tool_use"),
        STOP,
    )
    events = decode_events(anthropic_messages, body)
    assert events[:4] == [
        ToolCallPart(0, "toolu_1", "read", starts=True),
        ToolCallPart(0, arguments='{"path" : '),
        ToolCallPart(0, arguments='"a.py", "n": 1.0}'),
        ToolCallPart(0, ends=True),
    ]
    message = assemble_message(events)
    assert only(message) == ToolCall(
        id="toolu_1", name="read", arguments='{"path" : "a.py", "n": 1.0}'
    )
    assert message.stop_reason is StopReason.TOOL_USE


@pytest.mark.parametrize("members", [{}, {"input": {}}, {"input": None}])
def test_a_call_without_input_has_no_arguments(members: dict[str, Any]) -> None:
    """llama.cpp omits `input` at the start of a call."""
    payloads = [
        start(0, "tool_use", id="a", name="now", **members),
        delta(0, "input_json_delta", partial_json=""),
        stop(0),
        end("tool_use"),
    ]
    assert only(read(*payloads)) == ToolCall(id="a", name="now")


def test_input_in_the_start_counts_unless_deltas_follow() -> None:
    first = start(0, "tool_use", id="a", name="read", input={"p": 1})
    assert only(read(first, stop(0), end())).arguments == '{"p":1}'
    more = delta(0, "input_json_delta", partial_json='{"p": 2}')
    assert only(read(first, more, stop(0), end())).arguments == '{"p": 2}'


def test_a_call_that_was_cut_by_the_limit_is_kept_as_invalid() -> None:
    payloads = [
        start(0, "tool_use", id="a", name="read", input={}),
        delta(0, "input_json_delta", partial_json='{"path": "a'),
        stop(0),
        end("max_tokens"),
    ]
    message = read(*payloads)
    assert isinstance(only(message), InvalidToolCall)
    assert message.stop_reason is StopReason.LENGTH


def test_unknown_members_of_a_call_are_kept() -> None:
    caller = {"type": "code_execution", "tool_id": "srv_1"}
    block = {"type": "tool_use", "id": "a", "name": "read", "input": {}, "caller": caller}
    for message in (
        whole(block),
        read(start(0, **{"kind": "tool_use"} | less(block)), stop(0), end()),
    ):
        assert only(message).extras[NAME]["caller"] == caller


# -- unknown members and events ------------------------------------------------------------------


def test_tools_of_the_provider_are_kept_in_their_place() -> None:
    message = read(
        *text(0, "I search."),
        start(1, "server_tool_use", id="srv_1", name="web_search", input={}),
        delta(1, "input_json_delta", partial_json=""),
        delta(1, "input_json_delta", partial_json='{"query" : '),
        delta(1, "input_json_delta", partial_json='"a"}'),
        stop(1),
        start(2, **{"kind": "web_search_tool_result"} | less(FOUND)),
        stop(2),
        *text(3, "Found."),
        end(),
    )
    assert [type(block) for block in message.content] == [Text, Opaque, Opaque, Text]
    search, found = message.content[1:3]
    assert opaque(search) == SEARCH | {"input": {"query": "a"}}
    assert isinstance(search, Opaque)
    assert '{"query" : "a"}' in search.raw
    assert (search.kind, opaque(found)) == ("server_tool_use", FOUND)
    assert message.tool_calls == ()


def test_a_streamed_block_is_assembled_like_a_whole_one() -> None:
    summary = read(
        start(0, "compaction", content=None),
        delta(0, "compaction_delta", content="So far: ", encrypted_content=None),
        delta(0, "compaction_delta", content="nothing.", encrypted_content="ZW5j"),
        stop(0),
        end("compaction"),
    )
    content = {"content": "So far: nothing.", "encrypted_content": "ZW5j"}
    assert opaque(only(summary)) == {"type": "compaction"} | content
    assert summary.stop_reason is StopReason.PAUSE
    quoted = read(
        start(0, "quotation", text="a", light=7),
        delta(0, "text_delta", text="b"),
        delta(0, "citations_delta", citation={"url": "u"}),
        stop(0),
        end(),
    )
    wanted = {"type": "quotation", "text": "ab", "light": 7, "citations": [{"url": "u"}]}
    assert opaque(only(quoted)) == wanted


@pytest.mark.parametrize(
    "odd",
    [
        delta(0, "hologram_delta", light=7),
        delta(0, "input_json_delta", partial_json='{"query'),
    ],
)
def test_a_block_that_cannot_be_assembled_is_kept_for_the_log(odd: dict[str, Any]) -> None:
    block = only(read(start(0, "server_tool_use", id="s"), odd, stop(0), end()))
    assert block.kind == "event:server_tool_use"
    assert opaque(block) == {
        "content_block": {"type": "server_tool_use", "id": "s"},
        "deltas": [odd["delta"]],
    }


def test_unknown_events_and_deltas_harm_nothing_and_are_kept() -> None:
    event = {"type": "hologram", "light": 7}
    odd = delta(0, "hologram_delta", light=8)
    message = read(
        start(0, "text", text=""),
        delta(0, "text_delta", text="Hel"),
        event,
        odd,
        delta(0, "text_delta", text="lo"),
        stop(0),
        end(),
    )
    assert message.text == "Hello"
    kept = [block for block in message.content if isinstance(block, Opaque)]
    assert [block.kind for block in kept] == ["event:hologram", "event:content_block_delta"]
    assert [opaque(block) for block in kept] == [event, odd]


def test_unknown_members_are_kept_beside_the_message() -> None:
    decoder = StreamDecoder()
    payloads = [
        START,
        delta(0, "text_delta", text="Hi", light=1),
        stop(0),
        end(container={"id": "c"}, stop_details={"category": "x"})
        | {"context_management": {"a": 1}},
        STOP,
    ]
    message = assemble_message([*decoder.feed(sse(*payloads)), *decoder.close()])
    assert message.content == (Text("Hi"),)
    envelope = decoder.envelope
    assert (envelope["id"], envelope["model"], envelope["light"]) == ("msg_1", MODEL, 1)
    assert envelope["container"] == {"id": "c"}
    assert envelope["stop_details"] == {"category": "x"}
    assert envelope["context_management"] == {"a": 1}


def test_a_message_may_start_with_its_content() -> None:
    call = {"type": "tool_use", "id": "a", "name": "read", "input": {"p": 1}}
    about = {"content": [call], "stop_reason": "tool_use"}
    first = {"type": "message_start", "message": START["message"] | about}
    message = assemble_message(decode_events(anthropic_messages, sse(first, STOP)))
    assert only(message) == ToolCall(id="a", name="read", arguments='{"p":1}')
    assert message.stop_reason is StopReason.TOOL_USE


def test_a_server_may_leave_out_starts_and_ends() -> None:
    """llama.cpp was observed to begin a stream with a block."""
    payloads = [delta(0, "text_delta", text="Hi"), start(1, "tool_use", id="a", name="now"), end()]
    message = assemble_message(decode_events(anthropic_messages, sse(*payloads)))
    assert message.content == (Text("Hi"), ToolCall(id="a", name="now"))
