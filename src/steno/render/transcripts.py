"""Human-readable export formats, which steno cannot import."""

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
    """A human-readable export format, which steno cannot import."""

    name: str
    suffixes: tuple[str, ...]
    """The file name suffixes of the format; new files get the first one."""
    encode: Callable[[Header, Sequence[Entry], BranchLocation], ExportedFile]
    """The function that encodes the entries of one branch, in order."""


WRITE_ONLY: Final[Mapping[str, TranscriptFormat]] = MappingProxyType(
    {
        transcript.name: transcript
        for transcript in (
            TranscriptFormat("markdown", (".md", ".markdown"), markdown.encode),
            TranscriptFormat("html", (".html", ".htm"), html.encode),
        )
    }
)
"""The human-readable export formats, by name."""

TRANSCRIPT_BY_SUFFIX: Final[Mapping[str, str]] = MappingProxyType(
    {
        suffix: transcript.name
        for transcript in WRITE_ONLY.values()
        for suffix in transcript.suffixes
    }
)
"""The name of the format for each file name suffix."""
