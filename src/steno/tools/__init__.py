"""What a model can ask for: files, commands, and functions of your own.

A `Toolbox` holds the tools of a coding agent for one `Workspace`; `@tool` makes one of a function.
"""

from steno.ports import Capability, Stage, Tool, ToolOutput
from steno.tools.bash import Access
from steno.tools.function import FunctionTool, tool
from steno.tools.shell.process import CommandLimits
from steno.tools.shell.sandbox import Setting as SandboxSetting
from steno.tools.toolbox import Toolbox
from steno.tools.workspace import Workspace

__all__ = [
    "Access",
    "Capability",
    "CommandLimits",
    "FunctionTool",
    "SandboxSetting",
    "Stage",
    "Tool",
    "ToolOutput",
    "Toolbox",
    "Workspace",
    "tool",
]
