"""Rendering of entries, events and reports as human-readable text and as JSON."""

import typing as _typing
from collections.abc import Callable as _Callable

from steno.lazy_exports import lazy_exports as _lazy_exports

if _typing.TYPE_CHECKING:
    from steno.render.changes import describe_change, format_change
    from steno.render.transcript_document import BranchLocation
    from steno.render.transcripts import WRITE_ONLY, TranscriptFormat

__all__ = ["WRITE_ONLY", "BranchLocation", "TranscriptFormat", "describe_change", "format_change"]

__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__,
    {
        "steno.render.changes": ("describe_change", "format_change"),
        "steno.render.transcript_document": ("BranchLocation",),
        "steno.render.transcripts": ("TranscriptFormat", "WRITE_ONLY"),
    },
)
