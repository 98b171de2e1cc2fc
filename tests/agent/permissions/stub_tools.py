"""Tools of every capability whose calls name their own subjects."""

from __future__ import annotations

from steno import ToolCall, ToolDefinition
from steno.errors import ToolFailed
from steno.messages.call import AnyToolCall
from steno.ports import CallPreview, Capability, ToolContext, ToolOutput


class Stub:
    """A tool whose subjects are the arguments of its calls."""

    def __init__(
        self, name: str, capability: Capability, rule_aliases: tuple[str, ...] = ()
    ) -> None:
        self.rule_aliases = rule_aliases
        self.definition = ToolDefinition(
            name=name, description="Does something.", parameters={"type": "object"}
        )
        self.capability = capability

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        if "subjects" not in call.parsed:
            raise ToolFailed("subjects: missing")
        return tuple(call.arguments_as(dict)["subjects"])

    def headline(self, call: AnyToolCall) -> str:
        raise NotImplementedError

    async def preview(self, call: ToolCall) -> CallPreview:
        raise NotImplementedError

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        raise NotImplementedError


BASH = Stub("bash", Capability.EXECUTE)
READ = Stub("read", Capability.READ)
WRITE = Stub("write", Capability.WRITE)
FETCH = Stub("fetch", Capability.NETWORK)
TOOLS = (BASH, READ, WRITE, FETCH)


def about(*subjects: str) -> ToolCall:
    return ToolCall.create("any", {"subjects": list(subjects)}, id="c1")
