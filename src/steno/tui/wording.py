"""Entries as blocks: what a person sees of what is on record.

Nothing here is made harmless: that is for whoever draws it. Heads are on one line all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final, assert_never

from steno.agent.limits import RunResult
from steno.agent.revoking import GRANT_REVOKED
from steno.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.captions import called, not_understood, thoughts_of
from steno.content import FileReference, Image, Opaque, Resource, Text, Thinking
from steno.entry import (
    Approval,
    ApprovalStatus,
    BranchSwitch,
    Compaction,
    Entry,
    Feedback,
    Label,
    ModeChange,
    ModelChange,
    Redacted,
    Redaction,
    Repair,
    Resolution,
    ResolutionStatus,
)
from steno.message import AssistantMessage, SystemMessage, ToolResultMessage, UserMessage
from steno.outcome import Outcome
from steno.printable import counted, on_one_line
from steno.tui.block import Block, Form, ImageAt, Kind, State
from steno.tui.call_head import arguments_of, head_of_call
from steno.usage import StopReason
from steno.views import SHELL, STATUS

RETRY: Final = "/retry tries again"
INTERRUPTED: Final = f"interrupted; what was said and done is kept, and {RETRY} or goes on"
_GO_ON: Final = " (max_tokens); say: go on. --max-tokens allows more"
_MOST_UNFOLDED: Final = 20
"""How many lines of a diff are seen before anybody asks for them."""
_LINES_OF_FAILURE: Final = 5
_CHARACTERS_OF_FAILURE: Final = 500
"""What a call that failed says is seen if it is no more: it says why."""
_STATES: Final = {
    Outcome.OK: State.DONE,
    Outcome.DENIED: State.DENIED,
    Outcome.CANCELLED: State.STOPPED,
    Outcome.SKIPPED: State.STOPPED,
}


# -- calls -----------------------------------------------------------------------------------


def block_of_call(call: AnyToolCall, entry: str | None = None) -> Block:
    """Return a call that nothing is known of yet but what it asks for."""
    block = Block(Kind.CALL, head=head_of_call(call), is_folded=True, entry=entry)
    if isinstance(call, InvalidToolCall):
        block.state, block.body = State.FAILED, f"{call.reason}\n{call.arguments}"
        return block
    arguments = arguments_of(call)
    if call.name == "write" and isinstance(content := arguments.get("content"), str):
        block.body, block.form = content, Form.CODE
        block.language = PurePath(str(arguments.get("path", ""))).suffix.removeprefix(".")
    elif call.name == "edit" and {"old", "new"} <= arguments.keys():
        block.body, block.form = _as_diff(str(arguments["old"]), str(arguments["new"])), Form.DIFF
    return block


def _as_diff(old: str, new: str) -> str:
    removed = [f"-{line}" for line in old.splitlines()]
    return "\n".join([*removed, *[f"+{line}" for line in new.splitlines()]])


def put_result(block: Block, result: ToolResultMessage, entry: str) -> None:
    """Let a call show what came of it."""
    block.is_open = False
    block.state = _STATES.get(result.outcome, State.FAILED)
    details = result.details or {}
    diff = details.get("diff")
    if result.outcome is Outcome.OK and isinstance(diff, str) and diff.strip():
        block.replace_body(_below_its_name(diff, block.head), Form.DIFF)
        block.is_folded = block.body.count("\n") > _MOST_UNFOLDED
        block.note = _change_in_words(details)
    elif block.form is Form.PLAIN or result.outcome is not Outcome.OK:
        block.replace_body(result.text, Form.PLAIN)
        block.is_folded = block.is_folded and not _says_why(block)
    else:
        block.replace_body(block.body, block.form)
    block.images = images_of(result.content, entry)


def _says_why(block: Block) -> bool:
    """Tell whether a call failed, and a few lines say why."""
    is_short = 0 < len(block.body) <= _CHARACTERS_OF_FAILURE
    lines = block.body.strip("\n").count("\n") + 1
    return block.state is State.FAILED and is_short and lines <= _LINES_OF_FAILURE


def _change_in_words(details: Mapping[str, Any]) -> str:
    """Return how many lines came and went."""
    added, removed = details.get("added"), details.get("removed")
    is_counted = isinstance(added, int) and isinstance(removed, int)
    return f"+{added:,} \N{MINUS SIGN}{removed:,}" if is_counted else ""


def _below_its_name(diff: str, head: str) -> str:
    """Return a diff without the name of the file, if the head above it ends in that name."""
    old, _, rest = diff.partition("\n")
    new, _, changes = rest.partition("\n")
    is_named = old.startswith("--- ") and new.startswith("+++ ")
    return changes if is_named and head.endswith(f" {new[4:]}") else diff


def put_decision(block: Block, approval: Approval) -> None:
    """Let a call show what was decided about it."""
    if approval.status is ApprovalStatus.PENDING:
        block.state = State.WAITING
    elif approval.status is ApprovalStatus.DENIED:
        block.state = State.DENIED
    elif block.state is State.WAITING:
        block.state = None


# -- messages --------------------------------------------------------------------------------


def block_of_prompt(entry: Entry, message: UserMessage) -> Block:
    """Return what a person said, or the command that they ran."""
    command = None if entry.audit is None else entry.audit.get(SHELL)
    if isinstance(command, str):
        status = None if entry.audit is None else entry.audit.get(STATUS)
        block = block_of_command(command)
        block.entry = entry.id
        put_status(block, status)
        block.body = (message.text or "").partition("\n")[2]
        return block
    pointers = [f"[{name_of(one)}]" for one in message.content if not isinstance(one, Text)]
    words = "\n".join(filter(None, [message.text, "  ".join(pointers)]))
    images = images_of(message.content, entry.id)
    return Block(Kind.USER, body=words, is_folded=True, entry=entry.id, images=images)


def block_of_command(command: str) -> Block:
    """Return a command of the person of which nothing has come yet."""
    return Block(Kind.SHELL, head=f"$ {on_one_line(command)}", is_folded=True)


def put_status(block: Block, status: object) -> None:
    """Let a command of the person show how it has ended; without a status it was stopped."""
    if status is None:
        block.state = State.STOPPED
    elif status == 0:
        block.state = State.DONE
    else:
        block.state, block.note = State.FAILED, f"exit {status}"


def blocks_of_answer(entry: Entry, message: AssistantMessage) -> list[Block]:
    """Return what a model said, part by part; a call has its place among them."""
    return [
        block
        for number, part in enumerate(message.content)
        if (block := _block_of_part(part, entry.id, number)) is not None
    ]


def _block_of_part(
    part: Text | Thinking | ToolCall | InvalidToolCall | Image | Opaque,
    entry: str,
    number: int,
) -> Block | None:
    match part:
        case Text():
            return answer(part.text, entry) if part.text.strip() else None
        case Thinking():
            words = thoughts_of(part)
            return thinking(words, entry) if words.strip() else None
        case ToolCall() | InvalidToolCall():
            return block_of_call(part, entry)
        case Image():
            images = (ImageAt(entry, number),)
            return Block(Kind.ANSWER, body=f"[{called(part)}]", entry=entry, images=images)
        case Opaque():
            return Block(Kind.MARK, head=not_understood(part), entry=entry)
        case _:
            assert_never(part)


def answer(text: str = "", entry: str | None = None) -> Block:
    """Return words of a model."""
    return Block(Kind.ANSWER, body=text, form=Form.MARKDOWN, entry=entry)


def thinking(text: str = "", entry: str | None = None) -> Block:
    """Return what a model thought."""
    return Block(Kind.THINKING, head="thinking", body=text, is_folded=True, entry=entry)


def name_of(block: object) -> str:
    """Return what something is called that a message points at."""
    match block:
        case FileReference() | Image() | Resource():
            return called(block)
        case Opaque():
            return not_understood(block)
        case _:
            return "something else"


def images_of(content: tuple[object, ...], entry: str) -> tuple[ImageAt, ...]:
    """Return where the images are that a message holds."""
    return tuple([ImageAt(entry, n) for n, part in enumerate(content) if isinstance(part, Image)])


# -- everything else -------------------------------------------------------------------------


def mark_of(entry: Entry, *, pointer: str = "") -> Block | None:
    """Return what an entry says that is no message and about no call; None where it is for itself.

    What a branch went back behind is not on it any more, and nobody is told so: the tree has it.
    `pointer` names what a resolution is about.
    """
    payload = entry.payload
    match payload:
        case SystemMessage():
            words = payload.text or ""
            head = f"system prompt · {counted(len(words.split()), 'word', 'words')}"
            return Block(Kind.MARK, head=head, body=words, is_folded=True, entry=entry.id)
        case ModeChange():
            return _mark(entry, f"{payload.new} mode")
        case ModelChange() if payload.old:  # who answers first is no change
            return _mark(entry, f"{payload.new} answers")
        case BranchSwitch():
            return _mark(entry, f"branch {payload.new}")
        case Label():
            return _mark(entry, f"label: {payload.text}")
        case Compaction():
            block = _mark(entry, "a summary takes the place of what was said before")
            block.body, block.form, block.is_folded = payload.summary, Form.MARKDOWN, True
            return block
        case Feedback():
            return Block(Kind.NOTICE, body=f"remark: {payload.text}", entry=entry.id)
        case Repair(code=code) if (
            code == GRANT_REVOKED
        ):  # nothing was broken: somebody wanted it so
            return _mark(entry, payload.explanation)
        case Repair():
            return Block(Kind.NOTICE, body=f"mended: {payload.explanation}", entry=entry.id)
        case Redacted():
            return _mark(entry, f"taken out: {payload.kind}")
        case Redaction():
            return _mark(entry, f"taken out by {payload.actor}: {payload.reason}")
        case Resolution():
            return _finding(entry, payload, pointer)
        case Opaque():
            return _mark(entry, not_understood(payload))
        case _:
            return None


def _mark(entry: Entry, text: str) -> Block:
    return Block(Kind.MARK, head=on_one_line(text), entry=entry.id)


def reason_of(result: RunResult) -> str:
    """Return why a run is over, or its last answer not whole, and how to go on; empty if all is well."""
    message = result.message
    is_cut = message is not None and message.stop_reason is StopReason.LENGTH
    return f"{result.reason}{_GO_ON}" if is_cut and result.reason else result.reason


def _finding(entry: Entry, resolution: Resolution, pointer: str) -> Block | None:
    """Return what became of something that a message points at, where a person should know."""
    if resolution.status is ResolutionStatus.FAILED:
        text = f"{pointer}: failed: {resolution.error}; {RETRY}"
        return Block(Kind.ERROR, body=text, entry=entry.id)
    details = resolution.details or {}
    if resolution.status is ResolutionStatus.RESOLVED and details.get("used") == "ocr":
        return Block(Kind.NOTICE, body=f"{pointer}: the model reads the text in it", entry=entry.id)
    return None
