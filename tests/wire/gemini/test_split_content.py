"""Gemini's generateContent: content that is split, repeated, late or empty."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import (
    AssistantMessage,
    ChatMessage,
    InvalidToolCall,
    ProtocolError,
    Request,
    Seal,
    StopReason,
    Text,
    ToolCall,
    Usage,
)
from steno.assemble import ToolCallPart
from steno.messages.event import BlockSealed
from steno.wire import gemini
from tests.wire.decode_helpers import assemble_message, decode_events, sse

MODEL = "gemini-9"
SEALED = Seal(data="s1", provider="google", api="gemini", model=MODEL)


def chunk(*parts: dict[str, Any], finish: str | None = None, **candidate: Any) -> dict[str, Any]:
    ended = {} if finish is None else {"finishReason": finish}
    content = {"parts": list(parts), "role": "model"}
    return {"candidates": [{"content": content, "index": 0, **ended, **candidate}]}


STOP = chunk(finish="STOP")


def decode(*chunks: dict[str, Any]) -> AssistantMessage:
    return assemble_message(decode_events(gemini, sse(*chunks), model=MODEL))


def envelope_of(*chunks: dict[str, Any]) -> dict[str, Any]:
    decoder = gemini.StreamDecoder(model=MODEL)
    list(decoder.feed(sse(*chunks)))
    list(decoder.close())
    return decoder.envelope


def sent_back(message: AssistantMessage, *, provider: str = "google") -> list[Any]:
    """Return the parts that are sent back for a response."""
    request = Request(messages=(ChatMessage.user("Well?"), message), model=MODEL)
    found: list[Any] = gemini.encode_request(request, provider=provider).json["contents"][1][
        "parts"
    ]
    return found


def opening(**function: Any) -> dict[str, Any]:
    return {"functionCall": {"name": "add", "willContinue": True} | function}


def fragment(path: str | None, *, goes_on: bool = True, **members: Any) -> dict[str, Any]:
    """Return a fragment of a call, with the value of an argument or a part of it."""
    partial = {"jsonPath": path, **members}
    return {
        "functionCall": {"partialArgs": [partial]} | ({"willContinue": True} if goes_on else {})
    }


CLOSING: dict[str, Any] = {"functionCall": {}}


def arguments_of(*fragments: dict[str, Any]) -> Any:
    [made] = decode(chunk(opening(), *fragments, CLOSING), STOP).tool_calls
    assert isinstance(made, ToolCall)
    return made.parsed.to_dict()


# -- calls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [1, 2])
def test_a_signature_on_a_later_fragment_seals_the_call_and_is_sent_back(late: int) -> None:
    parts = [opening(), fragment("$.a", stringValue="x"), CLOSING]
    parts[late] = parts[late] | {"thoughtSignature": "s1"}
    message = decode(*map(chunk, parts), STOP)
    [made] = message.tool_calls
    assert (made.arguments, made.seal) == ('{"a":"x"}', SEALED)
    [part] = sent_back(message)
    assert part == {
        "functionCall": {"name": "add", "args": {"a": "x"}},
        "thoughtSignature": "s1",
    }


def test_a_call_ends_with_the_seal_that_came_last() -> None:
    closing = CLOSING | {"thoughtSignature": "s1"}
    events = decode_events(gemini, sse(chunk(opening()), chunk(closing), STOP), model=MODEL)
    [sealed] = [n for n, event in enumerate(events) if isinstance(event, BlockSealed)]
    [end] = [n for n, event in enumerate(events) if isinstance(event, ToolCallPart) and event.ends]
    assert sealed < end


def test_a_late_signature_of_another_provider_gives_way_to_the_sentinel() -> None:
    message = decode(chunk(opening()), chunk(CLOSING | {"thoughtSignature": "s1"}), STOP)
    [part] = sent_back(message, provider="vertex")
    assert part["thoughtSignature"] == "skip_thought_signature_validator"


def test_text_between_two_fragments_gets_no_extras_of_the_call() -> None:
    closing = CLOSING | {"thoughtSignature": "s1", "partMetadata": {"k": 1}}
    message = decode(chunk(opening()), chunk({"text": "Hm"}), chunk(closing), STOP)
    made, words = message.content
    assert isinstance(made, ToolCall)
    assert made.seal == SEALED
    assert words == Text("Hm")


def test_members_of_later_fragments_go_back_with_those_of_the_first() -> None:
    message = decode(
        chunk(opening(mood="sure", tags=["a"]) | {"partMetadata": {"k": {"x": 1}}}),
        chunk({"functionCall": {"willContinue": True, "tags": ["b"], "mood": None}}),
        chunk(CLOSING | {"partMetadata": {"k": {"y": 2}}, "thought": True, "new": 3}),
        STOP,
    )
    [part] = sent_back(message)
    assert part == {
        "functionCall": {"name": "add", "args": {}, "mood": "sure", "tags": ["a", "b"]},
        "partMetadata": {"k": {"x": 1, "y": 2}},
        "thought": True,
        "new": 3,
    }


def test_an_id_may_come_with_a_later_fragment() -> None:
    message = decode(chunk(opening()), chunk({"functionCall": {"id": "c1"}}), STOP)
    [made] = message.tool_calls
    assert made.id == "c1"
    assert sent_back(message)[0]["functionCall"]["id"] == "c1"


def test_a_late_id_that_another_call_has_is_only_sent_back() -> None:
    first = {"functionCall": {"name": "add", "args": {}, "id": "c1"}}
    message = decode(chunk(first, opening()), chunk({"functionCall": {"id": "c1"}}), STOP)
    assert [made.id for made in message.tool_calls] == ["c1", "made_up"]
    assert [part["functionCall"]["id"] for part in sent_back(message)] == ["c1", "c1"]


def test_a_name_may_come_with_a_later_fragment() -> None:
    nameless = fragment("$.a", stringValue="x")
    [made] = decode(chunk(nameless), chunk(opening()), chunk(CLOSING), STOP).tool_calls
    assert (made.name, made.arguments) == ("add", '{"a":"x"}')


def test_a_name_may_be_repeated_beside_its_id() -> None:
    more = fragment("$.a", stringValue="x")
    more["functionCall"] |= {"name": "add", "id": "c1"}
    [made] = decode(chunk(opening(id="c1")), chunk(more), chunk(CLOSING), STOP).tool_calls
    assert (made.id, made.arguments) == ("c1", '{"a":"x"}')


def test_text_beside_a_call_goes_back_with_it() -> None:
    part = {"functionCall": {"name": "add", "args": {}}, "text": "Hm", "thoughtSignature": "s1"}
    assert sent_back(decode(chunk(part), STOP)) == [part]


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "CONTINUATION", "SAFETY"])
def test_a_call_that_was_to_continue_cannot_be_run(reason: str) -> None:
    more = fragment("$.path", stringValue="/tmp/", willContinue=True)
    [made] = decode(chunk(opening()), chunk(more), chunk(finish=reason)).tool_calls
    assert isinstance(made, InvalidToolCall)
    assert made.arguments == '{"path":"/tmp/"'


def test_an_open_call_is_whole_if_the_turn_has_ended() -> None:
    [made] = decode(chunk(opening(), fragment("$.a", boolValue=True)), STOP).tool_calls
    assert made.arguments == '{"a":true}'


# -- arguments in fragments ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (r"$['it\'s']", ["it's"]),
        (r'$["say \"hi\""]', ['say "hi"']),
        (r"""$['a"b']["it's"]""", ['a"b', "it's"]),
        (r"$['\u00e9\\\/']", ["é\\/"]),
        (r"$['\ud83d\ude00']", ["😀"]),
        (r"$['\ud83d']", ["\N{REPLACEMENT CHARACTER}"]),
        (r"$['\b\f\n\r\t']", ["\b\f\n\r\t"]),
        ("$['a.b[0]']", ["a.b[0]"]),
        ("$['']", [""]),
        ("$ ['a'] [ \"b\" ]\n.c", ["a", "b", "c"]),
        ("$.größe.x-y", ["größe", "x-y"]),
    ],
)
def test_names_in_paths_are_read_as_they_are_meant(path: str, names: list[str]) -> None:
    expected: Any = 1
    for name in reversed(names):
        expected = {name: expected}
    assert arguments_of(fragment(path, numberValue=1)) == expected


@given(st.lists(st.text(), min_size=1, max_size=3), st.booleans())
def test_any_names_can_be_quoted_in_a_path(names: list[str], is_ascii: bool) -> None:
    steps = [f"[{json.dumps(name, ensure_ascii=is_ascii)}]" for name in names]
    expected: Any = True
    for name in reversed(names):
        expected = {name: expected}
    assert arguments_of(fragment("$" + "".join(steps), boolValue=True)) == expected


@pytest.mark.parametrize(
    "path",
    [
        *("$", "$[0]", "$..deep", "$.*", "$['a', 'b']", "$[1:2].a", "$.a[-1]", "$.a[12345]"),
        *("a", "", None, "$.", "$.a[", "$['a'", r"$['\x']", r"$['\u12']", "$['a'b']"),
        "$" + ".a" * 201,
    ],
)
def test_a_path_that_leads_to_no_single_argument_is_refused(path: str | None) -> None:
    with pytest.raises(ProtocolError) as caught:
        arguments_of(fragment(path, stringValue="secret"))
    assert (caught.value.code, caught.value.place) == ("invalid_argument_path", "gemini")
    assert "secret" not in str(caught.value)


def test_a_value_of_a_kind_that_we_cannot_read_is_refused() -> None:
    with pytest.raises(ProtocolError) as caught:
        arguments_of(fragment("$.a", structValue={"b": 1}))
    assert caught.value.code == "unknown_fragment_value"


def test_an_empty_fragment_changes_nothing() -> None:
    empty = {"functionCall": {"partialArgs": [{}], "willContinue": True}}
    nothing: dict[str, Any] = {"functionCall": {"partialArgs": None, "args": None}}
    nothing["functionCall"]["willContinue"] = True
    assert arguments_of(empty, fragment("$.a", boolValue=False), nothing) == {"a": False}


def test_a_text_continues_after_another_argument() -> None:
    assert arguments_of(
        fragment("$.a", stringValue="San ", willContinue=True),
        fragment("$.b", numberValue=1),
        fragment("$.a", willContinue=True),
        fragment("$['a']", stringValue="Francisco"),
        fragment("$.c"),
    ) == {"a": "San Francisco", "b": 1, "c": None}


def test_a_text_that_has_ended_is_replaced_by_another() -> None:
    assert arguments_of(
        fragment("$.a", stringValue="x", willContinue=True),
        fragment("$.a", stringValue="y"),
        fragment("$.a", stringValue="z"),
    ) == {"a": "z"}


# -- metadata ------------------------------------------------------------------------------------

WEB = [{"web": {"uri": f"https://example.org/{name}"}} for name in "abc"]


@pytest.mark.parametrize("nothing", [None, {}, [], ""])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("groundingMetadata", {"groundingChunks": WEB}),
        ("urlContextMetadata", {"urlMetadata": [{"retrievedUrl": "https://example.org"}]}),
        ("citationMetadata", {"citations": [{"uri": "https://example.org"}]}),
        ("safetyRatings", [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW"}]),
        ("finishMessage", "Done."),
        ("avgLogprobs", -0.5),
        ("tokenCount", 0),
        ("brandNew", 0),
    ],
)
def test_empty_values_replace_nothing(name: str, told: Any, nothing: Any) -> None:
    before, after = chunk(**{name: told}), chunk(finish="STOP", **{name: nothing})
    assert envelope_of(before, after)[name] == told
    assert envelope_of(after, before)[name] == told


def test_sources_in_parts_are_all_there() -> None:
    chunks = [
        chunk(groundingMetadata={"groundingChunks": WEB[:1], "webSearchQueries": ["q"]}),
        chunk(groundingMetadata={"groundingChunks": WEB[1:2], "retrievalMetadata": {"x": 1}}),
        chunk(groundingMetadata={"groundingChunks": [], "retrievalMetadata": {"y": 2}}),
        chunk(groundingMetadata={"groundingChunks": WEB[2:], "searchEntryPoint": {}}),
    ]
    expected = {
        "groundingChunks": WEB,
        "webSearchQueries": ["q"],
        "retrievalMetadata": {"x": 1, "y": 2},
        "searchEntryPoint": {},
    }
    assert envelope_of(*chunks, STOP)["groundingMetadata"] == expected
    extras = decode(*chunks, STOP).extras
    assert extras is not None
    assert msgspec.json.decode(extras["gemini"].text) == {"$form": {"groundingMetadata": expected}}


@pytest.mark.parametrize("name", ["citations", "citationSources"])
def test_repeated_sources_are_kept_once(name: str) -> None:
    chunks = [chunk(citationMetadata={name: WEB[:count]}) for count in (1, 1, 2, 3, 3)]
    assert envelope_of(*chunks, STOP)["citationMetadata"] == {name: WEB}


def test_prompt_feedback_in_every_chunk_is_kept_once() -> None:
    feedback = {"safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT"}]}
    chunks = [chunk({"text": word}) | {"promptFeedback": feedback} for word in "abc"]
    assert envelope_of(*chunks, STOP)["promptFeedback"] == feedback


def test_log_probabilities_in_parts_are_complete_even_for_equal_tokens() -> None:
    ha = {"token": "ha", "logProbability": -0.25}
    oh = {"token": "oh", "logProbability": -0.5}
    tokens = [[ha], [ha], [ha, ha, oh]]
    chunks = [
        chunk(logprobsResult={"chosenCandidates": part, "topCandidates": [{"candidates": part}]})
        for part in tokens
    ]
    assert envelope_of(*chunks, STOP)["logprobsResult"] == {
        "chosenCandidates": [ha, ha, ha, ha, oh],
        "topCandidates": [{"candidates": part} for part in tokens],
    }


def test_the_latest_ratings_count() -> None:
    ratings = [
        [{"category": "HARM_CATEGORY_HARASSMENT", "probability": level}]
        for level in ("LOW", "HIGH")
    ]
    chunks = [chunk(safetyRatings=each) for each in ratings]
    assert envelope_of(*chunks, STOP)["safetyRatings"] == ratings[1]


def test_metadata_before_the_end_is_kept() -> None:
    early = chunk({"text": "Hi"}, avgLogprobs=-0.5, tokenCount=3, finishMessage="Soon.")
    found = envelope_of(early, STOP)
    assert found == {"avgLogprobs": -0.5, "tokenCount": 3, "finishMessage": "Soon."}


def test_members_of_other_shapes_are_the_latest() -> None:
    chunks = [chunk(brandNew=told) for told in ({"a": 1}, "x", [1], 7)]
    assert envelope_of(*chunks, STOP)["brandNew"] == 7


def test_members_that_are_nested_too_deeply_are_kept_as_text() -> None:
    deep = b'{"a":' * 300 + b"1" + b"}" * 300
    told = chunk(groundingMetadata=msgspec.Raw(deep))
    assert envelope_of(told, STOP)["groundingMetadata"] == deep.decode()


def test_members_of_a_part_that_are_nested_too_deeply_are_kept_as_text() -> None:
    deep = b'{"a":' * 300 + b"1" + b"}" * 300
    call = {"functionCall": {"name": "add", "args": {}, "new": msgspec.Raw(deep)}}
    words = {"text": "Hi", "partMetadata": msgspec.Raw(deep)}
    extras = [block.extras for block in decode(chunk(call, words), STOP).content]
    kept = [msgspec.json.decode(each["gemini"].text) for each in extras if each is not None]
    assert kept[0]["functionCall"] == {"new": deep.decode()}
    assert kept[1] == {"partMetadata": deep.decode()}


def test_feedback_on_the_prompt_is_not_taken_back() -> None:
    refused = {"promptFeedback": {"blockReason": "SAFETY"}}
    found = decode(refused, {"promptFeedback": None}, {"promptFeedback": {}})
    assert (found.stop_reason, found.raw_stop_reason) == (StopReason.CONTENT_FILTER, "SAFETY")
    assert envelope_of(refused, {"promptFeedback": {}}) == refused


@pytest.mark.parametrize("nothing", [b"null", b"{}", b"{ }"])
def test_counts_are_not_taken_back(nothing: bytes) -> None:
    counts = {"promptTokenCount": 7, "candidatesTokenCount": 2}
    last = STOP | {"usageMetadata": msgspec.Raw(nothing)}
    chunks = (chunk({"text": "Hi"}) | {"usageMetadata": counts}, last)
    assert decode(*chunks).usage == Usage(input_tokens=7, output_tokens=2)
    assert envelope_of(*chunks)["usageMetadata"] == counts


@pytest.mark.parametrize("answer", [{"promptFeedback": None}, {"usageMetadata": None}])
def test_null_is_not_a_response(answer: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError) as caught:
        gemini.decode_response(msgspec.json.encode(answer))
    assert caught.value.code == "candidates_missing"


def test_a_model_may_name_itself_late() -> None:
    later = {"modelVersion": "gemini-9-001", "responseId": "r-1", "createTime": "now"}
    signed = {"text": "Hi", "thoughtSignature": "s1"}
    chunks = ({"usageMetadata": {"promptTokenCount": 1}}, chunk(signed) | later, STOP)
    assert envelope_of(*chunks).items() >= later.items()
    [block] = assemble_message(decode_events(gemini, sse(*chunks))).content
    assert isinstance(block, Text)
    assert block.seal is not None
    assert block.seal.model == "gemini-9-001"


def test_the_identity_may_arrive_in_parts() -> None:
    names: dict[str, str] = {"createTime": "now", "responseId": "r-1", "modelVersion": "m-1"}
    told: Iterator[dict[str, Any]] = ({name: value} for name, value in names.items())
    assert envelope_of(*told, {"responseId": "r-2", "modelVersion": "m-2"}, STOP) == names


# -- the end -------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [None, "", 0])
def test_a_reason_is_not_taken_back(later: Any) -> None:
    message = decode(chunk({"text": "Hi"}, finish="MAX_TOKENS"), chunk(finishReason=later))
    assert (message.stop_reason, message.raw_stop_reason) == (StopReason.LENGTH, "MAX_TOKENS")


def test_a_turn_that_is_to_be_continued_is_a_pause_and_keeps_its_token() -> None:
    last = chunk({"text": "Hi"}, finish="CONTINUATION", continuationToken="dG9rZW4=")
    message = decode(last)
    assert (message.stop_reason, message.raw_stop_reason) == (StopReason.PAUSE, "CONTINUATION")
    assert envelope_of(last)["continuationToken"] == "dG9rZW4="


# -- empty parts with other members --------------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [
        {"text": "", "partMetadata": {"k": 1}},
        {"text": "", "thought": True, "partMetadata": {"k": 1}},
        {"text": "", "brandNew": 0},
        {"partMetadata": {"k": 1}},
        {"thought": True, "partMetadata": {"k": 1}},
    ],
)
def test_members_beside_an_empty_text_are_sent_back(part: dict[str, Any]) -> None:
    message = decode(chunk({"text": "Hi"}), chunk(part), chunk({"text": "!"}), STOP)
    assert sent_back(message) == [{"text": "Hi"}, part, {"text": "!"}]
