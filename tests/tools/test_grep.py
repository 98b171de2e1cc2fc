"""`grep` finds the same lines with both engines, whatever the pattern and the file."""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from steno import JsonObject, Text, ToolCall
from steno.errors import ToolFailed
from steno.ports import Capability, Subject, Tool, ToolOutput
from steno.tools.search import PythonEngine, SearchRequest, choose_search_engine, find_ripgrep
from steno.tools.search_tools import GrepTool
from steno.tools.workspace import Workspace
from tests.raised_errors import raises_code
from tests.tools.fake_tool_context import FakeToolContext
from tests.tools.search_engines import (
    ENGINES,
    MakeEngine,
    lines_of,
    ripgrep,
    without_note,
    write_files,
)

both = pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)


def grep(
    workspace: Workspace, make: MakeEngine, pattern: str, *, time_limit_s: float = 60, **more: Any
) -> ToolOutput:
    made = GrepTool(workspace, engine=make(workspace), time_limit_s=time_limit_s)
    call = ToolCall.create("grep", {"pattern": pattern, **more})
    made.definition.check_arguments(call)
    return asyncio.run(made.run(call, FakeToolContext()))


def text_of(output: ToolOutput) -> str:
    """Return the text, without the note that ripgrep is not installed."""
    (block,) = output.content
    assert isinstance(block, Text)
    return without_note(block.text)


# -- what a model sees -----------------------------------------------------------------------


