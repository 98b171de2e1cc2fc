"""Document S0: the performance of the types.

No test reads the clock. The tests count executed lines, called functions and allocated memory,
which do not depend on the machine. Loops in C are not counted: `make bench` measures the time, and
its results are in the repository.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest

from steno import (
    Assembler,
    ChatMessage,
    ConversationHistory,
    Message,
    MessageRole,
    Request,
    SystemMessage,
    Text,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolDefinition,
    ToolResult,
    UserMessage,
)
from steno.codec import (
    decode_message,
    encode_message,
)
from steno.wire import WIRES, load_wire, openai_chat
from tests.acceptance.command_line import run_python
from tests.acceptance.costs import calls_of, memory_of, steps_of
from tests.acceptance.message_samples import (
    ANSWER,
    ARGUMENTS,
    CALL,
    MESSAGES,
    PROJECT,
    RESULT,
    SYSTEM,
    USER,
    Options,
    WriteFile,
    history_of,
    type_name,
)


@cache
def measured(work: str) -> float:
    """Return the median of one row of the recorded benchmark, in seconds or bytes."""
    recorded = json.loads((PROJECT / "bench/results/latest.json").read_text("utf-8"))
    (value,) = {
        row["ours"]["median"] for row in recorded["findings"] if row["work"] == work
    }  # one row for each library that it is compared with
    return float(value)


LONG = 1_000_000
FEW_STEPS = 100
"""A tool result is made in 60 steps, and a user message in 25."""

CONSTRUCTIONS: dict[str, Callable[[str], Callable[[], object]]] = {
    "system": lambda text: partial(ChatMessage.system, text),
    "user": lambda text: partial(ChatMessage.user, text),
    "assistant": lambda text: partial(ChatMessage.assistant, text),
    "tool": lambda text: partial(ChatMessage.tool_result, "call_1", text),
    "error": lambda text: partial(ToolResult.error, "call_1", text),
    "call": lambda text: partial(ToolCall, id="c", name="n", arguments=f'{{"a": "{text}"}}'),
    "delta": lambda text: partial(ToolCallDelta, 0, arguments_delta=text),
}


@pytest.mark.requirement("NFR-004a-01")
@pytest.mark.parametrize("kind", CONSTRUCTIONS)
def test_a_value_is_made_in_a_few_steps(kind: str) -> None:
    make = CONSTRUCTIONS[kind]("Hello")
    make()
    assert steps_of(make) < FEW_STEPS


@pytest.mark.requirement("NFR-004a-01")
@pytest.mark.parametrize("make", [SystemMessage, UserMessage])
def test_a_block_of_a_prompt_is_checked_in_one_pass(
    make: type[SystemMessage | UserMessage],
) -> None:
    few, many = (Text("x"),) * 20, (Text("x"),) * 120
    steps = steps_of(partial(make, many)) - steps_of(partial(make, few))
    assert steps < 5 * (len(many) - len(few))


@pytest.mark.requirement("NFR-004a-01")
@pytest.mark.parametrize(
    "work",
    [
        *("make a user message", "make a user message (constructor)"),
        *("make an assistant message with a call",),
        *("make an assistant message with a call (constructor)",),
    ],
)
def test_the_recorded_time_to_make_a_value_is_under_a_microsecond(work: str) -> None:
    assert measured(work) < 1e-6


CODEC: dict[str, tuple[str, Callable[[str], Callable[[], object]]]] = {
    "encode": (
        "encode 1,000 messages (1.6 MB)",
        lambda text: lambda: encode_message(ChatMessage.user(text)),
    ),
    "decode": (
        "decode 1,000 messages (1.6 MB)",
        lambda text: partial(decode_message, encode_message(ChatMessage.user(text))),
    ),
}


@pytest.mark.parametrize(
    "direction",
    [
        pytest.param("encode", marks=pytest.mark.requirement("NFR-004a-02")),
        pytest.param("decode", marks=pytest.mark.requirement("NFR-004a-03")),
    ],
)
def test_a_message_is_encoded_and_decoded_in_far_less_than_a_millisecond(direction: str) -> None:
    """Python does the same for any content; the recorded time is that of 1,000 messages.

    The message that is encoded is made first, so its checks count.
    """
    work, convert = CODEC[direction]
    short, long = convert("x"), convert("x" * LONG)
    short()
    assert steps_of(short) == steps_of(long) < FEW_STEPS
    assert measured(work) / 1_000 < 1e-3


@pytest.mark.requirement("NFR-004a-04")
@pytest.mark.parametrize("kind", ["system", "user", "assistant", "tool"])
def test_a_message_takes_less_than_1_kb_beside_its_content(kind: str) -> None:
    make = CONSTRUCTIONS[kind]("content that all of them share")
    assert memory_of(lambda: [make() for _ in range(1_000)]).kept < 1_000 * 1_024


@pytest.mark.requirement("NFR-004a-04")
def test_a_message_with_a_call_takes_less_than_1_kb_beside_its_content() -> None:
    def make() -> Message:
        call = ToolCall(id="call_1", name="write_file", arguments=ARGUMENTS)
        return ChatMessage.assistant(None, [call])

    assert memory_of(lambda: [make() for _ in range(1_000)]).kept < 1_000 * 1_024
    assert measured("memory: assistant message with a call") < 1_024


@pytest.mark.requirement("NFR-004a-05")
def test_roles_are_parsed_read_and_compared_without_allocating() -> None:
    names = ["system", "User", "ASSISTANT", "tool"] * 250
    known = {MessageRole.SYSTEM: 0}

    def use() -> None:
        for name in names:
            role = MessageRole.parse(name)
            assert role is MessageRole(role.value)
            assert (role == MessageRole.USER) == (role is MessageRole.USER)
            assert (hash(role) == hash(MessageRole.SYSTEM)) == (role in known)
            assert 0 <= role.number < 4

    memory = memory_of(use)
    assert memory.kept < 512  # less than a byte for each of 1,000 roles
    assert memory.peak < 1_024


@pytest.mark.requirement("NFR-004a-05")
def test_a_role_is_always_the_same_object() -> None:
    for role, message in zip(MessageRole, (SYSTEM, USER, ANSWER, RESULT), strict=True):
        decoded = decode_message(encode_message(message))
        assert isinstance(decoded, ChatMessage)
        assert decoded.role is message.role is role is MessageRole.parse(role.name)


SCAN_LENGTH = 16_384
"""Text that is not ASCII is scanned in parts of this length (ADR 37)."""


@pytest.mark.requirement("NFR-004a-06")
@pytest.mark.parametrize("kind", [kind for kind in CONSTRUCTIONS if kind != "call"])
def test_a_value_with_ascii_text_is_checked_at_the_same_cost_whatever_its_length(kind: str) -> None:
    """No check reads the text to its end.

    The check for blank text stops at the first character that is not blank.
    """
    short, long = CONSTRUCTIONS[kind]("x" * 10), CONSTRUCTIONS[kind]("x" * LONG)
    short()
    assert steps_of(long) == steps_of(short)
    assert calls_of(long) == calls_of(short)
    assert not {"encode", "search", "match", "fullmatch", "strip", "find"} & {*calls_of(long)}
    assert memory_of(long).peak < 2_048


@pytest.mark.requirement("NFR-004a-06")
@pytest.mark.parametrize("character", ["x", "é", "🙂"])
def test_the_arguments_of_a_call_are_read_once_by_the_parser(character: str) -> None:
    """The cost is linear: the JSON parser checks the syntax, and creates no values (ADR 37)."""
    short, long = (CONSTRUCTIONS["call"](character * length) for length in (10, LONG))
    for make in (short, long):
        make()  # now the text has its UTF-8 form, which CPython keeps
    assert steps_of(long) == steps_of(short)
    assert calls_of(long) == calls_of(short)
    assert calls_of(long).count("decode") == 1
    assert not {"encode", "search", "match", "fullmatch", "strip", "find"} & {*calls_of(long)}
    assert memory_of(long).peak < 2_048


@pytest.mark.requirement("NFR-004a-06")
@pytest.mark.parametrize("character", ["é", "中", "🙂"])
def test_text_that_is_not_ascii_is_scanned_once_and_in_bounded_memory(character: str) -> None:
    """The cost is linear: the check for halves of characters reads such text (ADR 37)."""
    once, twice = (CONSTRUCTIONS["user"](character * length) for length in (LONG, 2 * LONG))
    assert steps_of(once) < LONG / 1_000
    assert steps_of(twice) < 2 * steps_of(once)
    assert calls_of(once).count("encode") == math.ceil(LONG / SCAN_LENGTH)
    assert memory_of(once).peak < 256 * 1_024


SCANNED = [
    *("1,000 漢", "1,000 of a, é, 漢 and 😀"),
    *("1 M é", "1 M 漢", "1 M 😀", "1 M of a, é, 漢 and 😀"),
]
CHECKED = ["1 MB of plain text", "1 MB of source code", "1 MB of nested objects"]


@pytest.mark.requirement("NFR-004a-06")
@pytest.mark.parametrize(
    "work",
    [
        *[f"scan of {text}, per 1,000" for text in SCANNED],
        *[f"a call with arguments of {text}, per 1,000" for text in CHECKED],
    ],
)
def test_the_recorded_time_to_check_1000_characters_is_under_a_microsecond(work: str) -> None:
    """The limit of ADR 37 for text that is not ASCII and for arguments, which are read once."""
    assert measured(work) < 1e-6


@pytest.mark.requirement("NFR-004a-07")
@pytest.mark.parametrize("kind", ["system", "user", "assistant", "tool", "call"])
def test_equality_compares_the_content_once_and_copies_nothing(kind: str) -> None:
    """The two texts are equal and are different objects, so all characters are compared."""
    counts = []
    for length in (1_000, LONG):
        one, other = (CONSTRUCTIONS[kind]("".join(["x"] * length))() for _ in range(2))
        different = CONSTRUCTIONS[kind]("x" * (length - 1) + "y")()
        assert one == other
        assert one != different
        counts.append(steps_of(partial(one.__eq__, other)))
        assert memory_of(partial(one.__eq__, other)).peak < 1_024
    assert counts[0] == counts[1]


@pytest.mark.requirement("NFR-004a-07")
def test_equality_is_linear_in_the_number_of_blocks() -> None:
    def cost_for(count: int) -> int:
        one, other = (
            ChatMessage.assistant("x", [ToolCall(id=f"c{n}", name="read") for n in range(count)])
            for _ in range(2)
        )
        assert one == other
        return steps_of(partial(one.__eq__, other))

    assert cost_for(1_000) <= 100 * cost_for(10)


@pytest.mark.requirement("NFR-004a-08")
def test_add_costs_the_same_in_a_short_and_in_a_long_history() -> None:
    history = history_of(SYSTEM)
    costs = []
    for length in (10, 10_000):
        while len(history) < length:
            history.add(USER)
            history.add(ANSWER)
        costs.append(steps_of(partial(history.add, USER)))
        history.add(ANSWER)
    assert costs[0] == costs[1]
    assert measured("add to a history of 100,000") < 2 * measured("add to a history of 1,000")


@pytest.mark.requirement("NFR-004a-08")
def test_add_copies_no_messages() -> None:
    """The history may grow its memory now and then, so the median of several calls counts."""
    history = ConversationHistory([USER] * 10_000, alternating=False)
    peaks = [memory_of(partial(history.add, USER)).peak for _ in range(5)]
    assert statistics.median(peaks) < 1_024


@pytest.mark.requirement("NFR-004a-09")
@pytest.mark.parametrize("kind", ["system", "user", "assistant", "tool"])
def test_a_factory_keeps_the_text_and_allocates_the_message_only(kind: str) -> None:
    text = "x" * LONG
    make: Callable[[], Any] = CONSTRUCTIONS[kind](text)
    assert make().text is text
    assert memory_of(make).peak < 1_024


@pytest.mark.requirement("NFR-004a-09")
def test_a_factory_keeps_calls_and_arguments_as_they_are() -> None:
    text = json.dumps({"a": "x" * LONG})
    call = ToolCall(id="c", name="read", arguments=text)
    assert call.arguments is text
    assert ChatMessage.assistant(None, [call]).tool_calls[0] is call
    assert memory_of(partial(ToolCall, id="c", name="read", arguments=text)).peak < 1_024
    assert memory_of(partial(ChatMessage.assistant, "Hi", [call])).peak < 1_024


@pytest.mark.requirement("NFR-004a-10")
def test_a_message_is_converted_in_a_new_interpreter_without_configuration() -> None:
    program = (
        "from steno import ChatMessage\n"
        "from steno.codec import decode_message, encode_message\n"
        "print(decode_message(encode_message(ChatMessage.user('Hi'))).text)"
    )
    assert run_python(program) == "Hi\n"


@pytest.mark.requirement("NFR-004a-10")
@pytest.mark.parametrize("message", MESSAGES, ids=type_name)
def test_a_message_is_converted_without_a_look_at_its_annotations(message: Message) -> None:
    data = encode_message(message)
    decode_message(data)
    for convert in (partial(encode_message, message), partial(decode_message, data)):
        assert steps_of(convert) < FEW_STEPS
        assert not {"get_type_hints", "signature", "exec", "eval"} & {*calls_of(convert)}


CONVERSIONS = """
import msgspec
from steno import ChatMessage, ConversationHistory, ToolCall, ToolDefinition, ToolResult
from steno.codec import *

