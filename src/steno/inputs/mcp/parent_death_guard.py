"""A script that executes a server, so that the kernel kills the server when steno ends.

The script imports nothing from steno and needs only Python on Linux:

    python -I -S parent_death_guard.py PARENT FAILURE_FD PROGRAM [ARGUMENT ...]

If steno is killed, it cannot end a server that ignores its closed input; the kernel then kills the
server. If the program cannot be started, the error number is written to FAILURE_FD.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, failure_fd: int, argv: list[str]) -> None:
    """Replace this process with the program.

    If that fails, the error number is written to `failure_fd`.
    """
    os.set_inheritable(failure_fd, False)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # steno ended before prctl took effect
        return
    # Python ignores these two signals, and the server would inherit this setting.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, _original_environment())  # noqa: S606 - as intended
    except OSError as exc:
        os.write(failure_fd, str(exc.errno).encode())


def _original_environment() -> dict[bytes, bytes]:
    """Return the initial environment of this process, which Python may have changed."""
    try:
        # Importing pathlib would double the time that this script adds to the start of a server.
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
            entries = file.read().split(b"\0")
    except OSError:  # some systems have no /proc
        return dict(os.environb)
    return {
        name: value for name, sign, value in [entry.partition(b"=") for entry in entries] if sign
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
