"""Encode requests for the OpenAI Responses API.

A message of a user or a tool is one item, a turn of the model as many as it had. The text of a
single leading system message is sent as `instructions`.
"""

from __future__ import annotations

from typing import Any, Final, assert_never, final

import msgspec
from msgspec import Raw

from steno.json_object import is_json_text
from steno.messages.call import NO_ARGUMENTS, InvalidToolCall, ToolCall
from steno.messages.change import ChangeCode
from steno.messages.content import FileReference, Image, Opaque, Resource, Text, Thinking
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
from steno.wire.extras import FORM_KEY, merge_extras, pop_form, select_extras
from steno.wire.openai_responses.items import build_summary, find_custom_call_ids, is_custom_call
from steno.wire.openai_responses.payload import (
    CUSTOM_TOOL_CALL,
    CUSTOM_TOOL_CALL_OUTPUT,
    FUNCTION_CALL_OUTPUT,
    ITEM_EXTRAS,
    ITEM_TYPE_NOTE,
    LEGAL_ID,
    LEGAL_NAME,
    NAME,
    PART_NOTE,
    PROVIDER,
    PROVIDER_NOTE,
)
from steno.wire.report import ChangeCollector, EncodedRequest
from steno.wire.request_encoder import (
    WHOLE_MESSAGE_KIND,
    MessageWriter,
    RequestTarget,
    call_name,
    compact_pieces,
    encode_json,
    image_url,
    is_sendable,
    reference_text,
    wire_id,
)
from steno.wire.request_encoder import Encoder as BaseEncoder
from steno.wire.tools_and_settings import (
    drop_none,
    function_name,
    write_function,
    write_tool_choice,
    write_tools,
)

_CUT_OFF_REASONS: Final = frozenset(
    {StopReason.LENGTH, StopReason.ERROR, StopReason.ABORTED, StopReason.UNKNOWN}
)
ItemJson = dict[str, Any]


def encode_request(
    request: Request, *, provider: str = PROVIDER, stream: bool | None = None
) -> EncodedRequest:
    """Encode one request; an `Encoder` does the same for every turn of a conversation."""
    return Encoder(provider).encode(request, stream=stream)


@final
class Encoder(BaseEncoder):
    """Encodes the requests of a conversation, each message once."""

    def __init__(self, provider: str = PROVIDER) -> None:
        """Take the name of the provider: seals of other providers are not sent."""
        super().__init__()
        self._provider = provider

    def _target(self, request: Request) -> RequestTarget:
        return RequestTarget(self._provider, NAME, request.model)

    def _new_writer(self, target: RequestTarget) -> MessageWriter:
        return InputItemWriter(target)

    def _body(
        self, request: Request, messages: bytes, losses: ChangeCollector, *, stream: bool | None
    ) -> bytes:
        extras = select_extras(request, NAME, losses)
        form = pop_form(extras)
        members = _write_settings(request, extras, losses) | drop_none(stream=stream)
        # Messages last: the body of the next turn then begins with the bytes of this one.
        head = encode_json(merge_extras(members, extras, losses))[:-1]
        if not messages and form.get("input") == "absent":
            return head + b"}"
        comma = b"," if len(head) > 1 else b""
        return b"".join([head, comma, b'"input":', *_write_input(request, messages, form), b"}"])


def _write_input(request: Request, messages: bytes, form: dict[str, Any]) -> tuple[bytes, ...]:
    first, last = request.messages[0], request.messages[-1]
    is_alone = len(request.messages) == (1 if _get_instructions(first) is None else 2)
    if (
        form.get("input") == "string"
        and is_alone
        and last == UserMessage((Text(last.text or " "),))
    ):
        return (encode_json(last.text),)
    return b"[", messages, b"]"


def _write_settings(
    request: Request, extras: dict[str, Any], losses: ChangeCollector
) -> dict[str, Any]:
    members = drop_none(
        model=request.model or None,
        instructions=_get_instructions(request.messages[0]),
        max_output_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
    )
    if request.stop:
        losses.note(ChangeCode.SETTING, "stop_left_out", at=".stop")
    members |= write_tools(request, extras, lambda tool, at: _write_tool(tool, losses, at))
    return members | write_tool_choice(
        request, lambda tool: {"type": "function", "name": _write_tool_name(tool, losses)}
    )


