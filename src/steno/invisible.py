"""The characters that a reader cannot see, which may hide text or change how text looks.

This is the only list of such characters. Unicode calls most of them "default ignorable"; the others
have a glyph without ink. `is_visible` and `escape_invisible` accept no invisible character, and are
for text that a decision depends on: commands, names, rules. People also read text of models and
files, which contains emoji and scripts whose letters are joined by invisible characters:
`is_readable`, `escape_hidden` and `remove_hidden` accept one selector and one joiner after a
character that they can affect.
"""

from __future__ import annotations

import re
from typing import Final

_INVISIBLE: Final = (
    "\u00ad"  # soft hyphen
    "\u034f"  # combining grapheme joiner
    "\u061c"  # Arabic letter mark
    "\u115f\u1160\u3164\uffa0"  # fillers of Hangul
    "\u17b4\u17b5"  # vowels of Khmer
    "\u180b-\u180f"  # selectors and the vowel separator of Mongolian
    "\u200b-\u200f"  # zero width, joiners, direction
    "\u2028-\u202e"  # line and paragraph separators, direction
    "\u2060-\u206f"  # word joiner, operators, direction, obsolete controls
    "\u2800"  # the blank pattern of Braille
    "\ufe00-\ufe0f"  # variation selectors
    "\ufeff"  # zero width no-break space, also the byte order mark
    "\ufff0-\ufffb"  # annotations
    "\U00013430-\U0001343f\U00013440"  # layout of Egyptian hieroglyphs
    "\U00016fe4"  # filler of Khitan
    "\U0001bca0-\U0001bca3"  # layout of shorthand
    "\U0001d159\U0001d173-\U0001d17a"  # musical symbols
    "\U000e0000-\U000e0fff"  # tags and more variation selectors
)
"""The members of a character class of a regular expression."""
_CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f"
"""All control characters except tabs and line feeds."""

_UNSEEN: Final = re.compile(f"[{_INVISIBLE}]")
_CONTROL_OR_UNSEEN: Final = re.compile(f"[{_CONTROLS}{_INVISIBLE}]")
_KEPT_SEQUENCE: Final = (
    # Emoji and joined letters: at most one selector and one joiner after a visible character.
    rf"[^\x00-\xa0{_INVISIBLE}](?:[\ufe0e\ufe0f][\u200c\u200d]?|[\u200c\u200d])"
    r"|[0-9#*]\ufe0f"  # keycaps
    r"|[\u1820-\u18aa][\u180b-\u180f]"  # forms of Mongolian letters
)
_HIDDEN: Final = re.compile(f"(?P<kept>{_KEPT_SEQUENCE})|[{_CONTROLS}{_INVISIBLE}]")
HIDDEN_LOOKBEHIND: Final = 2
"""The number of characters before a character that decide whether it is hidden."""


def is_invisible(character: str) -> bool:
    """Return whether a character leaves no trace where it is shown; controls are not included."""
    return _UNSEEN.match(character) is not None


def is_visible(text: str) -> bool:
    """Return whether a reader sees every character of a text, on one line."""
    return text.isprintable() and (text.isascii() or _UNSEEN.search(text) is None)


def is_readable(text: str) -> bool:
    """Return whether `is_visible` holds for a text if it may contain selectors in their place."""
    return text.isprintable() and (text.isascii() or remove_hidden(text) == text)


def escape_invisible(text: str) -> str:
    r"""Return a text with each control and invisible character as an escape, such as `\u200b`.

    Tabs and line feeds are preserved.
    """
    return _CONTROL_OR_UNSEEN.sub(_escape, text)


def escape_hidden(text: str) -> str:
    """Return a text as `escape_invisible` does, but with selectors and joiners in their place."""
    return _HIDDEN.sub(_keep_or_escape, text)


def remove_hidden(text: str) -> str:
    """Return a text without the characters that `escape_hidden` escapes."""
    return _HIDDEN.sub(_keep_or_remove, text)


def escape_invisible_in_json(text: str) -> str:
    """Return equivalent JSON, in which invisible characters and controls are escaped."""
    return _CONTROL_OR_UNSEEN.sub(_escape_in_json, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _keep_or_escape(match: re.Match[str]) -> str:
    return match["kept"] or _escape(match)


def _keep_or_remove(match: re.Match[str]) -> str:
    return match["kept"] or ""


def _escape_in_json(match: re.Match[str]) -> str:
    if match[0] < " ":  # white space between values, since a JSON string contains no such character
        return match[0]
    units = match[0].encode("utf-16-be").hex()
    return "".join([f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4)])
