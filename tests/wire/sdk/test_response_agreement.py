"""steno decodes generated responses to the same content as the providers' own SDKs.

Responses are generated within the rules of a protocol and decoded twice: by steno, in any chunks,
and by the SDK of the provider, which gets the same bytes from a transport in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import httpx
import httpx2
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from steno import AssistantMessage, ChatMessage, Request, Thinking
from steno.messages.call import original_tool_name
from steno.wire import load_wire
from steno.wire.openai_responses.items import is_custom_call
from tests.wire.broken_bytes import cuts
from tests.wire.decode_helpers import assemble_message, decode_events, sse

URL = "http://localhost"
MODEL = "m-1"
Json = dict[str, Any]
ASKED: list[Any] = [{"role": "user", "content": "Well?"}]

few = settings(max_examples=40)  # an SDK is slow

# -- content of a response -------------------------------------------------------------------------


class Content(NamedTuple):
    """The content of a response, as steno or an SDK decodes it."""

    text: str
    thinking: str
    calls: list[tuple[str | None, str, Any]]
    """Id, name and arguments of each; the id is None if the protocol has none."""
    stop: str | None
    tokens: tuple[int | None, int | None]
    """Input and output tokens, as the provider counts them."""


def decode(wire: str, pieces: Iterable[bytes]) -> AssistantMessage:
    """Decode a response in chunks."""
    return assemble_message(decode_events(load_wire(wire), *pieces, model=MODEL))


def content_of(message: AssistantMessage) -> Content:
    """Return the content of a message."""
    usage = message.usage
    return Content(
        text=message.text or "",
        thinking="".join([b.text for b in message.content if isinstance(b, Thinking)]),
        calls=[
            (
                None if call.id == "made_up" else call.id,
                original_tool_name(call),
                json.loads(call.arguments),
            )
            for call in message.tool_calls
            if not is_custom_call(call)  # whose arguments need not be JSON
        ],
        stop=message.raw_stop_reason,
        tokens=(None, None) if usage is None else (usage.input_tokens, usage.output_tokens),
    )


def sent_back(wire: str, message: AssistantMessage) -> Json:
    """Return the body of the request that continues after a message."""
    said = (ChatMessage.user("Well?"), message, ChatMessage.user("And?"))
    return load_wire(wire).encode_request(Request(model=MODEL, messages=said)).json


def without_nulls(value: Any) -> Any:
    """Return the value without null members."""
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    return [without_nulls(element) for element in value] if isinstance(value, list) else value


# -- generated content -----------------------------------------------------------------------------

words = st.text(max_size=12)
some_words = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12)
"""Text that is not blank; blank blocks are not sent back."""
names = st.sampled_from(["read_file", "fs-read", "a"])
counts = st.integers(0, 10**6)
json_values: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=5,
)
inputs = st.dictionaries(words, json_values, max_size=3)


@st.composite
def parts_of(draw: DrawFn, text: str) -> list[str]:
    """Cut text into parts as a server does, some of them empty."""
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


# -- transports in memory --------------------------------------------------------------------------


class Answering:
    """Responds to every request with the same bytes."""

    body = b""

    def transport(self, library: Any) -> Any:
        headers = {"content-type": "text/event-stream"}
        return library.MockTransport(
            lambda _: library.Response(200, headers=headers, content=self.body)
        )


answering = Answering()


@cache
def client_of(sdk: str) -> Any:
    """Return the client of an SDK, which is slow to load."""
    library: Any = import_module(sdk)
    if sdk == "ollama":
        return library.Client(URL, transport=answering.transport(httpx))
    make = library.Anthropic if sdk == "anthropic" else library.OpenAI
    http = httpx2.Client(transport=answering.transport(httpx2))
    return make(api_key="k", base_url=URL, http_client=http, max_retries=0)


# -- Anthropic -------------------------------------------------------------------------------------


@st.composite
def anthropic_blocks(draw: DrawFn, id: str) -> list[Json]:
    """Generate a block: its start, and the deltas after it."""
    kind = draw(st.sampled_from(["text", "thinking", "redacted", "call", "server", "result"]))
    deltas: list[Json]
    match kind:
        case "text":
            parts = draw(some_words.flatmap(parts_of))
            deltas = [{"type": "text_delta", "text": part} for part in parts]
            page = {"type": "page_location", "cited_text": draw(words), "document_index": 0}
            page |= {"document_title": None, "start_page_number": 1, "end_page_number": 2}
            source = {"type": "citations_delta", "citation": page}
            deltas += [source] * draw(st.integers(0, 2))
            return [{"type": "text", "text": ""}, *deltas]
        case "thinking":
            parts = draw(words.flatmap(parts_of))
            deltas = [{"type": "thinking_delta", "thinking": part} for part in parts]
            signed = {"type": "signature_delta", "signature": draw(some_words)}
            return [{"type": "thinking", "thinking": "", "signature": ""}, *deltas, signed]
        case "redacted":
            return [{"type": "redacted_thinking", "data": draw(some_words)}]
        case "result":
            error = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
            return [{"type": "web_search_tool_result", "tool_use_id": id, "content": error}]
        case _:
            called = {"type": "tool_use", "name": draw(names), "caller": {"type": "direct"}}
            served = {"type": "server_tool_use", "name": "web_search"}
            parts = draw(parts_of(json.dumps(draw(inputs))))
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
            return [(called if kind == "call" else served) | {"id": id, "input": {}}, *deltas]


@st.composite
def anthropic_answers(draw: DrawFn) -> list[Json]:
    usage = {"input_tokens": draw(counts), "cache_read_input_tokens": draw(st.none() | counts)}
    message: Json = {"id": "msg_1", "type": "message", "role": "assistant"}
    message |= {"model": MODEL, "content": [], "usage": usage | {"output_tokens": 1}}
    events: list[Json] = [{"type": "message_start", "message": message}]
    for index in range(draw(st.integers(0, 4))):
        start, *deltas = draw(anthropic_blocks(f"toolu_{index}"))
        at = {"index": index}
        events.append({"type": "content_block_start", **at, "content_block": start})
        events += [{"type": "content_block_delta", **at, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", **at})
    reason = draw(st.sampled_from(["end_turn", "tool_use", "max_tokens", "pause_turn", "refusal"]))
    delta = {"stop_reason": reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}})
    return [*events, {"type": "message_stop"}]


@few
@given(anthropic_answers(), st.data())
def test_responses_agree_with_the_sdk_of_anthropic(events: list[Json], data: st.DataObject) -> None:
    named = [b"event: %b\n%b" % (event["type"].encode(), sse(event)) for event in events]
    answering.body = b"".join(named)
    asked = {"model": MODEL, "max_tokens": 9, "messages": ASKED}
    with client_of("anthropic").messages.stream(**asked) as stream:
        theirs = stream.get_final_message()
    content = [block.to_dict() for block in theirs.content]
    message = decode("anthropic_messages", data.draw(cuts(answering.body)))
    usage = theirs.usage
    assert content_of(message) == Content(
        text="".join([block["text"] for block in content if block["type"] == "text"]),
        thinking="".join([block.get("thinking", "") for block in content]),
        calls=[(b["id"], b["name"], b["input"]) for b in content if b["type"] == "tool_use"],
        stop=theirs.stop_reason,
        tokens=(usage.input_tokens + (usage.cache_read_input_tokens or 0), usage.output_tokens),
    )
    turns = [m["content"] for m in sent_back("anthropic_messages", message)["messages"][1:-1]]
    parts = [{"type": "text", "text": turn} if isinstance(turn, str) else turn for turn in turns]
    written = parts[0] if parts and isinstance(parts[0], list) else parts
    assert without_nulls(written) == without_nulls(content)


# -- OpenAI: chat ----------------------------------------------------------------------------------


@st.composite
def chat_answers(draw: DrawFn) -> list[Json]:
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": part} for part in draw(words.flatmap(parts_of))]
    if draw(st.booleans()):
        deltas += [{"refusal": part} for part in draw(some_words.flatmap(parts_of))]
    waiting: list[list[Json]] = []
    for index in range(draw(st.integers(0, 3))):
        head = {"index": index, "id": f"call_{index}", "type": "function"}
        deltas.append({"tool_calls": [head | {"function": {"name": draw(names), "arguments": ""}}]})
        parts = draw(parts_of(json.dumps(draw(inputs))))
        waiting.append([{"index": index, "function": {"arguments": part}} for part in parts])
    while any(waiting):  # fragments of calls alternate, several of them in a chunk
        growing = [fragments for fragments in waiting if fragments]
        chosen = draw(st.lists(st.sampled_from(growing), min_size=1, max_size=3))
        deltas.append({"tool_calls": [fragments.pop(0) for fragments in chosen if fragments]})
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    chunks = [head | {"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    reason = draw(st.sampled_from(["stop", "length", "tool_calls", "content_filter"]))
    chunks.append(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    read, written = draw(counts), draw(counts)
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return [*chunks, head | {"choices": [], "usage": usage}]


@few
@given(chat_answers(), st.data())
def test_chat_completions_agree_with_the_sdk_of_openai(
    chunks: list[Json], data: st.DataObject
) -> None:
    answering.body = sse(*chunks, done=True)
    with client_of("openai").chat.completions.stream(model=MODEL, messages=ASKED) as stream:
        theirs = stream.until_done().current_completion_snapshot
    said, usage = theirs.choices[0].message, theirs.usage
    calls = [(call.id, call.function) for call in said.tool_calls or ()]
    message = decode("openai_chat", data.draw(cuts(answering.body)))
    assert content_of(message) == Content(
        text=said.content or "",
        thinking="",
        calls=[(id, call.name, json.loads(call.arguments)) for id, call in calls],
        stop=theirs.choices[0].finish_reason,
        tokens=(usage.prompt_tokens, usage.completion_tokens),
    )
    assert sent_back("openai_chat", message)["messages"][1].get("refusal") == said.refusal


# -- OpenAI: responses -----------------------------------------------------------------------------

GROWN = {
    "message": "content",
    "reasoning": "summary",
    "function_call": "arguments",
    "custom_tool_call": "input",
}
"""The member of each kind of item that is empty at its start."""


@st.composite
def items(draw: DrawFn, number: int) -> tuple[Json, list[Json]]:
    """A complete item, and its deltas."""
    kind = draw(st.sampled_from(sorted(GROWN)))
    head: Json = {"type": kind, "id": f"item_{number}"}
    at = {"item_id": head["id"], "output_index": number}
    deltas: list[Json] = []

    def grow(event: str, text: str, **place: int) -> None:
        deltas.extend(
            {"type": f"response.{event}.delta", **at, **place, "delta": part}
            for part in draw(parts_of(text))
        )

    match kind:
        case "message":
            phase = draw(st.none() | st.sampled_from(["commentary", "final_answer"]))
            head |= {"role": "assistant", "status": "completed", "phase": phase, "content": []}
            for position, text in enumerate(draw(st.lists(some_words, max_size=2))):
                part = {"type": "output_text", "text": text, "annotations": []}
                added = {"type": "response.content_part.added", "part": part | {"text": ""}}
                deltas.append(added | at | {"content_index": position})
                grow("output_text", text, content_index=position)
                head["content"].append(part)
        case "reasoning":
            texts = draw(st.lists(words, max_size=2))
            head["summary"] = [{"type": "summary_text", "text": text} for text in texts]
            head["encrypted_content"] = draw(some_words)
            for position, text in enumerate(texts):
                grow("reasoning_summary_text", text, summary_index=position)
        case "function_call":
            arguments = json.dumps(draw(inputs))
            head |= {"call_id": f"call_{number}", "name": draw(names), "arguments": arguments}
            grow("function_call_arguments", arguments)
        case _:
            head |= {"call_id": f"call_{number}", "name": draw(names), "input": draw(words)}
            grow("custom_tool_call_input", head["input"])
    return head, deltas


@st.composite
def responses(draw: DrawFn) -> list[Json]:
    output: list[Json] = []
    told: list[Json] = []
    for number in range(draw(st.integers(0, 4))):
        item, deltas = draw(items(number))
        grown = GROWN[item["type"]]
        start = item | {grown: type(item[grown])()}
        told.append({"type": "response.output_item.added", "output_index": number, "item": start})
        told += deltas
        told.append({"type": "response.output_item.done", "output_index": number, "item": item})
        output.append(item)
    about = {"id": "resp_1", "object": "response", "created_at": 1, "model": MODEL, "tools": []}
    about |= {"parallel_tool_calls": True, "tool_choice": "auto", "error": None}
    usage: Json = {"input_tokens": draw(counts), "output_tokens": draw(counts)}
    began = about | {"status": "in_progress", "output": []}
    ended = about | {"status": "completed", "usage": usage}
    if draw(st.booleans()):
        ended["output"] = output
    told.insert(0, {"type": "response.created", "response": began})
    told.append({"type": "response.completed", "response": ended})
    return [event | {"sequence_number": number} for number, event in enumerate(told)]


@few
@given(responses(), st.data())
def test_responses_agree_with_the_sdk_of_openai(events: list[Json], data: st.DataObject) -> None:
    answering.body = sse(*events)
    with client_of("openai").responses.stream(model=MODEL, input="Well?") as stream:
        theirs = stream.get_final_response()
    message = decode("openai_responses", data.draw(cuts(answering.body)))
    thoughts = [item for item in theirs.output if item.type == "reasoning"]
    calls = [item for item in theirs.output if item.type == "function_call"]
    assert content_of(message) == Content(
        text=theirs.output_text,
        thinking="".join([part.text for item in thoughts for part in item.summary]),
        calls=[(call.call_id, call.name, json.loads(call.arguments)) for call in calls],
        stop=theirs.status,
        tokens=(theirs.usage.input_tokens, theirs.usage.output_tokens),
    )
    finished = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    written = sent_back("openai_responses", message)["input"][1:-1]
    assert without_nulls(written) == without_nulls(finished)


# -- Gemini ----------------------------------------------------------------------------------------


@st.composite
def gemini_parts(draw: DrawFn) -> Json:
    code = {"executableCode": {"language": "PYTHON", "code": draw(words)}}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": draw(words)}}
    called = {"functionCall": {"name": draw(names), "args": draw(inputs)}}
    said: Json = {"text": draw(words)}
    part: Json = draw(st.sampled_from([said, said | {"thought": True}, called, code, result]))
    return part | ({"thoughtSignature": "c2lnbmVk"} if draw(st.booleans()) else {})


@few
@given(st.lists(st.lists(gemini_parts(), max_size=3), min_size=1, max_size=4), counts, st.data())
def test_responses_agree_with_the_sdk_of_google(
    contents: list[list[Json]], count: int, data: st.DataObject
) -> None:
    from google.genai.types import GenerateContentResponse

    tokens = {"promptTokenCount": count, "candidatesTokenCount": 7, "thoughtsTokenCount": 2}
    chunks: list[Json] = [
        {"candidates": [{"content": {"role": "model", "parts": parts}}], "usageMetadata": tokens}
        for parts in contents
    ]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    theirs = [GenerateContentResponse.model_validate_json(msgspec.json.encode(c)) for c in chunks]
    found = [part for answer in theirs for part in answer.parts or ()]
    message = decode("gemini", data.draw(cuts(sse(*chunks))))
    calls = [part.function_call for part in found if part.function_call is not None]
    assert content_of(message) == Content(
        text="".join([part.text or "" for part in found if not part.thought]),
        thinking="".join([part.text or "" for part in found if part.thought]),
        calls=[(None, call.name or "", call.args) for call in calls],
        stop="STOP",
        tokens=(count, 9),
    )
    signed = [part for parts in contents for part in parts if "thoughtSignature" in part]
    turns = [c for c in sent_back("gemini", message)["contents"] if c["role"] == "model"]
    written = [part for turn in turns for part in turn["parts"] if "thoughtSignature" in part]
    assert written == signed


# -- Ollama ----------------------------------------------------------------------------------------


@st.composite
def ollama_lines(draw: DrawFn) -> list[Json]:
    head = {"model": MODEL, "created_at": "2026-01-01T00:00:00Z"}
    said: list[Json] = [
        *({"content": "", "thinking": part} for part in draw(words.flatmap(parts_of))),
        *({"content": part} for part in draw(words.flatmap(parts_of))),
    ]
    for name in draw(st.lists(names, max_size=2)):
        called = {"function": {"name": name, "arguments": draw(inputs)}}
        said.insert(draw(st.integers(0, len(said))), {"content": "", "tool_calls": [called]})
    lines = [head | {"message": {"role": "assistant", **m}, "done": False} for m in said]
    end = {"message": {"role": "assistant", "content": draw(words)}, "done": True}
    reason = draw(st.sampled_from(["stop", "length"]))
    counted = {"prompt_eval_count": draw(counts), "eval_count": draw(counts)}
    return [*lines, head | end | counted | {"done_reason": reason}]


@few
@given(ollama_lines(), st.data())
def test_responses_agree_with_the_sdk_of_ollama(lines: list[Json], data: st.DataObject) -> None:
    # In ASCII, because the client splits lines at U+0085 and U+2028 inside a string.
    answering.body = b"".join([json.dumps(line).encode() + b"\n" for line in lines])
    theirs = list(client_of("ollama").chat(model=MODEL, messages=ASKED, stream=True))
    message = decode("ollama_chat", data.draw(cuts(answering.body)))
    calls = [call.function for line in theirs for call in line.message.tool_calls or ()]
    last = theirs[-1]
    assert content_of(message) == Content(
        text="".join([line.message.content or "" for line in theirs]),
        thinking="".join([line.message.thinking or "" for line in theirs]),
        calls=[(None, call.name, dict(call.arguments)) for call in calls],
        stop=last.done_reason,
        tokens=(last.prompt_eval_count, last.eval_count),
    )
