"""`steno` without a prompt: a person works at the terminal, on a full screen or line by line.

The screen is painted before anything else is loaded, so nothing heavy is imported here: what is
behind it is put together by `steno.cli.desk`, when the first frame is there.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import tomllib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from steno.cli.folders import config_folder, home_folder

_FEATURELESS: Final = ("", "dumb", "unknown")
_YES: Final = ("1", "true", "yes", "on")


def is_interactive(options: argparse.Namespace) -> bool:
    """Tell whether a person is to work at the terminal: nothing says what to do, and they are there."""
    if options.prompt is not None or options.images or options.retry:
        return False
    if options.output_format != "text":
        return False
    return bool(options.plain) or (sys.stdin.isatty() and sys.stdout.isatty())


def run_interactive(options: argparse.Namespace) -> int:
    """Let a person work at the terminal, and return the exit status."""
    own = _own_settings(os.environ)
    history = None if options.no_session else _history_file(os.environ)
    if _is_plain(options, own, os.environ) or not _has_full_screen():
        lines: Any = import_module("steno.cli.by_line")
        status: int = lines.run_by_line(options, history)
        return status
    # What is loaded now stays: to look it through for garbage takes time and finds nothing.
    gc.disable()
    try:
        return _run_full_screen(options, own, history)
    finally:
        gc.enable()


def _run_full_screen(
    options: argparse.Namespace, own: Mapping[str, object], history: Path | None
) -> int:
    app: Any = import_module("steno.tui.app")
    themes: Any = import_module("steno.tui.themes")
    wanted = [os.environ.get("STENO_THEME"), own.get("theme")]
    named = [themes.theme_named(name) for name in wanted if isinstance(name, str)]
    theme: str = next(filter(None, named), themes.default_theme(os.environ))

    sessions: list[str] = []

    def opener(say: Callable[[str], None]) -> Any:
        return _opened(options, say, sessions)

    ended: int = app.run_terminal(opener, theme=theme, history=history, first=options.words or "")
    for session in sessions:
        print(f"session {session}: steno -c goes on with it", file=sys.stderr)
    return ended


def _has_full_screen() -> bool:
    """Tell whether the full screen is installed; if not, say so once: lines do as well."""
    if find_spec("textual") is not None:
        return True
    told = "the full screen is not installed (pip install 'steno[tui]'); line by line, then"
    print(f"steno: {told}", file=sys.stderr)
    return False


@asynccontextmanager
async def _opened(
    options: argparse.Namespace, say: Callable[[str], None], sessions: list[str]
) -> AsyncGenerator[Any]:
    """Open the desk; what it takes is loaded in a thread, so that the screen stays alive.

    The session that is at hand in the end is noted, for whoever wants to go on with it.
    """
    module: Any = await asyncio.to_thread(import_module, "steno.cli.desk.opening")
    async with module.opened_for(options, say) as desk:
        gc.freeze()  # and it is not looked through later, either, while a person types
        gc.enable()
        try:
            yield desk
        finally:
            session: str | None = desk.standing.session
            sessions.extend([session] if session else [])


def _is_plain(
    options: argparse.Namespace, own: Mapping[str, object], environ: Mapping[str, str]
) -> bool:
    if options.plain is not None:
        return bool(options.plain)
    if "STENO_PLAIN" in environ:
        return environ["STENO_PLAIN"].lower() in _YES
    return own.get("plain") is True or environ.get("TERM", "") in _FEATURELESS


def _own_settings(environ: Mapping[str, str]) -> Mapping[str, object]:
    """Return what the user's own file says, for what is needed before it is read in earnest."""
    folder = config_folder(environ)
    if folder is None:
        return {}
    try:
        return tomllib.loads((folder / "config.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return {}  # whoever reads it in earnest says what is wrong


def _history_file(environ: Mapping[str, str]) -> Path | None:
    """Return where what was typed is kept."""
    named = environ.get("XDG_STATE_HOME", "")
    home = home_folder(environ)
    if named.startswith("/"):
        return Path(named) / "steno" / "typed.jsonl"
    return None if home is None else home / ".local" / "state" / "steno" / "typed.jsonl"
