"""Cases about what disks, power cuts and other programs do to the files of a store.

Whatever they did, a store opens and goes on, having lost at most what was not durable, or it says
that something is wrong: where it is opened, where it is read, or by `verify`. It never passes off
as whole what is not what was written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from steno.errors import InvalidDocument, LogError, Missing
from steno.message import ChatMessage
from steno.store import Store
from steno.testing.stores.disk import (
    Files,
    grown,
    mended_after,
    put_back,
    read_only,
    taken_down,
)
from steno.testing.stores.expecting import (
    TALK,
    Kept,
    Unmet,
    expect,
    expect_kept,
    kept,
    talked,
)
from steno.testing.stores.processes import Writer
from steno.testing.stores.subject import NotApplicable, Subject

_PADDING: Final = (1, 100, 5_000, 1 << 17)
_PIECES: Final = (1, 17, 400)
"""How many bytes are moved about at once."""


class _Written(NamedTuple):
    """A session, and the files of its store after each of its steps."""

    session: str
    stages: list[Files]
    """Before it was begun, when it was, and after each record."""
    stored: Kept

    @property
    def files(self) -> Files:
        return self.stages[-1]


def _write(subject: Subject) -> _Written:
    """Write a short session, and take down the files after each step, while the store is open."""
    with subject.open() as store:
        talked(store)
        stages = [taken_down(subject)]
        conversation = store.new()
        acts: list[Callable[[], object]] = [
            lambda: None,
            lambda: conversation.append(ChatMessage.user("one")),
            lambda: conversation.append(ChatMessage.assistant("two")),
            lambda: conversation.fork("idea"),
            lambda: conversation.append(ChatMessage.user("three"), branch="idea"),
        ]
        for act in acts:
            act()
            stages.append(taken_down(subject))
        return _Written(conversation.id, stages, kept(store, conversation.id))


class _Damage(NamedTuple):
    """Files as they were found after something had happened to them."""

    what: str
    path: Path
    data: bytes
    records: int
    """How many records are there at least, if it opens; fewer than none, and it may be gone."""
    may_be_refused: bool = True


def _examine(subject: Subject, written: _Written, damage: _Damage) -> None:
    """Open what was damaged, and go on if that is possible. Raises Unmet."""
    what = f"{damage.path.name}, {damage.what}"
    put_back(subject, {**written.files, damage.path: damage.data})
    try:
        with subject.open() as store:
            problem = _problem_with(store, written, damage.records)
    except (LogError, InvalidDocument) as exc:
        problem = None if damage.may_be_refused else f"it must open, got {exc!r}"
    except Exception as exc:
        raise Unmet(f"{what}: expected an error of ours, got {exc!r}") from exc
    if problem is not None:
        raise Unmet(f"{what}: {problem}")


def _problem_with(store: Store, written: _Written, at_least: int) -> str | None:
    """Tell what is wrong with a session and was told by nobody."""
    session, whole = written.session, written.stored
    try:
        store.header(session)
    except Missing:
        return "the session was durable, and is not there" if at_least >= 0 else None
    found = kept(store, session)
    if not store.verify(session).is_intact:
        return None
    number = len(found.records)
    if found.header != whole.header or found.records != whole.records[:number]:
        return "verify says that it is intact, and it is not what was written"
    if number < at_least:
        return f"verify says that it is intact, with {number} records of {at_least}"
    conversation = store.open(session)
    for branch in conversation.branches:
        conversation.messages(branch)
    conversation.append(ChatMessage.user("Going on."))
    after = store.verify(session)
    if not after.is_intact or kept(store, session).records[:number] != found.records:
        return f"it does not go on as it should: {after.bad}"
    return None


# -- where it ends -----------------------------------------------------------------------------


def torn_last_record(subject: Subject) -> None:
    """A record that was not written whole is left out, and the session goes on before it."""
    with mended_after(subject):
        written = _write(subject)
        for path, (*_, begin, end) in _grown(written):
            data, others = written.files[path], len(written.stored.records) - 1
            for cut in (begin + 1, (begin + end) // 2, end - 1):
                damage = _Damage(f"cut at byte {cut}", path, data[:cut], others, False)
                _examine(subject, written, damage)


def nul_padding(subject: Subject) -> None:
    """Zeros at the end of a file, as after a power cut, are no records and in nobody's way."""
    with mended_after(subject):
        written = _write(subject)
        for path, (*_, begin, end) in _grown(written):
            data, all_records = written.files[path], len(written.stored.records)
            middle = (begin + end) // 2
            for size in _PADDING:
                padded, what = data + bytes(size), f"{size} zeros behind its end"
                _examine(subject, written, _Damage(what, path, padded, all_records, False))
                padded, what = data[:middle] + bytes(size), f"{size} zeros from byte {middle} on"
                _examine(subject, written, _Damage(what, path, padded, all_records - 1, False))