@both
@pytest.mark.requirement("S4-13")
def test_matching_lines_are_shown_below_the_name_of_their_file(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(
        folder, {"b.py": "def b():\n    pass\n", "a/x.py": "#\ndef a():", "c.txt": "nothing"}
    )
    output = grep(workspace, make, r"^def \w+\(")
    assert text_of(output) == "a/x.py\n2:def a():\n\nb.py\n1:def b():\n"
    assert output.details == {
        "matches": 2,
        "files": 2,
        "limited": False,
        "left_out": 0,
        "secrets_left_out": 0,
    }


@both
def test_context_is_marked_and_gaps_are_shown(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {"a": "1\nx\n3\n4\n5\n6\nx\nx\n9\n"})
    shown = text_of(grep(workspace, make, "x", context=1))
    assert shown == "a\n1-1\n2:x\n3-3\n--\n6-6\n7:x\n8:x\n9-9\n"


@both
def test_grep_can_return_files_or_counts(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {"a": "x\nxx\n", "b": "y\n", "c/d": "x\n"})
    assert text_of(grep(workspace, make, "x", mode="files")) == "a\nc/d\n"
    assert text_of(grep(workspace, make, "x", mode="count")) == "a:2\nc/d:1\n"


@both
def test_the_limit_is_kept_and_noted(make: MakeEngine, folder: Path, workspace: Workspace) -> None:
    write_files(folder, {"a": "x\n" * 3, "b": "x\n", "c": "x\n"})
    note = "[more than {} {}; narrow the search or raise the limit]\n"
    assert (
        text_of(grep(workspace, make, "x", limit=2))
        == f"a\n1:x\n2:x\n\n{note.format(2, 'matches')}"
    )
    at_the_edge = grep(workspace, make, "x", limit=3)
    assert text_of(at_the_edge).endswith(note.format(3, "matches"))
    assert JsonObject(at_the_edge.details)["limited"] is True
    assert "more than" not in text_of(grep(workspace, make, "x", limit=5))
    assert text_of(grep(workspace, make, "x", limit=2, mode="files")) == (
        f"a\nb\n{note.format(2, 'files')}"
    )


@both
def test_many_files_are_searched(make: MakeEngine, folder: Path, workspace: Workspace) -> None:
    write_files(folder, {f"{number:03}": "x\n" for number in range(150)})
    assert JsonObject(grep(workspace, make, "x").details)["files"] == 150


@both
def test_a_search_without_matches_has_a_text(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {"a": "y\n"})
    assert text_of(grep(workspace, make, "x")) == "no matches"


@both
def test_long_lines_are_cut(make: MakeEngine, folder: Path, workspace: Workspace) -> None:
    write_files(folder, {"a": "é" * 700 + "x\n"})
    assert text_of(grep(workspace, make, "x$")) == f"a\n1:{'é' * 500}[... 201 more characters]\n"


@both
def test_strange_bytes_and_names_are_shown_as_text(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {"a\nb": b"caf\xe9 x\r\n"})
    (folder / os.fsdecode(b"caf\xe9")).write_text("x\n")
    assert text_of(grep(workspace, make, "x$")) == "'a\\nb'\n1:caf\ufffd x\n"


@both
@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.py", ["a.py", "d/b.py", "d/e/c.py"]),
        ("/*.py", ["a.py"]),
        ("d/*.py", ["d/b.py"]),
        ("d/**/*.py", ["d/b.py", "d/e/c.py"]),
        ("*.{js,c}", ["a.c"]),
        (".h*", [".hidden"]),
        ("e", []),
    ],
)
def test_a_glob_narrows_the_search_and_brings_back_nothing_ignored(
    glob: str, found: list[str], make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    names = ["a.py", "d/b.py", "d/e/c.py", "a.c", "ignored.py", ".hidden", ".git/x.py"]
    write_files(folder, {**dict.fromkeys(names, "x"), ".gitignore": "ignored.py"})
    shown = text_of(grep(workspace, make, "x", glob=glob, mode="files"))
    assert shown == ("".join(f"{name}\n" for name in found) or "no matches")


@both
def test_a_path_narrows_the_search(make: MakeEngine, folder: Path, workspace: Workspace) -> None:
    write_files(folder, {"a": "x", "d/b.py": "x", "d/c": "x"})
    for path in ("d", "./d/", str(folder / "d")):
        assert text_of(grep(workspace, make, "x", path=path, mode="files")) == "d/b.py\nd/c\n"
    assert text_of(grep(workspace, make, "x", path="d", glob="/*.py", mode="files")) == "d/b.py\n"
    assert text_of(grep(workspace, make, "x", path="d/c", mode="files")) == "d/c\n"
    with raises_code(ToolFailed, "file_not_found"):
        grep(workspace, make, "x", path="nowhere")


@both
def test_another_root_is_searched_by_its_absolute_path(
    make: MakeEngine, folder: Path, tmp_path: Path
) -> None:
    write_files(tmp_path / "more", {"a": "x", "ignored": "x", ".ignore": "ignored"})
    more = tmp_path / "more"
    shown = text_of(grep(Workspace([folder, more]), make, "x", path=str(more)))
    assert shown == f"{more}/a\n1:x\n"


def test_the_tool_returns_its_subjects(folder: Path, workspace: Workspace) -> None:
    write_files(folder, {"d/a": "x"})
    (folder / "link").symlink_to("d")
    made: Tool = GrepTool(workspace)
    call = ToolCall.create("grep", {"pattern": "x", "path": "link/../link/a"})
    assert made.capability is Capability.READ
    assert made.subjects(call) == (Subject(text="d/a", capability=Capability.READ),)
    (subject,) = made.subjects(ToolCall.create("grep", {"pattern": "x"}))
    assert subject == Subject(text=".", capability=Capability.READ)
    assert asyncio.run(made.preview(call)).text == "search for x in d/a"


@both
def test_an_invalid_pattern_is_an_error_for_the_model(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {"a": "x"})
    for pattern in ("(a", "[a", "*a", "a\\"):
        with raises_code(ToolFailed, "pattern_refused", place="pattern"):
            grep(workspace, make, pattern)
    with raises_code(ToolFailed, "pattern_too_long", place="pattern"):
        grep(workspace, make, "a" * 2_001)
    with raises_code(ToolFailed, "glob_brace_not_closed", place="glob"):
        grep(workspace, make, "a", glob="{a")


def test_a_pattern_that_ripgrep_refuses_has_its_reason(folder: Path, workspace: Workspace) -> None:
    write_files(folder, {"a": "x"})
    for pattern in ("(?=a)", r"(a)\1"):
        with pytest.raises(ToolFailed, match="not supported"):
            grep(workspace, ripgrep, pattern)
    with pytest.raises(ToolFailed, match="not allowed"):
        grep(workspace, ripgrep, "a\nb")


def test_a_search_without_ripgrep_has_a_note(folder: Path, workspace: Workspace) -> None:
    write_files(folder, {"a": "foofoo\n"})
    for pattern in (r"(foo)\1", "nothing"):
        (block,) = grep(workspace, PythonEngine, pattern).content
        assert isinstance(block, Text)
        assert block.text.rstrip().endswith("as a Python re pattern]")
    assert text_of(grep(workspace, PythonEngine, r"(foo)\1")) == "a\n1:foofoo\n"


@both
@pytest.mark.parametrize(
    "pattern",
    [
        *("abc", r"a\.c", "^a", "c$", "^$", "a|b", "(a|x)b?c", "a{3}", "a*?b", "[^abc]", "[]x]"),
        *(r"\w+", r"\d", r"^\S+$", r"\bnaï", r"\x41", r"\t", "(?i)ABC", "übung", "[日-本]", "\0"),
    ],
)
def test_usual_patterns_mean_the_same_to_both_engines(
    pattern: str, make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    lines = [
        "abc",
        "ABC",
        "a.c",
        "aaa",
        "",
        "x]",
        "tab\there",
        "über Übung",
        "naïve",
        "日本語",
        "12",
    ]
    write_files(folder, {"a": "\n".join(lines) + "\n"})
    for ignore_case in (False, True):
        flags = re.IGNORECASE if ignore_case else re.NOFLAG
        expected = [n for n, line in enumerate(lines, 1) if re.search(pattern, line, flags)]
        found = grep(workspace, make, pattern, mode="count", ignore_case=ignore_case)
        assert text_of(found) == (f"a:{len(expected)}\n" if expected else "no matches")


# -- confinement -----------------------------------------------------------------------------


@both
@pytest.mark.parametrize("path", ["..", "../outside", "/etc", "link", "d/link/secret.txt"])
def test_nothing_outside_is_searched(
    path: str, make: MakeEngine, folder: Path, outside: Path, workspace: Workspace
) -> None:
    write_files(folder, {"d/": ""})
    (folder / "link").symlink_to(outside)
    (folder / "d" / "link").symlink_to(outside)
    with raises_code(ToolFailed, "outside_workspace"):
        grep(workspace, make, "SECRET", path=path)
    assert text_of(grep(workspace, make, "SECRET")) == "no matches"


@both
def test_a_link_that_is_swapped_in_is_not_followed(
    make: MakeEngine, folder: Path, outside: Path, workspace: Workspace
) -> None:
    write_files(folder, {"a": "SECRET\n", "d/secret.txt": "SECRET\n", "z": "SECRET\n"})

    def swap(name: str) -> bool:
        """Called when the names are known and no file is open yet."""
        if name == "a":
            (folder / "a").unlink()
            (folder / "a").symlink_to(outside / "secret.txt")
            (folder / "d").rename(folder / "e")
            (folder / "d").symlink_to(outside)
        return True

    async def collect() -> list[str]:
        search = SearchRequest("SECRET", path=".", hidden=False, is_wanted=swap, max_lines=9)
        async with aclosing(make(workspace).search(search)) as found:
            return [each.name async for each in found]

    assert asyncio.run(collect()) == ["z"]


@both
def test_a_pattern_is_never_an_option(make: MakeEngine, folder: Path, workspace: Workspace) -> None:
    write_files(folder, {"a": "--files\n-e\n"})
    assert text_of(grep(workspace, make, "--files")) == "a\n1:--files\n"
    assert text_of(grep(workspace, make, "-e")) == "a\n2:-e\n"


@both
def test_the_environment_does_not_reach_the_search(
    make: MakeEngine, folder: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(folder, {"a": "x\n", "rc": "--invert-match\n"})
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(folder / "rc"))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    write_files(folder, {"re.py": "raise SystemExit(1)\n"})
    assert text_of(grep(workspace, make, "^x", mode="files")) == "a\n"


def test_a_program_in_the_workspace_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(folder, {"bin/rg": "#!/bin/sh\n"})
    (folder / "bin" / "rg").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder / "bin"))
    assert find_ripgrep() == folder / "bin" / "rg"
    assert find_ripgrep([folder]) != folder / "bin" / "rg"
    monkeypatch.chdir(folder / "bin")
    monkeypatch.setenv("PATH", ".")
    assert find_ripgrep([folder]) != folder / "bin" / "rg"


