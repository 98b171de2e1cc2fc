"""The command `steno ocr`, which recognises the text in images on this machine.

The text is printed on stdout; confidence, language and engine are printed on stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import stat
import sys
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from steno.app.commands.arguments import UsageError, argument, flag
from steno.cli.arguments import ExitStatus, Subparsers, add_command
from steno.errors import MissingExtra, Unrecognised, install_command
from steno.inputs.images.prepare import MAX_IMAGE_FILE_BYTES, BadImage, prepare_for_ocr
from steno.inputs.ocr.engine import OCR_ENGINES, OcrEngine, OcrResult, format_confidence
from steno.inputs.ocr.reader import OcrReader, choose_ocr_engine
from steno.inputs.ocr.tesseract_engine import TesseractEngine
from steno.render.output import print_json
from steno.render.table_output import StdoutPrinter, print_notice
from steno.render.terminal_text import terminal_line, terminal_text
from steno.render.wait_indicator import WaitIndicator
from steno.tools.cancellable_thread import run_in_cancellable_thread

_STDIN_NAME: Final = "-"


class _ReadFailure(NamedTuple):
    """The reason why an image could not be read."""

    error: str


def add_commands(commands: Subparsers) -> None:
    """Add the command to the command line."""
    add_command(
        commands,
        "ocr",
        _run_ocr,
        "print the text in images",
        "Recognise the text in images (PNG, JPEG, GIF, WebP, BMP, TIFF) of any orientation, and "
        "print it. Images stay on this machine.",
        arguments=(
            argument("files", nargs="+", metavar="FILE", help="the images to read; - for stdin"),
            argument(
                "--engine",
                choices=OCR_ENGINES,
                default="auto",
                help="the OCR engine (default: auto, the first installed engine)",
            ),
            argument(
                "--lang",
                type=_parse_languages,
                default=(),
                metavar="LANG,...",
                help="Tesseract language codes, such as deu,eng; with --engine auto, Tesseract is used "
                "if it has data for these languages",
            ),
            flag("--json", help="print one JSON object per file"),
        ),
        epilog="example:\n  steno ocr screenshot.png\n\n"
        f"Requires {install_command('ocr')}, or {install_command('tesseract')} and Tesseract language data.",
    )


def _parse_languages(text: str) -> tuple[str, ...]:
    return tuple(filter(None, [name.strip() for name in text.split(",")]))


def _run_ocr(options: argparse.Namespace) -> int:
    engine = _select_engine(options)
    ocr = OcrReader(engine)
    # Not read in a thread, because Ctrl-C could not stop the thread before the end of the input.
    piped = sys.stdin.buffer.read(MAX_IMAGE_FILE_BYTES + 1) if _STDIN_NAME in options.files else b""
    try:
        return asyncio.run(_read_all(options.files, ocr, piped, as_json=options.json))
    except MissingExtra as exc:  # if Pillow is missing, the extra of the engine contains it, too
        extra = "tesseract" if isinstance(engine, TesseractEngine) else "ocr"
        raise MissingExtra(exc.message, extra=extra) from exc
    except KeyboardInterrupt:
        with suppress(OSError):
            sys.stdout.flush()
        # Exit immediately, because Python would wait some seconds for the OCR thread.
        os._exit(ExitStatus.INTERRUPTED)


def _select_engine(options: argparse.Namespace) -> OcrEngine:
    """Return the engine that the options name.

    Raises UsageError if languages are given for RapidOCR, which does not accept them.
    """
    if options.lang and options.engine == "rapidocr":
        raise UsageError(
            "rapidocr does not accept languages; omit --lang or use --engine tesseract",
            code="option_not_for_engine",
            place="--lang",
        )
    engine = choose_ocr_engine(options.engine, languages=options.lang)
    if options.lang and not isinstance(engine, TesseractEngine):
        print_notice(
            f"--lang: Tesseract with data for {terminal_line(', '.join(options.lang))} is not installed; "
            f"using {engine.name}, which does not accept languages"
        )
    return engine


async def _read_all(files: list[str], ocr: OcrReader, piped: bytes, *, as_json: bool) -> int:
    """Read the images one by one, report failures, and return the exit status."""
    status = ExitStatus.OK
    waiting = WaitIndicator()
    for number, file in enumerate(files):
        name = _display_name(file)
        waiting.start(f"reading {name}" if number else f"loading models, then reading {name}")
        try:
            outcome = await _read_image(file, ocr, piped)
        finally:
            waiting.stop()
        if as_json:
            print_json(msgspec.json.encode(_outcome_as_json(name, outcome)))
        elif isinstance(outcome, OcrResult):
            _print_text(name, outcome, is_one_of_many=len(files) > 1)
        if isinstance(outcome, _ReadFailure):
            status = ExitStatus.FAILED
            print_notice(f"{name}: {terminal_text(outcome.error)}")
    return status


def _outcome_as_json(name: str, outcome: OcrResult | _ReadFailure) -> dict[str, Any]:
    if isinstance(outcome, _ReadFailure):
        return {"file": name, "error": outcome.error}
    names = ("text", "confidence", "language", "engine", "duration_s")
    return {"file": name, **{name: getattr(outcome, name) for name in names}}


async def _read_image(file: str, ocr: OcrReader, piped: bytes) -> OcrResult | _ReadFailure:
    try:
        # In a thread, so that Ctrl-C does not wait until a large image is decoded.
        data = await run_in_cancellable_thread(
            lambda: prepare_for_ocr(piped if file == _STDIN_NAME else _read_file(file))
        )
        return await ocr.read(data)
    except OSError as exc:
        return _ReadFailure(exc.strerror or type(exc).__name__)
    except (BadImage, Unrecognised) as exc:
        return _ReadFailure(str(exc))


def _read_file(file: str) -> bytes:
    """Return the content of a file, at most one byte more than the size limit."""
    with open(file, "rb", opener=_open_nonblocking) as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise BadImage("is a device, pipe or socket, not a file; use - to read stdin")
        return opened.read(MAX_IMAGE_FILE_BYTES + 1)


def _open_nonblocking(file: str, flags: int) -> int:
    """Open a file; if it is a pipe, do not wait for a writer."""
    return os.open(file, flags | getattr(os, "O_NONBLOCK", 0))  # Windows lacks the flag


def _display_name(file: str) -> str:
    name = "stdin" if file == _STDIN_NAME else file
    return terminal_line(name.encode(errors="backslashreplace").decode())


def _print_text(name: str, result: OcrResult, *, is_one_of_many: bool) -> None:
    printer = StdoutPrinter()
    if is_one_of_many:
        printer.line((f"==> {name} <==", "bold"))
    if result.text:
        printer.line(terminal_text(result.text))
    facts = [
        "no text found" if not result.text else "",
        "" if result.confidence is None else f"confidence {format_confidence(result.confidence)}",
        "" if result.language is None else f"language {result.language}",
        result.engine,
        f"{result.duration_s:.1f} s",
    ]
    sys.stdout.flush()  # print the text first if stdout and stderr are the same terminal
    print_notice(f"{name}: {', '.join(filter(None, facts))}")
