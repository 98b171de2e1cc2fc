"""A rejected prompt in a terminal without line editing is printed, so that it can be copied."""

from __future__ import annotations

import pytest

from steno.errors import InvalidValue
from tests.ui.fake_session import FakeSession
from tests.ui.plain.line_user import LineUser, at_terminal, through_a_pipe

pytestmark = pytest.mark.requirement("S4-15")


def refusing() -> FakeSession:
    session = FakeSession()
    session.refusal = InvalidValue("not now")
    return session


def test_refused_words_are_printed_where_the_line_cannot_be_filled() -> None:
    async def act(user: LineUser) -> None:
        user.type("a long\\\n")
        user.type("thought\n")
        await user.see("Not sent:\n  a long\n  thought\nError: not now\n")

    at_terminal(act, refusing())


def test_refused_words_of_a_pipe_are_printed_once() -> None:
    user = through_a_pipe("a thought\n", refusing())
    assert "You: a thought\nError: not now\n" in user.said
    assert "Not sent" not in user.said
