"""Runs as spans and numbers of OpenTelemetry, read back with its own SDK."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from steno import ChatMessage, Conversation, Request, TextDelta, ToolCall, ToolDefinition, Usage
from steno.agent import Agent, EndReason, ModelTarget, ToolOutput
from steno.agent.telemetry.opentelemetry import OpenTelemetry, build_message_json, build_part_json
from steno.errors import AuthenticationFailed, RateLimited, ToolFailed
from steno.messages.call import InvalidToolCall, Seal
from steno.messages.content import (
    FileReference,
    Image,
    ImageBlob,
    ImageData,
    ImageFile,
    ImageUrl,
    Opaque,
    Resource,
    Thinking,
)
from steno.messages.usage import StopReason
from steno.ports import CallPreview, Capability, Stream, ToolContext, default_headline
from steno.testing import ScriptedProvider
from steno.testing.doubles import ScriptedTurn

MODEL = "anthropic/claude-test"
SECRET = "sesame"
"""Occurs in all content, and in nothing else."""
WAIT_S = 60


class Lookup:
    """Finds what it is asked for, fails, or waits for ever."""

    capability = Capability.READ
    rule_aliases = ()
    definition = ToolDefinition(
        name="lookup",
        description="Look something up.",
        parameters={"type": "object", "properties": {"for": {"type": "string"}}},
    )

    def __init__(self) -> None:
        self.is_running = asyncio.Event()

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        return ()

    headline = staticmethod(default_headline)

    async def preview(self, call: ToolCall) -> CallPreview:
        return CallPreview()

    async def run(self, call: ToolCall, stage: ToolContext) -> ToolOutput:
        wanted = call.get("for", str)
        if wanted == "nothing":
            raise ToolFailed(f"there is no {SECRET}")
        if wanted == "for ever":
            self.is_running.set()
            await asyncio.Event().wait()
        return ToolOutput.of(f"found {SECRET}")


class Scene(NamedTuple):
    """Where spans and measurements end up."""

    telemetry: OpenTelemetry
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    def spans(self) -> list[ReadableSpan]:
        """Return the spans in the order they began."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def attributes(self, name: str, number: int = 0) -> dict[str, Any]:
        """Return the attributes of a span: the first of this name, or another."""
        found = [span for span in self.spans() if span.name == name]
        return dict(found[number].attributes or {})

    def measured(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        (resource,) = data.resource_metrics
        (scope,) = resource.scope_metrics
        return {metric.name: list(metric.data.data_points) for metric in scope.metrics}


def scene(*, capture_content: bool = False, **settings: Any) -> Scene:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider(**settings)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider(metric_readers=[reader])
    telemetry = OpenTelemetry(tracers, meter_provider=meters, capture_content=capture_content)
    return Scene(telemetry, exporter, reader)


def agent(scene: Scene, turns: Sequence[ScriptedTurn], **settings: Any) -> Agent:
    conversation = Conversation([ChatMessage.system(f"Keep the {SECRET}.")], id="talk")
    tools = settings.pop("tools", [Lookup()])
    return Agent(
        settings.pop("provider", None) or ScriptedProvider(turns),
        conversation,
        tools=tools,
        model=settings.pop("model", MODEL),
        telemetry=scene.telemetry,
        **settings,
    )


def call(wanted: str) -> ToolCall:
    return ToolCall.create("lookup", {"for": wanted}, id="c1")


class Named:
    """A provider whose answers have a name."""

    def __init__(self, turns: Sequence[ScriptedTurn]) -> None:
        self._provider = ScriptedProvider(turns)

    def stream(self, request: Request) -> Stream:
        stream: Any = self._provider.stream(request)
        stream.envelope = {"id": "msg_1", "model": "claude-test-2026"}
        named: Stream = stream
        return named


def turn_with_call(wanted: str) -> Any:
    usage = Usage(input_tokens=100, output_tokens=20, cache_read_tokens=60, cache_write_tokens=5)
    return ChatMessage.assistant(f"I look for {SECRET}.", [call(wanted)], usage=usage)


def last_turn() -> Any:
    return ChatMessage.assistant(f"It is {SECRET}.", usage=Usage(input_tokens=130, output_tokens=7))


def context_of(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


# -- the tree ------------------------------------------------------------------------------------


def run_with_call(seen: Scene, wanted: str = "it", **settings: Any) -> None:
    result = asyncio.run(
        agent(seen, [turn_with_call(wanted), last_turn()], **settings).run(f"Say {SECRET}")
    )
    assert result.end_reason is EndReason.DONE


def test_a_run_is_a_tree_of_spans() -> None:
    seen = scene()
    run_with_call(seen)
    run, *inside = seen.spans()
    assert (run.name, run.kind, run.parent) == ("invoke_agent", SpanKind.INTERNAL, None)
    assert [(span.name, span.kind) for span in inside] == [
        ("chat claude-test", SpanKind.CLIENT),
        ("execute_tool lookup", SpanKind.INTERNAL),
        ("chat claude-test", SpanKind.CLIENT),
    ]
    for span in inside:
        assert span.parent is not None
        assert span.parent.span_id == context_of(run).span_id
    assert {span.status.status_code for span in seen.spans()} == {StatusCode.UNSET}


def test_runs_side_by_side_keep_their_spans_and_conversations_apart() -> None:
    seen = scene()

    async def both() -> None:
        first, second = (
            agent(seen, [turn_with_call("it"), last_turn()], model=f"openai/{name}")
            for name in ("one", "two")
        )
        second.conversation = Conversation(id="other")
        await asyncio.gather(first.run("Go"), second.run("Go"))

    asyncio.run(both())
    conversations = {
        (context_of(span).trace_id, str((span.attributes or {})["gen_ai.conversation.id"]))
        for span in seen.spans()
    }
    assert sorted(name for _, name in conversations) == ["other", "talk"]


def test_a_run_of_another_span_is_inside_of_it() -> None:
    seen = scene()
    tracers = TracerProvider()
    with tracers.get_tracer("mine").start_as_current_span("mine") as mine:
        asyncio.run(agent(seen, [last_turn()]).run("Go"))
    run = seen.spans()[0]
    assert run.parent is not None
    assert run.parent.span_id == mine.get_span_context().span_id


def test_a_summary_is_a_turn_of_its_own() -> None:
    seen = scene()
    summary = ChatMessage.assistant("Much was said.", usage=Usage(input_tokens=900))
    # What is to be summed up is more than the model reads at once, so it takes two pieces.
    turns = [summary, summary, last_turn()]
    one = agent(seen, turns, tools=[], target=ModelTarget(context_tokens=4_000))
    for _ in range(8):
        one.conversation.append(ChatMessage.user("so " * 500))
        one.conversation.append(ChatMessage.assistant("Well."))
    asyncio.run(one.run("Go"))
    run, *chats = seen.spans()
    assert [chat.name for chat in chats] == ["chat claude-test"] * 2
    assert (chats[0].attributes or {})["gen_ai.usage.input_tokens"] == 1_800
    assert (run.attributes or {})["gen_ai.usage.input_tokens"] == 1_930


# -- attributes ----------------------------------------------------------------------------------


def test_spans_have_the_attributes_of_the_convention() -> None:
    seen = scene()
    turns = [turn_with_call("it"), last_turn()]
    target = ModelTarget(
        model="claude-test-latest", max_tokens=500, temperature=0.5, top_p=0.9, stop=("END",)
    )
    asyncio.run(agent(seen, [], provider=Named(turns), target=target).run("Go"))
    assert seen.attributes("invoke_agent") == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-test",
        "gen_ai.conversation.id": "talk",
        "gen_ai.usage.input_tokens": 230,
        "gen_ai.usage.output_tokens": 27,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.cache_creation.input_tokens": 5,
        "steno.run.ending": "done",
        "steno.run.turns": 2,
    }
    assert seen.attributes("chat claude-test-latest") == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-test-latest",
        "gen_ai.request.max_tokens": 500,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.conversation.id": "talk",
        "gen_ai.response.id": "msg_1",
        "gen_ai.response.model": "claude-test-2026",
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.cache_creation.input_tokens": 5,
    }
    last = seen.attributes("chat claude-test-latest", 1)
    assert last["gen_ai.response.finish_reasons"] == ("stop",)
    assert seen.attributes("execute_tool lookup") == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "lookup",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "gen_ai.conversation.id": "talk",
    }


