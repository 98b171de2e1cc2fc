"""Strategies that are shown by their name.

A strategy made of others is shown as everything it is made of, which for a document is 46 kB in
the report of every failed test, and a warning of hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

P = ParamSpec("P")
T = TypeVar("T")


def named(function: Callable[P, SearchStrategy[T]]) -> Callable[P, SearchStrategy[T]]:
    """Make a function return strategies that are shown as the call, and built once per call."""
    build: Callable[..., SearchStrategy[T]] = cache(function)

    def draw_one(draw: DrawFn, *args: Any, **kwargs: Any) -> T:
        return draw(build(*args, **kwargs))

    draw_one.__name__ = function.__name__
    strategy = wraps(function)(st.composite(draw_one))
    vars(strategy).pop("__signature__", None)  # the real one is found through __wrapped__
    return strategy
