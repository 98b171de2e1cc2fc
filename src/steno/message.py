"""Messages: what a person, a model and tools say to each other.

Four sealed types with one base, `ChatMessage`, which also has the factories. A message carries
no id, no time and no status: equal content is equal, and the log knows the rest. Which block
may stand in which message is the type of its `content`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, cast, final, get_args

from msgspec.structs import force_setattr

from steno.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.content import Block, FileReference, Image, Opaque, Resource, Text, Thinking, as_utc
from steno.errors import InvalidMessage, InvalidValue
from steno.usage import StopReason, Usage
from steno.value import Value, explain_text, freeze_mapping, is_text

B = TypeVar("B")


class MessageRole(StrEnum):
    """Who speaks. The value is what is written; `int(role)` numbers the roles from 0."""

    SYSTEM = "system", 0
    USER = "user", 1
    ASSISTANT = "assistant", 2
    TOOL = "tool", 3

    number: int

    def __new__(cls, text: str, number: int) -> MessageRole:
        """Make a member that is its text and knows its number."""
        role = str.__new__(cls, text)
        role._value_ = text
        role.number = number
        return role

    def __int__(self) -> int:
        return self.number

    @classmethod
    def parse(cls, text: str) -> MessageRole:
        """Read a role in any case. Raises InvalidMessage for an unknown one."""
        try:
            return cls[text.upper()]
        except (KeyError, AttributeError):
            raise InvalidMessage("role: must be system, user, assistant or tool") from None


class Outcome(StrEnum):
    """What became of a tool call."""

    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    SKIPPED = "skipped"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    UNAVAILABLE = "unavailable"


@final
class Failure(Value, frozen=True, kw_only=True):
    """Why a tool call failed, for people and audit; the model reads the result's content."""

    message: str
    traceback: str | None = None
    recoverable: bool = True

    def __post_init__(self) -> None:
        if not is_text(self.message):
            raise InvalidMessage(f"failure: message {explain_text(self.message)}")
        if self.traceback is not None and not is_text(self.traceback):
            raise InvalidMessage(f"failure: traceback {explain_text(self.traceback)}")


# -- the four messages -----------------------------------------------------------------------


class ChatMessage(Value, frozen=True, tag_field="type"):
    """The base of the four messages, with a factory for each. Annotate with `Message`."""

    role: ClassVar[MessageRole]

    def __init_subclass__(cls, **settings: Any) -> None:
        """Seal the union: a fifth message would be a case that nobody handles."""
        if cls.__module__ != __name__:
            raise TypeError("ChatMessage is sealed: it has four subclasses and takes no more")
        super().__init_subclass__(**settings)

    def __post_init__(self) -> None:
        raise InvalidMessage("message: use ChatMessage.system, .user, .assistant or .tool_result")

    @property
    def text(self) -> str | None:
        """The text blocks joined; None where there is none."""
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
        """Make the message that defines how the model behaves. `text` must not be blank."""
        return SystemMessage((Text(text),))

    @staticmethod
    def user(content: str | Iterable[UserBlock]) -> UserMessage:
        """Make a user message from text or blocks. Text alone must not be blank."""
        if isinstance(content, str):
            return UserMessage((Text(content),))
        return UserMessage(_blocks(content, "user message"))

    @staticmethod
    def assistant(
        text: str | None = None,
        calls: Iterable[AnyToolCall] = (),
        *,
        stop_reason: StopReason | None = None,
        usage: Usage | None = None,
    ) -> AssistantMessage:
        """Make an assistant message. Without `text` there must be calls; text may be empty."""
        blocks: tuple[AssistantBlock, ...] = _blocks(calls, "assistant message")
        if text is not None:
            blocks = (Text(text), *blocks)
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
        """Make the answer to one call. `content` may be empty, `tool_call_id` may not."""
        return ToolResultMessage(
            tool_call_id=tool_call_id,
            content=(Text(content),)
            if isinstance(content, str)
            else _blocks(content, "tool result"),
            outcome=outcome,
            tool_name=tool_name,
            details=details,
            failure=failure,
            started_at=started_at,
            duration_s=duration_s,
        )


@final
class SystemMessage(ChatMessage, frozen=True, tag="system"):
    """Who the model is to be and what it may do; first in a history."""

    role: ClassVar[MessageRole] = MessageRole.SYSTEM

    content: tuple[Text, ...]

    def __post_init__(self) -> None:
        if not _check_blocks(self.content, _SYSTEM_BLOCKS, "system message"):
            raise InvalidMessage("system message: text must not be blank")

    @property
    def text(self) -> str:
        """The text blocks joined."""
        return _join(self.content) or ""


UserBlock: TypeAlias = Text | Image | FileReference | Resource | Opaque


@final
class UserMessage(ChatMessage, frozen=True, tag="user"):
    """What a person says, with what they point at."""

    role: ClassVar[MessageRole] = MessageRole.USER

    content: tuple[UserBlock, ...]

    def __post_init__(self) -> None:
        if not _check_blocks(self.content, _USER_BLOCKS, "user message"):
            raise InvalidMessage("user message: text must not be blank")

    @property
    def text(self) -> str:
        """The text blocks joined; empty where there are only other blocks."""
        return _join(self.content) or ""


AssistantBlock: TypeAlias = Text | Thinking | Image | ToolCall | InvalidToolCall | Opaque


