"""The hash chain, in which the digest of each entry covers all of its ancestors.

The digest of an entry is the SHA-256 of the JSON array

    [2, digest of the parent, id, parent, time, decision, unknown members, payload, audit]

in which the last three elements are not the parts themselves but the SHA-256 of their JSON, with
members sorted by name. A redacted entry retains these three digests, so its own digest does not
change. Any other change to an entry is detected. The order in which a newer version writes its
members does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from steno.codec.canonical_json import encode_sorted
from steno.codec.json_scanner import replace_line_breaks, sort_members
from steno.errors import InvalidValue
from steno.json_object import as_json_object
from steno.records.entry import BASE_VERSION, FORMAT_VERSION, Entry, Redacted, Redaction, Rewind
from steno.records.stored_record import MAIN_BRANCH, Record
from steno.values import NOTHING

CHAIN_VERSION: Final = 2
"""The version of the digest computation; new payload types do not change it."""


_encode_link: Final = msgspec.json.Encoder().encode


def entry_digest(entry: Entry, parent_digest: str | None) -> str:
    """Return the digest of an entry; `parent_digest` is None for the first entry."""
    payload, audit, unknown = _content_digests(entry)
    link = (
        CHAIN_VERSION,
        parent_digest,
        entry.id,
        entry.parent,
        entry.time,
        entry.decision,
        unknown,
        payload,
        audit,
    )
    return sha256(_encode_link(link)).hexdigest()


def redact_entry(entry: Entry) -> Entry:
    """Return the entry without its content; its digest does not change.

    Raises InvalidValue if the entry is a redaction, is already redacted or has an unknown format.
    """
    if isinstance(entry.payload, Redaction):
        raise InvalidValue(
            "the record of a redaction cannot be redacted", code="redaction_is_kept", place="entry"
        )
    if isinstance(entry.payload, Redacted) or not entry.is_understood:
        raise InvalidValue(
            "the entry is already redacted or has an unknown format",
            code="nothing_to_redact",
            place="entry",
        )
    content = _content_digests(entry)
    redacted = Redacted(
        kind=str(entry.payload.__struct_config__.tag),
        sha256=content.payload,
        audit_sha256=content.audit,
        unknown_sha256=content.unknown,
    )
    return replace(entry, v=BASE_VERSION, payload=redacted, audit=None, unknown=NOTHING)


class _ContentDigests(NamedTuple):
    """The digests of the parts of an entry that a redaction removes."""

    payload: str
    audit: str | None
    unknown: str | None


def _content_digests(entry: Entry) -> _ContentDigests:
    payload = entry.payload
    if isinstance(payload, Redacted):
        return _ContentDigests(payload.sha256, payload.audit_sha256, payload.unknown_sha256)
    audit, unknown = entry.audit, entry.unknown
    return _ContentDigests(
        sha256(encode_sorted(payload)).hexdigest(),
        None if audit is None else sha256(encode_sorted(as_json_object(audit))).hexdigest(),
        sha256(sort_members(replace_line_breaks(b"{" + unknown.text.encode() + b"}"))).hexdigest()
        if unknown
        else None,
    )


# -- verification ----------------------------------------------------------------------------


class BadRecord(NamedTuple):
    """The first damaged record of a session."""

    seq: int
    entry_id: str | None
    problem: str
    """A description of the damage."""
    code: str = "bad_record"
    """The stable code of the damage."""

    def __str__(self) -> str:
        name = "" if self.entry_id is None else f" (entry {self.entry_id})"
        return f"record {self.seq}{name}: {self.problem}"


class Verification(NamedTuple):
    """The result of checking every record of a session."""

    entries: int
    redacted: int
    foreign: int
    """The number of entries and records that only a newer version of steno can verify."""
    heads: Mapping[str, str | None]
    """The digest of the last entry of each branch, by branch name; None for an empty branch.

    To detect a rewritten log, compare these digests with a saved copy.
    """
    bad: BadRecord | None

    @property
    def is_intact(self) -> bool:
        """Whether verification found no damaged record."""
        return self.bad is None


def verify_records(records: Iterable[Record]) -> Verification:
    """Check the records of a session, which must be in the order in which they were written.

    The check ends at the first damaged record.
    """
    verifier = _ChainVerifier()
    bad: BadRecord | None = None
    for record in records:
        damage = verifier.check_record(record)
        if damage is not None:
            entry_id = record.entry and record.entry.id
            bad = BadRecord(record.seq, entry_id, damage.problem, damage.code)
            break
    if bad is None:
        bad = verifier.find_unexplained_redaction()
    heads = {
        branch: None if head is None else verifier.digests[head]
        for branch, head in verifier.heads.items()
    }
    return Verification(verifier.entries, len(verifier.redacted), verifier.foreign, heads, bad)


class _Damage(NamedTuple):
    """The code and a description of the damage found in a record."""

    code: str
    problem: str


class _ChainVerifier:
    """A verifier that reads the records of a session in order, and tracks their state."""

    def __init__(self) -> None:
        self.entries = self.foreign = 0
        self.digests: dict[str, str] = {}
        self.heads: dict[str, str | None] = {}
        self.redacted: dict[str, int] = {}
        self._explained: set[str] = set()
        self._last_seq = 0

    def check_record(self, record: Record) -> _Damage | None:
        """Check the next record, and return its damage; None if the record is intact."""
        expected, self._last_seq = self._last_seq + 1, record.seq
        if record.seq != expected:
            return _Damage("wrong_seq", f"expected record {expected} at this position")
        entry = record.entry
        if entry is None:
            return self._check_branch(record)
        self.entries += 1
        if entry.id in self.digests:
            return _Damage("repeated_id", "an earlier entry has the same id")
        if entry.parent is not None and entry.parent not in self.digests:
            return _Damage("parent_missing", "the parent of the entry is missing")
        parent_digest = None if entry.parent is None else self.digests[entry.parent]
        if record.branch not in self.heads and record.branch != MAIN_BRANCH:
            return _Damage("branch_not_begun", "no earlier record starts the branch")
        head = self.heads.get(record.branch)
        if entry.parent != head and not _is_rewind(entry, head):
            problem = "the entry does not follow the last entry of the branch"
            return _Damage("not_after_head", problem)
        if _is_newer_version(entry):
            self.foreign += 1
        elif entry_digest(entry, parent_digest) != record.digest:
            problem = "the digest does not match; this entry or an earlier one was changed"
            return _Damage("digest_mismatch", problem)
        assert record.digest is not None
        self.digests[entry.id] = record.digest
        self.heads[record.branch] = entry.id
        if isinstance(entry.payload, Redacted):
            self.redacted[entry.id] = record.seq
        elif isinstance(entry.payload, Redaction):
            self._explained.add(entry.payload.target)
        return None

    def _check_branch(self, record: Record) -> _Damage | None:
        if record.branch in self.heads:
            if record.unknown:  # a record of another kind, from a newer version
                self.foreign += 1
                return None
            return _Damage("branch_exists", "the branch already exists")
        if record.at is not None and record.at not in self.digests:
            return _Damage(
                "missing_branch_start", "the entry after which the branch starts is missing"
            )
        self.heads[record.branch] = record.at
        return None

    def find_unexplained_redaction(self) -> BadRecord | None:
        for entry_id, seq in self.redacted.items():
            if entry_id not in self._explained:
                problem = "the content was removed, but no redaction records the reason"
                return BadRecord(seq, entry_id, problem, "unexplained_redaction")
        return None


def _is_newer_version(entry: Entry) -> bool:
    """Return whether a newer version of the format is the reason why an entry is not understood.

    Without a newer version number, an entry that is not understood is damaged.
    """
    if entry.is_understood:
        return False
    try:
        return msgspec.json.decode(entry.unknown.text, type=_VersionedRecord).v > FORMAT_VERSION
    except (msgspec.MsgspecError, RecursionError):
        return False


class _VersionedRecord(msgspec.Struct):
    """The `v` member, which an entry has in every version of the format."""

    v: int = 0


def _is_rewind(entry: Entry, head: str | None) -> bool:
    """Return whether an entry may have a parent other than the last entry of its branch."""
    match entry.payload:
        case Rewind(left=left):
            return left == head
        case Redacted(kind=kind):
            return kind == "rewind"
        case _:
            return _is_newer_version(entry)
