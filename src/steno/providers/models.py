"""Read what servers say about their models, in each of the four ways they say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple, final

from steno.errors import InvalidValue, ProtocolError
from steno.json_object import JsonObject
from steno.providers.vendor import UNKNOWN_CAPABILITIES, Capabilities
from steno.values import RedactedRepr

Json = Mapping[str, Any]


@final
class Model(RedactedRepr, frozen=True, kw_only=True):
    """A model that a server offers. What it did not say is None."""

    shown: ClassVar[frozenset[str]] = frozenset({"id", "title"})

    id: str
    """What to ask for it by: `Request.model`."""
    title: str | None = None
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    capabilities: Capabilities = UNKNOWN_CAPABILITIES
    raw: JsonObject
    """Everything the server said about it."""


class ModelPage(NamedTuple):
    """A part of a list, and how to ask for the next one."""

    models: tuple[Model, ...]
    next_query: dict[str, str] | None = None


def read_openai_models(answer: Any) -> ModelPage:
    """Read `/models` of OpenAI and those who copy it, some without the envelope."""
    entries = answer if isinstance(answer, list) else _read_list(answer, "data")
    return ModelPage(tuple(map(_openai_model, _named_objects(entries, "id"))))


def read_anthropic_models(answer: Any) -> ModelPage:
    """Read one page of Anthropic's `/v1/models`."""
    models = tuple(map(_anthropic_model, _named_objects(_read_list(answer, "data"), "id")))
    last = answer.get("last_id")
    if answer.get("has_more") is True and isinstance(last, str) and models:
        return ModelPage(models, {"after_id": last})
    return ModelPage(models)


def read_gemini_models(answer: Any) -> ModelPage:
    """Read one page of Gemini's `/models`; those that do not generate are left out."""
    entries = _named_objects(_read_list(answer, "models"), "name")
    models = tuple([_gemini_model(entry) for entry in entries if _can_generate(entry)])
    token = answer.get("nextPageToken")
    return ModelPage(models, {"pageToken": token} if isinstance(token, str) and token else None)


def read_ollama_models(answer: Any) -> ModelPage:
    """Read Ollama's `/api/tags`, which says nothing about what a model can do."""
    entries = _named_objects(_read_list(answer, "models"), "name")
    return ModelPage(tuple([Model(id=entry["name"], raw=_copy_json(entry)) for entry in entries]))


def read_ollama_model(model: str, answer: Any) -> Model:
    """Read Ollama's `/api/show`: capabilities as words, the rest under the architecture's name."""
    if not isinstance(answer, dict):
        raise ProtocolError("models: not an object")
    words = answer.get("capabilities")
    facts = _read_object(answer, "model_info")
    lengths = [
        _read_count(value) for name, value in facts.items() if name.endswith(".context_length")
    ]
    return Model(
        id=model,
        context_tokens=next(filter(None, lengths), None),
        capabilities=Capabilities(
            tools="tools" in words,
            vision="vision" in words,
            thinking="thinking" in words,
            strict=False,
        )
        if isinstance(words, list)
        else UNKNOWN_CAPABILITIES,
        raw=_copy_json(answer),
    )


# -- one model -------------------------------------------------------------------------------

_CONTEXT_FIELDS: Final = (
    "context_length",  # OpenRouter, Together, Fireworks
    "context_window",  # Groq
    "max_model_len",  # vLLM
    "max_context_length",  # Mistral, LM Studio
)


def _openai_model(entry: Json) -> Model:
    contexts = [entry.get(name) for name in _CONTEXT_FIELDS]
    meta = _read_object(
        entry, "meta"
    )  # llama.cpp: what it was started with, what it was trained for
    contexts += [meta.get("n_ctx"), meta.get("n_ctx_train")]
    top = _read_object(entry, "top_provider")  # OpenRouter
    title = entry.get("name") or entry.get("display_name")
    return Model(
        id=entry["id"],
        title=title if isinstance(title, str) else None,
        context_tokens=next((found for value in contexts if (found := _read_count(value))), None),
        max_output_tokens=_read_count(
            entry.get("max_completion_tokens") or top.get("max_completion_tokens")
        ),
        capabilities=_openai_capabilities(entry),
        raw=_copy_json(entry),
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
    said = _read_object(entry, "capabilities")  # Mistral
    return Capabilities(
        tools=_read_bool(said.get("function_calling", entry.get("supports_tools"))),
        vision=_read_bool(said.get("vision", entry.get("supports_image_input"))),
        thinking=_read_bool(said.get("reasoning")),
    )


def _anthropic_model(entry: Json) -> Model:
    said = _read_object(entry, "capabilities")
    title = entry.get("display_name")
    return Model(
        id=entry["id"],
        title=title if isinstance(title, str) else None,
        context_tokens=_read_count(entry.get("max_input_tokens")),
        max_output_tokens=_read_count(entry.get("max_tokens")),
        capabilities=Capabilities(
            vision=_read_bool(_read_object(said, "image_input").get("supported")),
            thinking=_read_bool(_read_object(said, "thinking").get("supported")),
            strict=_read_bool(_read_object(said, "structured_outputs").get("supported")),
        ),
        raw=_copy_json(entry),
    )


def _gemini_model(entry: Json) -> Model:
    title = entry.get("displayName")
    return Model(
        id=entry["name"].removeprefix("models/"),
        title=title if isinstance(title, str) else None,
        context_tokens=_read_count(entry.get("inputTokenLimit")),
        max_output_tokens=_read_count(entry.get("outputTokenLimit")),
        capabilities=Capabilities(thinking=_read_bool(entry.get("thinking"))),
        raw=_copy_json(entry),
    )


def _can_generate(entry: Json) -> bool:
    methods = entry.get("supportedGenerationMethods")
    is_named = entry["name"] != "models/"
    return is_named and (not isinstance(methods, list) or "generateContent" in methods)


# -- values of any shape ---------------------------------------------------------------------


def _read_list(answer: Any, name: str) -> list[Any]:
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise ProtocolError(f"models: no list of {name}")
    return found


def _named_objects(entries: list[Any], key: str) -> Iterator[Json]:
    """Yield the entries that name a model; what else a server lists is of no use here."""
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get(key), str) and entry[key]:
            yield entry


def _copy_json(said: Json) -> JsonObject:
    try:
        return JsonObject(said)
    except InvalidValue:
        raise ProtocolError("models: nested too deeply") from None


def _read_object(entry: Json, name: str) -> Json:
    found = entry.get(name)
    return found if isinstance(found, dict) else {}


def _read_count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _read_bool(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
