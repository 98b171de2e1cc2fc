"""Recordings as people have them: with a mark in front, in another encoding, as Python values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steno import InvalidRequest
from steno.wire import WIRES, Wire, load_wire

HALF = r"request: holds half of a surrogate pair; replace it, by \\ufffd for instance"


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return load_wire(request.param)


def body_of(wire: Wire, text: str = "Hi", **members: Any) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "user", "content": text}
    if wire.NAME == "gemini":
        return {"contents": [{"role": "user", "parts": [{"text": text}]}], **members}
    return {"input" if wire.NAME == "openai_responses" else "messages": [said], **members}


def test_a_byte_order_mark_is_no_matter(wire: Wire) -> None:
    text = json.dumps(body_of(wire))
    plain = wire.decode_request(text)
    assert wire.decode_request("\ufeff" + text) == plain
    assert wire.decode_request(text.encode("utf-8-sig")) == plain


def test_a_list_of_our_own_messages_may_have_a_mark_as_well() -> None:
    data = json.dumps([{"role": "user", "content": "Hi"}]).encode("utf-8-sig")
    assert load_wire("chat").decode_request(data).messages[0].text == "Hi"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_another_encoding_is_named(wire: Wire, encoding: str) -> None:
    data = json.dumps(body_of(wire)).encode(encoding)
    with pytest.raises(InvalidRequest, match="not UTF-8 but UTF-16 or UTF-32; save it as UTF-8"):
        wire.decode_request(data)


def test_an_unknown_encoding_is_called_so(wire: Wire) -> None:
    data = json.dumps(body_of(wire, "Grüße"), ensure_ascii=False).encode("latin-1")
    with pytest.raises(InvalidRequest, match=r"^request: .*(UTF-8|utf-8)"):
        wire.decode_request(data)


@pytest.mark.parametrize(
    ("text", "members"), [("\ud83d", {}), ("\ud83d!", {}), ("Hi", {"user": "\ude00"})]
)
def test_half_a_pair_is_called_what_it_is(wire: Wire, text: str, members: dict[str, Any]) -> None:
    body = body_of(wire, text, **members)
    with pytest.raises(InvalidRequest, match=HALF):
        wire.decode_request(json.dumps(body))
    with pytest.raises(InvalidRequest, match=HALF):
        wire.decode_request(json.dumps(body).encode())
    with pytest.raises(InvalidRequest, match=HALF):
        wire.decode_request(json.dumps(body, ensure_ascii=False))


def test_what_is_truncated_or_empty_is_called_so(wire: Wire) -> None:
    text = json.dumps(body_of(wire, "\ud83d"))
    with pytest.raises(InvalidRequest, match=r"truncated|unexpected end"):
        wire.decode_request(text[:-2])
    with pytest.raises(InvalidRequest, match="request: not JSON: there is nothing in it"):
        wire.decode_request(b" \n")


@pytest.mark.parametrize("given", [{}, [], None, 7])
def test_python_values_are_refused_with_what_to_do(wire: Wire, given: Any) -> None:
    kind = type(given).__name__
    with pytest.raises(InvalidRequest) as refusal:
        wire.decode_request(given)
    expected = f"request: takes JSON as text or bytes, not {kind}; pass json.dumps(...) of it"
    assert str(refusal.value) == expected
