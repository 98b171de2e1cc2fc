"""Models are discovered in a fixed order; servers that are missing or broken do not block it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from steno import ChatMessage, Request
from steno.errors import AuthenticationFailed, InvalidValue, NotFound
from steno.json_object import JsonObject
from steno.providers import CATALOG, HttpProvider, Model, Vendor
from steno.providers.embedded import EmbeddedProvider
from steno.providers.model_discovery import (
    DiscoveryResult,
    DiscoveryTimeouts,
    ModelName,
    ModelSelection,
    choose_default_model,
    discover_models,
    find_model,
    format_model_name,
    order_vendors,
    parse_model_name,
)
from steno.providers.offline_assistant import OfflineProvider
from tests.transport.http_server import (
    STALL,
    Script,
    Server,
    chunked_stream,
    reply,
    run,
    run_server,
)

PUPPET = Path(__file__).parents[1] / "data" / "puppet" / "puppet.gguf"


TIMEOUTS = DiscoveryTimeouts(local_s=5, hosted_s=5)
SHORT_TIMEOUTS = DiscoveryTimeouts(local_s=0.05, hosted_s=0.05)


@contextmanager
def nobody() -> Generator[str]:
    """An address at which no server listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def no_model() -> Path:
    raise NotFound("no embedded model is installed", place="embedded", code="model_missing")


def at(addresses: Mapping[str, str], elsewhere: str) -> dict[str, Vendor]:
    """Return the catalog with every vendor at an address of the test."""
    return {
        name: replace(row, base_url=addresses.get(name, elsewhere)) for name, row in CATALOG.items()
    }


@asynccontextmanager
async def world(**servers: list[Any]) -> AsyncGenerator[tuple[Any, dict[str, Server]]]:
    """Run servers for some vendors; the others do not respond."""
    with nobody() as elsewhere:
        started: dict[str, Server] = {}
        managers = []
        for name, scripts in servers.items():
            several: list[Script] = scripts if isinstance(scripts[0], list) else [scripts]
            managers.append(run_server(*several))
            started[name.replace("_", ".")] = await managers[-1].__aenter__()
        addresses = {name: server.url for name, server in started.items()}
        try:
            yield at(addresses, elsewhere), started
        finally:
            for manager in managers:
                await manager.__aexit__(None, None, None)


def listing(*ids: str) -> list[bytes]:
    return reply(200, {"data": [{"id": each} for each in ids]})


async def find(wanted: str = "", **settings: Any) -> ModelSelection:
    defaults: dict[str, Any] = {"environ": {}, "timeouts": TIMEOUTS, "bundled_model": no_model}
    return await find_model(wanted, **defaults | settings)


def trail(found: ModelSelection) -> list[str]:
    return [looked.where for looked in found.searched]


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("anthropic/claude-x", ModelName("anthropic", "claude-x")),
        ("openrouter/meta/llama-3:free", ModelName("openrouter", "meta/llama-3:free")),
        ("ollama/llama3.2:1b", ModelName("ollama", "llama3.2:1b")),
        ("llama.cpp/x", ModelName("llama.cpp", "x")),
        ("anthropic", ModelName("anthropic", "")),
        ("embedded", ModelName("embedded", "")),
        ("embedded:/tmp/a.gguf", ModelName("embedded", "/tmp/a.gguf")),
        ("offline", ModelName("offline", "assistant")),
        ("offline/assistant", ModelName("offline", "assistant")),
    ],
)
def test_names_of_models_are_read(text: str, name: ModelName) -> None:
    assert parse_model_name(text) == name
    if name.model and name.vendor != "embedded":
        assert parse_model_name(format_model_name(*name)) == name


