"""The compare screen: its content, and every key."""

from __future__ import annotations

import pytest
from textual import events

from steno import ChatMessage
from steno.errors import Missing
from steno.ui.tui.screens.compare_screen import CompareScreen, CompareView
from tests.ui.fake_session import FakeSession
from tests.ui.tui.tree_app import (
    UNSET,
    BusyBranches,
    TreeUser,
    alternating_messages,
    branch_off,
    run_steps,
    two_branches,
)

WIDE = (100, 30)
NARROW = (60, 20)


def screen(session: FakeSession) -> CompareScreen:
    return CompareScreen(session, session.branches.all_rows(), "main", "other")


def view_of(user: TreeUser) -> CompareView:
    return user.app.screen.query_one(CompareView)


def long_desk(turns: int = 50) -> FakeSession:
    """Return two branches, of which only the answers 9 and 19 differ."""
    session = FakeSession(alternating_messages("begin", "ok"))
    texts = [text for n in range(turns) for text in (f"question {n}", f"answer {n}")]
    changed = [f"{text} then" if text in ("answer 9", "answer 19") else text for text in texts]
    branch_off(session, "other", 1, alternating_messages(*changed))
    for message in alternating_messages(*texts):
        session.conversation.append(message)
    return session


# -- what is shown -----------------------------------------------------------------------------


@pytest.mark.requirement("S4-15")
def test_two_branches_are_shown_beside_each_other() -> None:
    async def steps(user: TreeUser) -> None:
        assert user.lines[0] == " Compare · 2 differences"
        shown = [" ".join(line.split()) for line in user.lines[1:9]]
        assert shown == [
            "▸ main ◂ other",
            "2 shared entries up to #2 · Enter show",
            "",
            "▌#5 user ≠ #3 user",
            "▌and hidden ones │ and by age",
            "",
            "#6 assistant ≠ #4 assistant",
            "use ls -a │ use ls -t",
        ]

    assert run_steps(screen(two_branches()), steps, size=WIDE) is UNSET


def test_in_a_narrow_terminal_the_parts_are_stacked() -> None:
    async def steps(user: TreeUser) -> None:
        assert user.lines[4:8] == [
            "▌1 #5 user",
            "▌1 and hidden ones",
            "▌2 #3 user",
            "▌2 and by age",
        ]
        assert "Esc" in user.lines[-1]

    run_steps(screen(two_branches()), steps, size=NARROW)


def test_equal_entries_are_shown_once_in_a_narrow_terminal() -> None:
    async def steps(user: TreeUser) -> None:
        assert user.lines[4:7] == ["▌= #23 user", "▌= question 0", ""]

    session = long_desk(10)
    run_steps(screen(session), steps, size=NARROW)


def test_only_the_words_that_differ_stand_out() -> None:
    async def steps(user: TreeUser) -> None:
        strips = [view_of(user).render_line(y) for y in range(10)]
        marked = [
            segment.text
            for strip in strips
            for segment in strip
            if segment.style is not None and segment.style.underline
        ]
        assert marked == ["hidden", "ones", "by", "age", "a", "t"]

    run_steps(screen(two_branches()), steps, size=WIDE)


def test_an_entry_that_only_one_branch_has_stands_alone() -> None:
    session = two_branches()
    session.conversation.append(ChatMessage.user("and colours"))

    async def steps(user: TreeUser) -> None:
        await user.press("end")
        assert user.line("#7 user").rstrip().endswith("≠")
        assert user.line("and colours").rstrip().endswith("│")

    run_steps(screen(session), steps, size=WIDE)


def test_the_past_is_shown_and_hidden() -> None:
    async def steps(user: TreeUser) -> None:
        await user.press("up", "enter")
        assert "Enter hide" in user.text
        assert user.line("how do I list files").count("how do I list files") == 2
        await user.press("enter")
        assert "how do I list files" not in user.text

    assert run_steps(screen(two_branches()), steps, size=WIDE) is UNSET


def test_branches_without_a_past_in_common_say_so() -> None:
    session = FakeSession()
    session.conversation.fork("other")
    for branch in ("main", "other"):
        session.conversation.append(ChatMessage.user(f"hello {branch}"), branch=branch)

    async def steps(user: TreeUser) -> None:
        assert " these branches share no entries" in user.lines
        await user.press("home", "enter")
        assert " hello main" in user.text

    run_steps(screen(session), steps, size=WIDE)


def test_branches_that_are_the_same_have_nothing_to_show_but_that() -> None:
    session = FakeSession(alternating_messages("a", "b"))
    session.conversation.fork("other")

    async def steps(user: TreeUser) -> None:
        assert user.lines[0] == " Compare · no differences"
        await user.press("n", "p", "down", "pagedown", "pageup", "end", "s")
        assert "▌2 shared entries up to #2 · Enter show" in user.lines

    run_steps(screen(session), steps, size=WIDE)


def test_a_branch_that_is_not_there_is_refused() -> None:
    with pytest.raises(Missing):
        CompareScreen(two_branches(), (), "main", "nowhere")


def test_a_record_that_changed_meanwhile_is_refused() -> None:
    session = two_branches()
    rows = session.branches.all_rows()
    session.conversation.append(ChatMessage.user("one more"))
    with pytest.raises(Missing) as caught:
        CompareScreen(session, rows, "main", "other")
    assert caught.value.code == "session_changed"


