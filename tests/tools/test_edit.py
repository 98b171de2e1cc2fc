"""`edit` replaces exactly the given text, or fails with a reason."""

from __future__ import annotations

import asyncio
import difflib
import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno import Text, ToolCall
from steno.errors import ToolFailed
from steno.ports import Capability, PreviewKind, Tool, ToolOutput
from steno.tools.edit import EditTool, replace_text
from steno.tools.file_change import FileChange
from steno.tools.read import ReadTool
from steno.tools.text_file import TextFile
from steno.tools.workspace import Workspace
from tests.raised_errors import raises_code
from tests.tools.fake_tool_context import FakeToolContext


def call_of(path: str, old: str, new: str, *, replace_all: bool = False) -> ToolCall:
    arguments = {"path": path, "old": old, "new": new}
    return ToolCall.create("edit", arguments | ({"replace_all": True} if replace_all else {}))


def edit(
    workspace: Workspace, path: str, old: str, new: str, *, replace_all: bool = False
) -> ToolOutput:
    tool: Tool = EditTool(workspace)
    call = call_of(path, old, new, replace_all=replace_all)
    tool.definition.check_arguments(call)
    return asyncio.run(tool.run(call, FakeToolContext()))


def put(workspace: Workspace, path: str, data: bytes) -> Path:
    """Create a file that the model has read."""
    file = workspace.root / path
    file.write_bytes(data)
    asyncio.run(ReadTool(workspace).run(ToolCall.create("read", {"path": path}), FakeToolContext()))
    return file


@pytest.mark.requirement("S4-13")
def test_a_text_is_replaced_and_the_diff_is_shown(workspace: Workspace) -> None:
    file = put(workspace, "a.py", b"def f():\n    return 1\n\n\ndef g():\n    return 2\n")
    output = edit(workspace, "a.py", "    return 2\n", "    return 3\n    # done\n")
    assert file.read_bytes() == b"def f():\n    return 1\n\n\ndef g():\n    return 3\n    # done\n"
    diff = (
        "--- a.py\n+++ a.py\n@@ -3,4 +3,5 @@\n \n \n def g():\n"
        "-    return 2\n+    return 3\n+    # done\n"
    )
    assert output.content == (Text(f"changed a.py (+2 -1 lines)\n{diff}"),)
    assert output.details == {"path": "a.py", "added": 2, "removed": 1, "diff": diff}


def test_a_text_that_occurs_twice_is_not_replaced(workspace: Workspace) -> None:
    file = put(workspace, "file", b"x = 1\ny = 1\nx = 1\n")
    with raises_code(ToolFailed, "text_ambiguous", place="old") as refused:
        edit(workspace, "file", "x = 1", "x = 2")
    # The lines let the model choose.
    assert "2 times in the file (lines 1, 3)" in refused.value.message
    assert file.read_bytes() == b"x = 1\ny = 1\nx = 1\n"
    edit(workspace, "file", "x = 1", "x = 2", replace_all=True)
    assert file.read_bytes() == b"x = 2\ny = 1\nx = 2\n"


def test_a_text_that_overlaps_itself_occurs_twice(workspace: Workspace) -> None:
    put(workspace, "file", b"aaa\n")
    with raises_code(ToolFailed, "text_ambiguous"):
        edit(workspace, "file", "aa", "b")


def test_replace_all_accepts_a_text_that_occurs_once(workspace: Workspace) -> None:
    file = put(workspace, "file", b"one\n")
    edit(workspace, "file", "one", "two", replace_all=True)
    assert file.read_bytes() == b"two\n"


def test_regular_expression_syntax_is_literal_text(workspace: Workspace) -> None:
    file = put(workspace, "file", b"a.*b (c|d) \\1 axxb\n")
    edit(workspace, "file", "a.*b (c|d) \\1", "\\g<0> \\n $1")
    assert file.read_bytes() == b"\\g<0> \\n $1 axxb\n"


