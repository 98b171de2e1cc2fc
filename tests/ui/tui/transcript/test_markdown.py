"""Streamed Markdown: the result is the same as for the whole text, at little cost."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from textual.strip import Strip

from steno.render.terminal_text import terminal_text
from steno.ui.tui.transcript.markdown import StreamedMarkdown, render_block, split_blocks
from steno.ui.tui.transcript.text_lines import TranscriptStyles
from tests.ui.tui.transcript.drawn_items import PLAIN_STYLES

PARTS = [
    "word ",
    "*em* ",
    "`code` ",
    "\n",
    "\n\n",
    "# Head\n",
    "#",
    "- item\n",
    "  - deeper\n",
    "2. second\n",
    "    indented\n",
    "\n    more\n",
    "> quote\n",
    "```py\n",
    "```\n",
    "~~~\n",
    "x = 1\n",
    "---\n",
    "===\n",
    "| a | b |\n",
    "|---|---|\n",
    "| 1 | 2 |\n",
    "\r\n",
    "\x1b[31m",
    "\x1b",
    "\t",
    "漢字",
]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=25).map("".join)


def lines(flow: StreamedMarkdown, text: str) -> list[str]:
    return [line.text for line in flow.draw(text)]


@given(TEXTS, st.data())
def test_text_in_chunks_gives_the_same_result_as_whole_text(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    flow = StreamedMarkdown(30, PLAIN_STYLES)
    for cut in cuts:
        flow.draw(text[:cut])
    assert lines(flow, text) == lines(StreamedMarkdown(30, PLAIN_STYLES), text)


@given(TEXTS)
def test_text_by_single_letters_gives_the_same_result_as_whole_text(text: str) -> None:
    flow = StreamedMarkdown(30, PLAIN_STYLES)
    for end in range(len(text)):
        flow.draw(text[:end])
    assert lines(flow, text) == lines(StreamedMarkdown(30, PLAIN_STYLES), text)


@given(TEXTS)
def test_block_by_block_it_is_what_the_whole_would_be_but_for_empty_lines(text: str) -> None:
    whole = [line.text for line in render_block(terminal_text(text), 30, PLAIN_STYLES)]
    ours = lines(StreamedMarkdown(30, PLAIN_STYLES), text)
    assert [line for line in ours if line.strip()] == [line for line in whole if line.strip()]


def test_a_text_that_is_another_now_is_drawn_from_the_beginning() -> None:
    flow = StreamedMarkdown(30, PLAIN_STYLES)
    flow.draw("first\n\nsecond\n\nthird")
    assert [line.rstrip() for line in lines(flow, "other\n\ntext\n")] == ["other", "", "text"]


def test_only_the_last_block_is_drawn_anew() -> None:
    drawn: list[str] = []

    def count(markup: str, width: int, styles: TranscriptStyles) -> Sequence[Strip]:
        drawn.append(markup)
        return render_block(markup, width, styles)

    flow = StreamedMarkdown(40, PLAIN_STYLES, count)
    text = ""
    for number in range(300):
        text += f"Paragraph {number} has some words.\n\n"
        flow.draw(text)
    # Each paragraph while it is the last one, and once more for good.
    assert len(drawn) <= 2 * 300
    assert max(map(len, drawn)) < 80


def test_blocks_are_cut_at_their_beginnings_and_nothing_is_lost() -> None:
    text = "# a\nb\n\n- c\n\n  d\n\n```\n\nx\n\n```\ne\n"
    assert split_blocks(text) == ["# a", "b\n", "- c\n\n  d\n", "```\n\nx\n\n```", "e\n"]
    assert "\n".join(split_blocks(text)) == text
