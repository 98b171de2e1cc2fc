"""`steno ocr`."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image

from tests.cli.program import COMMAND, run_process, run_steno
from tests.inputs.ocr.text_images import draw_text, encode_png

TEXT = "Ship it on Friday, or tell Ada."


@pytest.fixture
def shot(tmp_path: Path) -> Path:
    file = tmp_path / "shot.png"
    file.write_bytes(encode_png(draw_text(TEXT)))
    return file


@pytest.fixture
def blank(tmp_path: Path) -> Path:
    file = tmp_path / "blank.png"
    file.write_bytes(encode_png(Image.new("RGB", (40, 40), "white")))
    return file


@pytest.mark.requirement("S2-25")
def test_text_is_on_stdout_and_how_it_was_found_on_stderr(shot: Path) -> None:
    output = run_steno("ocr", shot)
    assert (output.status, output.out) == (0, f"{TEXT}\n")
    facts = r"confidence (0\.9\d|1\.00), language en, rapidocr 3[\d.]+, \d+\.\d s\n"
    assert re.fullmatch(rf"steno: {re.escape(str(shot))}: {facts}", output.err)


def test_unreadable_files_do_not_stop_the_others(shot: Path, blank: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.png"
    notes.write_text("I am no image.")
    output = run_steno(
        "ocr", tmp_path / "gone.png", notes, tmp_path, blank, "-", data=shot.read_bytes()
    )
    assert output.status == 1
    assert output.out == f"==> {blank} <==\n==> stdin <==\n{TEXT}\n"
    gone, text, folder, empty, _ = output.err.splitlines()
    assert gone == f"steno: {tmp_path / 'gone.png'}: {os.strerror(errno.ENOENT)}"
    assert text.startswith(f"steno: {notes}: ")
    assert folder == f"steno: {tmp_path}: {os.strerror(errno.EISDIR)}"
    assert empty.startswith(f"steno: {blank}: ")
    assert "rapidocr 3." in empty


def test_json_has_an_object_for_each_file(blank: Path, tmp_path: Path) -> None:
    output = run_steno("ocr", "--json", blank, tmp_path / "gone.png")
    first, second = (json.loads(line) for line in output.out.splitlines())
    assert output.status == 1
    assert first.pop("duration_s") >= 0
    assert first.pop("engine").startswith("rapidocr 3.")
    assert first == {"file": str(blank), "text": "", "confidence": None, "language": None}
    assert second == {"file": str(tmp_path / "gone.png"), "error": os.strerror(errno.ENOENT)}


def test_a_name_that_is_not_unicode_is_printed_in_escapes(tmp_path: Path) -> None:
    output = run_steno("ocr", "--json", f"{tmp_path}/\udcff.png")
    assert (output.status, json.loads(output.out)["file"]) == (1, f"{tmp_path}/\\udcff.png")


def test_tesseract_without_data_names_the_package(
    shot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    output = run_steno("ocr", "--engine", "tesseract", "--lang", "deu,eng", shot)
    assert (output.status, output.out) == (1, "")
    assert str(shot) in output.err
    assert "apt install tesseract-ocr-eng" in output.err


def test_languages_without_data_are_left_to_the_other_engine(
    shot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    output = run_steno("ocr", "--lang", "deu,eng", shot)
    assert (output.status, output.out) == (0, f"{TEXT}\n")
    first, second = output.err.splitlines()
    assert first.startswith("steno: --lang: ")
    assert "deu, eng" in first
    assert "rapidocr 3." in second


def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    output = run_process("ocr", tmp_path / "pipe.png")
    assert (output.status, output.out) == (1, "")
    assert output.named_place == str(tmp_path / "pipe.png")
    assert output.err.count("\n") == 1


def test_ctrl_c_ends_it_in_the_middle_of_an_image(tmp_path: Path) -> None:
    line = "the quick brown fox jumps over the lazy dog " * 6
    page = draw_text("\n".join([line] * 160), size=16)  # about a minute of work
    (tmp_path / "page.png").write_bytes(encode_png(page))
    with at_terminal("ocr", "page.png", folder=tmp_path) as (process, terminal):
        assert shows(terminal, "page.png … 4 s")  # by now it is at work
        os.write(terminal, b"\x03")
        assert process.wait(timeout=60) == 130


def _take_terminal() -> None:
    # Where tests run in the background, signals are ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def at_terminal(*arguments: str, folder: Path) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    """Run the program with a terminal that can interrupt it."""
    main_end, other_end = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(other_end)
    try:
        yield process, main_end
    finally:
        process.kill()
        process.wait()
        os.close(main_end)


def shows(terminal: int, text: str) -> bool:
    """Wait until a terminal shows a text; it is written to every second."""
    shown = b""
    while text.encode() not in shown and select.select([terminal], [], [], 60)[0]:
        try:
            shown += os.read(terminal, 65_536)
        except OSError:  # the program has ended
            break
    return text.encode() in shown


def test_languages_are_not_for_every_engine(shot: Path) -> None:
    output = run_steno("ocr", "--engine", "rapidocr", "--lang", "deu", shot)
    assert (output.status, output.out) == (2, "")
    assert (output.code, output.place) == ("option_not_for_engine", "--lang")


def test_without_an_engine_nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    monkeypatch.setitem(sys.modules, "tesserocr", None)
    output = run_steno("ocr", "gone.png")
    assert output.status == 1
    assert output.code == "no_engine_installed"
    assert "pip install 'steno-agent[ocr]'" in output.err


def test_without_pillow_the_error_names_the_extra(
    shot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for plugin in ("Bmp", "Gif", "Jpeg", "Png", "Tiff", "WebP"):
        monkeypatch.setitem(sys.modules, f"PIL.{plugin}ImagePlugin", None)
    output = run_steno("ocr", shot)
    assert output.status == 1
    assert "pip install 'steno-agent[ocr]'" in output.err
