"""Replace the oldest messages of a conversation with a summary that the model writes.

A conversation that does not fit into one request is summarized in pieces: each request contains one
piece and the summary of the pieces before it. A call and its results are in the same piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from msgspec.structs import replace

from steno.agent.events import Notice, NoticeKind
from steno.agent.recorder import RunRecorder
from steno.agent.run_config import RunConfig
from steno.context import (
    RECENT_GROUPS,
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
The conversation has become too long for one request. Write a summary that replaces it: the model \
that continues the work sees only your summary. Include what the user wants, quoting the user \
where the exact wording matters; what was decided and why; which files, commands and names matter, \
and their current state; what was tried and failed; and what has to be done next. If an earlier \
summary precedes these messages, include everything in it that still matters. Do not call tools. \
Write only the summary, and do not address anyone."""
_GROUPS_KEPT_ON_REQUEST: Final = 1
"""The number of latest message groups that a summary requested by the user does not replace."""
_MAX_SUMMARY_SHARE: Final = 0.25
"""The fraction of the token budget reserved for the summary of earlier pieces and the prompt."""


async def compact(
    config: RunConfig,
    recorder: RunRecorder,
    target: ModelTarget,
    *,
    budget_tokens: int | None,
    kept_groups: int = RECENT_GROUPS,
) -> Entry | None:
    """Record a summary of the oldest messages and return its entry.

    Return None if there is nothing to summarize or the summary fails. `budget_tokens` is the number
    of message tokens that fit into one request; the last `kept_groups` groups of messages are not
    summarized.
    """
    through = compaction_point(recorder.conversation.entries_view(), kept_groups=kept_groups)
    old = None if through is None else _build_request_through(through, config, recorder, target)
    if through is None or old is None:
        return None
    try:
        with config.telemetry.turn(old, config.model) as span:
            summary, usage = await summarize(
                config.provider, old, budget_tokens=budget_tokens, count_tokens=config.count_tokens
            )
            span.record_result(ChatMessage.assistant(summary, usage=usage))
    except (ProviderError, ProtocolError, InvalidRequest) as exc:
        text = f"the conversation could not be summarized: {exc}"
        recorder.emit(Notice(NoticeKind.CONTEXT, text, "summary_failed"))
        return None
    payload = Compaction(through=through, summary=summary, usage=usage)
    return recorder.record(payload, audit={"model": config.model} if config.model else None)


async def compact_now(config: RunConfig, recorder: RunRecorder) -> Entry | None:
    """Record a summary of all but the last messages, even if all messages fit into one request.

    Return the entry of the summary; None if there is nothing to summarize or the summary fails.
    """
    conversation, kept_groups = recorder.conversation, _GROUPS_KEPT_ON_REQUEST
    if compaction_point(conversation.entries_view(), kept_groups=kept_groups) is None:
        return None
    recorder.record_model(config.model)
    budget_tokens = config.build_request(conversation, config.target).budget_tokens
    return await compact(
        config, recorder, config.target, budget_tokens=budget_tokens, kept_groups=kept_groups
    )


def _build_request_through(
    through: str, config: RunConfig, recorder: RunRecorder, target: ModelTarget
) -> Request | None:
    """Build the request with the messages up to an entry, for an unlimited context window.

    The request begins with the last summary, even if that was recorded after the entry. Return None
    if the request would contain no other messages, because a summary of a summary is useless.
    """
    conversation = recorder.conversation
    entries = conversation.entries_view()
    builder = ContextBuilder(count_tokens=config.count_tokens)
    unlimited = config.build_request(conversation, replace(target, context_tokens=None), builder)
    end = next(number for number, entry in enumerate(entries) if entry.id == through) + 1
    covered = {e.id for e in entries[:end] if not isinstance(e.message, SystemMessage)}
    last = max((n for n, source in enumerate(unlimited.sources) if source in covered), default=-1)
    if last < 0:
        return None
    return replace(unlimited.request, messages=unlimited.request.messages[: last + 1])


# -- the summary --------------------------------------------------------------------------------


async def summarize(
    provider: Provider, request: Request, *, budget_tokens: int | None, count_tokens: CountTokens
) -> tuple[str, Usage]:
    """Ask the provider to summarize the messages of a request; return the summary and its usage.

    `budget_tokens` is the number of message tokens that fit into one request; None if unknown.
    Raises InvalidRequest if a request cannot be sent, ProviderError if it fails, and ProtocolError
    if a response is invalid or empty.
    """
    systems = tuple(takewhile(lambda m: isinstance(m, SystemMessage), request.messages))
    summary, usage = "", Usage()
    for chunk in _split_to_fit(request.messages[len(systems) :], budget_tokens, count_tokens):
        before = (summary_message(summary),) if summary else ()
        chunk_request = replace(
            request,
            messages=(*systems, *before, *chunk, ChatMessage.user(_SUMMARY_PROMPT)),
            tool_choice="none" if request.tools else None,
        )
        async with provider.stream(chunk_request) as stream:
            message = await stream.collect()
        summary, usage = (message.text or "").strip(), usage + (message.usage or Usage())
        if not summary:
            raise ProtocolError("the model returned no text", place="summary", code="empty_summary")
    return summary, usage


def _split_to_fit(
    messages: Sequence[Message], budget_tokens: int | None, count_tokens: CountTokens
) -> Iterator[list[Message]]:
    """Yield the messages in pieces that fit the budget; one piece if `budget_tokens` is None.

    Tool results are shortened in a group that is larger than the budget. If the group still does
    not fit, it is yielded as a piece of its own.
    """
    if budget_tokens is None:
        yield list(messages)
        return
    budget_tokens -= int(budget_tokens * _MAX_SUMMARY_SHARE)
    chunk: list[Message] = []
    used_tokens = 0
    for original in _group_with_results(messages):
        group, tokens = original, _sum_tokens(original, count_tokens)
        if tokens > budget_tokens:
            group = [shorten_result(m) if isinstance(m, ToolResultMessage) else m for m in original]
            tokens = _sum_tokens(group, count_tokens)
        if chunk and used_tokens + tokens > budget_tokens:
            yield chunk
            chunk, used_tokens = [], 0
        chunk += group
        used_tokens += tokens
    if chunk:
        yield chunk


def _sum_tokens(messages: Sequence[Message], count_tokens: CountTokens) -> int:
    return sum(message_tokens(message, count_tokens) for message in messages)


def _group_with_results(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield groups of messages: each message together with the results of its calls."""
    group: list[Message] = []
    for message in messages:
        if group and not isinstance(message, ToolResultMessage):
            yield group
            group = []
        group.append(message)
    if group:
        yield group
