"""Whole conversations over every wire, with real tools: prompt, calls, results, answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno import Conversation, Outcome
from steno.agent import Agent, ContextChanged, EndReason, LoopEvent, Notice
from steno.messages.change import Change
from steno.messages.content import Resource, Text
from steno.messages.framed_text import read_frame
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.store import MemoryStore
from steno.testing.conformance.scripted_server import (
    NotExpressible,
    ScriptLine,
    TextPiece,
    ThinkingPiece,
    ThinkingSeal,
    WholeCall,
)
from steno.tools import Workspace
from steno.tools.read import ReadTool
from steno.tools.search_tools import GrepTool
from steno.tools.write import WriteTool
from steno.wire import WIRES
from tests.agent.agent_setup import check_record, gate_allowing, results_of, run
from tests.agent.wire_server import (
    SERVER_OF_WIRE,
    USAGE,
    messages_sent_to,
    run_provider,
    server_response,
)

every_wire = pytest.mark.parametrize("wire", WIRES)
READ_CALL = (
    TextPiece("I look. "),
    WholeCall("call_1", "read", '{"path":"README.md"}'),
    WholeCall("call_2", "grep", '{"pattern":"lantern"}'),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text("# Harbour\nA lantern for every ship.\n")
    return tmp_path


def tools_in(folder: Path) -> list[ReadTool | GrepTool | WriteTool]:
    workspace = Workspace([folder])
    return [ReadTool(workspace), GrepTool(workspace), WriteTool(workspace)]


@every_wire
@pytest.mark.requirement("S4-14", "S2-17", "S2-21", "S4-13")
def test_a_conversation_with_calls_made_together_and_real_tools(wire: str, folder: Path) -> None:
    async def main() -> None:
        store = MemoryStore()
        conversation = store.new()
        answers = [
            server_response(wire, *READ_CALL),
            server_response(wire, TextPiece("It is about "), TextPiece("lanterns.")),
            server_response(
                wire, WholeCall("call_3", "write", '{"path":"new.txt","content":"More."}')
            ),
            server_response(wire, TextPiece("Written.")),
        ]
        async with run_provider(wire, *answers) as (server, provider):
            agent = Agent(
                provider, conversation, tools=tools_in(folder), gate=gate_allowing("write(new.txt)")
            )
            first = await agent.run("What is it about?")
            second = await agent.run("Write more.")
        assert (first.end_reason, first.text, first.turns) == (
            EndReason.DONE,
            "It is about lanterns.",
            2,
        )
        assert first.usage.total_tokens == 2 * USAGE.total_tokens
        assert (second.end_reason, second.text) == (EndReason.DONE, "Written.")
        assert (folder / "new.txt").read_text() == "More."
        read, searched, written = results_of(conversation)
        assert "A lantern for every ship." in read.text
        assert "README.md" in searched.text
        assert written.outcome is Outcome.OK
        assert len(server.seen) == 4
        for messages, results in zip(messages_sent_to(server, wire), [0, 2, 2, 3], strict=True):
            check_sent(messages, results)
        check_record(conversation, store)
        check_who_answered(conversation, wire)

    run(main())


def check_who_answered(conversation: Conversation, wire: str) -> None:
    """Fail unless the record has the names that a provider gave to itself and to its answer."""
    audits = [
        entry.audit
        for entry in conversation.entries()
        if isinstance(entry.payload, AssistantMessage)
    ]
    assert len(audits) == 4
    for audit in audits:
        recorded = {} if audit is None else dict(audit)
        assert recorded.get("response_model") == (None if wire == "chat" else "m")
        assert bool(recorded.get("response_id")) == (wire not in ("chat", "ollama_chat"))


def check_sent(messages: tuple[object, ...], results: int) -> None:
    """Fail unless each result follows the turn that called for it, with its id."""
    found = [m for m in messages if isinstance(m, ToolResultMessage)]
    assert len(found) == results
    calls = [c.id for m in messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
    assert [result.tool_call_id for result in found] == calls
    if results >= 2:
        turn = next(n for n, m in enumerate(messages) if isinstance(m, AssistantMessage))
        assert all(isinstance(m, ToolResultMessage) for m in messages[turn + 1 : turn + 3])
        assert "A lantern for every ship." in found[0].text


def losses_in(events: list[LoopEvent]) -> list[Change]:
    """Return the changes of messages that a provider sees otherwise than they are on record."""
    assert not any(isinstance(event, Notice) for event in events)
    changes = [event.change for event in events if isinstance(event, ContextChanged)]
    return [change for change in changes if change.place.startswith("messages[")]


def thoughtful(wire: str) -> tuple[ScriptLine, ...]:
    """Return signed thinking, where the protocol has it."""
    lines = (ThinkingPiece("Hm, which file?"), ThinkingSeal("c2VhbA=="))
    for answer in (lines, lines[:1]):
        try:
            SERVER_OF_WIRE[wire].frames(answer)
        except NotExpressible:
            continue
        return answer
    return ()


@pytest.mark.requirement("S4-14", "S2-21")
@pytest.mark.parametrize("first", range(len(WIRES)))
def test_a_conversation_continues_with_one_provider_after_the_other(
    first: int, folder: Path
) -> None:
    """Every wire takes over what the one before it left: calls, results, thinking and seals."""

    async def main() -> None:
        store = MemoryStore()
        conversation = store.new()
        lost: dict[str, list[Change]] = {}
        route = WIRES[first:] + WIRES[:first]
        for number, wire in enumerate(route):
            answers = [
                server_response(wire, *thoughtful(wire), *READ_CALL),
                server_response(wire, TextPiece(f"{wire} has read it.")),
            ]
            events: list[LoopEvent] = []
            async with run_provider(wire, *answers) as (server, provider):
                agent = Agent(
                    provider,
                    store.open(conversation.id),
                    tools=tools_in(folder),
                    model=f"{wire}/m",
                )
                result = await agent.run(f"Read it, {wire}.", on_event=events.append)
            assert (result.end_reason, result.text) == (EndReason.DONE, f"{wire} has read it.")
            last = messages_sent_to(server, wire)[-1]
            people = [m for m in last if isinstance(m, UserMessage)]
            assert len(people) == number + 1
            check_sent(last, 2 * (number + 1))
            lost[wire] = losses_in(events)
        assert any(lost[wire] for wire in route[1:])
        final = store.open(conversation.id)
        assert final.model == f"{route[-1]}/m"
        assert sum(isinstance(m, ToolResultMessage) for m in final.messages()) == 2 * len(route)
        check_record(final, store)

    run(main())


@every_wire
def test_thinking_that_the_next_provider_cannot_take_is_reported_once(
    wire: str, folder: Path
) -> None:
    async def main() -> None:
        store = MemoryStore()
        conversation = store.new()
        answer = server_response(
            "anthropic_messages", *thoughtful("anthropic_messages"), TextPiece("Ah.")
        )
        async with run_provider("anthropic_messages", answer) as (_, provider):
            await Agent(provider, conversation).run("Think.")
        events: list[LoopEvent] = []
        answers = [server_response(wire, *READ_CALL), server_response(wire, TextPiece("Fine."))]
        async with run_provider(wire, *answers) as (_, provider):
            agent = Agent(provider, conversation, tools=tools_in(folder))
            assert (await agent.run("Go on.", on_event=events.append)).text == "Fine."
        lost = losses_in(events)
        assert len(lost) == len(set(lost))
        assert bool(lost) is (wire != "anthropic_messages")

    run(main())


@every_wire
@pytest.mark.requirement("S2-31", "P-20")
def test_a_resource_reaches_the_model_as_information_without_a_resolver(wire: str) -> None:
    async def main() -> None:
        table = Resource(server="db", uri="db://schema", text="CREATE TABLE t;")
        answer = server_response(wire, TextPiece("A table."))
        async with run_provider(wire, answer) as (server, provider):
            await Agent(provider, Conversation()).run(UserMessage((Text("Explain."), table)))
        [messages] = messages_sent_to(server, wire)
        text = messages[-1].text or ""
        assert text.startswith("Explain.\n")
        frame = read_frame(text.removeprefix("Explain.").strip("\n"))
        assert frame is not None
        assert frame.label == "resource db://schema of the MCP server db, unknown type"
        assert frame.text == "CREATE TABLE t;"

    run(main())
