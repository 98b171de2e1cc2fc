"""Truncate long output for a model to its beginning and its end.

The result is always a prefix and a suffix of the text, with a marker between them. The text is cut
between lines where lines are short enough, and never inside a character. The whole output is stored
as a blob through the `ToolContext`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from steno.ports import ToolContext
from steno.values import replace_lone_surrogates

MAX_OUTPUT_LINES: Final = 2_000
MAX_OUTPUT_BYTES: Final = 50_000
"""The maximum size of the output that a model receives; about 12,000 tokens."""
_MAX_CHARACTER_BYTES: Final = 4
"""The maximum length of a character in UTF-8."""
BLOB_PREFIX: Final = "blob:"
"""The prefix of a path that names a blob and not a file: `blob:<sha256>`."""


class TruncatedText(NamedTuple):
    """A text within the limits, and the number of lines and bytes that were left out."""

    text: str
    left_out_lines: int
    """The number of lines that are missing or incomplete."""
    left_out_bytes: int


def truncate_text(
    text: str, *, max_lines: int = MAX_OUTPUT_LINES, max_bytes: int = MAX_OUTPUT_BYTES
) -> TruncatedText:
    """Truncate a long text to its beginning and its end, with a line between them.

    The line states how much was left out. It does not count towards the limits.
    """
    cut = _truncate_middle(text.encode(), max_lines=max_lines, max_bytes=max_bytes)
    if cut is None:
        return TruncatedText(text, 0, 0)
    return TruncatedText(cut.with_marker(), cut.lines, cut.bytes)


def is_short(text: str) -> bool:
    """Return whether a text is certainly within the default limits, without encoding it."""
    return (
        len(text) * _MAX_CHARACTER_BYTES <= MAX_OUTPUT_BYTES and text.count("\n") < MAX_OUTPUT_LINES
    )


def truncate_output(
    output: str | bytes,
    context: ToolContext,
    *,
    max_lines: int = MAX_OUTPUT_LINES,
    max_bytes: int = MAX_OUTPUT_BYTES,
) -> tuple[str, dict[str, Any]]:
    """Return the part of an output that the model sees, and details about the whole output.

    If a part is left out, the whole output is stored as a blob, the text explains how to read it,
    and the details are `full_output` (a SHA-256), `lines` and `bytes`. If nothing is left out, the
    details are empty. Storing the blob may block.
    """
    data = output if isinstance(output, bytes) else replace_lone_surrogates(output).encode()
    text = data.decode("utf-8", "replace")
    cut = _truncate_middle(text.encode(), max_lines=max_lines, max_bytes=max_bytes)
    if cut is None:
        return text, {}
    sha256 = context.put_blob(data)
    # The first line and character that are not shown, counted from 1.
    first_line = cut.head.count(b"\n") + 1
    first_column = len(cut.head[cut.head.rfind(b"\n") + 1 :].decode()) + 1
    column = f", column {first_column}" if first_column > 1 else ""
    hint = f'; to read the rest, call read with path "{BLOB_PREFIX}{sha256}", offset {first_line}{column}'
    details = {"full_output": sha256, "lines": _count_lines(data), "bytes": len(data)}
    return cut.with_marker(hint), details


class _Truncation(NamedTuple):
    head: bytes
    tail: bytes
    lines: int
    """The number of lines that are left out between head and tail."""
    bytes: int
    """The number of bytes that are left out between head and tail."""

    def with_marker(self, hint: str = "") -> str:
        """Return the head and the tail, with a line between them that describes the gap."""
        lines = "1 line" if self.lines == 1 else f"{self.lines:,} lines"
        marker = f"[... {lines} ({self.bytes:,} bytes) left out here{hint} ...]\n"
        head, tail = self.head.decode(), self.tail.decode()
        line_end = "" if not head or head.endswith("\n") else "\n"
        return f"{head}{line_end}{marker}{tail}"


def _truncate_middle(data: bytes, *, max_lines: int, max_bytes: int) -> _Truncation | None:
    """Cut the middle out of a text with too many lines or bytes; None if the text fits."""
    if len(data) <= max_bytes and _count_lines(data) <= max_lines:
        return None
    head = _head_length(data, max_lines - max_lines // 2, max_bytes - max_bytes // 2)
    tail = _tail_start(data, max_lines // 2, max_bytes // 2, head)
    return _Truncation(data[:head], data[tail:], _count_lines(data[head:tail]), tail - head)


def _count_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def _head_length(data: bytes, max_lines: int, max_bytes: int) -> int:
    """Return the position at which the head ends.

    The head ends after a line, or inside a line that is too long.
    """
    end = 0
    for _ in range(max_lines):
        line_end = data.find(b"\n", end, max_bytes) + 1
        if not line_end:
            end_limit = min(max_bytes, len(data))
            return end if end * 2 >= max_bytes else _character_start(data, end_limit)
        end = line_end
    return end


def _tail_start(data: bytes, max_lines: int, max_bytes: int, head: int) -> int:
    """Return the position at which the tail begins, which is never before the end of the head.

    The tail begins with a line, or inside a line that is too long.
    """
    first_allowed = max(head, len(data) - max_bytes)
    start = len(data)
    for _ in range(max_lines):
        line_start = data.rfind(b"\n", first_allowed, max(start - 1, first_allowed)) + 1
        if not line_start:
            if (len(data) - start) * 2 >= max_bytes:
                return start
            return _character_start(data, first_allowed, forward=True)
        start = line_start
    return start


def _character_start(data: bytes, at: int, *, forward: bool = False) -> int:
    """Return the last position up to `at` that is not inside a UTF-8 character.

    With `forward`, return the first such position from `at` on.
    """
    while 0 < at < len(data) and data[at] & 0b1100_0000 == 0b1000_0000:
        at += 1 if forward else -1
    return at
