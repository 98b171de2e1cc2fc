"""Tools of every capability whose calls name their own subjects."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from steno import ToolCall, ToolDefinition
from steno.agent.permissions.subjects import normalize_subject
from steno.errors import ToolFailed
from steno.messages.call import AnyToolCall
from steno.ports import CallPreview, Capability, Subject, ToolContext, ToolOutput


class Stub:
    """A tool whose subjects are the arguments of its calls, read by `subjects_of`."""

    def __init__(
        self, name: str, capability: Capability, rule_aliases: tuple[str, ...] = ()
    ) -> None:
        self.rule_aliases = rule_aliases
        self.definition = ToolDefinition(
            name=name, description="Does something.", parameters={"type": "object"}
        )
        self.capability = capability

    def subjects(self, call: ToolCall) -> tuple[Subject | str, ...]:
        if "subjects" not in call.parsed:
            raise ToolFailed("subjects: missing")
        return subjects_of(self.capability, *call.arguments_as(dict)["subjects"])

    def headline(self, call: AnyToolCall) -> str:
        raise NotImplementedError

    async def preview(self, call: ToolCall) -> CallPreview:
        raise NotImplementedError

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        raise NotImplementedError


class SubjectStub(Stub):
    """A tool whose calls have these subjects."""

    def __init__(
        self,
        name: str,
        capability: Capability,
        subjects: tuple[Subject, ...],
        *,
        has_reading_calls: bool,
    ) -> None:
        super().__init__(name, capability)
        self.has_reading_calls = has_reading_calls
        self._subjects = subjects

    def subjects(self, call: ToolCall) -> tuple[Subject, ...]:
        return self._subjects


BASH = Stub("bash", Capability.EXECUTE)
READ = Stub("read", Capability.READ)
WRITE = Stub("write", Capability.WRITE)
FETCH = Stub("fetch", Capability.NETWORK)
TOOLS = (BASH, READ, WRITE, FETCH)


def about(*subjects: str) -> ToolCall:
    return ToolCall.create("any", {"subjects": list(subjects)}, id="c1")


def unknown(text: str, capability: Capability) -> Subject:
    """Return a subject whose target is unknown before the call runs."""
    return Subject(text=text, capability=capability, is_unknown=True)


def subjects_of(capability: Capability, *texts: str) -> tuple[Subject, ...]:
    """Return the subjects for plain strings; a line feed at the beginning marks unknown ones."""
    return tuple(
        [
            unknown(text[1:], capability)
            if text.startswith("\n")
            else normalize_subject(text, capability)
            for text in texts
        ]
    )


def confined(text: str, **changes: Any) -> Subject:
    """Return a command in a sandbox."""
    return replace(normalize_subject(text, Capability.EXECUTE), is_confined=True, **changes)
