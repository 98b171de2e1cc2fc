"""What the messages of a branch point at, and what is on record about it.

Read once for each entry, so that a turn costs what is new in it. Nothing here opens anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, final

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
    reference: Pointer
    """As it is on record: the bytes of an image may lie elsewhere."""
    resolution: Resolution | None = None
    """What was found out about it last."""
    known_files: frozenset[str] = frozenset()
    """Files that were read, changed or pointed at since: the model knows of those by now."""

    @property
    def is_resolved(self) -> bool:
        """Whether the model sees what it points at."""
        return self.resolution is not None and self.resolution.status is ResolutionStatus.RESOLVED


@final
class Pointers:
    """All that the messages of one branch point at, but for those that a summary stands for."""

    def __init__(self) -> None:
        """Begin before the first entry."""
        self._reset()

    def _reset(self) -> None:
        self._found: dict[tuple[str, int], Pointed] = {}
        self._found_at: dict[tuple[str, int], int] = {}
        self._shown_at: dict[str, int] = {}
        """When something was found out, and when the model came to know a file, by entries."""
        self._unanswered_ids: list[str] = []
        """The user messages that no answer has followed yet."""
        self._read_position: tuple[int, Entry | None] = (0, None)

    def read(self, entries: Sequence[Entry]) -> None:
        """Read what is new; all of it if this is another branch than before, or shorter."""
        count, last = self._read_position
        if count > len(entries) or (count and entries[count - 1] is not last):
            self._reset()
            count = 0
        for number, entry in enumerate(entries[count:], count):
            payload = entry.payload
            if isinstance(payload, UserMessage):
                self._add_message(entry, payload)
            elif isinstance(payload, AssistantMessage):
                self._unanswered_ids.clear()
            elif isinstance(payload, Resolution):
                self._add_resolution(payload, number)
            elif isinstance(payload, ToolResultMessage) and not payload.is_error:
                self._mark_known(payload.details, number)
            elif isinstance(payload, Compaction):
                self._drop_compacted(entries, payload.through)
        self._read_position = (len(entries), entries[-1] if entries else None)

    def unanswered(self) -> tuple[Pointed, ...]:
        """Return what stands in messages that the model has not answered yet."""
        return tuple([one for one in self._found.values() if one.entry.id in self._unanswered_ids])

    def resolved(self) -> tuple[Pointed, ...]:
        """Return all that the model sees."""
        return tuple([self._with_known(one) for one in self._found.values() if one.is_resolved])

    def _with_known(self, one: Pointed) -> Pointed:
        found_at = self._found_at.get((one.entry.id, one.block), 0)
        known = [path for path, shown_at in self._shown_at.items() if shown_at > found_at]
        return one._replace(known_files=frozenset(known)) if known else one

    def _add_message(self, entry: Entry, message: UserMessage) -> None:
        self._unanswered_ids.append(entry.id)
        for number, block in enumerate(message.content):
            if type(block) in _POINTERS:
                assert isinstance(block, Pointer)
                self._found[entry.id, number] = Pointed(entry, number, block)

    def _add_resolution(self, resolution: Resolution, number: int) -> None:
        key = (resolution.target, resolution.block)
        if key in self._found:
            self._found[key] = self._found[key]._replace(resolution=resolution)
            self._found_at[key] = number
            if resolution.status is ResolutionStatus.RESOLVED:
                self._mark_known(resolution.details, number)

    def _mark_known(self, details: Mapping[str, Any] | None, number: int) -> None:
        """Take note that the model knows files by now, whoever has shown them."""
        for path in _paths_in(details or {}):
            self._shown_at[path] = number

    def _drop_compacted(self, entries: Sequence[Entry], through: str) -> None:
        """Forget what a summary stands for: nobody sees it any more."""
        if not self._found:
            return
        gone = {entry.id for entry in _up_to(entries, through)}
        self._found = {key: one for key, one in self._found.items() if key[0] not in gone}


def _paths_in(details: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files that something is about, by the names that the workspace has for them."""
    files = details.get("files")
    for row in (details, *(files if isinstance(files, Sequence) else ())):
        path = row.get("path") if isinstance(row, Mapping) else None
        if isinstance(path, str):
            yield path


def _up_to(entries: Sequence[Entry], through: str) -> Sequence[Entry]:
    for number in range(len(entries) - 1, -1, -1):
        if entries[number].id == through:
            return entries[: number + 1]
    return ()
