"""kill -9 in the middle: the log on disk is intact, and another process resumes it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from steno import ChatMessage, Outcome
from steno.agent import Agent, ApprovalRequest, CallbackApprover, EndReason, Gate
from steno.agent.results import ResultCode
from steno.log.conversation import Conversation
from steno.log.queries import pending_approvals, result_code
from steno.messages.message import AssistantMessage
from steno.ports import Capability
from steno.store import Store, open_store
from steno.testing import ScriptedTool
from steno.testing.conformance.scripted_server import TextPiece, WholeCall
from tests.agent.agent_setup import check_record, results_of, run
from tests.agent.wire_server import run_provider, server_response
from tests.transport.http_server import STALL, STREAM, chat_chunks, chunk, run_server

PROGRAM = Path(__file__).with_name("killed_agent.py")
pytestmark = pytest.mark.requirement("S4-14")


async def kill_at(line: str, address: str, session: str, script: list[bytes | str]) -> None:
    """Run the agent against a server until it prints a line, and kill it there."""
    async with run_server(script) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(PROGRAM),
            address,
            session,
            server.url,
            stdout=asyncio.subprocess.PIPE,
            env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
        )
        assert process.stdout is not None
        try:
            while (await process.stdout.readline()).decode().strip() != line:
                assert not process.stdout.at_eof(), f"it ended before it said: {line}"
        finally:
            process.kill()
            await process.wait()


async def go_on(
    store: Store, conversation: Conversation, *tools: ScriptedTool
) -> list[ApprovalRequest]:
    """Resume a session in this process; return its requests."""
    asked: list[ApprovalRequest] = []

    def decide(question: ApprovalRequest) -> bool:
        asked.append(question)
        return True

    async with run_provider(
        "openai_chat", server_response("openai_chat", TextPiece("I go on."))
    ) as (
        _,
        provider,
    ):
        gate = Gate(approver=CallbackApprover(decide))
        agent = Agent(provider, conversation, tools=tools, gate=gate)
        result = await agent.run("Are you still there?")
    assert (result.end_reason, result.text) == (EndReason.DONE, "I go on.")
    check_record(conversation, store)
    return asked


def calls(*names: str) -> list[bytes | str]:
    lines = [WholeCall(f"c{n}", name, "{}") for n, name in enumerate(names)]
    return [*server_response("openai_chat", TextPiece("I begin."), *lines)]


class Killed(NamedTuple):
    """Where a session was killed, and what should come of its calls."""

    names: list[str]
    at: str
    outcomes: list[str]
    runs: list[str]
    """The calls that the next process runs."""
    asks: int = 0


@pytest.mark.parametrize(
    "killed",
    [
        Killed(["hang_reading"], "begun hang_reading", ["ok"], ["c0"]),
        Killed(["read", "hang_writing"], "begun hang_writing", ["ok", "cancelled"], []),
        Killed(["read", "hang_asking"], "asked", ["ok", "ok"], ["c1"], asks=1),
        Killed(["hang_writing", "read"], "begun hang_writing", ["cancelled", "ok"], ["c1"]),
    ],
    ids=lambda killed: " then ".join(killed.names),
)
def test_killed_while_a_tool_runs_or_an_approval_is_pending(killed: Killed, tmp_path: Path) -> None:
    async def main() -> None:
        address = f"sqlite:{tmp_path / 'log.db'}"
        with open_store(address) as store:
            session = store.new([ChatMessage.system("Work.")]).id
        await kill_at(killed.at, address, session, calls(*killed.names))

        with open_store(address) as store:
            assert store.verify(session).is_intact
            conversation = store.open(session)
            assert conversation.outstanding
            assert len(pending_approvals(conversation.entries())) == killed.asks
            tools = [
                ScriptedTool(
                    name, capability=Capability.READ if "read" in name else Capability.WRITE
                )
                for name in killed.names
            ]
            asked = await go_on(store, conversation, *tools)
            assert len(asked) == killed.asks
            results = results_of(conversation)
            assert [str(result.outcome) for result in results] == killed.outcomes
            assert sorted(c.id for tool in tools for c in tool.calls) == killed.runs
            assert all(
                result_code(r) == ResultCode.OUTCOME_UNKNOWN
                for r in results
                if r.outcome is Outcome.CANCELLED
            )

    run(main(), 60)


def test_killed_while_the_model_speaks(tmp_path: Path) -> None:
    async def main() -> None:
        address = f"sqlite:{tmp_path / 'log.db'}"
        with open_store(address) as store:
            session = store.new([ChatMessage.system("Work.")]).id
        half: list[Any] = [STREAM, *map(chunk, chat_chunks("Half an ans", finish=None)), STALL]
        await kill_at("received Half an ans", address, session, half)

        with open_store(address) as store:
            assert store.verify(session).is_intact
            conversation = store.open(session)
            assert [m.text for m in conversation.messages()] == ["Work.", "Go."]
            await go_on(store, conversation)
            assert not any(
                isinstance(m, AssistantMessage) and m.text == "Half an ans"
                for m in conversation.messages()
            )

    run(main(), 60)


def test_a_session_killed_repeatedly_still_resumes(tmp_path: Path) -> None:
    async def main() -> None:
        address = f"sqlite:{tmp_path / 'log.db'}"
        with open_store(address) as store:
            session = store.new([ChatMessage.system("Work.")]).id
        for _ in range(2):
            await kill_at("begun hang_writing", address, session, calls("hang_writing"))
        with open_store(address) as store:
            assert store.verify(session).is_intact
            conversation = store.open(session)
            await go_on(store, conversation)
            codes = [result_code(result) for result in results_of(conversation)]
            assert codes == [ResultCode.OUTCOME_UNKNOWN, ResultCode.OUTCOME_UNKNOWN]

    run(main(), 60)
