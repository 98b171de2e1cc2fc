"""The application without a user interface: settings, sessions, commands and reports."""

import typing as _typing
from collections.abc import Callable as _Callable

from steno.lazy_exports import lazy_exports as _lazy_exports

if _typing.TYPE_CHECKING:
    from steno.agent.session_events import (
        BranchChanged,
        ErrorRaised,
        InputReturned,
        PendingCallsChanged,
        RunFailed,
        RunStarted,
        SessionEvent,
        SessionListener,
        ShellEnded,
        ShellOutput,
        ShellStarted,
    )
    from steno.app.approval_queue import PendingCall
    from steno.app.commands.report import Report
    from steno.app.commands.table import Suggestion
    from steno.app.mcp import McpOptions
    from steno.app.session import AgentSession
    from steno.app.session_log import BranchTreeRow
    from steno.app.session_lookup import SessionStart, SessionSummary
    from steno.app.settings import LoadedSettings, Settings, load_settings
    from steno.render.items import SessionStatus

__all__ = [
    "AgentSession",
    "BranchChanged",
    "BranchTreeRow",
    "ErrorRaised",
    "InputReturned",
    "LoadedSettings",
    "McpOptions",
    "PendingCall",
    "PendingCallsChanged",
    "Report",
    "RunFailed",
    "RunStarted",
    "SessionEvent",
    "SessionListener",
    "SessionStart",
    "SessionStatus",
    "SessionSummary",
    "Settings",
    "ShellEnded",
    "ShellOutput",
    "ShellStarted",
    "Suggestion",
    "load_settings",
]

__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__,
    {
        "steno.app.approval_queue": ("PendingCall",),
        "steno.app.commands.report": ("Report",),
        "steno.app.commands.table": ("Suggestion",),
        "steno.app.mcp": ("McpOptions",),
        "steno.app.session": ("AgentSession",),
        "steno.app.session_log": ("BranchTreeRow",),
        "steno.render.items": ("SessionStatus",),
        "steno.agent.session_events": (
            "BranchChanged",
            "ErrorRaised",
            "InputReturned",
            "PendingCallsChanged",
            "RunFailed",
            "RunStarted",
            "SessionEvent",
            "SessionListener",
            "ShellEnded",
            "ShellOutput",
            "ShellStarted",
        ),
        "steno.app.session_lookup": ("SessionStart", "SessionSummary"),
        "steno.app.settings": ("LoadedSettings", "Settings", "load_settings"),
    },
)
