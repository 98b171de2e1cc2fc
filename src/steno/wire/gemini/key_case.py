"""Read and restore the case of keys: Google accepts `thoughtSignature` and `thought_signature`."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any, Final, TypeVar, final

from msgspec import Raw

from steno.errors import InvalidRequest
from steno.wire.extras import FORM_KEY
from steno.wire.gemini.payload import NAME
from steno.wire.request_decoder import ObjectMembers

T = TypeVar("T")

SNAKE_CASE_KEY: Final = "snake"
"""The note that lists the names that were written in snake case."""


@final
class EitherCaseMembers:
    """The members of an object, in either case; the case that was used is noted.

    An inner object shares the notes of the outer one: no name appears in both.
    """

    def __init__(
        self, raw: bytes | str | Raw, place: str, outer: EitherCaseMembers | None = None
    ) -> None:
        """Read an object. Raises InvalidRequest if it is none or cannot be kept."""
        self._members = ObjectMembers(raw, place)
        if FORM_KEY in self._members:
            raise InvalidRequest(f"{FORM_KEY} is a name of ours", code="reserved_name", place=place)
        self._place = place
        self._snake_case_names: list[str] = [] if outer is None else outer._snake_case_names
        self._kept: dict[str, Any] = {}
        self.form: dict[str, Any] = {}
        self.raw: str = self._members.raw

    def __contains__(self, name: str) -> bool:
        return self._actual_name(name) in self._members

    def peek(self, name: str, hint: type[T]) -> T | None:
        """Return a member if it is present and of that type, without taking it."""
        return self._members.peek(self._actual_name(name), hint)

    def take(self, name: str, hint: type[T]) -> T | None:
        """Take a member if it is of that type; one of any other type stays."""
        actual = self._actual_name(name)
        value = self._members.take(actual, hint)
        if value is not None and actual != name:
            self._snake_case_names.append(name)
        return value

    def take_object(self, name: str) -> EitherCaseMembers | None:
        """Take an object, to be read member by member; see `put_back`."""
        if self.peek(name, dict[str, Raw]) is None:
            return None
        raw = self.take(name, Raw)
        return None if raw is None else EitherCaseMembers(raw, self._place, self)

    def take_list(self, name: str) -> list[Raw] | None:
        """Take an array, its elements as JSON text; a single object counts as an array of one."""
        found = self.take(name, list[Raw])
        if found is None and self.peek(name, dict[str, Raw]) is not None:
            self.form[name] = "object"
            only = self.take(name, Raw)
            return None if only is None else [only]
        return found

    def put_back(self, name: str, inner: EitherCaseMembers, *, is_empty_kept: bool = False) -> None:
        """Keep the remaining members of an object that was taken, if there are any."""
        left = inner.remaining()
        if left or is_empty_kept:
            self._kept[name] = left

    def remaining(self) -> dict[str, Any]:
        """Return the members that were not taken."""
        found = (self._members.extras(NAME) or {}).get(NAME, {})
        return found | self._kept

    def extras(self) -> dict[str, dict[str, Any]] | None:
        """Return the remaining members and the notes as extras of this wire."""
        form = self.form | (
            {SNAKE_CASE_KEY: sorted(self._snake_case_names)} if self._snake_case_names else {}
        )
        found = self.remaining() | ({FORM_KEY: form} if form else {})
        return {NAME: found} if found else None

    def _actual_name(self, name: str) -> str:
        if name in self._members:
            return name
        other = to_snake_case(name)
        return other if other in self._members else name


@lru_cache(maxsize=256)
def to_snake_case(name: str) -> str:
    """Return a name in snake case."""
    return re.sub(r"[A-Z]", lambda match: "_" + match.group().lower(), name)


def to_camel_case(name: str) -> str:
    """Return a name in camel case."""
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), name)


def restore_case(members: dict[str, Any], form: dict[str, Any]) -> dict[str, Any]:
    """Return members in the case they were written in."""
    snake: Collection[str] = form.get(SNAKE_CASE_KEY, ())
    if not snake:
        return members
    return {
        to_snake_case(name) if name in snake else name: value for name, value in members.items()
    }
