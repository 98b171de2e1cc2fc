"""Messages of the system, the user, the assistant and tools.

Four sealed types with one base, `ChatMessage`, which also has the factories. A message carries
no id, no time and no status: messages of equal content are equal, and the log has the rest. The
type of `content` decides which blocks a message may hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    NoReturn,
    TypeAlias,
    TypeVar,
    cast,
    final,
    get_args,
)

from msgspec import Meta
from msgspec.structs import force_setattr

from steno.errors import InvalidMessage
from steno.json_object import wrap_parsed
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.messages.content import Block, FileReference, Image, Opaque, Resource, Text, Thinking
from steno.messages.outcome import Failure, Outcome
from steno.messages.usage import StopReason, Usage
from steno.values import (
    NOTHING,
    NonEmptyStr,
    Sendable,
    check_elements,
    check_fields,
    is_prechecked,
    is_utf8_text,
    refuse,
)

BlockT = TypeVar("BlockT")


class MessageRole(StrEnum):
    """The sender of a message. The value is stored; `int(role)` numbers the roles from 0."""

    SYSTEM = "system", 0
    USER = "user", 1
    ASSISTANT = "assistant", 2
    TOOL = "tool", 3

    _number: int

    # The default is for type checkers only, so that MessageRole("user") is a call they know.
    def __new__(cls, text: str, number: int = -1) -> MessageRole:
        """Make a member that is its text and knows its number."""
        role = str.__new__(cls, text)
        role._value_ = text
        role._number = number
        return role

    @property
    def number(self) -> int:
        """The number of the role, from 0."""
        return self._number

    def __int__(self) -> int:
        return self._number

    @classmethod
    def parse(cls, text: str) -> MessageRole:
        """Read a role in any case. Raises InvalidMessage for an unknown one."""
        try:
            return _ROLE_BY_TEXT[text.lower()]
        except (KeyError, AttributeError, TypeError):
            raise InvalidMessage(
                "must be system, user, assistant or tool", code="unknown_role", place="role"
            ) from None


_ROLE_BY_TEXT: Final = {role.value: role for role in MessageRole}


# -- the four messages -----------------------------------------------------------------------


class ChatMessage(Sendable, frozen=True, tag_field="type"):
    """The base of the four messages, with a factory for each. Annotate with `Message`."""

    role: ClassVar[MessageRole]

    def __init_subclass__(cls, **settings: Any) -> None:
        """Seal the union: no `match` would handle a fifth message."""
        if cls.__module__ != __name__:
            raise TypeError("ChatMessage is sealed: it cannot be subclassed outside of steno")
        super().__init_subclass__(**settings)

    def __post_init__(self) -> None:
        rule = "use ChatMessage.system, .user, .assistant or .tool_result"
        refuse(self, rule, code="abstract_message")

    @property
    def text(self) -> str | None:
        """The text blocks joined; None if there is none."""
        return None

    @property
    def tool_calls(self) -> tuple[AnyToolCall, ...]:
        """The calls of this message in order, those that cannot be run included."""
        return ()

    @property
    def tool_call_id(self) -> str | None:
        """The call that this message answers; None for all but tool results."""
        return None

    @staticmethod
    def system(text: str) -> SystemMessage:
        """Make the message that defines how the model behaves.

        Raises InvalidMessage if `text` is blank.
        """
        return SystemMessage((Text(text),))

    @staticmethod
    def user(content: str | Iterable[UserBlock]) -> UserMessage:
        """Make a user message from text or blocks.

        Raises InvalidMessage for blank text alone, or a block that users do not send.
        """
        if isinstance(content, str):
            return UserMessage((Text(content),))
        return UserMessage(_as_blocks(content, "user message"))

    @staticmethod
    def assistant(
        text: str | None = None,
        calls: Iterable[AnyToolCall] = (),
        *,
        stop_reason: StopReason | None = None,
        usage: Usage | None = None,
    ) -> AssistantMessage:
        """Make an assistant message of text, which may be empty, and calls.

        Raises InvalidMessage if there is neither and no `stop_reason` to explain it.
        """
        blocks: tuple[AssistantBlock, ...]
        try:
            blocks = tuple(calls) if text is None else (Text(text), *calls)
        except TypeError:
            raise InvalidMessage(
                "calls must be tool calls",
                code="wrong_type",
                place="assistant message",
                field="calls",
            ) from None
        if stop_reason is None and usage is None:
            return AssistantMessage(content=blocks)
        return AssistantMessage(content=blocks, stop_reason=stop_reason, usage=usage)

    @staticmethod
    def tool_result(
        tool_call_id: str,
        content: str | Iterable[ResultBlock],
        *,
        outcome: Outcome = Outcome.OK,
        tool_name: str = "",
        details: Mapping[str, Any] | None = None,
        failure: Failure | None = None,
        started_at: datetime | None = None,
        duration_s: float | None = None,
    ) -> ToolResultMessage:
        """Make the result of one call. `content` may be empty.

        Raises InvalidMessage if `tool_call_id` is empty, or the details are not JSON.
        """
        return ToolResultMessage(
            tool_call_id=tool_call_id,
            content=(Text(content),)
            if isinstance(content, str)
            else _as_blocks(content, "tool result"),
            outcome=outcome,
            tool_name=tool_name,
            details=details,
            failure=failure,
            started_at=started_at,
            duration_s=duration_s,
        )


UserBlock: TypeAlias = Text | Image | FileReference | Resource | Opaque


class _NonBlankMessage(ChatMessage, frozen=True):
    """A message that may not be blank."""

    _allowed_blocks: ClassVar[frozenset[type]]
    content: tuple[UserBlock, ...]

    def __post_init__(self) -> None:
        if not _check_blocks(self, self._allowed_blocks):
            refuse(self, "text must not be blank", code="blank", field="text")
        if self.extras is not None or self.unknown is not NOTHING:
            check_fields(self)

    @property
    def text(self) -> str:
        """The text blocks joined; empty if there are only other blocks."""
        return _join_text(self.content) or ""


@final
class SystemMessage(_NonBlankMessage, frozen=True, tag="system"):
    """The instructions for the model; the first message of a history."""

    role: ClassVar[MessageRole] = MessageRole.SYSTEM
    _allowed_blocks: ClassVar[frozenset[type]] = frozenset({Text})

    content: tuple[Text, ...]


@final
class UserMessage(_NonBlankMessage, frozen=True, tag="user"):
    """The input of the user, with references to files, images and resources."""

    role: ClassVar[MessageRole] = MessageRole.USER
    _allowed_blocks: ClassVar[frozenset[type]] = frozenset(get_args(UserBlock))


AssistantBlock: TypeAlias = Text | Thinking | Image | ToolCall | InvalidToolCall | Opaque


@final
class AssistantMessage(ChatMessage, frozen=True, tag="assistant", kw_only=True):
    """One turn of a model: thinking, text and calls in the order they came."""

    shown: ClassVar[frozenset[str]] = frozenset({"raw_stop_reason"})
    role: ClassVar[MessageRole] = MessageRole.ASSISTANT

    content: tuple[AssistantBlock, ...]
    stop_reason: StopReason | None = None
    raw_stop_reason: str | None = None
    """The stop reason as the provider sent it, if it did."""
    usage: Usage | None = None

    def __post_init__(self) -> None:
        content = self.content
        if is_prechecked():
            if self.extras is not None:
                check_fields(self)
            if self.stop_reason is None and not content:
                self._refuse_empty()
            return
        if type(content) is not tuple:
            _refuse_content(self)
        for block in content:
            kind = type(block)
            if kind is not Text and kind is not ToolCall and kind not in _ASSISTANT_BLOCKS:
                check_elements(self, "content", content, _ASSISTANT_BLOCKS)
        if self.stop_reason is None:
            # A model may end a turn without output; an empty turn of a caller is a mistake.
            if not content:
                self._refuse_empty()
        elif type(self.stop_reason) is not StopReason:
            check_fields(self)
        # Compared to None first: this runs for every turn of every loaded history.
        if self.usage is not None and type(self.usage) is not Usage:
            check_fields(self)
        if self.raw_stop_reason is not None and not is_utf8_text(self.raw_stop_reason):
            check_fields(self)
        if self.extras is not None or self.unknown is not NOTHING:
            check_fields(self)

    def _refuse_empty(self) -> NoReturn:
        rule = "needs text, tool calls or a stop_reason"
        refuse(self, rule, code="empty_turn", field="content")

    @property
    def text(self) -> str | None:
        """The text blocks joined; None if there is only thinking or calls."""
        return _join_text(self.content)

    @property
    def tool_calls(self) -> tuple[AnyToolCall, ...]:
        """The calls of this turn in order, those that cannot be run included."""
        content = self.content
        if _CALL_TYPES.isdisjoint(map(type, content)):  # most turns are text
            return ()
        return tuple([block for block in content if isinstance(block, AnyToolCall)])


ResultBlock: TypeAlias = Text | Image | FileReference | Resource | Opaque


@final
class ToolResultMessage(ChatMessage, frozen=True, tag="tool_result", kw_only=True):
    """The result of one tool call: blocks for the model; details and failure for people."""

    shown: ClassVar[frozenset[str]] = frozenset({"tool_call_id", "tool_name"})
    role: ClassVar[MessageRole] = MessageRole.TOOL

    tool_call_id: NonEmptyStr  # pyright: ignore[reportIncompatibleMethodOverride] - a frozen field reads like a property
    content: tuple[ResultBlock, ...]
    outcome: Outcome = Outcome.OK
    tool_name: str = ""
    details: Mapping[str, Any] | None = None
    failure: Failure | None = None
    started_at: datetime | None = None
    duration_s: Annotated[float, Meta(ge=0)] | None = None

    def __post_init__(self) -> None:
        if is_prechecked():
            if self.details is not None:
                force_setattr(self, "details", wrap_parsed(self.details))
            if self.extras is not None or self.started_at is not None:
                check_fields(self)
            if self.failure is not None and self.outcome is Outcome.OK:
                self._refuse_failure()
            return
        call_id = self.tool_call_id
        if (
            type(call_id) is not str
            or not call_id
            or not (call_id.isascii() or is_utf8_text(call_id))
        ):
            rule = "tool_call_id must be a non-empty string"
            refuse(self, rule, code="invalid_id", field="tool_call_id")
        _check_blocks(self, _RESULT_BLOCKS)
        if self._has_only_the_usual_fields():
            return
        check_fields(self)
        if self.failure is not None and self.outcome is Outcome.OK:
            self._refuse_failure()
        if self.duration_s is not None and not 0 <= self.duration_s < math.inf:
            rule = "duration_s must be a number of seconds of 0 or more"
            refuse(self, rule, code="out_of_range", field="duration_s")

    def _refuse_failure(self) -> NoReturn:
        rule = "an ok outcome cannot carry a failure"
        refuse(self, rule, code="failure_of_ok", field="failure")

    def _has_only_the_usual_fields(self) -> bool:
        """Return whether everything but id, content, outcome and tool name is left out."""
        return (
            type(self.outcome) is Outcome
            and type(self.tool_name) is str
            and self.tool_name.isascii()
            and self.details is None
            and self.failure is None
            and self.started_at is None
            and self.duration_s is None
            and self.extras is None
            and self.unknown is NOTHING
        )

    @property
    def text(self) -> str:
        """The text blocks joined; empty if there are only other blocks."""
        return _join_text(self.content) or ""

    @property
    def is_error(self) -> bool:
        """Whether the outcome is anything but ok."""
        return self.outcome is not Outcome.OK

    @staticmethod
    def success(tool_call_id: str, result: str) -> ToolResultMessage:
        """Make the result of a call that succeeded. `result` may be empty.

        Raises InvalidMessage if `tool_call_id` is empty.
        """
        return ChatMessage.tool_result(tool_call_id, result)

    @staticmethod
    def error(
        tool_call_id: str, message: str, *, outcome: Outcome = Outcome.ERROR
    ) -> ToolResultMessage:
        """Make the result of a call that failed, with a message that the model will read.

        Raises InvalidMessage if `tool_call_id` is empty or the outcome is ok.
        """
        return ChatMessage.tool_result(
            tool_call_id, message, outcome=outcome, failure=Failure(message=message)
        )


ToolResult: TypeAlias = ToolResultMessage
"""Another name of the same class: a result is a message."""

Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolResultMessage
"""The closed union, for `match`. `ChatMessage` is the same set as a class, for arguments."""


def as_messages(messages: Iterable[ChatMessage]) -> tuple[Message, ...]:
    """Return messages as the closed union. Raises InvalidMessage for anything else among them."""
    found = tuple(messages)
    for position, message in enumerate(found):
        if not isinstance(message, ChatMessage):
            text = f"expected a message, not {type(message).__name__}"
            raise InvalidMessage(text, code="not_a_message", place=f"messages[{position}]")
    return cast("tuple[Message, ...]", found)


_CALL_TYPES: Final[frozenset[type]] = frozenset(get_args(AnyToolCall))
_ASSISTANT_BLOCKS: Final[frozenset[type]] = frozenset(get_args(AssistantBlock))
_RESULT_BLOCKS: Final[frozenset[type]] = frozenset(get_args(ResultBlock))


def _join_text(content: tuple[Block, ...]) -> str | None:
    texts = [block.text for block in content if type(block) is Text]
    return "".join(texts) if texts else None


def _as_blocks(parts: Iterable[BlockT], place: str) -> tuple[BlockT, ...]:
    try:
        return tuple(parts)
    except TypeError:
        raise InvalidMessage(
            "content must be text or blocks", code="wrong_type", place=place, field="content"
        ) from None


def _check_blocks(message: _NonBlankMessage | ToolResultMessage, allowed: frozenset[type]) -> bool:
    """Refuse blocks that are not allowed here; return whether there is more than blank text."""
    content = message.content
    if type(content) is not tuple:
        _refuse_content(message)
    has_content = False
    for block in content:
        if type(block) is Text:
            has_content = has_content or not (not block.text or block.text.isspace())
        elif type(block) in allowed:
            has_content = True
        else:
            check_elements(message, "content", content, allowed)
    return has_content


def _refuse_content(message: ChatMessage) -> NoReturn:
    factory = f"ChatMessage.{message.__struct_config__.tag}"
    rule = f"content must be a tuple of blocks; {factory} takes plain text"
    refuse(message, rule, code="not_a_tuple", field="content")
