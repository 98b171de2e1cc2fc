"""Line-by-line approvals, in the plain mode and at the terminal of `steno -p --ask`.

A user must not allow a call by accident. All untrusted text of a request is written with a bar
before each line. An answer is a word and Enter, typed after the request was written. Any other text
is not a decision.

`--ask` opens the terminal instead of using stdin and stdout, which may be pipes. Waiting for a line
does not block the event loop, and can be cancelled at any time.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from types import MappingProxyType
from typing import Final, NamedTuple, TextIO, TypeAlias, final

from msgspec.structs import replace

from steno.app.approval_queue import PendingCall
from steno.app.folders import user_name
from steno.app.session import AgentSession
from steno.bounded_text import truncate_lines
from steno.errors import StenoError
from steno.messages.call import ToolCall
from steno.ports import ApprovalDecision, ApprovalRequest, CallPreview
from steno.render.call_text import CallLine, LineTone, describe_call, describe_question
from steno.render.describe import tool_label
from steno.render.headed_text import ITEM_HEADINGS
from steno.render.items import ItemKind
from steno.ui.approval_state import (
    ApprovalChoice,
    ApprovalOffer,
    decide_calls,
    decision_for,
    find_offer,
    list_offers,
    offers_for_calls,
    once_only_note,
    preview_rule,
    rule_obstacle,
    typed_offers,
)
from steno.ui.plain.line_input import InputNoLongerNeeded, LineReader
from steno.ui.plain.line_writer import LineWriter, omission_line

_MAX_PREVIEW_LINES: Final = 60
_DIFF_STYLES: Final = {
    LineTone.HUNK: "\x1b[36m",
    LineTone.ADDED: "\x1b[32m",
    LineTone.REMOVED: "\x1b[31m",
}
NO_TERMINAL: Final = "no terminal to ask for approval"
_SEVERAL_HINT: Final = "to answer for another call, type its number first (2 deny); for all calls, type all once or all deny"
_INPUT_ENDED: Final = "the input ended before a decision"
_REASON_QUESTION: Final = "reason for the model? "
_RULE_QUESTION: Final = "new rule? "
_WITH_TEXT: Final = (ApprovalChoice.REASON, ApprovalChoice.EDIT)
"""The choices that may be followed by a text."""
_FOR_ALL: Final = (ApprovalChoice.ONCE, ApprovalChoice.DENY, ApprovalChoice.REASON)
"""The choices that may follow `all`."""

ReadAnswer: TypeAlias = Callable[[str, Callable[[], bool]], Awaitable[str | None]]
"""Writes a prompt and returns the line that the user types; None at the end of the input. The
second argument returns whether the line is still needed; once it returns False, InputNoLongerNeeded
is raised."""


class _TypedAnswer(NamedTuple):
    """A typed answer, split into the call that it is about, the choice and further text."""

    target: str
    """The number of a call, `all`, or empty for the current call."""
    word: str
    rest: str


@final
class LineApprovals:
    """Asks the user about pending calls, and applies the decisions."""

    def __init__(
        self,
        session: AgentSession | _SingleRequest,
        writer: LineWriter,
        read_answer: ReadAnswer,
        *,
        styles: Mapping[LineTone, str] = MappingProxyType({}),
    ) -> None:
        self._session = session
        self._styles = styles
        self._writer = writer
        self._read_answer = read_answer
        self._questions: dict[int, PendingCall] = {}
        """The written requests by number. A request keeps its number until all are decided."""
        self._count = 0
        self._rules: dict[str, str] = {}
        """The rules that the user has typed, by the ID of the call."""

    @property
    def is_due(self) -> bool:
        """Whether a request is waiting for a decision of the user."""
        return any(pending.request is not None for pending in self._undecided())

    def _undecided(self) -> list[PendingCall]:
        return [pending for pending in self._session.pending_calls if pending.decision is None]

    async def ask(self) -> bool:
        """Ask until no request is waiting for a decision; return True if the input ends first."""
        while self.is_due:
            self._announce_questions()
            # An answer without a number decides about the first call that the run waits for.
            questions = self._questions.items()
            number, pending = next(question for question in questions if question[1].request)
            name = tool_label(pending.call)
            subject = name if len(self._questions) == 1 else f"approval {number}, {name}"
            prompt = f"{subject}: {list_offers(self._offers(pending))}? "
            try:
                typed = await self._read_answer(prompt, self._is_current)
                if typed is None:
                    return True
                await self._apply_answer(_parse_answer(typed), number)
            except InputNoLongerNeeded:
                continue
            except StenoError as exc:
                self._writer.write(ITEM_HEADINGS[ItemKind.ERROR], str(exc))
        self._reset()
        return False

    def deny_all(self) -> None:
        """Deny every pending call, because the input has ended."""
        decision = ApprovalDecision(allowed=False, actor=self._session.actor, reason=_INPUT_ENDED)
        self._decide(self._undecided(), ApprovalChoice.DENY, decision, f"; {_INPUT_ENDED}")
        self._reset()

    # -- requests -------------------------------------------------------------------------

    def _is_current(self) -> bool:
        return self._undecided() == list(self._questions.values())

    def _reset(self) -> None:
        self._questions.clear()
        self._rules.clear()
        self._count = 0

    def _announce_questions(self) -> None:
        """Write new requests, and notices about withdrawn requests; numbers do not change."""
        undecided = self._undecided()
        numbers = {pending.call.id: number for number, pending in self._questions.items()}
        before, self._questions = self._questions, {}
        for number, pending in before.items():
            if all(pending.call != other.call for other in undecided):
                self._writer.write("Notice", f"approval {number} is no longer needed")
        for pending in undecided:
            number = numbers.get(pending.call.id, self._count + 1)
            self._count = max(self._count, number)
            self._questions[number] = pending
            if before.get(number) != pending:
                self._write_question(number, pending, len(undecided))

    def _write_question(self, number: int, pending: PendingCall, count: int) -> None:
        request = self._with_rule(pending).request
        question = describe_question(pending.call, request)
        self._writer.write(f"Approval {number} of {max(count, number)}", question)
        preview = request.preview if request else CallPreview()
        self._write_quote(pending, preview, _MAX_PREVIEW_LINES)
        obstacle = rule_obstacle(request)
        if request is not None and not obstacle:
            self._writer.write("Rule for session, project and user", request.rule)
        else:
            self._writer.write("Notice", once_only_note(obstacle))

    def _write_quote(
        self, pending: PendingCall, preview: CallPreview, max_lines: int | None
    ) -> None:
        """Write the description of a call, with at most `max_lines` below each heading.

        Headings are written without a bar.
        """
        described = describe_call(pending.call, preview, request=pending.request)
        for is_heading, group in groupby(described, lambda line: line.tone is LineTone.HEADING):
            lines = list(group)
            if is_heading:
                self._writer.write(lines[-1].text.capitalize())
                continue
            if max_lines is not None:
                lines = truncate_lines(
                    lines, max_lines=max_lines, note=lambda count: CallLine(omission_line(count))
                )
            for tone, same in groupby(lines, lambda line: line.tone):
                texts = ["".join([part.text for part in (line, *line.counts)]) for line in same]
                self._writer.quote(texts, self._styles.get(tone, ""))

    def _offers(self, pending: PendingCall) -> list[ApprovalOffer]:
        return typed_offers(self._with_rule(pending), len(self._questions))

    def _with_rule(self, pending: PendingCall) -> PendingCall:
        """Return a call with the rule that the user has typed for it, if any."""
        rule = self._rules.get(pending.call.id)
        if rule is None or pending.request is None:
            return pending
        return pending._replace(request=replace(pending.request, rule=rule))

    # -- answers --------------------------------------------------------------------------

    async def _apply_answer(self, answer: _TypedAnswer, current: int) -> None:
        if not any(answer):
            return  # Enter alone is not a decision
        if answer.target == "all":
            await self._apply_to_all(answer)
            return
        pending = self._questions.get(int(answer.target) if answer.target else current)
        if pending is None:
            self._refuse(self._offers(self._questions[current]))
            return
        offers = self._offers(pending)
        offer = find_offer(offers, answer.word)
        if offer is None or (answer.rest and offer.choice not in _WITH_TEXT):
            self._refuse(offers)
        elif offer.choice is ApprovalChoice.ALL:
            await self._apply_to_all(_TypedAnswer("all", ApprovalChoice.ONCE, ""))
        elif offer.choice is ApprovalChoice.EDIT:
            await self._edit_rule(pending, answer.rest)
        elif offer.choice is ApprovalChoice.VIEW:
            request = pending.request
            preview = request.preview if request else await self._session.preview(pending.call)
            self._write_quote(pending, preview, None)
        elif offer.choice is ApprovalChoice.HELP:
            about = [f"{offer.key} {offer.label}: {offer.meaning}" for offer in offers]
            self._writer.write_lines(about)
            if len(self._questions) > 1:
                self._writer.write_lines([_SEVERAL_HINT])
        elif offer.choice is ApprovalChoice.REASON:
            await self._deny_with_reason([pending], answer.rest)
        else:
            self._choose([pending], offer.choice)

    async def _apply_to_all(self, answer: _TypedAnswer) -> None:
        listed = list(self._questions.values())
        offers = [offer for offer in self._offers(listed[0]) if offer.choice in _FOR_ALL]
        offer = find_offer(offers, answer.word)
        if offer is None or (answer.rest and offer.choice not in _WITH_TEXT):
            self._refuse([offer._replace(key=f"all {offer.key}") for offer in offers])
        elif offer.choice is ApprovalChoice.REASON:
            await self._deny_with_reason(listed, answer.rest)
        elif offer.choice is ApprovalChoice.DENY:
            self._choose(listed, offer.choice)
        else:
            choices = offers_for_calls(len(listed))
            typed = await self._read_answer(f"{list_offers(choices)}? ", self._is_current)
            confirmed = find_offer(choices, typed or "")
            if confirmed is not None and confirmed.choice is ApprovalChoice.THESE:
                self._choose(listed, offer.choice)
            else:
                self._writer.write("Notice", "nothing was decided")

    def _refuse(self, offers: Sequence[ApprovalOffer]) -> None:
        self._writer.write("Notice", f"nothing was decided; type one of: {list_offers(offers)}")

    async def _deny_with_reason(self, listed: Sequence[PendingCall], reason: str) -> None:
        reason = reason or await self._read_answer(_REASON_QUESTION, self._is_current) or ""
        if reason.strip():
            self._choose(listed, ApprovalChoice.REASON, reason)
        else:
            self._writer.write("Notice", "nothing was decided; type d to deny without a reason")

    async def _edit_rule(self, pending: PendingCall, text: str) -> None:
        request = self._with_rule(pending).request
        assert request is not None
        if not text:
            self._writer.write("Rule", request.rule)
            typed = await self._read_answer(_RULE_QUESTION, self._is_current)
            text = (typed or "").strip()
        if not text:
            self._writer.write("Notice", "the rule was not changed")
            return
        preview = preview_rule(text, request)
        if preview.rule is None:
            self._writer.write("Notice", f"the rule was not changed; {preview.description}")
        else:
            self._rules[pending.call.id] = preview.rule
            self._writer.write("Rule", f"{preview.rule}; this rule {preview.description}")

    def _choose(
        self, listed: Sequence[PendingCall], choice: ApprovalChoice, reason: str | None = None
    ) -> None:
        request, actor = self._with_rule(listed[0]).request, self._session.actor
        decision = decision_for(choice, request, actor=actor, text=reason)
        if decision is None:
            self._writer.write("Notice", "nothing was decided")
        else:
            self._decide(listed, choice, decision, f": {decision.rule}" if decision.rule else "")

    def _decide(
        self,
        listed: Sequence[PendingCall],
        choice: ApprovalChoice,
        decision: ApprovalDecision,
        suffix: str,
    ) -> None:
        for pending in listed:
            shown = choice if decision.allowed else ApprovalChoice.DENY
            self._writer.write("Decided", f"{tool_label(pending.call)}, {shown}{suffix}")
            for number, question in list(self._questions.items()):
                if question.call == pending.call:  # else it would be reported as withdrawn
                    del self._questions[number]
        for error in decide_calls(self._session.decide, listed, decision):
            self._writer.write(ITEM_HEADINGS[ItemKind.ERROR], error)


def _parse_answer(typed: str) -> _TypedAnswer:
    first, _, rest = typed.strip().partition(" ")
    target, rest = "", rest.strip()
    is_number = first.isascii() and first.isdigit() and len(first) < 4
    if is_number or (first.lower() in ("a", "all") and rest):
        target = first if is_number else "all"
        first, _, rest = rest.partition(" ")
    return _TypedAnswer(target, first, rest.strip())


# -- `--ask` --------------------------------------------------------------------------------------


@final
class _SingleRequest:
    """One request outside a session, with the session members that LineApprovals uses."""

    def __init__(self, request: ApprovalRequest, actor: str) -> None:
        self.actor = actor
        self.pending_calls: Sequence[PendingCall] = [PendingCall(request.call, request)]
        self.decision: ApprovalDecision = ApprovalDecision(allowed=False, actor=actor)
        """The decision of the user; a denial until the user decides."""

    def decide(self, call_id: str, decision: ApprovalDecision) -> None:
        self.decision, self.pending_calls = decision, ()

    async def preview(self, call: ToolCall) -> CallPreview:
        raise AssertionError("preview() is not needed, because the request contains a preview")


@final
class ConsoleApprover:
    """Asks the user at the terminal, one request at a time; denies the request if input ends."""

    def __init__(self, *, terminal: str | None = None, actor: str | None = None) -> None:
        """Set the terminal and the actor, by default those of this process and its user."""
        self._terminal = terminal
        self._actor = actor or user_name() or f"user {os.getuid()}"
        self._lock = asyncio.Lock()

    async def ask(self, request: ApprovalRequest) -> ApprovalDecision:
        """Write the call, and return the decision of the user; a denial if there is no terminal."""
        async with self._lock:
            try:
                with _open_terminal(self._terminal or _terminal_path()) as (reader, output):
                    writer = LineWriter(output, os.environ)
                    single = _SingleRequest(request, self._actor)
                    await LineApprovals(
                        single,
                        writer,
                        lambda prompt, _: _read_line(reader, writer, prompt),
                        styles=_DIFF_STYLES,
                    ).ask()
                    return single.decision
            except OSError:
                return ApprovalDecision(allowed=False, actor="steno", reason=NO_TERMINAL)


async def _read_line(reader: LineReader, writer: LineWriter, prompt: str) -> str | None:
    """Return the next line that the user types; None at the end of the input."""
    reader.discard()  # keys that were typed before the prompt are not an answer
    writer.write_prompt(prompt)
    ready = asyncio.Event()
    line: str | None = None
    try:
        with reader.reading(ready.set):
            while not (reader.has_line or reader.has_ended):
                ready.clear()
                await ready.wait()
        if reader.has_line:
            line = reader.next_line()
    finally:
        if line is None:  # the line of the prompt is not ended yet
            writer.end_line()
    return line


def has_terminal() -> bool:
    """Return whether this process has a terminal at which it can ask the user."""
    try:
        with _open_terminal(_terminal_path()):
            return True
    except OSError:
        return False


def _terminal_path() -> str:
    # The name of the device is preferred, because not every system can poll /dev/tty.
    for descriptor in (2, 1, 0):
        with suppress(OSError):
            return os.ttyname(descriptor)
    return "/dev/tty"


@contextmanager
def _open_terminal(name: str) -> Generator[tuple[LineReader, TextIO]]:
    """Open a terminal twice, for non-blocking reads and for blocking writes.

    Writes block, because a non-blocking write may be incomplete. Raises OSError if `name` is not a
    terminal.
    """
    input_fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not os.isatty(input_fd):
            raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
        output_fd = os.open(name, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(output_fd, "w", errors="backslashreplace") as stream:
            yield LineReader(input_fd), stream
    finally:
        os.close(input_fd)
