"""Say things line by line: whose they are stands in front, and nothing moves or is taken back.

A line that begins at the very left is ours. What models, tools and files have written stands
behind such a beginning, or further right, so that nobody can pass it off as a question of ours.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TextIO, final

from steno.printable import on_one_line, printable, width_of

_INDENT: Final = "  "
_BAR: Final = "│ "
_BOLD: Final = "\x1b[1m"
_PLAIN: Final = "\x1b[0m"
_FEATURELESS: Final = ("", "dumb", "unknown")
_NARROWEST: Final = 20


def has_styles(out: TextIO, environ: Mapping[str, str]) -> bool:
    """Tell whether bold letters can be shown, and nobody minds."""
    is_able = environ.get("TERM", "") not in _FEATURELESS and out.isatty()
    return is_able and not environ.get("NO_COLOR")


@final
class Voice:
    """Prints. Everything is made printable here, and nowhere else."""

    def __init__(self, out: TextIO, environ: Mapping[str, str]) -> None:
        """Take where to print, and what is known of it."""
        self._out = out
        self._is_styled = has_styles(out, environ)
        self._has_width = out.isatty()
        self._typed_line: Callable[[], str] | None = None
        self.is_closed = False
        """Whether nobody listens any more."""

    def write(self, whose: str, text: str = "") -> None:
        """Say whose words these are, and then the words: what is more than a line below it."""
        first, *rest = printable(text).rstrip("\n").split("\n")
        if rest:
            first, rest = "", [first, *rest]
        self._print([*self._with_heading(whose, first), *self._indented(rest)])

    def begin(self, whose: str, line: str) -> None:
        """Say whose words these are, and the first line of them; `more` says the rest."""
        self._print(self._with_heading(whose, printable(line)))

    def write_lines(self, lines: Iterable[str]) -> None:
        """Go on with what was begun; each is a line."""
        self._print(self._indented([printable(line) for line in lines]))

    def quote(self, lines: Iterable[str]) -> None:
        """Repeat what somebody else wrote, with a bar before all of it, however long a line is."""
        width = self._width(len(_BAR))
        self._print([_BAR + part for line in lines for part in _broken(printable(line), width)])

    def write_prompt(self, prompt: str) -> None:
        """Print what is to be answered on the same line; it is ours."""
        self._write("\n".join(_broken(prompt, self._width(1))))

    def end_line(self) -> None:
        """End a line that nobody has ended."""
        self._write("\n")

    def set_typed_line(self, typed: Callable[[], str] | None) -> None:
        """Say what stands on the line on which somebody types, if somebody does.

        What has to be said meanwhile goes below it, and the line is shown again.
        """
        self._typed_line = typed

    def _with_heading(self, whose: str, text: str) -> list[str]:
        head = f"{on_one_line(whose)}:"
        first, *rest = _broken(f"{head} {text}".rstrip(), self._width(len(_INDENT)))
        if self._is_styled and first.startswith(head):
            first = f"{_BOLD}{head}{_PLAIN}{first[len(head) :]}"
        return [first, *[f"{_INDENT}{line}" for line in rest]]

    def _indented(self, lines: Iterable[str]) -> list[str]:
        width = self._width(len(_INDENT))
        return [f"{_INDENT}{part}".rstrip() for line in lines for part in _broken(line, width)]

    def _width(self, taken: int) -> int | None:
        """Return how many columns there are beside those that are taken; None if nobody knows."""
        columns = shutil.get_terminal_size().columns if self._has_width else 0
        return columns - taken if columns >= _NARROWEST else None

    def _print(self, lines: Sequence[str]) -> None:
        text = "".join([f"{line}\n" for line in lines])
        self._write(text if self._typed_line is None else f"\n{text}{self._typed_line()}")

    def _write(self, text: str) -> None:
        if self.is_closed:
            return
        encoding = self._out.encoding or "utf-8"
        try:
            self._out.write(text.encode(encoding, "backslashreplace").decode(encoding))
            self._out.flush()
        except (OSError, ValueError):  # closed at the other end, or at ours
            self.is_closed = True


def _broken(line: str, width: int | None) -> Iterator[str]:
    """Break a line before the terminal does: what it breaks itself has no bar before it.

    That is between words, where there are any; what stood before a word stays where it was.
    """
    if width is None or (width_of(line) <= width and "\t" not in line):
        yield line
        return
    taken, start = 0, 0
    line = line.expandtabs()
    for place, character in enumerate(line):
        wide = width_of(character)
        if taken + wide > width:
            end = line.rfind(" ", start, place) + 1
            if not line[start:end].strip():  # one long word
                end = place
            yield line[start:end]
            taken, start = width_of(line[end:place]), end
        taken += wide
    yield line[start:]


def shortened(lines: Sequence[str], most: int) -> list[str]:
    """Return as many lines as one listens to, from both ends; what is left out is said."""
    if len(lines) <= most:
        return list(lines)
    half = most // 2
    left_out = len(lines) - 2 * half
    return [*lines[:half], f"… {left_out:,} lines are not shown …", *lines[-half:]]
