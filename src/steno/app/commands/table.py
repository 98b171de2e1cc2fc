"""The table of commands that return a report, for the command line and for terminals.

Help and completion read it; a completion is a `Suggestion`. `Command.load` imports one module, so
that a command is loaded when it is used and import-linter still sees every dependency.
"""

# ruff: noqa: PLC0415 - imports inside of functions are the purpose of these functions

from __future__ import annotations

from typing import Final, NamedTuple

from steno.app import commands


class Command(NamedTuple):
    """A command as help and completion show it."""

    name: str
    description: str = ""
    """The effect of the slash command; empty if it cannot be typed in a terminal."""
    argument: str = ""
    """The argument of the slash command: `[NAME]`."""
    choices: tuple[str, ...] = ()
    """The known values of the first argument."""
    aliases: tuple[str, ...] = ()
    """Names of the command in other programs. They work, but help does not list them."""
    on_command_line: bool = False
    """Whether `steno NAME` runs it, too."""
    is_interface: bool = False
    """Whether each interface implements it itself, such as `/quit`."""

    def load(self) -> commands.CommandDefinition:
        """Load the definition of the command from its module."""
        match self.name:
            case "audit":
                from steno.app.commands.audit import COMMAND
            case "diff":
                from steno.app.commands.diff import COMMAND
            case "explain":
                from steno.app.commands.explain import COMMAND
            case "export":
                from steno.app.commands.export import COMMAND
            case "mcp":
                from steno.app.commands.mcp import COMMAND
            case "models":
                from steno.app.commands.models import COMMAND
            case "permissions":
                from steno.app.commands.permissions import COMMAND
            case "sessions":
                from steno.app.commands.sessions import COMMAND
            case "usage":
                from steno.app.commands.usage import COMMAND
            case _:
                from steno.app.commands.slash_commands import SESSION_COMMANDS

                return SESSION_COMMANDS[self.name]
        return COMMAND


COMMANDS: Final = (
    Command("help", "list commands and keys", is_interface=True),
    Command("model", "list the models, or switch to another one", "[NAME]"),
    Command(
        "mode",
        "show or change the mode: plan reads only, act also writes and runs commands",
        "[plan|act]",
        ("plan", "act"),
    ),
    Command("new", "start a new session", "[TITLE]"),
    Command("resume", "resume another session; search, rename or delete sessions", "[ID]"),
    Command(
        "sessions",
        "list, search, show, copy and change sessions",
        "[COMMAND]",
        ("list", "show", "tree", "search", "fork", "label", "rename", "redact", "rm"),
        on_command_line=True,
    ),
    Command("rename", "change the title of this session", "TITLE"),
    Command("fork", "continue in a new branch", "[NAME]"),
    Command("tree", "show the branches; switch, fork, label, compare or edit", is_interface=True),
    Command("label", "label the last message", "NAME"),
    Command("retry", "retry a failed or truncated response, or continue an interrupted turn"),
    Command("compact", "replace the conversation so far with a summary"),
    Command("clear", "empty the context of the model; the session keeps all messages"),
    Command(
        "permissions",
        "list and change permission rules",
        "[allow|revoke RULE]",
        on_command_line=True,
    ),
    Command(
        "audit",
        "show who decided what, and check the log",
        "[OPTIONS]",
        on_command_line=True,
    ),
    Command(
        "export",
        "write this branch to a file",
        "[markdown|json|html] [FILE]",
        ("markdown", "json", "html"),
    ),
    Command("mcp", "list MCP servers, or the tools, resources and prompts of one", "[SERVER]"),
    Command("diff", "show the changes in the files of this folder", "[PATH]"),
    Command("usage", "show tokens and cost", "[OPTIONS]", on_command_line=True),
    Command("theme", "change the colours", "[NAME]"),
    Command("quit", "leave; the session is recorded", aliases=("exit",), is_interface=True),
    Command("explain", on_command_line=True),
    Command("models", on_command_line=True),
)
"""All commands, in the order of the help of a terminal."""

SLASH_COMMANDS: Final = tuple([command for command in COMMANDS if command.description])
"""The commands that can be typed in a terminal."""
SLASH_COMMANDS_BY_NAME: Final = {command.name: command for command in SLASH_COMMANDS}
COMMAND_ALIASES: Final = {
    alias: command.name for command in SLASH_COMMANDS for alias in command.aliases
}
QUIT_WORDS: Final = frozenset({"exit", "quit"})
"""Prompts that are treated as `/quit`."""
QUIT_HINT: Final = "type /quit to leave"


class TypedCommand(NamedTuple):
    """A command as it was typed."""

    name: str
    argument: str


def parse_slash_command(text: str) -> TypedCommand | None:
    """Return the slash command of a text; None if it is a prompt for the model.

    `/server:prompt` and `/usr/bin` are not commands; nor is a text of several lines. An alias is
    replaced by the name. `/retry/help` is an unknown command and not a prompt: the user probably
    typed one command after another.
    """
    if not text.startswith("/") or "\n" in text.strip():
        return None
    name, _, argument = text[1:].strip().partition(" ")
    first, slash, _ = name.partition("/")
    are_joined = bool(slash) and COMMAND_ALIASES.get(first, first) in SLASH_COMMANDS_BY_NAME
    if not name or (any(sign in name for sign in ":/.") and not are_joined):
        return None
    return TypedCommand(COMMAND_ALIASES.get(name, name), argument.strip())


class Suggestion(NamedTuple):
    """A completion of the typed text."""

    text: str
    """The replacement, including the `@` or `/`: `@src/main.py`, `@docs:readme://x`, `/mode`."""
    description: str = ""
    expects_more: bool = False
    """Whether more text is expected after it, as for a folder or a command with an argument."""
    argument: str = ""
    """The argument of a command, which is shown but not inserted."""


def match_commands(beginning: str) -> list[Command]:
    """Return the commands whose name or alias starts with a text, then those that contain it."""
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
