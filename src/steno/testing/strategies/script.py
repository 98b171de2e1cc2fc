"""Write one turn of a model as events, block by block, with the habits of a provider.

Each block becomes a script, and beside it what it means. What nobody could understand is not
written: without id, index and announcement, a second call of the same tool can be told from the
first only once the arguments of the first are whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from steno.call import Seal, ToolCall, build_call
from steno.content import Text, Thinking
from steno.event import (
    BlockAdded,
    BlockSealed,
    Event,
    TextDelta,
    ThinkingDelta,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
)
from steno.message import AssistantBlock
from steno.testing.strategies.blocks import images, opaque_blocks, seals
from steno.testing.strategies.habits import StreamHabits
from steno.testing.strategies.primitives import (
    identifiers,
    json_object_texts,
    outside_tool_names,
    texts,
    tool_names,
)

Part: TypeAlias = Literal["text", "thinking", "redacted", "whole", "call"]

MOST_PARTS: Final = 5
_WORDS: Final = texts(max_size=12)
_SEALS: Final = seals()
_MAYBE_SEALS: Final = st.none() | st.none() | _SEALS
_WHOLE: Final = images() | opaque_blocks()
_IDS: Final = st.lists(identifiers(), min_size=MOST_PARTS, max_size=MOST_PARTS, unique=True)
_NAMES: Final = st.one_of(
    st.sampled_from(("read", "write")),
    tool_names(),
    outside_tool_names(),
    texts(min_size=1, max_size=8),
)
_BROKEN: Final = ("", '{"a":', '{"a": 1, ', "[1]", '"{}"', "nul", "no { JSON")
_ARGUMENTS: Final = json_object_texts() | json_object_texts() | st.sampled_from(_BROKEN)


@dataclass(frozen=True)
class _Words:
    """What was said under one index, whenever it was said."""

    kind: type[TextDelta | ThinkingDelta]
    index: int
    seal: Seal | None = None
    redacted: bool = False

    def build(self, said: str) -> Text | Thinking | None:
        if not said and self.seal is None:
            return None
        if self.kind is TextDelta:
            return Text(said, seal=self.seal)
        return Thinking(said, seal=self.seal, redacted=self.redacted)


class _Call(NamedTuple):
    """A call as its provider knows it."""

    number: int
    id: str
    name: str
    pieces: list[str]
    block: int


class TurnScript:
    """Collects the blocks of one turn; `tell` gives the events, `mean` what they amount to."""

    def __init__(self, draw: DrawFn, habits: StreamHabits) -> None:
        self._draw = draw
        self._habits = habits
        self._ids = draw(_IDS)
        self._scripts: list[list[Event]] = []
        self._meanings: list[_Words | AssistantBlock] = []
        self._calls: list[_Call] = []

    def add(self, part: Part) -> None:
        """Write one more block."""
        if part == "call":
            self._add_call()
        elif part == "whole":
            block = self._draw(_WHOLE)
            self._scripts.append([BlockAdded(len(self._scripts), block)])
            self._meanings.append(block)
        else:
            self._add_text(part)

    def events(self) -> list[Event]:
        """Return the events of all scripts: one script after the other, or mixed."""
        if not self._habits.interleaves:
            return [event for script in self._scripts for event in script]
        waiting = [iter(script) for script in self._scripts]
        begun = 0  # blocks begin in order, so these are the first of those that wait
        events: list[Event] = []
        while waiting:
            chosen = self._draw(st.integers(0, min(begun, len(waiting) - 1)))
            event = next(waiting[chosen], None)
            if event is None:
                del waiting[chosen]
                begun -= 1
            else:
                begun += chosen == begun
                events.append(event)
        return events

    def expected_blocks(self, events: list[Event]) -> Iterator[AssistantBlock]:
        """Yield the blocks of the message that `events` should become."""
        for meaning in self._meanings:
            if not isinstance(meaning, _Words):
                yield meaning
                continue
            said = [
                event.text
                for event in events
                if isinstance(event, meaning.kind) and event.index == meaning.index
            ]
            block = meaning.build("".join(said))
            if block is not None:
                yield block

    def _cut(self, text: str) -> list[str]:
        # Models like to end their arguments with a line feed, which then comes alone.
        places = st.integers(0, len(text)) | st.just(len(text.rstrip()))
        cuts = self._draw(st.lists(places, max_size=3).map(sorted))
        return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    # -- words -------------------------------------------------------------------------------

    def _add_text(self, part: Part) -> None:
        has_own_index = self._habits.index == "block"
        index = len(self._scripts) if has_own_index else 0
        pieces = self._cut(self._draw(_WORDS))
        kind = TextDelta if part == "text" else ThinkingDelta
        seal = None
        if has_own_index:  # only then can it be said what is sealed
            seal = self._draw(_SEALS if part == "redacted" else _MAYBE_SEALS)
        is_redacted = part == "redacted" and seal is not None
        script: list[Event] = [
            TextDelta(index, piece)
            if kind is TextDelta
            else ThinkingDelta(index, piece, is_redacted)
            for piece in pieces
        ]
        if seal is not None:
            # Gemini ends turns with a seal that has no words.
            is_bare = kind is TextDelta and self._draw(st.booleans())
            script = [*([] if is_bare else script), BlockSealed(index, seal)]
        self._scripts.append(script)
        words = _Words(kind, index, seal, is_redacted)
        if words not in self._meanings:
            self._meanings.append(words)

    # -- calls -------------------------------------------------------------------------------

    def _add_call(self) -> None:
        pieces = self._cut(self._draw(_ARGUMENTS))
        number = len(self._calls)
        name = self._choose_name(pieces)
        call = _Call(number, self._ids[number], name, pieces, len(self._scripts))
        script = self._call_script(call)
        seal = self._draw(_MAYBE_SEALS) if self._habits.index == "block" else None
        if seal is not None:
            place = self._draw(st.integers(1, len(script)))
            script.insert(place, BlockSealed(call.block, seal))
        if self._habits.ends:
            has_id = self._habits.ids != "missing"
            end = ToolCallEnd(self._index(call, 1), call.id if has_id else self._habits.absent)
            script.append(end)
        self._calls.append(call)
        self._scripts.append(script)
        self._meanings.append(build_call(call.id, name, "".join(pieces), seal=seal))

    def _choose_name(self, pieces: list[str]) -> str:
        name = self._draw(_NAMES)
        if self._habits.shows_new_calls or not self._calls or name != self._calls[-1].name:
            return name
        earlier = build_call("earlier", "any", "".join(self._calls[-1].pieces))
        is_told_apart = (
            self._habits.names == "first"
            and isinstance(earlier, ToolCall)
            and any(self._calls[-1].pieces)
            and pieces[0].lstrip().startswith("{")
        )
        return name if is_told_apart else ("read" if name == "write" else "write")

    def _call_script(self, call: _Call) -> list[Event]:
        habits, absent = self._habits, self._habits.absent
        fragments: list[str | None] = [piece or absent for piece in call.pieces]
        if habits.announces:
            fragments.insert(0, None)
        if len(fragments) == 1 and "late" in (habits.ids, habits.names):
            fragments.append(absent)
        ids = self._places(habits.ids, len(fragments))
        names = self._places(habits.names, len(fragments))
        script: list[Event] = []
        for place, fragment in enumerate(fragments):
            index = self._index(call, place)
            id = call.id if place in ids else absent
            name = call.name if place in names else absent
            if habits.announces and place == 0:
                script.append(ToolCallBegin(index, id, name))
            else:
                script.append(ToolCallDelta(index, id, name, fragment))
        return script

    def _places(self, habit: str, count: int) -> range:
        """Return where in a call of `count` events its id or name stands."""
        if habit == "late":
            place = self._draw(st.integers(1, count - 1))
            return range(place, place + 1)
        return {"first": range(1), "every": range(count)}.get(habit, range(0))

    def _index(self, call: _Call, place: int) -> int | None:
        match self._habits.index:
            case "block":
                return call.block
            case "call":
                return call.number
            case "first":
                return call.number if place == 0 else None
            case "shared":
                return 0
            case "missing":
                return None
