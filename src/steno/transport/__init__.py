"""Transports that send requests to a provider over HTTP, or replay recorded responses."""

import typing as _typing
from collections.abc import Callable as _Callable

from steno.lazy_exports import lazy_exports as _lazy_exports

if _typing.TYPE_CHECKING:
    from steno.transport.http import HttpTransport, TimeLimits
    from steno.transport.replay import RecordedResponse, ReplayTransport

__all__ = ["HttpTransport", "RecordedResponse", "ReplayTransport", "TimeLimits"]

__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__,
    {
        "steno.transport.http": ("HttpTransport", "TimeLimits"),
        "steno.transport.replay": ("RecordedResponse", "ReplayTransport"),
    },
)
