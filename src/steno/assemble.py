"""Conversion of events to a message, and of a message to events.

The `Assembler` assigns a fragment to a call by id, else by index, else to the latest call, since
real servers omit, reuse and swap ids, indexes and names. Parts are collected in lists and joined
once, so the cost is linear in the number of events. This module uses no clock and no I/O. It
creates an id only if the provider sent none, with a function that the caller may pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Never, TypeAlias, assert_never, assert_type, final

from msgspec.structs import replace

from steno.errors import InvalidValue
from steno.messages.call import (
    AnyToolCall,
    InvalidToolCall,
    Seal,
    ToolCall,
    build_call,
    new_call_id,
    original_tool_name,
)
from steno.messages.content import Image, Opaque, Text, Thinking
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
    refuse_index,
)
from steno.messages.message import AssistantBlock, AssistantMessage
from steno.messages.usage import StopReason, Usage
from steno.values import RedactedRepr, join_surrogates, replace_lone_surrogates

ExtrasByWire: TypeAlias = dict[str, dict[str, Any]]
"""Extra members by wire, in the mutable form that is used while events arrive."""


@final
class ToolCallPart(RedactedRepr, frozen=True, tag_field="type", tag="part", omit_defaults=True):
    """A part of a tool call as a wire decodes it; the Assembler turns parts into call events.

    `block` is the number of the block on the wire; seals and extras of the call use it as index.
    Providers may omit, repeat or reorder any field; the Assembler finds the call of each part. A
    response has thousands of parts, so a part checks nothing: the Assembler checks the block of
    each call.
    """

    shown: ClassVar[frozenset[str]] = frozenset({"id", "name"})

    block: int | None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None
    starts: bool = False
    """Whether the part marks the start of a call; ignored if a call with this id exists."""
    ends: bool = False


WireEvent: TypeAlias = Event | ToolCallPart
"""An event as a wire emits it and the Assembler receives it."""


# -- drafts ----------------------------------------------------------------------------------


@final
class TextDraft:
    """A text or thinking block that is not complete yet."""

    __slots__ = ("extras", "index", "kind", "parts", "redacted", "seal")

    def __init__(self, kind: type[Text | Thinking], index: int, redacted: bool) -> None:
        self.kind: type[Text | Thinking] = kind
        self.index: int = index
        self.redacted: bool = redacted
        self.parts: list[str] = []
        self.seal: Seal | None = None
        self.extras: ExtrasByWire | None = None

    def build(self) -> Text | Thinking | None:
        """Return the block built from the parts so far; None if it would be empty."""
        text = replace_lone_surrogates("".join(self.parts))
        if not text and self.seal is None and self.extras is None:
            return None
        if self.kind is Text:
            return Text(text, seal=self.seal, extras=self.extras)
        redacted = self.redacted and self.seal is not None
        return Thinking(text, seal=self.seal, redacted=redacted, extras=self.extras)


@final
class ToolCallDraft:
    """A tool call that is not complete yet; `number` is its index among the message's calls."""

    __slots__ = (
        *("built", "depth", "extras", "has_ended", "has_opened", "id", "in_string", "index"),
        *("is_escaped", "name", "number", "own_id", "parts", "scanned", "seal"),
    )

    def __init__(self, number: int, name: str | None) -> None:
        self.number: int = number
        self.index: int | None = None
        self.id: str | None = None
        self.name: str | None = name
        self.parts: list[str] = []
        self.seal: Seal | None = None
        self.extras: ExtrasByWire | None = None
        self.has_ended: bool = False
        self.own_id: str | None = None
        """The id of the call in the message, if it is not the id that the provider sent."""
        self.built: AnyToolCall | None = None
        # The state of `is_complete`: the number of scanned parts, and the nesting after them.
        self.scanned: int = 0
        self.depth: int = 0
        self.in_string = self.is_escaped = self.has_opened = False

    def build(self, new_id: Callable[[], str]) -> AnyToolCall:
        """Return the call built from the parts so far; it is cached until another part arrives."""
        if self.built is None:
            if self.id is None and self.own_id is None:
                self.own_id = new_id()
            call_id = self.own_id or self.id or ""
            arguments = join_surrogates("".join(self.parts))
            self.built = build_call(
                call_id, self.name or "", arguments, seal=self.seal, extras=self.extras
            )
        return self.built

    def build_truncated(self, new_id: Callable[[], str]) -> AnyToolCall:
        """Return the call of a response that was cut off.

        If the call has neither ended nor received arguments, an InvalidToolCall is returned.
        """
        call = self.build(new_id)
        if self.has_ended or any(self.parts) or isinstance(call, InvalidToolCall):
            return call
        return InvalidToolCall(
            id=call.id,
            name=original_tool_name(call),
            reason="tool call: the response ended before the arguments arrived",
            seal=call.seal,
            extras=call.extras,
        )

    def is_complete(self) -> bool:
        """Return whether the arguments contain brackets and all of these brackets are closed.

        Each part is scanned only once, even if this method is called repeatedly.
        """
        for part in self.parts[self.scanned :]:
            for mark in part:
                if self.is_escaped:
                    self.is_escaped = False
                elif mark == "\\":
                    self.is_escaped = self.in_string
                elif mark == '"':
                    self.in_string = not self.in_string
                elif not self.in_string:
                    self.depth += (mark in "[{") - (mark in "]}")
                    self.has_opened = self.has_opened or self.depth > 0
        self.scanned = len(self.parts)
        return self.has_opened and self.depth == 0 and not self.in_string


