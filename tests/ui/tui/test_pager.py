"""Long texts are read, scrolled and searched, and nothing in them acts on the terminal."""

from __future__ import annotations

import pytest
from rich.style import Style
from textual.pilot import Pilot

from steno.app.commands.table import COMMANDS
from steno.app.session import CommandReply
from steno.render.items import TextForm
from steno.ui.help_text import TERMINAL_KEYS, build_help
from steno.ui.tui.screens.pager import PagerScreen
from tests.ui.idle_clock import wait_until
from tests.ui.tui.screen_app import HOSTILE, SIZES, ScreenApp, is_harmless, least_contrast, show

LONG = "\n".join(f"line {number} of many" for number in range(1, 501))


@pytest.mark.requirement("S4-15")
@pytest.mark.parametrize("size", SIZES)
def test_a_long_text_is_scrolled_from_its_beginning_to_its_end(size: tuple[int, int]) -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        assert stage.lines[0].strip() == "audit"
        assert [line.strip() for line in stage.lines[1:3]] == ["", "line 1 of many"]
        assert "500 lines · 0 %" in stage.text
        await pilot.press("pagedown")
        await wait_until(pilot, lambda: "line 1 of many" not in stage.text)
        await pilot.press("G")
        await wait_until(pilot, lambda: "line 500 of many" in stage.text and "100 %" in stage.text)
        await pilot.press("k")
        await wait_until(pilot, lambda: "line 500 of many" not in stage.text)
        await pilot.press("g")
        await wait_until(pilot, lambda: "line 1 of many" in stage.text and "· 0 %" in stage.text)

    show(PagerScreen(CommandReply(LONG, "audit", TextForm.PLAIN)), play, size=size)


@pytest.mark.parametrize("key", ["q", "escape"])
def test_it_is_left_with_a_key(key: str) -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press(key)
        await wait_until(pilot, lambda: stage.results)
        assert stage.results == [None]

    show(PagerScreen(CommandReply(LONG)), play)


def test_words_are_found_whatever_their_case_and_marked() -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"LINE 49")
        await wait_until(pilot, lambda: "match 1 of 11" in stage.text)
        assert "line 49 of many" in stage.text
        reversed_words = [
            segment.text
            for strip in stage.strips
            for segment in strip
            if segment.style and segment.style.reverse and len(segment.text) > 1
        ]
        assert reversed_words == ["line 49"]
        await pilot.press("enter", "n")
        await wait_until(pilot, lambda: "match 2 of 11" in stage.text and "line 490" in stage.text)
        await pilot.press("N", "N")
        await wait_until(pilot, lambda: "match 11 of 11" in stage.text and "line 499" in stage.text)
        await pilot.press("n")
        await wait_until(pilot, lambda: "match 1 of 11" in stage.text)

    show(PagerScreen(CommandReply(LONG, form=TextForm.PLAIN)), play)


def test_escape_ends_a_search_before_it_leaves() -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"q?*")
        await wait_until(pilot, lambda: "no match" in stage.text)
        await pilot.press("escape")
        await wait_until(pilot, lambda: "no match" not in stage.text)
        assert stage.results == []
        await pilot.press("q")
        await wait_until(pilot, lambda: stage.results)

    show(PagerScreen(CommandReply(LONG)), play)


def test_a_search_goes_on_from_where_the_person_reads() -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press("G")
        await wait_until(pilot, lambda: "line 500" in stage.text)
        await pilot.press("slash", *"of many", "enter")
        await wait_until(pilot, lambda: "match " in stage.text)
        assert "line 500" in stage.text
        assert "match 1 of" not in stage.text

    show(PagerScreen(CommandReply(LONG, form=TextForm.PLAIN)), play)


@pytest.mark.parametrize("size", SIZES)
def test_markdown_is_laid_out_for_the_width(size: tuple[int, int]) -> None:
    text = "# Head\n\nsome **bold** words " + "and more " * 30 + "\n\n- `code`\n\n<b>tag</b>"

    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        assert "Head" in stage.text
        assert "# Head" not in stage.text
        assert "**" not in stage.text
        assert "<b>tag</b>" in stage.text
        assert " ".join(stage.text.split()).count("and more") == 30

    show(PagerScreen(CommandReply(text)), play, size=size)


