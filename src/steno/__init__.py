"""steno: the typed, immutable record of what a person, a model and tools say to each other.

Everything a user writes every day is here; the stored format is in `steno.codec`, doubles and
strategies for tests are in `steno.testing`. `Conversation` and `open_store` are loaded when they
are first asked for: whoever only needs messages need not wait for the log.
"""

import typing as _typing

from steno.assemble import Assembler
from steno.errors import (
    Conflict,
    InvalidArguments,
    InvalidDocument,
    InvalidMessage,
    InvalidRequest,
    InvalidTool,
    InvalidValue,
    LogError,
    Missing,
    OutOfOrder,
    Problem,
    ProtocolError,
    ProviderError,
    StenoError,
    UnsupportedVersion,
)
from steno.json_object import JsonObject
from steno.messages.call import AnyToolCall, InvalidToolCall, Seal, ToolCall, map_tool_name
from steno.messages.content import (
    Block,
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    Opaque,
    RecognitionMode,
    Resource,
    Text,
    Thinking,
)
from steno.messages.event import (
    BlockAdded,
    BlockSealed,
    Event,
    ExtrasAdded,
    Finished,
    TextDelta,
    ThinkingDelta,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
)
from steno.messages.history import ConversationHistory
from steno.messages.message import (
    AssistantMessage,
    ChatMessage,
    Message,
    SystemMessage,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.order import OrderCode, OrderIssue, Severity, check_order
from steno.messages.outcome import Failure, Outcome
from steno.messages.repair import RepairResult, repair
from steno.messages.request import Request
from steno.messages.role import MessageRole
from steno.messages.tool import ToolDefinition
from steno.messages.usage import StopReason, Usage
from steno.records.entry import Entry
from steno.values import replace_lone_surrogates

if _typing.TYPE_CHECKING:
    from steno.log.conversation import Conversation
    from steno.store import open_store

__version__ = "0.1.0"

__all__ = [
    "AnyToolCall",
    "Assembler",
    "AssistantMessage",
    "Block",
    "BlockAdded",
    "BlockSealed",
    "ChatMessage",
    "Conflict",
    "Conversation",
    "ConversationHistory",
    "Entry",
    "Event",
    "ExtrasAdded",
    "Failure",
    "FileReference",
    "Finished",
    "Image",
    "ImageBlob",
    "ImageData",
    "ImageFile",
    "ImageUrl",
    "InvalidArguments",
    "InvalidDocument",
    "InvalidMessage",
    "InvalidRequest",
    "InvalidTool",
    "InvalidToolCall",
    "InvalidValue",
    "JsonObject",
    "LogError",
    "Message",
    "MessageRole",
    "Missing",
    "Opaque",
    "OrderCode",
    "OrderIssue",
    "OutOfOrder",
    "Outcome",
    "Problem",
    "ProtocolError",
    "ProviderError",
    "RecognitionMode",
    "RepairResult",
    "Request",
    "Resource",
    "Seal",
    "Severity",
    "StenoError",
    "StopReason",
    "SystemMessage",
    "Text",
    "TextDelta",
    "Thinking",
    "ThinkingDelta",
    "ToolCall",
    "ToolCallBegin",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolDefinition",
    "ToolResult",
    "ToolResultMessage",
    "UnsupportedVersion",
    "Usage",
    "UserMessage",
    "check_order",
    "map_tool_name",
    "open_store",
    "repair",
    "replace_lone_surrogates",
]


def __getattr__(name: str) -> object:
    if name == "Conversation":
        from steno.log.conversation import Conversation  # noqa: PLC0415 - see the docstring

        return Conversation
    if name == "open_store":
        from steno.store import open_store  # noqa: PLC0415 - likewise

        return open_store
    raise AttributeError(f"module 'steno' has no attribute {name!r}")
