"""Replay of a recorded session, and a rerun of it on another model."""

import typing as _typing
from collections.abc import Callable as _Callable

from steno.lazy_exports import lazy_exports as _lazy_exports

if _typing.TYPE_CHECKING:
    from steno.agent.replay.comparison import RecordedResults, rerun
    from steno.agent.replay.verify import replay

__all__ = [
    "RecordedResults",
    "replay",
    "rerun",
]

__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__,
    {
        "steno.agent.replay.comparison": ("RecordedResults", "rerun"),
        "steno.agent.replay.verify": ("replay",),
    },
)
