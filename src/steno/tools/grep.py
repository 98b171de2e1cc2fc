"""The tool that finds lines in files by a regular expression. Where to look is an engine's task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Annotated, Any, Final, Literal, final

from msgspec import Meta

from steno.call import ToolCall
from steno.errors import InvalidValue, ToolFailed
from steno.ports import Stage, ToolOutput
from steno.tool import ToolDefinition
from steno.tools.arguments import arguments_of, decided_path
from steno.tools.globs import below, names_hidden, printable
from steno.tools.patterns import read_pattern
from steno.tools.search import Engine, FileFound, Search, Sieve, check_existing
from steno.tools.searching import TIME_LIMIT_S, SearchTool, Wanted
from steno.tools.truncate import output_of
from steno.tools.workspace import Workspace

_LONGEST_LINE: Final = 500
_MOST_COUNTED: Final = 10_000


class _Arguments(Wanted, frozen=True, kw_only=True):
    pattern: Annotated[
        str, Meta(min_length=1, description="Regular expression for one line, as ripgrep takes it.")
    ]
    path: Annotated[str, "File or folder to search."] = "."
    glob: Annotated[
        str | None, "Only files like this: *.py in any folder, /src/**/*.{ts,tsx} below path."
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
    _Arguments,
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

    _arguments = _Arguments
    _verb = "search for"

    def __init__(
        self,
        workspace: Workspace,
        *,
        engine: Engine | None = None,
        time_limit_s: float = TIME_LIMIT_S,
    ) -> None:
        super().__init__(workspace, _DEFINITION, engine=engine, time_limit_s=time_limit_s)

    async def run(self, call: ToolCall, stage: Stage) -> ToolOutput:
        """Search, and show what was found up to the limit."""
        arguments, under = arguments_of(call, _Arguments), decided_path(self, call, stage)
        await asyncio.to_thread(check_existing, self._workspace, under)
        search = await asyncio.to_thread(_read, arguments, under)
        sieve = Sieve(search.wants, stage.is_denied)
        try:
            async with asyncio.timeout(self._time_limit_s):
                # Closing it is what ends the programs behind it.
                async with aclosing(self._engine.search(search._replace(wants=sieve))) as results:
                    lines, details = await _SHOWN[arguments.mode](results, arguments)
        except TimeoutError:
            raise ToolFailed(
                f"grep: not finished after {self._time_limit_s:g} s; narrow the path, the glob or"
                " the pattern"
            ) from None
        details |= {"left_out": sieve.left_out}
        if not lines:
            return ToolOutput.of("\n".join(["no matches", *sieve.notes]), details=details)
        text, more = await asyncio.to_thread(
            output_of, "\n".join([*lines, *sieve.notes]) + "\n", stage
        )
        return ToolOutput.of(text, details={**details, **more})


def _read(arguments: _Arguments, under: str) -> Search:
    """Make of the arguments what an engine needs. Raises ToolFailed."""
    try:
        pattern = read_pattern(arguments.pattern, ignore_case=arguments.ignore_case)
        wants = _everything if arguments.glob is None else below(under, arguments.glob)
    except InvalidValue as exc:
        raise ToolFailed(str(exc)) from exc
    return Search(
        pattern=pattern,
        under=under,
        hidden=arguments.glob is not None and names_hidden(arguments.glob),
        wants=wants,
        most=_MOST_LINES[arguments.mode](arguments.limit),
    )


def _everything(_: str) -> bool:
    return True


# One more than is shown, to know whether there is more.
_MOST_LINES: Final[dict[str, Callable[[int], int]]] = {
    "content": lambda limit: limit + 1,
    "files": lambda _: 1,
    "count": lambda _: _MOST_COUNTED,
}


async def _show_content(
    results: AsyncIterator[FileFound], arguments: _Arguments
) -> tuple[list[str], dict[str, Any]]:
    shown: list[str] = []
    left = arguments.limit
    files = 0
    async for found in results:
        if not left:
            return [*shown, "", _more(arguments, "matches")], _details(arguments.limit, files, True)
        numbers = found.lines[:left]
        left -= len(numbers)
        files += 1
        shown += [*([""] if shown else []), printable(found.name)]
        shown += _excerpts(found.text, numbers, arguments.context)
        if len(numbers) < len(found.lines):
            return [*shown, "", _more(arguments, "matches")], _details(arguments.limit, files, True)
    return shown, _details(arguments.limit - left, files, False)


async def _show_files(
    results: AsyncIterator[FileFound], arguments: _Arguments
) -> tuple[list[str], dict[str, Any]]:
    shown: list[str] = []
    async for found in results:
        if len(shown) == arguments.limit:
            return [*shown, _more(arguments, "files")], {"files": len(shown), "limited": True}
        count = ""
        if arguments.mode == "count":
            count = f":{len(found.lines)}{'+' if len(found.lines) >= _MOST_COUNTED else ''}"
        shown.append(printable(found.name) + count)
    return shown, {"files": len(shown), "limited": False}


_SHOWN: Final = {"content": _show_content, "files": _show_files, "count": _show_files}


def _more(arguments: _Arguments, what: str) -> str:
    return f"[more than {arguments.limit} {what}; narrow the search or raise the limit]"


def _details(matches: int, files: int, limited: bool) -> dict[str, Any]:
    return {"matches": matches, "files": files, "limited": limited}


def _excerpts(text: bytes, numbers: tuple[int, ...], context: int) -> Iterator[str]:
    """Yield lines with their numbers: `12:` where one matches, `13-` around, `--` between."""
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    matching = frozenset(numbers)
    last = 0
    for number in sorted(
        {near for at in numbers for near in range(at - context, at + context + 1)}
    ):
        if not 1 <= number <= len(lines):
            continue
        if context and last and number > last + 1:
            yield "--"
        yield f"{number}{':' if number in matching else '-'}{_cut(lines[number - 1])}"
        last = number


def _cut(line: bytes) -> str:
    text = line.removesuffix(b"\r").decode(errors="replace")
    if len(text) <= _LONGEST_LINE:
        return text
    return f"{text[:_LONGEST_LINE]}[... {len(text) - _LONGEST_LINE:,} more characters]"
