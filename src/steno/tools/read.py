"""The tool `read`, which returns lines of a text file, an image, or a stored long output."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Final, final

from msgspec import Meta, Struct

from steno.errors import Damaged, Missing, ToolFailed
from steno.messages.call import ToolCall
from steno.messages.content import Image, ImageData
from steno.messages.tool import ToolDefinition
from steno.ports import CallPreview, Capability, PrepareImage, Subject, ToolContext, ToolOutput
from steno.tools.calls import approved_subject, call_headline, parse_arguments
from steno.tools.path_subjects import path_subject
from steno.tools.safe_open import path_error
from steno.tools.text_file import (
    LineReader,
    TextFile,
    decode_text_file,
    describe_binary,
    detect_image_type,
    format_numbered_line,
)
from steno.tools.truncate import BLOB_PREFIX, MAX_OUTPUT_BYTES, MAX_OUTPUT_LINES
from steno.tools.workspace import Workspace

MAX_IMAGE_BYTES: Final = 5 * 1024 * 1024
"""The maximum size of an image; providers reject requests with larger images."""
MAX_LINE_CHARACTERS: Final = 10_000
"""The maximum length of a shown line, which fits into the output even at 4 bytes per character."""
_BLOB_PATH: Final = re.compile(re.escape(BLOB_PREFIX) + "([0-9a-f]{64})")


class _ReadArguments(Struct, frozen=True, kw_only=True):
    path: Annotated[
        str,
        Meta(
            description="Path of the file, absolute or relative to the working directory.",
            min_length=1,
        ),
    ]
    offset: Annotated[int, Meta(description="The first line to read, counted from 1.", ge=1)] = 1
    limit: Annotated[int, Meta(description="The maximum number of lines to read.", ge=1)] = (
        MAX_OUTPUT_LINES
    )
    column: Annotated[
        int,
        Meta(
            description="Column in the first line at which to start reading, counted from 1; for"
            " very long lines.",
            ge=1,
        ),
    ] = 1


@final
class ReadTool:
    """Reads files of a workspace, and records that the model has read them."""

    definition = ToolDefinition.from_type(
        _ReadArguments,
        name="read",
        description=(
            "Read a text file or view an image (PNG, JPEG, GIF, WebP). Read a file before you edit"
            " or overwrite it. Lines are shown as in cat -n: the line number, a tab, the line. The"
            " number and the tab are not part of the file; leave them out when you edit. Long files"
            " are shown in part, with a note on how to read the rest. A path"
            f' "{BLOB_PREFIX}<sha256>" reads the full text of an output that was shown in part.'
        ),
    )
    capability = Capability.READ
    rule_aliases: tuple[str, ...] = ()
    headline = staticmethod(call_headline)

    def __init__(self, workspace: Workspace, *, prepare_image: PrepareImage | None = None) -> None:
        self._workspace = workspace
        self._prepare_image = prepare_image

    def subjects(self, call: ToolCall) -> tuple[Subject]:
        """Return the real path of the file, which may contain secrets, or the name of the blob."""
        path = parse_arguments(call, _ReadArguments).path
        if _BLOB_PATH.fullmatch(path):
            return (Subject(text=path, capability=self.capability),)
        return (path_subject(self._workspace, path, self.capability),)

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return the file and the lines that would be read."""
        arguments, (subject,) = parse_arguments(call, _ReadArguments), self.subjects(call)
        name = subject.text
        if not _BLOB_PATH.fullmatch(arguments.path):
            (await asyncio.to_thread(self._workspace.strict.open_file, name)).close()
        return CallPreview.of(
            f"{name}, up to {arguments.limit} lines from line {arguments.offset}",
            shown_arguments=("offset", "limit", *(("path",) if arguments.path == name else ())),
        )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Read the file.

        Raises ToolFailed if the file is missing or too large, or is neither text nor an image.
        """
        arguments = parse_arguments(call, _ReadArguments)
        name = approved_subject(self, call, context).text
        return await asyncio.to_thread(self._run, arguments, name, context)

    def _run(self, arguments: _ReadArguments, name: str, context: ToolContext) -> ToolOutput:
        if blob_match := _BLOB_PATH.fullmatch(arguments.path):
            try:
                data = context.read_blob(blob_match[1])
            except (Missing, Damaged) as exc:
                raise ToolFailed(str(exc), code=exc.code, place=arguments.path) from exc
            # Decoded as in `truncate_output`, whose note refers to line numbers of this text.
            text = TextFile(data.decode("utf-8", "replace"), "utf-8")
            return _build_output(data, text, arguments, name=name)
        workspace = self._workspace.strict
        data = workspace.read_file(name)
        output = _build_output(
            data, decode_text_file(data), arguments, name=name, prepare_image=self._prepare_image
        )
        workspace.mark_as_read(name, data)
        return output


def _build_output(
    data: bytes,
    text: TextFile | None,
    arguments: _ReadArguments,
    *,
    name: str,
    prepare_image: PrepareImage | None = None,
) -> ToolOutput:
    details: dict[str, Any] = {"path": name, "bytes": len(data)}
    if mime_type := detect_image_type(data):
        image = _prepare_image(data, mime_type, prepare_image, name)
        return ToolOutput(content=(image,), details={**details, "mime_type": mime_type})
    if text is None:
        message = f"the file is not text but {describe_binary(data)} of {len(data):,} bytes"
        raise path_error(arguments.path, message, code="not_text")
    return _build_text_output(text, arguments, details)


def _prepare_image(
    data: bytes, mime_type: str, prepare_image: PrepareImage | None, name: str
) -> Image:
    """Convert an image to a form that models accept.

    Without `prepare_image`, or if the image library is not installed, the image remains unchanged.
    Raises ToolFailed if the image is invalid or too large.
    """
    if prepare_image is not None:
        try:
            return prepare_image(data)
        except ImportError:
            pass
        except ToolFailed as exc:
            raise path_error(name, str(exc), code=exc.code) from exc
    if len(data) > MAX_IMAGE_BYTES:
        raise path_error(
            name,
            f"the image has {len(data):,} bytes, more than the limit of"
            f" {MAX_IMAGE_BYTES:,}; create a smaller copy",
            code="image_too_large",
        )
    return Image(source=ImageData(data), mime_type=mime_type)


def _build_text_output(
    file: TextFile, arguments: _ReadArguments, details: dict[str, Any]
) -> ToolOutput:
    total = file.line_count
    details |= {"encoding": file.label, "lines": total}
    if not total:
        return ToolOutput.of("[the file is empty]", details=details)
    if arguments.offset > total:
        count = "1 line" if total == 1 else f"{total:,} lines"
        message = f"the file has no line {arguments.offset}, only {count}"
        raise path_error(arguments.path, message, code="line_not_found")
    text, last_line = _number_lines(file, total, arguments)
    details |= {"first_line": arguments.offset, "last_line": last_line}
    return ToolOutput.of(text, details=details)


def _number_lines(file: TextFile, total: int, arguments: _ReadArguments) -> tuple[str, int]:
    """Return the requested lines as numbered text, and the number of the last line in the text.

    After the first line, lines that would exceed `MAX_OUTPUT_BYTES` are left out. If the text does
    not reach the end of the file, it ends with a note.
    """
    shown: list[str] = []
    size = 0
    lines = LineReader(file.text, "\n")
    for number in range(arguments.offset, min(arguments.offset + arguments.limit, total + 1)):
        column = arguments.column if not shown else 1
        text = (lines.read(number) or "").removesuffix("\r")
        line = format_numbered_line(number, _truncate_line(text, number, column))
        size += len(line.encode())
        if shown and size > MAX_OUTPUT_BYTES:
            break
        shown.append(line)
    last = arguments.offset + len(shown) - 1
    if last < total:
        shown.append(f"[... {total:,} lines in total; to read the rest: offset {last + 1} ...]\n")
    return "".join(shown), last


def _truncate_line(line: str, number: int, column: int) -> str:
    """Return a line from a column on, truncated to `MAX_LINE_CHARACTERS` with a note."""
    end = column - 1 + MAX_LINE_CHARACTERS
    if end >= len(line):
        return line[column - 1 :]
    omitted = len(line) - end
    next_call = f"offset {number}, limit 1, column {end + 1}"
    return f"{line[column - 1 : end]}[... {omitted:,} more characters; to read the rest: {next_call} ...]"
