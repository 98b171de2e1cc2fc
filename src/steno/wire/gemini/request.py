"""Write requests: everything beside the contents."""

from __future__ import annotations

from typing import Any, Final, final

from steno.request import Request
from steno.wire.extras import extras_of, merge_extras, take_form
from steno.wire.functions import given, note_not_strict
from steno.wire.gemini.contents import ContentsWriter
from steno.wire.gemini.shapes import NAME, PROVIDER
from steno.wire.gemini.spelling import camel_case, snake_case, spell
from steno.wire.gemini.tools import LAYOUT, declared_name, write_tools
from steno.wire.report import Encoded, Losses
from steno.wire.writing import Encoder as BaseEncoder
from steno.wire.writing import MessageWriter, Target, dump

_CALLING: Final = "functionCallingConfig"
_OBJECTS: Final = ("generationConfig", "toolConfig", _CALLING)
_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_HOLDING: Final = ("ANY", "VALIDATED")
"""The modes in which calls keep to the schemas of the tools, by constrained decoding."""


def encode_request(
    request: Request, *, provider: str = PROVIDER, stream: bool | None = None
) -> Encoded:
    """Encode one request; an `Encoder` does the same for every turn of a conversation."""
    return Encoder(provider=provider).encode(request, stream=stream)


@final
class Encoder(BaseEncoder):
    """Encodes the requests of a conversation, each message once.

    Model and streaming are part of the address, not of the body.
    """

    def __init__(self, *, provider: str = PROVIDER) -> None:
        """Take who will read the requests, which decides whose seals are sent."""
        super().__init__()
        self._provider = provider
        self._contents: ContentsWriter | None = None

    def _target(self, request: Request) -> Target:
        return Target(self._provider, NAME, request.model)

    def _new_writer(self, target: Target) -> MessageWriter:
        self._contents = ContentsWriter(target)
        return self._contents

    def _body(
        self, request: Request, messages: bytes, losses: Losses, *, stream: bool | None
    ) -> bytes:
        extras = extras_of(request, NAME, losses)
        form = take_form(extras)
        members = _settings(request, extras, form, losses)
        contents = self._contents
        assert contents is not None  # it is what wrote the messages
        if contents.system is not None:
            members["systemInstruction"] = contents.system
        # Contents last: the body of the next turn then begins with the bytes of this one.
        head = dump(_with_extras(members, extras, form, losses))[:-1]
        comma = b"" if head == b"{" else b","
        if form.get("contents") == "object" and contents.count == 1:
            return b"".join([head, comma, b'"contents":', messages, b"}"])
        return b"".join([head, comma, b'"contents":[', messages, b"]}"])


def _settings(
    request: Request, extras: dict[str, Any], form: dict[str, Any], losses: Losses
) -> dict[str, Any]:
    """Return the members of the body, with those of the extras that stand inside them."""
    members: dict[str, Any] = {}
    if form.get("model") == "body":
        members["model"] = request.model
    tools = write_tools(request, form.get("tools", form.get(LAYOUT)), losses)
    if tools is not None:
        others = extras.pop("tools", None) if isinstance(extras.get("tools"), list) else None
        members["tools"] = tools + (others or [])
    told = given(
        maxOutputTokens=request.max_tokens,
        temperature=request.temperature,
        topP=request.top_p,
        stopSequences=list(request.stop) or None,
    )
    calling = _tool_choice(request, losses)
    for name, found in (("generationConfig", told), ("toolConfig", calling)):
        kept = _pop_object(extras, name)
        if found or kept is not None:
            members[name] = _merge(found, kept or {}, losses, f".{name}")
    if _calling_of(members.get("toolConfig", {})).get("mode") not in _HOLDING:
        for number, tool in enumerate(request.tools):
            note_not_strict(tool, losses, at=f".tools[{number}]")
    return members


def _pop_object(extras: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Take an object out of the extras, under either spelling."""
    for spelled in (name, snake_case(name)):
        if isinstance(extras.get(spelled), dict):
            found: dict[str, Any] = extras.pop(spelled)
            return found
    return None


def _tool_choice(request: Request, losses: Losses) -> dict[str, Any]:
    choice = request.tool_choice
    if choice is None:
        return {}
    if choice in _MODES:
        return {_CALLING: {"mode": _MODES[choice]}}
    names = [declared_name(tool, losses) for tool in request.tools if tool.name == choice]
    return {_CALLING: {"mode": "ANY", "allowedFunctionNames": names or [choice]}}


def _merge(ours: dict[str, Any], kept: dict[str, Any], losses: Losses, at: str) -> dict[str, Any]:
    """Put together what we say and what was kept, also one level further down."""
    if _CALLING in ours:
        both = merge_extras(ours[_CALLING], _calling_of(kept), losses, at=at)
        ours, kept = {_CALLING: both}, kept | {_CALLING: both}
    return merge_extras(ours, kept, losses, at=at)


def _calling_of(config: dict[str, Any]) -> dict[str, Any]:
    found = config.get(_CALLING)
    return found if isinstance(found, dict) else {}


def _with_extras(
    members: dict[str, Any], extras: dict[str, Any], form: dict[str, Any], losses: Losses
) -> dict[str, Any]:
    """Add the extras to members under the names they came with; no name stands in two spellings."""
    said = _spell_deeply(members, form)
    names = {camel_case(name): name for name in said}
    spelled = {names.get(camel_case(name), name): value for name, value in extras.items()}
    return merge_extras(said, spelled, losses)


def _spell_deeply(members: dict[str, Any], form: dict[str, Any]) -> dict[str, Any]:
    inner = {
        name: _spell_deeply(members[name], form)
        for name in _OBJECTS
        if isinstance(members.get(name), dict)
    }
    return spell(members | inner, form)
