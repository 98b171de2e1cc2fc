"""Encode requests for the Gemini API.

Messages become contents with the roles `user` and `model`, and every block becomes one part. A seal
(a thought signature) is sent only to the model that issued it. Gemini 3 rejects a step whose first
call has no signature, so a call of another model gets the placeholder that Google documents for
this case. A call that the target itself made without a signature is sent unchanged, and so is
recorded content.
"""

from __future__ import annotations

import base64
from typing import Any, Final, assert_never, final

from msgspec import Raw

from steno.json_object import is_json_text
from steno.messages.call import AnyToolCall, InvalidToolCall, Seal, ToolCall
from steno.messages.change import ChangeCode
from steno.messages.content import (
    FileReference,
    Image,
    ImageData,
    ImageUrl,
    Opaque,
    Resource,
    Text,
    Thinking,
)
from steno.messages.message import AssistantMessage, SystemMessage, ToolResultMessage, UserMessage
from steno.messages.request import Request
from steno.wire import request_encoder as base
from steno.wire.extras import Members, pop_object
from steno.wire.gemini.parts import restore_case, to_camel_case, to_snake_case
from steno.wire.gemini.payload import (
    FUNCTION_CALL,
    FUNCTION_RESPONSE,
    LEGAL_NAME,
    NAME,
    PROVIDER,
    SIGNATURE_SENTINEL,
    THOUGHT_SIGNATURE,
)
from steno.wire.gemini.tools import LAYOUT_NOTE, write_tools
from steno.wire.request_encoder import ChangeCollector, PartJson, RequestTarget, ValueWriter
from steno.wire.tolerant import read_members

_CALLING_CONFIG: Final = "functionCallingConfig"
_NESTED_OBJECTS: Final = ("generationConfig", "toolConfig", _CALLING_CONFIG)
_MODE_BY_TOOL_CHOICE: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_SCHEMA_ENFORCING_MODES: Final = ("ANY", "VALIDATED")
"""The modes in which constrained decoding enforces the schemas of the tools."""


def encode_request(
    request: Request, *, provider: str = PROVIDER, stream: bool | None = None
) -> base.EncodedRequest:
    """Encode one request; use an `Encoder` for the successive requests of a conversation."""
    return Encoder(provider=provider).encode(request, stream=stream)


@final
class Encoder(base.Encoder):
    """Encodes the successive requests of a conversation; each message is encoded only once.

    The URL, not the body, names the model and selects streaming.
    """

    def __init__(self, *, provider: str = PROVIDER) -> None:
        """Set the provider; seals of other providers are not sent."""
        super().__init__(provider, NAME, ContentsWriter)

    def _body(
        self, request: Request, messages: bytes, values: ValueWriter, *, stream: bool | None
    ) -> bytes:
        extras, form = values.read_extras(request)
        members = _write_settings(request, extras, form, values)
        contents = self._writer
        assert isinstance(contents, ContentsWriter)  # it has written the messages
        if contents.system is not None:
            members["systemInstruction"] = contents.system
        members = _restore_nested_case(members, form)
        # Extras are written in their recorded case, unless a member has the name in another case.
        names = {to_camel_case(name): name for name in members}
        spelled = {names.get(to_camel_case(name), name): value for name, value in extras.items()}
        members = values.merge(members, spelled)
        if form.get("contents") == "object" and contents.count == 1:
            return base.join_body(members, "contents", messages)
        return base.join_body(members, "contents", b"[", messages, b"]")


def _write_settings(
    request: Request, extras: Members, form: Members, values: ValueWriter
) -> Members:
    """Return the members for the settings and tools, merged with the extras nested in them.

    These extras are removed from `extras`.
    """
    members: Members = {}
    if form.get("model") == "body":
        members["model"] = request.model
    tools = write_tools(request, form.get("tools", form.get(LAYOUT_NOTE)), values)
    if tools is not None:
        others = extras.pop("tools", None) if isinstance(extras.get("tools"), list) else None
        members["tools"] = tools + (others or [])
    settings = base.drop_none(
        maxOutputTokens=request.max_tokens,
        temperature=request.temperature,
        topP=request.top_p,
        stopSequences=list(request.stop) or None,
    )
    calling = _write_tool_choice(request, values)
    for name, found in (("generationConfig", settings), ("toolConfig", calling)):
        spelled = (name, to_snake_case(name))
        kept = next((extras.pop(n) for n in spelled if isinstance(extras.get(n), dict)), None)
        if found or kept is not None:
            members[name] = _merge_nested(found, kept or {}, values, f".{name}")
    mode = _get_calling_config(members.get("toolConfig", {})).get("mode")
    if mode not in _SCHEMA_ENFORCING_MODES:
        for number, tool in enumerate(request.tools):
            values.note_unenforced_schema(tool, f".tools[{number}]")
    return members


