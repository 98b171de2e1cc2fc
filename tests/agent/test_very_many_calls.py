"""A turn with more calls than anybody needs: it can be stopped, and what is told is told once."""

from __future__ import annotations

import asyncio

import pytest

from steno.agent import EntryRecorded, LoopEvent
from steno.records.entry import Approval
from tests.agent.working import Desk, call, calling, reader, run


def test_who_stops_a_turn_is_heard_before_all_its_calls_are_decided_about() -> None:
    desk = Desk([calling(*[call(f"c{number}", "read") for number in range(200)])], reader())

    async def main() -> None:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        assert task is not None

        def watch(event: LoopEvent) -> None:
            if isinstance(event, EntryRecorded) and isinstance(event.entry.payload, Approval):
                loop.call_soon(task.cancel)

        await desk.agent.run("Go.", watch=watch)

    with pytest.raises(asyncio.CancelledError):
        run(main())
    assert 0 < len(desk.approvals) < 10
    desk.check()