call = ToolCall(id="c", name="read", arguments='{"path": "a.py"}')
messages = [
    ChatMessage.system("Be brief."), ChatMessage.user("Hello"),
    ChatMessage.assistant("I read it.", [call]), ToolResult.success("c", "done"),
]
tool = ToolDefinition(name="read", description="Read a file.", parameters={"type": "object"})

def convert():
    for message in messages:
        assert decode_message(encode_message(message)) == message
    assert decode_messages(encode_messages(ConversationHistory(messages))) == tuple(messages)
    assert decode_call(encode_call(call)) == call
    assert decode_tool(encode_tool(tool)) == tool

def refuse(*arguments, **settings):
    raise AssertionError("an encoder or a decoder is made for one value")

convert()
msgspec.json.Encoder = msgspec.json.Decoder = refuse
msgspec.msgpack.Encoder = msgspec.msgpack.Decoder = refuse
convert()
print("converted twice")
"""
"""Converts values of every type once, forbids new encoders and decoders, and converts again."""


@pytest.mark.requirement("NFR-004a-10")
def test_encoders_and_decoders_are_made_once_and_not_for_each_value() -> None:
    assert run_python(CONVERSIONS) == "converted twice\n"


DELTAS: dict[str, Callable[[str], TextDelta | ThinkingDelta | ToolCallDelta]] = {
    "text": lambda text: TextDelta(0, text),
    "thinking": lambda text: ThinkingDelta(0, text),
    "arguments": lambda text: ToolCallDelta(0, id="a", name="read", arguments_delta=text),
}


@pytest.mark.requirement("NFR-004a-11")
@pytest.mark.parametrize("kind", DELTAS)
def test_a_delta_costs_the_same_however_much_has_arrived(kind: str) -> None:
    """A text that is copied for each delta would take more memory with each of them."""
    assembler, delta = Assembler(), DELTAS[kind]("x" * 1_000)
    assembler.feed(DELTAS[kind]('{"a": "'))
    costs = []
    for arrived in (10, 2_000):
        for _ in range(arrived):
            assembler.feed(delta)
        costs.append(steps_of(partial(assembler.feed, delta)))
        assert memory_of(partial(assembler.feed, delta)).peak < 20_000
    assert costs[0] == costs[1]


@pytest.mark.requirement("NFR-004a-11")
def test_a_stream_is_assembled_in_memory_linear_in_its_length() -> None:
    def assemble_text(count: int) -> object:
        assembler = Assembler()
        for n in range(count):
            assembler.feed(TextDelta(0, f"{n:100}"))
        return assembler.message()

    assert (
        memory_of(lambda: assemble_text(4_000)).peak
        < 12 * memory_of(lambda: assemble_text(400)).peak
    )


@pytest.mark.requirement("NFR-004a-11")
@pytest.mark.parametrize("name", WIRES)
def test_a_piece_of_a_long_line_costs_the_same_however_much_of_it_has_arrived(name: str) -> None:
    """The buffer may grow its memory now and then, so the median of several pieces counts."""
    decoder, piece = load_wire(name).StreamDecoder(), b"x" * 1_000
    feed: Callable[[], object] = lambda: list(decoder.feed(piece))  # noqa: E731
    list(decoder.feed(b'data: {"text": "'))
    costs = []
    for arrived in (10, 1_000):
        for _ in range(arrived):
            feed()
        costs.append(steps_of(feed))
        assert statistics.median([memory_of(feed).peak for _ in range(5)]) < 20_000
    assert costs[0] == costs[1]


@pytest.mark.requirement("NFR-004a-12")
def test_arguments_are_parsed_once_however_often_they_are_used() -> None:
    tool = ToolDefinition.from_type(WriteFile, name="write_file")

    def use(call: ToolCall) -> None:
        assert call.parsed is call.parsed
        assert call.get("path", str) == call.get("path") == call.parsed["path"]
        assert call.arguments_as(WriteFile).options == call.get("options", Options)
        assert tool.check(call) == ()
        assert call.arguments.encode() in openai_chat.encode_request(
            Request(messages=(ChatMessage.assistant(None, [call]),))
        ).body.replace(b'\\"', b'"')

    def parses(call: ToolCall) -> int:
        return sum(name in {"decode", "loads"} for name in calls_of(partial(use, call)))

    use(CALL)  # the first use makes decoders
    call = ToolCall(id="c", name="write_file", arguments=ARGUMENTS.replace("a.py", "b.py"))
    assert parses(call) == 1
    assert parses(call) == 0


@pytest.mark.requirement("NFR-004a-12")
@pytest.mark.parametrize(("count", "length"), [(1_000, 10), (16, 20_000)])
def test_arguments_are_not_parsed_again_after_those_of_other_calls(count: int, length: int) -> None:
    calls = [ToolCall.create("write", {"text": f"{n:{length}}"}) for n in range(count)]
    parsed = [call.parsed for call in calls]
    assert all(call.parsed is before for call, before in zip(calls, parsed, strict=True))
