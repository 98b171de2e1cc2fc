"""The tool `edit`, which replaces one occurrence or all occurrences of a text in a file.

The text must match the file exactly. The file retains its encoding, its byte order mark and its
line ends: a line feed from the model matches the line end of the file. If the text is not found,
the error quotes the most similar text in the file.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import count, islice, pairwise
from typing import Annotated, Final, final
from unicodedata import normalize

from msgspec import Meta, Struct

from steno.errors import ToolFailed
from steno.messages.call import ToolCall
from steno.messages.tool import ToolDefinition
from steno.ports import CallPreview, Capability, Subject, ToolContext, ToolOutput
from steno.tools.calls import (
    approved_subject,
    call_content,
    call_headline,
    parse_arguments,
)
from steno.tools.cancellable_thread import check_not_cancelled, run_in_cancellable_thread
from steno.tools.file_change import FileChange
from steno.tools.path_subjects import path_subject
from steno.tools.safe_open import path_error
from steno.tools.text_file import TextFile, decode_text_file, describe_binary
from steno.tools.workspace import MAX_FILE_BYTES, Workspace, run_to_completion

_CRLF: Final = re.compile("\r\n")
_STEPS_PER_CHECK: Final = 1_024
"""The number of short steps between two checks whether the call is cancelled."""


class _EditArguments(Struct, frozen=True, kw_only=True):
    path: Annotated[
        str,
        Meta(
            description="Path of the file, absolute or relative to the working directory.",
            min_length=1,
        ),
    ]
    old: Annotated[
        str,
        Meta(
            description=(
                "The text to replace, exactly as in the file, including indentation. Include enough"
                " of the surrounding lines that it occurs only once."
            ),
            min_length=1,
        ),
    ]
    new: Annotated[str, Meta(description="The text to replace it with.")]
    replace_all: Annotated[
        bool, Meta(description="Replace every occurrence; old need not be unique.")
    ] = False


@final
class EditTool:
    """Replaces text in files of a workspace that the model has read."""

    definition = ToolDefinition.from_type(
        _EditArguments,
        name="edit",
        description=(
            "Replace text in a file. Use it to change a part of a file; use write for a new file or"
            " a complete rewrite. Read the file with read first. old must match the file exactly"
            " and occur only once, unless replace_all is set. Do not include the line numbers that"
            " read shows. Write line ends as plain line feeds; the file keeps its own line ends."
        ),
    )
    capability = Capability.WRITE
    rule_aliases: tuple[str, ...] = ("write",)
    headline = staticmethod(call_headline)
    content = staticmethod(call_content)

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def subjects(self, call: ToolCall) -> tuple[Subject]:
        """Return the real path of the file, which may be protected."""
        path = parse_arguments(call, _EditArguments).path
        return (path_subject(self._workspace, path, self.capability),)

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return the diff that the call would apply."""
        arguments = parse_arguments(call, _EditArguments)
        (subject,) = self.subjects(call)
        replaced, written = {"old": arguments.old}, {"new": arguments.new}
        return await run_in_cancellable_thread(
            lambda: self._change(subject.text, arguments).preview(
                arguments.path, replaced=replaced, written=written
            )
        )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Edit the file. Raises ToolFailed, without a change, if the edit is not possible."""
        arguments = parse_arguments(call, _EditArguments)
        subject = approved_subject(self, call, context)
        # Only the write has to end before the call returns.
        change = await run_in_cancellable_thread(lambda: self._change(subject.text, arguments))
        return await run_to_completion(
            lambda: change.apply(self._workspace, may_be_protected=subject.is_protected)
        )

    def _change(self, path: str, arguments: _EditArguments) -> FileChange:
        workspace = self._workspace.strict
        before = workspace.read_file(path)
        workspace.check_unchanged_since_read(path, before)
        file = decode_text_file(before)
        if file is None:
            message = f"the file is not text but {describe_binary(before)}"
            raise path_error(path, message, code="not_text")
        try:
            after = file.encode(
                replace_text(file, arguments.old, arguments.new, every=arguments.replace_all)
            )
        except UnicodeEncodeError:
            raise ToolFailed(
                f"the encoding of the file, {file.label}, lacks characters of the new text;"
                " use write to rewrite the whole file as UTF-8",
                code="not_encodable",
                place="new",
            ) from None
        return FileChange.of(path, before, after)


def replace_text(file: TextFile, old: str, new: str, *, every: bool = False) -> str:
    """Return the text of a file with `old` replaced by `new`.

    Raises ToolFailed if `old` is not in the file, or occurs several times without `every`, or if
    the result is unchanged or too large.
    """
    text, wanted = _normalize_line_ends(file.text), _normalize_line_ends(old)
    if wanted == _normalize_line_ends(new):
        message = "the new text is the same as the old one; pass a different text"
        raise ToolFailed(message, code="nothing_to_change", place="new")
    first = text.find(wanted)
    if first < 0:
        message = f"the text is not in the file{_nearest_text_hint(file.text, old)}"
        raise ToolFailed(message, code="text_not_found", place="old")
    found = text.count(wanted)
    # `count` ignores overlaps, but `aa` occurs in `aaa` twice.
    if not every and text.find(wanted, first + 1) >= 0:
        positions = islice(_find_occurrences(text, wanted), 10)
        places = [str(text.count("\n", 0, position) + 1) for position in positions]
        listed = ", ".join(places) + (", ..." if found > len(places) else "")
        raise ToolFailed(
            f"the text occurs {max(found, 2)} times in the file (lines {listed}); include more of"
            " the surrounding lines to make it unique, or set replace_all",
            code="text_ambiguous",
            place="old",
        )
    if len(text) + found * (len(new) - len(wanted)) > MAX_FILE_BYTES:
        message = f"the file would have more than {MAX_FILE_BYTES:,} bytes"
        raise ToolFailed(message, code="file_too_large", place="new")
    return _replace_occurrences(file, text, wanted, new=new)


def _replace_occurrences(file: TextFile, text: str, wanted: str, *, new: str) -> str:
    """Return the text of a file with every occurrence of `wanted` replaced by `new`.

    `text` is the text of the file after `_normalize_line_ends`. A line feed in `wanted` also
    matches CR LF.
    """
    # Positions, in the normalized text, of the line feeds that are CR LF in the file.
    pairs = array("Q", _find_line_end_pairs(file.text))
    if not pairs:
        return text.replace(wanted, new)
    with_pairs = _normalize_line_ends(new).replace("\n", "\r\n")
    default_replacement = with_pairs if file.line_end == "\r\n" else new
    result = StringIO(newline="")
    copied = 0
    for position in _find_occurrences(text, wanted):
        start = position + bisect_left(pairs, position)
        end = position + len(wanted) + bisect_left(pairs, position + len(wanted))
        found = file.text[start:end]
        replacement = (
            with_pairs if "\r\n" in found else new if "\n" in found else default_replacement
        )
        result.write(file.text[copied:start])
        result.write(replacement)
        copied = end
    result.write(file.text[copied:])
    return result.getvalue()


def _find_line_end_pairs(text: str) -> Iterator[int]:
    """Yield the positions of CR LF in a text in which each CR LF is one character."""
    for number, found in enumerate(_CRLF.finditer(text)):
        if number % _STEPS_PER_CHECK == 0:
            check_not_cancelled()
        yield found.start() - number


def _find_occurrences(text: str, wanted: str) -> Iterator[int]:
    """Yield the positions of `wanted`, from left to right, without overlaps."""
    position = text.find(wanted)
    for number in count():
        if position < 0:
            return
        if number % _STEPS_PER_CHECK == 0:
            check_not_cancelled()
        yield position
        position = text.find(wanted, position + len(wanted))


def _normalize_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n")


# -- hints -----------------------------------------------------------------------------------

_LINE_NUMBER_PREFIX: Final = re.compile(r"\s*\d+\t")
_LOOKALIKES: Final = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014\u2212", "''\"\"---")
_MAX_SHOWN_LINES: Final = 20
_MAX_COMPARED_LINES: Final = 20_000
_MAX_COMPARED_LINE: Final = 200
"""The number of characters of a line that are compared."""
_MIN_SIMILARITY: Final = 0.5
_MAX_COMPARED_CHARACTERS: Final = 4_000_000
"""The size above which the hint does not search the file for similar text."""
_READ_AGAIN_HINT: Final = "; read the file again and copy the text from it"


def _nearest_text_hint(text: str, old: str) -> str:
    """Return a hint about the text in the file that is most similar to `old`."""
    wanted = _normalize_line_ends(old).strip("\n").split("\n")
    if all(map(_LINE_NUMBER_PREFIX.match, wanted)):
        return "; leave out the line numbers and tabs that read shows before each line"
    size = len(wanted)
    if max(len(text), len(old), text.count("\n") * size) > _MAX_COMPARED_CHARACTERS:
        return _READ_AGAIN_HINT
    lines = text.split("\n")
    known: dict[str, str] = {}  # equal lines become one object, which compares at once
    normalized_lines, wanted_lines = (
        [known.setdefault(line, line) for line in map(_normalize_line, some)]
        for some in (lines, wanted)
    )
    for position in range(len(normalized_lines) - size + 1):
        check_not_cancelled()
        if normalized_lines[position : position + size] == wanted_lines:
            near_lines = lines[position : position + min(size, _MAX_SHOWN_LINES)]
            shown = "\n".join([line.removesuffix("\r") for line in near_lines])
            difference = "differs only in white space, quotes or dashes"
            return f"; the text from line {position + 1} on {difference}:\n{shown}"
    similar = _find_similar_line(max(wanted_lines, key=len), normalized_lines)
    if similar is None:
        return _READ_AGAIN_HINT
    shown = lines[similar].removesuffix("\r")[:500]
    return f"; the most similar line is line {similar + 1}:\n{shown}"


def _find_similar_line(wanted: str, lines: Sequence[str]) -> int | None:
    """Return the position of the most similar line; None if no line is similar.

    Two lines are as similar as the pairs of neighbouring characters that both contain (the Dice
    coefficient), which takes linear time, unlike the comparison in `difflib`.
    """
    wanted_pairs = _character_pairs(wanted)
    best: int | None = None
    similarity = _MIN_SIMILARITY
    for position, line in enumerate(lines[:_MAX_COMPARED_LINES]):
        check_not_cancelled()
        pairs = _character_pairs(line)
        shared = 2 * len(wanted_pairs & pairs) / max(1, len(wanted_pairs) + len(pairs))
        if shared > similarity:
            best, similarity = position, shared
    return best


def _character_pairs(line: str) -> frozenset[str]:
    line = line[:_MAX_COMPARED_LINE]
    return frozenset(map("".join, pairwise(line)))


def _normalize_line(line: str) -> str:
    """Return a line with white space, quotes and dashes normalized."""
    check_not_cancelled()
    return " ".join(normalize("NFKC", line).translate(_LOOKALIKES).split())
