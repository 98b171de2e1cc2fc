"""What a run has come to so far, for when it ends in a way that leaves no result."""

from __future__ import annotations

from typing import final

from steno.agent import Ending, LoopEvent, Recorded, RunResult, TurnStarted
from steno.errors import StenoError
from steno.event import TextDelta
from steno.message import AssistantMessage, ChatMessage
from steno.usage import Usage


@final
class Tally:
    """Watches a run and adds up."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._turns = 0
        self._usage = Usage()
        self._message: AssistantMessage | None = None
        self._unrecorded: list[str] = []

    def on_event(self, event: LoopEvent) -> None:
        """Take note of an event."""
        match event:
            case TurnStarted(number):
                self._turns = number
            case TextDelta():
                self._unrecorded.append(event.text)
            case Recorded(entry) if isinstance(entry.payload, AssistantMessage):
                self._message = entry.payload
                self._usage += entry.payload.usage or Usage()
                self._unrecorded = []
            case _:
                pass

    def result(self, ending: Ending, exc: Exception | None = None) -> RunResult:
        """Return what came of a run that a signal or an error has ended."""
        message, said = self._message, "".join(self._unrecorded)
        if said:  # what could not be recorded can still be read
            message = ChatMessage.assistant(said)
        return RunResult(
            ending,
            message,
            self._turns,
            self._usage,
            reason="" if exc is None else str(exc) or type(exc).__name__,
            error=exc if isinstance(exc, StenoError) else None,
        )
