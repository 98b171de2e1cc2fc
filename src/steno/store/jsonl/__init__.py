"""A store of plain files: one for each session, a line for each record.

`session_file` reads and writes the lines of a file, `blobs` keeps the bytes that records refer to,
and `store` puts them together. The store is loaded when it is used: exported sessions need the
lines alone.
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
