"""The tree: what is shown, every key, and what comes of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.events import Paste
from textual.widgets import Input

from steno import ChatMessage
from steno.app.session import PromptInput
from steno.errors import Damaged
from steno.records.entry import Approval, ApprovalStatus
from steno.render.quantities import format_time
from steno.ui.tui.screens.compare_screen import CompareScreen
from steno.ui.tui.screens.dialogs import InputScreen, PickerScreen
from steno.ui.tui.screens.tree_screen import TreeResult, TreeScreen, TreeView
from tests.ui.fake_session import FakeBranches, FakeSession
from tests.ui.tui.tree_app import (
    UNSET,
    BusyBranches,
    CountedTree,
    ScriptedBranches,
    TreeUser,
    alternating_messages,
    calls_and_results,
    play,
    three_branches,
    two_branches,
)


def view_of(play: TreeUser) -> TreeView:
    return play.app.screen.query_one(TreeView)


def number_of(play: TreeUser) -> int | None:
    """Return the number of the entry under the cursor; None on a folded run."""
    twig = view_of(play).row
    return None if twig is None else twig.number


def entry(desk: FakeSession, number: int) -> str:
    return desk.branches.all_twigs()[number - 1].entry.id


def folded_desk(calls: int = 10) -> FakeSession:
    return FakeSession(
        [
            *alternating_messages("list files"),
            *calls_and_results(calls),
            *alternating_messages("x", "done")[1:],
        ]
    )


# -- what is shown -----------------------------------------------------------------------------


@pytest.mark.requirement("S4-15")
def test_the_tree_shows_branches_where_they_part_and_end() -> None:
    async def scene(play: TreeUser) -> None:
        assert play.lines[0] == " Tree of a test · 6 entries · 2 branches"
        assert play.lines[1:7] == [
            "● #1 user  how do I list files",
            "● #2 assistant  use ls",
            "├─○ #3 user  and by age",
            "│ ○ #4 assistant ← other  use ls -t",
            "● #5 user  and hidden ones",
            "● #6 assistant ← main (active)  use ls -a",
        ]

    assert play(TreeScreen(two_branches()), scene) is UNSET


def test_the_cursor_starts_at_the_end_of_the_active_branch() -> None:
    desk = two_branches()
    desk.conversation.switch("other")

    async def scene(play: TreeUser) -> None:
        assert number_of(play) == len(desk.branches.all_twigs())
        assert "← other (active)" in play.lines[view_of(play).cursor + 1]

    play(TreeScreen(desk), scene)


def test_only_the_active_path_is_bold() -> None:
    async def scene(play: TreeUser) -> None:
        await play.press("home")
        view = view_of(play)
        strips = [view.render_line(y) for y in range(len(view.lines))]
        bold = [any(s.style is not None and s.style.bold for s in strip) for strip in strips[1:3]]
        assert bold == [True, False]

    play(TreeScreen(two_branches()), scene)


def test_a_narrow_terminal_shows_everything_that_is_needed() -> None:
    async def scene(play: TreeUser) -> None:
        assert "← main (active)" in play.text
        assert "? keys" in play.lines[-1]
        await play.press("question_mark")
        assert "Esc q  close" in play.lines[-1]
        assert "← main (active)" in play.text
        await play.press("question_mark")
        assert "Esc q  close" not in play.text

    play(TreeScreen(two_branches()), scene, size=(60, 20))


def test_the_entry_is_beside_the_tree_where_there_is_room() -> None:
    async def scene(play: TreeUser) -> None:
        assert "│ #6 assistant" in play.text
        await play.press("up", "up")
        assert "│ branch other ends here" in play.text
        await play.press("space")
        assert "branch other ends here" not in play.text

    play(TreeScreen(two_branches()), scene, size=(110, 30))


def test_the_entry_is_below_the_tree_when_it_is_asked_for_and_can_be_read_to_its_end() -> None:
    desk = FakeSession(alternating_messages("\n".join(f"line {n}" for n in range(100)), "ok"))
    [shown, _] = desk.conversation.entries()

    async def scene(play: TreeUser) -> None:
        await play.press("up")
        assert format_time(shown.time) not in play.text
        await play.press("space")
        assert format_time(shown.time) in play.text
        assert " line 0" in play.lines
        await play.press("tab", "end")
        assert " line 99" in play.lines
        assert number_of(play) == 1
        await play.press("tab", "down")
        assert number_of(play) == 2

    play(TreeScreen(desk), scene, size=(60, 20))


def test_the_entry_tells_what_was_decided_and_by_whom() -> None:
    desk = two_branches()
    desk.conversation.append(
        Approval(
            call_id="c1",
            status=ApprovalStatus.DENIED,
            arguments_sha256="0" * 64,
            actor="ann",
            reason="not today",
        )
    )

    async def scene(play: TreeUser) -> None:
        assert "denied by ann" in play.text
        assert "not today" in play.text

    play(TreeScreen(desk), scene, size=(110, 30))


def test_an_empty_session_is_said_to_be_empty_and_no_key_breaks_it() -> None:
    async def scene(play: TreeUser) -> None:
        assert " nothing is on record yet" in play.lines
        await play.press(*"fleca/x", "enter", "escape", "n", "escape")
        await play.press("enter", "up", "end", "left", "right", "space")
        assert " nothing is on record yet" in play.lines

    assert play(TreeScreen(FakeSession()), scene) is UNSET


def test_a_tree_that_takes_long_to_read_leaves_the_keys_alive_meanwhile() -> None:
    class SlowBranches(FakeBranches):
        is_read = asyncio.Event()

        async def rows(self) -> Any:
            await self.is_read.wait()
            return self.all_twigs()

    desk = two_branches()
    desk.branches = slow = SlowBranches(desk)

    async def scene(play: TreeUser) -> None:
        assert " loading ..." in play.lines
        await play.press("f", "enter", "down", "question_mark")
        assert " loading ..." in play.lines
        assert "Space  the entry" in play.text
        slow.is_read.set()
        await play.pilot.pause()
        assert " loading ..." not in play.lines
        assert play.lines[0] == " Tree of a test · 6 entries · 2 branches"
        assert number_of(play) == 6

    assert play(TreeScreen(desk), scene) is UNSET


def test_a_tree_that_is_not_read_yet_can_be_left() -> None:
    class EndlessBranches(FakeBranches):
        async def rows(self) -> Any:
            await asyncio.Event().wait()

    desk = two_branches()
    desk.branches = EndlessBranches(desk)

    async def scene(play: TreeUser) -> None:
        await play.press("escape")

    assert play(TreeScreen(desk), scene) == TreeResult()


def test_a_record_that_cannot_be_drawn_is_told() -> None:
    class DamagedBranches(FakeBranches):
        async def rows(self) -> Any:
            raise Damaged("session: what came before an entry is not there; see steno verify")

    desk = two_branches()
    desk.branches = DamagedBranches(desk)

    async def scene(play: TreeUser) -> None:
        assert "see steno verify" in play.text
        await play.press("escape")

    assert play(TreeScreen(desk), scene) == TreeResult()


# -- moving ------------------------------------------------------------------------------------


def test_every_key_that_moves_the_cursor() -> None:
    desk = FakeSession(alternating_messages(*[f"words {n}" for n in range(100)]))

    async def scene(play: TreeUser) -> None:
        seen = []
        for key in ("up", "home", "down", "pagedown", "pageup", "up", "up", "end", "down"):
            await play.press(key)
            seen.append(number_of(play))
        page = view_of(play).size.height - 1
        assert seen == [99, 1, 2, 2 + page, 2, 1, 1, 100, 100]
        assert play.line("words 99")

    play(TreeScreen(desk), scene, size=(60, 20))


def test_left_and_right_go_to_where_branches_part_or_end() -> None:
    async def scene(play: TreeUser) -> None:
        seen = []
        for key in ("left", "left", "left", "right", "right", "right"):
            await play.press(key)
            seen.append(number_of(play))
        assert seen == [4, 2, 2, 4, 6, 6]

    play(TreeScreen(two_branches()), scene)


def test_a_folded_run_opens_with_enter() -> None:
    async def scene(play: TreeUser) -> None:
        assert play.line("…") == "⋮ … 20 entries"
        await play.press("up")
        assert number_of(play) is None
        await play.press("f")
        assert " several: Enter shows them first" in play.lines
        await play.press("enter")
        assert number_of(play) == 2
        assert "entries" not in "\n".join(play.lines[1:])

    assert play(TreeScreen(folded_desk()), scene) is UNSET


def test_all_is_shown_and_folded_again() -> None:
    async def scene(play: TreeUser) -> None:
        lines = []
        for _ in range(2):
            await play.press("a")
            lines.append(len(view_of(play).lines))
        assert lines == [22, 3]
        assert number_of(play) == 22

    play(TreeScreen(folded_desk()), scene)


def test_a_click_moves_the_cursor() -> None:
    async def scene(play: TreeUser) -> None:
        await play.pilot.click(TreeView, offset=(5, 2))
        await play.pilot.pause()
        assert number_of(play) == 3

    play(TreeScreen(two_branches()), scene)


# -- searching ---------------------------------------------------------------------------------


def test_a_search_finds_what_is_folded_and_goes_on_and_back() -> None:
    async def scene(play: TreeUser) -> None:
        await play.press("slash")
        await play.type("FILE")
        await play.press("enter")
        seen = [number_of(play)]
        for key in ("n", "n", "N"):
            await play.press(key)
            seen.append(number_of(play))
        assert seen == [1, 3, 5, 3]

    assert play(TreeScreen(folded_desk()), scene) is UNSET


def test_words_that_nobody_said_can_be_corrected() -> None:
    async def scene(play: TreeUser) -> None:
        await play.press("slash")
        await play.type("age!")
        await play.press("enter")
        assert "no entry says that" in play.text
        await play.press("backspace", "enter")
        assert isinstance(play.app.screen, TreeScreen)
        assert number_of(play) == 3

    play(TreeScreen(two_branches()), scene)


def test_next_asks_for_words_where_there_were_none() -> None:
    async def scene(play: TreeUser) -> None:
        await play.press("n")
        assert isinstance(play.app.screen, InputScreen)
        await play.press("enter")
        assert "no entry says that" in play.text
        await play.press("escape")
        assert number_of(play) == 6

    play(TreeScreen(two_branches()), scene)


# -- going elsewhere ---------------------------------------------------------------------------


def test_enter_at_the_end_of_a_branch_goes_over_to_it() -> None:
    desk = two_branches()

    async def scene(play: TreeUser) -> None:
        await play.press("left", "enter")

    assert play(TreeScreen(desk), scene) == TreeResult(None, has_moved=True)
    assert desk.asked == [("switch", "other")]


def test_enter_at_the_end_of_the_active_branch_changes_nothing() -> None:
    desk = two_branches()

    async def scene(play: TreeUser) -> None:
        await play.press("enter")

    assert play(TreeScreen(desk), scene) == TreeResult(None, has_moved=False)
    assert desk.asked == []


def test_where_several_branches_end_one_is_picked() -> None:
    desk = two_branches()
    desk.conversation.fork("twin")

    async def scene(play: TreeUser) -> None:
        await play.press("enter")
        assert isinstance(play.app.screen, PickerScreen)
        await play.type("twin")
        await play.press("enter")

    assert play(TreeScreen(desk), scene) == TreeResult(None, has_moved=True)
    assert desk.asked == [("switch", "twin")]


def test_enter_elsewhere_goes_on_from_there_in_a_branch_with_the_name_that_is_offered() -> None:
    desk = two_branches()
    at = entry(desk, 2)

    async def scene(play: TreeUser) -> None:
        await play.press("home", "down", "enter")
        assert play.app.screen.query_one(Input).value == "fork-1"
        await play.press("enter")

    assert play(TreeScreen(desk), scene) == TreeResult(None, has_moved=True)
    assert desk.asked == [("fork", "fork-1", at)]
    assert desk.status.branch == "fork-1"


def test_f_forks_at_the_end_of_a_branch_as_well_with_a_name_of_ones_own() -> None:
    desk = two_branches()
    at = entry(desk, 4)

    async def scene(play: TreeUser) -> None:
        await play.press("left", "f")
        await play.type("faster")
        await play.press("enter")

    assert play(TreeScreen(desk), scene) == TreeResult(None, has_moved=True)
    assert desk.asked == [("fork", "faster", at)]


def test_a_name_that_is_taken_or_blank_is_refused_and_can_be_changed() -> None:
    desk = two_branches()

    async def scene(play: TreeUser) -> None:
        await play.press("f")
        await play.type("other")
        await play.press("enter")
        assert "branch: there is one of this name" in play.text
        await play.press(*["backspace"] * 5, "space", "enter")
        assert "branch: it is blank" in play.text
        assert desk.asked == []
        await play.type("mine")
        await play.press("enter")

    assert play(TreeScreen(desk), scene) == TreeResult(None, has_moved=True)
    assert desk.status.branch == "mine"


def test_b_goes_over_to_a_branch_by_its_name() -> None:
    desk = three_branches()

    async def scene(play: TreeUser) -> None:
        await play.press("b")
        await play.type("third")
        await play.press("enter")

    assert play(TreeScreen(desk), scene) == TreeResult(None, has_moved=True)
    assert desk.asked == [("switch", "third")]


def test_e_gives_back_what_was_said_and_goes_before_it() -> None:
    desk = two_branches()
    said = entry(desk, 5)

    async def scene(play: TreeUser) -> None:
        await play.press("up", "e")
        assert play.app.screen.query_one(Input).value == "edit-1"
        await play.press("enter")

    result = play(TreeScreen(desk), scene)
    assert result == TreeResult(PromptInput("and hidden ones"), has_moved=True)
    assert desk.asked[0] == ("fork_before", said, "edit-1")
    assert desk.status.branch == "edit-1"


def test_only_what_the_person_said_can_be_edited() -> None:
    desk = two_branches()

    async def scene(play: TreeUser) -> None:
        await play.press("e")
        assert "only what you said" in play.text
        await play.press("up", "e")
        assert isinstance(play.app.screen, InputScreen)
        await play.press("escape")
        assert "only what you said" not in play.text

    assert play(TreeScreen(desk), scene) is UNSET
    assert desk.asked == []


def test_l_labels_an_entry_and_stays_there() -> None:
    desk = two_branches()
    target = entry(desk, 3)

    async def scene(play: TreeUser) -> None:
        await play.press("up", "up", "up", "l")
        assert "What to call #3" in play.text
        await play.type("12")
        await play.press("enter")
        assert "label: it reads like the number of an entry" in play.text
        await play.type(" ideas")
        await play.press("enter")
        assert play.line("[12 ideas]") == "├─○ #3 user [12 ideas]  and by age"
        assert number_of(play) == 3

    assert play(TreeScreen(desk), scene) is UNSET
    assert desk.asked == [("label", target, "12 ideas")]


@pytest.mark.parametrize("key", ["escape", "q"])
def test_the_tree_is_left_as_it_was(key: str) -> None:
    desk = two_branches()

    async def scene(play: TreeUser) -> None:
        await play.press("home", key)

    assert play(TreeScreen(desk), scene) == TreeResult(None, has_moved=False)
    assert desk.asked == []


# -- refusals ----------------------------------------------------------------------------------


def test_a_refused_move_is_told_and_the_tree_stays() -> None:
    desk = two_branches()
    desk.branches = BusyBranches(desk)

    async def scene(play: TreeUser) -> None:
        await play.press("left", "enter")
        assert "the agent is at work" in play.text
        assert number_of(play) == 4
        await play.press("up", "space", "l", "escape")
        assert "the agent is at work" not in play.text

    assert play(TreeScreen(desk), scene) is UNSET


@pytest.mark.parametrize("key", ["f", "e", "l"])
def test_a_refusal_keeps_the_name_that_was_typed(key: str) -> None:
    desk = two_branches()
    desk.branches = BusyBranches(desk)

    async def scene(play: TreeUser) -> None:
        await play.press("up", key)
        await play.type("mine")
        await play.press("enter")
        assert "the agent is at work" in play.text
        assert play.app.screen.query_one(Input).value == "mine"
        desk.branches = FakeBranches(desk)
        await play.press("enter")
        assert not isinstance(play.app.screen, InputScreen)

    play(TreeScreen(desk), scene)
    assert [asked for asked in desk.asked if "mine" in asked]


# -- comparing ---------------------------------------------------------------------------------


def test_the_only_two_branches_are_compared_at_once() -> None:
    async def scene(play: TreeUser) -> None:
        await play.press("c")
        assert isinstance(play.app.screen, CompareScreen)
        assert "main" in play.lines[1]
        assert "other" in play.lines[1]
        await play.press("escape")
        assert isinstance(play.app.screen, TreeScreen)

    assert play(TreeScreen(two_branches()), scene) is UNSET


def test_escape_closes_only_the_keys_where_all_of_them_are_shown() -> None:
    async def scene(play: TreeUser) -> None:
        await play.press("question_mark")
        assert "where branches part" in play.text
        await play.press("escape")
        assert "where branches part" not in play.text
        assert isinstance(play.app.screen, TreeScreen)
        await play.press("escape")

    assert play(TreeScreen(two_branches()), scene) == TreeResult()


@pytest.mark.parametrize("key", ["slash", "l", "f", "e"])
@pytest.mark.parametrize("size", [(60, 20), (100, 30)])
def test_what_is_typed_into_a_window_can_be_seen(key: str, size: tuple[int, int]) -> None:
    async def scene(play: TreeUser) -> None:
        await play.press("home", key)
        assert isinstance(play.app.screen, InputScreen)
        await play.type("seen")
        assert "seen" in play.text

    play(TreeScreen(two_branches()), scene, size=size)


def test_going_over_to_a_branch_while_comparing_leaves_the_tree() -> None:
    desk = two_branches()

    async def scene(play: TreeUser) -> None:
        await play.press("c", "right", "enter")

    assert play(TreeScreen(desk), scene) == TreeResult(None, has_moved=True)
    assert desk.asked == [("switch", "other")]


def test_one_branch_cannot_be_compared() -> None:
    async def scene(play: TreeUser) -> None:
        await play.press("c")
        assert "there is only one branch" in play.text

    play(TreeScreen(folded_desk()), scene)


def test_of_several_branches_one_is_marked_and_then_compared_with_another() -> None:
    desk = three_branches()

    async def scene(play: TreeUser) -> None:
        await play.press("c")
        assert play.line("(compare)").startswith("● #8 assistant ← main (active) (compare)")
        await play.press("left", "c")
        assert isinstance(play.app.screen, CompareScreen)
        names = play.lines[1].split()
        await play.press("escape")
        assert "(compare)" not in play.text
        assert names == ["▸", "main", "◂", "other"]

    play(TreeScreen(desk), scene)


def test_a_mark_is_taken_back_where_it_was_given() -> None:
    async def scene(play: TreeUser) -> None:
        await play.press("c", "c")
        assert isinstance(play.app.screen, TreeScreen)
        assert "compare:" not in play.text
        assert "(compare)" not in play.text

    play(TreeScreen(three_branches()), scene)


def test_where_several_branches_lead_through_one_is_picked_to_compare() -> None:
    async def scene(play: TreeUser) -> None:
        await play.press("home", "c")
        assert isinstance(play.app.screen, PickerScreen)
        await play.type("third")
        await play.press("enter", "end", "c")
        assert isinstance(play.app.screen, CompareScreen)
        assert play.lines[1].split() == ["third", "▸", "main", "◂"]

    play(TreeScreen(three_branches()), scene)


# -- looks, size and strangers -----------------------------------------------------------------


def test_ten_thousand_entries_cost_as_much_as_are_on_the_screen() -> None:
    desk = FakeSession(alternating_messages(*[f"words {n}" for n in range(10_000)]))
    twigs = CountedTree([twig._replace(is_notable=True) for twig in desk.branches.all_twigs()])
    desk.branches = ScriptedBranches(desk, twigs)

    async def scene(play: TreeUser) -> None:
        assert len(view_of(play).lines) == 10_000
        assert len(play.app.screen.query("*")) < 20
        for keys in (["up"], ["home"], ["end"], ["pageup"], ["up"] * 10, ["right"]):
            twigs.looks = 0
            await play.press(*keys)
            assert 0 < twigs.looks < 400 * len(keys)
        assert "words 9999" in play.text

    play(TreeScreen(desk), scene, size=(60, 20))


def test_what_entries_labels_and_branches_say_is_only_ever_text() -> None:
    hostile = (
        "[bold red]x[/] \x1b]8;;http://evil\x07link\x1b[2J \u202eabc\r\nnext [@click=app.quit]y"
    )
    desk = FakeSession([ChatMessage.user(hostile), ChatMessage.assistant(hostile)])
    desk.conversation.label(desk.conversation.entries()[0].id, hostile)
    desk.conversation.fork(hostile)
    desk.conversation.fork("third")

    async def scene(play: TreeUser) -> None:
        assert "[bold red]x[/]" in play.text
        await play.press("home")
        seen = [play.text]
        for key in ("space", "b", "escape", "end", "c", "escape", "l", "escape"):
            await play.press(key)
            seen.append(play.text)
        assert not any(sign in text for text in seen for sign in "\x1b\x07\u202e\r")
        assert "\\x1b]8;;http://evil" in seen[0]

    assert play(TreeScreen(desk), scene, size=(120, 30)) is UNSET


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light"])
def test_without_colours_everything_is_grey_and_can_still_be_told_apart(
    theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def scene(play: TreeUser) -> None:
        play.app.theme = theme
        await play.pilot.pause()
        for key in ("home", "c"):
            await play.press(key)
            strips = play.app.screen._compositor.render_strips()
            styles = [segment.style for strip in strips for segment in strip if segment.style]
            colours = [c.triplet for s in styles for c in (s.color, s.bgcolor) if c and c.triplet]
            assert {len({c.red, c.green, c.blue}) for c in colours} == {1}
            assert len(set(colours)) > 3

    play(TreeScreen(two_branches()), scene)


def test_what_is_pasted_as_a_name_is_only_ever_text() -> None:
    desk = two_branches()

    async def scene(play: TreeUser) -> None:
        await play.press("f")
        play.app.screen.query_one(Input).post_message(Paste("a\x1b[2J\u202eb  c"))
        await play.pilot.pause()
        assert not any(sign in play.text for sign in "\x1b\u202e")
        await play.press("enter")

    assert play(TreeScreen(desk), scene) == TreeResult(None, has_moved=True)
    assert desk.status.branch == r"a\x1b[2J\u202eb c"


def test_rails_that_reach_too_far_leave_room_for_words() -> None:
    desk = FakeSession(alternating_messages("a", "b"))
    twigs = [twig._replace(rails="| " * 80) for twig in desk.branches.all_twigs()]
    desk.branches = ScriptedBranches(desk, twigs)

    async def scene(play: TreeUser) -> None:
        assert "#1 user" in play.lines[1]
        assert play.lines[1].startswith("…")

    play(TreeScreen(desk), scene, size=(60, 20))


def test_a_tree_that_has_grown_is_shown_anew_with_the_cursor_where_it_was() -> None:
    desk = two_branches()

    async def scene(play: TreeUser) -> None:
        await play.press("up")
        before = view_of(play).row
        desk.conversation.append(ChatMessage.user("one more"))
        screen = play.app.screen
        assert isinstance(screen, TreeScreen)
        screen.reload()
        await play.pilot.pause()
        after = view_of(play).row
        assert "one more" in play.text
        assert before is not None
        assert after is not None
        assert before.entry.id == after.entry.id

    play(TreeScreen(desk), scene)
