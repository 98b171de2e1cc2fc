"""What an agent does at a desk that does nothing by itself."""

from __future__ import annotations

from steno import ChatMessage
from steno.agent import EntryRecorded, RunEnded, TurnStarted
from steno.agent.events import EndReason, RunResult
from steno.messages.message import Message
from steno.messages.usage import Usage
from tests.tui.fake_desk import FakeDesk


def record(desk: FakeDesk, message: Message) -> None:
    desk.happen(EntryRecorded(desk.conversation.append(message)))


def end(desk: FakeDesk, ending: EndReason = EndReason.DONE, reason: str = "") -> None:
    desk.is_running = False
    desk.happen(RunEnded(RunResult(ending, None, 1, Usage(), reason=reason)))


def begin(desk: FakeDesk, text: str) -> None:
    desk.is_running = True
    record(desk, ChatMessage.user(text))
    desk.happen(TurnStarted(1))
