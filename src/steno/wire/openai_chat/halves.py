"""Characters that a server cut in two."""

from __future__ import annotations

from steno.wire.open import Halves
from steno.wire.openai_chat.shapes import Answer


def restore_halves(payload: bytes, answer: Answer) -> None:
    """Put back half characters that were mended away: their other halves may come next."""
    halves = Halves(payload)
    for number, choice in enumerate(answer.choices):
        delta = choice.delta
        if delta is None:
            continue
        place = ("choices", number, "delta")
        for name in ("content", "reasoning_content", "reasoning"):
            text = halves.text_at(*place, name)
            if text:
                setattr(delta, name, text)
        for position, call in enumerate(delta.tool_calls or ()):
            if call.function is not None:
                text = halves.text_at(*place, "tool_calls", position, "function", "arguments")
                call.function.arguments = text or call.function.arguments
