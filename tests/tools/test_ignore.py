"""The files that a search ignores, with ripgrep and without."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from steno.tools.path_patterns import parse_ignore_file
from steno.tools.workspace import Workspace
from tests.tools.search_engines import ENGINES, MakeEngine, files_of, ripgrep, write_files


class Case(NamedTuple):
    name: str
    files: dict[str, str | bytes]
    """What is there, besides the repository."""
    kept: list[str]
    in_repository: bool = True
    under: str = "."
    hidden: bool = False


def rules(text: str, *names: str) -> dict[str, str | bytes]:
    return {".gitignore": text, **dict.fromkeys(names, "x")}


CASES = [
    Case("name", rules("a.o", "a.o", "d/a.o", "b"), ["b"]),
    Case("star", rules("*.o", "a.o", "d/b.o", "b"), ["b"]),
    Case("star stops at a slash", rules("/d*x", "d/x", "dx"), ["d/x"]),
    Case("question mark", rules("?.o", "a.o", "ab.o"), ["ab.o"]),
    Case("anchored", rules("/a", "a", "d/a"), ["d/a"]),
    Case("slash in the middle anchors", rules("d/a", "d/a", "e/d/a"), ["e/d/a"]),
    Case("folder only", rules("a/", "a/x", "d/a"), ["d/a"]),
    Case("comment and blank", rules("# a\n\n   \nb", "# a", "a", "b"), ["# a", "a"]),
    Case("escaped marks", rules("\\#a\n\\!b", "#a", "!b", "c"), ["c"]),
    Case("trailing blanks", rules("a   \nb\\ ", "a", "b ", "b"), ["b"]),
    Case("negation", rules("*.o\n!b.o", "a.o", "b.o"), ["b.o"]),
    Case("later rules win", rules("!a\na", "a", "b"), ["b"]),
    Case("nothing comes back below a folder", rules("d/\n!d/a", "d/a", "b"), ["b"]),
    Case("what is in a folder comes back", rules("d/*\n!d/a", "d/a", "d/b"), ["d/a"]),
    Case("double star first", rules("**/a", "a", "d/e/a", "b"), ["b"]),
    Case("double star between", rules("d/**/a", "d/a", "d/e/f/a", "e/a"), ["e/a"]),
    Case("double star last", rules("d/**", "d/a", "d/e/b", "x"), ["x"]),
    Case("double star inside a name", rules("a**b", "axxb", "ax/b"), ["ax/b"]),
    Case("class", rules("[ab].o\n[!x-z]1", "a.o", "c.o", "y1", "a1"), ["c.o", "y1"]),
    Case("bracket in a class", rules("[]]\n[[]", "]", "[", "a"), ["a"]),
    Case("bracket alone", rules("a[", "a[", "b"), ["b"]),
    Case("braces", rules("*.{o,a}", "x.o", "x.a", "x.c"), ["x.c"]),
    Case("half a brace says nothing", rules("{a\nb", "a", "b", "{a"), ["a", "{a"]),
    Case("backslash takes the next", rules("\\*.o", "*.o", "a.o"), ["a.o"]),
    Case("line ends of Windows", rules("a\r\nb\r\n", "a", "b", "c"), ["c"]),
    Case("mark of UTF-8", {".gitignore": b"\xef\xbb\xbfa\n", "a": "", "b": ""}, ["b"]),
    Case("no text", {".gitignore": b"a\n\xff\nb\n", "a": "", "b": "", "c": ""}, ["b", "c"]),
    Case("other letters", rules("é*", "é1", "e1", "日本"), ["e1", "日本"]),
    Case("a nearer file wins", {**rules("*.o", "d/a.o"), "d/.gitignore": "!a.o"}, ["d/a.o"]),
    Case("rules are about paths below", {"d/.gitignore": "/a", "d/a": "", "a": ""}, ["a"]),
    Case(".ignore wins", {**rules("a\n!b", "a", "b"), ".ignore": "!a\nb"}, ["a"]),
    Case(".rgignore wins", {".rgignore": "!a", ".ignore": "a\nb", "a": "", "b": ""}, ["a"]),
    Case("exclude", {".git/info/exclude": "a", "a": "", "d/a": "", "b": ""}, ["b"]),
    Case("no repository", rules("a", "a", "b"), ["a", "b"], in_repository=False),
    Case(".ignore anywhere", {".ignore": "a", "a": "", "b": ""}, ["b"], in_repository=False),
    Case("inner repository", {**rules("a", "d/a", "a"), "d/.git/": ""}, ["d/a"]),
    Case("hidden", {".a": "", ".d/b": "", "c": ""}, ["c"]),
    Case("hidden, asked for", {".a": "", ".d/b": "", "c": ""}, [".a", ".d/b", "c"], hidden=True),
    Case("hidden, brought back", rules("!.a", ".a", ".b"), [".a"]),
    Case(
        "never .git", {**rules("!.git", "a"), ".git/config": "x"}, [".gitignore", "a"], hidden=True
    ),
    Case("below an ignored folder", rules("d/", "d/a", "d/e/b"), ["d/a", "d/e/b"], under="d"),
    Case("a file by its name", rules("a", "a", "b"), ["a"], under="a"),
    Case("a hidden folder by its name", {".d/a": "", ".d/.b": ""}, [".d/a"], under=".d"),
    Case(
        "order is by folder",
        dict.fromkeys(["a/b", "a-b", "a.b", "B"], ""),
        ["B", "a/b", "a-b", "a.b"],
    ),
    Case("names that look like options", {"-a": "", "--files": "x"}, ["--files", "-a"]),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.requirement("S4-13")
def test_both_engines_leave_out_the_same(
    case: Case, engine: str, folder: Path, workspace: Workspace
) -> None:
    if case.in_repository:
        (folder / ".git").mkdir()
    write_files(folder, case.files)
    assert files_of(workspace, ENGINES[engine], case.under, hidden=case.hidden) == case.kept


@pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)
def test_rules_above_the_workspace_count_up_to_the_repository(
    make: MakeEngine, tmp_path: Path
) -> None:
    write_files(tmp_path, {".gitignore": "no", "repo/.git/": "", "repo/.gitignore": "/sub/a"})
    write_files(
        tmp_path, {"repo/.ignore": "b", "repo/sub/a": "", "repo/sub/b": "", "repo/sub/no": ""}
    )
    assert files_of(Workspace([tmp_path / "repo" / "sub"]), make) == ["no"]


@pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)
def test_links_and_pipes_are_not_named(
    make: MakeEngine, folder: Path, outside: Path, workspace: Workspace
) -> None:
    write_files(folder, {"a": "", "d/b": ""})
    (folder / "folder").symlink_to(outside)
    (folder / "file").symlink_to(outside / "secret.txt")
    (folder / "inside").symlink_to(folder / "d")
    os.mkfifo(folder / "pipe")
    assert files_of(workspace, make) == ["a", "d/b"]


def test_a_pipe_in_the_place_of_rules_is_no_trap(folder: Path, workspace: Workspace) -> None:
    write_files(folder, {".git/": "", "a": ""})
    os.mkfifo(folder / ".gitignore")
    assert files_of(workspace, ENGINES["python"]) == ["a"]


def test_a_rule_says_whether_it_is_for_folders_and_brings_back() -> None:
    first, second = parse_ignore_file(b"!a/\n# no\nb\n")
    assert (first.is_for_folders, first.is_negated) == (True, True)
    assert (second.is_for_folders, second.is_negated) == (False, False)


NAMES = st.sampled_from(
    ["a", "b", "ab", "a.py", ".h", "x y", "é", "[a]", "#c", "a{b}", "-d", "a\\b"]
)
PARTS = r"a b * ? ** / ! \ [ab] [!a] . *.py {a,b} # é **/ /** a.py .h [ [a- { } ]"
LINES = st.lists(st.sampled_from([*PARTS.split(), " ", "\t", "\\ "]), min_size=1, max_size=4).map(
    "".join
)
RULES = st.lists(LINES, min_size=1, max_size=3).map("\n".join)
FOLDERS = st.sampled_from(["", "a/", "a/b/", "b/", "é/"])
MAY_DIFFER = {
    "a negated class matches a slash in ripgrep": re.compile(r"\[!"),
    "a question mark matches a byte in ripgrep": re.compile(r"\?.*é", re.DOTALL),
    "an open bracket after a brace": re.compile(r"\{.*\[(?!ab\])"),
}
"""What the engine without ripgrep reads as git does, or hides in doubt, by rules and names."""


@given(
    names=st.lists(st.tuples(FOLDERS, NAMES), min_size=3, max_size=12),
    rule_files=st.dictionaries(
        st.tuples(FOLDERS, st.sampled_from([".gitignore", ".ignore"])),
        RULES,
        min_size=1,
        max_size=3,
    ),
    repository=FOLDERS,
    hidden=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_ignore_rules_match_like_those_of_ripgrep(
    names: list[tuple[str, str]],
    rule_files: dict[tuple[str, str], str],
    repository: str,
    hidden: bool,
) -> None:
    text = "\n".join([*rule_files.values(), *["".join(name) for name in names]])
    assume(not any(difference.search(text) for difference in MAY_DIFFER.values()))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_files(folder, {"a/b/": "", "b/": "", "é/": "", f"{repository}.git/": ""})
        write_files(folder, {f"{where}{name}": text for (where, name), text in rule_files.items()})
        for where, name in names:
            if not (folder / where / name).exists():
                (folder / where / name).write_text("x")
        workspace = Workspace([folder])
        ours = files_of(workspace, ENGINES["python"], hidden=hidden)
        assert ours == files_of(workspace, ripgrep, hidden=hidden)
