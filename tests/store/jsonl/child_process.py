"""Other processes that use a folder of sessions.

`python -m tests.store.jsonl.child_process WHAT FOLDER`

Each is steered by lines on its standard input, and prints the results.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread

from steno import ChatMessage
from steno.errors import Conflict, LogError
from steno.records.stored_record import Header
from steno.store.base import Store

LONGEST_S = 100
LAST_UID = 65534  # the user "nobody", on nearly every system


def report(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def commands() -> Iterator[str]:
    while line := sys.stdin.readline():
        yield line.strip()


def store_at(folder: str) -> Store:
    from steno.store.jsonl import JsonlStore

    return JsonlStore(Path(folder))


def outcome(act: Callable[[], object]) -> str:
    try:
        act()
    except LogError as exc:
        return type(exc).__name__
    return "ok"


# -- many writers ----------------------------------------------------------------------------


def race(folder: str) -> None:
    """Append an entry for each line, after the entries known at the last refresh."""
    conversation = store_at(folder).open("s")
    for word in commands():
        if word == "refresh":
            conversation.refresh()
            report("ready", len(conversation))
        else:
            report(outcome(lambda: conversation.append(ChatMessage.user("mine"))))


def insist(folder: str, branch: str, count: str) -> None:
    """Append entries until that many are stored, however often others were faster."""
    conversation = store_at(folder).open("s")
    report("ready")
    next(commands())
    for _ in range(int(count)):
        while True:
            try:
                report(conversation.append(ChatMessage.user("mine"), branch=branch).id)
                break
            except Conflict:
                conversation.refresh()


def create(folder: str) -> None:
    """Create each session named, from a header that identifies the process."""
    store = store_at(folder)
    for word in commands():
        report(outcome(partial(store.add_session, Header(id=word, title=str(os.getpid())))))


def write_for_ever(folder: str) -> None:
    """Append, and print what is stored, until the process is killed."""
    conversation = store_at(folder).open("s")
    while True:
        report(conversation.append(ChatMessage.user("mine " * 50)).id)


def fork(folder: str) -> None:
    """Fork while a thread waits for a file, with the locks that this takes."""
    store, words, path = store_at(folder), commands(), Path(folder, "s.jsonl")
    next(words)
    thread = Thread(target=store.heads, args=("s",))
    thread.start()
    next(words)
    child = os.fork()
    if not child:
        signal.alarm(LONGEST_S // 5)
        shared = list(Path("/proc/self/fd").iterdir())
        count = sum(link.is_symlink() and link.readlink() == path for link in shared)
        report(count, outcome(lambda: store.heads("s")))
        os._exit(0)
    report("forked")
    thread.join()
    os.waitpid(child, 0)


# -- full and failing disks ------------------------------------------------------------------


def full(folder: str) -> None:
    """Write to a disk with only a few free bytes, then to one with enough."""
    store = store_at(folder)
    conversation = store.open("s")
    path = Path(folder, "s.jsonl")
    before = path.read_bytes()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (0, 1, 30, 200):
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + room, most))
        report(outcome(lambda: conversation.append(ChatMessage.user("x" * 500))))
        report("same" if path.read_bytes() == before else "changed")
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, most))
    report(outcome(lambda: store.put_blob(bytes(500))))
    report(outcome(lambda: store.add_session(Header(id="t", title="x" * 500))))
    report(*sorted(found.name for found in Path(folder).iterdir()))
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    report(outcome(lambda: conversation.append(ChatMessage.user("x" * 500))))


def failing_sync(folder: str) -> None:
    """Write to a disk that reports its failure only when asked to make data durable."""
    fails = [errno.EIO]
    sync = os.fdatasync

    def fdatasync(file: int) -> None:
        if fails:
            code = fails.pop()
            raise OSError(code, os.strerror(code))
        sync(file)

    setattr(os, "fdatasync", fdatasync)  # noqa: B010 - before the store looks for it
    conversation = store_at(folder).open("s")
    path = Path(folder, "s.jsonl")
    before = path.read_bytes()
    report(outcome(lambda: conversation.append(ChatMessage.user("lost"))))
    report("same" if path.read_bytes() == before else "changed")
    report(outcome(lambda: conversation.append(ChatMessage.user("kept"))))


def read_only(folder: str) -> None:
    """Read and try to write in a folder of ours that we may only read."""
    import_module(
        "steno.store.jsonl.store"
    )  # imported as root: other users may not read its folder
    if os.getuid() == 0:
        os.setuid(LAST_UID)  # root may write everywhere
    store = store_at(folder)
    conversation = store.open("s")
    report(len(conversation), len(list(store.records("s"))), len(list(store.headers())))
    digest = next(store.blobs()).sha256
    report(store.verify("s").is_intact, len(store.blob(digest)))
    report(outcome(lambda: conversation.append(ChatMessage.user("mine"))))
    report(outcome(lambda: conversation.fork("side")))
    report(outcome(lambda: store.new()))
    report(outcome(lambda: store.remove("s")))
    report(outcome(lambda: store.put_blob(b"more")))
    report(outcome(lambda: store.remove_blob(digest)))


# -- cost ------------------------------------------------------------------------------------


def cost(folder: str) -> None:
    """Report the cost of an append: bytes read and written, calls of read and write."""
    conversation = store_at(folder).open("s")
    conversation.append(ChatMessage.user("the first one reads the file"))
    before = _counters()
    for _ in range(10):
        conversation.append(ChatMessage.user("x" * 100))
    after = _counters()
    report(*(after[name] - before[name] for name in ("rchar", "wchar", "syscr", "syscw")))


def _counters() -> dict[str, int]:
    lines = Path("/proc/self/io").read_text("ascii").splitlines()
    return {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}


WHAT: dict[str, Callable[..., None]] = {
    what.__name__: what
    for what in (
        race,
        insist,
        create,
        write_for_ever,
        fork,
        full,
        failing_sync,
        read_only,
        cost,
    )
}

if __name__ == "__main__":
    signal.alarm(LONGEST_S)  # do not wait for a process that hangs
    logging.disable()
    WHAT[sys.argv[1]](*sys.argv[2:])
