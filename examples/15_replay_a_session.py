"""Replay a recorded session and compare the records; then rerun it with another model.

Scripted providers replace both models; `steno.providers.connect` returns real ones.
"""

import asyncio

from msgspec.structs import replace

from steno import ChatMessage, ToolCall
from steno.agent import Agent, Gate, Runner
from steno.agent.replay import RecordedResults, replay, rerun
from steno.store import MemoryStore
from steno.testing import ScriptedProvider, ScriptedTool

tests = ToolCall.create("run_tests", {"path": "tests"}, id="c1")
large = ScriptedProvider([ChatMessage.assistant("I run the tests.", [tests]), "All tests pass."])
small = ScriptedProvider([ChatMessage.assistant("Running the tests.", [tests]), "3 tests pass."])
tool = ScriptedTool("run_tests", ["3 passed"])


async def main() -> None:
    """Record a session, replay it, replay a changed record, and rerun it."""
    store = MemoryStore()
    conversation = store.new([ChatMessage.system("You fix code.")])
    await Agent(large, conversation, tools=[tool], model="lab/large").run("Is it broken?")

    records = list(store.records(conversation.id))
    same = await replay(records)
    print(f"same: {same.is_same}, {same.entries} entries, {same.turns} turns, {same.calls} call")

    # Change a recorded decision: the replay finds the difference.
    for number, record in enumerate(records):
        if record.entry is not None and record.entry.decision == "executed":
            records[number] = replace(record, entry=replace(record.entry, decision="denied"))
    changed = await replay(records)
    assert changed.difference is not None
    print(f"same: {changed.is_same}, after {changed.entries} entries:", *changed.difference.parts)

    def make(reuse: RecordedResults) -> Agent:
        gate, runner = reuse.wrap_gate(Gate()), reuse.wrap_runner(Runner(store))
        return Agent(small, conversation, tools=[tool], gate=gate, runner=runner, model="lab/small")

    compared = await rerun(conversation, make, name="replay-small")
    assert compared.divergence is not None
    print(f"first difference: turn {compared.divergence.turn}")
    for side in (compared.recorded, compared.new):
        print(f"{side.model}: {side.turns} turns, {side.calls} call, {side.text}")
    print(f"{compared.reused_results} result reused; the tool ran {len(tool.calls)} time")


asyncio.run(main())
