"""Other processes that use a database in the tests of the SQLite store.

    python processes_sqlite.py WHAT FILE [ARGUMENT ...]

Each prints what was acknowledged, one line at a time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from steno import ChatMessage
from steno.errors import Conflict
from steno.store.sqlite.store import SqliteStore


def _report(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def create(file: Path, name: str) -> None:
    """Open a database that others open at the same time, and begin a session."""
    _report("ready")
    sys.stdin.readline()
    with SqliteStore(file) as store:
        store.new([ChatMessage.user("hello")], id=name)
    _report("done")


def append(file: Path, branch: str, number: str) -> None:
    """Append entries to a branch of session `s`; retry each one until it is stored."""
    with SqliteStore(file) as store:
        conversation = store.open("s")
        _report("ready")
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
                    _report(entry.id)
                    break


def append_for_ever(file: Path) -> None:
    """Append to session `s` until killed."""
    store = SqliteStore(file)
    conversation = store.open("s")
    while True:
        _report(conversation.append(ChatMessage.user("x" * 700)).id)


_WHAT: dict[str, Callable[..., None]] = {
    "create": create,
    "append": append,
    "append_for_ever": append_for_ever,
}

if __name__ == "__main__":
    _WHAT[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
