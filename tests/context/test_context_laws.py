"""Laws of the context builder for any log, any model and any budget."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from steno.codec import encode_entry
from steno.context import (
    BuiltRequest,
    ChangeCode,
    ContextBuilder,
    ModelTarget,
    compaction_point,
    estimate_tokens,
)
from steno.context.tokens import message_tokens
from steno.errors import InvalidRequest
from steno.messages.content import Image, ImageData, ImageUrl, Text
from steno.messages.message import Message, ToolResultMessage, UserMessage
from steno.records.entry import (
    Compaction,
    Entry,
    Feedback,
    Mode,
    ModeChange,
    Redacted,
    Resolution,
    ResolutionStatus,
)
from steno.testing import conversations, damaged_conversations, payloads
from tests.context.sample_logs import check_whole, log

_DIGEST = "0" * 64


@st.composite
def beside(draw: DrawFn, length: int) -> Any:
    """Draw entries that are not messages, mostly about entries that exist."""
    target = f"e{draw(st.integers(0, length + 2))}"
    return draw(
        st.one_of(
            st.just(Feedback(target=target, text="Really?")),
            st.just(Compaction(through=target, summary="They talked.")),
            st.just(ModeChange(old=Mode.ACT, new=Mode.PLAN)),
            st.just(ModeChange(old=Mode.PLAN, new=Mode.ACT)),
            st.just(Redacted(kind="assistant", sha256=_DIGEST)),
            st.just(
                Resolution(
                    target=target, block=0, status=ResolutionStatus.RESOLVED, content=(Text(""),)
                )
            ),
            payloads(),
        )
    )


@st.composite
def logs(draw: DrawFn) -> tuple[Entry, ...]:
    """Logs in which anything may have happened."""
    found = draw(damaged_conversations() | conversations(alternating=False))
    mixed: list[Any] = [_lengthened(draw, message) for message in found]
    for _ in range(draw(st.integers(0, 5))):
        mixed.insert(draw(st.integers(0, len(mixed))), draw(beside(len(mixed))))
    return log(*mixed)


def _lengthened(draw: DrawFn, message: Message) -> Message:
    if isinstance(message, ToolResultMessage) and draw(st.booleans()):
        return msgspec.structs.replace(message, content=(Text("word " * 600),))
    return message


targets = st.builds(
    ModelTarget,
    vision=st.none() | st.booleans(),
    context_tokens=st.none() | st.integers(1, 6_000),
    max_tokens=st.none() | st.integers(1, 200),
    max_output_tokens=st.none() | st.integers(1, 200),
    resource_tokens=st.none() | st.integers(0, 100),
)


def check_images(built: BuiltRequest) -> None:
    """Check that the images of a request are those in its user messages, in order."""
    assert [(image.position, image.number, image.entry_id) for image in built.images] == [
        (position, number, built.sources[position])
        for position, message in enumerate(built.request.messages)
        if isinstance(message, UserMessage)
        for number, block in enumerate(message.content)
        if isinstance(block, Image) and isinstance(block.source, (ImageData, ImageUrl))
    ]


def _stored(entries: tuple[Entry, ...]) -> list[bytes]:
    return [encode_entry(entry) for entry in entries]


@given(logs(), targets)
def test_every_log_gives_a_request_that_a_provider_takes(
    entries: tuple[Entry, ...], target: ModelTarget
) -> None:
    before = _stored(entries)
    try:
        built = ContextBuilder().build(entries, target)
    except InvalidRequest:
        assume(False)
    check_whole(built.request)
    assert len(built.sources) == len(built.request.messages)
    assert {source for source in built.sources if source} <= {entry.id for entry in entries}
    check_images(built)
    assert _stored(entries) == before


@given(logs(), targets, st.data())
def test_building_turn_by_turn_comes_to_the_same_unless_room_had_to_be_made(
    entries: tuple[Entry, ...], target: ModelTarget, data: st.DataObject
) -> None:
    builder = ContextBuilder()
    made_room = {ChangeCode.SHORTENED, ChangeCode.LEFT_OUT, ChangeCode.RESOURCE_LEFT_OUT}
    ends = sorted(data.draw(st.sets(st.integers(0, len(entries)), max_size=4)))
    trimmed = False
    for end in [*ends, len(entries)]:
        try:
            built = builder.build(entries[:end], target)
        except InvalidRequest:
            continue
        check_whole(built.request)
        sizes = [message_tokens(message, estimate_tokens) for message in built.request.messages]
        assert built.tokens == sum(sizes)
        assert len(built.sources) == len(sizes)
        check_images(built)
        trimmed = trimmed or not made_room.isdisjoint(change.code for change in built.changes)
        if not trimmed:
            assert built == ContextBuilder().build(entries[:end], target)


@given(conversations(alternating=False), st.data())
def test_a_request_begins_with_the_one_before_it(
    messages: tuple[Message, ...], data: st.DataObject
) -> None:
    mixed: list[Any] = [*messages]
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(mixed)))
        mixed.insert(place, Feedback(target=f"e{place}", text="Really?"))
    entries = log(*mixed)
    builder = ContextBuilder()
    before: tuple[Message, ...] = ()
    for end in range(1, len(entries) + 1):
        built = builder.build(entries[:end], ModelTarget())
        if any(change.code is ChangeCode.REPAIRED for change in built.changes):
            continue  # a call that still waits for its result is answered for now
        assert built.request.messages[: len(before)] == before
        before = built.request.messages


@given(conversations(alternating=False), st.integers(1, 4))
def test_a_summary_through_the_compaction_point_separates_no_call_from_its_result(
    messages: tuple[Message, ...], keep: int
) -> None:
    entries = log(*messages)
    through = compaction_point(entries, kept_groups=keep)
    assume(through is not None)
    assert through is not None
    summary = log(Compaction(through=through, summary="s"), start=len(entries) + 1)
    built = ContextBuilder().build((*entries, *summary), ModelTarget())
    check_whole(built.request)
    assert ChangeCode.REPAIRED not in {change.code for change in built.changes}
    kept = messages[int(through[1:]) :]
    assert built.request.messages[-len(kept) :] == kept


@given(logs(), st.integers(1, 4))
def test_the_compaction_point_is_on_the_branch(entries: tuple[Entry, ...], keep: int) -> None:
    through = compaction_point(entries, kept_groups=keep)
    assert through is None or through in {entry.id for entry in entries if entry.message}
