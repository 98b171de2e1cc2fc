"""The commands that a person can type, in the full-screen terminal and line by line alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple


class Command(NamedTuple):
    """A command as help and completion show it."""

    name: str
    about: str
    argument: str = ""
    """What may stand behind it: `[NAME]`."""
    choices: tuple[str, ...] = ()
    """What its first argument may be, where that is known beforehand."""


COMMANDS: Final = (
    Command("help", "what can be typed, and which keys do what"),
    Command("model", "who answers; with a name, another model from here on", "[NAME]"),
    Command("mode", "plan reads only, act may do all", "[plan|act]", ("plan", "act")),
    Command("new", "begin another session", "[TITLE]"),
    Command("resume", "go on with another session; pick, search, rename, delete", "[ID]"),
    Command("rename", "give this session another title", "TITLE"),
    Command("fork", "go on in a branch of its own", "[NAME]"),
    Command("tree", "branches and where they part: move, fork, label, compare, edit"),
    Command("label", "give the last message a name", "NAME"),
    Command("retry", "try again what failed or was cut off, or go on where it stopped"),
    Command("compact", "let a summary take the place of what was said so far"),
    Command("permissions", "what is allowed and denied, and by which rule", "[allow|revoke RULE]"),
    Command("audit", "who decided what, and whether the record is whole"),
    Command(
        "export",
        "write this branch to a file",
        "[markdown|json|html] [FILE]",
        ("markdown", "json", "html"),
    ),
    Command("mcp", "servers of the Model Context Protocol, and what they offer", "[SERVER]"),
    Command("diff", "what has changed in the files here", "[PATH]"),
    Command("usage", "tokens and cost, by model"),
    Command("theme", "dark, light, or another look", "[NAME]"),
    Command("quit", "leave; everything is on record"),
)
"""All of them, in the order in which help lists them."""

COMMAND_NAMES: Final = frozenset(command.name for command in COMMANDS)
ALIASES: Final = {"clear": "new", "exit": "quit"}
"""What commands are called elsewhere. They do the same, but help does not list them."""
WORDS_TO_LEAVE: Final = frozenset({"exit", "quit"})
"""Who says just this means to leave, and has nothing to tell a model."""
HOW_TO_LEAVE: Final = "type /quit to leave"


class Typed(NamedTuple):
    """A command as it was typed."""

    name: str
    argument: str


def read_command(text: str) -> Typed | None:
    """Return the command that a text is; None where it is words for the model.

    `/server:prompt` and `/usr/bin` are no commands of ours; nor is anything of several lines. What
    is called otherwise elsewhere has our name. `/retry/help` is a command that there is not: the first
    was left in the prompt, perhaps, and neither is meant for the model.
    """
    if not text.startswith("/") or "\n" in text.strip():
        return None
    name, _, argument = text[1:].strip().partition(" ")
    first, slash, _ = name.partition("/")
    are_glued = bool(slash) and ALIASES.get(first, first) in COMMAND_NAMES
    if not name or (any(sign in name for sign in ":/.") and not are_glued):
        return None
    return Typed(ALIASES.get(name, name), argument.strip())


def commands_like(beginning: str, among: Iterable[Command] = COMMANDS) -> list[Command]:
    """Return the commands that may be meant: first what begins like this, then what holds it.

    What has another name elsewhere that begins like this comes in between.
    """
    wanted = beginning.lower()
    all_of_them = list(among)
    meant = {ALIASES[alias] for alias in ALIASES if alias.startswith(wanted)}
    found = [
        *[one for one in all_of_them if one.name.startswith(wanted)],
        *[one for one in all_of_them if one.name in meant],
        *[one for one in all_of_them if wanted in one.name],
    ]
    return list(dict.fromkeys(found))
