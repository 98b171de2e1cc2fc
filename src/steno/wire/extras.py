"""Extras of requests: members that a value carries for one wire only.

Extras add members to the fields of a value and never replace a field. An empty member that is
left out is not a loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from steno.errors import InvalidRequest
from steno.json_object import JsonObject, raw_members
from steno.messages.request import Request
from steno.values import Sendable

Members: TypeAlias = dict[str, Any]
"""The members of a JSON object, as Python values."""
FORM_KEY: Final = "$form"
"""The member of extras with notes on how a value was written, if a protocol has several ways."""
RESERVED_PREFIX: Final = "$"
"""The prefix of names in extras that only steno writes."""
_STREAMS_BY_DEFAULT: Final = {
    "anthropic_messages": False,
    "ollama_chat": True,
    "openai_chat": False,
    "openai_responses": False,
}
"""Whether a wire streams a response by default; wires whose body has no such flag are absent."""


def get_extras(value: Sendable, wire: str) -> Mapping[str, Any]:
    """Return the members that `value` carries for a wire, without copying them."""
    found = None if value.extras is None else value.extras.get(wire)
    return raw_members(found) if isinstance(found, JsonObject) else {}


def pop_object(extras: Members, name: str) -> Members:
    """Take out the members of an object under a name; a value of another type stays."""
    inner = extras.get(name)
    if not isinstance(inner, dict):
        return {}
    del extras[name]
    return inner


def pop_form(extras: Members) -> Members:
    """Take the notes on how a value was written out of its extras."""
    form = extras.pop(FORM_KEY, None)
    return form if isinstance(form, dict) else {}


def get_form(value: Sendable, wire: str) -> Members:
    """Return the notes on how a value was written where it was recorded."""
    form = get_extras(value, wire).get(FORM_KEY)
    return form if isinstance(form, dict) else {}


def check_reserved_extras(values: Iterable[object], wire: str, *, at: str) -> None:
    """Raise InvalidRequest if values that cannot be written have extras under reserved names.

    Only steno writes these, so a caller's own ones are the cause of the failure.
    """
    for value in values:
        if isinstance(value, Sendable):
            names = [name for name in get_extras(value, wire) if name.startswith(RESERVED_PREFIX)]
            if names:
                raise InvalidRequest(
                    f"the extras for {wire} contain an invalid {names[0]}, a name reserved for"
                    " steno; remove it",
                    code="reserved_extras",
                    place=at,
                )


def replace_extras(request: Request, wire: str, members: Mapping[str, Any]) -> Request:
    """Return the request with these extras for a wire."""
    return msgspec.structs.replace(request, extras={**(request.extras or {}), wire: members})


def pop_stream_flag(request: Request, wire: str) -> tuple[Request, bool | None]:
    """Take the flag for a streamed response out of the extras; None if there is none."""
    members = dict(get_extras(request, wire))
    stream = members.pop("stream", None)
    if not isinstance(stream, bool):
        return request, None
    return replace_extras(request, wire, members), stream


def is_streamed(stream: bool | None, wire: str) -> bool | None:
    """Return whether a body asks for a streamed response, by its flag or by default.

    None if the body has no such flag: Gemini selects streaming by the URL.
    """
    return _STREAMS_BY_DEFAULT.get(wire) if stream is None else stream


def is_nonempty(member: object) -> bool:
    """Return whether a member is more than null, `""`, `[]` or `{}`."""
    return member not in (None, "", [], {})
