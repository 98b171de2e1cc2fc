"""The request that the context builder makes of a log."""

from __future__ import annotations

import pytest

from steno import ChatMessage, Conversation, ToolCall
from steno.context import ContextBuilder, ModelTarget
from steno.errors import InvalidRequest, Unavailable
from steno.messages.content import FileReference, Opaque, Resource, Text
from steno.messages.message import Message, SystemMessage, UserMessage
from steno.messages.tool import ToolDefinition
from steno.messages.usage import StopReason
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    BranchSwitch,
    Compaction,
    Feedback,
    Label,
    Mode,
    ModeChange,
    ModelChange,
    Payload,
    Redacted,
    Redaction,
    Repair,
    Rewind,
)
from steno.store import MemoryStore
from tests.context.sample_logs import (
    PNG,
    build,
    check_whole,
    codes,
    log,
    only_user_message,
    texts,
    turn,
)

DIGEST = "0" * 64
READ = ToolDefinition(name="read", description="Read a file.", parameters={"type": "object"})


# -- messages ------------------------------------------------------------------------------------


def test_a_sound_log_is_sent_as_it_is() -> None:
    said = [ChatMessage.system("s"), ChatMessage.user("u"), *turn("c"), ChatMessage.assistant("a")]
    built = build(log(*said))
    assert built.request.messages == tuple(said)
    assert built.changes == ()
    assert built.sources == ("e1", "e2", "e3", "e4", "e5")


def test_settings_and_tools_of_the_target_are_in_the_request() -> None:
    target = ModelTarget(
        model="m", max_tokens=9, temperature=1, top_p=0.5, stop=("x",), tool_choice="read"
    )
    request = ContextBuilder().build(log(ChatMessage.user("u")), target, [READ]).request
    assert (request.model, request.max_tokens, request.stop) == ("m", 9, ("x",))
    assert (request.temperature, request.top_p) == (1.0, 0.5)
    assert type(request.temperature) is float
    assert (request.tools, request.tool_choice) == ((READ,), "read")


def test_a_setting_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        build(log(ChatMessage.user("u")), ModelTarget(temperature=7))
    assert (caught.value.code, caught.value.field) == ("out_of_range", "temperature")


def test_a_model_without_tools_gets_none() -> None:
    target = ModelTarget(tools=False, tool_choice="required")
    built = ContextBuilder().build(log(ChatMessage.user("u")), target, [READ])
    assert (built.request.tools, built.request.tool_choice) == ((), None)
    assert codes(built) == [("tools_left_out", None)]


def test_a_log_without_messages_cannot_be_sent() -> None:
    with pytest.raises(InvalidRequest) as caught:
        build(log(ModelChange(old="", new="m")))
    assert (caught.value.place, caught.value.code) == ("context", "nothing_to_send")


@pytest.mark.requirement("S2-22")
def test_controls_and_decisions_never_reach_a_model() -> None:
    approval = Approval(
        call_id="c", status=ApprovalStatus.APPROVED, arguments_sha256=DIGEST, actor="ada"
    )
    entries = log(
        ChatMessage.user("u"),
        ModeChange(old=Mode.PLAN, new=Mode.ACT),
        BranchSwitch(old="main", new="other"),
        Rewind(left="e0"),
        ModelChange(old="", new="m"),
        Label(target="e1", text="here"),
        approval,
        Repair(code="c", explanation="x"),
        Redaction(target="e1", actor="ada", reason="x"),
        Redacted(kind="approval", sha256=DIGEST),
    )
    built = build(entries)
    assert texts(built.request) == ["u"]
    assert built.changes == ()


def test_unknown_entries_are_left_out_and_reported() -> None:
    unknown = Opaque(kind="vote", raw='{"type":"vote"}', origin="steno")
    built = build(log(ChatMessage.user("u"), unknown))
    assert texts(built.request) == ["u"]
    assert codes(built) == [("unknown", "e2")]


def test_content_in_blobs_is_restored() -> None:
    long = "x" * 300_000
    store = MemoryStore()
    conversation = store.new([ChatMessage.user("u"), *turn("c", long)])
    entries = conversation.entries()
    assert isinstance(entries[2].payload.content[0], Resource)  # type: ignore[union-attr]
    built = ContextBuilder().build(entries, ModelTarget(), restore_blobs=conversation.restore_blobs)
    assert built.request.messages[2].text == long
    assert built.request.messages == conversation.messages()


def test_only_messages_with_blobs_are_restored_and_only_once() -> None:
    conversation = MemoryStore().new([ChatMessage.user("u"), *turn("c", "x" * 300_000)])
    brought: list[Payload] = []

    def restore_blobs(payload: Payload) -> Payload:
        brought.append(payload)
        return conversation.restore_blobs(payload)

    builder = ContextBuilder()
    first = builder.build(conversation.entries(), ModelTarget(), restore_blobs=restore_blobs)
    conversation.append(ChatMessage.assistant("a"))
    second = builder.build(conversation.entries(), ModelTarget(), restore_blobs=restore_blobs)
    assert brought == [conversation.entries()[2].message]
    assert second.request.messages == (*first.request.messages, ChatMessage.assistant("a"))


