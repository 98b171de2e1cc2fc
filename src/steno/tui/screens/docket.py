"""The calls that await a decision, which of them is shown, and what is about to be decided.

What is shown stays while somebody decides about it, whatever else is asked meanwhile. Where it
changes all the same, what was about to be decided is dropped, and that is said.

Nothing here knows a widget, and nothing decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from steno.tui.desk import Pending
from steno.tui.screens.deciding import (
    SCOPES,
    Attention,
    Choice,
    Offer,
    offers_for,
    offers_for_all,
)

GONE: Final = "no longer asked, or changed meanwhile: nothing was decided"


@final
class Docket:
    """See above."""

    def __init__(self, attention: Attention) -> None:
        """Begin without a call; say to `attention` whenever another one is shown."""
        self._key_guard = attention
        self.pending: tuple[Pending, ...] = ()
        self.shown_call: Pending | None = None
        self.listed_calls: tuple[Pending, ...] = ()
        """What is to be allowed together, while somebody looks at all of it."""
        self.answered_choice: Choice | None = None
        """The choice for which a rule or a reason is being written."""
        self.highlighted: Offer | None = None
        """What Enter would do."""
        self.message = ""
        """What the person should know before anything else."""

    @property
    def undecided(self) -> tuple[Pending, ...]:
        """Those that nobody has decided about."""
        return tuple([one for one in self.pending if one.decision is None])

    @property
    def asked_ids(self) -> frozenset[str]:
        """Those of them that are waited for right now."""
        return frozenset([one.call.id for one in self.undecided if one.request is not None])

    @property
    def offers(self) -> tuple[Offer, ...]:
        """What there is to choose."""
        if self.listed_calls:
            return offers_for_all(len(self.listed_calls))
        return () if self.shown_call is None else offers_for(self.shown_call, len(self.undecided))

    def update_pending(self, pending: Sequence[Pending]) -> None:
        """Take over what awaits a decision now."""
        self.pending = tuple(pending)
        undecided = self.undecided
        kept = None if self.shown_call is None else _same(self.shown_call, undecided)
        if kept is None:
            asked = [one for one in undecided if one.request is not None]
            self.show_call(next(iter(asked or undecided), None), GONE)
        elif kept != self.shown_call:
            # A question has come for it; a no with its reason holds all the same.
            worded = self.answered_choice if self.answered_choice is Choice.EXPLAIN else None
            self.show_call(kept, "" if worded else GONE)
            self.answered_choice = worded
        elif not all(_same(one, undecided) for one in self.listed_calls):
            self.reset(GONE)

    def show_call(self, pending: Pending | None, words: str = "") -> None:
        """Show a call, or none; say so if something was about to be decided."""
        self.reset(words)
        self.shown_call = pending

    def reset(self, words: str = "") -> None:
        """Begin anew with the call shown; say so if something was about to be decided."""
        is_deciding = bool(self.highlighted or self.answered_choice or self.listed_calls)
        self.listed_calls, self.answered_choice, self.highlighted = (), None, None
        self.message = words if is_deciding else ""
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

    def begin_answer(self, choice: Choice) -> None:
        """Let a rule or a reason be written."""
        self.reset()
        self.answered_choice = choice

    # -- what is highlighted -----------------------------------------------------------------

    def highlight(self, offer: Offer | None, words: str = "") -> None:
        """Highlight what Enter would do, or nothing; what cannot be chosen says why."""
        if offer is None or not offer.obstacle:
            self.highlighted, self.message = offer, words
        else:
            self.highlighted, self.message = None, f"{offer.label}: {offer.obstacle}"

    @property
    def is_rule_offered(self) -> bool:
        """Whether Enter would store a rule, which may be edited before."""
        return self.highlighted is not None and self.highlighted.choice in SCOPES

    def offer_for_choice(self, choice: Choice) -> Offer | None:
        """Return the offer of a choice; None where there is none."""
        return next((offer for offer in self.offers if offer.choice is choice), None)

    def offer_for_letter(self, letter: str) -> Offer | None:
        """Return the offer that a letter stands for; None where it stands for none."""
        return next((offer for offer in self.offers if offer.letter == letter), None)

    def highlight_next(self, step: int) -> None:
        """Highlight the next choice that is possible, or the one before."""
        possible = [offer for offer in self.offers if not offer.obstacle]
        if self.highlighted is not None and self.highlighted in possible:
            self.highlight(possible[(possible.index(self.highlighted) + step) % len(possible)])
        elif possible:
            self.highlight(possible[0 if step > 0 else -1])


def _same(one: Pending, among: Sequence[Pending]) -> Pending | None:
    """Return the call among others; an id alone does not make it the same."""
    return next((other for other in among if other.call == one.call), None)
