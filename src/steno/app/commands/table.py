"""The slash commands, for both interfaces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple


class SlashCommand(NamedTuple):
    """A command as help and completion show it."""

    name: str
    description: str
    argument: str = ""
    """The argument: `[NAME]`."""
    choices: tuple[str, ...] = ()
    """The known values of the first argument."""


SLASH_COMMANDS: Final = (
    SlashCommand("help", "what can be typed, and which keys do what"),
    SlashCommand("model", "who answers; with a name, another model from here on", "[NAME]"),
    SlashCommand("mode", "plan reads only, act may do all", "[plan|act]", ("plan", "act")),
    SlashCommand("new", "begin another session", "[TITLE]"),
    SlashCommand("resume", "go on with another session; pick, search, rename, delete", "[ID]"),
    SlashCommand("rename", "give this session another title", "TITLE"),
    SlashCommand("fork", "go on in a branch of its own", "[NAME]"),
    SlashCommand("tree", "branches and where they part: move, fork, label, compare, edit"),
    SlashCommand("label", "give the last message a name", "NAME"),
    SlashCommand("retry", "try again what failed or was cut off, or go on where it stopped"),
    SlashCommand("compact", "let a summary take the place of what was said so far"),
    SlashCommand(
        "permissions", "what is allowed and denied, and by which rule", "[allow|revoke RULE]"
    ),
    SlashCommand("audit", "who decided what, and whether the record is whole"),
    SlashCommand(
        "export",
        "write this branch to a file",
        "[markdown|json|html] [FILE]",
        ("markdown", "json", "html"),
    ),
    SlashCommand("mcp", "servers of the Model Context Protocol, and what they offer", "[SERVER]"),
    SlashCommand("diff", "what has changed in the files here", "[PATH]"),
    SlashCommand("usage", "tokens and cost, by model"),
    SlashCommand("theme", "dark, light, or another look", "[NAME]"),
    SlashCommand("quit", "leave; everything is on record"),
)
"""All commands, in the order of the help."""

COMMAND_NAMES: Final = frozenset(command.name for command in SLASH_COMMANDS)
COMMAND_ALIASES: Final = {"clear": "new", "exit": "quit"}
"""Names of commands in other programs. They work, but help does not list them."""
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
    are_joined = bool(slash) and COMMAND_ALIASES.get(first, first) in COMMAND_NAMES
    if not name or (any(sign in name for sign in ":/.") and not are_joined):
        return None
    return TypedCommand(COMMAND_ALIASES.get(name, name), argument.strip())


def match_commands(
    beginning: str, among: Iterable[SlashCommand] = SLASH_COMMANDS
) -> list[SlashCommand]:
    """Return the matching commands: those that start with the text, then those that contain it.

    Commands whose alias starts with the text come in between.
    """
    prefix = beginning.lower()
    commands = list(among)
    aliased = {COMMAND_ALIASES[alias] for alias in COMMAND_ALIASES if alias.startswith(prefix)}
    found = [
        *[command for command in commands if command.name.startswith(prefix)],
        *[command for command in commands if command.name in aliased],
        *[command for command in commands if prefix in command.name],
    ]
    return list(dict.fromkeys(found))
