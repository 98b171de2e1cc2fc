"""Import sessions from files of other programs, and export sessions to such files.

    imported = FORMATS["audit"].decode(data)
    store.add_session(imported.header, build_records(imported.entries))

Every format reports the parts of a session that it cannot express (`ExportedFile.losses`). It
preserves unknown members of a file, so that an imported file is exported unchanged.
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
"""The formats that steno imports and exports, by name."""


__all__ = [
    "FORMATS",
    "ExportedFile",
    "Format",
    "ImportedSession",
    "build_records",
    "detect_format",
    "message_of_row",
]
