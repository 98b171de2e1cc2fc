"""The commands that return a report, one module for each, and the table of commands.

`CommandDefinition` is loaded on first use, because the table is loaded before the first paint.
"""

import typing as _typing
from collections.abc import Callable as _Callable

from steno.lazy_exports import lazy_exports as _lazy_exports

if _typing.TYPE_CHECKING:
    from steno.app.commands.context import CommandDefinition

__all__ = ["CommandDefinition"]

__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__, {"steno.app.commands.context": ("CommandDefinition",)}
)
