"""Deciding about a call: what there is to choose, and which keys mean it.

Nobody shall approve what they did not mean to. So a decision takes two steps, a letter and then
Enter, and neither counts where it looks like something else: prose that was meant for the prompt,
a key that is held down, a key that was on its way when the question appeared.

Nothing here knows a widget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, final

from steno.agent.rules import Rule
from steno.errors import InvalidValue, StenoError
from steno.ports import Question, Scope, Verdict
from steno.printable import on_one_line, printable
from steno.tui.desk import Desk, Pending

# -- what there is to choose -----------------------------------------------------------------


class Choice(StrEnum):
    """What a person can do about a call, or about several."""

    ONCE = "once"
    SESSION = "session"
    PROJECT = "project"
    USER = "user"
    DENY = "deny"
    EXPLAIN = "explain"
    """Deny, with a reason for the model."""
    ALL = "all"
    """Look at all that await a decision, to allow them together."""
    THESE = "these"
    """Allow what was listed."""
    BACK = "back"


SCOPES: Final = {
    Choice.SESSION: Scope.SESSION,
    Choice.PROJECT: Scope.PROJECT,
    Choice.USER: Scope.USER,
}
"""The choices that allow more than the call at hand, by a rule."""


class Offer(NamedTuple):
    """A choice as it is offered."""

    choice: Choice
    letter: str
    label: str
    meaning: str
    """What Enter will do."""
    obstacle: str = ""
    """Why it cannot be chosen; empty where it can."""


_ONCE: Final = Offer(Choice.ONCE, "o", "once", "this call runs, with exactly these arguments")
_PLACES: Final = {
    Choice.SESSION: "in this session",
    Choice.PROJECT: "for this folder until revoked",
    Choice.USER: "for all folders until revoked",
}
"""Where the rule of a wider yes is kept."""
_NO: Final = (
    Offer(Choice.DENY, "d", "deny", "it does not run; the model is told so, and goes on"),
    Offer(Choice.EXPLAIN, "r", "deny with reason", "asks what to tell the model"),
)
_WAITS: Final = "it waits behind another call, and a rule may yet decide about it"
NO_RULE: Final = "no rule would cover only calls like this one"
_UNREADABLE: Final = "a rule for it would hold what cannot be shown"


def offers_for(pending: Pending, undecided: int) -> tuple[Offer, ...]:
    """Return what can be chosen for a call, one of so many that nobody has decided about."""
    obstacle = obstacle_to_rules(pending.request)
    rule = "" if obstacle or pending.request is None else _told(pending.request)
    wide = [
        Offer(
            choice, choice[0], f"for {choice}", f"stores the rule {rule} · kept {place}", obstacle
        )
        for choice, place in _PLACES.items()
    ]
    together = (
        Offer(Choice.ALL, "a", f"all {undecided} once", f"lists all {undecided} before any runs"),
    )
    return (_ONCE, *wide, *_NO, *(together if undecided > 1 else ()))


def _told(question: Question) -> str:
    """Return the rule of a question as it would be stored, and how far it reaches if that is far."""
    reading = read_rule(question.rule, question)
    return f"{question.rule}{'' if reading.is_narrow else f' ({reading.description})'}"


def offers_for_all(count: int) -> tuple[Offer, ...]:
    """Return what can be chosen once all calls are listed."""
    return (
        Offer(
            Choice.THESE, "y", f"allow these {count} once", f"these {count} calls run, once each"
        ),
        Offer(Choice.BACK, "n", "go back", "nothing is decided"),
    )


def obstacle_to_rules(question: Question | None) -> str:
    """Return why nothing wider than the call can be allowed; empty where it can."""
    if question is None:
        return _WAITS
    if not question.rule:
        return NO_RULE
    return "" if printable(question.rule) == question.rule else _UNREADABLE


# -- rules -----------------------------------------------------------------------------------


class RuleReading(NamedTuple):
    """What a rule that somebody types would do."""

    rule: str | None
    """As it would be stored; None where it cannot be."""
    description: str
    is_narrow: bool = False
    """Whether it covers this call and its like, and no more."""


def read_rule(text: str, question: Question) -> RuleReading:
    """Tell what a rule would cover, or why it is none."""
    if not text.strip():
        return RuleReading(None, "rule: write which calls to allow, as in bash(git log *)")
    try:
        rule = Rule.parse(text)
    except InvalidValue as exc:
        return RuleReading(None, on_one_line(str(exc)))
    is_near = False
    if not rule.covers_all(question.call.name, question.capability, question.subjects):
        words = "does not cover this call, which runs this once all the same"
    elif rule.covers_everything:
        words = f"covers every call of {rule.tool}, whatever it is about"
    else:
        words, is_near = "covers this call and its like", True
    return RuleReading(str(rule), words, is_near)


def where_kept(verdict: Verdict) -> str:
    """Return what to tell about a rule that outlasts the session; nothing where none does."""
    if verdict.scope not in (Scope.PROJECT, Scope.USER):
        return ""
    place = _PLACES[Choice(verdict.scope)]
    return f"{verdict.rule} is allowed {place}; /permissions shows it"


def verdict_in_words(
    choice: Choice, text: str, question: Question | None, *, actor: str
) -> Verdict | None:
    """Return the verdict that a written rule or reason makes; None where it makes none."""
    if choice is Choice.EXPLAIN:
        reason = text.strip()
        return Verdict(allowed=False, actor=actor, reason=reason) if reason else None
    rule = None if question is None else read_rule(text, question).rule
    if rule is None or choice not in SCOPES:
        return None
    return Verdict(allowed=True, actor=actor, scope=SCOPES[choice], rule=rule)


def verdict_as_shown(choice: Choice, question: Question | None, *, actor: str) -> Verdict | None:
    """Return the verdict that stores the rule of a question; None where words are wanted."""
    if question is None or choice not in SCOPES:
        return None
    return verdict_in_words(choice, question.rule, question, actor=actor)


def decide_all(desk: Desk, calls: Sequence[Pending], verdict: Verdict) -> list[str]:
    """Decide about calls alike; return what is said against it."""
    refusals: list[str] = []
    # What waits comes first: when the last question has its answer, the run goes on.
    for pending in sorted(calls, key=lambda one: one.request is not None):
        try:
            desk.decide(pending.call.id, verdict)
        except StenoError as exc:
            refusals.append(on_one_line(str(exc)))
    return refusals


# -- keys that are meant ---------------------------------------------------------------------

SETTLING_S: Final = 0.6
"""How long something has to be on the screen before a key can be about it; and how long no letter
may have come for the next one to be a choice: who writes prose pauses less."""
_PROSE_S: Final = 1.2
"""How long that is behind a letter that chose nothing: who writes prose may stop to think, or be
slow, and the o of a slow `no` is no yes."""
_TAKEN_S: Final = 0.3
"""How long keys may still be meant for the prompt when the focus was taken from there."""
_AGAIN_S: Final = 0.2
"""Who presses the same letter again after so long means the same again."""
_HASTE_S: Final = 0.06
"""Keys that come faster are pasted or repeated, and nobody has looked in between."""
_PASTED_S: Final = 0.02
"""Nobody types as fast as that."""
_HELD_S: Final = 0.8
"""Longer than keyboards wait before they repeat a key that is held down."""


class Doubt(StrEnum):
    """Why a key is not taken for what it may mean, in words for the person."""

    SOON = "ignored: that came before there was time to read; once more, please"
    PROSE = "nothing is chosen: letters close together are taken for prose; pause, then one letter"
    HASTY = "ignored: Enter came at once behind another key, as in a paste"
    DOUBLE = "ignored: that was the second half of a double click"
    HELD = "ignored: Enter may still have been held down; wait a second, then once more"
    NO_CHOICE = "nothing is chosen: that key stands for no choice"
    NOTHING = "nothing is chosen: first a letter or ← →, then Enter"
    PASTED = "nothing is chosen: a paste decides nothing; Esc leads to the prompt"


@final
class Attention:
    """Tells keys that mean a decision from those that were meant for something else.

    Each key is noted, and the answer is a doubt, or None where it can be meant.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """Take a clock, in seconds."""
        self._now = now
        self._appeared_at = now()
        self._taken_at = self._letter_at = self._key_at = self._click_at = float("-inf")
        self._recent_letters = ""
        """The letters that came without a pause, each once."""
        self._is_prose = False
        """Whether the last letter chose nothing."""
        self._is_enter = False
        """Whether the last key was Enter; one that is held down brings nothing else."""

    def content_changed(self) -> None:
        """Something else is on the screen from now on."""
        self._appeared_at = self._now()

    def focus_taken(self) -> None:
        """Keys come here from now on, and nobody has asked for that."""
        self._taken_at = self._now()

    def check_letter(self, letter: str, *, is_choice: bool = True) -> Doubt | None:
        """Tell whether a character can be meant alone: it stands alone, or comes again.

        One that is no choice is the beginning of prose as far as the next ones are concerned.
        """
        pause_s = self._now() - self._letter_at
        if pause_s >= (_PROSE_S if self._is_prose else SETTLING_S):
            self._recent_letters = ""
        is_alone = not self._recent_letters or (letter == self._recent_letters and pause_s >= _AGAIN_S)
        self._recent_letters += letter if letter not in self._recent_letters else ""
        self._letter_at = self._now()
        doubt = self.check_key() or (None if is_alone else Doubt.PROSE)
        self._is_prose = doubt is not None or not is_choice
        return doubt

    def check_key(self) -> Doubt | None:
        """Tell whether some other key can be about what is shown."""
        self._record_key(is_enter=False)
        return self._check_read()

    def check_enter(self, *, may_be_hasty: bool = False) -> Doubt | None:
        """Tell whether Enter can be a decision."""
        pause_s = self._now() - self._key_at
        was_enter = self._is_enter
        self._record_key(is_enter=True)
        if was_enter and pause_s < _HELD_S:
            return Doubt.HELD
        if pause_s < (_PASTED_S if may_be_hasty else _HASTE_S):
            return Doubt.HASTY
        return self._check_read()

    def check_click(self) -> Doubt | None:
        """Tell whether a click counts; of a double click only the first half does."""
        now = self._now()
        pause_s, self._click_at = now - self._click_at, now
        if now - self._appeared_at < SETTLING_S:
            return Doubt.SOON
        return Doubt.DOUBLE if pause_s < SETTLING_S else None

    def _record_key(self, *, is_enter: bool) -> None:
        self._key_at, self._is_enter = self._now(), is_enter

    def _check_read(self) -> Doubt | None:
        now = self._now()
        is_read = now - self._appeared_at >= SETTLING_S and now - self._taken_at >= _TAKEN_S
        return None if is_read else Doubt.SOON


# -- who comes to whom -----------------------------------------------------------------------

QUIET_S: Final = 1.0
"""How long nobody may have typed elsewhere for a question to take the focus unasked."""


@final
class CallUp:
    """Tells when a new question may take the focus: once, and never from somebody who types."""

    def __init__(self, idle_s: Callable[[], float]) -> None:
        """Take who says for how long nobody has typed; 0 where something is being written."""
        self._idle_s = idle_s
        self._asked_ids: frozenset[str] = frozenset()
        self.is_pending = False
        """Whether there is a question that nobody has gone to."""

    def update(self, asked: frozenset[str], *, is_here: bool) -> bool:
        """Take over what is asked now, and tell whether any of it is new.

        `is_here` where the person is there already.
        """
        is_new = not asked <= self._asked_ids
        self.is_pending = bool(asked) and not is_here and (self.is_pending or is_new)
        self._asked_ids = asked
        return is_new

    def mark_focused(self) -> None:
        """The person is there; whoever leaves again is not called back."""
        self.is_pending = False

    @property
    def is_due(self) -> bool:
        """Whether the focus may be taken now."""
        return self.is_pending and self._idle_s() >= QUIET_S
