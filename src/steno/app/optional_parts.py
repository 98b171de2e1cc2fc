"""The parts of other layers that are loaded only when the settings or a prompt need them.

Each function imports one part, which is slow to load or comes with an extra of the package, so that
a session starts fast and import-linter still sees every dependency.
"""

# ruff: noqa: PLC0415 - imports inside of functions are the purpose of this module

from __future__ import annotations

from steno.agent.telemetry.spans import Telemetry
from steno.errors import MissingExtra, Unavailable
from steno.ports import Transport


def build_telemetry(*, capture_content: bool) -> Telemetry:
    """Return telemetry that uses OpenTelemetry. Raises Unavailable if it is not installed."""
    try:
        from steno.agent.telemetry.opentelemetry import OpenTelemetry
    except MissingExtra as exc:
        raise Unavailable(str(exc), code=exc.code, place="telemetry") from exc
    return OpenTelemetry(capture_content=capture_content)


def build_http_transport(*, timeout_s: float, max_body_bytes: int) -> Transport:
    """Return a transport for HTTP; it raises MissingExtra when it is used and not installed."""
    from steno.transport.http import HttpTransport, TimeLimits

    limits = TimeLimits(first_byte_s=timeout_s, idle_s=timeout_s)
    return HttpTransport(limits=limits, max_body_bytes=max_body_bytes)
