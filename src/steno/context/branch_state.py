"""The messages of one branch as a model receives them, built by reading each entry once.

The model receives messages only; feedback, summaries and shell commands are converted to messages.
Later entries can change how an earlier message is sent, but never the log. This module does not
know the size of the context window; the builder decides how much of a resource is sent. The content
of an MCP resource is framed, so that the model does not mistake it for text from the user.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import IntEnum
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias, assert_never, cast, final

from msgspec.structs import replace

from steno import records
from steno.context.notes import (
    feedback_message,
    image_omitted_note,
    resource_omitted_note,
    summary_message,
    unreadable_note,
)
from steno.context.tokens import CountTokens, block_tokens
from steno.context.window import shorten_block
from steno.errors import OutOfOrder
from steno.log.queries import resolutions_of
from steno.log.tree import CONVERSATION_KINDS, ContextBeginning
from steno.messages.change import Change, ChangeCode
from steno.messages.content import (
    Block,
    FileReference,
    Image,
    ImageData,
    ImageFile,
    ImageUrl,
    Opaque,
    ReferenceBlock,
    Resource,
    Text,
    has_references,
)
from steno.messages.framed_text import (
    ShownBlocks,
    binary_resource_note,
    empty_reference_note,
    frame_resource,
    join_shown_blocks,
)
from steno.messages.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.order import OrderCode, OrderState
from steno.ports import reference_address
from steno.records.entry import (
    Compaction,
    Entry,
    Feedback,
    Mode,
    Payload,
    Resolution,
    ResolutionStatus,
)

_MODEL_VISIBLE_KINDS: Final = CONVERSATION_KINDS | {"system", "compaction"}
"""The kinds of entries that are sent to a model unless they are redacted."""


class CompactionSummary(NamedTuple):
    """A summary as a message, which replaces the beginning of a conversation."""

    message: UserMessage
    entry_id: str
    through: int
    """The number of the last entry that the summary covers."""


@final
class BranchState:
    """The messages and the state derived from the entries read so far."""

    def __init__(self, *, vision: bool | None) -> None:
        self.vision: Final = vision
        self.messages: Final[list[Message]] = []
        self.ids: Final[list[str]] = []
        """The entry id of each message."""
        self.system_count: int = 0
        """The number of system messages with which the context begins."""
        self._beginning = ContextBeginning()
        self.first_uncovered: int = 0
        """The position of the first message that no summary covers; at least `system_count`."""
        self.summary: CompactionSummary | None = None
        self.mode: Mode = Mode.ACT
        self.mode_id: str | None = None
        self.changed_from: int = 0
        """The position of the first message that is new or changed since `clear_changed`."""
        self.resources: Final = ResourceIndex()
        self.last_user_position: int = -1
        """The position of the last user message."""
        self.images: Final[dict[str, tuple[tuple[int, int], ...]]] = {}
        """The images of each user message with references, by entry id; see `ModelView`."""
        self._order = OrderState()
        self._last_violation = -1
        """The position of the last message that breaks the order."""
        self._last_misplaced = -1
        """The position of the last message that a repair would move, even if its order is valid."""
        self._pending_feedback: list[tuple[str, UserMessage]] = []
        """Feedback that waits until all calls have results."""
        self._numbers: dict[str, int] = {}
        """The number of each entry, keyed by entry id."""
        self._message_counts = array("q")
        """The number of messages up to and including each entry."""
        self._messages_with_references: dict[int, Message] = {}
        """Messages with references, as they were recorded, by position."""
        self._resolutions: dict[int, dict[int, Resolution]] = {}
        self._extents: dict[int, dict[int, ResourceExtent]] = {}
        """The extents of reduced resources, by message position and block number."""
        self._changes: dict[int, tuple[Change, ...]] = {}
        """The changes to report, by entry number."""

    # -- results -----------------------------------------------------------------------------

    @property
    def needs_repair(self) -> bool:
        """Whether providers would refuse the messages in this order."""
        return self._last_violation >= self.first_uncovered or self.has_outstanding_calls

    @property
    def has_outstanding_calls(self) -> bool:
        """Whether there are calls without a result."""
        return bool(self._order.outstanding)

    def is_ordered_from(self, position: int) -> bool:
        """Return whether messages before a position are unchanged and later messages are in order.

        The result is False if a call has no result yet.
        """
        return (
            self._last_misplaced < position <= self.changed_from and not self.has_outstanding_calls
        )

    def messages_with_pending(self) -> tuple[list[Message], list[str]]:
        """Return all messages and their entry ids, including feedback that waits for results."""
        messages = [*self.messages, *[message for _, message in self._pending_feedback]]
        return messages, [*self.ids, *[entry_id for entry_id, _ in self._pending_feedback]]

    def position_of(self, entry_id: str) -> int | None:
        """Return the position of the message of an entry; None if the entry has no message."""
        number = self._numbers.get(entry_id)
        if number is None or number >= len(self._message_counts):
            return None
        # Feedback that waited for this entry may follow its message.
        before = self._message_counts[number - 1] if number else 0
        for position in range(before, self._message_counts[number]):
            if self.ids[position] == entry_id:
                return position
        return None

    def changes(self) -> list[Change]:
        """Return the changes to the messages that no summary covers."""
        if self.summary is None:
            return list(chain.from_iterable(self._changes.values()))
        first = self.summary.through + 1
        if self.first_uncovered < len(self.messages):
            first = min(first, self._numbers[self.ids[self.first_uncovered]])
        return [
            change
            for number, changes in self._changes.items()
            if number >= first
            for change in changes
        ]

    def clear_changed(self) -> None:
        """Set `changed_from` to the end, after the caller has read all messages."""
        self.changed_from = len(self.messages)

    def reduce_resources(self, extents: Mapping[ResourcePosition, ResourceExtent]) -> None:
        """Reduce resources to the given extents.

        A later resolution of a resource does not reset its extent.
        """
        for (position, block), extent in extents.items():
            self._extents.setdefault(position, {})[block] = extent
        for position in {position for position, _ in extents}:
            self._refresh_message(position, self.ids[position])

    # -- reading -----------------------------------------------------------------------------

    def after_clear(self, entry_id: str) -> BranchState:
        """Return the state after an entry that clears the context.

        Only the system messages at the beginning and the mode remain.
        """
        state = BranchState(vision=self.vision)
        for message, message_id in zip(
            self.messages[: self.system_count], self.ids[: self.system_count], strict=True
        ):
            state._begin_entry(message_id)
            state._append_message(message_id, message)
            state._extend_beginning()
            state._end_entry()
        state.mode, state.mode_id = self.mode, self.mode_id
        state._begin_entry(entry_id)
        state._add_change(entry_id, ChangeCode.CLEARED, "earlier_messages")
        state._end_entry()
        return state

    def read(self, entry: Entry, restored: Payload | None = None) -> None:
        """Read the next entry, which must not clear the context; see `after_clear`.

        `restored` is the payload with the content of its blobs; None if the payload has no blobs.
        """
        assert not entry.clears_context
        number = self._begin_entry(entry.id)
        if self._beginning.read(entry):
            self._extend_beginning()
        payload = entry.payload if restored is None else restored
        match payload:
            case SystemMessage() | UserMessage() | AssistantMessage() | ToolResultMessage():
                self._read_message(number, entry.id, payload)
            case records.ShellCommand():
                self._read_message(number, entry.id, payload.message)
            case records.ModeChange():
                self.mode, self.mode_id = payload.new, entry.id
            case Compaction():
                self._compact(entry.id, payload)
            case Resolution():
                self._resolve(entry.id, payload)
            case Feedback():
                self._add_feedback(entry.id, payload)
            case records.Redacted():
                if payload.kind in _MODEL_VISIBLE_KINDS:
                    self._add_change(entry.id, ChangeCode.REDACTED, "taken_out", payload.kind)
            case Opaque():
                self._add_change(entry.id, ChangeCode.UNKNOWN, "not_understood", payload.kind)
            case (
                records.BranchSwitch()
                | records.Rewind()
                | records.ModelChange()
                | records.Label()
                | records.Approval()
                | records.ImageAnalysis()
                | records.Repair()
                | records.GrantRevoked()
                | records.Redaction()
            ):
                pass  # these concern only the log
            case records.Clear():
                raise AssertionError("a clear begins a new state")
            case _:
                assert_never(payload)
        self._end_entry()

    def _begin_entry(self, entry_id: str) -> int:
        """Number the next entry, and return its number."""
        number = self._numbers[entry_id] = len(self._message_counts)
        return number

    def _end_entry(self) -> None:
        self._message_counts.append(len(self.messages))

    def _add_change(self, entry_id: str, code: ChangeCode, reason: str, value: str = "") -> None:
        change = Change(code, reason, entry=entry_id, value=value)
        number = self._numbers[entry_id]
        self._changes[number] = (*self._changes.get(number, ()), change)

    def _extend_beginning(self) -> None:
        self.system_count += 1
        self.first_uncovered = max(self.first_uncovered, self.system_count)

    def _append_message(self, entry_id: str, message: Message) -> None:
        self.messages.append(message)
        self.ids.append(entry_id)

    def _read_message(self, number: int, entry_id: str, message: Message) -> None:
        if isinstance(message, AssistantMessage) and not message.content:
            self._add_change(entry_id, ChangeCode.REPAIRED, OrderCode.TURN_EMPTY.value)
            return
        position = len(self.messages)
        self._check_order(position, message)
        self._append_message(entry_id, message)
        if has_references(message.content):
            for block in message.content:
                self.resources.mark_used(block, number)
            self._messages_with_references[position] = message
            self._refresh_message(position, entry_id)
        if isinstance(message, UserMessage):
            self.last_user_position = position
        if self._pending_feedback and not self._order.outstanding:
            for feedback_id, feedback in self._pending_feedback:
                self._append_message(feedback_id, feedback)
            self._pending_feedback.clear()

    def _check_order(self, position: int, message: Message) -> None:
        waiting = self._order.outstanding
        try:
            self._order = self._order.after(message)
        except OutOfOrder:
            self._last_violation = self._last_misplaced = position
            self._order = OrderState()
            with suppress(OutOfOrder):
                self._order = self._order.after(message)
        else:
            if waiting and message.tool_call_id != waiting[0]:
                self._last_misplaced = position

    # -- entries about earlier entries ---------------------------------------------------------

    def _compact(self, entry_id: str, compaction: Compaction) -> None:
        """Replace the first messages with a summary, without separating a turn from its results."""
        through = self._numbers.get(compaction.through)
        if through is None or through >= len(self._message_counts):
            self._add_change(entry_id, ChangeCode.IGNORED, "summary_of_other_branch")
            return
        first_uncovered = self._message_counts[through]
        if first_uncovered == len(self.messages) and self._order.outstanding:
            first_uncovered -= 1
        while self.system_count < first_uncovered < len(self.messages) and isinstance(
            self.messages[first_uncovered], ToolResultMessage
        ):
            first_uncovered -= 1
        self.first_uncovered = max(first_uncovered, self.system_count)
        self.summary = CompactionSummary(summary_message(compaction.summary), entry_id, through)

    def _resolve(self, entry_id: str, resolution: Resolution) -> None:
        """Rebuild a message with the resolution of one of its blocks."""
        position = self.position_of(resolution.target)
        message = None if position is None else self._messages_with_references.get(position)
        if position is None or not isinstance(message, UserMessage):
            self._add_change(entry_id, ChangeCode.IGNORED, "resolution_of_other_branch")
            return
        self._resolutions.setdefault(position, {})[resolution.block] = resolution
        for block in message.content[resolution.block : resolution.block + 1]:
            self.resources.mark_used(block, self._numbers[entry_id])
        self._refresh_message(position, resolution.target)

    def _refresh_message(self, position: int, entry_id: str) -> None:
        extents = self._extents.get(position, {})
        shown = build_model_view(
            self._messages_with_references[position],
            entry_id=entry_id,
            vision=self.vision,
            resolutions=self._resolutions.get(position, {}),
            extents=extents,
        )
        self.messages[position] = shown.message
        if isinstance(shown.message, UserMessage):
            self.images[entry_id] = shown.images
        self._changes[self._numbers[entry_id]] = shown.changes
        self.resources.set_resources(position, shown.resources, extents)
        self.changed_from = min(self.changed_from, position)

    def _add_feedback(self, entry_id: str, feedback: Feedback) -> None:
        """Add feedback as a message, after all outstanding calls have their results."""
        position = self.position_of(feedback.target)
        target = None if position is None else self.messages[position]
        message = feedback_message(target, entry_id=feedback.target, feedback=feedback.text)
        self._add_change(entry_id, ChangeCode.FEEDBACK, "sent_as_user_message")
        if self._order.outstanding:
            self._pending_feedback.append((entry_id, message))
        else:
            self._append_message(entry_id, message)


# -- one message -----------------------------------------------------------------------------------


class ResourceExtent(IntEnum):
    """The part of a resource that is sent to the model."""

    WHOLE = 0
    SHORTENED = 1
    LEFT_OUT = 2


class MessageResource(NamedTuple):
    """A resource in a user message, with the blocks of its content."""

    reference: Resource
    content: tuple[Block, ...]
    is_resolved: bool

    @property
    def key(self) -> tuple[str, str]:
        """The server and the URI of the resource."""
        return self.reference.server, self.reference.uri

    def blocks_for(self, extent: ResourceExtent) -> tuple[Block, ...]:
        """Return the blocks to send for the resource, reduced to `extent`."""
        if extent is ResourceExtent.LEFT_OUT:
            return (resource_omitted_note(self.reference),)
        content: Iterable[Block] = self.content
        if extent is ResourceExtent.SHORTENED:
            content = [
                shorten_block(part) if isinstance(part, Text | Image | Resource) else part
                for part in content
            ]
        return tuple([_frame_part(part, is_resolved=self.is_resolved) for part in content])


class ModelView(NamedTuple):
    """A message as a model receives it, and the changes from the recorded message."""

    message: Message
    images: tuple[tuple[int, int], ...] = ()
    """For each image: the number of its block in `message`, and of the recorded block."""
    changes: tuple[Change, ...] = ()
    resources: Mapping[int, MessageResource] = {}
    """The MCP resources of the message, by block number."""


def build_model_view(
    message: Message,
    *,
    entry_id: str,
    vision: bool | None,
    resolutions: Mapping[int, Resolution],
    extents: Mapping[int, ResourceExtent],
) -> ModelView:
    """Return a message as a model receives it.

    `resolutions` and `extents` are keyed by block number.
    """
    if not has_references(message.content) or isinstance(message, SystemMessage):
        return ModelView(message)
    is_from_user = isinstance(message, UserMessage)
    shown: list[ShownBlocks] = []
    sources: list[int] = []
    changes: list[Change] = []
    resources: dict[int, MessageResource] = {}

    def add_change(code: ChangeCode, reason: str) -> None:
        name = reference_address(block) if isinstance(block, ReferenceBlock) else ""
        changes.append(Change(code, reason, entry=entry_id, number=number, target=name))

    for number, block in enumerate(message.content):
        blocks: tuple[Block, ...] = (block,)
        code: ChangeCode | None = None
        if is_from_user and isinstance(block, ReferenceBlock):
            blocks, code = _resolve_block(block, resolutions.get(number))
            if code is not None:
                add_change(code, _REASONS[code])
        if vision is False:
            for _ in [part for part in blocks if isinstance(part, Image)]:
                add_change(ChangeCode.IMAGE_LEFT_OUT, "model_without_vision")
            blocks = tuple(
                [image_omitted_note(part) if isinstance(part, Image) else part for part in blocks]
            )
        if is_from_user and isinstance(block, Resource) and code in _CODES_WITH_CONTENT:
            resource = MessageResource(block, blocks, code is not None)
            extent = extents.get(number, ResourceExtent.WHOLE)
            if extent is not ResourceExtent.WHOLE:
                add_change(*_EXTENT_CHANGES[extent])
            resources[number], blocks = resource, resource.blocks_for(extent)
        shown.append(ShownBlocks(blocks, is_replaced=blocks != (block,)))
        sources += [number] * len(blocks)
    content = tuple(join_shown_blocks(shown))
    images = [
        (at, number)
        for at, (block, number) in enumerate(zip(content, sources, strict=True))
        if isinstance(block, Image) and isinstance(block.source, (ImageData, ImageUrl))
    ]
    new: Message = message
    if content != message.content:
        struct: Any = message  # every block here is allowed in a message of this type
        new = cast("Message", replace(struct, content=content))
    return ModelView(new, tuple(images), tuple(changes), resources)


def embed_references(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the entries with the content that a model receives in place of references.

    The latest resolution of a reference has its content. A reference that was never resolved stays.
    """
    entries = tuple(entries)
    resolutions: dict[str, dict[int, Resolution]] = {}
    for (target, block), resolution in resolutions_of(entries).items():
        resolutions.setdefault(target, {})[block] = resolution
    return tuple([_embed_in_entry(entry, resolutions.get(entry.id)) for entry in entries])


