"""How a call reads before one decides: complete, harmless, and never like words of ours."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from textual.pilot import Pilot

from steno.call import ToolCall
from steno.ports import Capability
from steno.tui.screens.call_text import Line, Tone, argument_lines, quoted
from tests.tui.approval_stage import Stage, asked, play, until, waiting

HOSTILE = (
    "\x1b[2J\x1b]0;title\x07 \x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\ \u202egnp.exe\u2066 \x9b31m\n"
    "[bold red]Allowed[/] [@click=app.quit]once[/]\n"
    " permission · read · read · 1 of 1\n"
    "rule for more than once: read"
)


def texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


# -- arguments -------------------------------------------------------------------------------


def test_long_texts_stand_as_they_are_below_their_name() -> None:
    call = ToolCall.create("write", {"path": "a.py", "content": 'x = "1"\n\ty\n', "force": True})
    assert texts(argument_lines(call)) == [
        'path: "a.py"',
        "content:",
        '  │ x = "1"',
        "  │ \ty",
        "  │ ",
        "force: true",
    ]


def test_nested_arguments_are_indented_and_deep_ones_are_json() -> None:
    deep: dict[str, object] = {"end": [1]}
    for _ in range(7):
        deep = {"in": deep}
    call = ToolCall.create("f", {"a": [1, {"b": None}], "e": [], "deep": deep})
    lines = texts(argument_lines(call))
    assert lines[:6] == ["a:", "  1.: 1", "  2.:", "    b: null", "e: []", "deep:"]
    assert lines[-1].strip() == 'in: {"in":{"end":[1]}}'


def test_a_text_does_not_look_like_other_arguments() -> None:
    call = ToolCall.create("f", {"a": 'x"\nb: 2', "c": "true"})
    assert texts(argument_lines(call)) == ["a:", '  │ x"', "  │ b: 2", 'c: "true"']


def test_no_arguments_are_none() -> None:
    assert texts(argument_lines(ToolCall.create("f"))) == ["none"]


def test_arguments_that_python_cannot_hold_are_shown_as_they_came() -> None:
    call = ToolCall(id="x", name="f", arguments='{"n": 1e999}')
    assert texts(argument_lines(call)) == ['{"n": 1e999}']


# -- diffs -----------------------------------------------------------------------------------


def test_the_lines_of_a_diff_are_told_apart() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n-old\n--- removed rule\n+new\n"
    assert [line.tone for line in quoted(diff)] == [
        Tone.FILE,
        Tone.FILE,
        Tone.HUNK,
        Tone.PLAIN,
        Tone.REMOVED,
        Tone.REMOVED,
        Tone.ADDED,
    ]


def test_what_is_no_diff_has_no_colours() -> None:
    assert {line.tone for line in quoted("- a list\n+ of things\n@ home")} == {Tone.PLAIN}


# -- hostile ---------------------------------------------------------------------------------


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
def test_hostile_words_are_shown_as_harmless_quotes(size: tuple[int, int]) -> None:
    async def scene(stage: Stage, pilot: Pilot[Any]) -> None:
        await stage.come_here(pilot)
        await stage.press(pilot, "v", "end")
        seen = stage.seen
        await stage.press(pilot, "home")
        seen += stage.seen
        for sign in ("\x1b", "\x07", "\x9b", "\u202e", "\u2066"):
            assert sign not in seen
        assert "│ [bold red]Allowed[/] [@click=app.quit]once[/]" in seen
        quotes = [row for row in seen.split("\n") if "Allowed" in row or "read · read" in row]
        assert quotes
        assert all(row.lstrip().startswith(("│", "└")) for row in quotes)

    pending = asked(
        preview=HOSTILE, subjects=(HOSTILE,), arguments={HOSTILE: HOSTILE, "list": [HOSTILE]}
    )
    play(Stage(pending), scene, size)


@pytest.mark.requirement("S2-18")
def test_hostile_words_of_other_calls_and_of_previews_ahead_are_harmless_too() -> None:
    async def scene(stage: Stage, pilot: Pilot[Any]) -> None:
        await stage.come_here(pilot)
        await stage.press(pilot, "ctrl+n")
        await until(pilot, lambda: "preview of write" in stage.seen)
        seen = stage.seen
        await stage.press(pilot, "a", "enter")
        seen += stage.seen
        assert "[bold red]Allowed[/]" in seen
        assert not set(seen) & set("\x1b\x07\x9b\u202e\u2066")

    play(Stage(asked(), waiting("call_2", arguments={"path": HOSTILE})), scene)


@pytest.mark.requirement("S2-18")
def test_markup_in_a_rule_is_text_and_what_cannot_be_shown_is_not_offered() -> None:
    async def scene(stage: Stage, pilot: Pilot[Any]) -> None:
        await stage.come_here(pilot)
        assert "rule for more than once: write([bold]src[/]/**)" in stage.seen
        await stage.press(pilot, "p", "enter")
        assert "write([bold]src[/]/**)" in stage.seen
        stage.ask(asked(rule="write(src/\x1b[31m\u202e/**)"))
        await pilot.pause()
        await stage.press(pilot, "p")
        assert "would hold what cannot be shown" in stage.seen
        assert "\x1b" not in stage.seen

    pending = asked(
        "call_1",
        "write",
        capability=Capability.WRITE,
        subjects=("[bold]src[/]/a",),
        rule="write([bold]src[/]/**)",
    )
    play(Stage(pending), scene)


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
def test_a_diff_of_5000_lines_is_scrolled_to_its_end(size: tuple[int, int]) -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,5000 +1,5000 @@\n" + "".join(
        f"+line {number}\n" for number in range(5_000)
    )

    async def scene(stage: Stage, pilot: Pilot[Any]) -> None:
        assert stage.panel.outer_size.height <= size[1] * 0.6
        assert "the status line" in stage.seen
        await stage.come_here(pilot)
        assert "│ +line 0" in stage.seen
        await stage.press(pilot, "down")
        assert "│ --- a/x" not in stage.seen
        await stage.press(pilot, "end")
        assert "│ +line 4999" in stage.seen
        assert '│ path: "x.py"' in stage.seen
        await stage.press(pilot, "pageup")
        assert "│ +line 4999" not in stage.seen
        assert "│ +line 49" in stage.seen
        await stage.press(pilot, "home", "ctrl+f")
        assert stage.panel.outer_size.height == size[1] - 8
        assert "the status line" in stage.seen
        await stage.press(pilot, "o", "enter")
        assert [call_id for call_id, _ in stage.verdicts] == ["call_1"]

    pending = asked("call_1", "edit", preview=diff, arguments={"path": "x.py"}, rule="edit(x.py)")
    play(Stage(pending), scene, size)


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("sign", ["x", "漢", "é\n"])
def test_a_megabyte_of_arguments_can_be_read_to_its_end(sign: str) -> None:
    async def scene(stage: Stage, pilot: Pilot[Any]) -> None:
        await stage.come_here(pilot)
        await stage.press(pilot, "end")
        assert "│ THE END" in stage.seen
        await stage.press(pilot, "o", "enter")
        assert len(stage.verdicts) == 1

    content = sign * (1_000_000 // len(sign)) + "\nTHE END"
    pending = asked("call_1", "write", preview="", arguments={"content": content}, rule="write")
    play(Stage(pending), scene)


# -- room ------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
def test_everything_fits_however_many_calls_there_are(size: tuple[int, int]) -> None:
    pending = [asked(f"call_{n}", preview="line\n" * 50) for n in range(7)]

    async def scene(stage: Stage, pilot: Pilot[Any]) -> None:
        rows = stage.seen.split("\n")
        assert stage.panel.outer_size.height <= size[1] * 0.6
        assert rows[-1] == "the status line"
        for words in ("1 of 7", "│ line", "r deny with reason", "a all 7 once", "Ctrl+G"):
            assert words in stage.seen
        await stage.come_here(pilot)
        await stage.press(pilot, *["ctrl+n"] * 6)
        assert "7 of 7" in stage.seen

    play(Stage(*pending), scene, size)


def _is_as_high_as(stage: Stage, rows: int) -> bool:
    return stage.panel.outer_size.height == rows


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("key", ["v", "ctrl+f"])
@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
def test_a_key_gives_what_is_to_be_read_more_room_and_takes_it_back(
    key: str, size: tuple[int, int]
) -> None:
    async def scene(stage: Stage, pilot: Pilot[Any]) -> None:
        await stage.come_here(pilot)
        before = stage.seen.count("│ line")
        await stage.press(pilot, key)
        assert stage.seen.count("│ line") >= before + 3
        assert stage.seen.split("\n")[-1] == "the status line"
        await stage.press(pilot, key)
        assert stage.seen.count("│ line") == before

    pending = [asked(f"call_{n}", preview="line\n" * 50) for n in range(3)]
    play(Stage(*pending), scene, size)


@pytest.mark.requirement("S2-18")
def test_the_panel_follows_the_size_of_the_terminal() -> None:
    async def scene(stage: Stage, pilot: Pilot[Any]) -> None:
        for width, height in ((60, 20), (120, 40), (100, 24)):
            await pilot.resize_terminal(width, height)
            share = int(height * 0.6)
            await until(pilot, partial(_is_as_high_as, stage, share))
            assert stage.seen.split("\n")[-1] == "the status line"

    play(Stage(asked(preview="line\n" * 100)), scene)
