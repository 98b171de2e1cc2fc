"""What is recorded of a conversation beside what is said: decisions, changes, names.

Everything here is an entry like any other; a `Conversation` brings the place to append it to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Any, TypeVar

from steno.entry import (
    Approval,
    ApprovalStatus,
    Entry,
    Label,
    Mode,
    ModeChange,
    ModelChange,
    Payload,
)
from steno.errors import InvalidValue, Missing
from steno.message import ChatMessage, ToolResult
from steno.outcome import Outcome
from steno.repair import NO_RESULT
from steno.value import label as label_of
from steno.views import mode_of, model_of

E = TypeVar("E", bound=StrEnum)


class Recording(ABC):
    """Appends entries that are no messages, and results of calls that nobody will answer."""

    @abstractmethod
    def append(
        self,
        payload: Payload | ChatMessage,
        *,
        branch: str | None = None,
        decision: str | None = None,
        audit: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Put a payload at the end of a branch, and return its entry."""

    @abstractmethod
    def entries(self, branch: str | None = None) -> tuple[Entry, ...]:
        """Return the entries of a branch."""

    @abstractmethod
    def entry(self, id: str | Entry) -> Entry:
        """Return one entry. Raises Missing."""

    @property
    @abstractmethod
    def outstanding(self) -> tuple[str, ...]:
        """Ids of the calls of the active branch that await their result."""

    def decide(
        self,
        call_id: str,
        status: ApprovalStatus | str,
        *,
        actor: str | None = None,
        rule: str | None = None,
        reason: str | None = None,
    ) -> Entry:
        """Record a decision about an outstanding call, bound to exactly its arguments.

        Raises Missing if no call of the active branch awaits a result under this id.
        """
        waiting = call_id in self.outstanding
        for entry in reversed(self.entries()) if waiting else ():
            for call in () if entry.message is None else entry.message.tool_calls:
                if call.id == call_id:
                    approval = Approval(
                        call_id=call_id,
                        status=_member(ApprovalStatus, status),
                        arguments_sha256=sha256(call.arguments.encode()).hexdigest(),
                        actor=actor,
                        rule=rule,
                        reason=reason,
                    )
                    return self.append(approval, decision=str(approval.status))
        raise Missing("decide: no outstanding call has this id")

    def change_mode(self, new: Mode | str) -> Entry:
        """Record that from here on the agent may look (plan) or also change things (act)."""
        return self.append(ModeChange(old=mode_of(self.entries()), new=_member(Mode, new)))

    def change_model(self, new: str) -> Entry:
        """Record that another model answers from here on."""
        return self.append(ModelChange(old=model_of(self.entries()) or "", new=new))

    def label(self, target: str | Entry, text: str) -> Entry:
        """Give an entry a name. Raises Missing if there is no such entry."""
        return self.append(Label(target=self.entry(target).id, text=text))

    def answer_outstanding(self, text: str = NO_RESULT) -> tuple[Entry, ...]:
        """Answer the calls of an interrupted turn, so that the conversation can go on.

        Each gets a result that was cancelled, and says `text` to the model.
        """
        return tuple(
            [
                self.append(ToolResult.error(call_id, text, outcome=Outcome.CANCELLED))
                for call_id in self.outstanding
            ]
        )


def _member(kind: type[E], value: E | str) -> E:
    """Return the member of an enumeration that a word names. Raises InvalidValue."""
    try:
        return kind(value)
    except ValueError:
        words = ", ".join(kind)
        raise InvalidValue(f"{label_of(kind)}: must be one of {words}") from None
