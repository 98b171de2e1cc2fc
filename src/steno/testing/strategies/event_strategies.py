"""Strategies for single events, and for the event streams of whole turns.

`events` draws single events without context. `event_streams` draws the events of one turn and the
message that must be assembled from them. The habits of a provider (`StreamHabits`) are the ways in
which it sends the indexes, ids and names of calls. A `TurnScript` builds the turn block by block,
with given habits, and never builds an ambiguous turn. Without ids, indexes and `ToolCallBegin`
events, a second call of the same tool can be distinguished from the first call only after the
arguments of the first call are complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from steno.messages.call import AnyToolCall, Seal, ToolCall, build_call
from steno.messages.content import Text, Thinking
from steno.messages.event import (
    BlockAdded,
    BlockSealed,
    Event,
    ExtrasAdded,
    Finished,
    TextDelta,
    ThinkingDelta,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
)
from steno.messages.message import AssistantBlock, AssistantMessage
from steno.messages.usage import StopReason
from steno.testing.strategies.block_strategies import (
    extras,
    identifiers,
    images,
    json_object_texts,
    named_strategy,
    opaque_blocks,
    outside_tool_names,
    seals,
    texts,
    tool_calls,
    tool_names,
)
from steno.testing.strategies.message_strategies import usages

IndexHabit: TypeAlias = Literal["block", "call", "first", "shared", "missing"]
IdHabit: TypeAlias = Literal["first", "every", "late", "missing"]
NameHabit: TypeAlias = Literal["first", "every", "late"]
BlockKind: TypeAlias = Literal["text", "thinking", "redacted", "whole", "call"]
MAX_BLOCKS: Final = 5
_BLOCK_KINDS: Final[tuple[BlockKind, ...]] = (
    *("text", "thinking", "redacted", "whole"),
    *("call", "call", "call"),
)
_BLOCK_KIND_LISTS: Final = st.lists(st.sampled_from(_BLOCK_KINDS), max_size=MAX_BLOCKS)
_SHORT_TEXTS: Final = texts(max_size=12)
_SEALS: Final = seals()
_MAYBE_SEALS: Final = st.none() | st.none() | _SEALS
_WHOLE_BLOCKS: Final = images() | opaque_blocks()
_IDS: Final = st.lists(identifiers(), min_size=MAX_BLOCKS, max_size=MAX_BLOCKS, unique=True)
_NAMES: Final = st.one_of(
    st.sampled_from(("read", "write")),
    tool_names(),
    outside_tool_names(),
    texts(min_size=1, max_size=8),
)
_BROKEN_ARGUMENTS: Final = ("", '{"a":', '{"a": 1, ', "[1]", '"{}"', "nul", "no { JSON")
_ARGUMENTS: Final = json_object_texts() | json_object_texts() | st.sampled_from(_BROKEN_ARGUMENTS)


# -- single events -----------------------------------------------------------------------------


@named_strategy
def finishes() -> SearchStrategy[Finished]:
    """Draw `Finished` events, some with the provider's own stop reason and token counts."""
    return st.builds(
        Finished,
        stop_reason=st.sampled_from(StopReason),
        raw_stop_reason=st.none() | texts(max_size=8),
        usage=st.none() | usages(),
    )


@named_strategy
def events() -> SearchStrategy[Event]:
    """Draw events of every kind; a list of drawn events is like the stream of a faulty server."""
    index = st.integers(0, 2)
    maybe_index = st.none() | index
    # A few ids and names are drawn often, so that events share them.
    maybe_id = st.none() | st.sampled_from(("", "a", "b")) | identifiers()
    maybe_name = st.none() | st.sampled_from(("", "read", "fs.read")) | tool_names() | texts()
    fragment = st.none() | texts(max_size=8) | json_object_texts()
    return st.one_of(
        st.builds(TextDelta, index, texts()),
        st.builds(ThinkingDelta, index, texts(), st.booleans()),
        st.builds(ToolCallBegin, maybe_index, maybe_id, maybe_name),
        st.builds(ToolCallDelta, maybe_index, maybe_id, maybe_name, fragment),
        st.builds(ToolCallEnd, maybe_index, maybe_id, st.none() | tool_calls()),
        st.builds(BlockSealed, index, seals()),
        st.builds(BlockAdded, index, images() | opaque_blocks()),
        st.builds(ExtrasAdded, maybe_index, extras()),
        finishes(),
    )


