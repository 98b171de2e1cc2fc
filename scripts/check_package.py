"""Build the distribution, install it as a user would, and run the installed commands.

The environments are new and temporary. The first has the package alone, the second the extra
`terminal`, in which the full screen runs in a terminal of its own and answers a prompt.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parent.parent
DIST: Final = ROOT / "dist"
TIMEOUT_S: Final = 120.0
LOADED_MODULES: Final = """
import sys
before = set(sys.modules)
import steno
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(loaded - set(sys.stdlib_module_names) - {"steno"}))
"""
_CONTROL_SEQUENCE: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_]|\][^\x07]*\x07)")


def main() -> None:
    wheel = build()
    with TemporaryDirectory(prefix="steno-package-") as folder:
        print("installing the package alone")
        bare = install(str(wheel), Path(folder) / "bare")
        loaded = run(bare / "python", "-c", LOADED_MODULES)
        expect(loaded == "['msgspec']", f"import steno loads {loaded}")
        for command in ("steno", "steno-agent"):
            version = run(bare / command, "--version")
            expect(version.startswith("steno "), f"{command} --version prints {version!r}")
        response = run(bare / "steno", "--model", "offline", "--no-session", "-p", "help")
        expect("list files in DIR" in response, f"steno -p help prints {response!r}")

        print("installing the extra terminal")
        full = install(f"{wheel}[terminal]", Path(folder) / "terminal")
        use_the_full_screen(full / "steno", Path(folder))
    print(f"{wheel.relative_to(ROOT)} installs and runs")


def build() -> Path:
    """Build the source distribution and the wheel, check their metadata, and return the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    python = Path(sys.executable)
    run(python, "-m", "build", "--no-isolation", "--outdir", str(DIST), str(ROOT))
    files = sorted(DIST.iterdir())
    print(run(python, "-m", "twine", "--no-color", "check", "--strict", *map(str, files)))
    (wheel,) = DIST.glob("*.whl")
    return wheel


def install(requirement: str, folder: Path) -> Path:
    """Install a requirement into a new environment, and return the folder of its programs."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
    run(programs / "python", *pip, "-c", str(ROOT / "constraints.txt"), requirement)
    return programs


def run(program: Path, *arguments: str) -> str:
    """Run a program in an empty home, and return its output. Exits if it fails."""
    with TemporaryDirectory(prefix="steno-home-") as home:
        done = subprocess.run(
            [program, *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd=home,
            env=clean_environment(home),
            timeout=15 * 60,
            check=False,
        )
    expect(done.returncode == 0, f"{program.name} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def clean_environment(home: str) -> dict[str, str]:
    """Return the environment of a new user; pip keeps its own settings."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    return {"HOME": home, "PATH": os.defpath, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", **kept}


def use_the_full_screen(steno: Path, folder: Path) -> None:
    """Start the full screen in a pseudo-terminal, send a prompt, and leave after the response."""
    process, terminal = pty.fork()
    if not process:
        os.chdir(folder)
        environment = {**clean_environment(str(folder)), "COLUMNS": "100", "LINES": "30"}
        os.execve(steno, [str(steno), "--model", "offline", "--no-session"], environment)
    try:
        wait_for(terminal, b"offline")
        os.write(terminal, b"help\r")
        wait_for(terminal, b"list files in DIR")
        os.write(terminal, b"\x04")  # Ctrl-D leaves
        wait_for(terminal, b"")
    except SystemExit:
        os.kill(process, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(process, 0)
        os.close(terminal)
    expect(os.waitstatus_to_exitcode(status) == 0, f"the full screen ended with {status}")


def wait_for(terminal: int, text: bytes) -> None:
    """Read the terminal until it has shown a text; an empty text waits for its end."""
    shown, deadline = b"", time.monotonic() + TIMEOUT_S
    while not text or text not in _CONTROL_SEQUENCE.sub(b"", shown):
        ready, _, _ = select.select([terminal], [], [], max(deadline - time.monotonic(), 0))
        expect(bool(ready), f"the full screen does not show {text!r}: {shown[-2000:]!r}")
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # Linux reports the end of a terminal as an error
            chunk = b""
        if not chunk:
            expect(not text, f"the full screen ended before it showed {text!r}")
            return
        shown += chunk


def expect(condition: bool, problem: str) -> None:
    if not condition:
        sys.exit(f"package: {problem}")


if __name__ == "__main__":
    main()
