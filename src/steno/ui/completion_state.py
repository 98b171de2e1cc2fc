"""Completion of the typed word: a command after `/`, a file or a resource after `@`.

Commands are known here. The owner of the prompt supplies all other suggestions. Nothing here draws.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol, final

from steno.app.commands.table import (
    COMMAND_NAMES,
    SLASH_COMMANDS,
    match_commands,
    parse_slash_command,
)
from steno.render.terminal_text import terminal_line
from steno.ui.pasted_text import sanitize_pasted

# After white space, or a sign that opens or separates text, so that no mail address matches; a quote
# keeps blanks together, and so does a backslash.
_MENTION: Final = re.compile(
    r"""(?<! [^\s(\[{<"',;] ) @ (?: "[^"]*\Z | '[^']*\Z | (?: \\[ ] | [^\s`"'<>|] )* ) \Z""",
    re.VERBOSE,
)
_REST: Final = re.compile(r"""[^\s`"'<>|]*""")
_MAX_WORD_LENGTH: Final = 500
"""The maximal distance of the sign from the cursor."""
_QUOTES: Final = ('"', "'")


class SuggestionLike(Protocol):
    """A suggestion of the owner: `steno.app.session.Suggestion`.

    A protocol, because `app.session` is imported after the first paint.
    """

    @property
    def text(self) -> str:
        """The text that replaces the typed word."""
        ...

    @property
    def description(self) -> str:
        """A short description."""
        ...

    @property
    def expects_more(self) -> bool:
        """Whether the user types more after it."""
        ...


class CompletionChoice(NamedTuple):
    """A suggestion that can be shown and inserted."""

    text: str
    description: str = ""
    expects_more: bool = False
    argument: str = ""
    """The argument, which is shown and not inserted."""


class TypedWord(NamedTuple):
    """The typed word and its position in the line."""

    typed: str
    """From the sign to the cursor."""
    start: int
    end: int
    """The end of the word, at the cursor or after it."""


def word_at(line: str, column: int, *, is_whole_text: bool) -> TypedWord | None:
    """Return the word to complete at a position; commands only if the line is the whole text."""
    before = line[:column]
    rest = _REST.match(line, column)
    end = rest.end() if rest else column
    if mention := _MENTION.search(line, max(0, column - _MAX_WORD_LENGTH), column):
        typed = mention[0]
        is_closed = typed[1:2] in _QUOTES and line[end : end + 1] == typed[1]
        return TypedWord(typed, mention.start(), end + is_closed)
    if not is_whole_text or not before.startswith("/"):
        return None
    if " " not in before:
        return TypedWord(before, 0, end)
    command = parse_slash_command(before)
    is_known = command is not None and command.name in COMMAND_NAMES
    return TypedWord(before, 0, len(line)) if is_known else None


def insertion_text(choice: CompletionChoice) -> str:
    """Return the text that replaces a word; a complete one is followed by a blank."""
    is_path = choice.expects_more and not choice.text.startswith("/")
    return choice.text if is_path else f"{choice.text} "


@final
class CompletionState:
    """Follows the typed text and keeps its suggestions."""

    def __init__(self) -> None:
        self.word: TypedWord | None = None
        self._suggestions: list[CompletionChoice] = []
        self._dismissed_at: int | None = None
        """The start of the word whose suggestions the user has closed."""

    @property
    def choices(self) -> list[CompletionChoice]:
        """The suggestions, commands first; empty if the user has closed them."""
        if self.word is None or self._dismissed_at is not None:
            return []
        typed = self.word.typed
        commands = _command_choices(typed) if typed.startswith("/") else []
        known = {choice.text for choice in commands}
        choices = commands + [choice for choice in self._suggestions if choice.text not in known]
        return sorted(choices, key=lambda choice: choice.text != typed)

    def set_word(self, word: TypedWord | None) -> bool:
        """Set the word under the cursor; return whether suggestions should be requested."""
        if word is None or word.start != self._dismissed_at:
            self._dismissed_at = None
        if word is None:
            self._suggestions = []
        elif self.word is None or word.typed != self.word.typed:
            # Earlier suggestions that still match stay until new ones arrive.
            typed = word.typed.lower()
            self._suggestions = [
                choice for choice in self._suggestions if choice.text.lower().startswith(typed)
            ]
        self.word = word
        return word is not None and self._dismissed_at is None

    def set_suggestions(self, typed: str, suggestions: Iterable[SuggestionLike]) -> bool:
        """Set the suggestions of the owner; return whether they match the current word."""
        if self.word is None or self.word.typed != typed:
            return False
        self._suggestions = [
            CompletionChoice(text, terminal_line(suggestion.description), suggestion.expects_more)
            for suggestion in suggestions
            if (text := sanitize_pasted(suggestion.text).text) and "\n" not in text
        ]
        return True

    def dismiss(self) -> None:
        """Close the suggestions for this word."""
        self._dismissed_at = None if self.word is None else self.word.start

    def reopen(self) -> None:
        """Show suggestions again."""
        self._dismissed_at = None


def _command_choices(typed: str) -> list[CompletionChoice]:
    name, blank, argument = typed[1:].partition(" ")
    if not blank:
        return [
            CompletionChoice(
                f"/{command.name}", command.description, bool(command.argument), command.argument
            )
            for command in match_commands(name)
        ]
    choices = next((command.choices for command in SLASH_COMMANDS if command.name == name), ())
    beginning = argument.lower()
    return [
        CompletionChoice(f"/{name} {choice}") for choice in choices if choice.startswith(beginning)
    ]
