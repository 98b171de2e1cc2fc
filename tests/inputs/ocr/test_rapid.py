"""Real recognition with RapidOCR: a few images here, many more in tests/ocr_accuracy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from steno.errors import Unrecognised
from steno.inputs.ocr.engine import RecognisedText
from steno.inputs.ocr.rapidocr_engine import RapidOcrEngine
from tests.inputs.ocr.text_images import draw_text, encode_png, rotate_image
from tests.raised_errors import raises_code

TEXT = "Ship it on Friday, or tell Ada why not.\nTotal: 1,234.50 EUR (15 March)"


@pytest.fixture(scope="module")
def engine() -> RapidOcrEngine:
    return RapidOcrEngine()


@pytest.mark.requirement("S2-25")
@pytest.mark.parametrize("degrees", [0, 90, 183])
def test_text_is_recognised_whichever_way_up(engine: RapidOcrEngine, degrees: float) -> None:
    text, confidence = engine.recognise(encode_png(rotate_image(draw_text(TEXT), degrees)))
    assert text == TEXT
    assert confidence is not None
    assert 0.9 < confidence <= 1


def test_pieces_in_one_row_become_one_line(engine: RapidOcrEngine) -> None:
    table = Image.new("RGB", (700, 160), "white")
    table.paste(draw_text("Ada Lovelace\nAlan Turing"), (0, 0))
    table.paste(draw_text("1815\n1912"), (500, 0))
    assert engine.recognise(encode_png(table)).text == "Ada Lovelace 1815\nAlan Turing 1912"


@pytest.mark.parametrize("size", [12, 22, 60])
def test_one_line_on_little_paper_is_not_torn_apart(engine: RapidOcrEngine, size: int) -> None:
    text = "Ship it on Friday, or tell Ada."
    assert engine.recognise(encode_png(draw_text(text, size=size))).text == text


@pytest.mark.parametrize("size", [(1, 1), (1, 4096), (4096, 1)])
def test_an_image_of_any_shape_may_be_empty(engine: RapidOcrEngine, size: tuple[int, int]) -> None:
    assert engine.recognise(encode_png(Image.new("RGB", size, "white"))) == RecognisedText("", None)


def test_an_image_that_is_cut_short_cannot_be_read(engine: RapidOcrEngine) -> None:
    with raises_code(Unrecognised, "image_damaged"):
        engine.recognise(encode_png(draw_text(TEXT))[:-500])


def test_unsupported_formats_are_not_opened(engine: RapidOcrEngine) -> None:
    with raises_code(Unrecognised, "image_damaged"):
        engine.recognise(b"GIF89a" + bytes(100))


@pytest.mark.parametrize("missing", ["rapidocr", "onnxruntime"])
def test_a_missing_part_is_named_with_the_way_to_get_it(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with raises_code(Unrecognised, "missing_extra") as raised:
        RapidOcrEngine().recognise(encode_png(draw_text("no")))
    assert raised.value.message.endswith(f"{missing}: pip install 'steno-agent[ocr]'")


def test_models_that_are_not_installed_are_not_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "rapidocr-3.10.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Name: rapidocr\nVersion: 3.10.0\n")
    (installed / "RECORD").write_text("rapidocr/main.py,,\nrapidocr/models/x_cls_y.onnx,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    with raises_code(Unrecognised, "model_missing"):
        RapidOcrEngine().recognise(encode_png(draw_text("no")))


WATCHED = """
import os, sys, tempfile

def watch(event, args):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg"}:
        raise SystemExit(f"network: {event} {args}")
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
    if event == "open" and isinstance(args[2], int) and args[2] & writes:
        if args[0] != os.devnull:
            raise SystemExit(f"writes {args[0]}")
    if event in {"os.mkdir", "os.rename", "os.remove", "subprocess.Popen", "os.system"}:
        raise SystemExit(f"{event} {args}")

from steno.inputs.ocr.reader import detect_language
from steno.inputs.ocr.rapidocr_engine import RapidOcrEngine

tempfile.gettempdir()  # Python tries out whether it can write there
sys.addaudithook(watch)
text = RapidOcrEngine().recognise(sys.stdin.buffer.read()).text
print(text, detect_language(text), sep="|")
"""


def test_it_is_offline_silent_and_writes_nothing(tmp_path: Path) -> None:
    """By default, onnxruntime sends telemetry, and stores an ID and a database for it."""
    ran = subprocess.run(
        [sys.executable, "-B", "-c", WATCHED],
        input=encode_png(draw_text("Ship it on Friday afternoon")),
        capture_output=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
        # No other variables: onnxruntime sends no telemetry if the environment looks like a test.
        env=dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(tmp_path)),
    )
    assert (ran.stdout, ran.stderr) == (b"Ship it on Friday afternoon|en\n", b"")
    assert list(tmp_path.iterdir()) == []


def test_the_environment_of_other_processes_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    RapidOcrEngine().recognise(encode_png(Image.new("RGB", (40, 40), "white")))
    assert "ORT_DISABLE_TELEMETRY" not in os.environ
