"""The vendors of the catalog are valid, and users can add their own."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from steno.errors import InvalidRequest, InvalidValue, ProviderError
from steno.messages.change import Change, ChangeCode
from steno.ports import HttpRequest
from steno.providers import CATALOG, Auth, Capabilities, Retries, Vendor, connect, read_vendors
from steno.providers.endpoint import ENDPOINTS, find_endpoint
from steno.transport.proxy import is_loopback
from steno.transport.replay import RecordedResponse, ReplayTransport
from steno.wire import anthropic_messages
from steno.wire.openai_chat import DIALECTS
from tests.providers.provider_setup import REQUEST, vendor_row

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "providers.md"
EVERY_VENDOR = pytest.mark.parametrize("vendor", CATALOG.values(), ids=lambda v: v.name)


@EVERY_VENDOR
def test_a_request_can_be_sent_to_every_vendor_of_the_catalog(vendor: Vendor) -> None:
    base_url = vendor.base_url or "https://resource.openai.azure.com/openai/v1"
    provider = connect(vendor, key="k", base_url=base_url, transport=ReplayTransport(()))
    stream = provider.stream(REQUEST)
    assert stream.losses == ()
    outgoing = provider._build_request("POST", find_endpoint(vendor).path_for("m"), b"{}")
    assert outgoing.url.startswith(base_url)
    assert outgoing.headers["content-type"] == "application/json"


@EVERY_VENDOR
def test_remote_providers_use_https_and_need_a_key(vendor: Vendor) -> None:
    host = vendor.base_url.partition("://")[2].partition("/")[0].partition(":")[0]
    if is_loopback(host):
        assert not vendor.needs_key
    else:
        assert vendor.base_url.startswith("https://") or vendor.base_url == ""
        assert vendor.needs_key
        assert vendor.key_variables


@EVERY_VENDOR
def test_the_dialect_of_every_chat_vendor_has_its_name(vendor: Vendor) -> None:
    assert vendor.title
    if vendor.wire == "openai_chat":
        assert vendor.chat_dialect.provider == vendor.provider_name


def test_the_guide_lists_every_vendor_as_it_is_in_the_catalog() -> None:
    listed = re.findall(
        r"^\| `([^`]+)` \| `([^`]+)` \| `?([^`|]*?)`? \| ([^|]*) \|$",
        GUIDE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    expected = [
        (
            vendor.name,
            vendor.wire,
            vendor.base_url or "pass your own",
            " or ".join(
                [
                    *([] if vendor.needs_key else ["none"]),
                    *(f"`{name}`" for name in vendor.key_variables),
                ]
            ),
        )
        for vendor in CATALOG.values()
    ]
    assert listed == expected


def test_the_guide_lists_the_capabilities_and_limits_of_every_vendor() -> None:
    listed = re.findall(
        r"^\| `([^`]+)` \| (yes|no|\?) \| (yes|no|\?) \| (yes|no|\?) \| (yes|no|\?) "
        r"\| ([\d,]+|\?) \| ([\d,]+|\?) \| ([\d.]+) \|$",
        GUIDE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    words = {True: "yes", False: "no", None: "?"}
    expected = []
    for vendor in CATALOG.values():
        can = vendor.capabilities
        limits = (vendor.context_tokens, vendor.max_output_tokens)
        expected.append(
            (
                vendor.name,
                *[words[said] for said in (can.tools, can.vision, can.thinking, can.strict)],
                *["?" if limit is None else f"{limit:,}" for limit in limits],
                f"{vendor.max_temperature or find_endpoint(vendor).max_temperature:g}",
            )
        )
    assert listed == expected


@EVERY_VENDOR
def test_no_row_promises_what_its_dialect_lacks(vendor: Vendor) -> None:
    if vendor.wire == "openai_chat" and vendor.capabilities.strict:
        assert vendor.chat_dialect.has_strict_tools


def test_every_vendor_but_azure_declares_whether_it_returns_thinking() -> None:
    silent = [name for name, row in CATALOG.items() if row.capabilities.thinking is None]
    assert silent == ["azure"]


# -- limits --------------------------------------------------------------------------------------


def ask_for(max_tokens: int | None, **fields: Any) -> tuple[dict[str, Any], tuple[Change, ...]]:
    """Return the body that is sent to a vendor, and the losses."""
    transport = ReplayTransport([RecordedResponse((b"{}",), 500, "application/json")])
    retries = Retries(max_retries=0)
    provider = connect(
        vendor_row("http://lab.example", **fields), transport=transport, retries=retries
    )
    stream = provider.stream(replace(REQUEST, max_tokens=max_tokens))
    with pytest.raises(ProviderError):
        asyncio.run(stream.collect())
    sent: dict[str, Any] = json.loads(transport.sent[0].body)
    return sent, stream.losses


def test_max_tokens_is_lowered_to_the_limit_of_the_vendor() -> None:
    sent, losses = ask_for(5000, max_output_tokens=4000)
    assert sent["max_tokens"] == 4000
    [lowered] = losses
    assert (lowered.code, lowered.reason) == (ChangeCode.SETTING, "max_tokens_lowered")
    assert (lowered.place, lowered.value, lowered.number) == ("request.max_tokens", "lab", 4000)


@pytest.mark.parametrize("most", [None, 300, 4000])
def test_max_tokens_within_the_limit_is_sent_unchanged(most: int | None) -> None:
    sent, losses = ask_for(300, max_output_tokens=most)
    assert (sent["max_tokens"], losses) == (300, ())


def test_a_request_without_a_limit_leaves_it_to_the_server() -> None:
    sent, losses = ask_for(None, max_output_tokens=4000)
    assert (sent.get("max_tokens"), losses) == (None, ())


@pytest.mark.parametrize(("most", "asked"), [(None, 4096), (2000, 2000), (64000, 64000)])
def test_a_protocol_that_requires_max_tokens_gets_the_limit_of_the_vendor(
    most: int | None, asked: int
) -> None:
    sent, losses = ask_for(None, wire="anthropic_messages", max_output_tokens=most)
    assert (sent["max_tokens"], losses) == (asked, ())


def send_temperature(
    temperature: float | None, vendor: Vendor | str, **options: Any
) -> tuple[list[HttpRequest], tuple[Change, ...]]:
    """Return the requests that are sent to a vendor, and the losses."""
    transport = ReplayTransport([RecordedResponse((b"{}",), 500, "application/json")])
    retries = Retries(max_retries=0)
    provider = connect(vendor, key="k", transport=transport, retries=retries, **options)
    try:
        stream = provider.stream(replace(REQUEST, temperature=temperature))
        with pytest.raises(ProviderError):
            asyncio.run(stream.collect())
    except InvalidRequest:
        assert transport.sent == []
        raise
    return transport.sent, stream.losses


HIGHEST = {"anthropic": 1, "mistral": 1.5, "openai": 2, "google": 2, "ollama": 2}


@pytest.mark.requirement("S4-07")
@pytest.mark.parametrize(("vendor", "most"), HIGHEST.items())
def test_the_highest_temperature_of_a_vendor_is_sent(vendor: str, most: float) -> None:
    sent, losses = send_temperature(most, vendor)
    body = json.loads(sent[0].body)
    found = body.get("generationConfig", body.get("options", body))["temperature"]
    assert (found, losses) == (most, ())


@pytest.mark.requirement("S4-07", "P-19")
@pytest.mark.parametrize(("vendor", "most"), [(v, m) for v, m in HIGHEST.items() if m < 2])
def test_a_temperature_above_that_of_the_vendor_is_refused_before_it_is_sent(
    vendor: str, most: float
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        send_temperature(most + 0.1, vendor)
    assert (caught.value.code, caught.value.field) == ("out_of_range", "temperature")


@pytest.mark.requirement("S4-07", "P-19")
@pytest.mark.parametrize(("vendor", "most"), [(v, m) for v, m in HIGHEST.items() if m < 2])
def test_a_temperature_is_lowered_if_the_caller_asks_for_it(vendor: str, most: float) -> None:
    sent, losses = send_temperature(1.8, vendor, adapt_settings=True)
    assert json.loads(sent[0].body)["temperature"] == most
    [lowered] = losses
    assert (lowered.code, lowered.reason) == (ChangeCode.SETTING, "temperature_lowered")
    assert (lowered.place, lowered.value) == ("request.temperature", f"{most:g}")


@pytest.mark.requirement("P-19")
def test_a_row_can_lower_the_highest_temperature_of_its_wire() -> None:
    lab = vendor_row("http://lab.example", max_temperature=0.8)
    with pytest.raises(InvalidRequest):
        send_temperature(0.9, lab)
    sent, _ = send_temperature(0.8, lab)
    assert json.loads(sent[0].body)["temperature"] == 0.8


def test_the_range_of_a_protocol_is_that_of_its_encoder() -> None:
    most = ENDPOINTS["anthropic_messages"].max_temperature
    assert most == anthropic_messages.payload.MAX_TEMPERATURE


def test_models_have_the_limits_of_the_vendor_unless_the_server_reports_them() -> None:
    entries = [{"id": "a"}, {"id": "b", "context_window": 9000, "max_completion_tokens": 800}]
    answer = RecordedResponse((json.dumps({"data": entries}).encode(),), 200, "application/json")
    lab = vendor_row("http://lab.example", context_tokens=32768, max_output_tokens=4096)
    models = asyncio.run(connect(lab, transport=ReplayTransport([answer])).models())
    limits = [(model.context_tokens, model.max_output_tokens) for model in models]
    assert limits == [(32768, 4096), (9000, 800)]


def test_a_model_described_alone_has_the_limits_of_the_vendor() -> None:
    answer = RecordedResponse((b"{}",), 200, "application/json")
    lab = vendor_row("http://lab.example", wire="ollama_chat", max_output_tokens=4096)
    model = asyncio.run(connect(lab, transport=ReplayTransport([answer])).describe("m"))
    assert (model.context_tokens, model.max_output_tokens) == (None, 4096)


# -- addresses -----------------------------------------------------------------------------------


def test_paths_follow_the_base_url_whatever_it_ends_with() -> None:
    for base in ("https://lab.example/v1", "https://lab.example/v1/"):
        provider = connect("vllm", base_url=base, transport=ReplayTransport(()))
        assert provider._build_request("GET", "/models", b"").url == "https://lab.example/v1/models"


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-3", "/models/gemini-3:streamGenerateContent?alt=sse"),
        ("models/gemini-3", "/models/gemini-3:streamGenerateContent?alt=sse"),
        ("tunedModels/x y", "/tunedModels/x%20y:streamGenerateContent?alt=sse"),
        ("a?b#c", "/models/a%3Fb%23c:streamGenerateContent?alt=sse"),
    ],
)
def test_a_model_in_the_path_stays_inside_it(model: str, path: str) -> None:
    assert ENDPOINTS["gemini"].path_for(model) == path


@pytest.mark.parametrize("model", ["", "../files", "models/../../x", "/x"])
def test_a_model_that_cannot_be_part_of_a_path_is_refused(model: str) -> None:
    with pytest.raises(InvalidRequest):
        ENDPOINTS["gemini"].path_for(model)


# -- connecting ----------------------------------------------------------------------------------


def test_an_unknown_vendor_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidValue) as caught:
        connect("nobody")
    assert (caught.value.code, caught.value.place) == ("provider_unknown", "vendor")
    assert all(name in caught.value.message for name in CATALOG)


@pytest.mark.parametrize(("name", "near"), [("opnai", "openai"), ("Anthropic", "anthropic")])
def test_the_error_for_a_misspelt_vendor_suggests_the_closest_name(name: str, near: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        connect(name)
    assert (caught.value.code, caught.value.place) == ("provider_unknown", "vendor")
    assert caught.value.message.endswith(f" {near}?")


def test_the_suggestion_may_be_a_vendor_of_the_configuration() -> None:
    vendors = read_vendors({"laboratory": {"like": "vllm"}})
    with pytest.raises(InvalidValue) as caught:
        connect("labratory", vendors=vendors)
    assert (caught.value.code, caught.value.place) == ("provider_unknown", "vendor")
    assert caught.value.message.endswith(" laboratory?")


def test_a_vendor_without_an_address_requires_base_url() -> None:
    with pytest.raises(InvalidValue) as caught:
        connect("azure", key="k")
    assert (caught.value.code, caught.value.place) == ("base_url_missing", "azure.base_url")


@pytest.mark.parametrize(
    "url",
    [
        *("", "lab.example", "ftp://lab.example", "http://", "http://lab.example:99999"),
        *("http://user:word@lab.example", "http://lab.example/?a=b", "http://lab.example/#x"),
        *("http://lab example", "http://läb.example", "http://lab.example\r\nx: y"),
    ],
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        connect("vllm", base_url=url)
    assert caught.value.place == "vllm.base_url"


def test_the_providers_are_loaded_only_when_they_are_used() -> None:
    code = (
        "import sys, steno\n"
        "light = not any(n.startswith(('steno.prov', 'steno.trans', 'steno.wire')) for n in sys.modules)\n"
        "import steno.providers\n"
        "print(light, 'aiohttp' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert run.stdout.split() == ["True", "False"]


# -- configuration -------------------------------------------------------------------------------

TOML = """
[providers.lab]
like = "vllm"
title = "The box in the cellar"
base_url = "http://gpu.example:8000/v1"
key_variables = ["LAB_KEY"]
capabilities = { tools = true, vision = false }
context_tokens = 32768
max_output_tokens = 4096
dialect = { thinking_field = "thoughts", call_id = "[a-z]{4}" }