def test_a_text_can_be_taken_out(workspace: Workspace) -> None:
    file = put(workspace, "file", b"one\ntwo\nthree\n")
    edit(workspace, "file", "two\n", "")
    assert file.read_bytes() == b"one\nthree\n"


def test_nothing_to_change_is_an_error(workspace: Workspace) -> None:
    put(workspace, "file", b"one\n")
    with raises_code(ToolFailed, "nothing_to_change", place="new"):
        edit(workspace, "file", "one", "one")


# -- what the model has seen -----------------------------------------------------------------


def test_a_file_that_was_not_read_is_not_changed(workspace: Workspace, folder: Path) -> None:
    (folder / "file").write_text("one\n")
    with raises_code(ToolFailed, "not_read_yet"):
        edit(workspace, "file", "one", "two")


def test_a_file_that_changed_since_it_was_read_is_not_changed(workspace: Workspace) -> None:
    file = put(workspace, "file", b"one\n")
    file.write_bytes(b"one\nmore\n")
    with raises_code(ToolFailed, "changed_since_read"):
        edit(workspace, "file", "one", "two")
    put(workspace, "file", b"one\nmore\n")
    edit(workspace, "file", "one", "two")
    assert file.read_bytes() == b"two\nmore\n"


def test_edits_follow_each_other_without_reading_again(workspace: Workspace) -> None:
    file = put(workspace, "file", b"one\n")
    edit(workspace, "file", "one", "two")
    edit(workspace, "file", "two", "three")
    assert file.read_bytes() == b"three\n"


# -- encodings and line ends -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nx\r\ny\r\n"),
        (b"a\nb\nc\n", b"a\nx\ny\n"),
        (b"a\nb\r\nc\n", b"a\nx\r\ny\n"),  # as where it was found
        (b"\xef\xbb\xbfa\r\nb\r\nc\r\n", b"\xef\xbb\xbfa\r\nx\r\ny\r\n"),
        ("a\nb\nc\n".encode("utf-16"), "a\nx\ny\n".encode("utf-16")),
        (b"\xe9\nb\nc\n", b"\xe9\nx\ny\n"),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_file_keeps_its_encoding_mark_and_line_ends(
    workspace: Workspace, before: bytes, after: bytes, line_end: str
) -> None:
    file = put(workspace, "file", before)
    edit(workspace, "file", f"b{line_end}c", "x\ny")
    assert file.read_bytes() == after


def test_a_line_that_is_put_into_another_ends_like_the_rest(workspace: Workspace) -> None:
    file = put(workspace, "file", b"a\r\nb\r\n")
    edit(workspace, "file", "b", "b\nc")
    assert file.read_bytes() == b"a\r\nb\r\nc\r\n"


def test_characters_that_the_encoding_lacks_are_refused(workspace: Workspace) -> None:
    file = put(workspace, "file", b"caf\xe9\n")
    with raises_code(ToolFailed, "not_encodable", place="new"):
        edit(workspace, "file", "é", "日本")
    assert file.read_bytes() == b"caf\xe9\n"


def test_a_picture_is_not_edited(workspace: Workspace) -> None:
    put(workspace, "a.png", b"\x89PNG\r\n\x1a\n\0\0")
    with raises_code(ToolFailed, "not_text"):
        edit(workspace, "a.png", "PNG", "GNP")


# -- hints -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("if x:\n  return 1", "line 2 on differs only in white space.*:\n    if x:\n\treturn 1$"),
        ("print('it\u2019s')", "line 4 on differs only in white space, quotes or dashes:\n"),
        ("     2\t    if x:\n     3\t\treturn 1", "leave out the line numbers"),
        ("def fonction(y):", r"; the most similar line is line 1:\ndef function\(x\):$"),
        ("nothing of the kind @@@@", "; read the file again and copy the text from it"),
    ],
)
def test_a_text_that_is_not_there_comes_with_a_hint(
    workspace: Workspace, old: str, hint: str
) -> None:
    put(workspace, "file", b"def function(x):\n    if x:\n\treturn 1\n    print('it's')\n")
    with raises_code(ToolFailed, "text_not_found", place="old") as refused:
        edit(workspace, "file", old, "new")
    assert re.search(hint, refused.value.message, re.DOTALL)


