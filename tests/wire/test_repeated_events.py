"""Repeated events that are read in batches give the same result as one by one."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steno import StenoError, TextDelta, ThinkingDelta
from steno.assemble import ToolCallPart, WireEvent
from steno.wire import load_wire
from steno.wire.openai_chat import StreamDecoder
from steno.wire.repeated_events import RepeatedEventReader, TextOnlyEvent

Say = Callable[[str], bytes]


def in_openai_chat(text: str, *, padding: str | None = None, **changes: object) -> bytes:
    delta = changes.pop("delta", {"content": text})
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    chunk = {"id": "chatcmpl-1", "created": 7, "model": "m", "choices": [choice], "usage": None}
    return in_event(chunk | changes | ({} if padding is None else {"obfuscation": padding}))


def in_anthropic_messages(text: str, *, blanks: int = 0, **changes: object) -> bytes:
    delta = {"type": "text_delta", "text": text}
    members = {"type": "content_block_delta", "index": 0, "delta": delta} | changes
    data = in_event(members).removesuffix(b"}\n\n") + b" " * blanks + b"}\n\n"
    return b"event: content_block_delta\n" + data


def in_event(members: object) -> bytes:
    return b"data: " + json.dumps(members, separators=(",", ":")).encode() + b"\n\n"


WIRES: dict[str, Say] = {
    "openai_chat": in_openai_chat,
    "anthropic_messages": in_anthropic_messages,
}
each_wire = pytest.mark.parametrize("wire", list(WIRES))


def decode_to_error(wire: str, pieces: Iterable[bytes]) -> tuple[list[WireEvent], str]:
    """Return the events, and the error after them."""
    decoder = load_wire(wire).StreamDecoder()
    events: list[WireEvent] = []
    try:
        for piece in pieces:
            events += decoder.feed(piece)
        events += decoder.close()
    except StenoError as exc:
        return events, f"{type(exc).__name__}: {exc}"
    return events, ""


def same_however_it_is_cut(wire: str, events: list[bytes]) -> list[WireEvent]:
    one_by_one = decode_to_error(wire, events)
    two_by_two = decode_to_error(
        wire, [b"".join(events[at : at + 2]) for at in range(0, len(events), 2)]
    )
    at_once = decode_to_error(wire, [events[0], b"".join(events[1:3]), b"".join(events[3:])])
    assert at_once == two_by_two == one_by_one
    return at_once[0]


# -- content ---------------------------------------------------------------------------------

WORDS = [" plain", ' "', "\\", "\n", "\0", '{"a": 1}', "é 漢 🙂", "\u2028", "An0ther", ":", "m", ""]


@each_wire
@given(words=st.lists(st.sampled_from(WORDS) | st.text(st.characters(exclude_categories=["Cs"]))))
@example(words=WORDS)
def test_all_text_arrives_unchanged(wire: str, words: list[str]) -> None:
    events = [WIRES[wire](word) for word in ["first", " second", " third", *words]]
    found = same_however_it_is_cut(wire, events)
    assert "".join(event.text for event in found if isinstance(event, TextDelta)) == (
        "first second third" + "".join(words)
    )


def test_padding_of_any_length_is_passed_over() -> None:
    chunks = [in_openai_chat(f" {n}", padding="aB3" * n) for n in range(20)]
    assert len(same_however_it_is_cut("openai_chat", chunks)) == 20
    padded = [in_anthropic_messages(f" {n}", blanks=n % 7) for n in range(20)]
    assert len(same_however_it_is_cut("anthropic_messages", padded)) == 20


def test_thinking_and_arguments_repeat_themselves_as_well() -> None:
    def called(fragment: str) -> dict[str, object]:
        return {"tool_calls": [{"index": 0, "function": {"arguments": fragment}}]}

    thoughts = [in_openai_chat("", delta={"reasoning_content": f" {n}"}) for n in range(9)]
    fragments = [in_openai_chat("", delta=called(f'"{n}"')) for n in range(9)]
    found = same_however_it_is_cut("openai_chat", thoughts + fragments)
    assert [event.text for event in found if isinstance(event, ThinkingDelta)] == [
        f" {n}" for n in range(9)
    ]
    assert [event.arguments for event in found if isinstance(event, ToolCallPart)] == [
        f'"{n}"' for n in range(9)
    ]


# -- events that differ ----------------------------------------------------------------------

PLAIN = [in_openai_chat(f" {n}", padding="x" * n) for n in range(6)]
ODD = {
    "another id": in_openai_chat(" odd", id="chatcmpl-2", padding="x"),
    "an id of another length": in_openai_chat(" odd", id="chatcmpl-22", padding="x"),
    "an unknown member": in_openai_chat(" odd", padding="x", novel=[1]),
    "usage": in_openai_chat(" odd", usage={"prompt_tokens": 3}, padding="x"),
    "padding with a quote": in_openai_chat(" odd", padding='x"y'),
    "padding with a line feed": in_openai_chat(" odd", padding="NEW").replace(b"NEW", b"\\n"),
    "padding with a control character": in_openai_chat(" odd", padding="NEW").replace(
        b"NEW", b"\x01"
    ),
    "text with a control character": in_openai_chat("NEW", padding="x").replace(b"NEW", b"\x01"),
    "text that is not UTF-8": in_openai_chat("NEW", padding="x").replace(b"NEW", b"\xff"),
    "a lone surrogate": in_openai_chat("NEW", padding="x").replace(b"NEW", b"\\ud83d"),
    "an invalid escape": in_openai_chat("NEW", padding="x").replace(b"NEW", b"\\q"),
    "a quote that ends the text": in_openai_chat("NEW", padding="x").replace(
        b"NEW", b'a","role":"assistant'
    ),
    "a brace too few": in_openai_chat(" odd", padding="x").replace(b"}\n\n", b"\n\n"),
    "a brace too many": in_openai_chat(" odd", padding="x").replace(b"}\n\n", b"}}\n\n"),
    "two in one": in_openai_chat(" odd", padding="x").replace(b"}\n\n", b"},{}\n\n"),
    "a comment": b": still here\n\n",
    "a name": b"event: message\n" + in_openai_chat(" odd", padding="x"),
    "an error by name": b'event: error\ndata: {"error": {"message": "no"}}\n\n',
    "an error": in_event({"error": {"message": "overloaded", "code": 529}}),
    "the end": b"data: [DONE]\n\n",
}


@pytest.mark.parametrize("odd", list(ODD.values()), ids=list(ODD))
@pytest.mark.parametrize("place", [1, 3, 4, 6])
def test_an_event_that_differs_elsewhere_is_read_in_full(odd: bytes, place: int) -> None:
    same_however_it_is_cut("openai_chat", [*PLAIN[:place], odd, *PLAIN[place:]])


@pytest.mark.parametrize(
    "odd",
    [
        in_anthropic_messages(" odd", index=1),
        in_anthropic_messages(" odd", delta={"type": "text_delta", "text": "x", "novel": 1}),
        in_anthropic_messages(" odd").replace(b"event: content_block_delta", b"event: error"),
        in_anthropic_messages(" odd", novel=True),
        in_event({"type": "content_block_start", "index": 0, "content_block": {"type": "novel"}}),
        in_event({"type": "content_block_stop", "index": 0}),
        b'event: ping\ndata: {"type": "ping"}\n\n',
    ],
    ids=["index", "member of the delta", "error", "member", "kept block", "stop", "ping"],
)
def test_other_events_among_the_words_are_read_in_full(odd: bytes) -> None:
    words = [in_anthropic_messages(f" {n}") for n in range(9)]
    same_however_it_is_cut("anthropic_messages", [*words[:5], odd, *words[5:]])


# -- unknown members -------------------------------------------------------------------------


def delta_with(word: str, **members: object) -> bytes:
    return in_openai_chat("", delta={"content": word, **members})


def choice_with(word: str, **members: object) -> bytes:
    choice = {"index": 0, "delta": {"content": word}, **members}
    return in_openai_chat("", choices=[choice])


def named_last(word: str, model: str) -> bytes:
    choice = {"index": 0, "delta": {"content": word}}
    return in_event({"id": "x", "choices": [choice], "model": model})


SAFE = {"hate": {"filtered": False, "severity": "safe"}}
RISKY = {"hate": {"filtered": False, "severity": "low"}}


@pytest.mark.parametrize(
    "events",
    [
        [delta_with(f" {n}", channel="final") for n in range(9)],
        [delta_with(f" {n}", channel="final" if n % 4 else "analysis") for n in range(12)],
        [delta_with(f" {n}", channel="analysis" if n in (0, 1, 2, 9) else "b") for n in range(12)],
        [choice_with(f" {n}", content_filter_results=SAFE) for n in range(9)],
        [choice_with(f" {n}", content_filter_results=SAFE if n % 3 else RISKY) for n in range(12)],
        [choice_with(f" {n}", logprobs={"content": ["same"]}) for n in range(9)],
        [delta_with(" a", audio={"transcript": "ha"}) for _ in range(9)],
        [in_openai_chat(f" {n}", novel={"x": [n // 4]}) for n in range(12)],
        [in_openai_chat(f" {n}", x_groq={"usage": {"prompt_tokens": 1}}) for n in range(9)],
        [delta_with(f" {n}", novel=None if n % 2 else 1) for n in range(9)],
        [named_last(f" {n}", "" if n < 4 else "gpt4") for n in range(9)],
    ],
    ids=[
        "one",
        "two",
        "back",
        "object",
        "objects",
        "list",
        "speech",
        "beside",
        "usage",
        "null",
        "model",
    ],
)
def test_unknown_members_are_kept_as_if_each_event_came_alone(events: list[bytes]) -> None:
    def envelope(size: int) -> dict[str, object]:
        decoder = load_wire("openai_chat").StreamDecoder()
        for at in range(0, len(events), size):
            list(decoder.feed(b"".join(events[at : at + size])))
        return decoder.envelope

    same_however_it_is_cut("openai_chat", events)
    assert envelope(1) == envelope(2) == envelope(3) == envelope(5) == envelope(len(events))


def test_unchanged_members_change_nothing() -> None:
    def payload(word: str, **members: object) -> bytes:
        return choice_with(word, **members).removeprefix(b"data: ").strip()

    turn = StreamDecoder()
    assert turn._read_text_only(payload(" a", novel=SAFE)) is None
    turn._read(payload(" a", novel=SAFE), [])
    assert turn._read_text_only(payload(" b", novel=SAFE)) == TextOnlyEvent(TextDelta, 0, " b")
    assert turn._read_text_only(payload(" b", novel=RISKY)) is None
    turn._read(payload(" c", novel=RISKY), [])
    assert turn._read_text_only(payload(" b", novel=SAFE)) is None


# -- the reader ------------------------------------------------------------------------------


def read_text_only(payload: bytes) -> TextOnlyEvent | None:
    members = json.loads(payload)
    return TextOnlyEvent(TextDelta, 0, members["text"]) if set(members) <= {"id", "text"} else None


def read(reader: RepeatedEventReader, *payloads: bytes) -> list[str]:
    """Return the texts that were read; the other bytes remain."""
    events: list[WireEvent] = []
    block = b"".join(b"data: %b\n\n" % payload for payload in payloads)
    rest = reader.read(block, events)
    assert rest == b"".join(b"data: %b\n\n" % payload for payload in payloads[len(events) :])
    return [event.text for event in events if isinstance(event, TextDelta)]


def test_events_like_the_last_one_are_not_read_in_full_again() -> None:
    asked: list[bytes] = []

    def count_and_read(payload: bytes) -> TextOnlyEvent | None:
        asked.append(payload)
        return read_text_only(payload)

    reader = RepeatedEventReader(count_and_read)
    reader.remember(b'data: {"id":1,"text":"a"}', b'{"id":1,"text":"a"}')
    assert read(reader, b'{"id":1,"text":"b"}', b'{"id":1,"text":"c"}') == ["b", "c"]
    learned = len(asked)
    assert read(reader, *[b'{"id":1,"text":"d"}'] * 50) == ["d"] * 50
    assert len(asked) == learned
    assert read(reader, b'{"id":2,"text":"b"}', b'{"id":1,"text":"c"}') == []


@pytest.mark.parametrize(
    "framing",
    [
        b'{"id":1,"text":"%b"}',
        b'{"id":1,"delta":{"text":"%b"}  }',
        b'{"id":1,"delta":{"text":"%b"},"padding":"abc"}',
    ],
)
@pytest.mark.parametrize("odd", [b"{}", b'{"id":2,"text":"x"}', b'{"id":2,"delta":{"text":"x"}}'])
@pytest.mark.parametrize("place", range(6))
def test_events_before_a_different_one_are_read_and_the_rest_is_left(
    framing: bytes, odd: bytes, place: int
) -> None:
    def read_either(payload: bytes) -> TextOnlyEvent | None:
        members = json.loads(payload)
        return read_text_only(json.dumps(members.get("delta", members)).encode())

    reader = RepeatedEventReader(read_either)
    reader.remember(b"data: " + framing % b"a", framing % b"a")
    payloads = [framing % word for word in (b"b", b"c", b"d", b"e", b"f")]
    payloads[place:place] = [odd]
    assert read(reader, *payloads) == ["b", "c", "d", "e", "f"][:place]


def test_a_text_that_occurs_twice_is_found_at_its_position() -> None:
    reader = RepeatedEventReader(read_text_only)
    reader.remember(b'data: {"id":"text","text":"text"}', b'{"id":"text","text":"text"}')
    assert read(reader, b'{"id":"text","text":"b"}', b'{"id":"text","text":"c"}') == ["b", "c"]
    assert read(reader, b'{"id":"b","text":"text"}', b'{"id":"b","text":"text"}') == []


def test_a_server_that_never_repeats_disables_the_fast_path() -> None:
    asked: list[bytes] = []

    def count_and_read(payload: bytes) -> TextOnlyEvent | None:
        asked.append(payload)
        return None

    reader = RepeatedEventReader(count_and_read)
    for _ in range(100):
        reader.remember(b"data: {}", b"{}")
        assert read(reader, b"{}", b"{}") == []
    assert len(asked) < 10


# -- events that only look repeated ----------------------------------------------------------


def pieces_of(events: list[bytes], *sizes: int) -> list[bytes]:
    """Join as many events into each piece as `sizes` gives, and the others into the last."""
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    places = zip([0, *ends], [*ends, len(events)], strict=True)
    return [b"".join(events[start:end]) for start, end in places]


def without_end(text: str) -> bytes:
    return in_openai_chat(text).removesuffix(b"\n\n")


LOOKALIKES = {
    "two payloads in one event": [
        without_end("the same") + b"\n" + in_openai_chat(f" {n}") for n in range(9)
    ],
    "comments that quote an event": [
        in_openai_chat(" 0"),
        *[b": " + in_openai_chat(f" {n}").removeprefix(b"data: ") for n in [0, *range(8)]],
    ],
    "blanks after the object, then a brace": [
        *[without_end(f" {n}") + b" \n\n" for n in range(3)],
        *[without_end(f" {n}") + b"}\n\n" for n in range(6)],
    ],
    "members with a reserved name": [
        in_openai_chat("", delta={"content": f" {n}", "$rest": {"novel": [1]}}) for n in range(9)
    ],
    "members of a call with a reserved name": [
        in_openai_chat(
            "",
            delta={
                "tool_calls": [
                    {"index": 0, "$rest": {"novel": 1}, "function": {"arguments": f"{n}"}}
                ]
            },
        )
        for n in range(9)
    ],
    "duplicate members": [
        in_openai_chat(f" {n}").replace(b'"content":', b'"content":"text","content":')
        for n in range(9)
    ],
    "reasoning under two names": [
        in_openai_chat("", delta={"reasoning": "a", "reasoning_content": word})
        for word in ["a", "a", "a", "b", "", "c", "a", "", "a"]
    ],
    "several choices": [
        in_openai_chat(
            "",
            choices=[{"index": n, "delta": {"content": f"{number}"}} for n in range(2)],
        )
        for number in range(9)
    ],
    "a text that is a member's name": [in_openai_chat("content") for _ in range(9)],
    "a text that is punctuation": [in_openai_chat(word) for word in '",:,":,,:"'],
}


@pytest.mark.parametrize("events", list(LOOKALIKES.values()), ids=list(LOOKALIKES))
def test_events_that_only_look_repeated_are_read_in_full(events: list[bytes]) -> None:
    events = [in_openai_chat("first"), *events]
    one_by_one = decode_with_envelope("openai_chat", events)
    assert decode_with_envelope("openai_chat", pieces_of(events, 1, 2)) == one_by_one
    assert decode_with_envelope("openai_chat", pieces_of(events, 3)) == one_by_one
    assert decode_with_envelope("openai_chat", pieces_of(events, 4)) == one_by_one


def decode_with_envelope(
    wire: str, pieces: Iterable[bytes]
) -> tuple[list[WireEvent], str, dict[str, object]]:
    """Return the events, the error after them, and the envelope."""
    decoder = load_wire(wire).StreamDecoder()
    events: list[WireEvent] = []
    error = ""
    try:
        for piece in pieces:
            events += decoder.feed(piece)
        events += decoder.close()
    except StenoError as exc:
        error = f"{type(exc).__name__}: {exc}"
    return events, error, decoder.envelope


def block_start(**block: object) -> bytes:
    return in_event({"type": "content_block_start", "index": 0, "content_block": block})


def block_delta(kind: str, name: str, text: str) -> bytes:
    return in_anthropic_messages("", delta={"type": kind, name: text})


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "id": "b", "name": "read", "input": {"x": 1}},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
    ],
    ids=["a call that began with input", "a block that is kept unchanged"],
)
def test_the_same_event_means_something_else_in_another_block(block: dict[str, object]) -> None:
    more = [block_delta("input_json_delta", "partial_json", text) for text in '{"y":2}']
    first = block_start(type="tool_use", id="a", name="read", input={})
    stop = in_event({"type": "content_block_stop", "index": 0})
    events = [first, *more, stop, block_start(**block), *more, stop]
    pieces = pieces_of(events, 1, 3, 4, 1, 1, len(more))
    assert decode_with_envelope("anthropic_messages", pieces) == decode_with_envelope(
        "anthropic_messages", events
    )


def test_text_of_an_unknown_block_is_not_text() -> None:
    words = [in_anthropic_messages(f" {n}") for n in range(6)]
    events = [*words, block_start(type="novel"), *words]
    pieces = pieces_of(events, 3, 3, 1)
    assert decode_with_envelope("anthropic_messages", pieces) == decode_with_envelope(
        "anthropic_messages", events
    )


# -- cost ------------------------------------------------------------------------------------


def test_the_search_for_a_frequent_text_is_bounded() -> None:
    asked: list[bytes] = []

    def count_and_read(payload: bytes) -> TextOnlyEvent | None:
        asked.append(payload)
        return read_text_only(payload)

    payload = b"{" + b'"id":"a",' * 2_000 + b'"text":"a"}'
    reader = RepeatedEventReader(count_and_read)
    reader.remember(b"data: " + payload, payload)
    read(reader, payload, payload)
    assert len(asked) < 100


@pytest.mark.parametrize(
    "big",
    [
        in_openai_chat("\n" * 200_000),
        in_openai_chat(" word", id="." * 400_000),
        in_openai_chat(" word", system_fingerprint="." * 400_000),
    ],
    ids=["escapes", "a long head", "a long tail"],
)
def test_memory_stays_in_proportion_to_the_event(big: bytes) -> None:
    decoder = load_wire("openai_chat").StreamDecoder()
    list(decoder.feed(in_openai_chat("a") + in_openai_chat("b")))
    tracemalloc.start()
    try:
        for piece in (big, big + big, big + big):
            list(decoder.feed(piece))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(big)


def test_one_long_event_does_not_disable_the_fast_path() -> None:
    reader = RepeatedEventReader(read_text_only)
    long = b'{"id":1,"text":"%b"}' % (b"a" * 2_000)
    reader.remember(b"data: " + long, long)
    assert read(reader, long, long) is not None
    reader.remember(b'data: {"id":1,"text":"a"}', b'{"id":1,"text":"a"}')
    assert reader.min_bytes < 1_000


# -- members of every event ------------------------------------------------------------------


def chunk_with(word: str, **choice: object) -> bytes:
    usual = {"index": 0, "delta": {"content": word}, "logprobs": None, "finish_reason": None}
    members = {"id": "1", "provider": "Somebody", "p": "abc", "choices": [usual | choice]}
    return in_event(members)


@pytest.mark.parametrize("name", ["token_ids", "native_finish_reason"])
def test_a_member_that_is_null_with_every_word_is_kept_once_it_is_not(name: str) -> None:
    decoder = load_wire("openai_chat").StreamDecoder()
    events = [
        event for n in range(9) for event in decoder.feed(chunk_with(f" {n}", **{name: None}))
    ]
    assert len(events) == 9
    assert decoder.envelope == {"id": "1", "provider": "Somebody", "p": "abc"}
    assert len(list(decoder.feed(chunk_with(" 9", **{name: ["x"]}) + chunk_with(" 10")))) == 2
    assert decoder.envelope[name] == ["x"]
