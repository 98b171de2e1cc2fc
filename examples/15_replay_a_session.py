"""Run a recorded session again and prove that the same record comes out; then on another model.

Scripts stand in for both models: with `steno.providers.connect` in their place the rest stays.
"""

import asyncio

from msgspec.structs import replace

from steno import ChatMessage, ToolCall
from steno.agent import Agent, Gate, Runner
from steno.agent.replay import RecordedResults, replay, rerun
from steno.store import MemoryStore
from steno.testing import ScriptedProvider, ScriptedTool

tests = ToolCall.create("run_tests", {"path": "tests"}, id="c1")
large = ScriptedProvider([ChatMessage.assistant("I look.", [tests]), "All green."])
small = ScriptedProvider([ChatMessage.assistant("Let me see.", [tests]), "3 tests pass."])
tool = ScriptedTool("run_tests", ["3 passed"])


async def main() -> None:
    """Record, replay, forge, and run again."""
    store = MemoryStore()
    conversation = store.new([ChatMessage.system("You mend code.")])
    await Agent(large, conversation, tools=[tool], model="lab/large").run("Is it broken?")

    records = list(store.records(conversation.id))
    same = await replay(records)
    print(f"same: {same.is_same}, {same.entries} entries, {same.turns} turns, {same.calls} call")

    for number, record in enumerate(records):
        if record.entry is not None and record.entry.decision == "executed":
            records[number] = replace(record, entry=replace(record.entry, decision="denied"))
    other = await replay(records)
    assert other.difference is not None
    print(f"same: {other.is_same}, after {other.entries} entries:", *other.difference.parts)

    def make(reuse: RecordedResults) -> Agent:
        gate, runner = reuse.wrap_gate(Gate()), reuse.wrap_runner(Runner(store))
        return Agent(small, conversation, tools=[tool], gate=gate, runner=runner, model="lab/small")

    compared = await rerun(conversation, make, name="replay-small")
    assert compared.divergence is not None
    print(f"turn {compared.divergence.turn} is the first that differs")
    for side in (compared.recorded, compared.new):
        print(f"{side.model}: {side.turns} turns, {side.calls} call, {side.text}")
    print(f"{compared.reused_results} result used again; the tests ran {len(tool.calls)} time")


asyncio.run(main())
