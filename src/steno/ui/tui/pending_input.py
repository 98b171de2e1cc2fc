"""Prompts that are not recorded: queued, returned to the user, or recorded and not sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, final

from steno.agent import PromptInput
from steno.messages.message import UserMessage
from steno.render.items import CallState, ItemKind, TranscriptItem

STEERING_HEAD: Final = "will be heard at the next step"
_NOT_SENT_HEAD: Final = "not said · Alt+Up and e take it to the prompt"
_RETRY_HEAD: Final = "not sent · /retry tries again, Alt+Up and e take it to the prompt"


class ItemSink(Protocol):
    """Shows items; see `transcript.view`."""

    def show_items(self, items: list[TranscriptItem]) -> None:
        """Show these and nothing else."""
        ...

    def add_item(self, item: TranscriptItem) -> None:
        """Append an item."""
        ...

    def update_item(self, item: TranscriptItem) -> None:
        """Draw a changed item again."""
        ...

    def remove_item(self, item: TranscriptItem) -> None:
        """Remove an item."""
        ...


@final
@dataclass(eq=False, slots=True)
class _QueuedPrompt:
    prompt: PromptInput
    item: TranscriptItem
    is_accepted: bool = False
    """Whether the session has accepted it; else it may still be rejected."""


class _UnsentRecordedPrompt(NamedTuple):
    """A recorded prompt that was not sent to a model; a retry sends it again."""

    prompt: PromptInput
    message: UserMessage
    """As recorded."""


@final
class PendingInput:
    """Shows prompts until they are recorded, or taken back for editing."""

    def __init__(self, sink: ItemSink) -> None:
        """Take the sink to show them on."""
        self._sink = sink
        self._queued: list[_QueuedPrompt] = []
        self._returned: dict[TranscriptItem, PromptInput] = {}
        self._unsent: _UnsentRecordedPrompt | None = None
        """The last prompt that could not be sent, until another one is sent."""
        self._unsent_items: list[TranscriptItem] = []
        """Its item, and those of prompts that returned with it, unless they are shown elsewhere."""
        self._just_returned: list[PromptInput] = []
        """Unsent prompts that were removed, to be shown elsewhere."""

    @property
    def items(self) -> list[TranscriptItem]:
        """All items, for the end of a transcript that is shown again."""
        return [*self._returned, *(queued.item for queued in self._queued)]

    # -- queued prompts -------------------------------------------------------------------

    def add(self, prompt: PromptInput, *, is_steering: bool) -> TranscriptItem:
        """Show a prompt until it is recorded."""
        head = STEERING_HEAD if is_steering else ""
        item = TranscriptItem(
            ItemKind.USER, head, prompt.text, state=CallState.WAITING, is_folded=True
        )
        self._queued.append(_QueuedPrompt(prompt, item))
        self._sink.add_item(item)
        return item

    def accept(self, item: TranscriptItem) -> None:
        """Mark the prompt of an item as accepted by the session."""
        for queued in self._queued:
            queued.is_accepted = queued.is_accepted or queued.item is item

    def reject(self, item: TranscriptItem) -> None:
        """Remove the item of a rejected prompt."""
        self._remove([queued for queued in self._queued if queued.item is item])

    def match_recorded(self, message: UserMessage) -> PromptInput | None:
        """Remove a prompt that is recorded now: the retried one, or else the first; return it.

        None if it was not sent from here.
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
        """Record that a retry no longer sends the unsent prompt: it stays unsent."""
        for item in self._unsent_items:
            item.head = _NOT_SENT_HEAD
            self._sink.update_item(item)
        self._unsent_items.clear()
        self._unsent = None

    def return_prompts(self, prompts: Sequence[PromptInput]) -> None:
        """Remove returned prompts, the last of those with equal text.

        If the first one was recorded already, it is the unsent prompt.
        """
        was_waiting = True
        for prompt in reversed(prompts):
            matching = [
                queued for queued in self._queued if queued.is_accepted and queued.prompt == prompt
            ]
            self._remove(matching[-1:])
            was_waiting = bool(matching)
        if not was_waiting and self._unsent_items:
            self._take_back_unsent()
            self._just_returned = list(prompts)

    def abandon(self) -> list[PromptInput]:
        """Remove all accepted prompts and return them: no run is left to read them."""
        accepted = [queued for queued in self._queued if queued.is_accepted]
        self._remove(accepted)
        return [queued.prompt for queued in accepted]

    def _remove(self, queued: list[_QueuedPrompt]) -> None:
        for prompt in queued:
            self._queued.remove(prompt)
            self._sink.remove_item(prompt.item)

    # -- unsent prompts -------------------------------------------------------------------

    def show_returned(self, prompt: PromptInput) -> None:
        """Show a prompt that was not sent, so that it can be edited.

        An unsent prompt that has just returned can also be retried.
        """
        is_unsent = self._unsent is not None and prompt in self._just_returned
        head = _RETRY_HEAD if is_unsent else _NOT_SENT_HEAD
        item = TranscriptItem(
            ItemKind.USER, head, prompt.text, state=CallState.STOPPED, is_folded=True
        )
        self._returned[item] = prompt
        if is_unsent:
            self._just_returned.remove(prompt)
            self._unsent_items.append(item)
        else:
            self._just_returned.clear()
        self._sink.add_item(item)

    def show_unsent(self, prompt: PromptInput, message: UserMessage) -> None:
        """Show a recorded prompt that was not sent: it can be edited, and retried."""
        self.clear_unsent()
        self._unsent, self._just_returned = _UnsentRecordedPrompt(prompt, message), [prompt]
        self.show_returned(prompt)

    def take_back(self, item: TranscriptItem) -> PromptInput | None:
        """Remove an unsent prompt and return it; None if the item is no unsent prompt."""
        prompt = self._returned.pop(item, None)
        if prompt is not None:
            if item in self._unsent_items:
                self._unsent_items.remove(item)
            self._sink.remove_item(item)
        return prompt

    def _take_back_unsent(self) -> None:
        for item in list(self._unsent_items):
            self.take_back(item)
