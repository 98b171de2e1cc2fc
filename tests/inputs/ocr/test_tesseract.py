"""Errors of Tesseract if data are missing; its accuracy is measured in tests/ocr_accuracy.

Its data come with the system, so that no test of this folder can rely on them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from steno.errors import Unrecognised
from steno.inputs.ocr.tesseract_engine import TesseractEngine
from tests.inputs.ocr.text_images import draw_text, encode_png
from tests.raised_errors import raises_code

IMAGE = encode_png(draw_text("no"))


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is searched for data; it is empty."""
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    return tmp_path


def test_without_tesserocr_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tesserocr", None)
    with raises_code(Unrecognised, "missing_extra") as raised:
        TesseractEngine().recognise(IMAGE)
    assert "pip install 'steno-agent[tesseract]'" in raised.value.message


def test_without_data_the_error_names_the_folder(data: Path) -> None:
    (data / "osd.traineddata").touch()  # data for scripts, not for a language
    with raises_code(Unrecognised, "no_language_data") as raised:
        TesseractEngine().recognise(IMAGE)
    assert str(data) in raised.value.message


@pytest.mark.parametrize("name", ["chi_sim", "../eng", "en+deu"])
def test_a_language_without_data_is_named_with_those_that_there_are(data: Path, name: str) -> None:
    for there in ("eng", "deu"):
        (data / f"{there}.traineddata").touch()
    with raises_code(Unrecognised, "language_missing") as raised:
        TesseractEngine((name,)).recognise(IMAGE)
    assert f"{name}, only for deu, eng" in raised.value.message


def test_data_may_be_in_a_subfolder_of_the_usual_name(data: Path) -> None:
    (data / "tessdata").mkdir()
    (data / "tessdata" / "fra.traineddata").touch()
    with raises_code(Unrecognised, "language_missing") as raised:
        TesseractEngine(("eng",)).recognise(IMAGE)
    assert "only for fra" in raised.value.message


@pytest.mark.parametrize("limit", [None, "7"])
def test_the_environment_of_other_processes_is_unchanged(
    limit: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit is None:
        monkeypatch.delenv("OMP_THREAD_LIMIT", raising=False)
    else:
        monkeypatch.setenv("OMP_THREAD_LIMIT", limit)
    with pytest.raises(Unrecognised):
        TesseractEngine().recognise(IMAGE)
    assert os.environ.get("OMP_THREAD_LIMIT") == limit


def test_it_has_a_name_before_anything_is_loaded() -> None:
    assert TesseractEngine().name.startswith("tesseract (tesserocr 2.")
