"""The tool `read`: lines of a text file, an image, or what was kept of a long output."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Final, NamedTuple, final

from msgspec import Meta, Struct

from steno.call import ToolCall
from steno.content import Image, ImageData
from steno.errors import Damaged, Missing, ToolFailed
from steno.ports import Capability, Fit, Stage, ToolOutput
from steno.tool import ToolDefinition
from steno.tools.arguments import arguments_of, decided_path
from steno.tools.descent import quoted
from steno.tools.text_file import TextFile, image_type, kind_of, numbered, read_text
from steno.tools.truncate import BLOB, MOST_BYTES, MOST_LINES
from steno.tools.workspace import Workspace

MOST_IMAGE_BYTES: Final = 5 * 1024 * 1024
"""What providers take; a larger image would only make the next request fail."""
LONGEST_LINE: Final = 10_000
"""In characters, so that one line always fits, whatever it is written in."""
_KEPT: Final = re.compile(re.escape(BLOB) + "([0-9a-f]{64})")


class _Arguments(Struct, frozen=True, kw_only=True):
    path: Annotated[
        str, Meta(description="The file, relative to the working folder or absolute.", min_length=1)
    ]
    offset: Annotated[int, Meta(description="The first line to read, from 1.", ge=1)] = 1
    limit: Annotated[int, Meta(description="How many lines to read.", ge=1)] = MOST_LINES
    column: Annotated[
        int, Meta(description="In the first line, the character to start at, from 1.", ge=1)
    ] = 1


_DEFINITION: Final = ToolDefinition.from_type(
    _Arguments,
    name="read",
    description=(
        "Read a text file or look at an image (PNG, JPEG, GIF, WebP). Lines are shown as in"
        " cat -n: their number, a tab, the line; the number and the tab are not in the file,"
        " so leave them out when you edit. Long files are shown in part, with a note how to"
        f' read on. A path "{BLOB}<sha256>" reads what was left out of a long output.'
        " Read a file before you edit or overwrite it."
    ),
)


@final
class ReadTool:
    """Reads files of a workspace, and remembers that the model has seen them."""

    def __init__(self, workspace: Workspace, *, fit: Fit | None = None) -> None:
        self._workspace = workspace
        self._fit = fit
        self.definition = _DEFINITION
        self.capability = Capability.READ
        self.ruled_as: Final[tuple[str, ...]] = ()

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return the real path, or the name of what was kept."""
        path = arguments_of(call, _Arguments).path
        return (path if _KEPT.fullmatch(path) else self._workspace.relative(path),)

    async def preview(self, call: ToolCall) -> str:
        """Return which lines of which file would be read."""
        wanted, (name,) = arguments_of(call, _Arguments), self.subjects(call)
        if not _KEPT.fullmatch(wanted.path):
            (await asyncio.to_thread(self._workspace.strict.open_file, name)).close()
        return f"{name}, up to {wanted.limit} lines from line {wanted.offset}"

    async def run(self, call: ToolCall, stage: Stage) -> ToolOutput:
        """Read. Raises ToolFailed for what is not there, too large, or neither text nor image."""
        wanted, name = arguments_of(call, _Arguments), decided_path(self, call, stage)
        return await asyncio.to_thread(self._run, wanted, name, stage)

    def _run(self, wanted: _Arguments, name: str, stage: Stage) -> ToolOutput:
        if kept := _KEPT.fullmatch(wanted.path):
            data = _recall(kept[1], stage)
            # The offsets that were told count lines of this text, whatever the bytes look like.
            text = TextFile(data.decode("utf-8", "replace"), "utf-8")
            return _show(data, text, wanted, name=name)
        workspace = self._workspace.strict
        data = workspace.read_file(name)
        output = _show(data, read_text(data), wanted, name=name, fit=self._fit)
        workspace.mark_as_read(name, data)
        return output


def _show(
    data: bytes, text: TextFile | None, wanted: _Arguments, *, name: str, fit: Fit | None = None
) -> ToolOutput:
    details: dict[str, Any] = {"path": name, "bytes": len(data)}
    if mime_type := image_type(data):
        image = _fitted(data, fit, name) or _as_it_is(data, mime_type, name)
        return ToolOutput(content=(image,), details={**details, "mime_type": mime_type})
    if text is None:
        raise ToolFailed(
            f"{quoted(wanted.path)}: is not text but {kind_of(data)} of {len(data):,} bytes"
        )
    return _show_text(text, wanted, details)


def _recall(sha256: str, stage: Stage) -> bytes:
    try:
        return stage.read_blob(sha256)
    except (Missing, Damaged) as exc:
        raise ToolFailed(f"{BLOB}{sha256}: {exc}") from exc


def _fitted(data: bytes, fit: Fit | None, name: str) -> Image | None:
    """Return an image made for the model; None where nothing is there that could do so."""
    if fit is None:
        return None
    try:
        return fit(data)
    except ImportError:
        return None
    except ToolFailed as exc:
        raise ToolFailed(f"{quoted(name)}: {exc}") from exc


def _as_it_is(data: bytes, mime_type: str, name: str) -> Image:
    if len(data) > MOST_IMAGE_BYTES:
        raise ToolFailed(
            f"{quoted(name)}: is an image of {len(data):,} bytes, and no more than"
            f" {MOST_IMAGE_BYTES:,} can be shown; make a smaller one"
        )
    return Image(source=ImageData(data), mime_type=mime_type)


def _show_text(file: TextFile, wanted: _Arguments, details: dict[str, Any]) -> ToolOutput:
    lines = file.lines
    details |= {"encoding": file.label, "lines": len(lines)}
    if not lines:
        return ToolOutput.of("[the file is empty]", details=details)
    if wanted.offset > len(lines):
        count = "1 line" if len(lines) == 1 else f"{len(lines):,} lines"
        raise ToolFailed(f"{quoted(wanted.path)}: has no line {wanted.offset}, only {count}")
    window = _window(lines, wanted)
    details |= {"first_line": wanted.offset, "last_line": window.last_line}
    return ToolOutput.of(window.text, details=details)


class _Window(NamedTuple):
    text: str
    last_line: int


def _window(lines: list[str], wanted: _Arguments) -> _Window:
    """Return the lines that are wanted, numbered, as many as there is room for."""
    shown: list[str] = []
    size = 0
    for number in range(wanted.offset, min(wanted.offset + wanted.limit, len(lines) + 1)):
        column = wanted.column if not shown else 1
        line = numbered(number, _cut(lines[number - 1], number, column))
        size += len(line.encode())
        if shown and size > MOST_BYTES:
            break
        shown.append(line)
    last = wanted.offset + len(shown) - 1
    if last < len(lines):
        shown.append(f"[... {len(lines):,} lines in all; to read on: offset {last + 1} ...]\n")
    return _Window("".join(shown), last)


def _cut(line: str, number: int, column: int) -> str:
    """Return a line from a character on, as much of it as may be shown at once."""
    end = column - 1 + LONGEST_LINE
    if end >= len(line):
        return line[column - 1 :]
    left = len(line) - end
    how = f"offset {number}, limit 1, column {end + 1}"
    return f"{line[column - 1 : end]}[... {left:,} more characters; to read on: {how} ...]"