def _write_tool_choice(request: Request, values: ValueWriter) -> Members:
    choice = request.tool_choice
    if choice is None:
        return {}
    if choice in _MODE_BY_TOOL_CHOICE:
        return {_CALLING_CONFIG: {"mode": _MODE_BY_TOOL_CHOICE[choice]}}
    names = [values.tool_name(tool, LEGAL_NAME) for tool in request.tools if tool.name == choice]
    return {_CALLING_CONFIG: {"mode": "ANY", "allowedFunctionNames": names or [choice]}}


def _merge_nested(ours: Members, kept: Members, values: ValueWriter, at: str) -> Members:
    """Merge members of the request with extras, including the nested calling config."""
    if _CALLING_CONFIG in ours:
        both = values.merge(ours[_CALLING_CONFIG], _get_calling_config(kept), at)
        ours, kept = {_CALLING_CONFIG: both}, kept | {_CALLING_CONFIG: both}
    return values.merge(ours, kept, at)


def _get_calling_config(config: Members) -> Members:
    found = config.get(_CALLING_CONFIG)
    return found if isinstance(found, dict) else {}


def _restore_nested_case(members: Members, form: Members) -> Members:
    inner = {
        name: _restore_nested_case(members[name], form)
        for name in _NESTED_OBJECTS
        if isinstance(members.get(name), dict)
    }
    return restore_case(members | inner, form)


