"""The commands `steno config show` and `steno config path`, which print settings and origins."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from steno.app.commands.arguments import flag
from steno.app.commands.report import Report, Table
from steno.app.mcp import MCP_FILE_NAME, describe_server
from steno.app.settings import SETTING_NAMES, ModelSettings, load_settings
from steno.cli.arguments import ExitStatus, GroupCommand, Subparsers, add_group
from steno.cli.report_command import print_report
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.providers import CATALOG, Vendor
from steno.render.table_output import Column, StdoutPrinter
from steno.render.terminal_text import terminal_line
from steno.store.locate import read_address
from steno.values import replace_lone_surrogates

_DEFAULT_ORIGIN: Final = "default"
_SETTING_COLUMNS: Final = (
    Column("setting", "cyan"),
    Column("value", may_shrink=True),
    Column("from", "dim"),
)


def add_commands(commands: Subparsers) -> None:
    """Add the group to the command line."""
    add_group(
        commands,
        "config",
        (
            GroupCommand(
                "show",
                _run_show,
                "print every setting and its origin",
                "Print every setting in effect in this folder, and its origin.",
                (flag("--json", help="print one JSON object"),),
            ),
            GroupCommand(
                "path",
                _run_path,
                "print the paths of the settings files",
                "Print the paths of the settings files for this folder.",
            ),
        ),
        help="show the settings in effect",
        description="Show the settings in effect. steno reads your settings file, the project's "
        "settings file, environment variables and the command line; later sources override "
        "earlier ones.",
    )


def _run_show(options: argparse.Namespace) -> int:
    loaded = load_settings()
    values = {name: _setting_value(name, getattr(loaded.settings, name)) for name in SETTING_NAMES}
    origins = {name: loaded.origins.get(name, ()) for name in values}
    rows = [
        [name, _format_value(value), terminal_line(", ".join(origins[name] or (_DEFAULT_ORIGIN,)))]
        for name, value in values.items()
    ]
    members = {name: {"value": value, "from": origins[name]} for name, value in values.items()}
    report = Report(
        [Table(_SETTING_COLUMNS, rows)],
        notices=tuple([terminal_line(notice.text) for notice in loaded.notices]),
        data=[members],
    )
    return print_report(report, as_json=options.json)


def _run_path(options: argparse.Namespace) -> int:
    loaded, printer = load_settings(), StdoutPrinter()
    files = (
        ("user", loaded.user_file),
        ("project", loaded.project_file),
        ("servers", loaded.project / MCP_FILE_NAME),
    )
    for source, path in files:
        if path is not None:
            missing = "" if os.path.lexists(path) else " (not found)"
            printer.line((f"{source:9}", "dim"), terminal_line(str(path)), (missing, "dim"))
    return ExitStatus.OK


def _setting_value(name: str, value: Any) -> Any:
    """Return a setting as JSON, without its secrets."""
    if name == "store" and value is not None:
        return str(read_address(value))
    if isinstance(value, Mapping):
        return {key: _table_row_value(row) for key, row in value.items() if CATALOG.get(key) != row}
    if isinstance(value, tuple):
        return [replace_lone_surrogates(str(part)) for part in value]
    return value


def _table_row_value(row: Vendor | ModelSettings | McpServerSpec) -> dict[str, Any]:
    if isinstance(row, McpServerSpec):
        return describe_server(row)
    if isinstance(row, ModelSettings):
        return {
            name: value for name, value in msgspec.structs.asdict(row).items() if value is not None
        }
    # Other fields are omitted, because headers may contain secrets.
    return {"wire": str(row.wire), "base_url": row.base_url, "key_variables": row.key_variables}


def _format_value(value: Any) -> str:
    if value in (None, [], {}):
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return terminal_line(", ".join(value) if isinstance(value, list | dict) else str(value))
