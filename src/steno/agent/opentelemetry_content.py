"""Messages as the JSON in which spans hold them, by OpenTelemetry's convention.

Seals are worth something to a model alone, and bytes would be too many: neither is written.
"""

from __future__ import annotations

from typing import Any, TypeAlias, assert_never

import msgspec

from steno.call import InvalidToolCall, ToolCall
from steno.content import (
    Block,
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    Opaque,
    Resource,
    Text,
    Thinking,
)
from steno.message import Message, ToolResultMessage

Json: TypeAlias = dict[str, Any]


def as_json(value: object) -> str:
    """Return a value as JSON text: attributes of spans have no structure."""
    return msgspec.json.encode(value).decode()


def message_json(message: Message) -> Json:
    """Return a message: who speaks, and the parts of what is said."""
    parts = [part_json(block) for block in message.content]
    if isinstance(message, ToolResultMessage):
        is_text = all(isinstance(block, Text) for block in message.content)
        response = message.text if is_text else parts
        parts = [{"type": "tool_call_response", "id": message.tool_call_id, "response": response}]
    return {"role": message.role.value, "parts": parts}


def part_json(block: Block) -> Json:
    """Return a block; what the convention has no name for goes by ours."""
    match block:
        case Text():
            return {"type": "text", "content": block.text}
        case Thinking():
            return {"type": "reasoning", "content": block.text}
        case ToolCall():
            arguments = msgspec.Raw(block.arguments.encode())
            return _call(block, arguments)
        case InvalidToolCall():
            return _call(block, block.arguments)
        case Image():
            return _image(block)
        case FileReference():
            return {"type": "file_reference", "path": block.path}
        case Resource():
            named = {"type": "resource", "uri": block.uri}
            return named if block.text is None else named | {"content": block.text}
        case Opaque():
            return {"type": "opaque", "kind": block.kind}
        case _:
            assert_never(block)


def _call(call: ToolCall | InvalidToolCall, arguments: object) -> Json:
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments}


def _image(image: Image) -> Json:
    source, common = image.source, {"modality": "image", "mime_type": image.mime_type}
    match source:
        case ImageUrl():
            return {"type": "uri", "uri": source.url} | common
        case ImageBlob():
            return {"type": "file", "file_id": source.sha256} | common
        case ImageFile():
            return {"type": "file_reference", "path": source.path} | common
        case ImageData():
            return {"type": "image", "size": len(source.data)} | common
        case _:
            assert_never(source)
