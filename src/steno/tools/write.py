"""The tool `write`, which creates a file or replaces a file that the model has read."""

from __future__ import annotations

from typing import Annotated, final

from msgspec import Meta, Struct

from steno.messages.call import ToolCall
from steno.messages.tool import ToolDefinition
from steno.ports import CallPreview, Capability, Subject, ToolContext, ToolOutput
from steno.tools.calls import (
    approved_subject,
    call_content,
    call_headline,
    parse_arguments,
)
from steno.tools.cancellable_thread import run_in_cancellable_thread
from steno.tools.file_change import FileChange
from steno.tools.path_subjects import path_subject
from steno.tools.text_file import TextFile, decode_text_file
from steno.tools.workspace import Workspace, run_to_completion


class _WriteArguments(Struct, frozen=True, kw_only=True):
    path: Annotated[
        str,
        Meta(
            description="Path of the file, absolute or relative to the working directory.",
            min_length=1,
        ),
    ]
    content: Annotated[str, Meta(description="The complete content of the file.")]


@final
class WriteTool:
    """Writes whole files of a workspace. A text file retains its encoding and line ends."""

    definition = ToolDefinition.from_type(
        _WriteArguments,
        name="write",
        description=(
            "Write a whole file. Missing folders are created. An existing file is replaced; read it"
            " with read first. To change a part of a file, use edit."
        ),
    )
    capability = Capability.WRITE
    rule_aliases: tuple[str, ...] = ()
    headline = staticmethod(call_headline)
    content = staticmethod(call_content)

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def subjects(self, call: ToolCall) -> tuple[Subject]:
        """Return the real path of the file, which may be protected."""
        path = parse_arguments(call, _WriteArguments).path
        return (path_subject(self._workspace, path, self.capability),)

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return the diff between the current and the new content."""
        arguments = parse_arguments(call, _WriteArguments)
        (subject,) = self.subjects(call)
        written = {"content": arguments.content}
        return await run_in_cancellable_thread(
            lambda: self._change(subject.text, arguments.content).preview(
                arguments.path, replaced={}, written=written
            )
        )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Write the file. Raises ToolFailed, without a change, if that is not possible."""
        arguments = parse_arguments(call, _WriteArguments)
        subject = approved_subject(self, call, context)
        # Only the write has to end before the call returns.
        change = await run_in_cancellable_thread(
            lambda: self._change(subject.text, arguments.content)
        )
        return await run_to_completion(
            lambda: change.apply(self._workspace, may_be_protected=subject.is_protected)
        )

    def _change(self, path: str, content: str) -> FileChange:
        workspace = self._workspace.strict
        if not workspace.exists(path):
            return FileChange.of(path, None, content.encode())
        before = workspace.read_file(path)
        workspace.check_unchanged_since_read(path, before)
        return FileChange.of(path, before, _encode_like(decode_text_file(before), content))


def _encode_like(file: TextFile | None, content: str) -> bytes:
    """Encode content with the encoding, byte order mark and CR LF line ends of a file.

    The result is UTF-8 if the file is empty or not text, or if its encoding lacks a character.
    """
    if file is None or not file.text:
        return content.encode()
    if file.line_end == "\r\n":
        content = content.replace("\r\n", "\n").replace("\n", "\r\n")
    try:
        return file.encode(content)
    except UnicodeEncodeError:
        return content.encode()  # as UTF-8, since the old encoding lacks these characters
