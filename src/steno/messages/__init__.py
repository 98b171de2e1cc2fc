"""Messages, blocks, calls, results and events that users, models and tools exchange.

The `steno` package re-exports most of these names.
"""

from steno.messages.call import (
    AnyToolCall,
    InvalidToolCall,
    Seal,
    ToolCall,
    build_call,
    map_tool_name,
)
from steno.messages.change import Change, ChangeCode
from steno.messages.content import (
    Block,
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageSource,
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
from steno.messages.order import OrderCode, OrderIssue, RepairResult, Severity, check_order
from steno.messages.outcome import Failure, Outcome
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.messages.usage import StopReason, Usage

__all__ = [
    "AnyToolCall",
    "AssistantMessage",
    "Block",
    "BlockAdded",
    "BlockSealed",
    "Change",
    "ChangeCode",
    "ChatMessage",
    "ConversationHistory",
    "Event",
    "ExtrasAdded",
    "Failure",
    "FileReference",
    "Finished",
    "Image",
    "ImageBlob",
    "ImageData",
    "ImageFile",
    "ImageSource",
    "ImageUrl",
    "InvalidToolCall",
    "Message",
    "MessageRole",
    "Opaque",
    "OrderCode",
    "OrderIssue",
    "Outcome",
    "RecognitionMode",
    "RepairResult",
    "Request",
    "Resource",
    "Seal",
    "Severity",
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
    "Usage",
    "UserMessage",
    "build_call",
    "check_order",
    "map_tool_name",
]
