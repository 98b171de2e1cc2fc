"""Queries: facts that follow from the entries of a branch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, get_args

import pytest

from steno import (
    AssistantMessage,
    ChatMessage,
    FileReference,
    Image,
    ImageUrl,
    Outcome,
    Resource,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from steno.codec import decode_entry
from steno.errors import InvalidValue
from steno.log.conversation import Conversation
from steno.log.queries import (
    ContentType,
    EntryKind,
    EntryQuery,
    ModelCost,
    Price,
    VisionAnalysis,
    approvals_by_call,
    approvals_of,
    as_version_2,
    calls_by_entry,
    content_types,
    cost_by_model,
    current_mode,
    entry_decisions,
    entry_kinds,
    feedback_by_entry,
    is_agent_result,
    labels_of,
    pending_approvals,
    resolutions_of,
    revoked_grant_of,
    searchable_text,
    select_entries,
    shell_command_of,
    total_usage,
    vision_analyses,
)
from steno.messages.call import InvalidToolCall
from steno.messages.content import Block, Opaque
from steno.messages.usage import StopReason
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    Compaction,
    Control,
    Entry,
    Feedback,
    GrantRevoked,
    ImageAnalysis,
    Label,
    Mode,
    ModeChange,
    ModelChange,
    Payload,
    Redacted,
    Redaction,
    Repair,
    Resolution,
    ResolutionStatus,
    ShellCommand,
)
from tests import every_payload
from tests.acceptance.costs import steps_of

NOON = datetime(2024, 5, 17, 12, tzinfo=UTC)
CALL = ToolCall(id="c1", name="read", arguments='{"path":"a.py"}')
INVALID = InvalidToolCall(id="c2", arguments="{", reason="cut")
OPAQUE = Opaque(kind="x", raw='{"type":"x"}', origin="steno")


def entry(payload: Any, **more: Any) -> Entry:
    return Entry(id=more.pop("id", "e1"), payload=payload, **more)


PAYLOADS = {type(payload): payload for payload in every_payload.PAYLOADS}


# -- kinds and types ---------------------------------------------------------------------------


@pytest.mark.requirement("S1-01")
@pytest.mark.parametrize(
    ("message", "kinds"),
    [
        (ChatMessage.user("a"), ["user"]),
        (ChatMessage.user([FileReference(path="a")]), ["user"]),
        (ChatMessage.system("a"), ["system_context"]),
        (ChatMessage.assistant("a"), ["assistant_text"]),
        (ChatMessage.assistant(None, [CALL]), ["assistant_action"]),
        (ChatMessage.assistant("a", [CALL, CALL]), ["assistant_text", "assistant_action"]),
        (ChatMessage.assistant(None, [INVALID]), ["assistant_action"]),
        (AssistantMessage(content=(CALL, Thinking("a"))), ["assistant_action", "assistant_text"]),
        (ChatMessage.assistant(stop_reason=StopReason.LENGTH), ["assistant_text"]),
        (ToolResult.success("c1", "a"), ["tool_result"]),
        (ToolResult.error("c1", "a"), ["tool_error"]),
    ],
)
def test_every_entry_falls_into_one_of_six_kinds(message: Any, kinds: list[str]) -> None:
    assert [str(kind) for kind in entry_kinds(entry(message))] == kinds


@pytest.mark.requirement("S1-01")
@pytest.mark.parametrize("kind", get_args(Payload), ids=lambda kind: kind.__name__)
def test_every_payload_has_a_kind_and_other_payloads_than_messages_are_context(kind: type) -> None:
    found = entry_kinds(entry(PAYLOADS[kind]))
    assert set(found) <= set(EntryKind)
    assert len(found) >= 1
    if entry(PAYLOADS[kind]).message is None:
        assert found == (EntryKind.SYSTEM_CONTEXT,)
    assert len(EntryKind) == 6


@pytest.mark.parametrize(
    ("message", "types"),
    [
        (ChatMessage.user("a"), ["text"]),
        (ChatMessage.system("a"), ["text"]),
        (
            ChatMessage.user(
                [
                    FileReference(path="a"),
                    Text("a"),
                    Image(source=ImageUrl("https://a")),
                    Text("b"),
                    Resource(server="s", uri="u:1"),
                    OPAQUE,
                ]
            ),
            ["file_reference", "text", "image", "mcp_resource", "unknown"],
        ),
        (AssistantMessage(content=(Thinking("a"), CALL, INVALID)), ["text", "tool_request"]),
        (ChatMessage.assistant(stop_reason=StopReason.LENGTH), []),
        (ToolResult.error("c1", "a"), ["tool_result"]),
        (ChatMessage.tool_result("c1", [Image(source=ImageUrl("https://a"))]), ["tool_result"]),
        (OPAQUE, ["unknown"]),
        (Redacted(kind="user", sha256="0" * 64), ["unknown"]),
        (Feedback(target="e1", text="a"), []),
    ],
)
def test_the_types_of_content_are_in_order(message: Any, types: list[str]) -> None:
    assert [str(found) for found in content_types(entry(message))] == types


@pytest.mark.parametrize("kind", get_args(Control), ids=lambda kind: kind.__name__)
def test_control_payloads_are_system_control(kind: type) -> None:
    assert content_types(entry(PAYLOADS[kind])) == (ContentType.SYSTEM_CONTROL,)


def test_an_entry_of_a_newer_version_is_unknown_context() -> None:
    newer = decode_entry('{"v":4,"id":"e1"}')
    assert entry_kinds(newer) == (EntryKind.SYSTEM_CONTEXT,)
    assert content_types(newer) == (ContentType.UNKNOWN,)
    assert searchable_text(newer) == ""


def test_every_block_has_a_type() -> None:
    assert {ContentType.TEXT} == set(content_types(entry(ChatMessage.assistant("a"))))
    blocks: dict[type, Any] = {
        Text: ChatMessage.user("a"),
        Thinking: AssistantMessage(content=(Thinking("a"),)),
        Image: ChatMessage.user([Image(source=ImageUrl("https://a"))]),
        FileReference: ChatMessage.user([FileReference(path="a")]),
        Resource: ChatMessage.user([Resource(server="s", uri="u:1")]),
        ToolCall: ChatMessage.assistant(None, [CALL]),
        InvalidToolCall: ChatMessage.assistant(None, [INVALID]),
        Opaque: ChatMessage.user([OPAQUE]),
    }
    assert set(blocks) == set(get_args(Block))
    for message in blocks.values():
        assert len(content_types(entry(message))) == 1


# -- what holds now ----------------------------------------------------------------------------


def test_a_label_that_is_given_again_has_moved() -> None:
    labels = [Label(target="e1", text="here"), Label(target="e2", text="there")]
    entries = [entry(label) for label in [*labels, Label(target="e3", text="here")]]
    assert labels_of(entries) == {"here": "e3", "there": "e2"}


def test_the_latest_decision_holds() -> None:
    pending, approved, denied = (
        Approval(call_id=call_id, status=status, arguments_sha256="0" * 64, actor=actor)
        for call_id, status, actor in (
            ("c1", ApprovalStatus.PENDING, None),
            ("c1", ApprovalStatus.APPROVED, "ann"),
            ("c2", ApprovalStatus.DENIED, "bob"),
        )
    )
    turn = ChatMessage.assistant(None, [CALL, INVALID])
    entries = [entry(payload) for payload in (turn, pending, denied, approved)]
    assert approvals_of(entries) == {"c1": approved, "c2": denied}
    assert pending_approvals(entries) == ()
    assert pending_approvals(entries[:2]) == (CALL,)
    assert pending_approvals([entry(pending)]) == ()


def test_a_resolution_is_found_by_entry_and_block() -> None:
    found = [
        Resolution(target="e1", block=0, status=ResolutionStatus.PENDING),
        Resolution(target="e1", block=1, status=ResolutionStatus.FAILED, error="gone"),
        Resolution(target="e1", block=0, status=ResolutionStatus.RESOLVED, content=(Text("a"),)),
    ]
    entries = [entry(resolution) for resolution in found]
    assert resolutions_of(entries) == {("e1", 0): found[2], ("e1", 1): found[1]}


def test_feedback_is_in_order() -> None:
    remarks = [("e1", "a"), ("e2", "b"), ("e1", "c")]
    entries = [entry(Feedback(target=target, text=text)) for target, text in remarks]
    assert feedback_by_entry(entries) == {"e1": ("a", "c"), "e2": ("b",)}


# -- cost --------------------------------------------------------------------------------------


def turn(**usage: Any) -> AssistantMessage:
    return ChatMessage.assistant("a", usage=Usage(**usage))


def test_tokens_add_up_and_unreported_counts_stay_none() -> None:
    entries = [
        entry(payload)
        for payload in (
            turn(input_tokens=10, output_tokens=1),
            ChatMessage.user("a"),
            turn(input_tokens=20, thinking_tokens=2),
            ChatMessage.assistant("a"),
        )
    ]
    assert total_usage(entries) == Usage(input_tokens=30, output_tokens=1, thinking_tokens=2)
    assert total_usage([]) == Usage()


def test_the_tokens_of_a_summary_count_too() -> None:
    used = Usage(input_tokens=1_000_000, output_tokens=10)
    summed_up = [
        entry(ModelChange(old="", new="large")),
        entry(Compaction(through="e", summary="a", usage=used)),
    ]
    assert total_usage(summed_up) == used
    [spent] = cost_by_model(summed_up, lambda _: Price(Decimal(3), Decimal(0))).values()
    assert spent == ModelCost(used, Decimal(3))


def test_cost_is_listed_by_model() -> None:
    conversation = Conversation()
    conversation.append(turn(input_tokens=1))
    conversation.change_model("large")
    conversation.append(turn(input_tokens=1_000_000, output_tokens=500_000))
    conversation.change_model("small")
    conversation.append(turn(input_tokens=7))
    conversation.change_model("large")
    conversation.append(turn(output_tokens=500_000))
    prices = {"large": Price(Decimal(3), Decimal(15))}
    assert cost_by_model(conversation.entries(), prices.get) == {
        "": ModelCost(Usage(input_tokens=1), None),
        "large": ModelCost(Usage(input_tokens=1_000_000, output_tokens=1_000_000), Decimal(18)),
        "small": ModelCost(Usage(input_tokens=7), None),
    }


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        (Price(Decimal(10), Decimal(0)), "10"),
        (Price(Decimal(10), Decimal(0), Decimal(1)), "4.6"),
        (Price(Decimal(10), Decimal(0), Decimal(1), Decimal(20)), "6.6"),
    ],
)
def test_cached_tokens_are_counted_once_at_their_own_price(price: Price, cost: str) -> None:
    used = turn(input_tokens=1_000_000, cache_read_tokens=600_000, cache_write_tokens=200_000)
    [spent] = cost_by_model([entry(used)], lambda _: price).values()
    assert spent.cost == Decimal(cost)


def test_a_count_that_does_not_fit_costs_nothing_less_than_nothing() -> None:
    used = turn(input_tokens=1, cache_read_tokens=1_000_000)
    [spent] = cost_by_model(
        [entry(used)], lambda _: Price(Decimal(9), Decimal(9), Decimal(1))
    ).values()
    assert spent.cost == Decimal(1)


# -- queries -----------------------------------------------------------------------------------


def audited() -> Conversation:
    moments = iter(NOON + timedelta(minutes=number) for number in range(99))
    numbers = iter(range(1, 99))
    conversation = Conversation(
        id="audit", new_id=lambda: f"e{next(numbers)}", now=moments.__next__
    )
    conversation.append(ChatMessage.user("Broken?"), audit={"actor": "ann"})
    conversation.append(ChatMessage.assistant("I look.", [CALL]))
    conversation.decide("c1", ApprovalStatus.APPROVED, actor="bob")
    result = ChatMessage.tool_result("c1", "fine", tool_name="read")
    conversation.append(result, audit={"actor": "runner"})
    conversation.append(ChatMessage.assistant("Fine."))
    return conversation


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (EntryQuery(), "e1 e2 e3 e4 e5"),
        (EntryQuery(kind=EntryKind.USER), "e1"),
        (EntryQuery(kind=EntryKind.ASSISTANT_ACTION), "e2"),
        (EntryQuery(kind=EntryKind.ASSISTANT_TEXT), "e2 e5"),
        (EntryQuery(kind=EntryKind.SYSTEM_CONTEXT), "e3"),
        (EntryQuery(decision="approved"), "e3"),
        (EntryQuery(tool="read"), "e2 e3 e4"),
        (EntryQuery(tool="write"), ""),
        (EntryQuery(actor="ann"), "e1"),
        (EntryQuery(actor="bob"), "e3"),
        (EntryQuery(actor="runner", tool="read"), "e4"),
        (EntryQuery(since=NOON + timedelta(minutes=3)), "e4 e5"),
        (EntryQuery(until=NOON + timedelta(minutes=1)), "e1 e2"),
        (
            EntryQuery(since=NOON + timedelta(minutes=1), until=NOON + timedelta(minutes=3)),
            "e2 e3 e4",
        ),
        (EntryQuery(since=NOON + timedelta(minutes=4), kind=EntryKind.USER), ""),
    ],
)
def test_a_query_finds_entries_by_all_that_it_names(query: EntryQuery, found: str) -> None:
    assert [hit.id for hit in select_entries(audited().entries(), query)] == found.split()


def test_an_entry_without_a_time_is_outside_of_every_period() -> None:
    timeless = [entry(ChatMessage.user("a"))]
    assert select_entries(timeless, EntryQuery()) == tuple(timeless)
    assert (
        select_entries(timeless, EntryQuery(since=NOON))
        == select_entries(timeless, EntryQuery(until=NOON))
        == ()
    )


# -- text --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (ChatMessage.user([Text("a"), FileReference(path="b.py"), OPAQUE]), "a\nb.py"),
        (ChatMessage.user([Resource(server="s", uri="u:1", text="b")]), "u:1 b"),
        (ChatMessage.user([Resource(server="s", uri="u:1")]), "u:1 "),
        (ChatMessage.user([Image(source=ImageUrl("https://a"))]), ""),
        (
            AssistantMessage(content=(Thinking("hm"), Text("a"), CALL)),
            'hm\na\nread {"path":"a.py"}',
        ),
        (ChatMessage.assistant(None, [INVALID]), f"{INVALID.name} {{"),
        (ToolResult.success("c1", "fine"), "fine"),
        (Label(target="e1", text="here"), "here"),
        (Compaction(through="e1", summary="much"), "much"),
        (Redaction(target="e1", actor="ann", reason="law"), "law"),
        (Repair(code="x", explanation="why"), "why"),
        (ModeChange(old=Mode.PLAN, new=Mode.ACT), ""),
    ],
)
def test_the_text_of_an_entry_is_all_text_that_a_person_could_read(payload: Any, text: str) -> None:
    assert searchable_text(entry(payload)) == text


def test_the_mode_is_that_of_the_last_change() -> None:
    plan, act = entry(ModeChange(old=Mode.ACT, new=Mode.PLAN)), entry(ChatMessage.user("a"))
    assert current_mode([plan, act]) is Mode.PLAN
    assert current_mode([act]) is Mode.ACT
    assert current_mode([act], Mode.PLAN) is Mode.PLAN


def test_a_query_for_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidValue) as caught:
        select_entries((), EntryQuery(since=datetime(2026, 1, 1)))  # noqa: DTZ001 - that is the mistake
    assert (caught.value.place, caught.value.code) == ("query", "no_time_zone")


@pytest.mark.parametrize(
    ("message", "audit", "command"),
    [
        (ChatMessage.user("$ ls\n"), {"shell": "ls"}, "ls"),
        (ChatMessage.user("$ \n"), {"shell": ""}, ""),
        (ChatMessage.user("Hello?"), {"shell": 7}, None),
        (ChatMessage.user("Hello?"), {"actor": "a"}, None),
        (ChatMessage.user("Hello?"), None, None),
        (ChatMessage.assistant("Fine."), {"shell": "ls"}, None),
    ],
)
def test_a_shell_command_is_a_text_beside_a_user_message(
    message: Any, audit: dict[str, Any] | None, command: str | None
) -> None:
    conversation = Conversation([ChatMessage.user("Hello?"), ChatMessage.assistant("Hello.")])
    if isinstance(message, AssistantMessage):
        conversation.append(ChatMessage.user("Well?"))
    conversation.append(message, audit=audit)
    found = shell_command_of(conversation.entries()[-1])
    assert (None if found is None else found.command) == command


@pytest.mark.parametrize("status", [True, "1", None, 2.5, [], {}])
def test_a_status_of_another_type_is_none(status: Any) -> None:
    """Other programs may write audit data; one odd record must not make a session unreadable."""
    recorded = entry(ChatMessage.user("$ ls\n"), audit={"shell": "ls", "status": status})
    assert shell_command_of(recorded) == ShellCommand(command="ls", output="")


def test_entries_of_version_2_are_presented_as_the_types_of_version_3() -> None:
    shell = ShellCommand(command="ls", output="a.py\n", status=1)
    revoked = GrantRevoked(grant="bash(ls)", target="e3")
    old = entry(shell)
    for payload, present in ((shell, shell_command_of), (revoked, revoked_grant_of)):
        new = Entry(id="e1", payload=payload, audit={"actor": "ada"})
        old = as_version_2(new)
        assert (old.v, new.v) == (2, 3)
        assert old.message == new.message
        assert present(old) == present(new) == payload
        assert as_version_2(old) is old
        assert entry_kinds(old) == entry_kinds(new)
        assert content_types(old) == content_types(new)
    assert old.payload == Repair(
        code="grant_revoked",
        explanation="bash(ls) is no longer allowed for this session",
        target="e3",
    )
    assert dict(old.audit or {}) == {"actor": "ada", "revoked": "bash(ls)"}
    reworded = Repair(code="grant_revoked", explanation="The grant has ended.", target="e3")
    assert revoked_grant_of(Entry(id="e1", payload=reworded, audit=old.audit)) == revoked
    assert revoked_grant_of(Entry(id="e1", payload=old.payload)) == revoked
    assert revoked_grant_of(entry(Repair(code="mended", explanation="?", target="e3"))) is None
    stopped = as_version_2(entry(ShellCommand(command="sleep 9", output="")))
    assert stopped.payload == ChatMessage.user("$ sleep 9\n")
    assert dict(stopped.audit or {}) == {"shell": "sleep 9"}


@pytest.mark.requirement("S1-08")
def test_a_call_id_of_two_branches_is_the_call_of_the_branch() -> None:
    """Servers that number calls from 0 use the same id on two branches."""
    conversation = Conversation([ChatMessage.user("Tidy up")])
    fork = conversation.entries()[-1].id
    remove = ToolCall(id="call_0", name="bash", arguments='{"command": "rm x"}')
    turn = conversation.append(ChatMessage.assistant(None, [remove]))
    conversation.fork("other", at=fork)
    conversation.switch("other")
    read = ToolCall(id="call_0", name="read", arguments='{"path": "a"}')
    other = conversation.append(ChatMessage.assistant(None, [read]))
    conversation.switch("main")
    approval = conversation.decide("call_0", ApprovalStatus.APPROVED, actor="ada")
    result = conversation.append(ChatMessage.tool_result("call_0", "removed"))
    entries = [*conversation.entries()[:-2], other, approval, result]
    calls, approvals = calls_by_entry(entries), approvals_by_call(entries)
    assert (calls[approval.id], calls[result.id]) == (remove, remove)
    assert approvals == {(turn.id, "call_0"): approval.payload}
    assert entry_decisions(other, approvals) == ("tool_call",)


def test_a_list_without_parents_is_read_in_its_order() -> None:
    call = ToolCall(id="c", name="read")
    entries = [
        Entry(id="1", payload=ChatMessage.assistant(None, [call])),
        Entry(id="2", payload=ChatMessage.tool_result("c", "text")),
        Entry(id="3", payload=ChatMessage.assistant(None, [ToolCall(id="c", name="write")])),
        Entry(id="4", payload=ChatMessage.tool_result("c", "text")),
        Entry(id="5", payload=ChatMessage.tool_result("d", "text")),
    ]
    calls = calls_by_entry(entries)
    assert {id: call.name for id, call in calls.items()} == {"2": "read", "4": "write"}


@pytest.mark.parametrize("branches", [1, 2])
def test_the_cost_of_finding_calls_grows_with_the_entries_and_no_faster(branches: int) -> None:
    """One turn has all calls, and the entries of its branches alternate."""

    def steps(count: int) -> int:
        calls = [ToolCall(id=f"c{number}", name="read") for number in range(count)]
        entries = [Entry(id="turn", payload=ChatMessage.assistant(None, calls))]
        for number in range(count):
            before = entries[-branches].id if number >= branches else "turn"
            result = ChatMessage.tool_result(f"c{number}", "text")
            entries.append(Entry(id=f"e{number}", parent=before, payload=result))
        assert len(calls_by_entry(entries)) == count
        return steps_of(lambda: calls_by_entry(entries))

    assert steps(400) < 5 * steps(100)


@pytest.mark.requirement("S2-24")
def test_a_branch_from_the_answer_has_the_answer_to_its_image() -> None:
    """The link follows the answer, so a fork at the answer does not contain it."""
    image = Image(source=ImageUrl("https://example.org/a.png"))
    conversation = Conversation([ChatMessage.user([image]), ChatMessage.assistant("A cat.")])
    prompt, answer = conversation.entries()
    conversation.append(ImageAnalysis(target=prompt.id, block=0, answer=answer.id))
    conversation.fork("at-answer", at=answer)
    conversation.fork("at-prompt", at=prompt)
    conversation.append(ChatMessage.assistant("A dog."), branch="at-prompt")
    log_entries = conversation.entries()
    found = {
        name: vision_analyses(conversation.entries(name), log_entries=log_entries)
        for name in conversation.branches
    }
    expected = {(prompt.id, 0): VisionAnalysis(answer.id, "A cat.", None)}
    assert found == {"main": expected, "at-answer": expected, "at-prompt": {}}


def test_an_error_result_with_a_duration_is_one_of_a_tool() -> None:
    measured = ChatMessage.tool_result("c", "-", outcome=Outcome.ERROR, duration_s=0.1)
    assert not is_agent_result(measured)
    assert is_agent_result(ChatMessage.tool_result("c", "-", outcome=Outcome.DENIED))
