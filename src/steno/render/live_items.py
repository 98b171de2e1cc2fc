"""The items of a transcript, built from recorded entries and from events as they occur.

The log is authoritative: text of a model is displayed as it arrives, and then replaced by the
recorded message. An entry has the same items whether it was loaded or has just been recorded.
Prompts that are not on the branch have separate items; they are queued, were returned to the user,
or were recorded but not sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

from steno.agent import PromptInput, events, session_events
from steno.log.queries import shell_command_of
from steno.messages.event import TextDelta, ThinkingDelta, ToolCallBegin, ToolCallDelta, ToolCallEnd
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.records.entry import Approval, Entry, Resolution, Rewind
from steno.render.describe import Content, Headline, summarize_call
from steno.render.items import CallState, ItemKind, ItemSink, TextForm, TranscriptItem
from steno.render.session_items import (
    NOTHING_SENT,
    EventDescriber,
    answer_item,
    apply_decision,
    apply_exit_status,
    apply_result,
    queued_prompt_item,
    returned_prompt_item,
    thinking_item,
)
from steno.render.terminal_text import terminal_line
from steno.tools.calls import call_content, call_headline


@final
class LiveItems:
    """Converts entries and events to items, and displays them in a sink."""

    def __init__(
        self,
        sink: ItemSink,
        headline: Headline = call_headline,
        content: Content = call_content,
    ) -> None:
        self._sink = sink
        self._headline, self._content = headline, content
        self.pending_input: PendingInput = PendingInput(sink)
        """The prompts of the user that are not on the branch: queued, returned or unsent."""
        self._describer = EventDescriber(self._headline, self._content)
        self._prompt_items: dict[str, TranscriptItem] = {}
        self._calls: dict[str, TranscriptItem] = {}
        """The item of the latest call with each id; a call may reuse the id of an earlier call."""
        self._drafts: dict[tuple[ItemKind, int | None], TranscriptItem] = {}
        """The items of the response that is being streamed, by kind and index."""
        self._last_prompt: tuple[PromptInput, UserMessage] | None = None
        """The last prompt without a response, as typed and as recorded."""
        self._items_since_prompt: list[TranscriptItem] = []
        """The items of `_last_prompt` and of the entries after it."""
        self._unrecorded_commands: list[tuple[str, TranscriptItem]] = []
        """Unrecorded shell commands and their items; only the last command may still be running."""
        self._running_command: TranscriptItem | None = None
        """The item of the running shell command."""

    # -- recorded entries -----------------------------------------------------------------

    def load(self, entries: Iterable[Entry]) -> None:
        """Replace all items with those of the entries and of the pending prompts."""
        for collection in (
            self._prompt_items,
            self._calls,
            self._drafts,
            self._items_since_prompt,
            self._unrecorded_commands,
        ):
            collection.clear()
        self._last_prompt = self._running_command = None
        self._describer = EventDescriber(self._headline, self._content)
        self.pending_input.clear_unsent()
        items: list[TranscriptItem] = []
        for entry in entries:
            described = self._describer.describe_entry(entry)
            self._register(entry, described)
            items.extend(described)
        self._sink.show_items([*items, *self.pending_input.items])

    def _on_recorded(self, event: events.EntryRecorded) -> None:
        entry = event.entry
        payload = entry.message or entry.payload
        items = self._describer.describe_event(event)
        match payload:
            case AssistantMessage():
                self._register(entry, self._replace_drafts(items))
                self._last_prompt = None  # the prompt was sent, and this is its response
                self._items_since_prompt.clear()
            case Rewind():
                self._on_rewind()
            case _:
                if isinstance(payload, UserMessage):
                    self._match_recorded_input(entry, payload)
                self._register(entry, items)
                self._items_since_prompt.extend(items)
                self._add(items)

    def _match_recorded_input(self, entry: Entry, message: UserMessage) -> None:
        """Remove the item that displayed a message before it was recorded."""
        shell = shell_command_of(entry)
        if shell is None:
            prompt = self.pending_input.match_recorded(message) or PromptInput(message.text or "")
            self._last_prompt = (prompt, message)
            self._items_since_prompt.clear()
            return
        for unrecorded in self._unrecorded_commands:
            if unrecorded[0] == shell.command:
                self._unrecorded_commands.remove(unrecorded)
                self._sink.remove_item(unrecorded[1])
                return

    def _on_rewind(self) -> None:
        """Remove the items of the last prompt, which could not be sent.

        The reason stays visible, and the prompt can be edited or sent again.
        """
        reasons = [item for item in self._items_since_prompt if item.kind is ItemKind.ERROR]
        for item in self._items_since_prompt:
            if item in reasons:
                item.entry = None
            else:
                self._sink.remove_item(item)
        for item in reasons[:1]:
            item.body = f"{NOTHING_SENT}: {item.body}"
            self._sink.update_item(item)
        self._items_since_prompt.clear()
        if self._last_prompt is not None:
            self.pending_input.show_unsent(*self._last_prompt)
            self._last_prompt = None

    def _register(self, entry: Entry, items: list[TranscriptItem]) -> None:
        """Register the items of calls and prompts, and update the items that an entry affects."""
        payload = entry.message or entry.payload
        match payload:
            case AssistantMessage():
                calls = [item for item in items if item.kind is ItemKind.CALL]
                for call, item in zip(payload.tool_calls, calls, strict=True):
                    self._calls[call.id] = item
            case UserMessage():
                (self._prompt_items[entry.id],) = items
            case ToolResultMessage():
                if (call_item := self._calls.get(payload.tool_call_id)) is not None:
                    apply_result(call_item, payload, entry.id)
                    self._sink.update_item(call_item)
            case Approval():
                if (call_item := self._calls.get(payload.call_id)) is not None:
                    apply_decision(call_item, payload)
                    self._sink.update_item(call_item)
            case Resolution():
                if (prompt_item := self._prompt_items.get(payload.target)) is not None:
                    self._sink.update_item(prompt_item)  # its image may be available now
            case _:
                pass

    # -- events ---------------------------------------------------------------------------

    def apply(self, event: session_events.SessionEvent) -> None:
        """Update the items for an event.

        Except at the end of a run, the cost does not depend on the number of items.
        """
        match event:
            case events.EntryRecorded():
                self._on_recorded(event)
            case TextDelta(index, text):
                self._append(self._draft(ItemKind.ANSWER, index), text)
            case ThinkingDelta(index, text):
                self._append(self._draft(ItemKind.THINKING, index), text)
            case ToolCallBegin(index, _, name) | ToolCallDelta(index, _, name):
                item = self._draft(ItemKind.CALL, index)
                if name and not item.head:
                    item.head = f"{terminal_line(name)} …"
                    self._sink.update_item(item)
            case ToolCallEnd(index, _, call) if call is not None:
                item = self._draft(ItemKind.CALL, index)
                item.head = summarize_call(call, self._headline)
                self._sink.update_item(item)
            case events.ApprovalRequested(request):
                self._set_state(self._calls.get(request.call.id), CallState.WAITING)
            case events.CallStarted(call):
                self._set_state(self._calls.get(call.id), CallState.RUNNING, is_open=True)
            case events.CallOutput(call_id, text):
                self._append(self._calls.get(call_id), text)
            case events.Notice(kind):
                if kind is events.NoticeKind.RETRY:
                    self._drop_drafts()
                self._add(self._describer.describe_event(event))
            case session_events.ErrorRaised():
                self._add(self._describer.describe_event(event))
            case events.RunEnded() | session_events.RunFailed():
                self._drop_drafts()
                for item in self._calls.values():
                    if item.is_open:
                        self._set_state(item, CallState.STOPPED, is_open=False)
                self._add(self._describer.describe_event(event))
            case session_events.InputReturned(prompts):
                self.pending_input.return_prompts(prompts)
            case session_events.ShellStarted(command):
                (item,) = self._describer.describe_event(event)
                item.state, item.is_open = CallState.RUNNING, True
                self._running_command = item
                self._unrecorded_commands.append((command, item))
                self._add([item])
            case session_events.ShellOutput(text):
                self._append(self._running_command, text)
            case session_events.ShellEnded(status):
                if self._running_command is not None:
                    self._running_command.is_open = False
                    apply_exit_status(self._running_command, status)
                    self._sink.update_item(self._running_command)
                    self._running_command = None
            case events.TurnStarted():
                self._drop_drafts()
            case _:
                pass

    def abandon_pending(self) -> list[PromptInput]:
        """Remove and return the accepted prompts, because no run is left to record them.

        The items of completed shell commands stay.
        """
        self._unrecorded_commands = [
            (command, item)
            for command, item in self._unrecorded_commands
            if item is self._running_command
        ]
        return self.pending_input.abandon()

    def add_text(
        self, kind: ItemKind, text: str, *, head: str = "", form: TextForm = TextForm.PLAIN
    ) -> None:
        """Append a text that is not recorded, such as a notice, an error or a command's reply."""
        self._sink.add_item(TranscriptItem(kind, head, text, form))

    def _add(self, items: Iterable[TranscriptItem]) -> None:
        for item in items:
            self._sink.add_item(item)

    # -- streamed text --------------------------------------------------------------------

    def _draft(self, kind: ItemKind, index: int | None) -> TranscriptItem:
        """Return the item for streamed content; it is added to the sink on the first call."""
        item = self._drafts.get((kind, index))
        if item is None:
            match kind:
                case ItemKind.ANSWER:
                    item = answer_item()
                case ItemKind.THINKING:
                    item = thinking_item()
                case _:
                    item = TranscriptItem(kind, is_folded=True)
            item.is_open = True
            self._drafts[kind, index] = item
            self._sink.add_item(item)
        return item

    def _append(self, item: TranscriptItem | None, text: str) -> None:
        if item is not None:
            item.append(text)
            self._sink.update_item(item)

    def _set_state(
        self, item: TranscriptItem | None, state: CallState, *, is_open: bool | None = None
    ) -> None:
        if item is not None:
            item.state = state
            item.is_open = item.is_open if is_open is None else is_open
            self._sink.update_item(item)

    def _replace_drafts(self, items: list[TranscriptItem]) -> list[TranscriptItem]:
        """Update the streamed items of a response with its recorded content.

        Return the displayed items of the response. Streamed items without recorded content are
        removed.
        """
        shown: list[TranscriptItem] = []
        drafts = list(self._drafts.values())
        for item in items:
            draft = next((draft for draft in drafts if draft.kind is item.kind), None)
            shown.append(draft or item)
            if draft is None:
                self._sink.add_item(item)
                continue
            drafts.remove(draft)
            # `is_folded` is not copied: the user may have folded or unfolded the draft.
            draft.replace_body(item.body, item.form)
            draft.head, draft.language, draft.state = item.head, item.language, item.state
            draft.images, draft.entry, draft.is_open = item.images, item.entry, False
            self._sink.update_item(draft)
        self._drafts.clear()
        for draft in drafts:
            self._sink.remove_item(draft)
        return shown

    def _drop_drafts(self) -> None:
        """Remove streamed items that were never recorded."""
        for draft in self._drafts.values():
            self._sink.remove_item(draft)
        self._drafts.clear()


