"""`steno -p --image`: what a model sees of images, or reads instead."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.app.project_setup import make_project, scripted_model
from tests.app.scripted_vendor import Fault
from tests.cli.program import run_process, run_steno
from tests.cli.reference_setup import (
    WITH_VISION,
    WITHOUT_VISION,
    check_last_log,
    image_at,
    input_rows,
    last_images,
    last_text,
    notices,
    resolutions,
)
from tests.inputs.images.image_samples import encode_image, red_image
from tests.inputs.ocr.text_images import draw_text, encode_png

TEXT = "Ship it on Friday, or tell Ada."
GRAPHIC = encode_image(red_image())
ADDRESS = f"data:image/png;base64,{base64.b64encode(GRAPHIC).decode()}"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, the working directory, with an image of shapes and one of text."""
    folder = make_project(tmp_path, monkeypatch)
    (folder / "shapes.png").write_bytes(GRAPHIC)
    (folder / "words.png").write_bytes(encode_png(draw_text(TEXT)))
    return folder


# -- a model that sees ---------------------------------------------------------------------------


@pytest.mark.requirement("S2-24", "S2-29")
@pytest.mark.parametrize("mode", ["auto", "vision"])
def test_a_model_that_takes_images_gets_the_image_and_nothing_of_the_record(
    home: Path, mode: str
) -> None:
    with scripted_model(home, "Red.", settings=WITH_VISION) as model:
        output = run_steno("-p", "Which colour?", "--image", "shapes.png", "--image-mode", mode)
    assert (output.status, output.out) == (0, "Red.\n")
    assert model.seen[0]["messages"][-1]["content"] == [
        {"type": "text", "text": "Which colour?"},
        {"type": "image_url", "image_url": {"url": ADDRESS}},
    ]
    [row] = input_rows()
    assert (row["name"], row["how"], row["since"]) == ("shapes.png", "vision", "same")
    assert row["details"]["mode"] == mode
    check_last_log()


@pytest.mark.requirement("S2-24")
def test_the_answer_to_an_image_is_recorded_and_listed(home: Path) -> None:
    answer = "A sign. It says:\n\n> STOP\n> now\n\nIt is red."
    with scripted_model(home, answer, "Yes.", settings=WITH_VISION) as model:
        run_steno("-p", "See @note.txt", "--image", "shapes.png")
        run_steno("-c", "-p", "Sure?")
    assert answer in str(model.seen[1]["messages"]).replace("\\n", "\n")
    note, image = input_rows()
    analysis = image["vision_analysis"]
    assert note["vision_analysis"] is None
    assert analysis.pop("answer")
    assert analysis == {"description": "A sign. It says:\n\nIt is red.", "text": "STOP\nnow"}
    assert "  answer #6: A sign. It says: It is red. STOP now\n" in run_steno("inputs").out
    shown = run_steno("sessions", "show", "last").out
    assert "#7 image_analysis" in shown
    assert "block 2 of #3 is answered in #6" in shown
    for form in ("markdown", "html", "session", "rows", "audit", "chat", "steno", "jsonl"):
        assert run_steno("sessions", "export", "last", "--format", form).status == 0
    document = run_steno("sessions", "export", "last", "--format", "markdown").out
    assert "image analysis: block 2 of #3 is answered in #6" in document
    check_last_log()


@pytest.mark.requirement("S2-24")
def test_a_redacted_answer_is_listed_without_its_text(home: Path) -> None:
    with scripted_model(home, "A sign.", settings=WITH_VISION):
        run_steno("-p", "See.", "--image", "shapes.png")
    [row] = input_rows()
    answer = row["vision_analysis"]["answer"]
    assert (
        run_steno("sessions", "redact", "last", answer, "--reason", "private", "--yes").status == 0
    )
    [row] = input_rows()
    assert row["vision_analysis"] == {"answer": answer, "description": None, "text": None}
    assert "(redacted)\n" in run_steno("inputs").out
    assert run_steno("verify", "last").status == 0


def test_an_image_in_the_prompt_is_shown_like_one_of_the_command_line(home: Path) -> None:
    with scripted_model(home, "Red.", settings=WITH_VISION) as model:
        assert run_steno("-p", "Which colour has @shapes.png?").status == 0
    assert last_images(model) == [ADDRESS]


