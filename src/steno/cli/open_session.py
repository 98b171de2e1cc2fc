"""The function that opens a session with the options of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from steno.agent import AllowingApprover, Approver
from steno.app.folders import working_folder
from steno.app.mcp import McpOptions
from steno.app.session import AgentSession
from steno.app.session_lookup import SessionStart
from steno.app.settings import load_settings
from steno.ports import SetupNotice

_SETTING_OPTIONS: Final = (
    *("model", "mode", "allow", "deny", "max_turns", "max_seconds", "max_cost", "max_tokens"),
    *("temperature", "add_dirs", "system_prompt", "append_system_prompt", "image_mode"),
)
"""The names of options that override a setting of the same name."""


def open_session_from_options(
    options: argparse.Namespace,
    on_progress: Callable[[str], None],
    *,
    approver: Approver | None = None,
    is_interactive: bool = True,
    on_skipped: Callable[[SetupNotice], None] | None = None,
) -> AbstractAsyncContextManager[AgentSession]:
    """Call `AgentSession.open` with the options of the command line."""
    flags: dict[str, Any] = {name: getattr(options, name) for name in _SETTING_OPTIONS}
    flags["store"] = getattr(options, "store", None)
    start = SessionStart(
        working_folder(),
        resume=options.resume,
        continues=options.continues,
        fork=options.fork,
        is_folder_chosen=options.folder is not None,
    )
    return AgentSession.open(
        load_settings(flags=flags),
        start,
        is_persistent=not options.no_session,
        mode=options.mode,
        approver=AllowingApprover() if options.yes else approver,
        mcp_options=McpOptions(tuple(options.mcp_config), options.no_mcp),
        is_interactive=is_interactive,
        on_progress=on_progress,
        on_skipped=on_skipped,
    )
