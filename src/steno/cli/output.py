"""Where commands write to: JSON for people and programs, and what is said when there is no room."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import final

import msgspec

from steno.printable import printable_json


@final
class Unwritable(OSError):
    """What was to be written could not be: the disk is full, or the place is not ours."""

    def __str__(self) -> str:
        return f"{self.filename}: cannot be written: {self.strerror}; make room or write elsewhere"


@contextmanager
def writing(place: str) -> Generator[None]:
    """Say which place it is where nothing can be written. Raises Unwritable."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise Unwritable(exc.errno, exc.strerror, place) from exc


def print_json(data: bytes) -> None:
    """Print JSON: readable on a terminal, one line for a program. Raises Unwritable."""
    if sys.stdout.isatty():
        data = printable_json(msgspec.json.format(data))
    with writing("stdout"):
        sys.stdout.buffer.write(data + b"\n")
