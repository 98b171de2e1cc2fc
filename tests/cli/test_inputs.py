"""`steno inputs`, and how `steno sessions show` lists references."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from steno import ChatMessage, Conversation
from steno.formats.format import build_records
from steno.messages.content import FileReference, Image, ImageData, ImageUrl, Resource, Text
from steno.messages.message import UserMessage
from steno.ports import ReferenceBlock
from steno.records.entry import Compaction, Entry, Payload, Resolution, ResolutionStatus
from steno.records.stored_record import Header
from steno.store import open_store
from tests.app.project_setup import make_project, scripted_model
from tests.cli.program import loaded_by, on_terminal, run_steno
from tests.cli.reference_setup import input_rows

SHA256 = "ab12" * 16
BLINDNESS = "the model does not accept images"
OCR = {
    "kind": "image",
    "source": "data",
    "mode": "auto",
    "fallback": BLINDNESS,
    "used": "ocr",
    "engine": "rapidocr 3.10.0",
    "confidence": 0.9712,
    "language": "de",
    "sha256": SHA256,
    "bytes": 3428,
}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a file in it, which is where we are."""
    return make_project(tmp_path, monkeypatch)


def keep(
    *pointers: ReferenceBlock, found: Mapping[int, Any] = {}, folder: Path | None = None
) -> None:
    """Store a session whose one message has references, with some resolutions."""
    with open_store(create=True) as store:
        about = None if folder is None else {"folder": str(folder)}
        conversation = store.new(id="pointing", about=about)
        append_prompt(conversation, *pointers, found=found)


def append_prompt(
    conversation: Conversation, *pointers: ReferenceBlock, found: Mapping[int, Any]
) -> None:
    entry = conversation.append(UserMessage((Text("See."), *pointers)))
    for block, what in found.items():
        failed = isinstance(what, str)
        conversation.append(
            Resolution(
                target=entry.id,
                block=block,
                status=ResolutionStatus.FAILED if failed else ResolutionStatus.RESOLVED,
                content=() if failed else (Text("what was found"),),
                error=what if failed else None,
                details=None if failed else what,
            )
        )


def resource_details(age: timedelta, **more: Any) -> dict[str, Any]:
    retrieved_at = (datetime.now(UTC) - age).isoformat()
    return {"kind": "resource", "retrieved_at": retrieved_at, "ttl_s": 3600, **more}


def image(**more: Any) -> Image:
    return Image(source=ImageData(b"\x89PNG"), mime_type="image/png", **more)


# -- what there is -------------------------------------------------------------------------------


def test_a_session_without_references_is_reported() -> None:
    keep()
    output = run_steno("inputs")
    assert (output.status, output.out, output.err.count("\n")) == (0, "", 1)
    assert run_steno("inputs", "--json").out == ""


def test_without_a_session_inputs_fails() -> None:
    output = run_steno("inputs")
    assert (output.status, output.code, output.place) == (1, "store_empty", "session")
    keep()
    output = run_steno("inputs", "unknown")
    assert (output.status, output.code, output.place) == (1, "name_unknown", "session unknown")
    output = run_steno("inputs", "--branch", "unknown")
    assert (output.status, output.code, output.place) == (1, "branch_missing", "branch")


def test_the_table_lists_how_each_reference_was_shown_and_whether_it_changed(
    home: Path, project: Path
) -> None:
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text("A = 1\n", encoding="utf-8")
    with scripted_model(home, "I see."):
        run_steno("-p", "See @note.txt:1, @src/ and @src/*.py")
    output = run_steno("inputs")
    assert (output.status, output.err) == (0, "")
    titles, *lines = [line.split() for line in output.out.splitlines()]
    assert titles == ["entry", "kind", "name", "when", "status", "how", "bytes", "sha256", "since"]
    assert [(*line[:3], line[-1]) for line in lines] == [
        ("#3", "file", "note.txt:1", "same"),
        ("#3", "folder", "src", "same"),
        ("#3", "pattern", "src/*.py", "same"),
    ]
    assert [row["how"] for row in input_rows()] == ["1 line", "listing", "1 file"]


