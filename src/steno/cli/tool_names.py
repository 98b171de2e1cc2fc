"""The tools that a rule can be about: a rule about no tool protects and allows nothing."""

from __future__ import annotations

from typing import Final

from steno.agent.rules import Rule
from steno.cli.nearest import advice
from steno.errors import InvalidValue

TOOL_NAMES: Final = (
    *("read", "write", "edit", "glob", "grep"),
    *("bash", "bash_output", "bash_kill"),
)
"""Those that come with the program."""
_ALSO_RULED: Final = ("fetch",)
"""What is done for a person and not for a model, by rules all the same: images are fetched."""
FOREIGN: Final = "mcp__"
"""How the names of tools begin that servers bring."""


def check_tool(rule: Rule) -> None:
    """Refuse a rule about a tool that there is not. Raises InvalidValue.

    What a wildcard stands for, and what servers bring, cannot be known here.
    """
    name = rule.tool
    known = (*TOOL_NAMES, *_ALSO_RULED)
    if name not in known and "*" not in name and not name.startswith(FOREIGN):
        raise InvalidValue(f"there is no tool {name}; {advice(name, known)}")
