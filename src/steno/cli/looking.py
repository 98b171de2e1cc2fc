"""Settings for commands that only look at what is kept: a stranger's slip must not stop them."""

from __future__ import annotations

from steno.cli.configuration import Loaded, load_settings
from steno.cli.paper import note
from steno.errors import InvalidValue
from steno.printable import on_one_line


def load_settings_to_look() -> Loaded:
    """Return the settings; what is wrong in a project that nobody trusts is told, and left aside.

    Such a project has no say in where things are kept anyway. Raises InvalidValue for what is
    wrong in a file of the user's own, or of a project that is trusted.
    """
    try:
        return load_settings()
    except InvalidValue as exc:
        loaded = load_settings(reads_strangers=False)
        note(f"{on_one_line(str(exc))}; nothing in this file counts here")
        return loaded