@final
class ContentsWriter(base.MessageWriter):
    """Writes messages as contents; the results of a turn share one content.

    Leading system messages become the system instruction.
    """

    def __init__(self, target: RequestTarget) -> None:
        super().__init__(target)
        self.system: Members | None = None
        """The system instruction, which is not part of the contents."""
        self.count: int = 0
        """The number of contents."""
        self._blocks = PartWriter(target, self.losses)

    def _add_raw(self, message: Members | bytes) -> None:
        super()._add_raw(message)
        self.count += 1

    def _write(
        self,
        role: str,
        parts: list[PartJson],
        members: Members,
        form: Members,
        *,
        joins: bool = False,
    ) -> None:
        """Write parts as a new content, or append them to the latest content."""
        joins = form.get("content", "joined" if joins else "own") == "joined"
        if joins and self._latest is not None:
            self._latest["parts"] += parts
            return
        named: str | None = form.get("role", role)
        content = ({} if named is None else {"role": named}) | members
        if form.get("parts") == "object" and len(parts) == 1:
            self._add_raw(base.encode_json({**content, "parts": parts[0]}))
        else:
            self._add_raw({**content, "parts": parts})

    # -- messages ----------------------------------------------------------------------------

    def _add_system(self, message: SystemMessage) -> None:
        extras, form = self.read_extras(message)
        parts = self._blocks.write_prompt(message.content)
        if self._written or self._latest is not None:
            self.losses.note(ChangeCode.SYSTEM, "sent_as_user")
            self._write("user", parts, {}, {})
        elif self.system is not None:
            earlier = self.system["parts"]
            self.system["parts"] = [*(earlier if isinstance(earlier, list) else [earlier]), *parts]
        else:
            is_object = form.get("parts") == "object" and len(parts) == 1
            self.system = {**extras, "parts": parts[0] if is_object else parts}

    def _add_user(self, message: UserMessage) -> None:
        extras, form = self.read_extras(message)
        parts = self._blocks.write_prompt(message.content)
        if parts:
            self._write("user", parts, extras, form)

    def _add_assistant(self, message: AssistantMessage) -> None:
        extras, form = self.read_extras(message)
        parts: list[PartJson] = []
        is_first = True
        for at, block in self._blocks.model_blocks(message.content):
            match block:
                case Text() | Thinking():
                    parts += self._blocks.write_assistant_text(block, at)
                case ToolCall() | InvalidToolCall():
                    parts.append(self._blocks.write_call(block, at, is_first=is_first))
                    is_first = False
                case Image():
                    parts += self._blocks.write_image(block, at)
                case Opaque():
                    parts += self._blocks.write_opaque(block, at)
                case _:
                    assert_never(block)
        if parts:
            self._write("model", parts, extras, form)
        else:
            self.losses.note(ChangeCode.ORDER, "empty_turn")

    def _add_result(self, message: ToolResultMessage) -> None:
        extras, form = self.read_extras(message)
        texts, media = self._write_result_content(message)
        self._blocks.anonymous_calls.add_result(message.tool_call_id)
        known = self._blocks.sent_calls.get(message.tool_call_id)
        id, name = known or (message.tool_call_id, message.tool_name)
        is_object = form.get("media") == "object" and len(media) == 1
        some = media if media or form.get("media") == "empty" else None
        inner = base.drop_none(
            id=form.get("id", id),
            name=form.get("name", name),
            response=_write_response(message, "\n".join(texts), form),
            parts=media[0] if is_object else some,
        )
        members = {FUNCTION_RESPONSE: inner | pop_object(extras, FUNCTION_RESPONSE)}
        part: PartJson = restore_case(members, form) | extras
        content: Members = form.get("members", {})
        self._write("user", [part], content, form, joins=self._follows_result)

    def _write_result_content(self, message: ToolResultMessage) -> tuple[list[str], list[PartJson]]:
        """Return the texts and the parts of a tool result, which are sent in separate members."""
        texts: list[str] = []
        media: list[PartJson] = []
        for at, block in self._blocks.prompt_blocks(message.content):
            match block:
                case Text():
                    base.select_extras(block, NAME, self.losses, at=at)
                    texts.append(block.text)
                case Image():
                    media += self._blocks.write_image(block, at)
                case Opaque():
                    media += self._blocks.write_opaque(block, at)
                case _:
                    assert_never(block)
        return texts, media


def _write_response(message: ToolResultMessage, text: str, form: Members) -> Any:
    """Return the value of `response`; None if it was recorded as absent and the text is empty.

    By convention, the text is under `output`, or under `error` if the tool failed. A response that
    was recorded in another form is written as the recorded JSON.
    """
    match form.get("response"):
        case "absent" if not text:
            return None
        case "json" if is_json_text(text):
            return Raw(text.encode())
        case _:
            if message.is_error:
                return {"error": text or str(message.outcome)}
            return {"output": text}


