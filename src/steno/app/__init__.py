"""The application without an interface: settings, a session, its commands and reports."""

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
        ShellEnded,
        ShellOutput,
        ShellStarted,
    )
    from steno.app.approval_queue import PendingCall
    from steno.app.session import AgentSession
    from steno.app.session_lookup import SessionStart
    from steno.app.settings import LoadedSettings, Settings, load_settings
    from steno.render.items import SessionStatus

__all__ = [
    "AgentSession",
    "BranchChanged",
    "ErrorRaised",
    "InputReturned",
    "LoadedSettings",
    "PendingCall",
    "PendingCallsChanged",
    "RunFailed",
    "RunStarted",
    "SessionEvent",
    "SessionStart",
    "SessionStatus",
    "Settings",
    "ShellEnded",
    "ShellOutput",
    "ShellStarted",
    "load_settings",
]

__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__,
    {
        "steno.app.approval_queue": ("PendingCall",),
        "steno.app.session": ("AgentSession",),
        "steno.render.items": ("SessionStatus",),
        "steno.agent.session_events": (
            "BranchChanged",
            "ErrorRaised",
            "InputReturned",
            "PendingCallsChanged",
            "RunFailed",
            "RunStarted",
            "SessionEvent",
            "ShellEnded",
            "ShellOutput",
            "ShellStarted",
        ),
        "steno.app.session_lookup": ("SessionStart",),
        "steno.app.settings": ("LoadedSettings", "Settings", "load_settings"),
    },
)
