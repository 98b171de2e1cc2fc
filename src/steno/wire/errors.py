"""Convert error responses of providers to exceptions.

Providers use five shapes of error body, and proxies add others; this module reads all of them, for
every wire. The status, type and code decide which exception is built and whether a retry may
succeed. The message text is used only to detect a context overflow, because several servers report
it in no other way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Any, Final, NamedTuple

import msgspec

from steno.errors import (
    AuthenticationFailed,
    ContextOverflow,
    NotFound,
    Overloaded,
    ProviderError,
    RateLimited,
)

_MAX_MESSAGE_CHARS: Final = 2_000
_MAX_TITLE_OFFSET: Final = 4_000
"""The number of characters at the start of an HTML page in which to search for its title."""
_TITLE: Final = re.compile(r"<title>([^<]*)</title>", re.IGNORECASE)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_CONTEXT_OVERFLOW: Final = re.compile(
    r"context.?(length|window|size)|maximum context|prompt is too long|too many (input )?tokens"
    r"|exceeds? the (available|maximum)",
    re.IGNORECASE,
)
_EMPTY_ERRORS: Final = frozenset({b"", b"null", b"false", b'""', b"{}", b"[]"})
"""Values of the member `error` that do not report an error."""
_STATUS_CODE: Final = re.compile(r"[45][0-9]{2}")
_RETRYABLE_STATUSES: Final = frozenset({408, 409, 425, 500, 502, 503, 504, 520, 522, 524, 529})
"""Statuses that allow a retry; Cloudflare sends 520, 522 and 524, and Anthropic sends 529."""
_NO_CREDIT_CODES: Final = frozenset(
    {"insufficient_quota", "billing_error", "billing_hard_limit_reached", "billing_not_active"}
)
"""Codes for an account without credit: a retry would fail, although the status is 429."""
_MESSAGE_FIELDS: Final = ("message", "detail", "details", "error_description", "msg")
_STATUS_OF_TYPE: Final = {
    **dict.fromkeys(("authentication_error", "unauthenticated"), 401),
    **dict.fromkeys(("permission_error", "permission_denied"), 403),
    **dict.fromkeys(("not_found_error", "not_found"), 404),
    **dict.fromkeys(("rate_limit_error", "rate_limit_exceeded", "resource_exhausted"), 429),
    **dict.fromkeys(("api_error", "server_error", "internal", "internalservererror"), 500),
    "unavailable": 503,
    **dict.fromkeys(("timeout_error", "deadline_exceeded"), 504),
    **dict.fromkeys(("overloaded_error", "overloaded"), 529),
}
"""The HTTP status that corresponds to an error type, for errors in a stream with status 200."""


class _ErrorBody(NamedTuple):
    """The fields that are read from an error body."""

    message: str
    type: str | None = None
    code: str | None = None
    request_id: str | None = None
    delay_s: float | None = None


def decode_error(
    status: int, body: bytes | str, headers: Mapping[str, str] | None = None
) -> ProviderError:
    """Build an exception from the status, body and headers of an error response."""
    named = {name.lower(): value for name, value in (headers or {}).items()}
    error = _read_body(body)
    # In a stream that began with status 200, only type and code indicate the kind of error.
    severity = status if status >= 400 else _infer_status(error)
    cls, retryable = _classify_error(severity, error)
    return cls(
        error.message or "the provider reported an error without a message",
        status=status,
        provider_type=error.type,
        provider_code=error.code,
        request_id=error.request_id
        or _first_header(named, "request-id", "x-request-id", "x-goog-request-id"),
        retryable=retryable,
        retry_after_s=_read_retry_after(named) if error.delay_s is None else error.delay_s,
    )


def decode_error_member(member: msgspec.Raw) -> ProviderError:
    """Build an exception from the member `error` of a response with status 200."""
    return decode_error(200, b'{"error":' + bytes(member) + b"}")


def is_error(member: msgspec.Raw | None) -> bool:
    """Return whether the member `error` reports an error; some servers send an empty one."""
    return member is not None and bytes(member) not in _EMPTY_ERRORS


def _classify_error(severity: int, error: _ErrorBody) -> tuple[type[ProviderError], bool]:
    kinds = {error.type, error.code}
    if "context_length_exceeded" in kinds or "exceed_context_size_error" in kinds:
        return ContextOverflow, False
    if severity in (400, 413, 422) and _CONTEXT_OVERFLOW.search(error.message):
        return ContextOverflow, False
    if severity in (401, 403):
        return AuthenticationFailed, False
    if severity == 404:
        return NotFound, False
    if severity in (402, 429):
        return RateLimited, severity == 429 and not kinds & _NO_CREDIT_CODES
    if severity >= 500:
        return Overloaded, severity in _RETRYABLE_STATUSES
    return ProviderError, severity in _RETRYABLE_STATUSES


def _infer_status(error: _ErrorBody) -> int:
    for kind in (error.code, error.type):
        if kind is None:
            continue
        if _STATUS_CODE.fullmatch(kind):  # vLLM and Google send the status as the code
            return int(kind)
        if kind.lower() in _STATUS_OF_TYPE:
            return _STATUS_OF_TYPE[kind.lower()]
    return 400


# -- bodies ----------------------------------------------------------------------------------


def _read_body(body: bytes | str) -> _ErrorBody:
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        text = body.decode(errors="replace") if isinstance(body, bytes) else body
        title = _TITLE.search(text, 0, _MAX_TITLE_OFFSET)
        return _ErrorBody(_clean_line(unescape(title[1]) if title else text))
    if isinstance(found, list) and found:  # Google, if the response is streamed as an array
        found = found[0]
    if not isinstance(found, dict):
        return _ErrorBody(_clean_line(str(found)))
    request_id = _clean_text(found.get("request_id"))
    error = found.get("error")
    if isinstance(error, str) and error:  # Ollama sends a string
        return _ErrorBody(_clean_line(error), request_id=request_id)
    # Older versions of vLLM send the fields without an `error` around them.
    fields: dict[str, Any] = error if isinstance(error, dict) else found
    message = next((fields[name] for name in _MESSAGE_FIELDS if fields.get(name)), "")
    return _ErrorBody(
        _clean_line(message if isinstance(message, str) else msgspec.json.encode(message).decode()),
        type=_clean_text(fields.get("type") or fields.get("status")),
        code=_clean_text(fields.get("code")),
        request_id=request_id,
        delay_s=_read_retry_delay(fields.get("details")),
    )


def _clean_text(value: object) -> str | None:
    return _clean_line(str(value)) or None if isinstance(value, (str, int)) else None


def _clean_line(text: str) -> str:
    """Return text as one line of limited length, without control characters."""
    line = _CONTROL.sub(" ", text).strip()
    return line if len(line) <= _MAX_MESSAGE_CHARS else line[:_MAX_MESSAGE_CHARS] + " …"


# -- headers ---------------------------------------------------------------------------------


def _first_header(headers: Mapping[str, str], *names: str) -> str | None:
    return next((_clean_line(headers[name]) for name in names if headers.get(name)), None)


def _read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the retry delay in seconds; None if no header states it.

    A date in `retry-after` is compared with the header `date`.
    """
    milliseconds = _parse_number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _parse_number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        moment, now = (parsedate_to_datetime(text) for text in (value, headers["date"]))
        return max(0.0, (moment - now).total_seconds())
    except (KeyError, ValueError, TypeError):
        return None


def _parse_number(text: str | None) -> float | None:
    if text is None or not text.strip().replace(".", "", 1).isdecimal():
        return None
    return float(text)


def _read_retry_delay(details: object) -> float | None:
    """Return the retry delay in seconds from the details of a Google error; None if it is missing.

    Google writes the delay as a string, such as "34s".
    """
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict):
            delay = detail.get("retryDelay")
            if isinstance(delay, str):
                return _parse_number(delay.removesuffix("s"))
    return None
