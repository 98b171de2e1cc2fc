"""Write requests: everything beside the contents."""

from __future__ import annotations

from typing import Any, Final, final

from steno.request import Request
from steno.wire.gemini.contents import ContentsWriter
from steno.wire.gemini.shapes import NAME, PROVIDER
from steno.wire.gemini.spelling import spell
from steno.wire.gemini.tools import declared_name, write_tools
from steno.wire.report import Encoded
from steno.wire.writing import FORM, Losses, MessageWriter, Target, dump, extras_of
from steno.wire.writing import Encoder as BaseEncoder

_CALLING: Final = "functionCallingConfig"
_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


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
        form: dict[str, Any] = extras.pop(FORM, {})
        members = _settings(request, extras, form, losses)
        contents = self._contents
        assert contents is not None  # it is what wrote the messages
        if contents.system is not None:
            members["systemInstruction"] = contents.system
        # Contents last: the body of the next turn then begins with the bytes of this one.
        head = dump(spell(members, form) | extras)[:-1]
        comma = b"" if head == b"{" else b","
        if form.get("contents") == "object" and contents.count == 1:
            return head + comma + b'"contents":' + messages + b"}"
        return head + comma + b'"contents":[' + messages + b"]}"


def _settings(
    request: Request, extras: dict[str, Any], form: dict[str, Any], losses: Losses
) -> dict[str, Any]:
    """Return the members of the body, with those of the extras that stand inside them."""
    members: dict[str, Any] = {}
    if form.get("model") == "body":
        members["model"] = request.model
    tools = write_tools(request, form.get("tools"), losses)
    if tools is not None:
        members["tools"] = tools
    config: dict[str, Any] = {
        "maxOutputTokens": request.max_tokens,
        "temperature": request.temperature,
        "topP": request.top_p,
        "stopSequences": request.stop or None,
    }
    told = {name: value for name, value in config.items() if value is not None}
    calling = _tool_choice(request, losses)
    for name, found in (("generationConfig", told), ("toolConfig", calling)):
        kept = extras.pop(name, None) if isinstance(extras.get(name), dict) else None
        if found or kept is not None:
            members[name] = _merge(found, kept or {}, form)
    return members


def _tool_choice(request: Request, losses: Losses) -> dict[str, Any]:
    choice = request.tool_choice
    if choice is None:
        return {}
    if choice in _MODES:
        return {_CALLING: {"mode": _MODES[choice]}}
    names = [declared_name(tool, losses) for tool in request.tools if tool.name == choice]
    return {_CALLING: {"mode": "ANY", "allowedFunctionNames": names or [choice]}}


def _merge(ours: dict[str, Any], kept: dict[str, Any], form: dict[str, Any]) -> dict[str, Any]:
    """Put together what we say and what was kept, under the names it came with."""
    merged = ours | kept
    inner = [found.get(_CALLING) for found in (ours, kept)]
    if any(isinstance(found, dict) for found in inner):
        both = [found for found in inner if isinstance(found, dict)]
        merged[_CALLING] = spell({k: v for found in both for k, v in found.items()}, form)
    return spell(merged, form)
