"""Suggestions while the user types, and the effect of accepting one."""

from __future__ import annotations

import pytest
from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.widgets import Input

from steno.app.commands.table import (
    SLASH_COMMANDS,
    Suggestion,
    TypedCommand,
    match_commands,
    parse_slash_command,
)
from steno.ui.prompt_state import TypedWord, word_at
from tests.ui.tui.prompt.prompt_app import PromptApp, run_steps, type_in

pytestmark = pytest.mark.requirement("S4-15")

_FILES = [
    Suggestion("@src/", "folder", expects_more=True),
    Suggestion("@src/main.py"),
    Suggestion("@src/map.py"),
    Suggestion("@'src/a b.txt'"),
]


def test_commands_are_offered_at_once_and_tab_takes_one() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "/he")
        assert app.offered[0].startswith("▸ /help")
        await pilot.press("tab")
        assert (app.prompt.text, app.offered) == ("/help ", [])
        await pilot.press("enter")

    assert run_steps(flow).sent == [("/help", ())]


def test_enter_takes_what_is_chosen_and_sends_only_what_is_there_already() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "/qu")
        await pilot.press("enter")
        assert (app.prompt.text, app.sent) == ("/quit ", [])
        app.prompt.clear()
        await type_in(pilot, "/mode")  # /model comes before it in the list of all commands
        assert app.offered[0].startswith("▸ /mode ")
        await pilot.press("enter")

    assert run_steps(flow).sent == [("/mode", ())]


def test_up_and_down_choose_and_go_round() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "/mo")
        assert [row[:8] for row in app.offered] == ["▸ /model", "  /mode "]
        await pilot.press("down")
        assert [row[:8] for row in app.offered] == ["  /model", "▸ /mode "]
        await pilot.press("down", "up")
        await pilot.press("tab")
        assert app.prompt.text == "/mode "

    run_steps(flow)


def test_a_command_offers_what_its_argument_may_be() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "/mode ")
        assert app.offered == ["▸ /mode plan", "  /mode act"]
        await type_in(pilot, "a")
        await pilot.press("tab", "enter")

    assert run_steps(flow).sent == [("/mode act", ())]


def test_additional_suggestions_follow_the_commands() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.candidates = [Suggestion("/help-desk:ask", "a prompt"), Suggestion("/help", "twice")]
        await type_in(pilot, "/help")
        await pilot.pause()
        assert [row.split()[-1] for row in app.offered][1:] == ["prompt"]
        await pilot.press("down", "enter")
        assert app.prompt.text == "/help-desk:ask "

    run_steps(flow)


def test_a_word_with_an_at_sign_is_asked_about_and_replaced() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.candidates = _FILES
        await type_in(pilot, "read @sr")
        await pilot.pause()
        assert [row[2:11].strip() for row in app.offered] == ["@src/", "@src/main", "@src/map."]
        await pilot.press("tab")
        await pilot.pause()
        assert app.prompt.text == "read @src/"
        assert app.typed[-1] == "@src/"  # a folder goes on
        await type_in(pilot, "map")
        await pilot.press("enter")
        assert app.prompt.text == "read @src/map.py "
        await type_in(pilot, "now")
        await pilot.press("enter")

    assert run_steps(flow).sent == [("read @src/map.py now", ())]


def test_names_with_blanks_are_put_in_as_they_are_offered() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.candidates = _FILES
        await type_in(pilot, "@'src/a ")
        await pilot.pause()
        assert app.typed[-1] == "@'src/a "
        await pilot.press("tab")
        assert app.prompt.text == "@'src/a b.txt' "

    run_steps(flow)


def test_a_word_is_replaced_whole_where_the_cursor_is_in_the_middle() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.candidates = _FILES
        app.prompt.load("see @srmain.py please")
        await pilot.press("home", *["right"] * 7)
        await type_in(pilot, "c")
        await pilot.pause()
        await pilot.press("down", "tab")
        assert app.prompt.text == "see @src/main.py please"

    run_steps(flow)


def test_an_answer_about_something_older_is_ignored() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "@a")
        await type_in(pilot, "b")
        app.prompt.show_suggestions("@a", [Suggestion("@axe")])
        assert app.offered == []
        app.prompt.show_suggestions("@ab", [Suggestion("@able")])
        await pilot.pause()
        assert app.offered == ["▸ @able"]
        await type_in(pilot, " ")
        app.prompt.show_suggestions("@ab", [Suggestion("@able")])
        assert app.offered == []

    run_steps(flow)


def test_matching_suggestions_stay_until_new_ones_arrive() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "@a")
        app.prompt.show_suggestions("@a", [Suggestion("@axe"), Suggestion("@able")])
        await type_in(pilot, "b")
        await pilot.pause()
        assert app.offered == ["▸ @able"]
        app.prompt.show_suggestions("@ab", [])
        assert app.offered == []

    run_steps(flow)


def test_a_choice_stays_chosen_when_more_is_offered() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "@a")
        app.prompt.show_suggestions("@a", [Suggestion("@axe"), Suggestion("@able")])
        await pilot.press("down")
        app.prompt.show_suggestions(
            "@a", [Suggestion("@a.txt"), Suggestion("@axe"), Suggestion("@able")]
        )
        await pilot.pause()
        assert app.offered == ["  @a.txt", "  @axe", "▸ @able"]

    run_steps(flow)