def test_changed_and_deleted_files_are_reported(home: Path, project: Path) -> None:
    for name in ("a.md", "b.md", "c.md"):
        (project / name).write_text(f"{name}\n", encoding="utf-8")
    with scripted_model(home, "I see."):
        run_steno("-p", "See @a.md @b.md @c.md @*.md")
    (project / "b.md").write_text("other\n", encoding="utf-8")
    (project / "c.md").unlink()
    rows = [(row["name"], row["since"], row["changes"]) for row in input_rows()]
    assert rows == [
        ("a.md", "same", []),
        ("b.md", "changed", ["b.md has changed since it was shown"]),
        ("c.md", "gone", ["c.md is gone"]),
        ("*.md", "changed", ["b.md has changed since it was shown", "c.md is gone"]),
    ]
    shutil.move(project, project.with_name("elsewhere"))
    assert [row["since"] for row in input_rows()] == ["?"] * 4


def test_images_and_resources_are_listed_with_how_and_how_old(project: Path) -> None:
    held = Resource(server="lib", uri="memo://a")
    keep(
        image(),
        Image(source=ImageUrl("https://ada:hush@x.example/shot.png?key=hush")),
        held,
        Resource(server="lib", uri="memo://b"),
        Resource(server="lib", uri="memo://c"),
        folder=project,
        found={
            1: OCR,
            2: {"kind": "image", "used": "vision", "bytes": 12, "sha256": SHA256},
            3: resource_details(timedelta(minutes=1), from_cache=True, bytes=9, sha256=SHA256),
            4: resource_details(timedelta(hours=2), shortened=10),
        },
    )
    rows = [
        (row["kind"], row["name"], row["status"], row["how"], row["since"]) for row in input_rows()
    ]
    assert rows == [
        ("image", "image/png", "resolved", "ocr rapidocr 3.10.0 0.97 de", None),
        ("image", "https://x.example/shot.png", "resolved", "vision", None),
        ("resource", "lib:memo://a", "resolved", "cache", "fresh"),
        ("resource", "lib:memo://b", "resolved", "read, shortened", "stale"),
        ("resource", "lib:memo://c", "pending", None, None),
    ]
    assert "hush" not in run_steno("inputs").out


@pytest.mark.parametrize(
    ("block", "content"),
    [
        (image(), b"\x89PNG"),
        (Image(source=ImageData(b"\x89PNG" * 5000), mime_type="image/png"), b"\x89PNG" * 5000),
        (Resource(server="lib", uri="memo://a", text="né"), "né".encode()),
        (Resource(server="lib", uri="memo://a", data=b"\0"), b"\0"),
    ],
    ids=["image", "blob", "text", "bytes"],
)
def test_content_of_the_message_itself_is_embedded_and_not_pending(
    block: ReferenceBlock, content: bytes
) -> None:
    keep(block)
    [row] = input_rows()
    digest = hashlib.sha256(content).hexdigest()
    assert (row["status"], row["bytes"], row["sha256"]) == ("embedded", len(content), digest)
    assert (row["since"], row["details"]) == (None, None)


def test_json_has_all_that_is_on_record() -> None:
    keep(image(), FileReference(path="a.md", start_line=3), found={1: OCR, 2: "'a.md': is gone"})
    first, second = input_rows()
    assert (first["number"], first["block"], first["details"]) == (1, 1, OCR)
    assert (first["bytes"], first["sha256"], first["error"]) == (3428, SHA256, None)
    assert second == {
        "number": 1,
        "entry": first["entry"],
        "block": 2,
        "kind": "file",
        "name": "a.md:3",
        "time": first["time"],
        "status": "failed",
        "how": None,
        "bytes": None,
        "sha256": None,
        "since": None,
        "changes": [],
        "error": "'a.md': is gone",
        "vision_analysis": None,
        "details": None,
    }


def test_answered_summarised_and_refreshed_references_stay_listed(home: Path) -> None:
    with scripted_model(home, "I see.", "Again."):
        run_steno("-p", "See @note.txt")
    with open_store() as store:
        [header] = store.headers()
        conversation = store.open(header.id)
        last = conversation.append(ChatMessage.user("Go on."))
        conversation.append(Compaction(through=last.id, summary="They looked at a note."))
    assert [row["name"] for row in input_rows()] == ["note.txt"]


def test_references_off_the_branch_are_counted_and_shown_with_all(home: Path) -> None:
    with scripted_model(home, "I see."):
        run_steno("-p", "See @note.txt")
        assert run_steno("-c", "-p", "See @gone.md").status == 1
    output = run_steno("inputs")
    assert "gone.md" not in output.out
    assert output.err.startswith("steno: 1 ")
    assert "--all" in output.err
    output = run_steno("inputs", "--all")
    assert output.err == ""
    assert "'gone.md': no such file or folder" in output.out


