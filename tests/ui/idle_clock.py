"""Time in tests of the full screen: a manual clock, and waiting without a clock.

Textual's pilot measures the CPU use of the process. On a busy machine that is low long before all
work is done, and on an idle one the pilot sleeps for nothing. Here nothing is measured: the event
loop runs and draws until nothing is ready. `wait_until` waits for timers, threads and processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from textual._context import active_app
from textual.app import App, ScreenStackError
from textual.pilot import Pilot

PATIENCE_S: Final = 60.0
LONG_ENOUGH_S: Final = 2.0
"""After which a key about a call is neither too soon, nor held down, nor part of a word."""
_LOOKS_S: Final = 0.005
_MOST_DRAWINGS: Final = 200
"""After so many, something is drawn because it was drawn, and so on without end."""


class ManualClock:
    """A clock that only a test advances."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def wait_until_idle(min_sleep: float = 0.0, max_sleep: float = 0.0) -> None:
    """Run everything that is ready; replaces Textual's `wait_for_idle`."""
    await settle(active_app.get())


async def settle(app: App[Any]) -> None:
    """Run and draw everything that is ready in an app."""
    for _ in range(_MOST_DRAWINGS):
        await _do_all()
        draw(app)
        if not await _do_all():
            return
    raise AssertionError("it is drawn again and again")


async def wait_until(pilot: Pilot[Any], is_so: Callable[[], object]) -> None:
    """Wait for a condition, with a time limit."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            await settle(pilot.app)
            while not is_so():
                await asyncio.sleep(_LOOKS_S)
                await settle(pilot.app)
    except TimeoutError:
        raise AssertionError("it did not come") from None


def draw(app: App[Any]) -> None:
    """Draw changes at once, without waiting for the next frame."""
    try:
        app.screen._on_timer_update()
    except ScreenStackError:
        return  # it has ended


async def _do_all() -> bool:
    """Run everything that is ready; return whether there was anything."""
    loop: Any = asyncio.get_running_loop()
    was_any = bool(loop._ready)  # nothing else says so
    await asyncio.sleep(0)
    while loop._ready:  # noqa: ASYNC110 - whoever changes it tells nobody
        await asyncio.sleep(0)
    return was_any
