"""What a foreign format is to the rest of us, and how what came from one becomes a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from steno.formats.format import ExportedFile
from steno.records.entry import Entry
from steno.records.stored_record import Header
from steno.render import html, markdown
from steno.render.transcript_document import BranchLocation


class TranscriptFormat(NamedTuple):
    """A way in which people read a conversation; no program reads it back."""

    name: str
    extension: str
    encode: Callable[[Header, Sequence[Entry], BranchLocation], ExportedFile]
    """Write the entries of one branch, in their order."""


# -- formats ---------------------------------------------------------------------------------------
#
# What others write conversations down in: read as entries, and written from them.
#
# imported = FORMATS["audit"].decode(data)
# store.add_session(imported.header, seal(imported.entries))
#
# Every format says what it has no words for (`Exported.losses`), and keeps what it read and we have
# no words for, so that a file that was read is written as it was. `PAPERS` are for people alone.


WRITE_ONLY: Final[Mapping[str, TranscriptFormat]] = MappingProxyType(
    {
        paper.name: paper
        for paper in (
            TranscriptFormat("markdown", ".md", markdown.encode),
            TranscriptFormat("html", ".html", html.encode),
        )
    }
)
"""Every format that is written for people and never read, by its name."""