def test_a_failed_restore_leaves_no_partial_state() -> None:
    conversation = MemoryStore().new([ChatMessage.user("u"), *turn("c", "x" * 300_000)])
    builder = ContextBuilder()

    def fail(payload: Payload) -> Payload:
        raise Unavailable("the disk is gone")

    with pytest.raises(Unavailable):
        builder.build(conversation.entries(), ModelTarget(), restore_blobs=fail)
    built = builder.build(
        conversation.entries(), ModelTarget(), restore_blobs=conversation.restore_blobs
    )
    assert built.request.messages == conversation.messages()


# -- repair ----------------------------------------------------------------------------------------


def test_an_interrupted_turn_is_answered_and_reported() -> None:
    call = ChatMessage.assistant(None, [ToolCall(id="c", name="read")])
    built = build(log(ChatMessage.user("u"), call))
    check_whole(built.request)
    assert codes(built) == [("repaired", "e2")]
    assert built.changes[0].reason == "call_unanswered"
    assert built.sources == ("e1", "e2", None)


def test_a_repaired_message_has_its_own_entry_even_if_an_equal_one_exists() -> None:
    same, (call, result) = ChatMessage.user("u"), turn("c")
    entries = log(same, result, same, call, same, call, result)
    assert build(entries).sources == ("e1", "e3", "e4", "e2", "e5", "e6", "e7")


def test_a_turn_that_is_answered_later_needs_no_repair_any_more() -> None:
    builder = ContextBuilder()
    entries = log(ChatMessage.user("u"), *turn("c"))
    assert len(builder.build(entries[:2], ModelTarget()).changes) == 1
    built = builder.build(entries, ModelTarget())
    assert built.changes == ()
    assert built.request.messages == tuple([entry.payload for entry in entries])


def test_a_turn_without_a_word_is_left_out() -> None:
    empty = ChatMessage.assistant(None, stop_reason=StopReason.ABORTED)
    built = build(log(ChatMessage.user("u"), empty, ChatMessage.user("again")))
    assert texts(built.request) == ["u", "again"]
    assert codes(built) == [("repaired", "e2")]


@pytest.mark.parametrize("taken_out", [2, 3])
def test_a_gap_where_something_was_redacted_leaves_a_sound_request(taken_out: int) -> None:
    said: list[Message] = [ChatMessage.user("u"), *turn("c"), ChatMessage.user("and")]
    kind = said[taken_out - 1].__struct_config__.tag
    gone = Redacted(kind=str(kind), sha256=DIGEST)
    entries = log(*said[: taken_out - 1], gone, *said[taken_out:])
    built = build(entries)
    check_whole(built.request)
    assert ("redacted", f"e{taken_out}") in codes(built)
    assert "repaired" in dict(codes(built))


# -- modes -----------------------------------------------------------------------------------------


@pytest.mark.requirement("S2-22")
def test_the_system_message_follows_the_mode() -> None:
    said = (ChatMessage.system("You mend code."), ChatMessage.user("u"))
    plan, act = ModeChange(old=Mode.ACT, new=Mode.PLAN), ModeChange(old=Mode.PLAN, new=Mode.ACT)
    builder = ContextBuilder()
    in_plan = builder.build(log(*said, plan), ModelTarget())
    assert len(in_plan.request.messages) == 2
    prompt = in_plan.request.messages[0].text
    assert prompt is not None
    assert prompt.startswith("You mend code.\n\n")
    assert "plan" in prompt
    assert codes(in_plan) == [("mode", "e3")]
    in_act = builder.build(log(*said, plan, act), ModelTarget())
    assert in_act.request.messages == said
    assert in_act.changes == ()


def test_a_mode_note_is_added_without_a_system_message() -> None:
    builder = ContextBuilder(mode_notes={Mode.PLAN: "Only look."})
    built = builder.build(
        log(ChatMessage.user("u"), ModeChange(old=Mode.ACT, new=Mode.PLAN)), ModelTarget()
    )
    assert built.request.messages == (ChatMessage.system("Only look."), ChatMessage.user("u"))
    assert built.sources == (None, "e1")


# -- summaries -------------------------------------------------------------------------------------


def test_a_summary_replaces_everything_up_to_its_entry_but_the_system_message() -> None:
    said = (ChatMessage.system("s"), ChatMessage.user("old"), ChatMessage.assistant("older"))
    entries = log(
        *said, ChatMessage.user("new"), Compaction(through="e3", summary="They met."), *turn("c")
    )
    built = build(entries)
    first, second, *rest = built.request.messages
    assert (first, rest) == (said[0], [ChatMessage.user("new"), *turn("c")])
    assert isinstance(second, UserMessage)
    assert second.text.endswith("\n\nThey met.")
    assert codes(built) == [("compacted", "e5")]
    assert built.sources == ("e1", "e5", "e4", "e6", "e7")


