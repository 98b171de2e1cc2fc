"""The start of the full-screen interface.

The session controller and everything that it imports load after the first paint. Its import
statement is inside a function, where the first paint does not wait for it and import-linter still
checks it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from steno.ui.tui.app import Controller, SessionOpener, TerminalApp


def run_terminal(
    open_session: SessionOpener,
    *,
    theme: str,
    history: Path | None,
    first_prompt: str = "",
    is_verbose: bool = False,
) -> int:
    """Run the full-screen interface until the user quits; return the exit status.

    `first_prompt` is sent as soon as the session is open. With `is_verbose`, every change to a
    request is shown. Raises the error that ended the session or prevented it from opening.
    """
    app = create_app(open_session, theme=theme, history=history, is_verbose=is_verbose)
    if first_prompt:
        app.send_first(first_prompt)
    app.run()
    if app.failure is not None:
        raise app.failure
    return app.exit_status


def create_app(
    open_session: SessionOpener,
    *,
    theme: str = "steno-dark",
    history: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
    is_verbose: bool = False,
) -> TerminalApp:
    """Return the app, which loads the session controller after the first paint."""

    def load_controller() -> Callable[[TerminalApp, Any], Controller]:
        from steno.ui.tui.controller import SessionController  # noqa: PLC0415 - see above

        return partial(SessionController, is_verbose=is_verbose)

    return TerminalApp(open_session, load_controller, theme=theme, history=history, clock=clock)
