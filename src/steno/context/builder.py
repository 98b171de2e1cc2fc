"""The context builder, which turns the entries of a branch into a request and a report.

A builder caches its results, so that each turn processes only the new entries; a different branch
is read from its first entry. The log is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import ClassVar, Final, NamedTuple, TypeAlias, final

from msgspec.structs import replace

from steno.context.branch_state import BranchState, ResourceExtent
from steno.context.notes import MODE_NOTES, append_system_note
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
)
from steno.messages.order import CallPairing, OrderCode, repair
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.records.entry import Entry, Mode, Payload, Resolution
from steno.values import PRECHECKED, RedactedRepr, is_prechecked

_RestoreBlobs: TypeAlias = Callable[[Payload], Payload]
_PLACEHOLDER_MESSAGES: Final = (ChatMessage.user("?"),)
_MAX_RESERVE_TOKENS: Final = 8_192
_RESERVE_DIVISOR: Final = 4
"""The context window divided by this number is reserved for a response of unknown length.

The reserve is at most `_MAX_RESERVE_TOKENS`, and at most the longest response of the model.
"""


@final
class ModelTarget(RedactedRepr, frozen=True, kw_only=True):
    """The model and the settings of a request. None means unknown, or the provider's default."""

    shown: ClassVar[frozenset[str]] = frozenset({"model", "tool_choice"})

    model: str = ""
    context_tokens: int | None = None
    """The size of the context window, including the response; None means no limit."""
    max_tokens: int | None = None
    """The maximum number of tokens of a response; up to half of the window is reserved for it."""
    max_output_tokens: int | None = None
    """The longest response that the model supports; a larger `max_tokens` is lowered to it."""
    resource_tokens: int | None = None
    """The maximum number of tokens of all MCP resources together; None means no limit."""
    vision: bool | None = None
    """Whether the model accepts images."""
    tools: bool | None = None
    """Whether the model accepts tools."""
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    tool_choice: str | None = None

    @property
    def response_tokens(self) -> int | None:
        """The maximum response length that the request sets; None leaves it to the provider."""
        requested, limit = self.max_tokens, self.max_output_tokens
        return requested if requested is None or limit is None else min(requested, limit)


class RequestImage(NamedTuple):
    """An image in a user message of a request, and the recorded block that it comes from."""

    position: int
    """The position of the message in the request."""
    number: int
    """The number of the block in this message."""
    entry_id: str
    recorded_number: int
    """The number of the block in the recorded message: a resource may become several blocks."""


class BuiltRequest(NamedTuple):
    """A request, and a report of the changes made while building it."""

    request: Request
    changes: tuple[Change, ...]
    tokens: int
    """The approximate number of tokens of the request, tools included."""
    sources: Sequence[str | None]
    """The entry id of each message of the request; None if the message is not from an entry."""
    images: Sequence[RequestImage] = ()
    """The images of the user messages with their bytes or their URL, in order."""
    wants_compaction: bool = False
    """Whether messages are left out or do not fit, so that a summary should replace them."""
    is_over_budget: bool = False
    """Whether the last message with its tool results does not fit, even alone."""
    last_tokens: int = 0
    """The approximate number of tokens of the last message and its tool results."""
    budget_tokens: int | None = None
    """The number of tokens available for messages; None if the context window is not known.

    This excludes the system messages, the summary, the tools and the response.
    """


