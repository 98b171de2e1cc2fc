"""`steno sessions import`: the ID of the session, files imported twice, and `last` afterwards."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from steno import ChatMessage, Image, ImageData
from steno.app.session_import import ImportedFile, add_session_file, read_session_file
from steno.cli.arguments import ExitStatus
from steno.codec import Document, encode_document, encode_messages
from steno.formats import detect_format
from steno.ids import utc_now
from steno.log.chain import entry_digest
from steno.records import Entry
from steno.render.progress import ProgressMeter, no_progress
from steno.store import open_store
from tests.cli.program import run_steno, store_sample_session
from tests.cli.test_last_session import damage
from tests.formats.sample_files import AUDIT_EXAMPLE, SESSION_EXAMPLE

PNG_HEADER = b"\x89PNG\r\n\x1a\n"
CHAT = b'[{"role": "user", "content": "Hi"}]'
ROWS = b'[{"kind": "user", "content": "Hi"}]'
NAMED_CHAT = b'{"id": "session-id", "messages": [{"role": "user", "content": "Hi"}]}'
DOCUMENT = encode_document(Document(id="session-id", entries=()))
DOCUMENT_WITHOUT_ID = encode_document(Document.of([ChatMessage.user("Hi")]))
OLDER = json.dumps(json.loads(SESSION_EXAMPLE) | {"id": "older"}).encode()
FUTURE = SESSION_EXAMPLE.replace(b'"2026-', b'"2999-').replace(b"session-id", b"future")


def import_file(data: bytes, *arguments: str | Path) -> dict[str, Any]:
    """Import a file, and return the JSON that the command prints."""
    output = run_steno("sessions", "import", "-", *arguments, "--json", data=data)
    assert output.status == 0
    imported: dict[str, Any] = json.loads(output.out)
    return imported


def last_session() -> str:
    output = run_steno("sessions", "show", "last", "--json")
    assert output.status == 0
    return run_steno("verify", "last").out.split()[1]


def sessions() -> list[str]:
    return sorted(
        json.loads(line)["id"] for line in run_steno("sessions", "list", "--json").out.splitlines()
    )


# -- the ID --------------------------------------------------------------------------------------


@pytest.mark.requirement("S4-11", "P-08")
@pytest.mark.parametrize(
    "data", [SESSION_EXAMPLE, NAMED_CHAT, DOCUMENT], ids=["session", "chat", "steno"]
)
def test_an_import_keeps_the_id_of_the_file(address: str, data: bytes) -> None:
    output = run_steno("sessions", "import", "-", data=data)
    assert (output.status, output.out) == (0, "session-id\n")
    assert sessions() == ["session-id"]


@pytest.mark.requirement("S4-11")
def test_a_session_file_comes_back_with_its_id(address: str) -> None:
    run_steno("sessions", "import", "-", data=SESSION_EXAMPLE)
    exported = run_steno("sessions", "export", "session-id", "--format", "session", "--strict")
    assert exported.status == 0
    assert json.loads(exported.out) == json.loads(SESSION_EXAMPLE)


@pytest.mark.parametrize("format", ["steno", "jsonl", "session"])
def test_an_id_that_is_taken_is_replaced_and_both_are_reported(
    address: str, tmp_path: Path, format: str
) -> None:
    there = f"sqlite:{tmp_path / 'elsewhere.db'}"
    with open_store(there) as store:
        store.new([ChatMessage.user("Another session")], id="talk")
    store_sample_session(address)
    exported = run_steno("sessions", "export", "talk", "--format", format, "--store", there)
    data = exported.out.encode()
    output = run_steno("sessions", "import", "-", data=data)
    assert output.status == 0
    new = output.out.strip()
    assert len(new) == 36
    assert any("talk" in line and new in line for line in output.err.splitlines())
    assert sessions() == sorted([new, "talk"])
    with open_store(address) as store:
        [message] = store.open(new).messages()
    assert message.text == "Another session"
    assert run_steno("sessions", "rm", new, "--yes").status == 0
    found = import_file(data)
    assert (found["replaced_id"], found["added"], found["format"]) == ("talk", True, format)
    assert found["id"] == new


def test_an_id_of_the_command_line_that_is_taken_is_an_error(address: str) -> None:
    store_sample_session(address)
    output = run_steno("sessions", "import", "-", "--id", "talk", data=CHAT)
    assert (output.status, output.out, output.code) == (1, "", "session_exists")
    assert output.place == "--id"
    assert sessions() == ["talk"]


def test_an_import_with_a_taken_id_stores_no_blobs(address: str) -> None:
    store_sample_session(address)
    image = Image(source=ImageData(bytes(300_000)), mime_type="image/png")
    data = encode_messages([ChatMessage.user([image])])
    assert run_steno("sessions", "import", "-", "--id", "talk", data=data).code == "session_exists"
    with open_store(address) as store:
        assert list(store.blobs()) == []


BAD_IDS = ["", " ", "a\nb", "a\x1b[31mb", "a\u2028b", "a\x7f", "last", "-x", " talk", "x" * 100_000]


@pytest.mark.requirement("P-08")
@pytest.mark.parametrize("id", BAD_IDS, ids=lambda id: ascii(id[:9]))
def test_a_bad_id_is_refused_and_adds_nothing(address: str, id: str) -> None:
    output = run_steno("sessions", "import", "-", f"--id={id}", data=CHAT)
    assert (output.status, output.out) == (2, "")
    assert (output.code, output.place) == ("invalid_session_id", "--id")
    assert output.err.count("\n") == 1
    assert len(output.err) < 300
    assert sessions() == []


@pytest.mark.requirement("P-08")
@pytest.mark.parametrize("id", BAD_IDS[1:], ids=lambda id: ascii(id[:9]))
def test_a_bad_id_in_a_file_is_replaced(address: str, id: str) -> None:
    data = json.dumps(json.loads(SESSION_EXAMPLE) | {"id": id}).encode()
    output = run_steno("sessions", "import", "-", data=data)
    assert output.status == 0
    assert sessions() == [output.out.strip()]
    assert len(output.out) == 37
    assert len(output.err) < 500


@pytest.mark.requirement("P-08")
def test_the_reason_why_an_id_is_replaced_is_reported(address: str) -> None:
    def import_named(id: str) -> ImportedFile:
        data = json.dumps(json.loads(SESSION_EXAMPLE) | {"id": id}).encode()
        file = read_session_file(data, "session")
        with open_store(address) as store:
            return add_session_file(store, file, show_progress=no_progress)

    store_sample_session(address)
    assert import_named("talk").id_problem == "session_exists"
    assert import_named("last").id_problem == "invalid_session_id"
    assert import_named("free").id_problem is None


@pytest.mark.requirement("P-08")
@pytest.mark.parametrize("data", [CHAT, AUDIT_EXAMPLE, ROWS, DOCUMENT_WITHOUT_ID])
def test_the_id_of_a_file_without_one_depends_on_the_file_only(address: str, data: bytes) -> None:
    first = import_file(data)
    assert (first["replaced_id"], len(first["id"])) == (None, 36)
    assert import_file(data)["replaced_id"] is None
    assert run_steno("sessions", "rm", first["id"], "--yes").status == 0
    assert import_file(data) == first
    assert import_file(data + b" ")["id"] != first["id"]


def test_the_id_for_a_file_without_one_may_be_taken(address: str) -> None:
    derived = import_file(CHAT)["id"]
    assert run_steno("sessions", "rm", derived, "--yes").status == 0
    import_file(SESSION_EXAMPLE, "--id", derived)
    output = run_steno("sessions", "import", "-", data=CHAT)
    assert output.status == 0
    assert derived not in output.err
    found = import_file(CHAT)
    assert (found["id"], found["replaced_id"]) == (output.out.strip(), None)
    assert len(sessions()) == 2


@pytest.mark.parametrize("id", ["talk 2", "2026-02-18", "sitzung-ä", "会话", "a/b", "x" * 200])
def test_any_printable_id_may_be_chosen(address: str, id: str) -> None:
    assert run_steno("sessions", "import", "-", "--id", id, data=CHAT).out == f"{id}\n"
    assert run_steno("sessions", "show", id).status == 0


# -- a single object -----------------------------------------------------------------------------

SINGLE_FILES = {
    "message": (b'{"role": "user", "content": "Hi"}', "chat"),
    "entry": (b'{"message": {"type": "user", "content": "Hi"}}', "audit"),
    "row": (b'{"kind": "user",\n "content": "Hi"}', "rows"),
    "message of a session file": (
        b'{"type": "user", "content": [{"type": "text", "text": "Hi"}]}',
        "steno",
    ),
    "messages": (b'[{"type": "user", "content": [{"type": "text", "text": "Hi"}]}]', "steno"),
}


@pytest.mark.requirement("S2-10", "P-12")
@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize(("data", "format"), SINGLE_FILES.values(), ids=SINGLE_FILES)
def test_a_single_object_is_imported(
    address: str, tmp_path: Path, data: bytes, format: str, is_named: bool
) -> None:
    (tmp_path / "file").write_bytes(data)
    arguments = ["--format", format] if is_named else []
    for file, read in (("-", data), (tmp_path / "file", b"")):
        output = run_steno("sessions", "import", file, *arguments, data=read)
        assert output.status == 0
    with open_store(address) as store:
        [header] = store.headers()
        [message] = store.open(header.id).messages()
    assert (message.role, message.text) == ("user", "Hi")


def test_a_session_file_of_lines_may_have_the_line_ends_of_windows(
    address: str, tmp_path: Path
) -> None:
    store_sample_session(address)
    exported = run_steno("sessions", "export", "talk", "--format", "jsonl").out.encode()
    other = f"sqlite:{tmp_path / 'other.db'}"
    assert import_file(exported.replace(b"\n", b"\r\n"), "--store", other)["id"] == "talk"
    assert run_steno("verify", "talk", "--store", other).status == 0


UNREADABLE_DOCUMENTS: dict[str, dict[str, Any]] = {
    "no version, unknown member": {
        "entries": [
            {"id": "m1", "payload": {"type": "user", "content": [{"type": "text", "text": "a"}]}},
            {"id": "m2", "parent": "m1", "payload": {"type": "label", "target": "m1", "n": 1}},
        ],
        "mood": 1,
    },
    "newer version without id": {"entries": [{"v": 9, "payload": {"type": "user"}}]},
    "newer version, empty id": {"entries": [{"v": 9, "id": "", "payload": {"type": "user"}}]},
}


@pytest.mark.requirement("P-08")
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("store", ["sqlite:a.db", "jsonl:a"])
@pytest.mark.parametrize("document", UNREADABLE_DOCUMENTS.values(), ids=UNREADABLE_DOCUMENTS)
def test_a_file_with_unknown_parts_is_stored_as_it_is_read_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    document: dict[str, Any],
    store: str,
    indent: int | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    data = json.dumps({"version": 2} | document, indent=indent).encode()
    assert run_steno("sessions", "import", "-", "--store", store, data=data).status == 0
    verified = run_steno("verify", "last", "--store", store)
    assert verified.status in (ExitStatus.OK, ExitStatus.INCOMPLETE)  # a newer version
    assert run_steno("sessions", "export", "last", "--store", store, "--quiet").status == 0


# -- the same file twice -------------------------------------------------------------------------


@pytest.mark.requirement("S4-11", "P-09")
@pytest.mark.parametrize(
    "data",
    [SESSION_EXAMPLE, AUDIT_EXAMPLE, CHAT, NAMED_CHAT, ROWS],
    ids=["session", "audit", "chat", "named chat", "rows"],
)
def test_the_second_import_of_a_file_finds_the_session_of_the_first(
    address: str, data: bytes
) -> None:
    first = run_steno("sessions", "import", "-", data=data)
    with open_store(address) as store:
        store.open(first.out.strip()).append(ChatMessage.user("And now?"))
    again = run_steno("sessions", "import", "-", data=data)
    assert (again.status, again.out) == (0, first.out)
    assert first.out.strip() in again.err
    assert len(sessions()) == 1
    found = import_file(data)
    assert (found["id"], found["added"]) == (first.out.strip(), False)


@pytest.mark.parametrize("format", ["steno", "jsonl"])
def test_an_export_of_a_session_in_the_store_is_not_a_second_session(
    address: str, tmp_path: Path, format: str
) -> None:
    conversation = store_sample_session(address)
    file = tmp_path / "talk"
    run_steno("sessions", "export", "talk", "--format", format, "-o", file)
    with open_store(address) as store:
        store.open(conversation.id).append(ChatMessage.user("And now?"))
    output = run_steno("sessions", "import", file)
    assert (output.status, output.out) == (0, "talk\n")
    assert sessions() == ["talk"]


def test_a_changed_file_with_the_same_id_is_a_new_session(address: str) -> None:
    changed = SESSION_EXAMPLE.replace(b"login", b"logout")
    run_steno("sessions", "import", "-", data=SESSION_EXAMPLE)
    first = import_file(changed)
    assert (first["replaced_id"], first["added"]) == ("session-id", True)
    second = import_file(changed)
    assert (second["id"], second["added"]) == (first["id"], False)
    assert import_file(SESSION_EXAMPLE)["id"] == "session-id"
    assert sessions() == sorted(["session-id", first["id"]])


def test_a_file_that_continues_the_stored_session_is_a_new_session(
    address: str, tmp_path: Path
) -> None:
    store_sample_session(address)
    there = f"sqlite:{tmp_path / 'elsewhere.db'}"
    store_sample_session(there)
    with open_store(there) as store:
        store.open("talk").append(ChatMessage.user("Written elsewhere"))
    exported = run_steno("sessions", "export", "talk", "--store", there)
    found = import_file(exported.out.encode())
    assert (found["replaced_id"], found["added"]) == ("talk", True)


@pytest.mark.requirement("P-09")
def test_a_chosen_id_adds_the_file_again(address: str) -> None:
    run_steno("sessions", "import", "-", data=SESSION_EXAMPLE)
    assert import_file(SESSION_EXAMPLE, "--id", "copy")["added"]
    assert sessions() == ["copy", "session-id"]


def test_no_notice_says_that_an_id_is_taken_if_another_was_chosen(address: str) -> None:
    output = run_steno("sessions", "import", "-", "--id", "chosen", data=SESSION_EXAMPLE)
    assert (output.status, output.out) == (0, "chosen\n")
    assert "session-id" not in output.err


@pytest.mark.requirement("P-08")
@pytest.mark.parametrize("is_same_file", [True, False])
def test_an_id_that_another_program_takes_during_the_import_is_no_error(
    address: str, is_same_file: bool
) -> None:
    file = read_session_file(SESSION_EXAMPLE, "session")
    other = file if is_same_file else read_session_file(CHAT, "chat")
    with open_store(address) as store, open_store(address) as store_of_other:

        @contextmanager
        def add_other_first(activity: str, total: int | None) -> Generator[ProgressMeter]:
            if not list(store_of_other.headers()):
                add_session_file(store_of_other, other, id="session-id", show_progress=no_progress)
            with no_progress(activity, total) as progress:
                yield progress

        imported = add_session_file(store, file, show_progress=add_other_first)
    assert imported.is_added is not is_same_file
    assert imported.replaced_id == (None if is_same_file else "session-id")
    assert sessions() == sorted({"session-id", imported.id})


@pytest.mark.requirement("P-09")
@pytest.mark.parametrize("data", [SESSION_EXAMPLE, CHAT, AUDIT_EXAMPLE, ROWS])
def test_a_file_that_is_imported_twice_at_once_is_one_session(address: str, data: bytes) -> None:
    (name,) = {detect_format(data)}
    with open_store(address) as store, open_store(address) as store_of_other:

        @contextmanager
        def add_other_first(activity: str, total: int | None) -> Generator[ProgressMeter]:
            other = read_session_file(data, name)
            add_session_file(store_of_other, other, show_progress=no_progress)
            with no_progress(activity, total) as progress:
                yield progress

        file = read_session_file(data, name)
        imported = add_session_file(store, file, show_progress=add_other_first)
    assert (imported.is_added, imported.replaced_id) == (False, None)
    assert sessions() == [imported.id]


@pytest.mark.parametrize("id", ["talk", "last"], ids=["taken", "invalid"])
def test_a_file_whose_id_is_replaced_and_that_is_imported_twice_at_once_is_one_session(
    address: str, id: str
) -> None:
    data = json.dumps(json.loads(SESSION_EXAMPLE) | {"id": id}).encode()
    store_sample_session(address)
    with open_store(address) as store, open_store(address) as store_of_other:

        @contextmanager
        def add_other_first(activity: str, total: int | None) -> Generator[ProgressMeter]:
            if len(list(store_of_other.headers())) == 1:
                other = read_session_file(data, "session")
                add_session_file(store_of_other, other, show_progress=no_progress)
            with no_progress(activity, total) as progress:
                yield progress

        file = read_session_file(data, "session")
        imported = add_session_file(store, file, show_progress=add_other_first)
    assert (imported.is_added, imported.replaced_id) == (False, id)
    assert sessions() == sorted(["talk", imported.id])


REFORMATTED_FILES = {
    "session": SESSION_EXAMPLE,
    "chat": json.dumps(
        {
            "id": "session-id",
            "messages": [
                {"role": "user", "content": "Hi", "x": [1, 2.5]},
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c1", "name": "ls", "arguments": {"b": 1, "a": "é"}}],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
                {"role": "vote", "content": {"b": 1, "a": 2}},
            ],
        }
    ).encode(),
}


def reformat(data: bytes) -> bytes:
    return json.dumps(json.loads(data), indent=4, sort_keys=True).encode()


@pytest.mark.requirement("P-09")
@pytest.mark.parametrize("data", REFORMATTED_FILES.values(), ids=REFORMATTED_FILES)
def test_a_file_with_an_id_that_was_only_reformatted_is_not_added_again(
    address: str, data: bytes
) -> None:
    records = import_file(data)["records"]
    again = import_file(reformat(data))
    assert (again["id"], again["replaced_id"]) == ("session-id", None)
    assert (again["added"], again["has_content"], again["records"]) == (False, True, records)
    with open_store(address) as store:
        store.open("session-id").append(ChatMessage.user("And now?"))
    assert not import_file(reformat(data))["added"]
    changed = data.replace(b'"Hi"', b'"Ho"').replace(b"login", b"logout")
    assert import_file(changed)["replaced_id"] == "session-id"


@pytest.mark.requirement("P-09")
def test_a_reformatted_file_is_added_again_if_content_was_redacted(address: str) -> None:
    """It is another file, whose content the store does not have."""
    import_file(SESSION_EXAMPLE)
    assert run_steno("sessions", "redact", "session-id", "2", "--reason", "x", "--yes").status == 0
    again = import_file(reformat(SESSION_EXAMPLE))
    assert (again["replaced_id"], again["added"], again["has_content"]) == (
        "session-id",
        True,
        True,
    )


MEMBERS_OF_AN_ENTRY: dict[str, Any] = {
    "id": "m2",
    "time": "2026-02-18T12:00:09Z",
    "decision": "tool_call_denied",
    "audit": {"actor": "eve"},
    "mood": 1,
    "payload": {"type": "user", "content": [{"type": "text", "text": "Ho"}]},
}


@pytest.mark.requirement("P-09")
@pytest.mark.parametrize("member", MEMBERS_OF_AN_ENTRY)
def test_a_document_with_another_member_is_another_session(address: str, member: str) -> None:
    payload = {"type": "user", "content": [{"type": "text", "text": "Hi"}]}
    entry = {"v": 2, "id": "m1", "decision": "tool_call_approved", "payload": payload}
    document = {"version": 2, "id": "session-id", "entries": [entry]}
    import_file(json.dumps(document).encode())
    assert not import_file(json.dumps(document, indent=1).encode())["added"]
    entry[member] = MEMBERS_OF_AN_ENTRY[member]
    assert import_file(json.dumps(document).encode())["replaced_id"] == "session-id"


@pytest.mark.requirement("P-09")
def test_a_file_with_another_image_is_another_session(address: str) -> None:
    def session(color: bytes) -> bytes:
        image = Image(source=ImageData(PNG_HEADER + color * 20_000), mime_type="image/png")
        messages = [ChatMessage.user([image])]
        return encode_document(Document.of(messages, id="session-id"))

    import_file(session(b"r"))
    assert not import_file(reformat(session(b"r")))["added"]
    assert import_file(session(b"g"))["replaced_id"] == "session-id"


@pytest.mark.requirement("P-09")
def test_a_session_that_lost_its_last_entries_has_no_longer_all_content(tmp_path: Path) -> None:
    address = f"jsonl:{tmp_path / 'store'}"
    session = import_file(SESSION_EXAMPLE, "--store", address)["id"]
    [file] = [path for path in Path(tmp_path / "store").rglob("*") if session in path.name]
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-2]))
    again = import_file(SESSION_EXAMPLE, "--store", address)
    assert (again["added"], again["has_content"]) == (False, False)


@pytest.mark.requirement("P-08")
def test_warnings_of_an_import_do_not_depend_on_the_log(caplog: pytest.LogCaptureFixture) -> None:
    data = b'[{"role": "user", "content": "Hi"}, {"role": "wizard", "content": "Ho"}]'
    with caplog.at_level(logging.CRITICAL, logger="steno.codec"):
        file = read_session_file(data, "chat")
    assert [(each.place, each.code) for each in file.warnings] == [("[1]", "unknown_part")]
    assert caplog.records == []


def test_a_file_with_other_times_or_more_messages_is_another_session(address: str) -> None:
    import_file(SESSION_EXAMPLE)
    later = SESSION_EXAMPLE.replace(b"12:00:01Z", b"12:00:09Z")
    longer = json.loads(SESSION_EXAMPLE)
    longer["messages"].append({"type": "user", "content": [{"type": "text", "text": "b"}]})
    for data in (later, json.dumps(longer).encode()):
        assert import_file(data)["added"]
    assert len(sessions()) == 3


@pytest.mark.requirement("P-09")
@pytest.mark.parametrize(
    "data",
    [SESSION_EXAMPLE, AUDIT_EXAMPLE, CHAT, NAMED_CHAT, ROWS],
    ids=["session", "audit", "chat", "named chat", "rows"],
)
def test_an_import_reports_whether_the_session_still_has_the_content(
    address: str, data: bytes
) -> None:
    session = import_file(data)["id"]
    with open_store(address) as store:
        store.open(session).append(ChatMessage.user("And now?"))
    assert import_file(data)["has_content"]
    assert run_steno("sessions", "redact", session, "1", "--reason", "x", "--yes").status == 0
    found = import_file(data)
    assert (found["id"], found["added"], found["has_content"]) == (session, False, False)


def test_an_exported_session_whose_content_was_redacted_is_reported(
    address: str, tmp_path: Path
) -> None:
    store_sample_session(address)
    file = tmp_path / "talk.json"
    run_steno("sessions", "export", "talk", "-o", file)
    assert import_file(file.read_bytes())["has_content"]
    assert run_steno("sessions", "redact", "talk", "2", "--reason", "x", "--yes").status == 0
    found = import_file(file.read_bytes())
    assert (found["id"], found["added"], found["has_content"]) == ("talk", False, False)


def test_a_second_import_stores_no_redacted_content(address: str) -> None:
    image = Image(source=ImageData(PNG_HEADER + bytes(20_000)), mime_type="image/png")
    data = encode_messages([ChatMessage.user([image])])
    session = import_file(data)["id"]
    with open_store(address) as store:
        assert len(list(store.blobs())) == 1
    assert run_steno("sessions", "redact", session, "1", "--reason", "x", "--yes").status == 0
    assert not import_file(data)["has_content"]
    with open_store(address) as store:
        assert list(store.blobs()) == []


def remove_blobs(address: str) -> None:
    with open_store(address) as store:
        future = utc_now() + timedelta(days=1)
        digests = [blob.sha256 for blob in store.blobs()]
        assert digests
        for digest in digests:
            store.remove_blob(digest, put_before=future)
        assert list(store.blobs()) == []


@pytest.mark.requirement("P-09")
def test_a_second_import_stores_a_missing_image_again(address: str) -> None:
    image = Image(source=ImageData(PNG_HEADER + bytes(20_000)), mime_type="image/png")
    data = encode_messages([ChatMessage.user([image])])
    session = import_file(data)["id"]
    remove_blobs(address)
    again = import_file(data)
    assert (again["id"], again["added"], again["has_content"]) == (session, False, True)
    assert run_steno("verify", session).status == 0
    with open_store(address) as store:
        assert len(list(store.blobs())) == 1


@pytest.mark.requirement("P-09")
def test_a_file_that_lacks_the_bytes_of_an_image_is_reported(address: str, tmp_path: Path) -> None:
    image = Image(source=ImageData(PNG_HEADER + bytes(20_000)), mime_type="image/png")
    session = import_file(encode_messages([ChatMessage.user([image])]))["id"]
    exported = run_steno("sessions", "export", session, "--format", "jsonl").out.encode()
    other = f"sqlite:{tmp_path / 'other.db'}"
    for is_added in (True, False):
        found = import_file(exported, "--store", other)
        assert (found["added"], found["has_content"]) == (is_added, False)
    assert import_file(exported)["has_content"]


@pytest.mark.requirement("P-09")
def test_a_damaged_session_of_the_same_file_is_reported(address: str) -> None:
    session = import_file(CHAT)["id"]
    damage(address, session, line=1)
    output = run_steno("sessions", "import", "-", data=CHAT)
    assert (output.status, output.out) == (1, "")
    assert output.place == f"session {session}"
    assert import_file(CHAT, "--id", "again")["added"]


@pytest.mark.requirement("P-09")
def test_an_export_with_a_new_empty_branch_is_another_session(address: str, tmp_path: Path) -> None:
    store_sample_session(address)
    copy = f"jsonl:{tmp_path / 'copy'}"
    exported = run_steno("sessions", "export", "talk", "--format", "jsonl").out.encode()
    import_file(exported, "--store", copy)
    with open_store(copy) as store:
        talk = store.open("talk")
        talk.fork("experiment", at=talk.entries()[0].id)
    extended = run_steno("sessions", "export", "talk", "--format", "jsonl", "--store", copy)
    found = import_file(extended.out.encode())
    assert (found["added"], found["replaced_id"]) == (True, "talk")
    with open_store(address) as store:
        assert "experiment" in store.heads(found["id"])


def test_a_title_for_a_file_that_is_not_added_is_reported(address: str) -> None:
    import_file(SESSION_EXAMPLE)
    output = run_steno("sessions", "import", "-", "--title", "New", data=SESSION_EXAMPLE)
    assert output.status == 0
    assert "--title" in output.err
    with open_store(address) as store:
        assert store.header("session-id").title != "New"


def test_a_file_whose_session_was_deleted_is_added_again(address: str) -> None:
    run_steno("sessions", "import", "-", data=SESSION_EXAMPLE)
    run_steno("sessions", "rm", "session-id", "--yes")
    assert import_file(SESSION_EXAMPLE) == {
        "id": "session-id",
        "replaced_id": None,
        "added": True,
        "has_content": True,
        "records": 4,
        "format": "session",
    }


# -- the time of creation ------------------------------------------------------------------------

TIMED_ROWS = (
    b'[{"kind": "user", "content": "Hi", "created_at": null}, '
    b'{"kind": "assistant", "content": "a", "created_at": "2026-02-10T15:30:00Z"}, '
    b'{"kind": "user", "content": "b", "created_at": "2026-02-09T15:30:00Z"}]'
)
TIMED_MESSAGE = b'{"type": "user", "content": [{"type": "text", "text": "Hi"}], "timestamp": "2026-02-10T15:30:00Z"}'


@pytest.mark.requirement("P-10")
@pytest.mark.parametrize(
    "data", [AUDIT_EXAMPLE, TIMED_ROWS, TIMED_MESSAGE], ids=["audit", "rows", "session"]
)
@pytest.mark.parametrize("arguments", [[], ["--id", "copy"]])
def test_a_session_starts_at_the_first_time_in_its_file(
    address: str, data: bytes, arguments: list[str]
) -> None:
    store_sample_session(address)
    imported = import_file(data, *arguments)["id"]
    with open_store(address) as store:
        assert store.header(imported).created_at == datetime(2026, 2, 10, 15, 30, tzinfo=UTC)
    assert last_session() == imported
    with open_store(address) as store:
        store.open("talk").append(ChatMessage.user("And now?"))
    assert last_session() == "talk"


def test_a_session_from_a_file_without_times_starts_at_its_import(address: str) -> None:
    before = utc_now()
    imported = import_file(CHAT)["id"]
    with open_store(address) as store:
        created_at = store.header(imported).created_at
    assert created_at is not None
    assert before <= created_at <= utc_now()


def test_a_time_of_creation_in_the_file_is_kept(address: str) -> None:
    import_file(SESSION_EXAMPLE.replace(b"2026-02-18T12:00:00Z", b"2026-02-17T12:00:00Z", 1))
    with open_store(address) as store:
        assert store.header("session-id").created_at == datetime(2026, 2, 17, 12, tzinfo=UTC)


# -- content that steno does not know ----------------------------------------------------------

WIZARD = {"role": "wizard", "content": "x"}
VOTE = {"id": "e", "message": {"type": "vote"}}


@pytest.mark.requirement("S2-09", "P-24")
@pytest.mark.parametrize(
    ("content", "place", "kind"),
    [
        ([WIZARD], "[0]: ", "wizard"),
        (WIZARD, "", "wizard"),
        ([{"role": "user", "content": "a"}, 5], "[1]: ", ""),
        ({"version": 1, "id": "s", "system_prompt": "a", "messages": [5]}, "messages[0]: ", ""),
        ({"entries": [VOTE]}, "entries[0].message: ", "vote"),
        (
            {"version": 2, "entries": [{"v": 2, "id": "a", "payload": {"type": "vote"}}]},
            "entries[0].payload: ",
            "vote",
        ),
    ],
)
def test_content_that_cannot_be_read_is_reported_with_its_place(
    address: str, tmp_path: Path, content: Any, place: str, kind: str
) -> None:
    file = tmp_path / "file.json"
    file.write_text(json.dumps(content))
    output = run_steno("sessions", "import", file)
    first, last = output.err.splitlines()
    assert output.status == 0
    assert first.startswith(f"steno: {file}: {place}content ")
    assert kind in first
    assert last.startswith("steno: imported ")
    again = run_steno("sessions", "import", file)
    assert again.err.count("\n") == 1


def test_equal_warnings_are_one_line(address: str) -> None:
    data = json.dumps([*[WIZARD] * 3, *[{"role": "user", "content": "a", "x": 1}] * 2]).encode()
    lines = run_steno("sessions", "import", "-", data=data).err.splitlines()
    assert len(lines) == 3
    assert [line.partition("(")[2] for line in lines[:2]] == ["and 2 more)", "and 1 more)"]
    assert [line.split(": ")[2] for line in lines[:2]] == ["[0]", "[3]"]


@pytest.mark.parametrize("format", ["jsonl", "steno"])
def test_an_exported_session_with_unknown_content_is_reported_at_its_line(
    address: str, tmp_path: Path, format: str
) -> None:
    session = import_file(json.dumps(["a", {"role": "user", "content": [{"type": "x"}]}]).encode())
    file = tmp_path / "talk"
    run_steno("sessions", "export", session["id"], "--format", format, "-o", file)
    places = {warning.place for warning in read_session_file(file.read_bytes(), format).warnings}
    if format == "jsonl":
        assert places == {"line 3: entry.payload.content[0]"}
    else:
        assert places == {"entries[1].payload.content[0]"}


# -- `last` --------------------------------------------------------------------------------------


@pytest.mark.requirement("P-10")
@pytest.mark.parametrize("data", [OLDER, CHAT, AUDIT_EXAMPLE], ids=["session", "chat", "audit"])
def test_the_last_session_is_the_imported_one(address: str, data: bytes) -> None:
    run_steno("sessions", "import", "-", data=FUTURE)
    assert last_session() == "future"
    store_sample_session(address)
    assert last_session() == "talk"
    imported = run_steno("sessions", "import", "-", data=data).out.strip()
    assert last_session() == imported
    with open_store(address) as store:
        store.open("talk").append(ChatMessage.user("And now?"))
    assert last_session() == "talk"


@pytest.mark.requirement("P-10")
def test_an_import_that_adds_nothing_does_not_change_the_last_session(address: str) -> None:
    run_steno("sessions", "import", "-", data=SESSION_EXAMPLE)
    store_sample_session(address)
    for data in (SESSION_EXAMPLE, reformat(SESSION_EXAMPLE)):
        assert not import_file(data)["added"]
        assert last_session() == "talk"


@pytest.mark.requirement("P-10")
def test_an_imported_session_that_was_continued_is_the_last_one(address: str) -> None:
    run_steno("sessions", "import", "-", data=FUTURE)
    run_steno("sessions", "import", "-", data=CHAT)
    assert last_session() != "future"
    assert (
        run_steno("-r", "future", "-p", "hello", "--folder", ".", "--model", "offline").status == 0
    )
    assert last_session() == "future"
    imported = run_steno("sessions", "import", "-", data=ROWS).out.strip()
    assert last_session() == imported


@pytest.mark.requirement("P-10")
def test_a_clone_of_an_imported_session_is_the_last_one(address: str) -> None:
    run_steno("sessions", "import", "-", data=FUTURE)
    chat = run_steno("sessions", "import", "-", data=CHAT).out.strip()
    clone = run_steno("sessions", "fork", "future", "--clone").out.strip()
    assert last_session() == clone
    with open_store(address) as store:
        store.open(chat).append(ChatMessage.user("And now?"))
    assert last_session() == chat
    with open_store(address) as store:
        store.open(clone).append(ChatMessage.user("And now?"))
    assert last_session() == clone
    assert import_file(FUTURE)["id"] == "future"
    assert run_steno("sessions", "rm", "future", "--yes").status == 0
    assert import_file(FUTURE)["added"]


@pytest.mark.requirement("P-10")
def test_a_session_with_an_entry_in_the_future_is_not_always_the_last_one(address: str) -> None:
    store_sample_session(address)
    with open_store(address) as store:
        session = store.new([ChatMessage.user("Hi")], id="skewed").id
        entry = Entry(
            id="future",
            parent=store.heads(session)["main"],
            time=utc_now() + timedelta(days=1),
            payload=ChatMessage.assistant("Hello"),
        )
        _, digest = next(store.read_back(session, entry.parent or ""))
        store.append(
            session,
            entry,
            branch="main",
            digest=entry_digest(entry, digest),
            expected=entry.parent,
        )
        assert last_session() == "skewed"
        store.open(session).append(ChatMessage.user("And now?"))
        store.open("talk").append(ChatMessage.user("And now?"))
    assert last_session() == "talk"


@pytest.mark.parametrize("line", [2, 5])
def test_a_damaged_session_from_a_file_has_the_time_of_its_import(address: str, line: int) -> None:
    run_steno("sessions", "import", "-", data=FUTURE)
    with open_store(address) as store:
        store.open("future").append(ChatMessage.user("And now?"))
    run_steno("sessions", "import", "-", data=CHAT)
    damage(address, "future", line=line)
    assert last_session() != "future"


def test_the_list_of_sessions_begins_with_the_last_one(address: str) -> None:
    store_sample_session(address)
    run_steno("sessions", "import", "-", data=OLDER)
    rows = [json.loads(line) for line in run_steno("sessions", "list", "--json").out.splitlines()]
    assert [row["id"] for row in rows] == ["older", "talk"]


def test_a_header_of_another_program_is_no_record_of_an_import(address: str) -> None:
    """A program may store any JSON in `Header.about`, such as a time without a zone."""
    run_steno("sessions", "import", "-", "--id", "copy", data=CHAT)
    record = {"session": "odd", "format": "chat", "sha256": "", "entries": 0}
    about = {"import": record | {"time": "2026-02-10T15:30:06"}}
    with open_store(address) as store:
        store.new([ChatMessage.user("Hi")], id="odd", about=about)
    assert sessions() == ["copy", "odd"]
    assert last_session() == "odd"
