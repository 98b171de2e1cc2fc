"""Strategies for content blocks and tool calls."""

from __future__ import annotations

import json
import posixpath
from typing import Any, Final, TypeVar, get_args

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
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
from steno.testing.strategies.primitive_strategies import (
    identifiers,
    json_members,
    json_object_texts,
    moments,
    named_strategy,
    outside_tool_names,
    texts,
    tool_names,
)
from steno.values import Sendable

S = TypeVar("S", bound=Sendable)

KNOWN_TAGS: Final = frozenset(
    {"record"} | {kind.__struct_config__.tag for kind in get_args(Block | Payload | ImageSource)}
)
"""The `type` of everything in the stored format, and `record`, which the codec uses itself."""


@named_strategy
def seals() -> SearchStrategy[Seal]:
    """Signatures and encrypted reasoning."""
    return st.builds(
        Seal, data=texts(min_size=1), provider=texts(), api=texts(max_size=8), model=texts()
    )


@named_strategy
def extras() -> SearchStrategy[JsonObject]:
    """Members that only one wire knows, by wire."""
    wires = st.sampled_from(["openai_chat", "anthropic_messages", "a_wire_of_theirs"])
    members = json_members(max_leaves=3)
    return st.dictionaries(wires, members, min_size=1, max_size=2).map(JsonObject)


def maybe_with_extras(values: SearchStrategy[S]) -> SearchStrategy[S]:
    """Return the same values, some of them with extras."""
    return values | values | st.builds(_with_extras, values, extras())


def _with_extras(value: S, extras: JsonObject) -> S:
    return replace(value, extras=extras)


@named_strategy
def text_blocks() -> SearchStrategy[Text]:
    """Text blocks, empty ones and sealed ones among them."""
    return maybe_with_extras(st.builds(Text, texts(), seal=_rarely(seals())))


@named_strategy
def thinking_blocks() -> SearchStrategy[Thinking]:
    """Thinking, open, sealed or redacted."""
    return maybe_with_extras(
        st.builds(Thinking, texts(), seal=_rarely(seals()))
        | st.builds(Thinking, texts(), seal=seals(), redacted=st.just(True))
    )


# -- images and references ---------------------------------------------------------------------


@named_strategy
def image_sources() -> SearchStrategy[ImageSource]:
    """Sources of images: bytes, a blob, a URL, a file."""
    return st.one_of(
        st.builds(ImageData, _some_bytes()),
        st.builds(ImageBlob, sha256=_digests(), size=st.integers(1, 2**70)),
        st.builds(ImageUrl, st.builds("{}{}".format, _SCHEMES, texts())),
        st.builds(ImageFile, file_paths()),
    )


@named_strategy
def images() -> SearchStrategy[Image]:
    """Images of every source and mode of recognition."""
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
    """Paths as users write them: relative or absolute, not always tidy, never above their start."""
    step = st.text(_PATH_CHARACTERS, min_size=1, max_size=8) | st.sampled_from(("..", ".", "a"))
    path = st.lists(step, min_size=1, max_size=5).map("/".join)
    return st.builds("{}{}".format, st.sampled_from(("", "", "/", "./")), path).filter(
        lambda path: posixpath.normpath(path).split("/")[0] != ".."
    )


@named_strategy
def file_references() -> SearchStrategy[FileReference]:
    """References to whole files, from a line on, and to ranges of lines."""
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
    """Resources of MCP servers: text, bytes or a bare link."""
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
    """Calls that can be run; the arguments are any text of a JSON object."""
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
    """Calls that cannot run: the name, the arguments or both are any text."""
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
    """Blocks of a wire, or of a newer steno, that this version does not know."""
    origins = texts(min_size=1).filter(lambda origin: origin != OWN_FORMAT)
    foreign = st.builds(Opaque, kind=texts(), raw=json_object_texts(), origin=origins)
    return foreign | st.builds(
        _own_format_opaque, unknown_tags(), json_members(max_leaves=3), st.booleans()
    )


@named_strategy
def unknown_tags() -> SearchStrategy[str]:
    """Tags that are no `type` of the stored format."""
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
    """Blocks of every kind."""
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


_SCHEMES: Final = st.sampled_from(("https://", "http://"))
_PATH_CHARACTERS: Final = st.characters(codec="utf-8", exclude_characters="\0")


def _some_bytes() -> SearchStrategy[bytes]:
    return st.binary(min_size=1, max_size=20)


def _digests() -> SearchStrategy[str]:
    return st.binary(min_size=32, max_size=32).map(bytes.hex)


def _rarely(seals: SearchStrategy[Seal]) -> SearchStrategy[Seal | None]:
    return st.none() | st.none() | seals
