"""The facts about the import of a session, which its header stores.

They belong to one store: an export leaves them out, and the next import replaces them. A clone
inherits them together with the entries of the file.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import asdict, replace

from steno.records.stored_record import Header

_KEY: Final = "import"
"""The member of `Header.about` with the record."""


class ImportRecord(Struct, frozen=True, kw_only=True):
    """The facts about the import of a session."""

    session: str
    """The ID under which the file was imported; the header of a clone has another ID."""
    time: Annotated[datetime, Meta(tz=True)]
    format: str
    sha256: str
    """The digest of the file."""
    entries: int
    """The number of entries in the file; all later entries were written to the session."""


def with_import_record(header: Header, record: ImportRecord) -> Header:
    """Return the header with a record, which replaces an earlier one."""
    return replace(header, about=dict(header.about or {}) | {_KEY: asdict(record)})


def read_import_record(header: Header) -> ImportRecord | None:
    """Return the record of the import of a session; None if it contains no imported entries."""
    found = (header.about or {}).get(_KEY)
    try:
        return None if found is None else convert(found, ImportRecord)
    except ValidationError:
        return None


def without_import_record(header: Header) -> Header:
    """Return the header without the record."""
    if _KEY not in (header.about or {}):
        return header
    about = {name: value for name, value in (header.about or {}).items() if name != _KEY}
    return replace(header, about=about or None)
