"""How providers tell the calls of a turn apart, as a value, and a strategy for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from steno.testing.strategies.naming import named

IndexHabit: TypeAlias = Literal["block", "call", "first", "shared", "missing"]
IdHabit: TypeAlias = Literal["first", "every", "late", "missing"]
NameHabit: TypeAlias = Literal["first", "every", "late"]


@dataclass(frozen=True, kw_only=True)
class StreamHabits:
    """What a provider says with each fragment of a call, and what it leaves out.

    Real servers omit, repeat and reuse all of it.
    """

    index: IndexHabit = "block"
    """Counts all blocks; counts the calls; is there once per call; is always 0; is missing."""
    ids: IdHabit = "first"
    """Stands on the first fragment, on every one, on a later one, on none."""
    names: NameHabit = "first"
    """Stands on the first fragment, on every one, on a later one."""
    absent: Literal["", None] = None
    """How an id, a name or a piece of arguments is written that is not there."""
    announces: bool = True
    """A call begins with a `ToolCallBegin`."""
    ends: bool = True
    """A call is over with a `ToolCallEnd`."""
    interleaves: bool = False
    """Fragments of several blocks come mixed."""
    finishes: bool = True
    """The last event is `Finished`; otherwise the stream was cut off."""

    @property
    def addresses_fragments(self) -> bool:
        """Whether every fragment says which call it belongs to."""
        return self.index in ("block", "call") or self.ids == "every"

    @property
    def shows_new_calls(self) -> bool:
        """Whether the first fragment of a call always says that a new call begins."""
        return (
            self.announces
            or self.ids in ("first", "every")
            or self.index in ("block", "call", "first")
        )

    def made_decodable(self) -> StreamHabits:
        """Return the nearest habits under which it can be told what belongs to what."""
        habits = self
        if habits.names == "late" and not habits.shows_new_calls:
            habits = replace(habits, names="first")
        return replace(habits, interleaves=habits.interleaves and habits.addresses_fragments)


@named
def stream_habits() -> SearchStrategy[StreamHabits]:
    """All the habits that leave a turn understandable."""
    return st.builds(
        StreamHabits,
        index=st.sampled_from(("block", "call", "first", "shared", "missing")),
        ids=st.sampled_from(("first", "every", "late", "missing")),
        names=st.sampled_from(("first", "every", "late")),
        absent=st.sampled_from(("", None)),
        announces=st.booleans(),
        ends=st.booleans(),
        interleaves=st.booleans(),
        finishes=st.booleans(),
    ).map(StreamHabits.made_decodable)
