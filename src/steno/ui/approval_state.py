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

from steno.agent.permissions.rules import PermissionRule
from steno.app.session import AgentSession, PendingCall
from steno.errors import InvalidValue, StenoError
from steno.messages.call import ToolCall
from steno.ports import ApprovalDecision, ApprovalRequest, GrantScope
from steno.render.terminal_text import terminal_line, terminal_text

_WAITING_REASON: Final = "it waits behind another call, and a rule may yet decide about it"
NO_RULE_REASON: Final = "no rule would cover only calls like this one"
_UNPRINTABLE_RULE: Final = "a rule for it would hold what cannot be shown"
READING_TIME_S: Final = 0.6
"""How long something has to be on the screen before a key can be about it; and how long no letter
may have come for the next one to be a choice: who writes prose pauses less."""
_PROSE_PAUSE_S: Final = 1.2
"""How long that is behind a letter that chose nothing: who writes prose may stop to think, or be
slow, and the o of a slow `no` is no yes."""
_FOCUS_GRACE_S: Final = 0.3
"""How long keys may still be meant for the prompt when the focus was taken from there."""
_REPEAT_PAUSE_S: Final = 0.2
"""Who presses the same letter again after so long means the same again."""
_MIN_ENTER_PAUSE_S: Final = 0.06
"""Keys that come faster are pasted or repeated, and nobody has looked in between."""
_PASTE_PAUSE_S: Final = 0.02
"""Nobody types as fast as that."""
_KEY_REPEAT_S: Final = 0.8
"""Longer than keyboards wait before they repeat a key that is held down."""
IDLE_S: Final = 1.0
"""How long nobody may have typed elsewhere for a question to take the focus unasked."""
NO_LONGER_ASKED: Final = "no longer asked, or changed meanwhile: nothing was decided"


# -- what there is to choose -----------------------------------------------------------------


class ApprovalChoice(StrEnum):
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


SCOPE_BY_CHOICE: Final = {
    ApprovalChoice.SESSION: GrantScope.SESSION,
    ApprovalChoice.PROJECT: GrantScope.PROJECT,
    ApprovalChoice.USER: GrantScope.USER,
}
"""The choices that allow more than the call at hand, by a rule."""


class ApprovalOffer(NamedTuple):
    """A choice as it is offered."""

    choice: ApprovalChoice
    letter: str
    label: str
    meaning: str
    """What Enter will do."""
    obstacle: str = ""
    """Why it cannot be chosen; empty where it can."""


_ALLOW_ONCE: Final = ApprovalOffer(
    ApprovalChoice.ONCE, "o", "once", "this call runs, with exactly these arguments"
)


_RULE_PLACES: Final = {
    ApprovalChoice.SESSION: "in this session",
    ApprovalChoice.PROJECT: "for this folder until revoked",
    ApprovalChoice.USER: "for all folders until revoked",
}
"""Where the rule of a wider yes is kept."""


_DENIALS: Final = (
    ApprovalOffer(
        ApprovalChoice.DENY, "d", "deny", "it does not run; the model is told so, and goes on"
    ),
    ApprovalOffer(ApprovalChoice.EXPLAIN, "r", "deny with reason", "asks what to tell the model"),
)


def offers_for_call(pending: PendingCall, undecided: int) -> tuple[ApprovalOffer, ...]:
    """Return what can be chosen for a call, one of so many that nobody has decided about."""
    obstacle = rule_obstacle(pending.request)
    rule = "" if obstacle or pending.request is None else _rule_text(pending.request)
    wide = [
        ApprovalOffer(
            choice, choice[0], f"for {choice}", f"stores the rule {rule} · kept {place}", obstacle
        )
        for choice, place in _RULE_PLACES.items()
    ]
    together = (
        ApprovalOffer(
            ApprovalChoice.ALL,
            "a",
            f"all {undecided} once",
            f"lists all {undecided} before any runs",
        ),
    )
    return (_ALLOW_ONCE, *wide, *_DENIALS, *(together if undecided > 1 else ()))


