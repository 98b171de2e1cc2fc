"""`glob` finds the same files with both engines."""

from __future__ import annotations

import asyncio
import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import InvalidValue, Text, ToolCall
from steno.errors import ToolFailed
from steno.ports import Capability, Subject, Tool, ToolOutput
from steno.tools.path_patterns import asks_for_hidden_names, build_path_filter
from steno.tools.search_tools import MAX_FILES, GlobTool
from steno.tools.workspace import Workspace
from tests.raised_errors import raises_code
from tests.tools.fake_tool_context import FakeToolContext
from tests.tools.search_engines import ENGINES, MakeEngine, ripgrep, write_files

both = pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)


def glob(
    workspace: Workspace, make: MakeEngine, pattern: str, *, time_limit_s: float = 60, **more: Any
) -> ToolOutput:
    made = GlobTool(workspace, engine=make(workspace), time_limit_s=time_limit_s)
    call = ToolCall.create("glob", {"pattern": pattern, **more})
    made.definition.check_arguments(call)
    return asyncio.run(made.run(call, FakeToolContext()))


def text_of(output: ToolOutput) -> str:
    (block,) = output.content
    assert isinstance(block, Text)
    return block.text


NAMES = [
    "a.py",
    "d/b.py",
    "d/e/c.py",
    "d/e/c.js",
    "no.py",
    ".github/ci.yml",
    ".flags",
    "build/a.py",
]


@both
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["a.py", "d/b.py", "d/e/c.py"]),
        ("**/*.py", ["a.py", "d/b.py", "d/e/c.py"]),
        ("/*.py", ["a.py"]),
        ("./*.py", ["a.py"]),
        ("d/**", ["d/b.py", "d/e/c.js", "d/e/c.py"]),
        ("d/*", ["d/b.py"]),
        ("**/e/*.{js,py}", ["d/e/c.js", "d/e/c.py"]),
        ("[ab].py", ["a.py", "d/b.py"]),
        ("[!a].py", ["d/b.py", "d/e/c.py"]),
        ("?.js", ["d/e/c.js"]),
        (".github/**", [".github/ci.yml"]),
        ("**/*.yml", []),
        (".flags", [".flags"]),
        ("{.flags,a.py}", [".flags", "a.py"]),
        ("build/**", []),
    ],
)
@pytest.mark.requirement("S4-13")
def test_files_are_found_by_a_pattern(
    pattern: str, found: list[str], make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(
        folder, {**dict.fromkeys(NAMES, ""), ".git/config": "", ".gitignore": "build/\nno.py"}
    )
    shown = text_of(glob(workspace, make, pattern))
    assert shown == ("".join(f"{name}\n" for name in found) or "no files")


@both
def test_a_pattern_matches_paths_below_the_search_path(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(folder, dict.fromkeys(NAMES, ""))
    assert text_of(glob(workspace, make, "/*.py", path="d")) == "d/b.py\n"
    assert text_of(glob(workspace, make, "e/*", path=str(folder / "d"))) == "d/e/c.js\nd/e/c.py\n"
    assert text_of(glob(workspace, make, "*", path="build")) == "build/a.py\n"


@both
def test_more_files_than_can_be_shown_are_counted(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {f"{number:04}": "" for number in range(MAX_FILES + 3)})
    output = glob(workspace, make, "*")
    assert text_of(output).endswith("0499\n[3 more files; narrow the pattern or the path]\n")
    assert output.details == {
        "files": MAX_FILES + 3,
        "limited": True,
        "left_out": 0,
        "secrets_left_out": 0,
    }


@both
@pytest.mark.parametrize("path", ["..", "/", "link", "link/below"])
def test_nothing_outside_is_named(
    path: str, make: MakeEngine, folder: Path, outside: Path, workspace: Workspace
) -> None:
    (folder / "link").symlink_to(outside)
    with raises_code(ToolFailed, "outside_workspace"):
        glob(workspace, make, "*", path=path)
    assert text_of(glob(workspace, make, "**")) == "no files"
    assert text_of(glob(workspace, make, "../**")) == "no files"


@both
def test_names_that_are_no_text_are_not_named(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    (folder / os.fsdecode(b"caf\xe9")).write_text("x\n")
    write_files(folder, {"a\x1b[31m": "", "b": ""})
    assert text_of(glob(workspace, make, "*")) == "'a\\x1b[31m'\nb\n"


def test_a_search_that_hangs_is_given_up(folder: Path, workspace: Workspace) -> None:
    write_files(folder, {"a": ""})
    os.mkfifo(folder / ".ignore")  # ripgrep would wait for a writer
    with raises_code(ToolFailed, "search_timeout", place="glob"):
        glob(workspace, ripgrep, "*", time_limit_s=0.5)


def test_the_tool_returns_its_subjects(folder: Path, workspace: Workspace) -> None:
    write_files(folder, {"d/a": ""})
    made: Tool = GlobTool(workspace)
    call = ToolCall.create("glob", {"pattern": "*.py", "path": "./d/"})
    assert made.capability is Capability.READ
    assert made.subjects(call) == (Subject(text="d", capability=Capability.READ),)
    assert asyncio.run(made.preview(call)).text == "find *.py in d"


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        *[("{a", "glob_brace_not_closed"), ("a}", "glob_brace_not_open")],
        *[("[a", "glob_class_not_closed"), ("a\\", "glob_trailing_backslash")],
        *[("/", "glob_empty"), ("[b-a]", "glob_range_reversed")],
    ],
)
def test_half_a_pattern_is_refused(pattern: str, code: str, workspace: Workspace) -> None:
    with raises_code(InvalidValue, code, place="glob"):
        build_path_filter(pattern)
    with raises_code(ToolFailed, code, place="glob"):
        glob(workspace, ripgrep, pattern)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 500 + "b", "a" * 4_000),
        ("**/a/" * 100 + "b", "a/" * 2_000 + "c"),
        ("**/*a*a*a*/" * 50 + "b", ("a" * 15 + "/") * 200 + "c"),
        ("{*a*,*b*}" * 8 + "c", "ab" * 2_000),
    ],
)
def test_no_pattern_takes_long_to_match(pattern: str, path: str) -> None:
    """This pattern of a model made a program hang: `*a*a*a*a*a*a*a*a*b`."""
    assert not build_path_filter(pattern)(path)


