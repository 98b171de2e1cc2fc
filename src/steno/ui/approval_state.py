"""The logic of approvals: choices, rules, decisions, and the state and keys of the panel.

The full-screen interface, the plain mode and `--ask` offer the same choices under the same keys.
This module imports no widget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, final

from msgspec.structs import replace

from steno.agent.permissions.rules import PermissionRule, counts_as_grant, find_covering_rules
from steno.app.approval_queue import PendingCall
from steno.app.permissions import check_domain_rule
from steno.app.session import AgentSession
from steno.errors import InvalidValue, StenoError
from steno.invisible import is_visible
from steno.messages.call import ToolCall
from steno.ports import (
    AccessKind,
    ApprovalDecision,
    ApprovalRequest,
    CallPreview,
    GrantScope,
    SandboxAccess,
)
from steno.render.call_text import describe_access, describe_call_status, describe_purpose
from steno.render.describe import summarize_call
from steno.render.terminal_text import terminal_line

_QUEUED_OBSTACLE: Final = "it is queued after another call, and a rule may still allow or deny it"
_NO_RULE_OBSTACLE: Final = "no safe rule matches it"
_UNPRINTABLE_OBSTACLE: Final = "its rule would contain unprintable characters"
_REQUEST_CHANGED: Final = "the request was withdrawn or has changed; nothing was decided"


# -- choices ----------------------------------------------------------------------------------


class ApprovalChoice(StrEnum):
    """A choice for a pending call. Its value is the word that can be typed instead of the key."""

    ONCE = "once"
    SESSION = "session"
    PROJECT = "project"
    USER = "user"
    DENY = "deny"
    REASON = "reason"
    """Deny, with a reason for the model."""
    UNCONFINED = "unconfined"
    """Run a call again without the sandbox that blocked it."""
    ALL = "all"
    """List all pending calls, to allow them together."""
    THESE = "yes"
    """Allow the listed calls."""
    BACK = "no"
    """Close the list without a decision."""
    VIEW = "view"
    EDIT = "edit"
    """Type another rule."""
    HELP = "?"


_RULE_LIFETIMES: Final = {
    ApprovalChoice.SESSION: "in this session",
    ApprovalChoice.PROJECT: "for this folder until revoked",
    ApprovalChoice.USER: "for all folders until revoked",
}
"""The lifetime of the rule that each choice stores. The choices are also values of `GrantScope`."""


class ApprovalOffer(NamedTuple):
    """A choice as the interfaces display it, with its key, label and effect."""

    choice: ApprovalChoice
    key: str
    label: str
    meaning: str
    """The effect of the choice, as a phrase in the imperative."""
    obstacle: str = ""
    """The reason why the choice is unavailable; empty if it is available."""


_ONCE: Final = ApprovalOffer(
    ApprovalChoice.ONCE, "o", "once", "run this call once, with exactly these arguments"
)
_DENIALS: Final = (
    ApprovalOffer(
        ApprovalChoice.DENY, "d", "deny", "deny the call; the model is notified and continues"
    ),
    ApprovalOffer(
        ApprovalChoice.REASON, "r", "deny with reason", "type a reason for the model, and deny"
    ),
)
_UNCONFINED: Final = ApprovalOffer(
    ApprovalChoice.UNCONFINED,
    "w",
    "without sandbox",
    "run this call again, once, with all rights that you have",
)
_VIEW: Final = ApprovalOffer(
    ApprovalChoice.VIEW, "v", "view all", "show everything that the call would do"
)
_EDIT: Final = ApprovalOffer(
    ApprovalChoice.EDIT, "e", "edit rule", "type another rule for session, project and user"
)
_HELP: Final = ApprovalOffer(ApprovalChoice.HELP, "h", "help", "explain the choices")


def offers_for_call(pending: PendingCall, undecided: int) -> tuple[ApprovalOffer, ...]:
    """Return the choices for one call; `undecided` is the number of calls without a decision."""
    request = pending.request
    obstacle, rule = rule_obstacle(request), ""
    if request is not None and not obstacle:
        preview = preview_rule(request.rule, request)
        rule = f"{request.rule}{'' if preview.is_narrow else f' ({preview.description})'}"
    store_rule = f"store the rule {rule}, valid"
    scopes = [
        ApprovalOffer(choice, choice[0], f"for {choice}", f"{store_rule} {lifetime}", obstacle)
        for choice, lifetime in _RULE_LIFETIMES.items()
    ]
    label, meaning = f"all {undecided} once", f"list all {undecided} calls before any of them runs"
    all_offer = ApprovalOffer(ApprovalChoice.ALL, "a", label, meaning)
    access = () if request is None else request.access
    if not access:
        once: tuple[ApprovalOffer, ...] = (_ONCE,)
    elif SandboxAccess(AccessKind.EVERYTHING) in access:
        once = (_UNCONFINED,)
    else:
        is_wider_offered = request is not None and request.may_run_unconfined
        once = (_describe_access_once(access), *((_UNCONFINED,) if is_wider_offered else ()))
    return (*once, *scopes, *_DENIALS, *((all_offer,) if undecided > 1 else ()))


def _describe_access_once(access: Sequence[SandboxAccess]) -> ApprovalOffer:
    """Return the offer to run a call again with all the access that was blocked."""
    label = "once" if len(access) == 1 else f"once with all {len(access)}"
    listed = ", ".join(map(describe_access, access))
    meaning = f"run this call again, once, with: {listed}"
    return ApprovalOffer(ApprovalChoice.ONCE, "o", label, meaning)


def offers_for_calls(count: int) -> tuple[ApprovalOffer, ...]:
    """Return the choices for a list of calls that can be allowed together."""
    label, meaning = f"allow these {count} once", f"run these {count} calls, once each"
    return (
        ApprovalOffer(ApprovalChoice.THESE, "y", label, meaning),
        ApprovalOffer(ApprovalChoice.BACK, "n", "go back", "close the list without a decision"),
    )


def typed_offers(pending: PendingCall, undecided: int) -> list[ApprovalOffer]:
    """Return the available choices for one call, in an interface where the user types them."""
    offers = [offer for offer in offers_for_call(pending, undecided) if not offer.obstacle]
    edit = [] if rule_obstacle(pending.request) else [_EDIT]
    return [*offers, _VIEW, *edit, _HELP]


def find_offer(offers: Iterable[ApprovalOffer], typed: str) -> ApprovalOffer | None:
    """Return the offer that a typed key, word or label names; None if no offer matches."""
    answer = typed.strip().lower()
    found = (offer for offer in offers if answer in (offer.key, offer.choice, offer.label))
    return next(found, None)


def list_offers(offers: Iterable[ApprovalOffer]) -> str:
    """Return the keys and labels of offers on one line."""
    return ", ".join([f"{offer.key} {offer.label}" for offer in offers])


def rule_obstacle(request: ApprovalRequest | None) -> str:
    """Return the reason why no rule can be stored for a call; empty if a rule can be stored."""
    if request is None:
        return _QUEUED_OBSTACLE
    if not request.rule:
        return _NO_RULE_OBSTACLE
    return "" if is_visible(request.rule) else _UNPRINTABLE_OBSTACLE


def once_only_note(obstacle: str) -> str:
    """Return the note about a call for which no rule can be stored."""
    return f"this call can only be allowed once: {obstacle}"


# -- rules and decisions ----------------------------------------------------------------------


class RulePreview(NamedTuple):
    """The stored form and the effect of a rule that the user types."""

    rule: str | None
    """The rule in its stored form; None if the text is not a rule."""
    description: str
    is_narrow: bool = False
    """Whether the rule matches only this call and similar calls."""


def preview_rule(text: str, request: ApprovalRequest) -> RulePreview:
    """Describe the calls that a typed rule would match, or why the text is not a rule."""
    if not text.strip():
        return RulePreview(None, f"type a rule, such as {request.rule}")
    try:
        rule = PermissionRule.parse(text)
        check_domain_rule(rule)
    except InvalidValue as exc:
        return RulePreview(None, terminal_line(str(exc)))
    is_narrow = False
    subjects = request.uncovered or request.subjects
    if find_covering_rules((rule,), request.call.name, subjects) is None:
        description = "does not match this call, which still runs once"
    elif not all(counts_as_grant(rule, subject) for subject in subjects):
        description = "counts only for commands in a sandbox, so it will not allow this call"
    elif rule.covers_everything:
        description = f"matches every call of {rule.tool}, with any arguments"
    elif rule.is_exact:
        description, is_narrow = "matches exactly this", True
    else:
        description, is_narrow = "matches this call and similar ones", True
    return RulePreview(str(rule), description, is_narrow)


def decision_for(
    choice: ApprovalChoice, request: ApprovalRequest | None, *, actor: str, text: str | None = None
) -> ApprovalDecision | None:
    """Return the decision for a choice; None if the choice decides nothing or its text is invalid.

    `text` is the typed reason, or a typed rule that replaces the offered rule.
    """
    access = () if request is None else request.access
    if choice in (ApprovalChoice.ONCE, ApprovalChoice.THESE):
        return ApprovalDecision(allowed=True, actor=actor, access=access)
    if choice is ApprovalChoice.UNCONFINED:
        everything = SandboxAccess(AccessKind.EVERYTHING)
        return ApprovalDecision(allowed=True, actor=actor, access=(everything,))
    if choice is ApprovalChoice.DENY:
        return ApprovalDecision(allowed=False, actor=actor)
    if choice is ApprovalChoice.REASON:
        reason = (text or "").strip()
        return ApprovalDecision(allowed=False, actor=actor, reason=reason) if reason else None
    if request is None or choice not in _RULE_LIFETIMES:
        return None
    rule = preview_rule(request.rule if text is None else text, request).rule
    if rule is None:
        return None
    scope = GrantScope(choice)
    return ApprovalDecision(allowed=True, actor=actor, scope=scope, rule=rule, access=access)


def stored_rule_notice(decision: ApprovalDecision) -> str:
    """Return the notice about a rule that outlives the session; empty for other decisions."""
    if decision.scope not in (GrantScope.PROJECT, GrantScope.USER):
        return ""
    lifetime = _RULE_LIFETIMES[ApprovalChoice(decision.scope)]
    return f"{decision.rule} is allowed {lifetime}; /permissions shows it"


def decide_calls(
    decide: Callable[[str, ApprovalDecision], None],
    calls: Sequence[PendingCall],
    decision: ApprovalDecision,
) -> list[str]:
    """Apply one decision to several calls; return the errors as text.

    A call that the sandbox blocked gets the access that its own request names.
    """
    errors: list[str] = []
    # Queued calls first, because the run continues as soon as a request is decided.
    for pending in sorted(calls, key=lambda pending: pending.request is not None):
        request = pending.request
        if len(calls) > 1 and decision.allowed:
            decision = replace(decision, access=() if request is None else request.access)
        try:
            decide(pending.call.id, decision)
        except StenoError as exc:
            errors.append(terminal_line(str(exc)))
    return errors


# -- state of the panel -----------------------------------------------------------------------

_MAX_LISTED_CALLS: Final = 3
_ANSWER_NOTES: Final = {
    ApprovalChoice.SESSION: "allow calls that match this rule, in this session:",
    ApprovalChoice.PROJECT: "allow calls that match this rule, in this folder until revoked:",
    ApprovalChoice.USER: "allow calls that match this rule, in all folders until revoked:",
    ApprovalChoice.REASON: "reason for the denial, sent to the model:",
}
_UNFOCUSED_HINT: Final = "Ctrl+G decide · Esc interrupt"
_CHOICE_HINT: Final = "letter or ←→ select · Enter confirm · Esc back to the prompt"
_EDIT_HINT: Final = " · e edit the rule"
_REASON_MISSING_HINT: Final = "type a reason, or press Esc and then d to deny without one"
_REASON_HINT: Final = "Enter deny and send the reason · Esc back"
_RULE_HINT: Final = "Enter store the rule · Esc back"


@final
class ApprovalState:
    """The pending calls, the shown call, and the choice that Enter would confirm.

    The shown call does not change while the user decides about it. If its request is withdrawn or
    changes, the choice is dropped and `message` reports the change.
    """

    def __init__(
        self,
        session: AgentSession,
        *,
        now: Callable[[], float],
        on_notice: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._session = session
        self._add_notice = on_notice
        self.key_guard: Final = KeyGuard(now)
        self.pending: tuple[PendingCall, ...] = ()
        self.shown_call: PendingCall | None = None
        self.listed_calls: tuple[PendingCall, ...] = ()
        """The calls in the list of calls to allow together; empty if no list is shown."""
        self.edited_choice: ApprovalChoice | None = None
        """The choice for which a rule or a reason is being typed."""
        self.offered_rule: str = ""
        """The rule before the edit; empty while a reason is typed."""
        self.highlighted: ApprovalOffer | None = None
        """The choice that Enter confirms."""
        self.message: str = ""
        """A message that replaces the hint; empty if the hint is shown."""
        self._previewed_call: ToolCall | None = None
        self.loaded_preview: CallPreview = CallPreview()
        """The preview of a queued call, which has no request yet."""

    @property
    def undecided(self) -> tuple[PendingCall, ...]:
        """The calls without a decision."""
        return tuple([pending for pending in self.pending if pending.decision is None])

    @property
    def asked_ids(self) -> frozenset[str]:
        """The IDs of the undecided calls that the run is waiting for."""
        return frozenset([call.call.id for call in self.undecided if call.request is not None])

    @property
    def offers(self) -> tuple[ApprovalOffer, ...]:
        """The choices for the shown call or list."""
        if self.listed_calls:
            return offers_for_calls(len(self.listed_calls))
        shown = self.shown_call
        return () if shown is None else offers_for_call(shown, len(self.undecided))

    def update_pending(self, pending: Sequence[PendingCall]) -> None:
        """Set the pending calls; drop the choice if the shown call or its request has changed."""
        self.pending = tuple(pending)
        undecided = self.undecided
        same_call = None if self.shown_call is None else _find_same_call(self.shown_call, undecided)
        if same_call is None:
            asked = [call for call in undecided if call.request is not None]
            self.show_call(next(iter(asked or undecided), None), _REQUEST_CHANGED)
        elif same_call != self.shown_call:
            # The request of the queued call has arrived; a reason for a denial remains valid.
            is_reason = self.edited_choice is ApprovalChoice.REASON
            self.show_call(same_call, "" if is_reason else _REQUEST_CHANGED)
            self.edited_choice = ApprovalChoice.REASON if is_reason else None
        elif not all(_find_same_call(call, undecided) for call in self.listed_calls):
            self.reset(_REQUEST_CHANGED)

    def show_call(self, pending: PendingCall | None, message: str = "") -> None:
        """Show a call, or no call if None; show the message if the user was about to decide."""
        self.reset(message)
        self.shown_call = pending

    def reset(self, message: str = "") -> None:
        """Drop the choice for the shown call; show the message if the user was about to decide."""
        is_deciding = bool(self.highlighted or self.edited_choice or self.listed_calls)
        self.listed_calls, self.edited_choice, self.highlighted = (), None, None
        self.message = message if is_deciding else ""
        self.key_guard.content_changed()

    def show_next(self, step: int) -> None:
        """Show the next (1) or previous (-1) undecided call."""
        undecided = self.undecided
        if self.shown_call is not None and len(undecided) > 1:
            index = undecided.index(self.shown_call)
            self.show_call(undecided[(index + step) % len(undecided)])

    def list_all(self) -> None:
        """Show all undecided calls, to allow them together."""
        self.reset()
        self.listed_calls = self.undecided

    def begin_answer(self) -> None:
        """Open the input for the rule or the reason of the highlighted choice."""
        offer, shown = self.highlighted, self.shown_call
        if offer is not None and shown is not None:
            self.reset()
            self.edited_choice, self.offered_rule = offer.choice, ""
            if shown.request is not None and offer.choice in _RULE_LIFETIMES:
                self.offered_rule = shown.request.rule

    # -- highlighted choice ---------------------------------------------------------------

    def highlight(self, offer: ApprovalOffer | None, message: str = "") -> None:
        """Highlight a choice, or no choice if None; set a message if the choice is unavailable."""
        if offer is None or not offer.obstacle:
            self.highlighted, self.message = offer, message
        else:
            self.highlighted = None
            self.message = f"cannot allow this call {offer.label}: {offer.obstacle}"

    @property
    def is_rule_offered(self) -> bool:
        """Whether Enter would store a rule, which can be edited first."""
        return self.highlighted is not None and self.highlighted.choice in _RULE_LIFETIMES

    # -- keys -----------------------------------------------------------------------------

    def press_letter(self, letter: str, *, can_enlarge: bool) -> bool:
        """Handle a letter key; return whether the view of the call should be enlarged or shrunk."""
        offer = next((offer for offer in self.offers if offer.key == letter), None)
        enlarges = letter == _VIEW.key and can_enlarge
        edits_rule = letter == _EDIT.key and self.is_rule_offered
        is_choice = offer is not None or enlarges or edits_rule
        refusal = self.key_guard.check_letter(letter, is_choice=is_choice)
        if refusal is not None:
            self.highlight(None, refusal)
            return False
        if edits_rule:
            self.begin_answer()
            return False
        self.highlight(offer, "" if is_choice else KeyRefusal.NO_CHOICE)
        if offer is not None and offer.choice is ApprovalChoice.REASON:
            self.begin_answer()  # at once: the next keys are part of the reason
        return enlarges

    def press_arrow(self, step: int) -> None:
        """Highlight the next (1) or previous (-1) available choice, unless text is being typed."""
        refusal = self.key_guard.check_key()
        if self.edited_choice is not None:
            return
        possible = [offer for offer in self.offers if not offer.obstacle]
        if refusal is not None:
            self.highlight(None, refusal)
        elif self.highlighted is not None and self.highlighted in possible:
            self.highlight(possible[(possible.index(self.highlighted) + step) % len(possible)])
        elif possible:
            self.highlight(possible[0 if step > 0 else -1])

    def press_enter(self) -> None:
        """Confirm the highlighted choice, unless a rule or a reason is being typed."""
        refusal = self.key_guard.check_enter()
        if self.edited_choice is not None:
            return
        if refusal is None:
            self._confirm()
        else:
            self.highlight(None, refusal)

    def click(self, choice: ApprovalChoice) -> None:
        """Highlight a clicked choice, or confirm it if it is already highlighted."""
        offer = find_offer(self.offers, choice)
        refusal = self.key_guard.check_click()
        if refusal is not None:
            self.message = refusal
        elif offer is not None and offer == self.highlighted:
            self._confirm()
        else:
            self.highlight(offer)

    def paste(self) -> None:
        """Ignore a paste, which must not decide about a call."""
        self.key_guard.check_letter(" ")
        self.highlight(None, KeyRefusal.PASTE)

    # -- decisions ------------------------------------------------------------------------

    def submit(self, text: str) -> None:
        """Apply a typed rule or reason, if its request is still pending."""
        self.update_pending(self._session.pending_calls)
        if self.edited_choice is not None and self.shown_call is not None:
            self._decide(self.edited_choice, [self.shown_call], text)

    def _confirm(self) -> None:
        """Apply the highlighted choice, if its request is still pending."""
        self.update_pending(self._session.pending_calls)
        offer, shown = self.highlighted, self.shown_call
        if offer is None or shown is None:
            self.message = self.message or KeyRefusal.NOTHING_CHOSEN
        elif offer.choice is ApprovalChoice.ALL:
            self.list_all()
        elif offer.choice is ApprovalChoice.BACK:
            self.reset()
        elif not self._decide(offer.choice, self.listed_calls or [shown]):
            self.begin_answer()

    def _decide(
        self, choice: ApprovalChoice, calls: Sequence[PendingCall], text: str | None = None
    ) -> bool:
        """Decide about calls; return False if the choice is not a decision."""
        request, actor = calls[0].request, self._session.actor
        decision = decision_for(choice, request, actor=actor, text=text)
        if decision is None:
            return False
        self.reset()
        errors = decide_calls(self._session.decide, calls, decision)
        if not errors and (notice := stored_rule_notice(decision)):
            self._add_notice(notice)
        self.update_pending(self._session.pending_calls)
        self.message = self.message or " · ".join(errors)
        return True

    # -- preview of a queued call ---------------------------------------------------------

    def select_preview(self) -> PendingCall | None:
        """Return the shown call if its preview must be loaded; otherwise None.

        Only the preview of a queued call must be loaded, because a request contains a preview.
        """
        shown = self.shown_call
        if shown is None or shown.request is not None or shown.call == self._previewed_call:
            return None
        self._previewed_call, self.loaded_preview = shown.call, CallPreview()
        return shown

    async def load_preview(self, pending: PendingCall) -> bool:
        """Load the preview of a call; return whether the call is still shown."""
        error = ""
        try:
            preview = await self._session.preview(pending.call)
            if self._previewed_call == pending.call:
                self.loaded_preview = preview
        except StenoError as exc:
            error = f"the call cannot be previewed: {terminal_line(str(exc))}"
        if self.shown_call != pending or self.listed_calls:
            return False
        self.highlight(None, error)
        self.key_guard.content_changed()
        return True

    # -- text -----------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """The title of the panel, with the purpose of the call and its number among several."""
        shown = self.shown_call
        if self.listed_calls:
            return f" allow these {len(self.listed_calls)} calls once? "
        if shown is None:
            return ""
        purpose = describe_purpose(shown.call, shown.request)
        number, count = self.pending.index(shown) + 1, len(self.pending)
        position = f"· {number} of {count} " if count > 1 else ""
        next_hint = "· Ctrl+N next " if len(self.undecided) > 1 else ""
        return f" permission · {purpose} {position}{next_hint}"

    @property
    def call_rows(self) -> list[tuple[str, bool]]:
        """The lines about the shown call and its neighbours, and whether each is the shown call.

        Empty if only one call is pending, or while several calls are listed.
        """
        pending, shown = self.pending, self.shown_call
        if shown is None or len(pending) < 2 or self.listed_calls:
            return []
        first = max(0, min(pending.index(shown) - 1, len(pending) - _MAX_LISTED_CALLS))
        return [
            (f"{'▸' if call == shown else ' '} {self._call_row(call)}", call == shown)
            for call in pending[first : first + _MAX_LISTED_CALLS]
        ]

    def _call_row(self, pending: PendingCall) -> str:
        request, decision = pending.request, pending.decision
        status = describe_call_status(request, decision)
        headline = request.headline if request else None
        if headline is None:
            headline = self._session.headline(pending.call)
        return f"{status:7}  {summarize_call(pending.call, lambda _: headline)}"

    @property
    def note(self) -> str:
        """The label of the input, or the reason why no rule can be stored; may be empty."""
        if self.shown_call is None or self.listed_calls:
            return ""
        if self.edited_choice is not None:
            return _ANSWER_NOTES[self.edited_choice]
        obstacle = rule_obstacle(self.shown_call.request)
        return once_only_note(obstacle) if obstacle else ""

    def hint(self, *, typed: str, has_focus: bool) -> str:
        """Return a message or the key hints; `has_focus` is whether the panel has the focus."""
        if self.message:
            return self.message
        if self.edited_choice is ApprovalChoice.REASON:
            return _REASON_HINT if typed.strip() else _REASON_MISSING_HINT
        request = None if self.shown_call is None else self.shown_call.request
        if self.edited_choice is not None and request is not None:
            preview = preview_rule(typed, request)
            rule_hint = "" if preview.rule is None else f" · {_RULE_HINT}"
            return f"{preview.description}{rule_hint}"
        if self.highlighted is not None:
            edit_hint = _EDIT_HINT if self.is_rule_offered else ""
            return f"Enter {self.highlighted.meaning}{edit_hint}"
        return _CHOICE_HINT if has_focus else _UNFOCUSED_HINT


def _find_same_call(pending: PendingCall, candidates: Sequence[PendingCall]) -> PendingCall | None:
    """Return the candidate with an equal call; None if there is no such candidate.

    The whole calls are compared, because calls with the same ID may differ.
    """
    return next((candidate for candidate in candidates if candidate.call == pending.call), None)


# -- keys that count -----------------------------------------------------------------------------
#
# A user must not approve a call by accident, so a decision takes two steps: a letter, then Enter.
# Neither key counts if it may be part of a prompt, repeated because it is held down, or pressed
# before the request appeared.

READING_TIME_S: Final = 0.6
"""The time that a request must be visible before a key counts, and the minimum pause before a
letter counts as a choice. The letters of a typed sentence follow each other faster."""
_PROSE_PAUSE_S: Final = 1.2
"""The minimum pause before a letter counts as a choice, after a letter that is not a choice. A slow
typist may pause to think, and the o of a slow `no` must not allow the call."""
_FOCUS_GRACE_S: Final = 0.3
"""The time after the panel takes the focus during which keys may still be meant for the prompt."""
_REPEAT_PAUSE_S: Final = 0.2
"""The minimum pause before the same letter, pressed again, counts as a choice again."""
_MIN_ENTER_PAUSE_S: Final = 0.06
"""The minimum pause before Enter. Faster keys are pasted, or repeated by the keyboard."""
_PASTE_PAUSE_S: Final = 0.02
"""The minimum pause before an Enter that denies a call. No user types faster than this."""
_KEY_REPEAT_S: Final = 0.8
"""The minimum pause between two Enters, longer than the delay before a keyboard repeats a key."""


class KeyRefusal(StrEnum):
    """The reasons for ignoring a key, as messages for the user."""

    TOO_SOON = "ignored: the request has just appeared; read it and try again"
    PROSE = "nothing selected: letters typed quickly count as text; pause, then press one letter"
    PASTED_ENTER = "ignored: Enter followed another key too quickly, as in a paste; press it again"
    DOUBLE_CLICK = "ignored: second click of a double click; click again"
    HELD_DOWN = "ignored: Enter may still be held down; wait a second and press it again"
    NO_CHOICE = "nothing selected: this key is not one of the choices"
    NOTHING_CHOSEN = "nothing selected: press a letter or ← →, then Enter"
    PASTE = "nothing selected: a paste cannot answer a request; press Esc to return to the prompt"


@final
class KeyGuard:
    """Distinguishes keys that the user means as a decision from accidental keys.

    Each check records its key and returns a refusal, or None if the key counts.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._appeared_at = now()
        self._taken_at = self._letter_at = self._key_at = self._click_at = float("-inf")
        self._recent_letters = ""
        """The distinct letters that were typed without a pause between them."""
        self._is_prose = False
        """Whether the last letter was refused or not a choice."""
        self._is_enter = False
        """Whether the last key was Enter, which repeats while it is held down."""

    def content_changed(self) -> None:
        """Record that the displayed request has changed; the reading time starts again."""
        self._appeared_at = self._now()

    def focus_taken(self) -> None:
        """Record that the panel took the focus by itself and now receives the keys."""
        self._taken_at = self._now()

    def check_letter(self, letter: str, *, is_choice: bool = True) -> KeyRefusal | None:
        """Check whether a letter counts: it must follow a pause or repeat the last letter.

        A letter that is not a choice is treated as typed text, like the letters right after it.
        """
        pause_s = self._now() - self._letter_at
        if pause_s >= (_PROSE_PAUSE_S if self._is_prose else READING_TIME_S):
            self._recent_letters = ""
        is_repeated = letter == self._recent_letters and pause_s >= _REPEAT_PAUSE_S
        is_alone = is_repeated or not self._recent_letters
        self._recent_letters += letter if letter not in self._recent_letters else ""
        self._letter_at = self._now()
        refusal = self.check_key() or (None if is_alone else KeyRefusal.PROSE)
        self._is_prose = refusal is not None or not is_choice
        return refusal

    def check_key(self) -> KeyRefusal | None:
        """Check whether a key counts: the request must have been visible long enough."""
        self._key_at, self._is_enter = self._now(), False
        return self._check_read()

    def check_enter(self, *, allows_quick_enter: bool = False) -> KeyRefusal | None:
        """Check whether Enter counts: it must not be repeated, pasted or too early.

        `allows_quick_enter` shortens the required pause before an Enter that denies a call.
        """
        pause_s, was_enter = self._now() - self._key_at, self._is_enter
        self._key_at, self._is_enter = self._now(), True
        if was_enter and pause_s < _KEY_REPEAT_S:
            return KeyRefusal.HELD_DOWN
        if pause_s < (_PASTE_PAUSE_S if allows_quick_enter else _MIN_ENTER_PAUSE_S):
            return KeyRefusal.PASTED_ENTER
        return self._check_read()

    def check_click(self) -> KeyRefusal | None:
        """Check whether a click counts: it must not be too early or end a double click."""
        now = self._now()
        pause_s, self._click_at = now - self._click_at, now
        if now - self._appeared_at < READING_TIME_S:
            return KeyRefusal.TOO_SOON
        return KeyRefusal.DOUBLE_CLICK if pause_s < READING_TIME_S else None

    def _check_read(self) -> KeyRefusal | None:
        shown_s, focused_s = self._now() - self._appeared_at, self._now() - self._taken_at
        is_read = shown_s >= READING_TIME_S and focused_s >= _FOCUS_GRACE_S
        return None if is_read else KeyRefusal.TOO_SOON
