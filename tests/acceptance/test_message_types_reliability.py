"""Document S0: the reliability and maintainability of the types."""

from __future__ import annotations

import ast
import contextlib
import importlib.resources
import inspect
import io
import json
import re
import threading
import typing
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import steno
import steno.codec
import steno.messages
from steno import (
    Assembler,
    AssistantMessage,
    ChatMessage,
    ConversationHistory,
    InvalidDocument,
    InvalidMessage,
    InvalidToolCall,
    InvalidValue,
    JsonObject,
    Message,
    MessageRole,
    Opaque,
    Outcome,
    Request,
    Seal,
    SystemMessage,
    Text,
    ToolCall,
    ToolCallDelta,
    ToolDefinition,
    ToolResult,
    ToolResultMessage,
    UserMessage,
    check_order,
    replace_lone_surrogates,
)
from steno.codec import (
    decode_call,
    decode_message,
    decode_messages,
    decode_tool,
    encode_call,
    encode_message,
    encode_messages,
    encode_tool,
)
from steno.wire import openai_chat
from tests.acceptance.command_line import run_python, type_errors
from tests.acceptance.message_samples import (
    ARGUMENTS,
    CALLS,
    PROJECT,
    SCHEMA,
    USER,
    VALUES,
    WriteFile,
    assert_immutable,
    assert_read_only,
    attributes_of,
    define,
    refuses,
    switch_threads_often,
    type_name,
)

# -- Reliability ----------------------------------------------------------------------------------


@pytest.mark.requirement("NFR-004a-23")
def test_threads_share_values_without_locks() -> None:
    message = ChatMessage.assistant("Reading.", [ToolCall(id="c", name="n", arguments=ARGUMENTS)])
    expected = encode_message(message)

    def use(start: threading.Barrier) -> set[object]:
        start.wait(timeout=60)
        switch_threads_often()
        seen: set[object] = set()
        for _ in range(10):
            (call,) = message.tool_calls
            assert isinstance(call, ToolCall)
            seen.add((encode_message(message), hash(message), repr(message), message.text))
            arguments = call.arguments_as(WriteFile)
            seen.add((call.get("path", str), call.parsed["lines"], arguments.options.dry))
        return seen

    with ThreadPoolExecutor(8) as threads:
        seen = set().union(*threads.map(use, [threading.Barrier(8)] * 8))
    assert seen == {
        (expected, hash(message), repr(message), "Reading."),
        ("a.py", (3, 9), True),
    }
    assert encode_message(message) == expected


@pytest.mark.requirement("NFR-004a-23")
def test_no_thread_can_change_a_value_while_another_reads_it() -> None:
    message = ChatMessage.assistant("Reading.", [ToolCall(id="c", name="n", arguments=ARGUMENTS)])
    expected = encode_message(message)
    finished = threading.Event()

    def change() -> int:
        switch_threads_often()
        changed = 0
        while not finished.is_set():
            for value in (message, *message.content):
                for name in attributes_of(value):
                    try:
                        setattr(value, name, getattr(value, name))
                        changed += 1
                    except AttributeError:
                        pass
        return changed

    with ThreadPoolExecutor(4) as threads:
        writers = [threads.submit(change) for _ in range(4)]
        try:
            seen = {(encode_message(message), hash(message), message.text) for _ in range(200)}
        finally:
            finished.set()
        assert [writer.result(timeout=60) for writer in writers] == [0] * 4
    assert seen == {(expected, hash(message), "Reading.")}


