"""Cases about concurrent writes by several open stores, threads and processes, and a full disk."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Final

from steno.errors import Conflict
from steno.log.conversation import Conversation
from steno.messages.message import ChatMessage
from steno.records.stored_record import MAIN_BRANCH
from steno.store import Store
from steno.testing.case_results import expect, require
from steno.testing.stores.store_harness import (
    SAMPLE_MESSAGES,
    Acknowledgement,
    NotApplicable,
    StoreHarness,
    WriterProcess,
    expect_intact,
    expect_stored,
    new_sample_session,
    read_session,
)

_THREADS: Final = 4
_LARGEST_FILE_BYTES: Final = 4_000_000


# -- several open stores ----------------------------------------------------------------------


def writes_visible_to_others(harness: StoreHarness) -> None:
    """Check that an open store returns data that other open stores and processes wrote."""
    with harness.open() as store, harness.open() as other:
        conversation = new_sample_session(store)
        before = read_session(store, conversation.id)
        expect_stored(other, conversation.id, before, "read by another open store")
        found = other.open(conversation.id)
        conversation.append(ChatMessage.user("more"))
        conversation.fork("idea")
        found.refresh()
        expect(found.messages(MAIN_BRANCH)[-1].text, "more", "the last message, after a refresh")
        expect(set(found.branches), {MAIN_BRANCH, "idea"}, "branches, after a refresh")
        if harness.is_shared:
            acknowledged = _write_in_processes(harness, conversation.id, [MAIN_BRANCH])
            _expect_acknowledged(other, conversation.id, acknowledged)


# -- threads -----------------------------------------------------------------------------------


def threads_on_one_session(harness: StoreHarness) -> None:
    """Check that threads on one session lose and repeat no entry.

    The threads share one conversation object or each open their own.
    """
    writes = harness.scale.writes
    with harness.open() as store:
        shared = new_sample_session(store)
        session = shared.id

        def write_shared(name: str) -> None:
            for number in range(writes):
                shared.append(ChatMessage.user(f"{name} {number}"))

        _run_threads([partial(write_shared, name) for name in "abcd"])
        _expect_all_messages(store, session, _THREADS, writes)

        own = [store.open(session) for _ in range(2)]
        _run_threads([partial(_write_retrying_conflicts, each, writes) for each in own])
        expect_intact(store, session, entries=len(SAMPLE_MESSAGES) + (_THREADS + 2) * writes)


def threads_with_own_sessions(harness: StoreHarness) -> None:
    """Check that threads can write to different sessions of one store and read them meanwhile."""
    writes = harness.scale.writes
    with harness.open() as store:

        def work() -> None:
            conversation = store.new()
            for number in range(writes):
                conversation.append(ChatMessage.user(f"entry {number}"))
                expect(len(list(store.records(conversation.id))), number + 1, "records so far")
                blob = store.put_blob(b"shared by all")
                require(
                    store.blob(blob) == b"shared by all", "a stored blob must be readable at once"
                )
            expect_intact(store, conversation.id, entries=writes)

        _run_threads([work] * _THREADS)


def _run_threads(actions: Sequence[Callable[[], object]]) -> None:
    with ThreadPoolExecutor(len(actions)) as pool:
        for done in [pool.submit(action) for action in actions]:
            done.result()


def _write_retrying_conflicts(conversation: Conversation, writes: int) -> None:
    for number in range(writes):
        while True:
            try:
                conversation.append(ChatMessage.user(f"own {number}"), branch=MAIN_BRANCH)
                break
            except Conflict:
                conversation.refresh()


def _expect_all_messages(store: Store, session: str, writers: int, writes: int) -> None:
    """Raise CaseFailure unless the messages of each writer are stored once and in order."""
    messages = store.open(session).messages(MAIN_BRANCH)[len(SAMPLE_MESSAGES) :]
    expect(len(messages), writers * writes, "messages of all writers")
    by_writer: dict[str, list[int]] = {}
    for message in messages:
        name, _, number = (message.text or "").partition(" ")
        by_writer.setdefault(name, []).append(int(number))
    for numbers in by_writer.values():
        expect(numbers, list(range(writes)), "messages of one writer, in order")
    expect_intact(store, session, entries=len(SAMPLE_MESSAGES) + writers * writes)


# -- processes ---------------------------------------------------------------------------------


def two_processes_same_branch(harness: StoreHarness) -> None:
    """Check that two processes on one branch lose and repeat no entry and leave a valid chain."""
    with harness.open() as store:
        session = new_sample_session(store).id
        acknowledged = _write_in_processes(harness, session, [MAIN_BRANCH, MAIN_BRANCH])
        expect(len(acknowledged), 2 * harness.scale.writes, "entries that were acknowledged")
        _expect_acknowledged(store, session, acknowledged)
        _expect_all_messages(store, session, 2, harness.scale.writes)


def two_processes_two_branches(harness: StoreHarness) -> None:
    """Check that two processes that write to different branches do not affect each other."""
    writes = harness.scale.writes
    with harness.open() as store:
        conversation = new_sample_session(store)
        session = conversation.id
        for name in ("one", "two"):
            conversation.fork(name)
        acknowledged = _write_in_processes(harness, session, ["one", "two"])
        expect(len(acknowledged), 2 * writes, "entries that were acknowledged")
        _expect_acknowledged(store, session, acknowledged)
        found = store.open(session)
        before = len(SAMPLE_MESSAGES)
        for name in ("one", "two"):
            expect(len(found.messages(name)), before + writes, f"messages on branch {name}")
        expect(found.messages(MAIN_BRANCH), SAMPLE_MESSAGES, "messages on the main branch")
        numbers = [record.seq for record in store.records(session)]
        expect(numbers, list(range(1, before + 2 * writes + 3)), "seq of the records")
        expect_intact(store, session, entries=before + 2 * writes)


def _write_in_processes(
    harness: StoreHarness, session: str, branches: Sequence[str]
) -> list[Acknowledgement]:
    """Start one process for each branch, which write at once; return their acknowledgements.

    Raises NotApplicable if other processes cannot open the store.
    """
    if not harness.is_shared:
        raise NotApplicable("other processes cannot open this store")
    settings = ("--entries", str(harness.scale.writes))
    with ExitStack() as stack:
        writers = [
            stack.enter_context(WriterProcess(harness, session, *settings, "--branch", branch))
            for branch in branches
        ]
        for writer in writers:
            writer.wait_until_ready()
        for writer in writers:
            writer.start_writing()
        return [report for writer in writers for report in writer.finish()]


def _expect_acknowledged(
    store: Store, session: str, acknowledged: Sequence[Acknowledgement]
) -> None:
    """Raise CaseFailure unless every acknowledged entry is stored once and unchanged."""
    found = [
        (record.entry.id, record.digest)
        for record in store.records(session)
        if record.entry is not None
    ]
    digests = dict(found)
    require(len(digests) == len(found) > 0, "every entry must be stored once")
    for report in acknowledged:
        expect(digests.get(report.entry), report.digest, "the digest of an acknowledged entry")


# -- a full disk -------------------------------------------------------------------------------


def full_disk(harness: StoreHarness) -> None:
    """Check that a write to a full disk raises Unavailable and leaves the session unchanged."""
    if not (harness.is_durable and harness.is_shared) or sys.platform == "win32":
        raise NotApplicable("a full disk cannot be simulated for this store")
    with harness.open() as store:
        session = new_sample_session(store).id
    with WriterProcess(harness, session, "--largest-file", str(_LARGEST_FILE_BYTES)) as writer:
        writer.start_writing()
        reports = writer.finish()
    refused = [report.branch for report in reports if report.kind == "refused"]
    expect(sorted(set(refused) - {"Unavailable"}), [], "errors other than Unavailable")
    acknowledged = [report for report in reports if report.kind == "entry"]
    with harness.open() as store:
        expect_intact(store, session, entries=len(SAMPLE_MESSAGES) + len(acknowledged))
        _expect_acknowledged(store, session, acknowledged)
        store.open(session).append(ChatMessage.user("The disk has space again."))
        expect_intact(store, session, entries=len(SAMPLE_MESSAGES) + len(acknowledged) + 1)
