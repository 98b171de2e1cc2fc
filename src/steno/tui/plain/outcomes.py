"""Calls and what came of them, in a line or a few."""

from __future__ import annotations

from typing import Final

from steno.call import AnyToolCall
from steno.message import ToolResultMessage
from steno.outcome import Outcome
from steno.printable import counted
from steno.tui.call_head import head_of_call
from steno.tui.plain.voice import Voice, shortened

_MOST_LINES: Final = 60
_MOST_OF_A_FAILURE: Final = 10


def tell_call(voice: Voice, call: AnyToolCall) -> None:
    """Say which tool is called, and what about."""
    name, _, about = head_of_call(call).partition(" ")
    voice.write(f"Tool {name}", about)


def tell_result(voice: Voice, result: ToolResultMessage) -> None:
    """Say what came of a call: how much there is to read, what has changed, what went wrong."""
    lines = result.text.strip("\n").split("\n") if result.text.strip() else []
    diff = (result.details or {}).get("diff")
    if result.outcome is not Outcome.OK:
        first, *rest = lines or ["nothing more is known"]
        voice.begin("Result", f"{result.outcome}: {first}")
        voice.write_lines(shortened(rest, _MOST_OF_A_FAILURE))
    elif isinstance(diff, str) and diff.strip():
        voice.write("Result", "ok, this has changed")
        voice.quote(shortened(diff.strip("\n").split("\n"), _MOST_LINES))
    else:
        voice.write("Result", f"ok, {counted(len(lines), 'line', 'lines')}")
