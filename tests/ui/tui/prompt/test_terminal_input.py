"""Terminal input: pasted text never becomes a key."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import selectors
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno.ui.tui.terminal_driver import InputSanitizer

pytestmark = pytest.mark.requirement("S4-15")

OPEN, CLOSE = "\x1b[200~", "\x1b[201~"


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("abc\r\x1b[A\x1b", "abc\r\x1b[A\x1b"),
        ("a\x1b\rb", "a\x1b[13;3ub"),
        (f"a{OPEN}b\x1brm\r{CLOSE}\r", f"a{OPEN}bm\r{CLOSE}\r"),
        (f"{OPEN}\x1b[31mred\x1b[0m{CLOSE}", f"{OPEN}red{CLOSE}"),
        (f"{OPEN}a{CLOSE}\rb{CLOSE}c", f"{OPEN}a\rb{CLOSE}c"),
        (f"{OPEN}a{CLOSE}b{OPEN}c{CLOSE}\x1b\r", f"{OPEN}a{CLOSE}b{OPEN}c{CLOSE}\x1b[13;3u"),
        (f"{OPEN}a{OPEN}b{CLOSE}c", f"{OPEN}ab{CLOSE}c"),
        (f"{OPEN}{CLOSE}", f"{OPEN}{CLOSE}"),
    ],
)
def test_pasted_text_has_no_escapes_and_alt_enter_is_not_enter(sent: str, read: str) -> None:
    assert InputSanitizer().feed(sent) == read


@given(st.lists(st.sampled_from([OPEN, CLOSE, "\x1b", "a", "[", "201~", "\r"])), st.data())
def test_in_whatever_pieces_it_comes_no_escape_is_left_in_what_is_pasted(
    parts: list[str], data: st.DataObject
) -> None:
    sent = "".join(parts)
    incoming, read = InputSanitizer(), ""
    while sent:
        size = data.draw(st.integers(1, len(sent)))
        read += incoming.feed(sent[:size])
        sent = sent[size:]
    for pasted in read.split(OPEN)[1:]:
        words, close, _ = pasted.partition(CLOSE)
        assert "\x1b" not in words or not close


PROGRAM = """
import json, sys
from textual.app import App
from steno.ui.tui.terminal_driver import TerminalDriver
from steno.ui.tui.prompt import Prompt

class Host(App):
    def compose(self):
        yield Prompt()
    def on_mount(self):
        self.query_one(Prompt).hint = "ready for words"
        self.query_one(Prompt).focus()
    def on_prompt_submitted(self, message):
        with open(sys.argv[1], "a") as file:
            file.write(json.dumps(message.text) + "\\n")
        if message.text == "bye":
            self.exit()

Host(driver_class=TerminalDriver).run()
"""


class Terminal:
    """A pseudo-terminal that runs a program."""

    def __init__(self, command: list[str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
        )
        os.close(theirs)
        self.shown = b""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait(self, is_done: Callable[[], bool]) -> None:
        """Read the output until a condition is true."""
        deadline = time.monotonic() + 60
        with selectors.DefaultSelector() as selector:
            selector.register(self._ours, selectors.EVENT_READ)
            while not is_done():
                assert time.monotonic() < deadline, self.shown[-2_000:]
                if selector.select(0.05):
                    try:
                        self.shown += os.read(self._ours, 65_536)
                    except OSError:  # the program has left
                        break

    def close(self) -> None:
        self.process.kill()
        self.process.wait(60)
        os.close(self._ours)


def test_in_a_real_terminal_a_hostile_paste_sends_nothing(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    sent = tmp_path / "sent"
    sent.touch()
    terminal = Terminal([sys.executable, str(tmp_path / "program.py"), str(sent)])
    try:
        terminal.wait(lambda: b"ready for words" in terminal.shown)
        terminal.type(f"{OPEN}hello\x1brm -rf /\r{'x' * 40}\x1b\x1b\r{CLOSE}")
        terminal.type("\r")
        terminal.wait(lambda: len(sent.read_text().splitlines()) == 1)
        terminal.type("one\x1b\rtwo\r")
        terminal.wait(lambda: len(sent.read_text().splitlines()) == 2)
        terminal.type("bye\r")
        terminal.wait(lambda: terminal.process.poll() is not None)
    finally:
        terminal.close()
    assert [json.loads(line) for line in sent.read_text().splitlines()] == [
        f"hellom -rf /\n{'x' * 40}",
        "one\ntwo",
        "bye",
    ]
