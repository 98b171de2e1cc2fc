"""Vendors are rows: ours are sound, and users add their own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from steno.errors import InvalidRequest, InvalidValue
from steno.providers import CATALOG, Auth, Capabilities, Vendor, connect, read_vendors
from steno.providers.endpoint import ENDPOINTS, endpoint_of
from steno.transport.proxy import is_loopback
from steno.transport.replay import ReplayTransport
from steno.wire.openai_chat import DIALECTS
from tests.provider.asking import REQUEST

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "providers.md"
EVERY_VENDOR = pytest.mark.parametrize("vendor", CATALOG.values(), ids=lambda v: v.name)


@EVERY_VENDOR
def test_every_row_of_the_catalog_can_be_asked(vendor: Vendor) -> None:
    base_url = vendor.base_url or "https://resource.openai.azure.com/openai/v1"
    provider = connect(vendor, key="k", base_url=base_url, transport=ReplayTransport(()))
    stream = provider.stream(REQUEST)
    assert stream.losses == ()
    outgoing = provider._outgoing("POST", endpoint_of(vendor).path_for("m"), b"{}")
    assert outgoing.url.startswith(base_url)
    assert outgoing.headers["content-type"] == "application/json"


@EVERY_VENDOR
def test_what_leaves_the_machine_is_encrypted_and_needs_a_key(vendor: Vendor) -> None:
    host = vendor.base_url.partition("://")[2].partition("/")[0].partition(":")[0]
    if is_loopback(host):
        assert not vendor.needs_key
    else:
        assert vendor.base_url.startswith("https://") or vendor.base_url == ""
        assert vendor.needs_key
        assert vendor.key_variables


@EVERY_VENDOR
def test_every_chat_vendor_has_a_dialect_of_its_own_name(vendor: Vendor) -> None:
    assert vendor.title
    if vendor.wire == "openai_chat":
        assert vendor.sealer in DIALECTS
        assert vendor.chat_dialect.provider == vendor.sealer


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


def test_paths_follow_the_base_url_whatever_it_ends_with() -> None:
    for base in ("https://lab.example/v1", "https://lab.example/v1/"):
        provider = connect("vllm", base_url=base, transport=ReplayTransport(()))
        assert provider._outgoing("GET", "/models", b"").url == "https://lab.example/v1/models"


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
def test_a_path_cannot_be_made_of_what_names_no_model(model: str) -> None:
    with pytest.raises(InvalidRequest):
        ENDPOINTS["gemini"].path_for(model)


# -- connecting ----------------------------------------------------------------------------------


def test_an_unknown_vendor_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidValue, match="must be one of anthropic, azure"):
        connect("nobody")


def test_a_vendor_without_an_address_wants_one() -> None:
    with pytest.raises(InvalidValue, match=r"^azure\.base_url"):
        connect("azure", key="k")


@pytest.mark.parametrize(
    "url",
    [
        *("", "lab.example", "ftp://lab.example", "http://", "http://lab.example:99999"),
        *("http://user:word@lab.example", "http://lab.example/?a=b", "http://lab.example/#x"),
        *("http://lab example", "http://läb.example", "http://lab.example\r\nx: y"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidValue, match="base_url"):
        connect("vllm", base_url=url)


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
    assert lab.capabilities == Capabilities(tools=True, vision=False)
    assert lab.context_tokens == 32768
    assert lab.sealer == "vllm"
    assert lab.chat_dialect.thinking_field == "thoughts"
    assert lab.chat_dialect.merges_neighbours
    assert lab.chat_dialect.call_id.fullmatch("abcd")

    gateway = vendors["gateway"]
    assert (gateway.auth, gateway.needs_key) == (Auth.BEARER, True)
    assert gateway.headers == (("x-team", "tools"),)
    assert gateway.sealer == "gateway"

    twin = vendors["twin"]
    assert twin.base_url == lab.base_url
    assert twin.chat_dialect.thinking_field == DIALECTS["deepseek"].thinking_field
    assert twin.chat_dialect.provider == "vllm"


def test_a_row_of_a_known_name_takes_its_place() -> None:
    vendors = read_vendors({"ollama": {"like": "ollama", "base_url": "http://box.example:11434"}})
    assert vendors["ollama"].base_url == "http://box.example:11434"
    assert CATALOG["ollama"].base_url == "http://localhost:11434"
    provider = connect("ollama", vendors=vendors, transport=ReplayTransport(()))
    assert provider.vendor.base_url == "http://box.example:11434"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"like": "vllm", "base_url": 7}, "lab.base_url: Expected `str`, got `int`"),
        ({"like": "vllm", "basurl": "x"}, "lab: Object contains unknown field `basurl`"),
        ({"like": "nobody"}, "lab.like: must be one of anthropic, "),
        ({"wire": "openai_chat"}, "lab.base_url: must be there"),
        ({"base_url": "http://x.example"}, "lab.wire: must be there"),
        ({"wire": "smoke", "base_url": "http://x.example"}, "lab.wire: must be one of anthropic_"),
        ({"wire": "gemini", "base_url": "x.example"}, "lab.base_url: must be http"),
        ({"like": "vllm", "auth": "handshake"}, "lab.auth: Invalid enum value"),
        ({"like": "vllm", "key_variables": "KEY"}, "lab.key_variables: Expected `array`"),
        ({"like": "vllm", "key_variables": [1]}, "lab.key_variables[0]: Expected `str`"),
        ({"like": "vllm", "capabilities": {"tols": True}}, "lab.capabilities: Object contains"),
        ({"like": "vllm", "context_tokens": 0}, "lab.context_tokens: must be above 0"),
        ({"like": "vllm", "path": "tell"}, "lab.path: must begin with /"),
        ({"wire": "a.b", "base_url": "http://x.example"}, "lab.path: must tell where requests"),
        ({"like": "vllm", "headers": {"a b": "c"}}, "lab.headers: not what a header can carry"),
        ({"like": "vllm", "headers": {"a": "b\nc"}}, "lab.headers: not what a header can carry"),
        ({"like": "vllm", "dialect": "klingon"}, "lab.dialect: must be one of deepseek"),
        ({"like": "vllm", "dialect": {"verbs": 1}}, "lab.dialect: has no field verbs"),
        ({"like": "vllm", "dialect": {"call_id": "["}}, "lab.dialect.call_id: Not a regular"),
        ({"like": "vllm", "dialect": {"call_id": 1}}, "lab.dialect.call_id: Expected `str`"),
        ({"like": "vllm", "dialect": {"system_role": 1}}, "lab.dialect.system_role: Expected"),
        ("vllm", "lab: Expected `object`, got `str`"),
    ],
)
def test_a_row_that_is_wrong_is_refused_with_its_place(row: Any, message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_vendors({"lab": row})
    assert str(caught.value).startswith(message)


def test_the_name_of_a_row_has_a_rule_too() -> None:
    with pytest.raises(InvalidValue, match=r"^vendor: name must be"):
        read_vendors({"My Lab": {"like": "vllm"}})
