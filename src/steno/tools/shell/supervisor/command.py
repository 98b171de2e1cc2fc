"""Turn a forked process into the command: limits, confinement, and then its program.

The process has a single thread and runs nothing else, so it can restrict itself step by step. Each
step needs rights that the later steps take away: namespaces and mounts, then Landlock, then the
filter for system calls.
"""

from __future__ import annotations

import os
import sys

from . import landlock, namespaces, seccomp
from .cgroup import TASKS_PER_PROCESS
from .kernel import PR_SET_PDEATHSIG, drop_privileges, forbid_new_privileges, prctl
from .processes import HAS_PROC, count_user_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Final, NoReturn

    from .cgroup import ControlGroup
    from .specification import (
        BubblewrapConfinement,
        CommandSpecification,
        LandlockConfinement,
    )
else:
    import _signal as signal  # without enumerations, whose module takes long to load

_OOM_SCORE: Final = 500
"""When memory runs out, the kernel ends the command rather than steno or other programs."""


def exec_command(
    specification: CommandSpecification,
    failure_fd: int,
    *,
    group: ControlGroup | None,
    listener_fds: tuple[int, int] | None,
) -> NoReturn:
    """Replace this process with the command; write the reason to `failure_fd` if that fails.

    `listener_fds` are the two files by which bwrap and the process for the listener meet.
    """
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if group is not None:
            group.join()
        # Python ignores these two signals, and the command would inherit this setting.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        _set_limits(specification)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        argv = specification["argv"]
        confinement = specification["confinement"]
        if confinement is None:
            pass
        elif confinement["mechanism"] == "bubblewrap":
            argv = _wrap(argv, confinement, listener_fds)
        else:
            _confine(confinement)
        os.execvp(argv[0], argv)  # noqa: S606 - the purpose of this program
    except (OSError, ValueError) as exc:
        os.write(failure_fd, str(exc).encode(errors="replace"))
    finally:
        os._exit(127)


def _wrap(
    argv: list[str], confinement: BubblewrapConfinement, listener_fds: tuple[int, int] | None
) -> list[str]:
    """Return the command line of bwrap, which reads the filter from an open file."""
    options: list[str] = []
    program = seccomp.build_filter(confinement["sockets"], has_own_processes=True)
    if program:
        file = os.memfd_create("filter", 0)
        os.write(file, program)
        os.lseek(file, 0, os.SEEK_SET)
        options += ["--seccomp", str(file)]
    if listener_fds is not None:
        info_fd, block_fd = listener_fds
        os.set_inheritable(info_fd, True)
        os.set_inheritable(block_fd, True)
        options += ["--info-fd", str(info_fd), "--block-fd", str(block_fd)]
    if confinement["scopes_sockets"]:
        forbid_new_privileges()
        landlock.scope_abstract_sockets()
    bwrap, *others = confinement["command"]
    if confinement["hidden_sockets"]:
        others += _hide_sockets(confinement["hidden_sockets"])
    return [bwrap, *options, *others, "--", *argv]


def _hide_sockets(paths: list[str]) -> list[str]:
    """Cover Unix sockets in a namespace around that of bwrap; return options for bwrap if it fails.

    bwrap does not start if a path to cover does not exist, and sockets come and go at any time. Some
    systems let bwrap create namespaces, but no other program.
    """
    if not _can_cover(paths):
        present = [path for path in paths if os.path.exists(path)]
        return [argument for path in present for argument in ("--ro-bind", "/dev/null", path)]
    _cover(paths)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return []


def _can_cover(paths: list[str]) -> bool:
    """Try in another process whether sockets can be covered.

    A process that fails after it has entered a namespace cannot leave it, and bwrap would fail there.
    """
    pid = os.fork()
    if pid == 0:
        try:
            _cover(paths)
            os._exit(0)
        except OSError:
            pass
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _cover(paths: list[str]) -> None:
    namespaces.enter_namespaces()
    for path in paths:
        namespaces.cover_file(path)


def _confine(confinement: LandlockConfinement) -> None:
    """Apply all restrictions to this process."""
    mounts = confinement["mounts"]
    if mounts is not None:
        namespaces.enter_namespaces()
        namespaces.apply_mounts(mounts, confinement["folder"])
        # The kernel forgets this setting when a process changes its rights.
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    drop_privileges()
    landlock.confine(
        confinement["writable"],
        confinement["hidden"],
        confinement["revealed"],
        allows_network=confinement["allows_network"],
        has_own_terminals=mounts is not None,
    )
    program = seccomp.build_filter(confinement["sockets"], has_own_processes=False)
    if program:
        seccomp.apply_filter(program)


def _set_limits(specification: CommandSpecification) -> None:
    """Set the limits of this process and its descendants; some limits do not apply to root."""
    import resource  # noqa: PLC0415 - not on every platform that may import this file

    # The kernel counts tasks per user, so the tasks that already run have to be added.
    # They include threads, while the supervisor counts the processes of the command.
    more_tasks = specification["max_processes"] * TASKS_PER_PROCESS
    most_tasks = count_user_tasks() + more_tasks if HAS_PROC else None
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: specification["max_file_bytes"],
        resource.RLIMIT_NPROC: most_tasks,
    }
    for kind, value in limits.items():
        _, hard = resource.getrlimit(kind)
        if value is not None:
            lower = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (lower, lower))
    if sys.platform == "linux":
        _prefer_for_oom()


def _prefer_for_oom() -> None:
    try:
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        os.write(file, str(_OOM_SCORE).encode())
        os.close(file)
    except OSError:
        pass
