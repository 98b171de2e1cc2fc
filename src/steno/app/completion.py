"""Completion of typed text: `@...` is a file, folder or resource, `/...` a prompt of a server.

Files that the search tools ignore are omitted: hidden ones, unless the typed text contains a hidden
name, and those in `.gitignore` and similar files. Compiler output is omitted too. In a prompt, a
suggestion refers to exactly the suggested file (`steno.inputs.mentions`).

The lists of servers are cached for a while; a slow server is omitted until it responds. No error of
a server or a file is raised here.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from heapq import nsmallest
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar, final
from weakref import WeakKeyDictionary

from steno.app.commands.table import Suggestion
from steno.app.compose import AgentEnvironment
from steno.app.mcp import prompt_arguments
from steno.errors import ServerFailed, ToolFailed
from steno.inputs.mcp.connection import McpConnection
from steno.inputs.mcp.prompts import McpPrompt, list_mcp_prompts
from steno.inputs.mcp.protocol import ListedResource
from steno.invisible import is_readable, is_visible
from steno.lazy_task import start_task
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.tools.cancellable_thread import run_in_cancellable_thread
from steno.tools.path_patterns import IgnoreRules, asks_for_hidden_names
from steno.tools.search import choose_search_engine
from steno.tools.workspace import Workspace

K = TypeVar("K")
T = TypeVar("T")
MAX_SUGGESTIONS: Final = 50
"""The maximal number of suggestions."""
_MAX_PATHS: Final = 100_000
_LISTING_TIMEOUT_S: Final = 5.0
"""The time limit for listing a workspace; if it is exceeded, only the typed folder is listed."""
_PATH_CACHE_S: Final = 5.0
_PATH_WAIT_S: Final = 2.0
_HOME_PREFIX: Final = "~/"
_BUILD_OUTPUT: Final = re.compile(
    r"(?:^|/)__pycache__(?:/|$)|\.(?:py[cod]|class|o|obj|a|lib|so|dylib|dll|exe|wasm)$"
)
_NEEDS_NO_QUOTES: Final = re.compile(r"(?!@)[\w./+@%=~#&$-]*[\w/+%=~#&$-]")
"""Paths that need no quotes. A path that ends with a dot needs them: the dot may end a sentence."""
_SERVER_CACHE_S: Final = 60.0
_SERVER_WAIT_S: Final = 1.0
_MAX_DESCRIPTION_WIDTH: Final = 80
_TYPEABLE_URI: Final = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*://[^\s`"'<>|@]*[\w/=&%+~#-]""")
"""An address that a prompt can name, without punctuation at its end."""


class _CachedTask(NamedTuple, Generic[T]):
    task: asyncio.Task[tuple[T, ...]]
    since: float


