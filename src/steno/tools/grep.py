"""The tool `grep`: find lines in files by a regular expression."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Annotated, Any, Final, Literal, final

from msgspec import Meta

from steno.errors import InvalidValue, ToolFailed
from steno.messages.call import ToolCall
from steno.messages.tool import ToolDefinition
from steno.ports import ToolContext, ToolOutput
from steno.tools.arguments import approved_path, parse_arguments
from steno.tools.path_patterns import asks_for_hidden_names, build_filter_below, printable_name
from steno.tools.search import (
    FileMatch,
    PythonEngine,
    SearchArguments,
    SearchFilter,
    SearchRequest,
    SearchTool,
    check_exists,
)
from steno.tools.truncate import truncate_output

_MAX_PATTERN_CHARACTERS: Final = 2_000
_MAX_LINE_CHARACTERS: Final = 500
_MAX_COUNTED_LINES: Final = 10_000
_PYTHON_NOTE: Final = "[ripgrep is not installed; the pattern was taken as Python's re takes it]"


class _GrepArguments(SearchArguments, frozen=True, kw_only=True):
    pattern: Annotated[
        str, Meta(min_length=1, description="Regular expression for one line, as ripgrep takes it.")
    ]
    path: Annotated[str, "File or folder to search."] = "."
    glob: Annotated[
        str | None,
        "Only files like this: *.py in any folder, /src/**/*.{ts,tsx} below path.",
    ] = None
    ignore_case: bool = False
    context: Annotated[
        int, Meta(ge=0, le=20, description="Lines to show before and after each match.")
    ] = 0
    mode: Annotated[
        Literal["content", "files", "count"],
        "Show matching lines, or the names of files, or how many lines match in each.",
    ] = "content"
    limit: Annotated[
        int, Meta(ge=1, le=1000, description="Most matching lines, or files, to show.")
    ] = 200


_DEFINITION: Final = ToolDefinition.from_type(
    _GrepArguments,
    name="grep",
    description=(
        "Search file contents by a regular expression, line by line. Files that .gitignore"
        " names, hidden files and binary files are left out, unless path names one or glob"
        " asks for names with a leading dot. No look-around and no backreferences."
    ),
)


@final
class GrepTool(SearchTool):
    """Finds lines in files. Leaves out what .gitignore names, hidden and binary files."""

    definition = _DEFINITION
    _arguments = _GrepArguments
    _verb = "search for"

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Search, and show the matches up to the limit."""
        arguments, under = parse_arguments(call, _GrepArguments), approved_path(self, call, context)
        await asyncio.to_thread(check_exists, self._workspace, under)
        search = await asyncio.to_thread(_build_search_request, arguments, under)
        search_filter = SearchFilter(search.is_wanted, context.is_denied)
        try:
            async with asyncio.timeout(self._time_limit_s):
                # Closing the generator ends its helper processes.
                async with aclosing(
                    self._engine.search(search._replace(is_wanted=search_filter))
                ) as results:
                    lines, details = await _FORMATTERS[arguments.mode](results, arguments)
        except TimeoutError:
            raise ToolFailed(
                f"not finished after {self._time_limit_s:g} s; narrow the path, the glob or"
                " the pattern",
                code="search_timeout",
                place="grep",
            ) from None
        details |= {"left_out": search_filter.left_out}
        notes = search_filter.notes
        if isinstance(self._engine, PythonEngine):
            notes.append(_PYTHON_NOTE)
        if not lines:
            return ToolOutput.of("\n".join(["no matches", *notes]), details=details)
        text, more = await asyncio.to_thread(
            truncate_output, "\n".join([*lines, *notes]) + "\n", context
        )
        return ToolOutput.of(text, details={**details, **more})


