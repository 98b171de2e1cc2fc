r"""Take a request to the offline assistant apart: into sentences, and each into its words.

Sentences end at line breaks, semicolons and the word "then". What stands in quotes, in backticks
or in a fence is one word and holds none of these; in double quotes `\n`, `\t`, `\"` and `\\` mean
what they usually do. This file knows no verb and no tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_QUOTED: Final = (
    r"```[^\n`]*\n(?P<fence>.*?)^[ \t]*```"
    r"|(?<![^\s(=,:{\[])(?:"  # a quote begins a word: an apostrophe is none
    r'"(?P<double>(?:[^"\\]|\\.)*)"'
    r"|'(?P<single>[^'\n]*)'(?![^\s.,;:!?)])"
    r"|`(?P<code>[^`\n]*)`)"
)
_WORD: Final = re.compile(rf"{_QUOTED}|(?P<plain>\S+)", re.DOTALL | re.MULTILINE)
_BREAK: Final = re.compile(
    rf"(?P<quoted>{_QUOTED})"
    r"|(?P<end>\n|;|(?<=\s)(?:and\s+)?then[,:]?(?=\s))",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
_PREFIX: Final = re.compile(
    r"(?:\d{1,3}[.)]\s+|[-*•]\s+"
    r"|(?:please|and|now|first|next|finally|also|then|can you|could you|would you)\b[,:]?\s*)+",
    re.IGNORECASE,
)
_LAST_STOP: Final = re.compile(r"(?<=[\w\"'`)])[.,?!]+$")
_CONDITION: Final = re.compile(r"if\s+(?:it|that|this)\s+fails[,:]?\s+", re.IGNORECASE)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t"}


class Word(NamedTuple):
    """A word, or everything between two quotes."""

    text: str
    is_quoted: bool = False

    @property
    def lower(self) -> str:
        """The word as it is compared with words that are known; a quoted one is like none."""
        return "" if self.is_quoted else self.text.lower().rstrip(",:")


class Sentence(NamedTuple):
    """One thing that is asked for."""

    text: str
    """As it was written, without what makes it polite or numbers it."""
    is_condition: bool = False
    """It is asked for only if what comes before it fails."""

    def words(self) -> list[Word]:
        """Return its words; what ends the sentence belongs to none."""
        return list(_words(self.text))


def sentences_of(text: str) -> list[Sentence]:
    """Return what a text asks for, part by part."""
    return [sentence for part in _parts(text) if (sentence := _sentence(part)).text]


def _parts(text: str) -> Iterator[str]:
    start = 0
    for found in _BREAK.finditer(text):
        if found["end"] is not None and not _goes_on(text, found):
            yield text[start : found.start()]
            start = found.end()
    yield text[start:]


def _goes_on(text: str, found: re.Match[str]) -> bool:
    """Tell whether a line break only stands before the fence that belongs to the sentence."""
    return found["end"] == "\n" and text[found.end() : found.end() + 3] == "```"


def _sentence(part: str) -> Sentence:
    text = part.strip()
    if (polite := _PREFIX.match(text)) is not None:
        text = text[polite.end() :]
    text = _LAST_STOP.sub("", text)
    condition = _CONDITION.match(text)
    return Sentence(text[condition.end() :] if condition else text, condition is not None)


def _words(text: str) -> Iterator[Word]:
    for found in _WORD.finditer(text):
        if (plain := found["plain"]) is not None:
            is_stop = found.start() > 0 and not text[found.start() - 1].isspace()
            if not (is_stop and plain in ".,:!?"):
                yield Word(plain)
        elif found["double"] is not None:
            yield Word(_ESCAPE.sub(_unescape, found["double"]), is_quoted=True)
        else:
            kept = (found["fence"], found["single"], found["code"])
            yield Word(next(text for text in kept if text is not None), is_quoted=True)


def _unescape(found: re.Match[str]) -> str:
    return _ESCAPED.get(found[1], found[1])