def test_an_image_option_may_name_a_file_outside_the_folder(home: Path, tmp_path: Path) -> None:
    shot = tmp_path / "shot.png"
    shot.write_bytes(GRAPHIC)
    with scripted_model(home, "Red.", "Still red.", settings=WITH_VISION) as model:
        assert run_steno("-p", "Which colour?", "--image", shot).status == 0
        shot.unlink()
        assert run_steno("-c", "-p", "Sure?").status == 0
    assert last_images(model, 0) == [ADDRESS]
    assert ADDRESS in str(model.seen[1])
    [row] = input_rows()
    assert (row["name"], row["since"], row["details"]["source"]) == ("image/png", None, "data")
    check_last_log()


def test_in_a_prompt_no_image_outside_the_folder_is_opened(home: Path, tmp_path: Path) -> None:
    (tmp_path / "shot.png").write_bytes(GRAPHIC)
    with scripted_model(home, settings=WITH_VISION) as model:
        output = run_steno("-p", f"See @{tmp_path}/shot.png", "-q")
    assert (output.status, model.seen) == (1, [])
    assert f"{tmp_path}/shot.png" in output.err


@pytest.mark.parametrize(
    ("name", "code", "statuses"),
    [
        ("gone.png", "image_unreadable", []),
        ("empty.png", "", ["failed"]),
        ("note.txt", "", ["failed"]),
    ],
)
@pytest.mark.requirement("S2-28")
def test_an_invalid_image_stops_the_run_before_a_request(
    home: Path, project: Path, name: str, code: str, statuses: list[str]
) -> None:
    (project / "empty.png").touch()
    with scripted_model(home, settings=WITH_VISION) as model:
        output = run_steno("-p", "See.", "--image", name, "-q")
    assert (output.status, output.out, model.seen) == (1, "", [])
    assert (output.code, f" {name}: " in output.err) == (code, True)
    assert ("--retry" in output.err, "recorded" in output.err) == (bool(statuses), not statuses)
    rows = input_rows("--all") if statuses else []
    assert [row["status"] for row in rows] == statuses


@pytest.mark.parametrize(
    ("size", "code"),
    [(0, "not_an_image"), (12, "not_an_image"), (50_000_001, "image_too_large")],
)
def test_a_file_outside_the_folder_that_is_no_image_is_not_stored(
    home: Path, tmp_path: Path, size: int, code: str
) -> None:
    with (tmp_path / "shot.png").open("wb") as file:
        file.write(b"Hello world!"[:size])
        file.truncate(size)
    with scripted_model(home, settings=WITH_VISION) as model:
        output = run_steno("-p", "See.", "--image", "../shot.png", "-q")
    assert (output.status, output.out, model.seen) == (1, "", [])
    assert (output.code, output.place) == (code, "--image")
    assert "../shot.png" in output.err
    assert run_steno("sessions", "list").out == ""


# -- a model that does not -----------------------------------------------------------------------


@pytest.mark.requirement("S2-27", "S2-29")
def test_a_model_without_vision_gets_the_text_and_a_notice_is_printed(home: Path) -> None:
    with scripted_model(home, "Friday.", settings=WITHOUT_VISION) as model:
        output = run_process(
            *("-p", "When?", "--image", "words.png", "--output-format", "stream-json"),
        )
    assert output.status == 0
    assert last_images(model) == []
    text = last_text(model)
    assert text.startswith("When?\n\n[image words.png: text recognised by OCR, confidence ")
    assert "language en. The system provides it" in text
    assert f"it is not a message of the user]\n{TEXT}\n[end of the image, mark " in text
    assert "rapidocr" not in text
    doing, done = notices(output)
    assert doing == "recognising the text in words.png"
    assert done.startswith(
        "the model does not accept images: the text in words.png was recognised instead, by rapidocr 3."
    )
    [row] = input_rows()
    assert row["how"].startswith("ocr rapidocr 3.")
    assert row["how"].endswith(" en")
    assert row["details"]["fallback"] == "the model does not accept images"
    assert row["vision_analysis"] is None
    check_last_log()


