"""Time in tests of the full screen: a clock to move by hand, and waiting that looks at no clock.

Textual's pilot looks how much the process computes. On a busy machine that is little long before
everything is done, and on an idle one it sleeps where there is nothing to wait for. Here nothing is
measured: whatever the event loop can do at once is done, and drawn, until there is no more of it.
What takes time or comes from elsewhere (a timer, a thread, a process) is for `wait_until` to wait for.
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
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def wait_until_idle(min_sleep: float = 0.0, max_sleep: float = 0.0) -> None:
    """Wait until everything is done that can be done now; takes the place of `wait_for_idle`."""
    await settle(active_app.get())


async def settle(app: App[Any]) -> None:
    """Let an app do everything that it can do now, and draw it."""
    for _ in range(_MOST_DRAWINGS):
        await _do_all()
        draw(app)
        if not await _do_all():
            return
    raise AssertionError("it is drawn again and again")


async def wait_until(pilot: Pilot[Any], is_so: Callable[[], object]) -> None:
    """Wait for something that comes by itself, but not for ever."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            await settle(pilot.app)
            while not is_so():
                await asyncio.sleep(_LOOKS_S)
                await settle(pilot.app)
    except TimeoutError:
        raise AssertionError("it did not come") from None


def draw(app: App[Any]) -> None:
    """Draw what has changed, without waiting until the next picture is due."""
    try:
        app.screen._on_timer_update()
    except ScreenStackError:
        return  # it has ended


async def _do_all() -> bool:
    """Let everything run that is ready to; tell whether there was anything."""
    loop: Any = asyncio.get_running_loop()
    was_any = bool(loop._ready)  # nothing else says so
    await asyncio.sleep(0)
    while loop._ready:  # noqa: ASYNC110 - whoever changes it tells nobody
        await asyncio.sleep(0)
    return was_any
