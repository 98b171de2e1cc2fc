"""Read one row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

import msgspec

from steno.call import build_call
from steno.content import Opaque, Text
from steno.entry import Payload
from steno.errors import InvalidDocument
from steno.formats.text import (
    Object,
    object_at,
    payload_at,
    reading,
    string_at,
    write,
)
from steno.json_object import is_json_text
from steno.message import AssistantMessage, Message, ToolResultMessage, UserMessage
from steno.outcome import Outcome

NAME: Final = "rows"


def message_of_row(row: Mapping[str, Any]) -> Message | None:
    """Return the message that one row is; None for one that is no message of its own.

    None are system rows, which go to the system prompt, kinds that are not conversation, and
    what a user said if it is blank. `data_json` may be text or parsed. Raises InvalidDocument.
    """
    try:
        raw = {str(name): write(value) for name, value in row.items()}
    except (TypeError, UnicodeError, RecursionError):
        raise InvalidDocument("row: must be plain JSON") from None
    return Row("row", raw).message()


@final
class Row:
    """One row as it is read."""

    def __init__(self, place: str, columns: Object, raw: bytes = b"", number: int = 0) -> None:
        self.place = place
        self.columns = columns
        self.raw = raw
        self.number = number
        kind = string_at(columns.get("kind"), f"{place}.kind")
        if kind is None:
            raise InvalidDocument(f"{place}.kind: must be a string")
        self.kind = kind

    def id(self) -> str | None:
        """Return what the row is called, if it is."""
        raw = self.columns.get("id", b"null")
        try:
            found = msgspec.json.decode(raw, type=str | int | None)
        except msgspec.MsgspecError:
            return None
        return None if found in (None, "") else str(found)

    def text(self) -> str:
        """Return the content; empty where it is null."""
        return string_at(self.columns.get("content"), f"{self.place}.content") or ""

    def message(self) -> Message | None:
        """Return the message that this row is. Raises InvalidDocument."""
        if self.kind not in _KINDS:
            return None
        data = self._data()
        with reading(self.place):
            match self.kind:
                case "user":
                    text = self.text()
                    return UserMessage((Text(text),)) if text.strip() else None
                case "assistant":
                    return AssistantMessage(content=(Text(self.text()),))
                case "tool_call":
                    return self._call(data)
                case "tool_result" | "tool":
                    return self._result(data)
                case _:
                    return None

    def _data(self) -> bytes:
        """Return what stands in data_json; null where nothing does. Raises InvalidDocument."""
        raw = self.columns.get("data_json", b"null")
        if not raw.startswith(b'"'):
            return raw
        text = string_at(raw, f"{self.place}.data_json") or "null"
        if not is_json_text(text):
            raise InvalidDocument(f"{self.place}.data_json: must be JSON")
        return text.strip().encode()

    def _members(self, data: bytes) -> tuple[Object, str]:
        """Return what is known of a call or a result, and the id that ties them together."""
        place = f"{self.place}.data_json"
        members = object_at(data, place)
        id = string_at(members.get("tool_call_id"), f"{place}.tool_call_id")
        if not id:
            raise InvalidDocument(f"{place}.tool_call_id: must be a string, and not empty")
        return members, id

    def _call(self, data: bytes) -> AssistantMessage:
        members, id = self._members(data)
        name = string_at(members.get("name"), f"{self.place}.data_json.name")
        if name is None:
            raise InvalidDocument(f"{self.place}.data_json.name: must be a string")
        arguments = _text_of(members.get("arguments", b"null"))
        return AssistantMessage(content=(build_call(id, name, arguments),))

    def _result(self, data: bytes) -> ToolResultMessage:
        members, id = self._members(data)
        success = members.get("success", b"true")
        if success not in (b"true", b"false"):
            raise InvalidDocument(f"{self.place}.data_json.success: must be true or false")
        output = members.get("output")
        name = string_at(members.get("name"), f"{self.place}.data_json.name")
        return ToolResultMessage(
            tool_call_id=id,
            content=(Text(self.text() if output is None else _text_of(output)),),
            outcome=Outcome.OK if success == b"true" else Outcome.ERROR,
            tool_name=name or "",
        )

    def to_other_payload(self) -> Payload:
        """Return what is no message: an entry of ours, or a row that only others understand."""
        theirs = Opaque(kind=self.kind, raw=self.raw.decode(), origin=NAME)
        try:
            data = self._data()
            if b'"type":' + msgspec.json.encode(self.kind) not in data:
                return theirs  # what we wrote says what it is
            payload = payload_at(data, self.place)
        except InvalidDocument:
            return theirs
        is_ours = payload.__struct_config__.tag == self.kind and not isinstance(payload, Message)
        return payload if is_ours else theirs


_KINDS: Final = frozenset({"system", "user", "assistant", "tool_call", "tool_result", "tool"})


def _text_of(raw: bytes) -> str:
    """Return what a string says, nothing for null, and other JSON as its text."""
    if raw.startswith(b'"'):
        return msgspec.json.decode(raw, type=str)
    return "" if raw == b"null" else raw.decode()
