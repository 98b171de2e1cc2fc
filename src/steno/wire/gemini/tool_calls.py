"""Read the calls of a response: whole ones, and those that Vertex sends in fragments.

A fragment is the value of one argument, or a part of it, at a JSON path into all of them.
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
from steno.wire.tolerant import merge_values, parse_extras, raw_text

_ArgumentPath: TypeAlias = tuple[str | int, ...]
"""Names in objects and positions in lists, the outermost first; the first is a name."""
_EMPTY_FRAGMENT: Final = PartialArg()
_MAX_SKIPPED_POSITIONS: Final = 1024
"""How many positions of lists fragments may skip: a few bytes could ask for millions."""
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


@final
class FunctionCallReader:
    """Reads the calls of one turn."""

    def __init__(self) -> None:
        self._ids: set[str] | None = None
        """The ids so far; None before the first call."""
        self._partial: _PartialCall | None = None
        self._tree = _ArgumentTree()
        self.index: int = -1
        """The index of the latest call."""

    def continue_call(self, function: FunctionCall, events: list[Event]) -> dict[str, Any] | None:
        """Read more of the latest call; return its new extras, None if it is another call."""
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
        """Begin a call; return its extras. `model` made it, if it has no signature."""
        self.index = index
        form: dict[str, Any] = {}
        if self._ids is None and model is not None:
            form["unsigned"] = model
        id = self._claim_id(function.id)
        if id is None:
            form["id"] = function.id  # the assembler generates one, which is not sent
        arguments = raw_text(function.args)
        if arguments == "null":
            arguments = ""
        is_partial = function.will_continue or function.partial_args is not None
        if is_partial:
            arguments = "{"  # a stream that breaks off must not leave a call without arguments
        elif not arguments:
            form["args"] = "absent"
        events.append(ToolCallDelta(index, id, function.name, arguments))
        if is_partial:
            self._partial = _PartialCall(index, function, self._tree)
            self._partial.feed(function)
        return _read_call_extras(function) | ({FORM_KEY: form} if form else {})

    def add_extras(self, extras: dict[str, Any]) -> dict[str, Any]:
        """Take extras of the latest call; return those to add now. Others wait for its end."""
        return extras if self._partial is None else self._partial.add_extras(extras)

    def end(self, function: FunctionCall, events: list[Event]) -> None:
        """End the latest call, unless it continues."""
        if self._partial is None:
            events.append(ToolCallEnd(self.index))
        elif not function.will_continue:
            self.finish(events)

    def finish(self, events: list[Event], *, is_whole: bool = True) -> None:
        """End the call in fragments, if one is open; `is_whole` closes its arguments."""
        if self._partial is not None:
            self._partial.add_events(events, is_whole=is_whole)
            events.append(ToolCallEnd(self._partial.index))
            self._partial = None

    def abandon(self, events: list[Event]) -> None:
        """Add the events of the call in fragments, if one is open and will not end."""
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


# -- fragments --------------------------------------------------------------------------------


@final
class _PartialCall:
    """The arguments of one call as they grow; they are written after the last fragment."""

    def __init__(self, index: int, opening: FunctionCall, tree: _ArgumentTree) -> None:
        self.index = index
        self.id = opening.id
        self.name = opening.name
        self._tree = tree
        self._extras: dict[str, Any] | None = None
        """All so far; None before those of the first fragment."""
        self._has_more_extras = False
        """Whether there are extras without an event."""
        self._arguments: dict[str, Any] = {}
        self._open_paths: set[_ArgumentPath] = set()
        """The paths of texts that continue in a later fragment."""
        self._is_valid = True
        """Whether all fragments were read without an error."""

    def is_different_call(self, function: FunctionCall) -> bool:
        """Return whether a call is another one: a fragment has no name, or repeats the id, too."""
        is_same = function.id and function.id == self.id
        return bool(function.name and self.name and not is_same)

    def feed(self, function: FunctionCall) -> None:
        """Take the arguments of one more fragment. Raises ProtocolError."""
        self._is_valid = False
        if bytes(function.args)[:1] == b"{":
            found = msgspec.json.decode(function.args, type=dict[str, Any])
            check_depth(found)  # it is written again
            self._arguments |= found
        for fragment in function.partial_args or ():
            self._put_fragment(fragment)
        self._is_valid = True

    def add_extras(self, extras: dict[str, Any]) -> dict[str, Any]:
        """Take the extras of a fragment; return them if it is the first one."""
        if self._extras is None:
            self._extras = extras
            return extras
        if extras:
            self._extras = merge_values(self._extras, extras)
            self._has_more_extras = True  # an event replaces extras, so each would repeat them all
        return {}

    def add_events(self, events: list[Event], *, is_whole: bool) -> None:
        """Add the events of the arguments after their first brace, and of the later extras."""
        if self._has_more_extras:
            events.append(ExtrasAdded(self.index, {NAME: self._extras}))
        text = msgspec.json.encode(self._arguments, enc_hook=str).decode()
        if more := text[1 : None if is_whole and self._is_valid else -1]:
            events.append(ToolCallDelta(self.index, arguments_delta=more))

    def _put_fragment(self, fragment: PartialArg) -> None:
        if fragment == _EMPTY_FRAGMENT:
            return
        path = _read_path(fragment.json_path)
        container: Any = self._arguments
        for step, following in itertools.pairwise(path):
            container = self._tree.enter(container, step, [] if isinstance(following, int) else {})
        has_value, value = _read_fragment_value(fragment)
        was_open = path in self._open_paths
        latest = _get_at(container, path[-1]) if was_open else None
        if isinstance(value, str):
            latest = _append_text(latest, value, is_open=bool(fragment.will_continue))
        elif has_value or not was_open:
            latest = value
        self._tree.set(container, path[-1], latest)
        continues = fragment.will_continue and isinstance(latest, str | _GrowingText)
        (self._open_paths.add if continues else self._open_paths.discard)(path)


@final
class _GrowingText:
    """A text in parts, joined once: a cut may split a surrogate pair."""

    def __init__(self, *parts: str) -> None:
        self.parts = list(parts)

    def __str__(self) -> str:
        return replace_lone_surrogates("".join(self.parts))


def _append_text(before: Any, more: str, *, is_open: bool) -> str | _GrowingText:
    """Return a text after the one before, if that was a text, too."""
    if isinstance(before, _GrowingText):
        before.parts.append(more)
        return before
    if isinstance(before, str):
        return _GrowingText(before, more)
    return _GrowingText(more) if is_open else replace_lone_surrogates(more)


def _read_fragment_value(fragment: PartialArg) -> tuple[bool, str | float | None]:
    """Return whether a fragment has a value, and which. Raises ProtocolError for other types."""
    for value in (fragment.string_value, fragment.bool_value, fragment.number_value):
        if value is not None:
            # Numbers arrive as doubles; an integer is written as one.
            is_integer = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
            return True, int(value) if is_integer else value
    if fragment.null_value is None and fragment.rest is not None:
        raise ProtocolError(
            "a fragment of a call has a value of a kind without a name",
            code="unknown_fragment_value",
            place=NAME,
        )
    return fragment.null_value is not None, None


# -- paths ------------------------------------------------------------------------------------


def _read_path(text: str) -> _ArgumentPath:
    """Read a path of RFC 9535 to a single value. Raises ProtocolError for other or deep ones."""
    found: list[str | int] = []
    at = 1 if text.startswith("$") else len(text)
    while len(found) < MAX_DEPTH and (match := _PATH_STEP.match(text, at)) is not None:
        found.append(_read_step(match))
        at = match.end()
    if at < len(text) or not found or not isinstance(found[0], str):
        raise ProtocolError(
            "a fragment of a call is at a path that leads to no argument",
            code="invalid_argument_path",
            place=NAME,
        )
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


@final
class _ArgumentTree:
    """Creates the containers on the paths of one response, within bounds."""

    def __init__(self) -> None:
        self._skipped = 0

    def enter(self, container: Any, step: str | int, new: Any) -> Any:
        """Return the container at a step; put `new` there if there is none of its type."""
        found = _get_at(container, step)
        if type(found) is not type(new):
            self.set(container, step, new)
            return new
        return found

    def set(self, container: Any, step: str | int, value: Any) -> None:
        """Put a value at a step. Raises ProtocolError if too many positions are skipped."""
        if isinstance(container, dict):
            container[str(step)] = value
        elif isinstance(step, int):
            self._skipped += max(0, step - len(container))
            if self._skipped > _MAX_SKIPPED_POSITIONS:
                raise ProtocolError(
                    "fragments of calls leave out more than"
                    f" {_MAX_SKIPPED_POSITIONS} positions of lists",
                    code="too_many_skipped_positions",
                    place=NAME,
                )
            container.extend([None] * (step + 1 - len(container)))
            container[step] = value


def _get_at(container: Any, step: str | int) -> Any:
    if isinstance(container, dict):
        return container.get(str(step))
    return container[step] if isinstance(step, int) and step < len(container) else None
