"""Helpers for tests of references: an agent on a folder, and scripted resolvers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from steno.agent import Notice, NoticeKind
from steno.agent.steering import find_unsent_prompt
from steno.errors import Unrecognised
from steno.inputs.mcp.resources import ResourceResolver
from steno.inputs.ocr.engine import OcrResult
from steno.inputs.references import InputResolver
from steno.log.conversation import Conversation
from steno.messages.content import FileReference, Image, ImageFile, RecognitionMode, Resource, Text
from steno.messages.message import UserMessage
from steno.messages.request import Request
from steno.ports import ReferenceBlock, ResolveContext, ResolvedReference
from steno.records.entry import Payload, Resolution, ResolutionStatus
from steno.tools.workspace import Workspace
from tests.agent.agent_setup import AgentHarness
from tests.inputs.mcp.resource_doubles import ManualClock, ResourceServer

T = TypeVar("T")

NOTES = Resource(server="lib", uri="lib://notes")


# -- prompts -------------------------------------------------------------------------------------


def prompt_with(text: str, *blocks: Text | ReferenceBlock) -> UserMessage:
    """Build a prompt with references."""
    return UserMessage((Text(text), *blocks))


def unsent_prompt(conversation: Conversation) -> UserMessage | None:
    """Return the prompt that could not be opened, without what was noted beside it."""
    found = find_unsent_prompt(conversation)
    return None if found is None else found.message


def file_reference(path: str, *lines: int) -> FileReference:
    first, last = (*lines, None, None)[:2]
    return FileReference(path=path, start_line=first, end_line=last)


def image_file(path: str = "plan.png", mode: RecognitionMode = RecognitionMode.AUTO) -> Image:
    return Image(source=ImageFile(path), mode=mode)


# -- an agent ------------------------------------------------------------------------------------


def agent_in(place: Path | Workspace, turns: Any, *tools: Any, **settings: Any) -> AgentHarness:
    """Set up an agent that opens what is in a folder, unless a resolver is given."""
    workspace = Workspace(place) if isinstance(place, Path) else place
    settings.setdefault("resolver", InputResolver(workspace, ocr=settings.pop("ocr", None)))
    return AgentHarness(turns, *tools, **settings)


def payloads(harness: AgentHarness, kind: type[T]) -> list[T]:
    """Return everything of a kind that was ever recorded, also beside the branch."""
    records = harness.store.records(harness.conversation.id)
    written = [record.entry.payload for record in records if record.entry is not None]
    return [payload for payload in written if isinstance(payload, kind)]


def entry_kinds(entries: Iterable[Any]) -> list[str]:
    """Name what stands in a log, in order."""
    return [_name(entry.payload) for entry in entries]


def _name(payload: Payload) -> str:
    status = f" {payload.status}" if isinstance(payload, Resolution) else ""
    return type(payload).__name__ + status


def recorded_kinds(harness: AgentHarness) -> list[str]:
    """Name everything that was recorded, in order."""
    records = harness.store.records(harness.conversation.id)
    return entry_kinds([record.entry for record in records if record.entry is not None])


def statuses(harness: AgentHarness) -> list[ResolutionStatus]:
    return [resolution.status for resolution in payloads(harness, Resolution)]


def details(harness: AgentHarness) -> list[dict[str, Any]]:
    return [dict(resolution.details or {}) for resolution in payloads(harness, Resolution)]


def notices(harness: AgentHarness) -> list[str]:
    """Return the texts of the notices about references."""
    return [notice.text for notice in harness.events_of(Notice) if notice.kind is NoticeKind.INPUT]


def text_in_message(request: Request, message: int = -1) -> str:
    """Return all text of one message of a request."""
    texts = [block.text for block in request.messages[message].content if isinstance(block, Text)]
    return "\n".join(texts)


def images_in(request: Request) -> list[Image]:
    return [b for message in request.messages for b in message.content if isinstance(b, Image)]


# -- resolvers -----------------------------------------------------------------------------------


class ScriptedResolver:
    """A scripted resolver that records its calls (`Resolver`)."""

    def __init__(self, find: Callable[[ReferenceBlock], Any] = lambda _: "what is there") -> None:
        """Take what returns a text, a finding, or raises."""
        self.find = find
        self.is_fresh = True
        self.changed: tuple[str, ...] = ()
        self.asked: list[tuple[ReferenceBlock, ResolveContext]] = []

    async def resolve(self, pointer: ReferenceBlock, viewer: ResolveContext) -> ResolvedReference:
        self.asked.append((pointer, viewer))
        found = self.find(pointer)
        return ResolvedReference(content=(Text(found),)) if isinstance(found, str) else found

    def is_current(
        self, pointer: ReferenceBlock, resolution: Resolution, viewer: ResolveContext
    ) -> bool:
        return self.is_fresh

    async def changes(
        self,
        pointer: ReferenceBlock,
        resolution: Resolution,
        *,
        known: frozenset[str] = frozenset(),
    ) -> tuple[str, ...]:
        return self.changed


class SlowResolver(ScriptedResolver):
    """A resolver that waits for a signal; `begun` is set while it waits."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def resolve(self, pointer: ReferenceBlock, viewer: ResolveContext) -> ResolvedReference:
        self.begun.set()
        await self.go_on.wait()
        return await super().resolve(pointer, viewer)


class FakeResources:
    """Resources of a server that a test holds, read as those of real ones are (`Resolver`)."""

    def __init__(
        self, library: ResourceServer, clock: ManualClock, *, ttl_s: float = 3_600
    ) -> None:
        self._inner = ResourceResolver(lambda _: library, now=clock, default_ttl_s=ttl_s)

    async def resolve(self, pointer: ReferenceBlock, viewer: ResolveContext) -> ResolvedReference:
        assert isinstance(pointer, Resource)
        return await self._inner.resolve(pointer, viewer)

    def is_current(
        self, pointer: ReferenceBlock, resolution: Resolution, viewer: ResolveContext
    ) -> bool:
        assert isinstance(pointer, Resource)
        return self._inner.is_current(pointer, resolution, viewer)

    async def changes(
        self,
        pointer: ReferenceBlock,
        resolution: Resolution,
        *,
        known: frozenset[str] = frozenset(),
    ) -> tuple[str, ...]:
        assert isinstance(pointer, Resource)
        return await self._inner.changes(pointer, resolution)


RECEIPT = OcrResult("Pay 12 EUR", 0.97, "en", "scribe 1.0", 0.25)


class FakeOcr:
    """Recognises the same in every image, or nothing at all (`Reads`)."""

    def __init__(self, reading: OcrResult | None = None, *, fails: bool = False) -> None:
        self._reading = RECEIPT if reading is None else reading
        self.fails = fails
        self.count = 0

    async def read(self, image: bytes) -> OcrResult:
        self.count += 1
        if self.fails:
            raise Unrecognised("the models cannot be loaded; reinstall them")
        return self._reading
