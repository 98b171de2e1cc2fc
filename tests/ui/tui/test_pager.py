"""The pager scrolls and searches long texts, and no text can act on the terminal."""

from __future__ import annotations

import pytest
from rich.style import Style
from textual.pilot import Pilot

from steno.app.commands.report import text_report
from steno.app.commands.table import SLASH_COMMANDS
from steno.render.items import TextForm
from steno.ui.help_text import TERMINAL_KEYS, build_help
from steno.ui.tui.screens.pager import PagerScreen
from tests.ui.idle_clock import wait_until
from tests.ui.tui.screen_app import HOSTILE, SIZES, ScreenApp, is_harmless, least_contrast, show

LONG = "\n".join(f"line {number} of many" for number in range(1, 501))


@pytest.mark.requirement("S4-15")
@pytest.mark.parametrize("size", SIZES)
def test_a_long_text_is_scrolled_from_its_beginning_to_its_end(size: tuple[int, int]) -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert app.lines[0].strip() == "audit"
        assert [line.strip() for line in app.lines[1:3]] == ["", "line 1 of many"]
        assert "500 lines · 0 %" in app.text
        await pilot.press("pagedown")
        await wait_until(pilot, lambda: "line 1 of many" not in app.text)
        await pilot.press("G")
        await wait_until(pilot, lambda: "line 500 of many" in app.text and "100 %" in app.text)
        await pilot.press("k")
        await wait_until(pilot, lambda: "line 500 of many" not in app.text)
        await pilot.press("g")
        await wait_until(pilot, lambda: "line 1 of many" in app.text and "· 0 %" in app.text)

    show(PagerScreen(text_report(LONG, "audit", TextForm.PLAIN)), steps, size=size)


@pytest.mark.parametrize("key", ["q", "escape"])
def test_it_is_left_with_a_key(key: str) -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press(key)
        await wait_until(pilot, lambda: app.results)
        assert app.results == [None]

    show(PagerScreen(text_report(LONG)), steps)


def test_words_are_found_whatever_their_case_and_marked() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"LINE 49")
        await wait_until(pilot, lambda: "match 1 of 11" in app.text)
        assert "line 49 of many" in app.text
        reversed_words = [
            segment.text
            for strip in app.strips
            for segment in strip
            if segment.style and segment.style.reverse and len(segment.text) > 1
        ]
        assert reversed_words == ["line 49"]
        await pilot.press("enter", "n")
        await wait_until(pilot, lambda: "match 2 of 11" in app.text and "line 490" in app.text)
        await pilot.press("N", "N")
        await wait_until(pilot, lambda: "match 11 of 11" in app.text and "line 499" in app.text)
        await pilot.press("n")
        await wait_until(pilot, lambda: "match 1 of 11" in app.text)

    show(PagerScreen(text_report(LONG, form=TextForm.PLAIN)), steps)


def test_escape_ends_a_search_before_it_leaves() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"q?*")
        await wait_until(pilot, lambda: "no match" in app.text)
        await pilot.press("escape")
        await wait_until(pilot, lambda: "no match" not in app.text)
        assert app.results == []
        await pilot.press("q")
        await wait_until(pilot, lambda: app.results)

    show(PagerScreen(text_report(LONG)), steps)


def test_a_search_continues_from_the_visible_position() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press("G")
        await wait_until(pilot, lambda: "line 500" in app.text)
        await pilot.press("slash", *"of many", "enter")
        await wait_until(pilot, lambda: "match " in app.text)
        assert "line 500" in app.text
        assert "match 1 of" not in app.text

    show(PagerScreen(text_report(LONG, form=TextForm.PLAIN)), steps)


@pytest.mark.parametrize("size", SIZES)
def test_markdown_is_laid_out_for_the_width(size: tuple[int, int]) -> None:
    text = "# Head\n\nsome **bold** words " + "and more " * 30 + "\n\n- `code`\n\n<b>tag</b>"

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert "Head" in app.text
        assert "# Head" not in app.text
        assert "**" not in app.text
        assert "<b>tag</b>" in app.text
        assert " ".join(app.text.split()).count("and more") == 30

    show(PagerScreen(text_report(text)), steps, size=size)


