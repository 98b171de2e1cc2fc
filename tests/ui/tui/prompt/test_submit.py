"""The prompt sends its text, rejects some, and never loses any."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.ui.tui.prompt.prompt_app import PromptApp, paste, run_steps, type_in

pytestmark = pytest.mark.requirement("S4-15")
LONG = "\n".join(f"line {number}" for number in range(31))


def test_a_pasted_text_is_sent_in_full_and_shown_as_typed() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "see ")
        await paste(pilot, LONG)
        await pilot.press("enter")

    app = run_steps(flow)
    assert app.sent == [(f"see {LONG}", ())]
    assert app.as_typed == ["see [pasted 1: 31 lines]"]


@pytest.mark.parametrize("typed", ["!", "!cat "])
def test_a_command_for_the_shell_with_something_pasted_is_not_sent(typed: str) -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, typed)
        await paste(pilot, LONG)
        await pilot.press("enter", "enter")
        assert app.prompt.text == f"{typed}[pasted 1: 31 lines]"

    app = run_steps(flow)
    assert app.sent == []
    assert "pasted text is not run as a command" in app.notices[0]


def test_a_long_paste_that_looks_like_a_command_is_words() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await paste(pilot, f"!rm -rf x\n{LONG}")
        await pilot.press("enter")

    app = run_steps(flow)
    assert app.sent == [(f"!rm -rf x\n{LONG}", ())]
    assert app.as_typed == ["[pasted 1: 32 lines]"]


def test_several_lines_are_no_command_for_the_shell() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await paste(pilot, "!echo one\nrm -rf x")
        await pilot.press("enter")
        assert app.prompt.text == "!echo one\nrm -rf x"

    app = run_steps(flow)
    assert app.sent == []
    assert "a command must be one line" in app.notices[0]


def test_a_command_for_the_shell_takes_no_images(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(b"png")

    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "!open ")
        await paste(pilot, str(file))
        await pilot.press("enter")
        assert app.prompt.text.startswith("!open [image 1: a.png]")

    app = run_steps(flow)
    assert app.sent == []
    assert "cannot contain images" in app.notices[0]


def test_long_words_that_come_back_are_not_run_either() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.prompt.load("!" + "x" * 700)
        await pilot.press("enter")

    app = run_steps(flow)
    assert app.sent == [("!" + "x" * 700, ())]
    assert app.as_typed == ["[pasted 1: 701 characters]"]


@pytest.mark.parametrize("text", ["", "something else"])
def test_a_draft_that_something_takes_the_place_of_is_one_arrow_up_away(text: str) -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "half a ")
        await paste(pilot, LONG)
        app.prompt.load(text)
        assert app.prompt.text == text
        await pilot.press("up")
        assert app.prompt.text == f"half a {LONG}"

    run_steps(flow)


def test_a_draft_is_kept_and_not_the_words_of_a_search() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.history.add("older")
        await type_in(pilot, "half a thought")
        await pilot.press("ctrl+r", "ctrl+u", "o", "l")
        app.prompt.clear()
        assert list(app.history.entries()) == ["older", "half a thought"]

    run_steps(flow)
