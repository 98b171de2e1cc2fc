"""Recorded requests with a byte order mark, in another encoding, or as Python values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steno import InvalidRequest
from steno.wire import WIRES, Wire, load_wire


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return load_wire(request.param)


def body_of(wire: Wire, text: str = "Hi", **members: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "user", "content": text}
    if wire.NAME == "gemini":
        return {"contents": [{"role": "user", "parts": [{"text": text}]}], **members}
    return {"input" if wire.NAME == "openai_responses" else "messages": [message], **members}


def refusal(wire: Wire, data: Any) -> tuple[str, str]:
    """Return code and place of the error that a request raises."""
    with pytest.raises(InvalidRequest) as caught:
        wire.decode_request(data)
    return caught.value.code, caught.value.place


def test_a_byte_order_mark_is_ignored(wire: Wire) -> None:
    text = json.dumps(body_of(wire))
    plain = wire.decode_request(text)
    assert wire.decode_request("\ufeff" + text) == plain
    assert wire.decode_request(text.encode("utf-8-sig")) == plain


def test_a_list_of_chat_messages_may_have_a_byte_order_mark() -> None:
    data = json.dumps([{"role": "user", "content": "Hi"}]).encode("utf-8-sig")
    assert load_wire("chat").decode_request(data).messages[0].text == "Hi"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_another_encoding_is_named(wire: Wire, encoding: str) -> None:
    data = json.dumps(body_of(wire)).encode(encoding)
    assert refusal(wire, data) == ("utf16_document", "request")


def test_an_unknown_encoding_is_reported(wire: Wire) -> None:
    data = json.dumps(body_of(wire, "Grüße"), ensure_ascii=False).encode("latin-1")
    assert refusal(wire, data) == ("not_utf8", "request")


@pytest.mark.parametrize(
    ("text", "members"), [("\ud83d", {}), ("\ud83d!", {}), ("Hi", {"user": "\ude00"})]
)
def test_a_lone_surrogate_is_reported(wire: Wire, text: str, members: dict[str, Any]) -> None:
    body = body_of(wire, text, **members)
    for data in (json.dumps(body), json.dumps(body).encode(), json.dumps(body, ensure_ascii=False)):
        assert refusal(wire, data) == ("lone_surrogate", "request")


def test_truncated_or_empty_input_is_reported_as_such(wire: Wire) -> None:
    text = json.dumps(body_of(wire, "\ud83d"))
    assert refusal(wire, text[:-2]) == ("not_json", "request")
    assert refusal(wire, b" \n") == ("empty_document", "request")


@pytest.mark.parametrize("given", [{}, [], None, 7])
def test_python_values_are_refused(wire: Wire, given: Any) -> None:
    assert refusal(wire, given) == ("not_json_text", "request")
