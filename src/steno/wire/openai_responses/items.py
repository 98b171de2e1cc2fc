"""Read the items of a model's turn, in responses and recorded requests, and track them in streams.

An item becomes one piece; a message item becomes one piece for each of its parts. Unknown members
stay with the piece, so that the same item can be written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias, assert_never, final

import msgspec
from msgspec import Raw

from steno.errors import InvalidRequest
from steno.json_object import MAX_DEPTH, check_depth
from steno.messages.call import AnyToolCall, build_call
from steno.messages.content import Opaque, Text, Thinking
from steno.messages.message import AssistantBlock
from steno.values import FORM_KEY, replace_lone_surrogates
from steno.wire.extras import Members, get_extras
from steno.wire.openai_responses import payload
from steno.wire.openai_responses.payload import CUSTOM_TOOL_CALL, NAME, DeltaEvent, ItemHead
from steno.wire.request_decoder import ObjectMembers
from steno.wire.request_encoder import RequestTarget, drop_none
from steno.wire.tolerant import NULL, RawMembers, is_nonempty_json, raw_text, read_as

ExtrasByWire: TypeAlias = dict[str, Members]
_EXTRA_LEVELS: Final = 4
"""The number of levels that extras may add around an item."""
_TEXT_PART_TYPES: Final = frozenset({"output_text", "input_text", "text"})


class OutputTextPiece(NamedTuple):
    """A text part of a message item."""

    text: str
    extras: ExtrasByWire | None


class ReasoningPiece(NamedTuple):
    """A reasoning item; `sealed` is its encrypted content, the data of a seal."""

    text: str
    sealed: str | None
    extras: ExtrasByWire | None


class CallPiece(NamedTuple):
    """A call of a function or custom tool; an absent id or name is an empty string."""

    id: str
    name: str
    arguments: str
    extras: ExtrasByWire | None


ItemPiece: TypeAlias = OutputTextPiece | ReasoningPiece | CallPiece | Opaque
"""An item, or a part of a message item; an item or part of an unknown type is opaque."""


def read_item(raw: Raw, place: str) -> list[ItemPiece]:
    """Return the pieces of an item.

    Raises InvalidRequest if it is not an object, or is nested too deeply.
    """
    item = ObjectMembers(raw, place)
    _check_item_depth(item.raw, place)
    kind = item.peek("type", str)
    if kind in ("message", None) and item.peek("role", str) == "assistant":
        return _read_message(item)
    if kind == "reasoning":
        return [_read_reasoning(item)]
    if kind == "function_call":
        item.take("type", str)
        return [_read_call(item, "arguments")]
    if kind == CUSTOM_TOOL_CALL:
        return [_read_call(item, "input")]
    return [build_opaque(kind or "", item.raw)]


def build_opaque(kind: str, raw: str, extras: ExtrasByWire | None = None) -> Opaque:
    """Build an opaque block for an item, or a part of a message, of an unknown type."""
    return Opaque(kind=kind, raw=raw, origin=NAME, extras=extras)


def _check_item_depth(text: str, place: str) -> None:
    """Raise InvalidRequest if an item is nested too deeply to be kept in extras."""
    if text.count("{") + text.count("[") < MAX_DEPTH - _EXTRA_LEVELS:
        return
    try:
        check_depth({NAME: {payload.ITEM_EXTRAS: {FORM_KEY: msgspec.json.decode(text)}}})
    except RecursionError:
        raise InvalidRequest(
            "the item is nested too deeply", code="nested_too_deeply", place=place
        ) from None


def _read_message(item: ObjectMembers) -> list[ItemPiece]:
    text = item.peek("content", str)
    parts = item.peek("content", list[Raw])
    if text is None and not parts:
        return [build_opaque("message", item.raw)]  # an empty message has an id to keep
    item.take("role", str)
    item.take("content", Raw)
    form = drop_none(**{payload.ITEM_TYPE_NOTE: item.take("type", str)})
    members = item.remaining()
    if text is not None:
        extras = {NAME: {payload.ITEM_EXTRAS: members, FORM_KEY: form | {"content": "string"}}}
        return [OutputTextPiece(text, extras if members or not form else None)]
    first = {payload.ITEM_EXTRAS: members} | ({FORM_KEY: form} if form else {})
    return [
        _read_part(part, {FORM_KEY: {payload.PART_NOTE: True}} if number else first)
        for number, part in enumerate(parts or ())
    ]


def _read_part(raw: Raw, mark: Members) -> OutputTextPiece | Opaque:
    """Read a part; `mark` has the extras that mark it as the first part or a later one."""
    part = ObjectMembers(raw, "part")
    kind = part.peek("type", str)
    text = part.peek("text", str)
    if kind not in _TEXT_PART_TYPES or text is None:
        return build_opaque(kind or "", part.raw, {NAME: mark})
    part.take("text", str)
    if kind == "output_text":
        part.take("type", str)
    return OutputTextPiece(text, {NAME: part.remaining() | mark})


def _read_reasoning(item: ObjectMembers) -> ReasoningPiece:
    item.take("type", str)
    sealed = item.take_nonempty("encrypted_content", str)
    summary, content = _join_texts(item, "summary"), _join_texts(item, "content")
    # Some servers send the same text in both members.
    text = summary if summary == content else summary + content
    if "summary" not in item:
        item.note_form("summary", "absent")
    elif "content" not in item and item.peek("summary", list[Members]) == build_summary(text):
        item.take("summary", Raw)
    # Without a seal, only extras distinguish this item from the thinking of another source.
    return ReasoningPiece(text, sealed, item.extras(NAME) or (None if sealed else {NAME: {}}))


def _join_texts(item: ObjectMembers, name: str) -> str:
    parts = item.peek(name, list[Members]) or ()
    texts = [part.get("text") for part in parts]
    return "".join([text for text in texts if isinstance(text, str)])


def build_summary(text: str) -> list[Members]:
    """Return the usual form of a summary: one part, or no part if the text is empty."""
    return [{"type": "summary_text", "text": text}] if text else []


def _read_call(item: ObjectMembers, field: str) -> CallPiece:
    absent = [name for name in ("name", field) if name not in item]
    if absent:
        item.note_form("absent", absent)
    id, name = item.take("call_id", str), item.take("name", str)
    if id and not payload.LEGAL_ID.fullmatch(id):
        item.note_form("call_id", id)
    arguments = item.take(field, str)
    if arguments is None and field in item:
        arguments = raw_text(item.take(field, Raw) or b"")
        item.note_form("arguments", "object")
    elif arguments is not None and field == "input" and not arguments.strip():
        item.note_form("blank", arguments)  # a custom tool takes text: a blank input is not `{}`
    return CallPiece(id or "", name or "", arguments or "", item.extras(NAME))


# -- blocks -----------------------------------------------------------------------------------


def build_block(piece: ItemPiece, target: RequestTarget) -> AssistantBlock:
    """Build the block for a piece. Raises InvalidMessage if the block would be invalid."""
    match piece:
        case OutputTextPiece():
            return Text(piece.text, extras=piece.extras)
        case ReasoningPiece():
            seal = None if piece.sealed is None else target.seal(piece.sealed)
            return Thinking(piece.text, seal=seal, extras=piece.extras)
        case CallPiece():
            return build_call(
                piece.id, piece.name, piece.arguments, extras=_build_call_extras(piece)
            )
        case Opaque():
            return piece
        case _:
            assert_never(piece)


def _build_call_extras(call: CallPiece) -> ExtrasByWire | None:
    """Return the extras of a call, with its recorded name and arguments if they are unusual."""
    members = (call.extras or {}).get(NAME, {})
    form = members.get(FORM_KEY, {})
    if not call.arguments.strip() and form.keys().isdisjoint({"absent", "blank"}):
        members = members | {"arguments": call.arguments}
    if not payload.LEGAL_NAME.fullmatch(call.name):
        members = members | {FORM_KEY: form | {"name": call.name}}
    return {NAME: members} if members else None


def find_custom_call_ids(blocks: Iterable[AssistantBlock]) -> set[str]:
    """Return the ids of custom tool calls, whose results have a different item type."""
    return {
        block.id for block in blocks if isinstance(block, AnyToolCall) and is_custom_call(block)
    }


def is_custom_call(call: AnyToolCall) -> bool:
    """Return whether a call is a custom tool call."""
    return get_extras(call, NAME).get("type") == CUSTOM_TOOL_CALL


# -- items of a stream ------------------------------------------------------------------------
#
# Servers use ids and indexes inconsistently. An item is found by its id first, since some servers
# count the output from 0 for each kind of item. If the id is new, the item is found by its index,
# since other servers generate a new id for every event. Two items may share an id or index: an
# event that cannot belong to the item found starts a new item.
#
# A stream sends the content of an item several times: in deltas, when a part is done, when the
# item is done, and at the end. The first version is used; a later one only adds missing content.

PartKey: TypeAlias = tuple[str, int | None]
"""The type of a reasoning delta, and the number of its part, if it has one."""
SINGLE_PART: Final[PartKey] = ("", None)
"""The key of content that is not reasoning."""
_GROWING_FIELDS: Final = frozenset({"text", "content", "arguments", "input"})
"""Members that grow: a later value that extends the earlier one replaces it."""
_LATEST_WINS_FIELDS: Final = frozenset({"status"})
"""Members whose latest value is used."""


@final
class ItemTracker:
    """Finds the item of each event of one response, and numbers the blocks of the items."""

    def __init__(self) -> None:
        self.items: list[OutputItem] = []
        self._by_id: dict[str | None, OutputItem] = {}
        self._by_index: dict[int | None, OutputItem] = {}
        self._by_kind: dict[str, OutputItem] = {}
        self._block_count = 0

    def begin(self, head: ItemHead, index: int | None) -> OutputItem:
        """Return the item that begins.

        It is a new item, unless an earlier event referred to it.
        """
        item = self._find_by_id(head.id, index)
        if item is None or item.is_done or item.is_another(head, index):
            item = self.add(head.id, index)
        elif item.head.type and item.is_elsewhere(index):
            item = self.add(head.id, index)  # the known item began at another index
        if item.head.type is None:
            item.head = head
        return item

    def find(self, id: str | None, index: int | None) -> OutputItem:
        """Return the item that an event refers to, or a new item if there is none."""
        item = self._find_by_id(id, index)
        if item is None:
            item = self._by_index.get(index)
            item = None if item is not None and item.is_done else item
        return item or self.add(id, index)

    def find_growing(self, id: str | None, index: int | None, kind: str) -> OutputItem:
        """Return the item that a delta extends, or a new item if the known item cannot continue."""
        item = self.find(id, index)
        is_over = item.is_done and (item.is_elsewhere(index) or not item.may_have(kind))
        return self.add(id, index) if is_over else item

    def find_again(self, id: str | None, index: int | None, kind: str) -> tuple[OutputItem, bool]:
        """Return the item whose content an event repeats, and whether the match is certain."""
        item = self._find_by_id(id, index)
        if item is not None:
            return item, True
        item = self._by_index.get(index)
        if item is not None and item.may_have(kind):
            return item, True
        item = self._by_kind.get(kind) or (self.items[-1] if self.items else None)
        if item is not None and item.may_have(kind):
            return item, False
        return self.add(id, index), True

    def find_in_output(self, position: int, id: str | None) -> Iterator[OutputItem]:
        """Yield known items that may match an item of the final output, the likeliest first."""
        for item in (self._find_by_id(id, position), self._by_index.get(position)):
            if item is not None:
                yield item

    def get_part_text(self, item: OutputItem, part: int | None, kind: str) -> BlockText:
        """Return the text of a part of an item; calls have only one part."""
        return self.get_block_text(item, self.get_block(item, part), kind)

    def get_block_text(self, item: OutputItem, block: int, kind: str) -> BlockText:
        """Return the text of a block, which is created if it does not exist."""
        item.latest[kind] = block
        self._by_kind[kind] = item
        text = item.texts.get((block, kind))
        if text is None:
            text = item.texts[block, kind] = BlockText(kind, block)
        return text

    def get_block(self, item: OutputItem, part: int | None) -> int:
        """Return the block number of a part of an item; a new part gets a new number."""
        block = item.parts.get(part)
        if block is None:
            block = item.parts[part] = self.new_block()
        return block

    def get_blocks(self, item: OutputItem, count: int) -> list[int]:
        """Return the block numbers of an item with `count` parts."""
        if count == 1 and None in item.parts:
            return [item.parts[None]]
        if item.parts.keys() <= set(range(count)):
            return [self.get_block(item, part) for part in range(count)]
        while len(item.parts) < count:  # the server did not number its parts from 0
            self.get_block(item, -1 - len(item.parts))
        return list(item.parts.values())[:count]

    def new_block(self) -> int:
        """Return a new block number."""
        self._block_count += 1
        return self._block_count - 1

    def add(self, id: str | None, index: int | None) -> OutputItem:
        """Create an item, which is found by this id and index from now on."""
        item = OutputItem(id, index)
        self.items.append(item)
        if id:
            self._by_id[id] = item
        if index is not None:
            self._by_index[index] = item
        return item

    def _find_by_id(self, id: str | None, index: int | None) -> OutputItem | None:
        """Return the item with this id; None if there is none.

        If several items have the id, return the item at this index, or else the latest of them.
        """
        item = self._by_index.get(index)
        return item if item is not None and id and item.id == id else self._by_id.get(id)


@final
class OutputItem:
    """The state of one output item, as far as it has arrived."""

    __slots__ = (
        *("done_count", "done_texts", "has_begun", "head", "id", "index", "is_done", "latest"),
        *("parts", "pieces", "raw", "texts"),
    )

    def __init__(self, id: str | None, index: int | None) -> None:
        self.id = id
        self.index = index
        self.head: ItemHead = ItemHead()
        """The head from the first event; the head of the done item replaces it."""
        self.parts: dict[int | None, int] = {}
        """The block numbers by the index of the part, in order of arrival."""
        self.texts: dict[tuple[int, str], BlockText] = {}
        """The texts of the blocks, by block number and kind."""
        self.latest: dict[str, int] = {}
        """The number of the latest block of each kind."""
        self.has_begun = False
        """Whether the item is a call whose id and name were added as an event."""
        self.is_done = False
        self.done_count = 0
        """The number of different versions of the done item that have arrived."""
        self.raw = NULL
        """The done item, with later versions merged into it."""
        self.pieces: list[ItemPiece] = []
        """The pieces of the done item."""
        self.done_texts: list[DeltaEvent] = []
        """Texts of done events without deltas, kept in case the done item does not repeat them."""

    def find_text(self, kind: str, part: int | None) -> BlockText | None:
        """Return the text of a part, or of the latest part if `part` is None; None if unknown."""
        block = self.parts.get(part, self.parts.get(None))
        if block is None and part is None:
            block = self.latest.get(kind)
        return None if block is None else self.texts.get((block, kind))

    def may_have(self, kind: str) -> bool:
        """Return whether the item may have content of this kind."""
        return kind in self.latest or not (self.latest or self.is_done)

    def is_elsewhere(self, index: int | None) -> bool:
        """Return whether the item is known to have another index."""
        return None not in (index, self.index) and index != self.index

    def is_another(self, head: ItemHead, index: int | None) -> bool:
        """Return whether `head` belongs to another item, even if both have the same id."""
        if _are_different(self.head.type, head.type):
            return True
        is_over = self.is_done or self.is_elsewhere(index)
        return is_over and _are_different(self.head.call_id, head.call_id)


@final
class BlockText:
    """The text of one block that was added as events so far.

    The kinds of text are output, reasoning, arguments and refusals. If a repetition extends the
    text, its end is added; a repetition that differs is ignored.

    Reasoning has two places in its item, the summary and the content. Some servers send the same
    text in both, but it must appear only once. So text in the second place is held back as long as
    it may be a repetition of the text in the first place.
    """

    __slots__ = (
        *("_first_place", "_held", "_held_at", "_is_different", "_latest", "_latest_start"),
        *("_seen_parts", "_sent_at", "block", "kind", "sent"),
    )

    def __init__(self, kind: str, block: int) -> None:
        self.kind = kind
        self.block = block
        self.sent: list[str] = []
        """The texts of the events so far; none of them is empty."""
        self._seen_parts: set[PartKey | str] = {"", SINGLE_PART}
        """The parts that had deltas, and the places of these parts."""
        self._first_place: str | None = None
        self._latest = SINGLE_PART
        self._latest_start = 0  # where the latest part starts in `sent`
        self._held: list[str] = []
        self._is_different = False
        # Where the comparison of `sent` and `_held` stopped: the element, and the position in it.
        self._sent_at = self._held_at = (0, 0)

    def add_delta(self, text: str, part: PartKey = SINGLE_PART) -> str:
        """Add more text of a part; return the text for the next event, which may be empty."""
        place, _ = part
        if part != self._latest:
            self._latest, self._latest_start = part, len(self.sent)
            self._seen_parts |= {part, place}
        if self._first_place is None:
            self._first_place = place
        if place != self._first_place and not self._is_different:
            self._held.append(text)
            if self._may_repeat():
                return ""
            text = "".join(self._held)
            self._held, self._is_different = [], True
        self._append(text)
        return text

    def find_part_end(self, text: str, part: PartKey = SINGLE_PART) -> str | None:
        """Return the missing end of a done part; None if the part had no deltas.

        A part without a number is taken to be the latest part.
        """
        place, number = part
        parts = {place} if number is None else {part, (place, None)}
        if self._seen_parts.isdisjoint(parts):
            return None
        is_latest = self._latest in parts or (number is None and self._latest[0] == place)
        # A part that another part follows, or that is held back, is left to the done item.
        return self._find_unsent_end(text) if is_latest and not self._held else ""

    def take_remaining(self, text: str | None = None) -> str:
        """Return the text that was not added yet, and add it.

        `text` is the whole text of the done item. If it is None or differs from the text so far,
        only held text is added.
        """
        sent, held = "".join(self.sent), "".join(self._held)
        if text is not None and text.startswith(sent):
            left = text[len(sent) :]
        elif text is not None and self.kind == payload.REASONING_KIND and text.endswith(sent):
            left = text[: -len(sent)]  # the content arrived before the summary
        elif held.startswith(sent):
            left = held[len(sent) :]
        else:
            left = "" if sent.startswith(held) else held
        self._held, self._sent_at, self._held_at = [], (0, 0), (0, 0)
        self._append(left)
        return left

    def _append(self, text: str) -> None:
        """Add the text of an event, and join the halves of a surrogate pair."""
        if self.sent and "\udc00" <= text[:1] <= "\udfff":
            pair = replace_lone_surrogates(self.sent[-1][-1] + text[0])
            if len(pair) == 1:
                self.sent[-1:] = [self.sent[-1][:-1], pair] if len(self.sent[-1]) > 1 else [pair]
                text = text[1:]
        if text:
            self.sent.append(text)

    def _find_unsent_end(self, text: str) -> str:
        """Return the end of `text` that the latest part lacks; empty if `text` differs from it."""
        # The texts are not joined, so that the cost depends only on this part.
        at = 0
        for number in range(self._latest_start, len(self.sent)):
            fragment = self.sent[number]
            if not text.startswith(fragment, at):
                return ""
            at += len(fragment)
        return text[at:]

    def _may_repeat(self) -> bool:
        """Return whether the held text so far repeats the sent text.

        Each call continues the previous comparison, so that no character is compared twice.
        """
        (sent, sent_from), (held, held_from) = self._sent_at, self._held_at
        while sent < len(self.sent) and held < len(self._held):
            one, other = self.sent[sent], self._held[held]
            size = min(len(one) - sent_from, len(other) - held_from)
            if one[sent_from : sent_from + size] != other[held_from : held_from + size]:
                return False
            sent_from, held_from = sent_from + size, held_from + size
            if sent_from == len(one):
                sent, sent_from = sent + 1, 0
            if held_from == len(other):
                held, held_from = held + 1, 0
        self._sent_at, self._held_at = (sent, sent_from), (held, held_from)
        return True


# -- repeated items ---------------------------------------------------------------------------


def is_same_item(before: list[ItemPiece], after: list[ItemPiece]) -> bool:
    """Return whether `after` may be a later version of `before`; equal ids do not prove it."""
    return len(after) >= len(before) and all(map(_is_same_piece, before, after))


def _is_same_piece(before: ItemPiece, after: ItemPiece) -> bool:
    if isinstance(before, Opaque):
        # An opaque piece does not change, except for an empty message that has its text now.
        return before.kind == "message" and isinstance(after, OutputTextPiece)
    if type(before) is not type(after):
        return False
    if (
        isinstance(before, CallPiece)
        and isinstance(after, CallPiece)
        and _are_different(before.id, after.id)
    ):
        return False
    one, other = get_piece_text(before), get_piece_text(after)
    return one.startswith(other) or other.startswith(one)


def get_piece_text(piece: ItemPiece) -> str:
    """Return the text, arguments or opaque JSON of a piece; empty for a message without text."""
    match piece:
        case CallPiece():
            return piece.arguments
        case Opaque():
            return "" if piece.kind == "message" else piece.raw
        case _:
            return piece.text


def merge_repeated(before: Raw, after: Raw, name: str = "") -> Raw:
    """Return the first version of a value, with the members that only the later version has.

    The later version replaces an empty value, a status, and a text that it extends.
    """
    if before == after or not is_nonempty_json(before):
        return after
    members, more = read_as(before, RawMembers), read_as(after, RawMembers)
    if members is not None and more is not None:
        known = {
            name: merge_repeated(text, more.get(name, text), name) for name, text in members.items()
        }
        return Raw(msgspec.json.encode(more | known))
    elements, others = read_as(before, list[Raw]), read_as(after, list[Raw])
    if elements is not None and others is not None and len(others) >= len(elements):
        pairs = zip(elements, others, strict=False)
        both = [merge_repeated(element, other) for element, other in pairs]
        return Raw(msgspec.json.encode(both + others[len(elements) :]))
    return after if _replaces(before, after, name) else before


def _replaces(before: Raw, after: Raw, name: str) -> bool:
    """Return whether a later text replaces the earlier one."""
    earlier, later = read_as(before, str), read_as(after, str)
    if earlier is None or later is None:
        return False
    return (name in _LATEST_WINS_FIELDS and bool(later)) or (
        name in _GROWING_FIELDS and later.startswith(earlier)
    )


def _are_different(before: str | None, after: str | None) -> bool:
    """Return whether both values are present and differ."""
    return bool(before and after) and before != after


def find_new_extras(piece: ItemPiece, before: ItemPiece | None) -> ExtrasByWire | None:
    """Return the extras that differ from those of the earlier version; None if there are none."""
    if isinstance(piece, Opaque) or isinstance(before, Opaque):
        return None  # an empty message was kept with all its members, so its id must not repeat
    if before is None or piece.extras is None:
        return piece.extras
    known, found = (before.extras or {}).get(NAME, {}), piece.extras.get(NAME, {})
    if FORM_KEY in known:
        found = {FORM_KEY: {}} | found  # the later form replaces the earlier one
    added = {
        name: value for name, value in found.items() if name not in known or known[name] != value
    }
    return {NAME: added} if added else None
