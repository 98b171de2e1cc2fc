"""Hangups, signals and lost terminals, in a real terminal."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.ui.terminal.tmux import PATIENCE_S, Tmux, terminal

pytestmark = pytest.mark.requirement("S4-15")
OFFLINE = ("--model", "offline")
STUBBORN = "!trap '' TERM; while :; do sleep 1; done"


@pytest.fixture
def window(tmp_path: Path) -> Iterator[Tmux]:
    with terminal(tmp_path) as made:
        (made.folder / "notes.txt").write_text("ship on Friday\n")
        yield made


def say(window: Tmux, text: str) -> None:
    """Type a text, see it in the prompt, and send it."""
    window.type(text)
    window.wait(text)
    window.type("", "Enter")


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, f"waited until {what}"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def family_of(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *[one for child in children for one in family_of(int(child))]]


@pytest.mark.parametrize(
    "said", ["!sleep 500", STUBBORN, "run sleep 500"], ids=["shell", "stubborn", "tool"]
)
def test_a_terminal_that_hangs_up_leaves_nothing_behind(window: Tmux, said: str) -> None:
    window.start(*OFFLINE, "--allow", "bash(sleep *)")
    window.wait("ACT")
    say(window, said)
    window.wait(re.compile(r"running|● bash").search)
    until(lambda: len(family_of(window.program())) > 2, "it runs")
    family = family_of(window.program())
    window.close()
    until(lambda: not any(map(is_alive, family)), "all of it is gone")
    window.start(*OFFLINE, "-c")
    window.wait("ACT")
    assert said.removeprefix("!") in window.wait("■")  # the mark of a stopped call


def test_to_go_on_without_a_stop_changes_nothing(window: Tmux) -> None:
    window.start(*OFFLINE)
    window.wait("ACT")
    threads = Path(f"/proc/{window.program()}/task")
    before = len(list(threads.iterdir()))
    for number in range(10):
        window.signal_program(signal.SIGCONT)
        window.type(f"{number} ")
    window.wait("> 0 1 2 3 4 5 6 7 8 9")
    # Each of them would read keys on its own, and draw.
    assert len(list(threads.iterdir())) < before + 10


def test_after_a_stop_everything_is_drawn_again(window: Tmux) -> None:
    window.start(*OFFLINE)
    window.wait("ACT")
    say(window, "read notes.txt")
    window.wait("ship on Friday")
    window.signal_program(signal.SIGTSTP)
    window.wait(lambda seen: "ACT" not in seen)
    window.signal_program(signal.SIGCONT)
    window.wait("ship on Friday")
    window.wait("ACT")
    say(window, "list the files")
    window.wait("✓ glob")


def test_a_command_without_end_leaves_the_terminal_alive(window: Tmux) -> None:
    window.start(*OFFLINE)
    window.wait("ACT")
    say(window, "!yes")
    window.wait("further output is not shown while the command runs")
    window.type("still here")
    window.wait("> still here")
    window.type("", "Escape")
    window.wait("idle")
    window.type("", "C-u")
    say(window, "read notes.txt")
    window.wait("ship on Friday")


def is_beside(window: Tmux) -> bool:
    """Tell whether the fork was made; if not, ask again: idle is shown a moment too soon."""
    if "⎇ beside" not in window.screen():
        window.type("", "Enter")
        return False
    return True


def test_words_that_another_terminal_was_faster_than_are_not_lost(window: Tmux) -> None:
    other = Tmux(window.folder, window.home)
    try:
        window.start(*OFFLINE)
        window.wait("ACT")
        say(window, "read notes.txt")
        window.wait("ship on Friday")
        window.wait("idle")
        other.start(*OFFLINE, "-c")
        other.wait("ship on Friday")
        say(other, "list the files")
        other.wait("✓ glob")
        other.wait("idle")
        say(window, "read notes.txt again")
        window.wait("another program has continued this session")
        window.wait("> read notes.txt again")
        window.wait("idle")
        window.type("", "C-u")
        say(window, "/fork beside")
        until(lambda: is_beside(window), "it is in the other branch")
        say(window, "list the files")
        window.wait("✓ glob")
    finally:
        other.close()


def test_a_terminal_may_change_its_size_as_it_likes(window: Tmux) -> None:
    window.start(*OFFLINE, "--allow", "bash(seq *)")
    window.wait("ACT")
    say(window, "run seq 20000")
    for size in ((20, 5), (200, 60), (1, 1), (300, 4), (5, 40), (100, 30)):
        window.resize(*size)
        assert is_alive(window.program())
    window.wait(lambda seen: "20000" in seen and "idle" in seen)
    say(window, "read notes.txt")
    window.wait("ship on Friday")
