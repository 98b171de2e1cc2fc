"""Configuration of all tests: a check of the requirement ids, and the Hypothesis profiles."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.requirements_map import load_catalog, unknown_ids

settings.register_profile(
    "default",
    deadline=None,
    max_examples=100,
    # CI runs the same examples every time, so that a failure comes from the change under test.
    derandomize=bool(os.environ.get("CI")),
    # This check measures wall-clock time and fails on a busy machine.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long", settings.get_profile("default"), max_examples=5_000, derandomize=False
)
settings.load_profile("default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Stop the run before the first test if a test names an unknown requirement."""
    catalog = load_catalog()
    wrong = [
        f"  {key!r} in {item.nodeid}"
        for item in items
        for marker in item.iter_markers("requirement")
        for key in unknown_ids(marker.args, catalog)
    ]
    if wrong:
        lines = "\n".join(dict.fromkeys(wrong))
        raise pytest.UsageError(f"requirement ids missing from tests/requirements.toml:\n{lines}")
