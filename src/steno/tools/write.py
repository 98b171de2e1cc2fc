"""The tool `write`: a whole file at once, new or in place of one that the model has read."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, final

from msgspec import Meta, Struct

from steno.call import ToolCall
from steno.ports import Capability, Stage, ToolOutput
from steno.tool import ToolDefinition
from steno.tools.arguments import arguments_of, decided_path
from steno.tools.change import FileChange
from steno.tools.text_file import TextFile, read_text
from steno.tools.workspace import Workspace, finished


class _Arguments(Struct, frozen=True, kw_only=True):
    path: Annotated[
        str, Meta(description="The file, relative to the working folder or absolute.", min_length=1)
    ]
    content: Annotated[str, Meta(description="All that the file is to hold.")]


_DEFINITION: Final = ToolDefinition.from_type(
    _Arguments,
    name="write",
    description=(
        "Write a whole file. Folders that are missing are made. A file that is there already"
        " must have been read before, and is replaced; to change a part of it, use edit."
    ),
)


@final
class WriteTool:
    """Writes files of a workspace; what replaces a text keeps its encoding and line ends."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.definition = _DEFINITION
        self.capability = Capability.WRITE
        self.ruled_as: Final[tuple[str, ...]] = ()

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return the real path."""
        return (self._workspace.relative(arguments_of(call, _Arguments).path),)

    async def preview(self, call: ToolCall) -> str:
        """Return the diff of what is there and what would be."""
        wanted = arguments_of(call, _Arguments)
        (path,) = self.subjects(call)
        return (await asyncio.to_thread(self._change, path, wanted.content)).preview_text

    async def run(self, call: ToolCall, stage: Stage) -> ToolOutput:
        """Write the file, or leave everything as it was. Raises ToolFailed."""
        wanted, path = arguments_of(call, _Arguments), decided_path(self, call, stage)
        return await finished(lambda: self._change(path, wanted.content).apply(self._workspace))

    def _change(self, path: str, content: str) -> FileChange:
        workspace = self._workspace.strict
        if not workspace.exists(path):
            return FileChange.of(path, None, content.encode())
        before = workspace.read_file(path)
        workspace.check_unchanged_since_read(path, before)
        return FileChange.of(path, before, _in_the_way_of(read_text(before), content))


def _in_the_way_of(file: TextFile | None, content: str) -> bytes:
    """Return content as the file had it before: its encoding, its mark, CR LF at line ends."""
    if file is None or not file.text:
        return content.encode()
    if file.line_end == "\r\n":
        content = content.replace("\r\n", "\n").replace("\n", "\r\n")
    try:
        return file.encode(content)
    except UnicodeEncodeError:
        return content.encode()  # what an old encoding has no room for
