"""Strategies for text, names, times and JSON, and for blocks and tool calls.

Text is anything that UTF-8 can encode; characters that often break code are drawn more often than
others. With `named_strategy`, Hypothesis prints only the name and arguments of a strategy. By
default it prints all nested strategies, which are 46 kB for a document in the report of every
failed test.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import cache, wraps
from typing import Any, Final, ParamSpec, TypeVar, get_args

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec.structs import replace

from steno.json_object import JsonObject
from steno.messages.call import InvalidToolCall, Seal, ToolCall, map_tool_name
from steno.messages.content import (
    OWN_FORMAT,
    Block,
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageSource,
    ImageUrl,
    Opaque,
    RecognitionMode,
    Resource,
    Text,
    Thinking,
)
from steno.records.entry import Payload
from steno.values import Sendable

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=Sendable)
KNOWN_TAGS: Final = frozenset(
    {"record"} | {kind.__struct_config__.tag for kind in get_args(Block | Payload | ImageSource)}
)
"""All values of the `type` member in the stored format, and `record`, which the codec reserves."""
ODD_CHARACTERS: Final = (
    "\0\a\b\t\n\r\x1b\x1f \"'\\/<&{}[],:%"  # control characters and syntax characters
    "\x7f\x85\xa0\xad\u2028\u2029"  # DEL, and line ends and spaces that are not ASCII
    "\u0301\u200d\u200b\u200f\u202e\ufe0f\ufeff"  # combining, joining, right to left, invisible
    "éÅſßıİ日\ufffd\uffff"  # several normal forms, unusual case mappings, noncharacters
    "😀👩🏽\U00010000\U0010ffff"  # surrogate pairs in UTF-16
)
"""Characters that are legal in text but often break code."""
_ANY_CHARACTER: Final = st.characters(codec="utf-8")
_VISIBLE: Final = st.characters(
    codec="utf-8", exclude_categories=("Cc", "Zs", "Zl", "Zp")
) | st.sampled_from("aZ0_😀")
_NAME_CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
_MINUTES_A_DAY: Final = 24 * 60
_SPACINGS: Final = ((",", ":"), (", ", ": "), (" ,\n", "\t:\r\n "))
_SURROUNDINGS: Final = ("{}", "{}", " {}", "\n{}\t")
_ODD_OBJECTS: Final = (
    "{}",
    "{ }",
    '{"a":1.0e5,"b":-0,"c":1E+2}',
    '{"a":1,"a":2}',
    '{"\\u0061":"\\ud83d\\ude00\\/"}',
    '{"n":18446744073709551616}',
    '{"a":"{\\"b\\":\\"}\\"}"}',
)


def named_strategy(function: Callable[P, SearchStrategy[T]]) -> Callable[P, SearchStrategy[T]]:
    """Decorate a function so that Hypothesis prints its strategies as calls of the function.

    The strategies are cached by the arguments of the function.
    """
    build: Callable[..., SearchStrategy[T]] = cache(function)

    def draw_one(draw: DrawFn, *args: Any, **kwargs: Any) -> T:
        return draw(build(*args, **kwargs))

    draw_one.__name__ = function.__name__
    strategy = wraps(function)(st.composite(draw_one))
    vars(strategy).pop("__signature__", None)  # inspect uses __wrapped__ instead
    return strategy


# -- text --------------------------------------------------------------------------------------


@named_strategy
def texts(*, min_size: int = 0, max_size: int | None = None) -> SearchStrategy[str]:
    """Draw text of any characters except surrogates, including empty text if `min_size` is 0."""
    return st.text(_ANY_CHARACTER, min_size=min_size, max_size=max_size) | st.text(
        st.sampled_from(ODD_CHARACTERS), min_size=min_size, max_size=max_size
    )


@named_strategy
def visible_texts() -> SearchStrategy[str]:
    """Draw text with a character that is neither whitespace nor a control character.

    User messages, prompts and descriptions require such text.
    """
    return st.builds("{}{}{}".format, texts(max_size=20), _VISIBLE, texts(max_size=20))


@named_strategy
def identifiers() -> SearchStrategy[str]:
    """Draw any non-empty text, for the ids of calls, entries and documents."""
    return texts(min_size=1, max_size=24)


@named_strategy
def tool_names() -> SearchStrategy[str]:
    """Draw valid tool names of 1 to 64 ASCII letters, digits and underscores."""
    return st.text(st.sampled_from(_NAME_CHARACTERS), min_size=1, max_size=64)


@named_strategy
def outside_tool_names() -> SearchStrategy[str]:
    """Draw tool names that are invalid in steno, which `map_tool_name` must map to valid names."""
    outside = st.text(st.sampled_from(_NAME_CHARACTERS + ".:/-"), max_size=100)
    # The maximum length is 128. Truncation may remove the invalid character, so add one.
    return st.builds("{}{}{}".format, outside, st.sampled_from(".:/-"), outside).map(
        lambda name: name if len(name) <= 128 else f"{name[:127]}-"
    )


# -- time --------------------------------------------------------------------------------------


@named_strategy
def moments() -> SearchStrategy[datetime]:
    """Draw times with a time zone, from year 1 to 9999, with microseconds."""
    offsets = st.integers(1 - _MINUTES_A_DAY, _MINUTES_A_DAY - 1).map(
        lambda minutes: timezone(timedelta(minutes=minutes))
    )
    return st.datetimes(
        # Over a day from either limit, so that a time in any time zone can be converted to UTC.
        min_value=datetime(1, 1, 3),  # noqa: DTZ001 - hypothesis adds the zone
        max_value=datetime(9999, 12, 29),  # noqa: DTZ001 - hypothesis adds the zone
        timezones=st.just(UTC) | offsets,
    )


# -- JSON --------------------------------------------------------------------------------------


@named_strategy
def json_values(*, max_leaves: int = 8) -> SearchStrategy[Any]:
    """Draw plain JSON values with any strings, big integers, finite floats and deep nesting."""
    scalars = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.integers(-(2**200), -(2**64))
        | st.integers(2**64, 2**200)
        | st.floats(allow_nan=False, allow_infinity=False)
        | texts(max_size=20)
    )
    shallow: SearchStrategy[Any] = st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(texts(max_size=10), inner, max_size=4)
        ),
        max_leaves=max_leaves,
    )
    return shallow | st.builds(_nest_value, shallow, st.integers(1, 60), st.booleans())


def _nest_value(value: Any, depth: int, in_objects: bool) -> Any:
    for _ in range(depth):
        value = {"": value} if in_objects else [value]
    return value


@named_strategy
def json_members(*, max_leaves: int = 8) -> SearchStrategy[dict[str, Any]]:
    """Draw plain dictionaries that JSON can encode."""
    return st.dictionaries(texts(max_size=10), json_values(max_leaves=max_leaves), max_size=4)


@named_strategy
def json_objects() -> SearchStrategy[JsonObject]:
    """Draw JSON objects that are read-only at every level."""
    return json_members().map(JsonObject)


@named_strategy
def json_object_texts() -> SearchStrategy[str]:
    """Draw JSON objects as text, with spacing and escapes as a model may write them."""
    written = st.builds(
        json.dumps,
        json_members(),
        separators=st.sampled_from(_SPACINGS),
        ensure_ascii=st.booleans(),
    )
    surrounded = st.builds(str.format, st.sampled_from(_SURROUNDINGS), written)
    return surrounded | st.sampled_from(_ODD_OBJECTS)


# -- seals, extras and text blocks -------------------------------------------------------------


@named_strategy
def seals() -> SearchStrategy[Seal]:
    """Draw seals, which hold signatures or encrypted reasoning of a provider."""
    return st.builds(
        Seal, data=texts(min_size=1), provider=texts(), api=texts(max_size=8), model=texts()
    )


@named_strategy
def extras() -> SearchStrategy[JsonObject]:
    """Draw extras, which map the name of a wire to members that only this wire uses."""
    wires = st.sampled_from(["openai_chat", "anthropic_messages", "a_wire_of_theirs"])
    members = json_members(max_leaves=3)
    return st.dictionaries(wires, members, min_size=1, max_size=2).map(JsonObject)


def maybe_with_extras(values: SearchStrategy[S]) -> SearchStrategy[S]:
    """Draw from `values`, and add extras to some of them."""
    return values | values | st.builds(_with_extras, values, extras())


def _with_extras(value: S, extras: JsonObject) -> S:
    return replace(value, extras=extras)


@named_strategy
def text_blocks() -> SearchStrategy[Text]:
    """Draw text blocks, some of them empty or with a seal."""
    return maybe_with_extras(st.builds(Text, texts(), seal=_rarely(seals())))


@named_strategy
def thinking_blocks() -> SearchStrategy[Thinking]:
    """Draw thinking blocks that are plain, sealed or redacted."""
    return maybe_with_extras(
        st.builds(Thinking, texts(), seal=_rarely(seals()))
        | st.builds(Thinking, texts(), seal=seals(), redacted=st.just(True))
    )


# -- images and references ---------------------------------------------------------------------


@named_strategy
def image_sources() -> SearchStrategy[ImageSource]:
    """Draw image sources, which are bytes, blobs, URLs or files."""
    schemes = st.sampled_from(("https://", "http://"))
    return st.one_of(
        st.builds(ImageData, st.binary(min_size=1, max_size=20)),
        st.builds(ImageBlob, sha256=digests(), size=st.integers(1, 2**70)),
        st.builds(ImageUrl, st.builds("{}{}".format, schemes, texts())),
        st.builds(ImageFile, file_paths()),
    )


@named_strategy
def images() -> SearchStrategy[Image]:
    """Draw images with every kind of source and every recognition mode."""
    mime_types = st.builds("image/{}".format, texts(max_size=8))
    return maybe_with_extras(
        image_sources().flatmap(
            lambda source: st.builds(
                Image,
                source=st.just(source),
                mime_type=mime_types
                if isinstance(source, (ImageData, ImageBlob))
                else st.none() | mime_types,
                mode=st.sampled_from(RecognitionMode),
            )
        )
    )


@named_strategy
def file_paths() -> SearchStrategy[str]:
    """Draw paths as users type them, relative or absolute.

    They are not normalized, so they may contain `..` and `.` segments; the normalized path never
    begins with `..`.
    """
    characters = st.characters(codec="utf-8", exclude_characters="\0")
    step = st.text(characters, min_size=1, max_size=8) | st.sampled_from(("..", ".", "a"))
    path = st.lists(step, min_size=1, max_size=5).map("/".join)
    return st.builds("{}{}".format, st.sampled_from(("", "", "/", "./")), path).filter(
        lambda path: posixpath.normpath(path).split("/")[0] != ".."
    )


@named_strategy
def file_references() -> SearchStrategy[FileReference]:
    """Draw references to whole files, to single lines and to ranges of lines."""
    lines = st.integers(1, 2**70)
    ranges = st.tuples(lines, lines).map(sorted)
    return st.one_of(
        st.builds(FileReference, path=file_paths(), start_line=st.none() | lines),
        st.builds(_reference, file_paths(), ranges),
    )


def _reference(path: str, lines: list[int]) -> FileReference:
    return FileReference(path=path, start_line=lines[0], end_line=lines[1])


@named_strategy
def resources() -> SearchStrategy[Resource]:
    """Draw resources of MCP servers, with text, with bytes or with only a URI."""
    common: dict[str, SearchStrategy[Any]] = {
        "server": identifiers(),
        "uri": identifiers(),
        "mime_type": st.none() | texts(max_size=8),
        "retrieved_at": st.none() | moments(),
    }
    return st.one_of(
        st.builds(Resource, **common),
        st.builds(Resource, **common, text=texts()),
        st.builds(Resource, **common, data=st.binary(max_size=20)),
    )


# -- calls -------------------------------------------------------------------------------------


@named_strategy
def tool_calls(ids: SearchStrategy[str] | None = None) -> SearchStrategy[ToolCall]:
    """Draw valid calls, whose arguments are the text of a JSON object."""
    return maybe_with_extras(
        st.builds(
            _call,
            tool_names() | outside_tool_names(),
            id=identifiers() if ids is None else ids,
            arguments=json_object_texts(),
            seal=_rarely(seals()),
        )
    )


def _call(outside: str, *, id: str, arguments: str, seal: Seal | None) -> ToolCall:
    name = map_tool_name(outside)
    original_name = None if name == outside else outside
    return ToolCall(id=id, name=name, arguments=arguments, original_name=original_name, seal=seal)


@named_strategy
def invalid_tool_calls(ids: SearchStrategy[str] | None = None) -> SearchStrategy[InvalidToolCall]:
    """Draw invalid calls, whose name and arguments are any text."""
    return maybe_with_extras(
        st.builds(
            InvalidToolCall,
            id=identifiers() if ids is None else ids,
            name=texts(),
            arguments=texts() | json_object_texts(),
            reason=texts(),
            seal=_rarely(seals()),
        )
    )


# -- unknown blocks ----------------------------------------------------------------------------


@named_strategy
def opaque_blocks() -> SearchStrategy[Opaque]:
    """Draw blocks of unknown types, from a wire or from a newer version of steno."""
    origins = texts(min_size=1).filter(lambda origin: origin != OWN_FORMAT)
    foreign = st.builds(Opaque, kind=texts(), raw=json_object_texts(), origin=origins)
    return foreign | st.builds(
        _own_format_opaque, unknown_tags(), json_members(max_leaves=3), st.booleans()
    )


@named_strategy
def unknown_tags() -> SearchStrategy[str]:
    """Draw values of the `type` member that the stored format does not define."""
    return texts(max_size=12).filter(lambda tag: tag not in KNOWN_TAGS) | st.sampled_from(
        ("audio", "Text", "text ", "tool-call", "message")
    )


def _own_format_opaque(kind: str, members: dict[str, Any], is_tag_last: bool) -> Opaque:
    tag = {"type": kind}
    rest = {name: member for name, member in members.items() if name != "type"}
    raw = json.dumps(rest | tag if is_tag_last else tag | rest, ensure_ascii=False)
    return Opaque(kind=kind, raw=raw, origin=OWN_FORMAT)


# -- all of them -------------------------------------------------------------------------------


@named_strategy
def blocks() -> SearchStrategy[Block]:
    """Draw blocks of every kind."""
    return st.one_of(
        text_blocks(),
        thinking_blocks(),
        images(),
        file_references(),
        resources(),
        tool_calls(),
        invalid_tool_calls(),
        opaque_blocks(),
    )


def digests() -> SearchStrategy[str]:
    """Draw SHA-256 digests in hexadecimal."""
    return st.binary(min_size=32, max_size=32).map(bytes.hex)


def _rarely(seals: SearchStrategy[Seal]) -> SearchStrategy[Seal | None]:
    return st.none() | st.none() | seals
