"""One image after the other, read by an engine in a thread; and which engine there is."""

from __future__ import annotations

import time
from functools import partial
from importlib.util import find_spec
from threading import Lock
from typing import Final, final

from steno.errors import Unrecognised
from steno.inputs.ocr.cancellable_thread import check_not_cancelled, run_in_cancellable_thread
from steno.inputs.ocr.engine import OcrEngine, OcrEngineFailed, OcrResult
from steno.inputs.ocr.language import detect_language
from steno.inputs.ocr.rapidocr_engine import RapidOcrEngine
from steno.inputs.ocr.tesseract_engine import TesseractEngine, has_language_data

OCR_ENGINES: Final = ("auto", "rapidocr", "tesseract")
"""What an engine can be asked for by."""


@final
class OcrReader:
    """Reads images with an engine, one at a time; it may be shared."""

    def __init__(self, engine: OcrEngine) -> None:
        """Take what recognises text."""
        self._engine = engine
        self._turn = Lock()

    async def read(self, image: bytes) -> OcrResult:
        """Read an upright PNG or JPEG image. Raises Unrecognised.

        Whoever is cancelled does not wait; the next one does until the engine is free again, since
        nobody can stop it in the middle of a step.
        """
        return await run_in_cancellable_thread(partial(self._read_in_turn, image))

    def _read_in_turn(self, image: bytes) -> OcrResult:
        with self._turn:
            check_not_cancelled()
            return self._read(image)

    def _read(self, image: bytes) -> OcrResult:
        name = self._engine.name
        started = time.monotonic()
        try:
            text, confidence = self._engine.recognise(image)
        except Unrecognised as exc:
            raise OcrEngineFailed(str(exc), name) from exc
        except Exception as exc:  # from parts that are not ours anything may come
            raise OcrEngineFailed(
                f"{name} failed ({type(exc).__name__}): try again, or another engine", name
            ) from exc
        language = detect_language(text)
        duration_s = round(time.monotonic() - started, 3)
        return OcrResult(text, confidence, language, name, duration_s)


def choose_ocr_engine(name: str = "auto", *, languages: tuple[str, ...] = ()) -> OcrEngine:
    """Return an engine: `rapidocr`, `tesseract`, or with `auto` the first that is installed.

    Languages are those of Tesseract (`deu`), which `auto` takes if it has data for all of them;
    rapidocr needs none. Nothing is loaded before the first image. Raises Unrecognised if there is
    no such engine, or none at all.
    """
    if name == "auto":
        name = _choose_installed(languages)
    if name == "rapidocr":
        return RapidOcrEngine()
    if name == "tesseract":
        return TesseractEngine(languages)
    raise Unrecognised(f"there is no OCR engine {name!r}: take one of {', '.join(OCR_ENGINES)}")


def _choose_installed(languages: tuple[str, ...]) -> str:
    has_tesseract = find_spec("tesserocr") is not None
    if languages and has_tesseract and has_language_data(languages):
        return "tesseract"
    if find_spec("rapidocr") and find_spec("onnxruntime"):
        return "rapidocr"
    if has_tesseract:
        return "tesseract"
    raise Unrecognised(
        "OCR is not installed: pip install 'steno[ocr]', or with Tesseract "
        "pip install 'steno[tesseract]'"
    )
