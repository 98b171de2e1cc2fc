"""Blocks of unknown types, assembled from a stream and kept as JSON text.

Tools that run at the provider, their results, compaction, fallback: they arrive like any other
block, as a start and deltas, and have to be sent back whole.
"""

from __future__ import annotations

from typing import Final, final

from msgspec import Raw

from steno.json_object import is_json_text
from steno.messages.content import Opaque
from steno.wire.anthropic_messages.payload import NAME
from steno.wire.request_encoder import STREAM_EVENT_PREFIX, encode_json
from steno.wire.tolerant import NULL, RawMembers, raw_text, read_as, read_members

_APPENDED_DELTAS: Final = frozenset(
    {"text_delta", "thinking_delta", "signature_delta", "compaction_delta"}
)
"""Deltas whose texts continue those of the block under the same names."""
_UNFINISHED_PREFIX: Final = '{"content_block":'
"""The start of the JSON of a block that could not be assembled."""


@final
class UnknownBlockBuilder:
    """Collects the deltas of one block."""

    __slots__ = ("_deltas", "_kind", "_start")

    def __init__(self, kind: str, start: Raw) -> None:
        self._kind = kind
        self._start = start
        self._deltas: list[Raw] = []

    def add(self, delta: Raw) -> None:
        """Take one more delta."""
        self._deltas.append(delta)

    def build(self) -> Opaque:
        """Return the block; one that cannot be sent back is kept for the log only."""
        if not self._deltas:
            return Opaque(kind=self._kind, raw=raw_text(self._start), origin=NAME)
        members = self._merge_deltas()
        if members is None:
            return self.build_unfinished()
        return Opaque(kind=self._kind, raw=encode_json(members).decode(), origin=NAME)

    def build_unfinished(self) -> Opaque:
        """Return start and deltas for the log; such a block is never sent."""
        raw = encode_json({"content_block": self._start, "deltas": self._deltas}).decode()
        return Opaque(kind=f"{STREAM_EVENT_PREFIX}{self._kind}", raw=raw, origin=NAME)

    def _merge_deltas(self) -> RawMembers | None:
        """Merge the deltas into the members of the block; None for a delta of unknown type."""
        members = read_members(self._start, NAME)
        input_parts: list[str] = []
        citations: list[Raw] = read_as(members.get("citations"), list[Raw]) or []
        growing: dict[str, list[str]] = {}
        for raw in self._deltas:
            delta = read_members(raw, NAME)
            kind = read_as(delta.pop("type", None), str)
            if kind == "input_json_delta":
                input_parts.append(read_as(delta.get("partial_json"), str) or "")
            elif kind == "citations_delta" and "citation" in delta:
                citations.append(delta["citation"])
            elif kind in _APPENDED_DELTAS:
                for name, value in delta.items():
                    _append_text(members, growing, name, value)
            else:
                return None
        members |= {name: Raw(encode_json("".join(parts))) for name, parts in growing.items()}
        if citations:
            members["citations"] = Raw(encode_json(citations))
        joined = "".join(input_parts)
        if joined.strip():
            if not is_json_text(joined):
                return None
            members["input"] = Raw(joined.encode())
        return members


def is_unfinished(block: Opaque) -> bool:
    """Return whether a block holds only start and deltas, because it could not be assembled."""
    return block.kind.startswith(STREAM_EVENT_PREFIX) and block.raw.startswith(_UNFINISHED_PREFIX)


def _append_text(members: RawMembers, growing: dict[str, list[str]], name: str, value: Raw) -> None:
    text = read_as(value, str)
    if text is not None:
        if name not in growing:
            growing[name] = [read_as(members.get(name), str) or ""]
        growing[name].append(text)
    elif value != NULL:
        members[name] = value
