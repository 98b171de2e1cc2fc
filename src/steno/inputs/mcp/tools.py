"""Tools of servers as tools of ours.

What a server says of a tool is shown, and not believed: every tool may do anything, unless the
user says that it only reads. Nothing here knows how a server is reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar, final

import msgspec

from steno.call import ToolCall
from steno.errors import InvalidArguments, InvalidTool, InvalidValue, ServerFailed, ToolFailed
from steno.inputs.mcp.content import output_of_call
from steno.inputs.mcp.definitions import cleaned, define, why_not
from steno.inputs.mcp.names import name_of_server
from steno.inputs.mcp.patterns import fits
from steno.inputs.mcp.said import ListedTool, Server
from steno.json_object import encode_json
from steno.ports import Capability, Fit, Stage, ToolOutput
from steno.tool import ToolDefinition

MOST_TOOLS: Final = 128
MOST_BYTES: Final = 256 * 1024
"""How much one server may say about its tools: all of it is sent with every question."""
_MOST_PROGRESS: Final = 500
_LONGEST_PROGRESS: Final = 200
_LONGEST_NAME: Final = 100
_LONGEST_NOTE: Final = 1_000
_MOST_NOTES: Final = 20
_MOST_LOOKED_AT: Final = 1_000

S = TypeVar("S", bound=Server)

_HINTS: Final = (
    ("readOnlyHint", True, "it only reads"),
    ("destructiveHint", True, "it may destroy something"),
    ("destructiveHint", False, "it destroys nothing"),
    ("idempotentHint", True, "calling it again changes nothing more"),
    ("openWorldHint", True, "it reaches out to the world"),
)


@final
class McpTool:
    """A tool of a server (`steno.ports.Tool`). Raises InvalidValue for what no model can be told."""

    def __init__(self, server: Server, listed: ListedTool, *, fit: Fit | None = None) -> None:
        """Take a tool as its server lists it; `fit` makes images fit for a model."""
        self._server = server
        self._listed = listed
        self._fit = fit
        self.definition: Final[ToolDefinition] = define(server.name, listed)
        # Who denies a server means its tools, too.
        self.ruled_as: Final = (name_of_server(server.name),)
        is_reader = any(fits(pattern, listed.name) for pattern in server.read_only_tools)
        self.capability: Final = Capability.READ if is_reader else Capability.EXECUTE

    def __repr__(self) -> str:
        return f"McpTool({self.definition.name}, {self.capability})"

    @property
    def server(self) -> str:
        """The server that it is a tool of."""
        return self._server.name

    @property
    def original_name(self) -> str:
        """What the server calls it; may be anything."""
        return self._listed.name

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return nothing: only the server knows what its arguments mean."""
        return ()

    async def preview(self, call: ToolCall) -> str:
        """Return whose tool it is, the arguments, and what the server says of it."""
        arguments = msgspec.json.format(call.arguments, indent=2)
        lines = [f"{_quoted(self._listed.name)} of the MCP server {self.server}", arguments]
        said = [words for name, value, words in _HINTS if self._listed.hints.get(name) is value]
        if said:
            lines.append(f"The server says that {', and that '.join(said)}. Nobody checked that.")
        return "\n".join(lines)

    async def run(self, call: ToolCall, stage: Stage) -> ToolOutput:
        """Call it. What it says that it is doing is shown meanwhile."""
        try:
            arguments = call.parsed.to_dict()
            called = await self._server.call(
                self._listed.name, arguments, progress=_Progress(stage)
            )
        except (InvalidArguments, ServerFailed) as exc:
            raise ToolFailed(str(exc)) from exc
        made = partial(output_of_call, called, server=self.server, stage=stage, fit=self._fit)
        return await asyncio.to_thread(made)  # images are decoded, and much may be kept


@final
class _Progress:
    """Says on a stage how far a server is, up to a point: some never stop to tell."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._last = ""
        self._left = _MOST_PROGRESS

    def __call__(self, text: str) -> None:
        line = cleaned(" ".join(text.split()), _LONGEST_PROGRESS)
        if line and line != self._last and self._left:
            self._last, self._left = line, self._left - 1
            self._stage.report_output(f"{line}\n")


# -- all of them ---------------------------------------------------------------------------------


class McpTools(NamedTuple):
    """The tools of some servers, and what had to be left out."""

    tools: tuple[McpTool, ...]
    notes: tuple[str, ...]
    """A line each, for people: what is not there, and why."""


async def tools_of(servers: Iterable[Server], *, fit: Fit | None = None) -> McpTools:
    """Ask all servers at once for their tools, in the order of their names.

    `fit` makes images fit for a model. A server that fails has none, and a note says why; so does
    one whose name cannot be told from that of another.
    """
    asked, notes = told_apart(servers)
    return together(await asyncio.gather(*[_tools_of(one, fit=fit) for one in asked]), notes)


def told_apart(servers: Iterable[S]) -> tuple[tuple[S, ...], tuple[str, ...]]:
    """Return the servers in the order of their names, and what to say of those left out."""
    asked: list[S] = []
    notes: list[str] = []
    taken: dict[str, str] = {}
    for server in sorted(servers, key=lambda one: one.name):
        other = taken.setdefault(name_of_server(server.name), server.name)
        if other == server.name and server.name not in [one.name for one in asked]:
            asked.append(server)
        else:
            notes.append(f"mcp {server.name}: rename it, its tools are called as those of {other}")
    return tuple(asked), tuple(notes)


def together(found: Iterable[McpTools], notes: Iterable[str] = ()) -> McpTools:
    """Return what several servers have brought, behind what else there is to know."""
    each = tuple(found)
    return McpTools(
        tuple([tool for some in each for tool in some.tools]),
        (*notes, *[note for some in each for note in some.notes]),
    )


async def _tools_of(server: Server, *, fit: Fit | None) -> McpTools:
    try:
        listed = await server.tools()
    except ServerFailed as exc:
        return McpTools((), (cleaned(str(exc), _LONGEST_NOTE),))
    tools: dict[str, McpTool] = {}
    left_out: list[str] = []
    room = MOST_BYTES
    for position, one in enumerate(sorted(listed, key=lambda tool: tool.name)):
        try:
            if len(tools) == MOST_TOOLS or position >= _MOST_LOOKED_AT:
                raise InvalidTool(f"there are more than {MOST_TOOLS}")
            tool = McpTool(server, one, fit=fit)
            size = _size_of(tool.definition)
            if size > room:
                raise InvalidTool(f"there are more than {MOST_BYTES // 1024} KB about the others")
            if tools.setdefault(tool.definition.name, tool) is not tool:
                raise InvalidTool("another one has this name")
        except InvalidValue as exc:
            left_out.append(f"{_quoted(one.name)}: {why_not(exc)}")
        else:
            room -= size
    return McpTools(tuple(tools.values()), _notes(server.name, left_out))


def _notes(server: str, left_out: Sequence[str]) -> tuple[str, ...]:
    notes = [f"mcp {server}: left out the tool {why}" for why in left_out[:_MOST_NOTES]]
    if more := len(left_out) - len(notes):
        notes.append(f"mcp {server}: left out {more:,} more tools")
    return tuple(notes)


def _size_of(definition: ToolDefinition) -> int:
    return len(definition.description) + len(encode_json(definition.parameters))


def _quoted(name: str) -> str:
    """Return a name from elsewhere as it may stand in a line for people."""
    return f'"{cleaned(" ".join(name.split()), _LONGEST_NAME)}"'
