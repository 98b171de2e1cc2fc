"""An agent: a provider, a conversation and tools, and one run after the other on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, Final, final

from steno.agent.dispatch import Dispatcher
from steno.agent.events import LoopEvent, RunEnded, RunResult
from steno.agent.loop import AgentRun
from steno.agent.permissions.gate import Gate, PermissionGate
from steno.agent.permissions.policy import Permissions
from steno.agent.recorder import OnEvent, RunRecorder, ignore_event
from steno.agent.references import ReferenceResolver
from steno.agent.run_config import Limits, RunConfig
from steno.agent.runner import Runner, ToolRunner
from steno.agent.steering import SteeringMessage, SteeringPolicy, SteeringQueue
from steno.agent.telemetry.spans import NO_TELEMETRY, Telemetry
from steno.context import ContextBuilder, CountTokens, ModelTarget, estimate_tokens
from steno.errors import InvalidMessage, InvalidValue, StenoError
from steno.log.conversation import Conversation
from steno.log.queries import Price
from steno.messages.message import ChatMessage, UserMessage
from steno.messages.tool import ToolDefinition
from steno.ports import Capability, Provider, Resolver, Tool
from steno.records.entry import Entry

# -- checks ----------------------------------------------------------------------------------------
#
# What an agent can be made of. A mix-up is told where it is made, in one line that says what to do.
#
# Without this a wrong argument would come up in the middle of a run, as an attribute that something
# does not have. What follows a protocol is asked for its methods, so that anybody may write one.


_TOOL_ATTRIBUTES: Final = ("definition", "capability", "ruled_as", "subjects", "preview", "run")


def check_provider_and_conversation(provider: object, conversation: object) -> None:
    """Look at who speaks with whom. Raises InvalidValue."""
    if not _has_methods(provider, "stream"):
        advice = ""
        if isinstance(provider, Conversation):
            advice = "the provider comes first, then the conversation"
        elif _has_methods(provider, "__await__"):
            advice = "await?"
        words = 'one, such as connect("anthropic")'
        raise InvalidValue(_describe_mismatch("provider", words, provider, advice))
    if not isinstance(conversation, Conversation):
        words = "a Conversation, such as Conversation() or store.new()"
        raise InvalidValue(_describe_mismatch("conversation", words, conversation))


def check_gate(gate: object) -> None:
    """Look at who decides. Raises InvalidValue."""
    if not _has_methods(gate, "offers", "decide", "denies", "admit"):
        advice = ""
        if isinstance(gate, Permissions):
            advice = "Gate(permissions)?"
        elif _has_methods(gate, "ask"):
            advice = "Gate(approver=…)?"
        raise InvalidValue(_describe_mismatch("gate", "a Gate", gate, advice))


def check_runner(runner: object) -> None:
    """Look at what runs tools. Raises InvalidValue."""
    if not _has_methods(runner, "run"):
        advice = "Runner(store)?" if _has_methods(runner, "put_blob") else ""
        raise InvalidValue(_describe_mismatch("runner", "a Runner", runner, advice))


def check_resolver(resolver: object) -> None:
    """Look at who opens what messages point at. Raises InvalidValue."""
    if resolver is not None and not _has_methods(resolver, "resolve", "is_current", "changes"):
        raise InvalidValue(
            _describe_mismatch("resolver", "one, such as Inputs(workspace)", resolver)
        )


def collect_tools(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Return the tools of an iterable. Raises InvalidValue for what is none."""
    if not isinstance(tools, Iterable):
        advice = "its .tools?" if hasattr(tools, "tools") else "tools=[…]?"
        raise InvalidValue(_describe_mismatch("tools", "a list of tools", tools, advice))
    found = tuple(tools)
    for number, tool in enumerate(found):
        if (lack := _tool_problem(tool)) is not None:
            raise InvalidValue(_describe_mismatch(f"tools[{number}]", "a tool", tool, lack))
    return found


