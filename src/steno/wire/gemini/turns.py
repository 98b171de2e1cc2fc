"""Read contents: the turns of a recorded history, with calls and their results paired.

Ids are optional here: results belong to calls by id, else by name and order within the turn
before them. Ours always have one, so calls without get one that depends on nothing but their
number and the ids beside them; what really stood there is noted where it is something else.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, NamedTuple, final

import msgspec
from msgspec import Raw

from steno.call import AnyToolCall, InvalidToolCall, build_call
from steno.content import Text
from steno.errors import InvalidValue
from steno.message import (
    AssistantBlock,
    AssistantMessage,
    Message,
    ResultBlock,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from steno.outcome import Outcome
from steno.wire.extras import FORM
from steno.wire.gemini.parts import (
    CALL,
    RESULT,
    SIGNATURE,
    block_of,
    opaque_of,
    take_seal,
    text_of_user,
    words_of,
)
from steno.wire.gemini.shapes import LEGAL_NAME, NAME
from steno.wire.gemini.spelling import Fields
from steno.wire.open import text_of
from steno.wire.reading import NewIds, whole_message
from steno.wire.writing import Target

_USER_ROLES: Final = frozenset({None, "user", "function", "tool"})
_JSON: Final = "json"


class _Asked(NamedTuple):
    """A call that awaits its result."""

    id: str
    wire_id: str | None
    name: str


@final
class _Unanswered:
    """Calls that have no result yet: of those alike, the first is answered first."""

    def __init__(self) -> None:
        self._waiting_calls: dict[tuple[str, str | None], deque[_Asked]] = {}
        self._answered: set[str] = set()
        """The ids of those that wait under their other key for nothing."""

    def add(self, asked: _Asked) -> None:
        """Let a call wait, under the id that it came with and under its name."""
        if asked.wire_id:
            self._waiting_calls.setdefault(("id", asked.wire_id), deque()).append(asked)
        self._waiting_calls.setdefault(("name", asked.name), deque()).append(asked)

    def take(self, wire_id: str | None, name: str | None) -> _Asked | None:
        """Take out the call that a result answers, if there is one: by id, else by name."""
        for key in (("id", wire_id), ("name", name)):
            waiting = self._waiting_calls.get(key)
            while waiting:
                asked = waiting.popleft()
                if asked.id not in self._answered:
                    self._answered.add(asked.id)
                    return asked
        return None


class _Group(NamedTuple):
    """Parts of one content that become one message: a result, or whatever stands between them."""

    parts: list[Raw]
    is_result: bool


@final
class ContentsReader:
    """Reads contents one after the other."""

    def __init__(self, target: Target, new_ids: NewIds) -> None:
        """Take whom the seals are for, and who makes ids where there are none."""
        self._target = target
        self._new_ids = new_ids
        self._calls_by_id: dict[str, _Asked] = {}
        self._pending = _Unanswered()
        """The calls of the latest turn."""
        self._ends_in_result = False
        self._is_unsigned = True

    def read(self, raw: Raw, place: str) -> list[Message]:
        """Return the messages of a content. Raises InvalidRequest if it is not an object."""
        content = Fields(raw, place)
        role = content.take("role", str)
        parts = content.take_list("parts") or []
        messages: list[Message] = []
        try:
            if role == "model":
                messages = [self._read_model_content(content, parts)]
            elif role in _USER_ROLES and parts:
                if role != "user":
                    content.form["role"] = role
                messages = self._read_user_content(content, parts)
        except InvalidValue:
            messages = []
        self._ends_in_result = bool(messages) and isinstance(messages[-1], ToolResultMessage)
        return messages or [whole_message(content.raw, NAME)]

    # -- the model ---------------------------------------------------------------------------

    def _read_model_content(self, content: Fields, parts: list[Raw]) -> AssistantMessage:
        self._pending = _Unanswered()
        self._is_unsigned = True
        blocks = [self._read_model_block(raw) for raw in parts]
        return AssistantMessage(content=tuple(blocks), extras=content.extras())

    def _read_model_block(self, raw: Raw) -> AssistantBlock:
        part = Fields(raw, "part")
        call = part.take_object(CALL)
        if call is not None:
            return self._read_call(part, call)
        return words_of(raw, self._target) or block_of(raw, self._target)

    def _read_call(self, part: Fields, call: Fields) -> AnyToolCall:
        form = part.form
        wire_id, name = call.take("id", str), call.take("name", str)
        id = wire_id if wire_id and wire_id not in self._calls_by_id else self._new_ids.make()
        if id != wire_id:
            form["id"] = wire_id
        if not LEGAL_NAME.fullmatch(name or ""):
            form["name"] = name
        raw = call.take("args", Raw)
        arguments = "" if raw is None else text_of(raw)
        if arguments in ("", "null"):
            form["args"] = None if arguments else "absent"
            arguments = ""
        seal = take_seal(part, self._target)
        if self._is_unsigned and seal is None and SIGNATURE not in part:
            form["unsigned"] = self._target.model
        self._is_unsigned = False
        part.put_back(CALL, call)
        made = build_call(id, name or "", arguments, seal=seal, extras=part.extras())
        if isinstance(made, InvalidToolCall) and arguments:
            form["args"] = "verbatim"
            made = msgspec.structs.replace(made, extras=part.extras())
        self._calls_by_id[id] = _Asked(id, wire_id, name or "")
        self._pending.add(self._calls_by_id[id])
        return made

    # -- the user and tools ------------------------------------------------------------------

    def _read_user_content(self, content: Fields, parts: list[Raw]) -> list[Message]:
        messages: list[Message] = []
        after_result = self._ends_in_result
        for number, group in enumerate(_groups(parts)):
            # By itself a result joins the results before it, and nothing else joins anything.
            joins, would_join = number > 0, group.is_result and after_result
            form = {} if joins == would_join else {"content": "joined" if joins else "own"}
            whole = content if number == 0 else None
            if group.is_result:
                messages.append(self._read_result(group.parts[0], whole, form))
            else:
                messages.append(_user_message(group.parts, whole, form))
            after_result = group.is_result
        return messages

    def _read_result(self, raw: Raw, content: Fields | None, form: dict[str, Any]) -> ToolResultMessage:
        part = Fields(raw, "part")
        result = part.take_object(RESULT)
        assert result is not None
        wire_id, name = result.take("id", str), result.take("name", str)
        asked = self._find_call(wire_id, name)
        if wire_id != asked.wire_id:
            form["id"] = wire_id
        if name != asked.name:
            form["name"] = name
        blocks, outcome = _read_response(result, form)
        media = result.take_list("parts")
        if media is not None:
            blocks += map(block_of, media)
            if not media or result.form:
                form["media"] = "object" if media else "empty"
        if content is not None:
            form |= content.form
            if left := content.remaining():
                form["members"] = left
        part.form |= form
        part.put_back(RESULT, result)
        return ToolResultMessage(
            tool_call_id=asked.id,
            content=tuple(blocks),
            outcome=outcome,
            tool_name=name or "",
            extras=part.extras(),
        )

    def _find_call(self, wire_id: str | None, name: str | None) -> _Asked:
        """Find the call that a result answers: by id, else the first open one of that name."""
        found = self._pending.take(wire_id, name)
        if found is not None:
            return found
        id = wire_id or self._new_ids.make()
        return self._calls_by_id.get(id) or _Asked(id, id, name or "")


def _groups(parts: list[Raw]) -> list[_Group]:
    groups: list[_Group] = []
    for raw in parts:
        is_result = Fields(raw, "part").take_object(RESULT) is not None
        if is_result or not groups or groups[-1].is_result:
            groups.append(_Group([raw], is_result))
        else:
            groups[-1].parts.append(raw)
    return groups


def _user_message(parts: list[Raw], content: Fields | None, form: dict[str, Any]) -> UserMessage:
    blocks: list[UserBlock] = [text_of_user(raw) or block_of(raw) for raw in parts]
    if all(isinstance(block, Text) and not block.text.strip() for block in blocks):
        blocks = [opaque_of(raw) for raw in parts]  # blank text says nothing in our vocabulary
    if content is not None:
        content.form |= form
        return UserMessage(tuple(blocks), extras=content.extras())
    return UserMessage(tuple(blocks), extras={NAME: {FORM: form}} if form else None)


def _read_response(result: Fields, form: dict[str, Any]) -> tuple[list[ResultBlock], Outcome]:
    """Read what a tool gave back. By convention it is under `output`, a failure under `error`."""
    raw = result.take("response", Raw)
    if raw is None:
        form["response"] = "absent"
        return [], Outcome.OK
    try:
        members: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.ValidationError:
        members = {}
    outcome = Outcome.OK
    if members.get("error") is not None and "output" not in members:
        outcome = Outcome.ERROR
    text = members.get("error" if outcome is Outcome.ERROR else "output")
    if len(members) == 1 and isinstance(text, str) and (text or outcome is Outcome.OK):
        return [Text(text)], outcome
    form["response"] = _JSON
    return [Text(text_of(raw))], outcome
