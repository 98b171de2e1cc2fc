"""Ask the gate about something that a person points at, by the rules for tools.

A rule such as `read(secrets/**)` counts for a file whoever names it. To the gate it looks like a
call of the tool that opens such things.
"""

from __future__ import annotations

from typing import Final, final

from steno.agent.gate import Decides
from steno.agent.notebook import Notebook
from steno.call import ToolCall, map_tool_name
from steno.errors import ToolFailed
from steno.ports import Capability, Permits, Stage, ToolOutput
from steno.tool import ToolDefinition

_LONGEST: Final = 200
_SCHEMA: Final = {"type": "object", "properties": {"subject": {"type": "string"}}}


def permits_of(gate: Decides, notebook: Notebook) -> Permits:
    """Return who lets things be opened in a conversation."""

    async def permits(tool: str, capability: Capability, subject: str, *, preview: str = "") -> str:
        opening = _Opening(map_tool_name(tool), capability, subject, preview)
        ruling = await gate.admit(opening, opening.call, notebook)
        if not ruling.allowed:
            raise ToolFailed(ruling.reason)
        return ruling.reason

    return permits


@final
class _Opening:
    """What is to be opened, as a tool that does just that (`steno.ports.Tool`)."""

    def __init__(self, name: str, capability: Capability, subject: str, preview: str) -> None:
        self.definition: Final = ToolDefinition(
            name=name, description=f"opens {subject}"[:_LONGEST], parameters=_SCHEMA
        )
        self.capability: Final = capability
        self.ruled_as: Final[tuple[str, ...]] = ()
        self.call: Final = ToolCall.create(name, {"subject": subject})
        self._subject = subject
        self._preview = preview

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        return (self._subject,)

    async def preview(self, call: ToolCall) -> str:
        return self._preview or f"{self.definition.name} {self._subject}"

    async def run(self, call: ToolCall, stage: Stage) -> ToolOutput:
        raise AssertionError("whoever asked opens it")
