"""Entries of a log with their payloads, and the stored form of each."""

import typing as _typing
from collections.abc import Callable as _Callable

from steno.lazy_exports import lazy_exports as _lazy_exports

if _typing.TYPE_CHECKING:
    from steno.records.entry import (
        Approval,
        ApprovalStatus,
        BranchSwitch,
        Compaction,
        Control,
        Entry,
        Feedback,
        GrantRevoked,
        Label,
        Mode,
        ModeChange,
        ModelChange,
        Payload,
        Redacted,
        Redaction,
        Repair,
        Resolution,
        ResolutionStatus,
        Rewind,
        ShellCommand,
    )
    from steno.records.stored_record import Header, Record

__all__ = [
    "Approval",
    "ApprovalStatus",
    "BranchSwitch",
    "Compaction",
    "Control",
    "Entry",
    "Feedback",
    "GrantRevoked",
    "Header",
    "Label",
    "Mode",
    "ModeChange",
    "ModelChange",
    "Payload",
    "Record",
    "Redacted",
    "Redaction",
    "Repair",
    "Resolution",
    "ResolutionStatus",
    "Rewind",
    "ShellCommand",
]

__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__,
    {
        "steno.records.entry": (
            "Approval",
            "ApprovalStatus",
            "BranchSwitch",
            "Compaction",
            "Control",
            "Entry",
            "Feedback",
            "GrantRevoked",
            "Label",
            "Mode",
            "ModeChange",
            "ModelChange",
            "Payload",
            "Redacted",
            "Redaction",
            "Repair",
            "Resolution",
            "ResolutionStatus",
            "Rewind",
            "ShellCommand",
        ),
        "steno.records.stored_record": ("Header", "Record"),
    },
)
