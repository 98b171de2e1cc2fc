"""Exports contain the images and files of prompts as the model received them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from steno import Image, Text, UserMessage
from steno.codec import decode_document
from steno.messages.content import ImageData
from steno.store import open_store
from tests.app.project_setup import make_project, scripted_model
from tests.cli.program import run_steno
from tests.cli.reference_setup import WITH_VISION, WITHOUT_VISION, last_images, last_text
from tests.inputs.images.image_samples import encode_image, red_image
from tests.inputs.ocr.text_images import draw_text, encode_png

GRAPHIC = encode_image(red_image())


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, the working directory, with images and a text file."""
    folder = make_project(tmp_path, monkeypatch)
    (folder / "x.png").write_bytes(GRAPHIC)
    (folder / "words.png").write_bytes(encode_png(draw_text("Ship it on Friday.")))
    (folder / "notes.md").write_text("one\ntwo\nthree\n", encoding="utf-8")
    return folder


def export_last(format: str) -> tuple[Any, str]:
    """Export the last session, and return its JSON and the notices about losses."""
    output = run_steno("sessions", "export", "last", "--format", format)
    assert output.status == 0
    return json.loads(output.out), output.err


def user_blocks(session: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the blocks of the only user message of a session file."""
    [message] = [message for message in session["messages"] if message["type"] == "user"]
    content: list[dict[str, Any]] = message["content"]
    return content


# -- images --------------------------------------------------------------------------------------


@pytest.mark.requirement("S4-11", "S4-18", "P-11")
@pytest.mark.parametrize(
    "arguments", [["-p", "Which colour?", "--image", "x.png"], ["-p", "Which colour has @x.png?"]]
)
def test_a_session_file_contains_the_images_of_a_prompt(home: Path, arguments: list[str]) -> None:
    with scripted_model(home, "Red.", settings=WITH_VISION) as model:
        assert run_steno(*arguments).status == 0
    session, losses = export_last("session")
    *texts, image = user_blocks(session)
    assert "".join(text["text"] for text in texts) == last_text(model)
    assert image == {
        "type": "image",
        "data": base64.b64encode(GRAPHIC).decode(),
        "mime_type": "image/png",
    }
    assert last_images(model) == [f"data:image/png;base64,{image['data']}"]
    assert not [line for line in losses.splitlines() if line.startswith(("image:", "images "))]


def test_an_image_from_outside_the_folder_is_in_the_session_file(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "shot.png").write_bytes(GRAPHIC)
    with scripted_model(home, "Red.", settings=WITH_VISION):
        assert run_steno("-p", "Which colour?", "--image", tmp_path / "shot.png").status == 0
    session, _ = export_last("session")
    assert user_blocks(session)[-1]["data"] == base64.b64encode(GRAPHIC).decode()


def test_a_session_file_contains_the_text_that_was_recognised_in_an_image(home: Path) -> None:
    with scripted_model(home, "Friday.", settings=WITHOUT_VISION) as model:
        assert run_steno("-p", "When?", "--image", "words.png").status == 0
    session, losses = export_last("session")
    texts = [block["text"] for block in user_blocks(session)]
    assert "".join(texts) == last_text(model)
    assert "Ship it on Friday." in texts[-1]
    assert [line for line in losses.splitlines() if line.startswith("images ")]


# -- files ---------------------------------------------------------------------------------------


@pytest.mark.requirement("S4-11", "P-11")
def test_a_session_file_contains_the_text_of_the_files_of_a_prompt(home: Path) -> None:
    with scripted_model(home, "I see.") as model:
        assert run_steno("-p", "What is in @notes.md:1-2?").status == 0
    session, losses = export_last("session")
    texts = [block["text"] for block in user_blocks(session)]
    assert "".join(texts) == last_text(model)
    assert texts[-1].endswith("     1\tone\n     2\ttwo\n")
    assert [line for line in losses.splitlines() if line.startswith("references ")]
    assert not [line for line in losses.splitlines() if "file_reference" in line]


@pytest.mark.requirement("P-11")
def test_a_chat_list_contains_the_text_of_a_file_and_reports_an_image(home: Path) -> None:
    with scripted_model(home, "I see.", settings=WITH_VISION) as model:
        assert run_steno("-p", "Compare @notes.md and @x.png.").status == 0
    messages, losses = export_last("chat")
    content = messages[1]["content"]
    text = content if isinstance(content, str) else "".join(part["text"] for part in content)
    assert text == last_text(model)
    [line] = [line for line in losses.splitlines() if line.startswith("content (image)")]
    assert line.endswith(" (1 entry: #3)")


def test_a_reference_that_was_not_resolved_is_reported(home: Path) -> None:
    with scripted_model(home, "I see."):
        assert run_steno("-p", "What is in @notes.md?").status == 0
    with open_store() as store:
        [header] = store.headers()
        entries = store.open(header.id).entries()
    [prompt] = [entry for entry in entries if isinstance(entry.payload, UserMessage)]
    with open_store() as store:
        store.new(id="unread").append(prompt.payload)
    output = run_steno("sessions", "export", "unread", "--format", "session")
    [line] = [line for line in output.err.splitlines() if "(file_reference)" in line]
    assert line.endswith(" (1 entry: #1)")


# -- elsewhere -----------------------------------------------------------------------------------


@pytest.mark.requirement("S4-11")
def test_the_session_file_gives_the_content_back_in_another_store(
    home: Path, tmp_path: Path, project: Path
) -> None:
    with scripted_model(home, "I see.", settings=WITH_VISION):
        assert run_steno("-p", "Compare @notes.md.", "--image", "x.png").status == 0
    file, there = tmp_path / "session.json", f"jsonl:{tmp_path / 'there'}"
    run_steno("sessions", "export", "last", "--format", "session", "-o", file)
    imported = run_steno("sessions", "import", file, "--store", there)
    assert imported.status == 0
    with open_store(there) as store:
        conversation = store.open(imported.out.strip())
        [message] = [found for found in conversation.messages() if isinstance(found, UserMessage)]
    assert message.content[-1] == Image(source=ImageData(GRAPHIC), mime_type="image/png")
    assert any(isinstance(block, Text) and "2\ttwo" in block.text for block in message.content)
    again = run_steno(
        "sessions", "export", "last", "--format", "session", "--store", there, "--strict"
    )
    assert again.status == 0
    assert json.loads(again.out) == json.loads(file.read_bytes())
    assert len(decode_document(file.read_bytes()).messages) == 3
