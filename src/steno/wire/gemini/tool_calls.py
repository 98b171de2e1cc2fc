"""Read calls of an answer: whole ones, and those that Vertex sends in fragments.

A fragment is the value of one argument, or a piece of it, at a JSON path into all of them.
"""

from __future__ import annotations

import itertools
import re
from typing import Any, Final, TypeAlias, final

import msgspec

from steno.errors import ProtocolError
from steno.json_object import MAX_DEPTH, check_depth
from steno.messages.event import Event, ExtrasAdded, ToolCallDelta, ToolCallEnd
from steno.values import replace_lone_surrogates
from steno.wire.extras import FORM_KEY
from steno.wire.gemini.payload import FUNCTION_CALL, NAME, FunctionCall, PartialArg
from steno.wire.merged_extras import merge_values
from steno.wire.tolerant import parse_extras, raw_text

# -- paths -----------------------------------------------------------------------------------------
#
# Read paths into the arguments of a call: those of RFC 9535 that lead to a single place.


ArgumentPath: TypeAlias = tuple[str | int, ...]
"""Names in objects and positions in lists, from the outside in; the first is a name."""


_PATH_BLANKS: Final = r"[ \t\r\n]*"


_PATH_ESCAPE: Final = r"""\\(?:["'/\\bfnrt]|u[0-9a-fA-F]{4})"""


_PATH_STEP: Final = re.compile(
    rf"""{_PATH_BLANKS}(?:
        \.(?P<name>[^.\[\]*\s]+)
        | \[{_PATH_BLANKS}(?:
            (?P<position>[0-9]{{1,4}})
            | '(?P<single>(?:[^'\\]|{_PATH_ESCAPE})*)'
            | "(?P<double>(?:[^"\\]|{_PATH_ESCAPE})*)"
        ){_PATH_BLANKS}\]
    )""",
    re.VERBOSE,
)


_PATH_ESCAPE_PATTERN: Final = re.compile(_PATH_ESCAPE)


_CONTROL_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def read_path(text: str) -> ArgumentPath:
    """Read a path. Raises ProtocolError for one that leads nowhere, to many places, or too deep."""
    found: list[str | int] = []
    at = 1 if text.startswith("$") else len(text)
    while len(found) < MAX_DEPTH and (match := _PATH_STEP.match(text, at)) is not None:
        found.append(_read_step(match))
        at = match.end()
    if at < len(text) or not found or not isinstance(found[0], str):
        raise ProtocolError(f"{NAME}: a fragment of a call is at a path that leads to no argument")
    return tuple(found)


def _read_step(match: re.Match[str]) -> str | int:
    match match.lastgroup, match.group(match.lastgroup or 0):
        case "position", digits:
            return int(digits)
        case "name", name:
            return name
        case _, quoted:
            return replace_lone_surrogates(_PATH_ESCAPE_PATTERN.sub(_unescape, quoted))


def _unescape(escape: re.Match[str]) -> str:
    mark = escape.group()[1:]
    return chr(int(mark[1:], 16)) if mark[0] == "u" else _CONTROL_ESCAPES.get(mark, mark)


_EMPTY_FRAGMENT: Final = PartialArg()


_MAX_SKIPPED_POSITIONS: Final = 1024
"""How many positions of lists fragments may skip: a few bytes could ask for millions."""