def _rule_text(request: ApprovalRequest) -> str:
    """Return the rule of a question as it would be stored, and how far it reaches if that is far."""
    reading = preview_rule(request.rule, request)
    return f"{request.rule}{'' if reading.is_narrow else f' ({reading.description})'}"


def offers_for_calls(count: int) -> tuple[ApprovalOffer, ...]:
    """Return what can be chosen once all calls are listed."""
    return (
        ApprovalOffer(
            ApprovalChoice.THESE,
            "y",
            f"allow these {count} once",
            f"these {count} calls run, once each",
        ),
        ApprovalOffer(ApprovalChoice.BACK, "n", "go back", "nothing is decided"),
    )


def rule_obstacle(request: ApprovalRequest | None) -> str:
    """Return why nothing wider than the call can be allowed; empty where it can."""
    if request is None:
        return _WAITING_REASON
    if not request.rule:
        return NO_RULE_REASON
    return "" if terminal_text(request.rule) == request.rule else _UNPRINTABLE_RULE


# -- rules -----------------------------------------------------------------------------------


class RulePreview(NamedTuple):
    """What a rule that somebody types would do."""

    rule: str | None
    """As it would be stored; None where it cannot be."""
    description: str
    is_narrow: bool = False
    """Whether it covers this call and its like, and no more."""


def preview_rule(text: str, request: ApprovalRequest) -> RulePreview:
    """Tell what a rule would cover, or why it is none."""
    if not text.strip():
        return RulePreview(None, "rule: write which calls to allow, as in bash(git log *)")
    try:
        rule = PermissionRule.parse(text)
    except InvalidValue as exc:
        return RulePreview(None, terminal_line(str(exc)))
    is_near = False
    if not rule.covers_all(request.call.name, request.capability, request.subjects):
        verb_text = "does not cover this call, which runs this once all the same"
    elif rule.covers_everything:
        verb_text = f"covers every call of {rule.tool}, whatever it is about"
    else:
        verb_text, is_near = "covers this call and its like", True
    return RulePreview(str(rule), verb_text, is_near)


def kept_rule_notice(decision: ApprovalDecision) -> str:
    """Return what to tell about a rule that outlasts the session; nothing where none does."""
    if decision.scope not in (GrantScope.PROJECT, GrantScope.USER):
        return ""
    place = _RULE_PLACES[ApprovalChoice(decision.scope)]
    return f"{decision.rule} is allowed {place}; /permissions shows it"


def decision_from_text(
    choice: ApprovalChoice, text: str, request: ApprovalRequest | None, *, actor: str
) -> ApprovalDecision | None:
    """Return the verdict that a written rule or reason makes; None where it makes none."""
    if choice is ApprovalChoice.EXPLAIN:
        reason = text.strip()
        return ApprovalDecision(allowed=False, actor=actor, reason=reason) if reason else None
    rule = None if request is None else preview_rule(text, request).rule
    if rule is None or choice not in SCOPE_BY_CHOICE:
        return None
    return ApprovalDecision(allowed=True, actor=actor, scope=SCOPE_BY_CHOICE[choice], rule=rule)


def decision_from_offer(
    choice: ApprovalChoice, request: ApprovalRequest | None, *, actor: str
) -> ApprovalDecision | None:
    """Return the verdict that stores the rule of a question; None where words are wanted."""
    if request is None or choice not in SCOPE_BY_CHOICE:
        return None
    return decision_from_text(choice, request.rule, request, actor=actor)


def decide_calls(
    session: AgentSession, calls: Sequence[PendingCall], decision: ApprovalDecision
) -> list[str]:
    """Decide about calls alike; return what is said against it."""
    refusals: list[str] = []
    # What waits comes first: when the last question has its answer, the run goes on.
    for pending in sorted(calls, key=lambda one: one.request is not None):
        try:
            session.decide(pending.call.id, decision)
        except StenoError as exc:
            refusals.append(terminal_line(str(exc)))
    return refusals


# -- keys that are meant ---------------------------------------------------------------------


