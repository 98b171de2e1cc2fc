"""What a person writes down so that something lasts: the file, the setting, the variable.

Nothing is written here; it is only said where.
"""

from __future__ import annotations

from msgspec import json

from steno.cli.configuration import Loaded
from steno.cli.desk.markdown_words import code
from steno.cli.settings import variable_of
from steno.printable import on_one_line


def how_to_keep(setting: str, value: str, loaded: Loaded) -> str:
    """Return where to write down a setting of a terminal; only the user's own file has those."""
    variable = variable_of(setting)
    if variable in loaded.origins.get(setting, ()):  # which counts more than the file
        return f"{variable}={value} keeps it"
    if loaded.user_file is None:
        return f"{variable}={value} in your environment keeps it"
    quoted = json.encode(value).decode()
    return f"{setting} = {quoted} in {on_one_line(str(loaded.user_file))} keeps it"


def how_to_add_a_model(loaded: Loaded) -> str:
    """Return on one line, as Markdown, what brings another model into the list."""
    own = loaded.user_file
    table = "" if own is None else f", or write `[providers.NAME]` to {code(str(own))}"
    return (
        "To add one, set a key such as `ANTHROPIC_API_KEY`, start a server such as Ollama"
        f"{table}; `steno models` tells which are looked for."
    )
