"""Cases about the requests that a wire encodes: completeness, stable bytes, and seals."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from steno.messages.call import InvalidToolCall, Seal, ToolCall
from steno.messages.change import ChangeCode
from steno.messages.content import Opaque, Text, Thinking
from steno.messages.message import (
    AssistantMessage,
    ChatMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.messages.usage import StopReason, Usage
from steno.testing.case_results import expect, expect_body, require
from steno.testing.conformance.scripted_server import (
    MODEL,
    NotExpressible,
    ScriptedServer,
    TextPiece,
    ThinkingPiece,
    ThinkingSeal,
    TurnEnd,
    WholeCall,
    decode_script,
    supported_lines,
    usage_if_supported,
)
from steno.wire import Encoder

USER: Final = UserMessage((Text("Read both files."),))
_SYSTEM: Final = SystemMessage((Text("Be brief."),))
_SEAL: Final = "c2VhbGVkLWJ5LXRoZS1raXQ="
_READ: Final = ToolDefinition(
    name="read",
    description="Reads a file.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    },
)


def _conversation(first_id: str = "call_1", second_id: str = "call_2") -> tuple[Message, ...]:
    calls = [
        ToolCall(id=first_id, name="read", arguments='{"path": "x.py"}'),
        ToolCall(id=second_id, name="read", arguments='{"path":"ü.py"}'),
    ]
    return (
        _SYSTEM,
        USER,
        ChatMessage.assistant("I look.", calls),
        ToolResultMessage.success(first_id, "one"),
        ToolResultMessage.success(second_id, "two"),
        ChatMessage.assistant("One and two."),
        ChatMessage.user("And a third?"),
        ChatMessage.assistant("There is none."),
    )


def _request(messages: tuple[Message, ...]) -> Request:
    return Request(messages=messages, model=MODEL, tools=(_READ,), max_tokens=1000)


# -- round trips -------------------------------------------------------------------------------


def response_equals_stream(server: ScriptedServer) -> None:
    """Check that a whole response and a streamed response are decoded to equal messages."""
    script = supported_lines(
        server,
        [ThinkingPiece("Let me see.")],
        [ThinkingSeal(_SEAL)],
        [TextPiece("Reading "), TextPiece("both.")],
        [WholeCall("a", "read", '{"path": "x.py"}'), WholeCall("b", "now", "{}")],
    )
    usage = Usage(input_tokens=100, output_tokens=20)
    end = usage_if_supported(server, TurnEnd(StopReason.TOOL_USE, usage=usage))
    found = server.wire.decode_response(server.response([*script, end]), model=MODEL)
    decoded = decode_script(server, *script, end).message
    expect(found.content, decoded.content, "content")
    expect(found.stop_reason, decoded.stop_reason, "stop reason")
    expect(found.raw_stop_reason, decoded.raw_stop_reason, "raw stop reason")
    expect(found.usage, decoded.usage, "usage")


def request_round_trip(server: ScriptedServer) -> None:
    """Check that decoding and encoding a request preserves it, including unknown members."""
    wire = server.wire
    for number, recorded in enumerate(server.requests):
        written = wire.encode_request(wire.decode_request(recorded)).body
        expect_body(written, recorded, f"requests[{number}], decoded and encoded")
    first = wire.encode_request(_request(_conversation())).body
    second = wire.encode_request(wire.decode_request(first)).body
    expect_body(second, first, "an encoded request, decoded and encoded again")


def request_is_complete(server: ScriptedServer) -> None:
    """Check that a request contains all text, calls, results and tools of a conversation."""
    body = server.wire.encode_request(_request(_conversation())).body.decode()
    for part in ("Be brief.", "Read both files.", "I look.", "one", "two", "There is none."):
        require(part in body, f"not sent: {part!r}")
    for part in ("x.py", "ü.py", "Reads a file.", '"read"'):
        require(part in body, f"not sent: {part!r}")


def same_request_same_bytes(server: ScriptedServer) -> None:
    """Check that encoding a request twice returns equal bytes, with and without `stream`."""
    request = _request(_conversation())
    encode = server.wire.encode_request
    expect(encode(request).body, encode(request).body, "bytes")
    expect(encode(request, stream=True).body, encode(request, stream=True).body, "bytes")


def prefix_stable(server: ScriptedServer) -> None:
    """Check that adding messages does not change the earlier bytes, as prompt caches require."""
    messages = _conversation()
    bodies = [
        server.wire.encode_request(_request(messages[:count])).body
        for count in range(2, len(messages) + 1)
    ]
    for count, (shorter, longer) in enumerate(pairwise(bodies), start=2):
        pairs = enumerate(zip(shorter, longer, strict=False))
        same = next((place for place, (a, b) in pairs if a != b), len(shorter))
        left = shorter[same:].strip(b"]} \n")
        require(not left, f"adding message {count + 1} changes earlier bytes, from byte {same} on")


def reused_encoder(server: ScriptedServer) -> None:
    """Check that a reused encoder returns the same bytes and losses as a new encoder."""
    build_encoder: Callable[[], Encoder] | None = getattr(server.wire, "Encoder", None)
    if build_encoder is None:
        raise NotExpressible(
            "a reused encoder, because the module of the wire has no class Encoder"
        )
    encoder = build_encoder()
    for number, request in enumerate(_branching_requests(server)):
        encoded, expected = encoder.encode(request), build_encoder().encode(request)
        place = f"requests[{number}], {len(request.messages)} messages for {request.model}"
        require(encoded.body == expected.body, f"{place}: bytes differ from a new encoder's")
        require(encoded.losses == expected.losses, f"{place}: losses differ from a new encoder's")
        alone = server.wire.encode_request(request).body
        require(encoded.body == alone, f"{place}: bytes differ from those of encode_request")


def _branching_requests(server: ScriptedServer) -> list[Request]:
    """Return the requests of a conversation that changes models, rewinds and branches."""
    script = supported_lines(
        server,
        [ThinkingPiece("Let me see.")],
        [ThinkingSeal(_SEAL)],
        [TextPiece("Reading both.")],
        [WholeCall("a", "read", '{"path": "x.py"}'), WholeCall("b", "read", '{"path":"y.py"}')],
    )
    messages = (
        _SYSTEM,
        USER,
        decode_script(server, *script, TurnEnd(StopReason.TOOL_USE)).message,
        ToolResultMessage.success("a", "one"),
        ToolResultMessage.error("b", "no such file"),
        ChatMessage.assistant("One, and no other. "),
        _SYSTEM,
        ChatMessage.user("And a third?"),
        USER,
    )
    counts = range(1, len(messages) + 1)
    longer = [_request(messages[:count]) for count in counts]
    of_another = [replace(request, model="model-2") for request in (longer[-1], longer[-2])]
    elsewhere = _request((*messages[:5], ChatMessage.assistant("Only one."), USER))
    return [*longer, *of_another, longer[-1], longer[4], elsewhere, replace(elsewhere, tools=())]


def outside_tool_names(server: ScriptedServer) -> None:
    """Check that a tool named `fs.read` by the provider has the same name in calls and tools."""
    decoded = decode_script(server, WholeCall("a", "fs.read", "{}"), TurnEnd(StopReason.TOOL_USE))
    [call] = decoded.message.tool_calls
    assert isinstance(call, ToolCall)
    expect(call.original_name, "fs.read", "the provider's name of the tool")
    tool = replace(_READ, name=call.name, original_name="fs.read")
    messages = (USER, decoded.message, ToolResultMessage.success("a", "one"))
    request = Request(model=MODEL, messages=messages, tools=(tool,), max_tokens=1000)
    read = server.wire.decode_request(server.wire.encode_request(request).body)
    called = [call.name for message in read.messages for call in message.tool_calls]
    expect(called, [tool.name for tool in read.tools], "names of calls, and of their tools")


def failed_tool_result(server: ScriptedServer) -> None:
    """Check that the text of a failed result is sent, and the failure is sent or reported."""
    call = ToolCall(id="call_1", name="read")
    failure = ToolResultMessage.error("call_1", "no such file")
    encoded = server.wire.encode_request(
        _request((USER, ChatMessage.assistant(None, [call]), failure))
    )
    require(b"no such file" in encoded.body, "the text of the result is not sent")
    results = server.wire.decode_request(encoded.body).messages
    is_sent = any(isinstance(m, ToolResultMessage) and m.is_error for m in results)
    is_reported = ChangeCode.OUTCOME in [loss.code for loss in encoded.losses]
    require(is_sent or is_reported, "the failure is neither sent nor reported as a loss")


def invalid_call_in_history(server: ScriptedServer) -> None:
    """Check that a request with an invalid call is valid and contains the call and its result."""
    call = InvalidToolCall(id="call_1", name="read", arguments='{"path": "x', reason="cut off")
    failure = ToolResultMessage.error("call_1", "the arguments were cut off")
    encoded = server.wire.encode_request(
        _request((USER, ChatMessage.assistant(None, [call]), failure))
    )
    server.wire.decode_request(encoded.body)  # raises if the body is not a request
    require(b'\\"path\\": \\"x' in encoded.body, "the arguments of the call are not sent")
    require(b"the arguments were cut off" in encoded.body, "the result is not sent")


# -- seals, blocks and ids of one provider -----------------------------------------------------


def seal_only_to_its_model(server: ScriptedServer) -> None:
    """Check that a seal is sent only to the model that created it, or else reported as a loss."""
    sealed = decode_script(
        server, ThinkingPiece("Let me see."), ThinkingSeal(_SEAL), TextPiece("Four."), TurnEnd()
    ).message
    require(
        _SEAL in _encode_history(server, sealed, MODEL), "the seal is not sent back to its model"
    )
    require(
        _SEAL not in _encode_history(server, sealed, "model-2"), "the seal is sent to another model"
    )
    [thought] = [block for block in sealed.content if isinstance(block, Thinking)]
    assert thought.seal is not None
    foreign = replace(thought.seal, provider="somebody_else")
    answer = AssistantMessage(content=(replace(thought, seal=foreign), Text("Four.")))
    require(
        _SEAL not in _encode_history(server, answer, MODEL), "the seal is sent to another provider"
    )


def seal_with_two_calls(server: ScriptedServer) -> None:
    """Check that sealed thinking and two calls stay separate blocks and are all sent back."""
    calls = [("a", "read", '{"path":"x.py"}'), ("b", "read", '{"path":"y.py"}')]
    thought = (ThinkingPiece("Let me see."), ThinkingSeal(_SEAL))
    asking = [WholeCall(*call) for call in calls]
    decoded = decode_script(server, *thought, *asking, TurnEnd(StopReason.TOOL_USE))
    expect(decoded.block_types, ["Thinking", "ToolCall", "ToolCall"], "types of blocks")
    expect(decoded.calls, calls, "calls")
    expect([call.seal for call in decoded.message.tool_calls], [None, None], "seals of the calls")
    results = [ToolResultMessage.success(id, "done") for id, _, _ in calls]
    encoded = server.wire.encode_request(_request((USER, decoded.message, *results)))
    codes = [loss.code for loss in encoded.losses]
    require(ChangeCode.SEAL not in codes, "the seal is reported as lost")
    require(_SEAL in encoded.body.decode(), "the seal is not sent back to its model")
    read = server.wire.decode_request(encoded.body).messages
    asked = [(call.id, call.name, call.arguments) for m in read for call in m.tool_calls]
    expect(asked, calls, "calls that are sent back")
    answered = [m.tool_call_id for m in read if isinstance(m, ToolResultMessage)]
    expect(answered, ["a", "b"], "calls whose results are sent")


def foreign_seal(server: ScriptedServer) -> None:
    """Check that the seal of another wire is omitted and reported, and the text is sent."""
    seal = Seal(data=_SEAL, provider="somebody_else", api="another_wire", model=MODEL)
    answer = AssistantMessage(content=(Thinking("Let me see.", seal=seal), Text("Four.")))
    require(_SEAL not in _encode_history(server, answer, MODEL), "the seal is sent")
    require("Four." in _encode_history(server, answer, MODEL), "the text is not sent")


def foreign_block(server: ScriptedServer) -> None:
    """Check that an opaque block of another wire is omitted and reported."""
    block = Opaque(kind="hologram", raw='{"type":"hologram-4711"}', origin="another_wire")
    answer = AssistantMessage(content=(Text("Four."), block))
    encoded = server.wire.encode_request(_request((USER, answer, USER)))
    require(b"hologram-4711" not in encoded.body, "the block is sent")
    require(b"Four." in encoded.body, "the text is not sent")
    codes = [loss.code for loss in encoded.losses]
    require(ChangeCode.OPAQUE in codes, f"the loss is not reported; reported: {codes}")


def foreign_call_ids(server: ScriptedServer) -> None:
    """Check that forbidden call ids are mapped to unique ids, in calls and in their results."""
    foreign = ("functions.read:0", "ü 日本 " + "x" * 200)
    request = _request(_conversation(*foreign))
    encoded = server.wire.encode_request(request)
    messages = server.wire.decode_request(encoded.body).messages
    call_ids = [call.id for message in messages for call in message.tool_calls]
    answered = [m.tool_call_id for m in messages if isinstance(m, ToolResultMessage)]
    expect(answered, call_ids, "ids of results, and of their calls")
    expect(len(set(call_ids)), 2, "number of different ids")
    if server.legal_call_id is None:
        return
    for id in call_ids:
        require(bool(server.legal_call_id.fullmatch(id)), "a forbidden id is sent")
    codes = [loss.code for loss in encoded.losses]
    require(ChangeCode.CALL_ID in codes, f"the change is not reported; reported: {codes}")


def _encode_history(server: ScriptedServer, answer: AssistantMessage, model: str) -> str:
    """Return the body of a request with this message in its history.

    Raises CaseFailure if an omitted seal is not reported as a loss.
    """
    request = Request(model=model, messages=(USER, answer, USER), max_tokens=1000)
    encoded = server.wire.encode_request(request)
    body = encoded.body.decode()
    codes = [loss.code for loss in encoded.losses]
    is_reported = ChangeCode.SEAL in codes
    expect(is_reported, _SEAL not in body, "whether the loss of the seal is reported")
    return body
