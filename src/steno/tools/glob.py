"""The tool that finds files by their names. Where to look is an engine's task."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, final

from msgspec import Meta

from steno.call import ToolCall
from steno.errors import InvalidValue, ToolFailed
from steno.ports import Stage, ToolOutput
from steno.tool import ToolDefinition
from steno.tools.arguments import arguments_of, decided_path
from steno.tools.globs import below, names_hidden, printable
from steno.tools.search import Engine, Sieve, check_existing
from steno.tools.searching import TIME_LIMIT_S, SearchTool, Wanted
from steno.tools.truncate import output_of
from steno.tools.workspace import Workspace

MOST_FILES: Final = 500


class _Arguments(Wanted, frozen=True, kw_only=True):
    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            description="*.py in any folder, src/**/*.{ts,tsx} or /*.md below path. ** is any folders.",
        ),
    ]
    path: Annotated[str, "Folder to search."] = "."


_DEFINITION: Final = ToolDefinition.from_type(
    _Arguments,
    name="glob",
    description=(
        f"Find files by a pattern for their paths, sorted, {MOST_FILES} at most. Files that"
        " .gitignore names and hidden files are left out, unless the pattern asks for names"
        " with a leading dot."
    ),
)


@final
class GlobTool(SearchTool):
    """Finds files by name. Leaves out what .gitignore names, and hidden files."""

    _arguments = _Arguments
    _verb = "find"

    def __init__(
        self,
        workspace: Workspace,
        *,
        engine: Engine | None = None,
        time_limit_s: float = TIME_LIMIT_S,
    ) -> None:
        super().__init__(workspace, _DEFINITION, engine=engine, time_limit_s=time_limit_s)

    async def run(self, call: ToolCall, stage: Stage) -> ToolOutput:
        """Search, and name what was found up to the limit."""
        arguments, under = arguments_of(call, _Arguments), decided_path(self, call, stage)
        await asyncio.to_thread(check_existing, self._workspace, under)
        try:
            sieve = Sieve(below(under, arguments.pattern), stage.is_denied)
        except InvalidValue as exc:
            raise ToolFailed(str(exc)) from exc
        try:
            async with asyncio.timeout(self._time_limit_s):
                hidden = names_hidden(arguments.pattern)
                names = await self._engine.files(under, hidden=hidden)
        except TimeoutError:
            raise ToolFailed(
                f"glob: not finished after {self._time_limit_s:g} s; narrow the path"
            ) from None
        found = await asyncio.to_thread(lambda: [*map(printable, filter(sieve, names))])
        limited = len(found) > MOST_FILES
        details = {"files": len(found), "limited": limited, "left_out": sieve.left_out}
        if not found:
            return ToolOutput.of("\n".join(["no files", *sieve.notes]), details=details)
        shown = found[:MOST_FILES]
        if limited:
            shown.append(
                f"[{len(found) - MOST_FILES:,} more files; narrow the pattern or the path]"
            )
        shown += sieve.notes
        text, more = await asyncio.to_thread(output_of, "\n".join(shown) + "\n", stage)
        return ToolOutput.of(text, details={**details, **more})
