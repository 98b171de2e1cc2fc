"""Approvers that need no terminal: a function of the program, and the two that always say the same."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, final

from steno.errors import InvalidValue
from steno.ports import ApprovalDecision, ApprovalRequest

ApprovalAnswer: TypeAlias = ApprovalDecision | bool
NO_APPROVER_REASON: Final = (
    "nobody is there to approve this; do without it, or let the user allow it by a rule"
)


@final
class CallbackApprover:
    """Asks a function, plain or async; `True` and `False` decide about this one call.

    A plain function is called in the event loop: one that waits for somebody should be async.
    """

    def __init__(
        self,
        function: Callable[[ApprovalRequest], ApprovalAnswer | Awaitable[ApprovalAnswer]],
        *,
        actor: str = "callback",
    ) -> None:
        """Take the function, and the name under which what it decides is recorded."""
        self._function = function
        self._actor = actor

    async def ask(self, question: ApprovalRequest) -> ApprovalDecision:
        """Return what the function decides. Raises InvalidValue for what is no verdict."""
        answer = self._function(question)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, ApprovalDecision):
            return answer
        if isinstance(answer, bool):
            return ApprovalDecision(allowed=answer, actor=self._actor)
        # Anything else that is true in Python's eyes must not pass for a yes.
        kind = type(answer).__name__
        raise InvalidValue(f"approver: the function must return a Verdict or a bool, not {kind}")


@final
class DenyingApprover:
    """Says no: what would be asked is denied where nobody can be asked."""

    def __init__(self, reason: str = NO_APPROVER_REASON, *, actor: str = "headless") -> None:
        """Take what the model is told, and who is on record as having said so."""
        self._decision = ApprovalDecision(allowed=False, actor=actor, reason=reason)

    async def ask(self, question: ApprovalRequest) -> ApprovalDecision:
        """Deny it."""
        return self._decision


@final
class AllowingApprover:
    """Says yes to each call that is asked about, and to nothing beyond it.

    What mode, role and deny rules forbid is never asked.
    """

    def __init__(self, *, actor: str = "--yes") -> None:
        """Take who is on record as having said so."""
        self._decision = ApprovalDecision(allowed=True, actor=actor)

    async def ask(self, question: ApprovalRequest) -> ApprovalDecision:
        """Allow it, once."""
        return self._decision
