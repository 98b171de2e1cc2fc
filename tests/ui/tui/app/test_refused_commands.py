"""A rejected command returns to the prompt only if it can be corrected."""

from __future__ import annotations

import pytest

from steno.errors import InvalidValue, Missing
from steno.ui.help_text import UNFINISHED_NOTICE
from tests.ui.fake_session import FakeSession
from tests.ui.tui.app.screen_user import ScreenUser, run_with_screen
from tests.ui.tui.tree_app import alternating_messages

pytestmark = pytest.mark.requirement("S4-15")


def test_a_command_that_cannot_be_corrected_leaves_the_prompt_empty() -> None:
    session = FakeSession()
    session.replies["retry"] = Missing("retry: everything that was said has been answered")

    async def steps(user: ScreenUser) -> None:
        await user.type("/retry ")
        await user.press("enter")
        await user.sees("✗ retry: everything")
        assert user.typed == ""
        await user.type("/usage ")
        await user.press("enter")
        await user.sees("done: usage")

    run_with_screen(session, steps)


def test_a_command_with_a_slip_comes_back() -> None:
    session = FakeSession()
    session.replies["mode"] = InvalidValue("/mode: must be one of plan, act")
    session.replies["hlep"] = Missing("/hlep: unknown command")

    async def steps(user: ScreenUser) -> None:
        for typed in ("/mode plam", "/hlep"):
            await user.enter(typed)
            await user.until(lambda: user.typed != "")
            assert user.typed == typed

    run_with_screen(session, steps)


@pytest.mark.parametrize("typed", ["/retry/help", "/clear/quit now", "/export/home"])
def test_two_commands_in_one_word_are_not_sent_to_the_model(typed: str) -> None:
    session = FakeSession()
    name, _, rest = typed[1:].partition(" ")
    session.replies[name] = Missing(f"/{name}: unknown command")

    async def steps(user: ScreenUser) -> None:
        await user.enter(typed)
        await user.sees(f"✗ /{name}: unknown command")
        assert session.asked == [("run_command", name, rest)]

    run_with_screen(session, steps)


def test_a_prompt_that_begins_with_a_path_is_sent() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        await user.enter("/usr/bin/env: what is it?")
        await user.until(lambda: session.asked)
        assert session.asked[0][0] == "send"

    run_with_screen(session, steps)


def test_a_fork_at_an_interruption_does_not_report_it_again() -> None:
    session = FakeSession(alternating_messages("hello?"))

    async def steps(user: ScreenUser) -> None:
        await user.sees("hello?")
        session.is_unfinished = True
        session.branches.fork("aside")
        await user.until(lambda: "⎇ aside" in user.status)
        assert UNFINISHED_NOTICE not in user.text

    run_with_screen(session, steps)
