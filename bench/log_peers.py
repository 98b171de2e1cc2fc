"""Logs of other libraries, used as their documentation shows.

A step is one exchange: the user message is stored, the model receives all messages, and its answer
is stored. The model answers at once with a prepared text.

- LangGraph: a graph with one node over `MessagesState`, compiled with a `SqliteSaver`; a step is
  `graph.invoke` with the user message, and its node returns the answer. Filled with one
  `graph.update_state`, so that the file contains one long checkpoint and not one per step.
- LangGraph, `DeltaChannel`: the same with the channel that stores differences, which is beta, and
  a whole snapshot every 100 updates (the default).
- openai-agents: `SQLiteSession`; a step is what its `Runner` calls: `get_items` before the model,
  then `add_items` with the user message and with the answer, in the form that the runner stores.
  All steps of a case run in one coroutine. Filled with one `add_items`.

All of them use a write-ahead journal that is synced at every commit.

Bytes are counted over a cycle, after which all deferred work was done once: a checkpoint of the
journal, and a snapshot. Temporary files are not counted: reading the history of a `DeltaChannel`
sorts rows with whole snapshots on disk, which is not part of the log. The timed steps may miss rare
deferred work. That is an advantage for steno and openai-agents (journal checkpoints) and for the
`DeltaChannel` (snapshots).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import count, islice
from pathlib import Path
from typing import Annotated, Any

from agents import SQLiteSession
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from typing_extensions import TypedDict

from bench.log_content import SESSION, make_folder, texts


class _Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


class LangGraph:
    """A thread of a LangGraph graph with a checkpointer."""

    at_once = 1  # each adds tens of megabytes to the file
    cycle = 3
    state: type = MessagesState

    def __init__(self, folder: Path, length: int = 0) -> None:
        """Fill a new file with `length` messages, or open the existing one."""
        make_folder(folder, fresh=length > 0)
        self._open = ExitStack()
        path = str(folder / "checkpoints.db")
        self._saver = self._open.enter_context(SqliteSaver.from_conn_string(path))
        self._said = texts()
        builder = StateGraph(self.state)
        builder.add_node("model", lambda state: {"messages": [AIMessage(next(self._said))]})
        builder.add_edge(START, "model")
        self._graph: Any = builder.compile(checkpointer=self._saver)
        self._config = {"configurable": {"thread_id": SESSION}}
        if length:
            filling = {"messages": list(islice(self._messages(), length))}
            self._graph.update_state(self._config, filling)

    def _messages(self) -> Iterator[BaseMessage]:
        while True:
            yield HumanMessage(next(self._said))
            yield AIMessage(next(self._said))

    def step(self, times: int) -> None:
        """Invoke the graph with a question."""
        for _ in range(times):
            asked = {"messages": [HumanMessage(next(self._said))]}
            self._graph.invoke(asked, self._config)

    def store(self, times: int) -> None:
        """Run steps that sort in memory."""
        self._saver.conn.execute("PRAGMA temp_store = MEMORY")
        self.step(times)

    def read(self) -> Sequence[object]:
        """Get the state of the thread."""
        said: list[BaseMessage] = self._graph.get_state(self._config).values["messages"]
        return said

    def close(self) -> None:
        """Close the file."""
        self._open.close()


class LangGraphDelta(LangGraph):
    """A LangGraph thread that stores differences."""

    cycle = 50  # two updates each, and a snapshot every 100
    state = _Delta


class OpenAIAgents:
    """An SQLiteSession of openai-agents."""

    at_once = 5
    cycle = 600

    def __init__(self, folder: Path, length: int = 0) -> None:
        """Fill a new file with `length` items, or open the existing one."""
        make_folder(folder, fresh=length > 0)
        self._session = SQLiteSession(SESSION, folder / "sessions.db")
        self._loop = asyncio.new_event_loop()
        self._said = texts()
        self._numbers = count()
        if length:
            self._loop.run_until_complete(self._fill(length))

    async def _fill(self, length: int) -> None:
        items = [item for _ in range(length // 2) for item in (self._question(), self._answer())]
        await self._session.add_items(items)

    def _question(self) -> Any:
        return {"role": "user", "content": next(self._said)}

    def _answer(self) -> Any:
        text = {"type": "output_text", "text": next(self._said), "annotations": [], "logprobs": []}
        return {
            "id": f"msg_{next(self._numbers):048x}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [text],
        }

    def step(self, times: int) -> None:
        """Run steps in one coroutine."""
        self._loop.run_until_complete(self._steps(times))

    def store(self, times: int) -> None:
        """Run steps that do not read."""
        self._loop.run_until_complete(self._steps(times, reads=False))

    async def _steps(self, times: int, *, reads: bool = True) -> None:
        session = self._session
        for _ in range(times):
            if reads:
                await session.get_items()
            await session.add_items([self._question()])
            await session.add_items([self._answer()])

    def read(self) -> Sequence[object]:
        """Get all items."""
        return self._loop.run_until_complete(self._session.get_items())

    def close(self) -> None:
        """Close the session and its loop."""
        self._session.close()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


PEERS: dict[str, type[LangGraph] | type[OpenAIAgents]] = {
    "LangGraph + SqliteSaver": LangGraph,
    "LangGraph + SqliteSaver, DeltaChannel": LangGraphDelta,
    "openai-agents SQLiteSession": OpenAIAgents,
}
