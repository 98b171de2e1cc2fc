"""Lists of models in the formats of all servers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steno.errors import NotFound, ProtocolError, StenoError
from steno.providers import ApiKey, Capabilities, HttpProvider, connect
from steno.providers.endpoint import ENDPOINTS
from steno.providers.models import read_ollama_model
from steno.transport.replay import RecordedResponse, ReplayTransport
from tests.providers.provider_setup import RecordedSleep, vendor_row
from tests.transport.http_server import run


def said(answer: object, status: int = 200) -> RecordedResponse:
    return RecordedResponse((json.dumps(answer).encode(),), status, "application/json")


def listed(vendor: str, *answers: object) -> tuple[Any, ReplayTransport]:
    transport = ReplayTransport([said(answer) for answer in answers])
    provider = connect(vendor, key="k", transport=transport)
    return run(provider.models()), transport


OPENAI_STYLE: dict[str, tuple[Any, dict[str, Any]]] = {
    "openai": (
        {"object": "list", "data": [{"id": "gpt-x", "object": "model", "owned_by": "openai"}]},
        {"id": "gpt-x", "context_tokens": None},
    ),
    "vllm": (
        {"data": [{"id": "q", "max_model_len": 4096}]},
        {"id": "q", "context_tokens": 4096},
    ),
    "llama.cpp": (
        {"data": [{"id": "local", "meta": {"n_ctx_train": 8192}}], "models": [{"name": "local"}]},
        {"id": "local", "context_tokens": 8192},
    ),
    "groq": (
        {"data": [{"id": "l", "context_window": 131072, "max_completion_tokens": 32768}]},
        {"id": "l", "context_tokens": 131072, "max_output_tokens": 32768},
    ),
    "together": (
        [{"id": "a/b", "display_name": "B", "context_length": 65536}],
        {"id": "a/b", "title": "B", "context_tokens": 65536},
    ),
    "mistral": (
        {
            "data": [
                {
                    "id": "m",
                    "max_context_length": 131072,
                    "capabilities": {"function_calling": True, "vision": False},
                }
            ]
        },
        {
            "id": "m",
            "context_tokens": 131072,
            "capabilities": Capabilities(tools=True, vision=False),
        },
    ),
    "openrouter": (
        {
            "data": [
                {
                    "id": "o/r",
                    "name": "O: R",
                    "context_length": 200000,
                    "top_provider": {"max_completion_tokens": 64000},
                    "architecture": {"input_modalities": ["text", "image"]},
                    "supported_parameters": ["tools", "reasoning"],
                }
            ]
        },
        {
            "id": "o/r",
            "title": "O: R",
            "context_tokens": 200000,
            "max_output_tokens": 64000,
            "capabilities": Capabilities(tools=True, vision=True, thinking=True, strict=False),
        },
    ),
}


@pytest.mark.parametrize("vendor", OPENAI_STYLE)
def test_lists_in_the_style_of_openai_are_read(vendor: str) -> None:
    answer, expected = OPENAI_STYLE[vendor]
    (model,), transport = listed(vendor, answer)
    assert {name: getattr(model, name) for name in expected} == expected
    assert model.raw["id"] == model.id
    assert transport.sent[0].method == "GET"
    assert transport.sent[0].url.endswith("/models")


def test_anthropic_lists_pages_with_capabilities() -> None:
    first = {
        "data": [
            {
                "id": "claude-a",
                "display_name": "Claude A",
                "max_input_tokens": 200000,
                "max_tokens": 64000,
                "capabilities": {
                    "image_input": {"supported": True},
                    "thinking": {"supported": False},
                },
            }
        ],
        "has_more": True,
        "last_id": "claude-a",
    }
    second = {"data": [{"id": "claude-b"}], "has_more": False, "last_id": "claude-b"}
    (a, b), transport = listed("anthropic", first, second)
    assert (a.id, a.title, a.context_tokens, a.max_output_tokens) == (
        *("claude-a", "Claude A", 200000),
        64000,
    )
    assert a.capabilities == Capabilities(vision=True, thinking=False)
    assert b.id == "claude-b"
    assert [sent.url for sent in transport.sent] == [
        "https://api.anthropic.com/v1/models?limit=1000",
        "https://api.anthropic.com/v1/models?limit=1000&after_id=claude-a",
    ]
    assert transport.sent[0].headers["anthropic-version"] == "2023-06-01"


def test_gemini_lists_pages_and_what_generates() -> None:
    first = {
        "models": [
            {
                "name": "models/gemini-x",
                "displayName": "Gemini X",
                "inputTokenLimit": 1000000,
                "outputTokenLimit": 65536,
                "thinking": True,
                "supportedGenerationMethods": ["generateContent"],
            },
            {"name": "models/embedder", "supportedGenerationMethods": ["embedContent"]},
        ],
        "nextPageToken": "p/2",
    }
    (x, y), transport = listed("google", first, {"models": [{"name": "models/y"}]})
    assert (x.id, x.title, x.context_tokens, x.max_output_tokens) == (
        *("gemini-x", "Gemini X", 1000000),
        65536,
    )
    assert x.capabilities.thinking is True
    assert y.id == "y"
    assert transport.sent[1].url.endswith("/v1beta/models?pageSize=1000&pageToken=p%2F2")
    assert transport.sent[0].headers["x-goog-api-key"] == "k"


def test_ollama_lists_names_and_shows_capabilities() -> None:
    tags = {"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "size": 5}]}
    show = {
        "capabilities": ["completion", "tools", "thinking"],
        "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960},
    }
    (model,), _ = listed("ollama", tags)
    assert (model.id, model.capabilities) == ("qwen3:8b", Capabilities())
    transport = ReplayTransport([said(show)])
    provider = connect("ollama", model="qwen3:8b", transport=transport)
    model = run(provider.describe())
    assert model.context_tokens == 40960
    assert model.capabilities == Capabilities(tools=True, vision=False, thinking=True, strict=False)
    assert transport.sent[0].method == "POST"
    assert transport.sent[0].url == "http://localhost:11434/api/show"
    assert json.loads(transport.sent[0].body) == {"model": "qwen3:8b"}


def test_an_older_ollama_reports_no_capabilities() -> None:
    provider = connect("ollama", transport=ReplayTransport([said({"details": {}})]))
    assert run(provider.describe("old")).capabilities == Capabilities()


def test_a_model_is_described_from_the_list_if_there_is_no_show_path() -> None:
    answers = [said({"data": [{"id": "a"}, {"id": "b"}]})] * 2
    provider = connect("vllm", transport=ReplayTransport(answers))
    assert run(provider.describe("b")).id == "b"
    with pytest.raises(NotFound):
        run(provider.describe("c"))


def test_entries_that_name_no_model_are_left_out() -> None:
    entries = [{"id": "a"}, {"id": ""}, {"object": "model"}, "b", None, {"id": 7}]
    (model,), _ = listed("vllm", {"data": entries})
    assert model.id == "a"


def test_values_of_a_wrong_type_count_as_missing() -> None:
    odd = {"id": "a", "name": 5, "max_model_len": "many", "meta": [], "capabilities": ["vision"]}
    (model,), _ = listed("vllm", {"data": [odd]})
    assert (model.title, model.context_tokens, model.capabilities) == (None, None, Capabilities())


@pytest.mark.parametrize("answer", [{}, [], 7, {"data": {}}, {"data": None}, "text"])
@pytest.mark.parametrize("vendor", ["anthropic", "google", "ollama"])
def test_a_response_that_is_not_a_list_is_a_protocol_error(vendor: str, answer: object) -> None:
    with pytest.raises(ProtocolError) as caught:
        listed(vendor, answer)
    assert (caught.value.code, caught.value.place) == ("models_malformed", "models")


def test_a_response_that_is_not_json_is_a_protocol_error() -> None:
    provider = connect(
        "vllm", transport=ReplayTransport([RecordedResponse((b"<html>",), 200, "text/html")])
    )
    with pytest.raises(ProtocolError) as caught:
        run(provider.models())
    assert caught.value.code == "wrong_protocol"
    assert caught.value.place == "http://localhost:8000/v1/models"


def test_an_endless_list_of_pages_is_given_up() -> None:
    page = {"data": [{"id": "a"}], "has_more": True, "last_id": "a"}
    models, transport = listed("anthropic", *[page] * 60)
    assert len(transport.sent) == 51
    assert len(models) == 51


def test_a_request_for_models_is_retried_like_any_other() -> None:
    patience = RecordedSleep()
    answers = [said({"error": "busy"}, 503), said({"data": []})]
    provider = HttpProvider(
        vendor_row("http://lab.example"),
        key=ApiKey("k"),
        transport=ReplayTransport(answers),
        sleep=patience.sleep,
        jitter=lambda: 0.0,
    )
    assert run(provider.models()) == ()
    assert patience.waited == [0.5]


def test_a_wire_without_a_list_of_models_raises_not_found() -> None:
    provider = connect("vllm", transport=ReplayTransport([said({"error": "no"}, 404)]))
    with pytest.raises(StenoError):
        run(provider.models())


# -- any JSON ------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    [
        *("data", "models", "id", "name", "meta", "n_ctx", "top_provider", "max_completion_tokens"),
        *("capabilities", "model_info", "a.context_length", "b.context_length", "thinking"),
        *("supported_parameters", "architecture", "input_modalities", "image_input", "supported"),
        *("supportedGenerationMethods", "displayName", "display_name", "inputTokenLimit"),
        *("has_more", "last_id", "nextPageToken", "context_length", "max_input_tokens"),
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "models/", "models/x", "tools", "generateContent"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
ENTRIES = st.lists(
    st.dictionaries(NAMES, JSON, max_size=4).map(lambda entry: {"id": "i", "name": "n"} | entry),
    max_size=3,
)
ANSWERS = JSON | st.builds(
    lambda more, entries: more | {"data": entries, "models": entries},
    st.dictionaries(NAMES, JSON, max_size=3),
    ENTRIES,
)


@pytest.mark.parametrize("wire", ENDPOINTS)
@given(answer=ANSWERS)
def test_any_json_is_a_list_of_models_or_a_protocol_error(wire: str, answer: Any) -> None:
    try:
        page = ENDPOINTS[wire].read_models(answer)
    except ProtocolError:
        return
    assert all(model.id for model in page.models)
    query = page.next_query or {}
    assert all(query.values())


@given(answer=JSON)
def test_any_json_about_one_model_is_a_model_or_a_protocol_error(answer: Any) -> None:
    try:
        model = read_ollama_model("m", answer)
    except ProtocolError:
        assert not isinstance(answer, dict)
        return
    assert model.id == "m"
    assert model.context_tokens is None or model.context_tokens > 0


@pytest.mark.parametrize("facts", [[1], "text", 7, True, {"a.context_length": "long"}])
def test_odd_facts_about_a_model_count_as_missing(facts: object) -> None:
    provider = connect("ollama", transport=ReplayTransport([said({"model_info": facts})]))
    assert run(provider.describe("m")).context_tokens is None


@pytest.mark.parametrize("vendor", ["vllm", "anthropic", "google", "ollama"])
def test_a_model_described_too_deeply_is_a_protocol_error(vendor: str) -> None:
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    entry = {"id": "a", "name": "a", "deep": deep}
    with pytest.raises(ProtocolError) as caught:
        listed(vendor, {"data": [entry], "models": [entry]})
    assert (caught.value.code, caught.value.place) == ("models_malformed", "models")
    provider = connect("ollama", transport=ReplayTransport([said(entry)]))
    with pytest.raises(ProtocolError) as caught:
        run(provider.describe("a"))
    assert (caught.value.code, caught.value.place) == ("models_malformed", "models")
