"""The exception hierarchy of steno.

    StenoError
    ├── InvalidValue (ValueError)   a value breaks a rule; nothing was created
    │   ├── InvalidMessage            a message or one of its blocks
    │   ├── InvalidTool               a tool definition, name or result
    │   │   └── InvalidArguments        arguments that do not fit their schema or type
    │   ├── InvalidRequest            a request to a model
    │   ├── OutOfOrder                a message that is not allowed at its position
    │   └── InvalidDocument           stored data that is not JSON or not a document of steno
    │       └── UnsupportedVersion      a format or layout that this version of steno cannot read
    ├── ProtocolError               bytes that violate the wire format of the provider
    │   └── CutShort                  a stream that ended before the response was complete
    ├── ProviderError               a provider refused a request, or failed
    │   ├── AuthenticationFailed      the key is missing, wrong, or lacks a permission
    │   ├── NotFound                  the model or the endpoint does not exist
    │   ├── ContextOverflow           more tokens than the context window of the model
    │   ├── RateLimited               too many requests in too short a time, or no credit left
    │   ├── Overloaded                the provider is busy or down; a later request may succeed
    │   └── Unreachable               no response (connection, proxy, certificate or timeout)
    ├── LogError                    the log or its store could not be read or written
    │   ├── Missing                   the session, branch, entry or blob does not exist
    │   ├── Conflict                  another writer extended the branch, or a name or id is taken
    │   ├── Damaged                   stored data differs from the data that was written
    │   └── Unavailable               the store cannot be read or written (disk, access, server)
    ├── ToolFailed                  a tool call failed; the message is for the model
    ├── Unresolved                  a reference in a message could not be opened; nothing was sent
    ├── Unrecognised                text in an image could not be recognised
    └── ServerFailed                an MCP server did not start, refused a request, or stopped

Every error has a `code` for programs. Except in ProviderError and ToolFailed, the message names
the rule and the place but never the content, because errors may end up in a log that more people
can read than the conversation.
"""

from __future__ import annotations

