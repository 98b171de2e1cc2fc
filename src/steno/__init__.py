"""steno: a typed, immutable record of the messages that users, models and tools exchange.

This package exports the most common names; the `__all__` of each subpackage lists the others.
`Agent`, `Conversation`, `connect`, `open_store` and `tool` are loaded on first use, so that
`import steno` stays fast.
"""

import typing as _typing
from collections.abc import Callable as _Callable

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
from steno.lazy_exports import lazy_exports as _lazy_exports
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
    MessageRole,
    SystemMessage,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.order import OrderCode, OrderIssue, RepairResult, Severity, check_order, repair
from steno.messages.outcome import Failure, Outcome
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.messages.usage import StopReason, Usage
from steno.records.entry import Entry
from steno.values import replace_lone_surrogates

if _typing.TYPE_CHECKING:
    from steno.agent import Agent
    from steno.log.conversation import Conversation
    from steno.providers import connect
    from steno.store import open_store
    from steno.tools import tool

__version__ = "0.1.0"

__all__ = [
    "Agent",
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
    "connect",
    "map_tool_name",
    "open_store",
    "repair",
    "replace_lone_surrogates",
    "tool",
]


__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__,
    {
        "steno.agent": ("Agent",),
        "steno.log.conversation": ("Conversation",),
        "steno.providers": ("connect",),
        "steno.store": ("open_store",),
        "steno.tools": ("tool",),
    },
)
