"""The subjects of calls that read or write a path.

This module is separate from `tools.calls`, which transcripts use and which loads no workspace.
"""

from __future__ import annotations

from steno.ports import Capability, Subject
from steno.tools.workspace import Workspace


def path_subject(workspace: Workspace, path: str, capability: Capability) -> Subject:
    """Return the subject of a call that reads or writes a path.

    It is protected if the path may contain secrets, or if it is written and affects later runs.
    """
    name = workspace.relative(path)
    real, policy = workspace.real_path(name), workspace.policy
    is_read = capability is Capability.READ
    is_protected = policy.is_secret(real) if is_read else policy.is_protected(real)
    return Subject(text=name, capability=capability, is_protected=is_protected)
