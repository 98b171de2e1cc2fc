"""Agents of other libraries, each with a model of its own interface that answers at once.

- pydantic-ai: an `Agent` with a `FunctionModel`; each run receives the history as a list in memory.
  The library stores nothing: as in its chat example, the new messages of a run are written to an
  SQLite table as JSON.
- LangGraph: a graph over `MessagesState` with a model node and a `ToolNode`, compiled with a
  `SqliteSaver`. Filled with one `update_state`.
- openai-agents: `Runner.run` with our `Model` and a `SQLiteSession`, tracing disabled. Filled with
  one `add_items`.

The models read only the last message, and convert nothing to the format of a vendor.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import agents
import pydantic_ai
from agents import SQLiteSession, Usage
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from bench.agent_own import ARGUMENTS, DESCRIPTION, TOOL, Exchange, Script
from bench.log_content import SESSION, make_folder

PARSED = {"path": "src/http/header.py"}


class PydanticAI:
    """A pydantic-ai agent, which receives its history with each run."""

    at_once = 1

    def __init__(self, folder: Path, length: int) -> None:
        """Create a history of `length` messages, and a table for new messages."""
        make_folder(folder, fresh=True)
        self._script = script = Script(length)
        self._runner = asyncio.Runner()
        self._db = sqlite3.connect(folder / "chat.db")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, message_list TEXT)")
        self._history = [message for one in script.past for message in self._said(one)]

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            if isinstance(messages[-1].parts[-1], ToolReturnPart):
                return ModelResponse(parts=[TextPart(script.now.answer)])
            return ModelResponse(parts=[ToolCallPart(TOOL, ARGUMENTS, script.now.call_id)])

        async def read_file(path: str) -> str:
            return script.now.found

        read = pydantic_ai.Tool(read_file, name=TOOL, description=DESCRIPTION)
        self._agent = pydantic_ai.Agent(FunctionModel(answer), tools=[read])

    @staticmethod
    def _said(one: Exchange) -> list[ModelMessage]:
        return [
            ModelRequest(parts=[UserPromptPart(one.question)]),
            ModelResponse(parts=[ToolCallPart(TOOL, ARGUMENTS, one.call_id)]),
            ModelRequest(parts=[ToolReturnPart(TOOL, one.found, one.call_id)]),
            ModelResponse(parts=[TextPart(one.answer)]),
        ]

    def ask(self, times: int) -> None:
        """Run the agent, and store the new messages."""
        self._runner.run(self._ask(times))

    async def _ask(self, times: int) -> None:
        for _ in range(times):
            question = self._script.go_on()
            result = await self._agent.run(question, message_history=self._history)
            assert result.output == self._script.now.answer
            self._history = result.all_messages()
            with self._db:
                new = result.new_messages_json()
                self._db.execute("INSERT INTO messages (message_list) VALUES (?)", (new,))

    def close(self) -> None:
        """Close the file."""
        self._runner.close()
        self._db.close()


class LangGraph:
    """A thread of a LangGraph graph with a checkpointer."""

    at_once = 1

    def __init__(self, folder: Path, length: int) -> None:
        """Fill a new file with `length` messages."""
        make_folder(folder, fresh=True)
        self._script = script = Script(length)
        self._open = ExitStack()
        path = str(folder / "checkpoints.db")
        saver = self._open.enter_context(SqliteSaver.from_conn_string(path))

        def read_file(path: str) -> str:
            """Read a file."""
            return script.now.found

        def answer(state: MessagesState) -> dict[str, Any]:
            if isinstance(state["messages"][-1], ToolMessage):
                return {"messages": [AIMessage(script.now.answer)]}
            return {"messages": [_call(script.now)]}

        builder = StateGraph(MessagesState)
        builder.add_node("model", answer)
        builder.add_node("tools", ToolNode([read_file]))
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", tools_condition)
        builder.add_edge("tools", "model")
        self._graph: Any = builder.compile(checkpointer=saver)
        self._config = {"configurable": {"thread_id": SESSION}}
        said = [message for one in script.past for message in self._said(one)]
        self._graph.update_state(self._config, {"messages": said}, as_node="model")

    @staticmethod
    def _said(one: Exchange) -> list[AnyMessage]:
        return [
            HumanMessage(one.question),
            _call(one),
            ToolMessage(one.found, tool_call_id=one.call_id, name=TOOL),
            AIMessage(one.answer),
        ]

    def ask(self, times: int) -> None:
        """Invoke the graph with a question."""
        for _ in range(times):
            asked = {"messages": [HumanMessage(self._script.go_on())]}
            state = self._graph.invoke(asked, self._config)
            assert state["messages"][-1].content == self._script.now.answer

    def close(self) -> None:
        """Close the file."""
        self._open.close()


def _call(one: Exchange) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": TOOL, "args": PARSED, "id": one.call_id}])


class OpenAIAgents:
    """An openai-agents agent with an SQLiteSession."""

    at_once = 1

    def __init__(self, folder: Path, length: int) -> None:
        """Fill a new file with `length` items."""
        make_folder(folder, fresh=True)
        agents.set_tracing_disabled(True)
        self._script = script = Script(length)
        self._runner = asyncio.Runner()
        self._session = SQLiteSession(SESSION, folder / "sessions.db")

        async def read_file(path: str) -> str:
            return script.now.found

        read = agents.function_tool(read_file, name_override=TOOL, description_override=DESCRIPTION)
        self._agent = agents.Agent(name="reader", model=_Model(script), tools=[read])
        items = [item for one in script.past for item in self._said(one)]
        self._runner.run(self._session.add_items(items))

    @staticmethod
    def _said(one: Exchange) -> list[Any]:
        output = {"type": "function_call_output", "call_id": one.call_id, "output": one.found}
        return [
            {"role": "user", "content": one.question},
            _called(one).model_dump(exclude_unset=True),
            output,
            _answered(one).model_dump(exclude_unset=True),
        ]

    def ask(self, times: int) -> None:
        """Run the agent with its session."""
        self._runner.run(self._ask(times))

    async def _ask(self, times: int) -> None:
        for _ in range(times):
            question = self._script.go_on()
            result = await agents.Runner.run(self._agent, question, session=self._session)
            assert result.final_output == self._script.now.answer

    def close(self) -> None:
        """Close the session."""
        self._session.close()
        self._runner.close()


class _Model(agents.Model):  # type: ignore[misc] # unknown where the SDK is not installed
    def __init__(self, script: Script) -> None:
        self._script = script

    async def get_response(
        self, system_instructions: str | None, input: Any, *args: Any, **kwargs: Any
    ) -> agents.ModelResponse:
        has_found = input[-1].get("type") == "function_call_output"
        output = _answered(self._script.now) if has_found else _called(self._script.now)
        return agents.ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def _called(one: Exchange) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        type="function_call", call_id=one.call_id, name=TOOL, arguments=ARGUMENTS
    )


def _answered(one: Exchange) -> ResponseOutputMessage:
    text = ResponseOutputText(type="output_text", text=one.answer, annotations=[])
    return ResponseOutputMessage(
        id=f"msg_{one.call_id}",
        type="message",
        role="assistant",
        status="completed",
        content=[text],
    )


PEERS: dict[str, type[PydanticAI] | type[LangGraph] | type[OpenAIAgents]] = {
    "pydantic-ai": PydanticAI,
    "LangGraph + SqliteSaver": LangGraph,
    "openai-agents + SQLiteSession": OpenAIAgents,
}
