"""Entries that are no messages, in words: what was decided, changed, found, named, taken out.

Everything here is printable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, assert_never, final

from steno.content import FileReference, Image, Opaque, Resource
from steno.entry import (
    Approval,
    BranchSwitch,
    Compaction,
    Entry,
    Feedback,
    Label,
    ModeChange,
    ModelChange,
    Payload,
    Redacted,
    Redaction,
    Repair,
    Resolution,
    Rewind,
)
from steno.formats.papers.pointers import name_of
from steno.message import AssistantMessage, SystemMessage, ToolResultMessage, UserMessage
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


class Told(NamedTuple):
    """A line about an entry, and words that somebody put at length."""

    line: str
    words: str = ""


@final
class Remarks:
    """Knows how the entries are called, and which tools were called."""

    def __init__(self, entries: Sequence[Entry], numbers: Mapping[str, int]) -> None:
        """Take the entries of a branch, and the numbers of all that may be spoken of."""
        self._entries = {entry.id: entry for entry in entries}
        self._numbers = numbers
        self._tools = tools_by_call(entries)

    def of(self, entry: Entry) -> Told:
        """Return what an entry says that is no message."""
        payload = entry.payload
        match payload:
            case ModeChange():
                return Told(f"{payload.old} → {payload.new}")
            case BranchSwitch() | ModelChange():
                return Told(f"{on_one_line(payload.old) or '?'} → {on_one_line(payload.new)}")
            case Rewind():
                place = "the beginning" if entry.parent is None else self._number(entry.parent)
                return Told(f"goes on from {place}; {self._number(payload.left)} was the last")
            case Label():
                return Told(f"{self._number(payload.target)} is {on_one_line(payload.text)}")
            case Compaction():
                line = f"stands for everything up to {self._number(payload.through)}"
                return Told(line, printable(payload.summary))
            case Approval():
                return self._approval(payload)
            case Resolution():
                line = f"{self._pointer(payload)} in {self._number(payload.target)}"
                return Told(f"{line}: {payload.status}", printable(payload.error or ""))
            case Feedback():
                return Told(f"on {self._number(payload.target)}", printable(payload.text))
            case Repair():
                return Told(on_one_line(payload.code), printable(payload.explanation))
            case Redacted():
                return Told(f"taken out: {on_one_line(payload.kind)}")
            case Redaction():
                target, actor = self._number(payload.target), on_one_line(payload.actor)
                return Told(f"{target} was taken out by {actor}", printable(payload.reason))
            case Opaque():
                return Told(f"not understood: {on_one_line(payload.kind) or '?'}")
            case SystemMessage() | UserMessage() | AssistantMessage() | ToolResultMessage():
                return Told("", printable(payload.text or ""))
            case _:
                assert_never(payload)

    def unsaid(self, payload: Payload) -> list[str]:
        """Return what a payload holds that is no message, and nobody is told."""
        untold = _UNTOLD.get(type(payload), _UNKNOWN)
        return [name for name, _ in payload.set_fields() if name in untold]

    def _approval(self, approval: Approval) -> Told:
        tool = on_one_line(self._tools.get(approval.call_id, "a call"))
        by = f" by {name}" if (name := decided_by(approval)) else ""
        line = f"{tool} ({on_one_line(approval.call_id)}): {approval.status}{by}"
        return Told(line, printable(approval.reason or ""))

    def _pointer(self, resolution: Resolution) -> str:
        entry = self._entries.get(resolution.target)
        message = None if entry is None else entry.message
        blocks = () if message is None else message.content
        block = blocks[resolution.block] if resolution.block < len(blocks) else None
        if isinstance(block, FileReference | Image | Resource):
            return name_of(block)
        return f"block {resolution.block}"

    def _number(self, entry_id: str) -> str:
        number = self._numbers.get(entry_id)
        return "#?" if number is None else f"#{number}"


def decided_by(approval: Approval) -> str:
    """Return who or which rule decided; empty where nobody has."""
    if approval.actor is not None:
        return on_one_line(approval.actor)
    return "" if approval.rule is None else f"rule {on_one_line(approval.rule)}"