NONE_AT_A_BOUNDARY = {
    "MessageRole.parse": refuses(MessageRole.parse, None),
    "ChatMessage.system": refuses(ChatMessage.system, None),
    "ChatMessage.user": refuses(ChatMessage.user, None),
    "ChatMessage.user([None])": refuses(ChatMessage.user, [None]),
    "ChatMessage.assistant calls": refuses(ChatMessage.assistant, "Hi", None),
    "ChatMessage.assistant([None])": refuses(ChatMessage.assistant, "Hi", [None]),
    "ChatMessage.tool_result id": refuses(ChatMessage.tool_result, None, "x"),
    "ChatMessage.tool_result content": refuses(ChatMessage.tool_result, "c", None),
    "ChatMessage.tool_result outcome": refuses(ChatMessage.tool_result, "c", "x", outcome=None),
    "Text": refuses(Text, None),
    "ToolCall id": refuses(ToolCall, id=None, name="n"),
    "ToolCall name": refuses(ToolCall, id="c", name=None),
    "ToolCall arguments": refuses(ToolCall, id="c", name="n", arguments=None),
    "ToolCall.create": refuses(ToolCall.create, None),
    "ToolResult.success": refuses(ToolResult.success, None, "x"),
    "ToolResult.error": refuses(ToolResult.error, "c", None),
    "ToolDefinition name": refuses(define, name=None),
    "ToolDefinition description": refuses(define, description=None),
    "ToolDefinition parameters": refuses(define, parameters=None),
    "ToolDefinition strict": refuses(define, strict=None),
    "ToolDefinition.from_type": refuses(ToolDefinition.from_type, None),
    "ToolDefinition.from_function": refuses(ToolDefinition.from_function, None),
    "ConversationHistory": refuses(ConversationHistory, None),
    "ConversationHistory.add": refuses(ConversationHistory().add, None),
    "check_order": refuses(check_order, [None]),
    "Assembler.feed": refuses(Assembler().feed, None),
    "Request": refuses(Request, messages=None),
    "JsonObject.parse": refuses(JsonObject.parse, None),
    "encode_message": refuses(encode_message, None),
    "encode_messages": refuses(encode_messages, None),
    "encode_messages([None])": refuses(encode_messages, [None]),
    "encode_call": refuses(encode_call, None),
    "encode_tool": refuses(encode_tool, None),
    "decode_message": refuses(decode_message, None),
    "decode_messages": refuses(decode_messages, None),
    "decode_call": refuses(decode_call, None),
    "decode_tool": refuses(decode_tool, None),
}


