"""The tool `glob`: find files by a pattern for their paths."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, final

from msgspec import Meta

from steno.errors import InvalidValue, ToolFailed
from steno.messages.call import ToolCall
from steno.messages.tool import ToolDefinition
from steno.ports import ToolContext, ToolOutput
from steno.tools.arguments import approved_path, parse_arguments
from steno.tools.path_patterns import asks_for_hidden_names, build_filter_below, printable_name
from steno.tools.search import (
    SearchArguments,
    SearchFilter,
    SearchTool,
    check_exists,
)
from steno.tools.truncate import truncate_output

MAX_FILES: Final = 500


class _GlobArguments(SearchArguments, frozen=True, kw_only=True):
    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            description="*.py in any folder, src/**/*.{ts,tsx} or /*.md below path. ** is any folders.",
        ),
    ]
    path: Annotated[str, "Folder to search."] = "."


_DEFINITION: Final = ToolDefinition.from_type(
    _GlobArguments,
    name="glob",
    description=(
        f"Find files by a pattern for their paths, sorted, {MAX_FILES} at most. Files that"
        " .gitignore names and hidden files are left out, unless the pattern asks for names"
        " with a leading dot."
    ),
)


@final
class GlobTool(SearchTool):
    """Finds files by name. Leaves out what .gitignore names, and hidden files."""

    definition = _DEFINITION
    _arguments = _GlobArguments
    _verb = "find"

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Search, and list the files up to the limit."""
        arguments, under = parse_arguments(call, _GlobArguments), approved_path(self, call, context)
        await asyncio.to_thread(check_exists, self._workspace, under)
        try:
            search_filter = SearchFilter(
                build_filter_below(under, arguments.pattern), context.is_denied
            )
        except InvalidValue as exc:
            raise ToolFailed(exc.message, code=exc.code, place=exc.place) from exc
        try:
            async with asyncio.timeout(self._time_limit_s):
                hidden = asks_for_hidden_names(arguments.pattern)
                names = await self._engine.files(under, hidden=hidden)
        except TimeoutError:
            raise ToolFailed(
                f"not finished after {self._time_limit_s:g} s; narrow the path",
                code="search_timeout",
                place="glob",
            ) from None
        found = await asyncio.to_thread(
            lambda: [*map(printable_name, filter(search_filter, names))]
        )
        limited = len(found) > MAX_FILES
        details = {"files": len(found), "limited": limited, "left_out": search_filter.left_out}
        if not found:
            return ToolOutput.of("\n".join(["no files", *search_filter.notes]), details=details)
        shown = found[:MAX_FILES]
        if limited:
            shown.append(f"[{len(found) - MAX_FILES:,} more files; narrow the pattern or the path]")
        shown += search_filter.notes
        text, more = await asyncio.to_thread(truncate_output, "\n".join(shown) + "\n", context)
        return ToolOutput.of(text, details={**details, **more})
