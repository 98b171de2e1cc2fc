"""Every provider's language: JSON and byte streams to our values and back, without any I/O.

One module for each protocol, all with the same functions: `openai_chat`, `openai_responses`,
`anthropic_messages`, `ollama_chat`, `gemini`, and `chat`, our own flat JSON. A module is loaded
when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final, Protocol, cast

from steno.errors import InvalidValue, ProviderError
from steno.messages.change import Change, ChangeCode
from steno.messages.message import AssistantMessage
from steno.messages.request import Request
from steno.wire.errors import decode_error
from steno.wire.extras import is_streamed, pop_stream_flag, select_extras
from steno.wire.ndjson import LineSplitter
from steno.wire.report import ChangeCollector, EncodedRequest
from steno.wire.request_encoder import Encoder
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
    "Wire",
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
"""The names of the protocols we speak."""


class Wire(Protocol):
    """What a module must have to be a wire. Yours can have it, too."""

    @property
    def NAME(self) -> str:  # noqa: N802 - a constant of a module
        """The name of the protocol."""
        ...

    def StreamDecoder(  # noqa: N802 - a class of a module
        self,
        *,
        provider: str = ...,
        model: str | None = ...,
    ) -> StreamDecoder:
        """Make a decoder of one answer that comes in pieces."""
        ...

    def decode_response(
        self,
        data: bytes | str,
        *,
        provider: str = ...,
        model: str | None = ...,
    ) -> AssistantMessage:
        """Decode a whole answer."""
        ...

    def decode_request(self, data: bytes | str, *, provider: str = ...) -> Request:
        """Read a recorded request."""
        ...

    def encode_request(self, request: Request, *, stream: bool | None = ...) -> EncodedRequest:
        """Write a request, and say what got lost."""
        ...

    def decode_error(
        self,
        status: int,
        body: bytes | str,
        headers: Mapping[str, str] | None = ...,
    ) -> ProviderError:
        """Make an error of an answer that is one."""
        ...


_REQUIRED_ATTRIBUTES: Final = tuple(sorted(name for name in vars(Wire) if not name.startswith("_")))


def load_wire(wire: str | Wire) -> Wire:
    """Return the wire of that name; a name with a dot is that of a module of yours.

    What is a wire already is given back. Raises InvalidValue, with the names there are, or with
    what the module lacks.
    """
    if isinstance(wire, str):
        wire = _import_wire(wire)
    for part in _REQUIRED_ATTRIBUTES:
        if not hasattr(wire, part):
            raise InvalidValue(
                f"it has no {part}; see steno.wire.Wire for what it needs",
                code="wire_incomplete",
                place="wire",
            )
    return wire


def _import_wire(name: str) -> Wire:
    if "." not in name:
        if name not in WIRES:
            raise InvalidValue(
                f"there is none of that name; one of {', '.join(WIRES)},"
                " or a module of yours as package.module",
                code="wire_unknown",
                place="wire",
            )
        name = f"steno.wire.{name}"
    if not all(part.isidentifier() for part in name.split(".")):
        raise InvalidValue(
            f"that is no name; one of {', '.join(WIRES)}, or a module as package.module",
            code="wire_name_malformed",
            place="wire",
        )
    try:
        return cast("Wire", import_module(name))
    except ModuleNotFoundError as exc:
        if exc.name is None or not f"{name}.".startswith(f"{exc.name}."):
            raise  # it is there, and misses something itself
        raise InvalidValue(
            "there is no module of that name to import;"
            " if it is in the current folder, set PYTHONPATH=.",
            code="wire_not_importable",
            place="wire",
        ) from exc


def translate(data: bytes | str, *, source: Wire | str, target: Wire | str) -> EncodedRequest:
    """Say a request of one protocol in another; what the target has no words for is reported.

    A wire is a module or its name. What was to come in pieces still is. Raises InvalidRequest if `data` is not a request of the source.
    """
    speaker, listener = load_wire(source), load_wire(target)
    return translate_request(speaker.decode_request(data), source=speaker, target=listener)


def translate_request(request: Request, *, source: Wire, target: Wire) -> EncodedRequest:
    """Say a request that was read from one protocol in another.

    Whether the answer comes in pieces is nothing that the conversation says: it is asked for anew.
    """
    stream = None
    if source.NAME != target.NAME:
        request, stream = pop_stream_flag(request, source.NAME)
        meant, heard = (is_streamed(stream, wire.NAME) for wire in (source, target))
        if meant != heard and None not in (meant, heard):
            stream = meant  # what one understands without a word, the other has to be told
    return target.encode_request(request, stream=stream)