def _embed_in_entry(entry: Entry, resolutions: Mapping[int, Resolution] | None) -> Entry:
    if resolutions is None or not isinstance(entry.payload, UserMessage):
        return entry
    view = build_model_view(
        entry.payload, entry_id=entry.id, vision=None, resolutions=resolutions, extents={}
    )
    return replace(entry, payload=view.message)


_REASONS: Final = {
    ChangeCode.RESOLVED: "content_shown",
    ChangeCode.UNRESOLVED: "name_shown",
    ChangeCode.UNREADABLE: "error_shown",
}
_EXTENT_CHANGES: Final = {
    ResourceExtent.SHORTENED: (ChangeCode.SHORTENED, "resource"),
    ResourceExtent.LEFT_OUT: (ChangeCode.RESOURCE_LEFT_OUT, "to_save_room"),
}
_CODES_WITH_CONTENT: Final = frozenset({None, ChangeCode.RESOLVED})
"""The codes of blocks with content; None means that the block itself has the content."""


def _resolve_block(
    block: ReferenceBlock, resolution: Resolution | None
) -> tuple[tuple[Block, ...], ChangeCode | None]:
    """Return the blocks to send for a reference, and the code of the change; None if unchanged."""
    if resolution is None or resolution.status is ResolutionStatus.PENDING:
        return (block,), ChangeCode.UNRESOLVED if _is_name_only(block) else None
    if resolution.status is ResolutionStatus.FAILED:
        return (unreadable_note(block, resolution.error or ""),), ChangeCode.UNREADABLE
    if all(map(_is_blank, resolution.content)):
        return (empty_reference_note(block),), ChangeCode.RESOLVED
    # A message of the user contains no empty text.
    return tuple(filter(_has_content, resolution.content)), ChangeCode.RESOLVED