def _build_search_request(arguments: _GrepArguments, path: str) -> SearchRequest:
    """Return the request for the engine. Raises ToolFailed."""
    try:
        is_wanted = (
            _accept_any_name if arguments.glob is None else build_filter_below(path, arguments.glob)
        )
    except InvalidValue as exc:
        raise ToolFailed(exc.message, code=exc.code, place=exc.place) from exc
    if len(arguments.pattern) > _MAX_PATTERN_CHARACTERS:
        raise ToolFailed(
            f"has more than {_MAX_PATTERN_CHARACTERS:,} characters",
            code="pattern_too_long",
            place="pattern",
        )
    return SearchRequest(
        pattern=arguments.pattern.replace("\0", r"\x00"),  # no argument of a program holds a NUL
        path=path,
        hidden=arguments.glob is not None and asks_for_hidden_names(arguments.glob),
        is_wanted=is_wanted,
        max_lines=_LINES_TO_FIND[arguments.mode](arguments.limit),
        ignore_case=arguments.ignore_case,
    )


def _accept_any_name(_: str) -> bool:
    return True


# One more than is shown, to know whether there is more.
_LINES_TO_FIND: Final[dict[str, Callable[[int], int]]] = {
    "content": lambda limit: limit + 1,
    "files": lambda _: 1,
    "count": lambda _: _MAX_COUNTED_LINES,
}


async def _format_content(
    results: AsyncIterator[FileMatch], arguments: _GrepArguments
) -> tuple[list[str], dict[str, Any]]:
    shown: list[str] = []
    remaining = arguments.limit
    files = 0
    async for found in results:
        if not remaining:
            return [*shown, "", _limit_note(arguments, "matches")], _match_details(
                arguments.limit, files, True
            )
        numbers = found.lines[:remaining]
        remaining -= len(numbers)
        files += 1
        shown += [*([""] if shown else []), printable_name(found.name)]
        shown += _format_excerpts(found.text, numbers, arguments.context)
        if len(numbers) < len(found.lines):
            return [*shown, "", _limit_note(arguments, "matches")], _match_details(
                arguments.limit, files, True
            )
    return shown, _match_details(arguments.limit - remaining, files, False)


async def _format_files(
    results: AsyncIterator[FileMatch], arguments: _GrepArguments
) -> tuple[list[str], dict[str, Any]]:
    shown: list[str] = []
    async for found in results:
        if len(shown) == arguments.limit:
            return [*shown, _limit_note(arguments, "files")], {"files": len(shown), "limited": True}
        count = ""
        if arguments.mode == "count":
            count = f":{len(found.lines)}{'+' if len(found.lines) >= _MAX_COUNTED_LINES else ''}"
        shown.append(printable_name(found.name) + count)
    return shown, {"files": len(shown), "limited": False}


_FORMATTERS: Final = {"content": _format_content, "files": _format_files, "count": _format_files}


def _limit_note(arguments: _GrepArguments, noun: str) -> str:
    return f"[more than {arguments.limit} {noun}; narrow the search or raise the limit]"


def _match_details(matches: int, files: int, limited: bool) -> dict[str, Any]:
    return {"matches": matches, "files": files, "limited": limited}


def _format_excerpts(text: bytes, numbers: tuple[int, ...], context: int) -> Iterator[str]:
    """Yield lines with their numbers: `12:` where one matches, `13-` around, `--` between."""
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    matching = frozenset(numbers)
    last = 0
    for number in sorted(
        {line for match in numbers for line in range(match - context, match + context + 1)}
    ):
        if not 1 <= number <= len(lines):
            continue
        if context and last and number > last + 1:
            yield "--"
        yield f"{number}{':' if number in matching else '-'}{_truncate_line(lines[number - 1])}"
        last = number


def _truncate_line(line: bytes) -> str:
    text = line.removesuffix(b"\r").decode(errors="replace")
    if len(text) <= _MAX_LINE_CHARACTERS:
        return text
    return (
        f"{text[:_MAX_LINE_CHARACTERS]}[... {len(text) - _MAX_LINE_CHARACTERS:,} more characters]"
    )
