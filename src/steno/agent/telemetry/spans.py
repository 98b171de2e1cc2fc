"""What can be measured of a run, for tracing. Without a tracer all of this does nothing."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol, final

from steno.agent.events import RunResult
from steno.messages.call import ToolCall
from steno.messages.message import AssistantMessage, ToolResultMessage
from steno.messages.request import Request
from steno.ports import Tool


class TelemetrySpan(Protocol):
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

    def run(self, conversation_id: str, model: str) -> AbstractContextManager[TelemetrySpan]:
        """Begin a run."""
        ...

    def turn(self, request: Request, model: str) -> AbstractContextManager[TelemetrySpan]:
        """Begin a turn: a request is sent, and its answer read."""
        ...

    def call(self, tool: Tool, call: ToolCall) -> AbstractContextManager[TelemetrySpan]:
        """Begin to run a tool."""
        ...


@final
class NullTelemetry:
    """Takes no time at all."""

    def run(self, conversation_id: str, model: str) -> AbstractContextManager[TelemetrySpan]:
        """Begin nothing."""
        return _NULL_SPAN

    def turn(self, request: Request, model: str) -> AbstractContextManager[TelemetrySpan]:
        """Begin nothing."""
        return _NULL_SPAN

    def call(self, tool: Tool, call: ToolCall) -> AbstractContextManager[TelemetrySpan]:
        """Begin nothing."""
        return _NULL_SPAN


@final
class _NullSpan:
    def record_result(
        self,
        by: RunResult | AssistantMessage | ToolResultMessage,
        *,
        response_id: str | None = None,
        response_model: str | None = None,
    ) -> None:
        pass


_NULL_SPAN: Final = nullcontext(_NullSpan())
NO_TELEMETRY: Final = NullTelemetry()