@pytest.mark.parametrize(
    ("model", "provider", "asked"),
    [
        ("google/gemini-test", "gcp.gemini", "gemini-test"),
        ("openai-responses/gpt-test", "openai", "gpt-test"),
        ("xai/grok-test", "x_ai", "grok-test"),
        ("openrouter/meta/llama:free", "openrouter", "meta/llama:free"),
        ("embedded:/models/small.gguf", "embedded", "/models/small.gguf"),
        ("gpt-test", "_OTHER", "gpt-test"),
        ("", "_OTHER", None),
    ],
)
def test_a_vendor_goes_by_the_name_that_the_convention_has_for_it(
    model: str, provider: str, asked: str | None
) -> None:
    seen = scene()
    asyncio.run(agent(seen, [last_turn()], model=model).run("Go"))
    attributes = seen.attributes("invoke_agent")
    assert attributes["gen_ai.provider.name"] == provider
    assert attributes.get("gen_ai.request.model") == asked


def test_turns_are_measured() -> None:
    seen = scene()
    run_with_call(seen)
    measured = seen.measured()
    labels = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-test",
    }
    (duration,) = measured["gen_ai.client.operation.duration"]
    assert (duration.count, dict(duration.attributes)) == (2, labels)
    assert duration.explicit_bounds[0] == 0.01
    tokens = {
        point.attributes["gen_ai.token.type"]: point.sum
        for point in measured["gen_ai.client.token.usage"]
    }
    assert tokens == {"input": 230, "output": 27}


