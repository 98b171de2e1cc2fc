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
        self._attention = attention
        self.pending: tuple[Pending, ...] = ()
        self.shown: Pending | None = None
        self.listed: tuple[Pending, ...] = ()
        """What is to be allowed together, while somebody looks at all of it."""
        self.worded: Choice | None = None
        """The choice for which a rule or a reason is being written."""
        self.highlighted: Offer | None = None
        """What Enter would do."""
        self.told = ""
        """What the person should know before anything else."""

    @property
    def undecided(self) -> tuple[Pending, ...]:
        """Those that nobody has decided about."""
        return tuple([one for one in self.pending if one.verdict is None])

    @property
    def asked(self) -> frozenset[str]:
        """Those of them that are waited for right now."""
        return frozenset([one.call.id for one in self.undecided if one.question is not None])

    @property
    def offers(self) -> tuple[Offer, ...]:
        """What there is to choose."""
        if self.listed:
            return offers_for_all(len(self.listed))
        return () if self.shown is None else offers_for(self.shown, len(self.undecided))

    def refresh(self, pending: Sequence[Pending]) -> None:
        """Take over what awaits a decision now."""
        self.pending = tuple(pending)
        undecided = self.undecided
        kept = None if self.shown is None else _same(self.shown, undecided)
        if kept is None:
            asked = [one for one in undecided if one.question is not None]
            self.show(next(iter(asked or undecided), None), GONE)
        elif kept != self.shown:
            # A question has come for it; a no with its reason holds all the same.
            worded = self.worded if self.worded is Choice.EXPLAIN else None
            self.show(kept, "" if worded else GONE)
            self.worded = worded
        elif not all(_same(one, undecided) for one in self.listed):
            self.drop(GONE)

    def show(self, pending: Pending | None, words: str = "") -> None:
        """Show a call, or none; say so if something was about to be decided."""
        self.drop(words)
        self.shown = pending

    def drop(self, words: str = "") -> None:
        """Begin anew with the call shown; say so if something was about to be decided."""
        is_deciding = bool(self.highlighted or self.worded or self.listed)
        self.listed, self.worded, self.highlighted = (), None, None
        self.told = words if is_deciding else ""
        self._attention.appear()

    def move(self, step: int) -> None:
        """Show the next call, or the one before."""
        undecided = self.undecided
        if self.shown is not None and len(undecided) > 1:
            here = undecided.index(self.shown)
            self.show(undecided[(here + step) % len(undecided)])

    def list_all(self) -> None:
        """Let all be looked at, to be allowed together."""
        self.drop()
        self.listed = self.undecided

    def word(self, choice: Choice) -> None:
        """Let a rule or a reason be written."""
        self.drop()
        self.worded = choice

    # -- what is highlighted -----------------------------------------------------------------

    def highlight(self, offer: Offer | None, words: str = "") -> None:
        """Highlight what Enter would do, or nothing; what cannot be chosen says why."""
        if offer is None or not offer.obstacle:
            self.highlighted, self.told = offer, words
        else:
            self.highlighted, self.told = None, f"{offer.label}: {offer.obstacle}"

    @property
    def is_rule_offered(self) -> bool:
        """Whether Enter would store a rule, which may be edited before."""
        return self.highlighted is not None and self.highlighted.choice in SCOPES

    def offer_of(self, choice: Choice) -> Offer | None:
        """Return the offer of a choice; None where there is none."""
        return next((offer for offer in self.offers if offer.choice is choice), None)

    def offer_by(self, letter: str) -> Offer | None:
        """Return the offer that a letter stands for; None where it stands for none."""
        return next((offer for offer in self.offers if offer.letter == letter), None)

    def step(self, step: int) -> None:
        """Highlight the next choice that is possible, or the one before."""
        possible = [offer for offer in self.offers if not offer.obstacle]
        if self.highlighted is not None and self.highlighted in possible:
            self.highlight(possible[(possible.index(self.highlighted) + step) % len(possible)])
        elif possible:
            self.highlight(possible[0 if step > 0 else -1])


def _same(one: Pending, among: Sequence[Pending]) -> Pending | None:
    """Return the call among others; an id alone does not make it the same."""
    return next((other for other in among if other.call == one.call), None)
