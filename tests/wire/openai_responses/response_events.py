"""Events and items of the Responses API, as servers send them."""

from __future__ import annotations

from typing import Any

import msgspec

from steno.wire import openai_responses
from tests.wire.decode_helpers import assemble_message, decode_events, sse

NAME = "openai_responses"


def created(**members: Any) -> dict[str, Any]:
    return event("created", response={"id": "resp_1", "model": "m-1-2026", "output": []} | members)


def event(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}"} | members


def end(status: str = "completed", *output: dict[str, Any], **members: Any) -> dict[str, Any]:
    response = {"id": "resp_1", "model": "m-1-2026", "status": status, "output": list(output)}
    return event(status, response=response | members)


def text_part(text: str = "", **members: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []} | members


def message(*parts: dict[str, Any], id: str = "msg_1", **members: Any) -> dict[str, Any]:
    item = {"type": "message", "id": id, "role": "assistant", "status": "completed"}
    return item | {"content": list(parts)} | members


def call(arguments_delta: str = "", **members: Any) -> dict[str, Any]:
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read"}
    return item | {"arguments": arguments_delta, "status": "completed"} | members


def reasoning(*summary: str, **members: Any) -> dict[str, Any]:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": parts} | members


def added(item: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return event("output_item.added", output_index=index, item=item)


def done(item: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return event("output_item.done", output_index=index, item=item)


def text_delta(text: str, index: int = 0, part: int = 0, id: str = "msg_1") -> dict[str, Any]:
    position = {"item_id": id, "output_index": index, "content_index": part}
    return event("output_text.delta", **position, delta=text, logprobs=[], obfuscation="xyz")


def arguments_delta(text: str, index: int = 0, id: str = "fc_1") -> dict[str, Any]:
    return event("function_call_arguments.delta", item_id=id, output_index=index, delta=text)


def summary_delta(text: str, index: int = 0, part: int = 0) -> dict[str, Any]:
    position = {"item_id": "rs_1", "output_index": index, "summary_index": part}
    return event("reasoning_summary_text.delta", **position, delta=text)


def decode(*payloads: Any, **settings: Any) -> Any:
    return assemble_message(decode_events(openai_responses, sse(*payloads), **settings))


def whole(*output: dict[str, Any], **members: Any) -> Any:
    answer = {"id": "resp_1", "model": "m-1-2026", "status": "completed", "output": list(output)}
    return openai_responses.decode_response(msgspec.json.encode(answer | members), model="m-1")


def extras_of(block: Any) -> Any:
    return block.extras[NAME].to_dict()


def refusal_delta(text: str) -> dict[str, Any]:
    return event("refusal.delta", item_id="msg_1", output_index=0, content_index=0, delta=text)
