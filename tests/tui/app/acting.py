"""What an agent does at a desk that does nothing by itself."""

from __future__ import annotations

from steno import ChatMessage
from steno.agent import Recorded, RunEnded, TurnStarted
from steno.agent.limits import Ending, RunResult
from steno.message import Message
from steno.usage import Usage
from tests.tui.fake_desk import FakeDesk


def record(desk: FakeDesk, message: Message) -> None:
    desk.happen(Recorded(desk.conversation.append(message)))


def end(desk: FakeDesk, ending: Ending = Ending.DONE, reason: str = "") -> None:
    desk.is_running = False
    desk.happen(RunEnded(RunResult(ending, None, 1, Usage(), reason=reason)))


def begin(desk: FakeDesk, text: str) -> None:
    desk.is_running = True
    record(desk, ChatMessage.user(text))
    desk.happen(TurnStarted(1))
