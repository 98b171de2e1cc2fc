"""The entries of a conversation log, and their payloads.

An entry holds a payload with its id, its time and the id of its parent. A payload is a message, or
it controls or explains the conversation. A model receives messages only; some other payloads, such
as feedback, are converted to a message. This module does not create ids or read a clock.
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
"""The newest version of the stored format that this version of steno reads and writes."""
BASE_VERSION: Final = 2
"""The version of headers and documents, and of entries whose payload type is in version 2."""


class _Payload(Value, frozen=True, tag_field="type"):
    """The base class of the payloads that this module defines."""

    _required: ClassVar[tuple[str, ...]] = ()
    """Fields that must not be empty."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in self._required:
            if not getattr(self, name):
                refuse(self, f"{name} must not be empty", code="empty", field=name)


# -- control ---------------------------------------------------------------------------------


class Mode(StrEnum):
    """The mode of the agent: plan mode allows only reading, act mode also allows changes."""

    PLAN = "plan"
    ACT = "act"


@final
class ModeChange(_Payload, frozen=True, tag="mode_change", kw_only=True):
    """A change of the mode, in force from this entry on."""

    old: Mode
    new: Mode


@final
class BranchSwitch(_Payload, frozen=True, tag="branch_switch", kw_only=True):
    """A change of the active branch, in force from this entry on."""

    shown: ClassVar[frozenset[str]] = frozenset({"old", "new"})
    _required: ClassVar[tuple[str, ...]] = ("old", "new")

    old: str
    new: str


@final
class Rewind(_Payload, frozen=True, tag="rewind", kw_only=True):
    """A move of the branch back to an earlier entry, which is the parent of this entry."""

    shown: ClassVar[frozenset[str]] = frozenset({"left"})
    _required: ClassVar[tuple[str, ...]] = ("left",)

    left: str
    """The id of the previous last entry of the branch; that entry stays in the log."""


@final
class ModelChange(_Payload, frozen=True, tag="model_change", kw_only=True):
    """A change of the model, in force from this entry on."""

    shown: ClassVar[frozenset[str]] = frozenset({"old", "new"})
    _required: ClassVar[tuple[str, ...]] = ("new",)

    old: str
    new: str


@final
class Label(_Payload, frozen=True, tag="label", kw_only=True):
    """A name for the earlier entry `target`."""

    _required: ClassVar[tuple[str, ...]] = ("target", "text")

    target: str
    text: str


@final
class Compaction(_Payload, frozen=True, tag="compaction", kw_only=True):
    """A summary that replaces the messages up to and including the entry `through`."""

    _required: ClassVar[tuple[str, ...]] = ("through", "summary")

    through: str
    summary: str
    usage: Usage | None = None
    """The tokens used to write the summary; None if no model wrote it."""


@final
class Clear(_Payload, frozen=True, tag="clear", kw_only=True):
    """The start of an empty context: earlier entries are not sent to the model.

    Only the system messages at the beginning of the context remain, with the mode and the model in
    force.
    """


# -- decisions and results about other entries -----------------------------------------------


class ApprovalStatus(StrEnum):
    """The state of an approval: pending, approved or denied."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"


@final
class Approval(_Payload, frozen=True, tag="approval", kw_only=True):
    """A decision about one tool call, bound to the exact arguments of the call."""

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
            rule = "a decision needs an actor or a rule; a pending approval must have neither"
            refuse(self, rule, code="actor_mismatch", field="actor")


class ResolutionStatus(StrEnum):
    """The state of a resolution: pending, resolved or failed."""

    PENDING = "pending"
    RESOLVED = "resolved"
    FAILED = "failed"


@final
class Resolution(_Payload, frozen=True, tag="resolution", kw_only=True):
    """The content of a file reference, an image or a resource, as it was read.

    The model receives `content` in place of the reference. `details`, such as the OCR engine, the
    confidence and the hash, are never sent.
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
        _check_block(self)
        if bool(self.content) != (self.status is ResolutionStatus.RESOLVED):
            rule = "content must be set if and only if the status is resolved"
            refuse(self, rule, code="status_mismatch", field="content")
        if (self.error is not None) != (self.status is ResolutionStatus.FAILED):
            rule = "error must be set if and only if the status is failed"
            refuse(self, rule, code="status_mismatch", field="error")


@final
class ImageAnalysis(_Payload, frozen=True, tag="image_analysis", kw_only=True):
    """A link from an image that a model received to the response that answers its message.

    The link contains no text of the response; `vision_analyses` (`steno.log`) returns the text.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"target", "answer"})
    _required: ClassVar[tuple[str, ...]] = ("target", "answer")

    target: str
    """The id of the entry whose message holds the image."""
    block: int
    """The number of the block with the image in that message, from 0; it may be a resource."""
    answer: str
    """The id of the entry with the response."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_block(self)


def _check_block(payload: Resolution | ImageAnalysis) -> None:
    if payload.block < 0:
        refuse(payload, "block must be 0 or more", code="out_of_range", field="block")


@final
class Feedback(_Payload, frozen=True, tag="feedback", kw_only=True):
    """Feedback on the earlier entry `target`, sent to the model with the next request."""

    _required: ClassVar[tuple[str, ...]] = ("target", "text")

    target: str
    text: str


