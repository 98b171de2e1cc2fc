"""The log of a conversation: a tree of entries that only grows, and named branches in it.

An entry knows its parent, so branches share their past and a fork costs nothing. Messages are
checked for their order as they come; what steers, decides or explains is recorded beside them.
With a journal, every entry is durable before it is seen. Nothing here knows how it is stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Any, Final, TypeVar, cast, final

from msgspec import Struct

from steno.errors import Conflict, Damaged, InvalidMessage, InvalidValue, LogError, Missing
from steno.ids import new_id, utc_now
from steno.log.chain import entry_digest
from steno.log.queries import labels_of
from steno.log.tree import (
    Branch,
    EntryNode,
    PrefixView,
    branch_at,
    find_call_in_last_turn,
    order_after,
    settings_at,
)
from steno.messages.call import AnyToolCall
from steno.messages.message import ChatMessage, Message, ToolResult
from steno.messages.order import OrderState
from steno.messages.outcome import Outcome
from steno.messages.repair import NO_RESULT_TEXT
from steno.ports import Journal
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    BranchSwitch,
    Entry,
    Label,
    Mode,
    ModeChange,
    ModelChange,
    Payload,
    PayloadT,
    Redacted,
    Rewind,
)
from steno.records.stored_record import MAIN_BRANCH
from steno.values import class_label as label_of
from steno.values import is_utf8_text

# -- recording -------------------------------------------------------------------------------------
#
# What is recorded of a conversation beside what is said: decisions, changes, names.
#
# Everything here is an entry like any other; a `Conversation` brings the place to append it to.


EnumT = TypeVar("EnumT", bound=StrEnum)


class EntryWriter(ABC):
    """Appends entries that are no messages, and results of calls that nobody will answer."""

    @abstractmethod
    def append(
        self,
        payload: Payload | ChatMessage,
        *,
        branch: str | None = None,
        decision: str | None = None,
        audit: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Put a payload at the end of a branch, and return its entry."""

    @abstractmethod
    def _append_built(
        self,
        make: Callable[[], Payload],
        *,
        decision: str | None = None,
        audit: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Put what `make` returns at the end of the active branch.

        Nothing is written between what `make` looks at and the entry. It may not write itself,
        and what it makes is no message.
        """

    @abstractmethod
    def entry(self, id: str | Entry) -> Entry:
        """Return one entry. Raises Missing."""

    @property
    @abstractmethod
    def outstanding(self) -> tuple[str, ...]:
        """Ids of the calls of the active branch that await their result."""

    @abstractmethod
    def outstanding_call(self, call_id: str) -> AnyToolCall:
        """Return a call of the active branch that awaits its result. Raises Missing."""

    @property
    @abstractmethod
    def mode(self) -> Mode:
        """The mode of the active branch."""

    @property
    @abstractmethod
    def model(self) -> str | None:
        """The model that answers on the active branch, if a change was ever recorded."""

    def decide(
        self,
        call_id: str,
        status: ApprovalStatus | str,
        *,
        actor: str | None = None,
        rule: str | None = None,
        reason: str | None = None,
        audit: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Record a decision about an outstanding call, bound to exactly its arguments.

        What else was decided with it, or led to it, goes into `audit`. Raises Missing if no call
        of the active branch awaits a result under this id.
        """
        decided = _parse_enum_member(ApprovalStatus, status)

        def approval() -> Approval:
            return Approval(
                call_id=call_id,
                status=decided,
                arguments_sha256=arguments_digest(self.outstanding_call(call_id)),
                actor=actor,
                rule=rule,
                reason=reason,
            )

        return self._append_built(approval, decision=str(decided), audit=audit)

    def change_mode(self, new: Mode | str) -> Entry:
        """Record that from here on the agent may look (plan) or also change things (act)."""
        mode = _parse_enum_member(Mode, new)
        return self._append_built(lambda: ModeChange(old=self.mode, new=mode))

    def change_model(self, new: str) -> Entry:
        """Record that another model answers from here on."""
        return self._append_built(lambda: ModelChange(old=self.model or "", new=new))

    def label(self, target: str | Entry, text: str) -> Entry:
        """Give an entry a name. Raises Missing if there is no such entry."""
        return self.append(Label(target=self.entry(target).id, text=text))

    def answer_outstanding(self, text: str = NO_RESULT_TEXT) -> tuple[Entry, ...]:
        """Answer the calls of an interrupted turn, so that the conversation can go on.

        Each gets a result that was cancelled, and says `text` to the model.
        """
        return tuple(
            [
                self.append(ToolResult.error(call_id, text, outcome=Outcome.CANCELLED))
                for call_id in self.outstanding
            ]
        )


def check_payload(payload: object) -> None:
    """Refuse what people take for something that can be appended. Raises InvalidMessage."""
    if isinstance(payload, str):
        raise InvalidMessage("conversation: text is said by somebody; ChatMessage.user(text)?")
    if isinstance(payload, dict):
        raise InvalidMessage("conversation: use ChatMessage.user(…) or steno.formats, not dict")
    if isinstance(payload, Redacted):
        raise InvalidMessage("conversation: content is taken out by a store, with `redact`")


def arguments_digest(call: AnyToolCall) -> str:
    """Return the SHA-256 of exactly the arguments of a call, to which a decision is bound."""
    return sha256(call.arguments.encode()).hexdigest()


def _parse_enum_member(kind: type[EnumT], value: EnumT | str) -> EnumT:
    """Return the member of an enumeration that a word names. Raises InvalidValue."""
    try:
        return kind(value)
    except ValueError:
        words = ", ".join(kind)
        raise InvalidValue(f"{label_of(kind)}: must be one of {words}") from None


class _PendingEntry(Struct, gc=False):
    """What is to be recorded, and what may come behind it."""

    payload: Payload
    order: OrderState
    decision: str | None = None
    audit: Mapping[str, Any] | None = None


@final
class Conversation(EntryWriter):
    """Entries of one conversation, in branches. Any number of threads may use it at once.

    Reading methods take the name of a branch; without one they mean the active branch. Readers
    see what is durable, and never wait for a disk.
    """

    def __init__(
        self,
        messages: Iterable[ChatMessage] = (),
        *,
        id: str | None = None,
        journal: Journal | None = None,
        new_id: Callable[[], str] = new_id,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Start a conversation with `messages`, or go on with the one that `journal` holds.

        Raises OutOfOrder at the first message that may not stand there.
        """
        self.id: Final = new_id() if id is None else id
        self._journal = journal
        self._new_id = new_id
        self._now = now
        self._write_lock = Lock()
        """Held while an entry is on its way to the disk."""
        self._state_lock = Lock()
        """Held for moments, by whoever reads or changes what is below."""
        self._nodes: dict[str, EntryNode] = {}
        self._branches: dict[str, Branch] = {MAIN_BRANCH: Branch()}
        self._active = MAIN_BRANCH
        self._unconfirmed: set[str] = set()
        """Branches of which we do not know whether the last entry was written."""
        if journal is not None:
            self._active = self._read_heads(journal)
        for message in messages:
            self.append(message)

    # -- writing -----------------------------------------------------------------------------

    def append(
        self,
        payload: Payload | ChatMessage,
        *,
        branch: str | None = None,
        decision: str | None = None,
        audit: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Put a message or another payload at the end of a branch, and return its entry.

        Raises OutOfOrder if a message may not come next, Missing for an unknown branch, Conflict
        if somebody else has written to it meanwhile, Unavailable if it cannot be stored.
        """
        with self._write_lock:
            name = self._active if branch is None else branch
            target = self._writable(name)
            order = self._order(target)
            if isinstance(payload, ChatMessage):
                order = order.after(payload)
            else:
                check_payload(payload)
            # Every message is one of the four; what is neither is refused by the entry.
            step = _PendingEntry(cast("Payload", payload), order, decision, audit)
            return self._put(name, target, target.head, step)

    async def append_async(
        self,
        payload: Payload | ChatMessage,
        *,
        branch: str | None = None,
        decision: str | None = None,
        audit: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Append without holding up the event loop while the disk works.

        If the task is cancelled meanwhile, the entry may be stored all the same.
        """
        import asyncio  # noqa: PLC0415 - it takes as long to load as all of steno

        write = partial(self.append, payload, branch=branch, decision=decision, audit=audit)
        return await asyncio.to_thread(write)

    def fork(self, name: str, *, at: str | Entry | None = None) -> None:
        """Begin a branch behind the entry `at`, or behind the last one. It shares all before it.

        The active branch stays active; `switch` goes over. Raises Conflict if the name is taken,
        Missing if there is no such entry.
        """
        if not is_utf8_text(name) or not name.strip():
            raise InvalidValue("fork: a branch needs a name")
        with self._write_lock:
            if name in self._branches:
                raise Conflict("fork: there is a branch of this name")
            source = self._branches[self._active]
            begun = Branch(source.head, source.head_id) if at is None else branch_at(self._node(at))
            if self._journal is not None:
                self._journal.begin_branch(name, begun.head_id)
            with self._state_lock:
                self._branches[name] = begun

    def switch(self, name: str) -> Entry:
        """Make another branch the active one, which is recorded there. Raises Missing."""
        with self._write_lock:
            target = self._writable(name)
            step = _PendingEntry(BranchSwitch(old=self._active, new=name), self._order(target))
            entry = self._put(name, target, target.head, step)
            self._active = name
            return entry

    def rewind(self, to: str | Entry, *, branch: str | None = None) -> Entry:
        """Let a branch go on from an earlier entry; what came after it stays in the record.

        Raises Missing if there is no such entry.
        """
        with self._write_lock:
            name = self._active if branch is None else branch
            target = self._writable(name)
            if target.head is None:
                raise Missing("rewind: the branch is empty")
            parent = self._node(to)
            step = _PendingEntry(Rewind(left=target.head.entry.id), order_after(parent))
            return self._put(name, target, parent, step)

    def refresh(self) -> None:
        """Take over what others have written to the journal; the active branch stays active."""
        if self._journal is not None:
            self._read_heads(self._journal)

    def clone(self) -> Conversation:
        """Return a conversation of its own with the same past, kept in memory.

        What happens in one is never seen in the other.
        """
        twin = Conversation(new_id=self._new_id, now=self._now)
        with self._write_lock:
            heads = {name: branch_at(self._loaded(name).head) for name in self._branches}
            with self._state_lock:
                twin._nodes, twin._branches = dict(self._nodes), heads
            twin._active = self._active
        return twin

    # -- reading -----------------------------------------------------------------------------

    @property
    def branch(self) -> str:
        """The name of the active branch."""
        return self._active

    @property
    def branches(self) -> dict[str, str | None]:
        """The last entry of every branch, by id; None where nothing was said yet."""
        with self._state_lock:
            return {name: branch.head_id for name, branch in self._branches.items()}

    def entries(self, branch: str | None = None) -> tuple[Entry, ...]:
        """Return the entries of a branch, from the first to its last. Raises Missing."""
        target = self._loaded(self._active if branch is None else branch)
        with self._state_lock:
            return tuple(target.load_path().entries)

    def entries_view(self, branch: str | None = None) -> PrefixView[Entry]:
        """Return the same, for whoever looks at the last few: it costs nothing, however many."""
        target = self._loaded(self._active if branch is None else branch)
        with self._state_lock:
            return PrefixView(target.load_path().entries)

    def messages(self, branch: str | None = None) -> tuple[Message, ...]:
        """Return what was said on a branch, in order; nothing else may ever reach a model.

        Images and results that lie beside the record are brought back; what is no longer there
        stays the reference that it is.
        """
        target = self._loaded(self._active if branch is None else branch)
        with self._state_lock:
            path = target.load_path()
            said, aside = list(path.messages), list(path.with_blobs)
        for number in aside:
            said[number] = self.restore_blobs(said[number])
        return tuple(said)

    def restore_blobs(self, payload: PayloadT) -> PayloadT:
        """Return a payload of an entry with what lies beside the record, as `messages` has it."""
        if self._journal is None:
            return payload
        try:
            return self._journal.restore_blobs(payload)
        except (Missing, Damaged):
            return payload

    def entry(self, id: str | Entry) -> Entry:
        """Return one entry of any branch. Raises Missing."""
        return self._node(id).entry

    def digest(self, id: str | Entry) -> str:
        """Return the digest of an entry, which no change to it or its past would leave the same."""
        node: EntryNode | None = self._node(id)
        unsealed: list[EntryNode] = []
        while node is not None and node.digest is None:
            unsealed.append(node)
            node = node.parent
        digest = None if node is None else node.digest
        for later in reversed(unsealed):
            later.digest = digest = entry_digest(later.entry, digest)
        assert digest is not None
        return digest

    @property
    def labels(self) -> dict[str, str]:
        """The entry that each label names, by id, whatever branch it was given on."""
        return {
            text: target
            for name in self.branches
            for text, target in labels_of(self.entries(name)).items()
        }

    @property
    def outstanding(self) -> tuple[str, ...]:
        """Ids of the calls of the active branch that await their result."""
        return self._order(self._loaded(self._active)).outstanding

    def outstanding_call(self, call_id: str) -> AnyToolCall:
        """Return a call of the active branch that awaits its result. Raises Missing."""
        target = self._loaded(self._active)
        is_waiting = call_id in self._order(target).outstanding
        call = find_call_in_last_turn(target.head, call_id) if is_waiting else None
        if call is None:
            raise Missing("conversation: no outstanding call has this id")
        return call

    @property
    def mode(self) -> Mode:
        """The mode of the active branch: what the agent may do now."""
        return settings_at(self._loaded(self._active).head).mode

    @property
    def model(self) -> str | None:
        """The model that answers on the active branch; None if no change was ever recorded."""
        return settings_at(self._loaded(self._active).head).model

    def __len__(self) -> int:
        return len(self.entries_view())

    def __repr__(self) -> str:
        return (
            f"Conversation(id={self.id!r}, branch={self._active!r}, branches={len(self._branches)})"
        )

    # -- inside ------------------------------------------------------------------------------

    def _append_built(
        self,
        make: Callable[[], Payload],
        *,
        decision: str | None = None,
        audit: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Append what is made when nobody else can write: what it was made from still holds."""
        with self._write_lock:
            name = self._active
            target = self._writable(name)
            step = _PendingEntry(make(), self._order(target), decision, audit)
            return self._put(name, target, target.head, step)

    def _put(
        self, name: str, target: Branch, parent: EntryNode | None, step: _PendingEntry
    ) -> Entry:
        """Store an entry, then let it be seen."""
        journal, payload = self._journal, step.payload
        entry = Entry(
            id=self._new_id(),
            parent=None if parent is None else parent.entry.id,
            time=self._now(),
            payload=payload if journal is None else journal.extract_blobs(payload),
            decision=step.decision,
            audit=step.audit,
        )
        digest: str | None = None
        if journal is not None:
            digest = entry_digest(entry, None if parent is None else self.digest(parent.entry.id))
            try:
                journal.append(entry, branch=name, digest=digest, expected=target.head_id)
            except LogError:
                raise
            except BaseException:
                self._unconfirmed.add(name)  # it may have been written before we were interrupted
                raise
        node = EntryNode(entry, parent, digest)
        with self._state_lock:
            self._nodes[entry.id] = node
            target.set_head(node, step.order)
        return entry

    def _writable(self, name: str) -> Branch:
        """Return a branch to write to; where a write was cut short, what came of it is read."""
        if name in self._unconfirmed and self._journal is not None:
            self._update_heads(self._journal.heads())
            self._unconfirmed.discard(name)
        return self._loaded(name)

    def _loaded(self, name: str) -> Branch:
        """Return a branch whose entries are in memory."""
        branch = self._branches.get(name)
        if branch is None:
            raise Missing("conversation: there is no branch of this name")
        if branch.head is None and branch.head_id is not None:
            node = self._node(branch.head_id)
            with self._state_lock:
                if branch.head is None:  # else it was written to while this was read
                    branch.head = node
        return branch

    def _node(self, entry: str | Entry) -> EntryNode:
        """Return the node of an entry; what is not in memory yet is read, with all before it."""
        id = entry.id if isinstance(entry, Entry) else entry
        if not isinstance(id, str):
            raise InvalidValue("conversation: an entry is named by its id")
        node = self._nodes.get(id)
        if node is not None:
            return node
        if self._journal is None:
            raise Missing("conversation: there is no entry of this id")
        read: list[tuple[Entry, str]] = []
        parent: EntryNode | None = None
        nodes = self._nodes
        for found in self._journal.read_back(id):
            parent = nodes.get(found[0].id)
            if parent is not None:
                break
            read.append(found)
        with self._state_lock:
            for older, digest in reversed(read):
                parent = nodes.setdefault(older.id, EntryNode(older, parent, digest))
        assert parent is not None
        return parent

    def _order(self, branch: Branch) -> OrderState:
        order = branch.order
        if order is None:
            with self._state_lock:
                order = branch.order = branch.order or order_after(branch.head)
        return order

    def _read_heads(self, journal: Journal) -> str:
        """Take over the last entry of every branch; return the one that was written to last."""
        with self._write_lock:
            heads = journal.heads()
            self._update_heads(heads)
            self._unconfirmed.clear()
        return [MAIN_BRANCH, *heads][-1]

    def _update_heads(self, heads: Mapping[str, str | None]) -> None:
        for name, head_id in heads.items():
            known = self._branches.get(name)
            if known is None or known.head_id != head_id:
                with self._state_lock:
                    self._branches[name] = Branch(self._nodes.get(head_id or ""), head_id)
