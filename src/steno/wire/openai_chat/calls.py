"""Calls in an answer: by function, by custom tool, or in the old way, and all that is said of them."""

from __future__ import annotations

from typing import Any, Final, final

from steno.event import Event, ExtrasAdded, ToolCallDelta
from steno.wire.extras import FORM
from steno.wire.gathered import Gathered
from steno.wire.open import NULL, Rest, parsed_extras, read_as, text_of
from steno.wire.openai_chat.dialect import INNER, LEGACY
from steno.wire.openai_chat.shapes import NAME, Call, Function

FIRST_CALL: Final = 3
"""Blocks of words and calls are numbered together, so that a seal or extras find theirs."""
_UNPLACED: Final = 1 << 20
"""What calls are counted from that have no index: some servers leave it out of streams."""
_MOST_INNER: Final = 16
"""So many members of a function are told; no server has more than one or two."""


@final
class CallReader:
    """Reads the calls of one answer."""

    def __init__(self, beside: Gathered, *, is_whole: bool) -> None:
        """Start without any; what no call has a place for goes to `beside`."""
        self._metadata = beside
        self._is_whole = is_whole
        self._count = 0
        self._indexes_by_id: dict[str, int] = {}
        """The indexes that calls without one got from us, by their ids."""
        self._latest_index: int | None = None
        """That of the latest such call; None if it got none yet."""
        self._unindexed_count = 0
        self._function_extras: dict[int, dict[str, Any]] = {}
        self._blank_inputs: dict[int, str | None] = {}
        """The inputs of custom tools by index; None where one says something."""

    def read(self, call: Call, events: list[Event]) -> None:
        """Add the events of a call, or of more of it."""
        if self._is_whole:
            self._assign_index(call)
        index = None if call.index is None else call.index + FIRST_CALL
        function = call.function
        if call.rest is None and function is not None and function.rest is None:
            if index is None and (call.id or function.name):
                self._latest_index = self._indexes_by_id.get(call.id or "")
            events.append(ToolCallDelta(index, call.id, function.name, function.arguments))
            return
        rest, inner = call.rest or {}, Rest()
        extras: dict[str, Any] = {}
        name = arguments = None
        if function is not None:
            name, inner = function.name, function.rest or {}
            arguments = _arguments(function)
        elif (custom := read_as(rest.get("custom"), Rest)) is not None:
            del rest["custom"]
            name, arguments, inner = _take_text(custom, "name"), _take_text(custom, "input"), custom
            extras["type"] = "custom"
        extras = parsed_extras(rest) | extras
        if index is None and (extras or inner):
            index = self._find_index(call.id, name)
        if index is not None and extras.get("type") == "custom":
            self._note_input(index, arguments or "")
        events.append(ToolCallDelta(index, call.id, name, arguments))
        if index is not None and inner:
            extras |= self._add_function_extras(index, inner)
        if extras:
            events.append(ExtrasAdded(index, {NAME: extras}))

    def read_legacy(self, call: Function, events: list[Event]) -> None:
        """Read the only call of a turn, or more of it; it has no id, and goes back without one."""
        arguments, inner = _arguments(call), call.rest or {}
        if call.name or arguments:
            events.append(ToolCallDelta(FIRST_CALL, None, call.name, arguments))
        if call.name:
            kept = parsed_extras(inner)
            form = {LEGACY: True} | ({INNER: kept} if kept else {})
            events.append(ExtrasAdded(FIRST_CALL, {NAME: {FORM: form}}))
        else:
            self._metadata.add(inner)

    def finish(self, events: list[Event]) -> None:
        """Add what is known of calls only at their end."""
        for index, text in self._blank_inputs.items():
            if text is not None:
                inner = self._function_extras.get(index)
                form = {"arguments": text} | ({} if inner is None else {INNER: inner})
                events.append(ExtrasAdded(index, {NAME: {FORM: form}}))

    def _note_input(self, index: int, more: str) -> None:
        """Note the input of a custom tool as long as it is blank: text still, and never `{}`."""
        before = self._blank_inputs.get(index, "")
        self._blank_inputs[index] = None if before is None or more.strip() else before + more

    def _assign_index(self, call: Call) -> None:
        """Number a call of a whole answer, where each is one; of two with one id, one loses it.

        Nobody could answer them one by one.
        """
        call.index = self._count
        self._count += 1
        if self._indexes_by_id.setdefault(call.id or "", call.index) != call.index:
            call.id = None

    def _add_function_extras(self, index: int, inner: Rest) -> dict[str, Any]:
        """Return extras with all that was told of the function of a call; after too much, none."""
        known = self._function_extras.setdefault(index, {})
        if len(known) >= _MOST_INNER or known.keys() >= inner.keys():
            self._metadata.add(inner)
            return {}
        known |= parsed_extras(inner)
        return {FORM: {INNER: dict(known)}}

    def _find_index(self, id: str | None, name: str | None) -> int:
        """Return an index for a call that came without one, for what else is told of it."""
        if id or name:
            self._latest_index = self._indexes_by_id.get(id or "")
        if self._latest_index is None:
            self._latest_index = _UNPLACED + self._unindexed_count
            self._unindexed_count += 1
        if id:
            self._indexes_by_id[id] = self._latest_index
        return self._latest_index


def _arguments(call: Function) -> str | None:
    """Return the arguments of a call; an object, where a string is due, is taken as its text."""
    inner = call.rest or {}
    return text_of(inner.pop("arguments")) if "arguments" in inner else call.arguments


def _take_text(members: Rest, name: str) -> str | None:
    """Take a text out of members; what else stands there as the JSON that it is."""
    raw = members.pop(name, NULL)
    text = read_as(raw, str)
    return text_of(raw) if text is None and raw != NULL else text
