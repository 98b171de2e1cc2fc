"""Turn the subjects that a tool names into the subjects that permission rules match.

A tool of the user may name its subjects as plain strings. They get the capability of the tool, and
a string about a command is split into words, so that rules match them like those of `bash`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from steno.errors import InvalidTool
from steno.ports import Capability, CommandWord, Subject, Tool

_DOT_NAMES: Final = frozenset({".", ".."})
"""Names that a normalized path does not contain."""
_QUOTES: Final = frozenset("'\"")
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_EXPANDED: Final = frozenset("$`*?[{")
"""Characters with which a shell begins an expansion; the value may then begin with `-`."""


def normalize_subjects(tool: Tool, subjects: Iterable[Subject | str]) -> tuple[Subject, ...]:
    """Return the subjects of a call of a tool, with a `Subject` in place of each plain string.

    Raises InvalidTool if a subject is neither a string nor a `Subject`.
    """
    found = (subjects,) if isinstance(subjects, str) else tuple(subjects)
    for subject in found:
        if not isinstance(subject, Subject | str):
            message = f"subjects must be strings, not {type(subject).__name__}; use str()"
            raise InvalidTool(message, code="subjects_not_strings", place=tool.definition.name)
    return tuple([normalize_subject(subject, tool.capability) for subject in found])


def normalize_subject(subject: Subject | str, capability: Capability) -> Subject:
    """Return a subject unchanged, or a `Subject` with this capability for a plain string.

    A path that is not normalized is unknown, because it may be any other path.
    """
    if isinstance(subject, Subject):
        return subject
    if capability is Capability.EXECUTE:
        return Subject(text=subject, capability=capability, words=split_words(subject))
    is_unknown = subject != "." and not _DOT_NAMES.isdisjoint(subject.split("/"))
    return Subject(text=subject, capability=capability, is_unknown=is_unknown)


def split_words(command: str) -> tuple[CommandWord, ...]:
    """Split a command at the blanks outside of quotes.

    Two blanks in a row have an empty word between them, which no word of a rule matches.
    """
    ends = [-1, *find_blanks(command), len(command)]
    words = [command[start + 1 : end] for start, end in pairwise(ends)]
    return tuple([CommandWord(word, _may_be_option(word)) for word in words])


def find_blanks(text: str) -> list[int]:
    """Return the positions of the blanks outside of quotes; of all blanks if a quote is open."""
    found: list[int] = []
    quote, is_escaped = "", False
    for position, char in enumerate(text):
        if is_escaped:
            is_escaped = False
        elif char == "\\" and quote != "'":
            is_escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in _QUOTES:
            quote = char
        elif char == " ":
            found.append(position)
    if quote:
        return [position for position, char in enumerate(text) if char == " "]
    return found


def _may_be_option(word: str) -> bool:
    value = word.lstrip("'\"\\")
    has_controls = not _QUOTED.sub("", word).isprintable()  # a shell may split the word there
    return value.startswith("-") or value[:1] in _EXPANDED or has_controls