@final
class FunctionCallReader:
    """Reads the calls of one turn."""

    def __init__(self) -> None:
        self._ids: set[str] | None = None
        """The ids so far; None before the first call."""
        self._partial: _PartialCall | None = None
        self._tree = _ArgumentTree()
        self.index = -1
        """Of the latest call."""

    def continue_call(self, function: FunctionCall, events: list[Event]) -> dict[str, Any] | None:
        """Read more of the call before; return what is new in its extras, None if it is another."""
        partial = self._partial
        if partial is None:
            return None
        if partial.is_different_call(function):
            self.finish(events)
            return None
        late_id = function.id if not partial.id else None
        late_name = function.name if not partial.name else None
        partial.id, partial.name = partial.id or late_id, partial.name or late_name
        claimed = self._claim_id(late_id)
        if claimed or late_name:
            events.append(ToolCallDelta(partial.index, claimed, late_name))
        partial.feed(function)
        return _read_call_extras(function) | ({FORM_KEY: {"id": late_id}} if late_id else {})

    def begin(
        self, index: int, function: FunctionCall, model: str | None, events: list[Event]
    ) -> dict[str, Any]:
        """Begin a call; return its extras. `model` is who made it if nothing proves that."""
        self.index = index
        form: dict[str, Any] = {}
        if self._ids is None and model is not None:
            form["unsigned"] = model
        id = self._claim_id(function.id)
        if id is None:
            form["id"] = function.id  # ours will get one that is not to be sent
        arguments = raw_text(function.args)
        if arguments == "null":
            arguments = ""
        is_partial = function.will_continue or function.partial_args is not None
        if is_partial:
            arguments = "{"  # so that a stream which breaks off leaves no call without arguments
        elif not arguments:
            form["args"] = "absent"
        events.append(ToolCallDelta(index, id, function.name, arguments))
        if is_partial:
            self._partial = _PartialCall(index, function, self._tree)
            self._partial.feed(function)
        return _read_call_extras(function) | ({FORM_KEY: form} if form else {})

    def add_extras(self, extras: dict[str, Any]) -> dict[str, Any]:
        """Take extras of the latest call; return those to tell now. Others wait for its end."""
        return extras if self._partial is None else self._partial.add_extras(extras)

    def end(self, function: FunctionCall, events: list[Event]) -> None:
        """End the latest call, unless there is more of it to come."""
        if self._partial is None:
            events.append(ToolCallEnd(self.index))
        elif not function.will_continue:
            self.finish(events)

    def finish(self, events: list[Event], *, is_whole: bool = True) -> None:
        """End the call that came in fragments, if one is open; unless it is whole, it stays so."""
        if self._partial is not None:
            self._partial.add_events(events, is_whole=is_whole)
            events.append(ToolCallEnd(self._partial.index))
            self._partial = None

    def abandon(self, events: list[Event]) -> None:
        """Tell what is known of the call that came in fragments, if one will never end."""
        if self._partial is not None:
            self._partial.add_events(events, is_whole=False)
            self._partial = None

    def _claim_id(self, id: str | None) -> str | None:
        """Return an id if no other call of this turn has it."""
        if self._ids is None:
            self._ids = set()
        if not id or id in self._ids:
            return None
        self._ids.add(id)
        return id


def _read_call_extras(function: FunctionCall) -> dict[str, Any]:
    return {FUNCTION_CALL: parse_extras(function.rest)} if function.rest else {}


# -- fragments -------------------------------------------------------------------------------


