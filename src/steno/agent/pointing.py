"""What the messages of a branch point at, and what is on record about it.

Read once for each entry, so that a turn costs what is new in it. Nothing here opens anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, final

from steno.content import FileReference, Image, Resource
from steno.entry import Compaction, Entry, Resolution, ResolutionStatus
from steno.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.ports import Pointer

_POINTERS: Final = frozenset({FileReference, Image, Resource})


class Pointed(NamedTuple):
    """One block that points at something."""

    entry: Entry
    """The entry of its message."""
    block: int
    pointer: Pointer
    """As it is on record: the bytes of an image may lie elsewhere."""
    resolution: Resolution | None = None
    """What was found out about it last."""
    is_seen_since: bool = False
    """Whether a tool has read or changed what it points at since: the model knows then."""

    @property
    def is_resolved(self) -> bool:
        """Whether the model sees what it points at."""
        return self.resolution is not None and self.resolution.status is ResolutionStatus.RESOLVED


@final
class Pointers:
    """All that the messages of one branch point at, but for those that a summary stands for."""

    def __init__(self) -> None:
        """Begin before the first entry."""
        self._begin()

    def _begin(self) -> None:
        self._found: dict[tuple[str, int], Pointed] = {}
        self._said: list[str] = []
        """The user messages that no answer has followed yet."""
        self._read: tuple[int, Entry | None] = (0, None)

    def read(self, entries: Sequence[Entry]) -> None:
        """Read what is new; all of it if this is another branch than before, or shorter."""
        count, last = self._read
        if count > len(entries) or (count and entries[count - 1] is not last):
            self._begin()
            count = 0
        for entry in entries[count:]:
            payload = entry.payload
            if isinstance(payload, UserMessage):
                self._hear(entry, payload)
            elif isinstance(payload, AssistantMessage):
                self._said.clear()
            elif isinstance(payload, Resolution):
                self._resolve(payload)
            elif isinstance(payload, ToolResultMessage):
                self._see(payload)
            elif isinstance(payload, Compaction):
                self._forget(entries, payload.through)
        self._read = (len(entries), entries[-1] if entries else None)

    def unanswered(self) -> tuple[Pointed, ...]:
        """Return what stands in messages that the model has not answered yet."""
        return tuple([one for one in self._found.values() if one.entry.id in self._said])

    def resolved(self) -> tuple[Pointed, ...]:
        """Return all that the model sees."""
        return tuple([one for one in self._found.values() if one.is_resolved])

    def _hear(self, entry: Entry, message: UserMessage) -> None:
        self._said.append(entry.id)
        for number, block in enumerate(message.content):
            if type(block) in _POINTERS:
                assert isinstance(block, Pointer)
                self._found[entry.id, number] = Pointed(entry, number, block)

    def _resolve(self, resolution: Resolution) -> None:
        key = (resolution.target, resolution.block)
        if key in self._found:
            self._found[key] = self._found[key]._replace(resolution=resolution, is_seen_since=False)

    def _see(self, result: ToolResultMessage) -> None:
        path = (result.details or {}).get("path")
        if not isinstance(path, str) or result.is_error or not self._found:
            return
        for key, one in self._found.items():
            details = {} if one.resolution is None else one.resolution.details or {}
            if details.get("path") == path:
                self._found[key] = one._replace(is_seen_since=True)

    def _forget(self, entries: Sequence[Entry], through: str) -> None:
        """Forget what a summary stands for: nobody sees it any more."""
        if not self._found:
            return
        gone = {entry.id for entry in _up_to(entries, through)}
        self._found = {key: one for key, one in self._found.items() if key[0] not in gone}


def _up_to(entries: Sequence[Entry], through: str) -> Sequence[Entry]:
    for number in range(len(entries) - 1, -1, -1):
        if entries[number].id == through:
            return entries[: number + 1]
    return ()