# -- habits of providers -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class StreamHabits:
    """The way in which a provider sends the indexes, ids and names of calls.

    Real servers omit, repeat and reuse each of these members.
    """

    index: IndexHabit = "block"
    """The index of each fragment of a call.

    `block`: the number of the block. `call`: the number of the call. `first`: the number of the
    call, only in its first fragment. `shared`: always 0. `missing`: always None.
    """
    ids: IdHabit = "first"
    """The fragments that contain the id of the call.

    `first`: only the first fragment. `every`: all fragments. `late`: one fragment after the first.
    `missing`: no fragment.
    """
    names: NameHabit = "first"
    """The fragments that contain the name of the tool.

    `first`: only the first fragment. `every`: all fragments. `late`: one fragment after the first.
    """
    absent: Literal["", None] = None
    """The value that is sent for an omitted id or name, or for empty arguments."""
    announces: bool = True
    """Whether each call begins with a `ToolCallBegin` event."""
    ends: bool = True
    """Whether each call ends with a `ToolCallEnd` event."""
    interleaves: bool = False
    """Whether the events of several blocks are interleaved."""
    finishes: bool = True
    """Whether the last event is `Finished`; if not, the stream is truncated."""

    @property
    def addresses_fragments(self) -> bool:
        """Whether every fragment identifies its call."""
        return self.index in ("block", "call") or self.ids == "every"

    @property
    def shows_new_calls(self) -> bool:
        """Whether the first fragment of every call shows that a new call begins."""
        has_index = self.index in ("block", "call", "first")
        return self.announces or has_index or self.ids in ("first", "every")

    def made_decodable(self) -> StreamHabits:
        """Return a copy that allows each fragment to be assigned to its call.

        Only `names` and `interleaves` are changed, if necessary.
        """
        habits = self
        if habits.names == "late" and not habits.shows_new_calls:
            habits = replace(habits, names="first")
        return replace(habits, interleaves=habits.interleaves and habits.addresses_fragments)


@named_strategy
def stream_habits() -> SearchStrategy[StreamHabits]:
    """Draw `StreamHabits` that allow each fragment of a turn to be assigned to its call."""
    return st.builds(
        StreamHabits,
        index=st.sampled_from(get_args(IndexHabit)),
        ids=st.sampled_from(get_args(IdHabit)),
        names=st.sampled_from(get_args(NameHabit)),
        absent=st.sampled_from(("", None)),
        announces=st.booleans(),
        ends=st.booleans(),
        interleaves=st.booleans(),
        finishes=st.booleans(),
    ).map(StreamHabits.made_decodable)


# -- streams of one turn -----------------------------------------------------------------------


class EventStream(NamedTuple):
    """The events of one turn and the message that must be assembled from them."""

    events: tuple[Event, ...]
    message: AssistantMessage
    """The expected message; the ids of its calls are arbitrary if the provider sends no ids."""
    habits: StreamHabits

    def expected(self, assembled: AssistantMessage) -> AssistantMessage:
        """Return `message`, with the call ids of `assembled` if the provider sends no ids."""
        if self.habits.ids != "missing":
            return self.message
        made = iter(assembled.tool_calls)
        content = [_with_id_of(block, made) for block in self.message.content]
        return msgspec.structs.replace(self.message, content=tuple(content))


@st.composite
def event_streams(draw: DrawFn, habits: SearchStrategy[StreamHabits] | None = None) -> EventStream:
    """Draw the events of a turn as a provider may stream it, and the expected message.

    Text and arguments are split between any two characters. Pass `habits` to choose how the
    provider sends calls, as in `event_streams(st.just(StreamHabits(index="shared")))`; by default,
    `stream_habits()` is used. If necessary, the habits are changed with `made_decodable`.
    """
    chosen = draw(stream_habits() if habits is None else habits).made_decodable()
    script = TurnScript(draw, chosen)
    for part in draw(_BLOCK_KIND_LISTS):
        script.add(part)
    events = script.events()
    content = tuple(script.expected_blocks(events))
    if not chosen.finishes:
        message = AssistantMessage(content=content, stop_reason=StopReason.UNKNOWN)
        return EventStream(tuple(events), message, chosen)
    end = draw(finishes())
    has_calls = any(isinstance(block, AnyToolCall) for block in content)
    is_plain_end = has_calls and end.stop_reason is StopReason.END_TURN
    message = AssistantMessage(
        content=content,
        stop_reason=StopReason.TOOL_USE if is_plain_end else end.stop_reason,
        raw_stop_reason=end.raw_stop_reason,
        usage=end.usage,
    )
    return EventStream((*events, end), message, chosen)


def _with_id_of(block: AssistantBlock, made: Iterator[AnyToolCall]) -> AssistantBlock:
    if not isinstance(block, AnyToolCall) or (call := next(made, None)) is None:
        return block
    return msgspec.structs.replace(block, id=call.id)


# -- the script of a turn ----------------------------------------------------------------------


@dataclass(frozen=True)
class _TextRun:
    """A text or thinking block that is expected from all deltas of one kind and index."""

    kind: type[TextDelta | ThinkingDelta]
    index: int
    seal: Seal | None = None
    redacted: bool = False

    def build(self, text: str) -> Text | Thinking | None:
        if not text and self.seal is None:
            return None
        if self.kind is TextDelta:
            return Text(text, seal=self.seal)
        return Thinking(text, seal=self.seal, redacted=self.redacted)


