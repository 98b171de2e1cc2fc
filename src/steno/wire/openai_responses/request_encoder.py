"""Encode requests for the OpenAI Responses API.

A user message or a tool result is one item; an assistant message has as many items as it had in the
response. If the first message is a system message with one text, it is sent as `instructions`.
"""

from __future__ import annotations

from typing import Final, assert_never, final

import msgspec
from msgspec import Raw

from steno.json_object import is_json_text
from steno.messages.call import NO_ARGUMENTS, InvalidToolCall, ToolCall
from steno.messages.change import ChangeCode
from steno.messages.content import Image, Opaque, Text, Thinking
from steno.messages.message import (
    AssistantMessage,
    Message,
    ResultBlock,
    SystemMessage,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.messages.usage import StopReason
from steno.values import FORM_KEY
from steno.wire import request_encoder as base
from steno.wire.extras import Members, pop_form
from steno.wire.openai_responses import payload
from steno.wire.openai_responses.items import build_summary, find_custom_call_ids, is_custom_call
from steno.wire.openai_responses.payload import LEGAL_ID, LEGAL_NAME, NAME, PROVIDER
from steno.wire.request_encoder import ChangeCollector, PartJson, RequestTarget, ValueWriter

_CUT_OFF_REASONS: Final = frozenset(
    {StopReason.LENGTH, StopReason.ERROR, StopReason.ABORTED, StopReason.UNKNOWN}
)


def encode_request(
    request: Request, *, provider: str = PROVIDER, stream: bool | None = None
) -> base.EncodedRequest:
    """Encode one request; use an `Encoder` for the successive requests of a conversation."""
    return Encoder(provider).encode(request, stream=stream)


@final
class Encoder(base.Encoder):
    """Encodes the successive requests of a conversation; each message is encoded only once."""

    def __init__(self, provider: str = PROVIDER) -> None:
        """Set the provider; seals (encrypted reasoning) of other providers are not sent."""
        super().__init__(provider, NAME, InputItemWriter)

    def _body(
        self, request: Request, messages: bytes, values: ValueWriter, *, stream: bool | None
    ) -> bytes:
        extras, form = values.read_extras(request)
        members = _write_settings(request, extras, values) | base.drop_none(stream=stream)
        members = values.merge(members, extras)
        if not messages and form.get("input") == "absent":
            return base.encode_json(members)
        return base.join_body(members, "input", *_write_input(request, messages, form))


def _write_input(request: Request, messages: bytes, form: Members) -> tuple[bytes, ...]:
    first, last = request.messages[0], request.messages[-1]
    is_alone = len(request.messages) == (1 if _get_instructions(first) is None else 2)
    if (
        form.get("input") == "string"
        and is_alone
        and last == UserMessage((Text(last.text or " "),))
    ):
        return (base.encode_json(last.text),)
    return b"[", messages, b"]"


def _write_settings(request: Request, extras: Members, values: ValueWriter) -> Members:
    members = base.drop_none(
        model=request.model or None,
        instructions=_get_instructions(request.messages[0]),
        max_output_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
    )
    if request.stop:
        values.losses.note(ChangeCode.SETTING, "stop_left_out", at=".stop")
    members |= base.write_tools(request, extras, lambda tool, at: _write_tool(tool, values, at))
    return members | base.write_tool_choice(
        request, lambda tool: {"type": "function", "name": values.tool_name(tool, LEGAL_NAME)}
    )


def _write_tool(tool: ToolDefinition, values: ValueWriter, at: str) -> Members:
    extras, form = values.read_extras(tool, at)
    # `strict` is always written, because the default of this API is true.
    function = base.write_function(tool, values.tool_name(tool, LEGAL_NAME, at)) | {
        "strict": tool.strict
    }
    for name in form.get("absent", ()):
        function.pop(name, None)
    return {"type": "function"} | function | extras


def _get_instructions(message: Message) -> str | None:
    """Return the text of the first message to send as `instructions`; None if it is unsuitable.

    A suitable message is a system message with one text that was not recorded as an item.
    """
    if not isinstance(message, SystemMessage) or len(message.content) != 1:
        return None
    mine = (message.extras or {}).get(NAME)
    if mine is not None and mine != {FORM_KEY: {"place": "instructions"}}:
        return None
    return None if NAME in (message.content[0].extras or {}) else message.text


@final
class InputItemWriter(base.MessageWriter):
    """Writes messages as items, except for the message that is sent as `instructions`."""

    def __init__(self, target: RequestTarget) -> None:
        super().__init__(target)
        self._sent_ids: dict[str, str] = {}
        """The ids under which calls were sent, by their ids in the log."""
        self._custom_call_ids: set[str] = set()
        """The ids of custom tool calls."""

    def _is_whole(self, message: UserMessage, first: Opaque) -> bool:
        # A part may also have the type "message"; its message then has a note in its extras.
        return super()._is_whole(message, first) and message.extras is None

    def _add_system(self, message: SystemMessage) -> None:
        item = self._write_prompt(message)
        if self._previous is not None or _get_instructions(message) is None:
            self._written.append(base.encode_json(item))

    def _add_user(self, message: UserMessage) -> None:
        self._written.append(base.encode_json(self._write_prompt(message)))

    def _add_assistant(self, message: AssistantMessage) -> None:
        self._custom_call_ids |= find_custom_call_ids(message.content)
        writer = TurnItemWriter(message, self.target, self.losses, self._sent_ids)
        self._written += map(base.encode_json, writer.write_items())

    def _write_prompt(self, message: SystemMessage | UserMessage) -> Members:
        extras, form = self.read_extras(message)
        head = base.drop_none(type=form.get("type"), role=message.role.value)
        return head | self._write_content(message.content, "content", form) | extras

    def _add_result(self, message: ToolResultMessage) -> None:
        extras, form = self.read_extras(message)
        output = self._write_content(message.content, "output", form)
        if message.is_error:
            self.losses.note(ChangeCode.OUTCOME, "not_sent", value=message.outcome.value)
            output = output if output["output"] else {"output": str(message.outcome)}
        id = message.tool_call_id
        call_id = self._sent_ids.get(id, id if form.get("call_id") == id else None)
        if call_id is None:
            call_id = self.legal_id(id, LEGAL_ID)
        elif call_id != id:
            self.losses.note(ChangeCode.CALL_ID, "replaced", value=call_id)
        is_custom = id in self._custom_call_ids
        kind = payload.CUSTOM_TOOL_CALL_OUTPUT if is_custom else payload.FUNCTION_CALL_OUTPUT
        self._written.append(base.encode_json({"type": kind, "call_id": call_id} | output | extras))

    def _write_content(
        self, blocks: tuple[UserBlock | ResultBlock, ...], name: str, form: Members
    ) -> Members:
        """Return the content as the member `name`.

        A single plain text is written as a string, unless it was recorded as a list.
        """
        parts = self.write_prompt(blocks)
        if name not in form and not parts:
            return {name: ""}
        text = None if name in form else base.get_plain_text(parts)
        return {name: parts if text is None else text}

    def write_text(self, block: Text, at: str) -> list[PartJson]:
        """Write a text block."""
        if block.seal is not None:
            self.losses.note(ChangeCode.SEAL, "no_place_in_prompt", at=at)
        extras = base.select_extras(block, NAME, self.losses, at=at)
        return [{"type": "input_text", "text": block.text} | extras]

    def write_image(self, block: Image, at: str) -> list[PartJson]:
        """Write an image block; the result is empty if neither its URL nor its bytes are known."""
        url = base.image_url(block)
        if url is None:
            self.losses.note(ChangeCode.IMAGE, "bytes_missing", at=at)
            return []
        extras, form = self.read_extras(block, at)
        # OpenAI's SDK requires `detail`; recorded requests to other servers may lack it.
        detail = {} if form else {"detail": "auto"}
        return [{"type": "input_image", "image_url": url} | detail | extras]


@final
class TurnItemWriter(ValueWriter):
    """Writes one assistant message as items."""

    def __init__(
        self,
        message: AssistantMessage,
        target: RequestTarget,
        losses: ChangeCollector,
        sent_ids: dict[str, str],
    ) -> None:
        super().__init__(target, losses)
        self._message = message
        self._sent_ids = sent_ids
        """The ids under which calls are sent, by their ids in the log; results need them."""
        extras, form = self.read_extras(message)
        if extras:
            losses.note(ChangeCode.EXTRAS, "no_place_in_items")
        self._is_foreign = form.get(payload.PROVIDER_NOTE, PROVIDER) != target.provider
        # OpenAI rejects an item with an id if the reasoning item before it is missing.
        self._drops_ids = self._is_foreign or any(
            isinstance(block, Thinking) and not self._is_from_target(block)
            for block in message.content
        )

    def write_items(self) -> list[PartJson]:
        """Return the items of the message."""
        items: list[PartJson] = []
        for at, block in self.model_blocks(self._message.content):
            match block:
                case Text():
                    self._add_text(items, block, at)
                case Thinking():
                    items += self._write_reasoning(block, at)
                case ToolCall() | InvalidToolCall():
                    items.append(self._write_call(block, at))
                case Image():
                    self.losses.note(ChangeCode.IMAGE, "from_model", at=at)
                case Opaque():
                    self._add_opaque(items, block, at)
                case _:
                    assert_never(block)
        # OpenAI rejects a reasoning item without the item that followed it. A truncated response
        # may end in a reasoning item.
        while items and self._message.stop_reason in _CUT_OFF_REASONS:
            last = items[-1]
            if not isinstance(last, dict) or last.get("type") != "reasoning":
                break
            self.losses.note(ChangeCode.ORDER, "trailing_thinking")
            items.pop()
        return items

    def _add_text(self, items: list[PartJson], block: Text, at: str) -> None:
        self.note_foreign_seal(block, at)
        extras = self._select_own_extras(block, at)
        form = pop_form(extras)
        members: Members | None = extras.pop(payload.ITEM_EXTRAS, None)
        if members is not None and form.get("content") == "string" and not extras:
            items.append(
                {"role": "assistant", "content": block.text} | self._write_head(members, form)
            )
        elif members is None and not extras and payload.PART_NOTE not in form:
            # The only form that every server accepts: vLLM requires an id with a list of parts,
            # and llama.cpp requires a type.
            items.append({"type": "message", "role": "assistant", "content": block.text})
        else:
            part = {"type": "output_text", "text": block.text} | extras
            self._add_part(items, part, members, form)

    def _add_opaque(self, items: list[PartJson], block: Opaque, at: str) -> None:
        raw = Raw(block.raw.encode())
        extras, form = self.read_extras(block, at)
        is_part = payload.ITEM_EXTRAS in extras or payload.PART_NOTE in form
        if is_part and self._is_foreign:
            self.losses.note(ChangeCode.OPAQUE, "other_provider_part", at=at, kind=block.kind)
        elif is_part:
            self._add_part(items, raw, extras.get(payload.ITEM_EXTRAS), form)
        elif self._drops_ids:
            # Without its own id, only the id of its call identifies an item.
            members: Members = msgspec.json.decode(raw)
            if "call_id" in members:
                items.append(self._write_members(members))
            else:
                self.losses.note(ChangeCode.OPAQUE, "other_provider_item", at=at, kind=block.kind)
        else:
            items.append(raw)

    def _add_part(
        self, items: list[PartJson], part: PartJson, members: Members | None, form: Members
    ) -> None:
        last = items[-1] if items else None
        if (
            payload.PART_NOTE in form
            and isinstance(last, dict)
            and isinstance(last.get("content"), list)
        ):
            last["content"].append(part)
            return
        items.append({"role": "assistant", "content": [part]} | self._write_head(members, form))

    def _write_head(self, members: Members | None, form: Members) -> Members:
        """Return the members of a message item other than its content."""
        if members is None:
            return {"type": "message"}
        return base.drop_none(type=form.get(payload.ITEM_TYPE_NOTE)) | self._write_members(members)

    def _write_reasoning(self, block: Thinking, at: str) -> list[PartJson]:
        if not self._is_from_target(block):
            code = ChangeCode.THINKING if block.seal is None else ChangeCode.SEAL
            self.losses.note(code, "other_model_thinking", at=at)
            return []
        extras, form = self.read_extras(block, at)
        item: Members = {"type": "reasoning", "summary": build_summary(block.text)}
        if form.get("summary") == "absent":
            del item["summary"]
        if block.seal is not None:
            item["encrypted_content"] = block.seal.data
        return [item | self._write_members(extras)]

    def _is_from_target(self, block: Thinking) -> bool:
        """Return whether thinking is from the target, by its seal or by its recorded item."""
        if block.seal is not None:
            return self.target.accepts(block.seal)
        return not self._is_foreign and NAME in (block.extras or {})

    def _write_call(self, call: ToolCall | InvalidToolCall, at: str) -> Members:
        self.note_foreign_seal(call, at)
        kind, field = (
            (payload.CUSTOM_TOOL_CALL, "input")
            if is_custom_call(call)
            else ("function_call", "arguments")
        )
        extras = self._select_own_extras(call, at)
        form = pop_form(extras)
        is_kept = form.get("call_id") == call.id
        self._sent_ids[call.id] = call.id if is_kept else self.legal_id(call.id, LEGAL_ID)
        item: Members = {
            "type": kind,
            "call_id": self._sent_ids[call.id],
            "name": self.call_name(call, form, LEGAL_NAME, at),
            field: call.arguments,
        }
        # The done item may contain an object although the deltas before it were other text.
        if form.get("arguments") == "object" and is_json_text(call.arguments):
            item[field] = Raw(call.arguments.encode())
        elif "blank" in form and call.arguments == NO_ARGUMENTS:
            item[field] = form["blank"]
        for name in form.get("absent", ()):
            if name != "name" or name in form:  # a name is required, unless none was recorded
                del item[name]
        return item | self._write_members(extras)

    # -- members that only the target knows --------------------------------------------------

    def _select_own_extras(self, block: Text | ToolCall | InvalidToolCall, at: str) -> Members:
        """Return the extras of a block that is from the target's provider.

        Extras of another provider are reported as a loss, and the result is empty.
        """
        extras = base.select_extras(block, NAME, self.losses, at=at)
        if not self._is_foreign or not extras:
            return extras
        self.losses.note(ChangeCode.EXTRAS, "other_provider", at=at)
        return {}

    def _write_members(self, members: Members) -> Members:
        """Return the members of an item, without its id if the provider would reject the id."""
        if not self._drops_ids:
            return members
        return {name: value for name, value in members.items() if name != "id"}
