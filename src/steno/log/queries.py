"""Queries on the entries of a branch. Their results are computed on each call, never stored.

Each function expects entries in the order in which `Conversation.entries` returns them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from itertools import takewhile
from typing import Final, NamedTuple, TypeAlias, assert_never

from msgspec.structs import replace

from steno.errors import InvalidValue
from steno.markdown_lines import split_quotations
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall, original_tool_name
from steno.messages.content import Block, FileReference, Image, Opaque, Resource, Text, Thinking
from steno.messages.message import AssistantMessage, SystemMessage, ToolResultMessage, UserMessage
from steno.messages.outcome import Outcome
from steno.messages.usage import Usage
from steno.records.entry import (
    BASE_VERSION,
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
    Repair,
    Resolution,
    ShellCommand,
)

# -- current state ---------------------------------------------------------------------------


def current_mode(entries: Iterable[Entry], default: Mode = Mode.ACT) -> Mode:
    """Return the mode in force after the last entry; `default` if no change was recorded."""
    changes = [entry.payload for entry in entries if isinstance(entry.payload, ModeChange)]
    return changes[-1].new if changes else default


def current_model(entries: Iterable[Entry]) -> str | None:
    """Return the model in force after the last entry; None if no change was recorded."""
    changes = [entry.payload for entry in entries if isinstance(entry.payload, ModelChange)]
    return changes[-1].new if changes else None


def labels_of(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the id of the labelled entry for each label.

    If a label is used more than once, the last use counts.
    """
    labels = (entry.payload for entry in entries if isinstance(entry.payload, Label))
    return {label.text: label.target for label in labels}


def check_label_text(text: str) -> None:
    """Raise InvalidValue if a label is blank or looks like the number of an entry."""
    name = text.strip()
    if not name:
        rule = "must not be blank"
        raise InvalidValue(rule, code="blank", place="label")
    if name.startswith("#") or name.isdigit():
        rule = "must not look like the number of an entry; choose another label"
        raise InvalidValue(rule, code="label_is_number", place="label")


def last_message(entries: Sequence[Entry], *, with_shell: bool = False) -> Entry | None:
    """Return the last entry with a message after the last clear; None if there is no such entry.

    Shell commands count as messages only if `with_shell` is set.
    """
    messages = (
        entry
        for entry in takewhile(lambda entry: not entry.clears_context, reversed(entries))
        if entry.message is not None and (with_shell or shell_command_of(entry) is None)
    )
    return next(messages, None)


