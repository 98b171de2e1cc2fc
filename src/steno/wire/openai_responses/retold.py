"""Items that are told again: what a later telling adds to an earlier one, which stands."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from steno.wire.extras import FORM
from steno.wire.gathered import says_anything
from steno.wire.open import Rest, read_as
from steno.wire.openai_responses.item import Call, Extras, Other, Piece, Words
from steno.wire.openai_responses.shapes import NAME

_WORDS: Final = frozenset({"text", "content", "arguments", "input"})
"""Members that grow: what is longer later was not whole before."""
_PROGRESS: Final = frozenset({"status"})
"""Members of which the latest is true."""


def with_news(told: Raw, again: Raw, name: str = "") -> Raw:
    """Return JSON as it was told, with what it did not say and is said of it now."""
    if told == again or not says_anything(told):
        return again
    members, more = read_as(told, Rest), read_as(again, Rest)
    if members is not None and more is not None:
        known = {
            name: with_news(text, more.get(name, text), name) for name, text in members.items()
        }
        return Raw(msgspec.json.encode(more | known))
    elements, others = read_as(told, list[Raw]), read_as(again, list[Raw])
    if elements is not None and others is not None and len(others) >= len(elements):
        pairs = zip(elements, others, strict=False)
        both = [with_news(element, other) for element, other in pairs]
        return Raw(msgspec.json.encode(both + others[len(elements) :]))
    return again if _is_newer(told, again, name) else told


def _is_newer(told: Raw, again: Raw, name: str) -> bool:
    """Tell whether a later telling of a text replaces the earlier one."""
    before, after = read_as(told, str), read_as(again, str)
    if before is None or after is None:
        return False
    return (name in _PROGRESS and bool(after)) or (name in _WORDS and after.startswith(before))


def is_again(told: list[Piece], again: list[Piece]) -> bool:
    """Tell whether pieces are those of the same item: servers mix up ids and indexes."""
    return len(again) >= len(told) and all(map(_is_same, told, again))


def _is_same(told: Piece, again: Piece) -> bool:
    if isinstance(told, Other):
        # What came whole cannot be added to; but an empty message may have got its words.
        return told.kind == "message" and isinstance(again, Words)
    if type(told) is not type(again):
        return False
    if isinstance(told, Call) and isinstance(again, Call) and differ(told.id, again.id):
        return False
    before, after = words_of(told), words_of(again)
    return before.startswith(after) or after.startswith(before)


def differ(told: str | None, again: str | None) -> bool:
    """Tell whether a name is another one; a name that is not given is no other."""
    return bool(told and again) and told != again


def words_of(piece: Piece) -> str:
    """Return what a piece says in words or arguments."""
    match piece:
        case Call():
            return piece.arguments
        case Other():
            return "" if piece.kind == "message" else piece.raw
        case _:
            return piece.text


def new_extras(piece: Piece, told: Piece | None) -> Extras | None:
    """Return the extras of a piece that were not told yet."""
    if told is None or piece.extras is None:
        return piece.extras
    if isinstance(told, Other):
        return None  # the empty message stands with all its members; no other may have its id
    before, now = (told.extras or {}).get(NAME, {}), piece.extras.get(NAME, {})
    if FORM in before:
        now = {FORM: {}} | now  # the earlier form must not stay
    news = {name: now[name] for name in now if name not in before or before[name] != now[name]}
    return {NAME: news} if news else None
