"""The loop: ask the model, record what it says, answer its calls, and again until it is done.

    look up   what messages point at: files, images, resources  (steno.agent.lookup)
    request   what the model gets to see of the log            (steno.context)
    message   its answer, durable before anything is done about it
    results   its calls: checked, decided about, run, durable before the next request

Wherever this ends, at a limit, a failure, a cancellation or with the process, the log is one that
can be gone on with: what was said is kept as far as it came, and every call has its answer, now
or when the next run begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from decimal import Decimal
from functools import partial
from itertools import count
from typing import Any, Final, TypeAlias, final

from msgspec.structs import replace

from steno.agent.compact import compact, compact_now
from steno.agent.events import Notice, NoticeCode, TurnStarted
from steno.agent.hearing import Hearing
from steno.agent.interrupted import settle
from steno.agent.limits import Ending, RunResult
from steno.agent.lookup import Reader, may_be_about_images
from steno.agent.notebook import Notebook
from steno.agent.reporting import Reports
from steno.agent.setup import Setup
from steno.agent.steering import Wheel
from steno.agent.telemetry import Span
from steno.context import Built, too_long
from steno.entry import Entry
from steno.errors import (
    ContextOverflow,
    InvalidRequest,
    LogError,
    OutOfOrder,
    ProtocolError,
    ProviderError,
    StenoError,
    Unresolved,
)
from steno.message import AssistantMessage, UserMessage
from steno.ports import Stream
from steno.request import Request
from steno.usage import StopReason, Usage
from steno.views import cost_of, usage_in

NOT_RUN: Final = "The call was not run: the turn was stopped before."
NO_PRICE: Final = "the price of the model is not known, so the cost is not limited"
_NOT_WHOLE: Final = {
    StopReason.LENGTH: "the answer was cut off at its greatest length",
    StopReason.CONTENT_FILTER: "a filter of the provider ended the answer",
    StopReason.ERROR: "the answer ended with an error of the provider",
    StopReason.ABORTED: "the answer was broken off",
}
_MOST_TRIES: Final = 3
"""Of one turn, where the connection broke in the middle of it."""
_NARROWER: Final = 0.8
"""How much of a request that was too long is tried next."""
_Step: TypeAlias = Callable[[], Coroutine[Any, Any, bool]]
"""Does something, and tells whether the model is to go on."""


@final
class Run:
    """One run: from something that a person said until the model is done with it."""

    def __init__(self, setup: Setup, notebook: Notebook, wheel: Wheel) -> None:
        """Take what there is to work with; nothing happens yet."""
        self._setup = setup
        self._notebook = notebook
        opens = setup.lookup is not None
        self._hearing = Hearing(notebook, wheel, actor=setup.actor, opens=opens)
        self._target = setup.target
        self._again = False
        """Whether to try once more what could not be opened before."""
        self._refused = ""
        """Why the model took no images, if it did not."""
        self._step: asyncio.Task[bool] | None = None
        self._is_interrupted = False
        self._reports = Reports(notebook)
        self._turns = 0
        self._usage = Usage()
        self._message: AssistantMessage | None = None

    # -- the loop ----------------------------------------------------------------------------

    async def go(
        self, prompt: UserMessage | None, *, origin: str | None = None, again: bool = True
    ) -> RunResult:
        """Work until the model is done, or something else ends it.

        Without a prompt, what could not be opened before is tried `again`.
        """
        if prompt is not None:
            self._hearing.begin_with(prompt, origin)
        self._again = again and prompt is None
        timeout = asyncio.timeout(self._setup.limits.seconds)
        try:
            async with timeout:
                return await self._work()
        except (ProviderError, ProtocolError, InvalidRequest, Unresolved) as exc:
            return self._end(Ending.FAILED, str(exc), exc)
        except TimeoutError:
            if not timeout.expired():
                raise
            return self._end(Ending.LIMIT, f"{self._setup.limits.seconds:g} seconds")
        finally:
            with suppress(LogError, OutOfOrder):  # whatever it was that raised says more
                self._leave()

    async def _work(self) -> RunResult:
        is_to_go_on = await self._step_or_interruption(self._begin)
        self._hear_prompt()
        self._setup.dispatcher.invalid_in_a_row = 0
        while True:
            was_interrupted, self._is_interrupted = self._is_interrupted, False
            is_to_go_on = is_to_go_on and not was_interrupted
            is_to_go_on |= self._hearing.hear_due(is_over=not is_to_go_on)
            if not is_to_go_on:
                if was_interrupted:
                    return self._end(Ending.INTERRUPTED)
                return self._end(Ending.DONE, self._why_not_whole())
            limit = self._setup.limits.reached_by(
                turns=self._turns,
                tokens=self._usage.total_tokens,
                cost=self._cost(),
                invalid_calls=self._setup.dispatcher.invalid_in_a_row,
            )
            if limit is not None:
                return self._end(Ending.LIMIT, limit)
            is_to_go_on = await self._step_or_interruption(self._turn)

    def interrupt(self) -> None:
        """Stop what is being said and done; the run ends, unless something else was said."""
        self._is_interrupted = True
        if self._step is not None:
            self._step.cancel()

    async def sum_up(self) -> Entry | None:
        """Record a summary in place of what was said before, and do nothing else.

        Return its entry; None if there is nothing to sum up, it failed, or it was interrupted.
        """
        made: list[Entry | None] = []

        async def step() -> bool:
            made.append(await compact_now(self._setup, self._notebook))
            return False

        await self._step_or_interruption(step)
        self._hearing.hear_rest()
        return made[0] if made else None

    async def _begin(self) -> bool:
        """Answer what an earlier run left behind, and look at what has changed since; go on."""
        self._notebook.note_model(self._setup.model)
        if self._setup.limits.cost is not None and self._cost() is None:
            self._notebook.tell(Notice(NoticeCode.LIMIT, NO_PRICE))
        await settle(self._setup.dispatcher, self._notebook)
        if self._setup.lookup is not None:
            await self._setup.lookup.renew(self._notebook, self._reader)
            await self._setup.lookup.tell_changes(self._notebook)
        return True

    def _hear_prompt(self) -> None:
        """Record what a person said to begin with, whatever became of the calls before it."""
        self._notebook.answer_outstanding(NOT_RUN)
        self._hearing.hear_prompt()

    async def _step_or_interruption(self, step: _Step) -> bool:
        """Do one step in a task of its own, so that it can be stopped and the run can go on."""
        if self._is_interrupted:
            return False
        task = asyncio.current_task()
        assert task is not None
        stops = task.cancelling()
        self._step = asyncio.create_task(step())
        try:
            is_to_go_on = await self._step
        except asyncio.CancelledError:
            if not self._is_interrupted or task.cancelling() > stops:
                raise
            self._notebook.answer_outstanding(NOT_RUN)
            return False
        finally:
            self._step = None
        if task.cancelling() > stops:  # and whoever was at work took no notice
            raise asyncio.CancelledError
        return is_to_go_on

    async def _turn(self) -> bool:
        """Get one answer and answer its calls; tell whether the model is to go on."""
        await self._open()
        self._hearing.let_go()
        message = self._message = await self._ask()
        calls = message.tool_calls
        if calls:
            await self._setup.dispatcher.answer(calls, self._notebook)
        return bool(calls) or message.stop_reason is StopReason.PAUSE

    # -- what messages point at --------------------------------------------------------------

    @property
    def _reader(self) -> Reader:
        return Reader(self._target.vision, self._refused)

    async def _open(self) -> None:
        """Open what messages point at; then what was held behind the prompt goes along with it."""
        lookup = self._setup.lookup
        if lookup is None:
            return
        again, self._again = self._again, False
        look = partial(lookup.open, self._notebook, self._reader, self._hearing.prompt)
        await look(is_first=self._turns == 0, again=again)
        # Where the model is shown images, it may yet refuse them.
        if self._hearing.is_held and not lookup.shows_images(self._notebook):
            self._hearing.let_go()
            if self._hearing.hear_due(is_over=False):
                await look(is_first=False, again=False)

    async def _does_without_images(self, exc: StenoError) -> bool:
        """Show as text what a model would not take as an image, if that may be why it said no."""
        lookup = self._setup.lookup
        if lookup is None or self._refused or not may_be_about_images(exc):
            return False
        if not lookup.shows_images(self._notebook):
            return False
        self._refused = str(exc)
        self._target = replace(self._target, vision=False)
        await lookup.show_as_text(
            self._notebook, self._reader, self._hearing.prompt, is_first=self._turns == 1
        )
        return True

    # -- one turn ----------------------------------------------------------------------------

    async def _ask(self) -> AssistantMessage:
        """Send the request of this turn and record the answer. Raises what cannot be helped."""
        self._turns += 1
        self._notebook.tell(TurnStarted(self._turns))
        refused: ContextOverflow | None = None
        for number in count(1):
            built = await self._build()
            if refused is not None:
                self._check_shorter(built, refused)
            last, before = self._last_entry(), self._message
            try:
                with self._setup.telemetry.turn(built.request, self._setup.model) as span:
                    message = await self._listen(built.request, span)
            except (ProviderError, ProtocolError) as exc:
                has_begun = self._message is not before
                if not has_begun and await self._does_without_images(exc):
                    continue
                overflow = exc if isinstance(exc, ContextOverflow) else None
                if number == _MOST_TRIES or not (overflow or (has_begun and exc.retryable)):
                    raise
                if has_begun:  # what came is left beside the branch
                    assert last is not None
                    self._notebook.rewind(last)
                if overflow is not None:
                    refused = None if has_begun else overflow
                    self._narrow(built)
                else:
                    await self._wait(exc, number)
            else:
                return message
        raise AssertionError("unreachable")

    async def _listen(self, request: Request, span: Span) -> AssistantMessage:
        stream = self._setup.provider.stream(request)
        for loss in getattr(stream, "losses", ()):
            self._reports.mention(str(loss))
        tell = self._notebook.tell
        try:
            async with stream:
                async for event in stream:
                    tell(event)
        except BaseException:
            self._keep_what_came(stream, span)
            raise
        message = stream.message()
        self._record(message, stream, span)
        return message

    def _keep_what_came(self, stream: Stream, span: Span) -> None:
        """Record as much of an answer as was read; what it calls for is not run any more."""
        try:
            partial = stream.message()
        except StenoError:
            return
        if partial.content:
            self._record(partial, stream, span)
            self._notebook.answer_outstanding(NOT_RUN)

    def _record(self, message: AssistantMessage, stream: Stream, span: Span) -> None:
        envelope: dict[str, Any] = getattr(stream, "envelope", {})
        said = {
            "model": self._setup.model,
            "response_model": envelope.get("model") or envelope.get("modelVersion"),
            "response_id": envelope.get("id") or envelope.get("responseId"),
        }
        audit = {name: value for name, value in said.items() if value and isinstance(value, str)}
        self._notebook.record(message, audit=audit or None)
        named = {name: audit.get(name) for name in ("response_id", "response_model")}
        span.answered(message, **named)
        self._message = message
        if message.usage is not None:
            self._usage += message.usage

    async def _wait(self, exc: ProviderError | ProtocolError, number: int) -> None:
        """Wait as long as was asked for, before the turn is tried again."""
        self._notebook.tell(Notice(NoticeCode.RETRY, f"{exc}; trying again"))
        wait_s = getattr(exc, "retry_after_s", None)
        await self._setup.sleep(float(2 ** (number - 1)) if wait_s is None else wait_s)

    def _last_entry(self) -> str | None:
        conversation = self._notebook.conversation
        return conversation.branches[conversation.branch]

    # -- what the model sees -----------------------------------------------------------------

    async def _build(self) -> Built:
        built = self._build_now()
        if built.wants_compaction:
            summary = await compact(self._setup, self._notebook, self._target, room=built.room)
            if summary is not None:
                self._usage += usage_in(summary)
                built = self._build_now()
        self._reports.report(built)
        return built

    def _build_now(self) -> Built:
        conversation, setup = self._notebook.conversation, self._setup
        return setup.builder.build(
            conversation.past(),
            self._target,
            setup.dispatcher.offered(conversation.mode),
            bring_back=conversation.bring_back,
        )

    def _narrow(self, built: Built) -> None:
        """Let the next try be shorter: the provider knows better than our estimate."""
        room = max(int(built.tokens * _NARROWER), 1)
        # An answer as long as all else may be what was too much.
        answer = self._target.answer_tokens and min(self._target.answer_tokens, room)
        self._target = replace(self._target, context_tokens=room + (answer or 0), max_tokens=answer)

    def _check_shorter(self, built: Built, refused: ContextOverflow) -> None:
        """Tell that less is sent than was refused. Raises ContextOverflow if nothing can go."""
        if not built.is_over_budget:
            text = f"{refused}; trying again with less"
            self._notebook.tell(Notice(NoticeCode.CONTEXT, text))
            return
        setup = self._setup
        words = too_long(
            built.request.messages[-1],
            built.last_tokens,
            model=setup.model,
            most=setup.target.context_tokens,
        )
        raise ContextOverflow(
            words, status=refused.status, provider_code=refused.provider_code
        ) from refused

    # -- the end -----------------------------------------------------------------------------

    def _cost(self) -> Decimal | None:
        price = self._setup.price_of(self._setup.model)
        return None if price is None else cost_of(self._usage, price)

    def _leave(self) -> None:
        """Answer what nobody will run any more, and record what was said and not heard yet."""
        self._hear_prompt()
        self._hearing.hear_rest()

    def _why_not_whole(self) -> str:
        """Return why the last answer may not be all that the model had to say; empty if it is."""
        stop_reason = None if self._message is None else self._message.stop_reason
        return "" if stop_reason is None else _NOT_WHOLE.get(stop_reason, "")

    def _end(self, ending: Ending, reason: str = "", error: StenoError | None = None) -> RunResult:
        self._leave()
        if ending is Ending.LIMIT:
            self._notebook.tell(Notice(NoticeCode.LIMIT, f"stopped at the limit: {reason}"))
        return RunResult(
            ending, self._message, self._turns, self._usage, self._cost(), reason, error
        )
