"""Run one tool, and make a result of whatever comes of it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Protocol, final

from steno.call import ToolCall
from steno.content import Text
from steno.errors import LogError, Missing, ToolFailed
from steno.identity import utc_now
from steno.message import ToolResultMessage
from steno.outcome import Failure, Outcome
from steno.ports import Blobs, Tool, ToolOutput
from steno.value import replace_lone_surrogates

_LONGEST_MESSAGE: Final = 200


class Runs(Protocol):
    """Whoever turns an approved call into a result."""

    async def run(
        self, tool: Tool, call: ToolCall, say: Callable[[str], None]
    ) -> ToolResultMessage:
        """Return the result, whatever happens but cancellation and trouble with the log."""
        ...


@final
class Runner:
    """Runs tools for real."""

    def __init__(
        self,
        blobs: Blobs | None = None,
        *,
        now: Callable[[], datetime] = utc_now,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the place for what is too long to be told: a store, or else memory."""
        self._blobs = _Memory() if blobs is None else blobs
        self._now = now
        self._clock = clock

    async def run(
        self, tool: Tool, call: ToolCall, say: Callable[[str], None]
    ) -> ToolResultMessage:
        """Run a tool. What it reports and what it stumbles over are both results.

        A failure that the tool tells of has no traceback; a fault of the tool has one.
        """
        started_at, start = self._now(), self._clock()
        failure: Failure | None = None
        try:
            output = await tool.run(call, _Stage(self._blobs, say))
        except ToolFailed as exc:
            output = ToolOutput.of(_text(str(exc)), outcome=Outcome.ERROR)
            failure = Failure(message=_text(str(exc)), recoverable=exc.recoverable)
        except LogError:
            raise
        except Exception as exc:  # noqa: BLE001 - whatever a tool does, the call needs an answer
            told = _text(f"{type(exc).__name__}: {exc}")
            output = ToolOutput.of(told, outcome=Outcome.ERROR)
            failure = Failure(message=told, traceback=_traceback(exc), recoverable=False)
        if failure is None and output.outcome is not Outcome.OK:
            failure = Failure(message=_gist(output))
        return ToolResultMessage(
            tool_call_id=call.id,
            tool_name=call.name,
            content=output.content,
            outcome=output.outcome,
            details=output.details,
            failure=failure,
            started_at=started_at,
            duration_s=max(self._clock() - start, 0.0),
        )


@final
class _Stage:
    """What a running tool has around it (`steno.ports.Stage`)."""

    def __init__(self, blobs: Blobs, say: Callable[[str], None]) -> None:
        self.say = say
        self.keep = blobs.put_blob
        self.recall = blobs.blob


@final
class _Memory:
    """Keeps bytes as long as the program runs (`steno.ports.Blobs`)."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def put_blob(self, data: bytes) -> str:
        digest = sha256(data).hexdigest()
        self._kept[digest] = data
        return digest

    def blob(self, sha256: str) -> bytes:
        if sha256 not in self._kept:
            raise Missing("blob: there is none of this name")
        return self._kept[sha256]


def _text(text: str) -> str:
    """Return a text from anywhere as one that may stand in a message."""
    return replace_lone_surrogates(text)


def _traceback(exc: Exception) -> str:
    # Our own frame, the first, tells nobody anything.
    here: Any = exc.__traceback__
    return _text("".join(traceback.format_exception(type(exc), exc, here.tb_next or here)))


def _gist(output: ToolOutput) -> str:
    """Return the first line of what a tool says that reports a failure."""
    said = "".join([block.text for block in output.content if isinstance(block, Text)])
    first = said.strip().partition("\n")[0]
    return first[:_LONGEST_MESSAGE] or f"the tool reported: {output.outcome}"