def _write_tool(tool: ToolDefinition, losses: ChangeCollector, at: str) -> dict[str, Any]:
    extras = select_extras(tool, NAME, losses, at=at)
    form = pop_form(extras)
    # Always written: the default of this API is strict.
    function = write_function(tool, _write_tool_name(tool, losses, at=at)) | {"strict": tool.strict}
    for name in form.get("absent", ()):
        function.pop(name, None)
    return {"type": "function"} | function | extras


def _write_tool_name(tool: ToolDefinition, losses: ChangeCollector, *, at: str = "") -> str:
    return function_name(tool, NAME, LEGAL_NAME, losses, at=at)


def _get_instructions(message: Message) -> str | None:
    """Return the text of a message that is sent as `instructions` if it is the first; else None."""
    if not isinstance(message, SystemMessage) or len(message.content) != 1:
        return None
    mine = (message.extras or {}).get(NAME)
    if mine is not None and mine != {FORM_KEY: {"place": "instructions"}}:
        return None
    return None if NAME in (message.content[0].extras or {}) else message.text


# -- messages --------------------------------------------------------------------------------------


@final
class InputItemWriter(MessageWriter):
    """Writes the items of messages, without the one that is sent as `instructions`."""

    def __init__(self, target: RequestTarget) -> None:
        super().__init__(target)
        self._written: list[bytes] = []
        self._is_first = True
        self._sent_ids: dict[str, str] = {}
        """The ids under which calls were sent."""
        self._custom_call_ids: set[str] = set()
        """The ids of calls of custom tools."""

    def add(self, message: Message) -> None:
        """Write one more message."""
        is_first, self._is_first = self._is_first, False
        match message:
            case SystemMessage():
                item = self._write_prompt(message)
                if not is_first or _get_instructions(message) is None:
                    self._write(item)
            case UserMessage():
                self._write(self._write_user(message))
            case AssistantMessage():
                self._custom_call_ids |= find_custom_call_ids(message.content)
                for part in TurnItemWriter(
                    message, self.target, self.losses, self._sent_ids
                ).write_items():
                    self._write(part)
            case ToolResultMessage():
                self._write(self._write_result(message))
            case _:
                assert_never(message)

    def finish(self) -> bytes:
        """Return everything written; more may follow."""
        self._written = compact_pieces(self._written)
        return b",".join(self._written)

    def _write(self, item: ItemJson | Raw | None) -> None:
        if item is not None:
            self._written.append(encode_json(item))

    # -- users and tools ---------------------------------------------------------------------

    def _write_user(self, message: UserMessage) -> ItemJson | Raw | None:
        first = message.content[0]
        if (
            isinstance(first, Opaque)
            and first.kind == WHOLE_MESSAGE_KIND
            and message.extras is None
        ):
            sendable = is_sendable(first, NAME, self.losses, at=".content[0]")
            return Raw(first.raw.encode()) if sendable else None
        return self._write_prompt(message)

    def _write_prompt(self, message: SystemMessage | UserMessage) -> ItemJson:
        extras = select_extras(message, NAME, self.losses)
        form = pop_form(extras)
        head = drop_none(type=form.get("type"), role=message.role.value)
        return head | self._write_content(message.content, "content", form) | extras

    def _write_result(self, message: ToolResultMessage) -> ItemJson:
        extras = select_extras(message, NAME, self.losses)
        form = pop_form(extras)
        output = self._write_content(message.content, "output", form)
        if message.is_error:
            self.losses.note(ChangeCode.OUTCOME, "not_sent", value=message.outcome.value)
            output = output if output["output"] else {"output": str(message.outcome)}
        call_id = self._write_call_id(message.tool_call_id, form)
        kind = (
            CUSTOM_TOOL_CALL_OUTPUT
            if message.tool_call_id in self._custom_call_ids
            else FUNCTION_CALL_OUTPUT
        )
        return {"type": kind, "call_id": call_id} | output | extras

    def _write_call_id(self, id: str, form: ItemJson) -> str:
        """Return the id that the call of a result was sent under."""
        sent = self._sent_ids.get(id, id if form.get("call_id") == id else None)
        if sent is None:
            return wire_id(id, LEGAL_ID, self.losses)
        if sent != id:
            self.losses.note(ChangeCode.CALL_ID, "replaced", value=sent)
        return sent

    def _write_content(
        self, blocks: tuple[UserBlock | ResultBlock, ...], name: str, form: ItemJson
    ) -> ItemJson:
        """Write a single plain text as a string, unless it came as a list."""
        parts: list[ItemJson | Raw] = []
        for number, block in enumerate(blocks):
            parts += self._write_part(block, f".content[{number}]")
        if name in form:
            return {name: parts}
        if not parts:
            return {name: ""}
        only = parts[0]
        if len(parts) == 1 and isinstance(only, dict) and only.keys() == {"type", "text"}:
            return {name: only["text"]}
        return {name: parts}

    def _write_part(self, block: UserBlock | ResultBlock, at: str) -> list[ItemJson | Raw]:
        match block:
            case Text():
                if block.seal is not None:
                    self.losses.note(ChangeCode.SEAL, "no_place_in_prompt", at=at)
                extras = select_extras(block, NAME, self.losses, at=at)
                return [{"type": "input_text", "text": block.text} | extras]
            case Image():
                url = image_url(block)
                if url is None:
                    self.losses.note(ChangeCode.IMAGE, "bytes_missing", at=at)
                    return []
                extras = select_extras(block, NAME, self.losses, at=at)
                # The types of OpenAI require the detail; recordings of other servers lack it.
                detail = {} if extras.pop(FORM_KEY, None) else {"detail": "auto"}
                return [{"type": "input_image", "image_url": url} | detail | extras]
            case FileReference() | Resource():
                return [{"type": "input_text", "text": reference_text(block, self.losses, at=at)}]
            case Opaque():
                if is_sendable(block, NAME, self.losses, at=at):
                    return [Raw(block.raw.encode())]
                return []
            case _:
                assert_never(block)


