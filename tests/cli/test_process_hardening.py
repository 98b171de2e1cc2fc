"""The program keeps other programs of the user from reading its memory."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="the setting exists on Linux only")
def test_a_hardened_process_cannot_be_dumped() -> None:
    """The library leaves the setting alone; the command changes it."""
    program = (
        "import ctypes; import steno.tools.bash; "
        "dumpable = lambda: ctypes.CDLL(None).prctl(3, 0, 0, 0, 0); before = dumpable(); "
        "from steno.cli.main import main; import sys; sys.argv = ['steno', '--version']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(before, dumpable())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "1 0"
