"""The tree of a conversation, made of nodes that refer to their parents, and branches.

A branch refers to its last node. The entry and the parent of a node never change, so branches
share their common nodes. This module neither locks nor stores anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar, final, overload

from msgspec import Struct

from steno.errors import OutOfOrder
from steno.log.blobs import blob_digests
from steno.messages.call import AnyToolCall
from steno.messages.message import Message, SystemMessage, ToolResultMessage
from steno.messages.order import OrderState
from steno.records.entry import Entry, Mode, ModeChange, ModelChange, Redacted

T = TypeVar("T")

CONVERSATION_KINDS: Final = frozenset(
    {"user", "shell_command", "assistant", "tool_result", "feedback"}
)
"""The kinds of entries that a model receives, other than system messages and summaries."""


class EffectiveSettings(NamedTuple):
    """The mode and the model in force after an entry."""

    mode: Mode = Mode.ACT
    model: str | None = None


_DEFAULT_SETTINGS: Final = EffectiveSettings()


# Not `gc=False`: without the garbage collector, msgspec would free a long chain recursively.
@final
class EntryNode(Struct, eq=False):
    """An entry with its parent node. The ancestors never change, so branches share them."""

    entry: Entry
    parent: EntryNode | None
    settings: EffectiveSettings
    """The settings in force after the entry, stored to avoid a walk through its ancestors."""
    digest: str | None = None
    """The digest of the entry; without a store, None until it is needed."""


def add_node(entry: Entry, parent: EntryNode | None, digest: str | None = None) -> EntryNode:
    """Return a node for an entry, with the settings in force after it."""
    settings = _DEFAULT_SETTINGS if parent is None else parent.settings
    payload = entry.payload
    if type(payload) is ModeChange:
        settings = settings._replace(mode=payload.new)
    elif type(payload) is ModelChange:
        settings = settings._replace(model=payload.new)
    return EntryNode(entry, parent, settings, digest)


def settings_at(node: EntryNode | None) -> EffectiveSettings:
    """Return the settings in force after a node; the default settings if `node` is None."""
    return _DEFAULT_SETTINGS if node is None else node.settings


@final
class PrefixView(Sequence[T]):
    """A snapshot of a list that only grows, without a copy of its elements."""

    __slots__ = ("_elements", "_length")

    def __init__(self, elements: list[T]) -> None:
        """Create a view of the elements now in the list; elements added later are not in it."""
        self._elements = elements
        self._length = len(elements)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple([self._elements[at] for at in range(self._length)[index]])
        return self._elements[range(self._length)[index]]

    def __iter__(self) -> Iterator[T]:
        return islice(self._elements, self._length)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (PrefixView, tuple)) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"PrefixView({self._length})"


def ends_beginning(entry: Entry) -> bool:
    """Return whether a later system message is not part of the beginning of the context.

    A redacted entry counts like the original: otherwise, the redaction of a prompt would add the
    system message after it to the beginning, and a model would receive it although it was cleared.
    """
    payload = entry.payload
    kind = payload.kind if isinstance(payload, Redacted) else payload.__struct_config__.tag
    return kind in CONVERSATION_KINDS


@final
class ContextBeginning:
    """The system messages with which a context begins, and which a clear keeps.

    They are before any other message and any feedback, which a model receives as a message.
    """

    __slots__ = ("_has_ended",)

    def __init__(self) -> None:
        self._has_ended = False

    def read(self, entry: Entry) -> bool:
        """Read the next entry of a branch; return whether it is one of these system messages."""
        if entry.clears_context:
            self._has_ended = False
        elif not self._has_ended:
            self._has_ended = ends_beginning(entry)
        return not self._has_ended and isinstance(entry.payload, SystemMessage)


@final
class BranchPath:
    """The entries of a branch from the first to the head, and the messages in its context."""

    __slots__ = ("_beginning", "entries", "messages", "system_count", "with_blobs")

    def __init__(self, head: EntryNode | None) -> None:
        self.entries: list[Entry] = []
        """The entries in order. The list only grows; a rewind creates a new path."""
        self.messages: list[Message] = []
        """The messages that no later entry clears."""
        self.system_count = 0
        """The number of system messages with which the context begins."""
        self._beginning = ContextBeginning()
        self.with_blobs: list[int] = []
        """The positions in `messages` of the messages that refer to blobs."""
        for node in reversed(list(_ancestors(head))):
            self.add(node.entry)

    def add(self, entry: Entry) -> None:
        """Append the next entry and, if it has one, its message."""
        self.entries.append(entry)
        if self._beginning.read(entry):
            self.system_count += 1
        message = entry.message
        if message is not None:
            if blob_digests(message):
                self.with_blobs.append(len(self.messages))
            self.messages.append(message)
        elif entry.clears_context:  # system messages have no blobs
            del self.messages[self.system_count :]
            self.with_blobs.clear()


# `gc=False`: nothing in the tree points to a branch, so it is never part of a cycle.
@final
class Branch(Struct, gc=False, eq=False):
    """A branch, defined by its last node. The path and the order state are built on first use."""

    head: EntryNode | None = None
    head_id: str | None = None
    """The id of the last entry, which is known before the entry is loaded."""
    path: BranchPath | None = None
    order: OrderState | None = None

    def load_path(self) -> BranchPath:
        """Return the path to the head, which is built on first use."""
        if self.path is None:
            self.path = BranchPath(self.head)
        return self.path

    def set_head(self, node: EntryNode, order: OrderState) -> None:
        """Make `node` the head, and `order` the order state after it."""
        if node.parent is not self.head:
            self.path = None
        elif self.path is not None:
            self.path.add(node.entry)
        self.head, self.head_id, self.order = node, node.entry.id, order


def branch_at(head: EntryNode | None) -> Branch:
    """Return a new branch with a head that is in memory; an empty branch if the head is None."""
    return Branch(head, None if head is None else head.entry.id)


def _ancestors(node: EntryNode | None) -> Iterable[EntryNode]:
    while node is not None:
        yield node
        node = node.parent


def order_after(head: EntryNode | None) -> OrderState:
    """Return the order state of a branch that ends with `head`.

    Messages that are out of order are skipped.
    """
    order = OrderState()
    for message in reversed(_last_turn(head)):
        try:
            order = order.after(message)
        except OutOfOrder:
            continue
    return order


def find_call_in_last_turn(head: EntryNode | None, call_id: str) -> AnyToolCall | None:
    """Return the call of the last turn with this id; None if there is none.

    Earlier turns are not searched, because their calls never wait for a result.
    """
    for turn in _last_turn(head)[-1:]:
        for call in turn.tool_calls:
            if call.id == call_id:
                return call
    return None


def _last_turn(head: EntryNode | None) -> list[Message]:
    """Return the last turn of a branch, newest message first.

    It consists of the tool results at the end of the branch and the message before them. A clear
    ends the search.
    """
    messages: list[Message] = []
    for node in _ancestors(head):
        message = node.entry.message
        if message is not None:
            messages.append(message)
            if not isinstance(message, ToolResultMessage):
                break
        elif node.entry.clears_context:
            break
    return messages
