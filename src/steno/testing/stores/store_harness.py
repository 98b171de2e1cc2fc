"""Harnesses that open a store for the kit, and the processes that write to this store.

This module also has the sample session that most cases use, and functions that check sessions.
"""

from __future__ import annotations

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from glob import escape
from importlib import import_module
from pathlib import Path
from threading import Timer
from typing import ClassVar, Final, NamedTuple, Self

from steno.codec import encode_header, encode_record
from steno.errors import LogError, StenoError
from steno.ids import new_id
from steno.log.chain import entry_digest
from steno.log.conversation import Conversation
from steno.messages.call import ToolCall
from steno.messages.message import ChatMessage, Message
from steno.records.entry import Entry, Payload
from steno.records.stored_record import MAIN_BRANCH, Header, Record
from steno.store import MemoryStore, Store
from steno.store.locate import read_address
from steno.testing.case_results import CaseFailure, expect, import_named, require

START_TIME: Final = datetime(2024, 5, 17, 6, 30, tzinfo=UTC)
SAMPLE_MESSAGES: Final[tuple[Message, ...]] = (
    ChatMessage.system("You fix code."),
    ChatMessage.user("Is it broken?"),
    ChatMessage.assistant("I look.", [ToolCall(id="c1", name="run_tests", arguments="{}")]),
    ChatMessage.tool_result("c1", "3 passed", details={"passed": 3, "seconds": 1.50}),
    ChatMessage.assistant("All green."),
)
DEFAULT_OPENER: Final = "steno.store:open_store"
"""The function that opens an address, unless the harness sets a different `opener`."""
_WRITER_TIMEOUT_S: Final = 120
"""The time after which a writer process is considered hung and is killed."""
# Run as a file, because `-m` would first import the package `steno.testing`.
_WRITER_PROGRAM: Final = Path(__file__).with_name("writer.py")


class NotApplicable(Exception):
    """Raised by a case that does not apply to the store."""


class CaseScale(NamedTuple):
    """The sizes of the cases; with smaller sizes, the kit runs faster."""

    entries: int = 100_000
    """The number of entries in a long session."""
    sessions: int = 200
    """The number of sessions in a store with many sessions."""
    writes: int = 40
    """The number of writes of each concurrent thread or process."""
    crashes: int = 20
    """The number of times that a writer process is killed."""
    places: int = 400
    """The maximum number of offsets at which a file is damaged."""


class StoreHarness(ABC):
    """Opens an empty store for the kit, which removes everything that it writes to the store.

    Other processes open the store by calling `opener` with `address`.
    """

    name: str
    address: str
    opener: str = DEFAULT_OPENER
    """The name, as `module:function`, of a function that takes an address and returns a Store."""
    is_durable: ClassVar[bool] = True
    """Whether the store preserves its content when the process exits or is killed."""
    is_shared: ClassVar[bool] = True
    """Whether several processes may open the store at once."""
    scale: CaseScale = CaseScale()

    @abstractmethod
    def open(self) -> Store:
        """Open the store, which may already be open."""

    def files(self) -> Iterable[Path] | None:
        """Return the files of the store, which cases damage and restore.

        None if the store has no files on this machine.
        """
        return None


class AddressStoreHarness(StoreHarness):
    """A harness for a store that a function opens by its address."""

    def __init__(
        self,
        name: str,
        address: str,
        *,
        opener: str = DEFAULT_OPENER,
        root: Path | None = None,
        scale: CaseScale = CaseScale(),  # noqa: B008 - an immutable tuple
    ) -> None:
        """Create a harness. `root` is the folder or the path prefix of the store's files.

        For an address that `open_store` accepts, `root` is not needed.
        """
        self.name = name
        self.address = address
        self.opener = opener
        self.scale = scale
        self._root = root

    def open(self) -> Store:
        """Call `opener` with the address, and return the store."""
        module, _, name = self.opener.partition(":")
        opened: Store = getattr(import_module(module), name)(self.address)
        return opened

    def files(self) -> Iterable[Path] | None:
        """Return the files in the folder of the store, or the files whose paths have its prefix."""
        is_known = self._root is None and self.opener == DEFAULT_OPENER
        root = read_address(self.address).location if is_known else self._root
        if not isinstance(root, Path):
            return None
        found = root.rglob("*") if root.is_dir() else root.parent.glob(f"{escape(root.name)}*")
        return [path for path in found if path.is_file()]


class MemoryStoreHarness(StoreHarness):
    """A harness for a store in the memory of this process; `open` always returns the same store."""

    is_durable = False
    is_shared = False

    def __init__(
        self,
        store: Store | None = None,
        *,
        name: str = "memory",
        scale: CaseScale = CaseScale(),  # noqa: B008 - an immutable tuple
    ) -> None:
        self.name = name
        self.address = "memory:"
        self.scale = scale
        self._store = MemoryStore() if store is None else store

    def open(self) -> Store:
        """Return the store of this harness."""
        return self._store


def add_opener_argument(parser: ArgumentParser) -> None:
    """Add the option `--opener` to a parser."""

    def check(place: str) -> str:
        if not callable(import_named(place, "FUNCTION")):
            raise ArgumentTypeError(f"{place} is not a function")
        return place  # the name, because it is passed to other processes

    parser.add_argument(
        "--opener",
        default=DEFAULT_OPENER,
        type=check,
        metavar="MODULE:FUNCTION",
        help="the function that opens the address of your own store",
    )


