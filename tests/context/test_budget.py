"""How a conversation is made to fit into the room that a model has."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from msgspec.structs import replace

from steno import ChatMessage, ToolCall
from steno.context import BuiltRequest, ChangeCode, ContextBuilder, ModelTarget, compaction_point
from steno.context.notes import explain_over_budget
from steno.errors import InvalidValue
from steno.messages.change import Change
from steno.messages.content import Image, ImageData, Resource, Text
from steno.messages.message import ToolResultMessage
from steno.messages.tool import ToolDefinition
from steno.records.entry import Compaction, Entry, Label
from tests.context.sample_logs import check_whole, log, texts, turn


def room(tokens: int) -> ModelTarget:
    """Return a model with so many tokens to read, and one to answer."""
    return ModelTarget(context_tokens=tokens + 1, max_tokens=1)


def build(entries: tuple[Entry, ...], tokens: int) -> BuiltRequest:
    return ContextBuilder(count_tokens=len).build(entries, room(tokens))


def long_log(turns: int, size: int = 3_000) -> tuple[Entry, ...]:
    """Return a log with one question and many calls with long results."""
    said = [ChatMessage.system("s"), ChatMessage.user("u")]
    return log(*said, *[part for n in range(turns) for part in turn(f"c{n}", f"{n:04}" * size)])


def test_content_that_fits_is_unchanged() -> None:
    entries = long_log(8)
    whole = build(entries, 10**9)
    assert whole.changes == ()
    assert (
        build(entries, whole.tokens).request
        == ContextBuilder().build(entries, ModelTarget(max_tokens=1)).request
    )


def test_the_estimate_of_a_request_counts_messages_tools_and_the_system_prompt() -> None:
    builder = ContextBuilder(count_tokens=len)
    entries = log(ChatMessage.system("four"), ChatMessage.user("five5"))
    bare = builder.build(entries, ModelTarget()).tokens
    assert bare == len("four") + len("five5") + 2 * 4
    tool = ToolDefinition(name="read", description="Read.", parameters={"type": "object"})
    with_tool = builder.build(entries, ModelTarget(), [tool]).tokens
    schema = json.dumps(dict(tool.parameters), separators=(",", ":"), default=dict)
    assert with_tool == bare + 8 + len("read") + len("Read.") + len(schema)


def test_the_oldest_results_are_shortened_first_and_the_last_are_left_whole() -> None:
    entries = long_log(8)
    whole = build(entries, 10**9).tokens
    built = build(entries, whole - 1)
    check_whole(built.request)
    results = [m for m in built.request.messages if isinstance(m, ToolResultMessage)]
    sizes = [len(result.text) for result in results]
    cut = sum(1 for size in sizes if size < 12_000)
    assert 0 < cut <= 4
    assert sizes[cut:] == [12_000] * (8 - cut)
    assert results[0].text.startswith("0000" * 200)
    assert results[0].text.endswith("0000" * 100)
    assert "[… 10,800 characters left out to save room …]" in results[0].text
    assert [change.entry for change in built.changes] == [f"e{4 + 2 * n}" for n in range(cut)]
    assert {change.code for change in built.changes} == {ChangeCode.SHORTENED}
    assert built.tokens <= 0.8 * whole
    assert not built.wants_compaction


def test_shortened_results_stay_short_and_leave_room_for_later_turns() -> None:
    entries = long_log(60, size=400)
    builder = ContextBuilder(count_tokens=len)
    requests = [
        builder.build(entries[:end], room(30_000)).request.messages
        for end in range(2, len(entries) + 1, 2)
    ]
    changed = sum(1 for one, next in pairwise(requests) if next[: len(one)] != one)
    assert requests[-1] != ContextBuilder().build(entries, ModelTarget()).request.messages
    assert 0 < changed < 20


def test_images_and_long_resources_in_old_results_are_left_out_too() -> None:
    image = Image(source=ImageData(b"png"), mime_type="image/png")
    blocks: list[Image | Resource | Text] = [
        image,
        Resource(server="s", uri="s://a", text="x" * 5_000),
        Resource(server="s", uri="s://b", data=b"x" * 5_000),
        Text("short"),
    ]
    result = ChatMessage.tool_result("c", blocks)
    after = [ChatMessage.assistant(f"{n}") for n in range(4)]
    built = build(log(turn("c")[0], result, *after), 1_800)
    first, second, third, last = built.request.messages[1].content
    assert first == Text("[image left out to save room]")
    assert isinstance(second, Resource)
    assert len(second.text or "") < 1_500
    assert isinstance(third, Resource)
    assert third.data is None
    assert last == Text("short")


def test_the_oldest_groups_are_left_out_where_shortening_is_not_enough() -> None:
    said = [ChatMessage.user(f"{n} " + "x" * 998) for n in range(20)]
    entries = log(ChatMessage.system("s"), *said)
    builder = ContextBuilder(count_tokens=len)
    built = builder.build(entries, room(10_500))
    assert built.wants_compaction
    assert not built.is_over_budget
    shown = texts(built.request)
    assert shown[0] == "s"
    assert shown[1] == "[12 messages left out here: the conversation became too long]"
    assert shown[2:] == [message.text for message in said[12:]]
    assert [(change.code, change.entry) for change in built.changes] == [
        (ChangeCode.LEFT_OUT, "e13")
    ]
    more = log(ChatMessage.assistant("a"), start=22)
    later = builder.build((*entries, *more), room(10_500))
    assert later.request.messages[: len(shown)] == built.request.messages


def test_no_call_is_left_without_its_result_whatever_is_left_out() -> None:
    calls = [ToolCall(id=f"c{n}", name="read") for n in range(3)]
    results = [ChatMessage.tool_result(call.id, "y" * 1_000) for call in calls]
    entries = log(
        *[part for _ in range(6) for part in (ChatMessage.assistant(None, calls), *results)]
    )
    for tokens in range(3_200, 19_000, 500):
        built = build(entries, tokens)
        check_whole(built.request)
        assert built.tokens <= tokens
        assert not built.is_over_budget


def test_a_last_group_that_does_not_fit_is_kept_and_reported_as_over_budget() -> None:
    entries = log(ChatMessage.user("x" * 50), ChatMessage.user("y" * 500))
    built = build(entries, 100)
    assert texts(built.request) == ["x" * 50, "y" * 500]
    assert built.wants_compaction
    assert built.is_over_budget


def test_room_is_kept_for_the_answer() -> None:
    entries = log(*[ChatMessage.user("x" * 96) for _ in range(80)])
    builder = ContextBuilder(count_tokens=len)
    assert builder.build(entries, ModelTarget(context_tokens=10_700)).changes == ()
    assert builder.build(entries, ModelTarget(context_tokens=10_600)).changes != ()
    assert builder.build(entries, ModelTarget(context_tokens=10_600, max_tokens=100)).changes == ()


def test_the_reserve_is_at_most_the_longest_response_of_the_model() -> None:
    entries = log(ChatMessage.user("x"))
    rooms = {
        (asked, most): ContextBuilder().build(
            entries,
            ModelTarget(context_tokens=10_000, max_tokens=asked, max_output_tokens=most),
        )
        for asked in (None, 50, 5_000)
        for most in (None, 100, 20_000)
    }
    whole = (
        ContextBuilder()
        .build(entries, ModelTarget(context_tokens=10_000, max_tokens=1))
        .budget_tokens
    )
    assert whole is not None
    assert {key: whole + 1 - (built.budget_tokens or 0) for key, built in rooms.items()} == {
        (None, None): 2_500,
        (None, 100): 100,
        (None, 20_000): 2_500,
        (50, None): 50,
        (50, 100): 50,
        (50, 20_000): 50,
        (5_000, None): 5_000,
        (5_000, 100): 100,
        (5_000, 20_000): 5_000,
    }
    # What is asked for fits into that room; who names no limit goes on naming none.
    assert [built.request.max_tokens for built in rooms.values()] == [
        *(None, None, None),
        *(50, 50, 50),
        *(5_000, 100, 5_000),
    ]


def test_a_large_max_tokens_leaves_room_for_the_request() -> None:
    entries = log(*[ChatMessage.user("x" * 96) for _ in range(40)])
    for asked in (5_000, 9_999, 10_000, 50_000):
        target = ModelTarget(context_tokens=10_000, max_tokens=asked)
        built = ContextBuilder(count_tokens=len).build(entries, target)
        assert (built.changes, built.is_over_budget, built.request.max_tokens) == ((), False, asked)


def test_omitted_messages_return_if_the_model_needs_a_smaller_reserve() -> None:
    entries = log(*[ChatMessage.user("x" * 96) for _ in range(80)])
    builder, target = ContextBuilder(count_tokens=len), ModelTarget(context_tokens=10_600)
    assert builder.build(entries, target).changes != ()
    assert builder.build(entries, replace(target, max_output_tokens=100)).changes == ()


def test_a_summary_replaces_the_omitted_messages() -> None:
    said = [ChatMessage.user(f"{n} " + "x" * 998) for n in range(20)]
    builder = ContextBuilder(count_tokens=len)
    entries = log(*said)
    assert builder.build(entries, room(10_500)).wants_compaction
    point = compaction_point(entries)
    assert point == "e16"
    entries = (*entries, *log(Compaction(through=point, summary="short"), start=21))
    built = builder.build(entries, room(10_500))
    assert not built.wants_compaction
    assert [change.code for change in built.changes] == [ChangeCode.COMPACTED]
    assert texts(built.request)[1:] == [message.text for message in said[16:]]


def test_a_model_with_more_room_gets_everything_again() -> None:
    entries = long_log(8)
    builder = ContextBuilder(count_tokens=len)
    assert builder.build(entries, room(20_000)).changes != ()
    assert builder.build(entries, room(10**9)).changes == ()


def test_a_broken_log_is_trimmed_as_well() -> None:
    orphan = ChatMessage.tool_result("gone", "x" * 5_000)
    entries = long_log(8)
    broken = (*entries, *log(orphan, *turn("z"), start=len(entries) + 1))
    builder = ContextBuilder(count_tokens=len)
    for end in range(len(entries), len(broken) + 1):
        built = builder.build(broken[:end], room(20_000))
        check_whole(built.request)
        assert built.tokens <= 20_000


# -- how far a summary should reach ----------------------------------------------------------------


def test_a_summary_should_leave_the_last_groups() -> None:
    entries = long_log(6)
    assert compaction_point(entries) == "e6"
    assert compaction_point(entries, kept_groups=1) == "e12"
    assert compaction_point(entries, kept_groups=6) == "e2"
    assert compaction_point(entries, kept_groups=7) is None
    with pytest.raises(InvalidValue):
        compaction_point(entries, kept_groups=0)


def test_summarized_entries_are_not_summarized_again() -> None:
    entries = log(
        *[ChatMessage.user(f"{n}") for n in range(6)], Compaction(through="e2", summary="s")
    )
    assert compaction_point(entries) is None
    assert compaction_point(entries, kept_groups=3) == "e3"
    assert compaction_point(()) is None


def test_a_summary_should_reach_between_no_call_and_its_result() -> None:
    late = log(
        ChatMessage.user("u"),
        *turn("a")[:1],
        ChatMessage.user("v"),
        Label(target="e1", text="x"),
        ChatMessage.user("w"),
        turn("a")[1],
        ChatMessage.user("x"),
    )
    assert compaction_point(late, kept_groups=1) == "e6"
    assert compaction_point(late, kept_groups=2) == "e1"


def test_one_message_that_is_left_out_is_counted_as_one() -> None:
    entries = log(ChatMessage.user("x" * 1_000), ChatMessage.user("y" * 1_000))
    built = build(entries, 1_200)
    assert built.changes == (Change(ChangeCode.LEFT_OUT, "oldest_messages", entry="e1", number=1),)


@pytest.mark.parametrize("earlier", [0, 3])
def test_the_error_names_the_tokens_of_the_last_message(earlier: int) -> None:
    said = [ChatMessage.user("early " * 20) for _ in range(earlier)]
    entries = log(ChatMessage.system("s"), *said, ChatMessage.user("z" * 5_000))
    built = build(entries, 1_000)
    assert built.is_over_budget
    assert built.last_tokens == 5_000 + 4
    assert built.tokens == 5_004 + earlier * (120 + 4) + 5
    text = explain_over_budget(
        built.request.messages[-1], built.last_tokens, model="lab/x", context_tokens=1_001
    )
    assert text == (
        "your prompt with its attachments (about 5,004 tokens) does not fit the context window of "
        "lab/x (1,001 tokens); shorten it, attach less, or choose another model"
    )


def test_results_belong_to_the_last_group_with_their_calls() -> None:
    built = build(log(ChatMessage.user("u"), *turn("c1", "r" * 5_000)), 1_000)
    last = built.request.messages[-1]
    assert built.is_over_budget
    assert 5_000 < built.last_tokens < built.tokens
    assert explain_over_budget(last, built.last_tokens, model="", context_tokens=None).startswith(
        "the last tool output"
    )
