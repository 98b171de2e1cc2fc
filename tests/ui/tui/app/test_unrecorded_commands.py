"""Commands of the person on the whole screen that never came on record."""

from __future__ import annotations

import pytest

from steno import ChatMessage
from steno.agent import EntryRecorded
from steno.app.session import ErrorRaised, ShellEnded, ShellOutput, ShellStarted
from steno.render.items import CallState, ItemKind
from tests.ui.fake_session import FakeSession
from tests.ui.tui.app.screen_user import ScreenUser, play_scene

pytestmark = pytest.mark.requirement("S4-15")


def test_a_command_whose_record_failed_is_not_taken_for_the_next_one_of_its_name() -> None:
    desk = FakeSession()

    async def scene(person: ScreenUser) -> None:
        desk.happen(ShellStarted("ls"), ShellOutput("lost\n"))
        desk.happen(ErrorRaised("session: the disk is full"), ShellEnded(0))
        desk.happen(ShellStarted("ls"), ShellOutput("kept\n"))
        said = ChatMessage.user("$ ls\nkept\n")
        audit = {"shell": "ls", "status": 0}
        desk.happen(EntryRecorded(desk.conversation.append(said, audit=audit)), ShellEnded(0))
        await person.sees("✗ session: the disk is full")
        blocks = person.blocks(ItemKind.SHELL)
        assert [(one.join_chunks(), one.entry is None) for one in blocks] == [
            ("lost\n", True),
            ("kept\n", False),
        ]
        assert {one.state for one in blocks} == {CallState.DONE}

    play_scene(desk, scene)
