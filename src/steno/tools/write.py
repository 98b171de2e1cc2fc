"""The tool `write`: write a whole file, new or in place of one that the model has read."""

from __future__ import annotations

import asyncio
from typing import Annotated, final

from msgspec import Meta, Struct

from steno.messages.call import ToolCall
from steno.messages.tool import ToolDefinition
from steno.ports import CallPreview, Capability, ToolContext, ToolOutput
from steno.tools.calls import approved_path, call_content, call_headline, parse_arguments
from steno.tools.file_change import FileChange
from steno.tools.text_file import TextFile, decode_text_file
from steno.tools.workspace import Workspace, run_to_completion


class _WriteArguments(Struct, frozen=True, kw_only=True):
    path: Annotated[
        str, Meta(description="The file, relative to the working folder or absolute.", min_length=1)
    ]
    content: Annotated[str, Meta(description="All that the file is to hold.")]


@final
class WriteTool:
    """Writes files of a workspace; what replaces a text keeps its encoding and line ends."""

    definition = ToolDefinition.from_type(
        _WriteArguments,
        name="write",
        description=(
            "Write a whole file. Folders that are missing are made. A file that is there already"
            " must have been read before, and is replaced; to change a part of it, use edit."
        ),
    )
    capability = Capability.WRITE
    rule_aliases: tuple[str, ...] = ()
    headline = staticmethod(call_headline)
    content = staticmethod(call_content)

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return the real path."""
        return (self._workspace.relative(parse_arguments(call, _WriteArguments).path),)

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return the diff of what is there and what would be."""
        arguments = parse_arguments(call, _WriteArguments)
        (path,) = self.subjects(call)
        change = await asyncio.to_thread(self._change, path, arguments.content)
        return change.preview(arguments.path, replaced={}, written={"content": arguments.content})

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Write the file, or leave everything as it was. Raises ToolFailed."""
        arguments, path = parse_arguments(call, _WriteArguments), approved_path(self, call, context)
        return await run_to_completion(
            lambda: self._change(path, arguments.content).apply(self._workspace)
        )

    def _change(self, path: str, content: str) -> FileChange:
        workspace = self._workspace.strict
        if not workspace.exists(path):
            return FileChange.of(path, None, content.encode())
        before = workspace.read_file(path)
        workspace.check_unchanged_since_read(path, before)
        return FileChange.of(path, before, _encode_like(decode_text_file(before), content))


def _encode_like(file: TextFile | None, content: str) -> bytes:
    """Return content as the file had it before: its encoding, its mark, CR LF at line ends."""
    if file is None or not file.text:
        return content.encode()
    if file.line_end == "\r\n":
        content = content.replace("\r\n", "\n").replace("\n", "\r\n")
    try:
        return file.encode(content)
    except UnicodeEncodeError:
        return content.encode()  # what an old encoding has no room for
