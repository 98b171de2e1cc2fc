"""Pasted text, placeholders for long text, and images."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot
from textual.widgets import TextArea

from steno.render.terminal_text import terminal_text
from steno.ui.prompt_state import PastePlaceholders, image_files, sanitize_pasted
from tests.ui.tui.prompt.prompt_app import PromptApp, paste, run_steps, type_in

pytestmark = pytest.mark.requirement("S4-15")

_LONG = "".join([f"line {number}\n" for number in range(120)])


def test_a_few_lines_are_put_in_as_they_are() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await paste(pilot, "one\r\ntwo\rthree\u2028four")
        assert app.prompt.text == "one\ntwo\nthree\nfour"
        app.prompt.clear()
        await paste(pilot, "a line copied whole\n")
        assert app.prompt.text == "a line copied whole"

    assert run_steps(flow).sent == []


def test_a_long_text_is_a_mark_until_it_is_sent() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "read ")
        await paste(pilot, _LONG)
        await paste(pilot, "x" * 1_000)
        assert app.prompt.text == "read [pasted 1: 120 lines][pasted 2: 1,000 characters]"
        await pilot.press("enter")
        await paste(pilot, _LONG)
        assert app.prompt.text == "[pasted 1: 120 lines]"

    assert run_steps(flow).sent == [(f"read {_LONG}{'x' * 1_000}", ())]


def test_backspace_right_behind_a_mark_deletes_it_whole_and_undo_brings_it_back() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "a ")
        await paste(pilot, _LONG)
        await pilot.press("backspace")
        assert app.prompt.text == "a "
        await pilot.press("ctrl+z", "enter")

    assert run_steps(flow).sent == [(f"a {_LONG}".rstrip("\n") + "\n", ())]


@pytest.mark.parametrize(
    "keys", [["delete"], ["right", "x", "backspace"], ["right", "right", "ctrl+w", "backspace"]]
)
def test_an_edit_that_touches_a_mark_removes_the_whole_mark(keys: list[str]) -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "ab")
        await paste(pilot, _LONG)
        await type_in(pilot, "c")
        await pilot.press("home", "right", "right", *keys)
        assert app.prompt.text in ("abc", "ac")
        await pilot.press("enter")

    [(sent, _)] = run_steps(flow).sent
    assert "line" not in sent


def test_a_mark_inside_of_what_was_pasted_means_nothing() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await paste(pilot, _LONG)
        await paste(pilot, "[pasted 1: 120 lines]\n" * 9)
        await pilot.press("enter")

    [(sent, _)] = run_steps(flow).sent
    assert sent == _LONG + "[pasted 1: 120 lines]\n" * 9


def test_marks_are_set_off_where_they_stand() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "a ")
        await paste(pilot, _LONG)
        line = app.query_one(TextArea).get_line(0)
        assert [(span.start, span.end) for span in line.spans] == [(2, len(app.prompt.text))]

    run_steps(flow)


HOSTILE = [
    ("\x1b[31mred\x1b[0m", "red"),
    ("a\x1b]0;title\x07b", "ab"),
    ("a\x1b]8;;http://x\x1b\\b", "ab"),
    ("\x1bcreset", "reset"),
    ("a\x1b", "a"),
    ("bell\x07 null\x00 back\x08", "bell null back"),
    ("\x9b2Jc1", "c1"),
    ("left\u202eright", "leftright"),
    ("hidden\U000e0041\U000e0042", "hidden"),
    ("half\ud800", "half"),
    ("[red]no markup[/red]", "[red]no markup[/red]"),
    ("tab\tstays", "tab\tstays"),
]


@pytest.mark.parametrize(("pasted", "words"), HOSTILE)
def test_nothing_that_a_terminal_acts_on_comes_with_words(pasted: str, words: str) -> None:
    assert sanitize_pasted(pasted).text == words


@given(st.text(st.characters(max_codepoint=0x2FF)))
def test_sanitized_pasted_text_is_printable(text: str) -> None:
    words = sanitize_pasted(text).text
    assert terminal_text(words) == words
    assert sanitize_pasted(words) == (words, 0)


@pytest.mark.parametrize("piece", ["\x90", "\x1b]", "\x1b[", "\x9b0", "\x1b ", "\x1b]0;x"])
def test_a_paste_without_end_is_read_in_one_go(piece: str) -> None:
    assert "\x1b" not in sanitize_pasted(piece * 200_000).text


def test_a_paste_cannot_send_or_press_keys() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await paste(pilot, "rm -rf /\r\n\x1b\r\x03y\n")
        assert app.prompt.text == "rm -rf /\n\ny\n"

    app = run_steps(flow)
    assert (app.sent, app.interrupts) == ([], 0)
    assert app.notices == ["removed 2 invisible characters from the pasted text"]


# -- images ------------------------------------------------------------------------------------


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for name in ("shot.png", "a b.JPEG", "it's.gif", "[x].webp", "notes.txt"):
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


@pytest.mark.parametrize(
    ("pasted", "names"),
    [
        ("{0}/shot.png", ["shot.png"]),
        ("{0}/shot.png \n", ["shot.png"]),
        ("{0}/a b.JPEG", ["a b.JPEG"]),
        ("{0}/a\\ b.JPEG", ["a b.JPEG"]),
        ("'{0}/a b.JPEG' {0}/shot.png ", ["a b.JPEG", "shot.png"]),
        ('"{0}/it\'s.gif"', ["it's.gif"]),
        ("file://{0}/a%20b.JPEG\nfile://localhost{0}/shot.png\r\n", ["a b.JPEG", "shot.png"]),
        ("{0}/notes.txt", []),
        ("{0}/missing.png", []),
        ("see {0}/shot.png", []),
        ("shot.png", []),
        ("file://elsewhere{0}/shot.png", []),
        ("'{0}/shot.png", []),
        ("/\x00.png", []),
        ("/" + "x" * 5_000 + ".png", []),
        ("", []),
    ],
)
def test_names_of_images_are_read_as_terminals_write_them(
    pictures: Path, pasted: str, names: list[str]
) -> None:
    files = image_files(pasted.replace("{0}", str(pictures)))
    assert files == [pictures / name for name in names] or (not files and not names)


def test_pasted_names_of_images_are_sent_as_images(pictures: Path) -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "compare ")
        await paste(pilot, f"{pictures}/shot.png '{pictures}/[x].webp'")
        assert app.prompt.text == "compare [image 1: shot.png] [image 2: (x).webp] "
        await pilot.press("enter")

    assert run_steps(flow).sent == [
        (
            "compare [image 1: shot.png] [image 2: (x).webp]",
            (f"{pictures}/shot.png", f"{pictures}/[x].webp"),
        )
    ]


def test_an_image_goes_with_its_mark(pictures: Path) -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await paste(pilot, f"{pictures}/shot.png")
        await paste(pilot, f"{pictures}/it's.gif")
        assert app.prompt.text == "[image 1: shot.png] [image 2: it's.gif] "
        await pilot.press("home", "right", "x", "enter")

    assert run_steps(flow).sent == [("x [image 2: it's.gif]", (f"{pictures}/it's.gif",))]


def test_images_are_in_the_order_in_which_they_are_mentioned() -> None:
    pieces = PastePlaceholders()
    first, second = pieces.add_image("a.png"), pieces.add_image(b"b")
    meaning = pieces.expand(f"{second} before {first}, {second} again")
    assert meaning.images == (b"b", "a.png")
    assert meaning.text_without_images == " before ,  again"