# -- as a tool -------------------------------------------------------------------------------


def test_a_preview_shows_the_diff_and_changes_nothing(workspace: Workspace) -> None:
    file = put(workspace, "file", b"one\n")
    tool = EditTool(workspace)
    assert asyncio.run(tool.preview(call_of("file", "one", "two"))).text == (
        "--- file\n+++ file\n@@ -1,1 +1,1 @@\n-one\n+two\n"
    )
    assert file.read_bytes() == b"one\n"
    with raises_code(ToolFailed, "text_not_found", place="old"):
        asyncio.run(tool.preview(call_of("file", "three", "two")))


@pytest.mark.parametrize(
    ("path", "old", "new", "shown"),
    [
        ("file", "two\n", "2\n", ("path", "old", "new")),
        ("./file", "two", "", ("old",)),
        ("file", "one\n" + "x\n" * 9 + "two", "1\n" + "x\n" * 9 + "2", ("path",)),
    ],
)
def test_a_preview_names_the_arguments_that_its_diff_shows(
    workspace: Workspace, path: str, old: str, new: str, shown: tuple[str, ...]
) -> None:
    put(workspace, "file", b"one\n" + b"x\n" * 9 + b"two\n")
    preview = asyncio.run(EditTool(workspace).preview(call_of(path, old, new)))
    assert [part.kind for part in preview.parts] == [PreviewKind.DIFF]
    assert preview.shown_arguments == shown


def test_a_call_is_about_the_real_path(workspace: Workspace, folder: Path) -> None:
    put(workspace, "real", b"one\n")
    (folder / "link").symlink_to("real")
    tool = EditTool(workspace)
    assert tool.capability is Capability.WRITE
    (subject,) = tool.subjects(call_of("link", "a", "b"))
    assert subject.text == "real"
    edit(workspace, "link", "one", "two")
    assert (folder / "real").read_bytes() == b"two\n"
    assert (folder / "link").is_symlink()


@pytest.mark.parametrize(
    ("path", "code"),
    [("missing", "file_not_found"), ("../x", "outside_workspace"), (".", "is_a_folder")],
)
def test_a_path_that_is_not_a_file_is_not_edited(
    workspace: Workspace, path: str, code: str
) -> None:
    with raises_code(ToolFailed, code):
        edit(workspace, path, "a", "b")


def test_an_empty_text_is_refused(workspace: Workspace) -> None:
    with raises_code(ToolFailed, "invalid_arguments", place="edit"):
        EditTool(workspace).subjects(call_of("file", "", "x"))


# -- laws ------------------------------------------------------------------------------------

LINES = st.lists(st.sampled_from(["", "a", "b", "c\r", "d"]), max_size=30).map("\n".join)


@given(LINES, LINES)
def test_a_diff_makes_one_text_of_the_other(before: str, after: str) -> None:
    change = FileChange.of("name", before.encode(), after.encode())
    assert apply(change.diff.text, before) == after
    marks = [line[0] for line in change.diff.text.split("\n")[2:] if line]
    assert (marks.count("+"), marks.count("-")) == (change.diff.added, change.diff.removed)


