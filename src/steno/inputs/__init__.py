"""What a person points at, and what it turns out to be: files, images, resources of servers.

    inputs = InputResolver(folder)
    agent = Agent(provider, conversation, resolver=inputs)
    await agent.run(inputs.prompt("What does @src/main.py:10-40 do?").message)

Each part is loaded when it is first asked for: who sets up servers need not wait for images.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from steno.inputs.file_references import FileLimits
    from steno.inputs.images.limits import ImageLimits, image_limits_for
    from steno.inputs.images.resolver import ImageTextReader
    from steno.inputs.mcp.connection import McpServers
    from steno.inputs.mcp.prompts import expand_prompt, list_mcp_prompts, parse_prompt_command
    from steno.inputs.mcp.server_spec import McpServerSpec, read_server_specs
    from steno.inputs.mcp.tools import McpTools, list_mcp_tools
    from steno.inputs.mentions import is_url
    from steno.inputs.ocr.engine import OcrEngine, OcrResult, RecognisedText, Unrecognised
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

_PLACES: _typing.Final = {
    "file_references": ("FileLimits",),
    "images.limits": ("ImageLimits", "image_limits_for"),
    "images.resolver": ("ImageTextReader",),
    "mcp.connection": ("McpServers",),
    "mcp.prompts": ("expand_prompt", "list_mcp_prompts", "parse_prompt_command"),
    "mcp.server_spec": ("McpServerSpec", "read_server_specs"),
    "mcp.tools": ("McpTools", "list_mcp_tools"),
    "mentions": ("is_url",),
    "ocr.engine": ("OcrEngine", "OcrResult", "RecognisedText", "Unrecognised"),
    "ocr.reader": ("OcrReader", "choose_ocr_engine"),
    "references": ("InputResolver", "ParsedPrompt"),
}


def __getattr__(name: str) -> object:
    for place, names in _PLACES.items():
        if name in names:
            found: object = getattr(_importlib.import_module(f"steno.inputs.{place}"), name)
            return found
    raise AttributeError(f"module 'steno.inputs' has no attribute {name!r}")
