"""`steno config show` and `steno config path`: which settings count here, and where they are from."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from steno.cli.commands import Commands
from steno.cli.configuration import Loaded, load_settings
from steno.cli.paper import Column, Paper, note, print_object
from steno.cli.servers import FILE_NAME, describe_server
from steno.cli.settings import NAMES, ModelSettings
from steno.inputs.mcp.specs import ServerSpec
from steno.printable import on_one_line
from steno.providers import CATALOG, Vendor
from steno.store.locate import read_address
from steno.value import replace_lone_surrogates

_DEFAULT: Final = "default"
_SETTINGS: Final = (
    Column("setting", "cyan"),
    Column("value", may_shrink=True),
    Column("from", "dim"),
)


def add_commands(commands: Commands) -> None:
    """Add the group to the command line."""
    group = commands.add_parser(
        "config",
        help="show the settings that count",
        description="Look at the settings, which are read from the user's file, the project's "
        "file, the environment and the command line; later ones win.",
    )
    actions = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    show = actions.add_parser(
        "show",
        help="print every setting, and where it is from",
        description="Print every setting as it counts in this folder, and where it is from.",
    )
    show.add_argument("--json", action="store_true", help="print them as one JSON object")
    show.set_defaults(run=_show)
    path = actions.add_parser(
        "path",
        help="print which files are read",
        description="Print which files are read in this folder.",
    )
    path.set_defaults(run=_path)


def _show(options: argparse.Namespace) -> int:
    loaded = load_settings()
    shown = {name: _shown(name, getattr(loaded.settings, name)) for name in NAMES}
    if options.json:
        described = {
            name: {"value": value, "from": loaded.origins.get(name, ())}
            for name, value in shown.items()
        }
        print_object(msgspec.json.encode(described))
    else:
        rows = [[name, _in_words(value), _from(loaded, name)] for name, value in shown.items()]
        Paper().table(_SETTINGS, rows)
    for text in loaded.notes:
        note(on_one_line(text))
    return 0


def _path(options: argparse.Namespace) -> int:
    loaded, paper = load_settings(), Paper()
    files = (
        ("user", loaded.user_file),
        ("project", loaded.project_file),
        ("servers", loaded.project / FILE_NAME),
    )
    for whose, path in files:
        if path is not None:
            missing = "" if os.path.lexists(path) else " (not there)"
            paper.line((f"{whose:9}", "dim"), on_one_line(str(path)), (missing, "dim"))
    return 0


def _from(loaded: Loaded, name: str) -> str:
    return on_one_line(", ".join(loaded.origins.get(name, (_DEFAULT,))))


def _shown(name: str, value: Any) -> Any:
    """Return a setting as JSON has it, without what is secret in it."""
    if name == "store" and value is not None:
        return str(read_address(value))
    if isinstance(value, Mapping):
        return {key: _row(row) for key, row in value.items() if CATALOG.get(key) != row}
    if isinstance(value, tuple):
        return [replace_lone_surrogates(str(part)) for part in value]
    return value


def _row(row: Vendor | ModelSettings | ServerSpec) -> dict[str, Any]:
    if isinstance(row, ServerSpec):
        return describe_server(row)
    if isinstance(row, ModelSettings):
        return {
            name: value for name, value in msgspec.structs.asdict(row).items() if value is not None
        }
    # Nobody knows what is in its headers.
    return {"wire": str(row.wire), "base_url": row.base_url, "key_variables": row.key_variables}


def _in_words(value: Any) -> str:
    if value in (None, [], {}):
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return on_one_line(", ".join(value) if isinstance(value, list | dict) else str(value))