def check_settings(*, target: object, limits: object, telemetry: object) -> None:
    """Look at what is asked of a model, how far it may go, and what measures it. Raises InvalidValue."""
    if not isinstance(target, ModelTarget):
        raise InvalidValue(
            _describe_mismatch("target", 'a Target, such as Target(model="…")', target)
        )
    if not isinstance(limits, Limits):
        raise InvalidValue(
            _describe_mismatch("limits", "Limits of steno.agent, such as Limits(turns=20)", limits)
        )
    if not _has_methods(telemetry, "run", "turn", "call"):
        raise InvalidValue(
            _describe_mismatch("telemetry", "one, such as OpenTelemetry()", telemetry)
        )


def check_texts(**texts: object) -> None:
    """Look at settings that are strings. Raises InvalidValue."""
    for name, text in texts.items():
        if not isinstance(text, str):
            raise InvalidValue(_describe_mismatch(name, "a string", text))


def check_functions(**functions: object) -> None:
    """Look at settings that are functions. Raises InvalidValue."""
    for name, function in functions.items():
        if not callable(function):
            raise InvalidValue(_describe_mismatch(name, "a function", function))


def _has_methods(value: object, *methods: str) -> bool:
    """Tell whether a value has all these methods; a class is not yet one of its objects."""
    is_object = not isinstance(value, type)
    return is_object and all(callable(getattr(value, name, None)) for name in methods)


def _tool_problem(tool: object) -> str | None:
    """Return what is missing in a tool; None if nothing is."""
    if isinstance(tool, type):
        return f"{tool.__name__}(…)?"
    missing = next((name for name in _TOOL_ATTRIBUTES if not hasattr(tool, name)), None)
    if missing is not None:
        return "@tool?" if callable(tool) else f"it has no {missing}"
    if not isinstance(getattr(tool, "definition", None), ToolDefinition):
        return "its definition must be a ToolDefinition"
    if not isinstance(getattr(tool, "capability", None), Capability):
        return "its capability must be a Capability, such as Capability.READ"
    if not isinstance(getattr(tool, "ruled_as", None), tuple):  # a text would be many names
        return "its ruled_as must be a tuple of names, such as ()"
    return None


def _describe_mismatch(place: str, words: str, value: object, advice: str = "") -> str:
    kind = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    return f"{place}: must be {words}, not {kind}" + (f"; {advice}" if advice else "")


def _unknown_price(_: str) -> Price | None:
    return None


