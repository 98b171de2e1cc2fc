"""An entry in words, for whoever looks at a tree or compares two branches. Everything is printable."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from textual.content import Content

from steno.printable import on_one_line, printable
from steno.tui.desk import Twig
from steno.views import decision_of, text_of

_LONGEST: Final = 20_000
"""How many characters of one entry are shown; a terminal is no place to read more."""
_MUTED: Final = "$text-muted"


def head_of(twig: Twig) -> str:
    """Return how an entry is called, and what it is."""
    return f"#{twig.number} {on_one_line(twig.kind)}"


def words_of(twig: Twig) -> str:
    """Return what an entry says, line by line; its gist where it is nothing to read."""
    text = text_of(twig.entry)
    if not text.strip():
        return on_one_line(twig.gist)
    rest = len(text) - _LONGEST
    shown = printable(text[:_LONGEST]).rstrip()
    return shown if rest <= 0 else f"{shown}\n… {rest:,} more characters"


def describe(twig: Twig) -> Content:
    """Return everything about an entry that a person may want to know, from top to bottom."""
    facts = [
        _moment(twig.entry.time),
        _decision(twig),
        *[f"label {on_one_line(label)}" for label in twig.labels],
        *[f"branch {on_one_line(name)} ends here" for name in twig.branches],
    ]
    told = "\n".join(filter(None, facts))
    return Content.assemble(
        (head_of(twig), "bold"), "\n", (f"{told}\n" if told else "", _MUTED), "\n", words_of(twig)
    )


def _moment(time: datetime | None) -> str:
    return "" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _decision(twig: Twig) -> str:
    decision = decision_of(twig.entry)
    if decision is None:
        return ""
    payload = twig.entry.payload
    by = getattr(payload, "actor", None) or getattr(payload, "rule", None)
    return on_one_line(f"{decision} by {by}" if by else decision)
