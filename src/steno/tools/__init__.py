"""The built-in tools for files and commands, and tools made of your own functions.

A `Toolbox` holds the tools of a coding agent for one `Workspace`; `@tool` makes one of a function.
"""

from steno.ports import Capability, Tool, ToolContext, ToolOutput
from steno.tools.bash import CommandAccess
from steno.tools.function_tool import FunctionTool, tool
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
