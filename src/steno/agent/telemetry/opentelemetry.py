"""Report runs as OpenTelemetry spans and metrics, by the convention for generative AI.

    invoke_agent             a run
    ├── chat {model}         a turn: a request and its response
    └── execute_tool {name}  a call

Only the API of OpenTelemetry is used; nothing is recorded unless the application configures an SDK
and an exporter. Spans contain no messages, arguments, results or exception texts, which may quote
them, unless `capture_content` is set. The convention is still in development; this module follows
its state of 2026.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, assert_never, final

import msgspec

from steno.agent.events import EndReason, RunResult
from steno.agent.telemetry.spans import TelemetrySpan
from steno.errors import MissingExtra
from steno.messages.call import InvalidToolCall, ToolCall
from steno.messages.content import (
    Block,
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    Opaque,
    Resource,
    Text,
    Thinking,
)
from steno.messages.message import AssistantMessage, Message, SystemMessage, ToolResultMessage
from steno.messages.request import Request
from steno.messages.usage import StopReason, Usage
from steno.ports import Tool

try:
    from opentelemetry import metrics, trace
    from opentelemetry.util.types import AttributeValue
except ImportError as _exc:
    raise MissingExtra(
        "steno.agent.telemetry.opentelemetry needs opentelemetry-api", extra="telemetry"
    ) from _exc


JsonDict: TypeAlias = dict[str, Any]
SpanAttributes: TypeAlias = dict[str, AttributeValue]

_INSTRUMENTATION_NAME: Final = "steno"
_MODEL_NAME: Final = re.compile(r"(?:(?P<vendor>[^/:]*)[/:])?(?P<model>.*)", re.DOTALL)
"""Matches `vendor/model`, `vendor:model`, or a model name alone."""
_PROVIDER_NAMES: Final = {
    "azure": "azure.ai.openai",
    "google": "gcp.gemini",
    "llama.cpp-messages": "llama.cpp",
    "llama.cpp-responses": "llama.cpp",
    "mistral": "mistral_ai",
    "openai-responses": "openai",
    "xai": "x_ai",
    "xai-responses": "x_ai",
}
"""The vendor names that differ in the convention; all others are used unchanged."""
_OTHER: Final = "_OTHER"
"""The value of the convention for an unknown error type; also used for a model without a vendor."""
_FINISH_REASONS: Final[Mapping[StopReason, str]] = {
    StopReason.END_TURN: "stop",
    StopReason.TOOL_USE: "tool_call",
}
"""The stop reasons whose names differ in the convention; all others are used unchanged."""
_USAGE_NAMES: Final = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "thinking_tokens": "gen_ai.usage.reasoning.output_tokens",
}

_conversation: ContextVar[str] = ContextVar("steno_conversation", default="")
"""The conversation id of the current run, for the spans of its turns and calls."""


@final
class OpenTelemetry:
    """Records OpenTelemetry spans and metrics for an agent.

        agent = Agent(provider, conversation, telemetry=OpenTelemetry())

    The default tracer and meter providers are those that the application has set globally. With
    `capture_content`, the exported spans also contain messages including thinking, the arguments
    and results of calls, and the text of exceptions. The bytes of images are never included.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        *,
        meter_provider: metrics.MeterProvider | None = None,
        capture_content: bool = False,
    ) -> None:
        self._tracer = trace.get_tracer(_INSTRUMENTATION_NAME, tracer_provider=tracer_provider)
        self._histograms = _Histograms(
            metrics.get_meter(_INSTRUMENTATION_NAME, meter_provider=meter_provider)
        )
        self._captures_content = capture_content

    @contextmanager
    def run(self, conversation_id: str, model: str) -> Generator[TelemetrySpan]:
        """Begin the span of a run, which is the parent of the spans of its turns and calls."""
        attributes = _without_none(_model_attributes("invoke_agent", model))
        token = _conversation.set(conversation_id)
        try:
            with self._start_span("invoke_agent", trace.SpanKind.INTERNAL, attributes) as span:
                yield span
        finally:
            _conversation.reset(token)

    @contextmanager
    def turn(self, request: Request, model: str) -> Generator[TelemetrySpan]:
        """Begin the span of a turn, which is a request and its response."""
        labels = _without_none(_model_attributes("chat", model, request.model))
        details = {
            "gen_ai.request.max_tokens": request.max_tokens,
            "gen_ai.request.temperature": request.temperature,
            "gen_ai.request.top_p": request.top_p,
            "gen_ai.request.stop_sequences": request.stop or None,
        }
        name = f"chat {labels.get('gen_ai.request.model', '')}".rstrip()
        start = time.perf_counter()
        with self._start_span(name, trace.SpanKind.CLIENT, _without_none(labels, details)) as span:
            span.enable_metrics(self._histograms, labels, start)
            if span.captures_content:
                span.set(_input_attributes(request))
            yield span

    @contextmanager
    def call(self, tool: Tool, call: ToolCall) -> Generator[TelemetrySpan]:
        """Begin the span of a tool call."""
        name = tool.definition.name
        attributes: SpanAttributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
        }
        with self._start_span(f"execute_tool {name}", trace.SpanKind.INTERNAL, attributes) as span:
            if span.captures_content:
                span.set({"gen_ai.tool.call.arguments": call.arguments})
            yield span

    @contextmanager
    def _start_span(
        self, name: str, kind: trace.SpanKind, attributes: SpanAttributes
    ) -> Generator[_OpenTelemetrySpan]:
        conversation = _conversation.get()
        if conversation:
            attributes = attributes | {"gen_ai.conversation.id": conversation}
        # The text of an exception may quote content, so only `fail` decides whether to record it.
        with self._tracer.start_as_current_span(
            name,
            kind=kind,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as otel_span:
            span = _OpenTelemetrySpan(
                otel_span, captures_content=self._captures_content and otel_span.is_recording()
            )
            try:
                yield span
            except BaseException as exc:
                span.fail(type(exc).__name__, exc)
                raise
            finally:
                span.record_metrics()


@final
class _Histograms:
    """The histograms of the duration and the token usage of turns.

    The convention specifies their names, units, descriptions and bucket boundaries.
    """

    def __init__(self, meter: metrics.Meter) -> None:
        self.duration: Final = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=[0.01 * 2**power for power in range(14)],
        )
        self.tokens: Final = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=[4**power for power in range(14)],
        )


