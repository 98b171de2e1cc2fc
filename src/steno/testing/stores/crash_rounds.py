"""Kill processes that write to a session, and check the store after each crash.

In each round a process opens the same session and writes until it is killed with SIGKILL. The kill
occurs while the process opens the store, at its first write, or after some acknowledged writes.
Every acknowledged step must be stored, at most one unacknowledged step may be stored, and the
session must accept new entries.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random
from typing import Final

from steno.errors import Conflict, Missing
from steno.ids import new_id
from steno.messages.content import Image, ImageBlob
from steno.records.entry import Repair
from steno.records.stored_record import Record
from steno.store import Store
from steno.store.base import BranchHeads
from steno.testing.case_results import CaseFailure, expect, require
from steno.testing.stores.store_harness import (
    Acknowledgement,
    NotApplicable,
    StoreHarness,
    WriterProcess,
)

ROUNDS_VARIABLE: Final = "STENO_CRASH_ROUNDS"
"""The environment variable that overrides the number of rounds of a harness."""


def run_crash_rounds(harness: StoreHarness, rounds: int, *, seed: int = 1) -> int:
    """Kill a writer `rounds` times; return the number of acknowledged steps.

    Raises CaseFailure if the store loses or damages data, and NotApplicable if it is not durable or
    other processes cannot open it.
    """
    if not (harness.is_durable and harness.is_shared):
        raise NotApplicable("the store is not durable, or other processes cannot open it")
    random = Random(seed)  # noqa: S311 - not for secrets
    crash_check = _CrashCheck(harness, new_id())
    for number in range(1, rounds + 1):
        acknowledged = _write_and_kill(harness, crash_check.session, random)
        try:
            crash_check.check(acknowledged)
        except CaseFailure as exc:
            raise CaseFailure(f"round {number} of seed {seed}: {exc}") from exc
    return crash_check.acknowledged


def _write_and_kill(harness: StoreHarness, session: str, random: Random) -> list[Acknowledgement]:
    """Start a process that writes, kill it at a random time, and return its acknowledgements."""
    wanted = random.choice((-1, 0, 0, 1, 1, 2, 3, 5, 8, 13, 21))
    acknowledged: list[Acknowledgement] = []
    with WriterProcess(harness, session, "--seed", str(random.randrange(2**32))) as writer:
        writer.start_writing()
        if wanted < 0:  # kill the process while it starts, or opens or repairs the store
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
            raise CaseFailure(f"the writer exited before the kill: {writer.last_error_line()}")
    return acknowledged


class _CrashCheck:
    """Collects the acknowledged state of a session and compares it with the store after crashes."""

    def __init__(self, harness: StoreHarness, session: str) -> None:
        self.harness = harness
        self.session = session
        self.acknowledged = 0
        self._has_begun = False
        self._digests: dict[str, str | None] = {}
        self._branches: set[str] = set()
        self._records = 0

    def check(self, acknowledged: Sequence[Acknowledgement]) -> None:
        """Open the store after a crash, append an entry, and check the session.

        Raises CaseFailure if the session differs from the acknowledged state.
        """
        steps = [step for step in acknowledged if step.kind != "session"]
        self.acknowledged += len(steps)
        self._has_begun |= len(acknowledged) > 0
        self._digests |= {step.entry: step.digest for step in steps if step.kind == "entry"}
        self._branches |= {step.branch for step in steps if step.kind == "branch"}
        with self.harness.open() as store:
            try:
                store.header(self.session)
            except Missing:
                require(not self._has_begun, "the session was acknowledged but is missing")
                return
            self._has_begun = True
            self._continue_session(store)
            self._compare_with_acknowledged(store, len(steps))

    def _continue_session(self, store: Store) -> None:
        conversation = store.open(self.session)
        mark = Repair(code="killed", explanation="the writer was killed")
        try:
            entry = conversation.append(mark)
        except Conflict:  # a server may still finish the last statement of the killed client
            conversation.refresh()
            entry = conversation.append(mark)
        self._digests[entry.id] = conversation.digest(entry.id)

    def _compare_with_acknowledged(self, store: Store, steps: int) -> None:
        verification = store.verify(self.session)
        require(verification.is_intact, f"the hash chain must be valid: {verification.bad}")
        records = list(store.records(self.session))
        found = {record.entry.id: record.digest for record in records if record.entry is not None}
        for entry, digest in self._digests.items():
            require(entry in found, "an entry was acknowledged but is missing")
            expect(found[entry], digest, "the digest of an acknowledged entry")
        heads = _heads_of(records)
        expect(list(store.heads(self.session).items()), list(heads.items()), "heads")
        require(self._branches <= heads.keys(), "a branch was acknowledged but is missing")
        surplus = len(records) - self._records - steps - 1
        require(0 <= surplus <= 1, f"expected 0 or 1 unacknowledged steps, got {surplus}")
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
                raise CaseFailure("a record refers to a missing blob") from None
            expect(len(data), block.source.size, "the size of a blob that a record refers to")
