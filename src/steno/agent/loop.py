"""The loop: send a request, record the response, run its calls, and repeat until the model is done.

A turn has four steps:

    references  resolve files, images and resources            (steno.agent.resolve_references)
    request     select the part of the log that the model sees (steno.context)
    response    receive the response, and record it before any call is run
    results     check, decide and run the calls, and record their results

A later run can continue the conversation, however a run ends (a limit, an error, a cancellation,
the end of the process). A response that was cut off is recorded as far as it was received, and
every call gets a result, at the latest when the next run begins.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from itertools import count
from typing import Any, Final, TypeAlias, final

from msgspec.structs import replace

from steno.agent.compaction import compact, compact_now
from steno.agent.dispatch import finish_orphaned_calls
from steno.agent.events import ContextChanged, EndReason, Notice, NoticeKind, RunResult, TurnStarted
from steno.agent.image_analyses import ImageAnalysisRecorder, SentRequest
from steno.agent.recorder import RunRecorder
from steno.agent.resolve_references import TurnInput, is_image_refusal
from steno.agent.run_config import RunConfig
from steno.agent.steering import InputRecorder, PromptInput, SteeringQueue
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
from steno.lazy_task import start_task
from steno.log.queries import cost_of, entry_usage
from steno.messages.change import Change, ChangeCode, explain_repair
from steno.messages.message import AssistantMessage
from steno.messages.usage import StopReason, Usage
from steno.ports import Stream
from steno.records.entry import Entry, Repair

_SILENT_CHANGES: Final = (ChangeCode.RESOLVED,)
"""Changes that are not reported, because the user expects references to be resolved."""
_RECORDED_CHANGES: Final = (ChangeCode.REPAIRED, ChangeCode.RESOURCE_LEFT_OUT)
"""Changes that are also recorded in the log."""
_UNKNOWN_PRICE_TEXT: Final = "the price of the model is unknown, so the cost limit has no effect"
_INCOMPLETE_REASONS: Final[Mapping[StopReason | None, str]] = {
    StopReason.LENGTH: "the response was cut off at the token limit",
    StopReason.CONTENT_FILTER: "the content filter of the provider stopped the response",
    StopReason.ERROR: "the provider ended the response with an error",
    StopReason.ABORTED: "the response was interrupted",
}
"""The stop reasons of an incomplete response, each with its description for the user."""
_MAX_ATTEMPTS: Final = 3
"""The maximum number of attempts for one turn, after a lost connection or a context overflow."""
_SHRINK_FACTOR: Final = 0.8
"""The size of the next request relative to a request that was too long."""

_RunStep: TypeAlias = Callable[[], Coroutine[Any, Any, bool]]
"""A function that performs one step and returns whether the run continues."""


@final
class ContextNotices:
    """Reports how requests differ from the log, each difference once per run."""

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder
        self._sent: set[Change] = set()

    def report(self, built: BuiltRequest) -> None:
        """Report the new changes of a request, and record repairs that are not in the log yet.

        Recorded repairs are counted by code and entry, because an entry may need several repairs
        of one code.
        """
        changes = dict.fromkeys(built.changes)
        new_changes = [
            change
            for change in changes
            if change.code not in _SILENT_CHANGES and self.send_once(change)
        ]
        if not any(change.code in _RECORDED_CHANGES for change in new_changes):
            return
        payloads = [entry.payload for entry in self._recorder.conversation.entries_view()]
        recorded = Counter(
            [(repair.code, repair.target) for repair in payloads if isinstance(repair, Repair)]
        )
        for change in [change for change in changes if change.code in _RECORDED_CHANGES]:
            code, target = str(change.code), change.entry
            if recorded[code, target]:
                recorded[code, target] -= 1
            else:
                explanation = explain_repair(change)
                self._recorder.record(Repair(code=code, explanation=explanation, target=target))

    def send_once(self, change: Change) -> bool:
        """Emit a change unless it was already emitted in this run; return whether it is new."""
        if change in self._sent:
            return False
        self._sent.add(change)
        self._recorder.emit(ContextChanged(change))
        return True


@final
class AgentRun:
    """A single run of the agent, from a prompt until the model is done."""

    def __init__(self, config: RunConfig, recorder: RunRecorder, queue: SteeringQueue) -> None:
        self._config = config
        self._recorder = recorder
        resolves_references = config.references is not None
        self._input = InputRecorder(
            recorder, queue, actor=config.actor, resolves_references=resolves_references
        )
        self._target = config.target
        self._retries_references = False
        """Whether to retry references that an earlier run could not resolve."""
        self._image_refusal = ""
        """The error text if the model has refused images; else empty."""
        self._step: asyncio.Task[bool] | None = None
        self._is_interrupted = False
        self._context_notices = ContextNotices(recorder)
        self._image_analyses = ImageAnalysisRecorder(recorder)
        self._turns = 0
        self._usage = Usage()
        self._message: AssistantMessage | None = None

    # -- the loop ----------------------------------------------------------------------------

    async def execute(
        self, prompt: PromptInput | None, *, retry_references: bool = True
    ) -> RunResult:
        """Run until the model is done, or the run ends for another reason.

        `retry_references` retries unresolved references of an earlier run; it has no effect with a
        prompt.
        """
        self._input.pending_prompt = prompt
        self._retries_references = retry_references and prompt is None
        timeout = asyncio.timeout(self._config.limits.seconds)
        try:
            async with timeout:
                return await self._run_turns()
        except (ProviderError, ProtocolError, InvalidRequest, Unresolved) as exc:
            return self._build_result(EndReason.FAILED, str(exc), exc)
        except TimeoutError:
            if not timeout.expired():
                raise
            seconds = self._config.limits.seconds
            reason = "1 second" if seconds == 1 else f"{seconds:g} seconds"
            return self._build_result(EndReason.LIMIT, reason)
        finally:
            with suppress(LogError, OutOfOrder):  # the exception that ended the run matters more
                self._close_log()

    async def _run_turns(self) -> RunResult:
        continues = await self._run_step(self._prepare)
        self._record_prompt()
        self._config.dispatcher.consecutive_invalid_turns = 0
        while True:
            was_interrupted, self._is_interrupted = self._is_interrupted, False
            continues = continues and not was_interrupted
            continues |= self._input.record_due(is_over=not continues)
            if not continues:
                if was_interrupted:
                    return self._build_result(EndReason.INTERRUPTED)
                stop_reason = None if self._message is None else self._message.stop_reason
                incomplete_reason = _INCOMPLETE_REASONS.get(stop_reason, "")
                return self._build_result(EndReason.DONE, incomplete_reason)
            limit = self._config.limits.describe_reached(
                turns=self._turns,
                tokens=self._usage.total_tokens,
                cost=self._cost(),
                invalid_calls=self._config.dispatcher.consecutive_invalid_turns,
            )
            if limit is not None:
                return self._build_result(EndReason.LIMIT, limit)
            continues = await self._run_step(self._run_turn)

    def interrupt(self) -> None:
        """Stop the response and the tools; the run ends unless a prompt is queued."""
        self._is_interrupted = True
        if self._step is not None:
            self._step.cancel()

    async def compact(self) -> Entry | None:
        """Record a summary of the conversation without running a turn.

        Return the entry of the summary; None if there is nothing to summarize, or if the request
        for the summary failed or was interrupted.
        """
        summaries: list[Entry | None] = []

        async def step() -> bool:
            summaries.append(await compact_now(self._config, self._recorder))
            return False

        await self._run_step(step)
        self._input.record_remaining()
        return summaries[0] if summaries else None

    async def _prepare(self) -> bool:
        """Finish the calls of an earlier run and refresh references; return True to continue."""
        self._recorder.record_model(self._config.model)
        if self._config.limits.cost is not None and self._cost() is None:
            self._recorder.emit(Notice(NoticeKind.LIMIT, _UNKNOWN_PRICE_TEXT, "price_unknown"))
        await finish_orphaned_calls(self._config.dispatcher, self._recorder)
        if self._config.references is not None:
            turn = self._turn_input(is_first=True)
            await self._config.references.refresh_outdated(self._recorder, turn)
            await self._config.references.report_changes(self._recorder)
        return True

    def _record_prompt(self) -> None:
        """Record the prompt, after recording each outstanding call as not run."""
        self._recorder.cancel_outstanding()
        self._input.record_prompt()

    async def _run_step(self, step: _RunStep) -> bool:
        """Run one step in a separate task, so that an interrupt cancels only the step.

        Return whether the run continues.
        """
        if self._is_interrupted:
            return False
        task = asyncio.current_task()
        assert task is not None
        cancel_count = task.cancelling()
        self._step = start_task(step())
        try:
            continues = await self._step
        except asyncio.CancelledError:
            if not self._is_interrupted or task.cancelling() > cancel_count:
                raise
            self._recorder.cancel_outstanding()
            return False
        finally:
            self._step = None
        if task.cancelling() > cancel_count:  # the step swallowed the cancellation
            raise asyncio.CancelledError
        return continues

    async def _run_turn(self) -> bool:
        """Get one response and run its calls; return whether the run continues."""
        await self._resolve_references()
        self._input.release()
        message = self._message = await self._request_response()
        calls = message.tool_calls
        if calls:
            await self._config.dispatcher.answer_calls(calls, self._recorder)
        return bool(calls) or message.stop_reason is StopReason.PAUSE

    # -- references --------------------------------------------------------------------------

    def _turn_input(self, *, is_first: bool) -> TurnInput:
        return TurnInput(self._input.prompt, is_first, self._target.vision, self._image_refusal)

    async def _resolve_references(self) -> None:
        """Resolve the references of messages, then record the messages that were held back."""
        references = self._config.references
        if references is None:
            return
        retry, self._retries_references = self._retries_references, False
        turn = self._turn_input(is_first=self._turns == 0)
        await references.resolve_unanswered(self._recorder, turn, retry=retry)
        # If the model refuses an image, the prompt may still have to be rewound.
        if self._input.is_held and not references.has_images(self._recorder):
            self._input.release()
            if self._input.record_due(is_over=False):
                turn = self._turn_input(is_first=False)
                await references.resolve_unanswered(self._recorder, turn)

    async def _replace_refused_images(self, exc: StenoError) -> bool:
        """Replace images with text if the provider may have refused the request because of them.

        Return whether images were replaced, so that the request is worth repeating.
        """
        references = self._config.references
        if references is None or self._image_refusal or not is_image_refusal(exc):
            return False
        if not references.has_images(self._recorder):
            return False
        self._image_refusal = str(exc)
        self._target = replace(self._target, vision=False)
        turn = self._turn_input(is_first=self._turns == 1)
        await references.replace_images(self._recorder, turn)
        return True

    # -- one turn ----------------------------------------------------------------------------

    async def _request_response(self) -> AssistantMessage:
        """Send the request of this turn, with retries, and record the response.

        Raises ProviderError or ProtocolError if the last attempt fails.
        """
        self._turns += 1
        self._recorder.emit(TurnStarted(self._turns))
        last_overflow: ContextOverflow | None = None
        for attempt in count(1):
            built = await self._build_request()
            if last_overflow is not None:
                self._check_shorter(built, last_overflow)
            conversation, message_before = self._recorder.conversation, self._message
            last_entry_id = conversation.branches[conversation.branch]
            try:
                with self._config.telemetry.turn(built.request, self._config.model) as span:
                    message = await self._receive_response(built, span)
            except (ProviderError, ProtocolError) as exc:
                has_begun = self._message is not message_before
                if not has_begun and await self._replace_refused_images(exc):
                    continue
                overflow = exc if isinstance(exc, ContextOverflow) else None
                if attempt == _MAX_ATTEMPTS or not (overflow or (has_begun and exc.retryable)):
                    raise
                if has_begun:  # the partial response stays in the log, off the branch
                    assert last_entry_id is not None
                    self._recorder.rewind(last_entry_id)
                if overflow is not None:
                    last_overflow = None if has_begun else overflow
                    self._shrink_target(built)
                else:
                    await self._wait_before_retry(exc, attempt)
            else:
                return message
        raise AssertionError("unreachable")

    async def _receive_response(self, built: BuiltRequest, span: TelemetrySpan) -> AssistantMessage:
        stream = self._config.provider.stream(built.request)
        found: Iterable[Change] | None = getattr(stream, "losses", ())
        losses = None if found is None else tuple(found)
        for change in losses or ():
            self._context_notices.send_once(change)
        emit = self._recorder.emit
        try:
            async with stream:
                async for event in stream:
                    emit(event)
        except BaseException:
            self._record_partial(stream, span)
            raise
        message = stream.message()
        response = self._record_response(message, stream, span)
        if losses is not None:
            self._image_analyses.add_response(response, SentRequest(built, losses))
        return message

    def _record_partial(self, stream: Stream, span: TelemetrySpan) -> None:
        """Record the received part of a response, and record each of its calls as not run."""
        try:
            partial = stream.message()
        except StenoError:
            return
        if partial.content:
            self._record_response(partial, stream, span)
            self._recorder.cancel_outstanding()

    def _record_response(
        self, message: AssistantMessage, stream: Stream, span: TelemetrySpan
    ) -> Entry:
        envelope: dict[str, Any] = getattr(stream, "envelope", {})
        members = {
            "model": self._config.model,
            # Gemini names these fields `modelVersion` and `responseId`.
            "response_model": envelope.get("model") or envelope.get("modelVersion"),
            "response_id": envelope.get("id") or envelope.get("responseId"),
        }
        audit = {name: value for name, value in members.items() if value and isinstance(value, str)}
        response = self._recorder.record(message, audit=audit or None)
        response_names = {name: audit.get(name) for name in ("response_id", "response_model")}
        span.record_result(message, **response_names)
        self._message = message
        if message.usage is not None:
            self._usage += message.usage
        return response

    async def _wait_before_retry(self, exc: ProviderError | ProtocolError, number: int) -> None:
        """Wait before a retry: the delay that the provider requests, or an exponential backoff."""
        self._recorder.emit(Notice(NoticeKind.RETRY, f"{exc}; trying again", "turn_retried"))
        wait_s = getattr(exc, "retry_after_s", None)
        await self._config.sleep(float(2 ** (number - 1)) if wait_s is None else wait_s)

    # -- the request -------------------------------------------------------------------------

    async def _build_request(self) -> BuiltRequest:
        config, recorder, target = self._config, self._recorder, self._target
        built = config.build_request(recorder.conversation, target)
        if built.wants_compaction:
            summary = await compact(config, recorder, target, budget_tokens=built.budget_tokens)
            if summary is not None:
                self._usage += entry_usage(summary)
                built = config.build_request(recorder.conversation, target)
        self._context_notices.report(built)
        return built

    def _shrink_target(self, built: BuiltRequest) -> None:
        """Lower the token limits for the next attempt, because the request was too long."""
        budget_tokens = max(int(built.tokens * _SHRINK_FACTOR), 1)
        # The request may be too long only because of the tokens reserved for the response.
        response_tokens = self._target.response_tokens and min(
            self._target.response_tokens, budget_tokens
        )
        self._target = replace(
            self._target,
            context_tokens=budget_tokens + (response_tokens or 0),
            max_tokens=response_tokens,
        )

    def _check_shorter(self, built: BuiltRequest, refused: ContextOverflow) -> None:
        """Report that the request was shortened. Raises ContextOverflow if it is still too long."""
        if not built.is_over_budget:
            text = f"{refused}; trying again with a shorter request"
            self._recorder.emit(Notice(NoticeKind.CONTEXT, text, "request_shortened"))
            return
        config = self._config
        message = explain_over_budget(
            built.request.messages[-1],
            built.last_tokens,
            model=config.model,
            context_tokens=config.target.context_tokens,
        )
        raise ContextOverflow(
            message, status=refused.status, provider_code=refused.provider_code
        ) from refused

    # -- the end -----------------------------------------------------------------------------

    def _cost(self) -> Decimal | None:
        price = self._config.price_of(self._config.model)
        return None if price is None else cost_of(self._usage, price)

    def _close_log(self) -> None:
        self._record_prompt()
        self._image_analyses.close()
        self._input.record_remaining()

    def _build_result(
        self, ending: EndReason, reason: str = "", error: StenoError | None = None
    ) -> RunResult:
        self._close_log()
        if ending is EndReason.LIMIT:
            text = f"stopped at the limit: {reason}"
            self._recorder.emit(Notice(NoticeKind.LIMIT, text, "limit_reached"))
        return RunResult(
            ending, self._message, self._turns, self._usage, self._cost(), reason, error
        )