def test_without_ripgrep_python_searches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_ripgrep()
    assert found is not None
    monkeypatch.setenv("PATH", "")
    assert isinstance(choose_search_engine(Workspace([folder, found.parent])), PythonEngine)
    assert not isinstance(choose_search_engine(Workspace([folder])), PythonEngine)


# -- time ------------------------------------------------------------------------------------

_CATASTROPHE = "(a*)*(a*)*(a*)*b$"


def test_a_pattern_that_python_cannot_finish_is_given_up(
    folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {"a": "a" * 5000 + "\n"})
    with raises_code(ToolFailed, "search_timeout", place="grep"):
        grep(workspace, PythonEngine, _CATASTROPHE, time_limit_s=1)


def test_ripgrep_finishes_what_python_cannot(folder: Path, workspace: Workspace) -> None:
    write_files(folder, {"a": "a" * 5000 + "\n"})
    assert text_of(grep(workspace, ripgrep, _CATASTROPHE)) == "no matches"


@both
def test_a_cancelled_search_ends_its_programs(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {"a": "a" * 5000 + "\n", ".git/": ""})
    os.mkfifo(folder / ".ignore")  # ripgrep would wait for a writer
    made = GrepTool(workspace, engine=make(workspace))
    before = _children()  # servers that other tests have started

    async def scenario() -> None:
        call = ToolCall.create("grep", {"pattern": _CATASTROPHE})
        task = asyncio.create_task(made.run(call, FakeToolContext()))
        async with asyncio.timeout(60):
            while _children() <= before:  # noqa: ASYNC110 - nobody says when a program has started
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert _children() <= before

    asyncio.run(scenario())