def _is_blank(part: Block) -> bool:
    text = part.text if isinstance(part, (Text, Resource)) else None
    return text is not None and not text.strip()


def _has_content(part: Block) -> bool:
    return not isinstance(part, Text) or bool(part.text)


def _frame_part(part: Block, *, is_resolved: bool) -> Block:
    """Frame the text of a resource, and replace the bytes of a resolved one with a note.

    Bytes that no resolver has seen are left to the wire, because some APIs accept files.
    """
    if not isinstance(part, Resource):
        return part
    if is_resolved and part.data is not None:
        return binary_resource_note(part, len(part.data))
    return frame_resource(part)


def _is_name_only(block: ReferenceBlock) -> bool:
    """Return whether a block has only a name, without content or a URL for the provider."""
    match block:
        case FileReference():
            return True
        case Image():
            return isinstance(block.source, ImageFile)
        case Resource():
            return block.text is None and block.data is None


# -- resources -------------------------------------------------------------------------------------


ResourcePosition: TypeAlias = tuple[int, int]
"""The position of a message in the branch, and the number of a block in it."""


@final
class ResourceIndex:
    """The MCP resources in the messages of a conversation, and the order to reduce them in.

    The least recently used resources are reduced first. If a resource occurs more than once, its
    earlier copies are reduced before all other resources.
    """

    def __init__(self) -> None:
        self._copies: Final[dict[int, dict[int, _ResourceCopy]]] = {}
        self._last_used: Final[dict[tuple[str, str], int]] = {}
        """The number of the last entry that refers to each resource, or resolves it."""
        self._latest: Final[dict[tuple[str, str], ResourcePosition]] = {}
        self._tokens: Final[dict[ResourcePosition, int]] = {}

    def mark_used(self, block: object, number: int) -> None:
        """Record that an entry uses a block, if the block is a resource."""
        if isinstance(block, Resource):
            self._last_used[block.server, block.uri] = number

    def set_resources(
        self,
        position: int,
        resources: Mapping[int, MessageResource],
        extents: Mapping[int, ResourceExtent],
    ) -> None:
        """Set the resources of the message at a position, in place of those set before."""
        for block in self._copies.pop(position, ()):
            self._tokens.pop((position, block), None)
        if not resources:
            return
        self._copies[position] = {
            block: _ResourceCopy(resource, extents.get(block, ResourceExtent.WHOLE))
            for block, resource in resources.items()
        }
        for block, resource in resources.items():
            latest = self._latest.get(resource.key, (0, 0))
            self._latest[resource.key] = max((position, block), latest)

    def tokens(self, positions: range, count_tokens: CountTokens) -> int:
        """Return the number of tokens of resources in the messages at these positions."""
        copies = self._within(positions)
        return sum([self._copy_tokens(place, copy, count_tokens) for place, copy in copies])

    def choose_reductions(
        self,
        positions: range,
        extents: Iterable[ResourceExtent],
        *,
        count_tokens: CountTokens,
        excess: int,
        spare: int,
    ) -> dict[ResourcePosition, ResourceExtent]:
        """Return smaller extents for resources in the messages at `positions`, to save tokens.

        The first extent is applied until `excess + spare` tokens are saved. The next extent is
        applied only if the first one saves fewer than `excess` tokens.
        """
        shown = sorted(self._within(positions), key=self._removal_rank)
        sizes = {place: self._copy_tokens(place, copy, count_tokens) for place, copy in shown}
        chosen: dict[ResourcePosition, ResourceExtent] = {}
        for extent in extents:
            if excess <= 0:
                break
            for place, copy in shown:
                if excess + spare <= 0:
                    break
                if copy.extent >= extent:
                    continue
                tokens = _resource_tokens(copy.resource, extent, count_tokens)
                if tokens < sizes[place]:
                    excess -= sizes[place] - tokens
                    chosen[place], sizes[place] = extent, tokens
        return chosen

    def _within(self, positions: range) -> list[tuple[ResourcePosition, _ResourceCopy]]:
        return [
            ((position, block), copy)
            for position, copies in self._copies.items()
            if position in positions
            for block, copy in copies.items()
        ]

    def _removal_rank(
        self, at: tuple[ResourcePosition, _ResourceCopy]
    ) -> tuple[bool, int, ResourcePosition]:
        """Return a sort key that puts the resources to reduce first at the front."""
        place, copy = at
        name = copy.resource.key
        return self._latest[name] == place, self._last_used[name], place

    def _copy_tokens(
        self, place: ResourcePosition, copy: _ResourceCopy, count_tokens: CountTokens
    ) -> int:
        if place not in self._tokens:
            self._tokens[place] = _resource_tokens(copy.resource, copy.extent, count_tokens)
        return self._tokens[place]


class _ResourceCopy(NamedTuple):
    """An occurrence of a resource in a message, and its current extent."""

    resource: MessageResource
    extent: ResourceExtent


def _resource_tokens(
    resource: MessageResource, extent: ResourceExtent, count_tokens: CountTokens
) -> int:
    return sum([block_tokens(block, count_tokens) for block in resource.blocks_for(extent)])
