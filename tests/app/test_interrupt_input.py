"""Interrupting input that has not started: a prompt being read, and what waits after it."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

import pytest

from steno.agent import EndReason, PromptInput, TurnStarted
from steno.app.mcp import McpOptions
from steno.errors import StenoError
from steno.inputs.mcp.server_spec import McpServerSpec
from tests.app.project_setup import make_project, scripted_model
from tests.app.session_setup import SessionUser, open_user_session, run
from tests.cli.reference_setup import trust_settings, write_servers

pytestmark = pytest.mark.requirement("S4-15")
SLOW = PromptInput("/slow:wait")
"""A prompt that its server takes for ever to make ready."""
SERVER = """\
import json, pathlib, sys

for line in sys.stdin:
    asked = json.loads(line)
    match asked["method"]:
        case "initialize":
            answer = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"prompts": {}},
                "serverInfo": {"name": "slow", "version": "1"},
            }
        case "prompts/list":
            answer = {"prompts": [{"name": "wait"}]}
        case "prompts/get":
            pathlib.Path("asked").touch()
            continue
        case _:
            answer = {}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHELL", "/bin/sh")
    folder = make_project(tmp_path, monkeypatch)
    script = tmp_path / "slow_server.py"
    script.write_text(SERVER, encoding="utf-8")
    server = McpServerSpec(name="slow", command=sys.executable, args=(str(script),))
    write_servers(folder / ".mcp.json", server)
    return folder


async def send_slow_prompt(user: SessionUser, project: Path) -> asyncio.Task[None]:
    """Send a prompt that is still being read when this returns."""
    sending = asyncio.create_task(user.session.send(SLOW))
    while not (project / "asked").exists():  # noqa: ASYNC110 - the server sends no event
        await asyncio.sleep(0.01)
    return sending


def test_interrupted_input_and_what_waits_after_it_start_no_run(project: Path, home: Path) -> None:
    async def main() -> None:
        async with open_user_session(project, outside=McpOptions()) as user:
            session = user.session
            sending = await send_slow_prompt(user, project)
            later = [
                asyncio.create_task(session.send(PromptInput("And be brief."))),
                asyncio.create_task(session.run_shell("touch ran")),
            ]
            await asyncio.sleep(0)  # they wait for their turn
            session.interrupt()
            for refused in (sending, *later):
                with pytest.raises(StenoError) as caught:
                    await refused
                assert caught.value.code == "interrupted"
            assert not session.is_running
            assert user.texts == []
            assert not (project / "ran").exists()
            assert (await user.send("Hello?")).result.end_reason is EndReason.DONE

    with scripted_model(home, "Hello.", settings=trust_settings(project)) as model:
        run(main())
    assert len(model.seen) == 1


def test_a_prompt_read_while_a_run_is_interrupted_starts_no_other(
    project: Path, home: Path
) -> None:
    gate = threading.Event()

    async def main() -> None:
        async with open_user_session(project, outside=McpOptions()) as user:
            await user.session.send(PromptInput("Tell me."))
            await user.until(lambda: user.events_of(TurnStarted))
            sending = await send_slow_prompt(user, project)
            user.session.interrupt()
            assert (await user.end()).result.end_reason is EndReason.INTERRUPTED
            with pytest.raises(StenoError) as caught:
                await sending
            assert caught.value.code == "interrupted"
            assert user.texts == ["Tell me."]
            assert not user.session.is_running
            gate.set()

    with scripted_model(home, [gate, "Once."], settings=trust_settings(project)):
        run(main())
