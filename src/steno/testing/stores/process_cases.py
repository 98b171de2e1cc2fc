"""Cases about threads and processes that write at once, a disk without room, and crashes.

In a round about crashes a process opens the same session and writes until it is killed with
SIGKILL: while it opens the store, at its first write, or after some acknowledged ones. Every
acknowledged step must be there, at most one unacknowledged step may be, and the session must accept
new entries.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import Final

from steno.errors import Conflict, Missing
from steno.ids import new_id
from steno.log.conversation import Conversation
from steno.messages.content import Image, ImageBlob
from steno.messages.message import ChatMessage
from steno.records.entry import Repair
from steno.records.stored_record import MAIN_BRANCH, Record
from steno.store import Store
from steno.store.base import BranchHeads
from steno.testing.case_results import CaseFailure, expect, require
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

ROUNDS_VARIABLE: Final = "STENO_CRASH_ROUNDS"
"""The environment variable that overrides the number of rounds of a harness."""
_THREADS: Final = 4
_LARGEST_FILE_BYTES: Final = 4_000_000


# -- threads -----------------------------------------------------------------------------------


def two_threads(harness: StoreHarness) -> None:
    """Threads may share a conversation, or each have their own: no entry is lost or doubled."""
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
        _run_threads(
            [partial(_write_retrying_conflicts, conversation, writes) for conversation in own]
        )
        expect_intact(store, session, entries=len(SAMPLE_MESSAGES) + (_THREADS + 2) * writes)


def threads_with_sessions(harness: StoreHarness) -> None:
    """Threads may use one store for sessions of their own, and read while others write."""
    writes = harness.scale.writes
    with harness.open() as store:

        def work() -> None:
            conversation = store.new()
            for number in range(writes):
                conversation.append(ChatMessage.user(f"entry {number}"))
                expect(len(list(store.records(conversation.id))), number + 1, "records so far")
                blob = store.put_blob(b"shared by all")
                require(store.blob(blob) == b"shared by all", "a blob must be there at once")
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
    """Raise CaseFailure unless every message is there once, in the order of its writer."""
    texts = [
        message.text or ""
        for message in store.open(session).messages(MAIN_BRANCH)[len(SAMPLE_MESSAGES) :]
    ]
    expect(len(texts), writers * writes, "messages of all writers")
    by_writer: dict[str, list[int]] = {}
    for text in texts:
        name, _, number = text.partition(" ")
        by_writer.setdefault(name, []).append(int(number))
    for numbers in by_writer.values():
        expect(numbers, list(range(writes)), "messages of one writer, in order")
    expect_intact(store, session, entries=len(SAMPLE_MESSAGES) + writers * writes)


# -- processes ---------------------------------------------------------------------------------


def seen_by_others(harness: StoreHarness) -> None:
    """An open store sees the writes of the others."""
    with harness.open() as store, harness.open() as other:
        conversation = new_sample_session(store)
        before = read_session(store, conversation.id)
        expect_stored(other, conversation.id, before, "seen by another opening")
        found = other.open(conversation.id)
        conversation.append(ChatMessage.user("more"))
        conversation.fork("idea")
        found.refresh()
        expect(found.messages(MAIN_BRANCH)[-1].text, "more", "the last word, after a refresh")
        expect(set(found.branches), {MAIN_BRANCH, "idea"}, "branches, after a refresh")
        if harness.is_shared:
            acknowledged = _write_in_processes(harness, conversation.id, [MAIN_BRANCH])
            _expect_acknowledged(other, conversation.id, acknowledged)


def two_processes_same_branch(harness: StoreHarness) -> None:
    """Two processes on one branch take turns: each race has one winner, and the chain holds."""
    with harness.open() as store:
        session = new_sample_session(store).id
        acknowledged = _write_in_processes(harness, session, [MAIN_BRANCH, MAIN_BRANCH])
        expect(len(acknowledged), 2 * harness.scale.writes, "entries that were acknowledged")
        _expect_acknowledged(store, session, acknowledged)
        _expect_all_messages(store, session, 2, harness.scale.writes)


def two_processes_two_branches(harness: StoreHarness) -> None:
    """Two processes on two branches do not get in each other's way."""
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
        for name in ("one", "two"):
            expect(
                len(found.messages(name)),
                len(SAMPLE_MESSAGES) + writes,
                f"messages on branch {name}",
            )
        expect(found.messages(MAIN_BRANCH), SAMPLE_MESSAGES, "messages on the main branch")
        numbers = [record.seq for record in store.records(session)]
        expect(
            numbers, list(range(1, len(SAMPLE_MESSAGES) + 2 + 2 * writes + 1)), "seq of the records"
        )
        expect_intact(store, session, entries=len(SAMPLE_MESSAGES) + 2 * writes)


def _write_in_processes(
    harness: StoreHarness, session: str, branches: Sequence[str]
) -> list[Acknowledgement]:
    """Let processes write at the same time; return their acknowledgements."""
    if not harness.is_shared:
        raise NotApplicable("no other process can open this store")
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
    """Raise CaseFailure unless every acknowledged entry is there, once and unchanged."""
    records = [record for record in store.records(session) if record.entry is not None]
    found = Counter(record.entry.id for record in records if record.entry is not None)
    require(set(found.values()) == {1}, "every entry must be there once")
    digests = {record.entry.id: record.digest for record in records if record.entry is not None}
    for report in acknowledged:
        expect(digests.get(report.entry), report.digest, "the digest of an acknowledged entry")


# -- a full disk -------------------------------------------------------------------------------


