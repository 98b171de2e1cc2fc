"""Which model a command means, and what is said where there is no such model."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from steno.app.errors import UsageError
from steno.app.settings import variable_name
from steno.app.settings_loader import LoadedSettings
from steno.errors import InvalidValue, NotFound, StenoError
from steno.providers.model_discovery import ModelSelection, find_model
from steno.render.terminal_text import terminal_line

MODEL_FLAG: Final = "--model"
_ERROR_PREFIXES: Final = ("model: ", "embedded: ")
"""How errors begin that are about a name; which name it is, and whose, is known here."""


async def choose_model(loaded: LoadedSettings, recorded: str = "") -> ModelSelection:
    """Find the model that is asked for now, else that on record, else one of the settings.

    Raises Misused, InvalidValue, NotFound or AuthenticationFailed with what was asked for.
    """
    named, origin = loaded.settings.model or "", _model_origin(loaded)
    is_wanted = origin in (MODEL_FLAG, variable_name("model"))
    if recorded and not is_wanted:
        return await _find_recorded_model(loaded, recorded)
    with name_model_in_errors(named, origin if is_wanted else f"{origin}: model"):
        return await find_model(
            named if is_wanted else "", configured=named, vendors=loaded.settings.providers
        )


async def _find_recorded_model(loaded: LoadedSettings, recorded: str) -> ModelSelection:
    try:
        return await find_model(recorded, vendors=loaded.settings.providers)
    except StenoError as exc:
        told = f"{terminal_line(recorded)}, who spoke last: {exc}; or choose by {MODEL_FLAG}"
        raise InvalidValue(told) from exc


@contextmanager
def name_model_in_errors(name: str, origin: str) -> Generator[None]:
    """Say which model was asked for, and where, if there is none of this name."""
    try:
        yield
    except (InvalidValue, NotFound) as exc:
        rule = str(exc)
        for place in _ERROR_PREFIXES:
            rule = rule.removeprefix(place)
        while name and rule.startswith(f"{name}: "):  # a vendor, named by each who passed it on
            rule = rule.removeprefix(f"{name}: ")
        told = f"{origin} {terminal_line(name)}: {rule}" if name else str(exc)
        if isinstance(exc, NotFound):
            raise NotFound(told) from exc
        raise (UsageError(told) if origin == MODEL_FLAG else InvalidValue(told)) from exc


def _model_origin(loaded: LoadedSettings) -> str:
    return loaded.origins.get("model", ("",))[-1]
