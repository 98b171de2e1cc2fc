"""Files of other programs: read as entries, and written from entries.

    imported = FORMATS["audit"].decode(data)
    store.add_session(imported.header, build_records(imported.entries))

Every format reports the parts that it cannot express (`ExportedFile.losses`), and keeps members of
a file that steno does not know, so that a file that was read is written back unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from steno.formats import audit, chat, rows, session_document
from steno.formats.format import (
    ExportedFile,
    Format,
    ImportedSession,
    build_records,
    detect_format,
)
from steno.formats.rows import message_of_row

FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        format.name: format
        for format in (
            Format("audit", ".audit.json", audit.encode, audit.decode),
            Format("session", ".session.json", session_document.encode, session_document.decode),
            Format("rows", ".rows.json", rows.encode, rows.decode),
            Format("chat", ".chat.json", chat.encode, chat.decode),
        )
    },
)
"""Every format that is read and written, by its name."""


__all__ = [
    "FORMATS",
    "ExportedFile",
    "Format",
    "ImportedSession",
    "build_records",
    "detect_format",
    "message_of_row",
]
