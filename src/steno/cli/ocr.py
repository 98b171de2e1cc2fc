"""`steno ocr`: the text in images, recognised here.

The text goes to stdout; how sure the engine is of it, and what else there is to know, to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from steno.cli.commands import Commands, Misused
from steno.cli.paper import Paper, note, print_object
from steno.cli.printable import on_one_line, printable
from steno.cli.waiting import Waiting
from steno.errors import StenoError
from steno.inputs.images.opening import MOST_FILE_BYTES, BadImage
from steno.inputs.images.prepare import for_ocr
from steno.inputs.ocr import ENGINES, Engine, Ocr, Reading, Unrecognised, engine_for

_FAILED: Final = 1
_STDIN: Final = "-"


class _NoEngine(StenoError):
    """Nothing is here that could recognise text; the message says what to install."""


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
        help="languages for Tesseract, as it names them: deu,eng",
    )
    ocr.add_argument(
        "--json", action="store_true", help="print an object for each file, one a line"
    )
    ocr.set_defaults(run=_ocr)


def _languages(text: str) -> tuple[str, ...]:
    return tuple(filter(None, [name.strip() for name in text.split(",")]))


def _ocr(options: argparse.Namespace) -> int:
    return asyncio.run(_read_all(options.files, Ocr(_engine(options)), as_json=options.json))


def _engine(options: argparse.Namespace) -> Engine:
    """Return the engine that is wanted; only one of them has to be told languages."""
    if options.lang and options.engine == "rapidocr":
        raise Misused(
            "--lang: rapidocr needs no languages; leave it out, or use --engine tesseract"
        )
    try:
        return engine_for("tesseract" if options.lang else options.engine, languages=options.lang)
    except Unrecognised as exc:
        raise _NoEngine(str(exc)) from exc


async def _read_all(files: list[str], ocr: Ocr, *, as_json: bool) -> int:
    """Read one image after the other, also if some cannot be read, and return the exit status."""
    status = 0
    waiting = Waiting()
    for number, file in enumerate(files):
        name = _shown(file)
        waiting.start(f"reading {name}" if number else f"loading models, then reading {name}")
        try:
            came = await _read(file, ocr)
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


async def _read(file: str, ocr: Ocr) -> Reading | _Failure:
    """Read one image."""
    try:
        data = await asyncio.to_thread(_bytes_of, file)
        return await ocr.read(await asyncio.to_thread(for_ocr, data))
    except OSError as exc:
        return _Failure(exc.strerror or type(exc).__name__)
    except (BadImage, Unrecognised) as exc:
        return _Failure(str(exc))


def _bytes_of(file: str) -> bytes:
    """Return what is in a file, or so much of it that it shows that it is too large."""
    if file == _STDIN:
        return sys.stdin.buffer.read(MOST_FILE_BYTES + 1)
    with Path(file).open("rb") as opened:
        return opened.read(MOST_FILE_BYTES + 1)


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
        "" if reading.confidence is None else f"confidence {reading.confidence:.2f}",
        "" if reading.language is None else f"language {reading.language}",
        reading.engine,
        f"{reading.duration_s:.1f} s",
    ]
    sys.stdout.flush()  # both may go to one place, and the text comes first
    note(f"{name}: {', '.join(filter(None, facts))}")
