"""The cases about streams find broken providers, and each case can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache

import pytest

from steno import (
    AssistantMessage,
    Event,
    Finished,
    Request,
    StenoError,
    StopReason,
    ToolCallBegin,
    ToolCallEnd,
)
from steno.ports import Provider, Stream
from steno.testing.conformance import (
    STREAM_CASES,
    CaseOutcome,
    CaseResult,
    ProviderHarness,
    Script,
    ScriptedProviderHarness,
    run_stream_case,
)


class BrokenStream:
    """A correct stream, into which a subclass puts a fault."""

    def __init__(self, good: Stream) -> None:
        self.good = good
        self.has_ended = False

    def __aiter__(self) -> BrokenStream:
        return self

    async def __anext__(self) -> Event:
        return await self.good.__anext__()

    async def __aenter__(self) -> BrokenStream:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    async def collect(self) -> AssistantMessage:
        async for _ in self:
            pass
        return self.message()

    def message(self) -> AssistantMessage:
        return self.good.message()

    def close(self) -> None:
        self.good.close()


class AnswersBlindly(BrokenStream):
    """Has a message at any time, and never a stop reason."""

    def message(self) -> AssistantMessage:
        return AssistantMessage(content=(), stop_reason=StopReason.END_TURN)


class CannotBeClosed(BrokenStream):
    """Continues after it was closed."""

    def close(self) -> None: ...


class EndsOnErrors(BrokenStream):
    """Reports an error or a cancellation as the end."""

    async def __anext__(self) -> Event:
        try:
            return await super().__anext__()
        except (StenoError, asyncio.CancelledError):
            raise StopAsyncIteration from None


class EndsBadly(BrokenStream):
    """Omits Finished, and raises if it is read again."""

    async def __anext__(self) -> Event:
        if self.has_ended:
            raise StenoError("read after the end")
        try:
            event = await super().__anext__()
        except (StopAsyncIteration, StenoError):
            self.has_ended = True
            raise
        return await self.__anext__() if isinstance(event, Finished) else event


class TellsNoCalls(BrokenStream):
    """Reports neither the start nor the end of a call."""

    async def __anext__(self) -> Event:
        event = await super().__anext__()
        return await anext(self) if isinstance(event, (ToolCallBegin, ToolCallEnd)) else event


class BrokenProvider:
    """Wraps the streams of a correct provider; `repeats` returns the first one again."""

    def __init__(self, good: Provider, wrap: Callable[[Stream], Stream], repeats: bool) -> None:
        self.good, self.wrap, self.repeats = good, wrap, repeats
        self.first: Stream | None = None

    def stream(self, request: Request) -> Stream:
        if self.first is None or not self.repeats:
            self.first = self.wrap(self.good.stream(request))
        return self.first


class BrokenHarness(ProviderHarness):
    def __init__(self, wrap: type[BrokenStream], *, repeats: bool = False) -> None:
        self.name, self.wrap, self.repeats = wrap.__name__, wrap, repeats

    def provider(self, *scripts: Script) -> Provider:
        return BrokenProvider(ScriptedProviderHarness().provider(*scripts), self.wrap, self.repeats)


BROKEN = [
    *(BrokenHarness(wrap) for wrap in BrokenStream.__subclasses__()),
    BrokenHarness(BrokenStream, repeats=True),
]


@cache
def failures(harness: ProviderHarness) -> dict[str, CaseResult]:
    results = [run_stream_case(case, harness, longest_s=0.2) for case in STREAM_CASES]
    return {result.case: result for result in results if result.outcome is CaseOutcome.FAIL}


@pytest.mark.requirement("S4-17")
@pytest.mark.parametrize("case", STREAM_CASES, ids=lambda case: case.__name__)
def test_every_case_fails_for_some_broken_provider(case: object) -> None:
    assert any(getattr(case, "__name__", "") in failures(harness) for harness in BROKEN)


@pytest.mark.parametrize("harness", BROKEN, ids=lambda harness: harness.name)
def test_every_broken_provider_fails_with_a_reason(harness: ProviderHarness) -> None:
    assert failures(harness)
    assert all(result.reason for result in failures(harness).values())


def test_a_read_that_close_does_not_end_is_given_up() -> None:
    found = failures(BROKEN[1])
    assert found["close_unblocks_read"].reason == "not done within 0.2 s"


def test_a_wrapped_correct_provider_passes() -> None:
    harness = BrokenHarness(BrokenStream)
    assert {run_stream_case(case, harness).outcome for case in STREAM_CASES} == {CaseOutcome.OK}
