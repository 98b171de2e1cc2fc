"""An agent: a provider, a conversation and tools, and one run after the other on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, final

from steno.agent.checks import (
    check_functions,
    check_gate,
    check_partners,
    check_resolver,
    check_runner,
    check_settings,
    check_texts,
    checked_tools,
)
from steno.agent.dispatch import Dispatcher
from steno.agent.events import LoopEvent, RunEnded
from steno.agent.gate import Decides, Gate
from steno.agent.limits import Limits, RunResult
from steno.agent.lookup import Lookup
from steno.agent.loop import Run
from steno.agent.notebook import Notebook, Watch, watch_nothing
from steno.agent.runner import Runner, Runs
from steno.agent.setup import Setup
from steno.agent.steering import Steered, Steering, Wheel
from steno.agent.telemetry import NO_TELEMETRY, Telemetry
from steno.context import ContextBuilder, Count, Target, estimate_tokens
from steno.conversation import Conversation
from steno.entry import Entry
from steno.errors import InvalidMessage, StenoError
from steno.message import ChatMessage, UserMessage
from steno.ports import Provider, Resolver, Tool
from steno.views import Price


def _no_price(_: str) -> Price | None:
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
        gate: Decides | None = None,
        runner: Runs | None = None,
        resolver: Resolver | None = None,
        model: str = "",
        target: Target | None = None,
        limits: Limits | None = None,
        telemetry: Telemetry = NO_TELEMETRY,
        price_of: Callable[[str], Price | None] = _no_price,
        actor: str | None = None,
        count: Count = estimate_tokens,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Take everything that a run needs.

        Raises InvalidValue for what cannot be used as this or that, and if two tools share a name.
        """
        gate = Gate() if gate is None else gate
        runner = Runner() if runner is None else runner
        target = Target() if target is None else target
        limits = Limits() if limits is None else limits
        check_partners(provider, conversation)
        check_gate(gate)
        check_runner(runner)
        check_resolver(resolver)
        check_settings(target=target, limits=limits, telemetry=telemetry)
        check_texts(model=model, actor="" if actor is None else actor)
        check_functions(price_of=price_of, count=count, sleep=sleep)
        self.conversation = conversation
        self._telemetry = telemetry
        self._config = Setup(
            provider=provider,
            dispatcher=Dispatcher(
                checked_tools(tools), gate=gate, runner=runner, telemetry=telemetry
            ),
            references=None if resolver is None else Lookup(resolver, gate),
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
        self._steering = Wheel()
        self._run: Run | None = None

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self._run is not None

    async def run(
        self,
        prompt: str | UserMessage | None = None,
        *,
        watch: Watch = watch_nothing,
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
        said = None if prompt is None else _user_message(prompt)
        with (
            self._begin_run(watch) as run,
            self._telemetry.run(self.conversation.id, self._config.model) as span,
        ):
            result = await run.execute(said, origin=origin, again=again)
            span.record_result(result)
        watch(RunEnded(result))
        return result

    async def compact(self, *, watch: Watch = watch_nothing) -> Entry | None:
        """Let the model sum up what was said so far; from here on it sees the summary instead.

        What was said last stays as it is, and all of it stays on record. Return the entry of the
        summary; None if there is nothing to sum up, no summary could be made (`watch` is told
        why), or it was interrupted. Raises LogError if the log cannot be written, StenoError while
        a run is under way.
        """
        with self._begin_run(watch) as run:
            return await run.compact()

    @contextmanager
    def _begin_run(self, watch: Watch) -> Generator[Run]:
        """Begin a run, the only one as long as this lasts. Raises StenoError."""
        if self._run is not None:
            raise StenoError("agent: it is at work; steer it, or wait")
        notebook = Notebook(self.conversation, watch)
        self._run = Run(self._config, notebook, self._steering)
        try:
            yield self._run
        finally:
            self._run = None
            notebook.close()

    async def events(self, prompt: str | UserMessage | None = None) -> AsyncGenerator[LoopEvent]:
        """Run, and return what happens one by one; the last is a `RunEnded`.

        What happens is not held up: an event is seen when whoever iterates gets to run, so an
        approver may be asked before its `Asked` is seen. `watch` of `run` is told before. Leaving
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
        policy: Steering = Steering.AFTER_CALLS,
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
        self._steering.put(Steered(_user_message(message), noted or {}, asks), policy)
        if policy is Steering.INTERRUPT:
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


def _user_message(said: str | UserMessage) -> UserMessage:
    if isinstance(said, UserMessage):
        return said
    if not isinstance(said, str):
        hint = "; its .message?" if isinstance(getattr(said, "message", None), UserMessage) else ""
        raise InvalidMessage(f"agent: a prompt is text or a user message{hint}")
    return ChatMessage.user(said)