@final
class ContextBuilder:
    """Builds requests from the entries of a conversation. Use one builder per conversation."""

    def __init__(
        self,
        *,
        count_tokens: CountTokens = estimate_tokens,
        mode_notes: Mapping[Mode, str] = MODE_NOTES,
    ) -> None:
        """Create a builder; `mode_notes` maps modes to text that is added to the system message."""
        self._count_tokens = count_tokens
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
        """Build the request with which a model continues after the last entry.

        `entries` are all entries of one branch. `restore_blobs` is called once for each message
        and resolution with blobs, and returns it with their content. Raises InvalidRequest if there
        is no message to send, or a setting of the target is invalid.
        """
        self._read(entries, target, restore_blobs)
        settings = self._settings_for(target, tuple(tools))
        leading, body = self._leading_messages(), self._update_window()
        window, start = self._window, body.start
        window.set_start(start)
        fixed_tokens = settings.tokens + leading.tokens
        fits, budget_tokens = True, None
        if target.resource_tokens is not None:
            self._limit_resources(start, target.resource_tokens)
        if target.context_tokens is not None:
            reserve = _response_reserve(target, target.context_tokens)
            budget_tokens = target.context_tokens - reserve - fixed_tokens
            fits = self._fit(start, budget_tokens)
        sent = self._lay_out_messages(leading, window.first_sent(start))
        if not sent.messages:
            message = "the branch has no message to send; append one first"
            raise InvalidRequest(message, code="nothing_to_send", place="context")
        changes = chain(
            settings.changes,
            leading.changes,
            body.changes,
            self._branch.changes(),
            window.changes(start),
        )
        return BuiltRequest(
            request=_with_messages(settings.request, sent.messages),
            changes=tuple(changes),
            tokens=fixed_tokens + window.tokens(start),
            sources=PrefixView(sent.ids),
            images=PrefixView(sent.images),
            wants_compaction=window.omitted is not None or not fits,
            is_over_budget=not fits,
            last_tokens=window.last_tokens(start),
            budget_tokens=budget_tokens,
        )

    # -- entries -----------------------------------------------------------------------------

    def _reset(self, target: ModelTarget) -> None:
        self._layout = _layout_key(target)
        self._ends: tuple[Entry, Entry] | None = None
        """The first and the last of the entries read so far."""
        self._read_count = 0
        self._begin_context(BranchState(vision=target.vision))

    def _begin_context(self, branch: BranchState) -> None:
        """Continue from a new state; the next request is built from its first message."""
        self._branch = branch
        self._window = MessageWindow(self._count_tokens)
        self._last_repair: _WindowContent | None = None
        self._last_leading: tuple[object, _LeadingMessages] = (None, _LeadingMessages())
        self._last_sent: _SentMessages | None = None

    def _read(
        self, entries: Sequence[Entry], target: ModelTarget, restore_blobs: _RestoreBlobs | None
    ) -> None:
        """Read the new entries, or all entries if they do not continue the entries read before."""
        if not self._is_continuation(entries, target):
            self._reset(target)
        try:
            for entry in entries[self._read_count :]:
                if entry.clears_context:
                    self._begin_context(self._branch.after_clear(entry.id))
                else:
                    restored = restore_blobs and _restored_payload(entry, restore_blobs)
                    self._branch.read(entry, restored)
        except BaseException:
            self._reset(target)  # do not reuse a half-read state
            raise
        self._read_count = len(entries)
        self._ends = (entries[0], entries[-1]) if entries else None

    def _is_continuation(self, entries: Sequence[Entry], target: ModelTarget) -> bool:
        """Return whether only the entries that follow those read before have to be read.

        This requires that `entries` begin with the entries read before, and that no setting of the
        target that affects messages has changed. Each entry names its parent, so comparing the last
        entry is sufficient to compare all its ancestors.
        """
        if self._layout != _layout_key(target):
            return False
        count, ends = self._read_count, self._ends
        if ends is None:
            return True
        return len(entries) >= count and entries[0] is ends[0] and entries[count - 1] is ends[1]

    # -- messages ----------------------------------------------------------------------------

    def _update_window(self) -> _WindowContent:
        """Put the messages of the branch into the window, repaired if their order is invalid."""
        branch, window, last = self._branch, self._window, self._last_repair
        if not branch.needs_repair:
            start = branch.changed_from if last is None else 0
            window.replace_from(start, branch.messages[start:], branch.ids[start:])
            self._last_repair, body = None, _WindowContent(branch.first_uncovered)
        elif (
            last is not None
            and last.first_uncovered == branch.first_uncovered
            and branch.is_ordered_from(last.final_count)
        ):
            # Messages in valid order do not change the repair of the messages before them.
            window.replace_from(
                len(window.messages),
                branch.messages[last.final_count :],
                branch.ids[last.final_count :],
            )
            self._last_repair = body = last._replace(final_count=len(branch.messages))
        else:
            self._last_repair = body = self._repair()
        branch.clear_changed()
        return body

    def _repair(self) -> _WindowContent:
        """Replace all messages in the window, in an order that providers accept."""
        branch = self._branch
        messages, ids = branch.messages_with_pending()
        repaired, issues = repair(messages)
        self._window.replace_from(0, repaired, _repaired_sources(messages, ids))
        covered = messages[: branch.first_uncovered]
        turns = sum(not isinstance(message, ToolResultMessage) for message in covered)
        changes = [
            Change(ChangeCode.REPAIRED, issue.code.value, entry=ids[issue.position])
            for issue in issues
            if issue.position >= branch.first_uncovered
        ]
        # Not final while a result may still arrive, or a later message may use an id chosen here.
        is_final = not branch.has_outstanding_calls and not any(
            issue.code is OrderCode.CALL_ID_REPEATED for issue in issues
        )
        return _WindowContent(
            start=_position_of_turn(repaired, turns),
            changes=tuple(changes),
            first_uncovered=branch.first_uncovered,
            final_count=len(branch.messages) if is_final else -1,
        )

    def _leading_messages(self) -> _LeadingMessages:
        """Return the leading messages of the request; the same object until they change."""
        branch = self._branch
        systems = tuple(branch.messages[: branch.system_count])
        key = (systems, branch.mode, branch.mode_id, branch.summary)
        if self._last_leading[0] == key:
            return self._last_leading[1]
        messages: list[Message] = [*systems]
        ids: list[str | None] = [*branch.ids[: branch.system_count]]
        changes: list[Change] = []
        note = self._mode_notes.get(branch.mode, "")
        if note.strip():
            first = systems[0] if systems else None
            assert first is None or isinstance(first, SystemMessage)
            messages[:1], ids[:1] = [append_system_note(first, note)], ids[:1] or [None]
            mode, mode_id = branch.mode.value, branch.mode_id
            changes.append(Change(ChangeCode.MODE, "in_system_message", entry=mode_id, value=mode))
        if branch.summary is not None:
            messages.append(branch.summary.message)
            ids.append(branch.summary.entry_id)
            changes.append(Change(ChangeCode.COMPACTED, "summary", entry=branch.summary.entry_id))
        tokens = sum(message_tokens(message, self._count_tokens) for message in messages)
        leading = _LeadingMessages(tuple(messages), tuple(ids), tokens, tuple(changes))
        self._last_leading = (key, leading)
        return leading

    def _fit(self, start: int, budget_tokens: int) -> bool:
        """Reduce the messages in the window to `budget_tokens`; return whether they fit."""
        window, save = self._window, partial(self._reduce_resources, start)
        if window.fit(start, budget_tokens, save=save):
            return True
        # Resources of the last message are shortened only if nothing else is left to shorten.
        excess = window.tokens(start) - budget_tokens
        is_reduced = self._reduce_resources(start, excess, 0, in_last_message=True)
        return is_reduced and window.fit(start, budget_tokens, save=save)

    def _limit_resources(self, start: int, max_tokens: int) -> None:
        """Reduce the resources of all messages to `max_tokens` together, if possible."""
        for in_last_message, spare in ((False, spare_tokens(max_tokens)), (True, 0)):
            shown = range(self._first_sent(start), len(self._branch.messages))
            tokens = self._branch.resources.tokens(shown, self._count_tokens)
            if tokens > max_tokens:
                self._reduce_resources(
                    start, tokens - max_tokens, spare, in_last_message=in_last_message
                )

    def _reduce_resources(
        self, start: int, excess: int, spare: int, *, in_last_message: bool = False
    ) -> bool:
        """Reduce resources before the last user message; return whether any was reduced.

        With `in_last_message`, shorten the resources in the last user message instead.
        """
        branch, first, last = self._branch, self._first_sent(start), self._branch.last_user_position
        positions = range(max(first, last), last + 1) if in_last_message else range(first, last)
        extents = (ResourceExtent.SHORTENED, ResourceExtent.LEFT_OUT)
        reductions = branch.resources.choose_reductions(
            positions,
            extents[:1] if in_last_message else extents,
            count_tokens=self._count_tokens,
            excess=excess,
            spare=spare,
        )
        if reductions:
            branch.reduce_resources(reductions)
            self._update_window()
        return bool(reductions)

    def _first_sent(self, start: int) -> int:
        """Return the position in the branch of the first message that is sent."""
        branch, window = self._branch, self._window
        first = window.first_sent(start)
        if first == start:
            return branch.first_uncovered
        entry_id = window.ids[first] if first < len(window.ids) else None
        position = branch.position_of(entry_id or "")
        return len(branch.messages) if position is None else position

    def _lay_out_messages(self, leading: _LeadingMessages, first: int) -> _SentMessages:
        """Return the messages to send; reuse the unchanged messages of the last request."""
        window, last = self._window, self._last_sent
        omitted, unchanged = window.omitted, first
        if (
            last is not None
            and last.first == first
            and last.leading is leading
            and last.omitted is omitted
        ):
            # Even in a long conversation, unchanged messages cost only this copy.
            unchanged = max(first, window.changed_from)
            end = len(leading.messages) + (omitted is not None) + unchanged - first
            messages, ids, images = last.messages[:end], last.ids, last.images
            if end != len(ids):
                ids, images = ids[:end], [image for image in images if image.position < end]
        elif omitted is None:
            messages, ids, images = leading.messages, [*leading.ids], []
        else:
            messages, ids, images = (*leading.messages, omitted.note), [*leading.ids, None], []
        window.clear_changed()
        messages += tuple(window.messages[unchanged:])
        images += [
            RequestImage(position, number, entry_id, recorded_number)
            for position, entry_id in enumerate(window.ids[unchanged:], len(ids))
            if entry_id is not None
            for number, recorded_number in self._branch.images.get(entry_id, ())
        ]
        ids += window.ids[unchanged:]
        self._last_sent = _SentMessages(leading, omitted, first, messages, ids, images)
        return self._last_sent

    # -- settings ----------------------------------------------------------------------------

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
            max_tokens=target.response_tokens,
            temperature=target.temperature,
            top_p=target.top_p,
            stop=target.stop,
            tool_choice=target.tool_choice if offered else None,
        )
        tokens = tool_tokens(offered, self._count_tokens)
        self._settings = _RequestSettings(target, tools, request, tokens, changes)
        return self._settings


