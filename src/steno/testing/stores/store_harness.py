"""A harness opens one kind of store, in this process and in processes that write to it.

This module also has the sample session that most cases use, and checks of stored sessions.
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
"""The function that opens an address, unless a harness sets another."""
_WRITER_TIMEOUT_S: Final = 120
"""The time after which a writer is killed as hung."""
# Run as a file, since `-m` would import the rest of `steno.testing` first.
_WRITER_PROGRAM: Final = Path(__file__).with_name("writer.py")


class NotApplicable(Exception):
    """The error of a case that does not apply to this kind of store."""


class CaseScale(NamedTuple):
    """The sizes of cases; smaller sizes run faster."""

    entries: int = 100_000
    sessions: int = 200
    writes: int = 40
    """The number of writes of each concurrent thread or process."""
    crashes: int = 20
    places: int = 400
    """The number of offsets at which a file is damaged; all of them if the file is shorter."""


class StoreHarness(ABC):
    """An empty store of one kind. The kit removes everything that it writes to the store.

    Another process opens the same store by calling `opener` with `address`.
    """

    name: str
    address: str
    opener: str = DEFAULT_OPENER
    """A function that takes an address and returns a Store, as `module:function`."""
    is_durable: ClassVar[bool] = True
    """Whether content remains after the process ended or was killed."""
    is_shared: ClassVar[bool] = True
    """Whether several processes may open the store at once."""
    scale: CaseScale = CaseScale()

    @abstractmethod
    def open(self) -> Store:
        """Open the store, also if it is already open."""

    def files(self) -> Iterable[Path] | None:
        """Return the files of the store on this machine; None if it has none.

        Cases damage these files and restore them.
        """
        return None


class AddressStoreHarness(StoreHarness):
    """A harness for a store with an address."""

    def __init__(
        self,
        name: str,
        address: str,
        *,
        opener: str = DEFAULT_OPENER,
        root: Path | None = None,
        scale: CaseScale = CaseScale(),  # noqa: B008 - an immutable tuple
    ) -> None:
        """Create a harness. `root` is the folder of the files, or the beginning of their paths.

        `root` is not needed for an address that `open_store` knows.
        """
        self.name = name
        self.address = address
        self.opener = opener
        self.scale = scale
        self._root = root

    def open(self) -> Store:
        """Open the store."""
        module, _, name = self.opener.partition(":")
        opened: Store = getattr(import_module(module), name)(self.address)
        return opened

    def files(self) -> Iterable[Path] | None:
        """Return the files in the folder of the store, or those that begin with its file name."""
        is_known = self._root is None and self.opener == DEFAULT_OPENER
        root = read_address(self.address).location if is_known else self._root
        if not isinstance(root, Path):
            return None
        found = root.rglob("*") if root.is_dir() else root.parent.glob(f"{escape(root.name)}*")
        return [path for path in found if path.is_file()]


class MemoryStoreHarness(StoreHarness):
    """A harness for a store in this process; opening it again returns the same store."""

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
        """Return the store."""
        return self._store


def add_opener_argument(parser: ArgumentParser) -> None:
    """Add `--opener` to the arguments of a command."""

    def check(place: str) -> str:
        if not callable(import_named(place, "FUNCTION")):
            raise ArgumentTypeError(f"{place} is not a function")
        return place  # the name, since it is passed to other processes

    parser.add_argument(
        "--opener",
        default=DEFAULT_OPENER,
        type=check,
        metavar="MODULE:FUNCTION",
        help="the function that opens the address, for a store of your own",
    )


# -- writers in other processes ----------------------------------------------------------------


class Acknowledgement(NamedTuple):
    """A line that a writer prints: a durable step, a search hit, a change or a refusal."""

    kind: str
    branch: str = ""
    entry: str = ""
    digest: str = ""


class WriterProcess:
    """A process that writes to the store of a harness."""

    def __init__(self, harness: StoreHarness, session: str, *settings: str) -> None:
        """Start the process; it waits for `start_writing`."""
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
        """Let the process write as soon as it is ready."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def wait_until_ready(self) -> None:
        """Wait until the store is open. Raises CaseFailure if it cannot be opened."""
        if self._read() != "ready":
            raise CaseFailure(f"a writer process did not start: {self.last_error_line()}")

    def acknowledgements(self) -> Iterator[Acknowledgement]:
        """Yield the reports of the writer, up to the end of the process."""
        while line := self._read():
            if line != "ready":
                yield Acknowledgement(*line.split(" "))

    def kill(self) -> None:
        """Kill the process at once; what it printed before can still be read."""
        self._process.kill()

    def finish(self) -> list[Acknowledgement]:
        """Read all reports. Raises CaseFailure if the writer fails."""
        found = list(self.acknowledgements())
        if self._process.wait() != 0:
            reason = self.last_error_line()
            raise CaseFailure(f"a writer process failed: {reason}")
        return found

    def was_killed(self) -> bool:
        """Wait for the end of the process; return whether it was killed."""
        return self._process.wait() < 0

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return line[:-1] if line.endswith("\n") else ""

    def last_error_line(self) -> str:
        """Wait for the end of the process; return the last line of its stderr."""
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


# -- stored sessions and checks of them --------------------------------------------------------


@contextmanager
def expect_raises(kind: type[StenoError], subject: str) -> Generator[None]:
    """Raise CaseFailure unless the block raises this kind of error."""
    try:
        yield
    except kind:
        return
    except Exception as exc:
        raise CaseFailure(f"{subject}: expected {kind.__name__}, got {type(exc).__name__}") from exc
    raise CaseFailure(f"{subject}: expected {kind.__name__}, got no error")


@contextmanager
def allow_log_error(subject: str) -> Generator[None]:
    """Raise CaseFailure if the block raises anything but a LogError."""
    try:
        yield
    except LogError:
        return
    except Exception as exc:
        raise CaseFailure(f"{subject}, got {type(exc).__name__}") from exc


class StoredSession(NamedTuple):
    """The header, records and heads of a stored session, for comparison."""

    header: bytes
    records: tuple[bytes, ...]
    heads: tuple[tuple[str, str | None], ...]


def read_session(store: Store, session: str) -> StoredSession:
    """Read all of a session."""
    return StoredSession(
        encode_header(store.header(session)),
        tuple(map(encode_record, store.records(session))),
        tuple(store.heads(session).items()),
    )


def expect_stored(store: Store, session: str, expected: StoredSession, subject: str) -> None:
    """Raise CaseFailure with the first difference unless a session is unchanged."""
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
    """Raise CaseFailure unless a session is intact and has this number of entries."""
    found = store.verify(session)
    require(found.is_intact, f"the hash chain must be valid: {found.bad}")
    if entries is not None:
        expect(found.entries, entries, "entries in the hash chain")


def chain_records(
    payloads: Iterable[Payload], *, branch: str = MAIN_BRANCH, start: datetime = START_TIME
) -> Iterator[Record]:
    """Yield the records of a session, each entry the child of the one before it."""
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
