"""`steno sessions export` and `steno sessions import`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from steno import ChatMessage, Message, ToolCall, UserMessage
from steno.codec import decode_document
from steno.messages.content import Image, ImageBlob, ImageData, ImageUrl, Text
from steno.messages.outcome import Outcome
from steno.records.entry import ApprovalStatus, Redaction
from steno.store import open_store
from tests.cli.program import COMMAND, run_process, run_steno, store_sample_session

FORMATS = ["steno", "jsonl", "audit", "session", "rows", "chat"]
PICTURE = Image(source=ImageData(b"\x89PNG" * 8_000), mime_type="image/png")


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_exported_can_be_imported_in_every_format(
    address: str, tmp_path: Path, format: str
) -> None:
    conversation = store_sample_session(address)
    file = tmp_path / f"talk.{format}"
    output = run_steno("sessions", "export", "talk", "--format", format, "-o", file)
    assert (output.status, output.out) == (0, "")
    assert file.stat().st_mode & 0o777 == 0o600
    imported = run_steno("sessions", "import", file, "--id", "back", "--title", "Again")
    assert (imported.status, imported.out) == (0, "back\n")
    assert imported.err.endswith(f" from the format {format}\n")
    with open_store(address) as store:
        assert store.open("back").messages() == _as_imported(conversation.messages(), format)
        assert store.header("back").title == "Again"
    assert run_steno("verify", "back").status == 0


def _as_imported(messages: tuple[Message, ...], format: str) -> tuple[Message, ...]:
    """Return the messages without what a format has no words for."""
    absent_fields = {
        "session": {"duration_s"},
        "rows": {"duration_s", "usage"},
        "chat": {"duration_s", "usage", "tool_name"},
    }.get(format, set[str]())
    defaults = {"duration_s": None, "usage": None, "tool_name": ""}
    imported: list[Message] = []
    for message in messages:
        absent = {name: defaults[name] for name in absent_fields if hasattr(message, name)}
        imported.append(replace(message, **absent))
    return tuple(imported)


def test_a_document_holds_the_branch_that_was_asked_for(address: str) -> None:
    conversation = store_sample_session(address)
    output = run_steno("sessions", "export", "talk", "--branch", "other")
    document = decode_document(output.out)
    assert document.entries == conversation.entries("other")
    assert document.id == "talk"
    assert output.err == "session: left out: title (--format jsonl has a place for it)\n"


def test_losses_are_listed_and_forbidden_on_demand(address: str) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "export", "talk", "--format", "chat", "--strict")
    assert output.status == 3
    assert len(json.loads(output.out)) == 6
    lines = output.err.splitlines()
    assert "session: only the active branch is in the file" in lines
    assert "approval: left out (1 entry: #4)" in lines
    assert run_steno("sessions", "export", "talk", "--format", "jsonl", "--strict").status == 0


def test_losses_are_told_by_their_kind_and_in_full_on_demand(address: str, tmp_path: Path) -> None:
    with open_store(address) as store:
        conversation = store.new(id="many")
        for number in range(7):
            call = ToolCall(id=f"c{number}", name="read")
            conversation.append(ChatMessage.assistant(None, [call]))
            conversation.decide(call.id, ApprovalStatus.APPROVED, rule="readers")
            conversation.append(
                ChatMessage.tool_result(call.id, "denied", outcome=Outcome.DENIED, duration_s=1.0)
            )
    report = tmp_path / "losses.json"
    output = run_steno("sessions", "export", "many", "--format", "session", "--report", report)
    assert output.status == 0
    lines = output.err.splitlines()
    assert "approval: left out (7 entries: #2, #5, #8, #11, #14, …)" in lines
    assert any(
        line.startswith("outcome (denied, told as an error): left out (7 ") for line in lines
    )
    found = json.loads(report.read_text())
    approvals = [loss for loss in found if loss["what"] == "left out: approval"]
    assert [loss["number"] for loss in approvals] == [2, 5, 8, 11, 14, 17, 20]
    with open_store(address) as store:
        assert approvals[0]["entry"] == store.open("many").entries()[1].id
    again = ("sessions", "export", "many", "--format", "session", "--quiet", "--strict")
    assert run_steno(*again, "--report", report).err.startswith(
        f"steno: {report}: it is there already"
    )
    output = run_steno(*again, "--report", report, "--force")
    assert (output.status, output.err) == (3, "")
    output = run_steno(*again, "-o", report, "--report", report, "--force")
    problem = "--report: it is the file of the session; choose another name"
    assert output == (2, "", f"steno: {problem}\n")


def test_what_is_lost_in_several_places_of_an_entry_is_one_kind(address: str) -> None:
    with open_store(address) as store:
        picture = Image(source=ImageUrl("https://example.org/a.png"), mime_type="image/png")
        store.new([ChatMessage.user([Text("a"), picture, picture])], id="seen")
    output = run_steno("sessions", "export", "seen", "--format", "session")
    assert "content (image): left out (1 entry: #1)" in output.err.splitlines()


def test_a_document_keeps_its_id_unless_the_store_has_one(address: str, tmp_path: Path) -> None:
    store_sample_session(address)
    document = run_steno("sessions", "export", "talk").out.encode()
    here = run_steno("sessions", "import", "-", data=document)
    assert here.status == 0
    assert len(here.out.strip()) == 36
    elsewhere = f"sqlite:{tmp_path / 'elsewhere.db'}"
    there = run_steno("sessions", "import", "-", "--store", elsewhere, data=document)
    assert (there.status, there.out) == (0, "talk\n")


def test_a_file_that_is_there_is_not_written_over_unless_that_is_said(
    address: str, tmp_path: Path
) -> None:
    store_sample_session(address)
    file = tmp_path / "talk.json"
    file.write_text("mine")
    arguments = ("sessions", "export", "talk", "-o", file)
    output = run_steno(*arguments)
    problem = "it is there already; choose another name, or add --force"
    assert output == (1, "", f"steno: {file}: {problem}\n")
    assert file.read_text() == "mine"
    assert run_steno(*arguments, "--force").status == 0
    assert decode_document(file.read_bytes()).id == "talk"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_is_no_file_is_never_replaced(address: str, tmp_path: Path) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "export", "talk", "--force", "-o", tmp_path)
    assert output == (1, "", f"steno: {tmp_path}: it is not a file; choose another name\n")
    output = run_steno("sessions", "export", "talk", "-o", tmp_path / "absent" / "file")
    assert output.status == 1
    assert output.err == (
        f"steno: {tmp_path}/absent/file: cannot be written: No such file or directory; "
        "make room or write elsewhere\n"
    )


@pytest.mark.parametrize("option", ["-o", "--report"])
def test_what_is_open_is_written_to_and_not_replaced(
    address: str, tmp_path: Path, option: str
) -> None:
    store_sample_session(address)
    log = tmp_path / "log"
    log.write_text("precious\n")
    arguments = ("sessions", "export", "talk", "--quiet", option, "/dev/stdout")
    with log.open("ab") as out:
        subprocess.run([*COMMAND, *arguments], stdout=out, check=True, timeout=60)
    earlier, session, *report = log.read_bytes().splitlines()
    assert earlier == b"precious"
    assert decode_document(session).id == "talk"
    assert len(report) == (option == "--report")
    assert run_process(*arguments).out.encode() == b"\n".join([session, *report, b""])  # a pipe


def test_a_link_is_followed_and_stays_a_link(address: str, tmp_path: Path) -> None:
    store_sample_session(address)
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert run_steno("sessions", "export", "talk", "--force", "-o", tmp_path / "link").status == 0
    assert (tmp_path / "link").is_symlink()
    assert decode_document((tmp_path / "real").read_bytes()).id == "talk"


@pytest.mark.parametrize(
    ("name", "format", "start"),
    [
        ("talk.html", "html", b"<!doctype html>"),
        ("talk.HTM", "html", b"<!doctype html>"),
        ("talk.md", "markdown", b"# "),
        ("talk.json", "steno", b'{"version":'),
        ("talk.jsonl", "jsonl", b'{"crc":'),
        ("talk.odt", "steno", b'{"version":'),
        ("talk", "steno", b'{"version":'),
    ],
)
def test_a_file_holds_what_its_name_says_and_a_line_tells_what_that_is(
    address: str, tmp_path: Path, name: str, format: str, start: bytes
) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "export", "talk", "-o", tmp_path / name)
    assert output.status == 0
    assert f"steno: written: {tmp_path / name} (format {format})\n" in output.err
    assert (tmp_path / name).read_bytes().lower().startswith(start)


def test_a_format_that_is_named_counts_more_than_the_name_of_the_file(
    address: str, tmp_path: Path
) -> None:
    store_sample_session(address)
    file = tmp_path / "talk.html"
    output = run_steno("sessions", "export", "talk", "--format", "chat", "-o", file, "--quiet")
    assert output == (0, "", "")
    assert json.loads(file.read_bytes())[0]["role"] == "system"


def test_lines_hold_all_branches_and_digests(address: str, tmp_path: Path) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "export", "talk", "--format", "jsonl", "--branch", "main")
    advice = "leave it out, or choose a --format"
    assert output == (2, "", f"steno: --branch: jsonl holds all branches; {advice}\n")
    file = tmp_path / "talk.jsonl"
    output = run_steno("sessions", "export", "talk", "--format", "jsonl", "-o", file)
    assert output == (0, "", f"steno: written: {file} (format jsonl)\n")
    heads = json.loads(run_steno("verify", "talk", "--json").out)["heads"]
    assert run_steno("sessions", "import", file).err == (
        "steno: import: there is a session of this id; give another by --id\n"
    )
    elsewhere = f"sqlite:{tmp_path / 'elsewhere.db'}"
    assert run_steno("sessions", "import", file, "--store", elsewhere).out == "talk\n"
    found = json.loads(run_steno("verify", "talk", "--json", "--store", elsewhere).out)
    assert (found["heads"], found["entries"]) == (heads, 12)


def test_images_travel_inside_of_documents(address: str) -> None:
    with open_store(address) as store:
        store.new([ChatMessage.user([PICTURE])], id="seen")
    output = run_steno("sessions", "export", "seen")
    assert output.err == ""
    assert decode_document(output.out).messages[0].content == (PICTURE,)
    lines = run_steno("sessions", "export", "seen", "--format", "jsonl")
    assert lines.err == "session: left out: the bytes of 1 image or long result\n"
    assert run_steno("sessions", "import", "-", "--id", "new", data=output.out.encode()).status == 0
    with open_store(address) as store:
        (record,) = store.records("new")
        assert record.entry is not None
        assert isinstance(record.entry.payload, UserMessage)
        (block,) = record.entry.payload.content
        assert isinstance(block, Image)
        assert isinstance(block.source, ImageBlob)


def test_an_image_that_got_lost_is_a_loss(address: str) -> None:
    with open_store(address) as store:
        store.new([ChatMessage.user([PICTURE])], id="seen")
        (blob,) = store.blobs()
        store.remove_blob(blob.sha256)
    output = run_steno("sessions", "export", "seen", "--strict")
    assert output.status == 3
    assert output.err == (
        "the bytes of an image or a long result are not in the store (1 entry: #1)\n"
    )
    assert blob.sha256 in output.out


def test_a_result_that_lies_beside_the_records_is_shown_and_missed(address: str) -> None:
    with open_store(address) as store:
        conversation = store.new(id="long")
        conversation.append(ChatMessage.assistant(None, [ToolCall(id="c1", name="cat")]))
        conversation.append(ChatMessage.tool_result("c1", "many words\n" * 30_000))
        (blob,) = store.blobs()
    assert "    many words\n" in run_steno("sessions", "show", "long").out
    lines = run_steno("sessions", "export", "long", "--format", "jsonl")
    assert lines.err == "session: left out: the bytes of 1 image or long result\n"
    with open_store(address) as store:
        store.remove_blob(blob.sha256)
    output = run_steno("sessions", "show", "long")
    assert output.status == 0
    assert blob.sha256 in output.out


def test_what_was_taken_out_is_explained_in_the_copy(address: str) -> None:
    store_sample_session(address)
    run_steno("sessions", "redact", "talk", "2", "--reason", "x", "--actor", "ada", "--yes")
    document = run_steno("sessions", "export", "talk", "--branch", "other").out
    assert run_steno("sessions", "import", "-", "--id", "copy", data=document.encode()).status == 0
    checked = run_steno("verify", "copy")
    assert (checked.status, checked.err) == (0, "")
    with open_store(address) as store:
        last = store.open("copy").entries()[-1].payload
    assert isinstance(last, Redaction)
    assert last.actor == "steno import"


@pytest.mark.parametrize("paper", ["markdown", "html"])
def test_people_get_a_file_of_their_own(address: str, tmp_path: Path, paper: str) -> None:
    conversation = store_sample_session(address)
    file = tmp_path / "talk"
    output = run_steno(
        "sessions", "export", "talk", "--format", paper, "-o", file, "--branch", "other"
    )
    assert (output.status, output.out) == (0, "")
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text("utf-8")
    for text_shown in (
        "Mend the build",
        "Another way",
        "approved by ada",
        "it only reads",
        "other",
    ):
        assert text_shown in text
    number = len(conversation.entries("main"))
    assert "What next?" not in text
    assert f"#{number + 3} User" in text.replace(f'<a href="#e{number + 3}">', "").replace(
        "</a>", ""
    )
    assert "entries: left out: their ids and digests" in output.err.splitlines()
    assert "arguments_sha256: left out (1 entry: #4)" in output.err.splitlines()


def test_a_file_for_people_has_a_title_and_its_images(address: str) -> None:
    with open_store(address) as store:
        store.new([ChatMessage.user([Text("What is this?"), PICTURE])], id="seen")
    output = run_steno("sessions", "export", "seen", "--format", "markdown")
    assert output.out.startswith("# What is this?\n")
    assert "![image](data:image/png;base64," in output.out
    assert output.err == "entries: left out: their ids and digests\n"


@pytest.mark.parametrize("paper", ["markdown", "html"])
def test_what_is_for_people_is_not_read_back(address: str, paper: str) -> None:
    output = run_steno("sessions", "import", "-", "--format", paper, data=b"# Hi")
    problem = f"--format: {paper} is for people, and no program reads it back"
    advice = "export the session in another one (steno, jsonl, audit, session, rows, chat)"
    assert output == (2, "", f"steno: {problem}; {advice}\n")


# -- import --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "stdin: not valid JSON: Input data was truncated"),
        (b"{", "stdin: not valid JSON: Input data was truncated"),
        (b"[]", "stdin: file: is in no format that is known; name the one that it is in"),
        (b"\xff\xfe", "stdin: not valid UTF-8 at byte 0"),
        (b'{"version": 99}', "stdin: written in format 99; this steno reads up to 2: upgrade it"),
        (b'{"crc":"00000000","session":{}}', "stdin: line 1: its checksum does not fit"),
        (b'[{"kind": "tool_call", "data_json": "{"}]', "stdin: "),
    ],
)
def test_a_bad_file_adds_nothing(address: str, data: bytes, problem: str) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "import", "-", data=data)
    assert (output.status, output.out) == (1, "")
    assert output.err.startswith(f"steno: {problem}")
    assert output.err.count("\n") == 1
    assert len(run_steno("sessions", "list", "--json").out.splitlines()) == 1


def test_a_bad_file_does_not_even_make_a_store(home: Path) -> None:
    assert run_steno("sessions", "import", "-", data=b"{").status == 1
    assert list(home.iterdir()) == []
    output = run_steno("sessions", "import", home / "absent.json")
    assert output == (1, "", f"steno: {home}/absent.json: No such file or directory\n")


def test_lines_that_were_changed_are_refused(address: str, tmp_path: Path) -> None:
    store_sample_session(address)
    file = tmp_path / "talk.jsonl"
    run_steno("sessions", "export", "talk", "--format", "jsonl", "-o", file)
    lines = file.read_bytes().splitlines()
    for changed, problem in (
        ([lines[0], *lines[2:]], "record 2"),
        ([*lines[:3], lines[2], *lines[3:]], "record 2"),
        ([lines[0], lines[0]], "line 2: the header comes first, and once"),
        (lines[1:], "line 1: the header comes first, and once"),
        ([*lines[:2], lines[2][:-20]], "line 3: its checksum does not fit"),
    ):
        output = run_steno("sessions", "import", "-", "--id", "copy", data=b"\n".join(changed))
        assert output.status == 1
        assert output.err.startswith(f"steno: stdin: {problem}")
    assert len(run_steno("sessions", "list", "--json").out.splitlines()) == 1


def test_the_named_format_counts(address: str) -> None:
    chat = b'[{"role": "user", "content": "Hi"}]'
    output = run_steno("sessions", "import", "-", "--format", "audit", data=chat)
    assert output.status == 1
    assert output.err.startswith("steno: stdin: ")
    assert run_steno("sessions", "import", "-", "--format", "morse", data=chat).status == 2
    marked = b"\xef\xbb\xbf" + chat
    assert run_process("sessions", "import", "-", "--format", "chat", data=marked).status == 0


def test_where_somebody_else_worked_does_not_count_here(tmp_path: Path) -> None:
    """Else a session that was sent could take over `steno -c` in a folder of that name."""
    with open_store(f"jsonl:{tmp_path / 'theirs'}") as store:
        sent = store.new([ChatMessage.user("Hi.")], about={"folder": "/work", "topic": "x"}).id
    output = run_steno(
        "sessions", "export", sent, "--format", "jsonl", "--store", f"jsonl:{tmp_path / 'theirs'}"
    )
    (tmp_path / "sent.jsonl").write_text(output.out, "utf-8")
    ours = f"sqlite:{tmp_path / 'ours.db'}"
    assert (
        run_steno("sessions", "import", str(tmp_path / "sent.jsonl"), "--store", ours).status == 0
    )
    with open_store(ours) as store:
        (header,) = store.headers()
    assert header.about == {"topic": "x"}
