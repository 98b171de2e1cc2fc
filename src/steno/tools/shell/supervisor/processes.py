"""The processes that descend from this one, and the memory that they use."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Final

HAS_PROC: Final = os.path.exists("/proc/self/stat")
_HAS_CHILDREN_FILE: Final = os.path.exists(f"/proc/self/task/{os.getpid()}/children")
_ENDED: Final = frozenset({b"", b"Z", b"X"})


def find_descendants() -> list[int]:
    """Return the ids of all living descendants of this process; empty without /proc."""
    read_children = _read_children if _HAS_CHILDREN_FILE else _build_children_lookup()
    found: list[int] = []
    pending = [os.getpid()]
    while pending:
        children = read_children(pending.pop())
        pending.extend(children)
        found.extend(children)
    return [pid for pid in dict.fromkeys(found) if _read_process_state(pid)[0] not in _ENDED]


def uses_more_memory(pids: Iterable[int], max_bytes: int) -> bool:
    """Return whether processes together use more memory than a limit.

    Memory that several processes share counts once. That is slow to find out, so it is done only if
    the sum of what each process uses exceeds the limit.
    """
    known = [*pids]
    page = os.sysconf("SC_PAGE_SIZE")
    if sum(_read_resident_pages(pid) for pid in known) * page <= max_bytes:
        return False
    return sum(_read_own_bytes(pid, page) for pid in known) > max_bytes


def count_user_tasks() -> int:
    """Return the number of threads of the user, which is what RLIMIT_NPROC counts."""
    count = 0
    for pid in _process_ids():
        try:
            if os.stat(f"/proc/{pid}").st_uid == os.getuid():
                # The number of links of the folder: each thread is a folder in it.
                count += os.stat(f"/proc/{pid}/task").st_nlink - 2
        except OSError:
            continue
    return count


def _process_ids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read_children(pid: int) -> list[int]:
    """Return the children of all threads of a process; empty if the process has ended."""
    children: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return children
    for task in tasks:
        children.extend(map(int, _read(f"/proc/{pid}/task/{task}/children").split()))
    return children


def _build_children_lookup() -> Callable[[int], list[int]]:
    """Return a function like `_read_children`, for kernels that do not list children."""
    children: dict[int, list[int]] = {}
    for pid in _process_ids() if HAS_PROC else ():
        children.setdefault(_read_process_state(pid)[1], []).append(pid)
    return lambda pid: children.pop(pid, [])


def _read_process_state(pid: int) -> tuple[bytes, int]:
    """Return the state letter of a process and the id of its parent.

    `Z` means that the process has ended but is not reaped. The letter is empty if the process does
    not exist.
    """
    fields = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
    return (fields[0], int(fields[1])) if len(fields) > 1 else (b"", 0)


def _read_resident_pages(pid: int) -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) if len(fields) > 1 else 0


def _read_own_bytes(pid: int, page: int) -> int:
    """Return the memory of a process, with its part of shared memory; all of it if unknown."""
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return _read_resident_pages(pid) * page


def _read(path: str) -> bytes:
    """Return the content of a file; empty if it cannot be read, as when the process has ended."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts: list[bytes] = []
        while part := os.read(file, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(file)