@final
class _PartialCall:
    """The arguments of one call as they grow; they are written when the last one is there."""

    def __init__(self, index: int, opening: FunctionCall, places: _ArgumentTree) -> None:
        self.index = index
        self.id = opening.id
        self.name = opening.name
        self._tree = places
        self._extras: dict[str, Any] | None = None
        """All so far; None before those of the opening."""
        self._has_more_extras = False
        """Whether there are some that were not told yet."""
        self._arguments: dict[str, Any] = {}
        self._open_paths: set[ArgumentPath] = set()
        """The paths of texts that go on in a later fragment."""
        self._is_understood = True
        """Whether all fragments were read to their end."""

    def is_different_call(self, function: FunctionCall) -> bool:
        """Tell whether a call is another one: fragments go without a name, or repeat the id too."""
        is_same = function.id and function.id == self.id
        return bool(function.name and self.name and not is_same)

    def feed(self, function: FunctionCall) -> None:
        """Take the arguments of one more fragment. Raises ProtocolError."""
        self._is_understood = False
        if bytes(function.args)[:1] == b"{":
            found = msgspec.json.decode(function.args, type=dict[str, Any])
            check_depth(found)  # it is written again
            self._arguments |= found
        for fragment in function.partial_args or ():
            self._put_fragment(fragment)
        self._is_understood = True

    def add_extras(self, extras: dict[str, Any]) -> dict[str, Any]:
        """Take what stands beside a fragment; return it if it is the first and can be told."""
        if self._extras is None:
            self._extras = extras
            return extras
        if extras:
            self._extras = merge_values(self._extras, extras)
            self._has_more_extras = True  # told with each fragment, all would be told each time
        return {}

    def add_events(self, events: list[Event], *, is_whole: bool) -> None:
        """Add what was not told yet: the arguments behind their first brace, and extras."""
        if self._has_more_extras:
            events.append(ExtrasAdded(self.index, {NAME: self._extras}))
        text = msgspec.json.encode(self._arguments, enc_hook=str).decode()
        if more := text[1 : None if is_whole and self._is_understood else -1]:
            events.append(ToolCallDelta(self.index, arguments_delta=more))

    def _put_fragment(self, fragment: PartialArg) -> None:
        if fragment == _EMPTY_FRAGMENT:
            return
        path = read_path(fragment.json_path)
        place: Any = self._arguments
        for step, following in itertools.pairwise(path):
            place = self._tree.enter(place, step, [] if isinstance(following, int) else {})
        is_told, value = _read_fragment_value(fragment)
        was_open = path in self._open_paths
        kept = _get_at(place, path[-1]) if was_open else None
        if isinstance(value, str):
            kept = _append_text(kept, value, is_open=bool(fragment.will_continue))
        elif is_told or not was_open:
            kept = value
        self._tree.set(place, path[-1], kept)
        goes_on = fragment.will_continue and isinstance(kept, str | _GrowingText)
        (self._open_paths.add if goes_on else self._open_paths.discard)(path)


@final
class _GrowingText:
    """A text that comes in pieces, put together once: a cut may go through a character."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = list(pieces)

    def __str__(self) -> str:
        return replace_lone_surrogates("".join(self.pieces))


def _append_text(before: Any, more: str, *, is_open: bool) -> str | _GrowingText:
    """Return a text with what was there before it, if that was text as well."""
    if isinstance(before, _GrowingText):
        before.pieces.append(more)
        return before
    if isinstance(before, str):
        return _GrowingText(before, more)
    return _GrowingText(more) if is_open else replace_lone_surrogates(more)


def _read_fragment_value(fragment: PartialArg) -> tuple[bool, str | float | None]:
    """Return whether a fragment has a value, and which. Raises ProtocolError for one beyond us."""
    for value in (fragment.string_value, fragment.bool_value, fragment.number_value):
        if value is not None:
            # Numbers come as doubles; what was an integer is written as one.
            is_integer = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
            return True, int(value) if is_integer else value
    if fragment.null_value is None and fragment.rest is not None:
        raise ProtocolError(f"{NAME}: a fragment of a call has a value of a kind without a name")
    return fragment.null_value is not None, None


# -- places ----------------------------------------------------------------------------------


@final
class _ArgumentTree:
    """Makes the places that the paths of one answer lead to, within bounds."""

    def __init__(self) -> None:
        self._skipped = 0

    def enter(self, place: Any, step: str | int, new: Any) -> Any:
        """Return the container at a step, made where there is none of that kind."""
        found = _get_at(place, step)
        if type(found) is not type(new):
            self.set(place, step, new)
            return new
        return found

    def set(self, place: Any, step: str | int, value: Any) -> None:
        """Put a value at a step. Raises ProtocolError if too much before it is left out."""
        if isinstance(place, dict):
            place[str(step)] = value
        elif isinstance(step, int):
            self._skipped += max(0, step - len(place))
            if self._skipped > _MAX_SKIPPED_POSITIONS:
                rule = f"leave out more than {_MAX_SKIPPED_POSITIONS} positions of lists"
                raise ProtocolError(f"{NAME}: fragments of calls {rule}")
            place.extend([None] * (step + 1 - len(place)))
            place[step] = value


def _get_at(place: Any, step: str | int) -> Any:
    if isinstance(place, dict):
        return place.get(str(step))
    return place[step] if isinstance(step, int) and step < len(place) else None
