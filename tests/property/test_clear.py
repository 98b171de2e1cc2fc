"""After a clear, a conversation is one that begins with the same system messages."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from steno import ChatMessage, Conversation, Message, OutOfOrder, SystemMessage
from steno.app.usage_totals import UsageTotals
from steno.context import (
    BuiltRequest,
    ChangeCode,
    ContextBuilder,
    ModelTarget,
    compaction_point,
    estimate_tokens,
    message_tokens,
)
from steno.errors import InvalidRequest
from steno.log.chain import redact_entry
from steno.log.tree import BranchPath
from steno.records import (
    Clear,
    Compaction,
    Entry,
    Feedback,
    Mode,
    ModeChange,
    Payload,
    Redacted,
    Redaction,
    ShellCommand,
)
from steno.testing import conversations
from tests.context.sample_logs import log
from tests.context.test_context_laws import logs, targets
from tests.log.journals import Journal

pytestmark = pytest.mark.requirement("S3-05")
CLEAR = "clear"
SENT_KINDS = {"user", "shell_command", "assistant", "tool_result", "feedback"}


@st.composite
def short_logs(draw: st.DrawFn) -> tuple[Entry, ...]:
    """Logs with many system messages, before and after an entry of each kind."""
    others: list[Payload] = [
        ChatMessage.user("A question."),
        ChatMessage.assistant("An answer."),
        ShellCommand(command="ls", output="a.py"),
        Feedback(target="e1", text="Good."),
        Compaction(through="e1", summary="They spoke."),
        ModeChange(old=Mode.ACT, new=Mode.PLAN),
    ]
    systems = [ChatMessage.system(text) for text in ("One.", "Two.", "Three.")]
    return log(
        *draw(st.lists(st.sampled_from(systems) | st.sampled_from(others), min_size=2, max_size=6))
    )


def is_mode_change(entry: Entry) -> bool:
    return isinstance(entry.payload, ModeChange)


def leading(entries: tuple[Entry, ...]) -> list[Entry]:
    """Return the entries of the system messages with which the context of a branch begins.

    Feedback is sent as a message, and a redacted message was one.
    """
    sent = [
        entry
        for entry in entries
        if isinstance(entry.payload, Feedback)
        or (isinstance(entry.payload, Redacted) and entry.payload.kind in SENT_KINDS)
        or entry.message is not None
    ]
    return list(takewhile(lambda entry: isinstance(entry.message, SystemMessage), sent))


def redacted(entry: Entry) -> Entry:
    """Return the entry without its content, if it can be redacted."""
    is_kept = isinstance(entry.payload, Redacted | Redaction) or not entry.is_understood
    return entry if is_kept else redact_entry(entry)


def in_a_row(entries: list[Entry]) -> tuple[Entry, ...]:
    """Return the entries, each with the one before as its parent."""
    parents = [None, *[entry.id for entry in entries]]
    return tuple(
        [replace(entry, parent=parent) for entry, parent in zip(entries, parents, strict=False)]
    )


def built(
    builder: ContextBuilder, entries: tuple[Entry, ...], target: ModelTarget
) -> BuiltRequest | None:
    """Build a request, without the change that reports the clear; None if there is no message."""
    try:
        found = builder.build(entries, target)
    except InvalidRequest:
        return None
    changes = tuple(change for change in found.changes if change.code is not ChangeCode.CLEARED)
    return found._replace(changes=changes)


@given(short_logs() | logs(), logs(), targets, st.data())
def test_the_context_after_a_clear_is_that_of_a_new_conversation(
    before: tuple[Entry, ...], after: tuple[Entry, ...], target: ModelTarget, data: st.DataObject
) -> None:
    # No later entry names a change of the mode, because only the mode itself stays.
    before = tuple(
        [
            replace(entry, id=f"mode-{entry.id}") if is_mode_change(entry) else entry
            for entry in before
            if not entry.clears_context
        ]
    )
    later = [replace(entry, id=f"later-{entry.id}") for entry in after]
    begun = leading(before)
    gone = {entry.id for entry in before if data.draw(st.booleans())}
    before = tuple([redacted(entry) if entry.id in gone else entry for entry in before])
    first_entries = [entry for entry in begun if entry.id not in gone]
    modes = list(filter(is_mode_change, before))[-1:]
    cleared = in_a_row([*before, Entry(id=CLEAR, payload=Clear()), *later])
    fresh = in_a_row([*first_entries, *modes, *later])
    assert compaction_point(cleared) == compaction_point(fresh)
    first = len(cleared) - len(later)
    ends = sorted(data.draw(st.sets(st.integers(0, len(later)), max_size=3)))
    builder, other = ContextBuilder(), ContextBuilder()
    built(builder, cleared[: data.draw(st.integers(0, len(before)))], target)
    for end in [*ends, len(later)]:
        found = built(builder, cleared[: first + end], target)
        assert found == built(other, fresh[: len(fresh) - len(later) + end], target)
    path, new = BranchPath(None), BranchPath(None)
    for entry in cleared:
        path.add(entry)
    for entry in fresh:
        new.add(entry)
    assert path.messages == new.messages
    totals = UsageTotals(lambda _: None)
    totals.rebuild(cleared[:first])
    sizes = [message_tokens(message, estimate_tokens) for message in new.messages]
    assert totals.context_tokens == sum(sizes[: len(first_entries)])


def answers(conversation: Conversation, messages: tuple[Message, ...]) -> list[Any]:
    """Append messages; return for each the outstanding calls after it, or the refusal."""
    found: list[Any] = []
    for message in messages:
        try:
            conversation.append(message)
        except OutOfOrder as exc:
            found.append(exc.code)
        found.append(conversation.outstanding)
    return found


@given(conversations(alternating=False), st.integers(0, 20), conversations(alternating=False))
@pytest.mark.parametrize("is_stored", [False, True])
def test_the_order_after_a_clear_is_that_of_a_new_conversation(
    is_stored: bool, before: tuple[Message, ...], end: int, after: tuple[Message, ...]
) -> None:
    journal = Journal() if is_stored else None
    conversation = Conversation(before[:end], journal=journal)
    past = conversation.entries()
    conversation.clear()
    systems = takewhile(lambda message: isinstance(message, SystemMessage), before[:end])
    fresh = Conversation(systems)
    more = (*after, *before[end:])  # results for calls that were cleared are refused
    assert answers(conversation, more) == answers(fresh, more)
    assert conversation.messages() == fresh.messages()
    assert conversation.entries()[: len(past)] == past
    if journal is not None:
        again = journal.open()
        assert (again.messages(), again.outstanding) == (fresh.messages(), fresh.outstanding)
    if past:
        conversation.rewind(past[-1])
        assert conversation.messages() == before[:end]


@given(conversations(alternating=False), conversations(alternating=False))
def test_a_second_clear_leaves_what_the_first_one_left(
    before: tuple[Message, ...], after: tuple[Message, ...]
) -> None:
    conversation = Conversation([*before])
    conversation.clear()
    once = conversation.messages()
    for message in (ChatMessage.user("again"), *after):
        conversation.append(message)
    conversation.clear()
    assert conversation.messages() == (once or ())
