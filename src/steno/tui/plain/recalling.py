"""The last of what is on record, told again: for whoever goes on with a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steno.call import InvalidToolCall, ToolCall
from steno.content import Text
from steno.entry import Entry
from steno.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.printable import counted
from steno.tui.block import Kind
from steno.tui.plain.outcomes import tell_call, tell_result
from steno.tui.plain.voice import Voice, shortened
from steno.tui.wording import block_of_prompt

_EXCHANGES: Final = 3
_MOST_LINES: Final = 20


def recall(voice: Voice, entries: Sequence[Entry]) -> None:
    """Say the last exchanges, and how much there is before them."""
    asked = [place for place, one in enumerate(entries) if isinstance(one.payload, UserMessage)]
    start = asked[-_EXCHANGES] if len(asked) >= _EXCHANGES else 0
    if start:
        voice.write(
            "Notice", f"{counted(start, 'earlier entry', 'earlier entries')}; /tree shows all"
        )
    for entry in entries[start:]:
        _recall_one(voice, entry)


def _recall_one(voice: Voice, entry: Entry) -> None:
    payload = entry.payload
    match payload:
        case UserMessage():
            block = block_of_prompt(entry, payload)
            whose = "Shell" if block.kind is Kind.SHELL else "You"
            _say(voice, whose, "\n".join(filter(None, [block.head, block.body])))
        case AssistantMessage():
            for part in payload.content:
                if isinstance(part, Text) and part.text.strip():
                    _say(voice, "Answer", part.text)
                elif isinstance(part, ToolCall | InvalidToolCall):
                    tell_call(voice, part)
        case ToolResultMessage():
            tell_result(voice, payload)
        case _:
            pass


def _say(voice: Voice, whose: str, text: str) -> None:
    voice.write(whose, "\n".join(shortened(text.strip("\n").split("\n"), _MOST_LINES)))
