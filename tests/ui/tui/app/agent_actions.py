"""What an agent does at a desk that does nothing by itself."""

from __future__ import annotations

from steno import ChatMessage
from steno.agent import EntryRecorded, RunEnded, TurnStarted
from steno.agent.events import EndReason, RunResult
from steno.messages.message import Message
from steno.messages.usage import Usage
from tests.ui.fake_session import FakeSession


def record_message(desk: FakeSession, message: Message) -> None:
    desk.happen(EntryRecorded(desk.conversation.append(message)))


def end_run(desk: FakeSession, ending: EndReason = EndReason.DONE, reason: str = "") -> None:
    desk.is_running = False
    desk.happen(RunEnded(RunResult(ending, None, 1, Usage(), reason=reason)))


def begin_run(desk: FakeSession, text: str) -> None:
    desk.is_running = True
    record_message(desk, ChatMessage.user(text))
    desk.happen(TurnStarted(1))
