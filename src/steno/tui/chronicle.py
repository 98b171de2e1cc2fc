"""What happens, as blocks on a page: while it happens, and when a session is opened again.

What is on record counts: while a model speaks its words are shown as they come, and when the
message is recorded they become what the record says. One entry is told in one way, whether it was
read back or has just happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import final

from steno.agent.events import (
    Asked,
    CallOutput,
    CallStarted,
    Notice,
    NoticeCode,
    Recorded,
    RunEnded,
    TurnStarted,
)
from steno.agent.limits import Ending
from steno.content import Text
from steno.entry import Approval, Entry, Resolution, Rewind
from steno.errors import Unresolved
from steno.event import TextDelta, ThinkingDelta, ToolCallBegin, ToolCallDelta, ToolCallEnd
from steno.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.printable import on_one_line
from steno.tui.block import Block, Kind, State
from steno.tui.call_head import head_of_call
from steno.tui.desk import (
    DeskEvent,
    Reply,
    Returned,
    ShellEnded,
    ShellOutput,
    ShellStarted,
    Trouble,
    Words,
)
from steno.tui.page import Page
from steno.tui.unheard import Unheard
from steno.tui.wording import (
    INTERRUPTED,
    RETRY,
    answer,
    block_of_command,
    block_of_prompt,
    blocks_of_answer,
    mark_of,
    name_of,
    put_decision,
    put_result,
    put_status,
    reason_of,
    thinking,
)
from steno.views import SHELL


@final
class Chronicle:
    """Tells a page what happens."""

    def __init__(self, page: Page) -> None:
        """Take a page; nothing is on it."""
        self._sink = page
        self.pending_input = Unheard(page)
        """What the person has said and is not on record."""
        self._references: dict[str, tuple[UserMessage, Block]] = {}
        """Messages that point at something and what shows them, by their entry."""
        self._calls: dict[str, Block] = {}
        """What shows a call, by its id; a later call may have the id of an earlier one."""
        self._drafts: dict[tuple[Kind, int | None], Block] = {}
        """What the model is saying: by its kind and index."""
        self._prompt: tuple[Words, UserMessage] | None = None
        """What was heard last, as the person said it and as it is on record."""
        self._items_since_prompt: list[Block] = []
        """What the record says since then, and that."""
        self._has_reported_failure = False
        """Whether the record has said in this run what could not be opened."""
        self._commands: list[Block] = []
        """Commands of the person that are not on record yet; at most the last one runs."""
        self._command: Block | None = None
        """The one that runs."""

    # -- what is on record -------------------------------------------------------------------

    def load(self, entries: Iterable[Entry]) -> None:
        """Show what is on record, and what the person has said and is not; nothing else."""
        for known in (self._references, self._calls, self._drafts, self._items_since_prompt, self._commands):
            known.clear()
        self._prompt = self._command = None
        self.pending_input.clear_unsent()
        blocks = [block for entry in entries for block in self._items_from_entry(entry)]
        self._sink.show_items([*blocks, *self.pending_input.items])

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
        for block in self._items_from_entry(entry):
            self._items_since_prompt.append(block)
            self._sink.add_item(block)
            self._has_reported_failure |= block.kind is Kind.ERROR

    def _match_recorded_input(self, entry: Entry, message: UserMessage) -> None:
        """Take away what stood for a message until it was on record."""
        command = (entry.audit or {}).get(SHELL)
        if command is None:
            self._prompt = (self.pending_input.match_recorded(message) or Words(message.text or ""), message)
            self._items_since_prompt.clear()
            return
        head = block_of_command(str(command)).head
        ran = next((block for block in self._commands if block.head == head), None)
        if ran is not None:
            self._commands.remove(ran)
            self._sink.remove_item(ran)

    def _on_rewind(self) -> None:
        """Take away what the branch no longer holds: what was said last, and could not be sent.

        Why it could not stays to be read, and the words can be used again.
        """
        reasons = [block for block in self._items_since_prompt if block.kind is Kind.ERROR]
        for block in self._items_since_prompt:
            if block in reasons:
                block.entry = None
            else:
                self._sink.remove_item(block)
        for block in reasons[:1]:
            block.body = f"nothing was sent: {block.body}"
            self._sink.update_item(block)
        self._items_since_prompt.clear()
        if self._prompt is not None:
            self.pending_input.keep_unsent(*self._prompt)
            self._prompt = None

    def _items_from_entry(self, entry: Entry) -> Iterator[Block]:
        """Return what an entry adds to the page; what it says of a call is shown there."""
        payload = entry.payload
        match payload:
            case AssistantMessage():
                blocks = blocks_of_answer(entry, payload)
                self._register_calls(payload, blocks)
                yield from blocks
            case UserMessage():
                said = block_of_prompt(entry, payload)
                if not all(isinstance(part, Text) for part in payload.content):
                    self._references[entry.id] = payload, said
                yield said
            case ToolResultMessage():
                block = self._calls.get(payload.tool_call_id)
                if block is not None:
                    put_result(block, payload, entry.id)
                    self._sink.update_item(block)
            case Approval():
                block = self._calls.get(payload.call_id)
                if block is not None:
                    put_decision(block, payload)
                    self._sink.update_item(block)
            case _:
                mark = mark_of(entry, pointer=self._reference_name(payload))
                if mark is not None:
                    yield mark

    def _register_calls(self, message: AssistantMessage, blocks: Iterable[Block]) -> None:
        calls = [block for block in blocks if block.kind is Kind.CALL]
        for call, block in zip(message.tool_calls, calls, strict=True):
            self._calls[call.id] = block

    def _reference_name(self, payload: object) -> str:
        """Return what a resolution is about; what shows that may have an image to draw now."""
        if not isinstance(payload, Resolution):
            return ""
        if payload.target not in self._references:
            return "something"
        message, block = self._references[payload.target]
        self._sink.update_item(block)
        is_there = payload.block < len(message.content)
        return name_of(message.content[payload.block]) if is_there else "something"

    # -- what happens ------------------------------------------------------------------------

    def apply(self, event: DeskEvent) -> None:
        """Show what happens; it costs little, however much there is on the page."""
        match event:
            case Recorded(entry):
                self._on_recorded(entry)
            case TextDelta(index, text):
                self._append(self._draft(Kind.ANSWER, index), text)
            case ThinkingDelta(index, text):
                self._append(self._draft(Kind.THINKING, index), text)
            case ToolCallBegin(index, _, name) | ToolCallDelta(index, _, name):
                self._write_call(index, name or "")
            case ToolCallEnd(index, _, call) if call is not None:
                block = self._draft(Kind.CALL, index)
                block.head = head_of_call(call)
                self._sink.update_item(block)
            case Asked(question):
                self._set_state(question.call.id, State.WAITING)
            case CallStarted(call):
                self._start_call(call.id)
            case CallOutput(call_id, text):
                if (running := self._calls.get(call_id)) is not None:
                    self._append(running, text)
            case Notice(code, text):
                self._on_notice(code, text)
            case RunEnded():
                self._on_run_ended(event)
            case Trouble(text):
                self.add_text(Kind.ERROR, text)
            case Returned(words):
                self.pending_input.return_prompts(words)
            case ShellStarted(command):
                self._start_command(command)
            case ShellOutput(text):
                if self._command is not None:
                    self._append(self._command, text)
            case ShellEnded():
                self._end_command(event)
            case TurnStarted():
                self._drop_drafts()
            case _:
                pass

    def abandon_pending(self) -> list[Words]:
        """Give up what waits for the record, since nobody is left to write it; return what was said.

        Commands stay on the page as they ended.
        """
        self._commands = [block for block in self._commands if block is self._command]
        return self.pending_input.abandon()

    def add_text(self, kind: Kind, text: str) -> None:
        """Put words on the page that are nobody's and not on record."""
        self._sink.add_item(Block(kind, body=text))

    def add_reply(self, reply: Reply) -> None:
        """Show what a command has brought."""
        self._sink.add_item(Block(Kind.REPLY, head=reply.title, body=reply.text, form=reply.form))

    def _on_notice(self, code: NoticeCode, text: str) -> None:
        if code is NoticeCode.RETRY:
            self._drop_drafts()
        self.add_text(Kind.NOTICE, text)

    def _on_run_ended(self, ended: RunEnded) -> None:
        self._drop_drafts()
        for block in self._calls.values():
            if block.is_open:
                block.is_open, block.state = False, State.STOPPED
                self._sink.update_item(block)
        result = ended.result
        if isinstance(result.error, Unresolved) and self._has_reported_failure:
            pass  # once is enough
        elif result.ending is Ending.FAILED:
            self.add_text(Kind.ERROR, f"{result.error or result.reason}; {RETRY}")
        elif result.ending is Ending.INTERRUPTED:
            self.add_text(Kind.NOTICE, INTERRUPTED)
        elif result.ending is Ending.DONE and result.reason:
            self.add_text(Kind.NOTICE, reason_of(result))
        self._has_reported_failure = False

    def _start_command(self, command: str) -> None:
        self._command = block = block_of_command(command)
        block.state, block.is_open = State.RUNNING, True
        self._commands.append(block)
        self._sink.add_item(block)

    def _end_command(self, ended: ShellEnded) -> None:
        if self._command is not None:
            self._command.is_open = False
            put_status(self._command, ended.status)
            self._sink.update_item(self._command)
            self._command = None

    # -- what is being said ------------------------------------------------------------------

    def _draft(self, kind: Kind, index: int | None) -> Block:
        """Return the block for what is being said now; it is on the page from its first word."""
        block = self._drafts.get((kind, index))
        if block is None:
            match kind:
                case Kind.ANSWER:
                    block = answer()
                case Kind.THINKING:
                    block = thinking()
                case _:
                    block = Block(kind, is_folded=True)
            block.is_open = True
            self._drafts[kind, index] = block
            self._sink.add_item(block)
        return block

    def _append(self, block: Block, text: str) -> None:
        block.append(text)
        self._sink.update_item(block)

    def _write_call(self, index: int | None, name: str) -> None:
        block = self._draft(Kind.CALL, index)
        if name and not block.head:
            block.head = f"{on_one_line(name)} …"
            self._sink.update_item(block)

    def _replace_drafts(self, entry: Entry, message: AssistantMessage) -> None:
        """Let what was said become what is on record: each part where it stood."""
        blocks = blocks_of_answer(entry, message)
        drafts = list(self._drafts.values())
        for number, block in enumerate(blocks):
            draft = next((one for one in drafts if one.kind is block.kind), None)
            if draft is None:
                self._sink.add_item(block)
                continue
            drafts.remove(draft)
            _become(draft, block)
            blocks[number] = draft
            self._sink.update_item(draft)
        self._register_calls(message, blocks)
        self._drafts.clear()
        for draft in drafts:
            self._sink.remove_item(draft)

    def _drop_drafts(self) -> None:
        """Take away what was said and never recorded."""
        for draft in self._drafts.values():
            self._sink.remove_item(draft)
        self._drafts.clear()

    def _set_state(self, call_id: str, state: State) -> None:
        if (block := self._calls.get(call_id)) is not None:
            block.state = state
            self._sink.update_item(block)

    def _start_call(self, call_id: str) -> None:
        block = self._calls.get(call_id)
        if block is None:
            return
        block.state, block.is_open = State.RUNNING, True
        self._sink.update_item(block)


def _become(draft: Block, block: Block) -> None:
    """Let a draft show what a block shows; whether it is folded is for the person to say."""
    draft.replace_body(block.body, block.form)
    draft.head, draft.language, draft.state = block.head, block.language, block.state
    draft.images, draft.entry, draft.is_open = block.images, block.entry, False
