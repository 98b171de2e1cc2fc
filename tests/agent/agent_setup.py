"""What the tests of the loop share: scripted turns, an agent, and what must hold of its record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from steno import ChatMessage, ToolCall
from steno.agent import Agent, Gate, LoopEvent, Permissions, RunResult
from steno.log.conversation import Conversation
from steno.messages.message import AssistantMessage, ToolResultMessage
from steno.messages.order import Severity, check_order
from steno.ports import Capability, Tool
from steno.records.entry import Approval, Entry
from steno.store import MemoryStore, Store
from steno.testing import ScriptedProvider, ScriptedTool

T = TypeVar("T")
LIMIT_S = 60.0


def run(main: Coroutine[Any, Any, T], limit_s: float = LIMIT_S) -> T:
    """Run a test; whatever hangs fails after a while."""

    async def limited() -> T:
        async with asyncio.timeout(limit_s):
            return await main

    return asyncio.run(limited())


def call(id: str, name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=json.dumps(arguments))


def turn_with_calls(*calls: ToolCall, text: str | None = None) -> AssistantMessage:
    """Write a turn that calls for something."""
    return ChatMessage.assistant(text, calls)


def read_tool(name: str = "read", *answers: Any, **settings: Any) -> ScriptedTool:
    return ScriptedTool(name, answers or None, **settings)


def write_tool(name: str = "write", *answers: Any, **settings: Any) -> ScriptedTool:
    return ScriptedTool(name, answers or None, **{"capability": Capability.WRITE} | settings)


def gate_allowing(*rules: str, **settings: Any) -> Gate:
    return Gate(Permissions.of(allow=rules), **settings)


class AgentHarness:
    """An agent on a store, with everything that can be asked about it afterwards.

    `turns` is a script, or a provider.
    """

    def __init__(
        self,
        turns: Any,
        *tools: Tool,
        store: Store | None = None,
        conversation: Conversation | None = None,
        **settings: Any,
    ) -> None:
        self.store = store or MemoryStore()
        if conversation is None:  # an empty one would count as false
            conversation = self.store.new([ChatMessage.system("Work.")])
        self.conversation = conversation
        self.provider: Any = turns if hasattr(turns, "stream") else ScriptedProvider(turns)
        self.agent = Agent(self.provider, self.conversation, tools=tools, **settings)
        self.events: list[LoopEvent] = []

    async def run(self, prompt: Any = "Go.") -> RunResult:
        return await self.agent.run(prompt, on_event=self.events.append)

    def events_of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def results(self) -> list[ToolResultMessage]:
        return results_of(self.conversation)

    @property
    def result(self) -> ToolResultMessage:
        """The one result there is."""
        (result,) = self.results
        return result

    @property
    def approvals(self) -> list[tuple[str, str]]:
        """What was decided, in order: the id of the call, and the status."""
        return [(a.call_id, str(a.status)) for a in approvals_in(self.conversation.entries())]

    def check(self) -> None:
        """Fail unless the record can be continued."""
        check_record(self.conversation, self.store)


def results_of(conversation: Conversation) -> list[ToolResultMessage]:
    return [m for m in conversation.messages() if isinstance(m, ToolResultMessage)]


def approvals_in(entries: Iterable[Entry]) -> list[Approval]:
    return [entry.payload for entry in entries if isinstance(entry.payload, Approval)]


def check_record(conversation: Conversation, store: Store | None = None) -> None:
    """Fail unless every call has its result, in order, in memory and in the store."""
    assert conversation.outstanding == ()
    # Scripted models use their call ids again, which is a warning.
    issues = check_order(conversation.messages())
    assert [issue for issue in issues if issue.severity is Severity.ERROR] == []
    if store is not None:
        assert store.verify(conversation.id).is_intact
        again = store.open(conversation.id)
        assert again.messages() == conversation.messages()
        assert again.branches == conversation.branches
