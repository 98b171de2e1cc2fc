"""Read calls of an answer: whole ones, and those that Vertex sends in fragments.

A fragment is the value of one argument, or a piece of it, at a JSON path into all of them.
"""

from __future__ import annotations

import itertools
import re
from typing import Any, Final, final

import msgspec

from steno.event import Event, ToolCallDelta, ToolCallEnd
from steno.json_object import MAX_DEPTH, check_depth
from steno.value import replace_lone_surrogates
from steno.wire.extras import FORM
from steno.wire.gemini.shapes import Function, PartialArgument
from steno.wire.open import parsed, text_of

_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d{1,4})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


@final
class CallReader:
    """Reads the calls of one turn."""

    def __init__(self) -> None:
        self._ids: set[str] | None = None
        """The ids so far; None before the first call."""
        self._partial: _Partial | None = None

    def goes_on(self, function: Function, events: list[Event]) -> bool:
        """Tell whether this continues the call before it; if so, it has been read."""
        partial = self._partial
        if partial is None:
            return False
        if function.name:
            self.finish(events)
            return False
        partial.feed(function)
        if not function.will_continue:
            self.finish(events)
        return True

    def begin(
        self, index: int, function: Function, model: str | None, events: list[Event]
    ) -> dict[str, Any]:
        """Begin a call; return its extras. `model` is who made it if nothing proves that."""
        form: dict[str, Any] = {}
        if self._ids is None:
            self._ids = set()
            if model is not None:
                form["unsigned"] = model
        id = function.id if function.id and function.id not in self._ids else None
        if id is None:
            form["id"] = function.id  # ours will get one that is not to be sent
        else:
            self._ids.add(id)
        arguments = text_of(function.args)
        if arguments == "null":
            arguments = ""
        if function.will_continue or function.partial_args is not None:
            self._partial = _Partial(index, function)
            arguments = "{"  # so that a stream which breaks off leaves no call without arguments
        elif not arguments:
            form["args"] = "absent"
        events.append(ToolCallDelta(index, id, function.name, arguments))
        extras: dict[str, Any] = {"functionCall": parsed(function.rest)} if function.rest else {}
        return extras | ({FORM: form} if form else {})

    def end(self, index: int, function: Function, events: list[Event]) -> None:
        """End the call that has begun, unless there is more of it to come."""
        if self._partial is None:
            events.append(ToolCallEnd(index))
        elif not function.will_continue:
            self.finish(events)

    def finish(self, events: list[Event]) -> None:
        """End the call that came in fragments, if one is open."""
        if self._partial is not None:
            index, arguments = self._partial.index, self._partial.text()
            events.append(ToolCallDelta(index, None, None, arguments[1:]))
            events.append(ToolCallEnd(index))
            self._partial = None


# -- fragments -------------------------------------------------------------------------------


@final
class _Partial:
    """The arguments of one call as they grow; they are written when the last one is there."""

    def __init__(self, index: int, opening: Function) -> None:
        self.index = index
        self._arguments: dict[str, Any] = {}
        self._open: tuple[str | int, ...] | None = None
        """The path of the text that goes on in the next fragment."""
        self.feed(opening)

    def feed(self, function: Function) -> None:
        """Take the arguments of one more fragment."""
        if bytes(function.args)[:1] == b"{":
            found = msgspec.json.decode(function.args, type=dict[str, Any])
            check_depth(found)  # it is written again
            self._arguments |= found
        for fragment in function.partial_args or ():
            self._put(fragment)

    def text(self) -> str:
        """Return the JSON of all arguments."""
        return msgspec.json.encode(self._arguments, enc_hook=str).decode()

    def _put(self, fragment: PartialArgument) -> None:
        steps = _steps(fragment.json_path)
        place: Any = self._arguments
        for step, following in itertools.pairwise(steps):
            place = _enter(place, step, [] if isinstance(following, int) else {})
        value = _value_of(fragment)
        is_text = isinstance(value, str)
        if is_text:
            before = _get(place, steps[-1]) if steps == self._open else None
            value = _grown(before, value, is_open=bool(fragment.will_continue))
        _set(place, steps[-1], value)
        self._open = steps if fragment.will_continue and is_text else None


@final
class _Growing:
    """A text that comes in pieces, put together once: a cut may go through a character."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = list(pieces)

    def __str__(self) -> str:
        return replace_lone_surrogates("".join(self.pieces))


def _grown(before: Any, more: str, *, is_open: bool) -> str | _Growing:
    """Return a text with what was there before it, if that was text as well."""
    if isinstance(before, _Growing):
        before.pieces.append(more)
        return before
    if isinstance(before, str):
        return _Growing(before, more)
    return _Growing(more) if is_open else replace_lone_surrogates(more)


def _steps(path: str) -> tuple[str | int, ...]:
    """Read a path; one that is beyond us is taken as the name of an argument."""
    found: list[str | int] = []
    at = 1
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None or len(found) == MAX_DEPTH:
            return (path,)
        name, position, quoted, double_quoted = match.groups()
        found.append(int(position) if position else name or quoted or double_quoted or "")
        at = match.end()
    return tuple(found) if found and isinstance(found[0], str) else (path,)


def _value_of(fragment: PartialArgument) -> Any:
    for value in (fragment.string_value, fragment.bool_value, fragment.number_value):
        if value is not None:
            # Numbers come as doubles; what was an integer is written as one.
            is_integer = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
            return int(value) if is_integer else value
    return None


def _enter(place: Any, step: str | int, new: Any) -> Any:
    """Return the container at a step, made where there is none of that kind."""
    found = _get(place, step)
    if type(found) is not type(new):
        _set(place, step, new)
        return new
    return found


def _get(place: Any, step: str | int) -> Any:
    if isinstance(place, dict):
        return place.get(str(step))
    return place[step] if isinstance(step, int) and step < len(place) else None


def _set(place: Any, step: str | int, value: Any) -> None:
    if isinstance(place, dict):
        place[str(step)] = value
    elif isinstance(step, int):
        place.extend([None] * (step + 1 - len(place)))
        place[step] = value
