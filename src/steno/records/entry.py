"""Entries: the elements of the log of a conversation.

An entry gives a payload its identity, its time and its place. Payloads that are not messages
control or explain the conversation and never reach a model. This file makes no ids and reads no
clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from itertools import repeat
from typing import Annotated, Any, ClassVar, Final, TypeAlias, TypeVar, final, get_args

from msgspec import Meta, field
from msgspec.structs import force_setattr

from steno.messages.content import Image, Opaque, Resource, Text
from steno.messages.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.usage import Usage
from steno.values import NOTHING, Value, check_fields, check_sha256, refuse

FORMAT_VERSION: Final = 3
"""The newest version of the stored format that this steno reads and writes."""
BASE_VERSION: Final = 2
"""The version of headers and documents, and of entries with payloads that version 2 knows."""


class _Payload(Value, frozen=True, tag_field="type"):
    """Shared settings; never named outside this file."""

    _required: ClassVar[tuple[str, ...]] = ()
    """Fields that must not be empty."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in self._required:
            if not getattr(self, name):
                refuse(self, f"{name} must not be empty", code="empty", field=name)


# -- control ---------------------------------------------------------------------------------


class Mode(StrEnum):
    """The rights of the agent: it may read (plan), or also change things (act)."""

    PLAN = "plan"
    ACT = "act"


@final
class ModeChange(_Payload, frozen=True, tag="mode_change", kw_only=True):
    """The mode changed from here on."""

    old: Mode
    new: Mode


@final
class BranchSwitch(_Payload, frozen=True, tag="branch_switch", kw_only=True):
    """The active branch changed from here on."""

    shown: ClassVar[frozenset[str]] = frozenset({"old", "new"})
    _required: ClassVar[tuple[str, ...]] = ("old", "new")

    old: str
    new: str


@final
class Rewind(_Payload, frozen=True, tag="rewind", kw_only=True):
    """The branch continues from an earlier entry, the parent of this one."""

    shown: ClassVar[frozenset[str]] = frozenset({"left"})
    _required: ClassVar[tuple[str, ...]] = ("left",)

    left: str
    """The entry that was the last one; it and its ancestors stay in the log."""


@final
class ModelChange(_Payload, frozen=True, tag="model_change", kw_only=True):
    """Another model answers from here on."""

    shown: ClassVar[frozenset[str]] = frozenset({"old", "new"})
    _required: ClassVar[tuple[str, ...]] = ("new",)

    old: str
    new: str


@final
class Label(_Payload, frozen=True, tag="label", kw_only=True):
    """A name for an entry, given afterwards."""

    _required: ClassVar[tuple[str, ...]] = ("target", "text")

    target: str
    text: str


@final
class Compaction(_Payload, frozen=True, tag="compaction", kw_only=True):
    """A summary that replaces everything up to and including the entry `through`."""

    _required: ClassVar[tuple[str, ...]] = ("through", "summary")

    through: str
    summary: str
    usage: Usage | None = None
    """The tokens that the summary took, where a model made it."""


# -- decisions and results about other entries -----------------------------------------------


class ApprovalStatus(StrEnum):
    """The state of a call before it runs."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"


@final
class Approval(_Payload, frozen=True, tag="approval", kw_only=True):
    """A decision about one tool call, bound to exactly its arguments."""

    shown: ClassVar[frozenset[str]] = frozenset({"call_id", "actor", "rule"})
    _required: ClassVar[tuple[str, ...]] = ("call_id",)

    call_id: str
    status: ApprovalStatus
    arguments_sha256: str
    actor: str | None = None
    """The person or program that decided."""
    rule: str | None = None
    """The rule that decided, where no approver was asked."""
    reason: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sha256(self, "arguments_sha256")
        decided = self.actor is not None or self.rule is not None
        if decided == (self.status is ApprovalStatus.PENDING):
            rule = "a decision names its actor or rule, a pending one has neither"
            refuse(self, rule, code="actor_mismatch", field="actor")


class ResolutionStatus(StrEnum):
    """The state of a reference."""

    PENDING = "pending"
    RESOLVED = "resolved"
    FAILED = "failed"


@final
class Resolution(_Payload, frozen=True, tag="resolution", kw_only=True):
    """The content of a file reference, an image or a resource, as it was read.

    The model sees `content` in its place. `details` (mode used, engine, confidence, language,
    hash) are never sent.
    """

    _required: ClassVar[tuple[str, ...]] = ("target",)

    target: str
    """The id of the entry whose message holds the block."""
    block: int
    """The number of the block in that message, from 0."""
    status: ResolutionStatus
    content: tuple[Text | Image | Resource | Opaque, ...] = ()
    error: str | None = None
    details: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.block < 0:
            refuse(self, "block counts from 0", code="out_of_range", field="block")
        if bool(self.content) != (self.status is ResolutionStatus.RESOLVED):
            rule = "content is there when it is resolved, and only then"
            refuse(self, rule, code="status_mismatch", field="content")
        if (self.error is not None) != (self.status is ResolutionStatus.FAILED):
            rule = "error is there when it failed, and only then"
            refuse(self, rule, code="status_mismatch", field="error")


@final
class Feedback(_Payload, frozen=True, tag="feedback", kw_only=True):
    """A remark on an earlier entry that reaches the model with the next turn."""

    _required: ClassVar[tuple[str, ...]] = ("target", "text")

    target: str
    text: str


@final
class Repair(_Payload, frozen=True, tag="repair", kw_only=True):
    """A repair of messages before they were sent or shown; the log is as it was."""

    shown: ClassVar[frozenset[str]] = frozenset({"code"})
    _required: ClassVar[tuple[str, ...]] = ("code", "explanation")

    code: str
    explanation: str
    target: str | None = None


# -- actions of the user ----------------------------------------------------------------------


@final
class ShellCommand(_Payload, frozen=True, tag="shell_command", kw_only=True):
    """A shell command that the user ran, and its output, which the model reads."""

    command: str
    output: str
    status: int | None = None
    """As in shells: 128 plus the number of a signal. None if the command was stopped."""

    @property
    def message(self) -> UserMessage:
        """The message that the model receives."""
        return UserMessage((Text(f"$ {self.command}\n{self.output}"),))


@final
class GrantRevoked(_Payload, frozen=True, tag="grant_revoked", kw_only=True):
    """A permission rule that was granted for the session is not allowed any more."""

    shown: ClassVar[frozenset[str]] = frozenset({"grant", "target"})
    _required: ClassVar[tuple[str, ...]] = ("grant", "target")

    grant: str
    """The text of the rule."""
    target: str
    """The id of the entry that granted it."""


# -- redaction -------------------------------------------------------------------------------


@final
class Redacted(_Payload, frozen=True, tag="redacted", kw_only=True):
    """The place of removed content: only the digests that the hash chain needs."""

    shown: ClassVar[frozenset[str]] = frozenset(
        {"kind", "sha256", "audit_sha256", "unknown_sha256"}
    )
    _required: ClassVar[tuple[str, ...]] = ("kind",)

    kind: str
    """The tag of the removed payload: `user`, `tool_result`, ..."""
    sha256: str
    """The digest of the removed payload."""
    audit_sha256: str | None = None
    """The digest of the removed audit data, where there was any."""
    unknown_sha256: str | None = None
    """The digest of the members of the entry that were not understood, where there were any."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sha256(self, "sha256")
        for name in ("audit_sha256", "unknown_sha256"):
            if getattr(self, name) is not None:
                check_sha256(self, name)


