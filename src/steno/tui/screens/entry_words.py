"""An entry in words, for whoever looks at a tree or compares two branches.

Everything is printable. Knows no widget: whoever reads line by line reads the same.
"""

from __future__ import annotations

from typing import Final

from steno.captions import decided_by
from steno.printable import moment, on_one_line, printable
from steno.tui.desk import Twig
from steno.views import decision_of, text_of

_LONGEST: Final = 20_000
"""How many characters of one entry are shown; a terminal is no place to read more."""


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


def facts_of(twig: Twig) -> list[str]:
    """Return what a person may want to know about an entry, besides what it says."""
    facts = [moment(twig.entry.time), _decision(twig), *names_at(twig)]
    return [fact for fact in facts if fact]


def names_at(twig: Twig) -> list[str]:
    """Return which labels an entry has, and which branches end there."""
    return [
        *[f"label {on_one_line(label)}" for label in twig.labels],
        *[f"branch {on_one_line(name)} ends here" for name in twig.branches],
    ]


def _decision(twig: Twig) -> str:
    decision = decision_of(twig.entry)
    if decision is None:
        return ""
    by = decided_by(twig.entry.payload)
    return on_one_line(decision) + (f" by {by}" if by else "")
