"""Entries that are no messages, as a story tells of them. Everything here is printable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

from steno.captions import Told, name_of, told_of
from steno.content import FileReference, Image, Opaque, Resource
from steno.entry import Approval, Entry, Payload, Redacted, Resolution
from steno.printable import on_one_line, printable
from steno.views import tools_by_call

_UNKNOWN: Final = frozenset({"unknown"})
_UNTOLD: Final[Mapping[type, frozenset[str]]] = {
    Approval: _UNKNOWN | {"arguments_sha256"},
    Resolution: _UNKNOWN | {"details"},
    Redacted: _UNKNOWN | {"sha256", "audit_sha256", "unknown_sha256"},
    Opaque: frozenset({"raw"}),
}
"""What payloads hold that is no use to a reader."""


@final
class Remarks:
    """Knows how the entries are called, and which tools were called."""

    def __init__(self, entries: Sequence[Entry], numbers: Mapping[str, int]) -> None:
        """Take the entries of a branch, and the numbers of all that may be spoken of."""
        self._entries = {entry.id: entry for entry in entries}
        self._numbers = numbers
        self._tools = tools_by_call(entries)

    def describe(self, entry: Entry) -> Told:
        """Return what an entry says that is no message."""
        return told_of(entry, number=self._entry_number, call=self._call_name, found=self._describe_resolution)

    def omitted_fields(self, payload: Payload) -> list[str]:
        """Return what a payload holds that is no message, and nobody is told."""
        untold = _UNTOLD.get(type(payload), _UNKNOWN)
        return [name for name, _ in payload.non_default_fields() if name in untold]

    def _entry_number(self, entry_id: str) -> str:
        number = self._numbers.get(entry_id)
        return "#?" if number is None else f"#{number}"

    def _call_name(self, call_id: str) -> str:
        return f"{on_one_line(self._tools.get(call_id, 'a call'))} ({on_one_line(call_id)})"

    def _describe_resolution(self, resolution: Resolution) -> Told:
        place = f"{self._reference_name(resolution)} in {self._entry_number(resolution.target)}"
        return Told(f"{place}: {resolution.status}", printable(resolution.error or ""))

    def _reference_name(self, resolution: Resolution) -> str:
        entry = self._entries.get(resolution.target)
        message = None if entry is None else entry.message
        blocks = () if message is None else message.content
        block = blocks[resolution.block] if resolution.block < len(blocks) else None
        if isinstance(block, FileReference | Image | Resource):
            return name_of(block)
        return f"block {resolution.block}"
