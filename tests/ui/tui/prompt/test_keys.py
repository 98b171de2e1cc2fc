"""The keys of the prompt."""

from __future__ import annotations

import time

import pytest
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import TextArea

from tests.ui.tui.prompt.prompt_app import PromptApp, paste, run_steps, type_in

pytestmark = pytest.mark.requirement("S4-15")


def test_enter_sends_and_leaves_nothing_behind() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "mend it")
        assert not app.prompt.is_blank
        await pilot.press("enter")
        assert app.prompt.is_blank

    assert run_steps(flow).sent == [("mend it", ())]


@pytest.mark.parametrize("key", ["shift+enter", "alt+enter", "ctrl+j"])
def test_several_lines_are_sent_as_one(key: str) -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "one")
        await pilot.press(key)
        await type_in(pilot, "two")
        await pilot.press("enter")

    assert run_steps(flow).sent == [("one\ntwo", ())]


@pytest.mark.parametrize(
    ("typed", "sent"), [("one\\", []), ("one\\\\", ["one\\\\"]), ("\\one", ["\\one"])]
)
def test_a_backslash_at_the_end_begins_another_line(typed: str, sent: list[str]) -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, typed)
        await pilot.press("enter")
        if not sent:
            assert app.prompt.text == "one\n"

    assert [text for text, _ in run_steps(flow).sent] == sent


@pytest.mark.parametrize("typed", ["", "   ", "\n\n"])
def test_an_empty_prompt_is_not_sent(typed: str) -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.prompt.load(typed)
        await pilot.press("enter")

    assert run_steps(flow).sent == []


def test_blanks_before_the_first_word_stay_and_those_behind_the_last_go() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.prompt.load("\n    indented\nmore  \n\n")
        await pilot.press("enter")

    assert run_steps(flow).sent == [("    indented\nmore", ())]


def test_it_grows_with_its_lines_up_to_a_third_of_the_screen_and_then_scrolls() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        assert app.prompt.size.height == 1
        await pilot.press("ctrl+j", "ctrl+j")
        await pilot.pause()
        assert app.prompt.size.height == 3
        for _ in range(20):
            await pilot.press("ctrl+j")
        await type_in(pilot, "last")
        await pilot.pause()
        assert app.prompt.size.height == app.query_one(TextArea).size.height == 6
        assert app.query_one(TextArea).scroll_offset.y == 23 - 6

    run_steps(flow, size=(60, 20))


def test_a_long_line_wraps_and_takes_its_rows() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.prompt.load("word " * 30)
        await pilot.pause()
        assert app.prompt.size.height == 3

    run_steps(flow, size=(60, 20))


def test_ctrl_u_clears_everything_and_undo_brings_it_back() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "one")
        await pilot.press("ctrl+j")
        await type_in(pilot, "two")
        await pilot.press("ctrl+u")
        assert app.prompt.text == ""
        await pilot.press("ctrl+z")
        assert app.prompt.text == "one\ntwo"

    run_steps(flow)


def test_usual_keys_edit() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "one two")
        await pilot.press("ctrl+w", "home", "delete", "end", "backspace")
        assert app.prompt.text == "ne"
        await pilot.press("ctrl+a", "ctrl+k")
        assert app.prompt.text == ""

    run_steps(flow)


def test_keys_count_in_the_order_in_which_they_are_pressed_however_fast() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        for key, character in [
            *[(letter, letter) for letter in "helx"],
            ("backspace", "\x7f"),
            *[(letter, letter) for letter in "lo"],
            ("home", None),
            ("greater_than_sign", ">"),
            ("enter", "\r"),
            ("x", "x"),
        ]:
            app.post_message(Key(key, character))
        await pilot.pause()
        await pilot.pause()
        assert app.prompt.text == "x"

    assert run_steps(flow).sent == [(">hello", ())]


def test_escape_reaches_the_app_only_if_nothing_is_open() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await pilot.press("escape")
        assert app.interrupts == 1
        await type_in(pilot, "/m")
        await pilot.press("escape")
        assert (app.interrupts, app.offered, app.prompt.text) == (1, [], "/m")
        await pilot.press("escape")
        assert app.interrupts == 2

    run_steps(flow)


def test_the_sign_and_a_class_tell_what_is_being_typed() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        signs = []
        for typed in ("", "!ls", "/help", "words"):
            app.prompt.load(typed)
            sign = str(app.query_one(".prompt--sign").render())
            signs.append((sign, app.prompt.has_class("-shell"), app.prompt.has_class("-command")))
        assert signs == [
            (">", False, False),
            ("!", True, False),
            ("/", False, True),
            (">", False, False),
        ]
        app.prompt.clear()
        await type_in(pilot, "!")
        assert app.prompt.has_class("-shell")
        await pilot.press("backspace")
        assert not app.prompt.has_class("-shell")

    run_steps(flow)


def test_a_hint_is_shown_as_it_is_while_nothing_is_typed() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.prompt.hint = "say [b]it[/b]\x1b[31m"
        await pilot.pause()
        assert "say [b]it[/b]" in app.query_one(TextArea).render_line(0).text
        await type_in(pilot, "x")
        assert app.query_one(TextArea).render_line(0).text.strip() == "x"

    run_steps(flow)


def test_the_time_of_the_last_key_is_known() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        before = time.monotonic()
        await pilot.press("a")
        at = app.prompt.last_key_at
        assert before <= at <= time.monotonic()
        await paste(pilot, "words")
        assert app.prompt.last_key_at > at

    run_steps(flow)


def test_loaded_text_is_escaped_and_has_its_images() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        text = "see [image 7: a.png] and\x1b[2J [image 9: b.png]"
        app.prompt.load(text, ("/pictures/a.png", b"bytes"))
        assert app.prompt.text == ("see [image 7: a.png] and [image 9: b.png] [image 2: clipboard]")
        await pilot.press("enter")
        app.prompt.load("again", ("https://example.org/x.png",))
        await pilot.press("enter")

    sent = run_steps(flow).sent
    assert [images for _, images in sent] == [
        ("/pictures/a.png", b"bytes"),
        ("https://example.org/x.png",),
    ]
    assert sent[1][0] == "again [image 1: x.png]"
