"""Expect an error by its type, its code and, where it matters, its place."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from steno.errors import StenoError

E = TypeVar("E", bound=StenoError)


@contextmanager
def raises_code(
    error: type[E], code: str, *, place: str | None = None
) -> Generator[pytest.ExceptionInfo[E]]:
    """Fail unless the block raises this error with this code; the text of the error may change."""
    with pytest.raises(error) as caught:
        yield caught
    assert caught.value.code == code, str(caught.value)
    if place is not None:
        assert caught.value.place == place, str(caught.value)
