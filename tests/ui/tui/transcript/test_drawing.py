"""The lines of each kind of item, without colours."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.color import Color
from rich.style import Style

from steno.render.items import CallState, ItemHint, ItemKind, TextForm, TranscriptItem
from steno.ui.tui.transcript.item_drawing import copied_text
from tests.ui.tui.transcript.drawn_items import PLAIN_STYLES, drawing_of, lines_of, text_of

OUTPUT = "\n".join(f"line {number}" for number in range(40))


def call(**changes: object) -> TranscriptItem:
    item = TranscriptItem(
        ItemKind.CALL, head="bash  pytest -q", body=OUTPUT, state=CallState.DONE, is_folded=True
    )
    for name, value in changes.items():
        setattr(item, name, value)
    return item


# -- what is said ------------------------------------------------------------------------------


def test_words_of_the_person_have_a_bar_beside_every_line() -> None:
    assert lines_of(TranscriptItem(ItemKind.USER, body="Hello\nthere")) == [
        "▎ Hello",
        "▎ there",
        "",
    ]


def test_a_hint_names_the_keys_and_commands_of_this_interface() -> None:
    unsent = TranscriptItem(ItemKind.USER, "not said", "Hello", hint=ItemHint.EDIT)
    assert lines_of(unsent)[1] == "▎ • not said · Alt+Up then e edit"
    assert copied_text(unsent) == "Hello"
    failed = TranscriptItem(ItemKind.ERROR, body="busy", hint=ItemHint.RETRY)
    assert lines_of(failed)[0] == "✗ busy; /retry tries again"
    assert copied_text(failed) == "busy; /retry tries again"


def test_long_words_of_the_person_are_broken_between_words() -> None:
    assert lines_of(TranscriptItem(ItemKind.USER, body="one two three four"), width=12) == [
        "▎ one two",
        "▎ three four",
        "",
    ]


def test_an_answer_is_markdown() -> None:
    body = "# Plan\n\nDo *this*:\n\n- one\n- two\n\n```python\nprint(1)\n```\n"
    assert lines_of(TranscriptItem(ItemKind.ANSWER, body=body)) == [
        "Plan",
        "",
        "Do this:",
        "",
        " • one",
        " • two",
        "",
        "print(1)",
        "",
    ]


def test_an_answer_hides_nothing_that_was_written() -> None:
    body = "<b>x</b> ![p](http://a/?q) [l](http://b) &amp; <http://c>\n\n[r]: http://d\n"
    assert lines_of(TranscriptItem(ItemKind.ANSWER, body=body), width=90) == [
        "<b>x</b> !p (http://a/?q) l (http://b) &amp; <http://c>",
        "",
        "[r]: http://d",
        "",
    ]


def test_an_answer_that_would_be_an_empty_list_is_shown_as_it_was_written() -> None:
    assert lines_of(TranscriptItem(ItemKind.ANSWER, body="42.")) == ["42.", ""]
    assert lines_of(TranscriptItem(ItemKind.ANSWER, body="7.\x1b")) == ["7.\\x1b", ""]


def test_code_in_an_answer_has_the_colours_of_its_language() -> None:
    item_styles = PLAIN_STYLES._replace(code=Style(bgcolor=Color.from_rgb(1, 2, 3)))
    drawn = drawing_of(
        TranscriptItem(ItemKind.ANSWER, body="```python\ndef f(): pass\n```\n"), styles=item_styles
    )
    styles = [segment.style for segment in drawn.lines[0] if segment.style is not None]
    assert len({style.color for style in styles}) > 1
    assert {style.bgcolor for style in styles} == {Color.from_rgb(1, 2, 3)}


def test_thinking_shows_its_length_and_can_be_folded_without_a_head() -> None:
    item = TranscriptItem(ItemKind.THINKING, body="let me see\nwhat now", is_folded=True)
    assert item.can_fold
    assert lines_of(item) == ["∴ thinking · 5 words", ""]
    item.is_folded = False
    assert lines_of(item) == ["∴ thinking · 5 words", "  let me see", "  what now", ""]


def test_words_of_thinking_are_counted_while_it_grows() -> None:
    item = TranscriptItem(ItemKind.THINKING, is_folded=True, is_open=True)
    drawing = drawing_of(item)
    for piece in ("one tw", "o", " three\nfo", "ur "):
        item.append(piece)
        drawing.draw()
    assert drawing.lines[0].text == "… thinking · 4 words"


# -- what is done ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "mark"),
    [
        (CallState.WAITING, "?"),
        (CallState.RUNNING, "●"),
        (CallState.DONE, "✓"),
        (CallState.FAILED, "✗"),
        (CallState.DENIED, "⊘"),
        (CallState.STOPPED, "■"),
    ],
)
def test_a_call_shows_how_far_it_has_come_without_colours(state: CallState, mark: str) -> None:
    assert lines_of(call(state=state))[0] == f"{mark} bash pytest -q … 40 lines"


def test_a_folded_call_is_its_head() -> None:
    assert lines_of(call()) == ["✓ bash pytest -q … 40 lines", ""]


def test_an_unfolded_call_shows_its_whole_output() -> None:
    lines = lines_of(call(is_folded=False))
    assert lines[:3] == ["✓ bash pytest -q", "  line 0", "  line 1"]
    assert lines[-2:] == ["  line 39", ""]


def test_a_call_that_runs_shows_the_end_of_what_it_says_though_it_is_folded() -> None:
    lines = lines_of(call(state=CallState.RUNNING, is_open=True))
    assert lines[:3] == ["● bash pytest -q", "  … 28 earlier lines", "  line 28"]
    assert lines[-2:] == ["  line 39", ""]


def test_a_command_of_the_person_is_drawn_like_a_call() -> None:
    item = TranscriptItem(ItemKind.SHELL, head="! ls", body="a\nb\n", state=CallState.DONE)
    assert lines_of(item) == ["✓ ! ls", "  a", "  b", ""]


def test_a_diff_keeps_its_signs_and_colours_them() -> None:
    item_styles = PLAIN_STYLES._replace(added=Style(bold=True), removed=Style(italic=True))
    item = TranscriptItem(
        ItemKind.CALL, head="edit", form=TextForm.DIFF, body="@@ -1 +1 @@\n-old\n+new\n same"
    )
    drawn = drawing_of(item, styles=item_styles)
    assert [line.text for line in drawn.lines[1:-1]] == [
        "  @@ -1 +1 @@",
        "  -old",
        "  +new",
        "   same",
    ]
    styles = {segment.text: segment.style for line in drawn.lines for segment in line}
    assert styles["+new"] == Style(bold=True)
    assert styles["-old"] == Style(italic=True)


def test_code_of_a_call_is_drawn_in_its_language() -> None:
    item = TranscriptItem(
        ItemKind.CALL, head="read", form=TextForm.CODE, language="python", body="def f():\n\tpass\n"
    )
    assert lines_of(item) == ["• read", "  def f():", "      pass", ""]


# -- what is told ------------------------------------------------------------------------------


def test_a_notice_has_a_mark() -> None:
    assert lines_of(TranscriptItem(ItemKind.NOTICE, body="read as text\nby OCR")) == [
        "! read as text",
        "  by OCR",
        "",
    ]


def test_trouble_shows_what_and_what_to_do() -> None:
    assert lines_of(TranscriptItem(ItemKind.ERROR, head="no answer", body="try /retry")) == [
        "✗ no answer",
        "  try /retry",
        "",
    ]


def test_a_reply_stands_in_a_frame_with_its_title() -> None:
    item = TranscriptItem(
        ItemKind.REPLY, head="usage", body="**12** tokens", form=TextForm.MARKDOWN
    )
    assert lines_of(item, width=20) == [
        "╭─ usage ──────────╮",
        "│ 12 tokens        │",
        "╰──────────────────╯",
        "",
    ]


def test_a_mark_is_a_line_across() -> None:
    assert lines_of(TranscriptItem(ItemKind.MARKER, head="mode: act"), width=20) == [
        "── mode: act ───────",
        "",
    ]


# -- room --------------------------------------------------------------------------------------


WIDE = "漢字かな交じり文 " * 12 + "👩‍👩‍👧 é x" * 6


@pytest.mark.parametrize("kind", list(ItemKind))
@pytest.mark.parametrize("form", list(TextForm))
@pytest.mark.parametrize("width", [10, 37, 58])
def test_nothing_is_wider_than_the_room_there_is(
    kind: ItemKind, form: TextForm, width: int
) -> None:
    item = TranscriptItem(kind, head=WIDE, body=f"{WIDE}\n\n- {WIDE}\n\n    {WIDE}\n", form=form)
    drawn = drawing_of(item, width)
    assert max(cell_len(line.text) for line in drawn.lines) <= width
    assert all(line.cell_length == cell_len(line.text) for line in drawn.lines)


def test_tabs_are_as_wide_as_they_look() -> None:
    assert lines_of(call(body="a\tb", is_folded=False))[1] == "  a   b"


def test_of_much_output_the_beginning_and_the_end_are_drawn_and_the_rest_is_counted() -> None:
    lines = lines_of(call(body="x\n" * 2_500 + "end", is_folded=False))
    assert len(lines) == 2_003
    assert lines[1_001] == "  … 501 lines omitted · y copy all"
    assert lines[-2] == "  end"


def test_of_a_long_line_the_beginning_and_the_end_are_drawn_and_the_rest_is_counted() -> None:
    text = text_of(call(body="x" * 1_000_000, is_folded=False))
    assert text.count("x") == 200_000
    assert "… 800,000 characters omitted · y copy all" in text


def test_of_a_long_text_the_beginning_is_drawn_and_the_rest_counted() -> None:
    lines = lines_of(TranscriptItem(ItemKind.USER, body="x\n" * 2_500 + "end"))
    assert lines[-2] == "▎ … 501 more lines · y copy all"


def test_a_long_paste_is_folded_with_a_note() -> None:
    pasted = TranscriptItem(
        ItemKind.USER, body="\n".join(f"line {n}" for n in range(120)), is_folded=True
    )
    lines = lines_of(pasted)
    assert len(lines) == 22
    assert lines[-2] == "▎ … 100 more lines (Ctrl+O unfold all)"
    pasted.is_folded = False
    assert len(lines_of(pasted)) == 121
    short = TranscriptItem(ItemKind.USER, body="a\nb", is_folded=True)
    assert (short.can_fold, len(lines_of(short))) == (False, 3)


def test_of_a_long_command_of_the_person_both_ends_are_seen() -> None:
    body = "".join(f"line {n}\n" for n in range(120))
    lines = lines_of(
        TranscriptItem(ItemKind.SHELL, "$ make", body, state=CallState.DONE, is_folded=True)
    )
    assert lines[0] == "✓ $ make"
    assert lines[11] == "  … 100 more lines (Ctrl+O unfold all)"
    assert lines[-2] == "  line 119"


def test_the_outcome_of_a_call_follows_its_head() -> None:
    edit = TranscriptItem(
        ItemKind.CALL, "edit a.py", "@@ -1 +1 @@\n-x\n+y", TextForm.DIFF, state=CallState.DONE
    )
    edit.note = "+1 −1"
    assert lines_of(edit)[0] == "✓ edit a.py · +1 −1"
    edit.is_folded = True
    assert lines_of(edit) == ["✓ edit a.py · +1 −1", ""]
