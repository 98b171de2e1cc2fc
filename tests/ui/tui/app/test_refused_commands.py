"""A command that is refused does not stand in the way of the next one."""

from __future__ import annotations

import pytest

from steno.errors import InvalidValue, Missing
from tests.ui.fake_session import FakeSession
from tests.ui.tui.app.screen_user import ScreenUser, play_scene
from tests.ui.tui.tree_app import alternating_messages

pytestmark = pytest.mark.requirement("S4-15")
UNFINISHED = "this session stopped in the middle"


def test_a_command_in_which_nothing_can_be_mended_leaves_the_prompt_empty() -> None:
    desk = FakeSession()
    desk.replies["retry"] = Missing("retry: everything that was said has been answered")

    async def scene(person: ScreenUser) -> None:
        await person.type("/retry ")
        await person.press("enter")
        await person.sees("✗ retry: everything")
        assert person.typed == ""
        await person.type("/usage ")
        await person.press("enter")
        await person.sees("done: usage")

    play_scene(desk, scene)


def test_a_command_with_a_slip_comes_back() -> None:
    desk = FakeSession()
    desk.replies["mode"] = InvalidValue("/mode: must be one of plan, act")
    desk.replies["hlep"] = Missing("/hlep: there is no such command")

    async def scene(person: ScreenUser) -> None:
        for typed in ("/mode plam", "/hlep"):
            await person.enter(typed)
            await person.until(lambda: person.typed != "")
            assert person.typed == typed

    play_scene(desk, scene)


@pytest.mark.parametrize("typed", ["/retry/help", "/clear/quit now", "/export/home"])
def test_two_commands_in_one_word_are_not_said_to_the_model(typed: str) -> None:
    desk = FakeSession()
    name, _, rest = typed[1:].partition(" ")
    desk.replies[name] = Missing(f"/{name}: there is no such command")

    async def scene(person: ScreenUser) -> None:
        await person.enter(typed)
        await person.sees(f"✗ /{name}: there is no such command")
        assert desk.asked == [("command", name, rest)]

    play_scene(desk, scene)


def test_a_path_is_still_said() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        await person.enter("/usr/bin/env: what is it?")
        await person.until(lambda: desk.asked)
        assert desk.asked[0][0] == "say"

    play_scene(desk, scene)


def test_who_forks_where_it_stopped_is_not_told_that_it_did() -> None:
    desk = FakeSession(alternating_messages("hello?"))

    async def scene(person: ScreenUser) -> None:
        await person.sees("hello?")
        desk.is_unfinished = True
        desk.branches.fork("aside")
        await person.until(lambda: "⎇ aside" in person.status)
        assert UNFINISHED not in person.text

    play_scene(desk, scene)
