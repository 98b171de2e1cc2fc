"""The models that there are to choose from, as `steno models` finds and describes them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, TypeVar

from steno.agent import EntryRecorded
from steno.app.model_limits import apply_settings_to_models
from steno.app.reports.explain import list_context_changes
from steno.app.select_model import name_model_in_errors
from steno.app.session import CommandReply, Suggestion
from steno.app.session_log import SessionLog
from steno.app.session_state import SessionState, explain_conflicts
from steno.app.sessions import set_mode
from steno.app.settings import Settings
from steno.app.settings_loader import LoadedSettings
from steno.errors import InvalidRequest
from steno.providers.model_discovery import (
    DiscoveryResult,
    DiscoveryTimeouts,
    discover_models,
    find_model,
    format_model_name,
)
from steno.providers.models import Model
from steno.providers.prices import find_price
from steno.records.entry import Mode
from steno.render.markdown_escape import escape_markdown, inline_code
from steno.render.quantities import format_count
from steno.render.terminal_text import terminal_line

_LOOKUP_TIMEOUTS: Final = DiscoveryTimeouts(local_s=0.5, hosted_s=3)
"""Somebody sits there and waits."""


async def list_models(loaded: LoadedSettings) -> Sequence[Suggestion]:
    """Ask every provider that there is a key or a server for, all at once and not for long."""
    looked = await discover_models(loaded.settings.providers, os.environ, patience=_LOOKUP_TIMEOUTS)
    # Prices take a moment to load.
    return await asyncio.to_thread(_model_suggestions, looked, loaded.settings)


def _model_suggestions(looked: Sequence[DiscoveryResult], settings: Settings) -> list[Suggestion]:
    return [
        Suggestion(format_model_name(place.where, model.id), _model_description(place, model))
        for place in looked
        if place.is_usable
        for model in apply_settings_to_models(place, settings).models
        if model.id.isprintable()  # what cannot be shown cannot be chosen either
    ]


def _model_description(place: DiscoveryResult, model: Model) -> str:
    return " · ".join(_model_facts(format_model_name(place.where, model.id), model))


def _model_facts(name: str, model: Model) -> Iterator[str]:
    if model.title and model.title != model.id:
        yield terminal_line(model.title)
    if model.context_tokens is not None:
        yield f"{model.context_tokens:,} tokens"
    if (price := find_price(name)) is not None:
        yield f"${_format_price(price.input)} in, ${_format_price(price.output)} out per million"
    if model.capabilities.vision is not None:
        yield "vision" if model.capabilities.vision else "no vision"
    if model.capabilities.tools is False:
        yield "no tools"


def _format_price(amount: Decimal) -> str:
    return f"{amount:.2f}" if amount >= Decimal("0.1") or not amount else f"{amount.normalize():f}"


# -- switching -------------------------------------------------------------------------------------
#
# Another mode, or another model, from here on.


T = TypeVar("T")


_MAX_DIFFERENCES: Final = 20


def change_mode(bench: SessionState, mode: Mode) -> None:
    """Let the agent only plan, or act; it counts from the next decision on."""
    with explain_conflicts(bench):
        entry = set_mode(bench.conversation, mode)
    if entry is not None and bench.is_recorded:
        bench.emit(EntryRecorded(entry))


async def run_interruptible(bench: SessionState, looking: Coroutine[Any, Any, T]) -> T:
    """Look for models. Raises StenoError if that is stopped: nothing has changed then."""
    refusal = f"/model: interrupted; {bench.environment.model_selection.name} answers as before"
    return await bench.lock.run_cancellable(looking, refusal)


async def change_model(bench: SessionState, name: str) -> CommandReply:
    """Let another model answer from here on; return what it will see otherwise.

    As long as it is looked for, that can be stopped. That it answers is recorded when it is asked
    something.
    """
    async with bench.lock:
        bench.check_idle()
        looking = find_model(name, vendors=bench.config.loaded_settings.settings.providers)
        with name_model_in_errors(name, "/model"):
            found = await run_interruptible(bench, looking)
        if found.name == bench.environment.model_selection.name:
            return CommandReply(f"{inline_code(found.name)} answers already.")
        await bench.use_model(found)
        lines = await asyncio.to_thread(_context_differences, bench) if bench.is_recorded else []
    shown = [f"- {escape_markdown(line)}" for line in lines[:_MAX_DIFFERENCES]]
    if len(lines) > len(shown):
        shown.append(f"- and {format_count(len(lines) - len(shown), 'more', 'more')}")
    told = f"{inline_code(found.name)} answers from here on."
    if shown:
        told += "\n\nIt sees otherwise than it is on record:\n\n" + "\n".join(shown)
    return CommandReply(told, "model")


def _context_differences(bench: SessionState) -> list[str]:
    store, equipment = bench.config.store, bench.environment
    log = SessionLog(store.header(bench.conversation.id), store.records(bench.conversation.id))
    vendors = equipment.settings.providers
    try:
        return list_context_changes(
            store, log, equipment.model_selection.name, vendors=vendors, target=equipment.target
        )
    except InvalidRequest:  # there is nothing yet that it could see
        return []
