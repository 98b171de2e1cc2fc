"""`read` returns numbered lines and images, and describes other files."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from steno import Image, Text, ToolCall
from steno.errors import ToolFailed
from steno.messages.content import ImageData
from steno.ports import Capability, Tool, ToolOutput
from steno.tools.read import MAX_IMAGE_BYTES, MAX_LINE_CHARACTERS, ReadTool
from steno.tools.truncate import MAX_OUTPUT_BYTES, MAX_OUTPUT_LINES
from steno.tools.workspace import Workspace
from tests.raised_errors import raises_code
from tests.tools.fake_tool_context import FakeToolContext

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def read(
    workspace: Workspace, path: str, context: FakeToolContext | None = None, **more: Any
) -> ToolOutput:
    tool: Tool = ReadTool(workspace)
    call = ToolCall.create("read", {"path": path, **more})
    tool.definition.check_arguments(call)
    return asyncio.run(tool.run(call, FakeToolContext() if context is None else context))


def text_of(output: ToolOutput) -> str:
    (block,) = output.content
    assert isinstance(block, Text)
    return block.text


@pytest.mark.requirement("S4-13")
def test_lines_have_numbers(workspace: Workspace, folder: Path) -> None:
    (folder / "file").write_text("one\n\n\ttwo\nno end")
    output = read(workspace, "file")
    assert text_of(output) == "     1\tone\n     2\t\n     3\t\ttwo\n     4\tno end\n"
    assert output.details == {
        "path": "file",
        "bytes": 16,
        "encoding": "utf-8",
        "lines": 4,
        "first_line": 1,
        "last_line": 4,
    }


def test_a_range_of_lines_ends_with_a_note_how_to_read_on(
    workspace: Workspace, folder: Path
) -> None:
    (folder / "file").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    assert text_of(read(workspace, "file", offset=10, limit=2)) == (
        "    10\tline 10\n    11\tline 11\n[... 100 lines in total; to read the rest: offset 12 ...]\n"
    )
    assert text_of(read(workspace, "file", offset=100, limit=9)) == "   100\tline 100\n"


def test_a_long_file_is_shown_in_part_and_can_be_read_to_its_end(
    workspace: Workspace, folder: Path
) -> None:
    lines = [f"{n} {'x' * 60}" for n in range(1, MAX_OUTPUT_LINES * 2)]
    (folder / "file").write_text("\n".join(lines))
    shown: list[str] = []
    while len(shown) < len(lines):
        text = text_of(read(workspace, "file", offset=len(shown) + 1))
        assert len(text.encode()) < MAX_OUTPUT_BYTES + 100
        shown += [line.partition("\t")[2] for line in text.splitlines() if "\t" in line]
    assert shown == lines


def test_a_very_long_line_is_read_column_by_column(workspace: Workspace, folder: Path) -> None:
    line = "".join(f"{n}é" for n in range(MAX_LINE_CHARACTERS))
    (folder / "file").write_text(f"{line}\nnext\n")
    text = text_of(read(workspace, "file"))
    more = f"{len(line) - MAX_LINE_CHARACTERS:,} more characters"
    how = f"to read the rest: offset 1, limit 1, column {MAX_LINE_CHARACTERS + 1}"
    assert text == f"     1\t{line[:MAX_LINE_CHARACTERS]}[... {more}; {how} ...]\n     2\tnext\n"
    on = text_of(read(workspace, "file", limit=1, column=MAX_LINE_CHARACTERS + 1))
    assert on.startswith(f"     1\t{line[MAX_LINE_CHARACTERS : 2 * MAX_LINE_CHARACTERS]}[... ")


def test_a_line_that_is_not_there_is_an_error(workspace: Workspace, folder: Path) -> None:
    (folder / "file").write_text("one\n")
    with raises_code(ToolFailed, "line_not_found", place="'file'"):
        read(workspace, "file", offset=2)


def test_an_empty_file_has_a_note(workspace: Workspace, folder: Path) -> None:
    (folder / "file").touch()
    assert text_of(read(workspace, "file")) == "[the file is empty]"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("naïve “€”\r\n".encode(), "utf-8"),
        ("naïve “€”\r\n".encode("utf-8-sig"), "utf-8-sig"),
        (b"\xff\xfe" + "naïve “€”\r\n".encode("utf-16-le"), "utf-16-le"),
        (b"\xfe\xff" + "naïve “€”\r\n".encode("utf-16-be"), "utf-16-be"),
        (b"\xff\xfe\0\0" + "naïve “€”\r\n".encode("utf-32-le"), "utf-32-le"),
        (b"\0\0\xfe\xff" + "naïve “€”\r\n".encode("utf-32-be"), "utf-32-be"),
        ("naïve “€”\r\n".encode("cp1252"), "cp1252"),
    ],
)
def test_text_is_shown_whatever_its_encoding(
    workspace: Workspace, folder: Path, data: bytes, encoding: str
) -> None:
    (folder / "file").write_bytes(data)
    output = read(workspace, "file")
    assert text_of(output) == "     1\tnaïve “€”\n"
    assert output.details is not None
    assert output.details["encoding"] == encoding


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_known_without_its_mark(
    workspace: Workspace, folder: Path, encoding: str
) -> None:
    (folder / "file").write_bytes("plain text\n".encode(encoding))
    output = read(workspace, "file")
    assert text_of(output) == "     1\tplain text\n"
    assert output.details is not None
    assert output.details["encoding"] == encoding


def test_bytes_that_cp1252_leaves_undefined_are_latin_1(workspace: Workspace, folder: Path) -> None:
    (folder / "file").write_bytes(b"caf\xe9 \x81\n")
    output = read(workspace, "file")
    assert text_of(output) == "     1\tcafé \x81\n"
    assert output.details is not None
    assert output.details["encoding"] == "latin-1"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x7fELF\x02\x01\x01\0", "an ELF program or library of 8 bytes"),
        (b"%PDF-1.7\n\xe2\xe3\xcf\xd3\x01", "a PDF document of 14 bytes"),
        (b"SQLite format 3\0" + b"\0" * 100, "an SQLite database of 116 bytes"),
        (b"text\0text", "binary data of 9 bytes"),
        (b"\xff\xfeodd", "binary data of 5 bytes"),
        (bytes(range(256)), "binary data of 256 bytes"),
    ],
)
def test_a_binary_file_is_described_and_not_shown(
    workspace: Workspace, folder: Path, data: bytes, kind: str
) -> None:
    (folder / "file").write_bytes(data)
    with raises_code(ToolFailed, "not_text", place="'file'") as refused:
        read(workspace, "file")
    assert refused.value.message == f"the file is not text but {kind}"  # the model reads what it is
    with raises_code(ToolFailed, "not_read_yet"):
        workspace.check_unchanged_since_read("file", data)


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0" + b"\0" * 20, "image/jpeg"),
        (b"GIF89a" + b"\0" * 20, "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
def test_images_are_recognised_by_content_and_not_by_name(
    workspace: Workspace, folder: Path, data: bytes, mime_type: str
) -> None:
    (folder / "picture.txt").write_bytes(data)
    output = read(workspace, "picture.txt")
    assert output.content == (Image(source=ImageData(data), mime_type=mime_type),)
    assert output.details == {"path": "picture.txt", "bytes": len(data), "mime_type": mime_type}


def test_an_image_that_no_provider_takes_is_refused(workspace: Workspace, folder: Path) -> None:
    (folder / "a.png").write_bytes(PNG + b"\0" * MAX_IMAGE_BYTES)
    with raises_code(ToolFailed, "image_too_large"):
        read(workspace, "a.png")


def test_a_blob_is_read_by_its_hash(workspace: Workspace) -> None:
    context = FakeToolContext()
    path = "blob:" + context.put_blob(bytes(range(32)) + b"one\xff\ntwo\n")
    output = read(workspace, path, context, offset=3)
    assert text_of(output) == "     3\ttwo\n"
    (subject,) = ReadTool(workspace).subjects(ToolCall.create("read", {"path": path}))
    assert subject.text == path
    assert not subject.is_protected


def test_a_missing_blob_is_an_error(workspace: Workspace) -> None:
    with raises_code(ToolFailed, "missing"):
        read(workspace, f"blob:{'0' * 64}")
    with raises_code(ToolFailed, "file_not_found"):
        read(workspace, "blob:../../x")


@pytest.mark.parametrize(
    ("path", "code"),
    [(".", "is_a_folder"), ("missing", "file_not_found"), ("../x", "outside_workspace")],
)
def test_an_unreadable_path_fails_before_approval(
    workspace: Workspace, path: str, code: str
) -> None:
    tool, call = ReadTool(workspace), ToolCall.create("read", {"path": path})
    with raises_code(ToolFailed, code):
        asyncio.run(tool.preview(call))
    with raises_code(ToolFailed, code):
        asyncio.run(tool.run(call, FakeToolContext()))


def test_a_pipe_does_not_hang(workspace: Workspace, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with raises_code(ToolFailed, "not_a_regular_file"):
        read(workspace, "pipe")


def test_a_call_is_about_the_real_path(workspace: Workspace, folder: Path) -> None:
    (folder / "real").touch()
    (folder / "link").symlink_to("real")
    tool, call = ReadTool(workspace), ToolCall.create("read", {"path": "./link", "offset": 3})
    assert tool.capability is Capability.READ
    assert tool.subjects(call)[0].text == "real"
    assert (
        asyncio.run(tool.preview(call)).text == f"real, up to {MAX_OUTPUT_LINES} lines from line 3"
    )


def test_arguments_that_do_not_fit_make_no_sense(workspace: Workspace) -> None:
    with raises_code(ToolFailed, "invalid_arguments", place="read"):
        ReadTool(workspace).subjects(ToolCall.create("read", {"path": "x", "offset": 0}))
