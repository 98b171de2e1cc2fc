"""`steno sessions export` and `steno sessions import`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from steno import ChatMessage, Message, ToolCall, UserMessage
from steno.codec import decode_document, encode_message
from steno.messages.content import Image, ImageBlob, ImageData, ImageUrl, Text
from steno.messages.outcome import Outcome
from steno.records.entry import ApprovalStatus, Redaction
from steno.store import open_store
from tests.cli.program import COMMAND, run_process, run_steno, store_sample_session

FORMATS = ["steno", "jsonl", "audit", "session", "rows", "chat"]
PICTURE = Image(source=ImageData(b"\x89PNG" * 8_000), mime_type="image/png")


@pytest.mark.parametrize("format", FORMATS)
def test_an_exported_session_can_be_imported_in_every_format(
    address: str, tmp_path: Path, format: str
) -> None:
    conversation = store_sample_session(address)
    file = tmp_path / f"talk.{format}"
    output = run_steno("sessions", "export", "talk", "--format", format, "-o", file)
    assert (output.status, output.out) == (0, "")
    assert file.stat().st_mode & 0o777 == 0o600
    imported = run_steno("sessions", "import", file, "--id", "back", "--title", "Again")
    assert (imported.status, imported.out) == (0, "back\n")
    assert imported.err.endswith(f"(format {format})\n")
    with open_store(address) as store:
        assert store.open("back").messages() == _as_imported(conversation.messages(), format)
        assert store.header("back").title == "Again"
    assert run_steno("verify", "back").status == 0


def _as_imported(messages: tuple[Message, ...], format: str) -> tuple[Message, ...]:
    """Return the messages without the fields that a format cannot express."""
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
    [line] = output.err.splitlines()
    assert line.startswith("session: ")
    assert all(fact in line for fact in (" title ", "--format jsonl"))


def test_losses_are_listed_and_forbidden_on_demand(address: str) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "export", "talk", "--format", "chat", "--strict")
    assert output.status == 3
    assert len(json.loads(output.out)) == 6
    lines = output.err.splitlines()
    assert any(line.startswith("session: ") for line in lines)
    [approval] = [line for line in lines if line.startswith("approval: ")]
    assert approval.endswith(" (1 entry: #4)")
    assert run_steno("sessions", "export", "talk", "--format", "jsonl", "--strict").status == 0


def test_losses_are_listed_by_kind_and_in_full_on_demand(address: str, tmp_path: Path) -> None:
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
    [approval] = [line for line in lines if line.startswith("approval: ")]
    assert approval.endswith(" (7 entries: #2, #5, #8, #11, #14, …)")
    assert any(line.startswith("outcome (denied") and " (7 " in line for line in lines)
    found = json.loads(report.read_text())
    approvals = [loss for loss in found if loss["explanation"] == "left out: approval"]
    assert [loss["number"] for loss in approvals] == [2, 5, 8, 11, 14, 17, 20]
    with open_store(address) as store:
        assert approvals[0]["entry"] == store.open("many").entries()[1].id
    again = ("sessions", "export", "many", "--format", "session", "--quiet", "--strict")
    output = run_steno(*again, "--report", report)
    assert (output.code, output.place) == ("file_exists", str(report))
    output = run_steno(*again, "--report", report, "--force")
    assert (output.status, output.err) == (3, "")
    output = run_steno(*again, "-o", report, "--report", report, "--force")
    assert (output.status, output.out) == (2, "")
    assert (output.code, output.place) == ("report_replaces_file", "--report")


def test_losses_in_several_places_of_an_entry_are_one_kind(address: str) -> None:
    with open_store(address) as store:
        picture = Image(source=ImageUrl("https://example.org/a.png"), mime_type="image/png")
        store.new([ChatMessage.user([Text("a"), picture, picture])], id="seen")
    output = run_steno("sessions", "export", "seen", "--format", "session")
    lines = [line for line in output.err.splitlines() if line.startswith("content (image): ")]
    assert [line.endswith(" (1 entry: #1)") for line in lines] == [True]


def test_an_existing_file_is_not_replaced_without_force(address: str, tmp_path: Path) -> None:
    store_sample_session(address)
    file = tmp_path / "talk.json"
    file.write_text("mine")
    arguments = ("sessions", "export", "talk", "-o", file)
    output = run_steno(*arguments)
    assert (output.status, output.code, output.place) == (1, "file_exists", str(file))
    assert "--force" in output.err
    assert file.read_text() == "mine"
    assert run_steno(*arguments, "--force").status == 0
    assert decode_document(file.read_bytes()).id == "talk"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_only_regular_files_are_replaced(address: str, tmp_path: Path) -> None:
    store_sample_session(address)
    for options in (["--force"], []):
        output = run_steno("sessions", "export", "talk", *options, "-o", tmp_path)
        assert (output.status, output.code, output.place) == (1, "not_a_file", str(tmp_path))
    long = tmp_path / ("x" * 300)
    output = run_steno("sessions", "export", "talk", "-o", long)
    assert (output.status, output.code, output.place) == (1, "ENAMETOOLONG", str(long))
    output = run_steno("sessions", "export", "talk", "-o", tmp_path / "absent" / "file")
    assert (output.status, output.code) == (1, "ENOENT")
    assert output.place == f"{tmp_path}/absent/file"


@pytest.mark.parametrize("option", ["-o", "--report"])
def test_an_open_file_is_written_to_and_not_replaced(
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
def test_the_format_follows_the_file_name_and_is_reported(
    address: str, tmp_path: Path, name: str, format: str, start: bytes
) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "export", "talk", "-o", tmp_path / name)
    assert output.status == 0
    assert f"steno: wrote {tmp_path / name} (format {format})\n" in output.err
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
    assert (output.status, output.out) == (2, "")
    assert (output.code, output.place) == ("format_holds_all_branches", "--branch")
    file = tmp_path / "talk.jsonl"
    output = run_steno("sessions", "export", "talk", "--format", "jsonl", "-o", file)
    assert (output.status, output.out) == (0, "")
    assert all(fact in output.err for fact in (f" {file} ", " jsonl"))
    heads = json.loads(run_steno("verify", "talk", "--json").out)["heads"]
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
    assert (lines.err.count("\n"), lines.err.partition(": ")[0]) == (1, "session")
    assert " 1 image " in lines.err
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
    [line] = output.err.splitlines()
    assert line.endswith(" (1 entry: #1)")
    assert blob.sha256 in output.out


def test_a_result_that_lies_beside_the_records_is_shown_and_missed(address: str) -> None:
    with open_store(address) as store:
        conversation = store.new(id="long")
        conversation.append(ChatMessage.assistant(None, [ToolCall(id="c1", name="cat")]))
        conversation.append(ChatMessage.tool_result("c1", "many words\n" * 30_000))
        (blob,) = store.blobs()
    assert "    many words\n" in run_steno("sessions", "show", "long").out
    lines = run_steno("sessions", "export", "long", "--format", "jsonl")
    assert (lines.err.count("\n"), lines.err.partition(": ")[0]) == (1, "session")
    assert " 1 image " in lines.err
    with open_store(address) as store:
        store.remove_blob(blob.sha256)
    output = run_steno("sessions", "show", "long")
    assert output.status == 0
    assert blob.sha256 in output.out


def test_redacted_entries_are_explained_in_the_copy(address: str) -> None:
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
    lines = output.err.splitlines()
    assert any(line.startswith("entries: ") for line in lines)
    [line] = [line for line in lines if line.startswith("arguments_sha256: ")]
    assert line.endswith(" (1 entry: #4)")


def test_a_file_for_people_has_a_title_and_its_images(address: str) -> None:
    with open_store(address) as store:
        store.new([ChatMessage.user([Text("What is this?"), PICTURE])], id="seen")
    output = run_steno("sessions", "export", "seen", "--format", "markdown")
    assert output.out.startswith("# What is this?\n")
    assert "![image](data:image/png;base64," in output.out
    assert [line.partition(": ")[0] for line in output.err.splitlines()] == ["entries"]


@pytest.mark.parametrize("paper", ["markdown", "html"])
def test_formats_for_people_cannot_be_imported(address: str, paper: str) -> None:
    output = run_steno("sessions", "import", "-", "--format", paper, data=b"# Hi")
    assert (output.status, output.out) == (2, "")
    assert (output.code, output.place) == ("format_write_only", "--format")
    assert output.err.endswith(" (steno, jsonl, audit, session, rows, chat)\n")


@pytest.mark.parametrize("suffix", [".md", ".html"])
def test_a_file_for_people_is_recognised_by_its_name(
    address: str, tmp_path: Path, suffix: str
) -> None:
    file = tmp_path / f"talk{suffix}"
    file.write_bytes(b"# Hi")
    output = run_steno("sessions", "import", file)
    assert (output.status, output.code, output.place) == (1, "format_write_only", str(file))


# -- import --------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b'{"a": 1}', b'[{"a": 1}]', b'{"version": "x"}'])
def test_a_file_of_an_unknown_format_can_be_named(data: bytes) -> None:
    output = run_steno("sessions", "import", "-", data=data)
    assert (output.status, output.place) == (1, "stdin")
    assert "--format (steno, jsonl, audit, session, rows, chat)\n" in output.err
    output = run_steno("sessions", "import", "-", "--format", "wat", data=data)
    assert (output.status, output.code, output.place) == (2, "not_a_choice", "--format")
    assert "wat" in output.err
    assert "html" not in output.err


@pytest.mark.parametrize(
    ("data", "code", "named"),
    [
        (b"", "input_empty", ""),
        (b"{", "not_json", ""),
        (b'[{"role": "user"},]', "not_json", "line 1, column 19"),
        *[(data, "not_a_conversation", "") for data in (b"[]", b"{}", b"null")],
        (b"\xff\xfe", "not_utf8", " byte 0"),
        (b'{"version": 99}', "unsupported_version", " 99"),
        (b'{"crc":"00000000","session":{}}', "checksum_mismatch", "line 1: "),
        (b'[{"kind": "tool_call", "data_json": "{"}]', "not_json", ""),
    ],
)
def test_a_bad_file_adds_nothing(address: str, data: bytes, code: str, named: str) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "import", "-", data=data)
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place, output.named_place) == (code, "stdin", "stdin")
    assert named in output.err
    assert output.err.count("\n") == 1
    assert len(run_steno("sessions", "list", "--json").out.splitlines()) == 1


@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_file_is_named_as_such_in_every_format(format: str) -> None:
    for data in (b"", b"\n\n"):
        output = run_steno("sessions", "import", "-", "--format", format, data=data)
        assert (output.status, output.code, output.place) == (1, "input_empty", "stdin")


def test_messages_on_separate_lines_are_imported(address: str) -> None:
    messages = [ChatMessage.user("Hi"), ChatMessage.assistant("Hello")]
    data = b"\n".join([encode_message(message) for message in messages])
    output = run_steno("sessions", "import", "-", "--json", data=data)
    imported = json.loads(output.out)
    assert (imported["format"], imported["records"]) == ("steno", 2)
    with open_store(address) as store:
        assert store.open(imported["id"]).messages() == tuple(messages)


def test_a_bad_file_does_not_even_make_a_store(home: Path) -> None:
    assert run_steno("sessions", "import", "-", data=b"{").status == 1
    assert list(home.iterdir()) == []
    output = run_steno("sessions", "import", home / "absent.json")
    assert (output.status, output.code) == (1, "ENOENT")
    assert output.place == f"{home}/absent.json"


def test_lines_that_were_changed_are_refused(address: str, tmp_path: Path) -> None:
    store_sample_session(address)
    file = tmp_path / "talk.jsonl"
    run_steno("sessions", "export", "talk", "--format", "jsonl", "-o", file)
    lines = file.read_bytes().splitlines()
    for changed, code, record in (
        ([lines[0], *lines[2:]], "chain_broken", "record 2"),
        ([*lines[:3], lines[2], *lines[3:]], "chain_broken", "record 2"),
        ([lines[0], lines[0]], "header_misplaced", "line 2: "),
        (lines[1:], "header_misplaced", "line 1: "),
        ([*lines[:2], lines[2][:-20]], "checksum_mismatch", "line 3: "),
    ):
        output = run_steno("sessions", "import", "-", "--id", "copy", data=b"\n".join(changed))
        assert (output.status, output.code, output.place) == (1, code, "stdin")
        assert output.err.startswith(f"steno: stdin: {record}")
    assert len(run_steno("sessions", "list", "--json").out.splitlines()) == 1


def test_the_named_format_counts(address: str) -> None:
    chat = b'[{"role": "user", "content": "Hi"}]'
    output = run_steno("sessions", "import", "-", "--format", "audit", data=chat)
    assert output.status == 1
    assert output.err.startswith("steno: stdin: ")
    assert run_steno("sessions", "import", "-", "--format", "morse", data=chat).status == 2
    marked = b"\xef\xbb\xbf" + chat
    assert run_process("sessions", "import", "-", "--format", "chat", data=marked).status == 0


def test_an_import_does_not_take_over_the_folder_of_a_session(tmp_path: Path) -> None:
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
    assert set(header.about or {}) == {"topic", "import"}