[providers.gateway]
wire = "anthropic_messages"
base_url = "https://gateway.example/anthropic"
auth = "bearer"
key_variables = ["GATEWAY_KEY"]
headers = { X-Team = "tools" }

[providers.twin]
like = "lab"
dialect = "deepseek"
"""


def test_rows_are_read_from_toml_and_json_alike() -> None:
    table = tomllib.loads(TOML)["providers"]
    vendors = read_vendors(table)
    assert vendors == read_vendors(json.loads(json.dumps(table)))
    assert vendors.keys() - CATALOG.keys() == {"lab", "gateway", "twin"}

    lab = vendors["lab"]
    assert (lab.wire, lab.base_url) == ("openai_chat", "http://gpu.example:8000/v1")
    assert (lab.key_variables, lab.needs_key) == (("LAB_KEY",), False)
    assert lab.capabilities == Capabilities(tools=True, vision=False, thinking=True)
    assert (lab.context_tokens, lab.max_output_tokens) == (32768, 4096)
    assert lab.provider_name == "vllm"
    assert lab.chat_dialect.thinking_field == "thoughts"
    assert lab.chat_dialect.merges_neighbours
    assert lab.chat_dialect.call_id.fullmatch("abcd")

    gateway = vendors["gateway"]
    assert (gateway.auth, gateway.needs_key) == (Auth.BEARER, True)
    assert gateway.headers == (("x-team", "tools"),)
    assert gateway.provider_name == "gateway"

    twin = vendors["twin"]
    assert twin.base_url == lab.base_url
    assert twin.max_output_tokens == lab.max_output_tokens
    assert twin.chat_dialect.thinking_field == DIALECTS["deepseek"].thinking_field
    assert twin.chat_dialect.provider == "vllm"


def test_a_row_with_a_known_name_replaces_that_vendor() -> None:
    vendors = read_vendors({"ollama": {"like": "ollama", "base_url": "http://box.example:11434"}})
    assert vendors["ollama"].base_url == "http://box.example:11434"
    assert CATALOG["ollama"].base_url == "http://localhost:11434"
    provider = connect("ollama", vendors=vendors, transport=ReplayTransport(()))
    assert provider.vendor.base_url == "http://box.example:11434"


@pytest.mark.parametrize(
    ("row", "place", "code"),
    [
        ({"like": "vllm", "base_url": 7}, "lab.base_url", "wrong_type"),
        ({"like": "vllm", "basurl": "x"}, "lab", "field_unknown"),
        ({"like": "nobody"}, "lab.like", "not_a_choice"),
        ({"wire": "openai_chat"}, "lab.base_url", "field_missing"),
        ({"base_url": "http://x.example"}, "lab.wire", "field_missing"),
        ({"wire": "smoke", "base_url": "http://x.example"}, "lab.wire", "wire_unknown"),
        ({"wire": "gemini", "base_url": "x.example"}, "lab.base_url", "invalid_url"),
        (
            {"like": "vllm", "auth": "basic"},
            "lab.auth",
            "not_a_choice",
        ),
        ({"like": "vllm", "auth": 1}, "lab.auth", "wrong_type"),
        ({"like": "vllm", "key_variables": "KEY"}, "lab.key_variables", "wrong_type"),
        ({"like": "vllm", "key_variables": [1]}, "lab.key_variables[0]", "wrong_type"),
        ({"like": "vllm", "capabilities": {"tols": True}}, "lab.capabilities", "field_unknown"),
        (
            {"like": "vllm", "capabilities": {"thinking": 1}},
            "lab.capabilities.thinking",
            "wrong_type",
        ),
        ({"like": "vllm", "context_tokens": 0}, "lab.context_tokens", "out_of_range"),
        ({"like": "vllm", "max_output_tokens": 0}, "lab.max_output_tokens", "out_of_range"),
        ({"like": "vllm", "max_output_tokens": "4k"}, "lab.max_output_tokens", "wrong_type"),
        ({"like": "vllm", "max_temperature": 0}, "lab.max_temperature", "out_of_range"),
        ({"like": "vllm", "max_temperature": 2.5}, "lab.max_temperature", "out_of_range"),
        ({"like": "vllm", "max_temperature": "1"}, "lab.max_temperature", "wrong_type"),
        ({"like": "vllm", "max_output_tokens": True}, "lab.max_output_tokens", "wrong_type"),
        ({"like": "vllm", "path": "tell"}, "lab.path", "path_malformed"),
        ({"wire": "a.b", "base_url": "http://x.example"}, "lab.path", "field_missing"),
        ({"like": "vllm", "headers": {"a b": "c"}}, "lab.headers", "invalid_headers"),
        ({"like": "vllm", "headers": {"a": "b\nc"}}, "lab.headers", "invalid_headers"),
        ({"like": "vllm", "dialect": "klingon"}, "lab.dialect", "not_a_choice"),
        ({"like": "vllm", "dialect": {"verbs": 1}}, "lab.dialect", "field_unknown"),
        ({"like": "vllm", "dialect": {"call_id": "["}}, "lab.dialect.call_id", "invalid_value"),
        ({"like": "vllm", "dialect": {"call_id": 1}}, "lab.dialect.call_id", "invalid_value"),
        (
            {"like": "vllm", "dialect": {"system_role": 1}},
            "lab.dialect.system_role",
            "wrong_type",
        ),
        ("vllm", "lab", "wrong_type"),
    ],
)
def test_a_row_that_is_wrong_is_refused_with_its_place(row: Any, place: str, code: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_vendors({"lab": row})
    assert (caught.value.place, caught.value.code) == (place, code)


def test_the_name_of_a_row_has_a_rule_too() -> None:
    with pytest.raises(InvalidValue) as caught:
        read_vendors({"My Lab": {"like": "vllm"}})
    assert (caught.value.code, caught.value.place) == ("vendor_name_malformed", "vendor")