@pytest.mark.requirement("NFR-004a-24")
@pytest.mark.parametrize("boundary", NONE_AT_A_BOUNDARY)
def test_none_is_refused_where_a_value_is_required(boundary: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        NONE_AT_A_BOUNDARY[boundary]()


@pytest.mark.requirement("NFR-004a-26")
def test_a_parse_failure_has_an_error_of_its_own() -> None:
    assert issubclass(InvalidDocument, ValueError)
    assert not issubclass(InvalidDocument, InvalidMessage)
    for decode in (decode_message, decode_call, decode_tool, decode_messages):
        with pytest.raises(InvalidDocument):
            decode('{"role": ')


def nested(depth: int) -> str:
    return '{"a": ' * depth + "1" + "}" * depth


@pytest.mark.requirement("NFR-004a-27")
@pytest.mark.parametrize(
    "message",
    [
        ChatMessage.user("x"),
        ChatMessage.user("\x00"),
        ChatMessage.user(".\n" * 10_000),
        ChatMessage.user([Text("x")] * 1_000),
        ChatMessage.assistant(""),
        ChatMessage.assistant(None, [ToolCall(id="x", name="y")]),
        ChatMessage.assistant("", [ToolCall(id=f"c{n}", name="x" * 64) for n in range(1_000)]),
        ChatMessage.assistant(None, [ToolCall(id="i" * 10_000, name="x", arguments=" {} ")]),
        ChatMessage.assistant(None, [ToolCall(id="c", name="x", arguments=nested(150))]),
        ChatMessage.assistant(None, [ToolCall(id="c", name="x", arguments='{"": 1e308}')]),
        ChatMessage.assistant(None, [ToolCall(id="c", name="x", arguments=f'{{"n": {10**40}}}')]),
        ChatMessage.tool_result("c", ""),
        ChatMessage.tool_result("c", []),
        ChatMessage.tool_result("c", "\U0010ffff"),
    ],
)
def test_values_at_the_limits_of_the_rules_are_valid(message: Message) -> None:
    assert decode_message(encode_message(message)) == message
    for call in message.tool_calls:
        assert isinstance(call, ToolCall)
        assert_read_only(call.parsed)


@pytest.mark.requirement("NFR-004a-28")
def test_the_empty_string_is_valid_content() -> None:
    """A user or system message must not be blank: the factories of the document refuse that, too."""
    for message in (ChatMessage.assistant(""), ChatMessage.tool_result("c", "")):
        assert message.text == ""
        assert decode_message(encode_message(message)) == message


@pytest.mark.requirement("NFR-004a-29")
def test_very_long_content_is_valid() -> None:
    text = "0123456789" * 1_000_000
    message = ChatMessage.user(text)
    assert message.text == text
    assert decode_message(encode_message(message)) == message
    call = ToolCall.create("write", {"content": text})
    assert call.get("content", str) == text
    assert len(text.encode()) < len(openai_chat.encode_request(Request(messages=(message,))).body)


@pytest.mark.requirement("NFR-004a-30")
def test_a_surrogate_pair_is_one_character_and_half_of_one_is_never_stored() -> None:
    pair = decode_message('{"role": "user", "content": "\\ud83d\\ude00"}')
    assert isinstance(pair, UserMessage)
    assert pair.text == "😀"
    half = decode_message('{"role": "user", "content": "a\\ud83d"}')
    assert isinstance(half, UserMessage)
    assert half.text == "a\ufffd"
    assert encode_message(half).decode("utf-8")


@pytest.mark.requirement("NFR-004a-30")
@pytest.mark.parametrize(
    "make",
    [
        refuses(ChatMessage.system, "a\ud83d"),
        refuses(ChatMessage.user, "\ude00a"),
        refuses(ChatMessage.assistant, "\ud83d"),
        refuses(ChatMessage.tool_result, "c", "\ud83d"),
        refuses(ToolCall, id="\ud83d", name="n"),
        refuses(ToolCall, id="c", name="n", arguments='{"a": "\ud83d"}'),
        refuses(ToolCall, id="c", name="n", arguments='{"a": "\\ud83d"}'),
        refuses(define, description="\ud83d"),
    ],
)
def test_a_lone_surrogate_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        make()
    assert replace_lone_surrogates("a\ud83d") == "a\ufffd"


@pytest.mark.requirement("NFR-004a-31")
@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"user","content":[{"type":"text","text":"Hi"}],"mood":1.50}',
        b'{"type":"user","content":[{"type":"text","text":"Hi","tone":{"b": [1,2]}}]}',
        b'{"type":"tool_result","tool_call_id":"c","content":[],"new":null}',
        b'{"type":"assistant","content":[{"type":"tool_call","id":"c","name":"n","arguments":"{ }","x":"y"}]}',
    ],
)
def test_unexpected_properties_are_kept_and_written_again(data: bytes) -> None:
    message = decode_message(data)
    assert isinstance(message, ChatMessage)
    assert not isinstance(message.content[0], Opaque) if message.content else True
    assert encode_message(message) == data


@pytest.mark.requirement("NFR-004a-31")
def test_unexpected_properties_of_a_flat_message_are_no_error() -> None:
    message = decode_message('{"role": "user", "content": "Hi", "name": "bob", "x": {"y": 1}}')
    assert isinstance(message, UserMessage)
    assert message.text == "Hi"
    assert json.loads(encode_message(message)).items() >= {"name": "bob", "x": {"y": 1}}.items()


@pytest.mark.requirement("NFR-004a-32")
def test_many_threads_add_to_one_history_and_nothing_is_lost_or_torn() -> None:
    history = ConversationHistory(alternating=False)
    writers, each = 6, 25
    finished = threading.Event()

    def write(writer: int) -> None:
        switch_threads_often()
        for n in range(each):
            history.add(ChatMessage.user(f"{writer}:{n}"))

    def read() -> bool:
        before: tuple[object, ...] = ()
        while not finished.is_set():
            now = history.messages
            assert now[: len(before)] == before
            assert len(list(history)) >= len(now)
            before = now
        return True

    with ThreadPoolExecutor(8) as threads:
        readers = [threads.submit(read) for _ in range(2)]
        try:
            list(threads.map(write, range(writers)))
        finally:
            finished.set()
        assert all(reader.result(timeout=60) for reader in readers)
    texts = [message.text for message in history.messages]
    assert len(history) == writers * each
    for writer in range(writers):
        own = [text for text in texts if text and text.startswith(f"{writer}:")]
        assert own == [f"{writer}:{n}" for n in range(each)]


