"""The table of commands that return a report, for the command line and for terminals.

Help and completion read it. Each function here imports one module, so that a command is loaded
when it is used and import-linter still sees every dependency.
"""

# ruff: noqa: PLC0415 - imports inside of functions are the purpose of these functions

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from steno.app import commands


def _load_audit() -> commands.CommandDefinition:
    from steno.app.commands.audit import AUDIT

    return AUDIT


def _load_diff() -> commands.CommandDefinition:
    from steno.app.commands.diff import DIFF

    return DIFF


def _load_explain() -> commands.CommandDefinition:
    from steno.app.commands.explain import EXPLAIN

    return EXPLAIN


def _load_export() -> commands.CommandDefinition:
    from steno.app.commands.export import EXPORT

    return EXPORT


def _load_mcp() -> commands.CommandDefinition:
    from steno.app.commands.mcp import MCP

    return MCP


def _load_models() -> commands.CommandDefinition:
    from steno.app.commands.models import MODELS

    return MODELS


def _load_permissions() -> commands.CommandDefinition:
    from steno.app.commands.permissions import PERMISSIONS

    return PERMISSIONS


def _load_usage() -> commands.CommandDefinition:
    from steno.app.commands.usage import USAGE

    return USAGE


def _load_session_command(name: str) -> commands.CommandDefinition:
    from steno.app.commands.session_commands import SESSION_COMMANDS

    return SESSION_COMMANDS[name]


class Command(NamedTuple):
    """A command as help and completion show it."""

    name: str
    description: str = ""
    """What a slash command does; empty if it cannot be typed in a terminal."""
    argument: str = ""
    """The argument of the slash command: `[NAME]`."""
    choices: tuple[str, ...] = ()
    """The known values of the first argument."""
    aliases: tuple[str, ...] = ()
    """Names of the command in other programs. They work, but help does not list them."""
    command_line: str = ""
    """The command of the command line with the same content; empty if there is none."""
    load: Callable[[], commands.CommandDefinition] | None = None
    """Loads the command; None if the interface itself does it."""


def _session_command(
    name: str,
    description: str,
    argument: str = "",
    choices: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
) -> Command:
    """Return the row of a command that changes the open session."""
    load = partial(_load_session_command, name)
    return Command(name, description, argument, choices, aliases, load=load)


COMMANDS: Final = (
    Command("help", "what can be typed, and which keys do what"),
    _session_command("model", "who answers; with a name, another model from here on", "[NAME]"),
    _session_command("mode", "plan reads only, act may do all", "[plan|act]", ("plan", "act")),
    _session_command("new", "begin another session", "[TITLE]", aliases=("clear",)),
    _session_command("resume", "go on with another session; pick, search, rename, delete", "[ID]"),
    _session_command("rename", "give this session another title", "TITLE"),
    _session_command("fork", "go on in a branch of its own", "[NAME]"),
    Command(
        "tree",
        "branches and where they part: move, fork, label, compare, edit",
        command_line="sessions tree",
    ),
    _session_command("label", "give the last message a name", "NAME"),
    _session_command("retry", "try again what failed or was cut off, or go on where it stopped"),
    _session_command("compact", "let a summary take the place of what was said so far"),
    Command(
        "permissions",
        "what is allowed and denied, and by which rule",
        "[allow|revoke RULE]",
        command_line="permissions",
        load=_load_permissions,
    ),
    Command(
        "audit",
        "who decided what, and whether the record is whole",
        "[OPTIONS]",
        command_line="audit",
        load=_load_audit,
    ),
    Command(
        "export",
        "write this branch to a file",
        "[markdown|json|html] [FILE]",
        ("markdown", "json", "html"),
        command_line="sessions export",
        load=_load_export,
    ),
    Command(
        "mcp",
        "servers of the Model Context Protocol, and what they offer",
        "[SERVER]",
        command_line="mcp",
        load=_load_mcp,
    ),
    Command("diff", "what has changed in the files here", "[PATH]", load=_load_diff),
    Command(
        "usage",
        "tokens and cost, by model",
        "[OPTIONS]",
        command_line="usage",
        load=_load_usage,
    ),
    _session_command("theme", "dark, light, or another look", "[NAME]"),
    Command("quit", "leave; everything is on record", aliases=("exit",)),
    Command("explain", command_line="explain", load=_load_explain),
    Command("models", command_line="models", load=_load_models),
)
"""All commands, in the order of the help of a terminal."""

SLASH_COMMANDS: Final = tuple([command for command in COMMANDS if command.description])
"""The commands that can be typed in a terminal."""
SLASH_COMMANDS_BY_NAME: Final = {command.name: command for command in SLASH_COMMANDS}
COMMAND_ALIASES: Final = {
    alias: command.name for command in SLASH_COMMANDS for alias in command.aliases
}
QUIT_WORDS: Final = frozenset({"exit", "quit"})
"""A prompt of just this word means to leave."""
QUIT_HINT: Final = "type /quit to leave"


class TypedCommand(NamedTuple):
    """A command as it was typed."""

    name: str
    argument: str


def parse_slash_command(text: str) -> TypedCommand | None:
    """Return the slash command of a text; None if it is a prompt for the model.

    `/server:prompt` and `/usr/bin` are no commands; nor is a text of several lines. An alias
    becomes the name here. `/retry/help` is an unknown command: the first may have been left in the
    prompt, and neither is meant for the model.
    """
    if not text.startswith("/") or "\n" in text.strip():
        return None
    name, _, argument = text[1:].strip().partition(" ")
    first, slash, _ = name.partition("/")
    are_joined = bool(slash) and COMMAND_ALIASES.get(first, first) in SLASH_COMMANDS_BY_NAME
    if not name or (any(sign in name for sign in ":/.") and not are_joined):
        return None
    return TypedCommand(COMMAND_ALIASES.get(name, name), argument.strip())


def match_commands(beginning: str) -> list[Command]:
    """Return the matching commands: those that start with the text, then those that contain it.

    Commands whose alias starts with the text come in between.
    """
    prefix = beginning.lower()
    found = [
        *[command for command in SLASH_COMMANDS if command.name.startswith(prefix)],
        *[
            command
            for command in SLASH_COMMANDS
            if any(alias.startswith(prefix) for alias in command.aliases)
        ],
        *[command for command in SLASH_COMMANDS if prefix in command.name],
    ]
    return list(dict.fromkeys(found))
