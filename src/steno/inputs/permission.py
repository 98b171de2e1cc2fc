"""Ask whether something may be opened, and say of what it is that it may not be."""

from __future__ import annotations

from steno.errors import ToolFailed
from steno.ports import Capability, ResolveContext


async def require_permission(
    viewer: ResolveContext,
    tool: str,
    capability: Capability,
    subject: str,
    *,
    name: str,
    preview: str = "",
) -> str:
    """Return what allows it. Raises ToolFailed with the `name`, which holds no secret, in front."""
    try:
        return await viewer.authorize(tool, capability, subject, preview=preview)
    except ToolFailed as exc:
        raise ToolFailed(f"{name}: {exc}") from exc
