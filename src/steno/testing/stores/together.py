"""Cases about several at once: threads, processes, and a disk without room."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from steno.conversation import Conversation
from steno.errors import Conflict
from steno.message import ChatMessage
from steno.record import MAIN
from steno.store import Store
from steno.testing.stores.expecting import (
    TALK,
    expect,
    expect_intact,
    expect_kept,
    kept,
    require,
    talked,
)
from steno.testing.stores.processes import Acknowledged, Writer
from steno.testing.stores.subject import NotApplicable, Subject

_THREADS = 4


def _run_threads(acts: Sequence[Callable[[], object]]) -> None:
    with ThreadPoolExecutor(len(acts)) as pool:
        for done in [pool.submit(act) for act in acts]:
            done.result()


def two_threads(subject: Subject) -> None:
    """Threads may share a conversation, or each have their own: nothing is lost or doubled."""
    writes = subject.scale.writes
    with subject.open() as store:
        shared = talked(store)
        session = shared.id

        def write_shared(name: str) -> None:
            for number in range(writes):
                shared.append(ChatMessage.user(f"{name} {number}"))

        _run_threads([partial(write_shared, name) for name in "abcd"])
        _expect_all(store, session, _THREADS, writes)

        own = [store.open(session) for _ in range(2)]
        _run_threads([partial(_write_own, one, writes) for one in own])
        expect_intact(store, session, entries=len(TALK) + (_THREADS + 2) * writes)


def _write_own(conversation: Conversation, writes: int) -> None:
    for number in range(writes):
        while True:
            try:
                conversation.append(ChatMessage.user(f"own {number}"), branch=MAIN)
                break
            except Conflict:
                conversation.refresh()


def threads_with_sessions(subject: Subject) -> None:
    """Threads may use one store for sessions of their own, and read while others write."""
    writes = subject.scale.writes
    with subject.open() as store:

        def work() -> None:
            conversation = store.new()
            for number in range(writes):
                conversation.append(ChatMessage.user(f"entry {number}"))
                expect(len(list(store.records(conversation.id))), number + 1, "records so far")
                blob = store.put_blob(b"shared by all")
                require(store.blob(blob) == b"shared by all", "a blob must be there at once")
            expect_intact(store, conversation.id, entries=writes)

        _run_threads([work] * _THREADS)


def _expect_all(store: Store, session: str, writers: int, writes: int) -> None:
    """Raise Unmet unless everything that was written is there once, in the order of its writer."""
    texts = [message.text or "" for message in store.open(session).messages(MAIN)[len(TALK) :]]
    expect(len(texts), writers * writes, "messages of all writers")
    by_writer: dict[str, list[int]] = {}
    for text in texts:
        name, _, number = text.partition(" ")
        by_writer.setdefault(name, []).append(int(number))
    for numbers in by_writer.values():
        expect(numbers, list(range(writes)), "messages of one writer, in order")
    expect_intact(store, session, entries=len(TALK) + writers * writes)


# -- processes ---------------------------------------------------------------------------------


def _write_in_processes(
    subject: Subject, session: str, branches: Sequence[str]
) -> list[Acknowledged]:
    """Let processes write at the same time; return what they were told is durable."""
    if not subject.is_shared:
        raise NotApplicable("no other process can open this store")
    settings = ("--entries", str(subject.scale.writes))
    with ExitStack() as stack:
        writers = [
            stack.enter_context(Writer(subject, session, *settings, "--branch", branch))
            for branch in branches
        ]
        for writer in writers:
            writer.wait_until_ready()
        for writer in writers:
            writer.start_writing()
        return [told for writer in writers for told in writer.finish()]


def _expect_acknowledged(store: Store, session: str, told: Sequence[Acknowledged]) -> None:
    """Raise Unmet unless everything that was acknowledged is there, once and unchanged."""
    records = [record for record in store.records(session) if record.entry is not None]
    found = Counter(record.entry.id for record in records if record.entry is not None)
    require(set(found.values()) == {1}, "every entry must be there once")
    digests = {record.entry.id: record.digest for record in records if record.entry is not None}
    for one in told:
        expect(digests.get(one.entry), one.digest, "the digest of an acknowledged entry")


def two_processes_same_branch(subject: Subject) -> None:
    """Two processes on one branch take turns: each race has one winner, and the chain holds."""
    with subject.open() as store:
        session = talked(store).id
        told = _write_in_processes(subject, session, [MAIN, MAIN])
        expect(len(told), 2 * subject.scale.writes, "entries that were acknowledged")
        _expect_acknowledged(store, session, told)
        _expect_all(store, session, 2, subject.scale.writes)


def two_processes_two_branches(subject: Subject) -> None:
    """Two processes on two branches do not get in each other's way."""
    writes = subject.scale.writes
    with subject.open() as store:
        conversation = talked(store)
        session = conversation.id
        for name in ("one", "two"):
            conversation.fork(name)
        told = _write_in_processes(subject, session, ["one", "two"])
        expect(len(told), 2 * writes, "entries that were acknowledged")
        _expect_acknowledged(store, session, told)
        found = store.open(session)
        for name in ("one", "two"):
            expect(len(found.messages(name)), len(TALK) + writes, f"messages on branch {name}")
        expect(found.messages(MAIN), TALK, "messages on the main branch")
        numbers = [record.seq for record in store.records(session)]
        expect(numbers, list(range(1, len(TALK) + 2 + 2 * writes + 1)), "seq of the records")
        expect_intact(store, session, entries=len(TALK) + 2 * writes)


def seen_by_others(subject: Subject) -> None:
    """What one opening of the store writes, the others see."""
    with subject.open() as store, subject.open() as other:
        conversation = talked(store)
        before = kept(store, conversation.id)
        expect_kept(other, conversation.id, before, "seen by another opening")
        found = other.open(conversation.id)
        conversation.append(ChatMessage.user("more"))
        conversation.fork("idea")
        found.refresh()
        expect(found.messages(MAIN)[-1].text, "more", "the last word, after a refresh")
        expect(set(found.branches), {MAIN, "idea"}, "branches, after a refresh")
        if subject.is_shared:
            told = _write_in_processes(subject, conversation.id, [MAIN])
            _expect_acknowledged(other, conversation.id, told)


# -- a disk without room -----------------------------------------------------------------------

_LARGEST_FILE = 4_000_000


def full_disk(subject: Subject) -> None:
    """What there is no room for is refused and leaves nothing; what is there stays usable."""
    if not (subject.is_durable and subject.is_shared) or sys.platform == "win32":
        raise NotApplicable("there is no disk that could be full")
    with subject.open() as store:
        session = talked(store).id
    with Writer(subject, session, "--largest-file", str(_LARGEST_FILE)) as writer:
        writer.start_writing()
        told = writer.finish()
    refused = [one.branch for one in told if one.kind == "refused"]
    expect(sorted(set(refused) - {"Unavailable"}), [], "errors other than Unavailable")
    acknowledged = [one for one in told if one.kind == "entry"]
    with subject.open() as store:
        expect_intact(store, session, entries=len(TALK) + len(acknowledged))
        _expect_acknowledged(store, session, acknowledged)
        store.open(session).append(ChatMessage.user("There is room again."))
        expect_intact(store, session, entries=len(TALK) + len(acknowledged) + 1)