# -- moving ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_the_keys_go_from_difference_to_difference(size: tuple[int, int]) -> None:
    async def steps(user: TreeUser) -> None:
        seen = []
        for key in ("n", "n", "n", "p", "p"):
            await user.press(key)
            seen.append(view_of(user).cursor)
        assert seen == [20, 40, 40, 20, 20]
        assert "answer 9 then" in user.text

    run_steps(screen(long_desk()), steps, size=size)


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_the_cursor_is_always_in_sight(size: tuple[int, int]) -> None:
    async def steps(user: TreeUser) -> None:
        last = len(view_of(user).state) - 1
        keys = ["down"] * 12 + ["pagedown"] * 3 + ["up"] * 12 + ["pageup", "end", "up", "home"]
        for key in keys:
            await user.press(key)
            assert "▌" in user.text
            assert 0 <= view_of(user).cursor <= last
        assert "▌2 shared" in user.text
        await user.press(*["pagedown"] * 30)
        assert view_of(user).cursor == last
        assert "answer 49" in user.text
        await user.press(*["pageup"] * 30)
        assert view_of(user).cursor == 0

    run_steps(screen(long_desk()), steps, size=size)


def test_an_item_that_is_too_long_is_read_line_by_line() -> None:
    session = two_branches()
    session.conversation.append(ChatMessage.user("\n".join(f"line {n}." for n in range(60))))
    session.conversation.append(ChatMessage.assistant("the end"))

    async def steps(user: TreeUser) -> None:
        await user.press("down", "down")
        assert view_of(user).cursor == 3
        assert "line 0." in user.text
        await user.press(*["down"] * 60)
        assert "line 59." in user.text
        await user.press(*["up"] * 70)
        assert "2 shared entries" in user.text

    run_steps(screen(session), steps, size=WIDE)


def test_both_sides_scroll_together_with_the_wheel() -> None:
    async def steps(user: TreeUser) -> None:
        view = view_of(user)
        for direction in (events.MouseScrollDown, events.MouseScrollUp):
            before = user.text
            view.post_message(direction(view, 5, 5, 0, 0, 0, False, False, False))
            await user.pilot.pause()
            assert user.text != before
        assert "shared" in user.text

    run_steps(screen(long_desk()), steps, size=WIDE)


# -- sides -------------------------------------------------------------------------------------


def test_it_starts_on_the_side_of_the_active_branch_and_an_arrow_shows_that() -> None:
    session = two_branches()
    session.conversation.switch("other")

    async def steps(user: TreeUser) -> None:
        assert user.lines[1].split() == ["main", "▸", "other", "◂"]
        await user.press("left")
        assert user.lines[1].split() == ["▸", "main", "◂", "other"]

    run_steps(screen(session), steps, size=WIDE)


def test_enter_goes_over_to_the_branch_that_is_not_active() -> None:
    session = two_branches()

    async def steps(user: TreeUser) -> None:
        await user.press("right", "enter")

    assert run_steps(screen(session), steps) is True
    assert session.asked == [("switch", "other")]


def test_the_active_branch_is_where_one_is_already() -> None:
    session = two_branches()

    async def steps(user: TreeUser) -> None:
        await user.press("enter")
        assert "this branch is already active" in user.text
        await user.press("right", "enter")

    assert run_steps(screen(session), steps) is True


def test_swapping_keeps_the_branch_that_was_chosen() -> None:
    session = two_branches()

    async def steps(user: TreeUser) -> None:
        await user.press("right", "s")
        assert user.lines[1].split() == ["▸", "other", "◂", "main"]
        assert " ".join(user.line("#3").split()) == "▌#3 user ≠ #5 user"
        await user.press("enter")

    assert run_steps(screen(session), steps, size=WIDE) is True
    assert session.asked == [("switch", "other")]


def test_a_refusal_is_shown_and_the_comparison_stays() -> None:
    session = two_branches()
    session.branches = BusyBranches(session)

    async def steps(user: TreeUser) -> None:
        await user.press("right", "enter")
        assert "the agent is at work" in user.text

    assert run_steps(screen(session), steps) is UNSET


@pytest.mark.parametrize("key", ["escape", "q"])
def test_the_comparison_is_left(key: str) -> None:
    async def steps(user: TreeUser) -> None:
        await user.press(key)

    assert run_steps(screen(two_branches()), steps) is None


# -- size and strangers ------------------------------------------------------------------------


def test_of_many_entries_only_those_in_sight_are_put_into_words() -> None:
    session = long_desk(2_500)

    async def steps(user: TreeUser) -> None:
        view = view_of(user)
        assert len(view.state) == 5_001
        assert len(view._drawn) < 60
        await user.press("end", "n", "p", "home", "pagedown")
        assert len(view._drawn) <= 256
        assert len(user.app.screen.query("*")) < 20

    run_steps(screen(session), steps, size=WIDE)


def test_text_of_branches_and_entries_is_never_markup() -> None:
    hostile = (
        "[bold red]x[/] \x1b]8;;http://evil\x07link\x1b[2J \u202eabc\r\n\ttab [@click=app.quit]"
    )
    session = FakeSession(alternating_messages("a", "b"))
    branch_off(session, hostile, 1, alternating_messages(hostile, hostile + "!"))
    for message in alternating_messages(hostile + "?", hostile):
        session.conversation.append(message)

    async def steps(user: TreeUser) -> None:
        assert "[bold red]x[/]" in user.text
        await user.press("up", "enter", "s", "n", "end")
        assert not any(sign in user.text for sign in "\x1b\x07\u202e\r\t")

    rows = session.branches.all_rows()
    for size in (WIDE, NARROW):
        assert run_steps(CompareScreen(session, rows, "main", hostile), steps, size=size) is UNSET


def test_a_very_long_entry_is_cut_and_says_so() -> None:
    session = two_branches()
    session.conversation.append(ChatMessage.user("word " * 10_000))

    async def steps(user: TreeUser) -> None:
        await user.press("end", *["down"] * 3, "pagedown", *["pagedown"] * 40)
        assert "… 30,000 more characters" in user.text

    run_steps(screen(session), steps, size=WIDE)
