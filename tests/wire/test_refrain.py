"""Events that repeat one another are read many at once, and to the same end as one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steno import Event, StenoError, TextDelta, ThinkingDelta, ToolCallDelta
from steno.wire import load_wire
from steno.wire.refrain import Refrain, Told

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


def heard(wire: str, pieces: Iterable[bytes]) -> tuple[list[Event], str]:
    """Return the events, and what went wrong behind them."""
    decoder = load_wire(wire).StreamDecoder()
    events: list[Event] = []
    try:
        for piece in pieces:
            events += decoder.feed(piece)
        events += decoder.close()
    except StenoError as exc:
        return events, f"{type(exc).__name__}: {exc}"
    return events, ""


def same_however_it_is_cut(wire: str, events: list[bytes]) -> list[Event]:
    one_by_one = heard(wire, events)
    two_by_two = heard(wire, [b"".join(events[at : at + 2]) for at in range(0, len(events), 2)])
    at_once = heard(wire, [events[0], b"".join(events[1:3]), b"".join(events[3:])])
    assert at_once == two_by_two == one_by_one
    return at_once[0]


# -- what is said ----------------------------------------------------------------------------

WORDS = [" plain", ' "', "\\", "\n", "\0", '{"a": 1}', "é 漢 🙂", "\u2028", "An0ther", ":", "m", ""]


@each_wire
@given(words=st.lists(st.sampled_from(WORDS) | st.text(st.characters(exclude_categories=["Cs"]))))
@example(words=WORDS)
def test_every_word_arrives_as_it_was_said(wire: str, words: list[str]) -> None:
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
    assert [event.arguments_delta for event in found if isinstance(event, ToolCallDelta)] == [
        f'"{n}"' for n in range(9)
    ]


# -- what is new -----------------------------------------------------------------------------

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
    "half a character": in_openai_chat("NEW", padding="x").replace(b"NEW", b"\\ud83d"),
    "an escape that is none": in_openai_chat("NEW", padding="x").replace(b"NEW", b"\\q"),
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
def test_an_event_that_differs_in_anything_else_is_read_in_full(odd: bytes, place: int) -> None:
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


# -- the refrain itself ----------------------------------------------------------------------


def tell(payload: bytes) -> Told | None:
    members = json.loads(payload)
    return Told(TextDelta, 0, members["text"]) if set(members) <= {"id", "text"} else None


def read(refrain: Refrain, *payloads: bytes) -> list[str] | None:
    events: list[Event] = []
    block = b"".join(b"data: %b\n\n" % payload for payload in payloads)
    if not refrain.read(block, events):
        assert events == []
        return None
    return [event.text for event in events if isinstance(event, TextDelta)]


def test_events_like_the_last_one_are_not_read_in_full_again() -> None:
    asked: list[bytes] = []

    def listen(payload: bytes) -> Told | None:
        asked.append(payload)
        return tell(payload)

    refrain = Refrain(listen)
    refrain.note(b'data: {"id":1,"text":"a"}', b'{"id":1,"text":"a"}')
    assert read(refrain, b'{"id":1,"text":"b"}', b'{"id":1,"text":"c"}') == ["b", "c"]
    learned = len(asked)
    assert read(refrain, *[b'{"id":1,"text":"d"}'] * 50) == ["d"] * 50
    assert len(asked) == learned
    assert read(refrain, b'{"id":1,"text":"b"}', b'{"id":2,"text":"c"}') is None


def test_a_text_that_stands_elsewhere_as_well_is_found_where_it_belongs() -> None:
    refrain = Refrain(tell)
    refrain.note(b'data: {"id":"text","text":"text"}', b'{"id":"text","text":"text"}')
    assert read(refrain, b'{"id":"text","text":"b"}', b'{"id":"text","text":"c"}') == ["b", "c"]
    assert read(refrain, b'{"id":"b","text":"text"}', b'{"id":"b","text":"text"}') is None


def test_who_never_repeats_himself_is_not_asked_forever() -> None:
    asked: list[bytes] = []

    def listen(payload: bytes) -> Told | None:
        asked.append(payload)
        return None

    refrain = Refrain(listen)
    for _ in range(100):
        refrain.note(b"data: {}", b"{}")
        assert read(refrain, b"{}", b"{}") is None
    assert len(asked) < 10
