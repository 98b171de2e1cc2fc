"""Read the list of models of a server, in the four formats that servers use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple, final

from steno.errors import InvalidValue, ProtocolError
from steno.json_object import JsonObject
from steno.providers.vendor import UNKNOWN_CAPABILITIES, Capabilities
from steno.values import RedactedRepr

Json = Mapping[str, Any]


@final
class Model(RedactedRepr, frozen=True, kw_only=True):
    """A model of a server. Properties that the server does not report are None."""

    shown: ClassVar[frozenset[str]] = frozenset({"id", "title"})

    id: str
    """The name in a request: `Request.model`."""
    title: str | None = None
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    capabilities: Capabilities = UNKNOWN_CAPABILITIES
    raw: JsonObject
    """The description of the model as the server sent it."""


class ModelPage(NamedTuple):
    """One page of a list of models, and the query for the next page; None on the last page."""

    models: tuple[Model, ...]
    next_query: dict[str, str] | None = None


def read_openai_models(body: Any) -> ModelPage:
    """Read `/models` of OpenAI and compatible servers.

    Some servers send only the list, without the object around it.
    """
    entries = body if isinstance(body, list) else _read_list(body, "data")
    return ModelPage(tuple(map(_openai_model, _named_objects(entries, "id"))))


def read_anthropic_models(body: Any) -> ModelPage:
    """Read one page of Anthropic's `/v1/models`."""
    models = tuple(map(_anthropic_model, _named_objects(_read_list(body, "data"), "id")))
    last = body.get("last_id")
    if body.get("has_more") is True and isinstance(last, str) and models:
        return ModelPage(models, {"after_id": last})
    return ModelPage(models)


def read_gemini_models(body: Any) -> ModelPage:
    """Read one page of Gemini's `/models`; skip models that cannot generate content."""
    entries = _named_objects(_read_list(body, "models"), "name")
    models = tuple([_gemini_model(entry) for entry in entries if _can_generate(entry)])
    token = body.get("nextPageToken")
    return ModelPage(models, {"pageToken": token} if isinstance(token, str) and token else None)


def read_ollama_models(body: Any) -> ModelPage:
    """Read Ollama's `/api/tags`, which does not report capabilities."""
    entries = _named_objects(_read_list(body, "models"), "name")
    return ModelPage(tuple([_build_model(entry["name"], entry) for entry in entries]))


def read_ollama_model(model: str, body: Any) -> Model:
    """Read Ollama's `/api/show`, which has the context length as `ARCHITECTURE.context_length`."""
    if not isinstance(body, dict):
        raise ProtocolError(
            "the response is not a JSON object", place="models", code="models_malformed"
        )
    names = body.get("capabilities")
    capabilities = UNKNOWN_CAPABILITIES
    if isinstance(names, list):
        tools, vision, thinking = (name in names for name in ("tools", "vision", "thinking"))
        capabilities = Capabilities(tools=tools, vision=vision, thinking=thinking, strict=False)
    facts = _read_object(body, "model_info")
    lengths = [value for name, value in facts.items() if name.endswith(".context_length")]
    return _build_model(model, body, context_tokens=lengths, capabilities=capabilities)


# -- one model -------------------------------------------------------------------------------------

_CONTEXT_FIELDS: Final = (
    "context_length",  # OpenRouter, Together, Fireworks
    "context_window",  # Groq
    "max_model_len",  # vLLM
    "max_context_length",  # Mistral, LM Studio
)


def _build_model(
    id: str,
    entry: Json,
    *,
    title: object = None,
    context_tokens: Iterable[object] = (),
    output_tokens: Iterable[object] = (),
    capabilities: Capabilities = UNKNOWN_CAPABILITIES,
) -> Model:
    """Build a model from unchecked values.

    Of several token counts, the first valid one is used.
    """
    return Model(
        id=id,
        title=title if isinstance(title, str) else None,
        context_tokens=next(filter(None, map(_read_count, context_tokens)), None),
        max_output_tokens=next(filter(None, map(_read_count, output_tokens)), None),
        capabilities=capabilities,
        raw=_copy_json(entry),
    )


def _openai_model(entry: Json) -> Model:
    # llama.cpp: `n_ctx` is the context it was started with, `n_ctx_train` that of the training.
    meta = _read_object(entry, "meta")
    top = _read_object(entry, "top_provider")  # OpenRouter
    name = "max_completion_tokens"
    return _build_model(
        entry["id"],
        entry,
        title=entry.get("name") or entry.get("display_name"),
        context_tokens=(
            *map(entry.get, _CONTEXT_FIELDS),
            *map(meta.get, ("n_ctx", "n_ctx_train")),
        ),
        output_tokens=[entry.get(name) or top.get(name)],
        capabilities=_openai_capabilities(entry),
    )


def _openai_capabilities(entry: Json) -> Capabilities:
    parameters = entry.get("supported_parameters")
    inputs = _read_object(entry, "architecture").get("input_modalities")
    if isinstance(parameters, list) and isinstance(inputs, list):  # OpenRouter
        return Capabilities(
            tools="tools" in parameters,
            vision="image" in inputs,
            thinking="reasoning" in parameters,
            strict="structured_outputs" in parameters,
        )
    listed = _read_object(entry, "capabilities")  # Mistral
    return Capabilities(
        tools=_read_bool(listed.get("function_calling", entry.get("supports_tools"))),
        vision=_read_bool(listed.get("vision", entry.get("supports_image_input"))),
        thinking=_read_bool(listed.get("reasoning")),
    )


def _anthropic_model(entry: Json) -> Model:
    listed = _read_object(entry, "capabilities")
    vision, thinking, strict = (
        _read_bool(_read_object(listed, name).get("supported"))
        for name in ("image_input", "thinking", "structured_outputs")
    )
    return _build_model(
        entry["id"],
        entry,
        title=entry.get("display_name"),
        context_tokens=[entry.get("max_input_tokens")],
        output_tokens=[entry.get("max_tokens")],
        capabilities=Capabilities(vision=vision, thinking=thinking, strict=strict),
    )


def _gemini_model(entry: Json) -> Model:
    return _build_model(
        entry["name"].removeprefix("models/"),
        entry,
        title=entry.get("displayName"),
        context_tokens=[entry.get("inputTokenLimit")],
        output_tokens=[entry.get("outputTokenLimit")],
        capabilities=Capabilities(thinking=_read_bool(entry.get("thinking"))),
    )


def _can_generate(entry: Json) -> bool:
    methods = entry.get("supportedGenerationMethods")
    is_named = entry["name"] != "models/"
    return is_named and (not isinstance(methods, list) or "generateContent" in methods)


# -- values of any shape ---------------------------------------------------------------------------


def _read_list(body: Any, name: str) -> list[Any]:
    found = body.get(name) if isinstance(body, dict) else None
    if not isinstance(found, list):
        raise ProtocolError(
            f'the response has no list "{name}"', place="models", code="models_malformed"
        )
    return found


def _named_objects(entries: list[Any], key: str) -> Iterator[Json]:
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get(key), str) and entry[key]:
            yield entry


def _copy_json(facts: Json) -> JsonObject:
    try:
        return JsonObject(facts)
    except InvalidValue:
        raise ProtocolError(
            "the response is nested too deeply", place="models", code="models_malformed"
        ) from None


def _read_object(entry: Json, name: str) -> Json:
    found = entry.get(name)
    return found if isinstance(found, dict) else {}


def _read_count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _read_bool(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
