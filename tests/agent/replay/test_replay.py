"""A recorded session is run again, offline, and the same record comes out; or what is not the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from steno import ChatMessage, Conversation, Text
from steno.agent import CallStarted, Limits, LoopEvent
from steno.agent.replay.recorded_run import is_made_by_run
from steno.agent.replay.verify import ReplayResult, replay
from steno.errors import Missing
from steno.formats import build_records
from steno.messages.event import TextDelta
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.messages.outcome import Outcome
from steno.records import Header
from steno.records.entry import (
    Compaction,
    Entry,
    Feedback,
    ImageAnalysis,
    Label,
    ModelChange,
    Redacted,
    Resolution,
    ResolutionStatus,
    Rewind,
)
from steno.store import MemoryStore
from tests.agent.agent_setup import AgentHarness, call, read_tool, run, turn_with_calls
from tests.agent.replay.random_sessions import RandomSession
from tests.agent.replay.recorded_sessions import forged, full_session, of_call, replayed

# -- the same comes out ----------------------------------------------------------------------


@pytest.mark.requirement("S1-11")
def test_a_session_is_replayed_to_the_same_digest() -> None:
    records = full_session()
    result = replayed(records)
    assert result.is_same
    assert (result.turns, result.calls) == (5, 6)
    assert (result.entries, result.digest) == (len(records), records[-1].digest)
    given = [
        type(r.entry.payload).__name__ for r in records if r.entry and not is_made_by_run(r.entry)
    ]
    assert given == ["SystemMessage", "ModelChange", "Label"]
    assert result.made_by_loop == len(records) - len(given)


@pytest.mark.requirement("S1-11")
@pytest.mark.parametrize("first", range(0, 240, 30))
def test_the_replay_of_any_session_gives_the_same_log(first: int) -> None:
    """Parallel calls, denials, faults, crashes, cancellations and steering, wherever chance puts them."""

    async def check(seed: int) -> None:
        records = await RandomSession(seed).make()
        for branch in {record.branch for record in records}:
            result = await replay(records, branch=branch)
            assert result.is_same, (seed, branch, str(result.difference))
            heads = [r for r in records if r.branch == branch and r.entry is not None]
            if heads:
                assert result.digest == heads[-1].digest
            if branch == "main":
                made = [r.entry for r in heads if r.entry and is_made_by_run(r.entry)]
                assert result.made_by_loop >= len(
                    [e for e in made if not isinstance(e.payload, Rewind)]
                )

    for seed in range(first, first + 30):
        run(check(seed), limit_s=60.0)


def test_a_session_that_no_agent_made_is_replayed() -> None:
    store = MemoryStore()
    conversation = store.new([ChatMessage.user("Is it broken?")])
    conversation.append(ChatMessage.assistant("I look.", [call("c1", "read")]))
    conversation.append(ChatMessage.tool_result("c1", "3 passed"))
    conversation.append(ChatMessage.assistant("No."), audit={"score": 3})
    conversation.append(ModelChange(old="", new="lab/small"))
    conversation.append(ChatMessage.user("Sure?"))
    conversation.append(ChatMessage.assistant("Yes."), audit={"model": "lab/small"})
    result = replayed(list(store.records(conversation.id)))
    assert (result.is_same, result.entries, result.made_by_loop) == (True, 7, 4)


@pytest.mark.parametrize(
    "payload",
    [
        Feedback(target="elsewhere", text="Shorter."),
        Label(target="elsewhere", text="first"),
        Compaction(through="elsewhere", summary="A greeting."),
        ImageAnalysis(target="elsewhere", block=0, answer="elsewhere"),
        Resolution(
            target="elsewhere", block=0, status=ResolutionStatus.RESOLVED, content=(Text("x"),)
        ),
    ],
    ids=lambda payload: type(payload).__name__,
)
def test_an_imported_log_that_refers_to_an_entry_outside_of_it_is_replayed(payload: Any) -> None:
    conversation = Conversation([ChatMessage.user("Hi"), ChatMessage.assistant("Hello")])
    entries = list(conversation.entries())
    for more in (payload, ChatMessage.user("And?"), ChatMessage.assistant("Well.")):
        entries.append(Entry(id=f"e{len(entries)}", parent=entries[-1].id, payload=more))
    store = MemoryStore()
    store.add_session(Header(id="s"), build_records(entries))
    result = run(replay(store.records("s")))
    assert result.is_same, str(result.difference)


def test_an_empty_session_is_the_same() -> None:
    assert replayed([]) == ReplayResult(0, 0, 0, 0, None, (), None)


def test_long_results_that_lie_beside_the_record_are_replayed() -> None:
    harness = AgentHarness(
        [turn_with_calls(call("c1", "read")), "Long."], read_tool("read", "x" * 200_000)
    )
    run(harness.run())
    records = list(harness.store.records(harness.conversation.id))
    assert max(len(str(record.entry)) for record in records) < 100_000
    assert replayed(records).is_same


def test_another_branch_is_replayed_with_what_it_shares() -> None:
    store = MemoryStore()
    harness = AgentHarness(["One.", "Two."], store=store)
    run(harness.run("First"))
    conversation = harness.conversation
    conversation.fork("other", at=conversation.entries()[1].id)
    run(harness.run("Second"))
    conversation.switch("other")
    run(AgentHarness(["Three."], store=store, conversation=conversation).run(None))
    records = list(store.records(conversation.id))
    assert [replayed(records, branch=name).turns for name in ("main", "other", None)] == [2, 1, 1]
    with pytest.raises(Missing) as caught:
        replayed(records, branch="third")
    assert (caught.value.code, caught.value.place) == ("branch_missing", "branch")


def test_a_replay_emits_the_events_again_and_runs_nothing() -> None:
    events: list[LoopEvent] = []
    replayed(full_session(), on_event=events.append)
    text = "".join([event.text for event in events if isinstance(event, TextDelta)])
    assert text == "I look.Half a thDone.You are welcome."
    assert [e.call.id for e in events if isinstance(e, CallStarted)] == ["c1", "c2", "c3", "c5"]


def test_an_exception_of_the_listener_ends_the_replay() -> None:
    def refuse(_: LoopEvent) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        replayed(full_session(), on_event=refuse)


def test_a_replay_that_is_cancelled_ends() -> None:
    records = full_session()

    async def main() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(replay(records, on_event=lambda _: begun.set()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_limits_of_the_recorded_run_do_not_matter() -> None:
    harness = AgentHarness(
        [turn_with_calls(call(f"c{n}", "nobody")) for n in range(9)],
        limits=Limits(turns=4, invalid_calls=2),
    )
    run(harness.run())
    result = replayed(list(harness.store.records(harness.conversation.id)))
    assert (result.is_same, result.turns) == (True, 3)


# -- something else comes out ----------------------------------------------------------------


def changed(entry: Entry) -> Entry:
    """Change the content of an entry of any kind."""
    payload: Any = entry.payload
    if isinstance(payload, AssistantMessage):
        payload = replace(payload, raw_stop_reason="changed")
    elif isinstance(payload, ToolResultMessage):
        payload = replace(payload, tool_name="changed")
    elif isinstance(payload, Rewind):
        payload = replace(payload, left="changed")
    elif isinstance(payload, ModelChange):
        payload = replace(payload, old="changed")
    else:
        payload = ChatMessage.user("changed")
    return replace(entry, payload=payload)


@pytest.mark.requirement("S1-11")
def test_a_change_of_any_entry_is_found_at_exactly_that_entry() -> None:
    records = full_session()
    for number, record in enumerate(records):
        assert record.entry is not None
        tampered = list(records)
        tampered[number] = replace(record, entry=changed(record.entry))
        difference = replayed(tampered).difference
        assert difference is not None
        assert difference.number == record.seq
        assert difference.recorded == tampered[number].entry
        assert replayed(tampered).entries == number


def test_a_decision_that_no_run_takes_is_found_in_a_forged_record() -> None:
    difference = replayed(forged(full_session(), of_call("c1", decision="failed"))).difference
    assert difference is not None
    assert difference.replayed is not None
    assert (difference.recorded.decision, difference.replayed.decision) == ("failed", "executed")
    assert [part.name for part in difference.parts] == ["decision"]
    assert str(difference).endswith("decision: 8 characters recorded, 10 characters replayed")


def test_texts_that_the_loop_would_not_write_are_found_in_a_forged_record() -> None:
    result = ChatMessage.tool_result("c6", "Secret words.", outcome=Outcome.ERROR)
    difference = replayed(forged(full_session(), of_call("c6", payload=result))).difference
    assert difference is not None
    assert difference.replayed is not None
    assert difference.replayed.message is not None
    assert difference.replayed.message.text == "The call could not be run: no JSON"
    assert "payload.content" in [part.name for part in difference.parts]
    assert "Secret" not in str(difference)


def test_an_order_that_no_run_produces_is_found_in_a_forged_record() -> None:
    records = full_session()
    ends = [
        n
        for n, record in enumerate(records)
        if record.entry and record.entry.decision == "executed"
    ]
    one, other = ends[:2]

    def swap(entry: Entry) -> Entry:
        for here, there in ((one, other), (other, one)):
            found = records[there].entry
            if found is not None and entry is records[here].entry:
                return replace(entry, payload=found.payload)
        return entry

    difference = replayed(forged(records, swap)).difference
    assert difference is not None
    assert difference.number == records[one].seq


# -- redacted entries ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [UserMessage, AssistantMessage, ToolResultMessage, Feedback])
def test_redacted_entries_are_named_and_the_rest_is_replayed(kind: type) -> None:
    harness = AgentHarness(
        [turn_with_calls(call("c1", "read")), "Done.", "Yes."], read_tool("read", "A.")
    )
    run(harness.run())
    conversation = harness.conversation
    conversation.append(Feedback(target=conversation.entries()[-1].id, text="Sure?"))
    run(harness.run("Well?"))
    target = next(e for e in conversation.entries() if isinstance(e.payload, kind))
    harness.store.redact(conversation.id, target.id, actor="ada", reason="a secret")
    records = list(harness.store.records(conversation.id))
    result = replayed(records)
    assert (result.is_same, result.redacted) == (True, (target.id,))
    assert result.digest == records[-1].digest
    taken = [r.entry for r in records if r.entry and isinstance(r.entry.payload, Redacted)]
    assert [entry.id for entry in taken] == [target.id]
