"""The case about crashes: a writer is killed over and over.

Every round a process opens the same session and writes until it is killed with SIGKILL: while it
opens the store, at its very first write, or after some that were acknowledged. What was
acknowledged has to be there, at most one step that was not may be, and the session goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from random import Random
from typing import Final

from steno.content import Image, ImageBlob
from steno.entry import Repair
from steno.errors import Conflict, Missing
from steno.identity import new_id
from steno.record import Record
from steno.store import Store
from steno.store.heads import Heads
from steno.testing.stores.expecting import Unmet, expect, require
from steno.testing.stores.processes import Acknowledged, Writer
from steno.testing.stores.subject import NotApplicable, Subject

ROUNDS: Final = "STENO_CRASH_ROUNDS"
"""The variable that says how many rounds are run, where a subject leaves it open."""


def crash(subject: Subject) -> None:
    """A process that is killed at any instant leaves a session that opens, holds and goes on."""
    run_rounds(subject, int(os.environ.get(ROUNDS) or subject.scale.crashes))


def run_rounds(subject: Subject, rounds: int, *, seed: int = 1) -> int:
    """Kill a writer `rounds` times; return how many steps it was told are durable. Raises Unmet."""
    if not (subject.is_durable and subject.is_shared):
        raise NotApplicable("it does not outlive its process")
    random = Random(seed)  # noqa: S311 - nothing here is a secret
    aftermath = _Aftermath(subject, new_id())
    for number in range(1, rounds + 1):
        told = _write_and_kill(subject, aftermath.session, random)
        try:
            aftermath.check(told)
        except Unmet as exc:
            raise Unmet(f"round {number} of seed {seed}: {exc}") from exc
    return aftermath.acknowledged


def _write_and_kill(subject: Subject, session: str, random: Random) -> list[Acknowledged]:
    """Let a process write until it is killed; return what it was told is durable."""
    wanted = random.choice((-1, 0, 0, 1, 1, 2, 3, 5, 8, 13, 21))
    told: list[Acknowledged] = []
    with Writer(subject, session, "--seed", str(random.randrange(2**32))) as writer:
        writer.start_writing()
        if wanted < 0:  # while it starts, opens or mends
            time.sleep(random.uniform(0, 0.25))
        else:
            writer.wait_until_ready()
            acknowledgements = writer.acknowledgements()
            while len(told) < wanted and (one := next(acknowledgements, None)) is not None:
                told.append(one)
            time.sleep(random.choice((0, random.uniform(0, 0.002), random.uniform(0, 0.02))))
        writer.kill()
        told += writer.acknowledgements()
        if not writer.was_killed():
            raise Unmet(f"the writer must go on until it is killed: {writer.last_error_line()}")
    return told


class _Aftermath:
    """What has to be there, as far as anybody was told."""

    def __init__(self, subject: Subject, session: str) -> None:
        self.subject = subject
        self.session = session
        self.acknowledged = 0
        self._has_begun = False
        self._digests: dict[str, str | None] = {}
        self._branches: set[str] = set()
        self._records = 0

    def check(self, told: Sequence[Acknowledged]) -> None:
        """Open the store after a crash, go on, and compare. Raises Unmet."""
        steps = [one for one in told if one.kind != "session"]
        self.acknowledged += len(steps)
        self._has_begun |= len(told) > 0
        self._digests |= {one.entry: one.digest for one in steps if one.kind == "entry"}
        self._branches |= {one.branch for one in steps if one.kind == "branch"}
        with self.subject.open() as store:
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
        except Conflict:  # a server may finish what it was told by a client that is gone
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
    heads = Heads()
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
                raise Unmet("a record names a blob that is not there") from None
            expect(len(data), block.source.size, "the size of a blob that a record names")
