"""Usage totals of a branch and of a session."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest

from steno import ChatMessage, Conversation, ToolCall, Usage
from steno.agent import EntryRecorded
from steno.agent.permissions.subjects import normalize_subject
from steno.agent.recorder import rewind_branch
from steno.app.approval_queue import ApprovalQueue
from steno.app.mcp import McpOptions
from steno.app.models import choose_model
from steno.app.session_state import SessionConfig, SessionState
from steno.app.settings import load_settings
from steno.app.usage_totals import UsageTotals
from steno.log.queries import Price, cost_by_model
from steno.ports import ApprovalDecision, ApprovalRequest, Capability, GrantScope
from steno.records.entry import Compaction, Entry, Feedback, Payload, ShellCommand
from steno.store import MemoryStore
from tests.app.session_setup import run

TURN = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
PRICES = {"a/dear": Price(Decimal(3), Decimal(15)), "a/cheap": Price(Decimal(1), Decimal(2))}


def talk() -> Conversation:
    """Let two models with a price and one without speak."""
    conversation = Conversation([ChatMessage.system("Work.")])
    for model in ("a/dear", "a/cheap", "a/unknown", "a/dear"):
        conversation.change_model(model)
        conversation.append(ChatMessage.user("Well?"))
        conversation.append(ChatMessage.assistant("Well.", usage=TURN))
    return conversation


def test_the_cost_is_that_of_each_model_at_its_own_price() -> None:
    conversation, ledger = talk(), UsageTotals(PRICES.get)
    for entry in conversation.entries():
        ledger.add(entry)
    spent = cost_by_model(conversation.entries(), PRICES.get).values()
    assert ledger.cost == sum(one.cost for one in spent if one.cost is not None) == Decimal(39)
    assert ledger.usage.total_tokens == 8_000_000
    assert ledger.context_tokens == 2_000_000
    ledger.rebuild(conversation.entries()[:4])
    assert (ledger.cost, ledger.usage) == (Decimal(18), TURN)


def test_no_cost_is_known_where_no_price_is() -> None:
    ledger = UsageTotals(lambda _: None)
    ledger.rebuild(talk().entries())
    assert ledger.cost is None


def test_uncounted_tokens_are_estimated() -> None:
    ledger, conversation = UsageTotals(PRICES.get), Conversation([ChatMessage.user("word " * 700)])
    ledger.rebuild(conversation.entries())
    assert ledger.context_tokens is None
    ledger.add(conversation.append(ChatMessage.assistant("Yes.")))
    assert ledger.context_tokens is not None
    assert 900 < ledger.context_tokens < 1_200


def test_an_entry_recorded_again_after_a_rewind_counts_once(tmp_path: Path, home: Path) -> None:
    async def main() -> None:
        loaded = load_settings(tmp_path, flags={"model": "offline"})
        outside = McpOptions(is_disabled=True)
        state = SessionState(
            SessionConfig(loaded, tmp_path, MemoryStore, False, outside, lambda _: None)
        )
        try:
            await state.open_store()
            await state.use_model(await choose_model(loaded))
            conversation = state.ensure_recorded()
            start = record(state, ChatMessage.user("Well?"))
            record(state, ShellCommand(command="ls", output="word " * 700))
            for entry in rewind_branch(conversation, start.id):
                state.emit(EntryRecorded(entry))
            record(state, ChatMessage.assistant("Yes."))
            ledger = UsageTotals(PRICES.get)
            ledger.rebuild(conversation.entries_view())
            assert state.status.context_tokens == ledger.context_tokens
        finally:
            await state.close()

    run(main())


def record(state: SessionState, payload: Payload) -> Entry:
    entry = state.conversation.append(payload)
    state.emit(EntryRecorded(entry))
    return entry


def test_a_summary_leaves_more_room() -> None:
    ledger, conversation = UsageTotals(PRICES.get), Conversation([ChatMessage.system("Work.")])
    conversation.append(ChatMessage.user("word " * 700))
    conversation.append(ChatMessage.assistant("Yes.", usage=TURN))
    last = conversation.append(ChatMessage.user("More?"))
    ledger.rebuild(conversation.entries())
    summary = Compaction(through=conversation.entries()[2].id, summary="Words.", usage=TURN)
    ledger.add(conversation.append(summary))
    assert ledger.context_tokens is not None
    assert 0 < ledger.context_tokens < 100
    assert ledger.usage.total_tokens == 4_000_000
    assert last.id in {entry.id for entry in conversation.entries()}


def test_a_clear_leaves_only_the_system_messages_in_the_context() -> None:
    ledger, conversation = UsageTotals(PRICES.get), Conversation([ChatMessage.system("Work.")])
    ledger.rebuild(conversation.entries())
    for message in (
        ChatMessage.user("word " * 700),
        ChatMessage.assistant("Yes.", usage=TURN),
        ChatMessage.system("Be brief. " * 700),
    ):
        ledger.add(conversation.append(message))
    ledger.add(conversation.clear())
    assert ledger.context_tokens is not None
    assert 0 < ledger.context_tokens < 100
    assert ledger.usage == TURN


@pytest.mark.parametrize("kind", [Compaction, Feedback])
def test_a_system_message_after_another_entry_is_cleared(kind: type) -> None:
    """A summary and feedback are not messages of the log, but the model receives them."""
    conversation = Conversation([ChatMessage.system("Work."), ChatMessage.user("Well?")])
    last = conversation.append(ChatMessage.assistant("Well."))
    if kind is Feedback:
        conversation.clear()
        conversation.append(Feedback(target=last.id, text="Good."))
    conversation.append(ChatMessage.system("Be brief. " * 700))
    if kind is Compaction:
        conversation.append(Compaction(through=last.id, summary="They spoke."))
    conversation.clear()
    ledger = UsageTotals(PRICES.get)
    ledger.rebuild(conversation.entries())
    assert [message.text for message in conversation.messages()] == ["Work."]
    assert ledger.context_tokens is not None
    assert 0 < ledger.context_tokens < 100


def test_a_system_message_after_a_redacted_prompt_is_cleared() -> None:
    store = MemoryStore()
    conversation = store.new([ChatMessage.system("Work."), ChatMessage.user("A secret.")])
    prompt = conversation.entries()[-1]
    conversation.append(ChatMessage.system("Be brief. " * 700))
    conversation.clear()
    store.redact(conversation.id, prompt.id, actor="ada", reason="private")
    ledger = UsageTotals(PRICES.get)
    ledger.rebuild(store.open(conversation.id).entries())
    assert ledger.context_tokens is not None
    assert 0 < ledger.context_tokens < 100


# -- questions -----------------------------------------------------------------------------------


def question(id: str, path: str) -> ApprovalRequest:
    call = ToolCall(id=id, name="write", arguments="{}")
    return ApprovalRequest(
        call=call,
        capability=Capability.WRITE,
        subjects=(normalize_subject(path, Capability.WRITE),),
        rule="write(src/**)",
    )


async def asked(
    questions: ApprovalQueue, *all_of_them: ApprovalRequest
) -> list[asyncio.Task[ApprovalDecision]]:
    tasks = [asyncio.create_task(questions.ask(one)) for one in all_of_them]
    await asyncio.sleep(0)
    return tasks


@pytest.mark.requirement("S2-18")
def test_a_verdict_answers_one_question_whatever_its_scope() -> None:
    async def main() -> None:
        for decision in (
            ApprovalDecision(allowed=True, actor="ada"),
            ApprovalDecision(allowed=True, actor="ada", scope=GrantScope.SESSION),
            ApprovalDecision(allowed=False, actor="ada", scope=GrantScope.SESSION),
        ):
            questions = ApprovalQueue(lambda: None)
            one, other = await asked(questions, question("c1", "src/a"), question("c2", "src/b"))
            questions.decide("c1", decision, {})
            assert await one == decision
            assert [pending.call.id for pending in questions.pending_calls(())] == ["c2"]
            other.cancel()
            await asyncio.wait([other])
            assert questions.pending_calls(()) == []

    run(main())


def test_an_early_decision_does_not_apply_to_other_arguments() -> None:
    async def main() -> None:
        questions, later = ApprovalQueue(lambda: None), question("c2", "src/b")
        other_call = ToolCall(id="c2", name="write", arguments='{"path": "/"}')
        await asked(questions, question("c1", "src/a"))
        questions.decide("c2", ApprovalDecision(allowed=True, actor="ada"), {"c2": other_call})
        [waiting] = await asked(questions, later)
        assert not waiting.done()
        assert [pending.call.id for pending in questions.pending_calls(())] == ["c1", "c2"]
        waiting.cancel()

    run(main())
