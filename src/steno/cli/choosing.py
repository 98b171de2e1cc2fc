"""Which model a command means, and what is said where there is no such model."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from steno.cli.commands import Misused
from steno.cli.configuration import Loaded
from steno.cli.settings import variable_of
from steno.errors import InvalidValue, NotFound, StenoError
from steno.printable import on_one_line
from steno.providers.finding import Found, find_model

FLAG: Final = "--model"
_PLACES: Final = ("model: ", "embedded: ")
"""How errors begin that are about a name; which name it is, and whose, is known here."""


async def choose_model(loaded: Loaded, recorded: str = "") -> Found:
    """Find the model that is asked for now, else that on record, else one of the settings.

    Raises Misused, InvalidValue, NotFound or AuthenticationFailed with what was asked for.
    """
    named, origin = loaded.settings.model or "", _origin(loaded)
    is_wanted = origin in (FLAG, variable_of("model"))
    if recorded and not is_wanted:
        return await _recorded_model(loaded, recorded)
    with naming(named, origin if is_wanted else f"{origin}: model"):
        return await find_model(
            named if is_wanted else "", configured=named, vendors=loaded.settings.providers
        )


async def _recorded_model(loaded: Loaded, recorded: str) -> Found:
    try:
        return await find_model(recorded, vendors=loaded.settings.providers)
    except StenoError as exc:
        told = f"{on_one_line(recorded)}, who spoke last: {exc}; or choose by {FLAG}"
        raise InvalidValue(told) from exc


@contextmanager
def naming(name: str, origin: str) -> Generator[None]:
    """Say which model was asked for, and where, if there is none of this name."""
    try:
        yield
    except (InvalidValue, NotFound) as exc:
        rule = str(exc)
        for place in _PLACES:
            rule = rule.removeprefix(place)
        while name and rule.startswith(f"{name}: "):  # a vendor, named by each who passed it on
            rule = rule.removeprefix(f"{name}: ")
        told = f"{origin} {on_one_line(name)}: {rule}" if name else str(exc)
        if isinstance(exc, NotFound):
            raise NotFound(told) from exc
        raise (Misused(told) if origin == FLAG else InvalidValue(told)) from exc


def _origin(loaded: Loaded) -> str:
    return loaded.origins.get("model", ("",))[-1]
