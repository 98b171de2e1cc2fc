"""Every exception of steno, in one tree that says who has to act.

    StenoError
    └── InvalidValue (ValueError)   something was built or loaded against a rule
        ├── InvalidMessage            a message or one of its blocks
        ├── InvalidTool               a tool definition, name or result
        │   └── InvalidArguments        arguments that do not fit their schema or type
        ├── InvalidRequest            what was to be sent to a model
        ├── OutOfOrder                a message that may not stand where it was put
        └── InvalidDocument           stored JSON that is not JSON or not ours
            └── UnsupportedVersion      written by a newer steno

An exception names the rule and the place, never the content: it may end up in a log
that fewer people should read than the conversation.
"""

from __future__ import annotations

from typing import NamedTuple


class StenoError(Exception):
    """The root of every error that steno raises on purpose."""


class InvalidValue(StenoError, ValueError):
    """A value breaks a rule of the vocabulary; nothing was created."""


class InvalidMessage(InvalidValue):
    """A message or a content block breaks a rule."""


class InvalidTool(InvalidValue):
    """A tool definition, a tool name or a tool result breaks a rule."""


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

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("arguments do not fit: " + "; ".join(map(str, problems)))
        self.problems = problems

    def __reduce__(self) -> tuple[type[InvalidArguments], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


class InvalidRequest(InvalidValue):
    """A request breaks a rule that holds for every provider."""


class OutOfOrder(InvalidValue):
    """A message may not stand at this place; the history is as it was before."""

    def __init__(self, code: str, explanation: str) -> None:
        super().__init__(f"{code}: {explanation}")
        self.code = code
        self.explanation = explanation

    def __reduce__(self) -> tuple[type[OutOfOrder], tuple[str, str]]:
        return type(self), (self.code, self.explanation)


class InvalidDocument(InvalidValue):
    """Stored data is not JSON, or not a document that steno knows."""


class UnsupportedVersion(InvalidDocument):
    """A document was written in a newer format than this steno reads."""
