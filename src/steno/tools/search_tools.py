"""The tools `glob` and `grep`, which find files by path and lines by regular expression."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Any, ClassVar, Final, Literal, final

from msgspec import Meta, Struct

from steno.errors import InvalidValue, ToolFailed
from steno.messages.call import ToolCall
from steno.messages.tool import ToolDefinition
from steno.ports import CallPreview, Capability, Subject, ToolContext, ToolOutput
from steno.tools.calls import approved_subject, call_headline, parse_arguments
from steno.tools.cancellable_thread import run_in_cancellable_thread
from steno.tools.path_patterns import asks_for_hidden_names, build_filter_below, printable_name
from steno.tools.path_subjects import path_subject
from steno.tools.search import (
    SEARCH_TIME_LIMIT_S,
    FileMatch,
    PythonEngine,
    SearchEngine,
    SearchRequest,
    check_exists,
    choose_search_engine,
    filter_paths,
)
from steno.tools.text_file import LineReader
from steno.tools.truncate import truncate_output
from steno.tools.workspace import Workspace


class SearchArguments(Struct, frozen=True, kw_only=True):
    """The arguments that `glob` and `grep` have in common."""

    pattern: str
    path: str = "."


class SearchTool:
    """A tool that searches below a path. Deny rules for `read` also apply to it."""

    headline = staticmethod(call_headline)
    definition: ClassVar[ToolDefinition]
    _arguments: ClassVar[type[SearchArguments]]
    _verb: ClassVar[str]

    def __init__(
        self,
        workspace: Workspace,
        *,
        engine: SearchEngine | None = None,
        time_limit_s: float = SEARCH_TIME_LIMIT_S,
    ) -> None:
        """Create the tool; without `engine`, it uses the best engine on this machine."""
        self._workspace = workspace
        self._engine = engine if engine is not None else choose_search_engine(workspace)
        self._time_limit_s = time_limit_s
        self.capability = Capability.READ
        self.rule_aliases: Final = ("read",)

    def subjects(self, call: ToolCall) -> tuple[Subject]:
        """Return the real path of the file or folder to search, which may contain secrets."""
        path = parse_arguments(call, self._arguments).path
        return (path_subject(self._workspace, path, self.capability),)

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return the pattern and the path."""
        arguments = parse_arguments(call, self._arguments)
        place = await asyncio.to_thread(self._workspace.relative, arguments.path)
        return CallPreview.of(
            f"{self._verb} {arguments.pattern} in {place}",
            shown_arguments=("pattern", *(("path",) if arguments.path == place else ())),
        )

    @asynccontextmanager
    async def _time_limit(self, remedy: str) -> AsyncGenerator[None, None]:
        """Raise ToolFailed if the block takes too long; `remedy` names the arguments to narrow."""
        try:
            async with asyncio.timeout(self._time_limit_s):
                yield
        except TimeoutError:
            message = f"the search did not finish within {self._time_limit_s:g} s; narrow {remedy}"
            raise ToolFailed(message, code="search_timeout", place=self.definition.name) from None


@final
class _SearchFilter:
    """Selects the files to search, and counts those that are left out.

    A permission rule excludes files, and files that may contain secrets are left out unless the
    search is for one of them by its path. The counts reveal nothing about the content of files,
    since they are left out before the search. The constructor raises ToolFailed if the pattern is
    invalid.
    """

    def __init__(
        self, under: str, pattern: str, *, workspace: Workspace, context: ToolContext
    ) -> None:
        try:
            self._is_wanted = build_filter_below(under, pattern)
        except InvalidValue as exc:
            raise ToolFailed(exc.message, code=exc.code, place=exc.place) from exc
        self._is_denied = context.is_denied
        self._workspace = workspace
        self._includes_secrets = workspace.policy.is_secret(workspace.real_path(under))
        self.left_out = 0
        self.secrets_left_out = 0

    def __call__(self, name: str) -> bool:
        if not self._is_wanted(name):
            return False
        if self._is_denied(name):
            self.left_out += 1
            return False
        if self._includes_secrets:
            return True
        is_secret = self._workspace.policy.is_secret(self._workspace.real_path(name))
        self.secrets_left_out += is_secret
        return not is_secret

    @property
    def details(self) -> dict[str, int]:
        """The numbers of files that were left out, for the details of the result."""
        return {"left_out": self.left_out, "secrets_left_out": self.secrets_left_out}

    @property
    def notes(self) -> list[str]:
        """Notes for the model with the numbers of files that were left out."""
        notes: list[str] = []
        if self.left_out:
            notes.append(f"[{_count_files(self.left_out)} left out by a permission rule]")
        if count := self.secrets_left_out:
            what = "it" if count == 1 else "they"
            files = _count_files(count)
            notes.append(f"[{files} left out: {what} may contain secrets; `path` can name one]")
        return notes


