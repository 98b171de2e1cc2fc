"""The tool `edit`, which replaces one occurrence or all occurrences of a text in a file.

The text must match the file exactly. The file retains its encoding, its byte order mark and its
line ends: a line feed from the model matches the line end of the file. If the text is not found,
the error quotes the most similar text in the file.
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

from steno.errors import ToolFailed
from steno.messages.call import ToolCall
from steno.messages.tool import ToolDefinition
from steno.ports import CallPreview, Capability, Subject, ToolContext, ToolOutput
from steno.tools.calls import (
    approved_subject,
    call_content,
    call_headline,
    parse_arguments,
    path_subject,
)
from steno.tools.file_change import FileChange
from steno.tools.safe_open import path_error
from steno.tools.text_file import TextFile, decode_text_file, describe_binary
from steno.tools.workspace import MAX_FILE_BYTES, Workspace, run_to_completion

_CRLF: Final = re.compile("\r\n")


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
        change = await asyncio.to_thread(self._change, subject.text, arguments)
        return change.preview(
            arguments.path, replaced={"old": arguments.old}, written={"new": arguments.new}
        )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Edit the file. Raises ToolFailed, without a change, if the edit is not possible."""
        arguments = parse_arguments(call, _EditArguments)
        subject = approved_subject(self, call, context)
        return await run_to_completion(
            lambda: self._change(subject.text, arguments).apply(
                self._workspace, may_be_protected=subject.is_protected
            )
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
    count = text.count(wanted)
    # `count` ignores overlaps, but `aa` occurs in `aaa` twice.
    if not every and text.find(wanted, first + 1) >= 0:
        positions = islice(_find_occurrences(text, wanted), 10)
        places = [str(text.count("\n", 0, position) + 1) for position in positions]
        listed = ", ".join(places) + (", ..." if count > len(places) else "")
        raise ToolFailed(
            f"the text occurs {max(count, 2)} times in the file (lines {listed}); include more of"
            " the surrounding lines to make it unique, or set replace_all",
            code="text_ambiguous",
            place="old",
        )
    if len(text) + count * (len(new) - len(wanted)) > MAX_FILE_BYTES:
        message = f"the file would have more than {MAX_FILE_BYTES:,} bytes"
        raise ToolFailed(message, code="file_too_large", place="new")
    return _replace_occurrences(file, text, wanted, new=new)


def _replace_occurrences(file: TextFile, text: str, wanted: str, *, new: str) -> str:
    """Return the text of a file with every occurrence of `wanted` replaced by `new`.

    `text` is the text of the file after `_normalize_line_ends`. A line feed in `wanted` also
    matches CR LF.
    """
    # Positions, in the normalized text, of the line feeds that are CR LF in the file.
    pairs = [found.start() - number for number, found in enumerate(_CRLF.finditer(file.text))]
    if not pairs:
        return text.replace(wanted, new)
    with_pairs = _normalize_line_ends(new).replace("\n", "\r\n")
    default_replacement = with_pairs if file.line_end == "\r\n" else new
    parts: list[str] = []
    copied = 0
    for position in _find_occurrences(text, wanted):
        start = position + bisect_left(pairs, position)
        end = position + len(wanted) + bisect_left(pairs, position + len(wanted))
        found = file.text[start:end]
        replacement = (
            with_pairs if "\r\n" in found else new if "\n" in found else default_replacement
        )
        parts += file.text[copied:start], replacement
        copied = end
    return "".join([*parts, file.text[copied:]])


def _find_occurrences(text: str, wanted: str) -> Iterator[int]:
    """Yield the positions of `wanted`, from left to right, without overlaps."""
    position = text.find(wanted)
    while position >= 0:
        yield position
        position = text.find(wanted, position + len(wanted))


def _normalize_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n")


# -- hints -----------------------------------------------------------------------------------

_LINE_NUMBER_PREFIX: Final = re.compile(r"\s*\d+\t")
_LOOKALIKES: Final = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014\u2212", "''\"\"---")
_MAX_SHOWN_LINES: Final = 20
_MAX_COMPARED_LINES: Final = 5_000  # each line is compared character by character
_MAX_COMPARED_CHARACTERS: Final = 4_000_000
"""The size above which the hint does not search the file for similar text."""
_READ_AGAIN_HINT: Final = "; read the file again and copy the text from it"


def _nearest_text_hint(text: str, old: str) -> str:
    """Return a hint about the text in the file that is most similar to `old`."""
    lines, wanted = text.split("\n"), _normalize_line_ends(old).strip("\n").split("\n")
    if all(map(_LINE_NUMBER_PREFIX.match, wanted)):
        return "; leave out the line numbers and tabs that read shows before each line"
    size = len(wanted)
    if max(len(text), len(old), len(lines) * size) > _MAX_COMPARED_CHARACTERS:
        return _READ_AGAIN_HINT
    normalized_lines = [_normalize_line(line) for line in lines]
    wanted_lines = [_normalize_line(line) for line in wanted]
    for position in range(len(normalized_lines) - size + 1):
        if normalized_lines[position : position + size] == wanted_lines:
            near_lines = lines[position : position + min(size, _MAX_SHOWN_LINES)]
            shown = "\n".join([line.removesuffix("\r") for line in near_lines])
            difference = "differs only in white space, quotes or dashes"
            return f"; the text from line {position + 1} on {difference}:\n{shown}"
    longest = max(wanted_lines, key=len)[:200]
    near = get_close_matches(
        longest, [line[:200] for line in normalized_lines[:_MAX_COMPARED_LINES] if line], n=1
    )
    if not near:
        return _READ_AGAIN_HINT
    position = next(i for i, line in enumerate(normalized_lines) if line[:200] == near[0])
    shown = lines[position].removesuffix("\r")[:500]
    return f"; the most similar line is line {position + 1}:\n{shown}"


def _normalize_line(line: str) -> str:
    """Return a line with white space, quotes and dashes normalized."""
    return " ".join(normalize("NFKC", line).translate(_LOOKALIKES).split())
