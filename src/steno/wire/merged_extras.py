"""Merge response metadata that arrives in several chunks: sources, log probabilities.

An empty part changes nothing. Some servers repeat everything so far in each chunk. Of a value that
is neither a list nor an object the latest holds. Parts stay JSON text until they are merged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, final

from msgspec import Raw

from steno.wire.extras import is_nonempty
from steno.wire.tolerant import parse_extras

_EMPTY_JSON: Final = frozenset({b"", b"null", b'""', b"[]", b"{}"})
_MAX_EMPTY_LENGTH: Final = 80
"""No server indents an empty value further than this."""


@final
class MergedExtras:
    """Members by name, each with the parts that arrived."""

    def __init__(self, *, repeated: Collection[str] = (), growing: Collection[str] = ()) -> None:
        """Start without any.

        Servers send all parts so far again for the names in `repeated`. A text under a name in
        `growing`, inside a member, continues the text of the part before.
        """
        self._parts: dict[str, list[Raw]] = {}
        self._repeated = repeated
        self._growing = growing
        self._growing_marks = (b"[", *(name.encode() for name in growing))
        """A part that contains one of these adds something even if it equals the part before."""

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def add(self, members: Mapping[str, Raw] | None) -> None:
        """Take more parts of members, each as JSON text."""
        for name, text in (members or {}).items():
            parts = self._parts.get(name)
            if parts is None or (is_nonempty_json(text) and bytes(text)[:1] not in b"[{"):
                self._parts[name] = [text]
            elif not self._is_unchanged_member(name, text):
                parts.append(text)

    def is_unchanged(self, members: Mapping[str, Raw] | None) -> bool:
        """Return whether adding the members would change nothing."""
        return all(self._is_unchanged_member(name, text) for name, text in (members or {}).items())

    def merged(self, names: Collection[str] | None = None) -> dict[str, Any]:
        """Return all members, or those of these names, as values that extras can hold."""
        return {
            name: self._merge_parts(name, parts)
            for name, parts in self._parts.items()
            if names is None or name in names
        }

    def _is_unchanged_member(self, name: str, text: Raw) -> bool:
        parts = self._parts.get(name)
        if parts is None or not is_nonempty_json(text):
            return parts is not None
        return parts[-1] == text and not any(mark in bytes(text) for mark in self._growing_marks)

    def _merge_parts(self, name: str, parts: list[Raw]) -> Any:
        found = None
        grown: dict[str, list[str]] = {}
        for part in parse_extras({str(at): text for at, text in enumerate(parts)}).values():
            for growing in self._growing if isinstance(part, dict) else ():
                if isinstance(part.get(growing), str):
                    grown.setdefault(growing, []).append(part[growing])
            found = merge_values(found, part, is_repeated=name in self._repeated)
        if isinstance(found, dict):
            found |= {growing: "".join(texts) for growing, texts in grown.items()}
        return found


def is_nonempty_json(text: Raw) -> bool:
    """Return whether JSON is more than null or an empty value."""
    if len(text) > _MAX_EMPTY_LENGTH:
        return True
    return b"".join(bytes(text).split()) not in _EMPTY_JSON


def merge_values(before: Any, more: Any, *, is_repeated: bool = False) -> Any:
    """Merge objects member by member, append lists, and replace any other value by the later one.

    With `is_repeated`, a list that starts with the one before replaces it. `before` is changed.
    """
    if not is_nonempty(more):
        return more if before is None else before
    if isinstance(before, dict) and isinstance(more, dict):
        for name, part in more.items():
            before[name] = (
                merge_values(before[name], part, is_repeated=is_repeated)
                if name in before
                else part
            )
        return before
    if not isinstance(before, list) or not isinstance(more, list):
        return more
    if is_repeated and more[: len(before)] == before:
        return more
    before += more
    return before
