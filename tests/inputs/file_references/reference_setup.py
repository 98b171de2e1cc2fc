"""Shared by the tests of file references: scripted permissions, and resolving a reference."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from steno.errors import ToolFailed
from steno.inputs.file_references import FileReferenceResolver
from steno.messages.content import FileReference, Text
from steno.ports import Capability, ResolveContext, ResolvedReference
from steno.records.entry import Resolution, ResolutionStatus

LIMIT_S = 60.0


class ScriptedPermission:
    """Allows everything but what is denied, and may run an action during the request."""

    def __init__(
        self, *, denied: Collection[str] = (), meanwhile: Callable[[], object] | None = None
    ) -> None:
        self.denied = denied
        self.meanwhile = meanwhile
        self.asked: list[tuple[str, Capability, str]] = []

    async def __call__(
        self, tool: str, capability: Capability, subject: str, *, preview: str = ""
    ) -> str:
        self.asked.append((tool, capability, subject))
        if subject in self.denied:
            raise ToolFailed(f"permission denied (deny read({subject}))", code="denied")
        if self.meanwhile is not None:
            self.meanwhile()
        return "the test"


def resolve(
    files: FileReferenceResolver, path: str, *lines: int, permits: Any = None
) -> ResolvedReference:
    context = ResolveContext(authorize=ScriptedPermission() if permits is None else permits)
    return asyncio.run(asyncio.wait_for(files.resolve(reference(path, *lines), context), LIMIT_S))


def reference(path: str, *lines: int) -> FileReference:
    first, last = (*lines, None, None)[:2]
    return FileReference(path=path, start_line=first, end_line=last)


def texts_of(finding: ResolvedReference) -> list[str]:
    assert finding.error is None
    return [block.text for block in finding.content if isinstance(block, Text)]


def text_of(finding: ResolvedReference) -> str:
    (text,) = texts_of(finding)
    return text


def details_of(finding: ResolvedReference) -> dict[str, Any]:
    assert finding.details is not None
    return dict(finding.details)


def error_of(finding: ResolvedReference) -> str:
    assert finding.error is not None
    assert finding.content == ()
    return finding.error


def error_code_of(finding: ResolvedReference) -> str:
    """Return the error code of a failure; its text may change."""
    assert error_of(finding)
    assert finding.error_code is not None
    return finding.error_code


def recorded(finding: ResolvedReference) -> Resolution:
    """Return the resolution that the log records."""
    return Resolution(
        target="a",
        block=0,
        status=ResolutionStatus.FAILED if finding.error else ResolutionStatus.RESOLVED,
        content=finding.content,
        error=finding.error,
        details=finding.details,
    )


def changes(
    files: FileReferenceResolver, path: str, finding: ResolvedReference, *known: str
) -> tuple[str, ...]:
    changes = files.changes(reference(path), recorded(finding), known=frozenset(known))
    return asyncio.run(asyncio.wait_for(changes, LIMIT_S))
