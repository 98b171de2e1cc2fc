"""Questions about calls that wait for the person at the desk.

A call is asked about when its turn comes; the person may decide about it before, since all calls
of a turn are on record by then. Nothing here decides anything, and nothing is recorded here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, final

from steno.agent.permission import granted_by
from steno.call import ToolCall
from steno.errors import Missing
from steno.ports import Question, Verdict
from steno.tui.desk import Pending


class _Open(NamedTuple):
    """A question that somebody waits for."""

    question: Question
    answer: asyncio.Future[Verdict]


@final
class Questions:
    """Asks whoever works at the desk (`steno.ports.Approver`)."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """Take whom to tell that something else is pending now."""
        self._changed = changed
        self._open: dict[str, _Open] = {}
        self._answered: set[str] = set()
        """What has an answer that whoever asked has not heard yet."""
        self._ahead: dict[str, tuple[ToolCall, Verdict]] = {}
        """What was decided before it was asked."""

    async def ask(self, question: Question) -> Verdict:
        """Wait until somebody has decided. Who is cancelled meanwhile has asked nothing."""
        call = question.call
        decided, verdict = self._ahead.pop(call.id, (None, None))
        if verdict is not None and decided == call:
            self._changed()
            return verdict
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._open[call.id] = _Open(question, answer)
        self._changed()
        try:
            return await answer
        finally:
            self._answered.discard(call.id)
            if self._open.pop(call.id, None) is not None:
                self._changed()

    def pending(self, waiting: Iterable[ToolCall]) -> list[Pending]:
        """Return what is asked, and behind it the calls that wait for their turn meanwhile."""
        asked = [Pending(one.question.call, one.question) for one in self._open.values()]
        known = self._open.keys() | self._answered
        behind = [call for call in waiting if call.id not in known] if asked else []
        return [*asked, *[Pending(call, None, call.id in self._ahead) for call in behind]]

    def decide(self, call_id: str, verdict: Verdict, waiting: Mapping[str, ToolCall]) -> None:
        """Answer a question, and others that the same rule covers; or keep it for later.

        Several may be decided in one go, in any order: what waits behind a question may be decided
        until whoever asked has heard the answer.

        Raises Missing if no call of this id awaits a decision, InvalidValue for a bad rule.
        """
        one = self._open.get(call_id)
        if one is None:
            is_due = bool(self._open or self._answered) and call_id in waiting
            if not is_due or call_id in self._answered:
                raise Missing("approval: no call of this id awaits a decision")
            self._ahead[call_id] = (waiting[call_id], verdict)
            self._changed()
            return
        rule = granted_by(verdict, one.question)
        self._answer(call_id, verdict)
        for id, other in list(self._open.items()):
            asked = other.question
            if rule is not None and rule.covers_all(
                asked.call.name, asked.capability, asked.subjects
            ):
                reason = f"the rule {rule} covers it"
                self._answer(id, Verdict(allowed=True, actor=verdict.actor, reason=reason))
        self._changed()

    def _answer(self, call_id: str, verdict: Verdict) -> None:
        answer = self._open.pop(call_id).answer
        self._answered.add(call_id)
        if not answer.done():  # else whoever asked was stopped, and has not noticed yet
            answer.set_result(verdict)

    def forget(self, call_id: str) -> None:
        """Drop what was decided about a call that has its result: its id may come again."""
        self._ahead.pop(call_id, None)

    def forget_all(self) -> None:
        """Drop everything that was decided and not asked: the run is over."""
        self._ahead.clear()
