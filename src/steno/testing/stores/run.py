"""Run cases against a store; the results make the same matrix as those of wires."""

from __future__ import annotations

import traceback
from pathlib import Path

from steno.testing.conformance.run import Result, Verdict
from steno.testing.stores.cases import STORE_CASES, StoreCase
from steno.testing.stores.expecting import Unmet
from steno.testing.stores.subject import NotApplicable, Subject


def run_store_case(case: StoreCase, subject: Subject) -> Result:
    """Run one case; whatever it raises is in the result, and what it stored is removed."""
    name = case.__name__
    try:
        before = _everything(subject)
        try:
            case(subject)
        finally:
            _clean_up(subject, *before)
    except NotApplicable as exc:
        return Result(name, subject.name, Verdict.NOT_APPLICABLE, f"not applicable: {exc}")
    except Unmet as exc:
        return Result(name, subject.name, Verdict.FAIL, str(exc))
    except Exception as exc:  # noqa: BLE001 - what crashes is what we are looking for
        place = traceback.extract_tb(exc.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        reason = f"crashed: {type(exc).__name__} in {where}: {exc}"
        return Result(name, subject.name, Verdict.FAIL, reason)
    return Result(name, subject.name, Verdict.OK)


def run_store_cases(subject: Subject) -> list[Result]:
    """Run every case."""
    return [run_store_case(case, subject) for case in STORE_CASES]


def _everything(subject: Subject) -> tuple[frozenset[str], frozenset[str]]:
    with subject.open() as store:
        sessions = frozenset([header.id for header in store.headers()])
        return sessions, frozenset([blob.sha256 for blob in store.blobs()])


def _clean_up(subject: Subject, sessions: frozenset[str], blobs: frozenset[str]) -> None:
    """Remove what a case has stored, so that the next one is alone again."""
    with subject.open() as store:
        for session in [header.id for header in store.headers()]:
            if session not in sessions:
                store.remove(session)
        for digest in [blob.sha256 for blob in store.blobs()]:
            if digest not in blobs:
                store.remove_blob(digest)
