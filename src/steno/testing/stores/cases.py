"""Every case there is, in the order of the matrix. The name of a case is that of its function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from steno.testing.stores import (
    blobs,
    branches,
    damage,
    keeping,
    killing,
    sessions,
    together,
    trust,
)
from steno.testing.stores.subject import Subject

StoreCase: TypeAlias = Callable[[Subject], None]

STORE_CASES: Final[tuple[StoreCase, ...]] = (
    sessions.append_and_read_back,
    sessions.reopen_goes_on,
    sessions.header_is_kept,
    sessions.rename_changes_the_title_only,
    sessions.missing_session,
    sessions.missing_entry,
    sessions.session_taken,
    sessions.odd_session_names,
    sessions.many_sessions,
    sessions.hundred_thousand_entries,
    sessions.summary,
    sessions.remove_forgets,
    sessions.failed_write_leaves_nothing,
    sessions.closed_store,
    branches.heads_order,
    branches.conflict_on_lost_race,
    branches.id_taken,
    branches.missing_branch,
    branches.begin_branch_taken,
    branches.branch_begins_with_nothing,
    branches.odd_branch_names,
    branches.fork_shares_the_past,
    branches.rewind_keeps_what_was_left,
    branches.switch_is_recorded,
    branches.clone_is_independent,
    keeping.every_payload,
    keeping.unknown_entry_kept,
    keeping.odd_text,
    keeping.large_text,
    keeping.odd_ids,
    keeping.records_are_numbered,
    keeping.convert_keeps_digests,
    blobs.blob_round_trip,
    blobs.missing_blob,
    blobs.hostile_blob_names,
    blobs.images_lie_beside,
    blobs.results_lie_beside,
    blobs.garbage_collection,
    trust.verify_names_the_first_bad,
    trust.replaced_record_is_read_everywhere,
    trust.redaction_keeps_the_chain,
    trust.search_finds_words,
    trust.search_follows_what_is_written,
    together.seen_by_others,
    together.two_threads,
    together.threads_with_sessions,
    together.two_processes_same_branch,
    together.two_processes_two_branches,
    together.full_disk,
    damage.torn_last_record,
    damage.nul_padding,
    damage.truncated_files,
    damage.spliced_files,
    damage.read_only_place,
    killing.crash,
)
"""What is asked of every store."""
