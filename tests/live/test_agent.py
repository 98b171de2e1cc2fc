"""The agent with the real llama.cpp server, over its three protocols, with real tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno import ChatMessage
from steno.agent import Agent, EndReason, Gate, ModelTarget, Permissions, Runner
from steno.messages.message import ToolResultMessage
from steno.messages.order import check_order
from steno.store import Store, open_store
from steno.tools import Workspace
from steno.tools.read import ReadTool
from steno.tools.write import WriteTool
from tests.live.llama_providers import CHAT, MESSAGES, RESPONSES, every_protocol, provider_for
from tests.transport.http_server import run

pytestmark = pytest.mark.live

TARGET = ModelTarget(model="puppet", temperature=0, max_tokens=600)
READ = 'CALL read {"path": "README.md"} SAY done reading'
WRITE = 'CALL write {"path": "new.txt", "content": "lantern"} SAY done writing'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "README.md").write_text("# Harbour\nA lantern for every ship.\n")
    return tmp_path / "work"


async def work(
    protocol: str, url: str, store: Store, session: str, *, folder: Path, prompt: str
) -> str:
    """Let the model work on a prompt; return its last text."""
    workspace = Workspace([folder])
    async with provider_for(protocol, url) as provider:
        agent = Agent(
            provider,
            store.open(session),
            tools=[ReadTool(workspace), WriteTool(workspace)],
            gate=Gate(Permissions.of(allow=["write(new.txt)"])),
            runner=Runner(store),
            model=f"{protocol}/puppet",
            target=TARGET,
        )
        result = await agent.run(prompt)
    assert result.end_reason is EndReason.DONE, result.reason
    assert result.turns == 2
    assert result.usage.total_tokens > 0
    return result.text


def check(store: Store, session: str) -> list[ToolResultMessage]:
    """Check that the session is intact; return its tool results."""
    assert store.verify(session).is_intact
    conversation = store.open(session)
    assert conversation.outstanding == ()
    assert check_order(conversation.messages()) == ()
    return [m for m in conversation.messages() if isinstance(m, ToolResultMessage)]


@every_protocol
@pytest.mark.requirement("S4-14", "S4-13", "S2-16")
def test_an_agent_reads_and_writes_files(
    protocol: str, llama_url: str, folder: Path, tmp_path: Path
) -> None:
    async def main() -> None:
        with open_store(f"sqlite:{tmp_path / 'log.db'}") as store:
            session = store.new([ChatMessage.system("You are an agent.")]).id
            for prompt, expected in ((READ, "done reading"), (WRITE, "done writing")):
                answer = await work(
                    protocol, llama_url, store, session, folder=folder, prompt=prompt
                )
                assert answer == expected
            read, written = check(store, session)
        assert "A lantern for every ship." in read.text
        assert not written.is_error
        assert (folder / "new.txt").read_text() == "lantern"

    run(main(), 60)


@pytest.mark.requirement("S4-14")
def test_an_agent_continues_over_one_protocol_after_the_other(
    llama_url: str, folder: Path, tmp_path: Path
) -> None:
    async def main() -> None:
        with open_store(f"jsonl:{tmp_path / 'log'}") as store:
            session = store.new([ChatMessage.system("You are an agent.")]).id
            for protocol in (CHAT, MESSAGES, RESPONSES, CHAT):
                answer = await work(protocol, llama_url, store, session, folder=folder, prompt=READ)
                assert answer == "done reading"
            results = check(store, session)
        assert len(results) == 4
        assert all("A lantern for every ship." in result.text for result in results)

    run(main(), 90)