def test_another_width_lays_everything_out_anew() -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        assert "one two three" in stage.text
        await pilot.resize_terminal(60, 20)
        await wait_until(pilot, lambda: len(stage.lines[0]) == 60)
        await wait_until(pilot, lambda: " ".join(stage.text.split()).count("one two three") == 20)

    show(PagerScreen(CommandReply("one two three " * 20)), play, size=(120, 30))


def test_lines_of_a_diff_have_their_colours_and_signs() -> None:
    diff = "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same"

    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        styles = {one.text: one.style or Style() for strip in stage.strips for one in strip}
        assert styles["-old"].color != styles["+new"].color
        assert styles[" same"].color not in {styles["-old"].color, styles["+new"].color}
        assert styles["@@ -1 +1 @@"].bold

    show(PagerScreen(CommandReply(diff, form=TextForm.DIFF)), play)


def test_a_theme_that_changes_changes_the_colours() -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        def colour() -> object:
            [style] = [one.style for strip in stage.strips for one in strip if one.text == "+new"]
            return style and style.color

        before = colour()
        stage.theme = "steno-light"
        await wait_until(pilot, lambda: colour() != before)

    show(PagerScreen(CommandReply("+new", form=TextForm.DIFF)), play)


@pytest.mark.parametrize("form", list(TextForm))
@pytest.mark.parametrize("size", SIZES)
def test_texts_from_elsewhere_do_no_harm(form: TextForm, size: tuple[int, int]) -> None:
    text = f"{HOSTILE}\n\n[a](http://evil) &#x202e;&#x200b;&#13; " + "x" * 10_000

    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        assert is_harmless(stage)
        assert r"\x1b[2J" in stage.text
        assert "[bold red]" in stage.text
        assert "http://evil" in stage.text

    show(PagerScreen(CommandReply(text, HOSTILE, form)), play, size=size)


def test_markdown_that_is_too_long_to_lay_out_is_shown_as_it_is() -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        assert "**x**" in stage.text

    show(PagerScreen(CommandReply("**x**\n" * 50_000)), play)


def test_nothing_to_read_is_no_trouble() -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press("G", "n", "N", "slash", "x", "enter", "n", "escape", "q")
        await wait_until(pilot, lambda: stage.results)

    show(PagerScreen(CommandReply("")), play)


@pytest.mark.parametrize("theme", ["steno-dark", "steno-light"])
def test_everything_can_be_read_in_both_themes(theme: str) -> None:
    text = "# Head\n\n`code` **bold** [a](http://b)\n\n> quote\n\n- item\n\n|a|b|\n|-|-|\n|c|d|\n"

    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        assert least_contrast(stage) >= 4.5

    show(PagerScreen(CommandReply(text, "title")), play, theme=theme)


# -- help --------------------------------------------------------------------------------------


def test_help_names_every_command_and_every_key() -> None:
    text = build_help(TERMINAL_KEYS)
    assert [one.name for one in COMMANDS if f"- `/{one.name}" not in text] == []
    assert [one.about for one in COMMANDS if one.about not in text] == []
    assert [key for key, about in TERMINAL_KEYS if f"- `{key}`: {about}" not in text] == []


def test_help_without_keys_says_nothing_of_keys() -> None:
    text = build_help(())
    assert "Keys" not in text
    assert "/quit" in text


def test_help_can_be_read_to_its_end_on_a_small_screen() -> None:
    async def play(stage: ScreenApp, pilot: Pilot[None]) -> None:
        assert "Commands" in stage.text
        await pilot.press("G")
        await wait_until(pilot, lambda: "quit" in stage.text and "100 %" in stage.text)

    show(PagerScreen(CommandReply(build_help(), "help")), play, size=(60, 20))
