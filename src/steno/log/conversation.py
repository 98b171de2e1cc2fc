"""The log of a conversation: a tree of entries that only grows, and named branches in it.

Each entry refers to its parent, so branches share earlier entries and a fork copies nothing. The order of
messages is checked on append; decisions, changes and labels are entries, too. With a journal, every
entry is durable before it is visible. This module does not know how a journal stores entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Any, Final, TypeVar, final

from steno.errors import Conflict, Damaged, InvalidMessage, InvalidValue, LogError, Missing
from steno.ids import new_id, utc_now
from steno.log.chain import entry_digest
from steno.log.queries import labels_of
from steno.log.tree import (
    Branch,
    EntryNode,
    PrefixView,
    add_node,
    branch_at,
    find_call_in_last_turn,
    order_after,
    settings_at,
)
from steno.messages.call import AnyToolCall
from steno.messages.message import ChatMessage, Message, ToolResult
from steno.messages.order import NO_RESULT_TEXT, OrderState
from steno.messages.outcome import Outcome
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
    ShellCommand,
)
from steno.records.stored_record import MAIN_BRANCH
from steno.values import class_label, is_utf8_text

EnumT = TypeVar("EnumT", bound=StrEnum)


@final
class Conversation:
    """The entries of one conversation, in branches. Any number of threads may use it at once.

    Reading methods take the name of a branch; without one they read the active branch. Readers
    see durable entries only, and never wait for a disk.
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
        """Start a conversation with `messages`, or continue the one that `journal` holds.

        Raises OutOfOrder for the first message that is out of order.
        """
        self.id: Final = new_id() if id is None else id
        self._journal = journal
        self._new_id = new_id
        self._now = now
        self._write_lock = Lock()
        """Held while an entry is written to the disk."""
        self._state_lock = Lock()
        """Held for moments, while the fields below are read or changed."""
        self._nodes: dict[str, EntryNode] = {}
        self._branches: dict[str, Branch] = {MAIN_BRANCH: Branch()}
        self._active = MAIN_BRANCH
        self._unconfirmed: set[str] = set()
        """Branches whose last write may or may not have been stored."""
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
        if another writer has added an entry to it, Unavailable if the entry cannot be stored.
        """
        with self._write_lock:
            name = self._active if branch is None else branch
            target = self._branches.get(name)
            if target is None or target.head is None or self._unconfirmed:
                target = self._writable(name)
            order = target.order or self._order(target)
            if isinstance(payload, ChatMessage):
                order = order.after(payload)
            elif isinstance(payload, ShellCommand):
                order = order.after(payload.message)
            else:
                _check_payload(payload)
            return self._put(name, target, payload, order, decision, audit=audit)

    async def append_async(
        self,
        payload: Payload | ChatMessage,
        *,
        branch: str | None = None,
        decision: str | None = None,
        audit: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Append without blocking the event loop during the write.

        If the task is cancelled during the write, the entry may be stored nevertheless.
        """
        import asyncio  # noqa: PLC0415 - it takes as long to load as all of steno

        write = partial(self.append, payload, branch=branch, decision=decision, audit=audit)
        return await asyncio.to_thread(write)

    def fork(self, name: str, *, at: str | Entry | None = None) -> None:
        """Begin a branch after the entry `at`, or after the last one; it shares the earlier entries.

        The active branch stays active; `switch` changes it. Raises Conflict if the name is taken,
        Missing if there is no such entry.
        """
        if not is_utf8_text(name) or not name.strip():
            raise InvalidValue("name must not be blank", code="blank", place="fork", field="name")
        with self._write_lock:
            if name in self._branches:
                raise Conflict(
                    "a branch of this name already exists", code="branch_exists", place="fork"
                )
            source = self._branches[self._active]
            new = Branch(source.head, source.head_id) if at is None else branch_at(self._node(at))
            if self._journal is not None:
                self._journal.begin_branch(name, new.head_id)
            with self._state_lock:
                self._branches[name] = new

    def switch(self, name: str) -> Entry:
        """Make another branch the active one, and record that on it. Raises Missing."""
        with self._write_lock:
            target = self._writable(name)
            switch = BranchSwitch(old=self._active, new=name)
            entry = self._put(name, target, switch, self._order(target))
            self._active = name
            return entry

    def rewind(self, to: str | Entry, *, branch: str | None = None) -> Entry:
        """Continue a branch from an earlier entry; the entries after it stay in the log.

        Raises Missing if there is no such entry.
        """
        with self._write_lock:
            name = self._active if branch is None else branch
            target = self._writable(name)
            if target.head is None:
                raise Missing("the branch is empty", code="branch_empty", place="rewind")
            parent = self._node(to)
            rewind = Rewind(left=target.head.entry.id)
            return self._put(name, target, rewind, order_after(parent), parent=parent)

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

        Further facts of the decision go into `audit`. Raises Missing if no call of the active
        branch with this id waits for a result.
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
        """Record that from here on the agent may only read (plan) or also make changes (act)."""
        mode = _parse_enum_member(Mode, new)
        return self._append_built(lambda: ModeChange(old=self.mode, new=mode))

    def change_model(self, new: str) -> Entry:
        """Record that another model is used from here on."""
        return self._append_built(lambda: ModelChange(old=self.model or "", new=new))

    def label(self, target: str | Entry, text: str) -> Entry:
        """Give an entry a name. Raises Missing if there is no such entry."""
        return self.append(Label(target=self.entry(target).id, text=text))

    def answer_outstanding(self, text: str = NO_RESULT_TEXT) -> tuple[Entry, ...]:
        """Add results for the calls of an interrupted turn, so that the conversation can continue.

        Each result has the outcome cancelled, and `text` for the model.
        """
        return tuple(
            [
                self.append(ToolResult.error(call_id, text, outcome=Outcome.CANCELLED))
                for call_id in self.outstanding
            ]
        )

    def refresh(self) -> None:
        """Read the entries that others wrote to the journal; the active branch stays active."""
        if self._journal is not None:
            self._read_heads(self._journal)

    def clone(self) -> Conversation:
        """Return an independent conversation with the same past, in memory.

        Changes to one never affect the other.
        """
        copy = Conversation(new_id=self._new_id, now=self._now)
        with self._write_lock:
            heads = {name: branch_at(self._loaded(name).head) for name in self._branches}
            with self._state_lock:
                copy._nodes, copy._branches = dict(self._nodes), heads
            copy._active = self._active
        return copy

    # -- reading -----------------------------------------------------------------------------

    @property
    def branch(self) -> str:
        """The name of the active branch."""
        return self._active

    @property
    def branches(self) -> dict[str, str | None]:
        """The last entry of every branch, by id; None for an empty branch."""
        with self._state_lock:
            return {name: branch.head_id for name, branch in self._branches.items()}

    def entries(self, branch: str | None = None) -> tuple[Entry, ...]:
        """Return the entries of a branch, from the first to its last. Raises Missing."""
        target = self._loaded(self._active if branch is None else branch)
        with self._state_lock:
            return tuple(target.load_path().entries)

    def entries_view(self, branch: str | None = None) -> PrefixView[Entry]:
        """Return a view of the same entries, without copying them."""
        target = self._loaded(self._active if branch is None else branch)
        with self._state_lock:
            return PrefixView(target.load_path().entries)

    def messages(self, branch: str | None = None) -> tuple[Message, ...]:
        """Return the messages of a branch, in order; only these may reach a model.

        Images and results that are stored as blobs are restored; a missing blob stays a reference.
        """
        target = self._loaded(self._active if branch is None else branch)
        with self._state_lock:
            path = target.load_path()
            messages, with_blobs = list(path.messages), list(path.with_blobs)
        for number in with_blobs:
            messages[number] = self.restore_blobs(messages[number])
        return tuple(messages)

    def restore_blobs(self, payload: PayloadT) -> PayloadT:
        """Return the payload of an entry with its blobs restored, as `messages` does."""
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
        """Return the digest of an entry, which changes with any change to it or its past."""
        return _digest_of(self._node(id))

    @property
    def labels(self) -> dict[str, str]:
        """The entry of each label, by id, on any branch."""
        return {
            text: target
            for name in self.branches
            for text, target in labels_of(self.entries(name)).items()
        }

    @property
    def outstanding(self) -> tuple[str, ...]:
        """Ids of the calls of the active branch that have no result yet."""
        return self._order(self._loaded(self._active)).outstanding

    def outstanding_call(self, call_id: str) -> AnyToolCall:
        """Return a call of the active branch that has no result yet. Raises Missing."""
        target = self._loaded(self._active)
        is_waiting = call_id in self._order(target).outstanding
        call = find_call_in_last_turn(target.head, call_id) if is_waiting else None
        if call is None:
            raise Missing(
                "no outstanding call has this id", code="no_outstanding_call", place="conversation"
            )
        return call

    @property
    def mode(self) -> Mode:
        """The mode of the active branch."""
        return settings_at(self._loaded(self._active).head).mode

    @property
    def model(self) -> str | None:
        """The model of the active branch; None if no model change was ever recorded."""
        return settings_at(self._loaded(self._active).head).model

    def __len__(self) -> int:
        return len(self.entries_view())

    def __repr__(self) -> str:
        return (
            f"Conversation(id={self.id!r}, branch={self._active!r}, branches={len(self._branches)})"
        )

    # -- private -----------------------------------------------------------------------------

    def _append_built(
        self,
        build_payload: Callable[[], Payload],
        *,
        decision: str | None = None,
        audit: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Append the payload that `build_payload` returns to the active branch.

        `build_payload` runs under the write lock, so that the state that it reads is still current
        when the entry is written. It must not write, and must not return a message.
        """
        with self._write_lock:
            name = self._active
            target = self._writable(name)
            payload, order = build_payload(), self._order(target)
            return self._put(name, target, payload, order, decision, audit=audit)

    def _put(
        self,
        name: str,
        target: Branch,
        payload: Payload | ChatMessage,
        order: OrderState,
        decision: str | None = None,
        *,
        audit: Mapping[str, Any] | None = None,
        parent: EntryNode | None = None,
    ) -> Entry:
        """Store an entry, then make it visible.

        `order` is the order state after it. `parent` defaults to the last entry of the branch.
        """
        journal, parent = self._journal, parent or target.head
        # Every message is one of the four; the entry refuses any other payload.
        recorded: Any = payload
        if journal is not None:
            recorded = journal.extract_blobs(recorded)
        entry = Entry(
            id=self._new_id(),
            parent=None if parent is None else parent.entry.id,
            time=self._now(),
            payload=recorded,
            decision=decision,
            audit=audit,
        )
        digest: str | None = None
        if journal is not None:
            digest = entry_digest(entry, None if parent is None else _digest_of(parent))
            try:
                journal.append(entry, branch=name, digest=digest, expected=target.head_id)
            except LogError:
                raise
            except BaseException:
                self._unconfirmed.add(name)  # it may have been written before the interruption
                raise
        node = add_node(entry, parent, digest)
        with self._state_lock:
            self._nodes[entry.id] = node
            target.set_head(node, order)
        return entry

    def _writable(self, name: str) -> Branch:
        """Return a branch to write to; after an interrupted write, its head is read again."""
        if name in self._unconfirmed and self._journal is not None:
            self._update_heads(self._journal.heads())
            self._unconfirmed.discard(name)
        return self._loaded(name)

    def _loaded(self, name: str) -> Branch:
        branch = self._branches.get(name)
        if branch is None:
            raise Missing("no branch with this name", code="branch_missing", place="conversation")
        if branch.head is None and branch.head_id is not None:
            node = self._node(branch.head_id)
            with self._state_lock:
                if branch.head is None:  # another thread may have written to it
                    branch.head = node
        return branch

    def _node(self, entry: str | Entry) -> EntryNode:
        """Return the node of an entry; one that is not in memory is read, with its ancestors."""
        id = entry.id if isinstance(entry, Entry) else entry
        if not isinstance(id, str):
            raise InvalidValue(
                "expected an entry or its id", code="wrong_type", place="conversation"
            )
        node = self._nodes.get(id)
        if node is not None:
            return node
        if self._journal is None:
            raise Missing("no entry has this id", code="entry_missing", place="conversation")
        read_entries: list[tuple[Entry, str]] = []
        parent: EntryNode | None = None
        nodes = self._nodes
        for found in self._journal.read_back(id):
            parent = nodes.get(found[0].id)
            if parent is not None:
                break
            read_entries.append(found)
        with self._state_lock:
            for earlier, digest in reversed(read_entries):
                parent = nodes.setdefault(earlier.id, add_node(earlier, parent, digest))
        assert parent is not None
        return parent

    def _order(self, branch: Branch) -> OrderState:
        order = branch.order
        if order is None:
            with self._state_lock:
                order = branch.order = branch.order or order_after(branch.head)
        return order

    def _read_heads(self, journal: Journal) -> str:
        """Read the last entry of every branch; return the branch that was written last."""
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


def _digest_of(node: EntryNode) -> str:
    """Return the digest of an entry; it and the digests before it are computed once."""
    without_digest: list[EntryNode] = []
    before: EntryNode | None = node
    while before is not None and before.digest is None:
        without_digest.append(before)
        before = before.parent
    digest = None if before is None else before.digest
    for later in reversed(without_digest):
        later.digest = digest = entry_digest(later.entry, digest)
    assert digest is not None
    return digest


def arguments_digest(call: AnyToolCall) -> str:
    """Return the SHA-256 of the arguments of a call, to which a decision is bound."""
    return sha256(call.arguments.encode()).hexdigest()


def _check_payload(payload: object) -> None:
    """Refuse values that callers mistake for payloads. Raises InvalidMessage."""
    if isinstance(payload, str):
        code, message = "bare_text", "expected a message, not str; use ChatMessage.user(text)"
    elif isinstance(payload, dict):
        code = "dictionary"
        message = "expected a message, not dict; use ChatMessage.user(text), or steno.formats"
    elif isinstance(payload, Redacted):
        code, message = "redacted", "only a store can redact an entry; use its method `redact`"
    else:
        return
    raise InvalidMessage(message, code=code, place="conversation")


def _parse_enum_member(kind: type[EnumT], value: EnumT | str) -> EnumT:
    """Return the member of an enumeration with this value. Raises InvalidValue."""
    try:
        return kind(value)
    except ValueError:
        message = f"must be one of {', '.join(kind)}"
        raise InvalidValue(message, code="unknown_value", place=class_label(kind)) from None
