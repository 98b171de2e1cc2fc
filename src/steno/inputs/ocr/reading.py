"""One image after the other, read by an engine in a thread; and which engine there is."""

from __future__ import annotations

import asyncio
import time
from importlib.util import find_spec
from typing import Final, NamedTuple, final

from steno.inputs.ocr.engine import Engine, Unrecognised
from steno.inputs.ocr.language import detect_language
from steno.inputs.ocr.rapid import RapidOcr
from steno.inputs.ocr.tesseract import TesseractOcr

ENGINES: Final = ("auto", "rapidocr", "tesseract")
"""What an engine can be asked for by."""


class Reading(NamedTuple):
    """The text in an image, and for the record how it was found."""

    text: str
    confidence: float | None
    """From 0 to 1; None if the engine does not say, or there is no text."""
    language: str | None
    """`en`, `de`, `zh`; None if it cannot be told."""
    engine: str
    duration_s: float


@final
class Ocr:
    """Reads images with an engine, one at a time; it may be shared within an event loop."""

    def __init__(self, engine: Engine) -> None:
        """Take what recognises text."""
        self._engine = engine
        self._turn = asyncio.Lock()

    async def read(self, image: bytes) -> Reading:
        """Read an upright PNG or JPEG image. Raises Unrecognised.

        Whoever is cancelled does not wait; the next one does until the engine is free again, since
        nobody can stop it in the middle.
        """
        await self._turn.acquire()
        work = asyncio.ensure_future(asyncio.to_thread(self._read, image))
        work.add_done_callback(lambda _: self._turn.release())
        return await asyncio.shield(work)

    def _read(self, image: bytes) -> Reading:
        started = time.monotonic()
        try:
            text, confidence = self._engine.recognise(image)
            language = detect_language(text)
        except Unrecognised:
            raise
        except Exception as exc:  # from parts that are not ours anything may come
            raise Unrecognised(
                f"{self._engine.name} failed ({type(exc).__name__}): try again, or another engine"
            ) from exc
        duration_s = round(time.monotonic() - started, 3)
        return Reading(text, confidence, language, self._engine.name, duration_s)


def engine_for(name: str = "auto", *, languages: tuple[str, ...] = ()) -> Engine:
    """Return an engine: `rapidocr`, `tesseract`, or with `auto` the first that is installed.

    Languages are those of Tesseract (`deu`); rapidocr needs none. Nothing is loaded before the
    first image. Raises Unrecognised if there is no such engine, or none at all.
    """
    if name == "auto":
        name = _first_installed()
    if name == "rapidocr":
        return RapidOcr()
    if name == "tesseract":
        return TesseractOcr(languages)
    raise Unrecognised(f"there is no OCR engine {name!r}: take one of {', '.join(ENGINES)}")


def _first_installed() -> str:
    if find_spec("rapidocr") and find_spec("onnxruntime"):
        return "rapidocr"
    if find_spec("tesserocr"):
        return "tesseract"
    raise Unrecognised(
        "OCR is not installed: pip install 'steno[ocr]', or with Tesseract "
        "pip install 'steno[tesseract]'"
    )
