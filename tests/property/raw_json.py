"""JSON as text: written, spaced and escaped in every way that JSON allows.

What has to survive byte for byte cannot be made by an encoder, which would write it in one way.
`parse` gives a tree that remembers the order and the text of everything, `render` writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from steno.testing import texts
from steno.testing.strategies.block_strategies import KNOWN_TAGS
from steno.values import Value


@dataclass
class Raw:
    """Text that is written as it is: a scalar, or a whole value that was made elsewhere."""

    text: str


@dataclass
class Array:
    """An array; its parts can be changed."""

    parts: list[Node]


@dataclass
class Object:
    """An object; names are raw text with their quotes, so that they can be escaped."""

    members: list[tuple[str, Node]] = field(default_factory=list)

    def __contains__(self, name: str) -> bool:
        return any(json.loads(key) == name for key, _ in self.members)

    def __getitem__(self, name: str) -> Node:
        return next(node for key, node in self.members if json.loads(key) == name)


Node: TypeAlias = Raw | Array | Object


def quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+)\s*', re.DOTALL)


def parse(text: str | bytes) -> Node:
    """Read JSON. Scalars keep their text, and so does an object of a type that steno does not know."""
    node, _ = _read(text if isinstance(text, str) else text.decode(), 0)
    return node


def _read(text: str, start: int) -> tuple[Node, int]:
    token, at = _next(text, start)
    if token not in ("[", "{"):
        return Raw(token), at
    found = Array([]) if token == "[" else Object()
    while _next(text, at)[0] not in ("]", "}"):
        key = ""
        if isinstance(found, Object):
            key, at = _next(text, at)
            at = _next(text, at)[1]
        part, at = _read(text, at)
        if isinstance(found, Object):
            found.members.append((key, part))
        else:
            found.parts.append(part)
        if _next(text, at)[0] == ",":
            at = _next(text, at)[1]
    at = _next(text, at)[1]
    if isinstance(found, Object) and "type" in found and _tag(found) not in KNOWN_TAGS:
        return Raw(text[start:at].strip()), at
    return found, at


def _next(text: str, at: int) -> tuple[str, int]:
    match = _TOKEN.match(text, at)
    assert match is not None
    return match[1], match.end()


def _tag(node: Object) -> object:
    tag = node["type"]
    return json.loads(tag.text) if isinstance(tag, Raw) else None


def render(node: Node, spaces: Iterator[str]) -> str:
    """Write a tree with the next of `spaces` wherever JSON allows one, except around `Raw`."""
    if isinstance(node, Raw):
        return node.text
    if isinstance(node, Array):
        inner = ",".join([next(spaces) + render(part, spaces) for part in node.parts])
        return f"[{inner}{next(spaces)}]"
    members = [
        f"{next(spaces)}{key}{next(spaces)}:{next(spaces)}{render(part, spaces)}{next(spaces)}"
        for key, part in node.members
    ]
    return f"{{{','.join(members)}{next(spaces)}}}"


# -- text that no encoder would write ----------------------------------------------------------

_SPACES = st.sampled_from(("", "", "", " ", "\t", "\r\n", " \n\t "))
NUMBERS = (
    *("0", "-0", "-0.0", "1.0", "1.0e5", "1E+2", "1e-400", "1e400", "0.1e1", "1.10"),
    *("9007199254740993", "123456789012345678901234567890", "-1e-7", "9" * 400),
)
STRINGS = (
    *('""', '"\\u0041"', '"\\/"', '"\\ud83d\\ude00"', '"\\u2028"', '"\u2028"', '"\\\\"'),
    *('"\\""', '"{"', '"]"', '","', '"\\\\\\""', '"\\u0000"', '"\x7f"', '"\ufeff"', '"\\b\\f"'),
)


@cache
def strings() -> SearchStrategy[str]:
    """Strings of JSON, raw, with their quotes."""
    return st.sampled_from(STRINGS) | st.builds(json.dumps, texts(), ensure_ascii=st.booleans())


@cache
def values() -> SearchStrategy[str]:
    """The text of any JSON value, with no space around it."""
    scalars = st.one_of(
        st.sampled_from(("null", "true", "false")), st.sampled_from(NUMBERS), strings()
    )
    return st.recursive(scalars, lambda inner: _arrays(inner) | objects(inner), max_leaves=6)


def _arrays(inner: SearchStrategy[str]) -> SearchStrategy[str]:
    part = st.builds("{}{}{}".format, _SPACES, inner, _SPACES)
    return st.lists(part, max_size=3).map(lambda parts: f"[{','.join(parts)}]")


def objects(
    inner: SearchStrategy[str], names: SearchStrategy[str] | None = None
) -> SearchStrategy[str]:
    """The text of objects, now and then with the same name twice."""
    name = strings() if names is None else names
    member = st.builds("{}{}{}:{}{}{}".format, _SPACES, name, _SPACES, _SPACES, inner, _SPACES)
    return st.lists(member, max_size=3).map(lambda parts: f"{{{','.join(parts)}}}")


@cache
def spacings() -> SearchStrategy[Iterator[str]]:
    """Endless spaces for `render`; the same ones for the same example."""
    return st.lists(_SPACES, max_size=12).map(_endless)


def _endless(spaces: list[str]) -> Iterator[str]:
    while True:
        yield from spaces or [""]


# -- our own names -----------------------------------------------------------------------------


def _vocabulary(kind: type[Value]) -> Iterator[str]:
    yield from kind.__struct_encode_fields__
    if kind.__struct_config__.tag_field is not None:
        yield kind.__struct_config__.tag_field
    for inner in kind.__subclasses__():
        yield from _vocabulary(inner)


KNOWN_NAMES = frozenset(_vocabulary(Value)) - {"unknown"}
"""Every name that a member of the stored format has; a newer format may well call one `unknown`."""

LOOKALIKES = ("unknown", "Text", "text ", "TYPE", "contents", "_type", "__proto__", "x", "x")


@cache
def unknown_names() -> SearchStrategy[str]:
    """Names, raw, that this version has no meaning for, however they are escaped."""
    name = st.sampled_from(LOOKALIKES).map(quote) | strings()
    return name.filter(lambda raw: json.loads(raw) not in KNOWN_NAMES)
