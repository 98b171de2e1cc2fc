"""Measure a candidate at a terminal: open a session, stream an answer, scroll back.

    python -m bench.terminal_play CANDIDATE LENGTH PLAN FILE

runs the plan at the current terminal, and writes the costs to the file. A session of ten entries is
shown before the clock starts, so that modules are loaded and caches are filled.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TypeAlias

from bench.terminal_content import deltas, session
from bench.terminal_stage import Candidate

SHORT = 10
EVENTS, PER_SECOND = 5_000, 500
PAGES = 100
STEP_S = 0.002
Costs: TypeAlias = dict[str, float]


async def open_session(candidate: Candidate, length: int) -> Costs:
    """Show a session in place of a short one."""
    record = candidate.prepare(session(length))
    await candidate.show(candidate.prepare(session(SHORT)))
    begun = time.process_time()
    await candidate.show(record)
    return {"open": time.process_time() - begun}


async def stream_answer(candidate: Candidate) -> Costs:
    """Stream an answer for ten seconds; a slow candidate receives several pieces at once."""
    pieces = iter(deltas(EVENTS))
    said = 0
    before = candidate.drawn
    started, begun = time.monotonic(), time.process_time()
    while said < EVENTS:
        due = min(EVENTS, 1 + int((time.monotonic() - started) * PER_SECOND))
        for _ in range(due - said):
            await candidate.stream(next(pieces))
        said = due
        await asyncio.sleep(STEP_S)
    await candidate.finish()
    spent, passed = time.process_time() - begun, time.monotonic() - started
    costs = {"event": spent / EVENTS, "share": spent / passed}
    if before is not None and candidate.drawn is not None:
        costs["drawing"] = spent / (candidate.drawn - before)
    return costs


async def scroll_back(candidate: Candidate) -> Costs:
    """Scroll page by page."""
    begun = time.process_time()
    for _ in range(PAGES):
        await candidate.page_up()
    return {"page": (time.process_time() - begun) / PAGES}


def main(name: str, length: int, plan: str, file: Path) -> None:
    """Run the plan, and write the costs."""
    costs: Costs = {}

    async def act(candidate: Candidate) -> None:
        costs.update(await open_session(candidate, length))
        if "stream" in plan:
            costs.update(await stream_answer(candidate))
        if "scroll" in plan:
            costs.update(await scroll_back(candidate))

    # Only the measured candidate is imported: objects of the other would slow the collector.
    if name == "steno":
        from bench.terminal_own import Steno

        Steno(act).run()
    else:
        from bench.terminal_peers import Textual

        Textual(act).run()
    file.write_text(json.dumps(costs), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
