"""Approvals line by line.

A user must not allow a call by accident. A request is written in full, with a bar before all
untrusted text. An answer is a word and Enter, typed after the request was readable. Any other text
decides nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias, final

from steno.app.session import AgentSession
from steno.app.session_events import PendingCall
from steno.errors import StenoError
from steno.ports import ApprovalDecision, CallPreview, GrantScope
from steno.render.quantities import format_count
from steno.render.terminal_text import terminal_line
from steno.ui.approval_choices import preview_rule, rule_obstacle
from steno.ui.call_text import LineTone, describe_call
from steno.ui.plain.line_input import InputNoLongerNeeded
from steno.ui.plain.line_writer import LineWriter, shorten_lines

_MAX_PREVIEW_LINES: Final = 60
_SCOPE_BY_WORD: Final = {
    "once": GrantScope.ONCE,
    "session": GrantScope.SESSION,
    "project": GrantScope.PROJECT,
    "user": GrantScope.USER,
}
_ANSWER_HELP: Final = {
    "once": "this call runs, with exactly these arguments",
    "session": "and whatever else the rule covers, in this session",
    "project": "and whatever else the rule covers, in this folder for good",
    "user": "and whatever else the rule covers, in all folders for good",
    "no": "it does not run; the model is told so, and goes on",
    "why": "it does not run, and the model is told why: why REASON",
    "view": "say all of what the call would do",
    "rule": "write another rule for session, project and user: rule TEXT",
    "help": "say this",
}
"""The effect of each answer. The first letter of each is enough."""
_ANSWER_WORDS: Final = {
    "?": "help",
    **{word[0]: word for word in _ANSWER_HELP},
    **{w: w for w in _ANSWER_HELP},
}
_RULE_WORDS: Final = ("session", "project", "user", "rule")
_SEVERAL_HINT: Final = "with a number in front it is about that question; all once, all no"
_INPUT_ENDED: Final = "nobody was there to decide: the input has ended"
YES: Final = "yes"
"""The answer that confirms."""

ReadAnswer: TypeAlias = Callable[[str, Callable[[], bool]], Awaitable[str | None]]
"""Returns a line that is typed after a prompt; None at the end of the input. Raises
InputNoLongerNeeded once the question is no longer open."""


class _TypedAnswer(NamedTuple):
    """The parts of a typed answer."""

    target: str
    """The number of a question, `all`, or nothing."""
    word: str
    """A known word; empty if there is none."""
    rest: str


@final
class LineApprovals:
    """Asks about the pending calls until every one has a decision."""

    def __init__(self, session: AgentSession, writer: LineWriter, read_answer: ReadAnswer) -> None:
        """Take the function that reads an answer."""
        self._session = session
        self._writer = writer
        self._read_answer = read_answer
        self._questions: dict[int, PendingCall] = {}
        """The written requests by number; a number keeps its meaning until all are decided."""
        self._count = 0
        self._rules: dict[str, str] = {}
        """Rules that were written, by the call."""

    @property
    def is_due(self) -> bool:
        """Whether a request waits for the user."""
        return any(pending.request is not None for pending in self._undecided())

    def _undecided(self) -> list[PendingCall]:
        return [pending for pending in self._session.pending_calls if pending.decision is None]

    async def ask(self) -> bool:
        """Ask until every call is decided; return whether the input ended first."""
        while self.is_due:
            self._announce_questions()
            number = self._current_number()
            offers = ", ".join(self._offered_words(self._questions[number]))
            name = terminal_line(self._questions[number].call.name)
            subject = name if len(self._questions) == 1 else f"question {number}, {name}"
            try:
                typed = await self._read_answer(f"{subject}: {offers}? ", self._is_current)
                if typed is None:
                    return True
                await self._apply_answer(_parse_answer(typed), number)
            except InputNoLongerNeeded:
                continue
            except StenoError as exc:
                self._writer.write("Trouble", str(exc))
        self._reset()
        return False

    def deny_all(self) -> None:
        """Deny every request: there is no user to ask."""
        for pending in self._undecided():
            self._writer.write(
                "Decided", f"no to {terminal_line(pending.call.name)}; {_INPUT_ENDED}"
            )
            self._decide(
                pending,
                ApprovalDecision(allowed=False, actor=self._session.actor, reason=_INPUT_ENDED),
            )
        self._reset()

    # -- requests -------------------------------------------------------------------------

    def _is_current(self) -> bool:
        return self._undecided() == list(self._questions.values())

    def _reset(self) -> None:
        self._questions.clear()
        self._rules.clear()
        self._count = 0

    def _announce_questions(self) -> None:
        """Write new requests, and those that are no longer open; a written one keeps its number."""
        undecided = self._undecided()
        numbers = {pending.call.id: number for number, pending in self._questions.items()}
        before, self._questions = self._questions, {}
        for number, pending in before.items():
            if all(pending.call != other.call for other in undecided):
                self._writer.write("Notice", f"question {number} is no longer asked")
        for pending in undecided:
            number = numbers.get(pending.call.id, self._count + 1)
            self._count = max(self._count, number)
            self._questions[number] = pending
            if before.get(number) != pending:
                self._write_question(number, pending, len(undecided))

    def _write_question(self, number: int, pending: PendingCall, count: int) -> None:
        name, request = terminal_line(pending.call.name), pending.request
        if request is None:
            question = f"{name} waits for its turn; it can be decided now"
        else:
            question = f"{name} asks for permission to {request.capability}"
        self._writer.write(f"Question {number} of {max(count, number)}", question)
        self._write_quote(
            pending, request.preview if request else CallPreview(), _MAX_PREVIEW_LINES
        )
        obstacle = rule_obstacle(request)
        if request is not None and not obstacle:
            self._writer.write("Rule for session, project and user", self._rule(pending))
        else:
            self._writer.write("Notice", f"only once or not: {obstacle}")

    def _write_quote(
        self, pending: PendingCall, preview: CallPreview, max_lines: int | None
    ) -> None:
        """Write everything about a call, headings without a bar; at most `max_lines` below each."""
        for is_heading, group in groupby(
            describe_call(pending, preview), lambda line: line.tone is LineTone.HEADING
        ):
            lines = ["".join([part.text for part in (line, *line.counts)]) for line in group]
            if is_heading:
                self._writer.write(lines[-1].capitalize())
            else:
                self._writer.quote(lines if max_lines is None else shorten_lines(lines, max_lines))

    def _current_number(self) -> int:
        """Return the question that an answer without a number is about."""
        return next(
            number for number, pending in self._questions.items() if pending.request is not None
        )

    def _offered_words(self, pending: PendingCall) -> list[str]:
        has_no_rule = bool(rule_obstacle(pending.request))
        return [word for word in _ANSWER_HELP if not (has_no_rule and word in _RULE_WORDS)]

    def _rule(self, pending: PendingCall) -> str:
        assert pending.request is not None
        return self._rules.get(pending.call.id, pending.request.rule)

    # -- answers --------------------------------------------------------------------------

    async def _apply_answer(self, answer: _TypedAnswer, current: int) -> None:
        if not answer.target and not answer.word and not answer.rest:
            return  # Enter alone decides nothing
        if answer.target == "all":
            await self._apply_to_all(answer)
            return
        number = int(answer.target) if answer.target else current
        pending = self._questions.get(number)
        offered = [] if pending is None else self._offered_words(pending)
        is_complete = answer.word in ("why", "rule") or not answer.rest
        if pending is None or answer.word not in offered or not is_complete:
            self._refuse(offered or list(_ANSWER_HELP))
        elif answer.word in _SCOPE_BY_WORD:
            self._allow(pending, _SCOPE_BY_WORD[answer.word])
        elif answer.word == "no":
            self._deny([pending], None)
        elif answer.word == "why":
            await self._explain([pending], answer.rest)
        elif answer.word == "rule":
            await self._write_rule(pending, answer.rest)
        elif answer.word == "view":
            request = pending.request
            preview = request.preview if request else await self._session.preview(pending.call)
            self._write_quote(pending, preview, None)
        else:
            self._help(offered)

    async def _apply_to_all(self, answer: _TypedAnswer) -> None:
        listed = list(self._questions.values())
        if answer.word == "once" and not answer.rest:
            calls = format_count(len(listed), "call", "calls")
            typed = await self._read_answer(f"allow {calls}, once each? {YES}: ", self._is_current)
            if (typed or "").strip().lower() == YES:
                for pending in listed:
                    self._allow(pending, GrantScope.ONCE)
            else:
                self._writer.write("Notice", "nothing was decided")
        elif answer.word == "no" and not answer.rest:
            self._deny(listed, None)
        elif answer.word == "why":
            await self._explain(listed, answer.rest)
        else:
            self._refuse(["all once", "all no", "all why"])

    def _refuse(self, offered: Sequence[str]) -> None:
        self._writer.write("Notice", f"nothing was decided; say one of: {', '.join(offered)}")

    def _help(self, offered: Sequence[str]) -> None:
        self._writer.write_lines([f"{word}: {_ANSWER_HELP[word]}" for word in offered])
        if len(self._questions) > 1:
            self._writer.write_lines([_SEVERAL_HINT])

    def _allow(self, pending: PendingCall, scope: GrantScope) -> None:
        rule = None if scope is GrantScope.ONCE else self._rule(pending)
        decision = ApprovalDecision(allowed=True, actor=self._session.actor, scope=scope, rule=rule)
        name = terminal_line(pending.call.name)
        self._writer.write("Decided", f"{name}, {scope}" + ("" if rule is None else f": {rule}"))
        self._decide(pending, decision)

    def _deny(self, listed: Sequence[PendingCall], reason: str | None) -> None:
        for pending in listed:
            self._writer.write("Decided", f"no to {terminal_line(pending.call.name)}")
            decision = ApprovalDecision(allowed=False, actor=self._session.actor, reason=reason)
            self._decide(pending, decision)

    async def _explain(self, listed: Sequence[PendingCall], reason: str) -> None:
        if not reason:
            typed = await self._read_answer("what should the model know? ", self._is_current)
            reason = (typed or "").strip()
        if reason:
            self._deny(listed, reason)
        else:
            self._writer.write("Notice", "nothing was decided; no says no without a reason")

    async def _write_rule(self, pending: PendingCall, text: str) -> None:
        assert pending.request is not None
        if not text:
            self._writer.write("Rule", self._rule(pending))
            typed = await self._read_answer("which rule instead? ", self._is_current)
            text = (typed or "").strip()
        if not text:
            self._writer.write("Notice", "the rule is as it was")
            return
        preview = preview_rule(text, pending.request)
        if preview.rule is None:
            self._writer.write("Notice", f"the rule is as it was; {preview.description}")
        else:
            self._rules[pending.call.id] = preview.rule
            self._writer.write("Rule", f"{preview.rule}; it {preview.description}")

    def _decide(self, pending: PendingCall, decision: ApprovalDecision) -> None:
        for number, question in list(self._questions.items()):
            if question.call == pending.call:  # so that it is not reported as no longer open
                del self._questions[number]
        try:
            self._session.decide(pending.call.id, decision)
        except StenoError as exc:
            self._writer.write("Trouble", str(exc))


def _parse_answer(typed: str) -> _TypedAnswer:
    first, _, rest = typed.strip().partition(" ")
    target = ""
    if first.lower() == "all" or (first.isascii() and first.isdigit() and len(first) < 4):
        target = first.lower()
        first, _, rest = rest.strip().partition(" ")
    word = _ANSWER_WORDS.get(first.lower(), "")
    return _TypedAnswer(target, word, rest.strip() if word else f"{first} {rest}".strip())
