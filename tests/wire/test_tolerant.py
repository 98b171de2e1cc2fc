"""An unknown member is kept under its own name, whatever the name and wherever it occurs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Raw, field
from msgspec.structs import replace

from steno import AssistantMessage, ChatMessage, ProtocolError, Request, StopReason, Usage
from steno.codec import encode_message
from steno.testing.case_results import expect_json
from steno.testing.conformance import (
    SERVERS,
    NotExpressible,
    ScriptedServer,
    ScriptLine,
    TextPiece,
    ThinkingPiece,
    TurnEnd,
    WholeCall,
    encode_json,
)
from steno.testing.conformance.scripted_server import decode_pieces
from steno.values import FORM_KEY
from steno.wire.extras import get_form
from steno.wire.tolerant import (
    TolerantStruct,
    build_reader,
    build_slow_reader,
    read_as,
    to_builtins,
)

NOVEL = "novel"
"""A member name that no protocol uses."""
NAMES = ["$rest", "rest"]
VALUES: list[Any] = [{"x": [1]}, {}, None, [], 1, "words"]

each_name = pytest.mark.parametrize("name", NAMES)
each_value = pytest.mark.parametrize("value", VALUES, ids=json.dumps)
each_wire = pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.wire.NAME)


# -- readers of all wires --------------------------------------------------------------------


class Leaf(TolerantStruct):
    text: str | None = None


class Branch(TolerantStruct, rename="camel"):
    leaf: Leaf | None = None
    all_leaves: list[Leaf] | None = None


class Root(TolerantStruct):
    id: str
    branch: Branch | None = None
    branches: list[Branch] = field(default_factory=list)


WHOLE: dict[str, Any] = {
    "id": "1",
    "branch": {"leaf": {"text": "a"}, "allLeaves": [{"text": "b"}, {"text": "c"}]},
    "branches": [{"leaf": {}}, {"allLeaves": [{}]}],
}
read_root = build_reader(Root, "root")
read_root_slowly = build_slow_reader(Root, "root")


@each_name
@each_value
def test_a_member_named_rest_is_kept_at_every_level(name: str, value: Any) -> None:
    for changed in with_a_member(WHOLE, name, value):
        assert to_builtins(read_root(json.dumps(changed).encode())) == changed


@each_value
def test_a_member_named_rest_is_the_only_one_in_rest(value: Any) -> None:
    text = json.dumps(value).encode()
    for written in (b"rest", b"$rest", rb"\u0072est", rb"\u0024rest"):
        leaf = build_reader(Leaf, "leaf")(b'{"text":"a","%b":%b}' % (written, text))
        assert leaf == Leaf(text="a", rest={json.loads(b'"%b"' % written): Raw(text)})


def test_a_member_named_rest_keeps_its_position_among_others() -> None:
    leaf = build_reader(Leaf, "leaf")(b'{"b":1,"rest":{"a":2},"text":3,"$rest":null}')
    assert leaf.text is None
    assert to_builtins(leaf) == {"b": 1, "rest": {"a": 2}, "text": 3, "$rest": None}
    assert list(leaf.rest or {}) == ["b", "rest", "text", "$rest"]


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(WHOLE).encode(),
        b'{"id":"1","branch":null,"new":{"deep":[1, 2]}}',
        b'{"id":"1","branches":null}',
        b'{"id":"1","branches":[null]}',
        b'{"id":"1","branch":[{"leaf":1}],"branches":{}}',
        b'{"id":"1","branches":[{"leaf":{"text":1,"new":2}},{"allLeaves":[1]}]}',
        b'{"id":1}',
        b'{"id":null}',
        b"{}",
        b"[]",
        b"null",
        b'{"id":"1"',
        b'{"id":"\xff"}',
        b'{"id":"1","new":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=lambda data: data[:60].decode(errors="replace"),
)
def test_the_slow_reader_gives_the_same_result(data: bytes) -> None:
    assert outcome(read_root_slowly, data) == outcome(read_root, data)


def outcome(read: Any, data: bytes) -> object:
    try:
        return read(data)
    except ProtocolError as exc:
        return exc.code, exc.place, exc.message


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"id":1,"rest":0}', "unexpected_type"),
        (b'{"rest":{"id":"1"}}', "missing_member"),
        (b'{"id":"1","rest":}', "not_json"),
        (b"[1]", "unexpected_type"),
        (b'{"id":"\xff"}', "not_utf8"),
        (b'{"id":"1","new":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested_too_deeply"),
    ],
    ids=["type", "missing", "not_json", "list", "not_utf8", "deep"],
)
def test_unreadable_data_is_refused_with_a_reason(data: bytes, code: str) -> None:
    for read in (read_root, read_root_slowly):
        with pytest.raises(ProtocolError) as caught:
            read(data)
        assert (caught.value.code, caught.value.place) == (code, "root")


def test_a_value_is_read_as_the_requested_type_each_time() -> None:
    for _ in range(2):
        assert read_as(Raw(b"[1]"), list[int]) == [1]
        assert read_as(Raw(b"[1]"), list[str]) is None
        assert read_as(Raw(b"1"), bool) is None
        assert read_as(Raw(b"1"), int) == 1
        assert read_as(None, int) is None


# -- every wire ------------------------------------------------------------------------------

USAGE = Usage(input_tokens=200, output_tokens=60, cache_read_tokens=10, thinking_tokens=5)
LINES: list[ScriptLine] = [
    ThinkingPiece("hm"),
    TextPiece("one"),
    TextPiece(" two"),
    WholeCall("call_1", "search", '{"q":"x"}'),
    TurnEnd(StopReason.TOOL_USE, USAGE),
]
KEEPERS = {"chat", "gemini", "ollama_chat", "openai_chat"}
"""Wires whose message and envelope contain all data of a response; others receive data twice."""
ASKED = ChatMessage.user("Well?")


@each_wire
@each_name
@each_value
def test_a_stream_gives_the_same_for_a_member_of_any_name(
    server: ScriptedServer, name: str, value: Any
) -> None:
    frames = server.frames(script(server))
    for number, frame in enumerate(frames):
        for changed, usual in changed_frames(frame, name, value):
            found = streamed(server, [*frames[:number], changed, *frames[number + 1 :]])
            wanted = streamed(server, [*frames[:number], usual, *frames[number + 1 :]])
            assert found == renamed(wanted, name)
            assert NOVEL in wanted or server.wire.NAME not in KEEPERS


@each_wire
@each_name
@each_value
def test_a_whole_answer_gives_the_same_for_a_member_of_any_name(
    server: ScriptedServer, name: str, value: Any
) -> None:
    answer = server.response(script(server))
    for changed, usual in changed_frames(answer, name, value):
        found = stored_and_sent(server, server.wire.decode_response(changed))
        wanted = stored_and_sent(server, server.wire.decode_response(usual))
        assert found == renamed(wanted, name)


@each_wire
@each_name
@each_value
def test_a_request_keeps_a_member_of_any_name(
    server: ScriptedServer, name: str, value: Any
) -> None:
    for body in server.requests:
        for changed in with_a_member(json.loads(body), name, value):
            request = server.wire.decode_request(encode_json(changed))
            expect_json(server.wire.encode_request(request).json, changed, name)


@each_wire
@pytest.mark.parametrize("value", [{"forged": 1}, "forged", None, [], {"name": "x", "legacy": 1}])
def test_only_steno_writes_notes_on_forms(server: ScriptedServer, value: Any) -> None:
    plain_message = server.wire.decode_response(server.response(script(server)))
    for changed, _ in changed_frames(server.response(script(server)), FORM_KEY, value):
        try:
            message = server.wire.decode_response(changed)
        except ProtocolError:
            continue
        assert notes_of(message, server.wire.NAME) == notes_of(plain_message, server.wire.NAME)
        stored_and_sent(server, message)  # the message can be sent


def notes_of(message: AssistantMessage, wire: str) -> list[dict[str, Any]]:
    return [get_form(value, wire) for value in (message, *message.content)]


@each_wire
@pytest.mark.parametrize("note", ["forged", None, [], 1])
def test_an_invalid_note_is_ignored(server: ScriptedServer, note: Any) -> None:
    extras = {server.wire.NAME: {FORM_KEY: note}}
    question = replace(ASKED, extras=extras)
    asked = Request(model="m", messages=(question,), extras=extras)
    usual = Request(model="m", messages=(ASKED,))
    assert server.wire.encode_request(asked).json == server.wire.encode_request(usual).json


def script(server: ScriptedServer) -> list[ScriptLine]:
    """Return a response with all content that the protocol can express."""
    said: list[ScriptLine] = []
    for line in LINES:
        try:
            server.frames([*said, line])
            server.response([*said, line])
        except NotExpressible:
            continue
        said.append(line)
    return said


def with_a_member(value: Any, name: str, news: Any) -> Iterator[Any]:
    """Yield copies of the value, each with one more member in one of its objects."""
    if isinstance(value, dict):
        yield {**value, name: news}
        yield {name: news, **value}
    elif not isinstance(value, list):
        return
    for place, part in value.items() if isinstance(value, dict) else enumerate(value):
        for changed in with_a_member(part, name, news):
            copy = value.copy()
            copy[place] = changed
            yield copy


def changed_frames(frame: bytes, name: str, value: Any) -> Iterator[tuple[bytes, bytes]]:
    """Yield a frame with a member of that name, and one with a name that no protocol uses."""
    start, end = frame.find(b"{"), frame.rfind(b"}") + 1
    payload = json.loads(frame[start:end]) if start >= 0 else None
    pairs = zip(
        with_a_member(payload, name, value), with_a_member(payload, NOVEL, value), strict=True
    )
    for ours, usual in pairs:
        yield (
            frame[:start] + encode_json(ours) + frame[end:],
            frame[:start] + encode_json(usual) + frame[end:],
        )


def streamed(server: ScriptedServer, frames: list[bytes]) -> str:
    decoded = decode_pieces(server.wire, frames)
    kinds = [type(event).__name__ for event in decoded.events]
    return (
        f"{kinds} {decoded.error_key} {decoded.envelope} {stored_and_sent(server, decoded.message)}"
    )


def stored_and_sent(server: ScriptedServer, message: AssistantMessage) -> str:
    """Return a message as it is stored, and as it is sent back."""
    again = server.wire.encode_request(Request(model="m", messages=(ASKED, message)))
    return f"{encode_message(message).decode()} {again.body.decode()}"


def renamed(text: str, name: str) -> str:
    return text.replace(NOVEL, name)
