"""The costs of a function that do not depend on the machine: executed lines, calls and memory."""

from __future__ import annotations

import gc
import sys
import tracemalloc
import types
from collections.abc import Callable
from typing import Any, NamedTuple


class Memory(NamedTuple):
    """The bytes that a function allocated: those that its result keeps, and the largest sum."""

    kept: int
    peak: int


def memory_of(run: Callable[[], object]) -> Memory:
    run()  # the first use fills caches
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        result = run()
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del result
    return Memory(kept - before, peak - before)


def steps_of(run: Callable[[], object]) -> int:
    """Return the number of lines, calls and returns that `run` executes.

    Each iteration of a loop is a step, also of a loop or a comprehension on one line.
    """
    steps = 0

    def trace(*_: object) -> Any:
        nonlocal steps
        steps += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return steps


def calls_of(run: Callable[[], object]) -> list[str]:
    """Return the names of the Python and C functions that `run` calls."""
    names: list[str] = []

    def note(frame: types.FrameType, event: str, function: Any) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)
        elif event == "c_call":
            names.append(function.__name__)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return names
