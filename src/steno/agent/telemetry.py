"""What can be measured of a run, for tracing. Without a tracer all of this does nothing."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol, final

from steno.agent.limits import RunResult
from steno.call import ToolCall
from steno.message import AssistantMessage, ToolResultMessage
from steno.ports import Tool
from steno.request import Request


class Span(Protocol):
    """Some work that has begun; it ends with its context, and has failed if that raised."""

    def record_result(
        self,
        by: RunResult | AssistantMessage | ToolResultMessage,
        *,
        response_id: str | None = None,
        response_model: str | None = None,
    ) -> None:
        """Tell what came of it, and what the provider calls its answer and the model."""
        ...


class Telemetry(Protocol):
    """Takes the time of runs, of turns in them, and of calls."""

    def run(self, conversation_id: str, model: str) -> AbstractContextManager[Span]:
        """Begin a run."""
        ...

    def turn(self, request: Request, model: str) -> AbstractContextManager[Span]:
        """Begin a turn: a request is sent, and its answer read."""
        ...

    def call(self, tool: Tool, call: ToolCall) -> AbstractContextManager[Span]:
        """Begin to run a tool."""
        ...


@final
class NoTelemetry:
    """Takes no time at all."""

    def run(self, conversation_id: str, model: str) -> AbstractContextManager[Span]:
        """Begin nothing."""
        return _NOTHING

    def turn(self, request: Request, model: str) -> AbstractContextManager[Span]:
        """Begin nothing."""
        return _NOTHING

    def call(self, tool: Tool, call: ToolCall) -> AbstractContextManager[Span]:
        """Begin nothing."""
        return _NOTHING


@final
class _NoSpan:
    def record_result(
        self,
        by: RunResult | AssistantMessage | ToolResultMessage,
        *,
        response_id: str | None = None,
        response_model: str | None = None,
    ) -> None:
        pass


_NOTHING: Final = nullcontext(_NoSpan())
NO_TELEMETRY: Final = NoTelemetry()
