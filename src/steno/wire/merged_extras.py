"""What is told about an answer in parts, like its words: sources, log probabilities.

A part that says nothing takes nothing back, and some servers tell everything so far again; of
what is neither list nor object the latest holds. Parts are text until somebody asks for the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, final

from msgspec import Raw

from steno.wire.extras import is_nonempty
from steno.wire.tolerant import parse_extras

_EMPTY_JSON: Final = frozenset({b"", b"null", b'""', b"[]", b"{}"})
_MAX_EMPTY_LENGTH: Final = 80
"""Longer than this it is not written, however far it is indented."""


def is_nonempty_json(text: Raw) -> bool:
    """Tell whether JSON is more than null or something empty."""
    if len(text) > _MAX_EMPTY_LENGTH:
        return True
    return b"".join(bytes(text).split()) not in _EMPTY_JSON


def merge_values(before: Any, more: Any, *, is_retold: bool = False) -> Any:
    """Join two parts: objects member by member, lists behind each other; else the later one holds.

    Where everything is told again, a list that begins with the one before replaces it. What was
    there before is used up.
    """
    if not is_nonempty(more):
        return more if before is None else before
    if isinstance(before, dict) and isinstance(more, dict):
        for name, part in more.items():
            known = name in before
            before[name] = merge_values(before[name], part, is_retold=is_retold) if known else part
        return before
    if not isinstance(before, list) or not isinstance(more, list):
        return more
    if is_retold and more[: len(before)] == before:
        return more
    before += more
    return before


@final
class MergedExtras:
    """Members by name, each in as many parts as it came in."""

    def __init__(self, *, retold: Collection[str] = (), growing: Collection[str] = ()) -> None:
        """Start without any.

        Of those in `retold`, servers tell all so far once more. Texts of members of theirs that
        are `growing` go on in the next part.
        """
        self._parts: dict[str, list[Raw]] = {}
        self._repeated = retold
        self._growing = growing
        self._growing_marks = (b"[", *(name.encode() for name in growing))
        """What is in a text that adds something even if it is the same as the one before."""

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def add(self, members: Mapping[str, Raw] | None) -> None:
        """Take more of members, each as the text it was."""
        for name, text in (members or {}).items():
            parts = self._parts.get(name)
            if parts is None or (is_nonempty_json(text) and bytes(text)[:1] not in b"[{"):
                self._parts[name] = [text]
            elif not self._is_unchanged_member(name, text):
                parts.append(text)

    def is_unchanged(self, members: Mapping[str, Raw] | None) -> bool:
        """Tell whether members are as they were told last: to add them would change nothing."""
        return all(self._is_unchanged_member(name, text) for name, text in (members or {}).items())

    def _is_unchanged_member(self, name: str, text: Raw) -> bool:
        parts = self._parts.get(name)
        if parts is None or not is_nonempty_json(text):
            return parts is not None
        return parts[-1] == text and not any(mark in bytes(text) for mark in self._growing_marks)

    def merged(self, names: Collection[str] | None = None) -> dict[str, Any]:
        """Return all members, or those with one of these names, as values that extras can hold."""
        return {
            name: self._merge_parts(name, parts)
            for name, parts in self._parts.items()
            if names is None or name in names
        }

    def _merge_parts(self, name: str, parts: list[Raw]) -> Any:
        found = None
        grown: dict[str, list[str]] = {}
        for part in parse_extras({str(at): text for at, text in enumerate(parts)}).values():
            for growing in self._growing if isinstance(part, dict) else ():
                if isinstance(part.get(growing), str):
                    grown.setdefault(growing, []).append(part[growing])
            found = merge_values(found, part, is_retold=name in self._repeated)
        if isinstance(found, dict):
            found |= {growing: "".join(texts) for growing, texts in grown.items()}
        return found
