"""What holds for every test: known requirement ids, and the settings of hypothesis."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.requirements_map import load_catalog, unknown_ids

settings.register_profile(
    "default",
    deadline=None,
    max_examples=100,
    # The same examples on every run in CI: a red build then means a change, not a lucky find.
    derandomize=bool(os.environ.get("CI")),
    # Measures the clock, so it fails on a busy machine whatever the test does.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long", settings.get_profile("default"), max_examples=5_000, derandomize=False
)
settings.load_profile("default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Stop before the first test if one of them names a promise that does not exist."""
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