# -- writers in other processes ----------------------------------------------------------------


class Acknowledgement(NamedTuple):
    """A line that a writer process prints: a durable step, a search hit, a change or an error.

    `branch` holds the first field after the kind: a branch, session, operation or error type.
    """

    kind: str
    branch: str = ""
    entry: str = ""
    digest: str = ""


class WriterProcess:
    """A process that writes to the store of a harness."""

    def __init__(self, harness: StoreHarness, session: str, *settings: str) -> None:
        """Start the process, which waits for `start_writing` before it writes."""
        command = [sys.executable, "-P", str(_WRITER_PROGRAM), harness.address, session]
        self._process = subprocess.Popen(  # noqa: S603 - runs only our own program
            [*command, "--opener", harness.opener, *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._timeout = Timer(_WRITER_TIMEOUT_S, self._process.kill)
        self._timeout.start()

    def start_writing(self) -> None:
        """Allow the process to write; it begins as soon as the store is open."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def wait_until_ready(self) -> None:
        """Wait until the process has opened the store.

        Raises CaseFailure if the process ends before that.
        """
        if self._read() != "ready":
            raise CaseFailure(f"a writer process did not start: {self.last_error_line()}")

    def acknowledgements(self) -> Iterator[Acknowledgement]:
        """Yield the acknowledgements of the process until it exits."""
        while line := self._read():
            if line != "ready":
                yield Acknowledgement(*line.split(" "))

    def kill(self) -> None:
        """Kill the process; the lines that it has printed can still be read."""
        self._process.kill()

    def finish(self) -> list[Acknowledgement]:
        """Return all acknowledgements of the process. Raises CaseFailure if the process fails."""
        found = list(self.acknowledgements())
        if self._process.wait() != 0:
            reason = self.last_error_line()
            raise CaseFailure(f"a writer process failed: {reason}")
        return found

    def was_killed(self) -> bool:
        """Wait until the process exits; return whether a signal killed it."""
        return self._process.wait() < 0

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return line[:-1] if line.endswith("\n") else ""

    def last_error_line(self) -> str:
        """Wait until the process exits; return the last line of its stderr or its exit status."""
        self._process.wait()
        assert self._process.stderr is not None
        lines = self._process.stderr.read().strip().splitlines()
        return lines[-1] if lines else f"exit status {self._process.returncode}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._timeout.cancel()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


# -- checks of stored sessions -----------------------------------------------------------------


@contextmanager
def expect_raises(kind: type[StenoError], subject: str) -> Generator[None]:
    """Raise CaseFailure unless the `with` block raises an error of type `kind`."""
    try:
        yield
    except kind:
        return
    except Exception as exc:
        raise CaseFailure(f"{subject}: expected {kind.__name__}, got {type(exc).__name__}") from exc
    raise CaseFailure(f"{subject}: expected {kind.__name__}, got no error")


@contextmanager
def allow_log_error(subject: str) -> Generator[None]:
    """Raise CaseFailure if the `with` block raises an error other than LogError."""
    try:
        yield
    except LogError:
        return
    except Exception as exc:
        raise CaseFailure(f"{subject}, got {type(exc).__name__}") from exc


class StoredSession(NamedTuple):
    """The encoded header and records, and the heads, of a stored session, for comparison."""

    header: bytes
    records: tuple[bytes, ...]
    heads: tuple[tuple[str, str | None], ...]


def read_session(store: Store, session: str) -> StoredSession:
    """Read the header, all records and the heads of a session."""
    return StoredSession(
        encode_header(store.header(session)),
        tuple(map(encode_record, store.records(session))),
        tuple(store.heads(session).items()),
    )


def expect_stored(store: Store, session: str, expected: StoredSession, subject: str) -> None:
    """Raise CaseFailure, with the first difference, unless a session is stored as expected."""
    found = read_session(store, session)
    expect(len(found.records), len(expected.records), f"{subject}: records")
    for number, pair in enumerate(zip(found.records, expected.records, strict=True), 1):
        is_same = pair[0] == pair[1]
        require(is_same, f"{subject}: record {number} differs from the record that was written")
    expect(found.heads, expected.heads, f"{subject}: heads")
    require(
        found.header == expected.header,
        f"{subject}: the header differs from the header that was written",
    )


def expect_intact(store: Store, session: str, *, entries: int | None = None) -> None:
    """Raise CaseFailure unless `verify` reports an intact session.

    If `entries` is given, the session must also have this number of entries.
    """
    found = store.verify(session)
    require(found.is_intact, f"the hash chain must be valid: {found.bad}")
    if entries is not None:
        expect(found.entries, entries, "entries in the hash chain")


def chain_records(
    payloads: Iterable[Payload], *, branch: str = MAIN_BRANCH, start: datetime = START_TIME
) -> Iterator[Record]:
    """Yield records of entries with these payloads; the parent of each is the previous entry."""
    parent: str | None = None
    digest: str | None = None
    for number, payload in enumerate(payloads, 1):
        time = start + timedelta(seconds=number)
        entry = Entry(id=new_id(), parent=parent, time=time, payload=payload)
        digest = entry_digest(entry, digest)
        parent = entry.id
        yield Record(seq=number, branch=branch, entry=entry, digest=digest)


def new_header() -> Header:
    """Return a header with a new session id."""
    return Header(id=new_id(), created_at=START_TIME)


def new_sample_session(store: Store) -> Conversation:
    """Create a session with the sample messages."""
    return store.new(SAMPLE_MESSAGES)
