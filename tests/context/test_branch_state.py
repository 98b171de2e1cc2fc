"""The state of a branch, read entry by entry."""

from __future__ import annotations

import pytest

from steno.context.branch_state import BranchState
from steno.records.entry import Clear, Entry, Payload, Redacted


@pytest.mark.parametrize("payload", [Clear(), Redacted(kind="clear", sha256="0" * 64)])
def test_an_entry_that_clears_the_context_begins_another_state(payload: Payload) -> None:
    """`read` refuses it, because it cannot forget the messages that it has read."""
    state, entry = BranchState(vision=None), Entry(id="e1", payload=payload)
    with pytest.raises(AssertionError):
        state.read(entry)
    assert state.after_clear(entry.id).messages == []
