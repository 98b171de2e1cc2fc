"""Who decides about a call that no rule decides about, and where wider decisions are kept."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Protocol, final

from steno.call import ToolCall
from steno.ports.tool import Capability
from steno.value import Quiet


class Scope(StrEnum):
    """How far a decision reaches."""

    ONCE = "once"
    SESSION = "session"
    PROJECT = "project"
    USER = "user"


@final
class Question(Quiet, frozen=True, kw_only=True):
    """A call that somebody has to decide about, with what there is to know about it."""

    shown: ClassVar[frozenset[str]] = frozenset({"capability"})

    call: ToolCall
    capability: Capability
    subjects: tuple[str, ...] = ()
    preview: str = ""
    """What the call would do, for people to read; may hold anything that a model wrote."""
    rule: str = ""
    """A rule that would cover this call and its like: `bash(git log *)`. Empty if none should."""


@final
class Verdict(Quiet, frozen=True, kw_only=True):
    """What was decided, and by whom."""

    shown: ClassVar[frozenset[str]] = frozenset({"allowed", "actor", "scope", "rule"})

    allowed: bool
    actor: str
    """The person or program that decided; for the record."""
    scope: Scope = Scope.ONCE
    rule: str | None = None
    """What is allowed from now on, where the scope is wider than once; that of the question if None."""
    reason: str | None = None


class Approver(Protocol):
    """Decides about calls, by asking a person or otherwise."""

    async def ask(self, question: Question) -> Verdict:
        """Return a verdict. While it waits, the question is on record as pending."""
        ...


class Grants(Protocol):
    """Rules that a person has allowed beyond one session."""

    def rules(self) -> tuple[str, ...]:
        """Return what is allowed for this project and this user."""
        ...

    def add(self, rule: str, scope: Scope) -> None:
        """Allow a rule for the project or for the user from now on. Raises Unavailable."""
        ...
