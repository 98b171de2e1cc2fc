"""Encode requests for the Gemini API: messages become contents of `user` and `model`.

Every block becomes one part, and a seal is sent to the model that made it. Gemini 3 refuses a step
whose first call carries no signature. A call of another model gets the sentinel that Google
documents for it; a call that this model made without a signature is sent as it was, and so is
everything that was recorded.
"""

from __future__ import annotations

import base64
from typing import Any, Final, TypeAlias, assert_never, final

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
from steno.messages.message import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.request import Request
from steno.values import Sendable
from steno.wire.extras import merge_extras, pop_form, pop_object, select_extras
from steno.wire.gemini.key_case import restore_case, to_camel_case, to_snake_case
from steno.wire.gemini.payload import (
    FUNCTION_CALL,
    FUNCTION_RESPONSE,
    LEGAL_NAME,
    NAME,
    PROVIDER,
    SIGNATURE_SENTINEL,
    THOUGHT_SIGNATURE,
)
from steno.wire.gemini.tools import LAYOUT_NOTE, get_declared_name, write_tools
from steno.wire.report import ChangeCollector, EncodedRequest
from steno.wire.request_encoder import (
    WHOLE_MESSAGE_KIND,
    AnonymousCalls,
    MessageWriter,
    PartJson,
    RequestTarget,
    call_name,
    compact_pieces,
    encode_json,
    is_sendable,
    raw_arguments,
    reference_text,
)
from steno.wire.request_encoder import Encoder as BaseEncoder
from steno.wire.tolerant import read_members
from steno.wire.tools_and_settings import drop_none, note_unenforced_schema

Form: TypeAlias = dict[str, Any]
_CALLING_CONFIG: Final = "functionCallingConfig"
_NESTED_OBJECTS: Final = ("generationConfig", "toolConfig", _CALLING_CONFIG)
_MODE_BY_TOOL_CHOICE: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_SCHEMA_ENFORCING_MODES: Final = ("ANY", "VALIDATED")
"""The modes in which constrained decoding enforces the schemas of the tools."""


def encode_request(
    request: Request, *, provider: str = PROVIDER, stream: bool | None = None
) -> EncodedRequest:
    """Encode one request; an `Encoder` does the same for every turn of a conversation."""
    return Encoder(provider=provider).encode(request, stream=stream)


@final
class Encoder(BaseEncoder):
    """Encodes the requests of a conversation, each message once.

    Model and streaming are part of the address, not of the body.
    """

    def __init__(self, *, provider: str = PROVIDER) -> None:
        """Take the provider, which decides whose seals are sent."""
        super().__init__()
        self._provider = provider
        self._contents: ContentsWriter | None = None

    def _target(self, request: Request) -> RequestTarget:
        return RequestTarget(self._provider, NAME, request.model)

    def _new_writer(self, target: RequestTarget) -> MessageWriter:
        self._contents = ContentsWriter(target)
        return self._contents

    def _body(
        self, request: Request, messages: bytes, losses: ChangeCollector, *, stream: bool | None
    ) -> bytes:
        extras = select_extras(request, NAME, losses)
        form = pop_form(extras)
        members = _write_settings(request, extras, form, losses)
        contents = self._contents
        assert contents is not None  # it has written the messages
        if contents.system is not None:
            members["systemInstruction"] = contents.system
        # Contents last: the body of the next turn then begins with the bytes of this one.
        head = encode_json(_add_extras(members, extras, form, losses))[:-1]
        comma = b"" if head == b"{" else b","
        if form.get("contents") == "object" and contents.count == 1:
            return b"".join([head, comma, b'"contents":', messages, b"}"])
        return b"".join([head, comma, b'"contents":[', messages, b"]}"])


def _write_settings(
    request: Request, extras: dict[str, Any], form: dict[str, Any], losses: ChangeCollector
) -> dict[str, Any]:
    """Return the members of the body, with the extras that belong inside them."""
    members: dict[str, Any] = {}
    if form.get("model") == "body":
        members["model"] = request.model
    tools = write_tools(request, form.get("tools", form.get(LAYOUT_NOTE)), losses)
    if tools is not None:
        others = extras.pop("tools", None) if isinstance(extras.get("tools"), list) else None
        members["tools"] = tools + (others or [])
    settings = drop_none(
        maxOutputTokens=request.max_tokens,
        temperature=request.temperature,
        topP=request.top_p,
        stopSequences=list(request.stop) or None,
    )
    calling = _write_tool_choice(request, losses)
    for name, found in (("generationConfig", settings), ("toolConfig", calling)):
        kept = _pop_object_of_either_case(extras, name)
        if found or kept is not None:
            members[name] = _merge_nested(found, kept or {}, losses, f".{name}")
    if (
        _get_calling_config(members.get("toolConfig", {})).get("mode")
        not in _SCHEMA_ENFORCING_MODES
    ):
        for number, tool in enumerate(request.tools):
            note_unenforced_schema(tool, losses, at=f".tools[{number}]")
    return members


