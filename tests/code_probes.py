"""Ways to look at what code does: which functions it calls, and what its errors give away."""

from __future__ import annotations

import gc
import sys
import traceback
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

import pytest

from steno import InvalidValue
from tests.value_samples import SECRET


class CallLog(NamedTuple):
    """The functions that a piece of code called: Python's by name, C's themselves."""

    python: list[str]
    c: list[Any]


def record_calls(code: Callable[[], object]) -> CallLog:
    """Run `code` and note every function that is called in it."""
    work = CallLog([], [])

    def note(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            work.python.append(frame.f_code.co_name)
        elif event == "c_call":
            work.c.append(arg)

    previous = sys.getprofile()
    gc.disable()  # hypothesis is told of every collection, in Python
    sys.setprofile(note)
    try:
        code()
    finally:
        sys.setprofile(previous)
        gc.enable()
    work.python.remove(code.__name__)
    work.c.remove(sys.setprofile)
    return work


def peak_memory(code: Callable[[], object]) -> int:
    """Return how many bytes were in use at most while `code` ran, beyond those before."""
    gc.collect()
    tracemalloc.start()
    try:
        code()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak


def expect_error(code: Callable[[], object]) -> InvalidValue:
    """Run code that has to fail, see that the error is ours and discreet, and return it."""
    with pytest.raises(InvalidValue) as caught:
        code()
    check_no_secret(caught.value)
    return caught.value


def check_no_secret(exc: BaseException) -> None:
    """See that neither the exception nor its printed traceback shows the secret."""
    for shown in (str(exc), repr(exc), "".join(traceback.format_exception(exc))):
        assert SECRET not in shown
