"""The description of a call before a decision: complete, harmless, and marked as untrusted."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from textual.pilot import Pilot

from steno.ports import CallPreview, Capability, PreviewKind, PreviewPart
from steno.render.quantities import format_count
from steno.ui.approval_state import KeyRefusal
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
        assert "the rule write([bold]src[/]/**), valid for this folder" in app.seen
        await app.press(pilot, "e")
        assert "write([bold]src[/]/**)" in app.seen
        app.ask(pending_call(rule="write(src/\x1b[31m\u202e/**)"))
        await pilot.pause()
        await app.press(pilot, "p")
        assert "would contain unprintable characters" in app.seen
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
def test_hidden_lines_are_counted_and_v_shows_them() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        hidden = 20 - app.seen.count("│ line")
        assert hidden > 1
        assert f"… {hidden} more lines · ↓ scroll · v show all" in app.seen
        await app.press(pilot, "down")
        assert f"… {format_count(hidden - 1, 'more line', 'more lines')} · ↓ scroll" in app.seen
        await app.press(pilot, "end")
        assert " ↑ scroll · v show all" in app.seen
        await app.press(pilot, "v")
        assert app.seen.count("│ line") == 20
        assert " v show less" in app.seen
        await app.press(pilot, "v")
        assert app.seen.count("│ line") == 20 - hidden

    text = "\n".join([f"line {number}" for number in range(20)])
    run_steps(
        ApprovalApp(pending_call(preview=text, subjects=(), arguments={"command": text})),
        steps,
        (80, 35),
    )


@pytest.mark.requirement("S2-18")
def test_without_hidden_lines_no_hint_to_show_more() -> None:
    async def steps(app: ApprovalApp, pilot: Pilot[Any]) -> None:
        await app.come_here(pilot)
        await app.press(pilot, "v")
        assert KeyRefusal.NO_CHOICE in app.seen
        assert "v show less" not in app.seen
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
