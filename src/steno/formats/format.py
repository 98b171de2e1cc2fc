"""Detect file formats, and define the types that all formats share.

These are `Format`, `ImportedSession`, `ExportedFile` and the collector of export losses. Apart from
detection, this module has no code for a particular format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, final

from msgspec.structs import replace

from steno.codec.json_scanner import check_syntax, clean_input, split_array, split_object
from steno.codec.migrations import MESSAGE_TAGS, is_session_message
from steno.errors import InvalidDocument
from steno.formats.json_text import JsonMembers
from steno.ids import new_id
from steno.json_object import is_json_text
from steno.log.chain import entry_digest
from steno.messages.change import Change, ChangeCode
from steno.messages.content import OWN_FORMAT, Image, ImageData, Opaque
from steno.messages.message import AssistantMessage, Message, ToolResultMessage
from steno.messages.outcome import Outcome
from steno.messages.usage import Usage
from steno.records.entry import BASE_VERSION, Entry, Payload
from steno.records.stored_record import MAIN_BRANCH, Header, Record
from steno.values import Value

DOCUMENT_FORMAT: Final = "steno"
"""The format that stores one branch in one JSON document."""
LINES_FORMAT: Final = "jsonl"
"""The format that stores a whole session, with its digests."""
_SESSION_VERSION: Final = 1
_MAX_DIGITS: Final = 9
"""The number of digits of a version that are compared."""
_DOCUMENT_MEMBERS: Final = frozenset({"version", "id", "created_at", "updated_at"})
"""The members that a document without entries may have."""


def detect_format(data: bytes) -> str:
    """Return the name of the format of a file: a name in `FORMATS`, `steno` or `jsonl`.

    `steno` is a document for `decode_document`, possibly of a newer version, or messages for
    `decode_messages` or `decode_message`; `jsonl` is a file of the JSONL store. The entries and
    messages in the file decide, then its other members. The file is not validated, so `decode` may
    still reject it. Raises InvalidDocument if the format is unknown.
    """
    raw, _ = clean_input(data)
    if not raw.strip():
        raise InvalidDocument("the file is empty", code="input_empty", place="file")
    is_array = raw.lstrip().startswith(b"[")
    found = map(_detect_part if is_array else _detect_object, _objects_of_file(raw))
    name = next(filter(None, found), None)
    if name == DOCUMENT_FORMAT and is_array and "session" in found:  # the first message has no time
        return "session"
    if name is not None:
        return name
    if not any(_objects_of_file(raw)):
        raise InvalidDocument(
            "the file has no message, entry or row", code="not_a_conversation", place="file"
        )
    raise InvalidDocument("the format is unknown", code="unknown_format", place="file")


def _objects_of_file(raw: bytes) -> Iterator[JsonMembers]:
    """Yield the objects in an array, or the object in the first line or else in the whole file."""
    first = raw.strip().split(b"\n", 1)[0].strip()
    if not is_json_text(first.decode()):
        check_syntax(raw)
        first = raw.strip()
    if first.startswith(b"["):
        yield from _split_objects(first) or ()
    elif first.startswith(b"{"):
        yield _split_members(first)


def _detect_object(members: JsonMembers) -> str | None:
    """Return the format of a file that is an object or begins with one; None if it is unknown."""
    if "crc" in members:
        return LINES_FORMAT
    version = members.get("version", b"0")
    number = int(version[:_MAX_DIGITS]) if version.isdigit() else None
    entries = _split_objects(members.get("entries", b"null"))
    if entries is not None:
        default = DOCUMENT_FORMAT if (number or 0) >= BASE_VERSION else "audit"
        return next(filter(None, map(_detect_entry, entries)), default)
    messages = _split_objects(members.get("messages", b"null"))
    if messages is not None:
        default = "session" if number == _SESSION_VERSION else "chat"
        return next(filter(None, map(_detect_message, messages)), default)
    found = _detect_part(members)
    if found is not None or "version" not in members:
        return found
    if number is None:
        raise InvalidDocument(
            "the version is not a number, so the format is unknown",
            code="invalid_version",
            place="file",
        )
    if number == _SESSION_VERSION:  # a session file without messages
        return None if members.keys().isdisjoint({"id", "system_prompt"}) else "session"
    is_document = number > BASE_VERSION or members.keys() <= _DOCUMENT_MEMBERS
    return DOCUMENT_FORMAT if number >= BASE_VERSION and is_document else None


def _detect_entry(members: JsonMembers) -> str | None:
    """Return the format of a file with this entry; None if it is unknown."""
    if "message" in members:
        return "audit"
    return DOCUMENT_FORMAT if "payload" in members else None


def _detect_message(members: JsonMembers) -> str | None:
    """Return the format of a file with this message; None if it is unknown."""
    if "role" in members:
        return "chat"
    return "session" if members.get("type") in MESSAGE_TAGS else None


def _detect_part(members: JsonMembers) -> str | None:
    """Return the format of a single entry, row or message; None if it is none of these."""
    message = members.get("message", b"")  # responses of models have this member, too
    if message.startswith(b"{") and _split_members(message).get("type", b"").startswith(b'"'):
        return "audit"
    for name, format in (("kind", "rows"), ("role", "chat")):
        if name in members:
            return format
    if members.get("type") not in MESSAGE_TAGS:
        return None
    is_session = is_session_message(members) or "is_error" in members
    return "session" if is_session else DOCUMENT_FORMAT


def _split_objects(raw: bytes) -> Iterator[JsonMembers] | None:
    """Return the members of each object in an array; None if `raw` is not an array."""
    parts = split_array(raw)
    if parts is None:
        return None
    return (_split_members(part) for part in parts if part.startswith(b"{"))


def _split_members(raw: bytes) -> JsonMembers:
    return {name: value for name, _, value in split_object(raw) or ()}


class ExportedFile(NamedTuple):
    """An exported file, and a change for each part of the session that the file lacks."""

    data: bytes
    losses: tuple[Change, ...]
    """The place of a loss is an entry such as `entries[3]`, all `entries`, or the `session`."""


class ImportedSession(NamedTuple):
    """The header and the entries that were read from a file of another program."""

    header: Header
    """The header of the session, with the id of `derive_session_id` if the file has none."""
    entries: tuple[Entry, ...]
    """One branch in order; ids are unique, and the parent of each entry is the previous entry."""


class Format(NamedTuple):
    """A file format for import and export, with its functions to encode and decode a file."""

    name: str
    extension: str
    encode: Callable[[Header, Sequence[Entry]], ExportedFile]
    """Writes the entries of one branch, in order."""
    decode: Callable[[bytes], ImportedSession]
    """Reads a whole file. Raises InvalidDocument, with the place, if the file is invalid."""


def derive_session_id(format: str, data: bytes) -> str:
    """Return the id of the session in a file without an id: a version 8 UUID."""
    sha256 = hashlib.sha256(data).hexdigest()
    digits = hashlib.sha256(f"{format} {sha256}".encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def build_records(entries: Iterable[Entry]) -> tuple[Record, ...]:
    """Convert entries to the records of a new session, on its main branch.

    An id that an earlier entry already has is replaced by a new id.
    """
    records: list[Record] = []
    digest: str | None = None
    for seq, entry in enumerate(link_entries(entries), start=1):
        digest = entry_digest(entry, digest)
        records.append(Record(seq=seq, branch=MAIN_BRANCH, entry=entry, digest=digest))
    return tuple(records)


def link_entries(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the entries with unique ids, each with the previous entry as its parent."""
    placed: list[Entry] = []
    used_ids: set[str] = set()
    for entry in entries:
        parent = placed[-1].id if placed else None
        id = new_id() if entry.id in used_ids else entry.id
        used_ids.add(id)
        if (entry.id, entry.parent) == (id, parent):
            placed.append(entry)
        elif entry.is_understood:
            placed.append(replace(entry, id=id, parent=parent))
        else:
            # An entry of a newer version cannot be changed, so a new entry has its payload.
            placed.append(Entry(id=id, parent=parent, payload=entry.payload))
    return tuple(placed)


