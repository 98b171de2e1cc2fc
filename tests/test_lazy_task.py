"""Tasks of steno never run before their caller has stored them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from steno.lazy_task import start_task


def refuse_to_start(loop: object, coroutine: Any, **_: Any) -> Any:
    """Stand in for a task factory, such as the eager one of Python 3.12."""
    coroutine.close()
    pytest.fail("the task factory of the loop was used")


def test_a_task_takes_its_first_step_after_the_caller_has_stored_it() -> None:
    async def main() -> None:
        steps: list[str] = []

        async def work() -> str:
            steps.append("work")
            return "done"

        loop = asyncio.get_running_loop()
        loop.set_task_factory(refuse_to_start)
        task = start_task(work(), name="a task")
        loop.set_task_factory(None)
        steps.append("stored")
        assert await task == "done"
        assert (steps, task.get_name()) == (["stored", "work"], "a task")

    asyncio.run(main())