# -- parts of a request ----------------------------------------------------------------------------


class _RequestSettings(NamedTuple):
    """The parts of a request without its messages, reused while target and tools are the same."""

    target: ModelTarget
    tools: tuple[ToolDefinition, ...]
    request: Request
    tokens: int
    changes: tuple[Change, ...]


class _LeadingMessages(NamedTuple):
    """The system messages and the summary, which precede all other messages of a request."""

    messages: tuple[Message, ...] = ()
    ids: tuple[str | None, ...] = ()
    tokens: int = 0
    changes: tuple[Change, ...] = ()


class _WindowContent(NamedTuple):
    """The position of the first message to send in the window, and the repairs of its messages."""

    start: int
    """The position of the first message that may be sent."""
    changes: tuple[Change, ...] = ()
    """The changes that report the repairs."""
    first_uncovered: int = 0
    """The position in the branch of the first message that no summary covers."""
    final_count: int = 0
    """The number of branch messages whose repair is final; -1 if all need another repair."""


class _SentMessages(NamedTuple):
    """The messages of the last request and their entries; the next request reuses most of them."""

    leading: _LeadingMessages
    omitted: OmittedRange | None
    first: int
    """The position in the window of the first message after the leading messages and the note."""
    messages: tuple[Message, ...]
    ids: list[str | None]
    """The entry ids. The list only grows or is replaced, so that a view of it never changes."""
    images: list[RequestImage]
    """The images of the messages; a list like that of the entry ids."""


