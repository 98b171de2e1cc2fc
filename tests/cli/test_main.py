"""What holds for the program whatever the command: no command, a wrong one, help."""

from __future__ import annotations

import pytest

from tests.cli.program import steno


def test_without_a_command_there_is_help_that_says_how_to_begin() -> None:
    told = steno()
    assert (told.status, told.err) == (0, "")
    assert told.out == steno("--help").out
    assert "steno -p PROMPT" in told.out


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sesions", "there is no command sesions; do you mean sessions?"),
        ("aprovals", "do you mean approvals?"),
        ("Mend the failing test", "steno -p PROMPT lets a model work on something"),
        ("\x1b[2J\nx", "there is no command \\x1b[2J x; steno -p PROMPT"),
    ],
)
def test_an_unknown_command_is_answered_with_what_may_be_meant(name: str, hint: str) -> None:
    told = steno(name, "--json")
    assert (told.status, told.out) == (2, "")
    assert hint in told.err


def test_what_begins_with_an_option_is_a_run() -> None:
    told = steno("--no-such-option")
    assert told.status == 2
    assert told.err.startswith("usage: steno [-h]")
    assert "unrecognized arguments: --no-such-option" in told.err
