"""Actions of an agent in a scripted session."""

from __future__ import annotations

from steno import ChatMessage
from steno.agent import EntryRecorded, RunEnded, TurnStarted
from steno.agent.events import EndReason, RunResult
from steno.messages.message import Message
from steno.messages.usage import Usage
from tests.ui.fake_session import FakeSession


def record_message(session: FakeSession, message: Message) -> None:
    session.happen(EntryRecorded(session.conversation.append(message)))


def end_run(session: FakeSession, ending: EndReason = EndReason.DONE, reason: str = "") -> None:
    session.is_running = False
    session.happen(RunEnded(RunResult(ending, None, 1, Usage(), reason=reason)))


def begin_run(session: FakeSession, text: str) -> None:
    session.is_running = True
    record_message(session, ChatMessage.user(text))
    session.happen(TurnStarted(1))
