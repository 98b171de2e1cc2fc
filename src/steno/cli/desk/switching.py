"""Another mode, or another model, from here on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from steno.agent import Recorded
from steno.cli.choosing import naming
from steno.cli.desk.bench import Bench
from steno.cli.desk.markdown_words import code, escaped
from steno.cli.desk.overtaken import unless_overtaken
from steno.cli.explain import seen_otherwise
from steno.cli.log import Log
from steno.cli.session import set_mode
from steno.entry import Mode
from steno.errors import InvalidRequest
from steno.printable import counted
from steno.providers.finding import find_model
from steno.tui.desk import Reply

T = TypeVar("T")

_MOST_LINES: Final = 20


def change_mode(bench: Bench, mode: Mode) -> None:
    """Let the agent only plan, or act; it counts from the next decision on."""
    with unless_overtaken(bench):
        entry = set_mode(bench.conversation, mode)
    if entry is not None and bench.is_recorded:
        bench.emit(Recorded(entry))


async def unless_stopped(bench: Bench, looking: Coroutine[Any, Any, T]) -> T:
    """Look for models. Raises StenoError if that is stopped: nothing has changed then."""
    refusal = f"/model: interrupted; {bench.environment.model_selection.name} answers as before"
    return await bench.lock.run_cancellable(looking, refusal)


async def change_model(bench: Bench, name: str) -> Reply:
    """Let another model answer from here on; return what it will see otherwise.

    As long as it is looked for, that can be stopped. That it answers is recorded when it is asked
    something.
    """
    async with bench.lock:
        bench.check_idle()
        looking = find_model(name, vendors=bench.config.loaded_settings.settings.providers)
        with naming(name, "/model"):
            found = await unless_stopped(bench, looking)
        if found.name == bench.environment.model_selection.name:
            return Reply(f"{code(found.name)} answers already.")
        await bench.use_model(found)
        lines = await asyncio.to_thread(_differences, bench) if bench.is_recorded else []
    shown = [f"- {escaped(line)}" for line in lines[:_MOST_LINES]]
    if len(lines) > len(shown):
        shown.append(f"- and {counted(len(lines) - len(shown), 'more', 'more')}")
    told = f"{code(found.name)} answers from here on."
    if shown:
        told += "\n\nIt sees otherwise than it is on record:\n\n" + "\n".join(shown)
    return Reply(told, "model")


def _differences(bench: Bench) -> list[str]:
    store, equipment = bench.config.store, bench.environment
    log = Log(store.header(bench.conversation.id), store.records(bench.conversation.id))
    vendors = equipment.settings.providers
    try:
        return seen_otherwise(
            store, log, equipment.model_selection.name, vendors=vendors, target=equipment.target
        )
    except InvalidRequest:  # there is nothing yet that it could see
        return []