@pytest.mark.requirement("NFR-004a-32")
def test_many_threads_answer_the_calls_of_one_message_and_no_answer_is_forgotten() -> None:
    """The history knows which calls still wait, and threads change this at the same time."""
    calls = [ToolCall(id=f"c{n}", name="read") for n in range(40)]
    turn = [ChatMessage.user("Read."), ChatMessage.assistant(None, calls)]
    history = ConversationHistory(turn, alternating=False)

    def answer(start: threading.Barrier, own: list[ToolCall]) -> None:
        start.wait(timeout=60)
        switch_threads_often()
        for call in own:
            history.add(ToolResult.success(call.id, "done"))

    with ThreadPoolExecutor(8) as threads:
        parts = [calls[n::8] for n in range(8)]
        list(threads.map(answer, [threading.Barrier(8)] * 8, parts))
    answered = [message.tool_call_id for message in history.messages[2:]]
    assert sorted(map(str, answered)) == sorted(call.id for call in calls)
    history.check_complete()
    history.add(ChatMessage.assistant("Done."))


# -- Maintainability ------------------------------------------------------------------------------

OUTER_LAYERS = {
    *("agent", "app", "cli", "context", "formats", "inputs", "log", "providers", "render"),
    *("store", "testing", "tools", "transport", "ui", "wire"),
}


@pytest.mark.requirement("NFR-004a-33")
def test_the_message_types_load_no_outer_layer_and_no_library_that_touches_the_world() -> None:
    program = (
        "import sys, steno, steno.messages, steno.codec\n"
        "from steno import ChatMessage, ConversationHistory, ToolCall\n"
        "history = ConversationHistory([ChatMessage.system('a'), ChatMessage.user('b')])\n"
        "history.add(ChatMessage.assistant(None, [ToolCall.create('ls', {})]))\n"
        "steno.codec.decode_messages(steno.codec.encode_messages(history))\n"
        "print(*sys.modules)"
    )
    loaded = set(run_python(program).split())
    assert "steno.messages" in loaded
    ours = {name.split(".")[1] for name in loaded if name.startswith("steno.")}
    assert not ours & OUTER_LAYERS
    tops = {name.partition(".")[0] for name in loaded}
    assert not tops & {
        "asyncio",
        "http",
        "multiprocessing",
        "select",
        "socket",
        "sqlite3",
        "ssl",
        "subprocess",
        "tempfile",
        "urllib",
        "aiohttp",
        "httpx",
        "textual",
        "rich",
        "psycopg",
    }


def public_objects() -> Iterator[tuple[str, Any]]:
    """Yield the public classes and functions of the types, and the members of the classes."""
    for module in (steno, steno.messages, steno.codec):
        for name in module.__all__:
            value = getattr(module, name)
            if not (inspect.isclass(value) or inspect.isroutine(value)):
                continue  # an alias of a union
            place = f"{module.__name__}.{name}"
            yield place, value
            if inspect.isclass(value):
                yield from members_of(value, place)


def members_of(cls: type, place: str) -> Iterator[tuple[str, Any]]:
    for base in reversed(cls.__mro__):  # the member of a subclass is the last with its name
        if base.__module__.partition(".")[0] == "steno":
            for name, member in vars(base).items():
                is_code = inspect.isroutine(member) or isinstance(
                    member, property | classmethod | staticmethod
                )
                if is_code and not name.startswith("_"):
                    yield f"{place}.{name}", member


PUBLIC_OBJECTS = dict(public_objects())


@pytest.mark.requirement("NFR-004a-34")
def test_every_public_class_function_method_and_property_has_a_docstring() -> None:
    assert len(PUBLIC_OBJECTS) > 150
    missing = [name for name, value in PUBLIC_OBJECTS.items() if not own_docstring(value)]
    assert missing == []


