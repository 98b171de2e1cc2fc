"""The first paint imports only the modules that it needs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest

from steno import app
from tests.cli.program import on_terminal

EARLY_APP = {
    *("steno.app.commands.arguments", "steno.app.commands.table"),
    *("steno.app.environment", "steno.app.folders"),
}
"""The light modules of `app` that the command line and the first paint need."""

LATER = (
    *("steno.agent", "steno.context", "steno.log.conversation", "steno.inputs", "steno.providers"),
    *("steno.store", "steno.tools", "steno.transport", "steno.wire", "steno.cli.headless"),
    *{one.name for one in walk_packages(app.__path__, "steno.app.") if not one.ispkg} - EARLY_APP,
    *("steno.ui.tui.controller", "steno.ui.tui.screens", "steno.render.live_items"),
    *("steno.ui.tui.transcript.image", "steno.ui.tui.transcript.markdown"),
    *("PIL", "aiohttp", "http", "markdown_it", "pygments.lexers", "rich.markdown", "sqlite3"),
    *("textual.widgets._markdown", "textual_image"),
)
"""Modules that the first paint does without, with everything in them."""

_WATCHED = """
import json, os, sys, threading
from pathlib import Path

file, last, later = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
patience_s = float(sys.argv[4])
painted = threading.Event()
early = []

class Screen:
    # In the place of the file that Textual writes to; it notes the first frame.
    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write(self, text):
        self._file.write(text)
        if "starting" in text:
            painted.set()

class Watch:
    # Asked first about every module that is loaded.
    def find_spec(self, name, path=None, target=None):
        is_later = any(name == one or name.startswith(one + ".") for one in later)
        # The frame may be on its way; whoever loads something before it waits in vain.
        if is_later and not painted.is_set() and (early or not painted.wait(patience_s)):
            early.append(name)
        if name == last:
            file.write_text(json.dumps({"early": early, "painted": painted.is_set()}))
            os._exit(0)

sys.__stderr__ = Screen(sys.__stderr__)
sys.meta_path.insert(0, Watch())
from steno.cli.main import main
main(["run", "--no-session"])
"""

_COLLECTING = """
import gc, json, os, signal, sys, threading, time
from pathlib import Path

during = []
frozen = gc.get_freeze_count()  # Python 3.12 begins with some

def leave():
    deadline = time.monotonic() + 60
    while gc.get_freeze_count() == frozen and time.monotonic() < deadline:
        time.sleep(0.01)
    while not gc.isenabled() and time.monotonic() < deadline:
        time.sleep(0.01)
    during.append(gc.isenabled())
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=leave, daemon=True).start()
from steno.cli.main import main
status = main(["run", "--no-session", "--model", "offline/assistant"])
report = {"status": status, "during": during, "after": gc.isenabled()}
Path(sys.argv[1]).write_text(json.dumps(report))
"""


@pytest.mark.requirement("S4-15")
def test_nothing_is_loaded_before_the_first_paint_that_it_does_without(tmp_path: Path) -> None:
    seen = _watch(tmp_path, last="steno.cli.open_session", later=LATER, patience_s=10)
    assert seen == {"early": [], "painted": True}


def test_modules_loaded_before_the_first_paint_are_detected(tmp_path: Path) -> None:
    seen = _watch(tmp_path, last="steno.ui.tui.start", later=("argparse",), patience_s=0)
    assert seen == {"early": ["argparse"], "painted": False}


def test_garbage_is_collected_as_soon_as_there_is_something_to_work_at(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    _start(_COLLECTING, tmp_path, str(file))
    assert json.loads(file.read_text()) == {"status": 143, "during": [True], "after": True}


def _watch(folder: Path, *, last: str, later: tuple[str, ...], patience_s: float) -> dict[str, Any]:
    """Start the terminal until a module is imported; return the modules imported too early."""
    file = folder / "report.json"
    _start(_WATCHED, folder, str(file), last, json.dumps(later), str(patience_s))
    seen: dict[str, Any] = json.loads(file.read_text())
    return seen


def _start(program: str, home: Path, *arguments: str) -> None:
    told = on_terminal(
        *arguments,
        command=[sys.executable, "-c", program],
        environment={"HOME": str(home), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""},
    )
    assert told.status == 0, told.out
