"""What others write conversations down in: read as entries, and written from them.

    imported = FORMATS["audit"].decode(data)
    store.add_session(imported.header, seal(imported.entries))

Every format says what it has no words for (`Exported.losses`), and keeps what it read and we have
no words for, so that a file that was read is written as it was. `PAPERS` are for people alone.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from steno.formats import audit, chat, html, markdown, rows, session
from steno.formats.detect import detect
from steno.formats.format import Exported, Format, Imported, Loss, Paper, Place, seal
from steno.formats.rows import message_of_row

FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        format.name: format
        for format in (
            Format("audit", ".audit.json", audit.encode, audit.decode),
            Format("session", ".session.json", session.encode, session.decode),
            Format("rows", ".rows.json", rows.encode, rows.decode),
            Format("chat", ".chat.json", chat.encode, chat.decode),
        )
    }
)
"""Every format that is read and written, by its name."""

PAPERS: Final[Mapping[str, Paper]] = MappingProxyType(
    {
        paper.name: paper
        for paper in (
            Paper("markdown", ".md", markdown.encode),
            Paper("html", ".html", html.encode),
        )
    }
)
"""Every format that is written for people and never read, by its name."""

__all__ = [
    "FORMATS",
    "PAPERS",
    "Exported",
    "Format",
    "Imported",
    "Loss",
    "Paper",
    "Place",
    "detect",
    "message_of_row",
    "seal",
]
