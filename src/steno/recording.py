"""What is recorded of a conversation beside what is said: decisions, changes, names.

Everything here is an entry like any other; a `Conversation` brings the place to append it to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Any, TypeVar

from steno.call import AnyToolCall
from steno.entry import (
    Approval,
    ApprovalStatus,
    Entry,
    Label,
    Mode,
    ModeChange,
    ModelChange,
    Payload,
    Redacted,
)
from steno.errors import InvalidMessage, InvalidValue
from steno.message import ChatMessage, ToolResult
from steno.outcome import Outcome
from steno.repair import NO_RESULT
from steno.value import label as label_of

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
    def _append_built(
        self,
        make: Callable[[], Payload],
        *,
        decision: str | None = None,
        audit: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Put what `make` returns at the end of the active branch.

        Nothing is written between what `make` looks at and the entry. It may not write itself,
        and what it makes is no message.
        """

    @abstractmethod
    def entry(self, id: str | Entry) -> Entry:
        """Return one entry. Raises Missing."""

    @property
    @abstractmethod
    def outstanding(self) -> tuple[str, ...]:
        """Ids of the calls of the active branch that await their result."""

    @abstractmethod
    def outstanding_call(self, call_id: str) -> AnyToolCall:
        """Return a call of the active branch that awaits its result. Raises Missing."""

    @property
    @abstractmethod
    def mode(self) -> Mode:
        """The mode of the active branch."""

    @property
    @abstractmethod
    def model(self) -> str | None:
        """The model that answers on the active branch, if a change was ever recorded."""

    def decide(
        self,
        call_id: str,
        status: ApprovalStatus | str,
        *,
        actor: str | None = None,
        rule: str | None = None,
        reason: str | None = None,
        audit: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Record a decision about an outstanding call, bound to exactly its arguments.

        What else was decided with it, or led to it, goes into `audit`. Raises Missing if no call
        of the active branch awaits a result under this id.
        """
        decided = _member(ApprovalStatus, status)

        def approval() -> Approval:
            return Approval(
                call_id=call_id,
                status=decided,
                arguments_sha256=arguments_digest(self.outstanding_call(call_id)),
                actor=actor,
                rule=rule,
                reason=reason,
            )

        return self._append_built(approval, decision=str(decided), audit=audit)

    def change_mode(self, new: Mode | str) -> Entry:
        """Record that from here on the agent may look (plan) or also change things (act)."""
        mode = _member(Mode, new)
        return self._append_built(lambda: ModeChange(old=self.mode, new=mode))

    def change_model(self, new: str) -> Entry:
        """Record that another model answers from here on."""
        return self._append_built(lambda: ModelChange(old=self.model or "", new=new))

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


def check_payload(payload: object) -> None:
    """Refuse what people take for something that can be appended. Raises InvalidMessage."""
    if isinstance(payload, str):
        raise InvalidMessage("conversation: text is said by somebody; ChatMessage.user(text)?")
    if isinstance(payload, dict):
        raise InvalidMessage("conversation: use ChatMessage.user(…) or steno.formats, not dict")
    if isinstance(payload, Redacted):
        raise InvalidMessage("conversation: content is taken out by a store, with `redact`")


def arguments_digest(call: AnyToolCall) -> str:
    """Return the SHA-256 of exactly the arguments of a call, to which a decision is bound."""
    return sha256(call.arguments.encode()).hexdigest()


def _member(kind: type[E], value: E | str) -> E:
    """Return the member of an enumeration that a word names. Raises InvalidValue."""
    try:
        return kind(value)
    except ValueError:
        words = ", ".join(kind)
        raise InvalidValue(f"{label_of(kind)}: must be one of {words}") from None