@final
class TimedCache(Generic[K, T]):
    """A cache of the results of a loader, which are loaded again after `max_age_s`.

    A load is awaited for at most `max_wait_s`. If it takes longer, a later call returns its result.
    A result is dropped when its key is garbage collected.
    """

    def __init__(
        self,
        loader: Callable[[K], Coroutine[Any, Any, tuple[T, ...]]],
        *,
        max_age_s: float,
        max_wait_s: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a cache for a loader that raises no exception."""
        self._loader = loader
        self._max_age_s = max_age_s
        self._max_wait_s = max_wait_s
        self._now = now
        self._tasks: WeakKeyDictionary[K, _CachedTask[T]] = WeakKeyDictionary()

    async def get(self, key: K) -> tuple[T, ...]:
        """Return the cached or newly loaded result; an empty tuple while a slow load continues."""
        cached = self._tasks.get(key)
        if cached is None or not self._is_fresh(cached):
            task = start_task(self._loader(key))
            cached = self._tasks[key] = _CachedTask(task, self._now())
        # A cancelled wait does not cancel the load.
        await asyncio.wait({cached.task}, timeout=self._max_wait_s)
        is_answered = cached.task.done() and not cached.task.cancelled()
        return cached.task.result() if is_answered else ()

    def _is_fresh(self, cached: _CachedTask[T]) -> bool:
        if cached.task.get_loop() is not asyncio.get_running_loop() or cached.task.cancelled():
            return False
        return not cached.task.done() or self._now() - cached.since < self._max_age_s


class _PathName(NamedTuple):
    text: str
    """The path, relative to the workspace unless typed otherwise; a folder ends with a slash."""
    folded: str
    steps: tuple[str, ...]
    """The parts of the path, case folded."""


async def complete_path(workspace: Workspace, typed: str) -> list[Suggestion]:
    """Return files and folders for the text after the `@`, the best match first."""
    quote = typed[:1] if typed[:1] in ('"', "'") else ""
    wanted = typed[len(quote) :].removesuffix(quote) if quote else typed.replace("\\ ", " ")
    wanted = wanted.removeprefix("./")
    names: Sequence[_PathName] = ()
    if not wanted.startswith(("/", _HOME_PREFIX)):
        lists = _ALL_PATHS if asks_for_hidden_names(wanted) else _VISIBLE_PATHS
        names = await lists.get(workspace)
    try:
        async with asyncio.timeout(_LISTING_TIMEOUT_S):
            best = await run_in_cancellable_thread(lambda: _best_matches(workspace, names, wanted))
    except TimeoutError:
        return []
    return [candidate for name in best if (candidate := _path_suggestion(name)) is not None]


def _best_matches(workspace: Workspace, names: Sequence[_PathName], wanted: str) -> list[str]:
    matches = _rank_matches(names, wanted) or _rank_matches(_list_folder(workspace, wanted), wanted)
    return [text for *_, text in nsmallest(MAX_SUGGESTIONS, matches)]


# -- listing ----------------------------------------------------------------------------------


async def _list_paths(workspace: Workspace, *, hidden: bool) -> tuple[_PathName, ...]:
    """Return all files and folders; empty if listing fails or takes too long."""
    try:
        async with asyncio.timeout(_LISTING_TIMEOUT_S):
            files = await choose_search_engine(workspace).files(".", hidden=hidden)
    except (TimeoutError, ToolFailed):
        return ()
    return await asyncio.to_thread(_with_folders, files[:_MAX_PATHS])


_VISIBLE_PATHS, _ALL_PATHS = [
    TimedCache(
        partial(_list_paths, hidden=hidden), max_age_s=_PATH_CACHE_S, max_wait_s=_PATH_WAIT_S
    )
    for hidden in (False, True)
]


def _with_folders(files: Iterable[str]) -> tuple[_PathName, ...]:
    """Return the given files, and all folders that contain them."""
    folders: dict[str, None] = {}
    found = [file for file in files if not _BUILD_OUTPUT.search(file)]
    for file in found:
        folder = posixpath.dirname(file)
        while folder and f"{folder}/" not in folders:
            folders[f"{folder}/"] = None
            folder = posixpath.dirname(folder)
    return tuple([_path_name(text) for text in (*folders, *found)])


def _path_name(text: str) -> _PathName:
    folded = text.casefold()
    return _PathName(text, folded, tuple(folded.rstrip("/").split("/")))


def _list_folder(workspace: Workspace, wanted: str) -> list[_PathName]:
    """Return the content of the typed folder; empty if the folder cannot be read."""
    folder, _, last = wanted.rpartition("/")
    typed = f"{folder}/" if "/" in wanted else ""
    real = Path(typed).expanduser() if typed.startswith(_HOME_PREFIX) else workspace.root / typed
    try:
        workspace.relative(str(real))
        ignored = IgnoreRules(workspace, hidden=last.startswith("."))
        with os.scandir(real) as entries:
            return [
                _path_name(f"{typed}{entry.name}{'/' if entry.is_dir() else ''}")
                for entry, _ in zip(entries, range(_MAX_PATHS), strict=False)
                if not ignored.ignores(entry.path, is_folder=entry.is_dir())
                and not _BUILD_OUTPUT.search(entry.name)
            ]
    except (OSError, ToolFailed, RuntimeError):  # RuntimeError: the home folder is unknown
        return []


# -- matching ---------------------------------------------------------------------------------


def _rank_matches(names: Iterable[_PathName], wanted: str) -> list[tuple[int, int, int, str]]:
    """Return the matches: rank, depth, length, and text."""
    folded = wanted.casefold()
    steps = folded.split("/")
    return [
        (rank, len(name.steps), len(name.text), name.text)
        for name in names
        if (rank := _match_rank(name, folded, steps)) is not None
    ]


def _match_rank(name: _PathName, wanted: str, steps: Sequence[str]) -> int | None:
    """Return how well a path matches: 0 is best, None is no match."""
    if not wanted:
        return 0 if len(name.steps) == 1 else None
    if name.folded.startswith(wanted):
        return None if name.folded == wanted and wanted.endswith("/") else 0
    if name.steps[-1].startswith(steps[-1]):
        # Each typed step is the start of a step of the path, in order: s/st/cl is src/steno/cli.
        left = iter(name.steps[:-1])
        if all(any(folder.startswith(step) for folder in left) for step in steps[:-1]):
            return 1
    return 2 if len(steps) == 1 and wanted in name.steps[-1] else None


def _path_suggestion(text: str) -> Suggestion | None:
    """Return the text to type for a path; None if it cannot be typed."""
    is_folder = text.endswith("/")
    if _NEEDS_NO_QUOTES.fullmatch(text):
        return Suggestion(f"@{text}", expects_more=is_folder)
    quote = next((character for character in "\"'" if character not in text), None)
    if quote is None or not is_readable(text):
        return None
    # The quote of a folder stays open, because more of the path may follow.
    return Suggestion(f"@{quote}{text}{'' if is_folder else quote}", expects_more=is_folder)


async def find_completions(environment: AgentEnvironment, typed: str) -> Sequence[Suggestion]:
    """Return completions of text that starts with `@` or `/`, the best match first.

    Other text has no completions.
    """
    servers = tuple(environment.servers)
    sign, rest = typed[:1], typed[1:]
    if sign == "@":
        resources, files = await asyncio.gather(
            _match_resources(servers, rest), complete_path(environment.workspace, rest)
        )
        return [*resources, *files][:MAX_SUGGESTIONS]
    if sign == "/":
        return (await _match_prompts(servers, rest))[:MAX_SUGGESTIONS]
    return ()


# -- resources -------------------------------------------------------------------------------


async def _list_resources(server: McpConnection) -> tuple[ListedResource, ...]:
    try:
        return await server.resources()
    except ServerFailed:
        return ()


_RESOURCE_CACHE: Final = TimedCache(
    _list_resources, max_age_s=_SERVER_CACHE_S, max_wait_s=_SERVER_WAIT_S
)


async def _match_resources(servers: Sequence[McpConnection], typed: str) -> list[Suggestion]:
    """Return the resources whose name `server:uri` starts with the typed text."""
    name, colon, _ = typed.partition(":")
    matching = [
        server
        for server in servers
        if (server.name == name if colon else server.name.startswith(name))
    ]
    if not typed or not matching:
        return []
    lists = await asyncio.gather(*map(_RESOURCE_CACHE.get, matching))
    return [
        candidate
        for server, listed in zip(matching, lists, strict=True)
        for resource in listed
        if (candidate := _resource_suggestion(server.name, resource)) is not None
        and candidate.text[1:].casefold().startswith(typed.casefold())
    ]


def _resource_suggestion(server: str, resource: ListedResource) -> Suggestion | None:
    """Return a resource as the user types it; None if it cannot be typed.

    The suggestion for a template ends before its first brace.
    """
    uri = resource.uri.partition("{")[0] if resource.is_template else resource.uri
    if not is_visible(uri) or (not resource.is_template and not _TYPEABLE_URI.fullmatch(uri)):
        return None
    description = truncate_to_width(
        terminal_line(resource.name or resource.description), _MAX_DESCRIPTION_WIDTH
    )
    return Suggestion(f"@{server}:{uri}", description, expects_more=resource.is_template)


# -- prompts ---------------------------------------------------------------------------------


async def _list_prompts(server: McpConnection) -> tuple[McpPrompt, ...]:
    return (await list_mcp_prompts([server])).prompts  # a server that fails has no prompts


_PROMPT_CACHE: Final = TimedCache(
    _list_prompts, max_age_s=_SERVER_CACHE_S, max_wait_s=_SERVER_WAIT_S
)


async def _match_prompts(servers: Iterable[McpConnection], typed: str) -> list[Suggestion]:
    """Return the prompts whose command starts with the text, then those that contain it."""
    if " " in typed:
        return []
    lists = await asyncio.gather(*map(_PROMPT_CACHE.get, servers))
    wanted = typed.casefold()
    found = [(prompt.command[1:].casefold(), prompt) for prompts in lists for prompt in prompts]
    matching = [(name, prompt) for name, prompt in found if wanted in name]
    matching.sort(key=lambda match: not match[0].startswith(wanted))
    suggestions: list[Suggestion] = []
    for _, prompt in matching:
        texts = filter(None, [prompt_arguments(prompt), terminal_line(prompt.description)])
        description = truncate_to_width(" · ".join(texts), _MAX_DESCRIPTION_WIDTH)
        suggestions.append(
            Suggestion(prompt.command, description, expects_more=bool(prompt.arguments))
        )
    return suggestions
