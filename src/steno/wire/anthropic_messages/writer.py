"""Write messages, one for each turn; results of calls are words of the user here.

The results of a turn stand in one message, first, and what the user says next joins them there.
Role first and content last, so that a message that grows begins with the same bytes.
"""

from __future__ import annotations

from typing import Any, assert_never, final

from steno.content import Opaque
from steno.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.wire.anthropic_messages.parts import Part, PartWriter, content_of, parts_of
from steno.wire.anthropic_messages.shapes import ABSENT, AS_IT_WAS, IN_MESSAGES, JOINS, NAME, PARTS
from steno.wire.extras import (
    FORM,
    extras_of,
    form_of,
    merge_extras,
    take_form,
    take_inner,
)
from steno.wire.report import Loss, LossCode
from steno.wire.writing import MESSAGE, MessageWriter, Target, dump, gathered, is_sendable


def is_lifted(message: Message) -> bool:
    """Tell whether a message at the start belongs to the system prompt."""
    return isinstance(message, SystemMessage) and not form_of(message, NAME).get(IN_MESSAGES)


@final
class Writer(MessageWriter):
    """Writes one object for each turn."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._blocks = PartWriter(target, self.losses)
        self._written: list[bytes] = []
        self._latest: dict[str, Any] | bytes | None = None
        """The newest message, which may still grow."""
        self._is_leading = True
        self._follows_result = False
        self._keeps_trailing_blanks = False
        """The newest message was recorded with blanks at its end."""
        self._trim_loss: Loss | None = None

    def add(self, message: Message) -> None:
        """Write one more message; those of the system prompt are not among them."""
        if self._is_leading and is_lifted(message):
            return
        self._is_leading = False
        match message:
            case SystemMessage():
                self._add_system(message)
            case UserMessage():
                self._add_user(message)
            case AssistantMessage():
                self._add_assistant(message)
            case ToolResultMessage():
                self._add_result(message)
            case _:
                assert_never(message)
        self._follows_result = isinstance(message, ToolResultMessage)

    def finish(self) -> bytes:
        """Return everything written; more may follow."""
        self._written = gathered(self._written)
        newest = self._trim_trailing_blanks(self._latest)
        return b",".join([*self._written, *([] if newest is None else [_bytes(newest)])])

    def write_system(self, messages: list[SystemMessage]) -> str | list[Part] | None:
        """Return the system prompt that the first messages make up."""
        parts: list[Part] = []
        forms = [form_of(message, NAME) for message in messages]
        for position, message in enumerate(messages):
            self.losses.place = f"messages[{position}]"
            parts += self._blocks.write_user_blocks(message.content)
            if extras_of(message, NAME, self.losses).keys() - {FORM}:
                self.losses.note(LossCode.EXTRAS, "left out members that a prompt has no place for")
        return content_of(parts, forms[0] if forms else {}) or None

    # -- turns -------------------------------------------------------------------------------

    def _add_system(self, message: SystemMessage) -> None:
        extras = extras_of(message, NAME, self.losses)
        form = take_form(extras)
        parts = self._blocks.write_user_blocks(message.content)
        if form.get(IN_MESSAGES):
            self._write("system", content_of(parts, form), extras)
        else:
            self.losses.note(LossCode.SYSTEM, "sent as the words of the user")
            self._write("user", content_of(parts, form), extras, joins=self._follows_result)

    def _add_user(self, message: UserMessage) -> None:
        first = message.content[0]
        if isinstance(first, Opaque) and first.kind == MESSAGE:
            if is_sendable(first, NAME, self.losses, at=".content[0]"):
                self._append(first.raw.encode())
            return
        extras = extras_of(message, NAME, self.losses)
        form = take_form(extras)
        content = content_of(self._blocks.write_user_blocks(message.content), form)
        self._write("user", content, extras, joins=form.get(JOINS, self._follows_result))

    def _add_assistant(self, message: AssistantMessage) -> None:
        extras = extras_of(message, NAME, self.losses)
        form = take_form(extras)
        parts = self._blocks.write_assistant_blocks(message.content)
        self._keeps_trailing_blanks = bool(message.content) and AS_IT_WAS in form_of(message.content[-1], NAME)
        self._write("assistant", content_of(parts, form), extras)

    def _add_result(self, message: ToolResultMessage) -> None:
        extras = extras_of(message, NAME, self.losses)
        form = take_form(extras)
        members: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": self._blocks.result_id(message.tool_call_id, form),
        }
        if message.is_error or "is_error" in form:
            members["is_error"] = message.is_error
        parts = self._blocks.write_user_blocks(message.content)
        if parts or form.get("content") == PARTS:
            members["content"] = content_of(parts, form)
        elif message.is_error and form.get("content") != ABSENT and "content" not in extras:
            members["content"] = str(message.outcome)  # an error without a word is refused
        joins = form.get(JOINS, self._follows_result)
        part = merge_extras(members, extras, self.losses)
        self._write("user", [part], take_inner(form, "message"), joins=joins)

    # -- the message being written -----------------------------------------------------------

    def _write(
        self, role: str, content: str | list[Part], extras: dict[str, Any], *, joins: bool = False
    ) -> None:
        latest = self._latest
        if not content and isinstance(content, list):
            self.losses.note(LossCode.BLANK, "left out a message with nothing in it")
        elif joins and isinstance(latest, dict) and latest["role"] == role:
            latest["content"] = [*parts_of(latest["content"]), *parts_of(content)]
            latest |= extras
        else:
            self._append({"role": role, **extras, "content": content})

    def _append(self, message: dict[str, Any] | bytes) -> None:
        if self._latest is not None:
            self._written.append(_bytes(self._latest))
        self._latest = message

    def _trim_trailing_blanks(self, message: dict[str, Any] | bytes | None) -> dict[str, Any] | bytes | None:
        """Cut blanks off the end of a turn that the model is to go on with: they are refused."""
        if self._trim_loss is not None:
            self.losses.found.remove(self._trim_loss)  # the turn is not the last one any more
            self._trim_loss = None
        if not isinstance(message, dict) or message["role"] != "assistant" or self._keeps_trailing_blanks:
            return message
        parts = parts_of(message["content"])
        last = parts[-1]
        if not isinstance(last, dict) or last["type"] != "text":
            return message
        text = last["text"].rstrip()
        if text == last["text"]:
            return message
        self.losses.note(LossCode.BLANK, "left out the blanks at the end")
        self._trim_loss = self.losses.found[-1]
        if isinstance(message["content"], str):
            return message | {"content": text}
        return message | {"content": [*parts[:-1], last | {"text": text}]}


def _bytes(message: dict[str, Any] | bytes) -> bytes:
    return message if isinstance(message, bytes) else dump(message)
