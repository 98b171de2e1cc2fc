"""The log of a conversation: an append-only tree of entries with named branches.

Each entry refers to its parent, so branches share earlier entries and a fork copies nothing.
Appending a message checks the message order. Decisions, changes and labels are entries as well.
With a journal, every entry is durable before it is visible. This module does not know how a
journal stores entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import partial
from hashlib import sha256
from threading import Lock
from typing import Any, Final, TypeAlias, TypeVar, final

from msgspec.structs import replace

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
    Clear,
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
    referenced_entries,
)
from steno.records.stored_record import MAIN_BRANCH
from steno.values import class_label, is_utf8_text

EnumT = TypeVar("EnumT", bound=StrEnum)
BuildAudit: TypeAlias = Callable[[Entry], Mapping[str, Any] | None]
"""A function that returns the audit of a new entry.

It receives the entry without its audit, so that a signature can cover the id and the time. It runs
while the log is locked for writing, so it must not use the conversation.
"""


@final
class Conversation:
    """The entries and branches of one conversation, safe to use from any number of threads.

    Methods that accept the name of a branch use the active branch by default. Readers see only
    durable entries, and never wait for a write.
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
        """Start a conversation, or continue the one in `journal`, and append `messages`.

        Raises OutOfOrder for the first message that is out of order.
        """
        self.id: Final = new_id() if id is None else id
        self._journal = journal
        self._new_id = new_id
        self._now = now
        self._write_lock = Lock()
        """Held while an entry or a branch is written to the journal."""
        self._state_lock = Lock()
        """Held briefly, while the fields below are read or changed."""
        self._nodes: dict[str, EntryNode] = {}
        self._branches: dict[str, Branch] = {MAIN_BRANCH: Branch()}
        self._active = MAIN_BRANCH
        self._unconfirmed: set[str] = set()
        """Branches whose last write was interrupted, and may or may not be stored."""
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
        audit: Mapping[str, Any] | BuildAudit | None = None,
    ) -> Entry:
        """Append a message or another payload to a branch, and return the new entry.

        `audit` may be a function that receives the entry; see `BuildAudit`.

        An entry that the payload refers to must exist. Its kind is not checked, and neither is the
        number of a block: a conversation accepts an `ImageAnalysis` between any two entries.

        Raises OutOfOrder if the message is not allowed after the last one, Missing if the branch or
        the entry that the payload refers to does not exist, Conflict if another writer has added an
        entry to the branch, and Unavailable if the entry cannot be stored.
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
            elif isinstance(payload, Clear):
                order = OrderState()
            else:
                _check_payload(payload)
                for id in referenced_entries(payload):
                    self._node(id)
            return self._put(name, target, payload, order, decision, audit=audit)

    async def append_async(
        self,
        payload: Payload | ChatMessage,
        *,
        branch: str | None = None,
        decision: str | None = None,
        audit: Mapping[str, Any] | BuildAudit | None = None,
    ) -> Entry:
        """Append a payload like `append`, without blocking the event loop during the write.

        If the task is cancelled during the write, the entry may still be stored.
        """
        import asyncio  # noqa: PLC0415 - asyncio takes as long to import as all of steno

        write = partial(self.append, payload, branch=branch, decision=decision, audit=audit)
        return await asyncio.to_thread(write)

    def fork(self, name: str, *, at: str | Entry | None = None) -> None:
        """Start a branch after the entry `at`, by default the last entry of the active branch.

        The new branch shares the earlier entries. The active branch stays active until `switch`
        is called. Raises InvalidValue if the name is blank or contains a lone surrogate, Conflict
        if the name is taken, and Missing if the entry does not exist.
        """
        if not is_utf8_text(name) or not name.strip():
            raise InvalidValue(
                "name must be a string that is not blank and contains no lone surrogate",
                code="blank",
                place="fork",
                field="name",
            )
        with self._write_lock:
            if name in self._branches:
                raise Conflict(
                    "a branch with this name already exists", code="branch_exists", place="fork"
                )
            source = self._branches[self._active]
            new = Branch(source.head, source.head_id) if at is None else branch_at(self._node(at))
            if self._journal is not None:
                self._journal.begin_branch(name, new.head_id)
            with self._state_lock:
                self._branches[name] = new

    def switch(self, name: str) -> Entry:
        """Make another branch active, and record the switch on that branch. Return the new entry.

        Raises Missing if the branch does not exist.
        """
        with self._write_lock:
            target = self._writable(name)
            switch = BranchSwitch(old=self._active, new=name)
            entry = self._put(name, target, switch, self._order(target))
            self._active = name
            return entry

    def rewind(self, to: str | Entry, *, branch: str | None = None) -> Entry:
        """Continue a branch from an earlier entry, and return the entry that records the rewind.

        The rewound entries stay in the log. Raises Missing if the entry or the branch does not
        exist, or the branch is empty.
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
        audit: Mapping[str, Any] | BuildAudit | None = None,
    ) -> Entry:
        """Record a decision about an outstanding call, bound to the exact arguments of the call.

        `audit` holds further details of the decision, or returns them (`BuildAudit`). Raises Missing if no call with this id is
        outstanding on the active branch, and InvalidValue if the status is unknown.
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
        """Record a change to plan mode (reading only) or act mode (changes allowed)."""
        mode = _parse_enum_member(Mode, new)
        return self._append_built(lambda: ModeChange(old=self.mode, new=mode))

    def change_model(self, new: str) -> Entry:
        """Record a change of the model, which applies from the new entry on."""
        return self._append_built(lambda: ModelChange(old=self.model or "", new=new))

    def label(self, target: str | Entry, text: str) -> Entry:
        """Label an entry with a text. Raises Missing if the entry does not exist."""
        return self.append(Label(target=self.entry(target).id, text=text))

    def clear(self) -> Entry:
        """Empty the context of the active branch, and return the entry that records it.

        The model receives the system messages with which the context begins, and later entries
        only; calls without a result no longer wait for one. All entries stay in the log, and
        `rewind` to an earlier entry restores the context.
        """
        return self.append(Clear())

    def answer_outstanding(self, text: str = NO_RESULT_TEXT) -> tuple[Entry, ...]:
        """Add results for the calls of an interrupted turn, so that the conversation can continue.

        Each result has the outcome `cancelled` and contains `text`. Return the new entries.
        """
        return tuple(
            [
                self.append(ToolResult.error(call_id, text, outcome=Outcome.CANCELLED))
                for call_id in self.outstanding
            ]
        )

    def refresh(self) -> None:
        """Read entries that other writers added to the journal, without switching the branch."""
        if self._journal is not None:
            self._read_heads(self._journal)

    def clone(self) -> Conversation:
        """Return an independent copy in memory, with the same entries and branches but a new id.

        Changes to one conversation never affect the other.
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
        """The id of the last entry of each branch, by branch name; None for an empty branch."""
        with self._state_lock:
            return {name: branch.head_id for name, branch in self._branches.items()}

    def entries(self, branch: str | None = None) -> tuple[Entry, ...]:
        """Return the entries of a branch, in order. Raises Missing if the branch does not exist."""
        target = self._loaded(self._active if branch is None else branch)
        with self._state_lock:
            return tuple(target.load_path().entries)

    def entries_view(self, branch: str | None = None) -> PrefixView[Entry]:
        """Return a view of the entries of a branch, without copying them.

        The view does not contain entries that are appended later. Raises Missing if the branch does
        not exist.
        """
        target = self._loaded(self._active if branch is None else branch)
        with self._state_lock:
            return PrefixView(target.load_path().entries)

    def messages(self, branch: str | None = None) -> tuple[Message, ...]:
        """Return the messages in the context of a branch, in order.

        After a clear, these are the system messages with which the context began, and the messages
        that were appended later. `entries` returns all entries.

        Images and tool results that are stored as blobs are restored. If a blob is missing or
        damaged, the message retains the reference to it.
        """
        target = self._loaded(self._active if branch is None else branch)
        with self._state_lock:
            path = target.load_path()
            messages, with_blobs = list(path.messages), list(path.with_blobs)
        for number in with_blobs:
            messages[number] = self.restore_blobs(messages[number])
        return tuple(messages)

    def restore_blobs(self, payload: PayloadT) -> PayloadT:
        """Return a payload with the content of its blobs.

        The payload is unchanged if a blob is missing or damaged, or if there is no journal.
        """
        if self._journal is None:
            return payload
        try:
            return self._journal.restore_blobs(payload)
        except (Missing, Damaged):
            return payload

    def entry(self, id: str | Entry) -> Entry:
        """Return an entry of any branch. Raises Missing if no entry has this id."""
        return self._node(id).entry

    def digest(self, id: str | Entry) -> str:
        """Return the digest of an entry, which covers the entry and all of its ancestors."""
        return _digest_of(self._node(id))

    @property
    def labels(self) -> dict[str, str]:
        """The labels on all branches, each with the id of the entry that it marks."""
        return {
            text: target
            for name in self.branches
            for text, target in labels_of(self.entries(name)).items()
        }

    @property
    def outstanding(self) -> tuple[str, ...]:
        """The ids of the tool calls on the active branch that have no result yet."""
        return self._order(self._loaded(self._active)).outstanding

    def outstanding_call(self, call_id: str) -> AnyToolCall:
        """Return the call with this id on the active branch, which must have no result yet.

        Raises Missing if the call does not exist or has a result.
        """
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
        audit: Mapping[str, Any] | BuildAudit | None = None,
    ) -> Entry:
        """Append the payload that `build_payload` returns to the active branch.

        `build_payload` runs under the write lock, so that the state that it reads is still current
        when the entry is written. It must not append entries, and must not return a message.
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
        audit: Mapping[str, Any] | BuildAudit | None = None,
        parent: EntryNode | None = None,
    ) -> Entry:
        """Store an entry, then make it visible.

        `order` is the order state after the entry. `parent` defaults to the last entry of
        `target`.
        """
        journal, parent = self._journal, parent or target.head
        # A ChatMessage is always one of the four message types; Entry refuses any other payload.
        recorded: Any = payload
        if journal is not None:
            recorded = journal.extract_blobs(recorded)
        entry = Entry(
            id=self._new_id(),
            parent=None if parent is None else parent.entry.id,
            time=self._now(),
            payload=recorded,
            decision=decision,
            audit=None if callable(audit) else audit,
        )
        if callable(audit):
            entry = replace(entry, audit=audit(entry))
        digest: str | None = None
        if journal is not None:
            digest = entry_digest(entry, None if parent is None else _digest_of(parent))
            try:
                journal.append(entry, branch=name, digest=digest, expected=target.head_id)
            except LogError:
                raise
            except BaseException:
                self._unconfirmed.add(name)  # the entry may be stored
                raise
        node = add_node(entry, parent, digest)
        with self._state_lock:
            self._nodes[entry.id] = node
            target.set_head(node, order)
        return entry

    def _writable(self, name: str) -> Branch:
        """Return a branch for writing. Raises Missing if the branch does not exist.

        If the last write to the branch was interrupted, its head is read from the journal again.
        """
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
                if branch.head is None:  # another thread may have set it
                    branch.head = node
        return branch

    def _node(self, entry: str | Entry) -> EntryNode:
        """Return the node of an entry. Raises Missing if the entry does not exist.

        If the entry is not in memory, it is loaded together with its ancestors.
        """
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
        """Read the head of every branch, and return the name of the branch written to last."""
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
    """Return the digest of a node.

    If the digest is missing, it is computed and stored, as are missing digests of its ancestors.
    """
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
    """Raise InvalidMessage for a value that callers commonly mistake for a payload."""
    if isinstance(payload, str):
        code, message = "bare_text", "expected a message, not str; use ChatMessage.user(text)"
    elif isinstance(payload, dict):
        code = "dictionary"
        message = "expected a message, not dict; use ChatMessage.user(text), or steno.formats"
    elif isinstance(payload, Redacted):
        code, message = "redacted", "only a store can redact an entry; use Store.redact"
    else:
        return
    raise InvalidMessage(message, code=code, place="conversation")


def _parse_enum_member(kind: type[EnumT], value: EnumT | str) -> EnumT:
    """Return the enum member with this value. Raises InvalidValue if no member has this value."""
    try:
        return kind(value)
    except ValueError:
        message = f"must be one of {', '.join(kind)}"
        raise InvalidValue(message, code="unknown_value", place=class_label(kind)) from None
