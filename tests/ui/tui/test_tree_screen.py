"""The tree screen: its content, and every key."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.events import Paste
from textual.widgets import Input

from steno import ChatMessage
from steno.agent import PromptInput
from steno.errors import Damaged
from steno.records.entry import Approval, ApprovalStatus
from steno.render.quantities import format_time
from steno.ui.tui.screens.compare_screen import CompareScreen
from steno.ui.tui.screens.tree_screen import TreeScreen, TreeView
from steno.ui.tui.screens.widgets import InputScreen, PickerScreen
from tests.ui.fake_session import FakeBranches, FakeSession
from tests.ui.tui.tree_app import (
    UNSET,
    BusyBranches,
    CountedTree,
    ScriptedBranches,
    TreeUser,
    alternating_messages,
    calls_and_results,
    run_steps,
    three_branches,
    two_branches,
)


def view_of(user: TreeUser) -> TreeView:
    return user.app.screen.query_one(TreeView)


def number_of(user: TreeUser) -> int | None:
    """Return the number of the entry under the cursor; None on a folded run."""
    row = view_of(user).row
    return None if row is None else row.number


def entry(session: FakeSession, number: int) -> str:
    return session.branches.all_rows()[number - 1].entry.id


def folded_session(calls: int = 10) -> FakeSession:
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
    async def steps(user: TreeUser) -> None:
        assert user.lines[0] == " Tree of a test · 6 entries · 2 branches"
        assert user.lines[1:7] == [
            "● #1 user  how do I list files",
            "● #2 assistant  use ls",
            "├─○ #3 user  and by age",
            "│ ○ #4 assistant ← other  use ls -t",
            "● #5 user  and hidden ones",
            "● #6 assistant ← main (active)  use ls -a",
        ]

    assert run_steps(TreeScreen(two_branches()), steps) is UNSET


def test_the_cursor_starts_at_the_end_of_the_active_branch() -> None:
    session = two_branches()
    session.conversation.switch("other")

    async def steps(user: TreeUser) -> None:
        assert number_of(user) == len(session.branches.all_rows())
        assert "← other (active)" in user.lines[view_of(user).cursor + 1]

    run_steps(TreeScreen(session), steps)


def test_only_the_active_path_is_bold() -> None:
    async def steps(user: TreeUser) -> None:
        await user.press("home")
        view = view_of(user)
        strips = [view.render_line(y) for y in range(len(view.lines))]
        bold = [any(s.style is not None and s.style.bold for s in strip) for strip in strips[1:3]]
        assert bold == [True, False]

    run_steps(TreeScreen(two_branches()), steps)


def test_a_narrow_terminal_shows_everything_that_is_needed() -> None:
    async def steps(user: TreeUser) -> None:
        assert "← main (active)" in user.text
        assert "? keys" in user.lines[-1]
        await user.press("question_mark")
        assert "Esc q  close" in user.lines[-1]
        assert "← main (active)" in user.text
        await user.press("question_mark")
        assert "Esc q  close" not in user.text

    run_steps(TreeScreen(two_branches()), steps, size=(60, 20))


def test_the_entry_is_beside_the_tree_where_there_is_room() -> None:
    async def steps(user: TreeUser) -> None:
        assert "│ #6 assistant" in user.text
        await user.press("up", "up")
        assert "│ branch other ends here" in user.text
        await user.press("space")
        assert "branch other ends here" not in user.text

    run_steps(TreeScreen(two_branches()), steps, size=(110, 30))


def test_the_entry_is_below_the_tree_when_it_is_asked_for_and_can_be_read_to_its_end() -> None:
    session = FakeSession(alternating_messages("\n".join(f"line {n}" for n in range(100)), "ok"))
    [shown, _] = session.conversation.entries()

    async def steps(user: TreeUser) -> None:
        await user.press("up")
        assert format_time(shown.time) not in user.text
        await user.press("space")
        assert format_time(shown.time) in user.text
        assert " line 0" in user.lines
        await user.press("tab", "end")
        assert " line 99" in user.lines
        assert number_of(user) == 1
        await user.press("tab", "down")
        assert number_of(user) == 2

    run_steps(TreeScreen(session), steps, size=(60, 20))


def test_an_entry_shows_the_decision_and_its_actor() -> None:
    session = two_branches()
    session.conversation.append(
        Approval(
            call_id="c1",
            status=ApprovalStatus.DENIED,
            arguments_sha256="0" * 64,
            actor="ann",
            reason="not today",
        )
    )

    async def steps(user: TreeUser) -> None:
        assert "denied by ann" in user.text
        assert "not today" in user.text

    run_steps(TreeScreen(session), steps, size=(110, 30))


def test_an_empty_session_is_shown_as_empty_and_accepts_every_key() -> None:
    async def steps(user: TreeUser) -> None:
        assert " this session has no entries yet" in user.lines
        await user.press(*"fleca/x", "enter", "escape", "n", "escape")
        await user.press("enter", "up", "end", "left", "right", "space")
        assert " this session has no entries yet" in user.lines

    assert run_steps(TreeScreen(FakeSession()), steps) is UNSET


def test_a_tree_that_takes_long_to_read_leaves_the_keys_alive_meanwhile() -> None:
    class SlowBranches(FakeBranches):
        is_read = asyncio.Event()

        async def rows(self) -> Any:
            await self.is_read.wait()
            return self.all_rows()

    session = two_branches()
    session.branches = slow = SlowBranches(session)

    async def steps(user: TreeUser) -> None:
        assert " loading …" in user.lines
        await user.press("f", "enter", "down", "question_mark")
        assert " loading …" in user.lines
        assert "Space  toggle entry" in user.text
        slow.is_read.set()
        await user.pilot.pause()
        assert " loading …" not in user.lines
        assert user.lines[0] == " Tree of a test · 6 entries · 2 branches"
        assert number_of(user) == 6

    assert run_steps(TreeScreen(session), steps) is UNSET


def test_a_tree_that_is_not_read_yet_can_be_left() -> None:
    class EndlessBranches(FakeBranches):
        async def rows(self) -> Any:
            await asyncio.Event().wait()

    session = two_branches()
    session.branches = EndlessBranches(session)

    async def steps(user: TreeUser) -> None:
        await user.press("escape")

    assert run_steps(TreeScreen(session), steps) is None


def test_a_record_that_cannot_be_drawn_is_reported() -> None:
    class DamagedBranches(FakeBranches):
        async def rows(self) -> Any:
            raise Damaged("session: what came before an entry is not there; see steno verify")

    session = two_branches()
    session.branches = DamagedBranches(session)

    async def steps(user: TreeUser) -> None:
        assert "see steno verify" in user.text
        await user.press("escape")

    assert run_steps(TreeScreen(session), steps) is None


# -- moving ------------------------------------------------------------------------------------


def test_every_key_that_moves_the_cursor() -> None:
    session = FakeSession(alternating_messages(*[f"words {n}" for n in range(100)]))

    async def steps(user: TreeUser) -> None:
        seen = []
        for key in ("up", "home", "down", "pagedown", "pageup", "up", "up", "end", "down"):
            await user.press(key)
            seen.append(number_of(user))
        page = view_of(user).size.height - 1
        assert seen == [99, 1, 2, 2 + page, 2, 1, 1, 100, 100]
        assert user.line("words 99")

    run_steps(TreeScreen(session), steps, size=(60, 20))


def test_left_and_right_go_to_where_branches_part_or_end() -> None:
    async def steps(user: TreeUser) -> None:
        seen = []
        for key in ("left", "left", "left", "right", "right", "right"):
            await user.press(key)
            seen.append(number_of(user))
        assert seen == [4, 2, 2, 4, 6, 6]

    run_steps(TreeScreen(two_branches()), steps)


def test_a_folded_run_opens_with_enter() -> None:
    async def steps(user: TreeUser) -> None:
        assert user.line("…") == "⋮ … 20 entries"
        await user.press("up")
        assert number_of(user) is None
        await user.press("f")
        assert " folded; press Enter to unfold" in user.lines
        await user.press("enter")
        assert number_of(user) == 2
        assert "entries" not in "\n".join(user.lines[1:])

    assert run_steps(TreeScreen(folded_session()), steps) is UNSET


def test_all_is_shown_and_folded_again() -> None:
    async def steps(user: TreeUser) -> None:
        lines = []
        for _ in range(2):
            await user.press("a")
            lines.append(len(view_of(user).lines))
        assert lines == [22, 3]
        assert number_of(user) == 22

    run_steps(TreeScreen(folded_session()), steps)


def test_a_click_moves_the_cursor() -> None:
    async def steps(user: TreeUser) -> None:
        await user.pilot.click(TreeView, offset=(5, 2))
        await user.pilot.pause()
        assert number_of(user) == 3

    run_steps(TreeScreen(two_branches()), steps)


# -- searching ---------------------------------------------------------------------------------


def test_a_search_finds_folded_text_and_moves_in_both_directions() -> None:
    async def steps(user: TreeUser) -> None:
        await user.press("slash")
        await user.type("FILE")
        await user.press("enter")
        seen = [number_of(user)]
        for key in ("n", "n", "N"):
            await user.press(key)
            seen.append(number_of(user))
        assert seen == [1, 3, 5, 3]

    assert run_steps(TreeScreen(folded_session()), steps) is UNSET


def test_a_search_without_matches_can_be_corrected() -> None:
    async def steps(user: TreeUser) -> None:
        await user.press("slash")
        await user.type("age!")
        await user.press("enter")
        assert "no entry contains this text" in user.text
        await user.press("backspace", "enter")
        assert isinstance(user.app.screen, TreeScreen)
        assert number_of(user) == 3

    run_steps(TreeScreen(two_branches()), steps)


def test_next_asks_for_words_where_there_were_none() -> None:
    async def steps(user: TreeUser) -> None:
        await user.press("n")
        assert isinstance(user.app.screen, InputScreen)
        await user.press("enter")
        assert "no entry contains this text" in user.text
        await user.press("escape")
        assert number_of(user) == 6

    run_steps(TreeScreen(two_branches()), steps)


# -- going elsewhere ---------------------------------------------------------------------------


def test_enter_at_the_end_of_a_branch_goes_over_to_it() -> None:
    session = two_branches()

    async def steps(user: TreeUser) -> None:
        await user.press("left", "enter")

    assert run_steps(TreeScreen(session), steps) is None
    assert session.asked == [("switch", "other")]


def test_enter_at_the_end_of_the_active_branch_changes_nothing() -> None:
    session = two_branches()

    async def steps(user: TreeUser) -> None:
        await user.press("enter")

    assert run_steps(TreeScreen(session), steps) is None
    assert session.asked == []


def test_one_of_several_branches_that_end_here_is_selected() -> None:
    session = two_branches()
    session.conversation.fork("twin")

    async def steps(user: TreeUser) -> None:
        await user.press("enter")
        assert isinstance(user.app.screen, PickerScreen)
        await user.type("twin")
        await user.press("enter")

    assert run_steps(TreeScreen(session), steps) is None
    assert session.asked == [("switch", "twin")]


def test_enter_on_another_entry_forks_there_under_the_offered_name() -> None:
    session = two_branches()
    at = entry(session, 2)

    async def steps(user: TreeUser) -> None:
        await user.press("home", "down", "enter")
        assert user.app.screen.query_one(Input).value == "fork-1"
        await user.press("enter")

    assert run_steps(TreeScreen(session), steps) is None
    assert session.asked == [("fork", "fork-1", at)]
    assert session.status.branch == "fork-1"


def test_f_forks_at_the_end_of_a_branch_as_well_with_a_name_of_ones_own() -> None:
    session = two_branches()
    at = entry(session, 4)

    async def steps(user: TreeUser) -> None:
        await user.press("left", "f")
        await user.type("faster")
        await user.press("enter")

    assert run_steps(TreeScreen(session), steps) is None
    assert session.asked == [("fork", "faster", at)]


def test_a_name_that_is_taken_or_blank_is_refused_and_can_be_changed() -> None:
    session = two_branches()

    async def steps(user: TreeUser) -> None:
        await user.press("f")
        await user.type("other")
        await user.press("enter")
        assert "a branch with this name already exists" in user.text
        await user.press(*["backspace"] * 5, "space", "enter")
        assert "branch: the name is blank" in user.text
        assert session.branches.names() == ["main", "other"]
        await user.type("mine")
        await user.press("enter")

    assert run_steps(TreeScreen(session), steps) is None
    assert session.status.branch == "mine"


def test_b_goes_over_to_a_branch_by_its_name() -> None:
    session = three_branches()

    async def steps(user: TreeUser) -> None:
        await user.press("b")
        await user.type("third")
        await user.press("enter")

    assert run_steps(TreeScreen(session), steps) is None
    assert session.asked == [("switch", "third")]


def test_e_returns_the_prompt_and_moves_before_it() -> None:
    session = two_branches()
    said = entry(session, 5)

    async def steps(user: TreeUser) -> None:
        await user.press("up", "e")
        assert user.app.screen.query_one(Input).value == "edit-1"
        await user.press("enter")

    result = run_steps(TreeScreen(session), steps)
    assert result == PromptInput("and hidden ones")
    assert session.asked[0] == ("fork_before", said, "edit-1")
    assert session.status.branch == "edit-1"


def test_only_prompts_of_the_user_can_be_edited() -> None:
    session = two_branches()

    async def steps(user: TreeUser) -> None:
        await user.press("e")
        assert "only your own messages" in user.text
        await user.press("up", "e")
        assert isinstance(user.app.screen, InputScreen)
        await user.press("escape")
        assert "only your own messages" not in user.text

    assert run_steps(TreeScreen(session), steps) is UNSET
    assert session.asked == []


def test_l_labels_an_entry_and_stays_there() -> None:
    session = two_branches()
    target = entry(session, 3)

    async def steps(user: TreeUser) -> None:
        await user.press("up", "up", "up", "l")
        assert "Label of #3" in user.text
        await user.type("12")
        await user.press("enter")
        assert "label: must not look like the number of an entry" in user.text
        await user.type(" ideas")
        await user.press("enter")
        assert user.line("[12 ideas]") == "├─○ #3 user [12 ideas]  and by age"
        assert number_of(user) == 3

    assert run_steps(TreeScreen(session), steps) is UNSET
    assert session.asked == [("label", target, "12 ideas")]


@pytest.mark.parametrize("key", ["escape", "q"])
def test_the_tree_is_left_as_it_was(key: str) -> None:
    session = two_branches()

    async def steps(user: TreeUser) -> None:
        await user.press("home", key)

    assert run_steps(TreeScreen(session), steps) is None
    assert session.asked == []


# -- refusals ----------------------------------------------------------------------------------


def test_a_refused_move_is_shown_and_the_tree_stays() -> None:
    session = two_branches()
    session.branches = BusyBranches(session)

    async def steps(user: TreeUser) -> None:
        await user.press("left", "enter")
        assert "the agent is at work" in user.text
        assert number_of(user) == 4
        await user.press("up", "space", "l", "escape")
        assert "the agent is at work" not in user.text

    assert run_steps(TreeScreen(session), steps) is UNSET


@pytest.mark.parametrize("key", ["f", "e", "l"])
def test_a_refusal_keeps_the_name_that_was_typed(key: str) -> None:
    session = two_branches()
    session.branches = BusyBranches(session)

    async def steps(user: TreeUser) -> None:
        await user.press("up", key)
        await user.type("mine")
        await user.press("enter")
        assert "the agent is at work" in user.text
        assert user.app.screen.query_one(Input).value == "mine"
        session.branches = FakeBranches(session)
        await user.press("enter")
        assert not isinstance(user.app.screen, InputScreen)

    run_steps(TreeScreen(session), steps)
    assert [asked for asked in session.asked if "mine" in asked]


# -- comparing ---------------------------------------------------------------------------------


def test_the_only_two_branches_are_compared_at_once() -> None:
    async def steps(user: TreeUser) -> None:
        await user.press("c")
        assert isinstance(user.app.screen, CompareScreen)
        assert "main" in user.lines[1]
        assert "other" in user.lines[1]
        await user.press("escape")
        assert isinstance(user.app.screen, TreeScreen)

    assert run_steps(TreeScreen(two_branches()), steps) is UNSET


def test_escape_closes_only_the_keys_where_all_of_them_are_shown() -> None:
    async def steps(user: TreeUser) -> None:
        await user.press("question_mark")
        assert "go to branch point" in user.text
        await user.press("escape")
        assert "go to branch point" not in user.text
        assert isinstance(user.app.screen, TreeScreen)
        await user.press("escape")

    assert run_steps(TreeScreen(two_branches()), steps) is None


@pytest.mark.parametrize("key", ["slash", "l", "f", "e"])
@pytest.mark.parametrize("size", [(60, 20), (100, 30)])
def test_text_typed_into_a_dialog_is_visible(key: str, size: tuple[int, int]) -> None:
    async def steps(user: TreeUser) -> None:
        await user.press("home", key)
        assert isinstance(user.app.screen, InputScreen)
        await user.type("seen")
        assert "seen" in user.text

    run_steps(TreeScreen(two_branches()), steps, size=size)


def test_going_over_to_a_branch_while_comparing_leaves_the_tree() -> None:
    session = two_branches()

    async def steps(user: TreeUser) -> None:
        await user.press("c", "right", "enter")

    assert run_steps(TreeScreen(session), steps) is None
    assert session.asked == [("switch", "other")]


def test_one_branch_cannot_be_compared() -> None:
    async def steps(user: TreeUser) -> None:
        await user.press("c")
        assert "only one branch" in user.text

    run_steps(TreeScreen(folded_session()), steps)


def test_of_several_branches_one_is_marked_and_then_compared_with_another() -> None:
    session = three_branches()

    async def steps(user: TreeUser) -> None:
        await user.press("c")
        assert user.line("(compare)").startswith("● #8 assistant ← main (active) (compare)")
        await user.press("left", "c")
        assert isinstance(user.app.screen, CompareScreen)
        names = user.lines[1].split()
        await user.press("escape")
        assert "(compare)" not in user.text
        assert names == ["▸", "main", "◂", "other"]

    run_steps(TreeScreen(session), steps)


def test_a_mark_is_taken_back_where_it_was_given() -> None:
    async def steps(user: TreeUser) -> None:
        await user.press("c", "c")
        assert isinstance(user.app.screen, TreeScreen)
        assert "compare:" not in user.text
        assert "(compare)" not in user.text

    run_steps(TreeScreen(three_branches()), steps)


def test_one_of_several_branches_through_an_entry_is_compared() -> None:
    async def steps(user: TreeUser) -> None:
        await user.press("home", "c")
        assert isinstance(user.app.screen, PickerScreen)
        await user.type("third")
        await user.press("enter", "end", "c")
        assert isinstance(user.app.screen, CompareScreen)
        assert user.lines[1].split() == ["third", "▸", "main", "◂"]

    run_steps(TreeScreen(three_branches()), steps)


# -- looks, size and strangers -----------------------------------------------------------------


def test_ten_thousand_entries_cost_as_much_as_are_on_the_screen() -> None:
    session = FakeSession(alternating_messages(*[f"words {n}" for n in range(10_000)]))
    rows = CountedTree([row._replace(is_notable=True) for row in session.branches.all_rows()])
    session.branches = ScriptedBranches(session, rows)

    async def steps(user: TreeUser) -> None:
        assert len(view_of(user).lines) == 10_000
        assert len(user.app.screen.query("*")) < 20
        for keys in (["up"], ["home"], ["end"], ["pageup"], ["up"] * 10, ["right"]):
            rows.looks = 0
            await user.press(*keys)
            assert 0 < rows.looks < 400 * len(keys)
        assert "words 9999" in user.text

    run_steps(TreeScreen(session), steps, size=(60, 20))


def test_text_of_entries_labels_and_branches_is_never_markup() -> None:
    hostile = (
        "[bold red]x[/] \x1b]8;;http://evil\x07link\x1b[2J \u202eabc\r\nnext [@click=app.quit]y"
    )
    session = FakeSession([ChatMessage.user(hostile), ChatMessage.assistant(hostile)])
    session.conversation.label(session.conversation.entries()[0].id, hostile)
    session.conversation.fork(hostile)
    session.conversation.fork("third")

    async def steps(user: TreeUser) -> None:
        assert "[bold red]x[/]" in user.text
        await user.press("home")
        seen = [user.text]
        for key in ("space", "b", "escape", "end", "c", "escape", "l", "escape"):
            await user.press(key)
            seen.append(user.text)
        assert not any(sign in text for text in seen for sign in "\x1b\x07\u202e\r")
        assert "\\x1b]8;;http://evil" in seen[0]

    assert run_steps(TreeScreen(session), steps, size=(120, 30)) is UNSET


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light"])
def test_without_colours_all_parts_can_be_distinguished(
    theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def steps(user: TreeUser) -> None:
        user.app.theme = theme
        await user.pilot.pause()
        for key in ("home", "c"):
            await user.press(key)
            strips = user.app.screen._compositor.render_strips()
            styles = [segment.style for strip in strips for segment in strip if segment.style]
            colours = [c.triplet for s in styles for c in (s.color, s.bgcolor) if c and c.triplet]
            assert {len({c.red, c.green, c.blue}) for c in colours} == {1}
            assert len(set(colours)) > 3

    run_steps(TreeScreen(two_branches()), steps)


def test_a_pasted_name_is_never_markup() -> None:
    session = two_branches()

    async def steps(user: TreeUser) -> None:
        await user.press("f")
        user.app.screen.query_one(Input).post_message(Paste("a\x1b[2J\u202eb  c"))
        await user.pilot.pause()
        assert not any(sign in user.text for sign in "\x1b\u202e")
        await user.press("enter")

    assert run_steps(TreeScreen(session), steps) is None
    assert session.status.branch == r"a\x1b[2J\u202eb c"


def test_rails_that_reach_too_far_leave_room_for_words() -> None:
    session = FakeSession(alternating_messages("a", "b"))
    rows = [row._replace(graph_prefix="| " * 80) for row in session.branches.all_rows()]
    session.branches = ScriptedBranches(session, rows)

    async def steps(user: TreeUser) -> None:
        assert "#1 user" in user.lines[1]
        assert user.lines[1].startswith("…")

    run_steps(TreeScreen(session), steps, size=(60, 20))


def test_a_tree_that_has_grown_is_shown_anew_with_the_cursor_where_it_was() -> None:
    session = two_branches()

    async def steps(user: TreeUser) -> None:
        await user.press("up")
        before = view_of(user).row
        session.conversation.append(ChatMessage.user("one more"))
        screen = user.app.screen
        assert isinstance(screen, TreeScreen)
        screen.reload()
        await user.pilot.pause()
        after = view_of(user).row
        assert "one more" in user.text
        assert before is not None
        assert after is not None
        assert before.entry.id == after.entry.id

    run_steps(TreeScreen(session), steps)
