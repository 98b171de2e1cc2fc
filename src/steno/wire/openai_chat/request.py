"""Write requests."""

from __future__ import annotations

from typing import Any, final

from steno.request import Request
from steno.tool import ToolDefinition
from steno.wire.extras import (
    extras_of,
    merge_extras,
    take_form,
    take_inner,
)
from steno.wire.functions import (
    function_name,
    function_of,
    given,
    note_not_strict,
    wrap,
    write_choice,
    write_tools,
)
from steno.wire.openai_chat.dialect import (
    COUNTED,
    LIMITS,
    OPENAI,
    Dialect,
)
from steno.wire.openai_chat.shapes import LEGAL_NAME, NAME
from steno.wire.openai_chat.writer import Writer, without
from steno.wire.report import Encoded, Losses
from steno.wire.writing import Encoder as BaseEncoder
from steno.wire.writing import (
    MessageWriter,
    Target,
    dump,
)


def encode_request(
    request: Request, *, dialect: Dialect = OPENAI, stream: bool | None = None
) -> Encoded:
    """Encode one request; an `Encoder` does the same for every turn of a conversation."""
    return Encoder(dialect).encode(request, stream=stream)


@final
class Encoder(BaseEncoder):
    """Encodes the requests of a conversation, each message once."""

    def __init__(self, dialect: Dialect = OPENAI) -> None:
        """Take the dialect of the server."""
        super().__init__()
        self._dialect = dialect

    def _target(self, request: Request) -> Target:
        return Target(self._dialect.provider, NAME, request.model)

    def _new_writer(self, target: Target) -> MessageWriter:
        return Writer(target, self._dialect)

    def _body(
        self, request: Request, messages: bytes, losses: Losses, *, stream: bool | None
    ) -> bytes:
        members = _settings(request, self._dialect, losses)
        if stream is not None:
            members["stream"] = stream
            if stream and self._dialect.has_stream_options:
                members.setdefault("stream_options", COUNTED)
        # Messages last: the body of the next turn then begins with the bytes of this one.
        head = dump(members)[:-1]
        return b"".join([head, b"," if members else b"", b'"messages":[', messages, b"]}"])


# -- settings and tools ----------------------------------------------------------------------


def _settings(request: Request, dialect: Dialect, losses: Losses) -> dict[str, Any]:
    extras = extras_of(request, NAME, losses)
    form = take_form(extras)
    limit: str = form.get("max_tokens", dialect.max_tokens_field)
    is_word = form.get("stop") == "string" and len(request.stop) == 1
    members = given(
        model=request.model or None,
        **{limit: request.max_tokens},
        temperature=request.temperature,
        top_p=request.top_p,
        stop=request.stop[0] if is_word else list(request.stop) or None,
        stream_options=COUNTED if "stream_options" in form else None,
    )
    members |= write_tools(request, extras, lambda tool, at: _tool(tool, dialect, losses, at))
    members |= write_choice(request, lambda tool: wrap({"name": _tool_name(tool, losses)}))
    if "max_tokens" not in form and limit in members:
        # No server takes a limit under both names, unless somebody recorded that it does.
        extras = {limit if name in LIMITS else name: value for name, value in extras.items()}
    return merge_extras(members, extras, losses)


def _tool(tool: ToolDefinition, dialect: Dialect, losses: Losses, at: str) -> dict[str, Any]:
    extras = extras_of(tool, NAME, losses, at=at)
    form = take_form(extras)
    function = function_of(tool, _tool_name(tool, losses, at=at))
    if not dialect.has_strict_tools:
        note_not_strict(tool, losses, at=at)
    elif tool.strict:
        function["strict"] = True
    function = without(form.get("absent", []), function) | take_inner(form, "function")
    return wrap(function) | extras


def _tool_name(tool: ToolDefinition, losses: Losses, *, at: str = "") -> str:
    return function_name(tool, NAME, LEGAL_NAME, losses, at=at)
