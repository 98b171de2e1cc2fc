"""The entries of one branch, read once each, as what is to be said to a model.

Only messages get through, and what stands for remarks and summaries. What is on record is never
changed: later entries say how earlier ones are to be seen. Nothing here knows how much room a
model has.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from itertools import chain
from typing import Final, NamedTuple, assert_never, final

from steno.content import Opaque
from steno.context.frames import feedback_message, summary_message
from steno.context.report import Change, ChangeCode
from steno.context.resources import Place, Shelf
from steno.context.showing import Extent, has_pointers, show
from steno.entry import (
    Approval,
    BranchSwitch,
    Compaction,
    Entry,
    Feedback,
    Label,
    Mode,
    ModeChange,
    ModelChange,
    Payload,
    Redacted,
    Redaction,
    Repair,
    Resolution,
    Rewind,
)
from steno.errors import OutOfOrder
from steno.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.order import REMEDIES, Order, OrderCode

_WOULD_BE_SAID: Final = frozenset(
    {"system", "user", "assistant", "tool_result", "feedback", "compaction"}
)
"""The kinds of entries that a model would have seen, had they not been taken out."""


class Summary(NamedTuple):
    """What stands for the beginning of a conversation."""

    message: UserMessage
    entry_id: str
    through: int
    """The number of the last entry that it is about."""


@final
class Fold:
    """What follows from the entries read so far."""

    def __init__(self, *, vision: bool | None) -> None:
        """Start before the first entry."""
        self.vision: Final = vision
        self.said: Final[list[Message]] = []
        self.ids: Final[list[str]] = []
        """The entry that each of these is from."""
        self.lead = 0
        """How many system messages stand before everything else."""
        self.cut = 0
        """Where the messages begin that no summary stands for."""
        self.summary: Summary | None = None
        self.mode = Mode.ACT
        self.mode_id: str | None = None
        self.stale_from = 0
        """Where the messages begin that are new or were changed since `settle`."""
        self.shelf: Final = Shelf()
        self.last_asked = -1
        """The position of what the person said last."""
        self._order = Order()
        self._last_break = -1
        """The last message that stood where it may not."""
        self._last_oddity = -1
        """The last that a repair would move, whether or not a provider would mind."""
        self._waiting: list[tuple[str, UserMessage]] = []
        """Remarks that have to wait until all calls are answered."""
        self._numbers: dict[str, int] = {}
        """The number of each entry by its id."""
        self._said_by = array("q")
        """How many messages were said up to each entry, with it."""
        self._pointing: dict[int, Message] = {}
        """Messages with something in them that need not be shown as it is, as they are on record."""
        self._resolutions: dict[int, dict[int, Resolution]] = {}
        self._extents: dict[int, dict[int, Extent]] = {}
        """How much is shown of resources; of those that are not in it, all."""
        self._changes: dict[int, tuple[Change, ...]] = {}
        """By the number of the entry that they are about."""

    # -- what came of it ---------------------------------------------------------------------

    @property
    def needs_repair(self) -> bool:
        """Whether what is to be said is nothing that a provider would accept."""
        return self._last_break >= self.cut or self.is_waiting

    @property
    def is_waiting(self) -> bool:
        """Whether there are calls that have no result yet."""
        return bool(self._order.outstanding)

    def is_sound_from(self, position: int) -> bool:
        """Whether a repair would leave what was said from a position on as it is."""
        return self._last_oddity < position <= self.stale_from and not self.is_waiting

    def everything(self) -> tuple[list[Message], list[str]]:
        """Return all that was said and the entries of it, with what waits for results to come."""
        messages = [*self.said, *[message for _, message in self._waiting]]
        return messages, [*self.ids, *[entry_id for entry_id, _ in self._waiting]]

    def position_of(self, entry_id: str) -> int | None:
        """Return where the message of an entry stands among what was said."""
        number = self._numbers.get(entry_id)
        if number is None or number >= len(self._said_by):
            return None
        # Remarks that had waited may stand behind it.
        before = self._said_by[number - 1] if number else 0
        for position in range(before, self._said_by[number]):
            if self.ids[position] == entry_id:
                return position
        return None

    def changes(self) -> list[Change]:
        """Return what was changed in the messages that no summary stands for."""
        if self.summary is None:
            return list(chain.from_iterable(self._changes.values()))
        first = self.summary.through + 1
        if self.cut < len(self.said):
            first = min(first, self._numbers[self.ids[self.cut]])
        return [
            change
            for number, changes in self._changes.items()
            if number >= first
            for change in changes
        ]

    def settle(self) -> None:
        """Take note that everything so far was taken over."""
        self.stale_from = len(self.said)

    def show_less(self, extents: Mapping[Place, Extent]) -> None:
        """Show less of resources from now on, whatever they turn out to be later."""
        for (position, block), extent in extents.items():
            self._extents.setdefault(position, {})[block] = extent
        for position in {position for position, _ in extents}:
            self._show(position, self.ids[position])

    # -- reading -----------------------------------------------------------------------------

    def read(self, entry: Entry, whole: Payload | None = None) -> None:
        """Read the next entry; `whole` is what it holds where parts of that lie beside the record."""
        number = len(self._said_by)
        self._numbers[entry.id] = number
        payload = entry.payload if whole is None else whole
        match payload:
            case SystemMessage() | UserMessage() | AssistantMessage() | ToolResultMessage():
                self._hear(number, entry.id, payload)
            case ModeChange():
                self.mode, self.mode_id = payload.new, entry.id
            case Compaction():
                self._compact(entry.id, payload)
            case Resolution():
                self._resolve(entry.id, payload)
            case Feedback():
                self._remark(entry.id, payload)
            case Redacted():
                if payload.kind in _WOULD_BE_SAID:
                    self._note(ChangeCode.REDACTED, f"{payload.kind}: taken out", entry.id)
            case Opaque():
                self._note(ChangeCode.UNKNOWN, "not understood, and left out", entry.id)
            case BranchSwitch() | Rewind() | ModelChange() | Label() | Approval():
                pass  # like the next two, for the record alone
            case Repair() | Redaction():
                pass
            case _:
                assert_never(payload)
        self._said_by.append(len(self.said))

    def _note(self, code: ChangeCode, explanation: str, entry_id: str) -> None:
        change = Change(code=code, explanation=explanation, entry=entry_id)
        number = self._numbers[entry_id]
        self._changes[number] = (*self._changes.get(number, ()), change)

    def _say(self, entry_id: str, message: Message) -> None:
        if isinstance(message, SystemMessage) and self.lead == len(self.said):
            self.lead += 1
            self.cut = max(self.cut, self.lead)
        self.said.append(message)
        self.ids.append(entry_id)

    def _hear(self, number: int, entry_id: str, message: Message) -> None:
        if isinstance(message, AssistantMessage) and not message.content:
            remedy = REMEDIES[OrderCode.TURN_EMPTY]
            self._note(ChangeCode.REPAIRED, f"{OrderCode.TURN_EMPTY}: {remedy}", entry_id)
            return
        position = len(self.said)
        self._advance(position, message)
        self._say(entry_id, message)
        if has_pointers(message):
            for block in message.content:
                self.shelf.use(block, number)
            self._pointing[position] = message
            self._show(position, entry_id)
        if isinstance(message, UserMessage):
            self.last_asked = position
        if self._waiting and not self._order.outstanding:
            for remark_id, remark in self._waiting:
                self._say(remark_id, remark)
            self._waiting.clear()

    def _advance(self, position: int, message: Message) -> None:
        """Find out whether a message may stand where it does."""
        waiting = self._order.outstanding
        try:
            self._order = self._order.after(message)
        except OutOfOrder:
            self._last_break = self._last_oddity = position
            self._order = _order_after(message)
        else:
            if waiting and message.tool_call_id != waiting[0]:
                self._last_oddity = position

    # -- what changes how earlier entries are seen ---------------------------------------------

    def _compact(self, entry_id: str, compaction: Compaction) -> None:
        """Let a summary stand for the beginning, but for no part of a turn and its results."""
        through = self._numbers.get(compaction.through)
        if through is None or through >= len(self._said_by):
            self._note(ChangeCode.IGNORED, "a summary of what is not on this branch", entry_id)
            return
        cut = self._said_by[through]
        if cut == len(self.said) and self._order.outstanding:
            cut -= 1
        while self.lead < cut < len(self.said) and isinstance(self.said[cut], ToolResultMessage):
            cut -= 1
        self.cut = max(cut, self.lead)
        self.summary = Summary(summary_message(compaction.summary), entry_id, through)

    def _resolve(self, entry_id: str, resolution: Resolution) -> None:
        """Show a message anew, now that something is known about a block of it."""
        position = self.position_of(resolution.target)
        message = None if position is None else self._pointing.get(position)
        if position is None or not isinstance(message, UserMessage):
            self._note(ChangeCode.IGNORED, "a resolution of what is not on this branch", entry_id)
            return
        self._resolutions.setdefault(position, {})[resolution.block] = resolution
        for block in message.content[resolution.block : resolution.block + 1]:
            self.shelf.use(block, self._numbers[entry_id])
        self._show(position, resolution.target)

    def _show(self, position: int, entry_id: str) -> None:
        """Show a message by what is known about it."""
        extents = self._extents.get(position, {})
        shown = show(
            self._pointing[position],
            entry_id=entry_id,
            vision=self.vision,
            resolutions=self._resolutions.get(position, {}),
            extents=extents,
        )
        self.said[position] = shown.message
        self._changes[self._numbers[entry_id]] = shown.changes
        self.shelf.put(position, shown.resources, extents)
        self.stale_from = min(self.stale_from, position)

    def _remark(self, entry_id: str, feedback: Feedback) -> None:
        """Say a remark at its place in the log, but not between a call and its result."""
        position = self.position_of(feedback.target)
        about = None if position is None else self.said[position]
        message = feedback_message(about, entry_id=feedback.target, remark=feedback.text)
        self._note(ChangeCode.FEEDBACK, "told as a message of the user", entry_id)
        if self._order.outstanding:
            self._waiting.append((entry_id, message))
        else:
            self._say(entry_id, message)


def _order_after(message: Message) -> Order:
    """Begin anew with a message that may not stand where it does."""
    try:
        return Order().after(message)
    except OutOfOrder:
        return Order()
