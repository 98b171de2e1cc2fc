"""The interface of a measured log, and steno's implementation.

Peers are in another module, so that opening a steno store does not import them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from bench.log_content import SESSION, address, messages, open_filled
from steno.log.conversation import Conversation
from steno.store import open_store


class Log(Protocol):
    """One conversation in the store of any library."""

    at_once: int
    """The number of steps that are timed together."""
    cycle: int
    """The number of steps after which all deferred work is done."""

    def step(self, times: int) -> None:
        """Store a user message, read all messages, store an answer."""
        ...

    def store(self, times: int) -> None:
        """Do the same without operations that write only temporary files."""
        ...

    def read(self) -> Sequence[object]:
        """Return all messages, ready to be sent."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class Steno:
    """A steno conversation that stays open, as in an interactive program."""

    at_once = 5
    cycle = 1_200

    def __init__(self, kind: str, folder: Path, length: int = 0) -> None:
        """Fill a new store with `length` messages, or open the existing one."""
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
