"""Choose the model of a run, and name it in errors."""

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
_ERROR_PLACES: Final = ("model", "embedded")
"""The places of errors about the name of a model, which is known here."""


async def choose_model(loaded: LoadedSettings, recorded_model: str = "") -> ModelSelection:
    """Find the model that the options name, else the recorded one, else one of the settings.

    Raises UsageError, InvalidValue, NotFound or AuthenticationFailed, with the name of the model.
    """
    name, origin = loaded.settings.model or "", _model_origin(loaded)
    is_explicit = origin in (MODEL_FLAG, variable_name("model"))
    if recorded_model and not is_explicit:
        return await _find_recorded_model(loaded, recorded_model)
    with name_model_in_errors(name, origin if is_explicit else f"{origin}: model"):
        return await find_model(
            name if is_explicit else "", configured=name, vendors=loaded.settings.providers
        )


async def _find_recorded_model(loaded: LoadedSettings, recorded: str) -> ModelSelection:
    try:
        return await find_model(recorded, vendors=loaded.settings.providers)
    except StenoError as exc:
        raise InvalidValue(
            f"{exc}; or choose by {MODEL_FLAG}",
            code=exc.code,
            place=f"{terminal_line(recorded)}, who spoke last",
        ) from exc


@contextmanager
def name_model_in_errors(name: str, origin: str) -> Generator[None]:
    """Name the model and where it was named, in errors about a model that does not exist."""
    try:
        yield
    except (InvalidValue, NotFound) as exc:
        text, place = str(exc), ""
        if name:
            # An error about the name, or about the vendor where only a vendor was named.
            text, place = (
                exc.text_unless_at(*_ERROR_PLACES, name),
                f"{origin} {terminal_line(name)}",
            )
        if isinstance(exc, NotFound):
            raise NotFound(text, code=exc.code, place=place) from exc
        error = UsageError if origin == MODEL_FLAG else InvalidValue
        raise error(text, code=exc.code, place=place) from exc


def _model_origin(loaded: LoadedSettings) -> str:
    return loaded.origins.get("model", ("",))[-1]