class KeyRefusal(StrEnum):
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
class KeyGuard:
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

    def check_letter(self, letter: str, *, is_choice: bool = True) -> KeyRefusal | None:
        """Tell whether a character can be meant alone: it stands alone, or comes again.

        One that is no choice is the beginning of prose as far as the next ones are concerned.
        """
        pause_s = self._now() - self._letter_at
        if pause_s >= (_PROSE_PAUSE_S if self._is_prose else READING_TIME_S):
            self._recent_letters = ""
        is_alone = not self._recent_letters or (
            letter == self._recent_letters and pause_s >= _REPEAT_PAUSE_S
        )
        self._recent_letters += letter if letter not in self._recent_letters else ""
        self._letter_at = self._now()
        refusal = self.check_key() or (None if is_alone else KeyRefusal.PROSE)
        self._is_prose = refusal is not None or not is_choice
        return refusal

    def check_key(self) -> KeyRefusal | None:
        """Tell whether some other key can be about what is shown."""
        self._record_key(is_enter=False)
        return self._check_read()

    def check_enter(self, *, allows_quick_enter: bool = False) -> KeyRefusal | None:
        """Tell whether Enter can be a decision."""
        pause_s = self._now() - self._key_at
        was_enter = self._is_enter
        self._record_key(is_enter=True)
        if was_enter and pause_s < _KEY_REPEAT_S:
            return KeyRefusal.HELD
        if pause_s < (_PASTE_PAUSE_S if allows_quick_enter else _MIN_ENTER_PAUSE_S):
            return KeyRefusal.HASTY
        return self._check_read()

    def check_click(self) -> KeyRefusal | None:
        """Tell whether a click counts; of a double click only the first half does."""
        now = self._now()
        pause_s, self._click_at = now - self._click_at, now
        if now - self._appeared_at < READING_TIME_S:
            return KeyRefusal.SOON
        return KeyRefusal.DOUBLE if pause_s < READING_TIME_S else None

    def _record_key(self, *, is_enter: bool) -> None:
        self._key_at, self._is_enter = self._now(), is_enter

    def _check_read(self) -> KeyRefusal | None:
        now = self._now()
        is_read = (
            now - self._appeared_at >= READING_TIME_S and now - self._taken_at >= _FOCUS_GRACE_S
        )
        return None if is_read else KeyRefusal.SOON


# -- who comes to whom -----------------------------------------------------------------------


@final
class FocusRequest:
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
        return self.is_pending and self._idle_s() >= IDLE_S


