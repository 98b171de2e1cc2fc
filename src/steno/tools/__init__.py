"""The built-in tools for files and commands, and tools made from your own functions.

A `Toolbox` contains the tools of a coding agent for one `Workspace`; `@tool` turns a function into
a tool. Each export is imported on first use, so that a program that only shows a transcript does
not import the sandbox.
"""

import typing as _typing
from collections.abc import Callable as _Callable

from steno.lazy_exports import lazy_exports as _lazy_exports

if _typing.TYPE_CHECKING:
    from steno.ports import Capability, Tool, ToolContext, ToolOutput
    from steno.tools.function_tool import FunctionTool, tool
    from steno.tools.shell.confined_command import CommandAccess
    from steno.tools.shell.process import CommandLimits
    from steno.tools.shell.sandbox import SandboxSetting
    from steno.tools.toolbox import Toolbox
    from steno.tools.workspace import Workspace

__all__ = [
    "Capability",
    "CommandAccess",
    "CommandLimits",
    "FunctionTool",
    "SandboxSetting",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "Toolbox",
    "Workspace",
    "tool",
]

__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__,
    {
        "steno.ports": ("Capability", "Tool", "ToolContext", "ToolOutput"),
        "steno.tools.shell.confined_command": ("CommandAccess",),
        "steno.tools.function_tool": ("FunctionTool", "tool"),
        "steno.tools.shell.process": ("CommandLimits",),
        "steno.tools.shell.sandbox": ("SandboxSetting",),
        "steno.tools.toolbox": ("Toolbox",),
        "steno.tools.workspace": ("Workspace",),
    },
)
