"""Every exception of steno, in one tree that shows who has to act.

    StenoError
    ├── InvalidValue (ValueError)   a value breaks a rule; nothing was created
    │   ├── InvalidMessage            a message or one of its blocks
    │   ├── InvalidTool               a tool definition, name or result
    │   │   └── InvalidArguments        arguments that do not fit their schema or type
    │   ├── InvalidRequest            a request to a model
    │   ├── OutOfOrder                a message that may not come at its place
    │   └── InvalidDocument           stored data that is not JSON or not ours
    │       └── UnsupportedVersion      written by a newer steno
    ├── ProtocolError               bytes that their wire format does not allow
    │   └── CutShort                  a stream that ended before the response was complete
    ├── ProviderError               a provider refused a request, or failed
    │   ├── AuthenticationFailed      the key is missing, wrong, or lacks a permission
    │   ├── NotFound                  no such model or endpoint
    │   ├── ContextOverflow           more tokens than the context window of the model
    │   ├── RateLimited               too many requests in too short a time, or no credit left
    │   ├── Overloaded                the provider is busy or down; a later request may succeed
    │   └── Unreachable               no response: connection, proxy, certificate, timeout
    ├── LogError                    the log or its store failed; nothing was changed
    │   ├── Missing                   no such session, branch, entry or blob
    │   ├── Conflict                  another writer was first
    │   ├── Damaged                   stored data is not what was written
    │   └── Unavailable               the store cannot be read or written: disk, permissions, server
    ├── ToolFailed                  a tool call failed; the message is for the model
    ├── Unresolved                  a reference in a message could not be opened; nothing was sent
    ├── Unrecognised                text in an image could not be recognised
    └── ServerFailed                an MCP server did not start, refused a request, or stopped

Every error has a `code` for programs. An exception names the rule and the place, never the
content: it may end up in a log that more people can read than the conversation.
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
    """The root of every error that steno raises on purpose.

    `code` names the problem for programs, and stays the same from release to release. The
    message is for people, and its wording may change. `place` names the field, message, file or
    part of steno that the error is about.
    """

    code: str = "error"

    def __init__(self, message: str = "", *, code: str | None = None, place: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.message = message
        self.place = place
        if code is not None:
            self.code = code

    def text_unless_at(self, *places: str) -> str:
        """Return the text, without its place if that is one of `places`, which the caller names."""
        return self._with_facts(self.message) if self.place in places else str(self)

    def _with_facts(self, text: str) -> str:
        """Return a text followed by the facts of this error, such as an HTTP status."""
        return text


class InvalidValue(StenoError, ValueError):
    """A value breaks a rule of the vocabulary; nothing was created.

    `field` is the field that breaks it, with the index of an element (`content[1]`); it is empty
    if the rule is about the value as a whole.
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
    """The place as a JSON pointer (RFC 6901); the empty string is the whole value."""
    rule: str
    """The expectation, as text that a model can act on; it never quotes the value."""

    def __str__(self) -> str:
        return f"{self.pointer or '(the whole value)'}: {self.rule}"


class InvalidArguments(InvalidTool):
    """The arguments of a tool call do not fit; `problems` lists where and why."""

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
    """A message may not come at this place; the history is unchanged.

    `position` is the index of the message; None if it is not known.
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
    """Stored data is not JSON, or not a document that steno knows."""

    code = "invalid_document"


class UnsupportedVersion(InvalidDocument):
    """A document was written in a newer format than this steno reads."""

    code = "unsupported_version"


# -- wires and providers ---------------------------------------------------------------------


class ProtocolError(StenoError):
    """A provider sent bytes that its own format does not allow; earlier events stay valid."""

    code = "protocol_error"

    retryable = False


class CutShort(ProtocolError):
    """A stream ended before the response was complete; earlier events stay valid."""

    code = "stream_truncated"

    retryable = True


class ProviderError(StenoError):
    """A provider refused a request, or failed during its response.

    The message quotes the provider, because the caller could not act without it.
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
        """The HTTP status; 200 if the error arrived inside a response that had begun normally."""
        self.provider_type = provider_type
        self.provider_code = provider_code
        """The provider's own names for the error, as it sent them."""
        self.request_id = request_id
        self.retryable = retryable
        """Whether the same request may succeed later."""
        self.retry_after_s = retry_after_s
        """The number of seconds that the provider asks to wait, or None."""

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
    """There is no such model or endpoint."""

    code = "not_found"


class ContextOverflow(ProviderError):
    """The request has more tokens than the context window of the model."""

    code = "context_overflow"


class RateLimited(ProviderError):
    """Too many requests in too short a time, or no credit left."""

    code = "rate_limited"


class Overloaded(ProviderError):
    """The provider is busy or down; the same request may succeed later."""

    code = "overloaded"


class Unreachable(ProviderError):
    """No response arrived: connection, proxy, certificate or timeout."""

    code = "unreachable"


# -- the log and its stores ------------------------------------------------------------------


class LogError(StenoError):
    """The log of a conversation, or its store, could not read or write.

    Nothing was changed: the new data is not stored, and the old data is as it was.
    """

    code = "log_error"


class Missing(LogError):
    """There is no such session, branch, entry or blob."""

    code = "missing"


class Conflict(LogError):
    """Another writer was first: the branch has a newer entry, or the name is taken.

    `Conversation.refresh` reads the new entries.
    """

    code = "conflict"


class Damaged(LogError):
    """Stored data is not what was written."""

    code = "damaged"


class Unavailable(LogError):
    """The store cannot be read or written: the disk is full, the folder read-only, the server gone."""

    code = "unavailable"


# -- tools -----------------------------------------------------------------------------------


class ToolFailed(StenoError):
    """A tool call failed. The message is for the model, and may repeat its arguments.

    `recoverable` is true if another call, with other arguments or later, may succeed.
    """

    code = "tool_failed"

    def __init__(
        self, message: str, *, recoverable: bool = True, code: str | None = None, place: str = ""
    ) -> None:
        super().__init__(message, code=code, place=place)
        self.recoverable = recoverable


# -- references and servers ------------------------------------------------------------------


class Unresolved(StenoError):
    """A reference in a message could not be opened. Nothing was sent; the user may send it again."""

    code = "unresolved"


class Unrecognised(StenoError):
    """An OCR engine is not installed, or failed; the message names the remedy."""

    code = "unrecognised"


class ServerFailed(StenoError):
    """An MCP server could not be started, refused a request, or stopped during one."""

    code = "server_failed"


# -- optional parts --------------------------------------------------------------------------


def install_command(extra: str) -> str:
    """Return the command that installs an optional part of steno."""
    return f"pip install 'steno-agent[{extra}]'"  # the distribution is not named like the package


class MissingExtra(ImportError):
    """An optional part of steno is not installed; `extra` names it, as in `steno-agent[http]`.

    It is not a StenoError: no caller handles an error of the installation.
    """

    code = "missing_extra"

    def __init__(self, message: str, *, extra: str) -> None:
        super().__init__(f"{message}: {install_command(extra)}")
        self.message = message
        self.extra = extra

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.message, extra=self.extra), ()
