"""Formats that are written for people and never read back."""

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
    """A format in which people read a conversation; no program reads it back."""

    name: str
    suffixes: tuple[str, ...]
    """The suffixes of its files; the first is the one that steno gives."""
    encode: Callable[[Header, Sequence[Entry], BranchLocation], ExportedFile]
    """Write the entries of one branch, in their order."""


WRITE_ONLY: Final[Mapping[str, TranscriptFormat]] = MappingProxyType(
    {
        transcript.name: transcript
        for transcript in (
            TranscriptFormat("markdown", (".md", ".markdown"), markdown.encode),
            TranscriptFormat("html", (".html", ".htm"), html.encode),
        )
    }
)
"""The formats by name."""

TRANSCRIPT_BY_SUFFIX: Final[Mapping[str, str]] = MappingProxyType(
    {
        suffix: transcript.name
        for transcript in WRITE_ONLY.values()
        for suffix in transcript.suffixes
    }
)
"""The name of the format by the suffix of a file."""