@final
class _OpenTelemetrySpan:
    """An OpenTelemetry span in progress, with the metrics of a turn (`TelemetrySpan`)."""

    def __init__(self, span: trace.Span, *, captures_content: bool) -> None:
        self._span = span
        self.captures_content: Final = captures_content
        """Whether the span records messages, arguments, results and exception texts."""
        self._histograms: _Histograms | None = None
        self._labels: SpanAttributes = {}
        self._start = 0.0
        self._usage: Usage | None = None

    def enable_metrics(self, histograms: _Histograms, labels: SpanAttributes, start: float) -> None:
        self._histograms, self._labels, self._start = histograms, dict(labels), start

    def set(self, attributes: SpanAttributes) -> None:
        self._span.set_attributes(attributes)

    def record_result(
        self,
        result: RunResult | AssistantMessage | ToolResultMessage,
        *,
        response_id: str | None = None,
        response_model: str | None = None,
    ) -> None:
        match result:
            case RunResult():
                self._end_run(result)
            case AssistantMessage():
                model_attribute = _without_none({"gen_ai.response.model": response_model})
                self._labels |= model_attribute
                self._usage = result.usage
                reason = _finish_reason(result)
                details = {
                    "gen_ai.response.id": response_id,
                    "gen_ai.response.finish_reasons": None if reason is None else (reason,),
                }
                self.set(_without_none(model_attribute, details, _usage_attributes(result.usage)))
                if self.captures_content:
                    self.set(_output_attributes(result))
            case ToolResultMessage():
                if self.captures_content:
                    self.set({"gen_ai.tool.call.result": result.text})
                if result.is_error:
                    self.fail(result.outcome.value)
            case _:
                assert_never(result)

    def fail(self, kind: str, exc: BaseException | None = None) -> None:
        """Mark the span as failed; record the exception text only if content is captured."""
        text = str(exc) if self.captures_content and exc is not None else None
        if text is not None and exc is not None:
            self._span.record_exception(exc)
        self._labels["error.type"] = kind
        self.set({"error.type": kind})
        self._span.set_status(trace.Status(trace.StatusCode.ERROR, text))

    def record_metrics(self) -> None:
        if self._histograms is None:
            return
        self._histograms.duration.record(time.perf_counter() - self._start, self._labels)
        usage = self._usage or Usage()
        counts = {"input": usage.input_tokens, "output": usage.output_tokens}
        labels = {name: value for name, value in self._labels.items() if name != "error.type"}
        for kind, tokens in counts.items():
            if tokens is not None:
                self._histograms.tokens.record(tokens, labels | {"gen_ai.token.type": kind})

    def _end_run(self, result: RunResult) -> None:
        self.set(
            _usage_attributes(result.usage)
            | {"steno.run.ending": result.end_reason.value, "steno.run.turns": result.turns}
        )
        if self.captures_content and result.message is not None:
            self.set(_output_attributes(result.message))
        if result.end_reason is EndReason.FAILED:
            error = result.error
            self.fail(_OTHER if error is None else type(error).__name__, error)