def truncated_files(subject: Subject) -> None:
    """A file that is cut anywhere has lost what was written behind that, and nothing else."""
    with mended_after(subject):
        written = _write(subject)
        for path, sizes in _grown(written):
            data = written.files[path]
            anywhere = _places(sizes[0], sizes[-1], subject.scale.places)
            in_the_last = _places(sizes[-2], sizes[-1], subject.scale.places)
            for cut in sorted({*anywhere, *in_the_last}):
                # The first stage is without the session, the second without a record.
                records = sum(size <= cut for size in sizes) - 2
                damage = _Damage(f"cut at byte {cut}", path, data[:cut], records)
                _examine(subject, written, damage)


def _grown(written: _Written) -> list[tuple[Path, list[int]]]:
    """Return the files that the last record was added to, with how long they were at each stage."""
    if written.stages[-1] == written.stages[-2]:
        raise Unmet("the last record was acknowledged, and is in no file")
    found = [(path, sizes) for path, sizes in grown(written.stages) if sizes[-2] < sizes[-1]]
    if not found:
        raise NotApplicable("it does not add to the end of a file")
    return found


def _places(begin: int, end: int, most: int) -> range:
    """Return every place, or so many of them, evenly spread."""
    return range(begin, end, max(1, -(-(end - begin) // most)))


# -- in the middle -----------------------------------------------------------------------------


def spliced_files(subject: Subject) -> None:
    """Bytes that are lost, doubled, mixed up or changed in the middle are noticed."""
    with mended_after(subject):
        written = _write(subject)
        closed = taken_down(subject)  # by now all is where it stays
        settled = written._replace(stages=[*written.stages, closed])
        records, before = len(written.stored.records), written.stages[0]
        for path in [path for path in closed if closed[path] != before.get(path)]:
            for place in _places(0, len(closed[path]), subject.scale.places // 20):
                for what, data in _splices(closed[path], place):
                    damage = _Damage(f"{what} at byte {place}", path, data, records)
                    _examine(subject, settled, damage)


def _splices(data: bytes, place: int) -> Iterator[tuple[str, bytes]]:
    """Return what can become of a file at a place: a piece of it is spoilt in every way."""
    head = data[:place]
    for size in _PIECES:
        piece, rest = data[place : place + size], data[place + size :]
        if not rest:  # that is no middle: it could be a write that was cut short
            return
        yield f"{size} bytes left out", head + rest
        yield f"{size} bytes doubled", head + piece + piece + rest
        # Two who write at once without waiting for each other.
        yield f"{size} bytes of another writer", head + rest[:size] + piece + rest[size:]
        yield f"{size} bytes of zeros", head + bytes(len(piece)) + rest
        yield f"{size} bytes changed", head + bytes(byte ^ 1 for byte in piece) + rest
        yield f"a line break and {size} bytes put in", head + b"\n" + piece[::-1] + data[place:]


# -- rights ------------------------------------------------------------------------------------


def read_only_place(subject: Subject) -> None:
    """Where nothing may be written, all can be read, and every change is refused as Unavailable."""
    if sys.platform == "win32" or (sys.platform != "linux" and os.geteuid() == 0):
        raise NotApplicable("rights do not keep anybody from writing here")
    with mended_after(subject):
        with subject.open() as store:
            session = talked(store).id
            before = kept(store, session)
        for with_folders in (True, False):
            with (
                read_only(subject, with_folders=with_folders),
                Writer(subject, session, "--read-only") as writer,
            ):
                writer.start_writing()
                told = writer.finish()
            entries = [one for one in told if one.kind == "entry"]
            expect(len(entries), len(TALK), "entries that could be read")
            found = [one.branch for one in told if one.kind == "found"]
            expect(found, [session], "sessions in which a search found something")
            refused = {one.branch for one in told if one.kind == "refused"}
            expect(refused, {"Unavailable"}, "errors of changes where nothing may be written")
            changed = [one.branch for one in told if one.kind == "changed"]
            expect(changed, [], "changes where nothing may be written")
            with subject.open() as store:
                expect_kept(store, session, before, "after changes were refused")