@pytest.mark.parametrize("text", ["", "gpt-5", "/x"])
def test_the_error_for_a_name_without_a_vendor_shows_the_format(text: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_model_name(text)
    assert (caught.value.code, caught.value.place) == ("model_name_malformed", "model")
    assert all(name in caught.value.message for name in (*CATALOG, "embedded", "offline"))


def test_the_error_for_an_unknown_vendor_lists_the_known_ones() -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_model_name("nobody/x")
    assert (caught.value.code, caught.value.place) == ("provider_unknown", "model")
    assert all(name in caught.value.message for name in (*CATALOG, "embedded", "offline"))
    assert "[providers.NAME]" in caught.value.message


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("openal/gpt-5", "openai"),
        ("Anthropic/x", "anthropic"),
        ("olama/x", "ollama"),
        ("offline/other", "offline"),
        ("embedded/x", "embedded"),
    ],
)
def test_the_error_for_a_misspelt_vendor_names_the_closest_one(text: str, near: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_model_name(text)
    assert (caught.value.code, caught.value.place) == ("provider_unknown", "model")
    assert caught.value.message.endswith(f" {near}?")


# -- named models --------------------------------------------------------------------------------


def test_a_named_model_is_selected_without_a_request() -> None:
    async def main() -> None:
        async with world(anthropic=listing("other")) as (vendors, servers):
            environ = {"ANTHROPIC_API_KEY": "k"}
            found = await find(
                "anthropic/claude-x", configured="openai/y", vendors=vendors, environ=environ
            )
            assert found[:2] == ("anthropic", "claude-x")
            assert found.code == "asked_for"
            assert found.name == "anthropic/claude-x"
            provider = found.open()
            assert isinstance(provider, HttpProvider)
            assert provider.model == "claude-x"
            await provider.close()
            assert servers["anthropic"].seen == []

    run(main())


def test_the_configured_model_is_selected_if_none_is_named() -> None:
    found = run(find(configured="ollama/llama3.2", environ={"ANTHROPIC_API_KEY": "k"}))
    assert (found.name, found.code, found.searched) == ("ollama/llama3.2", "configured", ())


def test_a_missing_key_raises_before_anything_is_sent() -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        run(find("anthropic/claude-x"))
    assert (caught.value.code, caught.value.place) == ("key_missing", "anthropic")
    assert "ANTHROPIC_API_KEY" in caught.value.message


def test_a_vendor_named_without_a_model_is_asked_for_its_list() -> None:
    async def main() -> None:
        async with world(vllm=listing("text-embedding-1", "qwen")) as (vendors, _):
            found = await find("vllm", vendors=vendors)
            assert found.name == "vllm/qwen"
            assert (found.code, len(found.searched[0].models)) == ("asked_for", 2)
            with pytest.raises(NotFound) as caught:
                await find("ollama", vendors=vendors)
            assert (caught.value.code, caught.value.place) == ("model_missing", "ollama")
            assert caught.value.message.endswith("`ollama serve`")

    run(main())


def test_the_offline_assistant_and_an_embedded_file_can_be_named() -> None:
    async def main() -> None:
        found = await find("offline")
        assert isinstance(found.open(), OfflineProvider)
        found = await find(f"embedded:{PUPPET}")
        assert found.name == f"embedded:{PUPPET}"
        assert found.known is not None
        assert found.known.capabilities.tools is True
        first, second = found.open(), found.open()
        assert isinstance(first, EmbeddedProvider)
        assert first is not second
        with pytest.raises(NotFound) as caught:
            await find("embedded:/nowhere/model.gguf")
        assert (caught.value.code, caught.value.place) == ("model_file_missing", "embedded")

    run(main())


# -- selection -----------------------------------------------------------------------------------

SECRET = "sk-very-secret-0123456789"


KEYS = {"ANTHROPIC_API_KEY": SECRET, "MISTRAL_API_KEY": "k2"}


TAGS = reply(200, {"models": [{"name": "tiny"}, {"name": "able"}]})


def shown(*capabilities: str) -> list[bytes]:
    return reply(
        200, {"capabilities": list(capabilities), "model_info": {"x.context_length": 4096}}
    )


def test_a_key_goes_before_servers_on_this_machine() -> None:
    async def main() -> None:
        async with world(
            anthropic=listing("claude-haiku-9", "claude-sonnet-4-6", "claude-sonnet-5-20300101"),
            mistral=listing("mistral-large-latest"),
            vllm=listing("qwen"),
        ) as (vendors, servers):
            found = await find(vendors=vendors, environ=KEYS)
            assert found.name == "anthropic/claude-sonnet-5-20300101"
            assert (found.code, found.reason) == ("key_found", "key in ANTHROPIC_API_KEY")
            assert trail(found) == ["openai", "anthropic"]
            assert found.searched[0].code == "key_missing"
            assert "OPENAI_API_KEY" in found.searched[0].outcome
            assert servers["anthropic"].seen[0].headers["x-api-key"] == SECRET

    run(main())


def test_a_vendor_with_a_refused_key_is_skipped_and_the_key_never_shown() -> None:
    async def main() -> None:
        refused = reply(
            401, {"error": {"type": "authentication_error", "message": f"bad {SECRET}"}}
        )
        models = listing("mistral-embed", "mistral-large-latest")
        async with world(anthropic=refused, mistral=models) as (vendors, _):
            found = await find(vendors=vendors, environ=KEYS)
            assert found.name == "mistral/mistral-large-latest"
            assert all(SECRET not in looked.outcome for looked in found.searched)

    run(main())


def test_ollama_goes_first_of_the_servers_with_the_first_model_that_has_tools() -> None:
    async def main() -> None:
        ollama = [TAGS, shown("completion"), shown("completion", "tools")]
        async with world(ollama=ollama, vllm=listing("qwen")) as (vendors, servers):
            found = await find(vendors=vendors)
            # The two models are described in any order.
            asked = [seen.json["model"] for seen in servers["ollama"].seen[1:]]
            assert sorted(asked) == ["able", "tiny"]
            assert found.name == f"ollama/{asked[1]}"
            assert found.code == "server_found"
            assert servers["ollama"].url in found.reason
            assert found.known is not None
            assert found.known.context_tokens == 4096

    run(main())


def test_a_model_without_tools_is_better_than_none() -> None:
    async def main() -> None:
        tags = reply(200, {"models": [{"name": "tiny"}]})
        async with world(ollama=[tags, shown("completion")]) as (vendors, _):
            assert (await find(vendors=vendors)).name == "ollama/tiny"

    run(main())


@pytest.mark.parametrize("vendor", ["vllm", "lmstudio", "llama.cpp"])
def test_any_other_local_server_is_selected_and_responds(vendor: str) -> None:
    async def main() -> None:
        scripts = [listing("qwen"), chunked_stream("Hel", "lo")]
        async with world(**{vendor.replace(".", "_"): scripts}) as (vendors, _):
            found = await find(vendors=vendors)
            assert found.name == f"{vendor}/qwen"
            provider = found.open()
            asked = Request(messages=(ChatMessage.user("Hi"),))
            assert (await provider.stream(asked).collect()).text == "Hello"
            await provider.close()

    run(main())


def test_vendors_of_the_user_go_before_those_of_the_catalog() -> None:
    async def main() -> None:
        async with (
            run_server(listing("own")) as server,
            world(mistral=listing("m")) as (vendors, _),
        ):
            row = Vendor(name="lab", wire="openai_chat", base_url=server.url, needs_key=False)
            found = await find(vendors={**vendors, "lab": row}, environ=KEYS)
            assert found.name == "lab/own"

    run(main())


def test_a_server_without_models_or_with_an_invalid_list_is_skipped() -> None:
    async def main() -> None:
        page = reply(200, b"<html>hello</html>", "text/html")
        async with world(ollama=page, vllm=listing(), lmstudio=listing("embed-a")) as (vendors, _):
            found = await find(vendors=vendors)
            assert found.name == "offline/assistant"
            codes = {result.where: result.code for result in found.searched}
            assert (codes["vllm"], codes["lmstudio"]) == ("no_chat_model", "no_chat_model")
            assert codes["ollama"] == "wrong_protocol"

    run(main())


def test_a_server_that_does_not_respond_in_time_is_skipped() -> None:
    async def main() -> None:
        async with world(ollama=[STALL], anthropic=[STALL]) as (vendors, _):
            found = await find(vendors=vendors, environ=KEYS, timeouts=SHORT_TIMEOUTS)
            codes = {result.where: result.code for result in found.searched}
            assert (codes["ollama"], codes["anthropic"]) == ("timeout", "timeout")
            assert found.name == "offline/assistant"

    run(main())


def test_discovery_ends_when_the_first_usable_vendor_has_responded() -> None:
    async def main() -> None:
        async with world(anthropic=listing("claude-sonnet-5"), mistral=[STALL]) as (
            vendors,
            servers,
        ):
            endless = DiscoveryTimeouts(local_s=600, hosted_s=600)
            found = await find(vendors=vendors, environ=KEYS, timeouts=endless)
            assert found.vendor == "anthropic"
            if servers["mistral"].seen:
                await servers["mistral"].hung_up.wait()

    run(main())


def test_without_key_and_server_the_embedded_model_is_selected() -> None:
    async def main() -> None:
        async with world() as (vendors, _):
            found = await find(vendors=vendors, bundled_model=lambda: PUPPET)
            assert (found.name, found.code) == ("embedded", "embedded_found")
            provider = found.open()
            assert isinstance(provider, EmbeddedProvider)
            assert provider.path == PUPPET
            assert found.searched[-1].is_usable

    run(main())


def test_without_any_model_the_offline_assistant_is_selected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        async with world() as (vendors, _):
            found = await find(vendors=vendors)
            assert found.name == "offline/assistant"
            assert isinstance(found.open(), OfflineProvider)
            assert found.code == "nothing_else_found"
            assert trail(found)[-2:] == ["embedded", "offline"]
            assert all(looked.outcome for looked in found.searched)

    run(main())
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    run(main())


# -- discovery -----------------------------------------------------------------------------------


def test_discovery_returns_one_result_for_each_vendor() -> None:
    async def main() -> tuple[DiscoveryResult, ...]:
        async with world(vllm=listing("qwen")) as (vendors, _):
            return await discover_models(
                vendors, {}, timeouts=TIMEOUTS, bundled_model=lambda: PUPPET
            )

    looked = run(main())
    places = [place.where for place in looked]
    assert len(set(places)) == len(places)
    assert places[-2:] == ["embedded", "offline"]
    assert {place.where for place in looked if place.is_usable} == {"vllm", "embedded", "offline"}
    assert all(place.outcome for place in looked)


def test_a_server_is_asked_in_one_of_its_protocols_only() -> None:
    async def main() -> None:
        async with world(llama_cpp=listing("one")) as (vendors, servers):
            address = servers["llama.cpp"].url
            for name in ("llama.cpp-messages", "llama.cpp-responses"):
                vendors[name] = replace(vendors[name], base_url=address)
            await discover_models(vendors, {}, timeouts=TIMEOUTS, bundled_model=no_model)
            assert len(servers["llama.cpp"].seen) == 1

    run(main())


@pytest.mark.parametrize(
    ("vendor", "ids", "choice"),
    [
        ("openai", ["dall-e-9", "gpt-4", "gpt-5.4", "gpt-5.10", "gpt-9-mini"], "gpt-5.10"),
        ("anthropic", ["claude-sonnet-4-20250514", "claude-sonnet-4-6"], "claude-sonnet-4-6"),
        ("google", ["gemini-2.5-flash", "gemini-2.5-pro", "gemini-3-pro"], "gemini-3-pro"),
        ("groq", ["whisper-large-v3", "llama-x"], "llama-x"),
        ("openai", ["o9"], "o9"),
        ("groq", ["whisper-large-v3"], ""),
        ("groq", [], ""),
    ],
)
def test_the_newest_general_model_is_the_default(vendor: str, ids: list[str], choice: str) -> None:
    assert (
        choose_default_model(vendor, [Model(id=each, raw=JsonObject({})) for each in ids]) == choice
    )


def test_a_key_that_cannot_be_used_without_the_extra_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)

    async def main() -> None:
        async with world(anthropic=listing("claude-sonnet-5")) as (vendors, _):
            found = await find(vendors=vendors, environ={"ANTHROPIC_API_KEY": "k"})
        assert found.name == "offline/assistant"
        assert found.code == "key_unused"
        [unused] = [result for result in found.searched if result.where == "anthropic"]
        assert unused.code == "missing_extra"
        assert found.reason == f"anthropic: {unused.outcome}"
        assert "ANTHROPIC_API_KEY" in unused.outcome
        assert "pip install 'steno-agent[http]'" in unused.outcome

    run(main())


