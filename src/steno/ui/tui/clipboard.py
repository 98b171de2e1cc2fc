"""The clipboard of the desktop, read through external programs: an image, or text.

A terminal can paste text only, so images are read from the clipboard directly. Each program has a
time limit and an output limit, and runs without a shell. No function here raises.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

_TIMEOUT_S: Final = 3.0
_MAX_BYTES: Final = 20_000_000
_PNG: Final = b"\x89PNG\r\n\x1a\n"


class _ClipboardProgram(NamedTuple):
    """A program that reads a clipboard."""

    name: str
    variable: str
    """The environment variable that is set if this clipboard exists; empty on macOS."""
    image: Sequence[str]
    """The arguments to read an image."""
    text: Sequence[str]
    """The whole command to read text."""


_PROGRAMS: Final = (
    _ClipboardProgram("wl-paste", "WAYLAND_DISPLAY", ("--type", "image/png"), ("wl-paste", "-n")),
    _ClipboardProgram(
        "xclip",
        "DISPLAY",
        ("-selection", "clipboard", "-t", "image/png", "-o"),
        ("xclip", "-selection", "clipboard", "-o"),
    ),
    _ClipboardProgram("pngpaste", "", ("-",), ("pbpaste",)),
)


def read_image(*, limit_s: float = _TIMEOUT_S) -> bytes | None:
    """Return the clipboard image as PNG; None if there is no image. May block for a while."""
    for program in _available_programs(os.environ):
        output = _run_program([program.name, *program.image], limit_s)
        if output is not None and output.startswith(_PNG):
            return output
    return None


def read_text(*, limit_s: float = _TIMEOUT_S) -> str | None:
    """Return the text in the clipboard; None if there is no text. May block for a while."""
    for program in _available_programs(os.environ):
        output = _run_program(program.text, limit_s)
        if output:
            return output.decode(errors="replace")
    return None


def missing_program_hint() -> str | None:
    """Return a hint about a missing clipboard or program; None if a program is installed."""
    programs = _available_programs(os.environ)
    if not programs:
        return (
            "no clipboard found (neither WAYLAND_DISPLAY nor DISPLAY is set);"
            " attach an image with @file, or paste text with the terminal's own paste key"
        )
    if any(shutil.which(program.name) for program in programs):
        return None
    return f"to paste images, install {' or '.join(program.name for program in programs)}"


def _available_programs(environment: Mapping[str, str]) -> list[_ClipboardProgram]:
    return [
        program
        for program in _PROGRAMS
        if (environment.get(program.variable) if program.variable else sys.platform == "darwin")
    ]


def _run_program(command: Sequence[str], limit_s: float) -> bytes | None:
    """Return the output of a program; None if it fails or exceeds a limit."""
    path = shutil.which(command[0])
    if path is None:
        return None
    try:
        process = subprocess.Popen(  # noqa: S603 - a command of this module, without a shell
            [path, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that killpg also ends its children
        )
    except OSError:
        return None
    with process:
        try:
            return _read_all(process, time.monotonic() + limit_s)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)


def _read_all(process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
    assert process.stdout is not None
    chunks: list[bytes] = []
    remaining = _MAX_BYTES
    while select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = os.read(process.stdout.fileno(), 1 << 16)
        if not chunk:
            with suppress(subprocess.TimeoutExpired):
                if process.wait(max(0.0, deadline - time.monotonic())) == 0:
                    return b"".join(chunks)
            return None
        remaining -= len(chunk)
        if remaining < 0:
            return None
        chunks.append(chunk)
    return None
