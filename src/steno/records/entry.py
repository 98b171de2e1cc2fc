"""Entries: the elements of the log of a conversation.

An entry gives a payload its id, its time and its place. Payloads that are not messages
control or explain the conversation and never reach a model. This module makes no ids and reads no
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
    """The struct settings that all payloads except messages share."""

    _required: ClassVar[tuple[str, ...]] = ()
    """Fields that must not be empty."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in self._required:
            if not getattr(self, name):
                refuse(self, f"{name} must not be empty", code="empty", field=name)


# -- control ---------------------------------------------------------------------------------


class Mode(StrEnum):
    """The mode of the agent: it may only read (plan), or also make changes (act)."""

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
    """Another model is used from here on."""

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
    """The tokens that the summary took, if a model wrote it."""


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
    """The permission rule that decided, if no approver was asked."""
    reason: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sha256(self, "arguments_sha256")
        decided = self.actor is not None or self.rule is not None
        if decided == (self.status is ApprovalStatus.PENDING):
            rule = "a decision needs an actor or a rule; a pending approval has neither"
            refuse(self, rule, code="actor_mismatch", field="actor")


class ResolutionStatus(StrEnum):
    """The state of a reference."""

    PENDING = "pending"
    RESOLVED = "resolved"
    FAILED = "failed"


@final
class Resolution(_Payload, frozen=True, tag="resolution", kw_only=True):
    """The content of a file reference, an image or a resource, as it was read.

    The model sees `content` in place of the reference. `details` (mode used, engine, confidence,
    language, hash) are never sent.
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
            refuse(self, "block must be 0 or more", code="out_of_range", field="block")
        if bool(self.content) != (self.status is ResolutionStatus.RESOLVED):
            rule = "content must be set if the status is resolved, and only then"
            refuse(self, rule, code="status_mismatch", field="content")
        if (self.error is not None) != (self.status is ResolutionStatus.FAILED):
            rule = "error must be set if the status is failed, and only then"
            refuse(self, rule, code="status_mismatch", field="error")


@final
class Feedback(_Payload, frozen=True, tag="feedback", kw_only=True):
    """Feedback on an earlier entry, which the model receives with the next turn."""

    _required: ClassVar[tuple[str, ...]] = ("target", "text")

    target: str
    text: str


@final
class Repair(_Payload, frozen=True, tag="repair", kw_only=True):
    """A repair of messages before they were sent or shown; the log itself is unchanged."""

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
    """The exit status as in shells: 128 plus the number of a signal. None if it was stopped."""

    @property
    def message(self) -> UserMessage:
        """The message that the model receives."""
        return UserMessage((Text(f"$ {self.command}\n{self.output}"),))


@final
class GrantRevoked(_Payload, frozen=True, tag="grant_revoked", kw_only=True):
    """A permission rule that was granted for the session is no longer allowed."""

    shown: ClassVar[frozenset[str]] = frozenset({"grant", "target"})
    _required: ClassVar[tuple[str, ...]] = ("grant", "target")

    grant: str
    """The text of the rule."""
    target: str
    """The id of the entry that granted it."""


# -- redaction -------------------------------------------------------------------------------


@final
class Redacted(_Payload, frozen=True, tag="redacted", kw_only=True):
    """A placeholder for removed content: it holds only the digests that the hash chain needs."""

    shown: ClassVar[frozenset[str]] = frozenset(
        {"kind", "sha256", "audit_sha256", "unknown_sha256"}
    )
    _required: ClassVar[tuple[str, ...]] = ("kind",)

    kind: str
    """The tag of the removed payload: `user`, `tool_result`, ..."""
    sha256: str
    """The digest of the removed payload."""
    audit_sha256: str | None = None
    """The digest of the removed audit data, if there was any."""
    unknown_sha256: str | None = None
    """The digest of the removed unknown members of the entry, if there were any."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sha256(self, "sha256")
        for name in ("audit_sha256", "unknown_sha256"):
            if getattr(self, name) is not None:
                check_sha256(self, name)


@final
class Redaction(_Payload, frozen=True, tag="redaction", kw_only=True):
    """The record of a removal of content from the log: the entry, the actor and the reason."""

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
"""A payload type, for functions that return the type that they take."""

_PAYLOADS_OF_VERSION_2: Final[frozenset[type]] = frozenset(get_args(Payload)) - {
    ShellCommand,
    GrantRevoked,
}


@final
class Entry(Value, frozen=True, kw_only=True):
    """One line of the log: a payload with its id, time, place and decision."""

    shown: ClassVar[frozenset[str]] = frozenset({"id", "parent", "decision"})

    # From a factory: msgspec does not store a plain default.
    v: Annotated[int, Meta(ge=BASE_VERSION, le=FORMAT_VERSION)] = field(
        default_factory=repeat(BASE_VERSION).__next__
    )
    """The first version of the format that knows the payload."""
    id: str
    parent: str | None = None
    time: datetime | None = None
    """The time of the entry; None if it was imported from a format without times."""
    payload: Payload
    decision: str | None = None
    audit: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        id, parent, time, decision = self.id, self.parent, self.time, self.decision
        # Most entries are made by a conversation, and need no further check.
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
        # The digest does not cover the version, so each payload has only one valid version. That
        # of an unknown payload cannot be checked.
        elif self.v != BASE_VERSION and type(self.payload) is not Opaque:
            rule = f"v must be {BASE_VERSION} for this payload"
            refuse(self, rule, code="out_of_range", field="v")

    def _repr_parts(self) -> Iterator[tuple[str, str]]:
        return (part for part in super()._repr_parts() if part[0] != "v")

    def has_valid_unknown(self) -> bool:
        """Return whether the unknown members are valid; in a newer record all are unknown."""
        return not self.is_understood or super().has_valid_unknown()

    @property
    def is_understood(self) -> bool:
        """Whether this version can read the record; others are kept unchanged."""
        payload = self.payload
        return not (isinstance(payload, Opaque) and payload.raw == self.unknown.text)

    @property
    def message(self) -> Message | None:
        """The payload if it may be sent to a model; None for everything else."""
        payload = self.payload
        if isinstance(payload, ShellCommand):
            return payload.message
        return payload if isinstance(payload, Message) else None
