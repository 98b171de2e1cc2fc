"""The items of a transcript: from recorded entries, and from events while they happen.

The log counts: text of a model is shown as it arrives, and replaced by the recorded message. An
entry leads to the same items, whether it was read back or has just been recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import final

from steno.agent import PromptInput
from steno.agent.events import (
    ApprovalRequested,
    CallOutput,
    CallStarted,
    EndReason,
    EntryRecorded,
    Notice,
    NoticeKind,
    RunEnded,
    TurnStarted,
)
from steno.app.commands.report import Report
from steno.app.session_events import (
    ErrorRaised,
    InputReturned,
    SessionEvent,
    ShellEnded,
    ShellOutput,
    ShellStarted,
)
from steno.errors import Unresolved
from steno.log.queries import shell_command_of
from steno.messages.content import Text
from steno.messages.event import TextDelta, ThinkingDelta, ToolCallBegin, ToolCallDelta, ToolCallEnd
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.records.entry import Approval, Entry, Resolution, Rewind
from steno.render.describe import summarize_call
from steno.render.items import CallState, ItemKind, TranscriptItem
from steno.render.items_from_entries import (
    INTERRUPTED_NOTICE,
    RETRY_HINT,
    answer_item,
    apply_decision,
    apply_exit_status,
    apply_result,
    describe_content_reference,
    item_from_prompt,
    item_from_shell_command,
    items_from_answer,
    marker_from_entry,
    run_end_notice,
    thinking_item,
)
from steno.render.terminal_text import terminal_line
from steno.ui.tui.pending_input import ItemSink, PendingInput


@final
class TranscriptState:
    """Turns entries and events into items of a sink."""

    def __init__(self, sink: ItemSink) -> None:
        """Take a sink; it is empty."""
        self._sink = sink
        self.pending_input: PendingInput = PendingInput(sink)
        """Prompts of the user that are not recorded."""
        self._messages_with_references: dict[str, tuple[UserMessage, TranscriptItem]] = {}
        """Messages with references and their items, by entry."""
        self._calls: dict[str, TranscriptItem] = {}
        """The item of a call, by its id; a later call may reuse the id of an earlier one."""
        self._drafts: dict[tuple[ItemKind, int | None], TranscriptItem] = {}
        """Streamed items of the model, by kind and index."""
        self._prompt: tuple[PromptInput, UserMessage] | None = None
        """The last recorded prompt, as typed and as recorded."""
        self._items_since_prompt: list[TranscriptItem] = []
        """The items since that prompt, and its own."""
        self._has_reported_failure = False
        """Whether this run has reported an unresolved reference already."""
        self._unrecorded_commands: list[tuple[str, TranscriptItem]] = []
        """Shell commands that are not recorded yet, with their items; at most the last one runs."""
        self._running_command: TranscriptItem | None = None
        """The item of the one that runs."""

    # -- recorded entries -----------------------------------------------------------------

    def load(self, entries: Iterable[Entry]) -> None:
        """Show the recorded entries, and the prompts that are not recorded; nothing else."""
        for collection in (
            self._messages_with_references,
            self._calls,
            self._drafts,
            self._items_since_prompt,
            self._unrecorded_commands,
        ):
            collection.clear()
        self._prompt = self._running_command = None
        self.pending_input.clear_unsent()
        items = [item for entry in entries for item in self._items_from_entry(entry)]
        self._sink.show_items([*items, *self.pending_input.items])

    def _on_recorded(self, entry: Entry) -> None:
        match entry.payload:
            case AssistantMessage():
                self._replace_drafts(entry, entry.payload)
                self._prompt = None  # it was sent, and has its answer
                self._items_since_prompt.clear()
                return
            case UserMessage():
                self._match_recorded_input(entry, entry.payload)
            case Rewind():
                self._on_rewind()
            case _:
                pass
        for item in self._items_from_entry(entry):
            self._items_since_prompt.append(item)
            self._sink.add_item(item)
            self._has_reported_failure |= item.kind is ItemKind.ERROR

    def _match_recorded_input(self, entry: Entry, message: UserMessage) -> None:
        """Remove the items that stood for a message until it was recorded."""
        command = shell_command_of(entry)
        if command is None:
            self._prompt = (
                self.pending_input.match_recorded(message) or PromptInput(message.text or ""),
                message,
            )
            self._items_since_prompt.clear()
            return
        for unrecorded in self._unrecorded_commands:
            if unrecorded[0] == command:
                self._unrecorded_commands.remove(unrecorded)
                self._sink.remove_item(unrecorded[1])
                return

    def _on_rewind(self) -> None:
        """Remove the items of rewound entries: the last prompt, which could not be sent.

        The reason stays, and the prompt can be used again.
        """
        reasons = [item for item in self._items_since_prompt if item.kind is ItemKind.ERROR]
        for item in self._items_since_prompt:
            if item in reasons:
                item.entry = None
            else:
                self._sink.remove_item(item)
        for item in reasons[:1]:
            item.body = f"nothing was sent: {item.body}"
            self._sink.update_item(item)
        self._items_since_prompt.clear()
        if self._prompt is not None:
            self.pending_input.show_unsent(*self._prompt)
            self._prompt = None

    def _items_from_entry(self, entry: Entry) -> Iterator[TranscriptItem]:
        """Return the new items of an entry; results and decisions update the item of their call."""
        payload = entry.payload
        match payload:
            case AssistantMessage():
                items = items_from_answer(entry, payload)
                self._register_calls(payload, items)
                yield from items
            case UserMessage():
                prompt_item = item_from_prompt(entry, payload)
                if not all(isinstance(block, Text) for block in payload.content):
                    self._messages_with_references[entry.id] = payload, prompt_item
                yield prompt_item
            case ToolResultMessage():
                call_item = self._calls.get(payload.tool_call_id)
                if call_item is not None:
                    apply_result(call_item, payload, entry.id)
                    self._sink.update_item(call_item)
            case Approval():
                call_item = self._calls.get(payload.call_id)
                if call_item is not None:
                    apply_decision(call_item, payload)
                    self._sink.update_item(call_item)
            case _:
                marker = marker_from_entry(entry, reference=self._reference_name(payload))
                if marker is not None:
                    yield marker

    def _register_calls(self, message: AssistantMessage, items: Iterable[TranscriptItem]) -> None:
        calls = [item for item in items if item.kind is ItemKind.CALL]
        for call, item in zip(message.tool_calls, calls, strict=True):
            self._calls[call.id] = item

    def _reference_name(self, payload: object) -> str:
        """Return the name of a resolved reference; its item may have an image to draw now."""
        if not isinstance(payload, Resolution):
            return ""
        if payload.target not in self._messages_with_references:
            return "something"
        message, item = self._messages_with_references[payload.target]
        self._sink.update_item(item)
        if payload.block >= len(message.content):
            return "something"
        return describe_content_reference(message.content[payload.block])

    # -- events ---------------------------------------------------------------------------

    def apply(self, event: SessionEvent) -> None:
        """Apply an event; the cost does not depend on the number of items."""
        match event:
            case EntryRecorded(entry):
                self._on_recorded(entry)
            case TextDelta(index, text):
                self._append(self._draft(ItemKind.ANSWER, index), text)
            case ThinkingDelta(index, text):
                self._append(self._draft(ItemKind.THINKING, index), text)
            case ToolCallBegin(index, _, name) | ToolCallDelta(index, _, name):
                self._show_call_name(index, name or "")
            case ToolCallEnd(index, _, call) if call is not None:
                item = self._draft(ItemKind.CALL, index)
                item.head = summarize_call(call)
                self._sink.update_item(item)
            case ApprovalRequested(request):
                self._set_state(request.call.id, CallState.WAITING)
            case CallStarted(call):
                self._start_call(call.id)
            case CallOutput(call_id, text):
                if (running := self._calls.get(call_id)) is not None:
                    self._append(running, text)
            case Notice(kind, text):
                self._on_notice(kind, text)
            case RunEnded():
                self._on_run_ended(event)
            case ErrorRaised(text):
                self.add_text(ItemKind.ERROR, text)
            case InputReturned(prompts):
                self.pending_input.return_prompts(prompts)
            case ShellStarted(command):
                self._start_command(command)
            case ShellOutput(text):
                if self._running_command is not None:
                    self._append(self._running_command, text)
            case ShellEnded():
                self._end_command(event)
            case TurnStarted():
                self._drop_drafts()
            case _:
                pass

    def abandon_pending(self) -> list[PromptInput]:
        """Give up unrecorded input, because no run is left to record it; return the prompts.

        Shell commands stay as they ended.
        """
        self._unrecorded_commands = [
            (command, item)
            for command, item in self._unrecorded_commands
            if item is self._running_command
        ]
        return self.pending_input.abandon()

    def add_text(self, kind: ItemKind, text: str) -> None:
        """Append a text that is not recorded."""
        self._sink.add_item(TranscriptItem(kind, body=text))

    def add_report(self, report: Report) -> None:
        """Append the reply of a command."""
        self._sink.add_item(
            TranscriptItem(ItemKind.REPLY, head=report.title, body=report.body, form=report.form)
        )

    def _on_notice(self, kind: NoticeKind, text: str) -> None:
        if kind is NoticeKind.RETRY:
            self._drop_drafts()
        self.add_text(ItemKind.NOTICE, text)

    def _on_run_ended(self, ended: RunEnded) -> None:
        self._drop_drafts()
        for item in self._calls.values():
            if item.is_open:
                item.is_open, item.state = False, CallState.STOPPED
                self._sink.update_item(item)
        result = ended.result
        if isinstance(result.error, Unresolved) and self._has_reported_failure:
            pass  # once is enough
        elif result.end_reason is EndReason.FAILED:
            self.add_text(ItemKind.ERROR, f"{result.error or result.reason}; {RETRY_HINT}")
        elif result.end_reason is EndReason.INTERRUPTED:
            self.add_text(ItemKind.NOTICE, INTERRUPTED_NOTICE)
        elif result.end_reason is EndReason.DONE and result.reason:
            self.add_text(ItemKind.NOTICE, run_end_notice(result))
        self._has_reported_failure = False

    def _start_command(self, command: str) -> None:
        self._running_command = item = item_from_shell_command(command)
        item.state, item.is_open = CallState.RUNNING, True
        self._unrecorded_commands.append((command, item))
        self._sink.add_item(item)

    def _end_command(self, ended: ShellEnded) -> None:
        if self._running_command is not None:
            self._running_command.is_open = False
            apply_exit_status(self._running_command, ended.status)
            self._sink.update_item(self._running_command)
            self._running_command = None

    # -- streamed text --------------------------------------------------------------------

    def _draft(self, kind: ItemKind, index: int | None) -> TranscriptItem:
        """Return the item of the streamed text; it appears with its first character."""
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

    def _append(self, item: TranscriptItem, text: str) -> None:
        item.append(text)
        self._sink.update_item(item)

    def _show_call_name(self, index: int | None, name: str) -> None:
        item = self._draft(ItemKind.CALL, index)
        if name and not item.head:
            item.head = f"{terminal_line(name)} …"
            self._sink.update_item(item)

    def _replace_drafts(self, entry: Entry, message: AssistantMessage) -> None:
        """Replace streamed items by the recorded ones, each in its place."""
        items = items_from_answer(entry, message)
        drafts = list(self._drafts.values())
        for number, item in enumerate(items):
            draft = next(
                (draft_item for draft_item in drafts if draft_item.kind is item.kind), None
            )
            if draft is None:
                self._sink.add_item(item)
                continue
            drafts.remove(draft)
            _copy_item(draft, item)
            items[number] = draft
            self._sink.update_item(draft)
        self._register_calls(message, items)
        self._drafts.clear()
        for draft in drafts:
            self._sink.remove_item(draft)

    def _drop_drafts(self) -> None:
        """Remove streamed items that were never recorded."""
        for draft in self._drafts.values():
            self._sink.remove_item(draft)
        self._drafts.clear()

    def _set_state(self, call_id: str, state: CallState) -> None:
        if (item := self._calls.get(call_id)) is not None:
            item.state = state
            self._sink.update_item(item)

    def _start_call(self, call_id: str) -> None:
        item = self._calls.get(call_id)
        if item is None:
            return
        item.state, item.is_open = CallState.RUNNING, True
        self._sink.update_item(item)


def _copy_item(draft: TranscriptItem, item: TranscriptItem) -> None:
    """Copy the content of an item to a draft; the user decides whether it is folded."""
    draft.replace_body(item.body, item.form)
    draft.head, draft.language, draft.state = item.head, item.language, item.state
    draft.images, draft.entry, draft.is_open = item.images, item.entry, False
