"""`/model` and `/mode`: change the model or the mode of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from steno.agent import EntryRecorded
from steno.app.models import name_model_in_errors
from steno.app.reports.explain import list_context_changes
from steno.app.session_log import SessionLog
from steno.app.session_lookup import set_mode
from steno.app.session_state import SessionState, explain_conflicts
from steno.errors import InvalidRequest
from steno.providers.model_discovery import find_model
from steno.records.entry import Mode
from steno.render.markdown_escape import escape_markdown, inline_code
from steno.render.quantities import format_count
from steno.render.session_events import CommandReply

T = TypeVar("T")
_MAX_DIFFERENCES: Final = 20


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
