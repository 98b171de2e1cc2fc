"""The tree that a conversation is: entries that know what came before them, and named ends of it.

A node never changes, so branches share what they have in common. Nothing here locks or stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar, final, overload

from msgspec import Struct

from steno.aside import digests_of
from steno.call import AnyToolCall
from steno.entry import Entry, Mode, ModeChange, ModelChange
from steno.errors import OutOfOrder
from steno.message import Message, ToolResultMessage
from steno.order import Order
from steno.views import mode_of, model_of

T = TypeVar("T")


class InForce(NamedTuple):
    """What was set before or at an entry, and holds until it is set again."""

    mode: Mode = Mode.ACT
    model: str | None = None


_NOTHING_SET: Final = InForce()
_SETTINGS: Final[frozenset[type]] = frozenset({ModeChange, ModelChange})


@final
class Node:
    """An entry in its place. What is behind `parent` never changes, so it is shared."""

    __slots__ = ("digest", "entry", "settings", "parent")

    def __init__(self, entry: Entry, parent: Node | None, digest: str | None) -> None:
        self.entry = entry
        self.parent = parent
        self.digest = digest
        # Shared with the entries around it: to ask for it never takes a walk.
        self.settings: InForce = _NOTHING_SET if parent is None else parent.settings
        if type(entry.payload) in _SETTINGS:
            self.settings = _after(self.settings, entry)


def in_force_at(node: Node | None) -> InForce:
    """Return what holds behind an entry."""
    return _NOTHING_SET if node is None else node.settings


def _after(before: InForce, entry: Entry) -> InForce:
    return InForce(mode_of((entry,), before.mode), model_of((entry,)) or before.model)


@final
class Prefix(Sequence[T]):
    """The beginning of a list that only grows: as good as a copy of it, and made at once."""

    __slots__ = ("_grown", "_length")

    def __init__(self, growing: list[T]) -> None:
        """Take a list; what is added to it later is not seen."""
        self._grown = growing
        self._length = len(growing)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple([self._grown[at] for at in range(self._length)[index]])
        return self._grown[range(self._length)[index]]

    def __iter__(self) -> Iterator[T]:
        return islice(self._grown, self._length)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Prefix, tuple)) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Prefix({self._length})"


@final
class Path:
    """The entries up to a head, and what is said among them."""

    __slots__ = ("with_blobs", "entries", "messages")

    def __init__(self, head: Node | None) -> None:
        self.entries: list[Entry] = []
        """It only grows; a branch that goes another way gets another path."""
        self.messages: list[Message] = []
        self.with_blobs: list[int] = []
        """Which of these have parts that lie beside the record."""
        for node in reversed(list(_back_from(head))):
            self.add(node.entry)

    def add(self, entry: Entry) -> None:
        """Go on to the next entry."""
        self.entries.append(entry)
        message = entry.message
        if message is not None:
            if digests_of(message):
                self.with_blobs.append(len(self.messages))
            self.messages.append(message)


# Nothing in the tree points to a branch, so it is in no cycle that would have to be looked for.
@final
class Branch(Struct, gc=False, eq=False):
    """A named end of the tree. What can be derived from it is made when it is first asked for."""

    head: Node | None = None
    head_id: str | None = None
    """Known before the entry is loaded."""
    path: Path | None = None
    order: Order | None = None

    def load_path(self) -> Path:
        """Return the path to the head; it is walked once."""
        if self.path is None:
            self.path = Path(self.head)
        return self.path

    def set_head(self, node: Node, order: Order) -> None:
        """Make `node` the new head."""
        if node.parent is not self.head:
            self.path = None
        elif self.path is not None:
            self.path.add(node.entry)
        self.head, self.head_id, self.order = node, node.entry.id, order


def branch_to(head: Node | None) -> Branch:
    """Make a branch that ends with an entry that is in memory."""
    return Branch(head, None if head is None else head.entry.id)


def _back_from(node: Node | None) -> Iterable[Node]:
    while node is not None:
        yield node
        node = node.parent


def order_after(head: Node | None) -> Order:
    """Find out what may come next; a record that is out of order itself is taken as it is."""
    order = Order()
    for message in reversed(_last_turn(head)):
        try:
            order = order.after(message)
        except OutOfOrder:
            continue
    return order


def call_of_last_turn(head: Node | None, call_id: str) -> AnyToolCall | None:
    """Find a call that may still await its result; those of earlier turns never do."""
    for turn in _last_turn(head)[-1:]:
        for call in turn.tool_calls:
            if call.id == call_id:
                return call
    return None


def _last_turn(head: Node | None) -> list[Message]:
    """Return what was said last that is no result, behind the results that came after it."""
    said: list[Message] = []
    for node in _back_from(head):
        message = node.entry.message
        if message is not None:
            said.append(message)
            if not isinstance(message, ToolResultMessage):
                break
    return said