from functools import partial
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
    """The base class of the errors that steno raises.

    `code` identifies the problem for programs and is stable across releases. The message is
    human-readable, and its wording may change. `place` names the field, message, file or part of
    steno that the error concerns.
    """

    code: str = "error"

    def __init__(self, message: str = "", *, code: str | None = None, place: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.message = message
        self.place = place
        if code is not None:
            self.code = code

    def text_unless_at(self, *places: str) -> str:
        """Return the text of the error, without its place if the place is one of `places`.

        Callers pass the places that their own output already names.
        """
        return self._with_facts(self.message) if self.place in places else str(self)

    def _with_facts(self, text: str) -> str:
        """Return `text` followed by the details of this error, such as the HTTP status."""
        return text


class InvalidValue(StenoError, ValueError):
    """A value breaks a validation rule, so it was not created.

    `field` names the invalid field, with an index for an element (`content[1]`); it is empty if
    the rule concerns the whole value.
    """

    code = "invalid_value"

    def __init__(
        self, message: str = "", *, code: str | None = None, place: str = "", field: str = ""
    ) -> None:
        super().__init__(message, code=code, place=place)
        self.field = field


class InvalidMessage(InvalidValue):
    """A message or a content block breaks a rule."""

    code = "invalid_message"


class InvalidTool(InvalidValue):
    """A tool definition, a tool name or a tool result breaks a rule."""

    code = "invalid_tool"


class Problem(NamedTuple):
    """One way in which a value does not fit its schema or type."""

    pointer: str
    """The location as a JSON pointer (RFC 6901); the empty string means the whole value."""
    rule: str
    """The violated rule, worded so that a model can act on it; the value is never quoted."""

    def __str__(self) -> str:
        return f"{self.pointer or '(the whole value)'}: {self.rule}"


class InvalidArguments(InvalidTool):
    """The arguments of a tool call do not fit their schema or type; `problems` lists the errors."""

    code = "invalid_arguments"

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("invalid arguments: " + "; ".join(map(str, problems)))
        self.problems = problems

    def __reduce__(self) -> tuple[type[InvalidArguments], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


class InvalidRequest(InvalidValue):
    """A request breaks a rule that holds for every provider."""

    code = "invalid_request"


class OutOfOrder(InvalidValue):
    """A message is not allowed at its position; the history is unchanged.

    `position` is the index of the message; None if it is unknown.
    """

    code = "out_of_order"

    def __init__(self, code: str, explanation: str, position: int | None = None) -> None:
        place = "" if position is None else f"messages[{position}]"
        super().__init__(f"{code}: {explanation}", code=code, place=place)
        self.explanation = explanation
        self.position = position

    def __reduce__(self) -> tuple[type[OutOfOrder], tuple[str, str, int | None]]:
        return type(self), (self.code, self.explanation, self.position)


class InvalidDocument(InvalidValue):
    """Stored data is not JSON, or not a kind of document that steno reads."""

    code = "invalid_document"


class UnsupportedVersion(InvalidDocument):
    """A document or a store has a format or layout that this version of steno cannot read."""

    code = "unsupported_version"


# -- wires and providers ---------------------------------------------------------------------


class ProtocolError(StenoError):
    """A provider sent bytes that violate its wire format; earlier events stay valid."""

    code = "protocol_error"

    retryable = False


class CutShort(ProtocolError):
    """A stream ended before the response was complete; earlier events stay valid."""

    code = "stream_truncated"

    retryable = True


class ProviderError(StenoError):
    """A provider refused a request, or failed during its response.

    The message quotes the provider's error text, which the caller needs to resolve the problem.
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
        """The HTTP status; 200 if the error arrived within a response that began normally."""
        self.provider_type = provider_type
        self.provider_code = provider_code
        """The error code that the provider sent; `provider_type` is the error type that it sent."""
        self.request_id = request_id
        self.retryable = retryable
        """Whether the same request may succeed later."""
        self.retry_after_s = retry_after_s
        """The time that the provider asks clients to wait; None if the provider sent no time."""

    def __str__(self) -> str:
        return self._with_facts(super().__str__())

    def _with_facts(self, text: str) -> str:
        kind = self.provider_code or self.provider_type
        facts = [
            *([f"status {self.status}"] if self.status is not None else []),
            *([kind] if kind else []),
            *([f"request {self.request_id}"] if self.request_id else []),
        ]
        return f"{text} ({', '.join(facts)})" if facts else text

    def __reduce__(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        return type(self), self.args, self.__dict__


class AuthenticationFailed(ProviderError):
    """The key is missing or wrong, or lacks a permission."""

    code = "authentication_failed"


class NotFound(ProviderError):
    """The model or the endpoint does not exist."""

    code = "not_found"


class ContextOverflow(ProviderError):
    """The request has more tokens than the context window of the model."""

    code = "context_overflow"


class RateLimited(ProviderError):
    """The account sent too many requests in too short a time, or has no credit left."""

    code = "rate_limited"


class Overloaded(ProviderError):
    """The provider is busy or down; the same request may succeed later."""

    code = "overloaded"


class Unreachable(ProviderError):
    """No response arrived because of the connection, a proxy, a certificate or a timeout."""

    code = "unreachable"


# -- the log and its stores ------------------------------------------------------------------


class LogError(StenoError):
    """The log of a conversation or its store could not be read or written.

    The failed operation changed nothing, except that an erasure may be incomplete, and that a write
    may have been stored if the connection to PostgreSQL broke (`UnconfirmedWrite`).
    """

    code = "log_error"


class Missing(LogError):
    """The session, branch, entry or blob does not exist."""

    code = "missing"


class Conflict(LogError):
    """Another writer has already extended the branch, or a name or an id is already taken.

    Call `Conversation.refresh` to read the new entries.
    """

    code = "conflict"


class Damaged(LogError):
    """Stored data differs from the data that was written."""

    code = "damaged"


class Unavailable(LogError):
    """The store cannot be read or written, for example because the disk is full."""

    code = "unavailable"


# -- tools -----------------------------------------------------------------------------------


class ToolFailed(StenoError):
    """A tool call failed; the message is for the model and may quote the arguments of the call.

    `recoverable` is true if a later call, or a call with different arguments, may succeed.
    """

    code = "tool_failed"

    def __init__(
        self, message: str, *, recoverable: bool = True, code: str | None = None, place: str = ""
    ) -> None:
        super().__init__(message, code=code, place=place)
        self.recoverable = recoverable


# -- references and servers ------------------------------------------------------------------


class Unresolved(StenoError):
    """A reference in a message could not be opened, so the message was not sent."""

    code = "unresolved"


class Unrecognised(StenoError):
    """The OCR engine is not installed or failed; the message names the remedy."""

    code = "unrecognised"


class ServerFailed(StenoError):
    """An MCP server could not be started, refused a request, or stopped during one."""

    code = "server_failed"


# -- optional parts --------------------------------------------------------------------------


def install_command(extra: str) -> str:
    """Return the command that installs an optional part of steno."""
    return f"pip install 'steno-agent[{extra}]'"  # the distribution is not called "steno"


class MissingExtra(ImportError):
    """An optional part of steno is not installed; `extra` names it, as in `steno-agent[http]`.

    This class is not a StenoError, because callers are not expected to handle it.
    """

    code = "missing_extra"

    def __init__(self, message: str, *, extra: str) -> None:
        super().__init__(f"{message}: {install_command(extra)}")
        self.message = message
        self.extra = extra

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.message, extra=self.extra), ()
