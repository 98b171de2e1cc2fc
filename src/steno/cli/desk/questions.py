"""Questions about calls that wait for the person at the desk.

A call is asked about when its turn comes; the person may decide about it before, since all calls
of a turn are on record by then. Who allowed a call and saw what it would do has allowed that: if
it would do something else by the time it is asked about, it is asked about all the same.

Nothing here decides anything, and nothing is recorded here.
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


class _Ahead(NamedTuple):
    """What was decided before it was asked."""

    call: ToolCall
    verdict: Verdict
    seen: str | None
    """What the call would do, as the person has read it; None where they read only the call."""

    def answers(self, question: Question) -> bool:
        """Tell whether it was decided about just this."""
        is_as_seen = self.seen is None or self.seen == question.preview
        return self.call == question.call and (is_as_seen or not self.verdict.allowed)


@final
class Questions:
    """Asks whoever works at the desk (`steno.ports.Approver`)."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """Take whom to tell that something else is pending now."""
        self._changed = changed
        self._open: dict[str, _Open] = {}
        self._answered: set[str] = set()
        """What has an answer that whoever asked has not heard yet."""
        self._ahead: dict[str, _Ahead] = {}
        self._seen: dict[str, tuple[ToolCall, str]] = {}
        """What the person has read about calls that are not asked about yet."""

    async def ask(self, question: Question) -> Verdict:
        """Wait until somebody has decided. Who is cancelled meanwhile has asked nothing."""
        call = question.call
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._open[call.id] = _Open(question, answer)
        ahead = self._ahead.pop(call.id, None)
        if ahead is not None and ahead.answers(question):
            self._answer(call.id, ahead.verdict)
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
        verdicts = {id: one.verdict for id, one in self._ahead.items()}
        behind = [
            Pending(call, None, verdicts.get(call.id))
            for call in waiting
            if call.id not in known and (asked or call.id in verdicts)
        ]
        return [*asked, *behind]

    def show(self, call: ToolCall, text: str) -> None:
        """Take note of what the person reads about a call that is not asked about yet."""
        self._seen[call.id] = (call, text)

    def decide(self, call_id: str, verdict: Verdict, waiting: Mapping[str, ToolCall]) -> None:
        """Answer a question, or keep the answer for when it is asked.

        Several may be decided in one go, in any order: what waits behind a question may be decided
        until whoever asked has heard the answer.

        Raises Missing if no call of this id awaits a decision, InvalidValue for a bad rule.
        """
        one = self._open.get(call_id)
        if one is None:
            is_due = bool(self._open or self._answered or call_id in self._ahead)
            if not is_due or call_id in self._answered or call_id not in waiting:
                raise Missing("approval: no call of this id awaits a decision")
            call = waiting[call_id]
            about, seen = self._seen.get(call_id, (call, None))
            self._ahead[call_id] = _Ahead(call, verdict, seen if about == call else None)
        else:
            granted_by(verdict, one.question)  # is refused here, and not when nobody looks
            self._answer(call_id, verdict)
        self._changed()

    def _answer(self, call_id: str, verdict: Verdict) -> None:
        answer = self._open.pop(call_id).answer
        self._answered.add(call_id)
        if not answer.done():  # else whoever asked was stopped, and has not noticed yet
            answer.set_result(verdict)

    def forget(self, call_id: str) -> None:
        """Drop what was decided about a call that has its result: its id may come again."""
        self._ahead.pop(call_id, None)
        self._seen.pop(call_id, None)

    def forget_all(self) -> None:
        """Drop everything that was decided and not asked: the run is over."""
        self._ahead.clear()
        self._seen.clear()