def test_the_latest_summary_counts() -> None:
    entries = log(
        ChatMessage.user("one"),
        Compaction(through="e1", summary="first"),
        ChatMessage.user("two"),
        Compaction(through="e3", summary="second"),
        ChatMessage.user("three"),
    )
    shown = texts(build(entries).request)
    assert len(shown) == 2
    assert shown[0] is not None
    assert shown[0].endswith("second")
    assert shown[1] == "three"


@pytest.mark.parametrize("through", ["e2", "e3", "e4"])
@pytest.mark.parametrize("is_early", [True, False])
def test_a_summary_never_parts_a_call_from_its_result(through: str, is_early: bool) -> None:
    calls = [ToolCall(id="a", name="read"), ToolCall(id="b", name="read")]
    turn = [ChatMessage.assistant(None, calls), ChatMessage.tool_result("a", "1")]
    summary = Compaction(through=through if not is_early else "e2", summary="short")
    last = ChatMessage.tool_result("b", "2")
    if is_early:
        entries = log(ChatMessage.user("u"), turn[0], summary, turn[1], last)
    else:
        entries = log(ChatMessage.user("u"), *turn, last, summary)
    built = build(entries)
    check_whole(built.request)
    kept = [] if through == "e4" and not is_early else [*turn, last]
    assert list(built.request.messages[1:]) == kept
    assert [code for code, _ in codes(built)] == ["compacted"]


def test_a_summary_through_an_unknown_entry_changes_nothing() -> None:
    built = build(log(ChatMessage.user("u"), Compaction(through="elsewhere", summary="s")))
    assert texts(built.request) == ["u"]
    assert codes(built) == [("ignored", "e2")]


def test_changes_that_a_summary_covers_are_not_reported() -> None:
    entries = log(only_user_message(PNG), Compaction(through="e1", summary="s"))
    assert codes(build(entries, ModelTarget(vision=False))) == [("compacted", "e2")]


def test_a_repaired_beginning_is_covered_by_a_summary() -> None:
    orphan = ChatMessage.tool_result("gone", "x")
    entries = log(
        ChatMessage.user("u"), orphan, Compaction(through="e2", summary="s"), ChatMessage.user("v")
    )
    built = build(entries)
    assert texts(built.request)[1:] == ["v"]
    assert codes(built) == [("compacted", "e3")]


# -- again and again -------------------------------------------------------------------------------


def test_built_messages_are_the_same_objects_in_the_next_request() -> None:
    builder = ContextBuilder()
    said = (ChatMessage.system("s"), ChatMessage.user("u"))
    entries = log(*said, ModeChange(old=Mode.ACT, new=Mode.PLAN), *turn("c"))
    first = builder.build(entries[:3], ModelTarget()).request.messages
    later = builder.build(entries, ModelTarget()).request.messages
    assert [id(message) for message in later[:2]] == [id(message) for message in first]


def test_repaired_messages_are_the_same_objects_in_the_next_request() -> None:
    builder = ContextBuilder()
    call = turn("a")[0]
    entries = log(call, ChatMessage.user("u"), *turn("b"), ChatMessage.user("v"))
    first = builder.build(entries[:2], ModelTarget())
    later = builder.build(entries, ModelTarget())
    assert first.changes == later.changes
    assert later.request.messages[1] is first.request.messages[1]
    assert later == build(entries)


def test_another_branch_is_read_anew() -> None:
    conversation = Conversation([ChatMessage.user("one"), ChatMessage.assistant("two")])
    start = conversation.entries()[0]
    builder = ContextBuilder()
    builder.build(conversation.entries(), ModelTarget())
    conversation.rewind(start)
    conversation.append(ChatMessage.assistant("three"))
    conversation.append(ChatMessage.user("four"))
    built = builder.build(conversation.entries(), ModelTarget())
    assert texts(built.request) == ["one", "three", "four"]


def test_another_model_is_built_for_anew() -> None:
    builder = ContextBuilder()
    entries = log(only_user_message(PNG))
    assert builder.build(entries, ModelTarget(vision=False)).changes != ()
    assert builder.build(entries, ModelTarget(vision=True)).changes == ()


def test_entries_are_read_once() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    builder = ContextBuilder(count_tokens=count)
    entries = log(ChatMessage.user("one"), ChatMessage.assistant("two"), ChatMessage.user("three"))
    for end in (1, 2, 3, 3):
        builder.build(entries[:end], ModelTarget())
    assert counted == ["one", "two", "three"]


def test_a_change_never_contains_content() -> None:
    secret = "hunter2"
    entries = log(
        SystemMessage((Text(secret),)),
        only_user_message(Text(secret), FileReference(path=secret), PNG),
        Feedback(target="e2", text=secret),
        Compaction(through="e1", summary=secret),
    )
    built = build(entries, ModelTarget(vision=False))
    assert len(built.changes) > 3
    assert secret not in repr(built.changes) + "".join(map(str, built.changes))
