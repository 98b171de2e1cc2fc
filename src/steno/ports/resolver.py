"""Who finds out what a user message points at: files, images, resources of servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, final

from steno.content import FileReference, Image, Opaque, Resource, Text
from steno.entry import Resolution
from steno.ports.tool import Capability
from steno.value import Quiet

Pointer: TypeAlias = FileReference | Image | Resource
"""A block that points at something, or holds what has to be made fit for a model."""


class Permits(Protocol):
    """Whoever lets something be opened that a person points at."""

    async def __call__(
        self, tool: str, capability: Capability, subject: str, *, preview: str = ""
    ) -> str:
        """Return what allows it, for the record: a rule, or who was asked.

        The rules are those of a tool (`read`, `fetch`, ...), and the subject is spelled as they
        spell it. Raises ToolFailed, which says why not, and not of what.
        """
        ...


class Viewer(NamedTuple):
    """For whom something is looked up, and what there is around it meanwhile."""

    authorize: Permits
    vision: bool | None = None
    """Whether the model takes images; None: nobody knows."""
    image_refusal: str = ""
    """Why it took none that were sent to it, if that has happened."""
    report_progress: Callable[[str], object] = lambda _: None
    """Tells people what is being done, where that takes a while."""


@final
class Finding(Quiet, frozen=True, kw_only=True):
    """What came of it: what the model sees in place of the pointer, or why there is nothing."""

    shown: ClassVar[frozenset[str]] = frozenset({"error", "note"})

    content: tuple[Text | Image | Resource | Opaque, ...] = ()
    error: str | None = None
    """Why nothing came of it, and what can be done; there is content or an error."""
    details: Mapping[str, Any] | None = None
    """How it came about: hash, size, mode, engine, confidence. For the record, never sent."""
    note: str = ""
    """What a person should know who would expect something else."""


class Resolver(Protocol):
    """Opens what messages point at, with the rights of whoever works here."""

    async def resolve(self, pointer: Pointer, viewer: Viewer) -> Finding:
        """Find out what is behind a pointer. What cannot be opened is a finding with an error."""
        ...

    def is_current(self, pointer: Pointer, resolution: Resolution, viewer: Viewer) -> bool:
        """Tell whether what was found once still serves: it is not too old, the model can see it."""
        ...

    async def changes(
        self, pointer: Pointer, resolution: Resolution, *, known: frozenset[str] = frozenset()
    ) -> tuple[str, ...]:
        """Return what has changed of it since, a line each: `notes.md has changed`.

        Left out are files that the model knows by now, by their names in the workspace.
        """
        ...
