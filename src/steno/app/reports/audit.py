"""The content of `steno audit` and `/audit`: decisions, and the check of the digests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from steno.app.session_log import SessionLog, describe_log_entry
from steno.app.session_lookup import UNREADABLE_ERRORS
from steno.log.chain import Verification
from steno.log.queries import entry_decision, entry_kinds, tools_of
from steno.messages.message import ToolResultMessage
from steno.records.entry import Approval, Entry
from steno.render.describe import describe_decider, entry_type, summarize_arguments
from steno.render.quantities import format_count, format_time
from steno.render.table_output import Column
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.store import Store

AUDIT_COLUMNS: Final = (
    Column("entry", "cyan", is_number=True),
    Column("time", "dim"),
    Column("kind", may_shrink=True),
    Column("decision", "bold"),
    Column("tool", may_shrink=True),
    Column("by", may_shrink=True),
    Column("outcome"),
)
DETAILS_COLUMN: Final = Column("about")
"""The subject of a decision. On a terminal it has lines of its own, and is never cut."""
_MAX_REASON_LENGTH: Final = 60
"""How much of a reason is shown; `steno sessions show` prints all of it."""
_MAX_DETAILS_LENGTH: Final = 200
"""How much is shown of an entry that is no decision."""
_BAD_RECORD_KEYS: Final = ("seq", "entry_id", "problem")


def describe_missing_decision(decision: str | None, entries: Sequence[Entry]) -> str:
    """Return the part of a notice about a decision that does not occur in a session."""
    decisions = dict.fromkeys([entry_decision(entry) for entry in entries])
    if decision is None or decision in decisions:
        return ""
    listed = [terminal_line(decision) for decision in decisions if decision]
    text = f"there are {', '.join(listed)}" if listed else "there is none"
    return f"; no decision in it is {terminal_line(decision)}, {text}"


def audit_row(entry: Entry, log: SessionLog) -> list[str]:
    """Return the row of an entry in the audit table."""
    payload = entry.payload
    kinds = entry_type(entry) if entry.message is None else ", ".join(entry_kinds(entry))
    outcome = payload.outcome if isinstance(payload, ToolResultMessage) else ""
    return [
        log.number(entry.id),
        format_time(entry.time) or "-",
        kinds,
        terminal_line(entry_decision(entry) or ""),
        terminal_line(", ".join(tools_of(entry, log.tools))),
        _decided_by(entry),
        outcome,
    ]


def audit_details(entry: Entry, log: SessionLog) -> str:
    """Return subject, grant and reason of a decision, or the description of another entry."""
    payload = entry.payload
    if entry.message is not None:
        return ""
    if not isinstance(payload, Approval):
        return truncate_to_width(terminal_line(describe_log_entry(entry, log)), _MAX_DETAILS_LENGTH)
    call = log.calls.get(payload.call_id)
    arguments = "" if call is None else summarize_arguments(call)
    reason = truncate_to_width(terminal_line(payload.reason or ""), _MAX_REASON_LENGTH)
    return " · ".join(filter(None, (arguments, _describe_grant(entry), reason)))


def _describe_grant(entry: Entry) -> str:
    """Return the rule that a decision allows beyond one call; empty where there is none."""
    audit = entry.audit or {}
    scope, rule = audit.get("scope"), audit.get("grant")
    if not isinstance(scope, str) or not isinstance(rule, str):
        return ""
    return terminal_line(f"for the {scope}: {rule}")


def _decided_by(entry: Entry) -> str:
    actor = None if entry.audit is None else entry.audit.get("actor")
    return describe_decider(entry.payload) or (
        terminal_line(actor) if isinstance(actor, str) else ""
    )


# -- verify ----------------------------------------------------------------------------------


class SessionVerification(NamedTuple):
    """The result of verifying a session."""

    session: str
    chain: Verification | None
    """None where it cannot be read."""
    problem: str | None
    """None where the session is intact."""
    head_record: int | None = None
    """The record with the digest that was searched for."""


def verify_session(store: Store, session: str, head: str | None = None) -> SessionVerification:
    """Check a session, and whether it holds the digest of a head if one is given.

    Raises Missing if there is no such session.
    """
    try:
        chain = store.verify(session)
    except UNREADABLE_ERRORS as exc:
        return SessionVerification(session, None, str(exc))
    if chain.bad is not None:
        return SessionVerification(session, chain, str(chain.bad))
    if head is None:
        return SessionVerification(session, chain, None)
    for record in store.records(session):
        if record.digest == head:
            return SessionVerification(session, chain, None, record.seq)
    problem = (
        "the chain does not hold this digest: it is another session, or its past was rewritten"
    )
    return SessionVerification(session, chain, problem)


def describe_verification(verification: Verification) -> str:
    """Return how many entries were checked, and which could not be."""
    parts = [format_count(verification.entries, "entry", "entries")]
    if verification.redacted:
        parts.append(f"the content of {verification.redacted:,} taken out")
    if verification.foreign:
        parts.append(f"{verification.foreign:,} of a newer version, whose content was not checked")
    return ", ".join(parts)


def verification_as_json(verification: SessionVerification) -> dict[str, Any]:
    """Return what verifying a session found, as JSON."""
    chain = verification.chain
    result: dict[str, Any] = {
        "session": verification.session,
        "intact": verification.problem is None,
        "problem": verification.problem,
    }
    if chain is not None:
        bad = chain.bad
        result |= {
            "entries": chain.entries,
            "redacted": chain.redacted,
            "foreign": chain.foreign,
            "heads": dict(chain.heads),
            "bad": None if bad is None else {name: getattr(bad, name) for name in _BAD_RECORD_KEYS},
        }
    if verification.head_record is not None:
        result["head_record"] = verification.head_record
    return result