@pytest.mark.requirement("S2-26")
def test_a_server_that_refuses_an_image_gets_its_text_instead(home: Path) -> None:
    refusal = Fault(400, "this model cannot look at pictures")
    with scripted_model(home, refusal, "Friday.") as model:
        output = run_steno("-p", "When?", "--image", "words.png")
    assert (output.status, output.out) == (0, "Friday.\n")
    assert len(last_images(model, 0)) == 1
    assert last_images(model, 1) == []
    assert f"\n{TEXT}\n[end of the image, mark " in last_text(model, 1)
    assert any(
        line.startswith("! ") and refusal.message in line for line in output.err.splitlines()
    )
    first, second = resolutions()
    assert first.details is not None
    assert second.details is not None
    assert (first.details["used"], second.details["used"]) == ("vision", "ocr")
    shown = run_steno("sessions", "show", "last").out
    assert "block 1: words.png: vision, " in shown
    assert "block 1: words.png: text recognised by rapidocr 3." in shown
    check_last_log()


@pytest.mark.requirement("S2-28")
def test_vision_mode_fails_without_vision_and_retry_sends_the_text(
    home: Path, tmp_path: Path
) -> None:
    shot = tmp_path / "shot.png"  # its bytes are on record only
    shot.write_bytes(encode_png(draw_text(TEXT)))
    with scripted_model(home, "Friday.", settings=WITHOUT_VISION) as model:
        output = run_steno("-p", "When?", "--image", shot, "--image-mode", "vision", "-q")
        assert (output.status, output.out, model.seen) == (1, "", [])
        assert all(mode in output.err for mode in ("ocr", "auto"))
        assert "-c --retry" in output.err
        shot.unlink()
        output = run_steno("-c", "--retry", "--image-mode", "ocr")
    assert (output.status, output.out) == (0, "Friday.\n")
    assert f"\n{TEXT}\n[end of the image, mark " in last_text(model)
    assert [row["status"] for row in input_rows("--all")] == ["failed", "resolved"]
    check_last_log()


def test_an_image_without_vision_and_ocr_is_refused_by_name(home: Path) -> None:
    with scripted_model(home, settings=f'ocr = "off"\n{WITHOUT_VISION}') as model:
        output = run_steno("-p", "When?", "--image", "words.png", "-q")
    assert (output.status, model.seen) == (1, [])
    assert "words.png: " in output.err


# -- from an address -----------------------------------------------------------------------------


def test_nothing_is_fetched_without_permission(home: Path) -> None:
    with image_at(GRAPHIC) as url, scripted_model(home, settings=WITH_VISION) as model:
        output = run_steno("-p", "See.", "--image", url, "-q")
        assert (output.status, output.out, model.seen) == (1, "", [])
        [row] = input_rows("--all")
        assert row["status"] == "failed"
        host = url.removesuffix("/charts/shot.png")
        assert f"fetch({host}/**)" in output.err


@pytest.mark.parametrize("rule", ["http://127.0.0.1:*/**", "http://127.0.0.1:*/charts/*", "*"])
def test_an_image_that_a_rule_allows_is_fetched(home: Path, rule: str) -> None:
    with image_at(GRAPHIC) as url, scripted_model(home, "Red.", settings=WITH_VISION) as model:
        output = run_steno("-p", "See.", "--image", f"{url}?key=hush", "--allow", f"fetch({rule})")
    assert (output.status, output.out) == (0, "Red.\n")
    assert last_images(model) == [ADDRESS]
    [row] = input_rows()
    assert (row["name"], row["how"]) == (url, "vision")
    assert row["details"]["allowed_by"] == f"allow fetch({rule})"
    assert "hush" not in str(row) + output.err
    check_last_log()


def test_an_address_that_a_rule_does_not_cover_is_not_fetched(home: Path) -> None:
    with image_at(GRAPHIC) as url, scripted_model(home, settings=WITH_VISION) as model:
        for rule in ("fetch(http://127.0.0.1:*/other/**)", "fetch(https://127.0.0.1:*/**)", "read"):
            assert run_steno("-p", "See.", "--image", url, "--allow", rule, "-q").status == 1
    assert model.seen == []


def test_an_image_in_an_unknown_home_is_an_error() -> None:
    output = run_steno("-p", "See.", "--image", "~no-user-9/a.png", "--model", "offline")
    assert (output.status, output.code, output.place) == (1, "home_unknown", "--image")
    assert "~no-user-9/a.png" in output.err
