"""What a log is to the measurements, and ours as one.

Peers are in another file: who only opens a store of ours need not load them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from bench.log_content import SESSION, address, messages, open_filled
from steno.log.conversation import Conversation
from steno.store import open_store


class Log(Protocol):
    """One conversation in somebody's store."""

    at_once: int
    """How many steps are timed together."""
    cycle: int
    """After how many steps all that was put off has been done."""

    def step(self, times: int) -> None:
        """Store a question, ask for everything, store an answer."""
        ...

    def store(self, times: int) -> None:
        """Do the same without what writes nothing that stays."""
        ...

    def read(self) -> Sequence[object]:
        """Return all messages, ready to be sent."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class Steno:
    """Ours: a conversation that stays open, as it does in a program that talks."""

    at_once = 5
    cycle = 1_200

    def __init__(self, kind: str, folder: Path, length: int = 0) -> None:
        """Fill a new store with `length` messages, or open what is there."""
        filled = open_filled(kind, folder, length) if length else None
        self._store = filled or open_store(address(kind, folder))
        self._conversation: Conversation = self._store.open(SESSION)
        self._said = messages()

    def step(self, times: int) -> None:
        """Append twice, and read between."""
        conversation, said = self._conversation, self._said
        for _ in range(times):
            conversation.append(next(said))
            conversation.messages()
            conversation.append(next(said))

    store = step

    def read(self) -> Sequence[object]:
        """Read the session."""
        return self._conversation.messages()

    def close(self) -> None:
        """Close the store."""
        self._store.close()