def entries_since_clear(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries after the last one that clears the context; all if there is none."""
    numbers = range(len(entries), 0, -1)
    return entries[next((n for n in numbers if entries[n - 1].clears_context), 0) :]


def approvals_of(entries: Iterable[Entry]) -> dict[str, Approval]:
    """Return the latest decision about each call, keyed by call id.

    A provider may reuse a call id; a decision about the earlier call is then ignored.
    """
    approvals: dict[str, Approval] = {}
    for entry in entries:
        payload = entry.payload
        if isinstance(payload, Approval):
            approvals[payload.call_id] = payload
        elif isinstance(payload, AssistantMessage):
            for call in payload.tool_calls:
                approvals.pop(call.id, None)
    return approvals


def pending_approvals(entries: Sequence[Entry]) -> tuple[AnyToolCall, ...]:
    """Return the calls in the context without a result whose approval is pending."""
    calls: dict[str, AnyToolCall] = {}
    for entry in entries:
        payload = entry.payload
        if isinstance(payload, AssistantMessage):
            calls |= {call.id: call for call in payload.tool_calls}
        elif isinstance(payload, ToolResultMessage):
            calls.pop(payload.tool_call_id, None)
        elif entry.clears_context:
            calls.clear()
    statuses = {call_id: approval.status for call_id, approval in approvals_of(entries).items()}
    return tuple(
        [call for call in calls.values() if statuses.get(call.id) is ApprovalStatus.PENDING]
    )


def resolutions_of(entries: Iterable[Entry]) -> dict[tuple[str, int], Resolution]:
    """Return the latest resolution of each reference, keyed by entry id and block number."""
    resolutions = (entry.payload for entry in entries if isinstance(entry.payload, Resolution))
    return {(resolution.target, resolution.block): resolution for resolution in resolutions}


class VisionAnalysis(NamedTuple):
    """The response of a model to an image that it received."""

    answer: str
    """The id of the entry with the response."""
    description: str | None
    """The prose of the response; None if there is none, or if the response was redacted."""
    text: str | None
    """The passages that the response quotes, as fenced code or in block quotes; None if there are
    none. A model quotes the text in an image in this form."""


def vision_analyses(
    entries: Iterable[Entry], *, log_entries: Iterable[Entry] = ()
) -> dict[tuple[str, int], VisionAnalysis]:
    """Return the answer to each image that a model received, keyed by entry id and block number.

    An answer is linked after it was recorded, so a branch that was forked at the answer does not
    contain the link. `log_entries` are entries of all branches, in which such links are found.
    """
    entries = list(entries)
    on_branch = {entry.id: entry.payload for entry in entries}
    links: dict[tuple[str, int], str] = {}
    for entry in (*log_entries, *entries):  # the links of the branch itself take precedence
        link = entry.payload
        is_own = entry.id in on_branch
        if isinstance(link, ImageAnalysis) and (
            is_own or (link.target in on_branch and link.answer in on_branch)
        ):
            links[link.target, link.block] = link.answer
    analyses = {answer: _analysis(answer, on_branch.get(answer)) for answer in {*links.values()}}
    return {place: analyses[answer] for place, answer in links.items()}


def _analysis(answer: str, response: Payload | None) -> VisionAnalysis:
    text = response.text if isinstance(response, AssistantMessage) else None
    prose, quotations = split_quotations(text or "")
    return VisionAnalysis(answer, prose or None, quotations or None)


def feedback_by_entry(entries: Iterable[Entry]) -> dict[str, tuple[str, ...]]:
    """Return all feedback on each entry, keyed by entry id."""
    texts: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        if isinstance(entry.payload, Feedback):
            target = entry.payload.target
            texts[target] = (*texts.get(target, ()), entry.payload.text)
    return texts


# -- cost ------------------------------------------------------------------------------------


class Price(NamedTuple):
    """The price of a model per million tokens, in the caller's currency."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None


class ModelCost(NamedTuple):
    """The tokens used by one model, and their cost."""

    usage: Usage
    cost: Decimal | None
    """The cost of the tokens; None if the price of the model is not known."""


def total_usage(entries: Iterable[Entry]) -> Usage:
    """Return the total number of tokens that the turns and the summaries used.

    A count that no provider reported is None.
    """
    total = Usage()
    for entry in entries:
        total += entry_usage(entry)
    return total


def entry_usage(entry: Entry) -> Usage:
    """Return the tokens used by a turn or a summary; an empty Usage for any other entry."""
    payload = entry.payload
    usage = payload.usage if isinstance(payload, (AssistantMessage, Compaction)) else None
    return Usage() if usage is None else usage


def cost_by_model(
    entries: Iterable[Entry], price_of: Callable[[str], Price | None]
) -> dict[str, ModelCost]:
    """Return the tokens and the cost of each model, keyed by model name.

    The name is empty for turns before the first recorded model change.
    """
    usages: dict[str, Usage] = {}
    model = ""
    for entry in entries:
        payload = entry.payload
        if isinstance(payload, ModelChange):
            model = payload.new
        elif isinstance(payload, (AssistantMessage, Compaction)) and payload.usage is not None:
            usages[model] = usages.get(model, Usage()) + payload.usage
    return {
        name: ModelCost(usage, None if (price := price_of(name)) is None else cost_of(usage, price))
        for name, usage in usages.items()
    }


def cost_of(usage: Usage, price: Price) -> Decimal:
    """Return the cost of the tokens in `usage`.

    Cached tokens cost as much as other input if `price` has no price for them.
    """
    parts = [(usage.output_tokens or 0, price.output)]
    uncached = usage.input_tokens or 0
    for tokens, cache_price in (
        (usage.cache_read_tokens, price.cache_read),
        (usage.cache_write_tokens, price.cache_write),
    ):
        if tokens is not None and cache_price is not None:
            parts.append((tokens, cache_price))
            uncached -= tokens
    parts.append((max(uncached, 0), price.input))
    return sum((tokens * part_price for tokens, part_price in parts), Decimal(0)) / 1_000_000


# -- kinds of entries ------------------------------------------------------------------------


class EntryKind(StrEnum):
    """The kinds of entries that an audit distinguishes."""

    USER = "user"
    ASSISTANT_TEXT = "assistant_text"
    ASSISTANT_ACTION = "assistant_action"
    TOOL_RESULT = "tool_result"
    TOOL_ERROR = "tool_error"
    SYSTEM_CONTEXT = "system_context"


def entry_kinds(entry: Entry) -> tuple[EntryKind, ...]:
    """Return the kinds of an entry; a turn with text and tool calls has two.

    A shell command of the user counts as a user message. A system message, or an entry without a
    message, is system context.
    """
    message = entry.message
    match message:
        case UserMessage():
            return (EntryKind.USER,)
        case ToolResultMessage():
            return (EntryKind.TOOL_ERROR if message.is_error else EntryKind.TOOL_RESULT,)
        case AssistantMessage():
            action, text = EntryKind.ASSISTANT_ACTION, EntryKind.ASSISTANT_TEXT
            kinds = [action if isinstance(b, AnyToolCall) else text for b in message.content]
            return tuple(dict.fromkeys(kinds)) or (text,)
        case SystemMessage() | None:
            return (EntryKind.SYSTEM_CONTEXT,)


class ContentType(StrEnum):
    """The types of content that an entry can contain."""

    TEXT = "text"
    IMAGE = "image"
    FILE_REFERENCE = "file_reference"
    TOOL_REQUEST = "tool_request"
    TOOL_RESULT = "tool_result"
    SYSTEM_CONTROL = "system_control"
    MCP_RESOURCE = "mcp_resource"
    UNKNOWN = "unknown"


def content_types(entry: Entry) -> tuple[ContentType, ...]:
    """Return the distinct types of content in an entry, in order.

    The result is empty for approvals, resolutions, image analyses, feedback, repairs, revoked
    grants and redactions.
    """
    payload = entry.payload
    if isinstance(payload, Control):
        return (ContentType.SYSTEM_CONTROL,)
    if isinstance(payload, (Opaque, Redacted)):
        return (ContentType.UNKNOWN,)
    if isinstance(payload, ToolResultMessage):
        return (ContentType.TOOL_RESULT,)
    message = entry.message
    return () if message is None else tuple(dict.fromkeys(map(_content_type, message.content)))


def _content_type(block: Block) -> ContentType:
    match block:
        case Text() | Thinking():
            return ContentType.TEXT
        case Image():
            return ContentType.IMAGE
        case FileReference():
            return ContentType.FILE_REFERENCE
        case Resource():
            return ContentType.MCP_RESOURCE
        case ToolCall() | InvalidToolCall():
            return ContentType.TOOL_REQUEST
        case Opaque():
            return ContentType.UNKNOWN
        case _:
            assert_never(block)


# -- decisions -------------------------------------------------------------------------------

CallPlace: TypeAlias = tuple[str, str]
"""The id of the entry with a call, and the id of the call, which a later turn may use again."""
EntryPart: TypeAlias = Text | AnyToolCall | None
"""A text or a call of a turn; None for an entry as a whole."""

_DECISION_BY_STATUS: Final = {
    ApprovalStatus.PENDING: "tool_call_pending",
    ApprovalStatus.APPROVED: "tool_call_approved",
    ApprovalStatus.DENIED: "tool_call_denied",
}
_DECISION_BY_OUTCOME: Final = {
    Outcome.OK: "executed",
    Outcome.ERROR: "failed",
    Outcome.UNAVAILABLE: "failed",
}


def outcome_decision(outcome: Outcome) -> str:
    """Return the decision about a call with this outcome, as the agent records it."""
    return _DECISION_BY_OUTCOME.get(outcome, str(outcome))


def entry_decision(entry: Entry) -> str | None:
    """Return the decision of an entry; None if there is none.

    For an approval without a decision, return the status of the approval.
    """
    if entry.decision is None and isinstance(entry.payload, Approval):
        return entry.payload.status
    return entry.decision


def entry_decisions(entry: Entry, approvals: Mapping[CallPlace, Approval]) -> tuple[str, ...]:
    """Return a decision for each part of an entry, in the order of `entry_parts`.

    The first is the decision of the entry, if it has one. The others are derived from the approval
    of the call, the outcome of the result, or the type of the entry.
    """
    decision_of_text = derive_decision(entry, None, approvals)
    derived = [
        derive_decision(entry, part, approvals)
        if isinstance(part, AnyToolCall)
        else decision_of_text
        for part in entry_parts(entry)
    ]
    decision = entry_decision(entry)
    return tuple(derived) if decision is None else (decision, *derived[1:])


def entry_parts(entry: Entry) -> tuple[EntryPart, ...]:
    """Return the texts and calls of a turn; None alone for a turn without them, or another entry."""
    if not isinstance(entry.payload, AssistantMessage):
        return (None,)
    parts = [block for block in entry.payload.content if isinstance(block, Text | AnyToolCall)]
    return tuple(parts) or (None,)


def derive_decision(entry: Entry, part: EntryPart, approvals: Mapping[CallPlace, Approval]) -> str:
    """Return a decision for a part of an entry that has no decision of its own."""
    payload = entry.payload
    if shell_command_of(entry) is not None:
        return "shell_command"
    match payload:
        case UserMessage():
            return "user_message"
        case SystemMessage():
            return str(EntryKind.SYSTEM_CONTEXT)
        case AssistantMessage():
            if not isinstance(part, AnyToolCall):
                return "planning" if payload.tool_calls else "answer"
            approval = approvals.get((entry.id, part.id))
            if approval is not None:
                return _DECISION_BY_STATUS[approval.status]
            return "tool_call_invalid" if isinstance(part, InvalidToolCall) else "tool_call"
        case ToolResultMessage():
            return outcome_decision(payload.outcome)
        case Opaque(kind=str(kind)) if kind:
            return kind
        case _:
            return str(payload.__struct_config__.tag)


def approvals_by_call(entries: Iterable[Entry]) -> dict[CallPlace, Approval]:
    """Return the latest decision of a person or a rule about each call."""
    return {
        (link.turn, link.call.id): link.entry.payload
        for link in _link_calls(entries)
        if isinstance(link.entry.payload, Approval)
    }


def calls_by_entry(entries: Iterable[Entry]) -> dict[str, AnyToolCall]:
    """Return the call that each approval and each result is about, keyed by entry id.

    A provider may use a call id again; an entry is then about the latest call before it on its
    branch.
    """
    return {link.entry.id: link.call for link in _link_calls(entries)}


class _CallLink(NamedTuple):
    """An approval or a result, and the call that it is about."""

    entry: Entry
    turn: str
    """The id of the entry with the call."""
    call: AnyToolCall


def _link_calls(entries: Iterable[Entry]) -> list[_CallLink]:
    """Return the call of each approval and each result: the nearest one with its id before it.

    The entries before an entry are its parents, so that calls of other branches do not count. The
    entries are visited as a tree, so that `calls` always has the calls before the current entry and
    no search for them is needed.
    """
    unique = list({entry.id: entry for entry in entries}.values())
    roots, children = _entry_tree(unique)
    calls: dict[str, list[tuple[str, AnyToolCall]]] = {}
    links: dict[int, _CallLink] = {}
    # A number is an entry to visit; calls are those of a turn whose later entries were visited.
    remaining: list[int | tuple[AnyToolCall, ...]] = [*roots]
    while remaining:
        number = remaining.pop()
        if isinstance(number, tuple):
            for call in number:
                calls[call.id].pop()
            continue
        entry = unique[number]
        match entry.payload:
            case AssistantMessage(tool_calls=turn_calls):
                for call in turn_calls:
                    calls.setdefault(call.id, []).append((entry.id, call))
                remaining.append(turn_calls)
            case Approval(call_id=call_id) | ToolResultMessage(tool_call_id=call_id):
                if found := calls.get(call_id):
                    links[number] = _CallLink(entry, *found[-1])
            case _:
                pass
        remaining += children[number]
    return [links[number] for number in sorted(links)]


def _entry_tree(entries: Sequence[Entry]) -> tuple[list[int], list[list[int]]]:
    """Return the numbers of the entries without a parent, and of the children of each entry.

    An entry whose parent is unknown follows the entry before it, as in a list without parents.
    """
    has_parents = any(entry.parent is not None for entry in entries)
    numbers: dict[str, int] = {}
    roots: list[int] = []
    children: list[list[int]] = []
    for number, entry in enumerate(entries):
        is_root = entry.parent is None and has_parents
        parent = -1 if is_root else numbers.get(entry.parent or "", number - 1)
        (roots if parent < 0 else children[parent]).append(number)
        children.append([])
        numbers[entry.id] = number
    return roots, children


# -- search ----------------------------------------------------------------------------------


class EntryQuery(NamedTuple):
    """A filter for entries; a field that is None is ignored."""

    since: datetime | None = None
    until: datetime | None = None
    kind: EntryKind | None = None
    decision: str | None = None
    tool: str | None = None
    actor: str | None = None


def select_entries(
    entries: Iterable[Entry], query: EntryQuery, *, call_entries: Iterable[Entry] | None = None
) -> tuple[Entry, ...]:
    """Return the entries that match a query.

    `since` and `until` exclude entries without a time. `tool` is the original or the mapped name of
    a tool, and matches calls, their results and the decisions about them; if the calls are not in
    `entries`, pass their entries as `call_entries`. `decision` is one of `entry_decisions`. Raises
    InvalidValue if `since` or `until` has no time zone.
    """
    for time in (query.since, query.until):
        if time is not None and time.tzinfo is None:
            rule = "since and until need a time zone"
            raise InvalidValue(rule, code="no_time_zone", place="query")
    candidates = list(entries)
    known = [*(call_entries or ()), *candidates]
    calls = {} if query.tool is None else calls_by_entry(known)
    approvals = {} if query.decision is None else approvals_by_call(known)
    return tuple([entry for entry in candidates if _matches_query(entry, query, calls, approvals)])


def tools_of(entry: Entry, calls: Mapping[str, AnyToolCall]) -> tuple[str, ...]:
    """Return the original names of the tools that an entry calls or is about.

    `calls` has the call of each approval and each result; see `calls_by_entry`.
    """
    if isinstance(entry.payload, ToolResultMessage):
        names = [result_tool_name(entry.payload, calls.get(entry.id))]
    else:
        names = [*map(original_tool_name, _calls_of(entry, calls))]
    return tuple(dict.fromkeys(filter(None, names)))


def result_tool_name(result: ToolResultMessage, call: AnyToolCall | None) -> str:
    """Return the original tool name of a result, given the call that it answers, if it is known.

    The agent writes no tool name into its own results, as those of denied and invalid calls, so
    their name is the name in the call.
    """
    if call is None or result.tool_name not in ("", call.name):
        return result.tool_name
    return original_tool_name(call)


def _calls_of(entry: Entry, calls: Mapping[str, AnyToolCall]) -> tuple[AnyToolCall, ...]:
    """Return the calls that an entry contains, or the one that it is about."""
    if isinstance(entry.payload, AssistantMessage):
        return entry.payload.tool_calls
    return (calls[entry.id],) if entry.id in calls else ()


def _is_about_tool(entry: Entry, tool: str, calls: Mapping[str, AnyToolCall]) -> bool:
    """Return whether an entry is about a tool, named by its original or its mapped name."""
    mapped_names = [call.name for call in _calls_of(entry, calls)]
    return tool in (*tools_of(entry, calls), *mapped_names)


def _matches_query(
    entry: Entry,
    query: EntryQuery,
    calls: Mapping[str, AnyToolCall],
    approvals: Mapping[CallPlace, Approval],
) -> bool:
    time = entry.time
    if query.since is not None and (time is None or time < query.since):
        return False
    if query.until is not None and (time is None or time > query.until):
        return False
    actor = getattr(entry.payload, "actor", None)
    if actor is None:
        actor = (entry.audit or {}).get("actor")
    return (
        (query.kind is None or query.kind in entry_kinds(entry))
        and (query.decision is None or query.decision in entry_decisions(entry, approvals))
        and (query.tool is None or _is_about_tool(entry, query.tool, calls))
        and (query.actor is None or query.actor == actor)
    )


_TEXT_FIELDS: Final = ("text", "summary", "reason", "explanation", "grant")


def searchable_text(entry: Entry) -> str:
    """Return the text of an entry that a search covers."""
    payload, message = entry.payload, entry.message
    if message is not None:
        return "\n".join(filter(None, map(_block_text, message.content)))
    texts = (getattr(payload, name, None) for name in _TEXT_FIELDS)
    return "\n".join([text for text in texts if isinstance(text, str)])


def _block_text(block: Block) -> str:
    match block:
        case Text() | Thinking():
            return block.text
        case ToolCall() | InvalidToolCall():
            names = dict.fromkeys((original_tool_name(block), block.name))
            return f"{' '.join(names)} {block.arguments}"
        case FileReference():
            return block.path
        case Resource():
            return f"{block.uri} {block.text or ''}"
        case Image() | Opaque():
            return ""


# -- payloads that version 2 had no type for ---------------------------------------------------

# Version 2 of the format stored a shell command of the user as a message with these keys in its
# audit data, and a revoked grant as a repair with this code, key and text. Never change them.
_SHELL_KEY: Final = "shell"
_STATUS_KEY: Final = "status"
_REVOKED_CODE: Final = "grant_revoked"
_REVOKED_KEY: Final = "revoked"
_REVOKED_SUFFIX: Final = " is no longer allowed for this session"


def shell_command_of(entry: Entry) -> ShellCommand | None:
    """Return the shell command in an entry of format version 2 or 3; None if there is none."""
    payload, audit = entry.payload, entry.audit or {}
    if isinstance(payload, ShellCommand):
        return payload
    command, status = audit.get(_SHELL_KEY), audit.get(_STATUS_KEY)
    if not isinstance(payload, UserMessage) or not isinstance(command, str):
        return None
    return ShellCommand(
        command=command,
        output=payload.text.removeprefix(f"$ {command}\n"),
        status=status if type(status) is int else None,  # a bool is an int, too
    )


def revoked_grant_of(entry: Entry) -> GrantRevoked | None:
    """Return the revoked grant in an entry of format version 2 or 3; None if there is none."""
    payload = entry.payload
    if isinstance(payload, GrantRevoked):
        return payload
    if not isinstance(payload, Repair) or payload.code != _REVOKED_CODE or not payload.target:
        return None
    grant = (entry.audit or {}).get(_REVOKED_KEY)
    if not isinstance(grant, str) or not grant:
        grant = payload.explanation.removesuffix(_REVOKED_SUFFIX) or _REVOKED_CODE
    return GrantRevoked(grant=grant, target=payload.target)


def as_version_2(entry: Entry) -> Entry:
    """Return an entry in the form of version 2, for formats without the payloads of version 3."""
    payload, audit = entry.payload, dict(entry.audit or {})
    match payload:
        case ShellCommand(unknown=unknown) | GrantRevoked(unknown=unknown) if unknown:
            return entry  # version 2 cannot express members of a newer version
        case ShellCommand():
            audit[_SHELL_KEY] = payload.command
            if payload.status is not None:
                audit[_STATUS_KEY] = payload.status
            return replace(entry, v=BASE_VERSION, payload=payload.message, audit=audit)
        case GrantRevoked(grant=grant):
            explanation = f"{grant}{_REVOKED_SUFFIX}"
            repair = Repair(code=_REVOKED_CODE, explanation=explanation, target=payload.target)
            audit[_REVOKED_KEY] = grant
            return replace(entry, v=BASE_VERSION, payload=repair, audit=audit)
        case _:
            return entry


# -- results of the agent ---------------------------------------------------------------------

RESULT_CODE_KEY: Final = "code"
"""The key in `details` for the code of a result that the agent wrote (`steno.agent.results`)."""


def result_code(result: ToolResultMessage) -> str | None:
    """Return the code of a tool result that the agent wrote; None for any other result."""
    if not is_agent_result(result) or result.details is None:
        return None
    code = result.details.get(RESULT_CODE_KEY)
    return code if isinstance(code, str) else None


def is_agent_result(result: ToolResultMessage) -> bool:
    """Return whether a result was written by the agent itself, not by a tool.

    The result code is not checked, because older versions did not record one.
    """
    is_measured = result.started_at is not None or result.duration_s is not None
    return result.is_error and not result.tool_name and not is_measured
