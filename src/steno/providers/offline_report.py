"""What the offline assistant says at the end: what was done, what came of it, what was not done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from steno.message import ToolResultMessage
from steno.outcome import Outcome
from steno.providers.offline_shown import fenced
from steno.providers.offline_steps import Step

_MOST_LINES: Final = 40
_FAILED: Final = {
    Outcome.ERROR: "it failed",
    Outcome.DENIED: "it was not allowed",
    Outcome.SKIPPED: "it was skipped",
    Outcome.TIMEOUT: "it took too long",
    Outcome.CANCELLED: "it was cancelled",
    Outcome.UNAVAILABLE: "the tool cannot be used here",
}


class Done(NamedTuple):
    """A step, by its number, and what came of it."""

    number: int
    result: ToolResultMessage


def report(steps: Sequence[Step], done: Sequence[Done], *, failed_at: int | None) -> str:
    """Return the last words about some steps, of which at least one was done."""
    lines = [f"- {steps[step.number].description}: {_gist(step.result)}" for step in done]
    parts = ["\n".join(lines) if len(done) > 1 else lines[0].removeprefix("- ")]
    last = done[-1]
    parts += _shown(last.result, from_the_end=steps[last.number].tool == "bash")
    if failed_at is not None:
        left = [step.description for step in steps[failed_at + 1 :] if step.only_if_failed is None]
        parts.append("I stopped there." + "".join([f"\n- not done: {doing}" for doing in left]))
    return "\n\n".join(parts)


def _gist(result: ToolResultMessage) -> str:
    """Return what came of a call, in a few words."""
    if result.outcome is not Outcome.OK:
        return _FAILED.get(result.outcome, "it failed")
    count = len(result.text.splitlines())
    return f"done, {count} line{'' if count == 1 else 's'} of output" if count else "done"


def _shown(result: ToolResultMessage, *, from_the_end: bool) -> list[str]:
    """Return the output of a call as a block, or the part of it where the news is."""
    lines = result.text.splitlines()
    if not lines:
        return []
    return [fenced(_tail(lines) if from_the_end else _head(lines))]


def _head(lines: list[str]) -> list[str]:
    left = len(lines) - _MOST_LINES
    return lines if left <= 0 else [*lines[:_MOST_LINES], f"… {left} more lines"]


def _tail(lines: list[str]) -> list[str]:
    left = len(lines) - _MOST_LINES
    return lines if left <= 0 else [f"… {left} lines before these", *lines[-_MOST_LINES:]]
