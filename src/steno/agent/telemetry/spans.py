"""The telemetry protocol: spans of runs, turns and calls, and a default that records nothing."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol, final

from steno.agent.events import RunResult
from steno.messages.call import ToolCall
from steno.messages.message import AssistantMessage, ToolResultMessage
from steno.messages.request import Request
from steno.ports import Tool


class TelemetrySpan(Protocol):
    """A span in progress, which ends with its `with` block.

    If the block raises an exception, the span is marked as failed.
    """

    def record_result(
        self,
        result: RunResult | AssistantMessage | ToolResultMessage,
        *,
        response_id: str | None = None,
        response_model: str | None = None,
    ) -> None:
        """Record the result, and the response id and the model name that the provider reported."""
        ...


class Telemetry(Protocol):
    """Creates spans for runs, turns and tool calls."""

    def run(self, conversation_id: str, model: str) -> AbstractContextManager[TelemetrySpan]:
        """Return a context manager for the span of a run."""
        ...

    def turn(self, request: Request, model: str) -> AbstractContextManager[TelemetrySpan]:
        """Return a context manager for the span of a turn, which is a request and its response."""
        ...

    def call(self, tool: Tool, call: ToolCall) -> AbstractContextManager[TelemetrySpan]:
        """Return a context manager for the span of a tool call."""
        ...


@final
class _NullSpan:
    def record_result(self, *_: object, **__: object) -> None:
        pass


@final
class NullTelemetry:
    """Telemetry whose spans record nothing."""

    def run(self, *_: object, **__: object) -> AbstractContextManager[TelemetrySpan]:
        """Return a span that records nothing."""
        return nullcontext(_NullSpan())

    turn = call = run


NO_TELEMETRY: Final = NullTelemetry()
