"""Run one tool: its context, its output while it runs, and the result of whatever happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from threading import get_ident
from typing import Final, NamedTuple, Protocol, final

from msgspec.structs import replace

from steno.agent.results import build_failure_result, build_fault_result, build_output_result
from steno.bounded_text import BoundedText
from steno.errors import Missing, ToolFailed
from steno.ids import utc_now
from steno.messages.call import ToolCall
from steno.messages.message import ToolResultMessage
from steno.ports import BlobStore, Tool
from steno.values import replace_lone_surrogates

_MAX_END_CHARACTERS: Final = 10_000
"""In characters; some 5,000 tokens in all."""


class CallContext(NamedTuple):
    """Per-call context from the dispatcher; `steno.ports.ToolContext` documents it."""

    report_output: Callable[[str], None]
    is_denied: Callable[[str], bool]
    subjects: tuple[str, ...] | None


class ToolRunner(Protocol):
    """Turns an approved call into a result."""

    async def run(self, tool: Tool, call: ToolCall, context: CallContext) -> ToolResultMessage:
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
        """Take the place for output that is too long for a message: a store, or else memory."""
        self._blobs = _MemoryBlobs() if blobs is None else blobs
        self._now = now
        self._clock = clock

    async def run(self, tool: Tool, call: ToolCall, context: CallContext) -> ToolResultMessage:
        """Run a tool. Its output, its failure and its faults all become results.

        A failure that the tool reports has no traceback; a fault of the tool has one.
        """
        started_at, start = self._now(), self._clock()
        try:
            output = await tool.run(call, _RunningToolContext(self._blobs, context))
            result = build_output_result(call, output)
        except ToolFailed as exc:
            result = build_failure_result(call, exc)
        except (Exception, SystemExit, asyncio.CancelledError) as exc:
            if isinstance(exc, asyncio.CancelledError) and is_cancelled():
                raise
            result = build_fault_result(call, exc)
        duration_s = max(self._clock() - start, 0.0)
        return replace(result, started_at=started_at, duration_s=duration_s)


def is_cancelled() -> bool:
    """Return whether this task was cancelled, even if the exception was caught since."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@final
class ReportedOutput:
    """The output that a call reports: each piece is passed on, the beginning and the end are kept.

    It is made in the event loop; any thread may add to it.
    """

    def __init__(self, on_text: Callable[[str], None]) -> None:
        """Take the function that receives each piece, in the event loop."""
        self._on_text = on_text
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self._kept = BoundedText(
            "".join, max_head=_MAX_END_CHARACTERS, max_tail=_MAX_END_CHARACTERS
        )

    @property
    def text(self) -> str:
        """All of it, or its beginning and its end."""
        head, missing, tail = self._kept.ends()
        gap = f"\n[... {missing:,} characters left out here ...]\n" if missing else ""
        return f"{head}{gap}{tail}"

    def add(self, text: str) -> None:
        """Add a piece of output."""
        if get_ident() == self._thread:
            self._append(replace_lone_surrogates(text))
        else:
            self._loop.call_soon_threadsafe(self._append, replace_lone_surrogates(text))

    def _append(self, text: str) -> None:
        self._kept.add(text)
        self._on_text(text)


@final
class _RunningToolContext:
    """The context of a running tool (`steno.ports.ToolContext`)."""

    def __init__(self, blobs: BlobStore, context: CallContext) -> None:
        self._blobs = blobs
        self._context = context
        self.subjects: Final = context.subjects

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
    """Blobs that last as long as the program (`steno.ports.BlobStore`)."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    def put_blob(self, data: bytes) -> str:
        digest = sha256(data).hexdigest()
        self._blobs[digest] = data
        return digest

    def blob(self, sha256: str) -> bytes:
        if sha256 not in self._blobs:
            raise Missing("there is none of this name", place="blob", code="blob_missing")
        return self._blobs[sha256]