@final
class Agent:
    """Lets a model work on a conversation.

        agent = Agent(provider, conversation, tools=[read, search])
        result = await agent.run("What does it do?")

    Without a `gate` it may only read; see `Gate` for rules and for whom to ask. Pass
    `runner=Runner(store)` to keep long outputs with the session, and `resolver=Inputs(workspace)` to
    open files, images and resources that messages point at. `model` is what the record calls
    the model (`anthropic/claude-…`), `target` what is asked of it, and `actor` who speaks.
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
        price_of: Callable[[str], Price | None] = _unknown_price,
        actor: str | None = None,
        count: CountTokens = estimate_tokens,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Take everything that a run needs.

        Raises InvalidValue for what cannot be used as this or that, and if two tools share a name.
        """
        gate = Gate() if gate is None else gate
        runner = Runner() if runner is None else runner
        target = ModelTarget() if target is None else target
        limits = Limits() if limits is None else limits
        check_provider_and_conversation(provider, conversation)
        check_gate(gate)
        check_runner(runner)
        check_resolver(resolver)
        check_settings(target=target, limits=limits, telemetry=telemetry)
        check_texts(model=model, actor="" if actor is None else actor)
        check_functions(price_of=price_of, count=count, sleep=sleep)
        self.conversation = conversation
        self._telemetry = telemetry
        self._config = RunConfig(
            provider=provider,
            dispatcher=Dispatcher(
                collect_tools(tools), gate=gate, runner=runner, telemetry=telemetry
            ),
            references=None if resolver is None else ReferenceResolver(resolver, gate),
            context_builder=ContextBuilder(count=count),
            count_tokens=count,
            target=target,
            model=model or target.model,
            limits=limits,
            telemetry=telemetry,
            price_of=price_of,
            actor=actor,
            sleep=sleep,
        )
        self._steering = SteeringQueue()
        self._run: AgentRun | None = None

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self._run is not None

    async def run(
        self,
        prompt: str | UserMessage | None = None,
        *,
        watch: OnEvent = ignore_event,
        origin: str | None = None,
        again: bool = True,
    ) -> RunResult:
        """Say something to the model and let it work until it is done.

        Without a prompt it goes on where the conversation stopped, and tries `again` to open what
        could not be opened before, unless told otherwise. `watch` is told what happens. `origin`
        is noted beside the prompt: where its words are from, such as a template.
        Failures of the provider are told in the result; so is what the prompt points at and cannot
        be opened: nothing is sent then, and the branch is as it was before; what was said behind
        it waits for `withdraw` or the next run. Raises LogError if the log cannot be written,
        StenoError while another run is under way. If the task is cancelled, the conversation is
        left in order.
        """
        said = None if prompt is None else _build_user_message(prompt)
        with (
            self._begin_run(watch) as run,
            self._telemetry.run(self.conversation.id, self._config.model) as span,
        ):
            result = await run.execute(said, origin=origin, again=again)
            span.record_result(result)
        watch(RunEnded(result))
        return result

    async def compact(self, *, watch: OnEvent = ignore_event) -> Entry | None:
        """Let the model sum up what was said so far; from here on it sees the summary instead.

        What was said last stays as it is, and all of it stays on record. Return the entry of the
        summary; None if there is nothing to sum up, no summary could be made (`watch` is told
        why), or it was interrupted. Raises LogError if the log cannot be written, StenoError while
        a run is under way.
        """
        with self._begin_run(watch) as run:
            return await run.compact()

    @contextmanager
    def _begin_run(self, watch: OnEvent) -> Generator[AgentRun]:
        """Begin a run, the only one as long as this lasts. Raises StenoError."""
        if self._run is not None:
            raise StenoError("agent: it is at work; steer it, or wait")
        notebook = RunRecorder(self.conversation, watch)
        self._run = AgentRun(self._config, notebook, self._steering)
        try:
            yield self._run
        finally:
            self._run = None
            notebook.close()

    async def events(self, prompt: str | UserMessage | None = None) -> AsyncGenerator[LoopEvent]:
        """Run, and return what happens one by one; the last is a `RunEnded`.

        What happens is not held up: an event is seen when whoever iterates gets to run, so an
        approver may be asked before its `ApprovalRequested` is seen. `watch` of `run` is told before. Leaving
        the iteration before its end stops the run; `contextlib.aclosing` does so at once.
        """
        happened: asyncio.Queue[LoopEvent | None] = asyncio.Queue()
        task = asyncio.create_task(self.run(prompt, watch=happened.put_nowait))
        task.add_done_callback(lambda _: happened.put_nowait(None))
        try:
            while (event := await happened.get()) is not None:
                yield event
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    def steer(
        self,
        message: str | UserMessage,
        policy: SteeringPolicy = SteeringPolicy.AFTER_CALLS,
        *,
        noted: Mapping[str, Any] | None = None,
        asks: bool = True,
    ) -> None:
        """Say something while a run is under way. Raises StenoError if there is none.

        What is `noted` stands beside it in the record: where its words are from, say. What does
        not `ask` for an answer is heard, and does not keep the model at work.
        """
        if self._run is None:
            raise StenoError("agent: nothing is under way that could be steered; run it")
        self._steering.put(SteeringMessage(_build_user_message(message), noted or {}, asks), policy)
        if policy is SteeringPolicy.INTERRUPT:
            self._run.interrupt()

    def withdraw(self) -> tuple[UserMessage, ...]:
        """Take back what was said while a run was under way and has not been heard yet."""
        return tuple([one.message for one in self._steering.withdraw()])

    def interrupt(self) -> None:
        """Stop what is being said and done; what came of it stays. Nothing happens if idle.

        A tool that takes no notice is waited for up to ten seconds, and not if this is called twice.
        """
        if self._run is not None:
            self._run.interrupt()


def _build_user_message(said: str | UserMessage) -> UserMessage:
    if isinstance(said, UserMessage):
        return said
    if not isinstance(said, str):
        hint = "; its .message?" if isinstance(getattr(said, "message", None), UserMessage) else ""
        raise InvalidMessage(f"agent: a prompt is text or a user message{hint}")
    return ChatMessage.user(said)