def _children() -> set[str]:
    tasks = Path("/proc/self/task").glob("*/children")
    return {child for task in tasks for child in task.read_text().split()}


# -- which files are text --------------------------------------------------------------------


class File(NamedTuple):
    name: str
    data: bytes
    lines: tuple[int, ...]


FILES = [
    File("plain", b"x\n", (1,)),
    File("no line feed at the end", b"y\nx", (2,)),
    File("empty", b"", ()),
    File("empty lines", b"\n\nx\n\n", (3,)),
    File("binary", b"x\n\0\n", ()),
    File("nul at the edge", b"x\n" + b"y" * 8189 + b"\0", ()),
    File("nul behind the edge", b"x\n" + b"y" * 8190 + b"\0\nx\n", (1, 3)),
    File("nul far behind", b"x\n" + b"y\n" * 100_000 + b"\0 x\n", (1, 100_002)),
    File("mark of UTF-8", b"\xef\xbb\xbfx\n", (1,)),
    File("UTF-16, little end first", "\ufeffx\ny\nx\n".encode("utf-16-le"), (1, 3)),
    File("UTF-16, big end first", "\ufeffx\n😀\nx".encode("utf-16-be"), (1, 3)),
    File("UTF-16, cut short", "\ufeffx\n".encode("utf-16-le") + b"x", (1,)),
    File("UTF-16 without a mark", "x\n".encode("utf-16-le"), ()),
    File("latin", b"\xe9\nx\xe9\n", ()),
    File("carriage returns", b"x\r\ny\rx\r\nx\r", (1, 2, 3)),
    File("other ends of lines", "y\u2028x\vx\x85x\n".encode(), (1,)),
]


@both
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_both_engines_read_the_same_from_a_file(
    file: File, make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    (folder / "file").write_bytes(file.data)
    assert lines_of(workspace, make, "x$").get("file", ()) == file.lines


@both
def test_large_files_and_pipes_are_skipped(
    make: MakeEngine, folder: Path, workspace: Workspace
) -> None:
    write_files(folder, {"a": "x"})
    with (folder / "huge").open("wb") as huge:
        huge.write(b"x\n")
        huge.truncate(64 * 1024 * 1024 + 1)
    os.mkfifo(folder / "pipe")
    assert lines_of(workspace, make, "x") == {"a": (1,)}
