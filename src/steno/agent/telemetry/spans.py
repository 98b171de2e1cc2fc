"""Spans of a run, for tracing. Without a tracer they do nothing."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol, final

from steno.agent.events import RunResult
from steno.messages.call import ToolCall
from steno.messages.message import AssistantMessage, ToolResultMessage
from steno.messages.request import Request
from steno.ports import Tool


class TelemetrySpan(Protocol):
    """A span in progress. It ends with its context manager, and has failed if that raises."""

    def record_result(
        self,
        result: RunResult | AssistantMessage | ToolResultMessage,
        *,
        response_id: str | None = None,
        response_model: str | None = None,
    ) -> None:
        """Record the result, and the provider's names of the response and the model."""
        ...


class Telemetry(Protocol):
    """Measures runs, their turns and calls."""

    def run(self, conversation_id: str, model: str) -> AbstractContextManager[TelemetrySpan]:
        """Begin a run."""
        ...

    def turn(self, request: Request, model: str) -> AbstractContextManager[TelemetrySpan]:
        """Begin a turn: a request and its response."""
        ...

    def call(self, tool: Tool, call: ToolCall) -> AbstractContextManager[TelemetrySpan]:
        """Begin to run a tool."""
        ...


@final
class _NullSpan:
    def record_result(self, *_: object, **__: object) -> None:
        pass


@final
class NullTelemetry:
    """Measures nothing."""

    def run(self, *_: object, **__: object) -> AbstractContextManager[TelemetrySpan]:
        """Return a span that records nothing."""
        return nullcontext(_NullSpan())

    turn = call = run


NO_TELEMETRY: Final = NullTelemetry()
