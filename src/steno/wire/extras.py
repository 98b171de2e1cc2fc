"""Extras: JSON members that a value carries for one wire only.

Extras are sent in addition to the fields of a value and never replace a field. Omitting an empty
member is not a loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from steno.errors import InvalidRequest
from steno.json_object import JsonObject, raw_members
from steno.messages.request import Request
from steno.values import FORM_KEY, Sendable

Members: TypeAlias = dict[str, Any]
"""The members of a JSON object, as Python values."""
RESERVED_PREFIX: Final = "$"
"""The prefix of names in extras that only steno writes."""
_STREAMS_BY_DEFAULT: Final = {
    "anthropic_messages": False,
    "ollama_chat": True,
    "openai_chat": False,
    "openai_responses": False,
}
"""Whether responses are streamed by default; wires whose body has no `stream` flag are absent."""


def get_extras(value: Sendable, wire: str) -> Mapping[str, Any]:
    """Return the extras of `value` for a wire, without copying them."""
    found = None if value.extras is None else value.extras.get(wire)
    return raw_members(found) if isinstance(found, JsonObject) else {}


def pop_object(extras: Members, name: str) -> Members:
    """Remove and return an object from extras; {} if the value is absent or of another type."""
    inner = extras.get(name)
    if not isinstance(inner, dict):
        return {}
    del extras[name]
    return inner


def pop_form(extras: Members) -> Members:
    """Remove and return the notes on the recorded form of a value; empty if there are none."""
    form = extras.pop(FORM_KEY, None)
    return form if isinstance(form, dict) else {}


def get_form(value: Sendable, wire: str) -> Members:
    """Return the notes on the recorded form of a value; empty if there are none."""
    form = get_extras(value, wire).get(FORM_KEY)
    return form if isinstance(form, dict) else {}


def check_reserved_extras(values: Iterable[object], wire: str, *, at: str) -> None:
    """Raise InvalidRequest if a value has extras under a name that is reserved for steno.

    An encoder calls this after it failed, because such extras of a caller are the likely cause.
    """
    for value in values:
        if isinstance(value, Sendable):
            names = [name for name in get_extras(value, wire) if name.startswith(RESERVED_PREFIX)]
            if names:
                raise InvalidRequest(
                    f"the extras for {wire} contain an invalid {names[0]}; remove it, because the"
                    " name is reserved for steno",
                    code="reserved_extras",
                    place=at,
                )


def replace_extras(request: Request, wire: str, members: Mapping[str, Any]) -> Request:
    """Return the request with `members` as its extras for a wire."""
    return msgspec.structs.replace(request, extras={**(request.extras or {}), wire: members})


def pop_stream_flag(request: Request, wire: str) -> tuple[Request, bool | None]:
    """Return the request without the extra `stream`, and the value of that extra.

    If the extra is missing or not a boolean, return the unchanged request and None.
    """
    members = dict(get_extras(request, wire))
    stream = members.pop("stream", None)
    if not isinstance(stream, bool):
        return request, None
    return replace_extras(request, wire, members), stream


def is_streamed(stream: bool | None, wire: str) -> bool | None:
    """Return whether a request gets a streamed response, by its `stream` flag or by default.

    The result is None if the body has no such flag: Gemini selects streaming by the URL.
    """
    return _STREAMS_BY_DEFAULT.get(wire) if stream is None else stream


def is_nonempty(member: object) -> bool:
    """Return whether a member is not None, `""`, `[]` or `{}`."""
    return member not in (None, "", [], {})
