"""The help text (prefixes, commands and keys), and the hints after transcript items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from steno.app.commands.table import SLASH_COMMANDS
from steno.render.items import ItemHint

TERMINAL_KEYS: Final = (
    ("Enter", "send the prompt; during a run, steer the model"),
    ("Shift+Enter, Ctrl+J", "insert a line break"),
    ("Esc", "interrupt the run (unsent prompts return to the input), or clear the prompt"),
    ("Shift+Tab", "switch between plan and act mode"),
    ("Ctrl+G, Tab", "focus the pending approval, where e edits a rule before Enter stores it"),
    ("Ctrl+O", "fold or unfold all items"),
    ("Alt+Up, Alt+Down", "select an item: Enter fold, y copy, e edit and resend a prompt"),
    ("PageUp, PageDown", "scroll"),
    ("Ctrl+R", "search the prompt history"),
    ("Ctrl+V", "paste text or an image from the clipboard"),
    ("Ctrl+T", "open the branch tree"),
    ("Ctrl+C", "copy the selection, clear the prompt, or interrupt; press twice to quit"),
    ("Ctrl+D on an empty prompt, Ctrl+Q", "quit"),
)

PROMPT_SIGNS: Final = (
    ("@", "a file, folder or resource: `@src/main.py:1-40`"),
    ("/", "a command, or a prompt of an MCP server"),
    ("!", "a shell command; its output is recorded in the session"),
)
"""The characters with a special meaning at the start of the prompt or, for `@`, of any word."""

HINT_TEXTS: Final[Mapping[ItemHint | None, str]] = {
    None: "",
    ItemHint.RETRY: "; /retry tries again",
    ItemHint.CONTINUE: "; everything so far is recorded; /retry continues",
    ItemHint.RAISE_LIMIT: ' (max_tokens); send "continue", or raise --max-tokens',
    ItemHint.EDIT: " · Alt+Up then e edit",
    ItemHint.RETRY_OR_EDIT: " · /retry send again · Alt+Up then e edit",
    ItemHint.SHOW_IGNORED: "; --verbose shows them",
    ItemHint.SHOW_TREE: "; /tree shows all",
}
"""The text of each hint, which follows the head of a prompt, a notice or an error."""
UNFINISHED_NOTICE: Final = "the last run of this session is not finished; /retry continues it"


def build_help(keys: Sequence[tuple[str, str]] = TERMINAL_KEYS) -> str:
    """Return the help as Markdown; the section about keys is omitted if `keys` is empty."""
    commands = [
        (f"/{command.name} {command.argument}".rstrip(), command.description)
        for command in SLASH_COMMANDS
    ]
    parts = [
        _help_section("Prefixes", PROMPT_SIGNS),
        _help_section("Commands", commands),
        *([_help_section("Keys", keys)] if keys else []),
    ]
    return "\n\n".join(parts)


def _help_section(title: str, rows: Sequence[tuple[str, str]]) -> str:
    # A list rather than a table, because lists stay readable as plain text and on narrow screens.
    return "\n".join([f"## {title}", "", *(f"- `{name}`: {about}" for name, about in rows)])
