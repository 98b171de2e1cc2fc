"""Lines from a pipe or a file: each line waits until the run before it has ended."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path

import pytest

from steno.agent import PromptInput
from steno.agent.events import RunEnded
from steno.agent.session_events import PendingCallsChanged
from steno.app.approval_queue import PendingCall
from steno.app.commands.report import Report
from steno.errors import Missing
from steno.messages.event import TextDelta
from steno.ports import ApprovalDecision
from steno.ui.plain.session import run_plain
from tests.ui.fake_session import FakeSession
from tests.ui.plain.line_user import result, through_a_pipe
from tests.ui.tui.approval_app import pending_call, queued_call


class Answering(FakeSession):
    """A session that answers later, and requests approvals first."""

    def __init__(self, *questions: PendingCall) -> None:
        super().__init__()
        self._questions = questions

    async def send(self, prompt: PromptInput) -> None:
        await super().send(prompt)
        self.is_running = True
        asyncio.get_running_loop().call_soon(self._work, prompt.text)

    def _work(self, text: str) -> None:
        self.pending_calls = list(self._questions)
        if self.pending_calls:
            self.happen(PendingCallsChanged())
        else:
            self._answer(text)

    def _answer(self, text: str) -> None:
        self.happen(TextDelta(0, f"about {text}"))
        self.is_running = False
        self.happen(RunEnded(result()))

    def decide(self, call_id: str, decision: ApprovalDecision) -> None:
        super().decide(call_id, decision)
        if not self.pending_calls:
            self._answer("that")


def said(session: FakeSession) -> list[str]:
    return [asked[1].text for asked in session.asked if asked[0] == "send"]


def test_each_line_waits_for_the_turn_before_it() -> None:
    user = through_a_pipe("one\n/usage\ntwo\n", Answering())
    told = [line for line in user.said.split("\n") if line.startswith(("You", "Answer", "Reply"))]
    assert told == [
        "You: one",
        "Answer: about one",
        "You: /usage",
        "Reply: done: usage",
        "You: two",
        "Answer: about two",
    ]


def test_the_last_line_needs_no_end() -> None:
    assert said(through_a_pipe("one\ntwo", Answering()).session) == ["one", "two"]


def test_nothing_at_all_leaves_at_once() -> None:
    assert through_a_pipe("").session.asked == []


def test_arguments_of_quit_are_ignored() -> None:
    assert said(through_a_pipe("/quit\none\n").session) == []


@pytest.mark.requirement("S2-18")
def test_a_question_takes_the_next_line() -> None:
    user = through_a_pipe("go\nonce\nmore\n", Answering(pending_call()))
    assert user.decisions[0] == ("call_1", ApprovalDecision(allowed=True, actor="ann"))
    assert said(user.session)[:2] == ["go", "more"]


@pytest.mark.requirement("S2-18")
def test_requests_without_a_reply_in_the_input_are_denied_with_a_reason() -> None:
    user = through_a_pipe("go\n", Answering(pending_call("c1"), queued_call("c2")))
    assert [(id, one.allowed) for id, one in user.decisions] == [("c2", False), ("c1", False)]
    assert {one.reason for _, one in user.decisions} == {"the input ended before a decision"}


def test_lines_go_on_behind_a_backslash() -> None:
    assert said(through_a_pipe("one\\\ntwo\\\nthree\n").session) == ["one\ntwo\nthree"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ('"""\none\n\ntwo\n"""\n', "one\n\ntwo"),
        ('"""one\n/quit"""\n', "one\n/quit"),
        ('"""one"""\n', "one"),
        ('"""one\ntwo\n', "one\ntwo"),
        ("one\\\n", "one"),
    ],
)
def test_three_quotes_hold_a_text_of_several_lines(typed: str, meant: str) -> None:
    assert said(through_a_pipe(typed).session) == [meant]


def test_invisible_characters_are_not_sent_to_a_model() -> None:
    assert said(through_a_pipe("on\x1b[31me\n").session) == ["one"]


def test_a_shell_command_goes_to_the_desk() -> None:
    assert through_a_pipe("!git status\n").session.asked == [("run_shell", "git status")]


def test_a_refusal_is_reported_and_the_session_continues() -> None:
    session = FakeSession()
    session.refusal = Missing("model: there is \x1b[2Jnone")
    user = through_a_pipe("one\ntwo\n", session)
    assert "\nError: model: there is \\x1b[2Jnone\n" in user.said
    assert said(session) == ["one", "two"]


def test_a_bug_is_reported_and_the_session_continues() -> None:
    class Faulty(FakeSession):
        async def run_command(self, name: str, argument: str = "") -> Report:
            raise ZeroDivisionError("by \x1b[2J")

    user = through_a_pipe("/usage\n/quit\n", Faulty())
    assert "\nError: a bug in steno: ZeroDivisionError: by \\x1b[2J;" in user.said


def test_a_file_is_read_as_a_pipe_is(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(f"one\n{'x' * 100_000}\ntwo\n")
    session, opened = Answering(), os.open(tmp_path / "script", os.O_RDONLY)
    try:
        out = io.StringIO()
        assert asyncio.run(run_plain(session, stdin=opened, stdout=out, environ={})) == 0
    finally:
        os.close(opened)
    assert said(session) == ["one", "x" * 100_000, "two"]


def test_a_closed_output_ends_the_session() -> None:
    end, other_end = os.pipe()
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with os.fdopen(writing, "w", closefd=False) as out:
            ended = run_plain(FakeSession(), stdin=end, stdout=out, environ={})
            assert asyncio.run(asyncio.wait_for(ended, 60)) == 1
            os.dup2(other_end, writing)  # so that what is left over goes somewhere
    finally:
        for descriptor in (end, other_end, writing):
            os.close(descriptor)


def test_a_session_can_be_cancelled() -> None:
    end, other_end = os.pipe()
    try:
        session = run_plain(FakeSession(), stdin=end, stdout=io.StringIO(), environ={})
        with pytest.raises(TimeoutError):
            asyncio.run(asyncio.wait_for(session, 0.01))
    finally:
        os.close(end)
        os.close(other_end)
