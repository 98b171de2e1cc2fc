"""Settings that a library reads from the environment while it is loaded, and never again."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def with_variable(name: str, value: str) -> Generator[None]:
    """Let a variable of the environment have a value; what we start later does not inherit it."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