@final
class AssistantMessage(ChatMessage, frozen=True, tag="assistant", kw_only=True):
    """One turn of a model: its thoughts, words and calls in the order they came."""

    shown: ClassVar[frozenset[str]] = frozenset({"raw_stop_reason"})
    role: ClassVar[MessageRole] = MessageRole.ASSISTANT

    content: tuple[AssistantBlock, ...]
    stop_reason: StopReason | None = None
    raw_stop_reason: str | None = None
    """The provider's own word for it, where there was one."""
    usage: Usage | None = None

    def __post_init__(self) -> None:
        _check_blocks(self.content, _ASSISTANT_BLOCKS, "assistant message")
        if self.stop_reason is None:
            # A turn that a model ended without a word is a fact; one that we make is a mistake.
            if not self.content:
                raise InvalidMessage("assistant message: needs text, tool calls or a stop_reason")
        elif type(self.stop_reason) is not StopReason:
            raise InvalidMessage("assistant message: stop_reason must be a StopReason")
        if self.raw_stop_reason is not None and not is_text(self.raw_stop_reason):
            raise InvalidMessage("assistant message: raw_stop_reason must be a string")

    @property
    def text(self) -> str | None:
        """The text blocks joined; None where the model only thought or called."""
        return _join(self.content)

    @property
    def tool_calls(self) -> tuple[AnyToolCall, ...]:
        """The calls of this turn in order, those that cannot be run included."""
        return tuple([block for block in self.content if isinstance(block, AnyToolCall)])


ResultBlock: TypeAlias = Text | Image | FileReference | Resource | Opaque


@final
class ToolResultMessage(ChatMessage, frozen=True, tag="tool_result", kw_only=True):
    """The answer to one tool call: blocks for the model; details and failure for people."""

    shown: ClassVar[frozenset[str]] = frozenset({"tool_call_id", "tool_name"})
    role: ClassVar[MessageRole] = MessageRole.TOOL

    tool_call_id: str  # pyright: ignore[reportIncompatibleMethodOverride] - a frozen field reads like a property
    content: tuple[ResultBlock, ...]
    outcome: Outcome = Outcome.OK
    tool_name: str = ""
    details: Mapping[str, Any] | None = None
    failure: Failure | None = None
    started_at: datetime | None = None
    duration_s: float | None = None

    def __post_init__(self) -> None:
        if not (self.tool_call_id and is_text(self.tool_call_id)):
            raise InvalidMessage("tool result: tool_call_id must be a non-empty string")
        _check_blocks(self.content, _RESULT_BLOCKS, "tool result")
        if type(self.outcome) is not Outcome:
            raise InvalidMessage("tool result: outcome must be an Outcome")
        if self.failure is not None and self.outcome is Outcome.OK:
            raise InvalidMessage("tool result: an ok outcome cannot carry a failure")
        if not is_text(self.tool_name):
            raise InvalidMessage("tool result: tool_name must be a string")
        if self.details is not None:
            try:
                force_setattr(self, "details", freeze_mapping(self.details))
            except InvalidValue as exc:
                raise InvalidMessage(f"tool result: details are {exc}") from None
        if self.started_at is not None:
            force_setattr(self, "started_at", as_utc(self.started_at, "tool result: started_at"))
        if self.duration_s is not None and not self.duration_s >= 0:
            raise InvalidMessage("tool result: duration_s must not be negative")

    @property
    def text(self) -> str:
        """The text blocks joined; empty where there are only other blocks."""
        return _join(self.content) or ""

    @property
    def is_error(self) -> bool:
        """Whether anything but the asked-for thing happened."""
        return self.outcome is not Outcome.OK

    @staticmethod
    def success(tool_call_id: str, result: str) -> ToolResultMessage:
        """Make the result of a call that did what it should. `result` may be empty."""
        return ChatMessage.tool_result(tool_call_id, result)

    @staticmethod
    def error(
        tool_call_id: str, message: str, *, outcome: Outcome = Outcome.ERROR
    ) -> ToolResultMessage:
        """Make the result of a call that failed, with a message that the model will read."""
        return ChatMessage.tool_result(
            tool_call_id, message, outcome=outcome, failure=Failure(message=message)
        )


ToolResult: TypeAlias = ToolResultMessage
"""The same value under its other name: a result is a message, there is nothing to convert."""

Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolResultMessage
"""The closed union, for `match`. `ChatMessage` is the same set as a class, for arguments."""


def as_messages(messages: Iterable[ChatMessage]) -> tuple[Message, ...]:
    """Tell the type checker what it cannot see: that ChatMessage has no other subclasses."""
    return cast("tuple[Message, ...]", tuple(messages))


_SYSTEM_BLOCKS: Final[frozenset[type]] = frozenset({Text})
_USER_BLOCKS: Final[frozenset[type]] = frozenset(get_args(UserBlock))
_ASSISTANT_BLOCKS: Final[frozenset[type]] = frozenset(get_args(AssistantBlock))
_RESULT_BLOCKS: Final[frozenset[type]] = frozenset(get_args(ResultBlock))


def _join(content: tuple[Block, ...]) -> str | None:
    texts = [block.text for block in content if type(block) is Text]
    return "".join(texts) if texts else None


def _blocks(parts: Iterable[B], place: str) -> tuple[B, ...]:
    try:
        return tuple(parts)
    except TypeError:
        raise InvalidMessage(f"{place}: content must be text or blocks") from None


def _check_blocks(content: tuple[Block, ...], allowed: frozenset[type], place: str) -> bool:
    """Refuse blocks that may not stand here; tell whether there is more than blank text."""
    if type(content) is not tuple:
        raise InvalidMessage(f"{place}: content must be a tuple of blocks")
    says_something = False
    for block in content:
        if type(block) is Text:
            says_something = says_something or not (not block.text or block.text.isspace())
        elif type(block) in allowed:
            says_something = True
        else:
            raise InvalidMessage(
                f"{place}: content[{content.index(block)}] must not be {type(block).__name__}; "
                f"allowed are {', '.join(sorted(kind.__name__ for kind in allowed))}"
            )
    return says_something