def _count_files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


async def _build_output(
    lines: list[str],
    empty_text: str,
    notes: list[str],
    details: dict[str, Any],
    context: ToolContext,
) -> ToolOutput:
    if not lines:
        return ToolOutput.of("\n".join([empty_text, *notes]), details=details)
    text = "\n".join([*lines, *notes]) + "\n"
    shown, more = await asyncio.to_thread(truncate_output, text, context)
    return ToolOutput.of(shown, details={**details, **more})


# -- glob -----------------------------------------------------------------------------------------

MAX_FILES: Final = 500


class _GlobArguments(SearchArguments, frozen=True, kw_only=True):
    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            description="Glob pattern. Without a slash, it matches names in any folder (*.py); with"
            " a slash, it matches paths relative to `path` (src/**/*.{ts,tsx}, /*.md). ** matches any"
            " number of folders.",
        ),
    ]
    path: Annotated[str, "Folder to search, absolute or relative to the working directory."] = "."


@final
class GlobTool(SearchTool):
    """Finds files by path. Leaves out hidden files and files that .gitignore excludes."""

    definition = ToolDefinition.from_type(
        _GlobArguments,
        name="glob",
        description=(
            f"Find files by a glob pattern. Returns up to {MAX_FILES} paths, sorted. Files that"
            " .gitignore excludes are left out. Hidden files are left out, unless the pattern"
            " contains a name with a leading dot."
        ),
    )
    _arguments = _GlobArguments
    _verb = "find"

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Search, and list the files up to the limit."""
        arguments = parse_arguments(call, _GlobArguments)
        under = approved_subject(self, call, context).text
        await asyncio.to_thread(check_exists, self._workspace, under)
        search_filter = _SearchFilter(
            under, arguments.pattern, workspace=self._workspace, context=context
        )
        async with self._time_limit("the path or the pattern"):
            hidden = asks_for_hidden_names(arguments.pattern)
            names = await self._engine.files(under, hidden=hidden)
            found = await run_in_cancellable_thread(lambda: filter_paths(search_filter, names))
        limited = len(found) > MAX_FILES
        details = {"files": len(found), "limited": limited, **search_filter.details}
        shown = [*map(printable_name, found[:MAX_FILES])]
        if limited:
            rest = len(found) - MAX_FILES
            more = "1 more file" if rest == 1 else f"{rest:,} more files"
            shown.append(f"[{more}; narrow the pattern or the path]")
        return await _build_output(shown, "no files", search_filter.notes, details, context)


# -- grep -----------------------------------------------------------------------------------------

_MAX_PATTERN_CHARACTERS: Final = 2_000
_MAX_LINE_CHARACTERS: Final = 500
_MAX_COUNTED_LINES: Final = 10_000
_PYTHON_NOTE: Final = "[ripgrep is not installed; the pattern was read as a Python re pattern]"


class _GrepArguments(SearchArguments, frozen=True, kw_only=True):
    pattern: Annotated[
        str,
        Meta(
            min_length=1, description="Regular expression for one line, in the syntax of ripgrep."
        ),
    ]
    path: Annotated[
        str, "File or folder to search, absolute or relative to the working directory."
    ] = "."
    glob: Annotated[
        str | None,
        "Search only files that match this glob pattern: *.py in any folder,"
        " /src/**/*.{ts,tsx} relative to `path`.",
    ] = None
    ignore_case: bool = False
    context: Annotated[
        int, Meta(ge=0, le=20, description="Lines to show before and after each match.")
    ] = 0
    mode: Annotated[
        Literal["content", "files", "count"],
        "content shows the matching lines, files the names of the files with matches, count the"
        " number of matching lines in each file.",
    ] = "content"
    limit: Annotated[
        int,
        Meta(ge=1, le=1000, description="The maximum number of matching lines or files to show."),
    ] = 200


@final
class GrepTool(SearchTool):
    """Finds lines in files. Omits hidden and binary files, and files that .gitignore excludes."""

    definition = ToolDefinition.from_type(
        _GrepArguments,
        name="grep",
        description=(
            "Search the contents of files by a regular expression, line by line. Look-around and"
            " backreferences are not supported. Binary files are left out. Files that .gitignore"
            " excludes are left out, unless `path` names one. Hidden files are left out, unless"
            " `path` names one or `glob` contains a name with a leading dot."
        ),
    )
    _arguments = _GrepArguments
    _verb = "search for"

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Search, and show the matches up to the limit."""
        arguments = parse_arguments(call, _GrepArguments)
        under = approved_subject(self, call, context).text
        await asyncio.to_thread(check_exists, self._workspace, under)
        if len(arguments.pattern) > _MAX_PATTERN_CHARACTERS:
            message = f"the pattern has more than {_MAX_PATTERN_CHARACTERS:,} characters"
            raise ToolFailed(message, code="pattern_too_long", place="pattern")
        glob = "*" if arguments.glob is None else arguments.glob
        search_filter = await asyncio.to_thread(
            _SearchFilter, under, glob, workspace=self._workspace, context=context
        )
        search = SearchRequest(
            pattern=arguments.pattern.replace(
                "\0", r"\x00"
            ),  # arguments of programs cannot contain a NUL
            path=under,
            hidden=asks_for_hidden_names(glob),
            is_wanted=search_filter,
            max_lines=_LINES_TO_FIND[arguments.mode](arguments.limit),
            ignore_case=arguments.ignore_case,
        )
        async with (
            self._time_limit("the path, the glob or the pattern"),
            # Closing the generator ends its helper processes.
            aclosing(self._engine.search(search)) as results,
        ):
            lines, details = await _FORMATTERS[arguments.mode](results, arguments)
        details |= search_filter.details
        notes = search_filter.notes
        if isinstance(self._engine, PythonEngine):
            notes.append(_PYTHON_NOTE)
        return await _build_output(lines, "no matches", notes, details, context)


