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
    words: Words
    block: Block
    is_taken: bool = False
    """Whether the desk has it; else it may yet be refused."""


class _Unsent(NamedTuple):
    """What is on record although nobody has heard it: trying again says it again."""

    words: Words
    message: UserMessage
    """What the record says."""


@final
class Unheard:
    """Shows words until they are heard, or chosen to be said otherwise."""

    def __init__(self, page: Page) -> None:
        """Take the page to show them on."""
        self._page = page
        self._waiting: list[_Waiting] = []
        self._unsaid: dict[Block, Words] = {}
        self._unsent: _Unsent | None = None
        """What could not be sent last, as long as nothing else was said."""
        self._unsent_blocks: list[Block] = []
        """What shows that and what came back with it, unless it is shown elsewhere."""
        self._came_back: list[Words] = []
        """What could not be sent and was taken away, to be shown elsewhere."""

    @property
    def blocks(self) -> list[Block]:
        """All of them, for the end of a page that is shown anew."""
        return [*self._unsaid, *(one.block for one in self._waiting)]

    # -- what waits --------------------------------------------------------------------------

    def wait(self, words: Words, *, steers: bool) -> Block:
        """Show what is being said, until it is heard."""
        head = STEERS if steers else ""
        block = Block(Kind.USER, head, words.text, state=State.WAITING, is_folded=True)
        self._waiting.append(_Waiting(words, block))
        self._page.add(block)
        return block

    def take(self, block: Block) -> None:
        """Note that the desk has taken what a block shows."""
        for one in self._waiting:
            one.is_taken = one.is_taken or one.block is block

    def refuse(self, block: Block) -> None:
        """Take away what the desk has refused."""
        self._forget([one for one in self._waiting if one.block is block])

    def hear(self, message: UserMessage) -> Words | None:
        """Take away what is on record now: what is tried again, or else what was said first.

        None where nobody has said it here.
        """
        unsent, first = self._unsent, next(iter(self._waiting), None)
        if unsent is not None and (first is None or message == unsent.message):
            self._reclaim_unsent()
            self._unsent = None
            if first is None or first.words.text != unsent.words.text:  # else it was typed again
                return unsent.words
        self.move_on()
        if first is None:
            return None
        self._forget([first])
        return first.words

    def move_on(self) -> None:
        """Note that trying again is about something else now: what could not be sent stays unsaid."""
        for block in self._unsent_blocks:
            block.head = _NOT_SAID
            self._page.touch(block)
        self._unsent_blocks.clear()
        self._unsent = None

    def withdraw(self, words: Sequence[Words]) -> None:
        """Take away what came back, the last of those that say the same.

        If the first of it was on record already, it is what could not be sent.
        """
        was_waiting = True
        for came_back in reversed(words):
            taken = [one for one in self._waiting if one.is_taken and one.words == came_back]
            self._forget(taken[-1:])
            was_waiting = bool(taken)
        if not was_waiting and self._unsent_blocks:
            self._reclaim_unsent()
            self._came_back = list(words)

    def abandon(self) -> list[Words]:
        """Take away everything that the desk has taken, and return it: nobody is left to hear it."""
        taken = [one for one in self._waiting if one.is_taken]
        self._forget(taken)
        return [one.words for one in taken]

    def _forget(self, those: list[_Waiting]) -> None:
        for one in those:
            self._waiting.remove(one)
            self._page.drop(one.block)

    # -- what was not said -------------------------------------------------------------------

    def keep(self, words: Words) -> None:
        """Show what was not said after all, so that it can be chosen.

        What could not be sent, and has just come back, can also be tried again.
        """
        is_unsent = self._unsent is not None and words in self._came_back
        head = _NOT_SENT if is_unsent else _NOT_SAID
        block = Block(Kind.USER, head, words.text, state=State.STOPPED, is_folded=True)
        self._unsaid[block] = words
        if is_unsent:
            self._came_back.remove(words)
            self._unsent_blocks.append(block)
        else:
            self._came_back.clear()
        self._page.add(block)

    def keep_unsent(self, words: Words, message: UserMessage) -> None:
        """Show what is on record although nobody has heard it: it can be chosen, and tried again."""
        self.move_on()
        self._unsent, self._came_back = _Unsent(words, message), [words]
        self.keep(words)

    def reclaim(self, block: Block) -> Words | None:
        """Take away what was not said, and return it; None where a block is something else."""
        words = self._unsaid.pop(block, None)
        if words is not None:
            if block in self._unsent_blocks:
                self._unsent_blocks.remove(block)
            self._page.drop(block)
        return words

    def _reclaim_unsent(self) -> None:
        for block in list(self._unsent_blocks):
            self.reclaim(block)
