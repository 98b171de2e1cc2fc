"""A writer of headings, text and quoted text, line by line.

Lines are wrapped here and not by the terminal, so that every part of a quoted line has a bar.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, TextIO, final

from steno.render.quantities import format_count
from steno.render.terminal_text import display_width, is_dumb_terminal, terminal_line, terminal_text

_INDENT: Final = "  "
_BAR: Final = "│ "
_BOLD: Final = "\x1b[1m"
_RESET: Final = "\x1b[0m"
_MIN_WIDTH: Final = 20


@final
class LineWriter:
    """Writes lines to a terminal or a pipe, after making all text printable."""

    def __init__(self, out: TextIO, environ: Mapping[str, str]) -> None:
        self._out = out
        self._has_width = out.isatty()
        shows_styles = self._has_width and not is_dumb_terminal(environ)
        self._is_styled = shows_styles and not environ.get("NO_COLOR")
        self._typed_line: Callable[[], str] | None = None
        self.is_closed: bool = False
        """Whether the output is closed, by this process or by the reader of a pipe."""

    def write(self, heading: str, text: str = "") -> None:
        """Write a heading and a text; a text of several lines starts below the heading."""
        first, *rest = terminal_text(text).rstrip("\n").split("\n")
        if rest:
            first, rest = "", [first, *rest]
        self._print([*self._with_heading(heading, first), *self._indented(rest)])

    def begin(self, heading: str, line: str) -> None:
        """Write a heading and the first line of a text; `write_lines` writes the other lines."""
        self._print(self._with_heading(heading, terminal_text(line)))

    def write_lines(self, lines: Iterable[str]) -> None:
        """Write further lines of a text."""
        self._print(self._indented([terminal_text(line) for line in lines]))

    def quote(self, lines: Iterable[str], style: str = "") -> None:
        """Write untrusted text with a bar before each line and before each part of a wrapped line.

        `style` is the escape sequence of a colour, for terminals that show colours.
        """
        width = self._width(len(_BAR))
        start, end = (style, _RESET) if style and self._is_styled else ("", "")
        parts = [part for line in lines for part in _break_line(terminal_text(line), width)]
        self._print([f"{start}{_BAR}{part}{end}" for part in parts])

    def write_prompt(self, prompt: str) -> None:
        """Write a prompt; the user types on the same line."""
        self._write("\n".join(_break_line(prompt, self._width(1))))

    def end_line(self) -> None:
        """End an unfinished line."""
        self._write("\n")

    def set_typed_line(self, typed: Callable[[], str] | None) -> None:
        """Set the function that returns the unfinished input line; None if no line is being typed.

        Output is written below the input line, which is then written again.
        """
        self._typed_line = typed

    def _with_heading(self, heading: str, text: str) -> list[str]:
        head = f"{terminal_line(heading)}:"
        first, *rest = _break_line(f"{head} {text}".rstrip(), self._width(len(_INDENT)))
        if self._is_styled and first.startswith(head):
            first = f"{_BOLD}{head}{_RESET}{first[len(head) :]}"
        return [first, *[f"{_INDENT}{line}" for line in rest]]

    def _indented(self, lines: Iterable[str]) -> list[str]:
        width = self._width(len(_INDENT))
        return [f"{_INDENT}{part}".rstrip() for line in lines for part in _break_line(line, width)]

    def _width(self, used: int) -> int | None:
        """Return the number of columns minus `used`; None if unknown or below the minimum width."""
        columns = 0
        if self._has_width:
            fallback = os.terminal_size((80, 24))
            with suppress(OSError, ValueError):  # the stream is closed, or not a real terminal
                fallback = os.get_terminal_size(self._out.fileno())
            columns = shutil.get_terminal_size(fallback).columns
        return columns - used if columns >= _MIN_WIDTH else None

    def _print(self, lines: Sequence[str]) -> None:
        if not lines:
            return
        text = "".join([f"{line}\n" for line in lines])
        self._write(text if self._typed_line is None else f"\n{text}{self._typed_line()}")

    def _write(self, text: str) -> None:
        if self.is_closed:
            return
        encoding = self._out.encoding or "utf-8"
        try:
            self._out.write(text.encode(encoding, "backslashreplace").decode(encoding))
            self._out.flush()
        except (OSError, ValueError):  # the stream is closed, here or at the other end
            self.is_closed = True


def _break_line(line: str, width: int | None) -> Iterator[str]:
    """Yield the parts of a line that fit the width, broken after spaces if possible."""
    if width is None or (display_width(line) <= width and "\t" not in line):
        yield line
        return
    used, start = 0, 0
    line = line.expandtabs()
    for index, character in enumerate(line):
        character_width = display_width(character)
        if used + character_width > width:
            end = line.rfind(" ", start, index) + 1
            if not line[start:end].strip():  # one long word
                end = index
            yield line[start:end]
            used, start = display_width(line[end:index]), end
        used += character_width
    yield line[start:]


def omission_line(count: int) -> str:
    """Return the line that replaces `count` omitted lines."""
    return f"… {format_count(count, 'line', 'lines')} omitted …"