def test_a_branch_can_be_named() -> None:
    keep(FileReference(path="a.md"))
    with open_store() as store:
        conversation = store.open("pointing")
        conversation.fork("other")
        conversation.append(UserMessage((Text("And."), FileReference(path="b.md"))), branch="other")
    assert [row["name"] for row in input_rows("--branch", "main")] == ["a.md"]
    assert [row["name"] for row in input_rows("pointing", "--branch", "other")] == ["a.md", "b.md"]


def test_files_of_added_folders_are_compared(home: Path, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    file = tmp_path / "more" / "list.md"
    file.write_text("one\n", encoding="utf-8")
    with scripted_model(home, "I see.", settings=f"add_dirs = [{json.dumps(str(file.parent))}]"):
        run_steno("-p", f"See @{file}")
    assert [row["since"] for row in input_rows()] == ["same"]
    file.unlink()
    assert [row["since"] for row in input_rows()] == ["gone"]
    shutil.rmtree(file.parent)
    assert [row["since"] for row in input_rows()] == ["?"]


def test_files_of_a_folder_that_was_added_for_a_run_are_compared_where_they_lie(
    home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "more"
    folder.mkdir()
    file = folder / "list.md"
    file.write_text("one\n", encoding="utf-8")
    with scripted_model(home, "I see."):
        assert run_steno("-p", f"See @{file}", "--add-dir", str(folder)).status == 0
    assert [row["since"] for row in input_rows()] == ["same"]
    file.write_text("two\n", encoding="utf-8")
    [row] = input_rows()
    assert (row["since"], row["changes"]) == (
        "changed",
        [f"{file} has changed since it was shown"],
    )
    file.unlink()
    assert [row["since"] for row in input_rows()] == ["gone"]
    other = tmp_path / "other.md"
    other.write_text("one\n", encoding="utf-8")
    file.symlink_to(other)
    assert [row["since"] for row in input_rows()] != ["same"]  # no link is followed
    shutil.rmtree(folder)
    assert [row["since"] for row in input_rows()] == ["?"]


def test_the_confidence_of_an_engine_is_rounded_down_everywhere() -> None:
    keep(image(), found={1: OCR | {"confidence": 0.9999}})
    assert "ocr rapidocr 3.10.0 0.99 de" in input_rows()[0]["how"]
    assert "confidence 0.99, de" in run_steno("sessions", "show", "pointing").out


# -- forged records ------------------------------------------------------------------------------

FORGED = [
    {"kind": 7},
    {"kind": "file", "path": 1, "lines": "many", "bytes": True, "sha256": 5},
    {"kind": "file", "path": "../../etc/passwd", "sha256": SHA256, "bytes": 3, "lines": 2},
    {"kind": "file", "path": "/\0/a", "sha256": SHA256, "bytes": 3},
    {"kind": "file", "path": "/dev/stdin", "sha256": SHA256, "bytes": 0},
    {"kind": "file", "path": "/" + "a" * 9999 + "/b", "sha256": SHA256, "bytes": 3},
    {"kind": "folder", "path": "..", "sha256": "", "left_out": "all"},
    {"kind": "pattern", "files": [7, None, {"bytes": "x"}]},
    {"kind": "pattern", "files": "abc"},
    {"kind": "image", "used": ["ocr"], "engine": 3, "confidence": "high", "language": {}},
    {"kind": "image", "used": "ocr", "confidence": None},
    {"kind": "resource", "retrieved_at": "yesterday", "ttl_s": "long", "from_cache": "yes"},
    {},
]


@pytest.mark.parametrize("pointer", [FileReference(path="a.md"), image()])
def test_foreign_details_stop_nothing(pointer: ReferenceBlock, project: Path) -> None:
    keep(*[pointer] * len(FORGED), found=dict(enumerate(FORGED, 1)), folder=project)
    assert run_steno("inputs").status == 0
    assert [row["details"] for row in input_rows()] == FORGED
    assert run_steno("sessions", "show", "pointing").status == 0


def test_control_characters_are_shown_as_escapes(project: Path) -> None:
    evil = "\x1b]0;gotcha\x07\u202e"
    keep(
        FileReference(path=f"a{evil}.md"),
        Resource(server=f"lib{evil}", uri=f"memo://{evil}"),
        image(),
        found={1: f"no {evil}", 3: OCR | {"engine": evil, "language": evil, "fallback": evil}},
        folder=project,
    )
    for arguments in (("inputs",), ("inputs", "--json"), ("sessions", "show", "pointing")):
        output = run_steno(*arguments)
        assert output.status == 0
        assert not set(output.out) & {"\x1b", "\x07", "\u202e"}


def test_a_resolution_without_its_reference_is_listed_too() -> None:
    with open_store(create=True) as store:
        found = Resolution(
            target="e1", block=0, status=ResolutionStatus.RESOLVED, content=(Text("found"),)
        )
        odd = [found, replace(found, block=9), replace(found, target="no-such-entry", block=1)]
        payloads: list[Payload] = [ChatMessage.user("See."), *odd]
        entries = [Entry(id=f"e{n}", payload=payload) for n, payload in enumerate(payloads, 1)]
        store.add_session(Header(id="pointing"), build_records(entries))
    output = run_steno("sessions", "show", "pointing")
    assert "    #1, block 0: resolved\n" in output.out
    assert "    #1, block 9: resolved\n" in output.out
    assert "    #?, block 1: resolved\n" in output.out
    assert input_rows() == []


# -- in a session --------------------------------------------------------------------------------


def test_sessions_show_lists_what_was_found_without_repeating_it() -> None:
    lines = {"lines": 40, "first_line": 1, "last_line": 2}
    keep(
        FileReference(path="notes.md", start_line=1, end_line=2),
        image(),
        FileReference(path="gone.md"),
        Resource(server="lib", uri="memo://a"),
        found={
            1: {"kind": "file", "path": "notes.md", "sha256": SHA256, "bytes": 1200, **lines},
            2: OCR,
            3: "'gone.md': no such file or folder",
            4: resource_details(timedelta(0), bytes=1),
        },
    )
    output = run_steno("sessions", "show", "pointing").out
    short = "ab12ab12…"
    recognised = "text recognised by rapidocr 3.10.0, confidence 0.97, de"
    for line in (
        f"#1, block 1: notes.md:1-2: lines 1-2 of 40, 1,200 bytes, sha256 {short}",
        f"#1, block 2: image/png: {recognised}, 3,428 bytes, sha256 {short}, because {BLINDNESS}",
        "#1, block 3: gone.md: failed: 'gone.md': no such file or folder",
        "#1, block 4: lib:memo://a: read, 1 byte",
    ):
        assert f"    {line}\n" in output
    assert "what was found" not in output


def test_the_table_fits_a_terminal_and_errors_are_shown_in_full() -> None:
    keep(FileReference(path="long/" * 30 + "name.md"), found={1: "far too long " * 20 + "!"})
    output = on_terminal("inputs", environment={"NO_COLOR": "1", "TERM": "dumb"})
    assert output.status == 0
    title, row, *error = output.out.splitlines()
    assert all(len(line) <= 80 for line in (title, row, *error))
    assert "long/lon" in row
    assert all(line.startswith("    ") for line in error)
    assert " ".join(" ".join(error).split()) == "far too long " * 20 + "!"


def test_in_a_pipe_what_went_wrong_stands_below_its_row() -> None:
    keep(FileReference(path="a.md"), FileReference(path="b.md"), found={1: "it is\nlocked"})
    _, first, error, second = run_steno("inputs").out.splitlines()
    assert first.split()[2:3] == ["a.md"]
    assert error == "    it is locked"
    assert second.split()[2:3] == ["b.md"]


@pytest.mark.parametrize(("encoding", "how"), [("utf-8", "2 lines"), ("cp1252", "2 lines, cp1252")])
def test_the_encoding_of_a_file_is_listed_unless_it_is_utf_8(encoding: str, how: str) -> None:
    lines = {"lines": 2, "first_line": 1, "last_line": 2}
    found = {"kind": "file", "path": "a.md", "encoding": encoding, **lines}
    keep(FileReference(path="a.md"), found={1: found})
    assert [row["how"] for row in input_rows()] == [how]


def test_unsent_references_are_counted(home: Path) -> None:
    with scripted_model(home, "I see."):
        assert run_steno("-p", "See @gone.md and @lost.md").status == 1
    output = run_steno("inputs")
    assert output.out == ""
    assert output.err.startswith("steno: 2 ")
    assert "--all" in output.err


def test_reading_sessions_loads_no_input_modules() -> None:
    keep(image(), found={1: OCR})
    loaded = loaded_by("sessions", "show", "pointing")
    assert loaded.isdisjoint({"asyncio", "steno.agent", "PIL", "mcp"})
    parts = {name for name in loaded if name.startswith("steno.inputs.")}
    assert parts <= {"steno.inputs.ocr", "steno.inputs.ocr.engine"}  # how sure engines are
