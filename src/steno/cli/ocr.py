"""`steno ocr`: the text in images, recognised here.

The text goes to stdout; how sure the engine is of it, and what else there is to know, to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import stat
import sys
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from steno.cli.commands import Commands, Misused
from steno.cli.paper import Paper, note, print_object
from steno.cli.waiting import Waiting
from steno.errors import Unrecognised
from steno.inputs.images.opening import MOST_FILE_BYTES, BadImage
from steno.inputs.images.prepare import for_ocr
from steno.inputs.ocr.apart import apart
from steno.inputs.ocr.engine import Engine, Reading, rounded_down
from steno.inputs.ocr.reading import ENGINES, Ocr, engine_for
from steno.inputs.ocr.tesseract import TesseractOcr
from steno.printable import on_one_line, printable

_FAILED: Final = 1
_INTERRUPTED: Final = 128 + signal.SIGINT
_STDIN: Final = "-"


class _Failure(NamedTuple):
    """Why there is nothing to show of an image."""

    error: str


def add_commands(commands: Commands) -> None:
    """Add the command to the command line."""
    ocr = commands.add_parser(
        "ocr",
        help="print the text in images",
        description="Recognise the text in images (PNG, JPEG, GIF, WebP, BMP, TIFF), whichever "
        "way up, and print it. Nothing leaves this machine.",
        epilog="It takes pip install 'steno[ocr]', or 'steno[tesseract]' and data for Tesseract. "
        "example: steno ocr screenshot.png",
    )
    ocr.add_argument("files", nargs="+", metavar="FILE", help="images; -: stdin")
    ocr.add_argument(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="what recognises it (default: auto, the first that is installed)",
    )
    ocr.add_argument(
        "--lang",
        type=_languages,
        default=(),
        metavar="LANG,...",
        help="languages for Tesseract, as it names them: deu,eng; with auto it is used if it has "
        "data for them",
    )
    ocr.add_argument(
        "--json", action="store_true", help="print an object for each file, one a line"
    )
    ocr.set_defaults(run=_ocr)


def _languages(text: str) -> tuple[str, ...]:
    return tuple(filter(None, [name.strip() for name in text.split(",")]))


def _ocr(options: argparse.Namespace) -> int:
    ocr = Ocr(_engine(options))
    # Here, where Ctrl-C ends it: a thread that reads stdin would hold it until the end of the input.
    piped = sys.stdin.buffer.read(MOST_FILE_BYTES + 1) if _STDIN in options.files else b""
    try:
        return asyncio.run(_read_all(options.files, ocr, piped, as_json=options.json))
    except KeyboardInterrupt:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(_INTERRUPTED)  # at once: Python would wait until lines are found, some seconds


def _engine(options: argparse.Namespace) -> Engine:
    """Return the engine that is wanted; only one of them has to be told languages."""
    if options.lang and options.engine == "rapidocr":
        raise Misused(
            "--lang: rapidocr needs no languages; leave it out, or use --engine tesseract"
        )
    engine = engine_for(options.engine, languages=options.lang)
    if options.lang and not isinstance(engine, TesseractOcr):
        note(
            f"--lang: Tesseract is not installed with data for {', '.join(options.lang)};"
            f" {engine.name} is used, which needs no languages"
        )
    return engine


async def _read_all(files: list[str], ocr: Ocr, piped: bytes, *, as_json: bool) -> int:
    """Read one image after the other, also if some cannot be read, and return the exit status."""
    status = 0
    waiting = Waiting()
    for number, file in enumerate(files):
        name = _shown(file)
        waiting.start(f"reading {name}" if number else f"loading models, then reading {name}")
        try:
            came = await _read(file, ocr, piped)
        finally:
            waiting.stop()
        if as_json:
            print_object(msgspec.json.encode({"file": name, **came._asdict()}))
        elif isinstance(came, Reading):
            _print(name, came, is_one_of_many=len(files) > 1)
        if isinstance(came, _Failure):
            status = _FAILED
            note(f"{name}: {printable(came.error)}")
    return status


async def _read(file: str, ocr: Ocr, piped: bytes) -> Reading | _Failure:
    """Read one image."""
    try:
        # Ctrl-C does not wait until a large image is decoded.
        data = await apart(lambda: for_ocr(piped if file == _STDIN else _bytes_of(file)))
        return await ocr.read(data)
    except OSError as exc:
        return _Failure(exc.strerror or type(exc).__name__)
    except (BadImage, Unrecognised) as exc:
        return _Failure(str(exc))


def _bytes_of(file: str) -> bytes:
    """Return what is in a file, or so much of it that it shows that it is too large."""
    with open(file, "rb", opener=_open_at_once) as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise BadImage("is a device, pipe or socket, not a file; - reads from stdin")
        return opened.read(MOST_FILE_BYTES + 1)


def _open_at_once(file: str, flags: int) -> int:
    """Open a file without waiting until somebody writes to it, if it is a pipe."""
    return os.open(file, flags | os.O_NONBLOCK)


def _shown(file: str) -> str:
    name = "stdin" if file == _STDIN else file
    return on_one_line(name.encode(errors="backslashreplace").decode())


def _print(name: str, reading: Reading, *, is_one_of_many: bool) -> None:
    paper = Paper()
    if is_one_of_many:
        paper.line((f"==> {name} <==", "bold"))
    if reading.text:
        paper.line(printable(reading.text))
    facts = [
        "no text was found" if not reading.text else "",
        "" if reading.confidence is None else f"confidence {rounded_down(reading.confidence)}",
        "" if reading.language is None else f"language {reading.language}",
        reading.engine,
        f"{reading.duration_s:.1f} s",
    ]
    sys.stdout.flush()  # both may go to one place, and the text comes first
    note(f"{name}: {', '.join(filter(None, facts))}")