def test_an_invalid_key_is_a_result_and_hides_no_other_vendor() -> None:
    async def main() -> None:
        async with world(anthropic=listing("claude-sonnet-5")) as (vendors, _):
            keys = {"GROQ_API_KEY": "two words", "ANTHROPIC_API_KEY": "k"}
            found = await find(vendors=vendors, environ=keys)
            looked = await discover_models(vendors, keys, timeouts=TIMEOUTS, bundled_model=no_model)
        assert found.name == "anthropic/claude-sonnet-5"
        assert {one.where: one.code for one in looked}["groq"] == "invalid_key"

    run(main())


SLOW_TO_LOAD = """
import asyncio, sys
from steno.providers import Vendor
from steno.providers.model_discovery import DiscoveryTimeouts, discover_models
from tests.transport.http_server import reply, run_server

class Loop(asyncio.SelectorEventLoop):
    skipped_s = 0

    def time(self):
        return super().time() + self.skipped_s

class SlowDisk:
    def find_spec(self, name, path=None, target=None):
        if name == "aiohttp":
            asyncio.get_running_loop().skipped_s += 3600

async def main():
    sys.meta_path.insert(0, SlowDisk())
    async with run_server(reply(200, {"data": [{"id": "qwen"}]})) as server:
        lab = Vendor(name="lab", wire="openai_chat", base_url=server.url, needs_key=False)
        looked = await discover_models({"lab": lab}, {}, timeouts=DiscoveryTimeouts(local_s=60))
    print(asyncio.get_running_loop().skipped_s, looked[0].choice or looked[0].outcome)

with asyncio.Runner(loop_factory=Loop) as runner:
    runner.run(main())
"""


def test_importing_the_http_client_does_not_count_for_the_time_limit() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SLOW_TO_LOAD],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stderr == ""
    assert ran.stdout == "3600 qwen\n"


def test_vendors_of_the_configuration_come_first_then_keys_then_local_servers() -> None:
    own = replace(CATALOG["vllm"], name="lab", base_url="http://lab.example/v1")
    names = [vendor.name for vendor in order_vendors({**CATALOG, "lab": own})]
    assert names[:2] == ["lab", "openai"]
    assert names.index("xai") < names.index("ollama")
    assert "openai-responses" not in names
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("ids", "choice"),
    [
        (["deepseek-v4-pro", "deepseek-flash", "deepseek-chat"], "deepseek-flash"),
        (["deepseek-chat", "deepseek-v4-pro", "deepseek-v5-pro"], "deepseek-v5-pro"),
        (["deepseek-reasoner", "deepseek-chat"], "deepseek-chat"),
    ],
)
def test_deepseek_is_asked_for_what_its_price_list_has(ids: list[str], choice: str) -> None:
    assert (
        choose_default_model("deepseek", [Model(id=each, raw=JsonObject({})) for each in ids])
        == choice
    )
