"""The catalog of known vendors, one row each, and the vendors of a configuration file.

Capabilities and limits are those that the vendor documents for all of its models. If models differ,
as most do, the field is left out, and `HttpProvider.models` or `describe` may report the value.
`thinking` states whether the protocol can return thinking as the vendor serves it: OpenAI and xAI
return thinking in the responses API, but not in chat completions.

A configuration is TOML or JSON that the caller has parsed. A row is complete, or it names a known
vendor in `like` and has only the differences:

    [providers.lab]
    like = "vllm"
    base_url = "http://gpu.example:8000/v1"
    key_variables = ["LAB_KEY"]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from steno.errors import InvalidValue
from steno.providers.endpoint import find_endpoint
from steno.providers.row_errors import build_row_error
from steno.providers.vendor import Auth, Capabilities, Vendor, check_rule
from steno.wire.openai_chat import DIALECTS, Dialect

T = TypeVar("T")

_TOOLS_AND_THINKING: Final = Capabilities(tools=True, thinking=True)
_THINKING_ONLY: Final = Capabilities(thinking=True)

CATALOG: Final = {
    vendor.name: vendor
    for vendor in (
        Vendor(
            name="openai",
            title="OpenAI (chat completions)",
            wire="openai_chat",
            base_url="https://api.openai.com/v1",
            key_variables=("OPENAI_API_KEY",),
            needs_model=True,
            capabilities=Capabilities(tools=True, thinking=False, strict=True),
        ),
        Vendor(
            name="openai-responses",
            title="OpenAI (responses)",
            wire="openai_responses",
            base_url="https://api.openai.com/v1",
            provider="openai",
            key_variables=("OPENAI_API_KEY",),
            # No model needed: a prompt that is stored at OpenAI may name it.
            capabilities=Capabilities(tools=True, thinking=True, strict=True),
        ),
        Vendor(
            name="anthropic",
            title="Anthropic",
            wire="anthropic_messages",
            base_url="https://api.anthropic.com",
            auth=Auth.X_API_KEY,
            key_variables=("ANTHROPIC_API_KEY",),
            needs_model=True,
            capabilities=Capabilities(tools=True, vision=True, thinking=True),
        ),
        Vendor(
            name="google",
            title="Google Gemini",
            wire="gemini",
            base_url="https://generativelanguage.googleapis.com/v1beta",
            auth=Auth.X_GOOG_API_KEY,
            key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            needs_model=True,
            capabilities=Capabilities(tools=True, thinking=True, strict=False),
        ),
        Vendor(
            name="azure",
            title="Azure OpenAI (v1)",
            wire="openai_chat",
            base_url="",  # https://RESOURCE.openai.azure.com/openai/v1; models are deployments
            provider="openai",
            auth=Auth.API_KEY,
            key_variables=("AZURE_OPENAI_API_KEY",),
            needs_model=True,
            capabilities=Capabilities(tools=True, strict=True),
        ),
        Vendor(
            name="openrouter",
            title="OpenRouter",
            wire="openai_chat",
            base_url="https://openrouter.ai/api/v1",
            key_variables=("OPENROUTER_API_KEY",),
            # No model needed: every account has a default model.
            capabilities=_THINKING_ONLY,
        ),
        Vendor(
            name="groq",
            title="Groq",
            wire="openai_chat",
            base_url="https://api.groq.com/openai/v1",
            key_variables=("GROQ_API_KEY",),
            needs_model=True,
            capabilities=_TOOLS_AND_THINKING,
        ),
        Vendor(
            name="mistral",
            title="Mistral",
            wire="openai_chat",
            base_url="https://api.mistral.ai/v1",
            key_variables=("MISTRAL_API_KEY",),
            needs_model=True,
            capabilities=_TOOLS_AND_THINKING,
            max_temperature=1.5,  # a higher one is answered with status 422
        ),
        Vendor(
            name="deepseek",
            title="DeepSeek",
            wire="openai_chat",
            base_url="https://api.deepseek.com",
            key_variables=("DEEPSEEK_API_KEY",),
            needs_model=True,
            # According to its price list, Flash models accept images and Pro models do not.
            capabilities=Capabilities(tools=True, thinking=True, strict=False),
            context_tokens=1_000_000,  # for all models, according to the price list
            max_output_tokens=384_000,
        ),
        Vendor(
            name="together",
            title="Together",
            wire="openai_chat",
            base_url="https://api.together.ai/v1",
            key_variables=("TOGETHER_API_KEY",),
            needs_model=True,
            capabilities=_THINKING_ONLY,
        ),
        Vendor(
            name="fireworks",
            title="Fireworks",
            wire="openai_chat",
            base_url="https://api.fireworks.ai/inference/v1",
            key_variables=("FIREWORKS_API_KEY",),
            needs_model=True,
            capabilities=_THINKING_ONLY,
        ),
        Vendor(
            name="xai",
            title="xAI (chat completions)",
            wire="openai_chat",
            base_url="https://api.x.ai/v1",
            key_variables=("XAI_API_KEY",),
            needs_model=True,
            capabilities=Capabilities(tools=True, thinking=False),
        ),
        Vendor(
            name="xai-responses",
            title="xAI (responses)",
            wire="openai_responses",
            base_url="https://api.x.ai/v1",
            provider="xai",
            key_variables=("XAI_API_KEY",),
            needs_model=True,
            capabilities=_TOOLS_AND_THINKING,
        ),
        # -- local servers: a key is sent only if one is set -------------------------------------
        Vendor(
            name="ollama",
            title="Ollama",
            wire="ollama_chat",
            base_url="http://localhost:11434",
            key_variables=("OLLAMA_API_KEY",),
            needs_key=False,
            hint="start it with `ollama serve`",
            needs_model=True,
            capabilities=Capabilities(thinking=True, strict=False),
        ),
        Vendor(
            name="vllm",
            title="vLLM",
            wire="openai_chat",
            base_url="http://localhost:8000/v1",
            key_variables=("VLLM_API_KEY",),
            needs_key=False,
            capabilities=_THINKING_ONLY,
        ),
        Vendor(
            name="lmstudio",
            title="LM Studio",
            wire="openai_chat",
            base_url="http://localhost:1234/v1",
            needs_key=False,
            capabilities=_THINKING_ONLY,
        ),
        Vendor(
            name="llama.cpp",
            title="llama.cpp (chat completions)",
            wire="openai_chat",
            base_url="http://localhost:8080/v1",
            key_variables=("LLAMA_API_KEY",),
            needs_key=False,
            capabilities=_THINKING_ONLY,
        ),
        Vendor(
            name="llama.cpp-responses",
            title="llama.cpp (responses)",
            wire="openai_responses",
            base_url="http://localhost:8080/v1",
            provider="llama.cpp",
            key_variables=("LLAMA_API_KEY",),
            needs_key=False,
            capabilities=_THINKING_ONLY,
        ),
        Vendor(
            name="llama.cpp-messages",
            title="llama.cpp (messages)",
            wire="anthropic_messages",
            base_url="http://localhost:8080",
            provider="llama.cpp",
            key_variables=("LLAMA_API_KEY",),
            needs_key=False,
            capabilities=_THINKING_ONLY,
        ),
    )
}
"""The known vendors, by the name to pass to `connect`."""


# -- vendors of a configuration --------------------------------------------------------------------


class _VendorRow(Struct, forbid_unknown_fields=True, kw_only=True):
    like: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    wire: str | UnsetType = UNSET
    base_url: str | UnsetType = UNSET
    path: str | UnsetType = UNSET
    provider: str | UnsetType = UNSET
    dialect: dict[str, Any] | str | UnsetType = UNSET
    auth: str | UnsetType = UNSET
    key_variables: tuple[str, ...] | UnsetType = UNSET
    needs_key: bool | UnsetType = UNSET
    needs_model: bool | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    capabilities: _CapabilitiesRow | UnsetType = UNSET
    context_tokens: int | UnsetType = UNSET
    max_output_tokens: int | UnsetType = UNSET
    max_temperature: float | UnsetType = UNSET


class _CapabilitiesRow(Struct, forbid_unknown_fields=True, kw_only=True):
    tools: bool | UnsetType = UNSET
    vision: bool | UnsetType = UNSET
    thinking: bool | UnsetType = UNSET
    strict: bool | UnsetType = UNSET


_FIELD_NAMES: Final = (*_VendorRow.__struct_fields__, *_CapabilitiesRow.__struct_fields__)


def read_vendors(
    table: Mapping[str, Any], *, known: Mapping[str, Vendor] = CATALOG
) -> dict[str, Vendor]:
    """Return the known vendors, and the vendors of a table that maps names to rows.

    A row with the name of a known vendor replaces that vendor. In `like`, a row may name an earlier
    row of the same table. Raises InvalidValue if a row is invalid; the place of the error names the
    field.
    """
    found = dict(known)
    for name, row in table.items():
        found[name] = _read_vendor(name, row, found)
    return found


def _read_vendor(name: str, row: object, known: Mapping[str, Vendor]) -> Vendor:
    fields = _given_fields(_convert_row(row, _VendorRow, name))
    like, dialect = fields.pop("like", None), fields.pop("dialect", None)
    base = _new_vendor(name, fields) if like is None else known.get(like)
    if base is None:
        raise _not_a_choice(sorted(known), f"{name}.like")
    if "auth" in fields:
        if fields["auth"] not in set(Auth):
            raise _not_a_choice(Auth, f"{name}.auth")
        fields["auth"] = Auth(fields["auth"])
    if "capabilities" in fields:
        given = _given_fields(fields["capabilities"])
        fields["capabilities"] = replace(base.capabilities, **given)
    if "headers" in fields:
        fields["headers"] = tuple([(key.lower(), text) for key, text in fields["headers"].items()])
    if "base_url" in fields:
        fields.setdefault("needs_model", base.needs_model_at(fields["base_url"]))
    vendor = replace(base, **{"provider": base.provider_name, **fields, "name": name})
    find_endpoint(vendor)
    return vendor if dialect is None else replace(vendor, dialect=_read_dialect(dialect, vendor))


def _new_vendor(name: str, fields: dict[str, Any]) -> Vendor:
    """Return the vendor of a row without `like`.

    Raises InvalidValue if the row has no `wire` or no `base_url`.
    """
    rule = 'required unless "like" names a vendor to copy'
    for field in ("wire", "base_url"):
        check_rule(field in fields, rule, f"{name}.{field}", code="field_missing")
    needs_key = bool(fields.get("key_variables"))
    return Vendor(name=name, wire=fields["wire"], base_url=fields["base_url"], needs_key=needs_key)


def _not_a_choice(choices: Iterable[str], place: str) -> InvalidValue:
    return InvalidValue(f"must be one of {', '.join(choices)}", place=place, code="not_a_choice")


def _read_dialect(dialect: str | dict[str, Any], vendor: Vendor) -> Dialect:
    """Return a dialect by its name, or the dialect of the vendor with some fields changed."""
    place = f"{vendor.name}.dialect"
    if isinstance(dialect, str):
        if dialect not in DIALECTS:
            raise _not_a_choice(sorted(DIALECTS), place)
        return DIALECTS[dialect]
    if unknown := dialect.keys() - set(Dialect.__struct_fields__) - {"provider"}:
        raise InvalidValue(f"unknown field {min(unknown)}", place=place, code="field_unknown")
    changed = _convert_row({**dialect, "provider": vendor.provider_name}, Dialect, place)
    return replace(vendor.chat_dialect, **{name: getattr(changed, name) for name in dialect})


def _given_fields(row: Struct) -> dict[str, Any]:
    return {name: value for name, value in asdict(row).items() if value is not UNSET}


def _convert_row(value: object, kind: type[T], place: str) -> T:
    try:
        return msgspec.convert(value, kind, dec_hook=_compile_pattern)
    except msgspec.ValidationError as exc:
        raise build_row_error(exc, place, fields=_FIELD_NAMES) from None


def _compile_pattern(kind: type, value: object) -> object:
    """Compile the pattern of call ids. Raises ValueError if it is not a valid regular expression.

    This is the only type of field that msgspec cannot convert.
    """
    if not isinstance(value, str):
        raise ValueError("must be a string")
    try:
        return re.compile(value)
    except re.error:
        raise ValueError("must be a valid regular expression") from None