@final
class Repair(_Payload, frozen=True, tag="repair", kw_only=True):
    """A repair of messages that were sent or displayed; the messages in the log are unchanged."""

    shown: ClassVar[frozenset[str]] = frozenset({"code"})
    _required: ClassVar[tuple[str, ...]] = ("code", "explanation")

    code: str
    explanation: str
    target: str | None = None


# -- actions of the user ----------------------------------------------------------------------


@final
class ShellCommand(_Payload, frozen=True, tag="shell_command", kw_only=True):
    """A shell command that the user ran, and its output; the model receives both."""

    command: str
    output: str
    status: int | None = None
    """The exit status, or 128 plus the signal number; None if the command was stopped."""

    @property
    def message(self) -> UserMessage:
        """The command and its output as the user message that the model receives."""
        return UserMessage((Text(f"$ {self.command}\n{self.output}"),))


@final
class GrantRevoked(_Payload, frozen=True, tag="grant_revoked", kw_only=True):
    """The revocation of a permission rule that was granted for the session."""

    shown: ClassVar[frozenset[str]] = frozenset({"grant", "target"})
    _required: ClassVar[tuple[str, ...]] = ("grant", "target")

    grant: str
    """The text of the rule."""
    target: str
    """The id of the entry that granted the rule."""


# -- redaction -------------------------------------------------------------------------------


@final
class Redacted(_Payload, frozen=True, tag="redacted", kw_only=True):
    """A placeholder for removed content, with only the digests that the hash chain needs."""

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
    """A record of who removed the content of the entry `target`, and why."""

    shown: ClassVar[frozenset[str]] = frozenset({"target", "actor"})
    _required: ClassVar[tuple[str, ...]] = ("target", "actor", "reason")

    target: str
    actor: str
    reason: str


Control: TypeAlias = ModeChange | BranchSwitch | Rewind | ModelChange | Label | Compaction | Clear

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
    | Clear
    | Approval
    | Resolution
    | ImageAnalysis
    | Feedback
    | Repair
    | ShellCommand
    | GrantRevoked
    | Redacted
    | Redaction
    | Opaque
)


def referenced_entries(payload: object) -> tuple[str, ...]:
    """Return the ids of the entries that a payload refers to."""
    match payload:
        case Label() | Resolution() | Feedback() | GrantRevoked() | Redaction():
            return (payload.target,)
        case Repair():
            return () if payload.target is None else (payload.target,)
        case ImageAnalysis():
            return (payload.target, payload.answer)
        case Compaction():
            return (payload.through,)
        case Rewind():
            return (payload.left,)
        case _:
            return ()


PayloadT = TypeVar("PayloadT", bound=Payload)
"""A type variable for functions that return a payload of the same type as their argument."""

_PAYLOADS_OF_VERSION_2: Final[frozenset[type]] = frozenset(get_args(Payload)) - {
    Clear,
    ImageAnalysis,
    ShellCommand,
    GrantRevoked,
}


@final
class Entry(Value, frozen=True, kw_only=True):
    """An element of the log: a payload with its id, parent, time and decision."""

    shown: ClassVar[frozenset[str]] = frozenset({"id", "parent", "decision"})

    # A factory, because msgspec does not encode a field that equals its plain default.
    v: Annotated[int, Meta(ge=BASE_VERSION, le=FORMAT_VERSION)] = field(
        default_factory=repeat(BASE_VERSION).__next__
    )
    """The first version of the format that has this type of payload."""
    id: str
    parent: str | None = None
    time: datetime | None = None
    """The time of the entry; None if the entry was imported from a format without times."""
    payload: Payload
    decision: str | None = None
    audit: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        id, parent, time, decision = self.id, self.parent, self.time, self.decision
        # Entries that a conversation creates meet all these conditions and need no further check.
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
        # The digest does not cover the version, so each payload has only one valid version. The
        # version of an unknown payload cannot be checked.
        elif self.v != BASE_VERSION and type(self.payload) is not Opaque:
            rule = f"v must be {BASE_VERSION} for this payload"
            refuse(self, rule, code="out_of_range", field="v")

    def _repr_parts(self) -> Iterator[tuple[str, str]]:
        return (part for part in super()._repr_parts() if part[0] != "v")

    def has_valid_unknown(self) -> bool:
        """Return whether the unknown members are valid; True for an entry of a newer version."""
        return not self.is_understood or super().has_valid_unknown()

    @property
    def is_understood(self) -> bool:
        """Whether this version of steno can read the entry; if not, its text is kept unchanged."""
        payload = self.payload
        return not (isinstance(payload, Opaque) and payload.raw == self.unknown.text)

    @property
    def clears_context(self) -> bool:
        """Whether the model receives no entries before this one; redaction does not change it."""
        payload = self.payload
        return isinstance(payload, Clear) or (
            isinstance(payload, Redacted) and payload.kind == Clear.__struct_config__.tag
        )

    @property
    def message(self) -> Message | None:
        """The payload as a message; None if it is neither a message nor a shell command."""
        payload = self.payload
        if isinstance(payload, ShellCommand):
            return payload.message
        return payload if isinstance(payload, Message) else None
