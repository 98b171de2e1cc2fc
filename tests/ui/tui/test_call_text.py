"""How a call reads before one decides: complete, harmless, and never like words of ours."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from textual.pilot import Pilot

from steno.messages.call import ToolCall
from steno.ports import CallPreview, Capability, PreviewKind, PreviewPart
from steno.render.quantities import format_count
from steno.ui.call_text import (
    CallLine,
    LineTone,
    describe_arguments,
    describe_call,
    describe_calls,
    diff_lines,
    quote_text,
)
from steno.ui.tui.screens.approval_panel import ApprovalPanel
from tests.ui.fake_session import FakeSession
from tests.ui.idle_clock import wait_until
from tests.ui.tui.approval_app import ApprovalApp, pending_call, queued_call, run_steps
from tests.ui.tui.screen_app import ScreenApp as Empty
from tests.ui.tui.screen_app import least_contrast

HOSTILE = (
    "\x1b[2J\x1b]0;title\x07 \x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\ \u202egnp.exe\u2066 \x9b31m\n"
    "[bold red]Allowed[/] [@click=app.quit]once[/]\n"
    " permission · read · read · 1 of 1\n"
    "rule for more than once: read"
)


def texts(lines: list[CallLine]) -> list[str]:
    return [line.text for line in lines]


# -- arguments -------------------------------------------------------------------------------


def test_long_texts_stand_as_they_are_below_their_name() -> None:
    call = ToolCall.create("write", {"path": "a.py", "content": 'x = "1"\n\ty\n', "force": True})
    assert texts(describe_arguments(call)) == [
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
    lines = texts(describe_arguments(call))
    assert lines[:6] == ["a:", "  1.: 1", "  2.:", "    b: null", "e: []", "deep:"]
    assert lines[-1].strip() == 'in: {"in":{"end":[1]}}'


def test_a_text_does_not_look_like_other_arguments() -> None:
    call = ToolCall.create("f", {"a": 'x"\nb: 2', "c": "true"})
    assert texts(describe_arguments(call)) == ["a:", '  │ x"', "  │ b: 2", 'c: "true"']


def test_no_arguments_are_none() -> None:
    assert texts(describe_arguments(ToolCall.create("f"))) == ["none"]


def test_arguments_that_python_cannot_hold_are_shown_as_they_came() -> None:
    call = ToolCall(id="x", name="f", arguments='{"n": 1e999}')
    assert texts(describe_arguments(call)) == ['{"n": 1e999}']


# -- diffs -----------------------------------------------------------------------------------


def test_the_lines_of_a_diff_are_told_apart() -> None:
    diff = "--- x\n+++ x\n@@ -1,3 +1,2 @@\n same\n-old\n--- removed rule\n+new\n\\ No newline\n"
    assert diff_lines(diff) == [
        CallLine("x", LineTone.FILE, added=1, removed=2),
        CallLine("@@ -1,3 +1,2 @@", LineTone.HUNK),
        CallLine(" same"),
        CallLine("-old", LineTone.REMOVED),
        CallLine("--- removed rule", LineTone.REMOVED),
        CallLine("+new", LineTone.ADDED),
        CallLine("\\ No newline", LineTone.NOTE),
    ]


def test_a_diff_names_each_file_and_counts_its_lines() -> None:
    diff = (
        "--- /dev/null\n+++ new.py\n@@ -0,0 +1,2 @@\n+a\n+++ b\n"
        "--- old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
        "--- here.py\n+++ there.py\n@@ -1 +1 @@\n-a\n+b\n@@ -9 +9,0 @@\n-c\n"
    )
    files = [line for line in diff_lines(diff) if line.tone is LineTone.FILE]
    assert [(line.text, line.added, line.removed) for line in files] == [
        ("new.py · new file", 2, 0),
        ("old.py · removed", 0, 1),
        ("here.py → there.py", 1, 2),
    ]
    assert "@@ -0,0 +1,2 @@" not in texts(diff_lines(diff))


def test_a_file_whose_name_ends_like_a_count_has_no_count() -> None:
    line = diff_lines("--- a  +1\n+++ a  +1\n@@ -1 +1 @@\n same\n")[0]
    assert (line, line.counts) == (CallLine("a  +1", LineTone.FILE), [])


def test_what_stands_in_a_file_is_not_taken_for_the_head_of_a_diff() -> None:
    diff = "--- x\n+++ x\n@@ -1,2 +1,2 @@\n--- /dev/null\n+++ harmless.txt\n-@@ -1 +1 @@\n+a\n"
    assert diff_lines(diff)[0] == CallLine("x", LineTone.FILE, added=2, removed=2)
    assert "--- /dev/null" in texts(diff_lines(diff))


def test_what_is_no_diff_has_no_colours() -> None:
    patching = "git apply <<E\n--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\nE"
    for text in ("- a list\n+ of things\n@ home", patching):
        assert quote_text(text) == [CallLine(line) for line in text.split("\n")]


# -- what a preview shows already --------------------------------------------------------------


def read(
    arguments: dict[str, object],
    *parts: PreviewPart,
    shown: tuple[str, ...] = (),
    subject: str = "",
) -> list[CallLine]:
    subjects = (subject,) if subject else ()
    pending = pending_call(arguments=arguments, subjects=subjects)
    return describe_call(pending, CallPreview(parts, shown))


def text(text: str) -> PreviewPart:
    return PreviewPart(PreviewKind.TEXT, text)


IN_PROJECT = PreviewPart(PreviewKind.NOTE, "in ~/project · at most 60 s")


def headed(lines: list[CallLine], heading: str) -> list[str]:
    """Return what stands below a heading of ours."""
    below = texts(lines)[texts(lines).index(heading) + 1 :] if heading in texts(lines) else []
    ends = [at for at, text in enumerate(below) if text in ("about", "arguments")]
    return below[: ends[0]] if ends else below


def test_a_command_is_said_once_with_a_note_below() -> None:
    arguments: dict[str, object] = {"command": "sleep 30", "timeout_s": 60}
    shown = ("command", "timeout_s")
    lines = read(arguments, text("sleep 30"), IN_PROJECT, shown=shown, subject="sleep 30")
    assert lines == [CallLine("sleep 30"), CallLine("in ~/project · at most 60 s", LineTone.NOTE)]


def test_a_command_that_looks_like_a_note_or_a_diff_is_told_as_it_is() -> None:
    command = "git apply <<E\n--- /dev/null\n+++ x\n@@ -0,0 +1 @@\n+y\nE\n\nrm -rf ~"
    lines = read({"command": command}, text(command), IN_PROJECT, shown=("command",))
    assert lines[:-1] == [*map(CallLine, command.split("\n"))]


def test_arguments_that_a_tool_does_not_show_stand_below_its_preview() -> None:
    arguments: dict[str, object] = {"command": "sleep 30", "retries": 30, "user": "sleep"}
    lines = read(arguments, text("sleep 30"), IN_PROJECT, shown=("command",))
    assert headed(lines, "arguments") == ["retries: 30", 'user: "sleep"']


@pytest.mark.parametrize("subject", ["app.py", "rc/app.py", "src", "py", "src/app.py.orig"])
def test_only_a_subject_that_stands_there_by_itself_is_shown_already(subject: str) -> None:
    preview = text("src/app.py, up to 9 lines")
    assert headed(read({"path": "a"}, preview, subject=subject), "about") == [subject]
    assert headed(read({"path": "a"}, preview, subject="src/app.py"), "about") == []


def test_subjects_are_said_where_the_preview_does_not_name_them() -> None:
    lines = read({"command": "a  >  out"}, text("a  >  out"), subject="> /real/out")
    assert headed(lines, "about") == ["> /real/out"]
    assert (
        headed(read({"command": "a  >  out"}, text("a  >  out"), subject="a > out"), "about") == []
    )


def test_a_diff_shows_what_is_replaced_by_what() -> None:
    diff = "--- a.py\n+++ a.py\n@@ -1,3 +1,4 @@\n x = 1\n-y = 2\n+y = 3\n+z = 4\n end\n"
    arguments: dict[str, object] = {"path": "./a.py", "old": "y = 2\n", "replace_all": True}
    part = PreviewPart(PreviewKind.DIFF, diff)
    lines = read(arguments, part, shown=("old",), subject="a.py")
    assert lines[0] == CallLine("a.py", LineTone.FILE, added=2, removed=1)
    assert headed(lines, "arguments") == ['path: "./a.py"', "replace_all: true"]


def test_arguments_that_a_preview_has_as_json_are_told_one_by_one() -> None:
    arguments: dict[str, object] = {"place": "here", "text": "one\ntwo"}
    as_json = '{\n  "place": "here",\n  "text": "one\\ntwo"\n}'
    part = PreviewPart(PreviewKind.ARGUMENTS, as_json)
    told = ['place: "here"', "text:", "  │ one", "  │ two"]
    assert texts(read(arguments, part, subject="here")) == ["arguments", *told]
    lines = read(arguments, text('"deploy" of the server s'), part, text("The server says so."))
    assert texts(lines) == ['"deploy" of the server s', "The server says so.", "arguments", *told]


def test_all_calls_together_are_told_as_fully_as_one() -> None:
    one = pending_call(arguments={"command": "git log -1", "force": True})
    lines = texts(describe_calls((one, queued_call("call_2"))))
    assert lines[0] == "1 of 2: bash · execute"
    assert lines[3:] == [
        "arguments",
        "force: true",
        "2 of 2: write",
        "arguments",
        'path: "call_2.py"',
    ]


# -- hostile ---------------------------------------------------------------------------------


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
def test_hostile_words_are_shown_as_harmless_quotes(size: tuple[int, int]) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "v", "end")
        seen = app.seen
        await app.press(pilot, "home")
        seen += app.seen
        for sign in ("\x1b", "\x07", "\x9b", "\u202e", "\u2066"):
            assert sign not in seen
        assert "│ [bold red]Allowed[/] [@click=app.quit]once[/]" in seen
        quotes = [row for row in seen.split("\n") if "Allowed" in row or "read · read" in row]
        assert quotes
        assert all(row.lstrip().startswith(("│", "└")) for row in quotes)

    pending = pending_call(
        preview=HOSTILE, subjects=(HOSTILE,), arguments={HOSTILE: HOSTILE, "list": [HOSTILE]}
    )
    run_steps(ApprovalApp(pending), steps, size)


@pytest.mark.requirement("S2-18")
def test_hostile_words_of_other_calls_and_of_previews_ahead_are_harmless_too() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "ctrl+n")
        await wait_until(pilot, lambda: "preview of write" in app.seen)
        seen = app.seen
        await app.press(pilot, "a", "enter")
        seen += app.seen
        assert "[bold red]Allowed[/]" in seen
        assert not set(seen) & set("\x1b\x07\x9b\u202e\u2066")

    run_steps(
        ApprovalApp(pending_call(), queued_call("call_2", arguments={"path": HOSTILE})), steps
    )


@pytest.mark.requirement("S2-18")
def test_markup_in_a_rule_is_text_and_what_cannot_be_shown_is_not_offered() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "p")
        assert "the rule write([bold]src[/]/**) · kept for this folder" in app.seen
        await app.press(pilot, "e")
        assert "write([bold]src[/]/**)" in app.seen
        app.ask(pending_call(rule="write(src/\x1b[31m\u202e/**)"))
        await pilot.pause()
        await app.press(pilot, "p")
        assert "would hold what cannot be shown" in app.seen
        assert "\x1b" not in app.seen

    pending = pending_call(
        "call_1",
        "write",
        capability=Capability.WRITE,
        subjects=("[bold]src[/]/a",),
        rule="write([bold]src[/]/**)",
    )
    run_steps(ApprovalApp(pending), steps)


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
def test_a_diff_of_5000_lines_is_scrolled_to_its_end(size: tuple[int, int]) -> None:
    diff = "--- x\n+++ x\n@@ -1,0 +1,5000 @@\n" + "".join(
        f"+line {number}\n" for number in range(5_000)
    )

    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        assert app.panel.outer_size.height <= size[1] * 0.6
        assert "the status line" in app.seen
        await app.come_here(pilot)
        assert "│ +line 0" in app.seen
        await app.press(pilot, "down")
        assert "│ x  +5000" not in app.seen
        await app.press(pilot, "end")
        assert "│ +line 4999" in app.seen
        assert '│ path: "x.py"' in app.seen
        await app.press(pilot, "pageup")
        assert "│ +line 4999" not in app.seen
        assert "│ +line 49" in app.seen
        await app.press(pilot, "home", "ctrl+f")
        assert app.panel.outer_size.height == size[1] - 8
        assert "the status line" in app.seen
        await app.press(pilot, "o", "enter")
        assert [call_id for call_id, _ in app.decisions] == ["call_1"]

    pending = pending_call(
        "call_1",
        "edit",
        preview=CallPreview((PreviewPart(PreviewKind.DIFF, diff),)),
        arguments={"path": "x.py"},
        rule="edit(x.py)",
    )
    run_steps(ApprovalApp(pending), steps, size)


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("sign", ["x", "漢", "é\n"])
def test_a_megabyte_of_arguments_can_be_read_to_its_end(sign: str) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "end")
        assert "│ THE END" in app.seen
        await app.press(pilot, "o", "enter")
        assert len(app.decisions) == 1

    content = sign * (1_000_000 // len(sign)) + "\nTHE END"
    pending = pending_call(
        "call_1", "write", preview="", arguments={"content": content}, rule="write"
    )
    run_steps(ApprovalApp(pending), steps)


# -- room ------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
def test_everything_fits_however_many_calls_there_are(size: tuple[int, int]) -> None:
    pending = [pending_call(f"call_{n}", preview="line\n" * 50) for n in range(7)]

    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        rows = app.seen.split("\n")
        assert app.panel.outer_size.height <= size[1] * 0.6
        assert rows[-1] == "the status line"
        for words in ("1 of 7", "│ line", "r deny with reason", "a all 7 once", "Ctrl+G"):
            assert words in app.seen
        await app.come_here(pilot)
        await app.press(pilot, *["ctrl+n"] * 6)
        assert "7 of 7" in app.seen

    run_steps(ApprovalApp(*pending), steps, size)


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("key", ["v", "x"])
def test_some_rows_of_the_conversation_stay_however_long_the_prompt_is(key: str) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        app.prompt.styles.height = 7
        await app.come_here(pilot)
        await app.press(pilot, key)
        await wait_until(pilot, lambda: app.query_one("#transcript").outer_size.height == 4)
        assert app.seen.split("\n")[-1] == "the status line"
        assert "│ line" in app.seen

    run_steps(ApprovalApp(pending_call(preview="line\n" * 50)), steps, (60, 20))


def _is_as_high_as(app: ApprovalApp, rows: int) -> bool:
    return app.panel.outer_size.height == rows


@pytest.mark.requirement("S2-18")
@pytest.mark.parametrize("key", ["v", "ctrl+f"])
@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
def test_a_key_gives_what_is_to_be_read_more_room_and_takes_it_back(
    key: str, size: tuple[int, int]
) -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        before = app.seen.count("│ line")
        await app.press(pilot, key)
        assert app.seen.count("│ line") >= before + 3
        assert app.seen.split("\n")[-1] == "the status line"
        await app.press(pilot, key)
        assert app.seen.count("│ line") == before

    pending = [pending_call(f"call_{n}", preview="line\n" * 50) for n in range(3)]
    run_steps(ApprovalApp(*pending), steps, size)


@pytest.mark.requirement("S2-18")
def test_what_is_not_in_sight_is_counted_and_v_shows_it() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        hidden = 20 - app.seen.count("│ line")
        assert hidden > 1
        assert f"… {hidden} more lines · ↓ scrolls · v shows all" in app.seen
        await app.press(pilot, "down")
        assert f"… {format_count(hidden - 1, 'more line', 'more lines')} · ↓ scrolls" in app.seen
        await app.press(pilot, "end")
        assert " ↑ scrolls · v shows all" in app.seen
        await app.press(pilot, "v")
        assert app.seen.count("│ line") == 20
        assert " v less" in app.seen
        await app.press(pilot, "v")
        assert app.seen.count("│ line") == 20 - hidden

    text = "\n".join([f"line {number}" for number in range(20)])
    run_steps(
        ApprovalApp(pending_call(preview=text, subjects=(), arguments={"command": text})),
        steps,
        (80, 35),
    )


@pytest.mark.requirement("S2-18")
def test_where_everything_is_in_sight_nothing_more_is_offered() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "v")
        assert "that key stands for no choice" in app.seen
        assert "v less" not in app.seen
        assert "scrolls" not in app.seen

    run_steps(ApprovalApp(pending_call()), steps)


def test_a_long_command_is_broken_between_words_and_nothing_of_it_is_left_out() -> None:
    words = [f"word{number:03}" for number in range(40)]

    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        rows = [row.strip()[2:] for row in app.seen.split("\n") if row.startswith(" │ word")]
        assert len(rows) > 3
        assert " ".join(rows).split() == words

    pending = pending_call(
        preview=" ".join(words), subjects=(), arguments={"command": " ".join(words)}
    )
    run_steps(ApprovalApp(pending), steps, (60, 40))


@pytest.mark.requirement("S2-18")
def test_a_tool_that_is_called_as_what_it_does_is_named_once() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        assert " permission · write ─" in app.seen

    run_steps(ApprovalApp(pending_call("call_1", "write", capability=Capability.WRITE)), steps)


@pytest.mark.requirement("S2-18")
def test_the_panel_follows_the_size_of_the_terminal() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        for width, height in ((60, 20), (120, 40), (100, 24)):
            await pilot.resize_terminal(width, height)
            share = int(height * 0.6)
            await wait_until(pilot, partial(_is_as_high_as, app, share))
            assert app.seen.split("\n")[-1] == "the status line"

    run_steps(ApprovalApp(pending_call(preview="line\n" * 100)), steps)


@pytest.mark.parametrize("theme", ["steno-dark", "steno-light"])
def test_everything_can_be_read_in_both_themes(theme: str) -> None:
    diff = "--- x\n+++ x\n@@ -1 +1 @@\n-old\n+new\n\\ No newline at end of file\n"
    session = FakeSession()
    panel = ApprovalPanel(session)
    app = Empty(panel, theme=theme)

    async def run() -> None:
        async with app.run_test(size=(100, 30)) as pilot:
            panel.show_pending(
                [
                    pending_call(preview=CallPreview((PreviewPart(PreviewKind.DIFF, diff),))),
                    queued_call("call_2"),
                ]
            )
            await pilot.pause()
            assert "x  +1  -1" in app.text
            assert least_contrast(app) >= 4.5

    asyncio.run(run())
