"""The program in a real terminal with the offline assistant, from the keys to the screen."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from steno.ui.help_text import UNFINISHED_NOTICE
from tests.ui.terminal.tmux import STENO, Tmux, terminal

pytestmark = pytest.mark.requirement("S4-15")
READY = "type a prompt"
OFFLINE = ("--model", "offline")


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


def pick(window: Tmux, letter: str) -> None:
    """Focus the approval panel, and press a letter."""
    window.type("", "C-g")
    window.wait("━ permission")
    time.sleep(0.7)  # what comes too early is no answer
    window.type(letter)


def choose(window: Tmux, letter: str, label: str) -> None:
    """Focus the approval panel, select a choice by letter, wait until it is shown, and confirm it."""
    pick(window, letter)
    window.wait(f"▸{letter} {label}◂")
    time.sleep(0.1)  # nobody types as fast as a paste comes
    window.type("", "Enter")


def steno(window: Tmux, *arguments: str) -> str:
    """Run a command outside of the terminal, on the same sessions."""
    environ = {"HOME": str(window.home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    done = subprocess.run(
        [str(STENO), *arguments],
        cwd=window.folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_starts_answers_and_leaves(window: Tmux) -> None:
    window.start(*OFFLINE)
    window.wait(READY)
    window.wait("ACT")
    say(window, "read notes.txt")
    window.wait("ship on Friday")
    window.type("", "C-d")
    window.wait("[left with 0]")
    assert "read notes.txt" in steno(window, "sessions", "list")


def test_a_first_prompt_is_sent_and_the_end_explains_how_to_continue(
    window: Tmux,
) -> None:
    window.start("read notes.txt", *OFFLINE)
    window.wait("ship on Friday")
    window.type("", "C-d")
    seen = window.wait("[left with 0]")
    assert "continue it with steno -c" in seen


def test_opening_and_quitting_stores_no_session(window: Tmux) -> None:
    window.start(*OFFLINE)
    window.wait("ACT")
    say(window, "/quit")
    window.wait("[left with 0]")
    assert steno(window, "sessions", "list", "--json") == ""


@pytest.mark.requirement("S2-18")
def test_a_call_is_approved_and_runs(window: Tmux) -> None:
    window.start(*OFFLINE)
    window.wait("ACT")
    say(window, "run cp /dev/null made.txt")
    window.wait("permission")
    assert not (window.folder / "made.txt").exists()
    choose(window, "o", "once")
    window.wait("✓ bash cp /dev/null made.txt")
    assert (window.folder / "made.txt").exists()
    assert "approved" in steno(window, "audit", "last")


@pytest.mark.requirement("S2-18")
def test_a_call_is_denied_with_a_reason_that_the_model_reads(window: Tmux) -> None:
    window.start(*OFFLINE)
    window.wait("ACT")
    say(window, "run rm notes.txt")
    window.wait("permission")
    pick(window, "r")
    window.wait("reason for the denial")
    window.type("we need it on Friday")
    window.wait("we need it on Friday")
    time.sleep(1)  # nobody types as fast as a paste comes
    window.type("", "Enter")
    window.wait("permission denied: we need it on Friday")
    window.wait("⊘ bash rm notes.txt")
    assert (window.folder / "notes.txt").exists()


def test_words_that_are_typed_while_a_question_appears_decide_nothing(window: Tmux) -> None:
    window.start(*OFFLINE)
    window.wait("ACT")
    say(window, "run rm notes.txt")
    window.type("yes please do it, or so", "Enter")
    window.type("o", "Enter", "Enter", "y", "Enter")
    window.wait("permission")
    time.sleep(1)
    assert "? bash rm notes.txt" in window.screen()
    assert (window.folder / "notes.txt").exists()


def test_escape_interrupts_the_run_and_the_session_continues(window: Tmux) -> None:
    window.start(*OFFLINE, "--allow", "bash(sleep *)")
    window.wait("ACT")
    say(window, "run sleep 60")
    window.wait("● bash sleep 60")
    window.type("", "Escape")
    window.wait("■ bash sleep 60")
    window.wait("interrupted")
    say(window, "read notes.txt")
    window.wait("ship on Friday")


def test_a_prompt_typed_during_a_turn_steers_it(window: Tmux) -> None:
    gate = window.folder / "gate"
    os.mkfifo(gate)
    window.start(*OFFLINE, "--allow", "bash(cat *)")
    window.wait("ACT")
    say(window, "run cat gate")
    window.wait("● bash cat gate")
    say(window, "read notes.txt")
    window.wait("will be sent with the next request")
    gate.write_text("open\n")
    seen = window.wait("ship on Friday")
    assert "will be sent" not in seen
    assert "read notes.txt" in seen


def test_a_branch_is_forked_compared_and_left_again(window: Tmux) -> None:
    window.start(*OFFLINE)
    window.wait("ACT")
    say(window, "read notes.txt")
    window.wait("ship on Friday")
    say(window, "/fork other")
    window.wait("⎇ other")
    say(window, "list the files")
    window.wait("✓ glob")
    window.type("", "C-t")
    seen = window.wait("Tree of")
    assert "other (active)" in seen
    assert "main" in seen
    window.type("c")
    window.wait("shared entries")
    window.type("", "Escape")
    window.type("", "Escape")
    window.wait(READY)


@pytest.mark.requirement("S2-18")
def test_a_session_that_was_killed_while_it_asked_asks_again(window: Tmux) -> None:
    window.start(*OFFLINE)
    window.wait("ACT")
    say(window, "run cp /dev/null made.txt")
    window.wait("permission")
    window.signal_program(signal.SIGKILL)
    window.wait("[left with 137]")
    window.close()
    window.start(*OFFLINE, "-c")
    window.wait(UNFINISHED_NOTICE)
    say(window, "/retry")
    window.wait("permission")
    choose(window, "o", "once")
    window.wait("✓ bash cp /dev/null made.txt")
    assert (window.folder / "made.txt").exists()
    assert "intact" in steno(window, "verify", "last")


def test_plan_and_act_change_with_one_key(window: Tmux) -> None:
    window.start(*OFFLINE)
    window.wait("ACT")
    window.type("", "BTab")
    window.wait("PLAN")
    window.type("", "BTab")
    window.wait("ACT")


def test_a_command_of_the_person_is_run_and_on_record(window: Tmux) -> None:
    window.start(*OFFLINE)
    window.wait("ACT")
    say(window, "!echo one two | tr a-z A-Z")
    window.wait("ONE TWO")
    window.type("", "C-d")
    window.wait("[left with 0]")
    assert "ONE TWO" in steno(window, "sessions", "show", "last")


def test_a_terminal_of_60_by_20_is_enough(tmp_path: Path) -> None:
    with terminal(tmp_path, size=(60, 20)) as window:
        window.start(*OFFLINE)
        window.wait("ACT")
        say(window, "run cp /dev/null made.txt")
        window.wait("permission")
        choose(window, "o", "once")
        window.wait("✓ bash cp /dev/null made.txt")
        window.resize(120, 40)
        window.wait("✓ bash cp /dev/null made.txt")


def test_no_colour_is_written_where_none_is_wanted(window: Tmux) -> None:
    window.start(*OFFLINE, environ={"NO_COLOR": "1"})
    window.wait("ACT")
    say(window, "read notes.txt")
    window.wait("ship on Friday")
    colours = [
        code
        for sequence in window.escapes()
        for code in re.split("[;:]", sequence)
        if code.isdigit() and (30 <= int(code) <= 49 or 90 <= int(code) <= 107)
        if code not in ("39", "49")  # those of the terminal itself
    ]
    assert colours == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order_and_the_terminal_is_as_it_was(
    window: Tmux, number: signal.Signals
) -> None:
    window.start(*OFFLINE, "--allow", "bash(sleep *)")
    window.wait("ACT")
    say(window, "run sleep 60")
    window.wait("● bash sleep 60")
    window.signal_program(number)
    seen = window.wait(f"[left with {128 + number}]")
    assert "ACT" not in seen


@pytest.mark.parametrize("plain", [(), ("--plain",)])
def test_contradictory_options_are_reported_before_the_screen_opens(
    window: Tmux, plain: tuple[str, ...]
) -> None:
    window.start(*OFFLINE, *plain, "--fork", "other")
    seen = window.wait("[left with 2]")
    assert "--fork: needs --continue or --resume" in seen


def test_a_wrong_session_is_an_error_on_a_terminal_that_is_as_it_was(window: Tmux) -> None:
    window.start(*OFFLINE, "-r", "nowhere")
    seen = window.wait("[left with 1]")
    assert "steno: session nowhere: not found" in seen


@pytest.mark.parametrize("how", ["flag", "variable", "dumb"])
def test_line_by_line_it_does_the_same(window: Tmux, how: str) -> None:
    environ = {"flag": {}, "variable": {"STENO_PLAIN": "1"}, "dumb": {"TERM": "dumb"}}[how]
    window.start(*OFFLINE, *(["--plain"] if how == "flag" else []), environ=environ)
    window.wait("act>")
    window.type("read notes.txt", "Enter")
    window.wait("ship on Friday")
    window.type("/quit", "Enter")
    window.wait("[left with 0]")


def test_sessions_survive_in_one_store(window: Tmux) -> None:
    window.start(*OFFLINE)
    window.wait("ACT")
    say(window, "read notes.txt")
    window.wait("ship on Friday")
    window.type("", "C-d")
    window.wait("[left with 0]")
    (store,) = window.home.rglob("*.db")
    with closing(sqlite3.connect(store)) as connection:
        (status,) = connection.execute("pragma integrity_check").fetchone()
    assert status == "ok"
