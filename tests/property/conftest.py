"""Settings of the property tests: no warnings, since thousands of odd documents are read."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def quiet_codec() -> Iterator[None]:
    """Keep the codec's warnings out of the reports; that they are given is tested elsewhere."""
    logger = logging.getLogger("steno.codec")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)
