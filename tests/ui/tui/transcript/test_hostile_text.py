"""No text of an item can act on the terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno.render.items import ItemKind, TextForm, TranscriptItem
from tests.ui.tui.transcript.drawn_items import drawing_of, text_of

ACTS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")

NASTY = [
    "\x1b[31mred\x1b[0m",
    "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b[2J\x1b[H",
    "a\u202eb\u2066c",
    "nul\x00nul\x9b31m",
    "a\rb\x0bc\x0cd\x85e",
    "tab\tin | a | table",
    "&#27;&#x202e;&#x9b;&ZeroWidthSpace;",
    "<http://x/%1b]52;c;%07%e2%80%ae>",
    "[x](http://x/%1b%e2%80%ae)",
    "```\x1b]0;t\x07\n\x1b[31m\n```",
    "| a\x1b |\n|---|\n| \u202e |",
    "[bold red]x[/] [link=http://e]y[/link]",
]


@pytest.mark.requirement("S4-15")
@pytest.mark.parametrize("kind", list(ItemKind))
@pytest.mark.parametrize("form", list(TextForm))
@pytest.mark.parametrize("text", NASTY)
def test_nothing_that_acts_on_a_terminal_is_drawn(
    kind: ItemKind, form: TextForm, text: str
) -> None:
    item = TranscriptItem(kind, head=text, body=f"{text}\n\n- {text}", form=form, language=text)
    for line in drawing_of(item).lines:
        for segment in line:
            assert not ACTS.search(segment.text)
            assert segment.control is None
            assert segment.style is None or segment.style.link is None


def test_a_link_of_the_terminal_becomes_visible_text() -> None:
    text = text_of(TranscriptItem(ItemKind.ANSWER, body=NASTY[1]))
    assert "\\x1b]8;;http://evil" in text


@pytest.mark.parametrize(
    "kind", [ItemKind.USER, ItemKind.ANSWER, ItemKind.NOTICE, ItemKind.THINKING]
)
def test_markup_of_rich_and_textual_is_only_text(kind: ItemKind) -> None:
    assert "[bold red]x[/]" in text_of(TranscriptItem(kind, body="[bold red]x[/]"))


@pytest.mark.parametrize("kind", list(ItemKind))
@pytest.mark.parametrize("form", list(TextForm))
def test_a_line_of_a_megabyte_is_drawn_in_part(kind: ItemKind, form: TextForm) -> None:
    lines = drawing_of(TranscriptItem(kind, head="h", body="word [" * 170_000, form=form)).lines
    assert sum(len(line.text) for line in lines) < 600_000


@pytest.mark.parametrize(
    "text", [">" * 3_000 + " deep", "- " * 3_000 + "deep", "> - " * 300 + "deep"]
)
def test_markdown_nested_too_deeply_is_shown_as_source(text: str) -> None:
    assert "".join(text_of(TranscriptItem(ItemKind.ANSWER, body=text)).split()).endswith("deep")


@given(st.text(st.sampled_from("ab \n\t#*_`~-+>|[]()!<&;:\\1.=\x1b\u202e漢é"), max_size=80))
def test_no_text_breaks_the_drawing_of_an_answer(text: str) -> None:
    for line in drawing_of(TranscriptItem(ItemKind.ANSWER, body=text), width=20).lines:
        assert not ACTS.search(line.text)
        assert line.cell_length <= 20