def _layout_key(target: ModelTarget) -> tuple[object, ...]:
    """Return the settings of a target that affect the content and the length of messages."""
    return (
        target.vision,
        target.context_tokens,
        target.max_tokens,
        target.max_output_tokens,
        target.resource_tokens,
    )


def _restored_payload(entry: Entry, restore_blobs: _RestoreBlobs) -> Payload | None:
    """Return the payload of an entry with the content of its blobs; None if there are none."""
    payload = entry.payload if isinstance(entry.payload, Resolution) else entry.message
    return restore_blobs(payload) if payload is not None and blob_digests(payload) else None


def _response_reserve(target: ModelTarget, context_tokens: int) -> int:
    if target.response_tokens is not None:
        # A limit as large as the context window must leave room for the request.
        return min(target.response_tokens, context_tokens // 2)
    reserve = min(_MAX_RESERVE_TOKENS, context_tokens // _RESERVE_DIVISOR)
    return reserve if target.max_output_tokens is None else min(reserve, target.max_output_tokens)


def _with_messages(request: Request, messages: tuple[Message, ...]) -> Request:
    """Return the request with `messages`, which were checked when they were read."""
    before = is_prechecked()
    try:
        PRECHECKED.set(True)
        return replace(request, messages=messages)
    finally:
        PRECHECKED.set(before)


# -- repair ----------------------------------------------------------------------------------------


def _repaired_sources(messages: Sequence[Message], ids: Sequence[str]) -> list[str | None]:
    """Return the entry id of each message after a repair; None for results that the repair added.

    After a repair, every turn is followed by exactly one result for each of its tool calls.
    """
    result_of = CallPairing(messages).result_of
    sources: list[str | None] = []
    for position, message in enumerate(messages):
        if isinstance(message, ToolResultMessage):
            continue
        sources.append(ids[position])
        for number in range(len(message.tool_calls)):
            found = result_of.get((position, number))
            sources.append(None if found is None else ids[found])
    return sources


def _position_of_turn(messages: Sequence[Message], turns: int) -> int:
    """Return the position after the first `turns` turns, each a message with its tool results.

    A repair moves only results; all other messages retain their order.
    """
    for position, message in enumerate(messages):
        if not isinstance(message, ToolResultMessage):
            if turns == 0:
                return position
            turns -= 1
    return len(messages)
