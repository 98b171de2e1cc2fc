"""The content of the log benchmarks: messages of a given size, and long sessions.

A text is an excerpt of a synthetic coding session, each from another position, so that no two are
equal. User and assistant messages alternate: the shortest possible step of a conversation.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count, islice
from pathlib import Path
from typing import Generic, TypeVar

from bench.conversation import make_conversation
from steno import ChatMessage, Message
from steno.codec import encode_entry
from steno.ids import utc_now
from steno.log.conversation import Conversation
from steno.records.stored_record import Header, Record
from steno.store import MemoryStore, Store, open_store

STORES = ("jsonl", "sqlite")
SIZE = 500
"""The default size of an encoded entry in bytes."""
SESSION = "long"
_T = TypeVar("_T")


@cache
def _corpus() -> str:
    return "\n".join(turn.text for turn in make_conversation(4_000) if turn.text)


def texts(size: int = SIZE) -> Iterator[str]:
    """Yield texts without end whose entries take about `size` bytes each."""
    corpus = _corpus()
    length = size - _OVERHEAD - size // 25  # JSON escapes line ends and quotes
    stride = length + 977
    for number in count():
        start = number * stride % (len(corpus) - length)
        yield corpus[start : start + length]


def messages(size: int = SIZE) -> Iterator[Message]:
    """Yield user and assistant messages in turn, without end."""
    said = texts(size)
    while True:
        yield ChatMessage.user(next(said))
        yield ChatMessage.assistant(next(said))


def _measure_overhead() -> int:
    conversation = Conversation([ChatMessage.user("x")])
    return len(encode_entry(conversation.append(ChatMessage.assistant("x")))) - 1


_OVERHEAD = _measure_overhead()


@cache
def records(length: int, size: int = SIZE) -> tuple[Record, ...]:
    """Return the records of a session with `length` entries."""
    store = MemoryStore()
    store.new(islice(messages(size), length), id=SESSION)
    return tuple(store.records(SESSION))


def open_filled(kind: str, folder: Path, length: int) -> Store:
    """Create a store in `folder` with one session of `length` entries."""
    make_folder(folder, fresh=True)
    store = open_store(address(kind, folder))
    store.add_session(Header(id=SESSION, created_at=utc_now()), records(length))
    return store


def make_folder(folder: Path, *, fresh: bool) -> None:
    """Create a folder; with `fresh`, delete the existing one first."""
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)


def address(kind: str, folder: Path) -> str:
    """Return the address of the one store in `folder`."""
    return f"{kind}:{folder / 'store'}"


class Stage(Generic[_T]):
    """An object of a given length that the benchmark extends, and that is then created again.

    It may grow by a fifth, or by ten if that is more: an object of length 10 stays near 10.
    """

    def __init__(self, length: int, step: int, make: Callable[[], _T]) -> None:
        """Set the length, the growth per use, and the function that creates the object."""
        self._limit = max(10, length // 5)
        self._step = step
        self._make = make
        self._grown = self._limit
        self._made: _T | None = None

    def __call__(self) -> _T:
        """Return the object for one more use."""
        if self._made is None or self._grown + self._step > self._limit:
            self._made = self._make()
            self._grown = 0
        self._grown += self._step
        return self._made
