"""The builder: entries of one branch in, a request for one model out, with a report.

What was worked out once is kept, so a turn costs what is new in it; a branch that is another one
is read anew. What the record says is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, NamedTuple, TypeAlias, final

from msgspec.structs import replace

from steno.context.branch_state import BranchState
from steno.context.model_view import ResourceExtent
from steno.context.notes import MODE_NOTES, append_system_note
from steno.context.report import BuiltRequest, ModelTarget
from steno.context.tokens import CountTokens, estimate_tokens, message_tokens, tool_tokens
from steno.context.window import MessageWindow, OmittedRange, spare_tokens
from steno.errors import InvalidRequest
from steno.log.blobs import blob_digests
from steno.log.tree import PrefixView
from steno.messages.change import Change, ChangeCode
from steno.messages.message import (
    ChatMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from steno.messages.order import CallPairing, OrderCode, OrderIssue
from steno.messages.repair import repair
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.records.entry import Entry, Mode, Payload, Resolution
from steno.values import PRECHECKED

# -- mending ---------------------------------------------------------------------------------------
#
# What a repair did to what was said: what to tell of it, and where everything is now.


def repair_change(issue: OrderIssue, ids: Sequence[str]) -> Change:
    """Return the change that reports a repair."""
    return Change(ChangeCode.REPAIRED, issue.code.value, entry=ids[issue.position])


def repaired_sources(said: Sequence[Message], ids: Sequence[str]) -> list[str | None]:
    """Return the entry that each message is from after a repair; None for results that it made up.

    Every turn is followed by one result for each of its calls then.
    """
    result_of = CallPairing(said).result_of
    sources: list[str | None] = []
    for position, message in enumerate(said):
        if isinstance(message, ToolResultMessage):
            continue
        sources.append(ids[position])
        for number in range(len(message.tool_calls)):
            found = result_of.get((position, number))
            sources.append(None if found is None else ids[found])
    return sources


def position_of_turn(messages: Sequence[Message], turns: int) -> int:
    """Return where so many messages are over, with the results that answer them.

    A repair moves results and nothing else: all other messages stay, in their order.
    """
    for position, message in enumerate(messages):
        if not isinstance(message, ToolResultMessage):
            if turns == 0:
                return position
            turns -= 1
    return len(messages)


_RestoreBlobs: TypeAlias = Callable[[Message], Message]


_PLACEHOLDER_MESSAGES: Final = (ChatMessage.user("?"),)


_MAX_RESERVE_TOKENS: Final = 8_192


_RESERVE_DIVISOR: Final = 4
"""Of what a model reads at once, so much is kept free for an answer of unknown length."""


class _RequestSettings(NamedTuple):
    """What a request holds beside messages, checked once."""

    target: ModelTarget
    tools: tuple[ToolDefinition, ...]
    request: Request
    tokens: int
    changes: tuple[Change, ...]


class _RequestHead(NamedTuple):
    """What stands before everything that is said: the system message, a summary."""

    messages: tuple[Message, ...] = ()
    ids: tuple[str | None, ...] = ()
    tokens: int = 0
    changes: tuple[Change, ...] = ()


class _WindowContent(NamedTuple):
    """What is on the line: messages as they were said, or repaired ones."""

    start: int
    """Where those begin that are to be sent."""
    changes: tuple[Change, ...] = ()
    """What had to be repaired."""
    first_kept: int = 0
    """Where they begin among what was said."""
    final_count: int = 0
    """How much of what was said is in it for good; -1 if the next build has to begin anew."""


class _SentMessages(NamedTuple):
    """What was sent last, and where it is from: the next request begins with most of it."""

    head: _RequestHead
    gap: OmittedRange | None
    first: int
    """Where on the line those begin that stand behind the head and the note of the gap."""
    messages: tuple[Message, ...]
    ids: list[str | None]
    """It only grows, unless another list takes its place: who was given it keeps what it held."""


@final
class ContextBuilder:
    """Turns the entries of a conversation into requests. Keep one for each conversation."""

    def __init__(
        self, *, count: CountTokens = estimate_tokens, mode_notes: Mapping[Mode, str] = MODE_NOTES
    ) -> None:
        """Take what counts tokens, and what each mode adds to the system message."""
        self._count = count
        self._mode_notes = mode_notes
        self._settings: _RequestSettings | None = None
        self._reset(ModelTarget())

    def build(
        self,
        entries: Sequence[Entry],
        target: ModelTarget,
        tools: Sequence[ToolDefinition] = (),
        *,
        restore_blobs: _RestoreBlobs | None = None,
    ) -> BuiltRequest:
        """Return the request that lets a model go on behind the last entry.

        `entries` are those of one branch. `restore_blobs` is called for messages of which parts lie
        beside the record, once for each, and returns them with all of their content. Raises
        InvalidRequest if there is nothing to send, or a setting of the target makes no sense.
        """
        self._read(entries, target, restore_blobs)
        settings = self._settings_for(target, tuple(tools))
        head, body = self._head(), self._update_window()
        line, start = self._window, body.start
        line.set_start(start)
        fixed = settings.tokens + head.tokens
        fits, room = True, None
        if target.resource_tokens is not None:
            self._limit_resources(start, target.resource_tokens)
        if target.context_tokens is not None:
            room = target.context_tokens - _answer_reserve(target, target.context_tokens) - fixed
            fits = self._fit(start, room)
        sent = self._lay_out_messages(head, line.first_kept(start))
        if not sent.messages:
            raise InvalidRequest(
                "there is nothing to send; append a message first",
                code="nothing_to_send",
                place="context",
            )
        changes = chain(
            settings.changes,
            head.changes,
            body.changes,
            self._branch.changes(),
            line.changes(start),
        )
        return BuiltRequest(
            request=_with_messages(settings.request, sent.messages),
            changes=tuple(changes),
            tokens=fixed + line.tokens(start),
            sources=PrefixView(sent.ids),
            wants_compaction=line.omitted is not None or not fits,
            is_over_budget=not fits,
            last_tokens=line.last_tokens(start),
            room=room,
        )

    # -- entries -----------------------------------------------------------------------------

    def _reset(self, target: ModelTarget) -> None:
        self._branch = BranchState(vision=target.vision)
        self._window = MessageWindow(self._count)
        self._layout = _layout_key(target)
        self._ends: tuple[Entry, Entry] | None = None
        """The first and the last entry that were read."""
        self._read_so_far = 0
        self._last_repair: _WindowContent | None = None
        self._last_head: tuple[object, _RequestHead] = (None, _RequestHead())
        self._last_sent: _SentMessages | None = None

    def _read(
        self, entries: Sequence[Entry], target: ModelTarget, restore_blobs: _RestoreBlobs | None
    ) -> None:
        """Read what is new; all of it if this is not what was read before with more behind it."""
        if not self._is_continuation(entries, target):
            self._reset(target)
        fold = self._branch
        try:
            for entry in entries[self._read_so_far :]:
                fold.read(
                    entry,
                    None if restore_blobs is None else _restored_payload(entry, restore_blobs),
                )
        except BaseException:
            self._reset(target)  # what was read half-way is not used again
            raise
        self._read_so_far = len(entries)
        self._ends = (entries[0], entries[-1]) if entries else None

    def _is_continuation(self, entries: Sequence[Entry], target: ModelTarget) -> bool:
        """Tell whether entries begin with those that were read.

        An entry names its parent, so what came before the last one is the same if it is.
        """
        if self._layout != _layout_key(target):
            return False
        count, ends = self._read_so_far, self._ends
        if ends is None:
            return True
        return len(entries) >= count and entries[0] is ends[0] and entries[count - 1] is ends[1]

    # -- messages ----------------------------------------------------------------------------

    def _update_window(self) -> _WindowContent:
        """Bring what was read onto the line, repaired where that is needed."""
        fold, line, last = self._branch, self._window, self._last_repair
        if not fold.needs_repair:
            start = fold.changed_from if last is None else 0
            line.replace_from(start, fold.messages[start:], fold.ids[start:])
            self._last_repair, body = None, _WindowContent(fold.first_kept)
        elif (
            last is not None
            and last.first_kept == fold.first_kept
            and fold.is_ordered_from(last.final_count)
        ):
            # Nothing that is in order changes what a repair made of what came before it.
            line.replace_from(
                len(line.messages), fold.messages[last.final_count :], fold.ids[last.final_count :]
            )
            self._last_repair = body = last._replace(final_count=len(fold.messages))
        else:
            self._last_repair = body = self._repair()
        fold.clear_changed()
        return body

    def _repair(self) -> _WindowContent:
        """Bring everything onto the line anew, as a provider would accept it."""
        fold = self._branch
        said, ids = fold.messages_with_pending()
        repaired, issues = repair(said)
        self._window.replace_from(0, repaired, repaired_sources(said, ids))
        turns = sum(
            1 for message in said[: fold.first_kept] if not isinstance(message, ToolResultMessage)
        )
        changes = [
            repair_change(issue, ids) for issue in issues if issue.position >= fold.first_kept
        ]
        # A call that waits may still be answered, and a new id may turn out to be taken.
        is_final = not fold.has_outstanding_calls and not any(
            issue.code is OrderCode.CALL_ID_REPEATED for issue in issues
        )
        return _WindowContent(
            start=position_of_turn(repaired, turns),
            changes=tuple(changes),
            first_kept=fold.first_kept,
            final_count=len(fold.messages) if is_final else -1,
        )

    def _head(self) -> _RequestHead:
        """Return what stands first; the same values as before unless something else is to be said."""
        fold = self._branch
        systems = tuple(fold.messages[: fold.system_count])
        key = (systems, fold.mode, fold.mode_id, fold.summary)
        if self._last_head[0] == key:
            return self._last_head[1]
        messages: list[Message] = [*systems]
        ids: list[str | None] = [*fold.ids[: fold.system_count]]
        changes: list[Change] = []
        note = self._mode_notes.get(fold.mode, "")
        if note.strip():
            first = systems[0] if systems else None
            assert first is None or isinstance(first, SystemMessage)
            messages[:1], ids[:1] = [append_system_note(first, note)], ids[:1] or [None]
            changes.append(
                Change(
                    ChangeCode.MODE,
                    "in_system_message",
                    entry=fold.mode_id,
                    value=fold.mode.value,
                )
            )
        if fold.summary is not None:
            messages.append(fold.summary.message)
            ids.append(fold.summary.entry_id)
            changes.append(Change(ChangeCode.COMPACTED, "summary", entry=fold.summary.entry_id))
        tokens = sum(message_tokens(message, self._count) for message in messages)
        head = _RequestHead(tuple(messages), tuple(ids), tokens, tuple(changes))
        self._last_head = (key, head)
        return head

    def _fit(self, start: int, room: int) -> bool:
        """Make what is on the line fit into so many tokens. Tell whether it does."""
        fit = partial(self._window.fit, start, room, save=partial(self._reduce_resources, start))
        if fit():
            return True
        # What the person points at just now is shortened only if it is that which does not fit.
        return (
            self._reduce_resources(start, self._window.tokens(start) - room, 0, of_last=True)
            and fit()
        )

    def _limit_resources(self, start: int, most: int) -> None:
        """Show no more of resources than so many tokens."""
        for of_last, spare in ((False, spare_tokens(most)), (True, 0)):
            shown = range(self._first_sent(start), len(self._branch.messages))
            tokens = self._branch.resources.tokens(shown, self._count)
            if tokens > most:
                self._reduce_resources(start, tokens - most, spare, of_last=of_last)

    def _reduce_resources(
        self, start: int, excess: int, spare: int, *, of_last: bool = False
    ) -> bool:
        """Show less of resources to save tokens: of what was said before, or last. Tell if that helps."""
        fold, first, last = self._branch, self._first_sent(start), self._branch.last_user_position
        less = fold.resources.choose_reductions(
            range(max(first, last), last + 1) if of_last else range(first, last),
            (ResourceExtent.SHORTENED,)
            if of_last
            else (ResourceExtent.SHORTENED, ResourceExtent.LEFT_OUT),
            count=self._count,
            excess=excess,
            spare=spare,
        )
        if less:
            fold.reduce_resources(less)
            self._update_window()
        return bool(less)

    def _first_sent(self, start: int) -> int:
        """Return where among what was said those begin that are sent, but for results."""
        fold, line = self._branch, self._window
        first = line.first_kept(start)
        if first == start:
            return fold.first_kept
        entry_id = line.ids[first] if first < len(line.ids) else None
        position = None if entry_id is None else fold.position_of(entry_id)
        return len(fold.messages) if position is None else position

    def _lay_out_messages(self, head: _RequestHead, first: int) -> _SentMessages:
        """Lay out what is to be sent, behind as much of what was sent last as still holds."""
        line, last = self._window, self._last_sent
        gap, kept = line.omitted, first
        if last is not None and last.first == first and last.head is head and last.gap is gap:
            # To copy these is all that a turn costs more in a long conversation.
            kept = max(first, line.changed_from)
            end = len(head.messages) + (gap is not None) + kept - first
            messages, ids = last.messages[:end], last.ids
            if end != len(ids):
                ids = ids[:end]
        elif gap is None:
            messages, ids = head.messages, [*head.ids]
        else:
            messages, ids = (*head.messages, gap.note), [*head.ids, None]
        line.clear_changed()
        messages += tuple(line.messages[kept:])
        ids += line.ids[kept:]
        self._last_sent = _SentMessages(head, gap, first, messages, ids)
        return self._last_sent

    # -- everything else ---------------------------------------------------------------------

    def _settings_for(
        self, target: ModelTarget, tools: tuple[ToolDefinition, ...]
    ) -> _RequestSettings:
        last = self._settings
        if last is not None and (last.target, last.tools) == (target, tools):
            return last
        changes: tuple[Change, ...] = ()
        offered = tools
        if tools and target.tools is False:
            changes = (Change(ChangeCode.TOOLS_LEFT_OUT, "model_without_tools", number=len(tools)),)
            offered = ()
        request = Request(
            messages=_PLACEHOLDER_MESSAGES,
            model=target.model,
            tools=offered,
            max_tokens=target.answer_tokens,
            temperature=target.temperature,
            top_p=target.top_p,
            stop=target.stop,
            tool_choice=target.tool_choice if offered else None,
        )
        tokens = tool_tokens(offered, self._count)
        self._settings = _RequestSettings(target, tools, request, tokens, changes)
        return self._settings


def _layout_key(target: ModelTarget) -> tuple[object, ...]:
    """Return what decides how messages are shown, and how much room there is for them."""
    return (
        target.vision,
        target.context_tokens,
        target.max_tokens,
        target.max_output_tokens,
        target.resource_tokens,
    )


def _restored_payload(entry: Entry, restore_blobs: _RestoreBlobs) -> Payload | None:
    """Return what an entry holds with what lies beside it; None if nothing does."""
    payload = entry.payload
    if isinstance(payload, Resolution):
        if not blob_digests(payload):
            return None
        # What something turned out to be stands in a message when it is shown.
        return replace(payload, content=restore_blobs(UserMessage(payload.content)).content)
    message = entry.message
    return restore_blobs(message) if message is not None and blob_digests(message) else None


def _answer_reserve(target: ModelTarget, context_tokens: int) -> int:
    if target.answer_tokens is not None:
        # Who asks for all that the model can read at once still wants to be heard.
        return min(target.answer_tokens, context_tokens // 2)
    usual = min(_MAX_RESERVE_TOKENS, context_tokens // _RESERVE_DIVISOR)
    return usual if target.max_output_tokens is None else min(usual, target.max_output_tokens)


def _with_messages(request: Request, messages: tuple[Message, ...]) -> Request:
    """Return a request with other messages, each of which was looked at when it was read."""
    token = PRECHECKED.set(True)
    try:
        return replace(request, messages=messages)
    finally:
        PRECHECKED.reset(token)
