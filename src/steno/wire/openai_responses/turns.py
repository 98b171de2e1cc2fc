"""Write turns of the model: as many items for each as it had."""

from __future__ import annotations

from typing import Any, Final, assert_never, final

import msgspec
from msgspec import Raw

from steno.call import NO_ARGUMENTS, InvalidToolCall, ToolCall
from steno.content import Image, Opaque, Text, Thinking
from steno.json_object import is_json_text
from steno.message import AssistantMessage
from steno.usage import StopReason
from steno.wire.extras import extras_of, take_form
from steno.wire.functions import given
from steno.wire.openai_responses.item import is_custom, summary_of
from steno.wire.openai_responses.shapes import (
    CUSTOM,
    ITEM,
    LEGAL_ID,
    LEGAL_NAME,
    MADE_BY,
    NAME,
    PART,
    PROVIDER,
    TYPE,
)
from steno.wire.report import LossCode, Losses
from steno.wire.writing import Target, call_name, is_sendable, wire_id

_CUT_OFF: Final = frozenset(
    {StopReason.LENGTH, StopReason.ERROR, StopReason.ABORTED, StopReason.UNKNOWN}
)

Members = dict[str, Any]


@final
class TurnWriter:
    """Writes one turn of the model's."""

    def __init__(
        self, message: AssistantMessage, target: Target, losses: Losses, sent: dict[str, str]
    ) -> None:
        self._message = message
        self._sent_ids = sent
        """The ids under which calls are sent, for their results."""
        self._target = target
        self._losses = losses
        extras = extras_of(message, NAME, losses)
        form = take_form(extras)
        if extras:
            losses.note(LossCode.EXTRAS, "left out members that no item has")
        self._is_foreign = form.get(MADE_BY, PROVIDER) != target.provider
        # An item without the reasoning that it followed is refused, if it says who it was.
        self._drops_ids = self._is_foreign or any(
            isinstance(block, Thinking) and not self._is_from_target(block) for block in message.content
        )

    def write_items(self) -> list[Members | Raw]:
        """Return the items of the turn."""
        items: list[Members | Raw] = []
        for number, block in enumerate(self._message.content):
            at = f".content[{number}]"
            match block:
                case Text():
                    self._add_text(items, block, at)
                case Thinking():
                    items += self._write_reasoning(block, at)
                case ToolCall() | InvalidToolCall():
                    items.append(self._write_call(block, at))
                case Image():
                    self._losses.note(LossCode.IMAGE, "left out an image of the model's", at=at)
                case Opaque():
                    self._add_opaque(items, block, at)
                case _:
                    assert_never(block)
        return self._drop_trailing_reasoning(items)

    def _drop_trailing_reasoning(self, items: list[Members | Raw]) -> list[Members | Raw]:
        """Leave out the reasoning of an answer that was cut off: with nothing behind it is refused."""
        while items and self._message.stop_reason in _CUT_OFF and _is_reasoning(items[-1]):
            self._losses.note(LossCode.ORDER, "left out thinking that nothing follows")
            items.pop()
        return items

    def _add_text(self, items: list[Members | Raw], block: Text, at: str) -> None:
        if block.seal is not None and not self._target.accepts(block.seal):
            self._losses.note(LossCode.SEAL, "left out the seal of another model", at=at)
        extras = self._select_own_extras(block, at)
        form = take_form(extras)
        members: Members | None = extras.pop(ITEM, None)
        if members is not None and form.get("content") == "string" and not extras:
            items.append({"role": "assistant", "content": block.text} | self._write_head(members, form))
        elif members is None and not extras and PART not in form:
            # The one form that every server takes: vLLM wants an id with a list of parts, and
            # llama.cpp a type.
            items.append({"type": "message", "role": "assistant", "content": block.text})
        else:
            part = {"type": "output_text", "text": block.text} | extras
            self._add_part(items, part, members, form)

    def _add_opaque(self, items: list[Members | Raw], block: Opaque, at: str) -> None:
        if not is_sendable(block, NAME, self._losses, at=at):
            return
        raw = Raw(block.raw.encode())
        extras = extras_of(block, NAME, self._losses, at=at)
        form = take_form(extras)
        is_part = ITEM in extras or PART in form
        if is_part and self._is_foreign:
            self._losses.note(LossCode.OPAQUE, "left out a part of another provider's", at=at)
        elif is_part:
            self._add_part(items, raw, extras.get(ITEM), form)
        elif self._drops_ids:
            items += self._without_id(raw, at)
        else:
            items.append(raw)

    def _add_part(
        self,
        items: list[Members | Raw],
        part: Members | Raw,
        members: Members | None,
        form: Members,
    ) -> None:
        last = items[-1] if items else None
        if PART in form and isinstance(last, dict) and isinstance(last.get("content"), list):
            last["content"].append(part)
            return
        items.append({"role": "assistant", "content": [part]} | self._write_head(members, form))

    def _write_head(self, members: Members | None, form: Members) -> Members:
        """Return the members of a message beside what it says, as they were."""
        if members is None:
            return {"type": "message"}
        return given(type=form.get(TYPE)) | self._write_members(members)

    def _write_reasoning(self, block: Thinking, at: str) -> list[Members | Raw]:
        if not self._is_from_target(block):
            code = LossCode.THINKING if block.seal is None else LossCode.SEAL
            self._losses.note(code, "left out what another model thought, and ids with it", at=at)
            return []
        extras = extras_of(block, NAME, self._losses, at=at)
        form = take_form(extras)
        item: Members = {"type": "reasoning", "summary": summary_of(block.text)}
        if form.get("summary") == "absent":
            del item["summary"]
        if block.seal is not None:
            item["encrypted_content"] = block.seal.data
        return [item | self._write_members(extras)]

    def _is_from_target(self, block: Thinking) -> bool:
        """Tell whether the target thought this: by its seal, or as an item that it knows."""
        if block.seal is not None:
            return self._target.accepts(block.seal)
        return not self._is_foreign and NAME in (block.extras or {})

    def _write_call(self, call: ToolCall | InvalidToolCall, at: str) -> Members:
        if call.seal is not None and not self._target.accepts(call.seal):
            self._losses.note(LossCode.SEAL, "left out the seal of another model", at=at)
        kind, field = (CUSTOM, "input") if is_custom(call) else ("function_call", "arguments")
        extras = self._select_own_extras(call, at)
        form = take_form(extras)
        item: Members = {
            "type": kind,
            "call_id": self._write_call_id(call.id, form),
            "name": self._write_name(call, form, at),
            field: call.arguments,
        }
        # The item may have had an object where its deltas said something else, which was first.
        if form.get("arguments") == "object" and is_json_text(call.arguments):
            item[field] = Raw(call.arguments.encode())
        elif "blank" in form and call.arguments == NO_ARGUMENTS:
            item[field] = form["blank"]
        for name in form.get("absent", ()):
            if name != "name" or name in form:  # it has to have one, unless it was recorded so
                del item[name]
        return item | self._write_members(extras)

    def _write_call_id(self, id: str, form: Members) -> str:
        is_kept = form.get("call_id") == id
        sent = self._sent_ids[id] = id if is_kept else wire_id(id, LEGAL_ID, self._losses)
        return sent

    def _write_name(self, call: ToolCall | InvalidToolCall, form: Members, at: str) -> str:
        if "name" in form:
            return str(form["name"])
        return call_name(call, LEGAL_NAME, self._losses, at=at)

    # -- what only the target knows ----------------------------------------------------------

    def _select_own_extras(self, block: Text | ToolCall | InvalidToolCall, at: str) -> Members:
        """Return the extras of a block, if the target made it."""
        extras = extras_of(block, NAME, self._losses, at=at)
        if not self._is_foreign or not extras:
            return extras
        self._losses.note(LossCode.EXTRAS, "left out what another provider added", at=at)
        return {}

    def _write_members(self, members: Members) -> Members:
        """Return the members of an item, without its id if that would have it refused."""
        if not self._drops_ids:
            return members
        return {name: value for name, value in members.items() if name != "id"}

    def _without_id(self, raw: Raw, at: str) -> list[Members | Raw]:
        """Write an item without its id, if it goes by that of a call, which has a result."""
        members: Members = msgspec.json.decode(raw)
        if "call_id" not in members:
            self._losses.note(LossCode.OPAQUE, "left out an item that only its maker knows", at=at)
            return []
        return [self._write_members(members)]


def _is_reasoning(item: Members | Raw) -> bool:
    return isinstance(item, dict) and item.get("type") == "reasoning"
