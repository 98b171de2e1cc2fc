"""Read the messages of a recorded request.

One of theirs may be several of ours, since the results of calls stand in messages of the user.
What was written otherwise than we would write it is noted in its form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Raw

from steno.call import AnyToolCall
from steno.content import Text
from steno.errors import InvalidValue
from steno.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.outcome import Outcome
from steno.wire.anthropic_messages.blocks import (
    assistant_block,
    kind_of,
    noted,
    opaque_block,
    plain_text,
    text_block,
    user_block,
)
from steno.wire.anthropic_messages.shapes import (
    ABSENT,
    AS_IT_WAS,
    IN_MESSAGES,
    JOINS,
    LEGAL_ID,
    NAME,
    PARTS,
)
from steno.wire.open import text_of
from steno.wire.reading import Members, whole_message
from steno.wire.writing import Target

B = TypeVar("B")


def read_messages(raws: list[Raw], target: Target) -> list[Message]:
    """Read messages; one that our vocabulary cannot say is kept whole."""
    found: list[Message] = []
    for raw in raws:
        for position, message in enumerate(_read(raw, target)):
            follows_result = bool(found) and isinstance(found[-1], ToolResultMessage)
            found.append(_placed(message, joins=position > 0, would_join=follows_result))
    if found and isinstance(found[-1], AssistantMessage):
        found[-1] = _keep_end(found[-1])
    return _with_repeated_ids(found)


def _with_repeated_ids(messages: list[Message]) -> list[Message]:
    """Note the ids that several calls have: we would tell them apart."""
    ids = [
        call.id
        for turn in messages
        if isinstance(turn, AssistantMessage)
        for call in turn.tool_calls
    ]
    if len(set(ids)) == len(ids):
        return messages
    repeated = {id for id, count in Counter(ids).items() if count > 1}
    return [
        _with_noted_ids(message, repeated) if isinstance(message, AssistantMessage) else message
        for message in messages
    ]


def _with_noted_ids(message: AssistantMessage, ids: set[str]) -> AssistantMessage:
    blocks = [
        noted(block, "id", block.id)
        if isinstance(block, AnyToolCall) and block.id in ids
        else block
        for block in message.content
    ]
    return msgspec.structs.replace(message, content=tuple(blocks))


def _placed(message: Message, *, joins: bool, would_join: bool) -> Message:
    """Note whether it stood in one message with what came before, where we would not guess so."""
    if joins == would_join or not isinstance(message, (UserMessage, ToolResultMessage)):
        return message
    return noted(message, JOINS, joins)


def _read(raw: Raw, target: Target) -> list[Message]:
    try:
        said = _read_message(Members(raw, "message"), target)
    except InvalidValue:
        said = None
    return said or [whole_message(text_of(raw), NAME)]


def _read_message(members: Members, target: Target) -> list[Message] | None:
    match members.take("role", str):
        case "user":
            return _user(members)
        case "assistant":
            blocks = _content(members, lambda raw: assistant_block(raw, target))
            if blocks is None:
                return None
            return [AssistantMessage(content=blocks, extras=members.extras(NAME))]
        case "system":
            found = _content(members, text_block) or ()
            texts = tuple([text for text in found if text is not None])
            if len(texts) < len(found):
                return None
            members.note_form(IN_MESSAGES, True)
            return [SystemMessage(texts, extras=members.extras(NAME))]
        case _:
            return None


def _keep_end(message: AssistantMessage) -> AssistantMessage:
    """Note that the last words end in blanks, which we would leave out of a turn to go on with."""
    last = message.content[-1]
    if not isinstance(last, Text) or last.text == last.text.rstrip():
        return message
    kept = (*message.content[:-1], noted(last, AS_IT_WAS, True))
    return msgspec.structs.replace(message, content=kept)


def _content(members: Members, read: Callable[[Raw], B]) -> tuple[B | Text, ...] | None:
    """Read the content; a list is noted, since a single text is written as a string."""
    text = members.take("content", str)
    if text is not None:
        return (plain_text(text),)
    parts = members.take_list("content")
    if parts is None:
        return None
    members.note_form("content", PARTS)
    return tuple(map(read, parts))


# -- what the user says, and what tools answer -----------------------------------------------


def _user(members: Members) -> list[Message] | None:
    text = members.take("content", str)
    if text is not None:
        return [UserMessage((plain_text(text),), extras=members.extras(NAME))]
    said: list[Message] = []
    waiting: list[Raw] = []
    for raw in members.take_list("content") or []:
        result = _result(raw) if kind_of(raw) == "tool_result" else None
        if result is None:
            waiting.append(raw)
            continue
        said += _said(waiting)
        said.append(result)
        waiting = []
    said += _said(waiting)
    if not said:
        return None
    if len(said) == 1 and isinstance(said[0], UserMessage):
        members.note_form("content", PARTS)
    extras = members.extras(NAME)
    if isinstance(said[0], UserMessage):
        said[0] = msgspec.structs.replace(said[0], extras=extras)
    elif extras is not None:
        said[0] = noted(said[0], "message", extras[NAME])
    return said


def _said(raws: list[Raw]) -> list[Message]:
    if not raws:
        return []
    try:
        return [UserMessage(tuple(map(user_block, raws)))]
    except InvalidValue:  # nothing but blanks
        return [UserMessage(tuple(map(opaque_block, raws)))]


def _result(raw: Raw) -> ToolResultMessage | None:
    members = Members(raw, "block")
    members.take("type", str)
    call_id = members.take("tool_use_id", str)
    if not call_id:
        return None
    if not LEGAL_ID.fullmatch(call_id):
        members.note_form("id", call_id)
    is_error = members.take("is_error", bool)
    if is_error is False:
        members.note_form("is_error", False)
    if "content" not in members:
        members.note_form("content", ABSENT)
    content = _content(members, user_block)
    return ToolResultMessage(
        tool_call_id=call_id,
        content=content or (),
        outcome=Outcome.ERROR if is_error else Outcome.OK,
        extras=members.extras(NAME),
    )
