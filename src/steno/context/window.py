"""The messages of a request, reduced to fit the context window of a model.

Old tool results are shortened first. If that is not enough, the caller may reduce other content,
and then the oldest messages are left out. A reduction also frees room for the next turns, and later
requests repeat it. Consecutive requests therefore begin with the same bytes, and the prompt cache
of the provider stays valid.

A group is a message and the results of its tool calls; a group is never split.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from math import inf
from typing import Final, NamedTuple, final

from msgspec.structs import replace

from steno.bounded_text import truncate_middle
from steno.context.notes import omitted_message
from steno.context.tokens import CountTokens, message_tokens
from steno.errors import InvalidValue
from steno.log.queries import entries_since_clear
from steno.messages.change import Change, ChangeCode
from steno.messages.content import Image, Resource, Text
from steno.messages.message import (
    Message,
    ResultBlock,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.order import CallPairing
from steno.records.entry import Compaction, Entry

RECENT_GROUPS: Final = 4
"""The number of groups at the end whose tool results are never shortened."""
_FILL_RATIO: Final = 0.8
"""The fraction of the token budget that a reduction leaves in use."""
_LONG_TEXT_CHARACTERS: Final = 1_500
"""The length above which a text is truncated in the middle."""
_without_middle: Final = partial(
    truncate_middle,
    max_head=800,
    max_tail=400,
    note="\n[… {omitted} characters left out to save room …]\n",
)


class OmittedRange(NamedTuple):
    """A range of messages that are left out of the request."""

    start: int
    end: int
    note: UserMessage
    """The message that replaces the range."""
    tokens: int


@final
class MessageWindow:
    """The messages of a request in the order they are sent, shortened as far as needed."""

    def __init__(self, count_tokens: CountTokens) -> None:
        self.messages: Final[list[Message]] = []
        self.ids: Final[list[str | None]] = []
        """The id of the entry of each message; None if the message is not from an entry."""
        self.omitted: OmittedRange | None = None
        self.changed_from: int = 0
        """The position of the first message that is new or changed since `clear_changed`."""
        self._count_tokens = count_tokens
        self._token_sums = [0]
        """The number of tokens of all messages before each position."""
        self._shortened_to = 0
        """Results before this position are shortened."""
        self._shortened: Final[dict[int, Change]] = {}

    def replace_from(
        self, start: int, messages: Sequence[Message], ids: Sequence[str | None]
    ) -> None:
        """Replace all messages from position `start` on."""
        self.changed_from = min(self.changed_from, start)
        dropped, sizes = self.messages[start:], self._message_sizes(start)
        known = dict(zip(map(id, dropped), sizes, strict=True))
        del self.messages[start:], self.ids[start:], self._token_sums[start + 1 :]
        for message in messages:
            tokens = known.get(id(message)) or message_tokens(message, self._count_tokens)
            self.messages.append(message)
            self._token_sums.append(self._token_sums[-1] + tokens)
        self.ids.extend(ids)
        if start < self._shortened_to:
            for position in [position for position in self._shortened if position >= start]:
                del self._shortened[position]
            self._shorten(start, min(self._shortened_to, len(self.messages)), excess=inf)

    def clear_changed(self) -> None:
        """Set `changed_from` to the end, after the caller has read all messages."""
        self.changed_from = len(self.messages)

    def set_start(self, start: int) -> None:
        """Discard the omitted range if it is not valid for a request that begins at `start`."""
        if self.omitted is not None and not self._is_still_valid(self.omitted, start):
            self.omitted = None

    def first_sent(self, start: int) -> int:
        """Return the position of the first message that is sent; `start` if none is left out."""
        return start if self.omitted is None else self.omitted.end

    def tokens(self, start: int) -> int:
        """Return the number of tokens of the messages that are sent, from position `start` on."""
        note = 0 if self.omitted is None else self.omitted.tokens
        return note + self._token_sums[-1] - self._token_sums[self.first_sent(start)]

    def last_tokens(self, start: int) -> int:
        """Return the number of tokens of the last group."""
        last = max(start, start_of_last_groups(self.messages, 1))
        return self._token_sums[-1] - self._token_sums[last]

    def changes(self, start: int) -> list[Change]:
        """Return a change for each reduction of the messages from position `start` on."""
        first = self.first_sent(start)
        found = [change for position, change in self._shortened.items() if position >= first]
        if self.omitted is None:
            return found
        left_out = Change(
            ChangeCode.LEFT_OUT, "oldest_messages", entry=self.ids[first - 1], number=first - start
        )
        return [left_out, *found]

    def fit(self, start: int, budget_tokens: int, *, save: Callable[[int, int], object]) -> bool:
        """Reduce the messages at and after `start` to `budget_tokens`; return whether they fit.

        `save(excess, spare)` is called to save tokens before messages are left out. It may replace
        messages, but must not add or remove any.
        """
        excess = self.tokens(start) - budget_tokens
        if excess <= 0:
            return True
        spare = spare_tokens(budget_tokens)
        first = max(self.first_sent(start), self._shortened_to)
        self._shorten(
            first, start_of_last_groups(self.messages, RECENT_GROUPS), excess=excess + spare
        )
        if (excess := self.tokens(start) - budget_tokens) > 0:
            save(excess, spare)
        return self.tokens(start) <= budget_tokens or self._omit_oldest(
            start, budget_tokens=budget_tokens, spare=spare
        )

    def _is_still_valid(self, omitted: OmittedRange, start: int) -> bool:
        """Return whether the omitted range is still valid; a repair may have moved messages."""
        return (
            omitted.start == start
            and omitted.end < len(self.messages)
            and not isinstance(self.messages[omitted.end], ToolResultMessage)
        )

    def _message_sizes(self, start: int) -> list[int]:
        return [after - before for before, after in pairwise(self._token_sums[start:])]

    def _shorten(self, start: int, end: int, *, excess: float) -> None:
        """Shorten the tool results between two positions, until `excess` tokens are saved."""
        if start >= end:
            return
        sizes = self._message_sizes(start)
        position = start
        while position < end and excess > 0:
            message = self.messages[position]
            if (
                isinstance(message, ToolResultMessage)
                and (short := shorten_result(message)) != message
            ):
                tokens = message_tokens(short, self._count_tokens)
                excess -= sizes[position - start] - tokens
                sizes[position - start] = tokens
                self.messages[position] = short
                self.changed_from = min(self.changed_from, position)
                self._shortened[position] = Change(
                    ChangeCode.SHORTENED, "old_result", entry=self.ids[position]
                )
            position += 1
        self._shortened_to = max(self._shortened_to, position)
        self._token_sums[start:] = accumulate(sizes, initial=self._token_sums[start])

    def _omit_oldest(self, start: int, *, budget_tokens: int, spare: int) -> bool:
        """Leave out the oldest groups; return False if not even the last group alone fits."""
        total, last = self._token_sums[-1], max(start, start_of_last_groups(self.messages, 1))
        note = message_tokens(omitted_message(last), self._count_tokens)
        if last == start or total - self._token_sums[last] + note > budget_tokens:
            return False
        end = min(bisect_left(self._token_sums, total + note + spare - budget_tokens), last)
        while isinstance(self.messages[end], ToolResultMessage):
            end += 1  # no group begins with a result
        message = omitted_message(end - start)
        self.omitted = OmittedRange(
            start, end, message, message_tokens(message, self._count_tokens)
        )
        return True


def spare_tokens(budget_tokens: int) -> int:
    """Return the number of additional tokens that a reduction frees for the next turns."""
    return max(0, int(budget_tokens * (1 - _FILL_RATIO)))


def start_of_last_groups(messages: Sequence[Message], groups: int) -> int:
    """Return the position at which the last `groups` groups begin."""
    position = len(messages)
    while position and groups:
        position -= 1
        groups -= not isinstance(messages[position], ToolResultMessage)
    return position


def shorten_result(result: ToolResultMessage) -> ToolResultMessage:
    """Return a tool result without images and without the middle of its long texts."""
    content = tuple(map(shorten_block, result.content))
    return result if content == result.content else replace(result, content=content)


def shorten_block(block: ResultBlock) -> ResultBlock:
    """Return a block without the middle of long text.

    A note replaces an image, and the bytes of a resource are removed.
    """
    match block:
        case Text() if len(block.text) > _LONG_TEXT_CHARACTERS:
            return Text(_without_middle(block.text))
        case Resource() if block.text is not None and len(block.text) > _LONG_TEXT_CHARACTERS:
            return replace(block, text=_without_middle(block.text))
        case Resource() if block.data is not None:
            return replace(block, data=None)
        case Image():
            return Text("[image left out to save room]")
        case _:
            return block


# -- compaction ------------------------------------------------------------------------------------


def compaction_point(entries: Sequence[Entry], *, kept_groups: int = RECENT_GROUPS) -> str | None:
    """Return the id of the last entry that a summary should cover.

    The last `kept_groups` groups are not covered, and neither are entries before a clear. Returns
    None if there is no message to summarize. Raises InvalidValue if `kept_groups` is below 1.
    """
    if kept_groups < 1:
        raise InvalidValue(
            "kept_groups must be at least 1",
            code="out_of_range",
            place="compaction",
            field="kept_groups",
        )
    entries = entries_since_clear(entries)
    numbers = [number for number, entry in enumerate(entries) if entry.message is not None]
    messages = [message for entry in entries if (message := entry.message) is not None]
    start = _align_to_groups(messages, start_of_last_groups(messages, kept_groups))
    first = _first_after_summary(entries)
    for position in range(start - 1, -1, -1):
        if numbers[position] < first:
            break
        if not isinstance(messages[position], SystemMessage):
            return entries[numbers[start - 1]].id
    return None


def _align_to_groups(messages: Sequence[Message], start: int) -> int:
    """Return a position at or before `start` that does not separate a call from its result.

    In a log that is out of order, a result may be far from its call.
    """
    answered = [(turn, found) for (turn, _), found in CallPairing(messages).result_of.items()]
    while split_starts := [min(pair) for pair in answered if min(pair) < start <= max(pair)]:
        start = min(split_starts)
    return start


def _first_after_summary(entries: Sequence[Entry]) -> int:
    """Return the number of the first entry that no summary covers."""
    through = {entry.payload.through for entry in entries if isinstance(entry.payload, Compaction)}
    return max([number + 1 for number, entry in enumerate(entries) if entry.id in through] or [0])
