"""Convert between steno's values and the JSON and streams of each provider, without I/O.

Each protocol is a package with the same functions: `openai_chat`, `openai_responses`,
`anthropic_messages`, `ollama_chat`, `gemini`, and `chat`, steno's own flat JSON. A package is
imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final, Protocol, cast

from steno.assemble import ToolCallPart, WireEvent
from steno.errors import InvalidValue, ProviderError
from steno.messages.change import Change, ChangeCode
from steno.messages.message import AssistantMessage
from steno.messages.request import Request
from steno.wire.errors import decode_error
from steno.wire.extras import is_streamed, pop_stream_flag
from steno.wire.framing import LineSplitter
from steno.wire.request_encoder import ChangeCollector, EncodedRequest, Encoder, select_extras
from steno.wire.response_decoder import StreamDecoder, assemble_message, build_cut_short

__all__ = [
    "WIRES",
    "Change",
    "ChangeCode",
    "ChangeCollector",
    "EncodedRequest",
    "Encoder",
    "LineSplitter",
    "StreamDecoder",
    "ToolCallPart",
    "Wire",
    "WireEvent",
    "assemble_message",
    "build_cut_short",
    "decode_error",
    "load_wire",
    "select_extras",
    "translate",
]

WIRES: Final = (
    "anthropic_messages",
    "chat",
    "gemini",
    "ollama_chat",
    "openai_chat",
    "openai_responses",
)
"""The names of the protocols that steno implements."""


class Wire(Protocol):
    """The interface of a wire; any module with these attributes can be used as a wire."""

    @property
    def NAME(self) -> str:  # noqa: N802 - a constant of a module
        """The name of the protocol."""
        ...

    def StreamDecoder(  # noqa: N802 - a class of a module
        self, *, provider: str = ..., model: str | None = ...
    ) -> StreamDecoder:
        """Return a decoder for one streamed response."""
        ...

    def decode_response(
        self, data: bytes | str, *, provider: str = ..., model: str | None = ...
    ) -> AssistantMessage:
        """Decode a response that is not streamed."""
        ...

    def decode_request(self, data: bytes | str, *, provider: str = ...) -> Request:
        """Decode a recorded request."""
        ...

    def encode_request(self, request: Request, *, stream: bool | None = ...) -> EncodedRequest:
        """Encode a request; the result lists the parts that this protocol cannot express."""
        ...

    def decode_error(
        self, status: int, body: bytes | str, headers: Mapping[str, str] | None = ...
    ) -> ProviderError:
        """Build an exception from the HTTP response that reports an error."""
        ...


_REQUIRED_ATTRIBUTES: Final = tuple(sorted(name for name in vars(Wire) if not name.startswith("_")))


def load_wire(wire: str | Wire) -> Wire:
    """Return the wire with this name; a name with a dot is the import path of a module.

    A wire that is passed instead of a name is checked and returned. Raises InvalidValue if the
    name is unknown, if the module is not found, or if it lacks an attribute of `Wire`.
    """
    if isinstance(wire, str):
        wire = _import_wire(wire)
    for part in _REQUIRED_ATTRIBUTES:
        if not hasattr(wire, part):
            raise InvalidValue(
                f"the module has no {part}; steno.wire.Wire lists the required attributes",
                code="wire_incomplete",
                place="wire",
            )
    return wire


def _import_wire(name: str) -> Wire:
    if "." not in name:
        if name not in WIRES:
            raise InvalidValue(
                f"unknown name {name!r}; use one of {', '.join(WIRES)},"
                " or the import path of a module, such as package.module",
                code="wire_unknown",
                place="wire",
            )
        name = f"steno.wire.{name}"
    if not all(part.isidentifier() for part in name.split(".")):
        raise InvalidValue(
            f"invalid name {name!r}; use one of {', '.join(WIRES)},"
            " or the import path of a module, such as package.module",
            code="wire_name_malformed",
            place="wire",
        )
    try:
        return cast("Wire", import_module(name))
    except ModuleNotFoundError as exc:
        if exc.name is None or not f"{name}.".startswith(f"{exc.name}."):
            raise  # the module exists; an import inside it fails
        raise InvalidValue(
            f"module {name!r} not found; if it is in the current directory, set PYTHONPATH=.",
            code="wire_not_importable",
            place="wire",
        ) from exc


def translate(data: bytes | str, *, source: Wire | str, target: Wire | str) -> EncodedRequest:
    """Translate a request from one protocol to another; the result lists the losses.

    `source` and `target` are wires or their names. If the request asks for a streamed response,
    so does its translation, unless the body of the target has no member for it (Gemini). Raises
    InvalidRequest if `data` is not a request of the source protocol.
    """
    decoder, encoder = load_wire(source), load_wire(target)
    return translate_request(decoder.decode_request(data), source=decoder, target=encoder)


def translate_request(request: Request, *, source: Wire, target: Wire) -> EncodedRequest:
    """Encode a request, which was decoded from `source`, for `target`.

    Between different wires, the `stream` flag is not copied like other extras. It is set so that
    the target streams its response if and only if the original request asks for a streamed
    response. Gemini has no such flag.
    """
    stream = None
    if source.NAME != target.NAME:
        request, stream = pop_stream_flag(request, source.NAME)
        wanted, understood = (is_streamed(stream, wire.NAME) for wire in (source, target))
        if wanted != understood and None not in (wanted, understood):
            stream = wanted  # Ollama streams by default; the other protocols do not
    return target.encode_request(request, stream=stream)