def own_docstring(value: Any) -> str | None:
    """Return the docstring that the source has for a value: not that of a base class."""
    doc: str | None = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    return doc


def function_of(value: Any) -> Callable[..., object] | None:
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    return value if inspect.isfunction(value) else None


@pytest.mark.requirement("NFR-004a-35")
def test_the_package_is_typed_and_every_public_function_is_annotated() -> None:
    assert (importlib.resources.files("steno") / "py.typed").is_file()
    bare = []
    for name, value in PUBLIC_OBJECTS.items():
        if function := function_of(value):
            parameters = [
                p for p in inspect.signature(function).parameters if p not in {"self", "cls"}
            ]
            if missing := {*parameters, "return"} - function.__annotations__.keys():
                bare.append(f"{name}: {missing}")
    assert bare == []


NONE_UNCHECKED = """\
from steno import *

message: Message = ChatMessage.user("Hello")
call = ToolCall.create("read", {"path": "a.py"})
delta = ToolCallDelta(0)

str(message.text).upper()
message.tool_calls[0].name.upper()
call.get("path", str, "").upper()
call.original_name or call.name.upper()
message.text.upper()  # union-attr
message.tool_call_id.upper()  # union-attr
call.get("path", str).upper()  # union-attr
delta.id.upper()  # union-attr
delta.arguments_delta.upper()  # union-attr
ConversationHistory().last.role  # union-attr
ChatMessage.user(None)  # arg-type
ChatMessage.system(None)  # arg-type
ChatMessage.tool_result("c", None)  # arg-type
ToolCall(id=None, name="read")  # arg-type
ToolResult.error("c", None)  # arg-type
ToolDefinition(name="read", description="Read.", parameters=None)  # arg-type
TextDelta(0, None)  # arg-type
"""


@pytest.mark.requirement("NFR-004a-35")
def test_the_type_checker_finds_a_value_that_may_be_none(tmp_path: Path) -> None:
    expected = [
        f"{number} [{line.partition('#')[2].strip()}]"
        for number, line in enumerate(NONE_UNCHECKED.splitlines(), start=1)
        if "#" in line
    ]
    errors = type_errors(NONE_UNCHECKED, tmp_path)
    assert [f"{error.split(':')[1]} {error.rpartition('  ')[2]}" for error in errors] == expected


TYPES: list[tuple[Any, dict[str, Any]]] = [
    (SystemMessage, {"content": (Text("Hi"),)}),
    (UserMessage, {"content": (Text("Hi"),)}),
    (AssistantMessage, {"content": (Text("Hi"),), "stop_reason": None, "usage": None}),
    (
        ToolResultMessage,
        {
            "tool_call_id": "c",
            "content": (Text("Hi"),),
            "outcome": Outcome.OK,
            "details": None,
            "duration_s": None,
        },
    ),
    (ToolCall, {"id": "c", "name": "n", "arguments": "{}", "original_name": None, "seal": None}),
    (InvalidToolCall, {"id": "c", "name": "n", "arguments": "{", "reason": "cut", "seal": None}),
    (ToolDefinition, {"name": "n", "description": "d", "parameters": SCHEMA, "strict": True}),
    (ToolCallDelta, {"index": 0, "id": None, "name": None, "arguments_delta": None}),
    (Text, {"text": "Hi"}),
    (Seal, {"data": "d", "provider": "p", "api": "a", "model": "m"}),
    (Request, {"messages": (USER,), "model": "m", "tools": (), "max_tokens": None}),
]


