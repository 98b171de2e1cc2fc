"""A change of a file as lines: what comes, what goes, and where. The signs say it without colours."""

from __future__ import annotations

from rich.style import Style
from textual.strip import Strip

from steno.tui.transcript.lines import broken, strip
from steno.tui.transcript.look import Look


def diff_lines(text: str, width: int, look: Look) -> list[Strip]:
    """Return a unified diff as lines; a long one goes on below in the same style."""
    lines: list[Strip] = []
    for line in text.split("\n"):
        style = _style(line, look)
        lines.extend([strip((part, style)) for part in broken(line, width)])
    return lines


def _style(line: str, look: Look) -> Style:
    if line.startswith(("+++ ", "--- ")):
        return look.head
    return {"+": look.added, "-": look.removed, "@": look.hunk}.get(line[:1], look.output)
