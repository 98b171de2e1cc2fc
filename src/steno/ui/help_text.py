"""The help text: commands, signs and keys; and the hints of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from steno.app.commands.table import SLASH_COMMANDS
from steno.render.items import ItemHint

TERMINAL_KEYS: Final = (
    ("Enter", "send; while a turn runs, steer it"),
    ("Shift+Enter, Ctrl+J", "line break"),
    ("Esc", "interrupt: what was not heard comes back; where nothing runs, clear the prompt"),
    ("Shift+Tab", "plan or act"),
    ("Ctrl+G, Tab", "to the question about a call; e edits a rule before Enter stores it"),
    ("Ctrl+O", "fold or unfold all"),
    ("Alt+Up, Alt+Down", "select a block; Enter folds it, y copies it, e edits what you said"),
    ("PageUp, PageDown", "scroll"),
    ("Ctrl+R", "search what was typed before"),
    ("Ctrl+V", "paste text or an image from the clipboard"),
    ("Ctrl+T", "tree of branches"),
    ("Ctrl+C", "copy what is marked, clear the prompt, or interrupt; twice: quit"),
    ("Ctrl+D on an empty prompt, Ctrl+Q", "quit"),
)

PROMPT_SIGNS: Final = (
    ("@", "files, folders, resources: `@src/main.py:1-40`"),
    ("/", "commands, and prompts of servers"),
    ("!", "a command for the shell; what it prints goes on record"),
)
"""The first characters of the prompt, or of a word, that have a meaning."""

HINT_TEXTS: Final[Mapping[ItemHint | None, str]] = {
    None: "",
    ItemHint.RETRY: "; /retry tries again",
    ItemHint.CONTINUE: "; what was said and done is kept, and /retry tries again or goes on",
    ItemHint.RAISE_LIMIT: " (max_tokens); say: go on. --max-tokens allows more",
    ItemHint.EDIT: " · Alt+Up and e take it to the prompt",
    ItemHint.RETRY_OR_EDIT: " · /retry tries again, Alt+Up and e take it to the prompt",
    ItemHint.SHOW_IGNORED: "; --verbose shows them",
    ItemHint.SHOW_TREE: "; /tree shows all",
}
"""The texts after the head of a prompt, or after a notice or an error."""
UNFINISHED_NOTICE: Final = "this session stopped in the middle; /retry goes on there"


def build_help(keys: Sequence[tuple[str, str]] = TERMINAL_KEYS) -> str:
    """Return the help as Markdown; an interface without keys passes none."""
    commands = [
        (f"/{command.name} {command.argument}".rstrip(), command.description)
        for command in SLASH_COMMANDS
    ]
    parts = [
        _help_section("Type", PROMPT_SIGNS),
        _help_section("Commands", commands),
        *([_help_section("Keys", keys)] if keys else []),
    ]
    return "\n\n".join(parts)


def _help_section(title: str, rows: Sequence[tuple[str, str]]) -> str:
    # A list and no table: it reads well in plain lines, too, and breaks well where it is narrow.
    return "\n".join([f"## {title}", "", *(f"- `{name}`: {about}" for name, about in rows)])
