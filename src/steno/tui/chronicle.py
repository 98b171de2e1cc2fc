"""What happens, as blocks on a page: while it happens, and when a session is opened again.

What is on record counts: while a model speaks its words are shown as they come, and when the
message is recorded they become what the record says. One entry is told in one way, whether it was
read back or has just happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol, final

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
from steno.entry import Approval, Entry, Resolution
from steno.errors import Unresolved
from steno.event import TextDelta, ThinkingDelta, ToolCallBegin, ToolCallDelta, ToolCallEnd
from steno.message import AssistantMessage, Message, ToolResultMessage, UserMessage
from steno.printable import on_one_line
from steno.tui.block import Block, Kind, State
from steno.tui.desk import DeskEvent, Reply, ShellEnded, ShellOutput, ShellStarted, Trouble
from steno.tui.wording import (
    RETRY,
    SHELL,
    ImageOf,
    answer,
    block_of_prompt,
    blocks_of_answer,
    head_of_call,
    mark_of,
    name_of,
    put_decision,
    put_result,
    thinking,
)

_INTERRUPTED: Final = f"interrupted; what was said and done is kept, and {RETRY} or goes on"


class Page(Protocol):
    """What blocks are put on."""

    def show(self, blocks: list[Block]) -> None:
        """Show these and nothing else."""
        ...

    def add(self, block: Block) -> None:
        """Put a block at the end."""
        ...

    def touch(self, block: Block) -> None:
        """Draw a block anew: it has changed."""
        ...

    def drop(self, block: Block) -> None:
        """Take a block away."""
        ...


@final
class Chronicle:
    """Tells a page what happens."""

    def __init__(self, page: Page, image_of: ImageOf) -> None:
        """Take a page, and whoever has the bytes of images."""
        self._page = page
        self._image_of = image_of
        self._pointers: dict[str, Message] = {}
        """Messages that point at something, by their entry."""
        self._calls: dict[str, Block] = {}
        """What shows a call, by its id; a later call may have the id of an earlier one."""
        self._said: dict[tuple[Kind, int | None], Block] = {}
        """What the model is saying: by its kind and index."""
        self._queued: list[Block] = []
        """What the person has said and the model has not heard yet."""
        self._shell: Block | None = None

    # -- what is on record -------------------------------------------------------------------

    def open(self, entries: Iterable[Entry]) -> None:
        """Show what is on record, and nothing else."""
        self._calls.clear()
        self._pointers.clear()
        self._said.clear()
        self._queued.clear()
        self._shell = None
        self._page.show([block for entry in entries for block in self._tell(entry)])

    def _record(self, entry: Entry) -> None:
        if isinstance(entry.payload, AssistantMessage):
            self._settle(entry, entry.payload)
            return
        if isinstance(entry.payload, UserMessage):
            self._hear(entry, entry.payload)
        for block in self._tell(entry):
            self._page.add(block)

    def _hear(self, entry: Entry, message: UserMessage) -> None:
        """Take away what stood for a message until it was on record."""
        if self._shell is not None and SHELL in (entry.audit or {}):
            self._page.drop(self._shell)
            self._shell = None
        for block in self._queued:
            if block.body == message.text:
                self._queued.remove(block)
                self._page.drop(block)
                return

    def _tell(self, entry: Entry) -> Iterator[Block]:
        """Return what an entry adds to the page; what it says of a call is shown there."""
        payload = entry.payload
        match payload:
            case AssistantMessage():
                blocks = blocks_of_answer(entry, payload, self._image_of)
                self._take_calls(payload, blocks)
                yield from blocks
            case UserMessage():
                if len(payload.content) > 1:
                    self._pointers[entry.id] = payload
                yield block_of_prompt(entry, payload, self._image_of)
            case ToolResultMessage():
                block = self._calls.get(payload.tool_call_id)
                if block is not None:
                    put_result(block, payload, entry.id, self._image_of)
                    self._page.touch(block)
            case Approval():
                block = self._calls.get(payload.call_id)
                if block is not None:
                    put_decision(block, payload)
                    self._page.touch(block)
            case _:
                mark = mark_of(entry, pointer=self._pointer_of(payload))
                if mark is not None:
                    yield mark

    def _take_calls(self, message: AssistantMessage, blocks: Iterable[Block]) -> None:
        calls = [block for block in blocks if block.kind is Kind.CALL]
        for call, block in zip(message.tool_calls, calls, strict=True):
            self._calls[call.id] = block

    def _pointer_of(self, payload: object) -> str:
        if not isinstance(payload, Resolution):
            return ""
        message = self._pointers.get(payload.target)
        is_there = message is not None and payload.block < len(message.content)
        return name_of(message.content[payload.block]) if message and is_there else "something"

    # -- what happens ------------------------------------------------------------------------

    def tell(self, event: DeskEvent) -> None:
        """Show what happens; it costs little, however much there is on the page."""
        match event:
            case Recorded(entry):
                self._record(entry)
            case TextDelta(index, text):
                self._say(self._saying(Kind.ANSWER, index), text)
            case ThinkingDelta(index, text):
                self._say(self._saying(Kind.THINKING, index), text)
            case ToolCallBegin(index, _, name) | ToolCallDelta(index, _, name):
                self._write_call(index, name or "")
            case ToolCallEnd(index, _, call) if call is not None:
                block = self._saying(Kind.CALL, index)
                block.head = head_of_call(call)
                self._page.touch(block)
            case Asked(question):
                self._set(question.call.id, State.WAITING)
            case CallStarted(call):
                self._start_call(call.id)
            case CallOutput(call_id, text):
                if (running := self._calls.get(call_id)) is not None:
                    self._say(running, text)
            case Notice(code, text):
                self._notice(code, text)
            case RunEnded():
                self._end(event)
            case Trouble(text):
                self.add(Kind.TROUBLE, text)
            case ShellStarted(command):
                self._shell = Block(
                    Kind.SHELL, head=f"$ {on_one_line(command)}", state=State.RUNNING, is_open=True
                )
                self._page.add(self._shell)
            case ShellOutput(text):
                if self._shell is not None:
                    self._say(self._shell, text)
            case ShellEnded():
                self._end_shell(event)
            case TurnStarted():
                self._drop_drafts()
            case _:
                pass

    def add(self, kind: Kind, text: str) -> None:
        """Put words on the page that are nobody's and not on record."""
        self._page.add(Block(kind, body=text))

    def queue(self, text: str) -> None:
        """Show what the person says while the model is at work, until it is heard."""
        block = Block(Kind.USER, head="will be heard at the next step", body=text)
        block.state = State.WAITING
        self._queued.append(block)
        self._page.add(block)

    def reply(self, reply: Reply) -> None:
        """Show what a command has brought."""
        self._page.add(Block(Kind.REPLY, head=reply.title, body=reply.text, form=reply.form))

    def _notice(self, code: NoticeCode, text: str) -> None:
        if code is NoticeCode.RETRY:
            self._drop_drafts()
        self.add(Kind.NOTICE, text)

    def _end(self, ended: RunEnded) -> None:
        self._drop_drafts()
        for block in self._calls.values():
            if block.is_open:
                block.is_open, block.state = False, State.STOPPED
                self._page.touch(block)
        result = ended.result
        if isinstance(result.error, Unresolved):
            self.add(Kind.TROUBLE, f"nothing was sent; {RETRY}, or say something else")
        elif result.ending is Ending.FAILED:
            self.add(Kind.TROUBLE, f"{result.error or result.reason}; {RETRY}")
        elif result.ending is Ending.INTERRUPTED:
            self.add(Kind.NOTICE, _INTERRUPTED)
        elif result.ending is Ending.DONE and result.reason:
            self.add(Kind.NOTICE, result.reason)

    def _end_shell(self, ended: ShellEnded) -> None:
        if self._shell is not None:
            self._shell.is_open = False
            self._shell.state = State.DONE if ended.status == 0 else State.FAILED
            self._page.touch(self._shell)

    # -- what is being said ------------------------------------------------------------------

    def _saying(self, kind: Kind, index: int | None) -> Block:
        """Return the block for what is being said now; it is on the page from its first word."""
        block = self._said.get((kind, index))
        if block is None:
            match kind:
                case Kind.ANSWER:
                    block = answer()
                case Kind.THINKING:
                    block = thinking()
                case _:
                    block = Block(kind, is_folded=True)
            block.is_open = True
            self._said[kind, index] = block
            self._page.add(block)
        return block

    def _say(self, block: Block, text: str) -> None:
        block.say(text)
        self._page.touch(block)

    def _write_call(self, index: int | None, name: str) -> None:
        block = self._saying(Kind.CALL, index)
        if name and not block.head:
            block.head = f"{on_one_line(name)} …"
            self._page.touch(block)

    def _settle(self, entry: Entry, message: AssistantMessage) -> None:
        """Let what was said become what is on record: each part where it stood."""
        blocks = blocks_of_answer(entry, message, self._image_of)
        drafts = list(self._said.values())
        for number, block in enumerate(blocks):
            draft = next((one for one in drafts if one.kind is block.kind), None)
            if draft is None:
                self._page.add(block)
                continue
            drafts.remove(draft)
            _become(draft, block)
            blocks[number] = draft
            self._page.touch(draft)
        self._take_calls(message, blocks)
        self._said.clear()
        for draft in drafts:
            self._page.drop(draft)

    def _drop_drafts(self) -> None:
        """Take away what was said and never recorded."""
        for draft in self._said.values():
            self._page.drop(draft)
        self._said.clear()

    def _set(self, call_id: str, state: State) -> None:
        if (block := self._calls.get(call_id)) is not None:
            block.state = state
            self._page.touch(block)

    def _start_call(self, call_id: str) -> None:
        block = self._calls.get(call_id)
        if block is None:
            return
        block.state, block.is_open = State.RUNNING, True
        self._page.touch(block)


def _become(draft: Block, block: Block) -> None:
    """Let a draft show what a block shows; whether it is folded is for the person to say."""
    draft.pieces.clear()
    draft.head, draft.body, draft.form = block.head, block.body, block.form
    draft.language, draft.state, draft.images = block.language, block.state, block.images
    draft.entry, draft.is_open = block.entry, False
