"""The commands of the tutorial print the output that it shows, without a key or a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.console_blocks import Command, read_commands, run_commands, without_varying

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"


@pytest.mark.requirement("P-04")
def test_the_commands_of_the_tutorial_print_the_output_it_shows(tmp_path: Path) -> None:
    """After an intended change: `python -m tests.docs.console_blocks docs/tutorial.md`."""
    shown = read_commands(TUTORIAL.read_text("utf-8"))
    assert len(shown) >= 10
    printed = run_commands(shown, tmp_path)
    assert [without_varying(str(command)) for command in printed] == [
        without_varying(str(command)) for command in shown
    ]


def test_console_blocks_are_parsed_with_continuation_lines_and_output() -> None:
    page = "````console\n$ cat > a <<'END'\n> one\n> END\n$ cat a\none\n````\n"
    assert read_commands(page) == [
        Command("cat > a <<'END'\none\nEND", ""),
        Command("cat a", "one\n"),
    ]