def test_another_width_lays_everything_out_anew() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert "one two three" in app.text
        await pilot.resize_terminal(60, 20)
        await wait_until(pilot, lambda: len(app.lines[0]) == 60)
        await wait_until(pilot, lambda: " ".join(app.text.split()).count("one two three") == 20)

    show(PagerScreen(text_report("one two three " * 20)), steps, size=(120, 30))


def test_lines_of_a_diff_have_their_colours_and_signs() -> None:
    diff = "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same"

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        styles = {one.text: one.style or Style() for strip in app.strips for one in strip}
        assert styles["-old"].color != styles["+new"].color
        assert styles[" same"].color not in {styles["-old"].color, styles["+new"].color}
        assert styles["@@ -1 +1 @@"].bold

    show(PagerScreen(text_report(diff, form=TextForm.DIFF)), steps)


def test_a_theme_that_changes_changes_the_colours() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        def colour() -> object:
            [style] = [one.style for strip in app.strips for one in strip if one.text == "+new"]
            return style and style.color

        before = colour()
        app.theme = "steno-light"
        await wait_until(pilot, lambda: colour() != before)

    show(PagerScreen(text_report("+new", form=TextForm.DIFF)), steps)


@pytest.mark.parametrize("form", list(TextForm))
@pytest.mark.parametrize("size", SIZES)
def test_texts_from_elsewhere_do_no_harm(form: TextForm, size: tuple[int, int]) -> None:
    text = f"{HOSTILE}\n\n[a](http://evil) &#x202e;&#x200b;&#13; " + "x" * 10_000

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert is_harmless(app)
        assert r"\x1b[2J" in app.text
        assert "[bold red]" in app.text
        assert "http://evil" in app.text

    show(PagerScreen(text_report(text, HOSTILE, form)), steps, size=size)


def test_markdown_that_is_too_long_to_lay_out_is_shown_as_it_is() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert "**x**" in app.text

    show(PagerScreen(text_report("**x**\n" * 50_000)), steps)


def test_nothing_to_read_is_no_trouble() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        await pilot.press("G", "n", "N", "slash", "x", "enter", "n", "escape", "q")
        await wait_until(pilot, lambda: app.results)

    show(PagerScreen(text_report("")), steps)


@pytest.mark.parametrize("theme", ["steno-dark", "steno-light"])
def test_everything_can_be_read_in_both_themes(theme: str) -> None:
    text = "# Head\n\n`code` **bold** [a](http://b)\n\n> quote\n\n- item\n\n|a|b|\n|-|-|\n|c|d|\n"

    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert least_contrast(app) >= 4.5

    show(PagerScreen(text_report(text, "title")), steps, theme=theme)


# -- help --------------------------------------------------------------------------------------


def test_help_names_every_command_and_every_key() -> None:
    text = build_help(TERMINAL_KEYS)
    assert [one.name for one in SLASH_COMMANDS if f"- `/{one.name}" not in text] == []
    assert [one.description for one in SLASH_COMMANDS if one.description not in text] == []
    assert [key for key, about in TERMINAL_KEYS if f"- `{key}`: {about}" not in text] == []


def test_help_without_keys_says_nothing_of_keys() -> None:
    text = build_help(())
    assert "Keys" not in text
    assert "/quit" in text


def test_help_can_be_read_to_its_end_on_a_small_screen() -> None:
    async def steps(app: ScreenApp, pilot: Pilot[None]) -> None:
        assert "Commands" in app.text
        await pilot.press("G")
        await wait_until(pilot, lambda: "quit" in app.text and "100 %" in app.text)

    show(PagerScreen(text_report(build_help(), "help")), steps, size=(60, 20))