@pytest.mark.parametrize("pattern", ["a" * 5_000, "{a,b}" * 9, "{a,b}" * 8 + "c" * 100])
def test_a_pattern_of_too_many_parts_is_refused(pattern: str) -> None:
    with raises_code(InvalidValue, "glob_too_complex", place="glob"):
        build_path_filter(pattern)


@given(st.text("ab*?", min_size=1, max_size=8), st.text("ab", max_size=8))
def test_a_name_matches_as_it_does_for_a_shell(pattern: str, name: str) -> None:
    assert build_path_filter(pattern)(name) == fnmatchcase(name, pattern)


@given(
    st.lists(st.sampled_from(["a", "b", "*", "**", "?*"]), min_size=1, max_size=5),
    st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=6),
)
def test_two_stars_are_any_number_of_folders(pattern: list[str], path: list[str]) -> None:
    def matches(parts: list[str], names: list[str]) -> bool:
        if not parts or not names:
            return not parts and not names
        if parts[0] != "**":
            return fnmatchcase(names[0], parts[0]) and matches(parts[1:], names[1:])
        is_last = len(parts) == 1
        return is_last or any(matches(parts[1:], names[n:]) for n in range(len(names)))

    found = build_path_filter("/" + "/".join(pattern))("/".join(path))
    assert found == matches(pattern, path)


def test_a_pattern_is_about_characters_and_not_bytes() -> None:
    assert build_path_filter("?.py")("é.py")
    assert build_path_filter("[à-ü]*")("d/éa")
    assert build_path_filter("a\\*b")("a*b")


@pytest.mark.parametrize(
    ("pattern", "hidden"),
    [
        *[(".env", True), ("**/.env*", True), ("{a,.b}", True), (".github/**", True)],
        *[("*.py", False), ("./a", False), ("../a", False), ("a.b/c.d", False), (".", False)],
    ],
)
def test_a_pattern_reports_whether_it_matches_hidden_names(pattern: str, hidden: bool) -> None:
    assert asks_for_hidden_names(pattern) is hidden
