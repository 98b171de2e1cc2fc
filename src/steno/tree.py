"""The tree that a conversation is: entries that know what came before them, and named ends of it.

A node never changes, so branches share what they have in common. Nothing here locks or stores.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from steno.aside import digests_of
from steno.entry import Entry
from steno.errors import OutOfOrder
from steno.message import Message, ToolResultMessage
from steno.order import Order


@final
class Node:
    """An entry in its place. What is behind `parent` never changes, so it is shared."""

    __slots__ = ("digest", "entry", "parent")

    def __init__(self, entry: Entry, parent: Node | None, digest: str | None) -> None:
        self.entry = entry
        self.parent = parent
        self.digest = digest


_NOTHING_SAID: Final[list[Message]] = []
_NOTHING_ASIDE: Final[list[int]] = []


@final
class Branch:
    """A named end of the tree. What can be derived from it is made when it is first asked for."""

    __slots__ = ("aside", "head", "head_id", "order", "path", "said")

    def __init__(self, head: Node | None, head_id: str | None = None) -> None:
        self.head = head
        self.head_id = head_id if head is None else head.entry.id
        """Known before the entry is loaded."""
        self.path: list[Entry] | None = None
        # Made with the path: a fork that nobody reads should cost next to nothing.
        self.said = _NOTHING_SAID
        """The messages among the path."""
        self.aside = _NOTHING_ASIDE
        """Which of these have parts that lie beside the record."""
        self.order: Order | None = None

    def lay_out(self) -> list[Entry]:
        """Return the path to the head; it is walked once."""
        if self.path is None:
            self.path = [node.entry for node in _back_from(self.head)][::-1]
            self.said, self.aside = [], []
            for entry in self.path:
                self._hear(entry)
        return self.path

    def _hear(self, entry: Entry) -> None:
        message = entry.message
        if message is not None:
            if digests_of(message):
                self.aside.append(len(self.said))
            self.said.append(message)

    def move(self, node: Node, order: Order) -> None:
        """Make `node` the new head."""
        if node.parent is not self.head:
            self.path = None
        elif self.path is not None:
            self.path.append(node.entry)
            self._hear(node.entry)
        self.head, self.head_id, self.order = node, node.entry.id, order


def _back_from(node: Node | None) -> Iterable[Node]:
    while node is not None:
        yield node
        node = node.parent


def order_after(head: Node | None) -> Order:
    """Find out what may come next; a record that is out of order itself is taken as it is."""
    said: list[Message] = []
    for node in _back_from(head):
        message = node.entry.message
        if message is not None:
            said.append(message)
            if not isinstance(message, ToolResultMessage):
                break
    order = Order()
    for message in reversed(said):
        try:
            order = order.after(message)
        except OutOfOrder:
            continue
    return order
