"""The state of the approval panel: the pending calls, the one that is shown, and the choice.

This module imports no widget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from steno.app.session import AgentSession
from steno.app.session_events import PendingCall
from steno.errors import StenoError
from steno.messages.call import ToolCall
from steno.ports import CallPreview
from steno.render.terminal_text import terminal_line
from steno.ui.approval_choices import (
    SCOPE_BY_CHOICE,
    ApprovalChoice,
    ApprovalOffer,
    offers_for_call,
    offers_for_calls,
)
from steno.ui.tui.key_guard import KeyGuard

NO_LONGER_ASKED: Final = "no longer asked, or changed meanwhile: nothing was decided"


@final
class ApprovalState:
    """The pending calls, the one that is shown, and the choice that Enter would confirm.

    The shown call stays while the user decides about it. If it changes all the same, the choice is
    dropped and `message` reports it. Nothing here decides.
    """

    def __init__(self, key_guard: KeyGuard) -> None:
        """Start without a call; `key_guard` is notified whenever another call is shown."""
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
            # Its request has arrived; a denial with a reason stays valid.
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
            index = undecided.index(self.shown_call)
            self.show_call(undecided[(index + step) % len(undecided)])

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
        """Highlight the choice that Enter confirms, or none; show why a choice is impossible."""
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


def _find_same_call(pending: PendingCall, candidates: Sequence[PendingCall]) -> PendingCall | None:
    """Return the equal call among others; calls with the same id may differ."""
    return next((candidate for candidate in candidates if candidate.call == pending.call), None)


@final
class PreviewLoader:
    """The preview of one waiting call that has no request yet."""

    def __init__(self) -> None:
        """Start without a call."""
        self._call: ToolCall | None = None
        self.preview: CallPreview = CallPreview()
        """The effect of the call."""

    def select(self, shown: PendingCall | None) -> bool:
        """Select a call; return whether its preview must be loaded: a request has its own."""
        if shown is None or shown.request is not None or shown.call == self._call:
            return False
        self._call, self.preview = shown.call, CallPreview()
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
