"""How a command ended, in words for a model and as values for programs."""

from __future__ import annotations

from typing import Any, Final

from steno.messages.outcome import Outcome
from steno.tools.shell.process import CommandExit, ExitCause

_CAUSE_TEXTS: Final = {
    ExitCause.TIME: "ended after {duration:g} s: it took longer than it may",
    ExitCause.OUTPUT: "ended: it wrote more than it may",
    ExitCause.PROCESSES: "ended: it started more processes than it may",
    ExitCause.STOPPED: "ended on request",
}


def exit_outcome(ending: CommandExit) -> Outcome:
    """Return what to make of an ending."""
    if ending.cause is ExitCause.TIME:
        return Outcome.TIMEOUT
    is_good = ending.cause is ExitCause.DONE and ending.exit_code == 0
    return Outcome.OK if is_good else Outcome.ERROR


def exit_notes(ending: CommandExit) -> list[str]:
    """Say what there is to say about an ending; nothing if all went well."""
    notes: list[str] = []
    if ending.cause is not ExitCause.DONE:
        notes.append(_CAUSE_TEXTS[ending.cause].format(duration=ending.duration_s))
    elif ending.exit_code is None:
        notes.append("ended from outside: what became of it is not known")
    elif ending.exit_code:
        by = f", ended by signal {ending.signal}" if ending.signal else ""
        notes.append(f"exit code {ending.exit_code}{by}")
    if ending.left:
        notes.append(
            f"{ending.left} of its processes still ran when it ended, and were ended too; "
            "set background for what should go on"
        )
    return notes


def exit_details(ending: CommandExit) -> dict[str, Any]:
    """Return what there is to know about an ending."""
    return {
        "cause": str(ending.cause),
        "exit_code": ending.exit_code,
        "signal": ending.signal,
        "left": ending.left,
        "duration_s": ending.duration_s,
    }


def append_notes(output: str, notes: list[str]) -> str:
    """Return output with our own remarks behind it, each in a line of its own."""
    lines = output if not output or output.endswith("\n") else f"{output}\n"
    return lines + "\n".join([f"[{note}]" for note in notes]) if notes else output