class _CallScript(NamedTuple):
    """A tool call, with its arguments in pieces, before it is written as events."""

    number: int
    id: str
    name: str
    pieces: list[str]
    block_index: int


class TurnScript:
    """Builds the `events` of one turn, and the `expected_blocks` of the message."""

    def __init__(self, draw: DrawFn, habits: StreamHabits) -> None:
        self._draw = draw
        self._habits = habits
        self._ids = draw(_IDS)
        self._scripts: list[list[Event]] = []
        self._expected: list[_TextRun | AssistantBlock] = []
        self._calls: list[_CallScript] = []

    def add(self, part: BlockKind) -> None:
        """Add a block of this kind, with drawn content."""
        if part == "call":
            self._add_call()
        elif part == "whole":
            block = self._draw(_WHOLE_BLOCKS)
            self._scripts.append([BlockAdded(len(self._scripts), block)])
            self._expected.append(block)
        else:
            self._add_text(part)

    def events(self) -> list[Event]:
        """Return the events of all blocks, block by block or interleaved."""
        if not self._habits.interleaves:
            return [event for script in self._scripts for event in script]
        waiting = [iter(script) for script in self._scripts]
        begun = 0  # the number of blocks in `waiting` that have begun; blocks begin in order
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
        """Yield the blocks of the message that should be assembled from `events`."""
        for expected in self._expected:
            if not isinstance(expected, _TextRun):
                yield expected
                continue
            pieces = [
                event.text
                for event in events
                if isinstance(event, expected.kind) and event.index == expected.index
            ]
            block = expected.build("".join(pieces))
            if block is not None:
                yield block

    def _cut(self, text: str) -> list[str]:
        # Models often end arguments with a line feed, which may arrive in a separate fragment.
        places = st.integers(0, len(text)) | st.just(len(text.rstrip()))
        cuts = self._draw(st.lists(places, max_size=3).map(sorted))
        return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    # -- text -------------------------------------------------------------------------------

    def _add_text(self, part: BlockKind) -> None:
        has_own_index = self._habits.index == "block"
        index = len(self._scripts) if has_own_index else 0
        pieces = self._cut(self._draw(_SHORT_TEXTS))
        kind = TextDelta if part == "text" else ThinkingDelta
        seal = None
        if has_own_index:  # otherwise a seal does not identify its block
            seal = self._draw(_SEALS if part == "redacted" else _MAYBE_SEALS)
        is_redacted = part == "redacted" and seal is not None
        script: list[Event] = (
            [TextDelta(index, piece) for piece in pieces]
            if kind is TextDelta
            else [ThinkingDelta(index, piece, is_redacted) for piece in pieces]
        )
        if seal is not None:
            # Gemini may end a turn with a seal that has no text.
            is_bare = kind is TextDelta and self._draw(st.booleans())
            script = [*([] if is_bare else script), BlockSealed(index, seal)]
        self._scripts.append(script)
        run = _TextRun(kind, index, seal, is_redacted)
        if run not in self._expected:
            self._expected.append(run)

    # -- calls -------------------------------------------------------------------------------

    def _add_call(self) -> None:
        pieces = self._cut(self._draw(_ARGUMENTS))
        number = len(self._calls)
        name = self._choose_name(pieces)
        call = _CallScript(number, self._ids[number], name, pieces, len(self._scripts))
        script = self._call_script(call)
        seal = self._draw(_MAYBE_SEALS) if self._habits.index == "block" else None
        if seal is not None:
            place = self._draw(st.integers(1, len(script)))
            script.insert(place, BlockSealed(call.block_index, seal))
        if self._habits.ends:
            has_id = self._habits.ids != "missing"
            end = ToolCallEnd(self._index(call, 1), call.id if has_id else self._habits.absent)
            script.append(end)
        self._calls.append(call)
        self._scripts.append(script)
        self._expected.append(build_call(call.id, name, "".join(pieces), seal=seal))

    def _choose_name(self, pieces: list[str]) -> str:
        name = self._draw(_NAMES)
        if self._habits.shows_new_calls or not self._calls or name != self._calls[-1].name:
            return name
        earlier = build_call("earlier", "any", "".join(self._calls[-1].pieces))
        is_distinguishable = (
            self._habits.names == "first"
            and isinstance(earlier, ToolCall)
            and any(self._calls[-1].pieces)
            and pieces[0].lstrip().startswith("{")
        )
        return name if is_distinguishable else ("read" if name == "write" else "write")

    def _call_script(self, call: _CallScript) -> list[Event]:
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
        """Return the positions, among `count` events of a call, that have the id or name."""
        if habit == "late":
            place = self._draw(st.integers(1, count - 1))
            return range(place, place + 1)
        return {"first": range(1), "every": range(count)}.get(habit, range(0))

    def _index(self, call: _CallScript, place: int) -> int | None:
        match self._habits.index:
            case "block":
                return call.block_index
            case "call":
                return call.number
            case "first":
                return call.number if place == 0 else None
            case "shared":
                return 0
            case "missing":
                return None
