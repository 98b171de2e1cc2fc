"""List the models that can be chosen, and change the model or the mode of a session."""

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
from steno.app.session_lookup import set_mode
from steno.app.session_state import SessionState, explain_conflicts
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

T = TypeVar("T")
_MAX_DIFFERENCES: Final = 20
_LOOKUP_TIMEOUTS: Final = DiscoveryTimeouts(local_s=0.5, hosted_s=3)
"""The user waits for the list."""


async def list_models(loaded: LoadedSettings) -> Sequence[Suggestion]:
    """Return the models of all providers with a key or a server, except slow ones."""
    results = await discover_models(
        loaded.settings.providers, os.environ, timeouts=_LOOKUP_TIMEOUTS
    )
    # The price list is slow to load.
    return await asyncio.to_thread(_model_suggestions, results, loaded.settings)


def _model_suggestions(results: Sequence[DiscoveryResult], settings: Settings) -> list[Suggestion]:
    return [
        Suggestion(format_model_name(result.where, model.id), _model_description(result, model))
        for result in results
        if result.is_usable
        for model in apply_settings_to_models(result, settings).models
        if model.id.isprintable()  # a name that cannot be shown cannot be chosen either
    ]


def _model_description(result: DiscoveryResult, model: Model) -> str:
    return " · ".join(_model_facts(format_model_name(result.where, model.id), model))


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


def change_mode(state: SessionState, mode: Mode) -> None:
    """Change the mode of a session, from the next decision on."""
    with explain_conflicts(state):
        entry = set_mode(state.conversation, mode)
    if entry is not None and state.is_recorded:
        state.emit(EntryRecorded(entry))


async def run_interruptible(state: SessionState, search: Coroutine[Any, Any, T]) -> T:
    """Run a search for models that the user can interrupt.

    Raises StenoError if they do: nothing has changed then.
    """
    refusal = f"/model: interrupted; {state.environment.model_selection.name} answers as before"
    return await state.lock.run_cancellable(search, refusal)


async def change_model(state: SessionState, name: str) -> CommandReply:
    """Change the model of a session; return how its context differs from the log.

    The search for the model can be interrupted. The change is recorded with the next request.
    """
    async with state.lock:
        state.check_idle()
        search = find_model(name, vendors=state.config.loaded_settings.settings.providers)
        with name_model_in_errors(name, "/model"):
            model = await run_interruptible(state, search)
        if model.name == state.environment.model_selection.name:
            return CommandReply(f"{inline_code(model.name)} answers already.")
        await state.use_model(model)
        differences = (
            await asyncio.to_thread(_context_differences, state) if state.is_recorded else []
        )
    items = [f"- {escape_markdown(line)}" for line in differences[:_MAX_DIFFERENCES]]
    if len(differences) > len(items):
        items.append(f"- and {format_count(len(differences) - len(items), 'more', 'more')}")
    text = f"{inline_code(model.name)} answers from here on."
    if items:
        text += "\n\nIt sees otherwise than it is on record:\n\n" + "\n".join(items)
    return CommandReply(text, "model")


def _context_differences(state: SessionState) -> list[str]:
    store, environment = state.config.store, state.environment
    log = SessionLog(store.header(state.conversation.id), store.records(state.conversation.id))
    vendors = environment.settings.providers
    try:
        return list_context_changes(
            store, log, environment.model_selection.name, vendors=vendors, target=environment.target
        )
    except InvalidRequest:  # there is no message yet
        return []