# -- failures ------------------------------------------------------------------------------------


def status_of(span: ReadableSpan) -> tuple[StatusCode, str | None, object]:
    return span.status.status_code, span.status.description, (span.attributes or {})["error.type"]


def test_a_provider_that_fails_ends_the_turn_and_the_run_with_an_error() -> None:
    seen = scene()
    result = asyncio.run(agent(seen, [AuthenticationFailed(f"no {SECRET}")]).run("Go"))
    assert result.end_reason is EndReason.FAILED
    run, turn = seen.spans()
    for span in (run, turn):
        assert status_of(span) == (StatusCode.ERROR, None, "AuthenticationFailed")
        assert not span.events
    (duration,) = seen.measured()["gen_ai.client.operation.duration"]
    assert duration.attributes["error.type"] == "AuthenticationFailed"


def test_a_turn_that_broke_and_was_tried_again_is_two_spans() -> None:
    async def no_sleep(_: float) -> None: ...

    seen = scene()
    broken: list[Any] = [TextDelta(0, "Hal"), RateLimited("later", retryable=True)]
    asyncio.run(agent(seen, [broken, last_turn()], sleep=no_sleep).run("Go"))
    run, broken_turn, turn = seen.spans()
    assert status_of(broken_turn) == (StatusCode.ERROR, None, "RateLimited")
    assert (broken_turn.attributes or {})["gen_ai.response.finish_reasons"] == ("error",)
    assert {span.status.status_code for span in (run, turn)} == {StatusCode.UNSET}


def test_a_call_that_fails_is_an_error_of_its_span_alone() -> None:
    seen = scene()
    run_with_call(seen, "nothing")
    run, _, execution, _ = seen.spans()
    assert status_of(execution) == (StatusCode.ERROR, None, "error")
    assert run.status.status_code is StatusCode.UNSET


def test_a_cancelled_run_ends_all_of_its_spans() -> None:
    seen = scene()

    async def cancelled() -> None:
        tool = Lookup()
        running = asyncio.create_task(agent(seen, [turn_with_call("for ever")], tools=[tool]).run())
        async with asyncio.timeout(WAIT_S):
            await tool.is_running.wait()
            running.cancel()
            await asyncio.wait([running])
        assert running.cancelled()

    asyncio.run(cancelled())
    run, turn, execution = seen.spans()
    assert status_of(run) == status_of(execution) == (StatusCode.ERROR, None, "CancelledError")
    assert turn.status.status_code is StatusCode.UNSET


def test_an_interrupted_run_is_no_error_but_the_turn_is() -> None:
    seen = scene()

    async def interrupted() -> None:
        spoken = asyncio.Event()
        one = agent(seen, [[TextDelta(0, "Hal"), asyncio.Event()]])
        running = asyncio.create_task(
            one.run(
                "Go", on_event=lambda event: spoken.set() if isinstance(event, TextDelta) else None
            )
        )
        async with asyncio.timeout(WAIT_S):
            await spoken.wait()
            one.interrupt()
            assert (await running).end_reason is EndReason.INTERRUPTED

    asyncio.run(interrupted())
    run, turn = seen.spans()
    assert status_of(turn) == (StatusCode.ERROR, None, "CancelledError")
    assert run.status.status_code is StatusCode.UNSET
    assert (run.attributes or {})["steno.run.ending"] == "interrupted"


# -- content -------------------------------------------------------------------------------------


def everything(seen: Scene) -> str:
    return "\n".join([span.to_json() for span in seen.spans()]) + repr(seen.measured())


@pytest.mark.parametrize("wanted", ["it", "nothing"])
def test_spans_hold_no_content(wanted: str) -> None:
    seen = scene()
    run_with_call(seen, wanted)
    assert SECRET not in everything(seen)
    assert "for" not in seen.attributes("execute_tool lookup")
    failing = scene()
    asyncio.run(agent(failing, [AuthenticationFailed(f"no {SECRET}")]).run(f"Say {SECRET}"))
    assert SECRET not in everything(failing)


