"""A whole conversation as one JSON document, of the current version."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import ClassVar, final

from msgspec.structs import replace

from steno.entry import FORMAT_VERSION, Entry
from steno.errors import InvalidDocument, InvalidValue
from steno.message import ChatMessage, Message, as_messages
from steno.value import Value


@final
class Document(Value, frozen=True, tag_field="version", tag=FORMAT_VERSION, kw_only=True):
    """A header and the entries of a conversation."""

    shown: ClassVar[frozenset[str]] = frozenset({"id"})
    error_class: ClassVar[type[InvalidValue]] = InvalidDocument

    id: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    entries: tuple[Entry, ...] = ()

    @classmethod
    def of(cls, messages: Iterable[ChatMessage], *, id: str | None = None) -> Document:
        """Make a document of plain messages, one after the other, with no times."""
        entries: list[Entry] = []
        for number, message in enumerate(as_messages(messages), start=1):
            parent = entries[-1].id if entries else None
            entries.append(Entry(id=f"m{number}", parent=parent, payload=message))
        return cls(id=id, entries=tuple(entries))

    def append(self, message: ChatMessage, *, time: datetime | None = None) -> Document:
        """Return a document with one more message behind the last entry; all else is kept."""
        taken = {entry.id for entry in self.entries}
        number = len(self.entries) + 1
        while f"m{number}" in taken:
            number += 1
        (payload,) = as_messages((message,))
        parent = self.entries[-1].id if self.entries else None
        entry = Entry(id=f"m{number}", parent=parent, time=time, payload=payload)
        return replace(self, entries=(*self.entries, entry))

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was said, in order; controls, decisions and unknown entries left out."""
        found = (entry.message for entry in self.entries)
        return tuple([message for message in found if message is not None])
