"""The cases for stores, in the order of the matrix, and the functions that run them.

The name of a case is the name of its function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from steno.testing.case_results import CaseResult, run_case
from steno.testing.stores import (
    damage_cases,
    process_cases,
    record_cases,
    session_cases,
)
from steno.testing.stores.store_harness import NotApplicable, StoreHarness

StoreCase: TypeAlias = Callable[[StoreHarness], None]
STORE_CASES: Final[tuple[StoreCase, ...]] = (
    session_cases.append_and_read_back,
    session_cases.reopen_goes_on,
    session_cases.header_is_kept,
    session_cases.rename_changes_the_title_only,
    session_cases.missing_session,
    session_cases.missing_entry,
    session_cases.session_taken,
    session_cases.odd_session_names,
    session_cases.many_sessions,
    session_cases.hundred_thousand_entries,
    session_cases.summary,
    session_cases.remove_forgets,
    session_cases.failed_write_leaves_nothing,
    session_cases.closed_store,
    session_cases.heads_order,
    session_cases.conflict_on_lost_race,
    session_cases.id_taken,
    session_cases.missing_branch,
    session_cases.begin_branch_taken,
    session_cases.branch_begins_with_nothing,
    session_cases.odd_branch_names,
    session_cases.fork_shares_the_past,
    session_cases.rewind_keeps_what_was_left,
    session_cases.switch_is_recorded,
    session_cases.clone_is_independent,
    record_cases.every_payload,
    record_cases.unknown_entry_kept,
    record_cases.odd_text,
    record_cases.large_text,
    record_cases.odd_ids,
    record_cases.records_are_numbered,
    record_cases.convert_keeps_digests,
    record_cases.blob_round_trip,
    record_cases.missing_blob,
    record_cases.hostile_blob_names,
    record_cases.images_lie_beside,
    record_cases.results_lie_beside,
    record_cases.garbage_collection,
    record_cases.verify_names_the_first_bad,
    record_cases.replaced_record_is_read_everywhere,
    record_cases.redaction_keeps_the_chain,
    record_cases.search_finds_words,
    record_cases.search_follows_what_is_written,
    process_cases.seen_by_others,
    process_cases.two_threads,
    process_cases.threads_with_sessions,
    process_cases.two_processes_same_branch,
    process_cases.two_processes_two_branches,
    process_cases.full_disk,
    damage_cases.torn_last_record,
    damage_cases.nul_padding,
    damage_cases.truncated_files,
    damage_cases.spliced_files,
    damage_cases.read_only_place,
    process_cases.crash,
)
"""The cases for every store."""


def run_store_case(case: StoreCase, harness: StoreHarness) -> CaseResult:
    """Run one case and remove the sessions and blobs it stored; an exception is a failed result."""

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
    """Run every case."""
    return [run_store_case(case, harness) for case in STORE_CASES]


def _remove_new_contents(harness: StoreHarness, sessions: set[str], blobs: set[str]) -> None:
    """Remove the sessions and blobs that a case stored, so that the next one begins empty."""
    with harness.open() as store:
        for session in [header.id for header in store.headers()]:
            if session not in sessions:
                store.remove(session)
        for digest in [blob.sha256 for blob in store.blobs()]:
            if digest not in blobs:
                store.remove_blob(digest)
