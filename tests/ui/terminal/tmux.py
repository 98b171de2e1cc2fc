"""A real terminal for tests: a separate tmux server, which ends with the test.

Tests type keys and read the screen, as a user does.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

PATIENCE_S = 60.0
STENO = Path(sys.executable).with_name("steno")


def _new_socket() -> str:
    return f"steno-{uuid4().hex[:12]}"


class Tmux:
    """One window of one server."""

    def __init__(self, folder: Path, home: Path, *, size: tuple[int, int] = (100, 30)) -> None:
        self.folder = folder
        self.home = home
        self._socket = _new_socket()
        self._size = size

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self._socket, "-f", os.devnull, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"tmux {arguments[0]}: {done.stderr}"
        return done.stdout

    def start(self, *arguments: str, environ: Mapping[str, str] | None = None) -> None:
        """Start the program in a new window; its last output stays on the screen."""
        variables = {
            "HOME": str(self.home),
            "PATH": f"{STENO.parent}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/sh",
            "COLORTERM": "truecolor",
            **(environ or {}),
        }
        given = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        command = shlex.join([str(STENO), *arguments])
        width, height = self._size
        self._socket = _new_socket()  # a server that is about to end takes no new windows
        self._tmux(
            *("new-session", "-d", "-x", str(width), "-y", str(height), "-c", str(self.folder)),
            f'env -i TERM=$TERM {given} {command}; echo "[left with $?]"; exec sleep 600',
        )

    def type(self, text: str, *keys: str) -> None:
        """Type a text, then press keys by their names."""
        if text:
            self._tmux("send-keys", "-l", text)
        for key in keys:
            self._tmux("send-keys", key)

    def screen(self) -> str:
        """Return the text on the screen."""
        return self._tmux("capture-pane", "-p")

    def wait(self, what: str | Callable[[str], object], *, within_s: float = PATIENCE_S) -> str:
        """Wait until a text is on the screen, or a condition is true, and return the screen."""
        is_there = (lambda seen: what in seen) if isinstance(what, str) else what
        end = time.monotonic() + within_s
        while True:
            seen = self.screen()
            if is_there(seen):
                return seen
            assert time.monotonic() < end, f"waited for {what!r}, and saw:\n{seen}"
            time.sleep(0.05)

    def resize(self, width: int, height: int) -> None:
        """Resize the window."""
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def program(self) -> int:
        """Return the process of the program."""
        (shell,) = self._tmux("list-panes", "-F", "#{pane_pid}").split()
        (program,) = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        return int(program)

    def signal_program(self, number: signal.Signals) -> None:
        """Send a signal to the program only."""
        os.kill(self.program(), number)

    def escapes(self) -> list[str]:
        """Return the style sequences on the screen, each as its numbers."""
        shown = self._tmux("capture-pane", "-p", "-e")
        return re.findall(r"\x1b\[([0-9;:]*)m", shown)

    def close(self) -> None:
        """End the server and everything in it."""
        subprocess.run(
            ["tmux", "-L", self._socket, "kill-server"],
            capture_output=True,
            timeout=60,
            check=False,
        )


@contextmanager
def terminal(tmp_path: Path, *, size: tuple[int, int] = (100, 30)) -> Generator[Tmux]:
    """Create a terminal in its own folder, with an empty home directory."""
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir(exist_ok=True)
    home.mkdir(exist_ok=True)
    window = Tmux(folder, home, size=size)
    try:
        yield window
    finally:
        window.close()
