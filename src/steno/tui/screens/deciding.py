"""Deciding about a call: what there is to choose, and which keys mean it.

Nobody shall approve what they did not mean to. So a decision takes two steps, a letter and then
Enter, and neither counts where it looks like something else: prose that was meant for the prompt,
a key that is held down, a key that was on its way when the question appeared.

Nothing here knows a widget.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple, final

from steno.agent.rules import Rule
from steno.errors import InvalidValue
from steno.ports import Question, Scope, Verdict
from steno.printable import on_one_line, printable
from steno.tui.desk import Pending

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
_WIDE: Final = (
    Offer(Choice.SESSION, "s", "for session", "shows the rule to allow in this session"),
    Offer(Choice.PROJECT, "p", "for project", "shows the rule to allow in this folder for good"),
    Offer(Choice.USER, "u", "for user", "shows the rule to allow in all folders for good"),
)
_NO: Final = (
    Offer(Choice.DENY, "d", "deny", "it does not run; the model is told so, and goes on"),
    Offer(Choice.EXPLAIN, "r", "deny with reason", "asks what the model should be told"),
)
_WAITS: Final = "it waits behind another call, and a rule may yet decide about it"
NO_RULE: Final = "no rule would cover only calls like this one"
_UNREADABLE: Final = "a rule for it would hold what cannot be shown"


def offers_for(pending: Pending, undecided: int) -> tuple[Offer, ...]:
    """Return what can be chosen for a call, one of so many that nobody has decided about."""
    obstacle = obstacle_to_rules(pending.question)
    wide = tuple([offer._replace(obstacle=obstacle) for offer in _WIDE])
    together = (
        Offer(Choice.ALL, "a", f"all {undecided} once", f"lists all {undecided} before any runs"),
    )
    return (_ONCE, *wide, *_NO, *(together if undecided > 1 else ()))


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
    words: str


def read_rule(text: str, question: Question) -> RuleReading:
    """Tell what a rule would cover, or why it is none."""
    if not text.strip():
        return RuleReading(None, "rule: write which calls to allow, as in bash(git log *)")
    try:
        rule = Rule.parse(text)
    except InvalidValue as exc:
        return RuleReading(None, on_one_line(str(exc)))
    if not rule.covers_all(question.call.name, question.capability, question.subjects):
        words = "does not cover this call, which runs this once all the same"
    elif rule.covers_everything:
        words = f"covers every call of {rule.tool}, whatever it is about"
    else:
        words = "covers this call and its like"
    return RuleReading(str(rule), words)


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


# -- keys that are meant ---------------------------------------------------------------------

SETTLING_S: Final = 0.6
"""How long something has to be on the screen before a key can be about it; and how long no letter
may have come for the next one to be a choice: who writes prose pauses less."""
_HASTE_S: Final = 0.12
"""Keys that come faster are typed, pasted or repeated, and nobody has looked in between."""
_PASTED_S: Final = 0.02
"""Nobody types as fast as that."""
_HELD_S: Final = 0.8
"""Longer than keyboards wait before they repeat a key that is held down."""


@final
class Attention:
    """Tells keys that mean a decision from those that were meant for something else."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Take a clock, in seconds."""
        self._now = now
        self._appeared_at = self._focused_at = now()
        self._letter_at = self._key_at = self._enter_at = self._click_at = float("-inf")

    def appear(self) -> None:
        """Something else is on the screen from now on."""
        self._appeared_at = self._now()

    def take_focus(self) -> None:
        """Keys come here from now on; some may have been meant for elsewhere."""
        self._focused_at = self._now()

    @property
    def is_settled(self) -> bool:
        """Whether a key that comes now may be about what is on the screen."""
        return self._now() - max(self._appeared_at, self._focused_at) >= SETTLING_S

    def takes_letter(self) -> bool:
        """Note that a character came, and tell whether it stands alone and can be a choice."""
        now = self._now()
        is_alone = now - self._letter_at >= SETTLING_S
        self._letter_at = self._key_at = now
        return is_alone and self.is_settled

    def takes_key(self) -> bool:
        """Note that some other key came, and tell whether it can be about what is shown."""
        self._key_at = self._now()
        return self.is_settled

    def takes_enter(self, *, may_be_hasty: bool = False) -> bool:
        """Note that Enter came, and tell whether it can be a decision."""
        now = self._now()
        is_hasty = now - self._key_at < (_PASTED_S if may_be_hasty else _HASTE_S)
        is_held = now - self._enter_at < _HELD_S
        self._key_at = self._enter_at = now
        return self.is_settled and not is_hasty and not is_held

    def takes_click(self) -> bool:
        """Note a click, and tell whether it counts; of a double click only the first half does."""
        now = self._now()
        is_second_half = now - self._click_at < SETTLING_S
        self._click_at = now
        return now - self._appeared_at >= SETTLING_S and not is_second_half
