"""The tool `edit`: one text in a file replaced by another, where there can be no doubt which.

The text must be there word for word. The file keeps its encoding, its byte order mark and its line
ends: a line feed that a model writes stands for whatever ends lines there. Where nothing fits, the
model is told what comes nearest.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Annotated, Final, final
from unicodedata import normalize

from msgspec import Meta, Struct

from steno.call import ToolCall
from steno.errors import ToolFailed
from steno.ports import Capability, Stage, ToolOutput
from steno.tool import ToolDefinition
from steno.tools.arguments import arguments_of, decided_path
from steno.tools.change import FileChange
from steno.tools.descent import quoted
from steno.tools.text_file import TextFile, kind_of, read_text
from steno.tools.workspace import MOST_BYTES, Workspace, finished

_PAIR: Final = re.compile("\r\n")


class _Arguments(Struct, frozen=True, kw_only=True):
    path: Annotated[
        str, Meta(description="The file, relative to the working folder or absolute.", min_length=1)
    ]
    old: Annotated[
        str,
        Meta(
            description=(
                "The text to replace, exactly as it stands in the file, indentation included, and"
                " with enough of the lines around it that it stands there only once."
            ),
            min_length=1,
        ),
    ]
    new: Annotated[str, Meta(description="What is to stand there instead.")]
    replace_all: Annotated[
        bool, Meta(description="Replace it wherever it stands, once or many times.")
    ] = False


_DEFINITION: Final = ToolDefinition.from_type(
    _Arguments,
    name="edit",
    description=(
        "Replace a text in a file by another. Read the file first. The old text must match"
        " exactly and only once, unless replace_all is set; do not include the line numbers"
        " that read shows. Write line ends as plain line feeds: those of the file are kept."
    ),
)


@final
class EditTool:
    """Changes files of a workspace that the model has read."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.definition = _DEFINITION
        self.capability = Capability.WRITE
        self.ruled_as: Final = ("write",)

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return the real path."""
        return (self._workspace.relative(arguments_of(call, _Arguments).path),)

    async def preview(self, call: ToolCall) -> str:
        """Return the diff."""
        wanted = arguments_of(call, _Arguments)
        (path,) = self.subjects(call)
        return (await asyncio.to_thread(self._change, path, wanted)).preview_text

    async def run(self, call: ToolCall, stage: Stage) -> ToolOutput:
        """Change the file, or leave it as it was. Raises ToolFailed."""
        wanted, path = arguments_of(call, _Arguments), decided_path(self, call, stage)
        return await finished(lambda: self._change(path, wanted).apply(self._workspace))

    def _change(self, path: str, wanted: _Arguments) -> FileChange:
        workspace = self._workspace.strict
        before = workspace.read_file(path)
        workspace.check_unchanged_since_read(path, before)
        file = read_text(before)
        if file is None:
            raise ToolFailed(f"{quoted(path)}: is not text but {kind_of(before)}")
        try:
            after = file.encode(replace(file, wanted.old, wanted.new, every=wanted.replace_all))
        except UnicodeEncodeError:
            raise ToolFailed(
                f"new: holds characters that {file.label}, the encoding of the file, has not;"
                " write the whole file instead, and it becomes UTF-8"
            ) from None
        return FileChange.of(path, before, after)


def replace(file: TextFile, old: str, new: str, *, every: bool = False) -> str:
    """Return the text of a file with `new` where `old` stood. Raises ToolFailed."""
    plain, wanted = _plain(file.text), _plain(old)
    if wanted == _plain(new):
        raise ToolFailed("new: is the same as old; there is nothing to change")
    first = plain.find(wanted)
    if first < 0:
        raise ToolFailed(f"old: is not in the file{_nearest(file.text, old)}")
    # From the next character on, since `aa` stands in `aaa` twice.
    if not every and plain.find(wanted, first + 1) >= 0:
        raise ToolFailed(_many(plain, wanted))
    count = plain.count(wanted) if every else 1
    if len(plain) + count * (len(new) - len(wanted)) > MOST_BYTES:
        raise ToolFailed(f"new: the file would have more than {MOST_BYTES:,} bytes")
    return _put(file, plain, wanted, new=new, count=count)


def _many(plain: str, wanted: str) -> str:
    """Say where a text stands that was to stand in one place."""
    places = [_line_of(plain, at) for at in islice(_places(plain, wanted), 10)]
    count = plain.count(wanted)
    listed = ", ".join(map(str, places)) + (", ..." if count > len(places) else "")
    return (
        f"old: stands in the file {max(count, 2)} times (lines {listed}); take in more of"
        " the lines around the one you mean, or set replace_all"
    )


def _put(file: TextFile, plain: str, wanted: str, *, new: str, count: int) -> str:
    """Return the text of a file with `new` in the first places where `wanted` stands.

    Each line feed of what is wanted may stand for CR LF; everything else stands for itself.
    """
    # Where, in the plain text, a line feed stands for two characters.
    pairs = [found.start() - number for number, found in enumerate(_PAIR.finditer(file.text))]
    if not pairs:
        return plain.replace(wanted, new, count)
    with_pairs = _plain(new).replace("\n", "\r\n")
    usual = with_pairs if file.line_end == "\r\n" else new
    parts: list[str] = []
    done = 0
    for at in islice(_places(plain, wanted), count):
        start = at + bisect_left(pairs, at)
        end = at + len(wanted) + bisect_left(pairs, at + len(wanted))
        found = file.text[start:end]
        put = with_pairs if "\r\n" in found else new if "\n" in found else usual
        parts += file.text[done:start], put
        done = end
    return "".join([*parts, file.text[done:]])


def _places(text: str, wanted: str) -> Iterator[int]:
    """Return where a text stands in another, from left to right, none within the one before."""
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + len(wanted))


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")


def _line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


# -- what comes nearest ----------------------------------------------------------------------

_NUMBERED: Final = re.compile(r"\s*\d+\t")
_LOOKALIKES: Final = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014\u2212", "''\"\"---")
_MOST_SHOWN: Final = 20
_MOST_COMPARED: Final = 5_000  # lines, since each is compared letter by letter
_MOST_LOOKED_AT: Final = 4_000_000
"""Characters of a file in which something near is looked for, and lines compared with lines."""
_AGAIN: Final = "; read it again, and copy the text from there"


def _nearest(text: str, old: str) -> str:
    """Say where something stands that is much like `old`; empty if nothing is."""
    lines, wanted = text.split("\n"), _plain(old).strip("\n").split("\n")
    if all(map(_NUMBERED.match, wanted)):
        return "; leave out the line numbers and tabs that read shows before each line"
    size = len(wanted)
    if max(len(text), len(old), len(lines) * size) > _MOST_LOOKED_AT:
        return _AGAIN
    loose, aim = [_loose(line) for line in lines], [_loose(line) for line in wanted]
    for at in range(len(loose) - size + 1):
        if loose[at : at + size] == aim:
            shown = "\n".join(
                line.removesuffix("\r") for line in lines[at : at + size][:_MOST_SHOWN]
            )
            return f", but differs in white space, quotes or dashes from what line {at + 1} has:\n{shown}"
    longest = max(aim, key=len)[:200]
    near = get_close_matches(longest, [line[:200] for line in loose[:_MOST_COMPARED] if line], n=1)
    if not near:
        return _AGAIN
    at = next(i for i, line in enumerate(loose) if line[:200] == near[0])
    return f"; line {at + 1} comes nearest:\n{lines[at].removesuffix(chr(13))[:500]}"


def _loose(line: str) -> str:
    """Return a line without what is easily mistaken."""
    return " ".join(normalize("NFKC", line).translate(_LOOKALIKES).split())
