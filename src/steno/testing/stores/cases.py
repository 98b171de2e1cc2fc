"""The cases for stores, in the order of the matrix, and the functions that run them.

Every public function of a `*_cases` module is a case; the function name is the name of the case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from steno.testing.case_results import CaseResult, find_cases, run_case
from steno.testing.stores import damage_cases, process_cases, record_cases, session_cases
from steno.testing.stores.store_harness import NotApplicable, StoreHarness

StoreCase: TypeAlias = Callable[[StoreHarness], None]
STORE_CASES: Final[tuple[StoreCase, ...]] = find_cases(
    session_cases, record_cases, process_cases, damage_cases
)
"""The cases for every store."""


def run_store_case(case: StoreCase, harness: StoreHarness) -> CaseResult:
    """Run one case, remove the sessions and blobs it stored, and return the result.

    An exception of the case is returned as a failed result.
    """

    def run() -> None:
        with harness.open() as store:
            sessions = {header.id for header in store.headers()}
            blobs = {blob.sha256 for blob in store.blobs()}
        try:
            case(harness)
        finally:
            _remove_new_contents(harness, sessions, blobs)

    return run_case(
        case.__name__,
        harness.name,
        run,
        not_applicable=NotApplicable,
        explanation="not applicable",
    )


def run_store_cases(harness: StoreHarness) -> list[CaseResult]:
    """Run every case against the store of a harness."""
    return [run_store_case(case, harness) for case in STORE_CASES]


def _remove_new_contents(harness: StoreHarness, sessions: set[str], blobs: set[str]) -> None:
    """Remove all sessions and blobs except those that existed before the case."""
    with harness.open() as store:
        for session in [header.id for header in store.headers()]:
            if session not in sessions:
                store.remove(session)
        for digest in [blob.sha256 for blob in store.blobs()]:
            if digest not in blobs:
                store.remove_blob(digest)
