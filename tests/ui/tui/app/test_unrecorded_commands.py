"""Shell commands in the full screen that could not be recorded."""

from __future__ import annotations

import pytest

from steno import ChatMessage
from steno.agent import EntryRecorded
from steno.agent.session_events import ErrorRaised, ShellEnded, ShellOutput, ShellStarted
from steno.render.items import CallState, ItemKind
from tests.ui.fake_session import FakeSession
from tests.ui.tui.app.screen_user import ScreenUser, run_with_screen

pytestmark = pytest.mark.requirement("S4-15")


def test_a_command_whose_record_failed_is_not_taken_for_the_next_one_of_its_name() -> None:
    session = FakeSession()

    async def steps(user: ScreenUser) -> None:
        session.happen(ShellStarted("ls"), ShellOutput("lost\n"))
        session.happen(ErrorRaised("session: the disk is full"), ShellEnded(0))
        session.happen(ShellStarted("ls"), ShellOutput("kept\n"))
        said = ChatMessage.user("$ ls\nkept\n")
        audit = {"shell": "ls", "status": 0}
        session.happen(EntryRecorded(session.conversation.append(said, audit=audit)), ShellEnded(0))
        await user.sees("✗ session: the disk is full")
        items = user.blocks(ItemKind.SHELL)
        assert [(one.join_chunks(), one.entry is None) for one in items] == [
            ("lost\n", True),
            ("kept\n", False),
        ]
        assert {one.state for one in items} == {CallState.DONE}

    run_with_screen(session, steps)