# -- input that is not recorded ---------------------------------------------------------------


@final
@dataclass(eq=False, slots=True)
class _QueuedPrompt:
    prompt: PromptInput
    item: TranscriptItem
    is_accepted: bool = False
    """Whether the session has accepted the prompt; before that, it may still be rejected."""


@final
class PendingInput:
    """Displays prompts until they are recorded, or taken back for editing."""

    def __init__(self, sink: ItemSink) -> None:
        self._sink = sink
        self._queued: list[_QueuedPrompt] = []
        self._returned: dict[TranscriptItem, PromptInput] = {}
        self._unsent: tuple[PromptInput, UserMessage] | None = None
        """The last prompt that could not be sent, and its message; a retry sends it again."""
        self._unsent_items: list[TranscriptItem] = []
        """The items of `_unsent` and of the prompts that were returned together with it."""
        self._just_returned: list[PromptInput] = []
        """Unsent prompts whose items `show_returned` has not added yet."""

    @property
    def items(self) -> list[TranscriptItem]:
        """The items of all returned and queued prompts, for the end of a reloaded transcript."""
        return [*self._returned, *(queued.item for queued in self._queued)]

    # -- queued prompts -------------------------------------------------------------------

    def add(self, prompt: PromptInput, *, is_steering: bool) -> TranscriptItem:
        """Display a prompt as queued, and return its item."""
        item = queued_prompt_item(prompt.text, is_steering=is_steering)
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
        """Remove and return the prompt of a newly recorded message; None if no prompt is pending.

        If the user retried the unsent prompt, it is returned, otherwise the first queued prompt.
        """
        unsent, first = self._unsent, next(iter(self._queued), None)
        if unsent is not None and (first is None or message == unsent[1]):
            self._take_back_unsent()
            self._unsent = None
            # If the texts are equal, the user typed the prompt again instead of retrying it.
            if first is None or first.prompt.text != unsent[0].text:
                return unsent[0]
        self.clear_unsent()
        if first is None:
            return None
        self._remove([first])
        return first.prompt

    def clear_unsent(self) -> None:
        """Mark the unsent prompts as only editable, because a retry no longer sends them."""
        for item in self._unsent_items:
            returned = returned_prompt_item(item.body)
            item.head, item.hint = returned.head, returned.hint
            self._sink.update_item(item)
        self._unsent_items.clear()
        self._unsent = None

    def return_prompts(self, prompts: Sequence[PromptInput]) -> None:
        """Remove the items of prompts that the session returned.

        If several queued prompts are equal, the last of them is removed. If the first returned
        prompt is not queued, it is the unsent prompt.
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
        """Remove and return all accepted prompts, because no run is left to read them."""
        accepted = [queued for queued in self._queued if queued.is_accepted]
        self._remove(accepted)
        return [queued.prompt for queued in accepted]

    def _remove(self, queued: list[_QueuedPrompt]) -> None:
        for prompt in queued:
            self._queued.remove(prompt)
            self._sink.remove_item(prompt.item)

    # -- unsent prompts -------------------------------------------------------------------

    def show_returned(self, prompt: PromptInput) -> None:
        """Display a prompt that was not sent, so that it can be edited.

        If it is the unsent prompt, or was returned together with it, it can also be retried.
        """
        is_unsent = self._unsent is not None and prompt in self._just_returned
        item = returned_prompt_item(prompt.text, can_retry=is_unsent)
        self._returned[item] = prompt
        if is_unsent:
            self._just_returned.remove(prompt)
            self._unsent_items.append(item)
        else:
            self._just_returned.clear()
        self._sink.add_item(item)

    def show_unsent(self, prompt: PromptInput, message: UserMessage) -> None:
        """Display a recorded prompt that was not sent, so that it can be edited or retried."""
        self.clear_unsent()
        self._unsent, self._just_returned = (prompt, message), [prompt]
        self.show_returned(prompt)

    def take_back(self, item: TranscriptItem) -> PromptInput | None:
        """Remove the item of a prompt that was not sent, and return the prompt.

        Return None if the item is not a displayed prompt of this kind.
        """
        prompt = self._returned.pop(item, None)
        if prompt is not None:
            if item in self._unsent_items:
                self._unsent_items.remove(item)
            self._sink.remove_item(item)
        return prompt

    def _take_back_unsent(self) -> None:
        for item in list(self._unsent_items):
            self.take_back(item)