def test_closed_suggestions_stay_closed_for_the_word_until_tab() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.candidates = _FILES
        await type_in(pilot, "@s")
        await pilot.pause()
        await pilot.press("escape")
        await type_in(pilot, "r")
        await pilot.pause()
        assert app.offered == []
        await pilot.press("tab")
        await pilot.pause()
        assert len(app.offered) == 3
        await pilot.press("escape")
        await type_in(pilot, " @s")
        await pilot.pause()
        assert len(app.offered) == 3

    run_steps(flow)


def test_the_list_closes_when_the_cursor_leaves_the_word() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.candidates = _FILES
        await type_in(pilot, "see @s")
        await pilot.pause()
        await pilot.press("home")
        await pilot.pause()
        assert app.offered == []

    run_steps(flow)


def test_at_most_eight_rows_are_shown_above_the_prompt_and_scroll() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "/")
        await pilot.pause()
        assert len(app.offered) == 8
        more = f"… {len(SLASH_COMMANDS) - 8} more"
        assert app.below_offers == f"  {more} · Tab/Enter accept · Esc close"
        assert app.popup.region.bottom == app.prompt.region.y
        first = app.offered[0]
        await pilot.press("up")
        assert app.offered[-1].startswith("▸ /quit")
        await pilot.press("down")
        assert app.offered[0] == first
        assert all(len(row) <= 60 for row in app.offered)

    run_steps(flow, size=(60, 20))


def test_the_arguments_of_a_command_are_shown_after_its_name() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "/ex")
        await pilot.pause()
        assert app.offered[0].startswith(
            "▸ /export [markdown|json|html] [FILE]  write this branch to a file"
        )
        await pilot.press("tab")
        assert app.prompt.text == "/export "

    run_steps(flow, size=(100, 20))


def test_a_click_below_the_choices_takes_nothing() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "/")
        await pilot.pause()
        await pilot.click(app.popup, offset=(4, 8))
        assert app.prompt.text == "/"

    run_steps(flow)


@pytest.mark.parametrize(("alias", "name"), [("exit", "quit")])
def test_an_alias_of_a_command_works_and_is_not_listed(alias: str, name: str) -> None:
    assert parse_slash_command(f"/{alias} x") == TypedCommand(name, "x")
    assert [one.name for one in match_commands(alias)] == [name]
    assert alias not in [one.name for one in SLASH_COMMANDS]
    assert len(match_commands("")) == len(SLASH_COMMANDS)


def test_a_click_takes_a_choice() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "/mo")
        await pilot.pause()
        await pilot.click(app.popup, offset=(4, 1))
        assert app.prompt.text == "/mode "

    run_steps(flow)


def test_suggestions_are_shown_without_control_characters() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "@x")
        hostile = [Suggestion("@x\x1b]0;t\x07y", "[red]a[/red]\x1b[2J\nb"), Suggestion("@x\nrm\n")]
        app.prompt.show_suggestions("@x", hostile)
        await pilot.pause()
        assert app.offered == ["▸ @xy  [red]a[/red]\\x1b[2J b"]
        await pilot.press("tab")
        assert app.prompt.text == "@xy "

    run_steps(flow)


def test_nothing_is_offered_for_what_was_loaded_or_is_no_command() -> None:
    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        app.prompt.load("/mo")
        await pilot.pause()
        assert (app.offered, app.typed) == ([], [])
        app.prompt.clear()
        await type_in(pilot, "a /m")
        assert app.offered == []
        app.prompt.clear()
        await pilot.press("ctrl+j")
        await type_in(pilot, "/m")
        assert (app.offered, app.typed) == ([], [])

    run_steps(flow)


def test_tab_is_for_others_where_there_is_nothing_to_complete() -> None:
    class Two(PromptApp):
        def compose(self) -> ComposeResult:
            yield from super().compose()
            yield Input(id="other")

    async def flow(app: PromptApp, pilot: Pilot[None]) -> None:
        await type_in(pilot, "x")
        await pilot.press("tab")
        assert app.focused is app.query_one("#other")
        assert app.prompt.text == "x"

    run_steps(flow, Two())


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("@", TypedWord("@", 0, 1)),
        ("a @b|c d", TypedWord("@b", 2, 5)),
        ("(@b", TypedWord("@b", 1, 3)),
        ("joe@example.org", None),
        ("\\@b", None),
        ("@b c", None),
        ("@b\\ c", TypedWord("@b\\ c", 0, 5)),
        ('@"b c', TypedWord('@"b c', 0, 5)),
        ('@"b c|"', TypedWord('@"b c', 0, 6)),
        ("@'b| and that's it", TypedWord("@'b", 0, 3)),
        ('@"b c" ', None),
        ("/m|o x", TypedWord("/m", 0, 3)),
        ("/usr/bin", TypedWord("/usr/bin", 0, 8)),
        ("/usr/bin is", None),
        ("/model so", TypedWord("/model so", 0, 9)),
        ("/server:prompt @b", TypedWord("@b", 15, 17)),
        ("," * 400 + ",@x" * 30_000 + " ", None),
    ],
)
def test_the_word_at_the_cursor_is_found(line: str, word: TypedWord | None) -> None:
    before, _, after = line.partition("|")
    assert word_at(before + after, len(before), is_whole_text=True) == word