def test_content_is_in_spans_where_it_is_wanted() -> None:
    seen = scene(capture_content=True)
    run_with_call(seen)
    first = seen.attributes("chat claude-test")
    assert json.loads(first["gen_ai.system_instructions"]) == [
        {"type": "text", "content": f"Keep the {SECRET}."}
    ]
    assert json.loads(first["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": f"Say {SECRET}"}]}
    ]
    called = {
        "role": "assistant",
        "parts": [
            {"type": "text", "content": f"I look for {SECRET}."},
            {"type": "tool_call", "id": "c1", "name": "lookup", "arguments": {"for": "it"}},
        ],
    }
    assert json.loads(first["gen_ai.output.messages"]) == [called | {"finish_reason": "tool_call"}]
    second = seen.attributes("chat claude-test", 1)
    response = {"type": "tool_call_response", "id": "c1", "response": f"found {SECRET}"}
    assert json.loads(second["gen_ai.input.messages"])[1:] == [
        called,
        {"role": "tool", "parts": [response]},
    ]
    spoken = [{"type": "text", "content": f"It is {SECRET}."}]
    assert json.loads(seen.attributes("invoke_agent")["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": spoken, "finish_reason": "stop"}
    ]
    execution = seen.attributes("execute_tool lookup")
    assert json.loads(execution["gen_ai.tool.call.arguments"]) == {"for": "it"}
    assert execution["gen_ai.tool.call.result"] == f"found {SECRET}"


def test_the_message_of_an_exception_is_content() -> None:
    seen = scene(capture_content=True)
    asyncio.run(agent(seen, [AuthenticationFailed(f"no {SECRET}")]).run("Go"))
    for span in seen.spans():
        assert status_of(span) == (StatusCode.ERROR, f"no {SECRET}", "AuthenticationFailed")
        (event,) = span.events
        assert event.name == "exception"


def parts() -> Iterator[Any]:
    seal = Seal(data="sealed", provider="p", api="a", model="m")
    digest = "0" * 64
    yield Thinking("Hm", seal=seal), {"type": "reasoning", "content": "Hm"}
    yield (
        InvalidToolCall(id="c", name="x", arguments="{", reason="not JSON"),
        {"type": "tool_call", "id": "c", "name": "x", "arguments": "{"},
    )
    yield FileReference(path="a.py"), {"type": "file_reference", "path": "a.py"}
    yield (
        Resource(server="s", uri="r://1", text="words"),
        {"type": "resource", "uri": "r://1", "content": "words"},
    )
    yield Resource(server="s", uri="r://1"), {"type": "resource", "uri": "r://1"}
    yield (
        Opaque(kind="odd", raw="{}", origin="openai_chat"),
        {"type": "opaque", "kind": "odd"},
    )
    image = {"modality": "image", "mime_type": "image/png"}
    for source, expected in (
        (ImageData(b"12345"), {"type": "image", "size": 5}),
        (ImageUrl("https://a.org/b.png"), {"type": "uri", "uri": "https://a.org/b.png"}),
        (ImageFile("b.png"), {"type": "file_reference", "path": "b.png"}),
        (ImageBlob(sha256=digest, size=5), {"type": "file", "file_id": digest}),
    ):
        yield Image(source=source, mime_type="image/png"), expected | image


@pytest.mark.parametrize(("block", "expected"), list(parts()))
def test_every_block_has_its_part_without_bytes_and_seals(block: Any, expected: Any) -> None:
    assert build_part_json(block) == expected


def test_a_result_of_more_than_text_is_recorded_as_parts() -> None:
    message = ChatMessage.tool_result("c1", [FileReference(path="a.py")])
    response = [{"type": "file_reference", "path": "a.py"}]
    assert build_message_json(message)["parts"] == [
        {"type": "tool_call_response", "id": "c1", "response": response}
    ]


@pytest.mark.parametrize("reason", StopReason)
def test_every_stop_reason_has_a_finish_reason(reason: StopReason) -> None:
    seen = scene()
    message = ChatMessage.assistant("So.", stop_reason=reason)
    with seen.telemetry.turn(Request(messages=(ChatMessage.user("Go"),)), MODEL) as span:
        span.record_result(message)
    (recorded,) = seen.attributes("chat claude-test")["gen_ai.response.finish_reasons"]
    expected = {"end_turn": "stop", "tool_use": "tool_call"}.get(reason.value, reason.value)
    assert recorded == expected


def test_nothing_is_exported_where_nothing_is_sampled() -> None:
    seen = scene(capture_content=True, sampler=ALWAYS_OFF)
    run_with_call(seen)
    assert seen.spans() == []


# -- what is loaded ------------------------------------------------------------------------------


def test_agents_without_telemetry_load_nothing_of_it() -> None:
    program = "import sys, steno.agent; print('opentelemetry' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout == "False\n"


def test_the_error_names_what_to_install() -> None:
    program = "import sys; sys.modules['opentelemetry'] = None; import steno.agent.telemetry.opentelemetry"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 1
    assert "pip install 'steno-agent[telemetry]'" in ran.stderr
