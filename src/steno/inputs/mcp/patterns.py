"""Patterns that a user writes into the settings of a server: `*` stands for any text."""

from __future__ import annotations

import re


def fits(pattern: str, text: str) -> bool:
    """Tell whether a pattern means a text, all of it. No text takes long to look at."""
    return re.fullmatch(_expression(pattern), text, re.DOTALL) is not None


def _expression(pattern: str) -> str:
    first, *others = map(re.escape, pattern.split("*"))
    if not others:
        return first
    # Each piece is taken where it comes first, so that nothing is ever tried twice.
    return first + "".join([f"(?>.*?{piece})" for piece in others[:-1]]) + f".*{others[-1]}"