def full_disk(harness: StoreHarness) -> None:
    """A write without room is refused and leaves nothing; the session stays usable."""
    if not (harness.is_durable and harness.is_shared) or sys.platform == "win32":
        raise NotApplicable("there is no disk that could be full")
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
        store.open(session).append(ChatMessage.user("There is room again."))
        expect_intact(store, session, entries=len(SAMPLE_MESSAGES) + len(acknowledged) + 1)


# -- crashes -----------------------------------------------------------------------------------


def crash(harness: StoreHarness) -> None:
    """A process that is killed at any instant leaves an intact session that accepts entries."""
    run_crash_rounds(harness, int(os.environ.get(ROUNDS_VARIABLE) or harness.scale.crashes))


def run_crash_rounds(harness: StoreHarness, rounds: int, *, seed: int = 1) -> int:
    """Kill a writer `rounds` times; return the number of acknowledged steps. Raises CaseFailure."""
    if not (harness.is_durable and harness.is_shared):
        raise NotApplicable("it does not outlive its process")
    random = Random(seed)  # noqa: S311 - nothing here is a secret
    crash_check = _CrashCheck(harness, new_id())
    for number in range(1, rounds + 1):
        acknowledged = _write_and_kill(harness, crash_check.session, random)
        try:
            crash_check.check(acknowledged)
        except CaseFailure as exc:
            raise CaseFailure(f"round {number} of seed {seed}: {exc}") from exc
    return crash_check.acknowledged


def _write_and_kill(harness: StoreHarness, session: str, random: Random) -> list[Acknowledgement]:
    """Let a process write until it is killed; return its acknowledgements."""
    wanted = random.choice((-1, 0, 0, 1, 1, 2, 3, 5, 8, 13, 21))
    acknowledged: list[Acknowledgement] = []
    with WriterProcess(harness, session, "--seed", str(random.randrange(2**32))) as writer:
        writer.start_writing()
        if wanted < 0:  # while it starts, opens or repairs
            time.sleep(random.uniform(0, 0.25))
        else:
            writer.wait_until_ready()
            received = writer.acknowledgements()
            while len(acknowledged) < wanted and (step := next(received, None)) is not None:
                acknowledged.append(step)
            time.sleep(random.choice((0, random.uniform(0, 0.002), random.uniform(0, 0.02))))
        writer.kill()
        acknowledged += writer.acknowledgements()
        if not writer.was_killed():
            raise CaseFailure(
                f"the writer must continue until it is killed: {writer.last_error_line()}"
            )
    return acknowledged


class _CrashCheck:
    """The acknowledged state of a session, compared with the store after each crash."""

    def __init__(self, harness: StoreHarness, session: str) -> None:
        self.harness = harness
        self.session = session
        self.acknowledged = 0
        self._has_begun = False
        self._digests: dict[str, str | None] = {}
        self._branches: set[str] = set()
        self._records = 0

    def check(self, acknowledged: Sequence[Acknowledgement]) -> None:
        """Open the store after a crash, append an entry, and compare. Raises CaseFailure."""
        steps = [step for step in acknowledged if step.kind != "session"]
        self.acknowledged += len(steps)
        self._has_begun |= len(acknowledged) > 0
        self._digests |= {step.entry: step.digest for step in steps if step.kind == "entry"}
        self._branches |= {step.branch for step in steps if step.kind == "branch"}
        with self.harness.open() as store:
            try:
                store.header(self.session)
            except Missing:
                require(not self._has_begun, "the session was acknowledged and is not there")
                return
            self._has_begun = True
            self._continue_session(store)
            self._compare_with_acknowledged(store, len(steps))

    def _continue_session(self, store: Store) -> None:
        conversation = store.open(self.session)
        mark = Repair(code="killed", explanation="its writer was killed")
        try:
            entry = conversation.append(mark)
        except Conflict:  # a server may finish the statement of a client that is gone
            conversation.refresh()
            entry = conversation.append(mark)
        self._digests[entry.id] = conversation.digest(entry.id)

    def _compare_with_acknowledged(self, store: Store, steps: int) -> None:
        verification = store.verify(self.session)
        require(verification.is_intact, f"the chain must hold: {verification.bad}")
        records = list(store.records(self.session))
        found = {record.entry.id: record.digest for record in records if record.entry is not None}
        for entry, digest in self._digests.items():
            require(entry in found, "an entry was acknowledged and is not there")
            expect(found[entry], digest, "the digest of an acknowledged entry")
        heads = _heads_of(records)
        expect(list(store.heads(self.session).items()), list(heads.items()), "heads")
        require(self._branches <= heads.keys(), "a branch was acknowledged and is not there")
        surplus = len(records) - self._records - steps - 1
        require(0 <= surplus <= 1, f"at most one step may be there unacknowledged, not {surplus}")
        for record in records[self._records :]:
            _read_blobs(store, record)
        self._digests = found
        self._records = len(records)


def _heads_of(records: Sequence[Record]) -> dict[str, str | None]:
    heads = BranchHeads()
    for record in records:
        if record.entry is None:
            heads.begin(record.branch, record.at)
        else:
            heads.write(record.branch, record.entry.id)
    return heads.all()


def _read_blobs(store: Store, record: Record) -> None:
    content = getattr(getattr(record.entry, "payload", None), "content", ())
    for block in content:
        if isinstance(block, Image) and isinstance(block.source, ImageBlob):
            try:
                data = store.blob(block.source.sha256)
            except Missing:
                raise CaseFailure("a record names a blob that is not there") from None
            expect(len(data), block.source.size, "the size of a blob that a record names")
