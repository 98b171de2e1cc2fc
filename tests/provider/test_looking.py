"""Servers get all of the time that they are given, and are asked in the order of the search."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from steno.json_object import JsonObject
from steno.providers import CATALOG, Model
from steno.providers.model_discovery import choose_model, order_vendors

SLOW_TO_LOAD = """
import asyncio, sys
from steno.providers import Vendor
from steno.providers.model_discovery import Patience, look_around
from tests.provider.server import reply, serving

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
    async with serving(reply(200, {"data": [{"id": "qwen"}]})) as server:
        lab = Vendor(name="lab", wire="openai_chat", base_url=server.url, needs_key=False)
        looked = await look_around({"lab": lab}, {}, patience=Patience(own_s=60))
    print(asyncio.get_running_loop().skipped_s, looked[0].choice or looked[0].outcome)

with asyncio.Runner(loop_factory=Loop) as runner:
    runner.run(main())
"""


def test_loading_the_client_takes_nothing_from_the_time_of_a_server() -> None:
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


def test_rows_of_the_user_come_first_then_keys_then_this_machine() -> None:
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
    assert choose_model("deepseek", [Model(id=each, raw=JsonObject({})) for each in ids]) == choice
