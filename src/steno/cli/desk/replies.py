"""What the commands of a person bring, by their names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from steno.cli.desk.audited import audit
from steno.cli.desk.changed import diff
from steno.cli.desk.exporting import export
from steno.cli.desk.scene import Scene
from steno.cli.desk.served import mcp
from steno.cli.desk.used import usage
from steno.tui.desk import Reply

REPLIES: Final[Mapping[str, Callable[[Scene, str], Awaitable[Reply]]]] = MappingProxyType(
    {
        "audit": audit,
        "diff": diff,
        "export": export,
        "mcp": mcp,
        "usage": usage,
    }
)
"""Each looks at the scene, and takes what stands behind the name. They raise StenoError."""
