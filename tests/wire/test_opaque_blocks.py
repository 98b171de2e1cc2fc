"""The JSON of an opaque block is written into a request only if it is one JSON value."""

from __future__ import annotations

import pytest

from steno import (
    AssistantMessage,
    Message,
    Opaque,
    Request,
    SystemMessage,
    Text,
    ToolResultMessage,
    UserMessage,
)
from steno.wire import WIRES, ChangeCode, load_wire

HELLO = Text("Hello")
NOT_JSON = ["", "not json", '{}],"model":"other","x":[{}', '{}]}],"model":"other","x":[{"y":[{}']


@pytest.mark.requirement("S2-34")
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("raw", NOT_JSON)
def test_a_block_that_is_not_json_is_left_out_and_reported(wire: str, raw: str) -> None:
    block = Opaque(kind="hologram", raw=raw, origin=wire)
    prompts: list[Message] = [
        SystemMessage((HELLO, block)),
        UserMessage((HELLO, block)),
        AssistantMessage(content=(HELLO, block)),
        ToolResultMessage(tool_call_id="c1", content=(HELLO, block)),
        UserMessage((block,)),
    ]
    for prompt in prompts:
        request = Request(messages=(UserMessage((HELLO,)), prompt), model="m", max_tokens=9)
        encoded = load_wire(wire).encode_request(request)
        assert encoded.json.get("model", "m") == "m"  # the request is valid JSON
        assert "x" not in encoded.json
        losses = [loss for loss in encoded.losses if loss.code is ChangeCode.OPAQUE]
        assert [(loss.reason, loss.kind) for loss in losses] == [("not_json", "hologram")]
