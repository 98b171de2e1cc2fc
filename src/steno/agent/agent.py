"""The `Agent` class, which runs a model with tools on a conversation, one run at a time.

The constructor checks its arguments, and its errors name the value to pass instead. Without the
check, a wrong argument would fail in the middle of a run with an AttributeError. Where a protocol
is expected, only the presence of its methods is checked, so that other programs can implement it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple, final

from steno.agent.dispatch import Dispatcher, Runner, ToolRunner
from steno.agent.events import LoopEvent, RunEnded, RunResult
from steno.agent.loop import AgentRun
from steno.agent.permissions.gate import Gate, PermissionGate
from steno.agent.permissions.rules import Permissions
from steno.agent.recorder import OnEvent, RunRecorder, ignore_event
from steno.agent.resolve_references import ReferenceResolver
from steno.agent.run_config import Limits, RunConfig
from steno.agent.steering import (
    AnyPrompt,
    PromptInput,
    SteeringPolicy,
    SteeringQueue,
    interrupted_before_start,
)
from steno.agent.telemetry.spans import NO_TELEMETRY, Telemetry
from steno.context import ContextBuilder, CountTokens, ModelTarget, estimate_tokens
from steno.errors import InvalidMessage, InvalidValue, StenoError
from steno.lazy_task import start_task
from steno.log.conversation import Conversation
from steno.log.queries import Price
from steno.messages.message import ChatMessage, UserMessage
from steno.messages.tool import ToolDefinition
from steno.ports import Capability, Provider, Resolver, Tool
from steno.records.entry import Entry, ShellCommand

_MISSING_ATTRIBUTE_CODES: Final = {
    "definition": "tool_without_definition",
    "capability": "tool_without_capability",
    "rule_aliases": "tool_without_rule_aliases",
    "subjects": "tool_without_subjects",
    "preview": "tool_without_preview",
    "run": "tool_without_run",
}
"""The required attributes of a tool, each with the stable error code for its absence."""


@final
class Agent:
    """Runs a model with tools on a conversation.

        agent = Agent(provider, conversation, tools=[read, search])
        result = await agent.run("What does it do?")

    Without a `gate` the agent may only read; see `Gate` for rules and approvers. Pass
    `runner=Runner(store)` to store long output with the session, and
    `resolver=InputResolver(workspace)` to resolve references to files, images and resources.
    `model` is the model name to record in the log (`anthropic/claude-…`), `target` holds the
    settings of the model, and `actor` is the user name to record.

    Each run first awaits `before_run`, for example to start MCP servers, and then calls
    `begin_run`, which returns the conversation and the tools to use from then on.
    """

    def __init__(
        self,
        provider: Provider,
        conversation: Conversation,
        *,
        tools: Iterable[Tool] = (),
        gate: PermissionGate | None = None,
        runner: ToolRunner | None = None,
        resolver: Resolver | None = None,
        model: str = "",
        target: ModelTarget | None = None,
        limits: Limits | None = None,
        telemetry: Telemetry = NO_TELEMETRY,
        price_of: Callable[[str], Price | None] = lambda _: None,
        actor: str | None = None,
        count_tokens: CountTokens = estimate_tokens,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        before_run: Callable[[], Awaitable[object]] | None = None,
        begin_run: Callable[[], tuple[Conversation, Iterable[Tool]]] | None = None,
    ) -> None:
        """Store the parts that every run uses.

        Raises InvalidValue for arguments of the wrong type, and if two tools share a name.
        """
        gate = Gate() if gate is None else gate
        runner = Runner() if runner is None else runner
        target = ModelTarget() if target is None else target
        limits = Limits() if limits is None else limits
        _check_provider_and_conversation(provider, conversation)
        _check_gate_and_runner(gate, runner)
        _check_settings(resolver=resolver, target=target, limits=limits, telemetry=telemetry)
        if not isinstance(model, str):
            raise _wrong_type("model", "a string", model)
        if actor is not None and not isinstance(actor, str):
            raise _wrong_type("actor", "a string", actor)
        _check_functions(price_of=price_of, count_tokens=count_tokens, sleep=sleep)
        hooks = {"before_run": before_run, "begin_run": begin_run}
        _check_functions(**{name: hook for name, hook in hooks.items() if hook is not None})
        self.conversation = conversation
        self._create_dispatcher = partial(Dispatcher, gate=gate, runner=runner, telemetry=telemetry)
        self._config = RunConfig(
            provider=provider,
            dispatcher=self._create_dispatcher(_collect_tools(tools)),
            references=None if resolver is None else ReferenceResolver(resolver, gate),
            context_builder=ContextBuilder(count_tokens=count_tokens),
            count_tokens=count_tokens,
            target=target,
            model=model or target.model,
            limits=limits,
            telemetry=telemetry,
            price_of=price_of,
            actor=actor,
            sleep=sleep,
        )
        self._steering = SteeringQueue()
        self._before_run = before_run
        self._begin_run = begin_run
        self._waiting: asyncio.Task[object] | None = None
        """The pending call of `before_run`; None if no run is waiting for it."""
        self._run: AgentRun | None = None
        self._is_interrupted_early = False
        """Whether the run that is starting was interrupted before `_run` was set."""

    @property
    def is_running(self) -> bool:
        """Whether a run is in progress or is waiting for `before_run`."""
        return self._run is not None or self._waiting is not None

    @property
    def is_waiting(self) -> bool:
        """Whether a run is waiting for `before_run`, with nothing recorded yet."""
        return self._waiting is not None

    async def run(
        self,
        prompt: AnyPrompt | None = None,
        *,
        on_event: OnEvent = ignore_event,
        retry_references: bool = True,
    ) -> RunResult:
        """Send a prompt to the model, and run until the model is done.

        Without a prompt, the run continues where the conversation stopped, and retries references
        that could not be resolved, unless `retry_references` is False. `on_event` is called with
        each event.

        Provider errors and unresolved references of the prompt are reported in the result, not
        raised. If a reference cannot be resolved, nothing is sent, the branch is rewound to before
        the prompt, and later prompts stay queued until `withdraw` or the next run.

        Raises LogError if the log cannot be written, StenoError (`agent_busy`) while another run is
        in progress, and StenoError (`interrupted`) if `interrupt` is called while the run waits for
        `before_run`; nothing is recorded then. If the task is cancelled, a later run can continue
        the conversation.
        """
        prompt_input = None if prompt is None else _build_prompt_input(prompt)
        await self._wait_to_begin()
        with (
            self._open_run(on_event) as run,
            self._config.telemetry.run(self.conversation.id, self._config.model) as span,
        ):
            result = await run.execute(prompt_input, retry_references=retry_references)
            span.record_result(result)
        on_event(RunEnded(result))
        return result

    async def compact(self, *, on_event: OnEvent = ignore_event) -> Entry | None:
        """Request a summary from the model to replace the older messages in later requests.

        The last messages are still sent in full, and all messages stay in the log. Return the entry
        of the summary; None if there is nothing to summarize, or if the request failed (`on_event`
        receives the reason) or was interrupted. Raises LogError if the log cannot be written, and
        StenoError (`agent_busy`) while a run is in progress.
        """
        self._check_idle()
        with self._open_run(on_event) as run:
            return await run.compact()

    def _check_idle(self) -> None:
        if self.is_running:
            message = "a run is in progress; call steer(), or wait until the run ends"
            raise StenoError(message, place="agent", code="agent_busy")

    async def _wait_to_begin(self) -> None:
        """Await `before_run`. Raises StenoError if `interrupt` is called before the run begins."""
        self._check_idle()
        if self._before_run is None:
            return
        task = asyncio.current_task()
        assert task is not None
        cancel_count = task.cancelling()
        self._is_interrupted_early = False
        # The task also calls the function, which may call `interrupt` before it returns.
        self._waiting = start_task(_call_and_await(self._before_run))
        try:
            await self._waiting
        except asyncio.CancelledError:
            if task.cancelling() > cancel_count:
                task.cancel()  # begin the run to record its prompt; the cancellation then ends it
                return
            self._is_interrupted_early = True
        finally:
            self._waiting = None
        if task.cancelling() > cancel_count:  # `before_run` swallowed the cancellation
            task.cancel()
        elif self._is_interrupted_early:
            raise interrupted_before_start()

    @contextmanager
    def _open_run(self, on_event: OnEvent) -> Generator[AgentRun]:
        """Begin a run that ends with the `with` block.

        Raises InvalidValue if the tools that `begin_run` returns are invalid.
        """
        self._is_interrupted_early = False
        if self._begin_run is not None:
            self.conversation, tools = self._begin_run()
            if (collected := _collect_tools(tools)) != self._config.dispatcher.tools:
                self._config = self._config._replace(dispatcher=self._create_dispatcher(collected))
        recorder = RunRecorder(self.conversation, on_event)
        self._run = AgentRun(self._config, recorder, self._steering)
        if self._is_interrupted_early:  # by `begin_run`
            self._run.interrupt()
        try:
            yield self._run
        finally:
            self._run = None
            recorder.close()

    async def events(self, prompt: AnyPrompt | None = None) -> AsyncGenerator[LoopEvent]:
        """Run the agent and yield its events; the last event is a `RunEnded`.

        The run does not wait for the consumer, so an approver may be asked before the
        `ApprovalRequested` event is yielded. To receive that event first, pass `on_event` to `run`.
        Leaving the loop early stops the run; use `contextlib.aclosing` to stop it at once.
        """
        events: asyncio.Queue[LoopEvent | None] = asyncio.Queue()
        task = start_task(self.run(prompt, on_event=events.put_nowait))
        task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    def steer(
        self, prompt: AnyPrompt | ShellCommand, policy: SteeringPolicy = SteeringPolicy.AFTER_CALLS
    ) -> None:
        """Send a prompt during a run. Raises StenoError (`agent_idle`) if no run is in progress.

        A `ShellCommand` is only recorded; unlike a prompt, it does not prolong the run.
        """
        if not self.is_running:
            message = "no run in progress; call run() first"
            raise StenoError(message, place="agent", code="agent_idle")
        self.enqueue(prompt, policy)
        if policy is SteeringPolicy.INTERRUPT and self._run is not None:
            self._run.interrupt()

    def enqueue(
        self, prompt: AnyPrompt | ShellCommand, policy: SteeringPolicy = SteeringPolicy.AFTER_CALLS
    ) -> None:
        """Queue a prompt or a shell command for the current run or, if idle, for the next run."""
        if policy is SteeringPolicy.INTERRUPT and self._run is None:
            policy = SteeringPolicy.AFTER_CALLS  # there is no run to interrupt
        queued = prompt if isinstance(prompt, ShellCommand) else _build_prompt_input(prompt)
        self._steering.put(queued, policy)

    def withdraw(self) -> tuple[PromptInput, ...]:
        """Remove and return the queued prompts, which are not recorded yet."""
        return tuple(self._steering.take(PromptInput))

    def interrupt(self) -> None:
        """Stop the response and the tools, and record their partial output. No-op if idle.

        The run then ends, unless a prompt is queued. A tool that ignores its cancellation is
        abandoned after ten seconds, or at once if `interrupt` is called again. A run that is
        waiting for `before_run` does not begin.
        """
        if self._run is not None:
            self._run.interrupt()
            return
        self._is_interrupted_early = True
        if self._waiting is not None:
            self._waiting.cancel()


async def _call_and_await(function: Callable[[], Awaitable[object]]) -> object:
    return await function()


def _build_prompt_input(prompt: AnyPrompt) -> PromptInput:
    match prompt:
        case PromptInput(message=UserMessage()):
            return prompt
        case PromptInput(images=(), piped=""):
            return prompt._replace(message=ChatMessage.user(prompt.text))
        case PromptInput():
            message = (
                "the prompt has images or piped input but no message; set a message that contains"
                " them"
            )
            raise InvalidMessage(message, place="agent", code="invalid_prompt")
        case UserMessage():
            return PromptInput(prompt.text or "", message=prompt)
        case str():
            return PromptInput(prompt, message=ChatMessage.user(prompt))
        case _:
            has_message = isinstance(getattr(prompt, "message", None), UserMessage)
            hint = "; pass its .message" if has_message else ""
            expected = "the prompt must be a string, a UserMessage or a PromptInput"
            raise InvalidMessage(
                f"{expected}, not {type(prompt).__name__}{hint}",
                place="agent",
                code="invalid_prompt",
            )


# -- arguments -------------------------------------------------------------------------------------


def _check_provider_and_conversation(provider: object, conversation: object) -> None:
    if not _has_methods(provider, "stream"):
        code, advice = "wrong_type", ""
        if isinstance(provider, Conversation):
            code, advice = "arguments_swapped", "pass the provider first, then the conversation"
        elif _has_methods(provider, "__await__"):
            code, advice = "not_awaited", "await it first"
        expected = 'a provider, such as connect("anthropic")'
        raise _wrong_type("provider", expected, provider, code=code, advice=advice)
    if not isinstance(conversation, Conversation):
        expected = "a Conversation, such as Conversation() or store.new()"
        raise _wrong_type("conversation", expected, conversation)


def _check_gate_and_runner(gate: object, runner: object) -> None:
    if not _has_methods(gate, "offers", "decide", "denies", "authorize_reference"):
        code, advice = "wrong_type", ""
        if isinstance(gate, Permissions):
            code, advice = "gate_is_permissions", "pass Gate(permissions)"
        elif _has_methods(gate, "ask"):
            code, advice = "gate_is_approver", "pass Gate(approver=…)"
        raise _wrong_type("gate", "a Gate", gate, code=code, advice=advice)
    if not _has_methods(runner, "run"):
        code, advice = "wrong_type", ""
        if _has_methods(runner, "put_blob"):
            code, advice = "runner_is_store", "pass Runner(store)"
        raise _wrong_type("runner", "a Runner", runner, code=code, advice=advice)


def _check_settings(*, resolver: object, target: object, limits: object, telemetry: object) -> None:
    if resolver is not None and not _has_methods(resolver, "resolve", "is_current", "changes"):
        raise _wrong_type("resolver", "a resolver, such as InputResolver(workspace)", resolver)
    if not isinstance(target, ModelTarget):
        raise _wrong_type("target", 'a ModelTarget, such as ModelTarget(model="…")', target)
    if not isinstance(limits, Limits):
        raise _wrong_type("limits", "a steno.agent.Limits, such as Limits(turns=20)", limits)
    if not _has_methods(telemetry, "run", "turn", "call"):
        raise _wrong_type("telemetry", "a telemetry object, such as OpenTelemetry()", telemetry)


def _check_functions(**functions: object) -> None:
    for name, function in functions.items():
        if not callable(function):
            raise _wrong_type(name, "a function", function)


def _collect_tools(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Return the tools of an iterable. Raises InvalidValue for a value that is not a tool."""
    if not isinstance(tools, Iterable):
        code, advice = "tools_not_listed", "pass tools=[…]"
        if hasattr(tools, "tools"):
            code, advice = "tools_is_toolbox", "pass its .tools"
        raise _wrong_type("tools", "a list of tools", tools, code=code, advice=advice)
    collected = tuple(tools)
    for number, tool in enumerate(collected):
        if (problem := _tool_problem(tool)) is not None:
            code, advice = problem
            raise _wrong_type(f"tools[{number}]", "a tool", tool, code=code, advice=advice)
    return collected


