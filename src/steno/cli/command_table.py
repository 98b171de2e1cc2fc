"""The table of commands: their modules are imported on demand.

Each function here imports one module, so that `steno --version` and `steno sessions list` start
fast and import-linter still sees every dependency.
"""

# ruff: noqa: PLC0415 - imports inside of functions are the purpose of this module

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


def _load_run() -> AddCommands:
    from steno.cli.run import add_commands

    return add_commands


def _load_doctor() -> AddCommands:
    from steno.cli.doctor import add_commands

    return add_commands


def _load_sessions() -> AddCommands:
    from steno.cli.sessions import add_commands

    return add_commands


def _load_approvals() -> AddCommands:
    from steno.cli.approvals import add_commands

    return add_commands


def _load_inputs() -> AddCommands:
    from steno.cli.inputs import add_commands

    return add_commands


def _load_verify() -> AddCommands:
    from steno.cli.verify import add_commands

    return add_commands


def _load_store() -> AddCommands:
    from steno.cli.store import add_commands

    return add_commands


def _load_replay() -> AddCommands:
    from steno.cli.replay import add_commands

    return add_commands


def _load_feedback() -> AddCommands:
    from steno.cli.feedback import add_commands

    return add_commands


def _load_mcp() -> AddCommands:
    from steno.cli.mcp import add_commands

    return add_commands


def _load_config() -> AddCommands:
    from steno.cli.config import add_commands

    return add_commands


def _load_ocr() -> AddCommands:
    from steno.cli.ocr import add_commands

    return add_commands


def _load_decode() -> AddCommands:
    from steno.cli.decode import add_commands

    return add_commands


def _load_convert() -> AddCommands:
    from steno.cli.convert import add_commands

    return add_commands


def _load_report_command(name: str) -> AddCommands:
    """Load a command of the command table."""
    from steno.cli.report_command import add_report_command

    command = next(command for command in COMMANDS if command.command_line == name)
    assert command.load is not None
    return partial(add_report_command, name=name, definition=command.load())


COMMAND_LOADERS: Final[Mapping[str, Callable[[], AddCommands]]] = {
    "run": _load_run,
    "models": partial(_load_report_command, "models"),
    "doctor": _load_doctor,
    "sessions": _load_sessions,
    "approvals": _load_approvals,
    "explain": partial(_load_report_command, "explain"),
    "inputs": _load_inputs,
    "audit": partial(_load_report_command, "audit"),
    "verify": _load_verify,
    "store": _load_store,
    "usage": partial(_load_report_command, "usage"),
    "replay": _load_replay,
    "feedback": _load_feedback,
    "permissions": partial(_load_report_command, "permissions"),
    "mcp": _load_mcp,
    "config": _load_config,
    "ocr": _load_ocr,
    "decode": _load_decode,
    "convert": _load_convert,
}
"""The loader of each command, in the order in which help lists them."""


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
    """Load the terminal that works line by line."""
    from steno.cli.plain import run_plain_mode

    return run_plain_mode


def load_session_opener() -> Callable[
    [argparse.Namespace, Callable[[str], None]], AbstractAsyncContextManager[Any]
]:
    """Load everything that a session needs."""
    from steno.cli.open_session import open_session_from_options

    return open_session_from_options


def load_headless() -> Callable[[argparse.Namespace], int]:
    """Load the run without a terminal."""
    from steno.cli.headless import run_headless

    return run_headless


# -- settings --------------------------------------------------------------------------------


def read_store_setting() -> str | None:
    """Load the settings, and return the store that they name."""
    from steno.app.settings_loader import load_settings_leniently

    return load_settings_leniently(print_notice).settings.store
