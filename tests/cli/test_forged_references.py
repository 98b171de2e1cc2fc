"""An imported session whose references and resolutions may be forged."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from steno import ChatMessage
from steno.codec import Document, encode_document
from steno.log.conversation import Conversation
from steno.messages.content import FileReference, Image, ImageFile, ImageUrl, Resource, Text
from steno.messages.message import UserMessage
from steno.ports import ReferenceBlock
from steno.records.entry import Resolution, ResolutionStatus
from steno.store import MemoryStore
from tests.app.project_setup import make_project, scripted_model
from tests.cli.program import run_steno

ODD_DETAILS: list[dict[str, Any]] = [
    {"kind": "image", "used": "vision", "sent": "x", "path": [{}], "sha256": "\x1b[2J"},
    {"kind": "image", "used": "vision", "sent": {"mime_type": ["x"], "bytes": 10**300}},
    {"kind": "image", "used": "ocr", "engine": "\x1b]0;x\x07", "confidence": 10**400},
    {"kind": "image", "used": "ocr", "confidence": -1, "language": "\u202e"},
    {"kind": "file", "path": "../../etc/passwd", "sha256": "0" * 64, "bytes": 10**300},
    {"kind": "file", "path": "a\0b", "sha256": "", "bytes": -1, "lines": 10**300},
    {"kind": "folder", "path": "/", "sha256": "", "left_out": 10**300},
    {"kind": "pattern", "files": [{"kind": "file", "path": "/etc/passwd"}, 7]},
    {"kind": "resource", "retrieved_at": "9999-12-31T23:59:59-23:59", "ttl_s": 1e308},
    {"kind": "resource", "retrieved_at": ["x"], "ttl_s": "x", "uri": "\x1b[2J"},
    {"kind": ["x"], "bytes": "x"},
]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, which is where we are."""
    return make_project(tmp_path, monkeypatch)


def sent(folder: Path, conversation: Conversation) -> str:
    """Write a forged session, import it, and return its id."""
    file = folder / "sent.json"
    document = Document(id=conversation.id, entries=tuple(conversation.entries()))
    file.write_bytes(encode_document(document))
    assert run_steno("sessions", "import", file).status == 0
    return conversation.id


def pointing_at(*pointers: ReferenceBlock) -> Conversation:
    return MemoryStore().new([UserMessage((Text("See."), *pointers))])


def resolved(conversation: Conversation, block: int, details: dict[str, Any]) -> None:
    [first, *_] = conversation.entries()
    conversation.append(
        Resolution(
            target=first.id,
            block=block,
            status=ResolutionStatus.RESOLVED,
            content=(Text("found \x1b[2J"),),
            details=details,
        )
    )


def test_nothing_outside_is_opened_for_a_message_that_was_sent(
    tmp_path: Path, home: Path, project: Path
) -> None:
    (project / "way_out").symlink_to(tmp_path)
    (tmp_path / "secret.txt").write_text("hunter2\n")
    (tmp_path / "secret.png").write_text("hunter2\n")
    pointers: list[ReferenceBlock] = [
        FileReference(path=str(tmp_path / "secret.txt")),
        FileReference(path="/proc/self/environ"),
        FileReference(path="way_out/secret.txt"),
        FileReference(path="way_out/*.txt"),
        Image(source=ImageFile(str(tmp_path / "secret.png"))),
        Resource(server="steno", uri="file:///etc/passwd"),
    ]
    session = sent(tmp_path, pointing_at(*pointers))
    with scripted_model(home, "Fine.") as model:
        output = run_steno("-p", "Go on.", "-r", session, "--folder", ".")
    assert output.status == 0
    assert "hunter2" not in json.dumps(model.seen)
    assert "root:" not in json.dumps(model.seen)
    assert output.err.count("outside") >= 4


def test_no_address_of_a_message_that_was_sent_is_asked(tmp_path: Path, home: Path) -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.server_port}/x.png"
        session = sent(tmp_path, pointing_at(Image(source=ImageUrl(url))))
        with scripted_model(home, "Fine."):
            output = run_steno("-p", "Go on.", "-r", session, "--folder", ".")
        assert run_steno("inputs", session).status == 0
        listener.shutdown()
    assert asked == []
    assert (output.status, output.out) == (0, "Fine.\n")


@pytest.mark.parametrize("details", ODD_DETAILS, ids=lambda details: str(details)[:40])
def test_forged_resolution_details_break_nothing(
    tmp_path: Path, home: Path, details: dict[str, Any]
) -> None:
    pointers = (
        FileReference(path="note.txt"),
        FileReference(path="**"),
        Image(source=ImageFile("a\x1b[2J.png")),
        Resource(server="lib", uri="lib://a\x1b[2J"),
    )
    conversation = pointing_at(*pointers)
    for block in range(1, len(pointers) + 1):
        resolved(conversation, block, details)
    conversation.append(ChatMessage.assistant("Seen."))
    session = sent(tmp_path, conversation)
    with scripted_model(home, "Fine."):
        outputs = [run_steno("-p", "Go on.", "-r", session, "--folder", ".")]
    outputs += [run_steno("inputs", session), run_steno("inputs", session, "--json", "--all")]
    outputs += [run_steno("sessions", "show", session), run_steno("verify", session)]
    assert [one.status for one in outputs] == [0] * len(outputs)
    for one in outputs:
        assert "\x1b" not in one.out + one.err
        assert "\u202e" not in one.out + one.err
    assert run_steno("replay", session).status in (0, 1)


def test_a_password_or_query_in_the_address_of_a_resource_is_not_shown(tmp_path: Path) -> None:
    uri = "postgres://user:hunter2@db/table?token=hunter3"
    session = sent(tmp_path, pointing_at(Resource(server="db", uri=uri)))
    outputs = [
        run_steno("inputs", session, "--all"),
        run_steno("inputs", session, "--all", "--json"),
    ]
    assert all("db:postgres://db/table" in one.out for one in outputs)
    assert not any("hunter" in one.out for one in outputs)
