"""`write` creates files, and replaces those that the model has read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from steno import Text, ToolCall
from steno.errors import ToolFailed
from steno.ports import Capability, Tool, ToolOutput
from steno.tools.read import ReadTool
from steno.tools.workspace import Workspace
from steno.tools.write import WriteTool
from tests.raised_errors import raises_code
from tests.tools.fake_tool_context import FakeToolContext


def call_of(path: str, content: str) -> ToolCall:
    return ToolCall.create("write", {"path": path, "content": content})


def write(workspace: Workspace, path: str, content: str) -> ToolOutput:
    tool: Tool = WriteTool(workspace)
    call = call_of(path, content)
    tool.definition.check_arguments(call)
    return asyncio.run(tool.run(call, FakeToolContext()))


def read(workspace: Workspace, path: str) -> None:
    asyncio.run(ReadTool(workspace).run(ToolCall.create("read", {"path": path}), FakeToolContext()))


def text_of(output: ToolOutput) -> str:
    (block,) = output.content
    assert isinstance(block, Text)
    return block.text


@pytest.mark.requirement("S4-13")
def test_a_new_file_is_written_with_its_folders(workspace: Workspace, folder: Path) -> None:
    output = write(workspace, "src/new/a.py", "one\ntwo\n")
    assert (folder / "src" / "new" / "a.py").read_bytes() == b"one\ntwo\n"
    assert text_of(output) == "created src/new/a.py (+2 -0 lines)"
    assert output.details == {
        "path": "src/new/a.py",
        "added": 2,
        "removed": 0,
        "diff": "--- /dev/null\n+++ src/new/a.py\n@@ -0,0 +1,2 @@\n+one\n+two\n",
    }


def test_a_file_that_was_not_read_is_not_replaced(workspace: Workspace, folder: Path) -> None:
    (folder / "file").write_text("old\n")
    with raises_code(ToolFailed, "not_read_yet", place="'file'"):
        write(workspace, "file", "new\n")
    assert (folder / "file").read_text() == "old\n"
    read(workspace, "file")
    assert text_of(write(workspace, "file", "new\n")) == (
        "changed file (+1 -1 lines)\n--- file\n+++ file\n@@ -1,1 +1,1 @@\n-old\n+new\n"
    )
    assert (folder / "file").read_text() == "new\n"


def test_a_file_that_changed_since_it_was_read_is_not_replaced(
    workspace: Workspace, folder: Path
) -> None:
    (folder / "file").write_text("old\n")
    read(workspace, "file")
    (folder / "file").write_text("somebody else's\n")
    with raises_code(ToolFailed, "changed_since_read"):
        write(workspace, "file", "new\n")
    assert (folder / "file").read_text() == "somebody else's\n"


def test_a_file_can_be_written_again_and_again(workspace: Workspace, folder: Path) -> None:
    for content in ("one", "two", "", "three"):
        write(workspace, "file", content)
        assert (folder / "file").read_text() == content


def test_a_file_that_was_removed_since_can_be_made_anew(workspace: Workspace, folder: Path) -> None:
    write(workspace, "file", "one")
    (folder / "file").unlink()
    assert text_of(write(workspace, "file", "two")).startswith("created file")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbfa\r\n", b"\xef\xbb\xbf\xc3\xa9\r\nb\r\n"),
        ("a\n".encode("utf-16"), "é\nb\n".encode("utf-16")),
        (b"caf\xe9\n", b"\xe9\nb\n"),
        (b"\r\n", b"\xc3\xa9\r\nb\r\n"),
        (b"", b"\xc3\xa9\nb\n"),
    ],
)
def test_a_text_is_replaced_in_its_own_way(
    workspace: Workspace, folder: Path, before: bytes, after: bytes
) -> None:
    (folder / "file").write_bytes(before)
    read(workspace, "file")
    write(workspace, "file", "é\nb\n")
    assert (folder / "file").read_bytes() == after


def test_text_that_the_old_encoding_lacks_becomes_utf_8(workspace: Workspace, folder: Path) -> None:
    (folder / "file").write_bytes(b"caf\xe9\n")
    read(workspace, "file")
    write(workspace, "file", "日本\n")
    assert (folder / "file").read_text("utf-8") == "日本\n"


def test_a_preview_shows_the_diff_and_changes_nothing(workspace: Workspace, folder: Path) -> None:
    (folder / "file").write_text("a\nb\nc\n")
    read(workspace, "file")
    tool = WriteTool(workspace)
    assert asyncio.run(tool.preview(call_of("file", "a\nB\nc"))).text == (
        "--- file\n+++ file\n@@ -1,3 +1,3 @@\n a\n-b\n-c\n+B\n+c\n\\ No newline at end of file\n"
    )
    assert asyncio.run(tool.preview(call_of("new/file", "x\n"))).text.startswith("--- /dev/null\n")
    empty = asyncio.run(tool.preview(call_of("new/file", "")))
    assert empty.text == "new/file: an empty file"
    assert empty.shown_arguments == ("path",)
    assert [path.name for path in folder.rglob("*")] == ["file"]
    assert (folder / "file").read_text() == "a\nb\nc\n"


def test_a_preview_holds_every_line_however_many(workspace: Workspace) -> None:
    content = "".join(f"{n}\n" for n in range(9_000))
    preview = asyncio.run(WriteTool(workspace).preview(call_of("file", content))).text
    assert preview.splitlines()[3:] == [f"+{n}" for n in range(9_000)]


def test_a_replaced_image_is_described_by_its_size(workspace: Workspace, folder: Path) -> None:
    (folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    read(workspace, "a.png")
    assert "(10 bytes before, 1 bytes after)" in text_of(write(workspace, "a.png", "x"))


@pytest.mark.parametrize(
    ("path", "code"),
    [
        *[("../x", "outside_workspace"), ("/etc/x", "outside_workspace")],
        *[(".", "is_a_folder"), ("file/x", "not_a_folder")],
    ],
)
def test_an_unwritable_path_fails_before_approval(
    workspace: Workspace, folder: Path, path: str, code: str
) -> None:
    (folder / "file").touch()
    with raises_code(ToolFailed, code):
        asyncio.run(WriteTool(workspace).preview(call_of(path, "x")))
    with raises_code(ToolFailed, code):
        write(workspace, path, "x")


def test_a_call_is_about_the_real_path(workspace: Workspace, folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    tool = WriteTool(workspace)
    assert tool.capability is Capability.WRITE
    (subject,) = tool.subjects(call_of("link/new.py", ""))
    assert subject.text == "real/new.py"


def test_a_cancelled_call_leaves_the_old_file_or_the_new_one(
    workspace: Workspace, folder: Path
) -> None:
    write(workspace, "file", "old")
    new = "new" * 100_000

    def left() -> tuple[str, list[str]]:
        return (folder / "file").read_text(), [path.name for path in folder.iterdir()]

    async def cancel(after: int) -> tuple[str, list[str]]:
        task = asyncio.create_task(
            WriteTool(workspace).run(call_of("file", new), FakeToolContext())
        )
        for _ in range(after):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=60)
        assert done
        return left()

    for after in range(6):
        found = asyncio.run(cancel(after))
        assert found in (("old", ["file"]), (new, ["file"]))
        assert left() == found  # by now, every thread has ended