# The number of lines to find in each file, by mode. `content` finds one line more than it shows, to
# detect whether the limit is exceeded.
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
    limited = False
    async for found in results:
        if numbers := found.lines[:remaining]:
            remaining -= len(numbers)
            files += 1
            shown += [*([""] if shown else []), printable_name(found.name)]
            excerpts = _format_excerpts(found.text, numbers, arguments.context)
            shown += await asyncio.to_thread(list, excerpts)
        if limited := len(numbers) < len(found.lines):
            shown += ["", _limit_note(arguments, "matches")]
            break
    matches = arguments.limit - remaining
    return shown, {"matches": matches, "files": files, "limited": limited}


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


def _format_excerpts(text: bytes, numbers: tuple[int, ...], context: int) -> Iterator[str]:
    """Yield numbered lines: `12:` for a match, `13-` for context, `--` between excerpts."""
    lines = LineReader(text, b"\n")
    matching = frozenset(numbers)
    last = 0
    for number in sorted(
        {line for match in numbers for line in range(match - context, match + context + 1)}
    ):
        line_bytes = lines.read(number)
        if line_bytes is None:
            continue
        if context and last and number > last + 1:
            yield "--"
        line = line_bytes.removesuffix(b"\r").decode(errors="replace")
        if omitted := max(0, len(line) - _MAX_LINE_CHARACTERS):
            line = f"{line[:_MAX_LINE_CHARACTERS]}[... {omitted:,} more characters]"
        yield f"{number}{':' if number in matching else '-'}{line}"
        last = number
