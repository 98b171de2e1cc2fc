"""Commands of the command line and of a terminal: one module for each, and the table of them.

The type here is loaded when it is used: the table is loaded before the first paint.
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
