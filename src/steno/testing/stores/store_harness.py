"""What is tested: a place where a kind of store keeps things, and how it is opened."""

from __future__ import annotations

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator
from glob import escape
from importlib import import_module
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import ClassVar, Final, NamedTuple, Self, cast

from steno.store import MemoryStore, Store
from steno.store.locate import read_address
from steno.testing.stores.sample_session import CaseFailure

DEFAULT_OPENER: Final = "steno.store:open_store"
"""What opens an address, unless a harness says otherwise."""


class NotApplicable(Exception):
    """A case asks for what this kind of store does not promise."""


class CaseScale(NamedTuple):
    """How much of everything; smaller for a quick look."""

    entries: int = 100_000
    sessions: int = 200
    writes: int = 40
    """Of each thread or process that writes beside others."""
    crashes: int = 20
    places: int = 400
    """In how many places a file is damaged; in every one if it is no longer than that."""


class StoreHarness(ABC):
    """A place of its own for one kind of store. The kit leaves nothing behind in it.

    Another process opens the same place by calling `opener` with `address`.
    """

    name: str
    address: str
    opener: str = DEFAULT_OPENER
    """A function that takes an address and returns a Store, as `module:function`."""
    is_durable: ClassVar[bool] = True
    """Whether what was written is there after the process has ended, or was ended."""
    is_shared: ClassVar[bool] = True
    """Whether several processes may use the place at once."""
    scale: CaseScale = CaseScale()

    @abstractmethod
    def open(self) -> Store:
        """Open the place, once more if it is open already."""

    def files(self) -> Iterable[Path] | None:
        """Return all files that it has on this machine by now; None if it never has any.

        Cases damage them to see what the store makes of that, and put them back.
        """
        return None


class AddressStoreHarness(StoreHarness):
    """A place that an address names."""

    def __init__(
        self,
        name: str,
        address: str,
        *,
        opener: str = DEFAULT_OPENER,
        root: Path | None = None,
        scale: CaseScale = CaseScale(),  # noqa: B008 - it is a tuple, and cannot change
    ) -> None:
        """Name a place. `root` is a folder with all of its files, or the first part of their names.

        Where `open_store` knows the address it need not be given.
        """
        self.name = name
        self.address = address
        self.opener = opener
        self.scale = scale
        self._root = root

    def open(self) -> Store:
        """Open the place."""
        return find_opener(self.opener)(self.address)

    def files(self) -> Iterable[Path] | None:
        """Return what is in its folder, or begins with the name of its file."""
        is_known = self._root is None and self.opener == DEFAULT_OPENER
        root = read_address(self.address).location if is_known else self._root
        if not isinstance(root, Path):
            return None
        found = root.rglob("*") if root.is_dir() else root.parent.glob(f"{escape(root.name)}*")
        return [path for path in found if path.is_file()]


class MemoryStoreHarness(StoreHarness):
    """A store that nobody else can reach; opening it again gives the same one."""

    is_durable = False
    is_shared = False

    def __init__(
        self,
        store: Store | None = None,
        *,
        name: str = "memory",
        scale: CaseScale = CaseScale(),  # noqa: B008 - it is a tuple, and cannot change
    ) -> None:
        self.name = name
        self.address = "memory:"
        self.scale = scale
        self._store = MemoryStore() if store is None else store

    def open(self) -> Store:
        """Return the one store."""
        return self._store


def opener_argument(place: str) -> str:
    """Take `module:function` from a command line. Raises ArgumentTypeError unless it is there.

    It stays a name, since other processes are told it.
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise ArgumentTypeError(f"{place}: write MODULE:FUNCTION")
    try:
        found = find_opener(place)
    except (ImportError, AttributeError, ValueError, TypeError) as exc:
        raise ArgumentTypeError(f"{place} cannot be imported: {exc}") from exc
    if not callable(found):
        raise ArgumentTypeError(f"{place} is no function")
    return place


def find_opener(place: str) -> Callable[[str], Store]:
    """Find what `module:function` names. Raises ImportError or AttributeError."""
    module, _, name = place.partition(":")
    return cast("Callable[[str], Store]", getattr(import_module(module), name))


# -- processes -------------------------------------------------------------------------------------
#
# Start writers in processes of their own, hear what they wrote, and end them.


_WRITER_TIMEOUT_S: Final = 120
"""After this time a writer hangs."""


# Run as a file, it does not load the rest of `steno.testing` before it.
_WRITER_PROGRAM: Final = Path(__file__).with_name("writer.py")


class Acknowledgement(NamedTuple):
    """Something that a writer was told is durable."""

    kind: str
    branch: str = ""
    entry: str = ""
    digest: str = ""


class WriterProcess:
    """A process that writes to the place of a harness."""

    def __init__(self, harness: StoreHarness, session: str, *settings: str) -> None:
        """Start it; it waits for `go`."""
        command = [sys.executable, "-P", str(_WRITER_PROGRAM), harness.address, session]
        self._process = subprocess.Popen(  # noqa: S603 - it is our own program
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
        """Let it begin as soon as it is ready."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def wait_until_ready(self) -> None:
        """Wait until the store is open. Raises CaseFailure if it cannot be."""
        if self._read() != "ready":
            raise CaseFailure(f"a writer in another process must begin: {self.last_error_line()}")

    def acknowledgements(self) -> Iterator[Acknowledgement]:
        """Return what is durable as it is told, up to the end of the process."""
        while line := self._read():
            if line != "ready":
                yield Acknowledgement(*line.split(" "))

    def kill(self) -> None:
        """End it at once, wherever it is; what it told until then can still be read."""
        self._process.kill()

    def finish(self) -> list[Acknowledgement]:
        """Read to its end, which must be a good one."""
        found = list(self.acknowledgements())
        if self._process.wait() != 0:
            raise CaseFailure(
                f"a writer in another process must not fail: {self.last_error_line()}"
            )
        return found

    def was_killed(self) -> bool:
        """Tell whether it ended because it was killed, once it has ended."""
        return self._process.wait() < 0

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return line[:-1] if line.endswith("\n") else ""

    def last_error_line(self) -> str:
        """Return the last that it said about its end, once it has ended."""
        self._process.wait()
        assert self._process.stderr is not None
        lines = self._process.stderr.read().strip().splitlines()
        return lines[-1] if lines else f"it ended with {self._process.returncode}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timeout.cancel()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue
