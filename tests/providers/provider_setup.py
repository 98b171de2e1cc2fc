"""Helpers for tests of providers: a request, and a provider whose waits are recorded."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from steno import ChatMessage, Request
from steno.ports import Transport
from steno.providers import ApiKey, Auth, HttpProvider, HttpTransport, Retries, TimeLimits, Vendor
from tests.transport.http_server import Script, Server, run_server

REQUEST = Request(model="m", messages=(ChatMessage.user("Speak."),))
KEY = "sk-very-secret-0123456789"


@dataclass
class RecordedSleep:
    """Records the requested times instead of sleeping."""

    waited: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


def vendor_row(base_url: str, **fields: Any) -> Vendor:
    defaults: dict[str, Any] = {"name": "lab", "wire": "openai_chat", "needs_key": False}
    return Vendor(base_url=base_url, **defaults | fields)


@asynccontextmanager
async def make_provider(
    base_url: str,
    *,
    transport: Transport | None = None,
    limits: TimeLimits | None = None,
    key: str = KEY,
    retries: Retries | None = None,
    patience: RecordedSleep | None = None,
    jitter: float = 0.0,
    model: str = "",
    first_event_s: float | None = None,
    **fields: Any,
) -> AsyncGenerator[HttpProvider]:
    """Return a provider for a server on loopback, with recorded instead of real waits."""
    own = HttpTransport(environ={}, limits=limits or TimeLimits())
    provider = HttpProvider(
        vendor_row(base_url, **{"auth": Auth.BEARER} | fields),
        model=model,
        key=ApiKey(key),
        transport=transport or own,
        retries=retries or Retries(),
        first_event_s=first_event_s,
        sleep=(patience or RecordedSleep()).sleep,
        jitter=lambda: jitter,
    )
    try:
        yield provider
    finally:
        await own.close()


@asynccontextmanager
async def run_provider(
    *scripts: Script, **settings: Any
) -> AsyncGenerator[tuple[Server, HttpProvider]]:
    """Run a server with these scripts, and a provider that sends requests to it."""
    async with run_server(*scripts) as server, make_provider(server.url, **settings) as provider:
        yield server, provider
