"""A PostgreSQL for the tests of stores, started when the first of them asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.postgres.postgres_server import Server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """One server for all tests; it is not stopped."""
    with Server() as server:
        yield server


@pytest.fixture
def postgres_address(postgres_server: Server) -> Iterator[str]:
    """The address of a database that only this test uses."""
    address = postgres_server.new_database()
    yield address
    postgres_server.drop_database(address)
