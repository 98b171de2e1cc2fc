"""The loop: ask the model, record what it says, answer its calls, and again until it is done.

    look up   what messages point at: files, images, resources  (steno.agent.references)
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

from steno.agent.compaction import compact, compact_now
from steno.agent.dispatch import finish_orphaned_calls
from steno.agent.events import (
    ContextChanged,
    EndReason,
    Notice,
    NoticeCode,
    RunResult,
    TurnStarted,
)
from steno.agent.recorder import RunRecorder
from steno.agent.references import ImageSupport, is_image_refusal
from steno.agent.run_config import RunConfig
from steno.agent.steering import InputRecorder, SteeringQueue
from steno.agent.telemetry.spans import TelemetrySpan
from steno.context import BuiltRequest, explain_over_budget
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
from steno.log.queries import cost_of, entry_usage
from steno.messages.change import Change, ChangeCode
from steno.messages.message import AssistantMessage, UserMessage
from steno.messages.order import ORDER_REMEDIES, OrderCode
from steno.messages.request import Request
from steno.messages.usage import StopReason, Usage
from steno.ports import Stream
from steno.records.entry import Entry, Repair

# -- reporting -------------------------------------------------------------------------------------
#
# Tell people once what a model sees otherwise than it is on record, and record what was mended.


_SILENT_CHANGES: Final = (ChangeCode.RESOLVED,)
"""What nobody has to be told: that what is pointed at is shown."""


_RECORDED_CHANGES: Final = (ChangeCode.REPAIRED, ChangeCode.RESOURCE_LEFT_OUT)
"""What the record tells of, too."""


@final
class ContextNotices:
    """What was told in one run."""

    def __init__(self, notebook: RunRecorder) -> None:
        """Begin with nothing told."""
        self._recorder = notebook
        self._sent: set[Change] = set()

    def report(self, built: BuiltRequest) -> None:
        """Tell what is new about a request."""
        shown = [change for change in built.changes if change.code not in _SILENT_CHANGES]
        news = [change for change in shown if self.send_once(change)]
        repairs = [_build_repair(change) for change in news if change.code in _RECORDED_CHANGES]
        if repairs:
            past = self._recorder.conversation.entries_view()
            recorded = {entry.payload for entry in past if isinstance(entry.payload, Repair)}
            for repair in repairs:
                if repair not in recorded:
                    self._recorder.record(repair)

    def send_once(self, change: Change) -> bool:
        """Emit a change, unless it was emitted before in this run; return whether it was new."""
        if change in self._sent:
            return False
        self._sent.add(change)
        self._recorder.emit(ContextChanged(change))
        return True


def _build_repair(change: Change) -> Repair:
    return Repair(code=str(change.code), explanation=explain_repair(change), target=change.entry)


def explain_repair(change: Change) -> str:
    """Return the explanation that the log keeps of a change that it records."""
    if change.code is ChangeCode.REPAIRED:
        return f"{change.reason}: {ORDER_REMEDIES[OrderCode(change.reason)]}"
    return f"block {change.number}: the resource is left out to save room, which is said instead"


CALL_NOT_RUN_TEXT: Final = "The call was not run: the turn was stopped before."


UNKNOWN_PRICE_TEXT: Final = "the price of the model is not known, so the cost is not limited"


_INCOMPLETE_REASONS: Final = {
    StopReason.LENGTH: "the answer was cut off at its greatest length",
    StopReason.CONTENT_FILTER: "a filter of the provider ended the answer",
    StopReason.ERROR: "the answer ended with an error of the provider",
    StopReason.ABORTED: "the answer was broken off",
}


_MAX_ATTEMPTS: Final = 3
"""Of one turn, where the connection broke in the middle of it."""


_SHRINK_FACTOR: Final = 0.8
"""How much of a request that was too long is tried next."""


_RunStep: TypeAlias = Callable[[], Coroutine[Any, Any, bool]]
"""Does something, and tells whether the model is to go on."""


@final
class AgentRun:
    """One run: from something that a person said until the model is done with it."""

    def __init__(self, setup: RunConfig, notebook: RunRecorder, wheel: SteeringQueue) -> None:
        """Take what there is to work with; nothing happens yet."""
        self._config = setup
        self._recorder = notebook
        opens = setup.references is not None
        self._input = InputRecorder(notebook, wheel, actor=setup.actor, opens=opens)
        self._target = setup.target
        self._retries_references = False
        """Whether to try once more what could not be opened before."""
        self._image_refusal = ""
        """Why the model took no images, if it did not."""
        self._step: asyncio.Task[bool] | None = None
        self._is_interrupted = False
        self._context_notices = ContextNotices(notebook)
        self._turns = 0
        self._usage = Usage()
        self._message: AssistantMessage | None = None

    # -- the loop ----------------------------------------------------------------------------

    async def execute(
        self, prompt: UserMessage | None, *, origin: str | None = None, again: bool = True
    ) -> RunResult:
        """Work until the model is done, or something else ends it.

        Without a prompt, what could not be opened before is tried `again`.
        """
        if prompt is not None:
            self._input.set_prompt(prompt, origin)
        self._retries_references = again and prompt is None
        timeout = asyncio.timeout(self._config.limits.seconds)
        try:
            async with timeout:
                return await self._run_turns()
        except (ProviderError, ProtocolError, InvalidRequest, Unresolved) as exc:
            return self._build_result(EndReason.FAILED, str(exc), exc)
        except TimeoutError:
            if not timeout.expired():
                raise
            return self._build_result(EndReason.LIMIT, f"{self._config.limits.seconds:g} seconds")
        finally:
            with suppress(LogError, OutOfOrder):  # whatever it was that raised says more
                self._close_log()

    async def _run_turns(self) -> RunResult:
        is_to_go_on = await self._run_step(self._prepare)
        self._record_prompt()
        self._config.dispatcher.consecutive_invalid_turns = 0
        while True:
            was_interrupted, self._is_interrupted = self._is_interrupted, False
            is_to_go_on = is_to_go_on and not was_interrupted
            is_to_go_on |= self._input.record_due(is_over=not is_to_go_on)
            if not is_to_go_on:
                if was_interrupted:
                    return self._build_result(EndReason.INTERRUPTED)
                return self._build_result(EndReason.DONE, self._incomplete_reason())
            limit = self._config.limits.describe_reached(
                turns=self._turns,
                tokens=self._usage.total_tokens,
                cost=self._cost(),
                invalid_calls=self._config.dispatcher.consecutive_invalid_turns,
            )
            if limit is not None:
                return self._build_result(EndReason.LIMIT, limit)
            is_to_go_on = await self._run_step(self._run_turn)

    def interrupt(self) -> None:
        """Stop what is being said and done; the run ends, unless something else was said."""
        self._is_interrupted = True
        if self._step is not None:
            self._step.cancel()

    async def compact(self) -> Entry | None:
        """Record a summary in place of what was said before, and do nothing else.

        Return its entry; None if there is nothing to sum up, it failed, or it was interrupted.
        """
        made: list[Entry | None] = []

        async def step() -> bool:
            made.append(await compact_now(self._config, self._recorder))
            return False

        await self._run_step(step)
        self._input.record_rest()
        return made[0] if made else None

    async def _prepare(self) -> bool:
        """Answer what an earlier run left behind, and look at what has changed since; go on."""
        self._recorder.record_model(self._config.model)
        if self._config.limits.cost is not None and self._cost() is None:
            self._recorder.emit(Notice(NoticeCode.LIMIT, UNKNOWN_PRICE_TEXT, "price_unknown"))
        await finish_orphaned_calls(self._config.dispatcher, self._recorder)
        if self._config.references is not None:
            await self._config.references.refresh_outdated(self._recorder, self._image_support)
            await self._config.references.report_changes(self._recorder)
        return True

    def _record_prompt(self) -> None:
        """Record what a person said to begin with, whatever became of the calls before it."""
        self._recorder.answer_outstanding(CALL_NOT_RUN_TEXT)
        self._input.record_prompt()

    async def _run_step(self, step: _RunStep) -> bool:
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
            self._recorder.answer_outstanding(CALL_NOT_RUN_TEXT)
            return False
        finally:
            self._step = None
        if task.cancelling() > stops:  # and whoever was at work took no notice
            raise asyncio.CancelledError
        return is_to_go_on

    async def _run_turn(self) -> bool:
        """Get one answer and answer its calls; tell whether the model is to go on."""
        await self._resolve_references()
        self._input.release()
        message = self._message = await self._request_answer()
        calls = message.tool_calls
        if calls:
            await self._config.dispatcher.answer_calls(calls, self._recorder)
        return bool(calls) or message.stop_reason is StopReason.PAUSE

    # -- what messages point at --------------------------------------------------------------

    @property
    def _image_support(self) -> ImageSupport:
        return ImageSupport(self._target.vision, self._image_refusal)

    async def _resolve_references(self) -> None:
        """Open what messages point at; then what was held behind the prompt goes along with it."""
        lookup = self._config.references
        if lookup is None:
            return
        again, self._retries_references = self._retries_references, False
        look = partial(
            lookup.resolve_unanswered, self._recorder, self._image_support, self._input.prompt
        )
        await look(is_first=self._turns == 0, again=again)
        # Where the model is shown images, it may yet refuse them.
        if self._input.is_held and not lookup.has_images(self._recorder):
            self._input.release()
            if self._input.record_due(is_over=False):
                await look(is_first=False, again=False)

    async def _replace_refused_images(self, exc: StenoError) -> bool:
        """Show as text what a model would not take as an image, if that may be why it said no."""
        lookup = self._config.references
        if lookup is None or self._image_refusal or not is_image_refusal(exc):
            return False
        if not lookup.has_images(self._recorder):
            return False
        self._image_refusal = str(exc)
        self._target = replace(self._target, vision=False)
        await lookup.replace_images(
            self._recorder, self._image_support, self._input.prompt, is_first=self._turns == 1
        )
        return True

    # -- one turn ----------------------------------------------------------------------------

    async def _request_answer(self) -> AssistantMessage:
        """Send the request of this turn and record the answer. Raises what cannot be helped."""
        self._turns += 1
        self._recorder.emit(TurnStarted(self._turns))
        refused: ContextOverflow | None = None
        for number in count(1):
            built = await self._build_request()
            if refused is not None:
                self._check_shorter(built, refused)
            last, before = self._last_entry(), self._message
            try:
                with self._config.telemetry.turn(built.request, self._config.model) as span:
                    message = await self._receive_answer(built.request, span)
            except (ProviderError, ProtocolError) as exc:
                has_begun = self._message is not before
                if not has_begun and await self._replace_refused_images(exc):
                    continue
                overflow = exc if isinstance(exc, ContextOverflow) else None
                if number == _MAX_ATTEMPTS or not (overflow or (has_begun and exc.retryable)):
                    raise
                if has_begun:  # what came is left beside the branch
                    assert last is not None
                    self._recorder.rewind(last)
                if overflow is not None:
                    refused = None if has_begun else overflow
                    self._shrink_target(built)
                else:
                    await self._wait_before_retry(exc, number)
            else:
                return message
        raise AssertionError("unreachable")

    async def _receive_answer(self, request: Request, span: TelemetrySpan) -> AssistantMessage:
        stream = self._config.provider.stream(request)
        for loss in getattr(stream, "losses", ()):
            self._context_notices.send_once(loss)
        tell = self._recorder.emit
        try:
            async with stream:
                async for event in stream:
                    tell(event)
        except BaseException:
            self._record_partial(stream, span)
            raise
        message = stream.message()
        self._record_answer(message, stream, span)
        return message

    def _record_partial(self, stream: Stream, span: TelemetrySpan) -> None:
        """Record as much of an answer as was read; what it calls for is not run any more."""
        try:
            partial = stream.message()
        except StenoError:
            return
        if partial.content:
            self._record_answer(partial, stream, span)
            self._recorder.answer_outstanding(CALL_NOT_RUN_TEXT)

    def _record_answer(
        self, message: AssistantMessage, stream: Stream, span: TelemetrySpan
    ) -> None:
        envelope: dict[str, Any] = getattr(stream, "envelope", {})
        said = {
            "model": self._config.model,
            "response_model": envelope.get("model") or envelope.get("modelVersion"),
            "response_id": envelope.get("id") or envelope.get("responseId"),
        }
        audit = {name: value for name, value in said.items() if value and isinstance(value, str)}
        self._recorder.record(message, audit=audit or None)
        named = {name: audit.get(name) for name in ("response_id", "response_model")}
        span.record_result(message, **named)
        self._message = message
        if message.usage is not None:
            self._usage += message.usage

    async def _wait_before_retry(self, exc: ProviderError | ProtocolError, number: int) -> None:
        """Wait as long as was asked for, before the turn is tried again."""
        self._recorder.emit(Notice(NoticeCode.RETRY, f"{exc}; trying again", "turn_retried"))
        wait_s = getattr(exc, "retry_after_s", None)
        await self._config.sleep(float(2 ** (number - 1)) if wait_s is None else wait_s)

    def _last_entry(self) -> str | None:
        conversation = self._recorder.conversation
        return conversation.branches[conversation.branch]

    # -- what the model sees -----------------------------------------------------------------

    async def _build_request(self) -> BuiltRequest:
        built = self._build_uncompacted()
        if built.wants_compaction:
            summary = await compact(self._config, self._recorder, self._target, room=built.room)
            if summary is not None:
                self._usage += entry_usage(summary)
                built = self._build_uncompacted()
        self._context_notices.report(built)
        return built

    def _build_uncompacted(self) -> BuiltRequest:
        conversation, setup = self._recorder.conversation, self._config
        return setup.context_builder.build(
            conversation.entries_view(),
            self._target,
            setup.dispatcher.offered_definitions(conversation.mode),
            restore_blobs=conversation.restore_blobs,
        )

    def _shrink_target(self, built: BuiltRequest) -> None:
        """Let the next try be shorter: the provider knows better than our estimate."""
        room = max(int(built.tokens * _SHRINK_FACTOR), 1)
        # An answer as long as all else may be what was too much.
        answer = self._target.answer_tokens and min(self._target.answer_tokens, room)
        self._target = replace(self._target, context_tokens=room + (answer or 0), max_tokens=answer)

    def _check_shorter(self, built: BuiltRequest, refused: ContextOverflow) -> None:
        """Tell that less is sent than was refused. Raises ContextOverflow if nothing can go."""
        if not built.is_over_budget:
            text = f"{refused}; trying again with less"
            self._recorder.emit(Notice(NoticeCode.CONTEXT, text, "request_shortened"))
            return
        setup = self._config
        words = explain_over_budget(
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
        price = self._config.price_of(self._config.model)
        return None if price is None else cost_of(self._usage, price)

    def _close_log(self) -> None:
        """Answer what nobody will run any more, and record what was said and not heard yet."""
        self._record_prompt()
        self._input.record_rest()

    def _incomplete_reason(self) -> str:
        """Return why the last answer may not be all that the model had to say; empty if it is."""
        stop_reason = None if self._message is None else self._message.stop_reason
        return "" if stop_reason is None else _INCOMPLETE_REASONS.get(stop_reason, "")

    def _build_result(
        self, ending: EndReason, reason: str = "", error: StenoError | None = None
    ) -> RunResult:
        self._close_log()
        if ending is EndReason.LIMIT:
            text = f"stopped at the limit: {reason}"
            self._recorder.emit(Notice(NoticeCode.LIMIT, text, "limit_reached"))
        return RunResult(
            ending, self._message, self._turns, self._usage, self._cost(), reason, error
        )
