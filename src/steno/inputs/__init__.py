"""What a person points at, and what it turns out to be: files, images, resources of servers.

    inputs = Inputs(folder)
    agent = Agent(provider, conversation, resolver=inputs)
    await agent.run(inputs.prompt("What does @src/main.py:10-40 do?").message)

Each part is loaded when it is first asked for: who sets up servers need not wait for images.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from steno.inputs.files import FileLimits
    from steno.inputs.images.images import Reads
    from steno.inputs.images.limits import ImageLimits, limits_for
    from steno.inputs.inputs import Inputs, Prompt
    from steno.inputs.mcp.prompts import expand, parse_command, prompts_of
    from steno.inputs.mcp.servers import Servers
    from steno.inputs.mcp.specs import ServerSpec, read_specs
    from steno.inputs.mcp.tools import McpTools, tools_of
    from steno.inputs.mentions import is_address
    from steno.inputs.ocr.engine import Engine, Reading, Recognised, Unrecognised
    from steno.inputs.ocr.reading import Ocr, engine_for

__all__ = [
    "Engine",
    "FileLimits",
    "ImageLimits",
    "Inputs",
    "McpTools",
    "Ocr",
    "Prompt",
    "Reading",
    "Reads",
    "Recognised",
    "ServerSpec",
    "Servers",
    "Unrecognised",
    "engine_for",
    "expand",
    "is_address",
    "limits_for",
    "parse_command",
    "prompts_of",
    "read_specs",
    "tools_of",
]

_PLACES: _typing.Final = {
    "files": ("FileLimits",),
    "images.images": ("Reads",),
    "images.limits": ("ImageLimits", "limits_for"),
    "inputs": ("Inputs", "Prompt"),
    "mcp.prompts": ("expand", "parse_command", "prompts_of"),
    "mcp.servers": ("Servers",),
    "mcp.specs": ("ServerSpec", "read_specs"),
    "mcp.tools": ("McpTools", "tools_of"),
    "mentions": ("is_address",),
    "ocr.engine": ("Engine", "Reading", "Recognised", "Unrecognised"),
    "ocr.reading": ("Ocr", "engine_for"),
}


def __getattr__(name: str) -> object:
    for place, names in _PLACES.items():
        if name in names:
            found: object = getattr(_importlib.import_module(f"steno.inputs.{place}"), name)
            return found
    raise AttributeError(f"module 'steno.inputs' has no attribute {name!r}")
