"""Configuration of all tests.

It checks the requirement ids, empties the environment, sets the Hypothesis profiles, collects
garbage at the end of each file, and shares one PostgreSQL server per process.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.requirements_map import load_catalog, unknown_ids
from tests.store.postgres.postgres_server import Server

KEPT_VARIABLES = re.compile(
    r"PATH|HOME|TMPDIR|CI|LD_LIBRARY_PATH|PYTHONPATH|PYTHONHOME"
    r"|STENO_CRASH_ROUNDS|STENO_WRITE_GOLDEN|TEXTUAL_SNAPSHOT_TEMPDIR"
    r"|(PYTEST|PYRIGHT|COV|COVERAGE|HYPOTHESIS)_\w+"
)
# The environment of a user decides no test: it has keys, proxies, colours, locales, databases.
for name in [name for name in os.environ if not KEPT_VARIABLES.fullmatch(name)]:
    del os.environ[name]

settings.register_profile(
    "default",
    deadline=None,
    max_examples=50,  # `make property` runs more
    # CI runs the same examples every time, so that a failure comes from the change under test.
    derandomize=bool(os.environ.get("CI")),
    # This check measures wall-clock time and fails on a busy machine.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long", settings.get_profile("default"), max_examples=5_000, derandomize=False
)
settings.load_profile("default")


def pytest_xdist_auto_num_workers() -> int:
    """Run more tests at once than there are cores: many wait for a process, a clock, a terminal."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return cores + 1


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


def pytest_collection_finish() -> None:
    """Keep the garbage collector from the tests and the libraries: many objects that stay."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def no_garbage_left() -> Iterator[None]:
    """Collect the garbage of a file at its end: what it complains about is blamed on this file.

    What is left then stays, as libraries that were loaded do, and costs no later collection.
    """
    yield
    gc.collect()
    gc.freeze()


# -- PostgreSQL ------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """One server for all tests; it is not stopped."""
    with Server() as server:
        yield server


@pytest.fixture
def postgres_address(postgres_server: Server) -> Iterator[str]:
    """The address of an empty database that only this test uses."""
    address = postgres_server.new_database()
    yield address
    postgres_server.empty_database(address)
