"""The interface of a measured agent run, and steno's implementation.

In a run, the user asks, the model calls a tool to read a file, the tool returns the file, and the
model answers. That is four messages and two turns (a request and its response). steno writes five
entries, because it records the approval before the call runs. The model answers at once with a
prepared text.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple, Protocol

from bench.log_content import SESSION, address, make_folder, texts
from steno import ChatMessage, Event, Message, Request, ToolCall
from steno.agent import Agent, EndReason
from steno.ids import utc_now
from steno.log.conversation import Conversation
from steno.messages.event import Finished, TextDelta, ToolCallBegin, ToolCallDelta
from steno.messages.message import ToolResultMessage
from steno.messages.usage import StopReason
from steno.ports import HttpRequest, Provider, Stream
from steno.providers import connect
from steno.providers.stream import SourceStream
from steno.records.entry import ApprovalStatus
from steno.records.stored_record import Header
from steno.store import MemoryStore, Store, open_store
from steno.tools import Capability, tool

TOOL, ARGUMENTS = "read_file", '{"path":"src/http/header.py"}'
DESCRIPTION = "Read a file."
MESSAGES, TURNS = 4, 2
"""The numbers of messages and of turns of a run."""
DONE = b"data: [DONE]\n\n"


class Exchange(NamedTuple):
    """The texts of a run, independent of any library."""

    question: str
    call_id: str
    found: str
    answer: str


def exchanges() -> Iterator[Exchange]:
    """Yield exchanges without end; no text is repeated."""
    said = texts()
    for number in count():
        yield Exchange(next(said), f"call_{number:08d}", next(said), next(said))


class Talk(Protocol):
    """An agent of any library, in the middle of a long conversation."""

    at_once: int
    """The number of runs that are timed together."""

    def ask(self, times: int) -> None:
        """Send a prompt, and wait for the answer."""
        ...

    def close(self) -> None:
        """Release files and threads."""
        ...


# -- ours ------------------------------------------------------------------------------------


class Script:
    """The texts of the model and the tool, and the position in the conversation."""

    def __init__(self, length: int) -> None:
        """Start after `length` messages."""
        self._exchanges = exchanges()
        self.past = list(islice(self._exchanges, length // MESSAGES))
        self.now = next(self._exchanges)

    def go_on(self) -> str:
        """Return the next prompt."""
        self.now = next(self._exchanges)
        return self.now.question


class Steno:
    """An agent with one tool that stays open, as in an interactive program."""

    at_once = 10

    def __init__(
        self, folder: Path, length: int, *, is_stored: bool = True, is_encoded: bool = False
    ) -> None:
        """Fill a new store, or memory, with `length` messages."""
        self._script = script = Script(length)
        self._runner = asyncio.Runner()
        self._store: Store | None = _filled(folder, script.past) if is_stored else None
        past = self._store.open(SESSION) if self._store else Conversation(_said(script.past))

        @tool(capability=Capability.READ, name=TOOL, description=DESCRIPTION)
        async def read_file(path: str) -> str:
            return script.now.found

        self._agent = Agent(
            _written(script) if is_encoded else _Model(script), past, tools=[read_file]
        )

    def ask(self, times: int) -> None:
        """Run the agent."""
        self._runner.run(self._ask(times))

    async def _ask(self, times: int) -> None:
        for _ in range(times):
            result = await self._agent.run(self._script.go_on())
            assert (result.end_reason, result.text) == (EndReason.DONE, self._script.now.answer)

    def close(self) -> None:
        """Close the store."""
        self._runner.close()
        if self._store is not None:
            self._store.close()


class Appends:
    """The work of the store in a run, and nothing else: the same entries, one by one."""

    at_once = 10

    def __init__(self, folder: Path, length: int) -> None:
        """Fill a new store with `length` messages."""
        self._script = Script(length)
        self._store = _filled(folder, self._script.past)
        self._conversation = self._store.open(SESSION)

    def ask(self, times: int) -> None:
        """Append five entries."""
        conversation = self._conversation
        for _ in range(times):
            self._script.go_on()
            question, call, found, answer = _said([self._script.now])
            conversation.append(question)
            conversation.append(call)
            conversation.decide(self._script.now.call_id, ApprovalStatus.APPROVED, rule="read")
            conversation.append(found, decision="executed")
            conversation.append(answer)

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def _said(past: Iterable[Exchange]) -> Iterator[Message]:
    for one in past:
        yield ChatMessage.user(one.question)
        yield ChatMessage.assistant(
            None, [ToolCall(id=one.call_id, name=TOOL, arguments=ARGUMENTS)]
        )
        yield ChatMessage.tool_result(one.call_id, one.found, tool_name=TOOL)
        yield ChatMessage.assistant(one.answer)


def _filled(folder: Path, past: Iterable[Exchange]) -> Store:
    make_folder(folder, fresh=True)
    memory = MemoryStore()
    memory.new(_said(past), id=SESSION)
    store = open_store(address("sqlite", folder))
    store.add_session(Header(id=SESSION, created_at=utc_now()), memory.records(SESSION))
    return store


# -- a scripted model ------------------------------------------------------------------------


class _Model:
    """A provider that returns events as if a wire had decoded them."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def stream(self, request: Request) -> Stream:
        said = self._script.now
        if isinstance(request.messages[-1], ToolResultMessage):
            return SourceStream(_Source([TextDelta(0, said.answer), Finished(StopReason.END_TURN)]))
        begin, rest = ToolCallBegin(0, said.call_id, TOOL), ToolCallDelta(0, None, None, ARGUMENTS)
        return SourceStream(_Source([begin, rest, Finished(StopReason.TOOL_USE)]))


class _Source:
    def __init__(self, events: list[Event]) -> None:
        self._events: list[Event] | None = events

    async def read(self) -> list[Event] | None:
        events, self._events = self._events, None
        return events

    def redact(self, error: Exception) -> None:
        pass

    def close(self) -> None:
        pass


# -- the same with a provider that encodes requests and decodes responses --------------------


def _written(script: Script) -> Provider:
    return connect("llama.cpp", model="m", transport=_Transport(script), environ={})


class _Transport:
    """A transport in memory: it responds with a call and an answer in turn."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._numbers = count()

    async def open(self, outgoing: HttpRequest) -> _Answer:
        said = self._script.now
        if next(self._numbers) % 2:
            return _Answer(_event({"content": said.answer}) + _event({}, "stop") + DONE)
        function = {"name": TOOL, "arguments": ARGUMENTS}
        call = {"index": 0, "id": said.call_id, "type": "function", "function": function}
        return _Answer(_event({"tool_calls": [call]}) + _event({}, "tool_calls") + DONE)

    async def close(self) -> None:
        pass


class _Answer:
    status = 200
    headers: Mapping[str, str] = {"content-type": "text/event-stream"}

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def read(self) -> bytes:
        body, self._body = self._body, b""
        return body

    def close(self) -> None:
        pass


def _event(delta: dict[str, object], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**chunk, "choices": [choice]}).encode() + b"\n\n"
