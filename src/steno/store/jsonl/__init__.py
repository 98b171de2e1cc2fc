"""A store of plain files, with one file for each session and one line for each record.

The store is imported when it is used: reading an exported session needs only `session_file`.
"""

import typing as _typing
from collections.abc import Callable as _Callable

from steno.lazy_exports import lazy_exports as _lazy_exports

if _typing.TYPE_CHECKING:
    from steno.store.jsonl.store import JsonlStore

__all__ = ["JsonlStore"]

__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__, {"steno.store.jsonl.store": ("JsonlStore",)}
)
