"""An empty text of a prompt is kept for its own wire, and reported by the others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steno import Opaque, SystemMessage, Text, ToolResultMessage, UserMessage
from steno.wire import (
    ChangeCode,
    Wire,
    anthropic_messages,
    chat,
    gemini,
    ollama_chat,
    openai_chat,
    openai_responses,
    translate,
)

TEXT: dict[Wire, dict[str, Any]] = {
    anthropic_messages: {"type": "text", "text": ""},
    chat: {"type": "text", "text": ""},
    gemini: {"text": ""},
    openai_chat: {"type": "text", "text": ""},
    openai_responses: {"type": "input_text", "text": ""},
}
every_wire = pytest.mark.parametrize("wire", TEXT, ids=lambda wire: wire.NAME)


def prompt(wire: Wire, *texts: str) -> Any:
    """Return a request with a system and a user message of these texts."""
    parts = [TEXT[wire] | {"text": text} for text in texts]
    if wire is gemini:
        user = {"role": "user", "parts": parts}
        return {"contents": [user], "systemInstruction": {"parts": parts}}
    user = {"role": "user", "content": parts}
    if wire is anthropic_messages:
        return {"model": "m", "max_tokens": 9, "messages": [user], "system": parts}
    messages = [{"role": "system", "content": parts}, user]
    return {"model": "m", "input" if wire is openai_responses else "messages": messages}


@pytest.mark.requirement("S2-34", "P-16")
@every_wire
@pytest.mark.parametrize("texts", [("", "Hi"), ("Hi", ""), ("Hi", "", "", "you")])
def test_an_empty_text_of_a_foreign_prompt_is_kept(wire: Wire, texts: tuple[str, ...]) -> None:
    recorded = prompt(wire, *texts)
    request = wire.decode_request(msgspec.json.encode(recorded))
    kinds = [Text if text else Opaque for text in texts]
    system, user = request.messages
    assert (type(system), type(user)) == (SystemMessage, UserMessage)
    assert [type(block) for block in system.content] == kinds
    assert [type(block) for block in user.content] == kinds
    encoded = wire.encode_request(request)
    assert (encoded.json, encoded.losses) == (recorded, ())


@every_wire
def test_a_prompt_of_empty_texts_alone_is_kept(wire: Wire) -> None:
    recorded = prompt(wire, "", "")
    request = wire.decode_request(msgspec.json.encode(recorded))
    assert wire.encode_request(request).json == recorded


@pytest.mark.requirement("S2-34", "P-16")
@every_wire
def test_another_wire_leaves_an_empty_text_out_and_reports_it(wire: Wire) -> None:
    encoded = translate(
        msgspec.json.encode(prompt(wire, "Hi", "", "you")), source=wire, target=ollama_chat
    )
    texts = [message["content"] for message in encoded.json["messages"]]
    assert texts == ["Hi\n\nyou", "Hi\n\nyou"]
    losses = [
        (loss.code, loss.reason, loss.place)
        for loss in encoded.losses
        if loss.code is not ChangeCode.ORDER
    ]
    assert losses == [
        (ChangeCode.BLANK, "empty_text", "messages[0].content[1]"),
        (ChangeCode.BLANK, "empty_text", "messages[1].content[1]"),
    ]


@every_wire
def test_a_text_that_cannot_be_read_is_not_an_empty_text(wire: Wire) -> None:
    body = msgspec.json.encode(prompt(wire, "Hi")).replace(b'"Hi"', b"7")
    blocks = [block for message in wire.decode_request(body).messages for block in message.content]
    assert not any(isinstance(block, Opaque) and block.is_empty_text for block in blocks)


@pytest.mark.parametrize("wire", [openai_chat, openai_responses, anthropic_messages])
def test_a_foreign_block_of_the_type_empty_text_is_not_an_empty_text(wire: Wire) -> None:
    recorded = prompt(wire, "Hi")
    [*_, user] = recorded["input" if wire is openai_responses else "messages"]
    user["content"] = [{"type": "empty_text", "text": "Stop."}]
    [block] = wire.decode_request(msgspec.json.encode(recorded)).messages[-1].content
    assert isinstance(block, Opaque)
    assert not block.is_empty_text


def test_an_empty_text_of_a_result_stays_a_text() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "text", "text": ""}]
    result = {"role": "tool", "tool_call_id": "c1", "content": content}
    request = openai_chat.decode_request(msgspec.json.encode({"messages": [result]}))
    [message] = request.messages
    assert isinstance(message, ToolResultMessage)
    assert message.content == (Text("a"), Text(""))
