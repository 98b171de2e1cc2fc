"""Resolve the files, images and MCP resources that a user message refers to.

    inputs = InputResolver(folder)
    agent = Agent(provider, conversation, resolver=inputs)
    await agent.run(inputs.prompt("What does @src/main.py:10-40 do?").message)

Each export is loaded on first use, so that a program that uses only MCP does not load Pillow.
"""

import typing as _typing
from collections.abc import Callable as _Callable

from steno.errors import Unrecognised
from steno.lazy_exports import lazy_exports as _lazy_exports

if _typing.TYPE_CHECKING:
    from steno.inputs.file_references import FileLimits
    from steno.inputs.images.prepare import ImageLimits, image_limits_for
    from steno.inputs.images.resolver import ImageTextReader
    from steno.inputs.mcp.connection import McpServers
    from steno.inputs.mcp.prompts import expand_prompt, list_mcp_prompts, parse_prompt_command
    from steno.inputs.mcp.server_spec import McpServerSpec, read_server_specs
    from steno.inputs.mcp.tools import McpTools, list_mcp_tools
    from steno.inputs.mentions import is_url
    from steno.inputs.ocr.engine import OcrEngine, OcrResult, RecognisedText
    from steno.inputs.ocr.reader import OcrReader, choose_ocr_engine
    from steno.inputs.references import InputResolver, ParsedPrompt

__all__ = [
    "FileLimits",
    "ImageLimits",
    "ImageTextReader",
    "InputResolver",
    "McpServerSpec",
    "McpServers",
    "McpTools",
    "OcrEngine",
    "OcrReader",
    "OcrResult",
    "ParsedPrompt",
    "RecognisedText",
    "Unrecognised",
    "choose_ocr_engine",
    "expand_prompt",
    "image_limits_for",
    "is_url",
    "list_mcp_prompts",
    "list_mcp_tools",
    "parse_prompt_command",
    "read_server_specs",
]

__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__,
    {
        "steno.inputs.file_references": ("FileLimits",),
        "steno.inputs.images.prepare": ("ImageLimits", "image_limits_for"),
        "steno.inputs.images.resolver": ("ImageTextReader",),
        "steno.inputs.mcp.connection": ("McpServers",),
        "steno.inputs.mcp.prompts": ("expand_prompt", "list_mcp_prompts", "parse_prompt_command"),
        "steno.inputs.mcp.server_spec": ("McpServerSpec", "read_server_specs"),
        "steno.inputs.mcp.tools": ("McpTools", "list_mcp_tools"),
        "steno.inputs.mentions": ("is_url",),
        "steno.inputs.ocr.engine": ("OcrEngine", "OcrResult", "RecognisedText"),
        "steno.inputs.ocr.reader": ("OcrReader", "choose_ocr_engine"),
        "steno.inputs.references": ("InputResolver", "ParsedPrompt"),
    },
)