def _pop_object_of_either_case(extras: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Take an object out of the extras, under either spelling."""
    for spelled in (name, to_snake_case(name)):
        if isinstance(extras.get(spelled), dict):
            found: dict[str, Any] = extras.pop(spelled)
            return found
    return None


def _write_tool_choice(request: Request, losses: ChangeCollector) -> dict[str, Any]:
    choice = request.tool_choice
    if choice is None:
        return {}
    if choice in _MODE_BY_TOOL_CHOICE:
        return {_CALLING_CONFIG: {"mode": _MODE_BY_TOOL_CHOICE[choice]}}
    names = [get_declared_name(tool, losses) for tool in request.tools if tool.name == choice]
    return {_CALLING_CONFIG: {"mode": "ANY", "allowedFunctionNames": names or [choice]}}


def _merge_nested(
    ours: dict[str, Any], kept: dict[str, Any], losses: ChangeCollector, at: str
) -> dict[str, Any]:
    """Merge the members of the request and those of the extras, also one level further down."""
    if _CALLING_CONFIG in ours:
        both = merge_extras(ours[_CALLING_CONFIG], _get_calling_config(kept), losses, at=at)
        ours, kept = {_CALLING_CONFIG: both}, kept | {_CALLING_CONFIG: both}
    return merge_extras(ours, kept, losses, at=at)


def _get_calling_config(config: dict[str, Any]) -> dict[str, Any]:
    found = config.get(_CALLING_CONFIG)
    return found if isinstance(found, dict) else {}


def _add_extras(
    members: dict[str, Any], extras: dict[str, Any], form: dict[str, Any], losses: ChangeCollector
) -> dict[str, Any]:
    """Add the extras under the spelling they came with; no name stands in two spellings."""
    written = _restore_nested_case(members, form)
    names = {to_camel_case(name): name for name in written}
    spelled = {names.get(to_camel_case(name), name): value for name, value in extras.items()}
    return merge_extras(written, spelled, losses)


def _restore_nested_case(members: dict[str, Any], form: dict[str, Any]) -> dict[str, Any]:
    inner = {
        name: _restore_nested_case(members[name], form)
        for name in _NESTED_OBJECTS
        if isinstance(members.get(name), dict)
    }
    return restore_case(members | inner, form)


# -- messages --------------------------------------------------------------------------------------


@final
class ContentsWriter(MessageWriter):
    """Writes contents; results of a turn share one, leading system messages are the instruction."""

    def __init__(self, target: RequestTarget) -> None:
        super().__init__(target)
        self.system: dict[str, Any] | None = None
        """The system instruction, which is not part of the contents."""
        self.count: int = 0
        """The number of contents."""
        self._blocks = PartWriter(target, self.losses)
        self._written: list[bytes] = []
        self._latest: dict[str, Any] | None = None
        """The content that more parts may join."""
        self._ends_in_result = False

    def add(self, message: Message) -> None:
        """Write one more message."""
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
        self._ends_in_result = isinstance(message, ToolResultMessage)

    def finish(self) -> bytes:
        """Return everything written; more may follow."""
        self._written = compact_pieces(self._written)
        newest = [] if self._latest is None else [encode_json(self._latest)]
        return b",".join([*self._written, *newest])

    def _write(
        self,
        role: str,
        parts: list[PartJson],
        members: dict[str, Any],
        form: Form,
        *,
        joins: bool = False,
    ) -> None:
        """Write parts into a content of their own, or into the latest."""
        if form.get("content", "joined" if joins else "own") == "joined" and self._latest:
            self._latest["parts"] += parts
            return
        self._close()
        self.count += 1
        named: str | None = form.get("role", role)
        content = ({} if named is None else {"role": named}) | members
        if form.get("parts") == "object" and len(parts) == 1:
            self._written.append(encode_json({**content, "parts": parts[0]}))
        else:
            self._latest = {**content, "parts": parts}

    def _close(self) -> None:
        if self._latest is not None:
            self._written.append(encode_json(self._latest))
            self._latest = None

    # -- messages ----------------------------------------------------------------------------

    def _add_system(self, message: SystemMessage) -> None:
        extras, form = self._blocks.read_extras(message)
        texts = enumerate(message.content)
        parts = [self._blocks.write_text(block, f".content[{number}]") for number, block in texts]
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
        first = message.content[0]
        if isinstance(first, Opaque) and first.kind == WHOLE_MESSAGE_KIND:
            if is_sendable(first, NAME, self.losses, at=".content[0]"):
                self._close()
                self.count += 1
                self._written.append(first.raw.encode())
            return
        extras, form = self._blocks.read_extras(message)
        parts: list[PartJson] = []
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            match block:
                case Text():
                    parts.append(self._blocks.write_text(block, at))
                case Image():
                    parts += self._blocks.write_image(block, at)
                case FileReference() | Resource():
                    parts.append(self._blocks.write_reference(block, at))
                case Opaque():
                    parts += self._blocks.write_opaque(block, at)
                case _:
                    assert_never(block)
        if parts:
            self._write("user", parts, extras, form)

    def _add_assistant(self, message: AssistantMessage) -> None:
        extras, form = self._blocks.read_extras(message)
        parts: list[PartJson] = []
        is_first = True
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
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
        extras, form = self._blocks.read_extras(message)
        texts, media = self._write_result_content(message)
        self._blocks.anonymous_calls.add_result(message.tool_call_id)
        known = self._blocks.sent_calls.get(message.tool_call_id)
        id, name = known or (message.tool_call_id, message.tool_name)
        members: dict[str, Any] = {
            "id": form.get("id", id),
            "name": form.get("name", name),
            "response": _write_response(message, "\n".join(texts), form),
            "parts": media if media or form.get("media") == "empty" else None,
        }
        if form.get("media") == "object" and len(media) == 1:
            members["parts"] = media[0]
        inner = {key: value for key, value in members.items() if value is not None}
        part: PartJson = (
            restore_case({FUNCTION_RESPONSE: inner | pop_object(extras, FUNCTION_RESPONSE)}, form)
            | extras
        )
        content: dict[str, Any] = form.get("members", {})
        self._write("user", [part], content, form, joins=self._ends_in_result)

    def _write_result_content(self, message: ToolResultMessage) -> tuple[list[str], list[PartJson]]:
        """Return the texts that go into the response, and the parts outside of it."""
        texts: list[str] = []
        media: list[PartJson] = []
        for number, block in enumerate(message.content):
            at = f".content[{number}]"
            match block:
                case Text():
                    select_extras(block, NAME, self.losses, at=at)
                    texts.append(block.text)
                case Image():
                    media += self._blocks.write_image(block, at)
                case FileReference() | Resource():
                    part = self._blocks.write_reference(block, at)
                    if "text" in part:
                        texts.append(part["text"])
                    else:
                        media.append(part)
                case Opaque():
                    media += self._blocks.write_opaque(block, at)
                case _:
                    assert_never(block)
        return texts, media


def _write_response(message: ToolResultMessage, text: str, form: Form) -> Any:
    """Return a result as an object: by convention under `output` or `error`."""
    match form.get("response"):
        case "absent" if not text:
            return None
        case "json" if is_json_text(text):
            return Raw(text.encode())
        case _:
            if message.is_error:
                return {"error": text or str(message.outcome)}
            return {"output": text}


# -- blocks ----------------------------------------------------------------------------------------


@final
class PartWriter:
    """Writes blocks for one target."""

    def __init__(self, target: RequestTarget, losses: ChangeCollector) -> None:
        self._target = target
        self._losses = losses
        self.sent_calls: dict[str, tuple[str | None, str]] = {}
        """The ids and names that calls were sent under, by their ids in the log."""
        self.anonymous_calls: AnonymousCalls = AnonymousCalls(losses)

    def read_extras(self, value: Sendable, at: str = "") -> tuple[dict[str, Any], Form]:
        """Return the extras of a value for this wire, and the notes on its form."""
        extras = select_extras(value, NAME, self._losses, at=at)
        form = pop_form(extras)
        return extras, form

    def write_text(self, block: Text, at: str) -> PartJson:
        """Write text of a user or a system prompt."""
        extras, form = self.read_extras(block, at)
        self._write_signature(block.seal, at)
        return restore_case({"text": block.text}, form) | extras

    def write_assistant_text(self, block: Text | Thinking, at: str) -> list[PartJson]:
        """Write text or thinking of a model; a block without text and signature is left out."""
        extras, form = self.read_extras(block, at)
        signature = self._write_signature(block.seal, at)
        if not block.text and not signature and not extras and "text" not in form:
            return []
        part: dict[str, Any] = {} if form.get("text") == "absent" else {"text": block.text}
        if isinstance(block, Thinking):
            part["thought"] = True
        return [restore_case(part | signature, form) | extras]

    def write_call(self, call: AnyToolCall, at: str, *, is_first: bool) -> PartJson:
        """Write a call; the first of a step has to be signed."""
        extras, form = self.read_extras(call, at)
        signature = self._write_signature(call.seal, at)
        is_signed = (
            signature or THOUGHT_SIGNATURE in extras or to_snake_case(THOUGHT_SIGNATURE) in extras
        )
        # A signature may arrive after the first piece of a call, and so after that note.
        is_as_made = call.seal is None and form.get("unsigned") == self._target.model
        if is_first and not is_signed and not is_as_made:
            signature = {THOUGHT_SIGNATURE: SIGNATURE_SENTINEL}
        id: str | None = form.get("id", call.id)
        name: str | None = (
            form["name"] if "name" in form else call_name(call, LEGAL_NAME, self._losses, at=at)
        )
        self.sent_calls[call.id] = id, name or ""
        if id is None:
            self.anonymous_calls.add_call(call.id, name or "")
        inner = {key: value for key, value in (("id", id), ("name", name)) if value is not None}
        inner |= self._write_arguments(call, form, at)
        return (
            restore_case(
                {FUNCTION_CALL: inner | pop_object(extras, FUNCTION_CALL)} | signature, form
            )
            | extras
        )

    def write_image(self, block: Image, at: str) -> list[PartJson]:
        """Write an image, if the request can hold its bytes or its address."""
        extras, form = self.read_extras(block, at)
        name, inner = "", dict[str, Any]()
        if isinstance(block.source, ImageData):
            encode = base64.urlsafe_b64encode if "base64" in form else base64.b64encode
            name, inner = "inlineData", {"data": encode(block.source.data).decode()}
        elif isinstance(block.source, ImageUrl):
            name, inner = "fileData", {"fileUri": block.source.url}
        else:
            self._losses.note(ChangeCode.IMAGE, "bytes_missing", at=at)
            return []
        if block.mime_type is not None:
            inner["mimeType"] = block.mime_type
        if not self._is_signed_for_target(form):
            self._drop_signature(extras, at)
        return [
            restore_case({name: restore_case(inner, form) | pop_object(extras, name)}, form)
            | extras
        ]

    def write_reference(self, block: FileReference | Resource, at: str) -> dict[str, Any]:
        """Write an unresolved reference; the bytes of a resource are sent as they are."""
        self.read_extras(block, at)
        if isinstance(block, Resource) and block.data is not None and block.mime_type is not None:
            data = base64.b64encode(block.data).decode()
            return {"inlineData": {"mimeType": block.mime_type, "data": data}}
        return {"text": reference_text(block, self._losses, at=at)}

    def write_opaque(self, block: Opaque, at: str) -> list[PartJson]:
        """Write a part that steno has no type for, if it is one of this protocol."""
        if not is_sendable(block, NAME, self._losses, at=at):
            return []
        _, form = self.read_extras(block, at)
        if self._is_signed_for_target(form):
            return [Raw(block.raw.encode())]
        members: dict[str, Any] = dict(read_members(block.raw, NAME))
        self._drop_signature(members, at)
        return [members]

    # -- seals -------------------------------------------------------------------------------

    def _write_signature(self, seal: Seal | None, at: str) -> dict[str, Any]:
        if seal is None:
            return {}
        if self._target.accepts(seal):
            return {THOUGHT_SIGNATURE: seal.data}
        self._losses.note(ChangeCode.SEAL, "other_model", at=at)
        return {}

    def _is_signed_for_target(self, form: Form) -> bool:
        """Return whether a block without a seal carries no signature of another model."""
        target = [self._target.provider, self._target.model]
        return bool(form.get("signed", target) == target)

    def _drop_signature(self, members: dict[str, Any], at: str) -> None:
        self._losses.note(ChangeCode.SEAL, "other_model", at=at)
        members.pop(THOUGHT_SIGNATURE, None)
        members.pop(to_snake_case(THOUGHT_SIGNATURE), None)

    # -- calls -------------------------------------------------------------------------------

    def _write_arguments(self, call: AnyToolCall, form: Form, at: str) -> dict[str, Any]:
        match form.get("args", "object"):
            case "absent":
                return {}
            case None:
                return {"args": None}
            case "verbatim":
                return {"args": Raw(call.arguments.encode())}
            case _:
                return {"args": raw_arguments(call, self._losses, at=at)}
