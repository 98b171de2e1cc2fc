"""Every exception of steno, in one tree that says who has to act.

    StenoError
    ├── InvalidValue (ValueError)   something was built or loaded against a rule
    │   ├── InvalidMessage            a message or one of its blocks
    │   ├── InvalidTool               a tool definition, name or result
    │   │   └── InvalidArguments        arguments that do not fit their schema or type
    │   ├── InvalidRequest            what was to be sent to a model
    │   ├── OutOfOrder                a message that may not stand where it was put
    │   └── InvalidDocument           stored JSON that is not JSON or not ours
    │       └── UnsupportedVersion      written by a newer steno
    ├── ProtocolError               bytes that are not what their wire says they are
    │   └── CutShort                  a stream that ended before the model did
    ├── ProviderError               a provider said no, or failed
    │   ├── AuthenticationFailed      the key is missing, wrong, or may not do this
    │   ├── NotFound                  no such model or endpoint
    │   ├── ContextOverflow           more than the model can read at once
    │   ├── RateLimited               too much in too short a time, or no credit left
    │   ├── Overloaded                the provider is busy or down; later it may not be
    │   └── Unreachable               no answer: connection, proxy, certificate, time
    ├── LogError                    the log or its store could not do it; nothing was changed
    │   ├── Missing                   no such session, branch, entry or blob
    │   ├── Conflict                  somebody else was there first
    │   ├── Damaged                   what is stored is not what was written
    │   └── Unavailable               the store cannot be read or written: disk, rights, server
    ├── ToolFailed                  nothing came of a tool call, and the model should read why
    ├── Unresolved                  what a message points at could not be opened; nothing was sent
    ├── Unrecognised                text in an image could not be recognised; it says what to do
    └── ServerFailed                an MCP server could not be started, said no, or is gone

An exception names the rule and the place, never the content: it may end up in a log
that fewer people should read than the conversation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = [
    "AuthenticationFailed",
    "Conflict",
    "ContextOverflow",
    "CutShort",
    "Damaged",
    "InvalidArguments",
    "InvalidDocument",
    "InvalidMessage",
    "InvalidRequest",
    "InvalidTool",
    "InvalidValue",
    "LogError",
    "Missing",
    "NotFound",
    "OutOfOrder",
    "Overloaded",
    "Problem",
    "ProtocolError",
    "ProviderError",
    "RateLimited",
    "ServerFailed",
    "StenoError",
    "ToolFailed",
    "Unavailable",
    "Unreachable",
    "Unrecognised",
    "Unresolved",
    "UnsupportedVersion",
]


class StenoError(Exception):
    """The root of every error that steno raises on purpose.

    `code` says what is wrong in one word for programs: it stays the same from release to release.
    The message is for people, and its wording may change. `place` names what the message is about.
    """

    code: str = "error"

    def __init__(self, message: str = "", *, code: str | None = None, place: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.message = message
        self.place = place
        if code is not None:
            self.code = code


class InvalidValue(StenoError, ValueError):
    """A value breaks a rule of the vocabulary; nothing was created."""

    code = "invalid_value"


class InvalidMessage(InvalidValue):
    """A message or a content block breaks a rule."""

    code = "invalid_message"


class InvalidTool(InvalidValue):
    """A tool definition, a tool name or a tool result breaks a rule."""

    code = "invalid_tool"


class Problem(NamedTuple):
    """One way in which a value does not fit its schema or type."""

    pointer: str
    """Where: a JSON pointer (RFC 6901); the empty string is the whole value."""
    rule: str
    """What was expected, in words that a model can act on; never the value found."""

    def __str__(self) -> str:
        return f"{self.pointer or '(the whole value)'}: {self.rule}"


class InvalidArguments(InvalidTool):
    """The arguments of a tool call do not fit; `problems` says where and why."""

    code = "invalid_arguments"

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("arguments do not fit: " + "; ".join(map(str, problems)))
        self.problems = problems

    def __reduce__(self) -> tuple[type[InvalidArguments], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


class InvalidRequest(InvalidValue):
    """A request breaks a rule that holds for every provider."""

    code = "invalid_request"


class OutOfOrder(InvalidValue):
    """A message may not stand at this place; the history is as it was before.

    `position` is the index of the message, None where that is not known.
    """

    code = "out_of_order"

    def __init__(self, code: str, explanation: str, position: int | None = None) -> None:
        place = "" if position is None else f"messages[{position}]: "
        super().__init__(f"{place}{code}: {explanation}", code=code)
        self.explanation = explanation
        self.position = position

    def __reduce__(self) -> tuple[type[OutOfOrder], tuple[str, str, int | None]]:
        return type(self), (self.code, self.explanation, self.position)


class InvalidDocument(InvalidValue):
    """Stored data is not JSON, or not a document that steno knows."""

    code = "invalid_document"


class UnsupportedVersion(InvalidDocument):
    """A document was written in a newer format than this steno reads."""

    code = "unsupported_version"


# -- wires and providers ---------------------------------------------------------------------


class ProtocolError(StenoError):
    """A provider sent bytes that its own format does not allow; what came before them stands."""

    code = "protocol_error"

    retryable = False


class CutShort(ProtocolError):
    """A stream ended before the model had finished; what it said so far stands."""

    code = "stream_truncated"

    retryable = True


class ProviderError(StenoError):
    """A provider refused a request or failed while it answered.

    The explanation is the provider's own, since nobody could act without it.
    """

    code = "provider_error"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        provider_type: str | None = None,
        provider_code: str | None = None,
        request_id: str | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
        code: str | None = None,
        place: str = "",
    ) -> None:
        super().__init__(message, code=code, place=place)
        self.status = status
        """The HTTP status; 200 where the error came inside an answer that had begun well."""
        self.provider_type = provider_type
        self.provider_code = provider_code
        """The provider's own names for the error, as it sent them."""
        self.request_id = request_id
        self.retryable = retryable
        """Whether the same request may succeed later."""
        self.retry_after_s = retry_after_s
        """How long the provider asks to wait, if it said so."""

    def __str__(self) -> str:
        text = super().__str__()
        kind = self.provider_code or self.provider_type
        notes = [
            *([f"status {self.status}"] if self.status is not None else []),
            *([kind] if kind else []),
            *([f"request {self.request_id}"] if self.request_id else []),
        ]
        return f"{text} ({', '.join(notes)})" if notes else text

    def __reduce__(self) -> tuple[Any, tuple[str], dict[str, Any]]:
        return type(self), (self.message,), self.__dict__


