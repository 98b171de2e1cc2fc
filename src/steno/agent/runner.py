"""Run one tool, and make a result of whatever comes of it."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple, Protocol, final

from msgspec.structs import replace

from steno.errors import Missing, ToolFailed
from steno.ids import utc_now
from steno.messages.call import ToolCall
from steno.messages.content import Text
from steno.messages.message import ToolResultMessage
from steno.messages.outcome import Failure, Outcome
from steno.ports import BlobStore, Tool, ToolOutput
from steno.values import replace_lone_surrogates

_MAX_SUMMARY_LENGTH: Final = 200
_MAX_ERROR_LENGTH: Final = 10_000
"""Of what an exception says: what is long belongs into an output, where it is cut with care."""


class CallContext(NamedTuple):
    """What only those know of a call who let it run; `steno.ports.ToolContext` says what it is for."""

    report_output: Callable[[str], None]
    is_denied: Callable[[str], bool]
    subjects: tuple[str, ...] | None


class ToolRunner(Protocol):
    """Whoever turns an approved call into a result."""

    async def run(self, tool: Tool, call: ToolCall, around: CallContext) -> ToolResultMessage:
        """Return the result, whatever happens but cancellation."""
        ...


@final
class Runner:
    """Runs tools for real."""

    def __init__(
        self,
        blobs: BlobStore | None = None,
        *,
        now: Callable[[], datetime] = utc_now,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the place for what is too long to be told: a store, or else memory."""
        self._blobs = _MemoryBlobs() if blobs is None else blobs
        self._now = now
        self._clock = clock

    async def run(self, tool: Tool, call: ToolCall, around: CallContext) -> ToolResultMessage:
        """Run a tool. What it reports and what it stumbles over are both results.

        A failure that the tool tells of has no traceback; a fault of the tool has one.
        """
        started_at, start = self._now(), self._clock()
        try:
            result = _build_result(
                call, await tool.run(call, _RunningToolContext(self._blobs, around))
            )
        except ToolFailed as exc:
            result = build_failure_result(call, exc)
        except (Exception, SystemExit, asyncio.CancelledError) as exc:
            if isinstance(exc, asyncio.CancelledError) and is_cancelled():
                raise
            result = build_fault_result(call, exc)
        duration_s = max(self._clock() - start, 0.0)
        return replace(result, started_at=started_at, duration_s=duration_s)


def is_cancelled() -> bool:
    """Tell whether this task was cancelled, whatever became of that."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


# -- results -------------------------------------------------------------------------------------


def build_failure_result(call: ToolCall, exc: ToolFailed) -> ToolResultMessage:
    """Return the result of a call that came to nothing, as the tool itself says."""
    told = _truncate_text(str(exc)) or "The tool failed, and did not say why."
    return _build_error_result(call, Failure(message=told, recoverable=exc.recoverable))


def build_fault_result(call: ToolCall, exc: BaseException) -> ToolResultMessage:
    """Return the result of a call that a tool stumbled over; the traceback is for people."""
    # These cope with exceptions that cannot even be printed.
    told = _truncate_text("".join(traceback.format_exception_only(exc)).strip())
    found: Any = exc.__traceback__
    if found is not None:  # our own frame, the first, tells nobody anything
        found = found.tb_next or found
    trace = _truncate_text("".join(traceback.format_exception(type(exc), exc, found)))
    return _build_error_result(call, Failure(message=told, traceback=trace, recoverable=False))


def _build_error_result(call: ToolCall, failure: Failure) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(Text(failure.message),),
        outcome=Outcome.ERROR,
        failure=failure,
    )


def _build_result(call: ToolCall, output: ToolOutput) -> ToolResultMessage:
    """Return what a tool says as a result. Raises TypeError, InvalidMessage for what is none."""
    if not isinstance(output, ToolOutput):
        raise TypeError(f"tool: it must return a ToolOutput, not {type(output).__name__}")
    is_ok = output.outcome is Outcome.OK
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=output.content,
        outcome=output.outcome,
        details=output.details,
        failure=None if is_ok else Failure(message=_first_line(output)),
    )


def _truncate_text(text: str) -> str:
    """Return a text from anywhere as one that may stand in a message: legal, and not too long."""
    if len(text) > _MAX_ERROR_LENGTH:
        half = _MAX_ERROR_LENGTH // 2
        text = f"{text[:half]}\n[…]\n{text[-half:]}"
    return replace_lone_surrogates(text)


def _first_line(output: ToolOutput) -> str:
    """Return the first line of what a tool says that reports a failure."""
    said = "".join([block.text for block in output.content if isinstance(block, Text)])
    first = said.strip().partition("\n")[0]
    return first[:_MAX_SUMMARY_LENGTH] or f"the tool reported: {output.outcome}"


# -- what a tool has around it -------------------------------------------------------------------


@final
class _RunningToolContext:
    """What a running tool has around it (`steno.ports.ToolContext`)."""

    def __init__(self, blobs: BlobStore, around: CallContext) -> None:
        self._blobs = blobs
        self._context = around
        self.subjects: Final = around.subjects

    def is_denied(self, subject: str) -> bool:
        return self._context.is_denied(subject)

    def report_output(self, text: str) -> None:
        self._context.report_output(text)

    def put_blob(self, data: bytes) -> str:
        return self._blobs.put_blob(data)

    def read_blob(self, sha256: str) -> bytes:
        return self._blobs.blob(sha256)


@final
class _MemoryBlobs:
    """Keeps bytes as long as the program runs (`steno.ports.BlobStore`)."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    def put_blob(self, data: bytes) -> str:
        digest = sha256(data).hexdigest()
        self._blobs[digest] = data
        return digest

    def blob(self, sha256: str) -> bytes:
        if sha256 not in self._blobs:
            raise Missing("blob: there is none of this name")
        return self._blobs[sha256]