class _ToolProblem(NamedTuple):
    code: str
    advice: str


def _tool_problem(tool: object) -> _ToolProblem | None:
    """Return the code and the advice for a value that is not a tool; None for a valid tool."""
    if isinstance(tool, type):
        return _ToolProblem("tool_is_class", f"pass an instance: {tool.__name__}(…)")
    missing = next((name for name in _MISSING_ATTRIBUTE_CODES if not hasattr(tool, name)), None)
    if missing is not None and callable(tool):
        return _ToolProblem("tool_is_function", "decorate it with @tool")
    if missing is not None:
        return _ToolProblem(_MISSING_ATTRIBUTE_CODES[missing], f"it has no attribute {missing}")
    if not isinstance(getattr(tool, "definition", None), ToolDefinition):
        return _ToolProblem("tool_definition_type", "its definition must be a ToolDefinition")
    if not isinstance(getattr(tool, "capability", None), Capability):
        advice = "its capability must be a Capability, such as Capability.READ"
        return _ToolProblem("tool_capability_type", advice)
    # A string would pass as an iterable of names of one character each.
    if not isinstance(getattr(tool, "rule_aliases", None), tuple):
        advice = "its rule_aliases must be a tuple of names, such as ()"
        return _ToolProblem("tool_rule_aliases_type", advice)
    return None


def _has_methods(value: object, *methods: str) -> bool:
    """Return whether an object has all these methods; False for a class."""
    is_object = not isinstance(value, type)
    return is_object and all(callable(getattr(value, name, None)) for name in methods)


def _wrong_type(
    place: str, expected: str, value: object, *, code: str = "wrong_type", advice: str = ""
) -> InvalidValue:
    kind = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    message = f"must be {expected}, not {kind}" + (f"; {advice}" if advice else "")
    return InvalidValue(message, place=place, code=code)
