"""An agent with a scripted model, and what a test reads of its runs: entries, events, requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

from steno import (
    AssistantMessage,
    ChatMessage,
    Conversation,
    Request,
    Text,
    ToolCall,
    ToolResultMessage,
)
from steno.agent import Agent, EntryRecorded, LoopEvent, RunResult
from steno.codec import encode_payload
from steno.errors import Unrecognised
from steno.inputs import InputResolver, OcrResult
from steno.ports import Provider, ReferenceBlock, ResolveContext, ResolvedReference
from steno.records import Entry, Resolution
from steno.testing import ScriptedProvider

T = TypeVar("T")


class Exchange:
    """An agent, its conversation, and the events of its runs.

    The model returns `responses` in order, unless another `provider` is given. `run` runs the
    coroutines of the agent, and `options` are those of the agent.
    """

    def __init__(
        self,
        *responses: Any,
        provider: Provider | None = None,
        conversation: Conversation | None = None,
        run: Callable[[Coroutine[Any, Any, RunResult]], RunResult] = asyncio.run,
        **options: Any,
    ) -> None:
        self.script = ScriptedProvider(responses)
        self.conversation = Conversation() if conversation is None else conversation
        self.agent = Agent(provider or self.script, self.conversation, **options)
        self.events: list[LoopEvent] = []
        self._run = run

    def send(self, *blocks: Any) -> RunResult:
        """Run the agent with a prompt of blocks; a string is a block of text."""
        content = [Text(block) if isinstance(block, str) else block for block in blocks]
        return self._run(self.agent.run(ChatMessage.user(content), on_event=self.events.append))

    def resume(self) -> RunResult:
        """Run the agent from where the conversation stopped."""
        return self._run(self.agent.run(on_event=self.events.append))

    def recorded(self, kind: type[T]) -> list[T]:
        """Return the recorded payloads of a type, also those of prompts that were not sent."""
        return payloads([event.entry for event in self.reported(EntryRecorded)], kind)

    def reported(self, kind: type[T]) -> list[T]:
        """Return the events of a type."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def last_request(self) -> Request:
        """The last request that the scripted model received."""
        return self.script.requests[-1]


class RecordingResolver:
    """An `InputResolver` that keeps its results: the log keeps an error without its code."""

    def __init__(self, workspace: Path | None) -> None:
        self._inputs = InputResolver(workspace)
        self.results: list[ResolvedReference] = []
        self.is_current = self._inputs.is_current
        self.changes = self._inputs.changes

    async def resolve(
        self, reference: ReferenceBlock, context: ResolveContext
    ) -> ResolvedReference:
        """Resolve the reference, and keep the result."""
        self.results.append(await self._inputs.resolve(reference, context))
        return self.results[-1]


class FixedReader:
    """Recognises the same text in each image, and keeps the images; fails while `is_broken`."""

    text = "Total 42 EUR"

    def __init__(self, *, is_broken: bool = False) -> None:
        self.is_broken = is_broken
        self.images: list[bytes] = []

    async def read(self, image: bytes) -> OcrResult:
        """Return the text."""
        self.images.append(image)
        if self.is_broken:
            raise Unrecognised("the engine stopped")
        return OcrResult(self.text, 0.87, "en", "test engine", 0.25)


def calls(*names: str, arguments: str = "{}") -> AssistantMessage:
    """Return a response that calls tools; the ids are c1, c2 and so on."""
    numbered = enumerate(names, start=1)
    return ChatMessage.assistant(
        None,
        [ToolCall(id=f"c{number}", name=name, arguments=arguments) for number, name in numbered],
    )


def payloads(entries: Iterable[Entry], kind: type[T]) -> list[T]:
    """Return the payloads of a type."""
    return [entry.payload for entry in entries if isinstance(entry.payload, kind)]


def details_of(holder: Resolution | ToolResultMessage) -> dict[str, Any]:
    """Return the details for the log."""
    assert holder.details is not None
    return dict(holder.details)


def text_of(holder: Request | Resolution) -> str:
    """Return all text that a model receives with a request, or in place of a reference."""
    texts = holder.messages if isinstance(holder, Request) else holder.content
    return "\n".join(getattr(part, "text", None) or "" for part in texts)


def to_json(payload: Any) -> dict[str, Any]:
    """Return the JSON of a message or of another payload of an entry."""
    members: dict[str, Any] = json.loads(encode_payload(payload))
    return members