def apply(diff: str, before: str) -> str:
    """Apply a unified diff to a text, and check its context lines."""
    old = before.split("\n")
    old = [line + "\n" for line in old[:-1]] + ([old[-1]] if old[-1] else [])
    new: list[str] = []
    at = 0
    for line in re.findall(r"[^\n]*\n(?:\\ No newline[^\n]*\n)?", diff)[2:]:
        if found := re.match(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@", line):
            start = int(found[1]) - (found[2] != "0")
            new += old[at:start]
            at = start
            assert len(new) == int(found[3]) - (found[4] != "0")
            continue
        text = line[1:].removesuffix("\\ No newline at end of file\n")
        text = text if text == line[1:] else text.removesuffix("\n")
        if line[0] in " -":
            assert old[at] == text
            at += 1
        if line[0] in " +":
            new.append(text)
    return "".join(new + old[at:])


@given(LINES, st.text("ab\n", min_size=1, max_size=5), st.text("xy\n", max_size=5))
def test_replacing_leaves_everything_else_as_it_is(text: str, old: str, new: str) -> None:
    file = TextFile(text, "utf-8")
    plain = text.replace("\r\n", "\n")
    if old == new or old not in plain:
        with pytest.raises(ToolFailed):
            replace_text(file, old, new, every=True)
    else:
        after = replace_text(file, old, new, every=True)
        assert after.replace("\r\n", "\n") == plain.replace(old, new)


def test_a_diff_looks_like_that_of_difflib() -> None:
    before = "".join(f"{n}\n" for n in range(60))
    after = before.replace("7\n", "seven\n").replace("30\n", "").replace("50\n", "50\n50.5\n")
    theirs = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), "name", "name"
    )
    assert FileChange.of("name", before.encode(), after.encode()).diff.text == "".join(theirs)


# -- test edit limits ------------------------------------------------------------------------------
#
# No arguments make `edit` run forever or use all memory.


MILLION = 1_000_000


def text(content: str) -> TextFile:
    return TextFile(content, "utf-8")


def by_regular_expression(file: TextFile, old: str, new: str) -> str:
    """Return the result that `replace_text` promises, by a short and slow method."""
    pattern = re.compile(re.escape(old).replace("\\\n", "\r?\n"))

    def put(found: re.Match[str]) -> str:
        end = "\r\n" if "\r\n" in found[0] else "\n" if "\n" in found[0] else file.line_end
        return new.replace("\n", end)

    return pattern.sub(put, file.text)


@pytest.mark.parametrize("seed", range(20))
def test_every_mixture_of_line_ends_is_kept(seed: int) -> None:
    chance = Random(seed)
    compared = 0
    for _ in range(100):
        file = text("".join(chance.choices(["a", "b", "\n", "\r\n"], k=12)))
        old = "".join(chance.choices(["a", "b", "\n"], k=chance.randint(1, 3)))
        if re.search(re.escape(old).replace("\\\n", "\r?\n"), file.text) is None:
            continue
        compared += 1
        assert replace_text(file, old, "x\ny", every=True) == by_regular_expression(
            file, old, "x\ny"
        )
    assert compared


def test_a_text_that_occurs_everywhere_is_refused_with_the_first_lines() -> None:
    with raises_code(ToolFailed, "text_ambiguous") as refused:
        replace_text(text("a\n" * MILLION), "\n", "x")
    places = r"1,?000,?000 times in the file \(lines 1, 2, 3, .*10, \.\.\.\)"
    assert re.search(places, refused.value.message)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_text_that_occurs_everywhere_is_replaced_everywhere(line_end: str) -> None:
    file = text(f"a{line_end}" * MILLION)
    assert replace_text(file, "a", "b", every=True) == f"b{line_end}" * MILLION


def test_a_text_that_almost_matches_everywhere_is_not_found() -> None:
    """A search that starts again after every line would take hours."""
    with raises_code(ToolFailed, "text_not_found"):
        replace_text(text("a\n" * MILLION), "\n" + "a\n" * 50_000 + "b", "x")


def test_a_file_does_not_grow_beyond_what_can_be_read() -> None:
    with raises_code(ToolFailed, "file_too_large"):
        replace_text(text("a" * MILLION), "a", "b" * MILLION, every=True)