BlockDraft: TypeAlias = TextDraft | ToolCallDraft | Image | Opaque


def merge_extras(found: ExtrasByWire | None, news: Mapping[str, Mapping[str, Any]]) -> ExtrasByWire:
    """Add the new members of each wire to `found`, or to a new dictionary, and return it.

    A new member replaces an old member of the same name.
    """
    merged: ExtrasByWire = {} if found is None else found
    for wire, members in news.items():
        merged.setdefault(wire, {}).update(members)
    return merged


def is_different_call(
    call: ToolCallDraft, index: int | None, name: str | None, fragment: str
) -> bool:
    """Return whether a fragment that has the id of `call` belongs to a different call.

    Some servers reuse ids, and others repeat the id and the name in every fragment. A fragment
    without a name belongs to `call`, and so does a fragment with the index of `call`.
    """
    if name is None or call.name is None:
        return False
    if index is None or call.index is None:
        is_start = name != call.name or fragment.lstrip().startswith("{")
        return is_start and call.is_complete()
    if index == call.index:
        return False
    return name != call.name or call.has_ended or call.is_complete()


# -- events to a message ---------------------------------------------------------------------


@final
class Assembler:
    """Builds a message from the events of one response; `message()` can be called at any time."""

    def __init__(self, *, new_id: Callable[[], str] = new_call_id) -> None:
        """Create an assembler without events.

        `new_id` creates the id of a call for which the provider sent none.
        """
        self._new_id = new_id
        self._drafts: list[BlockDraft] = []
        self._text_drafts: dict[tuple[type, int], TextDraft] = {}
        self._latest_text_draft: TextDraft | None = None
        self._text_index: int | None = None
        """The index of `_latest_text_draft` if that draft is a text block; otherwise None."""
        self._add_text: Callable[[str], None] = list[str]().append
        self._calls: list[ToolCallDraft] = []
        self._call_by_id: dict[str, ToolCallDraft] = {}
        self._call_by_index: dict[int, ToolCallDraft] = {}
        self._latest_at: dict[int, TextDraft | ToolCallDraft] = {}
        self._extras: ExtrasByWire | None = None
        self._finished: Finished | None = None

    def feed(self, event: WireEvent) -> tuple[Event, ...]:
        """Process one event and return the normalized events for it.

        In the normalized events, each call begins once and ends with the whole call. If its name or
        more arguments arrive after its end, it ends again. The index of a call is its number in the
        message, not the provider's number. Raises InvalidValue if `event` is not an event.
        """
        # Most events add text to the latest block, and this test is faster than `match`.
        if type(event) is TextDelta and event.index == self._text_index:
            self._add_text(event.text)
            return (event,)
        match event:
            case ToolCallPart():
                if event.starts:
                    return self._begin_call(event.block, event.id, event.name)
                if event.ends:
                    return self._end_call(event.block, event.id)
                return self._append_arguments(event.block, event.id, event.name, event.arguments)
            case TextDelta():
                self._append_text(Text, event.index, event.text)
            case ThinkingDelta():
                self._append_text(Thinking, event.index, event.text, event.redacted)
            case ToolCallDelta():
                fragment = event.arguments_delta
                return self._append_arguments(event.index, event.id, event.name, fragment)
            case ToolCallBegin():
                return self._begin_call(event.index, event.id, event.name)
            case ToolCallEnd():
                return self._end_call(event.index, event.id)
            case BlockSealed():
                self._draft_at(event.index).seal = event.seal
            case BlockAdded():
                self._drafts.append(event.block)
            case ExtrasAdded():
                if event.index is None:
                    self._extras = merge_extras(self._extras, event.extras)
                else:
                    draft = self._draft_at(event.index)
                    draft.extras = merge_extras(draft.extras, event.extras)
            case Finished():
                return self._finish(event)
            case _:
                assert_type(event, Never)
                # Not `assert_never`: its error message would contain the content.
                raise InvalidValue(
                    f"expected an event, not {type(event).__name__}",
                    code="not_an_event",
                    place="assembler",
                )
        return (event,)

    def feed_all(self, events: Iterable[WireEvent]) -> list[Event]:
        """Process several events and return their normalized events, like `feed`."""
        normalized: list[Event] = []
        for event in events:
            if type(event) is TextDelta and event.index == self._text_index:  # as in `feed`
                self._add_text(event.text)
                normalized.append(event)
            else:
                normalized += self.feed(event)
        return normalized

    def message(
        self, stop_reason: StopReason | None = None, *, usage: Usage | None = None
    ) -> AssistantMessage:
        """Return the message built from the events so far.

        Pass `stop_reason` for a response that did not finish (aborted, error); a call that has
        neither ended nor received arguments is then invalid. `usage` is used only if no `Finished`
        event arrived.
        """
        finished = self._finished
        is_truncated = finished is None and stop_reason is not None
        blocks: list[AssistantBlock | None] = []
        for draft in self._drafts:
            match draft:
                case TextDraft():
                    blocks.append(draft.build())
                case ToolCallDraft():
                    build = draft.build_truncated if is_truncated else draft.build
                    blocks.append(build(self._new_id))
                case Image() | Opaque():
                    blocks.append(draft)
                case _:
                    assert_never(draft)
        raw = finished.raw_stop_reason if finished else None
        return AssistantMessage(
            content=tuple([block for block in blocks if block is not None]),
            stop_reason=stop_reason or (finished.stop_reason if finished else StopReason.UNKNOWN),
            raw_stop_reason=None if raw is None else replace_lone_surrogates(raw),
            usage=finished.usage if finished else usage,
            extras=self._extras,
        )

    def _finish(self, event: Finished) -> tuple[Event, ...]:
        if event.stop_reason is StopReason.END_TURN and self._calls:
            # Ollama, Gemini and many others end a turn that contains calls with a plain "stop".
            event = replace(event, stop_reason=StopReason.TOOL_USE)
        self._finished = event
        return (*(self._end_draft(call) for call in self._calls if not call.has_ended), event)

    # -- text, seals and extras --------------------------------------------------------------

    def _append_text(
        self, kind: type[Text | Thinking], index: int, text: str, redacted: bool = False
    ) -> None:
        draft = self._latest_text_draft
        if draft is None or draft.kind is not kind or draft.index != index:
            draft = self._find_text_draft(kind, index, redacted)
        draft.parts.append(text)
        draft.redacted = draft.redacted or redacted

    def _find_text_draft(
        self, kind: type[Text | Thinking], index: int, redacted: bool
    ) -> TextDraft:
        draft = self._text_drafts.get((kind, index))
        if draft is None:
            draft = self._text_drafts[kind, index] = TextDraft(kind, index, redacted)
            self._drafts.append(draft)
        self._latest_text_draft = self._latest_at[index] = draft
        self._text_index = index if kind is Text else None
        self._add_text = draft.parts.append
        return draft

    def _draft_at(self, index: int) -> TextDraft | ToolCallDraft:
        """Return the latest draft at an index, or a new, empty text draft if there is none."""
        draft = self._latest_at.get(index) or self._find_text_draft(Text, index, False)
        if isinstance(draft, ToolCallDraft):
            draft.built = None
        return draft

    # -- calls -------------------------------------------------------------------------------

    def _begin_call(self, index: int | None, id: str | None, name: str | None) -> tuple[Event, ...]:
        id, name = id or None, name or None
        call = self._find_by_id(index, id)
        # No server announces a call twice under two indexes, so another index is another call.
        if call is None or (index != call.index and None not in (index, call.index)):
            return (self._open_call(index, id, name),)
        _, late_name = self._fill_id_and_name(call, id, name)
        if late_name is None:
            return ()
        call.has_ended = False  # it ends again, with its name
        return (ToolCallDelta(call.number, name=late_name),)

    def _append_arguments(
        self, index: int | None, id: str | None, name: str | None, fragment: str | None
    ) -> tuple[Event, ...]:
        if id is name is None and index is not None and fragment:
            call = self._call_by_index.get(index)
            if call is not None and not call.has_ended:  # the usual case: the next fragment
                call.built = None
                call.parts.append(fragment)
                return (ToolCallDelta(call.number, None, None, fragment),)
        id, name, fragment = id or None, name or None, fragment or ""
        call = self._find_call(index, id, name, fragment)
        if call is None:
            begin = self._open_call(index, id, name)
            if not fragment:
                return (begin,)
            self._calls[-1].parts.append(fragment)
            return begin, ToolCallDelta(begin.index, arguments_delta=fragment)
        if call.index is None:
            self._set_index(call, index)
        id, name = self._fill_id_and_name(call, id, name)
        if call.has_ended and not fragment.strip() and not (id or name):
            return ()  # white space after the end changes nothing
        call.has_ended = False
        call.parts.append(fragment)
        return (ToolCallDelta(call.number, id, name, fragment or None),)

    def _find_call(
        self, index: int | None, id: str | None, name: str | None, fragment: str
    ) -> ToolCallDraft | None:
        """Return the call to which a fragment belongs; None if the fragment starts a new call."""
        known = self._find_by_id(index, id)
        if known is not None:
            return None if is_different_call(known, index, name, fragment) else known
        call = None if index is None else self._call_by_index.get(index)
        if call is None and self._calls:
            call = self._calls[-1]
            if index is not None and call.index is not None:
                return None  # a new index means a new call; its id and name may arrive later
        if call is None or (id is not None and call.id is not None):
            return None  # there is no call, or a new id starts a new one, even at a used index
        return None if self._starts_another(call, name, fragment) else call

    def _find_by_id(self, index: int | None, id: str | None) -> ToolCallDraft | None:
        """Return the call to which the provider gave an id; if there are several, that at `index`.

        If none of them is at `index`, return the latest one. If the call at `index` has no id yet,
        return None: the id may be that of this call, which another call has too.
        """
        if id is None:
            return None
        call = None if index is None else self._call_by_index.get(index)
        if call is None or call.id not in (None, id):
            return self._call_by_id.get(id)
        return None if call.id is None else call

    def _starts_another(self, call: ToolCallDraft, name: str | None, fragment: str) -> bool:
        if name is None or call.name is None:
            return False
        if name != call.name:
            return True
        # A repeated name starts another call, unless the server sends the name in every part.
        return fragment.lstrip().startswith("{") and bool(call.parts) and call.is_complete()

    def _fill_id_and_name(
        self, call: ToolCallDraft, id: str | None, name: str | None
    ) -> tuple[str | None, str | None]:
        """Set the id and the name of a call if they are missing.

        Return the id of the message and the name, and None in place of a value that was not set.
        """
        late_id = id if call.id is None else None
        late_name = name if call.name is None else None
        call.built = None
        if late_id is not None:
            late_id = self._set_id(call, late_id)
        if late_name is not None:
            call.name = late_name
        return late_id, late_name

    def _set_id(self, call: ToolCallDraft, id: str) -> str:
        """Set the id that the provider sent, and return the id of the call in the message."""
        call.id = id
        # The results of two calls with one id would be mixed up.
        call.own_id = self._new_id() if id in self._call_by_id else None
        self._call_by_id[id] = call
        return call.own_id or id

    def _open_call(self, index: int | None, id: str | None, name: str | None) -> ToolCallBegin:
        call = ToolCallDraft(len(self._calls), name)
        self._set_index(call, index)
        own_id = None if id is None else self._set_id(call, id)
        self._calls.append(call)
        self._drafts.append(call)
        return ToolCallBegin(call.number, own_id, name)

    def _set_index(self, call: ToolCallDraft, index: int | None) -> None:
        if index is None:
            return
        if type(index) is not int or index < 0:
            refuse_index(ToolCallPart, index, field="block")
        call.index = index
        self._call_by_index[index] = self._latest_at[index] = call

    def _end_call(self, index: int | None, id: str | None) -> tuple[Event, ...]:
        call = self._find_by_id(index, id)
        if call is None and index is not None:
            call = self._call_by_index.get(index)
        if call is None or call.has_ended:
            return ()
        return (self._end_draft(call),)

    def _end_draft(self, call: ToolCallDraft) -> ToolCallEnd:
        call.has_ended = True
        built = call.build(self._new_id)
        return ToolCallEnd(call.number, built.id, built)


# -- a message to events ---------------------------------------------------------------------


def events_from_message(message: AssistantMessage) -> Iterator[WireEvent]:
    """Yield events from which an Assembler rebuilds the same message; used for replay."""
    for index, block in enumerate(message.content):
        match block:
            case Text():
                yield TextDelta(index, block.text)
            case Thinking():
                yield ThinkingDelta(index, block.text, block.redacted)
            case ToolCall() | InvalidToolCall():
                yield ToolCallPart(index, block.id, original_tool_name(block), starts=True)
                yield ToolCallPart(index, arguments=block.arguments)
            case Image() | Opaque():
                yield BlockAdded(index, block)
                continue
            case _:
                assert_never(block)
        if block.seal is not None:
            yield BlockSealed(index, block.seal)
        if block.extras is not None:
            yield ExtrasAdded(index, block.extras)
        if isinstance(block, AnyToolCall):
            yield ToolCallPart(index, block.id, ends=True)
    if message.extras is not None:
        yield ExtrasAdded(None, message.extras)
    stop_reason = message.stop_reason or StopReason.UNKNOWN
    yield Finished(stop_reason, message.raw_stop_reason, message.usage)
