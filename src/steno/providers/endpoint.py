"""The HTTP endpoint of each wire: its paths, headers and encoder settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote

from steno.errors import InvalidRequest
from steno.messages.request import MAX_TEMPERATURE
from steno.providers.models import (
    ModelPage,
    read_anthropic_models,
    read_gemini_models,
    read_ollama_models,
    read_openai_models,
)
from steno.providers.vendor import Vendor, check_rule
from steno.wire import WIRES, Encoder, Wire


class Endpoint(NamedTuple):
    """The HTTP properties of one wire."""

    path: str
    """The path of requests after the base URL; `{model}` is replaced with the model."""
    models_path: str | None = None
    """The path of the list of models; None if it is unknown."""
    read_models: Callable[[Any], ModelPage] = read_openai_models
    encoder_settings: tuple[str, ...] | None = None
    """The names of the settings of the wire's encoder; None if the wire has no encoder."""
    show_path: str | None = None
    """The path that describes one model; None if the list of models describes them in full."""
    headers: Mapping[str, str] = MappingProxyType({})
    requires_max_tokens: bool = False
    """Whether every request must set `max_tokens`."""
    max_temperature: float = MAX_TEMPERATURE
    """The highest temperature of the protocol; a vendor may have a lower one."""
    has_whole_responses: bool = False
    """Whether a body that begins like JSON is a response that is not a stream.

    False if a stream may be JSON, too; the stream decoder then also decodes whole responses.
    """
    stream_marker: re.Pattern[bytes] | None = None
    """Matches every stream of this wire and no stream of another wire; None if unknown."""

    def may_match(self, body: bytes) -> bool:
        """Return whether a body with this beginning may belong to this wire."""
        return self.stream_marker is None or self.stream_marker.search(body) is not None

    def path_for(self, model: str) -> str:
        """Return the path of requests to a model. Raises InvalidRequest for an invalid name."""
        if "{model}" not in self.path:
            return self.path
        name = model if "/" in model else f"models/{model}"
        if any(part in ("", ".", "..") for part in name.split("/")):
            raise InvalidRequest(
                'the model name is missing, or contains an empty segment, "." or "..", which is not'
                " allowed in the URL path of this protocol",
                place="request",
                code="model_missing",
            )
        return self.path.replace("{model}", quote(name))


ENDPOINTS: Final[Mapping[str, Endpoint]] = {
    "openai_chat": Endpoint(
        "/chat/completions",
        "/models",
        read_openai_models,
        ("dialect",),
        has_whole_responses=True,
        stream_marker=re.compile(rb'"choices"'),
    ),
    "openai_responses": Endpoint(
        "/responses",
        "/models",
        read_openai_models,
        ("provider",),
        has_whole_responses=True,
        stream_marker=re.compile(rb'"(?:response\.[a-z._]+|keepalive)"'),
    ),
    "anthropic_messages": Endpoint(
        "/v1/messages",
        "/v1/models?limit=1000",
        read_anthropic_models,
        ("provider", "strict_tools"),
        headers=MappingProxyType({"anthropic-version": "2023-06-01"}),
        requires_max_tokens=True,
        max_temperature=1,
        has_whole_responses=True,
        stream_marker=re.compile(rb'"(?:message_start|ping)"'),
    ),
    "gemini": Endpoint(
        "/{model}:streamGenerateContent?alt=sse",
        "/models?pageSize=1000",
        read_gemini_models,
        ("provider",),
        stream_marker=re.compile(rb'"(?:candidates|promptFeedback|usageMetadata)"'),
    ),
    "ollama_chat": Endpoint(
        "/api/chat",
        "/api/tags",
        read_ollama_models,
        (),
        show_path="/api/show",
        stream_marker=re.compile(rb'"done"'),
    ),
}
"""The endpoints by the name of the wire."""


def highest_temperature(vendor: Vendor) -> float:
    """Return the highest temperature that a vendor accepts: that of its row, or of its wire."""
    highest = find_endpoint(vendor).max_temperature
    return highest if vendor.max_temperature is None else min(highest, vendor.max_temperature)


def find_endpoint(vendor: Vendor) -> Endpoint:
    """Return the endpoint of a vendor, without importing a user's wire module.

    Raises InvalidValue if the wire is unknown or has no path.
    """
    wire: object = vendor.wire
    name = wire if isinstance(wire, str) else getattr(wire, "__name__", "")
    builtin = ENDPOINTS.get(name.removeprefix("steno.wire."))
    is_known = builtin is not None or not isinstance(wire, str) or "." in wire or wire in WIRES
    names = ", ".join(sorted(ENDPOINTS))
    rule = f'unknown wire "{name}": use one of {names}, or a module such as package.module'
    check_rule(is_known, rule, f"{vendor.name}.wire", code="wire_unknown")
    rule = "required: the path to which requests are sent, since this wire has no default path"
    has_path = builtin is not None or vendor.path != ""
    check_rule(has_path, rule, f"{vendor.name}.path", code="field_missing")
    endpoint = builtin or Endpoint(vendor.path)
    return endpoint._replace(path=vendor.path) if vendor.path else endpoint


def build_encoder(vendor: Vendor, wire: Wire) -> Encoder:
    """Return an encoder for a vendor whose wire has one."""
    settings = {
        "dialect": vendor.chat_dialect,
        "provider": vendor.provider_name,
        "strict_tools": vendor.capabilities.strict is not False,
    }
    new_encoder: Callable[..., Encoder] = cast("Any", wire).Encoder
    names = find_endpoint(vendor).encoder_settings or ()
    return new_encoder(**{name: settings[name] for name in names})