# -- losses ----------------------------------------------------------------------------------


_PLAIN_OUTCOMES: Final = (Outcome.OK, Outcome.ERROR)
OUTCOME_FIELD: Final = "outcome"
"""The name of the loss if a result's outcome, such as "denied", is written only as an error."""

SupportedFields: TypeAlias = Mapping[type, frozenset[str]]
"""The fields that a format can express, by the type of the message, block or usage."""


def type_name(value: Value) -> str:
    """Return the stored type of a payload or a block, such as `opaque vote` for an unknown one."""
    tag = str(value.__struct_config__.tag)
    return f"{tag} {value.kind}".rstrip() if isinstance(value, Opaque) else tag


@final
class ExportLossCollector:
    """Collects the parts of a session that an export leaves out."""

    def __init__(self, format: str, supported: SupportedFields) -> None:
        self._format = format
        self._supported = supported
        self._found: list[Change] = []

    def add(
        self,
        reason: str,
        place: str,
        entry: Entry | None = None,
        *,
        names: tuple[str, ...] = (),
        value: str = "",
    ) -> None:
        """Add a loss at a place, such as `entries[3]` or `session`."""
        entry_id = None if entry is None else entry.id
        self._found.append(
            Change(ChangeCode.NOT_EXPORTED, reason, place, entry_id, value=value, names=names)
        )

    def add_omitted(self, place: str, entry: Entry, names: Iterable[str]) -> bool:
        """Add a loss for the omitted fields of an entry, if `names` is not empty.

        Return whether a loss was added.
        """
        found = tuple(names)
        if found:
            outcome = str(getattr(entry.payload, "outcome", "")) if OUTCOME_FIELD in found else ""
            self.add("fields", place, entry, names=found, value=outcome)
        return bool(found)

    def add_header(self, header: Header, supported: frozenset[str] = frozenset()) -> None:
        """Add a loss for the fields of the header that the format does not support."""
        about = set(header.about or ()) - {self._format}
        names = [
            name
            for name, _ in header.non_default_fields()
            if name not in supported and (name != "about" or about)
        ]
        if names:
            self.add("fields", "session", names=tuple(names))

    def omitted_of_envelope(self, entry: Entry) -> list[str]:
        """Return the fields of an entry, apart from its payload, that the format omits."""
        names = ["decision"] if entry.decision is not None else []
        if entry.unknown and entry.is_understood:
            names.append("unknown_members")
        if entry.audit is not None and set(entry.audit) != {self._format}:
            names.append("audit")
        return names

    def omitted_of_entry(self, entry: Entry) -> list[str]:
        """Return the fields of an entry and its message that the format cannot express."""
        names = self.omitted_of_envelope(entry)
        message = entry.message
        if message is not None:
            names += self.omitted_of_message(message)
        # The formats that call this method write an outcome only as success or error.
        if isinstance(message, ToolResultMessage) and message.outcome not in _PLAIN_OUTCOMES:
            names.append(OUTCOME_FIELD)
        return names

    def omitted_of_message(self, message: Message) -> list[str]:
        """Return the fields of a message that the format cannot express."""
        names = self._omitted_fields(message)
        if isinstance(message, AssistantMessage) and "usage" in self._supported[AssistantMessage]:
            names += [f"usage.{name}" for name in self._omitted_fields(message.usage or Usage())]
        for number, block in enumerate(message.content):
            at = f"content[{number}]"
            if self.supports_block(block):
                names += [f"{at}.{name}" for name in self._omitted_fields(block)]
            else:
                names.append(f"{at} ({type_name(block)})")
        return names

    def supports_block(self, block: Value) -> bool:
        """Return whether the format can express a block."""
        if isinstance(block, Image) and not isinstance(block.source, ImageData):
            return False
        if isinstance(block, Opaque):
            return block.origin == OWN_FORMAT and Opaque in self._supported
        return type(block) in self._supported

    def _omitted_fields(self, value: Value) -> list[str]:
        supported = self._supported[type(value)]
        return [name for name, _ in value.non_default_fields() if name not in supported]

    def result(self) -> tuple[Change, ...]:
        """Return all losses, in the order in which they were added."""
        return tuple(self._found)


class WrittenEntry(NamedTuple):
    """An exported entry, its place, its expected payload, and whether it has a reported loss."""

    place: str
    entry: Entry
    payload: Payload
    """The payload that is expected when the export is read back."""
    has_loss: bool


def add_differences(
    written: Sequence[WrittenEntry], read: Sequence[Entry], losses: ExportLossCollector
) -> None:
    """Add a loss for each entry that is read back differently and has no other loss."""
    for source, copy in zip(written, read, strict=False):
        if not source.has_loss and source.payload != copy.payload:
            losses.add("exact_form", source.place, source.entry)
