"""Let a model sum up what was said so far, so that a long conversation can go on.

What is too long to be read at once is summed up piece by piece: each piece with the summary of
those before it. No call is parted from its results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from msgspec.structs import replace

from steno.agent.events import Notice, NoticeCode
from steno.agent.recorder import RunRecorder
from steno.agent.run_config import RunConfig
from steno.context import (
    KEPT_GROUPS,
    ContextBuilder,
    CountTokens,
    ModelTarget,
    compaction_point,
    message_tokens,
    shorten_result,
    summary_message,
)
from steno.errors import InvalidRequest, ProtocolError, ProviderError
from steno.messages.message import ChatMessage, Message, SystemMessage, ToolResultMessage
from steno.messages.request import Request
from steno.messages.usage import Usage
from steno.ports import Provider
from steno.records.entry import Compaction, Entry

_SUMMARY_PROMPT: Final = """\
The conversation has become too long to be read as a whole. Write a summary that replaces it: \
whoever goes on will see nothing else of it. Say what the person wants, in their words where \
these matter; what was decided and why; which files, commands and names matter and in what state \
they are; what was tried and failed; and what is to be done next. If a summary of what came \
before stands above, take over all of it that still matters. Do not call tools. Do not address \
anybody."""
_GROUPS_KEPT_ON_REQUEST: Final = 1
"""How many groups stay as they are where somebody asks for a summary."""
_MAX_SUMMARY_SHARE: Final = 0.25
"""How much of the room a summary of earlier pieces may take, with the task."""


async def compact(
    setup: RunConfig,
    notebook: RunRecorder,
    target: ModelTarget,
    *,
    room: int | None,
    keep: int = KEPT_GROUPS,
) -> Entry | None:
    """Record a summary in place of what is oldest; return its entry, None if there is none.

    `room` is how many tokens of what was said the model reads at once; the last groups of
    messages stay as they are, as many as `keep` says.
    """
    through = compaction_point(notebook.conversation.entries_view(), keep=keep)
    old = None if through is None else _build_request_through(through, setup, notebook, target)
    if through is None or old is None:
        return None
    try:
        with setup.telemetry.turn(old, setup.model) as span:
            summary, usage = await summarise(
                setup.provider, old, room=room, count=setup.count_tokens
            )
            span.record_result(ChatMessage.assistant(summary, usage=usage))
    except (ProviderError, ProtocolError, InvalidRequest) as exc:
        notebook.emit(
            Notice(NoticeCode.CONTEXT, f"no summary could be made: {exc}", "summary_failed")
        )
        return None
    payload = Compaction(through=through, summary=summary, usage=usage)
    return notebook.record(payload, audit={"model": setup.model} if setup.model else None)


async def compact_now(setup: RunConfig, notebook: RunRecorder) -> Entry | None:
    """Record a summary in place of all but what was said last, however much room there is."""
    conversation = notebook.conversation
    if compaction_point(conversation.entries_view(), keep=_GROUPS_KEPT_ON_REQUEST) is None:
        return None
    notebook.record_model(setup.model)
    built = setup.context_builder.build(
        conversation.entries_view(),
        setup.target,
        setup.dispatcher.offered_definitions(conversation.mode),
        restore_blobs=conversation.restore_blobs,
    )
    return await compact(
        setup, notebook, setup.target, room=built.room, keep=_GROUPS_KEPT_ON_REQUEST
    )


def _build_request_through(
    through: str, setup: RunConfig, notebook: RunRecorder, target: ModelTarget
) -> Request | None:
    """Return everything that the model would see up to an entry, had it all the room.

    The last summary is part of it, wherever in the log that stands. None if there is nothing
    else: to sum up a summary helps nobody.
    """
    conversation = notebook.conversation
    entries = conversation.entries_view()
    whole = ContextBuilder(count=setup.count_tokens).build(
        entries,
        replace(target, context_tokens=None),
        setup.dispatcher.offered_definitions(conversation.mode),
        restore_blobs=conversation.restore_blobs,
    )
    past = next(number for number, entry in enumerate(entries) if entry.id == through) + 1
    covered = {e.id for e in entries[:past] if not isinstance(e.message, SystemMessage)}
    last = max((n for n, source in enumerate(whole.sources) if source in covered), default=-1)
    if last < 0:
        return None
    return replace(whole.request, messages=whole.request.messages[: last + 1])


# -- the summary -----------------------------------------------------------------------------


async def summarise(
    provider: Provider, request: Request, *, room: int | None, count: CountTokens
) -> tuple[str, Usage]:
    """Ask for a summary of what a request holds; return it and what it took.

    `room` is how many tokens of messages the model reads at once; None if that is not known.
    Raises ProviderError and ProtocolError, also where the model says nothing.
    """
    lead = tuple(takewhile(lambda message: isinstance(message, SystemMessage), request.messages))
    summary, usage = "", Usage()
    for piece in _split_to_fit(request.messages[len(lead) :], room, count):
        before = (summary_message(summary),) if summary else ()
        asked = replace(
            request,
            messages=(*lead, *before, *piece, ChatMessage.user(_SUMMARY_PROMPT)),
            tool_choice="none" if request.tools else None,
        )
        async with provider.stream(asked) as stream:
            message = await stream.collect()
        summary, usage = (message.text or "").strip(), usage + (message.usage or Usage())
        if not summary:
            raise ProtocolError("summary: the model said nothing")
    return summary, usage


def _split_to_fit(
    messages: Sequence[Message], room: int | None, count: CountTokens
) -> Iterator[list[Message]]:
    """Yield messages in pieces that fit; what is too large by itself is shortened."""
    if room is None:
        yield list(messages)
        return
    room -= int(room * _MAX_SUMMARY_SHARE)
    piece: list[Message] = []
    taken = 0
    for whole in _group_with_results(messages):
        group, tokens = whole, _count_tokens(whole, count)
        if tokens > room:
            group = [shorten_result(m) if isinstance(m, ToolResultMessage) else m for m in whole]
            tokens = _count_tokens(group, count)
        if piece and taken + tokens > room:
            yield piece
            piece, taken = [], 0
        piece += group
        taken += tokens
    if piece:
        yield piece


def _count_tokens(messages: Sequence[Message], count: CountTokens) -> int:
    return sum(message_tokens(message, count) for message in messages)


def _group_with_results(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield each message with the results that answer its calls."""
    group: list[Message] = []
    for message in messages:
        if group and not isinstance(message, ToolResultMessage):
            yield group
            group = []
        group.append(message)
    if group:
        yield group