@pytest.mark.requirement("NFR-004a-35")
@pytest.mark.parametrize(
    ("kind", "fields"), TYPES, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_field_is_none_only_if_its_type_allows_it(kind: Any, fields: dict[str, Any]) -> None:
    hints = typing.get_type_hints(kind)
    for name in fields:
        make = partial(kind, **fields | {name: None})
        if type(None) in typing.get_args(hints[name]):
            assert getattr(make(), name) is None
        else:
            with pytest.raises(ValueError, match=r"\w"):
                make()


@pytest.mark.requirement("NFR-004a-39")
@pytest.mark.parametrize(
    ("kind", "fields"), TYPES, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_field_refuses_a_value_of_another_type(kind: Any, fields: dict[str, Any]) -> None:
    """Also the fields that `BROKEN_RULES` does not name."""
    names = {*kind.__struct_fields__}
    assert names >= {*fields}
    if kind is ToolCallDelta:  # a provider may send anything as id and name; the Assembler checks
        names -= {"id", "name"}
    for name in names:
        with pytest.raises(InvalidValue) as caught:
            kind(**fields | {name: object()})
        assert caught.value.field == name


@pytest.mark.requirement("NFR-004a-36")
@pytest.mark.parametrize(
    ("kind", "fields"), TYPES, ids=lambda value: getattr(value, "__name__", "")
)
def test_fields_are_set_by_name_when_a_value_is_made_and_never_again(
    kind: Any, fields: dict[str, Any]
) -> None:
    value = kind(**fields)
    if len(fields) > 1 and kind is not ToolCallDelta:  # an event begins with its index
        with pytest.raises(TypeError):
            kind(*fields.values())
    for name, field in fields.items():
        assert getattr(value, name) == (define().parameters if name == "parameters" else field)
        with pytest.raises(AttributeError):
            setattr(value, name, field)


@pytest.mark.requirement("NFR-004a-37")
@pytest.mark.parametrize("value", [*VALUES, *CALLS.content, *USER.content], ids=type_name)
def test_a_value_has_no_setters(value: object) -> None:
    assert_immutable(value)
    properties = [
        member for _, member in inspect.getmembers(type(value)) if type(member) is property
    ]
    assert all(member.fset is None and member.fdel is None for member in properties)
    assert [name for name in dir(value) if name.startswith("set_")] == []


FACTORIES: list[Callable[..., object]] = [
    *(ChatMessage.system, ChatMessage.user, ChatMessage.assistant, ChatMessage.tool_result),
    *(ToolCall.create, ToolResult.success, ToolResult.error, MessageRole.parse),
    *(ToolDefinition.from_type, ToolDefinition.from_function),
]


@pytest.mark.requirement("NFR-004a-38")
@pytest.mark.parametrize("factory", FACTORIES, ids=lambda factory: factory.__qualname__)
def test_a_factory_documents_what_it_requires(factory: Callable[..., object]) -> None:
    doc = inspect.getdoc(factory) or ""
    assert re.search(r"Raises Invalid(Message|Tool)\s(if|for)\s", doc)


CODE_BLOCK = re.compile(
    r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL
)


def examples() -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the examples about the types by name: their code, and the output that they show."""
    for guide in ("messages", "order", "streams", "tools", "format"):
        blocks = CODE_BLOCK.findall((PROJECT / f"docs/guides/{guide}.md").read_text("utf-8"))
        assert blocks
        for number, block in enumerate(blocks, start=1):
            yield f"{guide}.md:{number}", block
    for program in sorted((PROJECT / "examples").glob("0[1-4]_*.py")):
        output = program.parent / "output" / f"{program.stem}.txt"
        yield program.name, (program.read_text("utf-8"), output.read_text("utf-8"))


EXAMPLES = dict(examples())


@pytest.mark.requirement("NFR-004a-40")
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_documentation_runs_and_prints_what_it_shows(example: str) -> None:
    code, shown = EXAMPLES[example]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, example, "exec", dont_inherit=True), {"__name__": example})
    assert printed.getvalue() == shown


@pytest.mark.requirement("NFR-004a-40")
@pytest.mark.parametrize(
    "name",
    [
        *("MessageRole", "ChatMessage", "ToolCall", "ToolResult"),
        *("ToolDefinition", "ToolCallDelta", "ConversationHistory"),
    ],
)
def test_each_type_of_the_document_is_used_in_an_example(name: str) -> None:
    """A name that is only imported is not used."""
    codes = [ast.parse(code) for code, _ in EXAMPLES.values()]
    assert name in {node.id for code in codes for node in ast.walk(code) if type(node) is ast.Name}
