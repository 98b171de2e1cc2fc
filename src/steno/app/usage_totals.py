"""The totals of a branch: tokens, cost and the size of the context.

Each new entry updates the totals, so that reading them is fast even in a long session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import final

from steno.context import estimate_tokens, message_tokens
from steno.log.queries import Price, cost_of, entry_usage
from steno.log.tree import ContextBeginning
from steno.messages.message import AssistantMessage, SystemMessage
from steno.messages.usage import Usage
from steno.records.entry import Compaction, Entry, ModelChange


@final
class UsageTotals:
    """The usage, cost and context size of one branch, computed from its entries."""

    def __init__(self, price_of: Callable[[str], Price | None]) -> None:
        """Start with empty totals. `price_of` returns the price of a model; None if unknown."""
        self._price_of = price_of
        self.rebuild(())

    def rebuild(self, entries: Iterable[Entry]) -> None:
        """Reset the totals, and add the entries of a branch."""
        self.usage: Usage = Usage()
        self.context_tokens: int | None = None
        """The size of the context, response included: the provider's count, or else an estimate.

        None before the first response, clear or summary. Later prompts are not counted.
        """
        self._model = ""
        self._usages: dict[str, Usage] = {}
        self._sizes: dict[str, int] = {}
        """The estimated tokens of each message or summary in the context, by entry id."""
        self._total = 0
        """The sum of `_sizes`."""
        self._system_entries: set[str] = set()
        """The ids of the system messages, which a compaction does not replace."""
        self._first_entries: set[str] = set()
        """The ids of the system messages with which the context begins, which a clear keeps."""
        self._beginning = ContextBeginning()
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Update the totals with the next entry of the branch."""
        payload, message = entry.payload, entry.message
        if self._beginning.read(entry):
            self._first_entries.add(entry.id)
        if isinstance(payload, ModelChange):
            self._model = payload.new
        elif isinstance(payload, Compaction):
            self._apply_compaction(entry.id, payload)
        elif entry.clears_context:
            self._apply_clear()
        elif message is not None:
            self._sizes[entry.id] = size = message_tokens(message, estimate_tokens)
            self._total += size
            if isinstance(message, SystemMessage):
                self._system_entries.add(entry.id)
        usage = entry_usage(entry)
        if usage != Usage():
            self.usage += usage
            self._usages[self._model] = self._usages.get(self._model, Usage()) + usage
        if isinstance(message, AssistantMessage):
            is_counted = usage.input_tokens is not None
            self.context_tokens = usage.total_tokens if is_counted else self._total

    def _apply_compaction(self, id: str, summary: Compaction) -> None:
        """Count a summary in place of the messages that it replaces."""
        ids = list(self._sizes)
        start = ids.index(summary.through) + 1 if summary.through in self._sizes else 0
        remaining = {*self._system_entries, *ids[start:]}
        self._sizes = {
            entry_id: size for entry_id, size in self._sizes.items() if entry_id in remaining
        }
        self._sizes[id] = estimate_tokens(summary.summary)
        self.context_tokens = self._total = sum(self._sizes.values())

    def _apply_clear(self) -> None:
        """Count only the system messages at the beginning of the context."""
        self._sizes = {id: size for id, size in self._sizes.items() if id in self._first_entries}
        self.context_tokens = self._total = sum(self._sizes.values())

    @property
    def cost(self) -> Decimal | None:
        """The cost in dollars of all turns whose model has a known price.

        None if there are no such turns.
        """
        prices = {model: self._price_of(model) for model in self._usages}
        costs = [
            cost_of(self._usages[model], price)
            for model, price in prices.items()
            if price is not None
        ]
        return sum(costs, Decimal(0)) if costs else None
