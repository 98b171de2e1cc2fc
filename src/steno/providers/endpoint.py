"""How each wire is spoken over HTTP: which paths, which headers, what its encoder wants to know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, cast
from urllib.parse import quote

from steno.errors import InvalidRequest, InvalidValue
from steno.providers.models import Page, read_anthropic, read_gemini, read_ollama, read_openai
from steno.providers.vendor import Vendor
from steno.wire import Encoder, Wire, load_wire


class Endpoint(NamedTuple):
    """One protocol, as far as HTTP is concerned."""

    path: str
    """Where requests go, behind the base URL; `{model}` stands for the model asked for."""
    models_path: str
    read_models: Callable[[Any], Page]
    encoder_settings: Callable[[Vendor], dict[str, Any]]
    """What the encoder of the wire wants to know."""
    show_path: str | None = None
    """Where one model is asked about by its name, where lists do not say enough."""
    headers: Mapping[str, str] = MappingProxyType({})
    whole_event: bytes | None = b"%b"
    """A whole answer as the one event of a stream, which tells as much about it.

    None where a stream is JSON too, and its decoder takes a whole answer as a short one.
    """

    def path_for(self, model: str) -> str:
        """Return where requests to a model go. Raises InvalidRequest if it has to be named."""
        if "{model}" not in self.path:
            return self.path
        name = model if "/" in model else f"models/{model}"
        if any(part in ("", ".", "..") for part in name.split("/")):
            raise InvalidRequest("request: model must name one, this protocol has it in the path")
        return self.path.replace("{model}", quote(name))


def _dialect(vendor: Vendor) -> dict[str, Any]:
    return {"dialect": vendor.chat_dialect}


def _provider(vendor: Vendor) -> dict[str, Any]:
    return {"provider": vendor.sealer}


def _provider_and_strict(vendor: Vendor) -> dict[str, Any]:
    return {
        "provider": vendor.sealer,
        "strict_tools": vendor.capabilities.strict is not False,
    }


def _nothing(_: Vendor) -> dict[str, Any]:
    return {}


ENDPOINTS: Final = {
    "openai_chat": Endpoint("/chat/completions", "/models", read_openai, _dialect),
    "openai_responses": Endpoint(
        "/responses",
        "/models",
        read_openai,
        _provider,
        whole_event=b'{"type":"response.completed","response":%b}',
    ),
    "anthropic_messages": Endpoint(
        "/v1/messages",
        "/v1/models?limit=1000",
        read_anthropic,
        _provider_and_strict,
        headers=MappingProxyType({"anthropic-version": "2023-06-01"}),
        whole_event=b'{"type":"message_start","message":%b}',
    ),
    "gemini": Endpoint(
        "/{model}:streamGenerateContent?alt=sse",
        "/models?pageSize=1000",
        read_gemini,
        _provider,
        whole_event=None,
    ),
    "ollama_chat": Endpoint(
        "/api/chat",
        "/api/tags",
        read_ollama,
        _nothing,
        show_path="/api/show",
        whole_event=None,
    ),
}
"""The protocols that vendors are spoken to in, by the name of the wire."""


def endpoint_of(vendor: Vendor) -> Endpoint:
    """Return how a vendor is spoken to. Raises InvalidValue if its wire is none of these."""
    if vendor.wire not in ENDPOINTS:
        raise InvalidValue(f"{vendor.name}.wire: must be one of {', '.join(sorted(ENDPOINTS))}")
    return ENDPOINTS[vendor.wire]


def new_encoder(vendor: Vendor) -> Encoder:
    """Make an encoder that writes for a vendor."""
    wire = cast("_Writing", load_wire(vendor.wire))
    return wire.Encoder(**endpoint_of(vendor).encoder_settings(vendor))


class _Writing(Wire, Protocol):
    """A wire with an encoder for whole conversations."""

    def Encoder(self, **settings: Any) -> Encoder:  # noqa: N802 - a class of a module
        """Make an encoder."""
        ...