# -- attributes ------------------------------------------------------------------------------


def _without_none(*attributes: Mapping[str, Any]) -> SpanAttributes:
    """Merge attributes, without those whose value is None."""
    return {
        name: value
        for mapping in attributes
        for name, value in mapping.items()
        if value is not None
    }


def _model_attributes(operation: str, model: str, requested: str = "") -> dict[str, str | None]:
    """Return the operation, provider and model; `requested` overrides the model name."""
    match = _MODEL_NAME.fullmatch(model)
    assert match is not None
    vendor: str = match["vendor"] or _OTHER
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": _PROVIDER_NAMES.get(vendor, vendor),
        "gen_ai.request.model": requested or match["model"] or None,
    }


def _usage_attributes(usage: Usage | None) -> SpanAttributes:
    return _without_none({name: getattr(usage, n, None) for n, name in _USAGE_NAMES.items()})


def _finish_reason(message: AssistantMessage) -> str | None:
    reason = message.stop_reason
    return None if reason is None else _FINISH_REASONS.get(reason, reason.value)


# -- content -----------------------------------------------------------------------------------


def _input_attributes(request: Request) -> SpanAttributes:
    system = [message for message in request.messages if isinstance(message, SystemMessage)]
    messages = [message for message in request.messages if not isinstance(message, SystemMessage)]
    instructions = [build_part_json(block) for message in system for block in message.content]
    inputs = _encode_attribute([build_message_json(message) for message in messages])
    if not instructions:
        return {"gen_ai.input.messages": inputs}
    return {
        "gen_ai.input.messages": inputs,
        "gen_ai.system_instructions": _encode_attribute(instructions),
    }


def _output_attributes(message: AssistantMessage) -> SpanAttributes:
    reason = _finish_reason(message) or StopReason.UNKNOWN.value
    output = build_message_json(message) | {"finish_reason": reason}
    return {"gen_ai.output.messages": _encode_attribute([output])}


# -- content as JSON ---------------------------------------------------------------------------


def _encode_attribute(value: object) -> str:
    """Return a value as JSON text, because span attributes cannot be nested."""
    return msgspec.json.encode(value).decode()


def build_message_json(message: Message) -> JsonDict:
    """Return the JSON object of a message, with its role and its parts."""
    parts = [build_part_json(block) for block in message.content]
    if isinstance(message, ToolResultMessage):
        is_text = all(isinstance(block, Text) for block in message.content)
        response = message.text if is_text else parts
        parts = [{"type": "tool_call_response", "id": message.tool_call_id, "response": response}]
    return {"role": message.role.value, "parts": parts}


def build_part_json(block: Block) -> JsonDict:
    """Return the JSON object of a block, without its seal.

    Types and fields that the convention does not define have the names that steno uses.
    """
    match block:
        case Text():
            return {"type": "text", "content": block.text}
        case Thinking():
            return {"type": "reasoning", "content": block.text}
        case ToolCall() | InvalidToolCall():
            is_json = isinstance(block, ToolCall)
            arguments = msgspec.Raw(block.arguments.encode()) if is_json else block.arguments
            call = {"type": "tool_call", "id": block.id, "name": block.name}
            return call | {"arguments": arguments}
        case Image():
            return _image_json(block)
        case FileReference():
            return {"type": "file_reference", "path": block.path}
        case Resource():
            part = {"type": "resource", "uri": block.uri}
            return part if block.text is None else part | {"content": block.text}
        case Opaque():
            return {"type": "opaque", "kind": block.kind}
        case _:
            assert_never(block)


def _image_json(image: Image) -> JsonDict:
    source, common = image.source, {"modality": "image", "mime_type": image.mime_type}
    match source:
        case ImageUrl():
            return {"type": "uri", "uri": source.url} | common
        case ImageBlob():
            return {"type": "file", "file_id": source.sha256} | common
        case ImageFile():
            return {"type": "file_reference", "path": source.path} | common
        case ImageData():
            return {"type": "image", "size": len(source.data)} | common
        case _:
            assert_never(source)
