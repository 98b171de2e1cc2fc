"""Messages of the system, the user, the assistant and tools.

The four sealed types share the base `ChatMessage`, which also has their factories. A message has
no id, creation time or status of its own: the log stores those, and messages with equal fields
are equal. The annotation of `content` defines which blocks a message may hold.
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
    """The sender of a message. Stores contain the value; `int(role)` is a number from 0 to 3."""

    SYSTEM = "system", 0
    USER = "user", 1
    ASSISTANT = "assistant", 2
    TOOL = "tool", 3

    _number: int

    # The default is for type checkers, which would otherwise reject MessageRole("user").
    def __new__(cls, text: str, number: int = -1) -> MessageRole:
        """Create a member with the value `text` and the given number."""
        role = str.__new__(cls, text)
        role._value_ = text
        role._number = number
        return role

    @property
    def number(self) -> int:
        """The number of the role: system 0, user 1, assistant 2, tool 3."""
        return self._number

    def __int__(self) -> int:
        return self._number

    @classmethod
    def parse(cls, text: str) -> MessageRole:
        """Return the role named `text`, ignoring case. Raises InvalidMessage if it is unknown."""
        try:
            return _ROLE_BY_TEXT[text.lower()]
        except (KeyError, AttributeError, TypeError):
            raise InvalidMessage(
                "must be system, user, assistant or tool", code="unknown_role", place="role"
            ) from None


_ROLE_BY_TEXT: Final = {role.value: role for role in MessageRole}


# -- the four messages -----------------------------------------------------------------------


class ChatMessage(Sendable, frozen=True, tag_field="type"):
    """The base of the four message types, with a factory for each; use `Message` in annotations."""

    role: ClassVar[MessageRole]
    allows_empty_text: ClassVar[bool] = True
    """Whether a text block may be empty: in a response and a tool result, not in a prompt."""

    def __init_subclass__(cls, **settings: Any) -> None:
        """Refuse subclasses outside this module, because no `match` would handle them."""
        if cls.__module__ != __name__:
            raise TypeError("ChatMessage is sealed: it cannot be subclassed outside of steno")
        super().__init_subclass__(**settings)

    def __post_init__(self) -> None:
        rule = "cannot be instantiated; use ChatMessage.system, .user, .assistant or .tool_result"
        refuse(self, rule, code="abstract_message")

    @property
    def text(self) -> str | None:
        """The joined text of all text blocks; None if there are no text blocks."""
        return None

    @property
    def tool_calls(self) -> tuple[AnyToolCall, ...]:
        """The tool calls of this message in order, including those that cannot be run."""
        return ()

    @property
    def tool_call_id(self) -> str | None:
        """The id of the tool call that this message answers; None unless it is a tool result."""
        return None

    @staticmethod
    def system(text: str) -> SystemMessage:
        """Create a system message, which instructs the model.

        Raises InvalidMessage if `text` is blank.
        """
        return SystemMessage((Text(text),))

    @staticmethod
    def user(content: str | Iterable[UserBlock]) -> UserMessage:
        """Create a user message from text or blocks.

        Raises InvalidMessage if the content is only blank text, or a block is not a `UserBlock`.
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
        """Create an assistant message from text, which may be empty, and tool calls.

        Raises InvalidMessage if text, calls and `stop_reason` are all missing.
        """
        blocks: tuple[AssistantBlock, ...]
        try:
            blocks = tuple(calls) if text is None else (Text(text), *calls)
        except TypeError:
            raise InvalidMessage(
                "calls must be an iterable of tool calls",
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
        """Create the result of one tool call. `content` may be empty.

        Raises InvalidMessage if `tool_call_id` is empty or `details` is not JSON.
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
    """A message that must contain more than blank text, and no empty text."""

    allows_empty_text: ClassVar[bool] = False
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
    """A message with instructions for the model, usually the first of a conversation.

    An opaque block is a part that steno cannot use, which was read from a file or a request.
    """

    role: ClassVar[MessageRole] = MessageRole.SYSTEM
    _allowed_blocks: ClassVar[frozenset[type]] = frozenset({Text, Opaque})

    content: tuple[Text | Opaque, ...]


@final
class UserMessage(_NonBlankMessage, frozen=True, tag="user"):
    """A message from the user: text, images, and references to files and resources."""

    role: ClassVar[MessageRole] = MessageRole.USER
    _allowed_blocks: ClassVar[frozenset[type]] = frozenset(get_args(UserBlock))


AssistantBlock: TypeAlias = Text | Thinking | Image | ToolCall | InvalidToolCall | Opaque


@final
class AssistantMessage(ChatMessage, frozen=True, tag="assistant", kw_only=True):
    """One turn of a model: thinking, text and tool calls in the order in which they were sent."""

    shown: ClassVar[frozenset[str]] = frozenset({"raw_stop_reason"})
    role: ClassVar[MessageRole] = MessageRole.ASSISTANT

    content: tuple[AssistantBlock, ...]
    stop_reason: StopReason | None = None
    raw_stop_reason: str | None = None
    """The stop reason as the provider sent it; None if it sent none."""
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
            # A model may end a turn without output; an empty turn created by code is a mistake.
            if not content:
                self._refuse_empty()
        elif type(self.stop_reason) is not StopReason:
            check_fields(self)
        # Compare with None first for speed: this runs for every turn of every loaded history.
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
        """The joined text of all text blocks; None if there are only other blocks."""
        return _join_text(self.content)

    @property
    def tool_calls(self) -> tuple[AnyToolCall, ...]:
        """The tool calls of this turn in order, including those that cannot be run."""
        content = self.content
        if _CALL_TYPES.isdisjoint(map(type, content)):  # most turns have no calls
            return ()
        return tuple([block for block in content if isinstance(block, AnyToolCall)])


ResultBlock: TypeAlias = Text | Image | FileReference | Resource | Opaque


@final
class ToolResultMessage(ChatMessage, frozen=True, tag="tool_result", kw_only=True):
    """The result of one tool call: `content` for the model, `details` and `failure` for users."""

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
            rule = "duration_s must be finite and not negative"
            refuse(self, rule, code="out_of_range", field="duration_s")

    def _refuse_failure(self) -> NoReturn:
        rule = "failure must be None if the outcome is ok"
        refuse(self, rule, code="failure_of_ok", field="failure")

    def _has_only_the_usual_fields(self) -> bool:
        """Return whether only the call id, content, outcome, tool name and failure may be set."""
        failure: object = self.failure  # not checked yet
        return (
            type(self.outcome) is Outcome
            and type(self.tool_name) is str
            and self.tool_name.isascii()
            and self.details is None
            and (failure is None or (type(failure) is Failure and self.outcome is not Outcome.OK))
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
        """Whether the outcome is not `Outcome.OK`."""
        return self.outcome is not Outcome.OK

    @staticmethod
    def success(tool_call_id: str, result: str) -> ToolResultMessage:
        """Create the result of a call that succeeded. `result` may be empty.

        Raises InvalidMessage if `tool_call_id` is empty.
        """
        return ChatMessage.tool_result(tool_call_id, result)

    @staticmethod
    def error(
        tool_call_id: str, message: str, *, outcome: Outcome = Outcome.ERROR
    ) -> ToolResultMessage:
        """Create the result of a call that failed, with a message for the model.

        Raises InvalidMessage if `tool_call_id` is empty or the outcome is ok.
        """
        return ChatMessage.tool_result(
            tool_call_id, message, outcome=outcome, failure=Failure(message=message)
        )


ToolResult: TypeAlias = ToolResultMessage
"""An alias of `ToolResultMessage`."""

Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolResultMessage
"""The closed union of the four message types, for `match`; their base class is `ChatMessage`."""


def as_messages(messages: Iterable[ChatMessage]) -> tuple[Message, ...]:
    """Return the messages as a tuple. Raises InvalidMessage if an element is not a message."""
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
            "content must be a string or an iterable of blocks",
            code="wrong_type",
            place=place,
            field="content",
        ) from None


def _check_blocks(message: _NonBlankMessage | ToolResultMessage, allowed: frozenset[type]) -> bool:
    """Refuse block types outside `allowed`; return whether there is more than blank text.

    In a system message, an opaque block does not count, since only text instructs the model. An
    empty text beside other content is refused, unless the message allows it.
    """
    content = message.content
    if type(content) is not tuple:
        _refuse_content(message)
    has_content = has_empty_text = False
    for block in content:
        if type(block) is Text:
            if not block.text:
                has_empty_text = True
            elif not has_content:
                has_content = not block.text.isspace()
        elif type(block) in allowed:
            has_content = has_content or type(message) is not SystemMessage
        else:
            check_elements(message, "content", content, allowed)
    if has_empty_text and has_content and not message.allows_empty_text:
        _refuse_empty_text(message)
    return has_content


def _refuse_empty_text(message: _NonBlankMessage | ToolResultMessage) -> NoReturn:
    texts = [block.text if type(block) is Text else None for block in message.content]
    field = f"content[{texts.index('')}]"
    refuse(message, f"{field} is an empty text", code="empty", field=field)


def _refuse_content(message: ChatMessage) -> NoReturn:
    factory = f"ChatMessage.{message.__struct_config__.tag}"
    rule = f"content must be a tuple of blocks; {factory} accepts plain text"
    refuse(message, rule, code="not_a_tuple", field="content")