@final
class PartWriter(ValueWriter):
    """Writes blocks as parts for one target."""

    def __init__(self, target: RequestTarget, losses: ChangeCollector) -> None:
        super().__init__(target, losses)
        self.sent_calls: dict[str, tuple[str | None, str]] = {}
        """The ids and names under which calls were sent, by their ids in the log."""
        self.anonymous_calls: base.AnonymousCalls = base.AnonymousCalls(losses)

    def write_text(self, block: Text, at: str) -> list[PartJson]:
        """Write a text block of a user message or a system prompt."""
        extras, form = self.read_extras(block, at)
        self._write_signature(block.seal, at)
        return [restore_case({"text": block.text}, form) | extras]

    def write_assistant_text(self, block: Text | Thinking, at: str) -> list[PartJson]:
        """Write text or thinking of a model; an empty block without a signature is left out."""
        extras, form = self.read_extras(block, at)
        signature = self._write_signature(block.seal, at)
        if not block.text and not signature and not extras and "text" not in form:
            return []
        part: Members = {} if form.get("text") == "absent" else {"text": block.text}
        if isinstance(block, Thinking):
            part["thought"] = True
        return [restore_case(part | signature, form) | extras]

    def write_call(self, call: AnyToolCall, at: str, *, is_first: bool) -> PartJson:
        """Write a call.

        Gemini 3 requires a signature on the first call of each step. If that call has no signature,
        a placeholder is written, unless the target itself made the call without a signature.
        """
        extras, form = self.read_extras(call, at)
        signature = self._write_signature(call.seal, at)
        is_signed = (
            signature or THOUGHT_SIGNATURE in extras or to_snake_case(THOUGHT_SIGNATURE) in extras
        )
        # The note alone is not enough: a signature may arrive after the fragment with the note.
        is_as_made = call.seal is None and form.get("unsigned") == self.target.model
        if is_first and not is_signed and not is_as_made:
            signature = {THOUGHT_SIGNATURE: SIGNATURE_SENTINEL}
        id: str | None = form.get("id", call.id)
        name: str | None = self.call_name(call, form, LEGAL_NAME, at)
        self.sent_calls[call.id] = id, name or ""
        if id is None:
            self.anonymous_calls.add_call(call.id, name or "")
        inner = base.drop_none(id=id, name=name) | self._write_arguments(call, form, at)
        members = {FUNCTION_CALL: inner | pop_object(extras, FUNCTION_CALL)} | signature
        return restore_case(members, form) | extras

    def write_image(self, block: Image, at: str) -> list[PartJson]:
        """Write an image; the result is empty if neither its bytes nor its URL are known."""
        extras, form = self.read_extras(block, at)
        name, inner = "", Members()
        if isinstance(block.source, ImageData):
            encode = base64.urlsafe_b64encode if "base64" in form else base64.b64encode
            name, inner = "inlineData", {"data": encode(block.source.data).decode()}
        elif isinstance(block.source, ImageUrl):
            name, inner = "fileData", {"fileUri": block.source.url}
        else:
            self.losses.note(ChangeCode.IMAGE, "bytes_missing", at=at)
            return []
        if block.mime_type is not None:
            inner["mimeType"] = block.mime_type
        if not self._is_signed_for_target(form):
            self._drop_signature(extras, at)
        members = {name: restore_case(inner, form) | pop_object(extras, name)}
        return [restore_case(members, form) | extras]

    def write_reference(self, block: FileReference | Resource, at: str) -> Text | Opaque:
        """Return the block to send for an unresolved reference.

        A resource with bytes and a MIME type is sent inline.
        """
        if not isinstance(block, Resource) or block.data is None or block.mime_type is None:
            return super().write_reference(block, at)
        data = base64.b64encode(block.data).decode()
        part = base.encode_json({"inlineData": {"mimeType": block.mime_type, "data": data}})
        return Opaque(kind="inlineData", raw=part.decode(), origin=NAME, extras=block.extras)

    def write_opaque(self, block: Opaque, at: str) -> list[PartJson]:
        """Write a part that steno has no type for.

        A signature that another target issued is removed.
        """
        _, form = self.read_extras(block, at)
        if self._is_signed_for_target(form):
            return [Raw(block.raw.encode())]
        members: Members = dict(read_members(block.raw, NAME))
        self._drop_signature(members, at)
        return [members]

    # -- seals -------------------------------------------------------------------------------

    def _write_signature(self, seal: Seal | None, at: str) -> Members:
        if seal is None:
            return {}
        if self.target.accepts(seal):
            return {THOUGHT_SIGNATURE: seal.data}
        self.losses.note(ChangeCode.SEAL, "other_model", at=at)
        return {}

    def _is_signed_for_target(self, form: Members) -> bool:
        """Return whether the target issued the signature of a block; True if no issuer is noted."""
        target = [self.target.provider, self.target.model]
        return bool(form.get("signed", target) == target)

    def _drop_signature(self, members: Members, at: str) -> None:
        self.losses.note(ChangeCode.SEAL, "other_model", at=at)
        members.pop(THOUGHT_SIGNATURE, None)
        members.pop(to_snake_case(THOUGHT_SIGNATURE), None)

    # -- calls -------------------------------------------------------------------------------

    def _write_arguments(self, call: AnyToolCall, form: Members, at: str) -> Members:
        match form.get("args", "object"):
            case "absent":
                return {}
            case None:
                return {"args": None}
            case "verbatim":
                return {"args": Raw(call.arguments.encode())}
            case _:
                return {"args": self.write_arguments(call, at)}
