"""Progress that is reported too often is throttled."""

from __future__ import annotations

import asyncio

from steno.inputs.mcp.connection import THROTTLE_INTERVAL_S, Throttle
from tests.inputs.mcp.real_servers import LiveConnection
from tests.transport.http_server import run


def test_of_many_texts_at_once_the_first_and_the_last_are_passed_on() -> None:
    told: list[str] = []

    async def main() -> None:
        with Throttle(told.append, now=lambda: 0.0) as paced:
            for number in range(1_000):
                paced(str(number))
            assert told == ["0"]
        assert told == ["0", "999"]

    run(main())


def test_texts_that_come_slowly_are_all_passed_on_at_once() -> None:
    told: list[str] = []
    time = [0.0]

    async def main() -> None:
        with Throttle(told.append, now=lambda: time[0]) as paced:
            for number in range(3):
                paced(str(number))
                assert told[-1] == str(number)
                time[0] += THROTTLE_INTERVAL_S

    run(main())
    assert told == ["0", "1", "2"]


def test_the_last_text_before_a_pause_is_passed_on_during_it() -> None:
    told: list[str] = []
    second = asyncio.Event()

    def tell(text: str) -> None:
        told.append(text)
        if len(told) == 2:
            second.set()

    async def main() -> None:
        with Throttle(tell) as paced:
            for number in range(3):
                paced(str(number))
            await second.wait()
            assert told == ["0", "2"]

    run(main())


def test_progress_of_a_server_that_does_not_stop_to_tell_is_thinned_out(
    own_server: LiveConnection,
) -> None:
    told: list[str] = []
    own_server.run(own_server.server.call("count", {"to": 1_000}, progress=told.append))
    assert 1 < len(told) < 500
    assert told[-1] == "1000/1000 at 1000"