class AuthenticationFailed(ProviderError):
    """The key is missing or wrong, or may not do this."""

    code = "authentication_failed"


class NotFound(ProviderError):
    """There is no such model or endpoint."""

    code = "not_found"


class ContextOverflow(ProviderError):
    """The request holds more than the model can read at once."""

    code = "context_overflow"


class RateLimited(ProviderError):
    """Too much in too short a time, or no credit left."""

    code = "rate_limited"


class Overloaded(ProviderError):
    """The provider is busy or down; the same request may succeed later."""

    code = "overloaded"


class Unreachable(ProviderError):
    """There was no answer: connection, proxy, certificate or time."""

    code = "unreachable"


# -- the log and its stores ------------------------------------------------------------------


class LogError(StenoError):
    """The log of a conversation, or the store that keeps it, could not do what was asked.

    Nothing was changed: what was to be written is not there, and what was there is as it was.
    """

    code = "log_error"


class Missing(LogError):
    """There is no such session, branch, entry or blob."""

    code = "missing"


class Conflict(LogError):
    """Somebody else was there first: the branch has moved on, or the name is taken.

    `Conversation.refresh` brings what they wrote.
    """

    code = "conflict"


class Damaged(LogError):
    """What is stored is not what was written."""

    code = "damaged"


class Unavailable(LogError):
    """The store cannot be read or written: the disk is full, the folder read-only, the server gone."""

    code = "unavailable"


# -- tools -----------------------------------------------------------------------------------


class ToolFailed(StenoError):
    """Nothing came of a tool call. The message is for the model, and may name what it named.

    `recoverable` tells whether another call, with other arguments or later, may do better.
    """

    code = "tool_failed"

    def __init__(
        self,
        message: str,
        *,
        recoverable: bool = True,
        code: str | None = None,
        place: str = "",
    ) -> None:
        super().__init__(message, code=code, place=place)
        self.recoverable = recoverable


# -- what a person points at -----------------------------------------------------------------


class Unresolved(StenoError):
    """What a message points at could not be opened, so nothing was sent; it may be said again."""

    code = "unresolved"


class Unrecognised(StenoError):
    """An engine for OCR is not installed, or failed; the message says what to do."""

    code = "unrecognised"


class ServerFailed(StenoError):
    """An MCP server could not be started, said no, or went away in the middle."""

    code = "server_failed"
