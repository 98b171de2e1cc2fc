"""The state of an approval: the pending calls, the choices, and the keys that count as a choice.

A user must not approve a call by accident. So a decision takes two steps, a letter and then Enter.
Neither counts when it looks like something else: prose typed for the prompt, a key that is held
down, or a key pressed before the request appeared.

This module imports no widget.
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
"""How long a request must be visible before a key counts, and how long no letter may precede a
choice. Letters of prose follow each other faster."""
_PROSE_PAUSE_S: Final = 1.2
"""The same pause after a letter that chose nothing. A slow typist may stop to think, and the o of a
slow `no` is not a yes."""
_FOCUS_GRACE_S: Final = 0.3
"""How long keys may still be meant for the prompt after the panel took the focus."""
_REPEAT_PAUSE_S: Final = 0.2
"""The same letter after this pause repeats the choice."""
_MIN_ENTER_PAUSE_S: Final = 0.06
"""Faster keys are pasted or repeated; the user has not read anything in between."""
_PASTE_PAUSE_S: Final = 0.02
"""No user types as fast as this."""
_KEY_REPEAT_S: Final = 0.8
"""Longer than keyboards wait before they repeat a key that is held down."""
IDLE_S: Final = 1.0
"""How long the prompt must be idle before a request takes the focus."""
NO_LONGER_ASKED: Final = "no longer asked, or changed meanwhile: nothing was decided"


# -- choices ----------------------------------------------------------------------------------


class ApprovalChoice(StrEnum):
    """A decision about one call, or about several."""

    ONCE = "once"
    SESSION = "session"
    PROJECT = "project"
    USER = "user"
    DENY = "deny"
    EXPLAIN = "explain"
    """Deny, with a reason for the model."""
    ALL = "all"
    """List all pending calls, to allow them together."""
    THESE = "these"
    """Allow the listed calls."""
    BACK = "back"


SCOPE_BY_CHOICE: Final = {
    ApprovalChoice.SESSION: GrantScope.SESSION,
    ApprovalChoice.PROJECT: GrantScope.PROJECT,
    ApprovalChoice.USER: GrantScope.USER,
}
"""The choices that allow more than this call, by a rule."""


class ApprovalOffer(NamedTuple):
    """A choice as it is offered."""

    choice: ApprovalChoice
    letter: str
    label: str
    meaning: str
    """The effect of Enter."""
    obstacle: str = ""
    """The reason why it cannot be chosen; empty if it can."""


_ALLOW_ONCE: Final = ApprovalOffer(
    ApprovalChoice.ONCE, "o", "once", "this call runs, with exactly these arguments"
)


_RULE_LIFETIMES: Final = {
    ApprovalChoice.SESSION: "in this session",
    ApprovalChoice.PROJECT: "for this folder until revoked",
    ApprovalChoice.USER: "for all folders until revoked",
}
"""The lifetime of the rule of each wider permission."""


_DENIALS: Final = (
    ApprovalOffer(
        ApprovalChoice.DENY, "d", "deny", "it does not run; the model is told so, and goes on"
    ),
    ApprovalOffer(ApprovalChoice.EXPLAIN, "r", "deny with reason", "asks what to tell the model"),
)


def offers_for_call(pending: PendingCall, undecided: int) -> tuple[ApprovalOffer, ...]:
    """Return the choices for one call; `undecided` is the number of calls without a decision."""
    obstacle = rule_obstacle(pending.request)
    rule = "" if obstacle or pending.request is None else _rule_text(pending.request)
    rule_offers = [
        ApprovalOffer(
            choice,
            choice[0],
            f"for {choice}",
            f"stores the rule {rule} · kept {lifetime}",
            obstacle,
        )
        for choice, lifetime in _RULE_LIFETIMES.items()
    ]
    all_offer = (
        ApprovalOffer(
            ApprovalChoice.ALL,
            "a",
            f"all {undecided} once",
            f"lists all {undecided} before any runs",
        ),
    )
    return (_ALLOW_ONCE, *rule_offers, *_DENIALS, *(all_offer if undecided > 1 else ()))


def _rule_text(request: ApprovalRequest) -> str:
    """Return the rule of a question as it would be stored, and how far it reaches if that is far."""
    preview = preview_rule(request.rule, request)
    return f"{request.rule}{'' if preview.is_narrow else f' ({preview.description})'}"


def offers_for_calls(count: int) -> tuple[ApprovalOffer, ...]:
    """Return the choices for a list of calls."""
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
    """The effect of a rule that the user types."""

    rule: str | None
    """The stored form; None if the text is not a rule."""
    description: str
    is_narrow: bool = False
    """Whether it covers this call and similar ones, and no more."""


def preview_rule(text: str, request: ApprovalRequest) -> RulePreview:
    """Return the calls that a rule would cover, or the reason why the text is not a rule."""
    if not text.strip():
        return RulePreview(None, "rule: write which calls to allow, as in bash(git log *)")
    try:
        rule = PermissionRule.parse(text)
    except InvalidValue as exc:
        return RulePreview(None, terminal_line(str(exc)))
    is_narrow = False
    if not rule.covers_all(request.call.name, request.capability, request.subjects):
        description = "does not cover this call, which runs this once all the same"
    elif rule.covers_everything:
        description = f"covers every call of {rule.tool}, whatever it is about"
    else:
        description, is_narrow = "covers this call and its like", True
    return RulePreview(str(rule), description, is_narrow)


def stored_rule_notice(decision: ApprovalDecision) -> str:
    """Return the notice about a rule that outlasts the session; empty if there is none."""
    if decision.scope not in (GrantScope.PROJECT, GrantScope.USER):
        return ""
    lifetime = _RULE_LIFETIMES[ApprovalChoice(decision.scope)]
    return f"{decision.rule} is allowed {lifetime}; /permissions shows it"


def decision_from_text(
    choice: ApprovalChoice, text: str, request: ApprovalRequest | None, *, actor: str
) -> ApprovalDecision | None:
    """Return the decision of a typed rule or reason; None if the text makes none."""
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
    """Return the decision that stores the rule of a request; None if a text must be typed first."""
    if request is None or choice not in SCOPE_BY_CHOICE:
        return None
    return decision_from_text(choice, request.rule, request, actor=actor)


def decide_calls(
    session: AgentSession, calls: Sequence[PendingCall], decision: ApprovalDecision
) -> list[str]:
    """Apply one decision to several calls; return the errors as text."""
    errors: list[str] = []
    # Waiting calls first: the run continues with the last answered request.
    for pending in sorted(calls, key=lambda pending: pending.request is not None):
        try:
            session.decide(pending.call.id, decision)
        except StenoError as exc:
            errors.append(terminal_line(str(exc)))
    return errors


# -- keys -------------------------------------------------------------------------------------


class KeyRefusal(StrEnum):
    """The reason why a key is ignored."""

    TOO_SOON = "too_soon"
    PROSE = "prose"
    PASTED_ENTER = "pasted_enter"
    DOUBLE_CLICK = "double_click"
    HELD_DOWN = "held_down"
    NO_CHOICE = "no_choice"
    NOTHING_CHOSEN = "nothing_chosen"
    PASTE = "paste"

    @property
    def text(self) -> str:
        """The message for the user."""
        return _REFUSAL_TEXTS[self]


_REFUSAL_TEXTS: Final = {
    KeyRefusal.TOO_SOON: "ignored: that came before there was time to read; once more, please",
    KeyRefusal.PROSE: (
        "nothing is chosen: letters close together are taken for prose; pause, then one letter"
    ),
    KeyRefusal.PASTED_ENTER: "ignored: Enter came at once behind another key, as in a paste",
    KeyRefusal.DOUBLE_CLICK: "ignored: that was the second half of a double click",
    KeyRefusal.HELD_DOWN: (
        "ignored: Enter may still have been held down; wait a second, then once more"
    ),
    KeyRefusal.NO_CHOICE: "nothing is chosen: that key stands for no choice",
    KeyRefusal.NOTHING_CHOSEN: "nothing is chosen: first a letter or ← →, then Enter",
    KeyRefusal.PASTE: "nothing is chosen: a paste decides nothing; Esc leads to the prompt",
}


@final
class KeyGuard:
    """Separates keys that are a decision from keys that were meant for something else.

    Every key is recorded. Each check returns a refusal, or None if the key counts.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """Take a clock in seconds."""
        self._now = now
        self._appeared_at = now()
        self._taken_at = self._letter_at = self._key_at = self._click_at = float("-inf")
        self._recent_letters = ""
        """The letters that came without a pause, each once."""
        self._is_prose = False
        """Whether the last letter was no choice."""
        self._is_enter = False
        """Whether the last key was Enter; a key that is held down sends nothing else."""

    def content_changed(self) -> None:
        """Something else is on the screen from now on."""
        self._appeared_at = self._now()

    def focus_taken(self) -> None:
        """Record that keys arrive here from now on without a request by the user."""
        self._taken_at = self._now()

    def check_letter(self, letter: str, *, is_choice: bool = True) -> KeyRefusal | None:
        """Check whether a character is a choice: it stands alone, or repeats the last one.

        A letter that is no choice counts as the beginning of prose for the letters after it.
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
        """Check whether another key refers to the visible request."""
        self._record_key(is_enter=False)
        return self._check_read()

    def check_enter(self, *, allows_quick_enter: bool = False) -> KeyRefusal | None:
        """Check whether Enter is a decision."""
        pause_s = self._now() - self._key_at
        was_enter = self._is_enter
        self._record_key(is_enter=True)
        if was_enter and pause_s < _KEY_REPEAT_S:
            return KeyRefusal.HELD_DOWN
        if pause_s < (_PASTE_PAUSE_S if allows_quick_enter else _MIN_ENTER_PAUSE_S):
            return KeyRefusal.PASTED_ENTER
        return self._check_read()

    def check_click(self) -> KeyRefusal | None:
        """Check whether a click counts; of a double click only the first half does."""
        now = self._now()
        pause_s, self._click_at = now - self._click_at, now
        if now - self._appeared_at < READING_TIME_S:
            return KeyRefusal.TOO_SOON
        return KeyRefusal.DOUBLE_CLICK if pause_s < READING_TIME_S else None

    def _record_key(self, *, is_enter: bool) -> None:
        self._key_at, self._is_enter = self._now(), is_enter

    def _check_read(self) -> KeyRefusal | None:
        now = self._now()
        is_read = (
            now - self._appeared_at >= READING_TIME_S and now - self._taken_at >= _FOCUS_GRACE_S
        )
        return None if is_read else KeyRefusal.TOO_SOON


# -- focus ------------------------------------------------------------------------------------


@final
class FocusPolicy:
    """Decides when a new request may take the focus: once, and never while the user types."""

    def __init__(self, idle_s: Callable[[], float]) -> None:
        """Take the idle time of the prompt in seconds; 0 while it holds text."""
        self._idle_s = idle_s
        self._asked_ids: frozenset[str] = frozenset()
        self.is_pending: bool = False
        """Whether there is a request that the user has not focused yet."""

    def update(self, asked: frozenset[str], *, has_focus: bool) -> bool:
        """Take the ids of the requests; return whether any of them is new.

        `has_focus` is True if the panel has the focus already.
        """
        is_new = not asked <= self._asked_ids
        self.is_pending = bool(asked) and not has_focus and (self.is_pending or is_new)
        self._asked_ids = asked
        return is_new

    def mark_focused(self) -> None:
        """Record that the panel has the focus; a user who leaves it is not called back."""
        self.is_pending = False

    @property
    def is_due(self) -> bool:
        """Whether the panel may take the focus now."""
        return self.is_pending and self._idle_s() >= IDLE_S


@final
class ApprovalState:
    """The pending calls, the one that is shown, and the choice that Enter would confirm.

    The shown call stays while the user decides about it. If it changes all the same, the choice is
    dropped and `message` reports it. Nothing here decides.
    """

    def __init__(self, key_guard: KeyGuard) -> None:
        """Start without a call; `attention` is notified whenever another call is shown."""
        self._key_guard = key_guard
        self.pending: tuple[PendingCall, ...] = ()
        self.shown_call: PendingCall | None = None
        self.listed_calls: tuple[PendingCall, ...] = ()
        """The calls to be allowed together while the list is shown."""
        self.edited_choice: ApprovalChoice | None = None
        """The choice for which a rule or a reason is being written."""
        self.highlighted: ApprovalOffer | None = None
        """The choice that Enter confirms."""
        self.message: str = ""
        """A message that replaces the hint."""

    @property
    def undecided(self) -> tuple[PendingCall, ...]:
        """The calls without a decision."""
        return tuple([pending for pending in self.pending if pending.decision is None])

    @property
    def asked_ids(self) -> frozenset[str]:
        """The ids of the calls that the run waits for."""
        return frozenset(
            [pending.call.id for pending in self.undecided if pending.request is not None]
        )

    @property
    def offers(self) -> tuple[ApprovalOffer, ...]:
        """The choices for the shown call or list."""
        if self.listed_calls:
            return offers_for_calls(len(self.listed_calls))
        return (
            () if self.shown_call is None else offers_for_call(self.shown_call, len(self.undecided))
        )

    def update_pending(self, pending: Sequence[PendingCall]) -> None:
        """Replace the pending calls."""
        self.pending = tuple(pending)
        undecided = self.undecided
        same_call = None if self.shown_call is None else _find_same_call(self.shown_call, undecided)
        if same_call is None:
            asked = [call for call in undecided if call.request is not None]
            self.show_call(next(iter(asked or undecided), None), NO_LONGER_ASKED)
        elif same_call != self.shown_call:
            # A question has come for it; a no with its reason holds all the same.
            kept_choice = (
                self.edited_choice if self.edited_choice is ApprovalChoice.EXPLAIN else None
            )
            self.show_call(same_call, "" if kept_choice else NO_LONGER_ASKED)
            self.edited_choice = kept_choice
        elif not all(_find_same_call(call, undecided) for call in self.listed_calls):
            self.reset(NO_LONGER_ASKED)

    def show_call(self, pending: PendingCall | None, message: str = "") -> None:
        """Show a call, or none; report it if a choice was highlighted."""
        self.reset(message)
        self.shown_call = pending

    def reset(self, message: str = "") -> None:
        """Drop every choice for the shown call; report it if one was highlighted."""
        is_deciding = bool(self.highlighted or self.edited_choice or self.listed_calls)
        self.listed_calls, self.edited_choice, self.highlighted = (), None, None
        self.message = message if is_deciding else ""
        self._key_guard.content_changed()

    def show_next(self, step: int) -> None:
        """Show the next call, or the one before."""
        undecided = self.undecided
        if self.shown_call is not None and len(undecided) > 1:
            here = undecided.index(self.shown_call)
            self.show_call(undecided[(here + step) % len(undecided)])

    def list_all(self) -> None:
        """Show all undecided calls, to allow them together."""
        self.reset()
        self.listed_calls = self.undecided

    def begin_answer(self, choice: ApprovalChoice) -> None:
        """Open the input for a rule or a reason."""
        self.reset()
        self.edited_choice = choice

    # -- highlighted choice ---------------------------------------------------------------

    def highlight(self, offer: ApprovalOffer | None, message: str = "") -> None:
        """Highlight the choice that Enter confirms, or none; an impossible one shows its obstacle."""
        if offer is None or not offer.obstacle:
            self.highlighted, self.message = offer, message
        else:
            self.highlighted, self.message = None, f"{offer.label}: {offer.obstacle}"

    @property
    def is_rule_offered(self) -> bool:
        """Whether Enter would store a rule, which can be edited first."""
        return self.highlighted is not None and self.highlighted.choice in SCOPE_BY_CHOICE

    def offer_for_choice(self, choice: ApprovalChoice) -> ApprovalOffer | None:
        """Return the offer of a choice; None where there is none."""
        return next((offer for offer in self.offers if offer.choice is choice), None)

    def offer_for_letter(self, letter: str) -> ApprovalOffer | None:
        """Return the offer of a letter; None if it has none."""
        return next((offer for offer in self.offers if offer.letter == letter), None)

    def highlight_next(self, step: int) -> None:
        """Highlight the next choice that is possible, or the one before."""
        possible = [offer for offer in self.offers if not offer.obstacle]
        if self.highlighted is not None and self.highlighted in possible:
            self.highlight(possible[(possible.index(self.highlighted) + step) % len(possible)])
        elif possible:
            self.highlight(possible[0 if step > 0 else -1])


def _find_same_call(pending: PendingCall, among: Sequence[PendingCall]) -> PendingCall | None:
    """Return the call among others; an id alone does not make it the same."""
    return next((other for other in among if other.call == pending.call), None)


@final
class CallPreview:
    """The preview of one waiting call that has no request yet."""

    def __init__(self) -> None:
        """Start without a call."""
        self._call: ToolCall | None = None
        self.preview: str = ""
        """The effect of the call, as text for the user."""

    def select(self, shown: PendingCall | None) -> bool:
        """Select a call; return whether its preview must be loaded. A request has its own preview."""
        if shown is None or shown.request is not None or shown.call == self._call:
            return False
        self._call, self.preview = shown.call, ""
        return True

    async def load(self, session: AgentSession, call: ToolCall) -> str:
        """Load the preview of a call; return the reason if that fails, else an empty text."""
        try:
            preview = await session.preview(call)
        except StenoError as exc:
            return f"it cannot be told what it would do: {terminal_line(str(exc))}"
        if self._call == call:
            self.preview = preview
        return ""
