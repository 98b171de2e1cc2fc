"""Questions about calls, asked line by line.

Nobody shall allow what they did not mean to. A question is said in full, with a bar before
everything that somebody else wrote; an answer is a word and Enter, typed after the question was
there to be read. What is none of the words decides nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias, final

from steno.errors import StenoError
from steno.ports import Scope, Verdict
from steno.printable import counted, on_one_line
from steno.tui.desk import Desk, Pending
from steno.tui.plain.voice import Voice, shortened
from steno.tui.screens.call_text import Tone, lines_of
from steno.tui.screens.deciding import obstacle_to_rules, read_rule

_MOST_LINES: Final = 60
_SCOPES: Final = {
    "once": Scope.ONCE,
    "session": Scope.SESSION,
    "project": Scope.PROJECT,
    "user": Scope.USER,
}
_MEANINGS: Final = {
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
"""What each answer means. Each can be said by its first letter."""
_WORDS: Final = {"?": "help", **{word[0]: word for word in _MEANINGS}, **{w: w for w in _MEANINGS}}
_WIDE: Final = ("session", "project", "user", "rule")
_SEVERAL: Final = "with a number in front it is about that question; all once, all no"
_OVER: Final = "nobody was there to decide: the input has ended"
_YES: Final = "yes"

Listen: TypeAlias = Callable[[str, Callable[[], bool]], Awaitable[str | None]]
"""Returns a line that is typed behind a prompt; None at the end of the input. Raises Stale as soon
as nobody wants to know any more."""


class Stale(Exception):
    """What is being answered is asked no more, or something else is."""


class _Answer(NamedTuple):
    """What was typed, taken apart."""

    about: str
    """The number of a question, `all`, or nothing."""
    word: str
    """One of the words; empty where it is none."""
    rest: str


@final
class Asking:
    """Asks about what awaits a decision, until nothing does."""

    def __init__(self, desk: Desk, voice: Voice, listen: Listen) -> None:
        """Take whoever listens to the person."""
        self._desk = desk
        self._voice = voice
        self._listen = listen
        self._asked: dict[int, Pending] = {}
        """What was said, by its number; a number means one thing until all is decided."""
        self._count = 0
        self._rules: dict[str, str] = {}
        """Rules that were written, by the call."""

    @property
    def is_due(self) -> bool:
        """Whether there is something that only the person can decide."""
        return any(one.question is not None for one in self._undecided())

    def _undecided(self) -> list[Pending]:
        return [one for one in self._desk.pending if one.verdict is None]

    async def ask(self) -> bool:
        """Ask until all is decided; return whether the input has ended before."""
        while self.is_due:
            self._say_new()
            number = self._current()
            offers = ", ".join(self._offered(self._asked[number]))
            name = on_one_line(self._asked[number].call.name)
            which = name if len(self._asked) == 1 else f"question {number}, {name}"
            try:
                typed = await self._listen(f"{which}: {offers}? ", self._is_current)
                if typed is None:
                    return True
                await self._act(_read(typed), number)
            except Stale:
                continue
            except StenoError as exc:
                self._voice.say("Trouble", str(exc))
        self._forget()
        return False

    def deny_all(self) -> None:
        """Say no to all that is asked: nobody is there to be asked."""
        for pending in self._undecided():
            self._voice.say("Decided", f"no to {on_one_line(pending.call.name)}; {_OVER}")
            self._decide(pending, Verdict(allowed=False, actor=self._desk.actor, reason=_OVER))
        self._forget()

    # -- what is asked -----------------------------------------------------------------------

    def _is_current(self) -> bool:
        return self._undecided() == list(self._asked.values())

    def _forget(self) -> None:
        self._asked.clear()
        self._rules.clear()
        self._count = 0

    def _say_new(self) -> None:
        """Say what is new, and what is no longer asked; what was said keeps its number."""
        undecided = self._undecided()
        numbers = {one.call.id: number for number, one in self._asked.items()}
        before, self._asked = self._asked, {}
        for number, one in before.items():
            if all(one.call != other.call for other in undecided):
                self._voice.say("Notice", f"question {number} is no longer asked")
        for one in undecided:
            number = numbers.get(one.call.id, self._count + 1)
            self._count = max(self._count, number)
            self._asked[number] = one
            if before.get(number) != one:
                self._say(number, one, len(undecided))

    def _say(self, number: int, pending: Pending, count: int) -> None:
        name, question = on_one_line(pending.call.name), pending.question
        if question is None:
            asks = f"{name} waits for its turn; it can be decided now"
        else:
            asks = f"{name} asks for permission to {question.capability}"
        self._voice.say(f"Question {number} of {max(count, number)}", asks)
        self._quote(pending, "" if question is None else question.preview, _MOST_LINES)
        obstacle = obstacle_to_rules(question)
        if question is not None and not obstacle:
            self._voice.say("Rule for session, project and user", self._rule(pending))
        else:
            self._voice.say("Notice", f"only once or not: {obstacle}")

    def _quote(self, pending: Pending, preview: str, most: int | None) -> None:
        """Say all about a call, our headings without a bar; at most so many lines below each."""
        for is_ours, group in groupby(
            lines_of(pending, preview), lambda one: one.tone is Tone.OURS
        ):
            lines = [line.text for line in group]
            if is_ours:
                self._voice.say(lines[-1].capitalize())
            else:
                self._voice.quote(lines if most is None else shortened(lines, most))

    def _current(self) -> int:
        """Return the question that an answer without a number is about."""
        return next(number for number, one in self._asked.items() if one.question is not None)

    def _offered(self, pending: Pending) -> list[str]:
        is_narrow = bool(obstacle_to_rules(pending.question))
        return [word for word in _MEANINGS if not (is_narrow and word in _WIDE)]

    def _rule(self, pending: Pending) -> str:
        assert pending.question is not None
        return self._rules.get(pending.call.id, pending.question.rule)

    # -- what is answered --------------------------------------------------------------------

    async def _act(self, answer: _Answer, current: int) -> None:
        if not answer.about and not answer.word and not answer.rest:
            return  # Enter alone decides nothing
        if answer.about == "all":
            await self._act_on_all(answer)
            return
        number = int(answer.about) if answer.about else current
        pending = self._asked.get(number)
        offered = [] if pending is None else self._offered(pending)
        is_whole = answer.word in ("why", "rule") or not answer.rest
        if pending is None or answer.word not in offered or not is_whole:
            self._refuse(offered or list(_MEANINGS))
        elif answer.word in _SCOPES:
            self._allow(pending, _SCOPES[answer.word])
        elif answer.word == "no":
            self._deny([pending], None)
        elif answer.word == "why":
            await self._explain([pending], answer.rest)
        elif answer.word == "rule":
            await self._write_rule(pending, answer.rest)
        elif answer.word == "view":
            question = pending.question
            preview = question.preview if question else await self._desk.preview(pending.call)
            self._quote(pending, preview, None)
        else:
            self._help(offered)

    async def _act_on_all(self, answer: _Answer) -> None:
        listed = list(self._asked.values())
        if answer.word == "once" and not answer.rest:
            calls = counted(len(listed), "call", "calls")
            typed = await self._listen(f"allow {calls}, once each? {_YES}: ", self._is_current)
            if (typed or "").strip().lower() == _YES:
                for pending in listed:
                    self._allow(pending, Scope.ONCE)
            else:
                self._voice.say("Notice", "nothing was decided")
        elif answer.word == "no" and not answer.rest:
            self._deny(listed, None)
        elif answer.word == "why":
            await self._explain(listed, answer.rest)
        else:
            self._refuse(["all once", "all no", "all why"])

    def _refuse(self, offered: Sequence[str]) -> None:
        self._voice.say("Notice", f"nothing was decided; say one of: {', '.join(offered)}")

    def _help(self, offered: Sequence[str]) -> None:
        self._voice.more([f"{word}: {_MEANINGS[word]}" for word in offered])
        if len(self._asked) > 1:
            self._voice.more([_SEVERAL])

    def _allow(self, pending: Pending, scope: Scope) -> None:
        rule = None if scope is Scope.ONCE else self._rule(pending)
        verdict = Verdict(allowed=True, actor=self._desk.actor, scope=scope, rule=rule)
        name = on_one_line(pending.call.name)
        self._voice.say("Decided", f"{name}, {scope}" + ("" if rule is None else f": {rule}"))
        self._decide(pending, verdict)

    def _deny(self, listed: Sequence[Pending], reason: str | None) -> None:
        for pending in listed:
            self._voice.say("Decided", f"no to {on_one_line(pending.call.name)}")
            verdict = Verdict(allowed=False, actor=self._desk.actor, reason=reason)
            self._decide(pending, verdict)

    async def _explain(self, listed: Sequence[Pending], reason: str) -> None:
        if not reason:
            typed = await self._listen("what should the model know? ", self._is_current)
            reason = (typed or "").strip()
        if reason:
            self._deny(listed, reason)
        else:
            self._voice.say("Notice", "nothing was decided; no says no without a reason")

    async def _write_rule(self, pending: Pending, text: str) -> None:
        assert pending.question is not None
        if not text:
            self._voice.say("Rule", self._rule(pending))
            typed = await self._listen("which rule instead? ", self._is_current)
            text = (typed or "").strip()
        if not text:
            self._voice.say("Notice", "the rule is as it was")
            return
        reading = read_rule(text, pending.question)
        if reading.rule is None:
            self._voice.say("Notice", f"the rule is as it was; {reading.words}")
        else:
            self._rules[pending.call.id] = reading.rule
            self._voice.say("Rule", f"{reading.rule}; it {reading.words}")

    def _decide(self, pending: Pending, verdict: Verdict) -> None:
        for number, one in list(self._asked.items()):
            if one.call == pending.call:  # so that nobody is told that it is no longer asked
                del self._asked[number]
        try:
            self._desk.decide(pending.call.id, verdict)
        except StenoError as exc:
            self._voice.say("Trouble", str(exc))


def _read(typed: str) -> _Answer:
    first, _, rest = typed.strip().partition(" ")
    about = ""
    if first.lower() == "all" or (first.isascii() and first.isdigit() and len(first) < 4):
        about = first.lower()
        first, _, rest = rest.strip().partition(" ")
    word = _WORDS.get(first.lower(), "")
    return _Answer(about, word, rest.strip() if word else f"{first} {rest}".strip())