# -- turns of the model ----------------------------------------------------------------------------


@final
class TurnItemWriter:
    """Writes one turn of the model."""

    def __init__(
        self,
        message: AssistantMessage,
        target: RequestTarget,
        losses: ChangeCollector,
        sent_ids: dict[str, str],
    ) -> None:
        self._message = message
        self._sent_ids = sent_ids
        """The ids under which calls are sent, for their results."""
        self._target = target
        self._losses = losses
        extras = select_extras(message, NAME, losses)
        form = pop_form(extras)
        if extras:
            losses.note(ChangeCode.EXTRAS, "no_place_in_items")
        self._is_foreign = form.get(PROVIDER_NOTE, PROVIDER) != target.provider
        # The provider refuses an item with an id if the reasoning before it is missing.
        self._drops_ids = self._is_foreign or any(
            isinstance(block, Thinking) and not self._is_from_target(block)
            for block in message.content
        )

    def write_items(self) -> list[ItemJson | Raw]:
        """Return the items of the turn."""
        items: list[ItemJson | Raw] = []
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
                    self._losses.note(ChangeCode.IMAGE, "from_model", at=at)
                case Opaque():
                    self._add_opaque(items, block, at)
                case _:
                    assert_never(block)
        return self._drop_trailing_reasoning(items)

    def _drop_trailing_reasoning(self, items: list[ItemJson | Raw]) -> list[ItemJson | Raw]:
        """Leave out reasoning at the end of a truncated response: the provider refuses it."""
        while items and self._message.stop_reason in _CUT_OFF_REASONS and _is_reasoning(items[-1]):
            self._losses.note(ChangeCode.ORDER, "trailing_thinking")
            items.pop()
        return items

    def _add_text(self, items: list[ItemJson | Raw], block: Text, at: str) -> None:
        if block.seal is not None and not self._target.accepts(block.seal):
            self._losses.note(ChangeCode.SEAL, "other_model", at=at)
        extras = self._select_own_extras(block, at)
        form = pop_form(extras)
        members: ItemJson | None = extras.pop(ITEM_EXTRAS, None)
        if members is not None and form.get("content") == "string" and not extras:
            items.append(
                {"role": "assistant", "content": block.text} | self._write_head(members, form)
            )
        elif members is None and not extras and PART_NOTE not in form:
            # The one form that every server takes: vLLM wants an id with a list of parts, and
            # llama.cpp a type.
            items.append({"type": "message", "role": "assistant", "content": block.text})
        else:
            part = {"type": "output_text", "text": block.text} | extras
            self._add_part(items, part, members, form)

    def _add_opaque(self, items: list[ItemJson | Raw], block: Opaque, at: str) -> None:
        if not is_sendable(block, NAME, self._losses, at=at):
            return
        raw = Raw(block.raw.encode())
        extras = select_extras(block, NAME, self._losses, at=at)
        form = pop_form(extras)
        is_part = ITEM_EXTRAS in extras or PART_NOTE in form
        if is_part and self._is_foreign:
            self._losses.note(ChangeCode.OPAQUE, "other_provider_part", at=at)
        elif is_part:
            self._add_part(items, raw, extras.get(ITEM_EXTRAS), form)
        elif self._drops_ids:
            items += self._without_id(raw, at)
        else:
            items.append(raw)

    def _add_part(
        self,
        items: list[ItemJson | Raw],
        part: ItemJson | Raw,
        members: ItemJson | None,
        form: ItemJson,
    ) -> None:
        last = items[-1] if items else None
        if PART_NOTE in form and isinstance(last, dict) and isinstance(last.get("content"), list):
            last["content"].append(part)
            return
        items.append({"role": "assistant", "content": [part]} | self._write_head(members, form))

    def _write_head(self, members: ItemJson | None, form: ItemJson) -> ItemJson:
        """Return the members of a message item other than its content."""
        if members is None:
            return {"type": "message"}
        return drop_none(type=form.get(ITEM_TYPE_NOTE)) | self._write_members(members)

    def _write_reasoning(self, block: Thinking, at: str) -> list[ItemJson | Raw]:
        if not self._is_from_target(block):
            code = ChangeCode.THINKING if block.seal is None else ChangeCode.SEAL
            self._losses.note(code, "other_model_thinking", at=at)
            return []
        extras = select_extras(block, NAME, self._losses, at=at)
        form = pop_form(extras)
        item: ItemJson = {"type": "reasoning", "summary": build_summary(block.text)}
        if form.get("summary") == "absent":
            del item["summary"]
        if block.seal is not None:
            item["encrypted_content"] = block.seal.data
        return [item | self._write_members(extras)]

    def _is_from_target(self, block: Thinking) -> bool:
        """Return whether thinking is of the target: by its seal, or as an item that it knows."""
        if block.seal is not None:
            return self._target.accepts(block.seal)
        return not self._is_foreign and NAME in (block.extras or {})

    def _write_call(self, call: ToolCall | InvalidToolCall, at: str) -> ItemJson:
        if call.seal is not None and not self._target.accepts(call.seal):
            self._losses.note(ChangeCode.SEAL, "other_model", at=at)
        kind, field = (
            (CUSTOM_TOOL_CALL, "input") if is_custom_call(call) else ("function_call", "arguments")
        )
        extras = self._select_own_extras(call, at)
        form = pop_form(extras)
        item: ItemJson = {
            "type": kind,
            "call_id": self._write_call_id(call.id, form),
            "name": self._write_name(call, form, at),
            field: call.arguments,
        }
        # The item may hold an object where its deltas held other text, which came first.
        if form.get("arguments") == "object" and is_json_text(call.arguments):
            item[field] = Raw(call.arguments.encode())
        elif "blank" in form and call.arguments == NO_ARGUMENTS:
            item[field] = form["blank"]
        for name in form.get("absent", ()):
            if name != "name" or name in form:  # a name is required, unless the recording has none
                del item[name]
        return item | self._write_members(extras)

    def _write_call_id(self, id: str, form: ItemJson) -> str:
        is_kept = form.get("call_id") == id
        sent = self._sent_ids[id] = id if is_kept else wire_id(id, LEGAL_ID, self._losses)
        return sent

    def _write_name(self, call: ToolCall | InvalidToolCall, form: ItemJson, at: str) -> str:
        if "name" in form:
            return str(form["name"])
        return call_name(call, LEGAL_NAME, self._losses, at=at)

    # -- members that only the target knows --------------------------------------------------

    def _select_own_extras(self, block: Text | ToolCall | InvalidToolCall, at: str) -> ItemJson:
        """Return the extras of a block, if the target made it."""
        extras = select_extras(block, NAME, self._losses, at=at)
        if not self._is_foreign or not extras:
            return extras
        self._losses.note(ChangeCode.EXTRAS, "other_provider", at=at)
        return {}

    def _write_members(self, members: ItemJson) -> ItemJson:
        """Return the members of an item, without its id where the provider would refuse it."""
        if not self._drops_ids:
            return members
        return {name: value for name, value in members.items() if name != "id"}

    def _without_id(self, raw: Raw, at: str) -> list[ItemJson | Raw]:
        """Write an item without its id, if it has the id of a call; else leave it out."""
        members: ItemJson = msgspec.json.decode(raw)
        if "call_id" not in members:
            self._losses.note(ChangeCode.OPAQUE, "other_provider_item", at=at)
            return []
        return [self._write_members(members)]


def _is_reasoning(item: ItemJson | Raw) -> bool:
    return isinstance(item, dict) and item.get("type") == "reasoning"
