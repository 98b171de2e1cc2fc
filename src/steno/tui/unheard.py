"""What a person has said and is not on record: what waits to be heard, and what was not said after all.

What is said is seen at once, and until the record has it. It is heard in the order in which it was
said, so the first that waits is the one that is heard: its words on record may be others, where it
was the name of a template. Only what could not be sent, and is tried again, may come before it.
Nothing that was typed is lost: what comes back can be chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from steno.message import UserMessage
from steno.tui.block import Block, Kind, State
from steno.tui.desk import Words
from steno.tui.page import Page

STEERS: Final = "will be heard at the next step"
_NOT_SAID: Final = "not said · Alt+Up and e take it to the prompt"
_NOT_SENT: Final = "not sent · /retry tries again, Alt+Up and e take it to the prompt"


@final
@dataclass(eq=False, slots=True)
class _Waiting:
    prompt: Words
    item: Block
    is_accepted: bool = False
    """Whether the desk has it; else it may yet be refused."""


class _Unsent(NamedTuple):
    """What is on record although nobody has heard it: trying again says it again."""

    prompt: Words
    message: UserMessage
    """What the record says."""


@final
class Unheard:
    """Shows words until they are heard, or chosen to be said otherwise."""

    def __init__(self, page: Page) -> None:
        """Take the page to show them on."""
        self._sink = page
        self._queued: list[_Waiting] = []
        self._returned: dict[Block, Words] = {}
        self._unsent: _Unsent | None = None
        """What could not be sent last, as long as nothing else was said."""
        self._unsent_items: list[Block] = []
        """What shows that and what came back with it, unless it is shown elsewhere."""
        self._just_returned: list[Words] = []
        """What could not be sent and was taken away, to be shown elsewhere."""

    @property
    def items(self) -> list[Block]:
        """All of them, for the end of a page that is shown anew."""
        return [*self._returned, *(one.item for one in self._queued)]

    # -- what waits --------------------------------------------------------------------------

    def add(self, words: Words, *, steers: bool) -> Block:
        """Show what is being said, until it is heard."""
        head = STEERS if steers else ""
        block = Block(Kind.USER, head, words.text, state=State.WAITING, is_folded=True)
        self._queued.append(_Waiting(words, block))
        self._sink.add_item(block)
        return block

    def accept(self, block: Block) -> None:
        """Note that the desk has taken what a block shows."""
        for one in self._queued:
            one.is_accepted = one.is_accepted or one.item is block

    def reject(self, block: Block) -> None:
        """Take away what the desk has refused."""
        self._remove([one for one in self._queued if one.item is block])

    def match_recorded(self, message: UserMessage) -> Words | None:
        """Take away what is on record now: what is tried again, or else what was said first.

        None where nobody has said it here.
        """
        unsent, first = self._unsent, next(iter(self._queued), None)
        if unsent is not None and (first is None or message == unsent.message):
            self._take_back_unsent()
            self._unsent = None
            if first is None or first.prompt.text != unsent.prompt.text:  # else it was typed again
                return unsent.prompt
        self.clear_unsent()
        if first is None:
            return None
        self._remove([first])
        return first.prompt

    def clear_unsent(self) -> None:
        """Note that trying again is about something else now: what could not be sent stays unsaid."""
        for block in self._unsent_items:
            block.head = _NOT_SAID
            self._sink.update_item(block)
        self._unsent_items.clear()
        self._unsent = None

    def return_prompts(self, words: Sequence[Words]) -> None:
        """Take away what came back, the last of those that say the same.

        If the first of it was on record already, it is what could not be sent.
        """
        was_waiting = True
        for came_back in reversed(words):
            taken = [one for one in self._queued if one.is_accepted and one.prompt == came_back]
            self._remove(taken[-1:])
            was_waiting = bool(taken)
        if not was_waiting and self._unsent_items:
            self._take_back_unsent()
            self._just_returned = list(words)

    def abandon(self) -> list[Words]:
        """Take away everything that the desk has taken, and return it: nobody is left to hear it."""
        taken = [one for one in self._queued if one.is_accepted]
        self._remove(taken)
        return [one.prompt for one in taken]

    def _remove(self, those: list[_Waiting]) -> None:
        for one in those:
            self._queued.remove(one)
            self._sink.remove_item(one.item)

    # -- what was not said -------------------------------------------------------------------

    def keep_returned(self, words: Words) -> None:
        """Show what was not said after all, so that it can be chosen.

        What could not be sent, and has just come back, can also be tried again.
        """
        is_unsent = self._unsent is not None and words in self._just_returned
        head = _NOT_SENT if is_unsent else _NOT_SAID
        block = Block(Kind.USER, head, words.text, state=State.STOPPED, is_folded=True)
        self._returned[block] = words
        if is_unsent:
            self._just_returned.remove(words)
            self._unsent_items.append(block)
        else:
            self._just_returned.clear()
        self._sink.add_item(block)

    def keep_unsent(self, words: Words, message: UserMessage) -> None:
        """Show what is on record although nobody has heard it: it can be chosen, and tried again."""
        self.clear_unsent()
        self._unsent, self._just_returned = _Unsent(words, message), [words]
        self.keep_returned(words)

    def take_back(self, block: Block) -> Words | None:
        """Take away what was not said, and return it; None where a block is something else."""
        words = self._returned.pop(block, None)
        if words is not None:
            if block in self._unsent_items:
                self._unsent_items.remove(block)
            self._sink.remove_item(block)
        return words

    def _take_back_unsent(self) -> None:
        for block in list(self._unsent_items):
            self.take_back(block)
