"""No pattern, no ignore file and no tree makes a search hang or block the event loop.

The sizes would take hours with a matcher that tries parts of a path again. Steps are counted, and
never measured with a clock.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from steno import InvalidValue, Text, ToolCall
from steno.errors import ToolFailed
from steno.ports import ToolOutput
from steno.tools.cancellable_thread import ThreadCancelled, run_in_cancellable_thread
from steno.tools.path_patterns import (
    IgnoreRules,
    build_path_filter,
    compile_glob,
    parse_ignore_file,
)
from steno.tools.search import PythonEngine, RipgrepEngine, SearchEngine, find_ripgrep
from steno.tools.search_tools import GlobTool, GrepTool
from steno.tools.workspace import Workspace
from tests.raised_errors import raises_code
from tests.tools.fake_tool_context import FakeToolContext
from tests.tools.search_engines import ENGINES, MakeEngine, files_of, write_files

pytestmark = pytest.mark.requirement("P-37")

BOUND_S: Final = 60.0


def count_calls(work: Callable[[], object]) -> int:
    """Return the number of calls of Python functions while work runs."""
    calls = 0

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def stars(size: int) -> tuple[str, str]:
    return "*a" * size + "b", "a" * 2 * size


def questions(size: int) -> tuple[str, str]:
    return "*?" * size + "b", "a" * 2 * size


def classes(size: int) -> tuple[str, str]:
    return "*[a-c]" * size + "b", "a" * 2 * size


def folders(size: int) -> tuple[str, str]:
    return "**/a/" * size + "b", "a/" * 2 * size + "c"


def folders_of_stars(size: int) -> tuple[str, str]:
    return "**/*a*a*/" * size + "b", "aaa/" * size + "b"


def one_run_of_folders(size: int) -> tuple[str, str]:
    return "**/" + "*/" * size + "b/b", "a/" * 2 * size + "b"


def alternatives(size: int) -> tuple[str, str]:
    return "{**/a,**/*a*b,a/**/c}" + "/**/*a*" * size + "/b", "aa/" * 2 * size + "b"


SHAPES: Final = [
    stars,
    questions,
    classes,
    folders,
    folders_of_stars,
    one_run_of_folders,
    alternatives,
]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_steps_of_a_match_are_at_most_pattern_times_path(
    shape: Callable[[int], tuple[str, str]],
) -> None:
    for size in (20, 40, 80):
        pattern, path = shape(size)
        matches = compile_glob(pattern)
        assert count_calls(lambda: matches(path)) <= 2 * len(pattern) * len(path)  # noqa: B023


@pytest.mark.parametrize(
    "pattern",
    [
        "{" * 1_000 + "a" + "}" * 1_000,
        "{a,b}" * 8 + "{" * 1_000 + "a" * 70 + "}" * 1_000,
        "{a," * 200 + "b" + "}" * 200,
        "[" * 2_000 + "]",
        "[a-é]" * 800,
        "{a,b}" * 6 + "[a-é]" * 300,
        "**/" * 1_300,
        "**" * 2_000,
        "\\a" * 2_000,
        "[!" + "a-z" * 1_300 + "]",
    ],
)
def test_a_pattern_of_any_shape_is_read_in_bounded_steps(pattern: str) -> None:
    def read() -> None:
        try:
            build_path_filter(pattern)
        except InvalidValue as exc:
            assert exc.code in ("glob_too_complex", "glob_range_reversed")  # noqa: PT017

    assert count_calls(read) < 200_000


def test_many_matches_of_hostile_patterns_end() -> None:
    """4,096 characters of pattern against 10,000 long paths."""
    paths = ["a" * 120 + "/" + "ab" * 60 + f"/{number:040}" for number in range(10_000)]
    for pattern in ("*a" * 2_040 + "b", "**/*a*b*/" * 400 + "c", "{*a,*b}" * 8 + "/x"):
        matches = build_path_filter(pattern)
        assert not any(map(matches, paths))


def test_rules_of_a_stranger_decide_in_linear_time(workspace: Workspace, folder: Path) -> None:
    text = "".join([f"{'*a' * 20}b{number}\n" for number in range(20_000)])
    write_files(
        folder, {".git/HEAD": "", ".gitignore": text, **{f"{'a' * 200}{n}": "" for n in range(20)}}
    )
    assert len(files_of(workspace, PythonEngine)) == 20


def test_too_many_ignore_rules_are_refused(workspace: Workspace, folder: Path) -> None:
    for number in range(3):
        rules = "".join([f"{line:x}\n" for line in range(40_000)])
        write_files(folder, {f"d{number}/.ignore": rules, f"d{number}/x.py": ""})
    with raises_code(ToolFailed, "too_many_ignore_rules", place="search"):
        files_of(workspace, PythonEngine)


def test_an_ignore_file_that_is_too_large_is_skipped(workspace: Workspace, folder: Path) -> None:
    write_files(folder, {".ignore": "*.py\n" + "#" * 2_000_000, "a.py": ""})
    assert files_of(workspace, PythonEngine) == ["a.py"]


@pytest.mark.parametrize("name", [".ignore", ".gitignore", ".rgignore"])
def test_an_ignore_file_that_is_a_pipe_is_skipped(
    name: str, workspace: Workspace, folder: Path
) -> None:
    write_files(folder, {".git/HEAD": "", "a.py": ""})
    os.mkfifo(folder / name)
    assert files_of(workspace, PythonEngine) == ["a.py"]


def test_an_ignore_file_above_the_workspace_that_is_a_pipe_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.py").touch()
    os.mkfifo(tmp_path / ".ignore")
    assert files_of(Workspace(tmp_path / "inner"), PythonEngine) == ["a.py"]


def test_folders_that_are_nested_very_deeply_end(workspace: Workspace, folder: Path) -> None:
    inner = os.open(folder, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=inner)
        below = os.open("d", os.O_RDONLY, dir_fd=inner)
        os.close(inner)
        inner = below
    os.close(inner)
    write_files(folder, {"a.py": ""})
    for make in ENGINES.values():
        assert files_of(workspace, make) == ["a.py"]


def test_a_tree_with_too_many_files_is_refused(workspace: Workspace, folder: Path) -> None:
    write_files(folder, {f"{number}.py": "" for number in range(12)})
    program = find_ripgrep()
    assert program is not None
    engines: list[SearchEngine] = [
        RipgrepEngine(workspace, program, max_files=11),
        PythonEngine(workspace, max_files=11),
    ]
    for engine in engines:
        with raises_code(ToolFailed, "search_too_large", place="search"):
            asyncio.run(engine.files(".", hidden=False))


# -- stopping ---------------------------------------------------------------------------------


def stop_in(work: Callable[[], object]) -> None:
    """Run work in a thread, cancel its task, and wait for the end of the thread."""
    started, ended = threading.Event(), threading.Event()
    outcome: list[BaseException] = []

    def observed() -> None:
        started.set()
        try:
            work()
        except BaseException as exc:
            outcome.append(exc)
            raise
        finally:
            ended.set()

    async def cancel() -> None:
        task = asyncio.ensure_future(run_in_cancellable_thread(observed))
        await asyncio.to_thread(started.wait, BOUND_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert ended.wait(BOUND_S)
    assert [type(exc) for exc in outcome] == [ThreadCancelled]


def test_matching_ends_when_its_task_is_cancelled() -> None:
    matches = build_path_filter("**/*a*b*/" * 400 + "c")

    def match_forever() -> None:
        while True:
            matches("ab/" * 1_000 + "c")

    stop_in(match_forever)


def test_reading_ignore_files_ends_when_its_task_is_cancelled() -> None:
    data = b"*.py\n" * 1_000

    def parse_forever() -> None:
        while True:
            parse_ignore_file(data)

    stop_in(parse_forever)


def test_deciding_about_paths_ends_when_its_task_is_cancelled(workspace: Workspace) -> None:
    rules = IgnoreRules(workspace)

    def decide_forever() -> None:
        while True:
            rules.ignores(str(workspace.root / "a"), is_folder=False)

    stop_in(decide_forever)


def test_walking_ends_when_its_task_is_cancelled(workspace: Workspace, folder: Path) -> None:
    write_files(folder, {f"{number}": "" for number in range(50)})

    def walk_forever() -> None:
        while True:
            assert list(workspace.files())

    stop_in(walk_forever)


class HangingContext(FakeToolContext):
    """A context whose rules are as slow as any rule could be."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()

    def is_denied(self, subject: str) -> bool:
        self.release.wait(BOUND_S)
        return False


@pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("tool", [GlobTool, GrepTool])
def test_the_time_limit_covers_matching_too(
    tool: type[GlobTool] | type[GrepTool], make: MakeEngine, workspace: Workspace, folder: Path
) -> None:
    """The limit once ended with the list of files, before the pattern was matched."""
    write_files(folder, {"a": "x"})
    context = HangingContext()
    made = tool(workspace, engine=make(workspace), time_limit_s=0.2)
    call = ToolCall.create(made.definition.name, {"pattern": "*" if tool is GlobTool else "x"})

    async def search_and_release() -> None:
        try:
            with raises_code(ToolFailed, "search_timeout", place=made.definition.name):
                await made.run(call, context)
        finally:
            context.release.set()

    asyncio.run(search_and_release())


def test_the_event_loop_runs_while_patterns_are_matched(workspace: Workspace, folder: Path) -> None:
    """The matcher waits for the loop: a search that blocked the loop would never end."""
    write_files(folder, {"a": ""})
    seen = threading.Event()

    class WaitingContext(FakeToolContext):
        def is_denied(self, subject: str) -> bool:
            return not seen.wait(BOUND_S)

    async def run() -> ToolOutput:
        asyncio.get_running_loop().call_later(0.01, seen.set)
        tool = GlobTool(workspace, engine=PythonEngine(workspace), time_limit_s=BOUND_S)
        return await tool.run(ToolCall.create("glob", {"pattern": "*"}), WaitingContext())

    assert asyncio.run(run()).content == (Text("a\n"),)
    assert seen.is_set()


def test_lines_of_a_hostile_file_are_read_without_a_list_of_them(
    workspace: Workspace, folder: Path
) -> None:
    """A text of line feeds alone."""
    write_files(folder, {"a": b"\n" * 3_000_000 + b"x\n" + b"\n" * 1_000_000})
    for make in ENGINES.values():
        made = GrepTool(workspace, engine=make(workspace), time_limit_s=BOUND_S)
        call = ToolCall.create("grep", {"pattern": "x", "context": 1})
        output = asyncio.run(made.run(call, FakeToolContext()))
        (block,) = output.content
        assert isinstance(block, Text)
        assert "\n3000000-\n3000001:x\n3000002-\n" in block.text
