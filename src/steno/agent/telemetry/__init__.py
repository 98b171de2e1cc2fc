"""Spans of runs, turns and calls, and their export to OpenTelemetry."""

import typing as _typing
from collections.abc import Callable as _Callable

from steno.lazy_exports import lazy_exports as _lazy_exports

if _typing.TYPE_CHECKING:
    from steno.agent.telemetry.opentelemetry import OpenTelemetry
    from steno.agent.telemetry.spans import NO_TELEMETRY, Telemetry

__all__ = ["NO_TELEMETRY", "OpenTelemetry", "Telemetry"]

__getattr__: _Callable[[str], object] = _lazy_exports(
    __name__,
    {
        "steno.agent.telemetry.opentelemetry": ("OpenTelemetry",),
        "steno.agent.telemetry.spans": ("NO_TELEMETRY", "Telemetry"),
    },
)
