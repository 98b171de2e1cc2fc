"""A control group for all processes of a command, where the kernel lets this user create one.

It ends all processes at once and, if the system delegates the controllers, limits their memory and
number without the delay of polling. Everything here is additional: without a group, the supervisor
finds and counts the processes itself.
https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal

_PREFIX: Final = "steno-"
TASKS_PER_PROCESS: Final = 16
"""The group counts threads as well; the supervisor ends a command by its number of processes."""


class ControlGroup:
    """A control group for one command. It is empty until a process joins it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @classmethod
    def create(cls, *, max_processes: int, max_memory_bytes: int | None) -> ControlGroup | None:
        """Return a new group; None if this user cannot create one."""
        own = _find_own_group()
        if own is None:
            return None
        _remove_stale_groups(own)
        group = cls(f"{own}/{_PREFIX}{os.getpid()}")
        try:
            os.mkdir(group._folder)
        except OSError:
            return None
        group._write("pids.max", max_processes * TASKS_PER_PROCESS)
        if max_memory_bytes is not None:
            group._write("memory.max", max_memory_bytes)
            group._write("memory.swap.max", 0)
            group._write("memory.oom.group", 1)
        return group

    def join(self) -> None:
        """Move this process into the group, if the kernel allows it."""
        self._write("cgroup.procs", 0)

    def kill(self) -> None:
        """Kill all processes of the group; kernels before 5.14 cannot."""
        self._write("cgroup.kill", 1)

    def remove(self) -> Literal["", "memory", "processes"]:
        """Remove the group; return the limit that its processes exceeded, or an empty string."""
        limit: Literal["", "memory", "processes"] = ""
        if self._count("memory.events", "oom_kill "):
            limit = "memory"
        elif self._count("pids.events", "max "):
            limit = "processes"
        try:
            os.rmdir(self._folder)
        except OSError:  # a process that could not be killed, after `sudo`
            pass
        return limit

    def _write(self, name: str, value: int) -> None:
        try:
            file = os.open(f"{self._folder}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:  # the controller is not delegated
            return
        try:
            os.write(file, str(value).encode())
        except OSError:
            pass
        finally:
            os.close(file)

    def _count(self, name: str, event: str) -> int:
        try:
            with open(f"{self._folder}/{name}", encoding="ascii") as file:
                return sum(int(line[len(event) :]) for line in file if line.startswith(event))
        except OSError:
            return 0


def _remove_stale_groups(own: str) -> None:
    """Remove the groups of supervisors that were killed. A group with processes stays."""
    try:
        names = [name for name in os.listdir(own) if name.startswith(_PREFIX)]
    except OSError:
        return
    for name in names:
        pid = name[len(_PREFIX) :]
        if pid == str(os.getpid()) or not os.path.exists(f"/proc/{pid}"):
            try:
                os.rmdir(f"{own}/{name}")
            except OSError:
                continue


def _find_own_group() -> str | None:
    """Return the folder of this process's group; None if there is no version 2 hierarchy."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            own = next(line[3:].rstrip("\n") for line in file if line.startswith("0::"))
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split() for line in file if " - cgroup2 " in line]
    except (OSError, StopIteration):
        return None
    for fields in mounts:
        root, folder = fields[3], fields[4]
        if own == root or own.startswith(root.rstrip("/") + "/"):
            return folder + own[len(root.rstrip("/")) :].rstrip("/")
    return None
