"""Check whether the log of a session is intact, and describe the result."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from steno.app.session_lookup import UNREADABLE_ERRORS
from steno.log.chain import Verification
from steno.render.quantities import format_count
from steno.store import Store

_BAD_RECORD_KEYS: Final = ("seq", "entry_id", "problem")


class SessionVerification(NamedTuple):
    """The result of verifying a session."""

    session: str
    chain: Verification | None
    """None if the session cannot be read."""
    problem: str | None
    """None if the session is intact."""
    head_record: int | None = None
    """The number of the record with the given digest; None if no digest was given or found."""


def verify_session(store: Store, session: str, head: str | None = None) -> SessionVerification:
    """Check a session, and if a digest is given, whether the chain contains it.

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
        "the chain does not contain this digest: it belongs to another session, or the log was "
        "rewritten"
    )
    return SessionVerification(session, chain, problem)


def describe_verification(verification: Verification) -> str:
    """Return the number of entries as text.

    If there are redacted entries, or entries of a newer version, their numbers are added.
    """
    parts = [format_count(verification.entries, "entry", "entries")]
    if verification.redacted:
        parts.append(f"{verification.redacted:,} redacted")
    if verification.foreign:
        parts.append(f"{verification.foreign:,} of a newer version, not checked")
    return ", ".join(parts)


def verification_as_json(verification: SessionVerification) -> dict[str, Any]:
    """Return the result of verifying a session, as JSON."""
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
