"""The process of an embedded model: started when it is first needed, ended with its owner.

Everything here blocks and is made for threads; it knows no request and no message.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, final
from weakref import finalize

from steno.errors import StenoError, Unreachable

_PROGRAM: Final = Path(__file__).with_name("embedded_child.py")
_PASSED_ON: Final = (
    *("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "OMP_NUM_THREADS", "SYSTEMROOT"),
)
_REASON: Final = re.compile(r"error loading model: (.+)")


@final
class Engine:
    """Runs llama.cpp's server for one model file. It ends with the object, or with Python."""

    def __init__(self, wanted: Mapping[str, Any]) -> None:
        """Take what the program is told; nothing runs yet."""
        self._settings = json.dumps(wanted)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._finalizer: finalize[..., Engine] | None = None
        self._address = ""
        self._is_closed = False

    def start(self) -> str:
        """Return the address of the server, which runs by then. Raises Unreachable."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self._address
            if self._finalizer is not None:
                self._finalizer()  # it has died, and takes its pipes along
            try:
                with tempfile.TemporaryFile() as log:
                    self._address = self._start_process(log)
            except OSError as exc:
                raise Unreachable(f"embedded: no process can be started: {exc.strerror}") from exc
            return self._address

    def stop(self) -> None:
        """End the process, also one that is still loading; it will not start again."""
        self._is_closed = True
        if self._finalizer is not None:
            self._finalizer()

    def _start_process(self, log: IO[bytes]) -> str:
        # -P: beside the program lie files whose names hide those of the standard library.
        process = subprocess.Popen(  # noqa: S603 - our own program, and nothing else
            [sys.executable, "-P", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=_environment(),
            start_new_session=True,  # what is typed to stop a turn is not meant for the model
        )
        self._process = process
        self._finalizer = finalize(self, _end, process)
        if self._is_closed:
            self._finalizer()
            raise StenoError("embedded: the provider is closed")
        answer = self._load_model(process)
        if "address" in answer:
            return answer["address"]
        self._finalizer()
        log.seek(0)
        reason = _REASON.search(log.read().decode(errors="replace"))
        said = reason[1].strip() if reason else answer.get("error", "llama.cpp ended unexpectedly")
        raise Unreachable(f"embedded: the model could not be loaded: {said}")

    def _load_model(self, process: subprocess.Popen[bytes]) -> dict[str, str]:
        """Tell the program what to load, and wait until it has; nothing if it ended instead."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self._settings.encode() + b"\n")
            process.stdin.flush()
            answer: dict[str, str] = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            return {}
        return answer


def _environment() -> dict[str, str]:
    """Return what the program needs to know of ours: where things lie, and no keys."""
    return {name: value for name in _PASSED_ON if (value := os.environ.get(name)) is not None}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process at once: it keeps nothing, and while it loads it hears nothing."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.kill()
    process.wait()
    process.stdout.close()
    with suppress(OSError):  # what it was not told any more
        process.stdin.close()
