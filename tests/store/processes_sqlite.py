"""What other processes do to a database in the tests of the SQLite store.

    python processes_sqlite.py WHAT FILE [ARGUMENT ...]

Each prints what was acknowledged, one line at a time.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from steno import ChatMessage
from steno.errors import Conflict, StenoError
from steno.store.sqlite import SqliteStore


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def create(file: Path, name: str) -> None:
    """Open a database that others open at the same time, and begin a session."""
    _say("ready")
    sys.stdin.readline()
    with SqliteStore(file) as store:
        store.new([ChatMessage.user("hello")], id=name)
    _say("done")


def append(file: Path, branch: str, number: str) -> None:
    """Append to a branch of session `s`, again and again until each one is in."""
    with SqliteStore(file) as store:
        conversation = store.open("s")
        _say("ready")
        sys.stdin.readline()
        for count in range(int(number)):
            while True:
                try:
                    entry = conversation.append(
                        ChatMessage.user(f"{branch} {os.getpid()} {count}"), branch=branch
                    )
                except Conflict:
                    conversation.refresh()
                else:
                    _say(entry.id)
                    break


def append_for_ever(file: Path) -> None:
    """Append to session `s` until killed."""
    store = SqliteStore(file)
    conversation = store.open("s")
    while True:
        _say(conversation.append(ChatMessage.user("x" * 700)).id)


def fill(file: Path, limit: str) -> None:
    """Append to session `s` until no file may grow, then show that all else goes on."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with SqliteStore(file) as store:
        conversation = store.open("s")
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
        try:
            while True:
                _say(conversation.append(ChatMessage.user("x" * 700)).id)
        except StenoError as exc:
            _say(f"{type(exc).__name__}: {exc}")
        _say(str(len(list(store.read_back("s", conversation.branches["main"] or "")))))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        _say(conversation.append(ChatMessage.user("there is room again")).id)


def look(file: Path) -> None:
    """Read and try to write as somebody who may not write."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    with SqliteStore(file) as store:
        _say(str(len(list(store.records("s")))))
        _say(str(len(store.search("hello"))))
        for change in (
            lambda: store.open("s").append(ChatMessage.user("no")),
            lambda: store.remove("s"),
        ):
            try:
                change()
            except StenoError as exc:
                _say(f"{type(exc).__name__}: {exc}")


_WHAT: dict[str, Callable[..., None]] = {
    "create": create,
    "append": append,
    "append_for_ever": append_for_ever,
    "fill": fill,
    "look": look,
}

if __name__ == "__main__":
    _WHAT[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
