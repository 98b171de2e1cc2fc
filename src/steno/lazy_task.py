"""Start asyncio tasks that never run before the caller has stored them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


def start_task(
    coroutine: Coroutine[Any, Any, ResultT], *, name: str | None = None
) -> asyncio.Task[ResultT]:
    """Start a task whose first step runs after the caller has returned to the event loop.

    `asyncio.create_task` uses the task factory of the loop. An eager factory, which Textual sets on
    Python 3.12 and newer, runs the first step inside the call: a task can then be interrupted, or
    even end, before the caller has stored it. This function does not use the task factory.
    """
    return asyncio.Task(coroutine, loop=asyncio.get_running_loop(), name=name)
