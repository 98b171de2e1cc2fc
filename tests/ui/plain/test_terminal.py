"""The plain mode at a real terminal: editing, history, Ctrl+C, and approvals."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from steno.ui.prompt_state import PromptHistory

PATIENCE_S = 60
PROGRAM = Path(__file__).with_name("scripted_terminal.py")
ROOT = Path(__file__).parents[3]
TERMINALS = ("xterm-256color", "dumb")
"""With readline, and without."""


class Seat:
    """A user at the terminal."""

    def __init__(self, process: subprocess.Popen[bytes], end: int, before: list[Any]) -> None:
        self.process = process
        self.end = end
        self.before = before
        """The settings of the terminal before the program started."""
        self.screen = ""
        self._seen = 0

    def _pieces(self) -> Iterator[str]:
        while True:
            assert select.select([self.end], [], [], PATIENCE_S)[0], f"nothing comes: {self.screen}"
            try:
                yield os.read(self.end, 65_536).decode().replace("\r\n", "\n")
            except OSError:  # the program has ended
                return

    def see(self, text: str) -> None:
        """Wait until a text is shown after the last awaited one."""
        pieces = self._pieces()
        while text not in self.screen[self._seen :]:
            piece = next(pieces, None)
            assert piece is not None, f"waited for {text!r}, and saw: {self.screen!r}"
            self.screen += piece
        self._seen = self.screen.index(text, self._seen) + len(text)

    def type(self, keys: str) -> None:
        os.write(self.end, keys.encode())

    def left(self) -> int:
        """Wait until the program ends, and return its exit status."""
        self.screen += "".join(self._pieces())
        return self.process.wait(timeout=PATIENCE_S)


def _sit_down() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl+C is a signal


@contextmanager
def seat(tmp_path: Path, term: str = "xterm-256color", *, inputrc: str = "") -> Generator[Seat]:
    end, other_end = pty.openpty()
    before = termios.tcgetattr(end)
    settings = tmp_path / "inputrc"
    settings.write_text(inputrc)
    process = subprocess.Popen(
        [sys.executable, PROGRAM, tmp_path / "typed.jsonl"],
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            "TERM": term,
            "NO_COLOR": "1",
            "INPUTRC": str(settings),
        },
        start_new_session=True,
        preexec_fn=_sit_down,
    )
    os.close(other_end)
    with process:
        try:
            yield Seat(process, end, before)
        finally:
            process.kill()
            os.close(end)


@pytest.mark.parametrize("term", TERMINALS)
def test_a_prompt_and_its_response_are_on_separate_lines(tmp_path: Path, term: str) -> None:
    with seat(tmp_path, term) as user:
        user.see("act> ")
        user.type("hello\n")
        user.see("\nAnswer: about hello\nDone: 1,234 tokens, $0.0100\n")
        user.see("act> ")
        user.type("/quit\n")
        assert user.left() == 0
        assert "LEFT 0" in user.screen


@pytest.mark.parametrize("term", TERMINALS)
def test_ctrl_d_leaves(tmp_path: Path, term: str) -> None:
    with seat(tmp_path, term) as user:
        user.see("act> ")
        user.type("\x04")
        assert user.left() == 0
        assert "\nLEFT 0" in user.screen


@pytest.mark.parametrize("inputrc", ["", "set editing-mode vi\n"])
@pytest.mark.parametrize("term", TERMINALS)
def test_ctrl_c_gives_up_the_line_and_leaves_when_it_comes_twice(
    tmp_path: Path, term: str, inputrc: str
) -> None:
    with seat(tmp_path, term, inputrc=inputrc) as user:
        user.see("act> ")
        user.type("rm everything\x03")
        user.see("\nNotice: press Ctrl+C again to quit\n")
        user.see("act> ")
        user.type("hello\n")
        user.see("Answer: about hello\n")
        user.see("act> ")
        user.type("\x03")
        user.see("Notice: press Ctrl+C again to quit\n")
        user.see("act> ")
        user.type("\x03")
        assert user.left() == 0
        assert user.screen.count("ASKED 'send'") == 1


def test_ctrl_c_works_where_vi_awaits_a_command(tmp_path: Path) -> None:
    with seat(tmp_path, inputrc="set editing-mode vi\n") as user:
        user.see("act> ")
        user.type("word\x1b")
        user.see("word")
        user.type("\x03")
        user.see("\nNotice: press Ctrl+C again to quit\n")
        user.see("act> ")
        user.type("\x03")
        assert user.left() == 0
        assert "ASKED" not in user.screen


@pytest.mark.parametrize("term", TERMINALS)
def test_ctrl_c_interrupts_what_runs_and_does_not_leave(tmp_path: Path, term: str) -> None:
    with seat(tmp_path, term) as user:
        user.see("act> ")
        user.type("work\n")
        user.see("Answer: working\n")
        user.type("\x03")
        user.see("\nNotice: interrupted;")
        user.see("act> ")
        user.type("/quit\n")
        assert user.left() == 0
        assert "ASKED 'interrupt'" in user.screen


@pytest.mark.parametrize("term", TERMINALS)
def test_ctrl_c_stops_words_that_are_still_being_read(tmp_path: Path, term: str) -> None:
    with seat(tmp_path, term) as user:
        user.see("act> ")
        user.type("read\n")
        user.see("Notice: reading\n")
        user.type("\x03")
        user.see("Error: interrupted before it began")
        user.see("act> ")
        user.type("\x15/quit\n")  # in place of the words, which are there again
        assert user.left() == 0
        assert "ASKED 'interrupt'" in user.screen


def test_words_that_were_refused_are_on_the_line_again(tmp_path: Path) -> None:
    with seat(tmp_path) as user:
        user.see("act> ")
        user.type("read\n")
        user.see("Notice: reading\n")
        user.type("\x03")
        user.see("act> ")
        user.see("read")
        user.type(" this\n")
        user.see("Answer: about read this")
        user.see("act> ")
        user.type("/quit\n")
        assert user.left() == 0


@pytest.mark.parametrize("term", TERMINALS)
def test_a_line_that_is_typed_while_a_turn_runs_steers_it(tmp_path: Path, term: str) -> None:
    with seat(tmp_path, term) as user:
        user.see("act> ")
        user.type("work\n")
        user.see("Answer: working\n")
        user.type("faster\n")
        user.see("Notice: will be sent with the next request\n")
        user.type("\x03")
        user.see("act> ")
        user.type("\x04")
        assert user.left() == 0
        assert "ASKED 'send' PromptInput(text='faster'," in user.screen


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("term", TERMINALS)
def test_keys_typed_before_an_approval_do_not_decide_it(tmp_path: Path, term: str) -> None:
    with seat(tmp_path, term) as user:
        user.see("act> ")
        user.type("ask\nonce\n")
        user.see("Approval 1 of 1: bash asks for permission to execute\n")
        user.see("help? ")
        user.type("\n")
        user.see("help? ")
        user.type("deny\n")
        user.see("Decided: bash, deny\n")
        user.see("act> ")
        user.type("\x04")
        assert user.left() == 0
        (decided,) = [line for line in user.screen.split("\n") if "ASKED 'decide'" in line]
        assert "allowed=False" in decided


@pytest.mark.parametrize("term", TERMINALS)
def test_ctrl_c_at_a_question_interrupts_and_decides_nothing(tmp_path: Path, term: str) -> None:
    with seat(tmp_path, term) as user:
        user.see("act> ")
        user.type("ask\n")
        user.see("help? ")
        user.type("once\x03")
        user.see("act> ")
        user.type("\x04")
        assert user.left() == 0
        assert "ASKED 'interrupt'" in user.screen
        assert "ASKED 'decide'" not in user.screen


def test_earlier_prompts_can_be_recalled_and_are_kept(tmp_path: Path) -> None:
    PromptHistory(tmp_path / "typed.jsonl").add("from last time")
    with seat(tmp_path) as user:
        user.see("act> ")
        user.type("\x10\n")  # Ctrl+P, what arrow up does
        user.see("Answer: about from last time\n")
        user.see("act> ")
        user.type("new\n")
        user.see("Answer: about new\n")
        user.see("act> ")
        user.type("\x04")
        assert user.left() == 0
    assert list(PromptHistory(tmp_path / "typed.jsonl").entries()) == ["from last time", "new"]


def test_tab_completes_commands_their_arguments_and_files(tmp_path: Path) -> None:
    with seat(tmp_path) as user:
        user.see("act> ")
        user.type("look at @READ\t\n")
        user.see("Answer: about look at @README.md")
        user.see("act> ")
        user.type("/usa\t\n")
        user.see("Reply: done: usage\n")
        user.see("act> ")
        user.type("/mode pl\t\n")
        user.see("Reply: done: mode plan\n")
        user.see("act> ")
        user.type("\x04")
        assert user.left() == 0


@pytest.mark.parametrize("term", TERMINALS)
def test_the_terminal_is_restored_after_a_signal(tmp_path: Path, term: str) -> None:
    with seat(tmp_path, term) as user:
        user.see("act> ")
        user.type("half a li")
        user.see("half a li")
        os.kill(user.process.pid, signal.SIGTERM)
        user.see("CANCELLED")
        assert user.left() == 0
        assert termios.tcgetattr(user.end) == user.before