@final
class Redaction(_Payload, frozen=True, tag="redaction", kw_only=True):
    """The content of an entry was removed from the log: by whom, and why."""

    shown: ClassVar[frozenset[str]] = frozenset({"target", "actor"})
    _required: ClassVar[tuple[str, ...]] = ("target", "actor", "reason")

    target: str
    actor: str
    reason: str


Control: TypeAlias = ModeChange | BranchSwitch | Rewind | ModelChange | Label | Compaction

Payload: TypeAlias = (
    SystemMessage
    | UserMessage
    | AssistantMessage
    | ToolResultMessage
    | ModeChange
    | BranchSwitch
    | Rewind
    | ModelChange
    | Label
    | Compaction
    | Approval
    | Resolution
    | Feedback
    | Repair
    | ShellCommand
    | GrantRevoked
    | Redacted
    | Redaction
    | Opaque
)


PayloadT = TypeVar("PayloadT", bound=Payload)
"""A payload of one kind, for functions that return the kind they take."""

_PAYLOADS_OF_VERSION_2: Final[frozenset[type]] = frozenset(get_args(Payload)) - {
    ShellCommand,
    GrantRevoked,
}


@final
class Entry(Value, frozen=True, kw_only=True):
    """One line of the log: a payload with its identity, time, place and decision."""

    shown: ClassVar[frozenset[str]] = frozenset({"id", "parent", "decision"})

    # Of a factory, since a plain default would not be stored.
    v: Annotated[int, Meta(ge=BASE_VERSION, le=FORMAT_VERSION)] = field(
        default_factory=repeat(BASE_VERSION).__next__
    )
    """The first version of the format that knows the payload."""
    id: str
    parent: str | None = None
    time: datetime | None = None
    """None where an imported format has no time."""
    payload: Payload
    decision: str | None = None
    audit: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        id, parent, time, decision = self.id, self.parent, self.time, self.decision
        # Most entries are made by a conversation, and hold nothing that has to be checked again.
        if not (
            type(id) is str
            and id
            and id.isascii()
            and (parent is None or (type(parent) is str and parent and parent.isascii()))
            and (time is None or (type(time) is datetime and time.tzinfo is UTC))
            and type(self.payload) in _PAYLOADS_OF_VERSION_2
            and (decision is None or (type(decision) is str and decision.isascii()))
            and self.audit is None
            and type(self.v) is int
            and self.v == BASE_VERSION
            and self.unknown is NOTHING
        ):
            self._check_unusual()

    def _check_unusual(self) -> None:
        check_fields(self)
        if not self.id or self.parent == "":
            name = "parent" if self.id else "id"
            refuse(self, "id and parent must not be empty", code="empty", field=name)
        if type(self.payload) not in _PAYLOADS_OF_VERSION_2:
            force_setattr(self, "v", FORMAT_VERSION)
        # A digest does not cover the version, so that no other one may stand there. The version
        # of a payload that is not known cannot be known, either.
        elif self.v != BASE_VERSION and type(self.payload) is not Opaque:
            refuse(self, f"v is {BASE_VERSION} for this payload", code="out_of_range", field="v")

    def _repr_parts(self) -> Iterator[tuple[str, str]]:
        return (part for part in super()._repr_parts() if part[0] != "v")

    def has_valid_unknown(self) -> bool:
        """Return whether the unknown members are valid; all of a newer record are unknown."""
        return not self.is_understood or super().has_valid_unknown()

    @property
    def is_understood(self) -> bool:
        """Whether the record is of this version; else it is kept unchanged."""
        payload = self.payload
        return not (isinstance(payload, Opaque) and payload.raw == self.unknown.text)

    @property
    def message(self) -> Message | None:
        """The payload if it may be sent to a model; None for everything else."""
        payload = self.payload
        if isinstance(payload, ShellCommand):
            return payload.message
        return payload if isinstance(payload, Message) else None
