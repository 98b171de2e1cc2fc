"""The table of commands, whose modules are imported on demand.

Functions import modules when they are called, so that `steno --version` and `steno sessions list`
start fast while import-linter still detects every dependency.
"""

# ruff: noqa: PLC0415 - imports inside functions are the purpose of this module

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from steno.app.commands.table import COMMANDS
from steno.cli.arguments import Subparsers
from steno.render.table_output import print_notice

AddCommands: TypeAlias = Callable[[Subparsers], None]
"""A function that adds a command, or a group of commands, to the command line."""


_REPORT_COMMANDS: Final = {command.name: command for command in COMMANDS if command.on_command_line}
_HELP_ORDER: Final = (
    *("run", "models", "doctor", "sessions", "approvals", "explain", "inputs", "audit", "verify"),
    *(
        "store",
        "usage",
        "replay",
        "feedback",
        "permissions",
        "trust",
        "mcp",
        "config",
        "ocr",
        "decode",
    ),
    "convert",
)
COMMAND_NAMES: Final = tuple(dict.fromkeys([*_HELP_ORDER, *_REPORT_COMMANDS]))
"""The names of all commands, in the order of the help text."""


def load_command(name: str) -> AddCommands:
    """Load the module of a command, and return the function that adds the command."""
    match name:
        case "run":
            from steno.cli.run import add_commands
        case "doctor":
            from steno.cli.doctor import add_commands
        case "sessions":
            from steno.cli.sessions import add_commands
        case "approvals":
            from steno.cli.approvals import add_commands
        case "inputs":
            from steno.cli.inputs import add_commands
        case "verify":
            from steno.cli.verify import add_commands
        case "store":
            from steno.cli.store import add_commands
        case "replay":
            from steno.cli.replay import add_commands
        case "feedback":
            from steno.cli.feedback import add_commands
        case "trust":
            from steno.cli.trust import add_commands
        case "mcp":
            from steno.cli.mcp import add_commands
        case "config":
            from steno.cli.config import add_commands
        case "ocr":
            from steno.cli.ocr import add_commands
        case "decode":
            from steno.cli.decode import add_commands
        case "convert":
            from steno.cli.convert import add_commands
        case _:
            from steno.cli.report_command import add_report_command

            return partial(add_report_command, _REPORT_COMMANDS[name])
    return add_commands


# -- parts of `steno run` --------------------------------------------------------------------


class FullScreen(NamedTuple):
    """The functions of the full-screen terminal that `steno run` uses."""

    run_terminal: Callable[..., int]
    theme_named: Callable[[str], str | None]
    default_theme: Callable[[Mapping[str, str]], str]


def load_full_screen() -> FullScreen:
    """Load the full-screen terminal."""
    from steno.ui.tui.start import run_terminal
    from steno.ui.tui.themes import default_theme, theme_named

    return FullScreen(run_terminal, theme_named, default_theme)


def load_plain_mode() -> Callable[[argparse.Namespace, Path | None], int]:
    """Load the terminal interface that works line by line."""
    from steno.cli.plain import run_plain_mode

    return run_plain_mode


def load_session_opener() -> Callable[
    [argparse.Namespace, Callable[[str], None]], AbstractAsyncContextManager[Any]
]:
    """Load the modules of a session, and return the function that opens one."""
    from steno.cli.open_session import open_session_from_options

    return open_session_from_options


def load_headless() -> Callable[[argparse.Namespace], int]:
    """Load the function that runs a prompt without a terminal."""
    from steno.cli.headless import run_headless

    return run_headless


# -- settings --------------------------------------------------------------------------------


def read_store_setting() -> str | None:
    """Load the settings, and return the address of the store in them; None if it is not set."""
    from steno.app.settings import load_settings_leniently

    return load_settings_leniently(print_notice).settings.store
