"""Order of operations on a session, and an agent that waits for MCP tools before its first run.

A waiting run can be interrupted: nothing was recorded then. This module knows no server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeVar, final

from steno.agent import Agent, LoopEvent, RunResult, SteeringPolicy
from steno.agent.recorder import OnEvent
from steno.agent.tool_runner import ToolRunner
from steno.app.compose import AgentEnvironment
from steno.errors import StenoError
from steno.log.conversation import Conversation
from steno.messages.message import UserMessage
from steno.records.entry import Entry

T = TypeVar("T")
_INTERRUPTED: Final = "interrupted before it began; nothing was said or done"


def interrupted_before_start(text: str = _INTERRUPTED) -> StenoError:
    """Return the error for an operation that was interrupted before anything happened."""
    return StenoError(text, code="interrupted")


@final
class OperationLock:
    """A lock for operations that start or replace something (`async with`)."""

    def __init__(self) -> None:
        """Start unlocked."""
        self._lock = asyncio.Lock()
        self._cancel_count = 0
        """How often all operations were cancelled."""
        self._jobs: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> None:
        """Wait for the lock. Raises StenoError if all operations were cancelled in the meantime."""
        cancel_count = self._cancel_count
        await self._lock.acquire()
        if cancel_count != self._cancel_count:
            self._lock.release()
            raise interrupted_before_start()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the lock."""
        self._lock.release()

    async def run_cancellable(
        self, coroutine: Coroutine[Any, Any, T], refusal: str = _INTERRUPTED
    ) -> T:
        """Run a coroutine that `cancel_all` can cancel; return its result.

        Raises StenoError if it was cancelled.
        """
        cancel_count, task = self._cancel_count, asyncio.create_task(coroutine)
        self._jobs.add(task)
        try:
            result = await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise  # the caller was cancelled, too
            raise interrupted_before_start(refusal) from None
        finally:
            self._jobs.discard(task)
        if cancel_count != self._cancel_count:  # cancelled just when it was done
            raise interrupted_before_start(refusal)
        return result

    def cancel_all(self) -> None:
        """Refuse operations that wait for the lock, and cancel those that can be cancelled."""
        self._cancel_count += 1
        for task in self._jobs:
            task.cancel()


class _QueuedInput(NamedTuple):
    """A prompt sent after one that waits."""

    message: UserMessage
    policy: SteeringPolicy
    audit: Mapping[str, Any] | None
    wants_answer: bool


@final
class DeferredAgent:
    """An `Agent` for one session, with the tools that are available when a run starts."""

    def __init__(
        self,
        conversation: Conversation,
        current_environment: Callable[[], AgentEnvironment],
        *,
        ensure_recorded: Callable[[], Conversation],
        runner: ToolRunner,
        wait: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Take the conversation, the source of the environment, and the wait before a run.

        `ensure_recorded` records a prepared session, and returns its conversation.
        """
        self._conversation = conversation
        self._current_environment = current_environment
        self._ensure_recorded = ensure_recorded
        self._runner = runner
        self._wait = wait
        self._is_expected = False
        self._is_interrupted = False
        """Whether the expected run was interrupted."""
        self._waiting: asyncio.Task[None] | None = None
        self._queued: list[_QueuedInput] = []
        self._environment = current_environment()
        self._agent = self._create_agent()

    def _create_agent(self) -> Agent:
        return self._environment.agent_for(self._conversation, runner=self._runner)

    def _refresh_agent(self) -> None:
        """Record the session for a run that starts, and use the tools that have arrived."""
        conversation, environment = self._ensure_recorded(), self._current_environment()
        is_unchanged = (
            conversation is self._conversation and environment.tools == self._environment.tools
        )
        if not is_unchanged and not self._agent.is_running:
            self._conversation, self._environment = conversation, environment
            self._agent = self._create_agent()

    @property
    def is_waiting(self) -> bool:
        """Whether a run is expected, or waits for tools: nothing of it is recorded."""
        return self._is_expected

    @property
    def is_running(self) -> bool:
        """Whether a run is in progress."""
        return self._agent.is_running

    def expect_run(self) -> None:
        """Let a run that is about to start be steered and interrupted from here on."""
        self._is_expected, self._is_interrupted = True, False

    async def run(
        self, prompt: UserMessage | None, *, on_event: OnEvent, origin: str | None = None
    ) -> RunResult:
        """Run the agent; see `Agent.run`.

        Raises StenoError if it is interrupted while it waits: nothing is recorded then.
        """
        try:
            await self._await_tools()
            self._refresh_agent()
            return await self._agent.run(
                prompt, on_event=partial(self._forward_event, on_event), origin=origin
            )
        finally:
            self._is_expected = self._is_interrupted = False
            self._queued.clear()

    async def _await_tools(self) -> None:
        """Wait for tools. Raises StenoError if it was interrupted, even before or at the end."""
        self._is_expected = True
        self._waiting = asyncio.create_task(self._wait())
        if self._is_interrupted:
            self._waiting.cancel()
        try:
            await self._waiting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # The user leaves: record the prompt; the run ends as soon as it has started.
                task.cancel()
                return
            self._is_interrupted = True
        finally:
            self._waiting, self._is_expected = None, False
        if self._is_interrupted:
            raise interrupted_before_start()

    def _forward_event(self, on_event: OnEvent, event: LoopEvent) -> None:
        while self._queued:  # the run has started, and can be steered
            message, policy, audit, wants_answer = self._queued.pop(0)
            self._agent.steer(message, policy, audit=audit, wants_answer=wants_answer)
        on_event(event)

    async def compact(self, *, on_event: OnEvent) -> Entry | None:
        """Summarize the conversation; see `Agent.compact`."""
        self._refresh_agent()
        return await self._agent.compact(on_event=on_event)

    def steer(
        self,
        message: UserMessage,
        policy: SteeringPolicy = SteeringPolicy.AFTER_CALLS,
        *,
        audit: Mapping[str, Any] | None = None,
        wants_answer: bool = True,
    ) -> None:
        """Steer the current or expected run. Raises StenoError if there is none."""
        if self._is_expected or self._queued:
            # There is nothing yet that it could interrupt.
            effective_policy = (
                SteeringPolicy.AFTER_CALLS if policy is SteeringPolicy.INTERRUPT else policy
            )
            self._queued.append(_QueuedInput(message, effective_policy, audit, wants_answer))
        else:
            self._agent.steer(message, policy, audit=audit, wants_answer=wants_answer)

    def withdraw(self) -> tuple[UserMessage, ...]:
        """Withdraw the steering messages that no model has read."""
        queued_messages = [queued.message for queued in self._queued if queued.wants_answer]
        self._queued = [queued for queued in self._queued if not queued.wants_answer]
        return (*queued_messages, *self._agent.withdraw())

    def interrupt(self) -> None:
        """Interrupt the run, or the wait before it. Nothing happens if idle."""
        self._is_interrupted = self._is_expected
        if self._waiting is not None:
            self._waiting.cancel()
        self._agent.interrupt()