@final
class ApprovalState:
    """See above."""

    def __init__(self, attention: KeyGuard) -> None:
        """Begin without a call; say to `attention` whenever another one is shown."""
        self._key_guard = attention
        self.pending: tuple[PendingCall, ...] = ()
        self.shown_call: PendingCall | None = None
        self.listed_calls: tuple[PendingCall, ...] = ()
        """What is to be allowed together, while somebody looks at all of it."""
        self.answered_choice: ApprovalChoice | None = None
        """The choice for which a rule or a reason is being written."""
        self.highlighted: ApprovalOffer | None = None
        """What Enter would do."""
        self.message = ""
        """What the person should know before anything else."""

    @property
    def undecided(self) -> tuple[PendingCall, ...]:
        """Those that nobody has decided about."""
        return tuple([one for one in self.pending if one.decision is None])

    @property
    def asked_ids(self) -> frozenset[str]:
        """Those of them that are waited for right now."""
        return frozenset([one.call.id for one in self.undecided if one.request is not None])

    @property
    def offers(self) -> tuple[ApprovalOffer, ...]:
        """What there is to choose."""
        if self.listed_calls:
            return offers_for_calls(len(self.listed_calls))
        return (
            () if self.shown_call is None else offers_for_call(self.shown_call, len(self.undecided))
        )

    def update_pending(self, pending: Sequence[PendingCall]) -> None:
        """Take over what awaits a decision now."""
        self.pending = tuple(pending)
        undecided = self.undecided
        same_call = None if self.shown_call is None else _find_same_call(self.shown_call, undecided)
        if same_call is None:
            asked = [one for one in undecided if one.request is not None]
            self.show_call(next(iter(asked or undecided), None), NO_LONGER_ASKED)
        elif same_call != self.shown_call:
            # A question has come for it; a no with its reason holds all the same.
            worded = (
                self.answered_choice if self.answered_choice is ApprovalChoice.EXPLAIN else None
            )
            self.show_call(same_call, "" if worded else NO_LONGER_ASKED)
            self.answered_choice = worded
        elif not all(_find_same_call(one, undecided) for one in self.listed_calls):
            self.reset(NO_LONGER_ASKED)

    def show_call(self, pending: PendingCall | None, typed: str = "") -> None:
        """Show a call, or none; say so if something was about to be decided."""
        self.reset(typed)
        self.shown_call = pending

    def reset(self, typed: str = "") -> None:
        """Begin anew with the call shown; say so if something was about to be decided."""
        is_deciding = bool(self.highlighted or self.answered_choice or self.listed_calls)
        self.listed_calls, self.answered_choice, self.highlighted = (), None, None
        self.message = typed if is_deciding else ""
        self._key_guard.content_changed()

    def show_next(self, step: int) -> None:
        """Show the next call, or the one before."""
        undecided = self.undecided
        if self.shown_call is not None and len(undecided) > 1:
            here = undecided.index(self.shown_call)
            self.show_call(undecided[(here + step) % len(undecided)])

    def list_all(self) -> None:
        """Let all be looked at, to be allowed together."""
        self.reset()
        self.listed_calls = self.undecided

    def begin_answer(self, choice: ApprovalChoice) -> None:
        """Let a rule or a reason be written."""
        self.reset()
        self.answered_choice = choice

    # -- what is highlighted -----------------------------------------------------------------

    def highlight(self, offer: ApprovalOffer | None, typed: str = "") -> None:
        """Highlight what Enter would do, or nothing; what cannot be chosen says why."""
        if offer is None or not offer.obstacle:
            self.highlighted, self.message = offer, typed
        else:
            self.highlighted, self.message = None, f"{offer.label}: {offer.obstacle}"

    @property
    def is_rule_offered(self) -> bool:
        """Whether Enter would store a rule, which may be edited before."""
        return self.highlighted is not None and self.highlighted.choice in SCOPE_BY_CHOICE

    def offer_for_choice(self, choice: ApprovalChoice) -> ApprovalOffer | None:
        """Return the offer of a choice; None where there is none."""
        return next((offer for offer in self.offers if offer.choice is choice), None)

    def offer_for_letter(self, letter: str) -> ApprovalOffer | None:
        """Return the offer that a letter stands for; None where it stands for none."""
        return next((offer for offer in self.offers if offer.letter == letter), None)

    def highlight_next(self, step: int) -> None:
        """Highlight the next choice that is possible, or the one before."""
        possible = [offer for offer in self.offers if not offer.obstacle]
        if self.highlighted is not None and self.highlighted in possible:
            self.highlight(possible[(possible.index(self.highlighted) + step) % len(possible)])
        elif possible:
            self.highlight(possible[0 if step > 0 else -1])


def _find_same_call(one: PendingCall, among: Sequence[PendingCall]) -> PendingCall | None:
    """Return the call among others; an id alone does not make it the same."""
    return next((other for other in among if other.call == one.call), None)


@final
class CallPreview:
    """Knows about one call at a time."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._call: ToolCall | None = None
        self.preview = ""
        """What the call would do, for people to read."""

    def select(self, shown: PendingCall | None) -> bool:
        """Take a call; tell whether to `look` what it would do. A question says so itself."""
        if shown is None or shown.request is not None or shown.call == self._call:
            return False
        self._call, self.preview = shown.call, ""
        return True

    async def load(self, session: AgentSession, call: ToolCall) -> str:
        """Find out what a call would do; return why that cannot be told, or nothing."""
        try:
            preview = await session.preview(call)
        except StenoError as exc:
            return f"it cannot be told what it would do: {terminal_line(str(exc))}"
        if self._call == call:
            self.preview = preview
        return ""
