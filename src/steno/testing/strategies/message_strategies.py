"""Strategies for messages, conversations and requests, and for the entries of a log.

The strategies for conversations vary the order of messages. Texts are short, ids are as varied as
in other strategies, and a later turn may reuse the ids of an earlier turn.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec.structs import replace

from steno.codec import Document
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.messages.content import FileReference, Text, Thinking
from steno.messages.message import (
    AssistantBlock,
    AssistantMessage,
    Message,
    MessageRole,
    ResultBlock,
    SystemMessage,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from steno.messages.outcome import Failure, Outcome
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.messages.usage import StopReason, Usage
from steno.records.entry import (
    Approval,
    ApprovalStatus,
    BranchSwitch,
    Clear,
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
    Rewind,
    ShellCommand,
)
from steno.testing.strategies.block_strategies import (
    digests,
    extras,
    file_references,
    identifiers,
    images,
    invalid_tool_calls,
    json_objects,
    maybe_with_extras,
    moments,
    named_strategy,
    opaque_blocks,
    outside_tool_names,
    resources,
    text_blocks,
    texts,
    thinking_blocks,
    tool_calls,
    tool_names,
    visible_texts,
)

B = TypeVar("B")
_MOST_TURNS: Final = 5
_DAMAGES: Final = (
    *("drop_result", "repeat_result", "move_result", "swap_results", "add_orphan"),
    *("share_call_id", "empty_turn", "drop_turn", "truncate"),
)
_SYSTEM_MESSAGES: Final = visible_texts().map(lambda text: SystemMessage((Text(text),)))
_USER_MESSAGES: Final = st.one_of(
    visible_texts().map(lambda text: UserMessage((Text(text),))),
    st.just(UserMessage((FileReference(path="notes.txt"),))),
)
_SHORT_TEXTS: Final = texts(max_size=8)
_TEXT_BLOCKS: Final = st.lists(_SHORT_TEXTS.map(Text) | _SHORT_TEXTS.map(Thinking), max_size=2)
# "a_2" and "a_3" are the ids that steno gives to further calls with the id "a".
_SOME_IDS: Final = st.sampled_from(("a", "b", "a_2", "a_3", "toolu_01", "\u2028", "日本"))
_IDS: Final = st.lists(_SOME_IDS | _SOME_IDS | identifiers(), min_size=3, max_size=5, unique=True)
_NAMES: Final = st.sampled_from(("read", "write", "bash"))
_ARGUMENTS: Final = st.sampled_from(("{}", '{"path":"a"}', '{ "n": 1.0e5 }', '{"path":'))
_OUTCOMES: Final = st.sampled_from(Outcome)
_FIRST_IDS: Final = st.integers(0, 2)
_CALL_COUNTS: Final = st.sampled_from((0, 1, 1, 2, 2, 3))


# -- messages ----------------------------------------------------------------------------------


@named_strategy
def system_messages() -> SearchStrategy[SystemMessage]:
    """Draw system messages with one or more text blocks, of which none is empty."""
    content = _surrounded(visible_texts().map(Text), _nonempty_texts())
    return maybe_with_extras(st.builds(SystemMessage, content))


def _nonempty_texts() -> SearchStrategy[Text]:
    return text_blocks().filter(lambda block: block.text != "")


@named_strategy
def user_messages() -> SearchStrategy[UserMessage]:
    """Draw user messages with any non-empty mixture of text, images, references and resources."""
    others: SearchStrategy[UserBlock] = st.one_of(
        visible_texts().map(Text), images(), file_references(), resources(), opaque_blocks()
    )
    return maybe_with_extras(
        st.builds(UserMessage, _surrounded(others, st.one_of(_nonempty_texts(), others)))
    )


@named_strategy
def usages() -> SearchStrategy[Usage]:
    """Draw usages, in which each token count may be missing, zero or very large."""
    counts = st.none() | st.integers(0, 10_000) | st.integers(0, 2**70)
    names = ("input", "output", "cache_read", "cache_write", "thinking")
    return st.builds(Usage, **{f"{name}_tokens": counts for name in names})


@named_strategy
def assistant_messages(
    calls: SearchStrategy[AnyToolCall] | None = None,
) -> SearchStrategy[AssistantMessage]:
    """Draw assistant messages with thinking, text, images and calls.

    The content is empty only if there is a stop reason. No two calls of a message share an id.
    Pass `calls` to draw the calls from another strategy.
    """
    any_call = st.one_of(tool_calls(), invalid_tool_calls()) if calls is None else calls
    block: SearchStrategy[AssistantBlock] = st.one_of(
        any_call, text_blocks(), thinking_blocks(), images(), opaque_blocks()
    )
    content = st.lists(block, max_size=4, unique_by=_call_id_or_self).map(tuple)
    return maybe_with_extras(
        st.builds(
            AssistantMessage,
            content=content,
            stop_reason=st.sampled_from(StopReason),
            raw_stop_reason=st.none() | texts(max_size=8),
            usage=st.none() | usages(),
        )
        | st.builds(AssistantMessage, content=content.filter(bool))
    )


@named_strategy
def failures() -> SearchStrategy[Failure]:
    """Draw failures of tool calls, some with a traceback."""
    return st.builds(
        Failure, message=texts(), traceback=st.none() | texts(), recoverable=st.booleans()
    )


@named_strategy
def tool_results(ids: SearchStrategy[str] | None = None) -> SearchStrategy[ToolResultMessage]:
    """Draw tool results of every outcome, with or without content.

    Pass `ids` to draw the ids of the calls from another strategy.
    """
    block: SearchStrategy[ResultBlock] = st.one_of(
        text_blocks(), images(), file_references(), resources(), opaque_blocks()
    )
    common: dict[str, SearchStrategy[Any]] = {
        "tool_call_id": identifiers() if ids is None else ids,
        "content": st.lists(block, max_size=3).map(tuple),
        "tool_name": texts(max_size=8) | tool_names(),
        "details": st.none() | json_objects(),
        "started_at": st.none() | moments(),
        "duration_s": st.none() | st.floats(0, allow_infinity=False) | st.integers(0, 2**53),
    }
    return maybe_with_extras(
        st.builds(ToolResultMessage, **common)
        | st.builds(
            ToolResultMessage,
            **common,
            outcome=st.sampled_from([outcome for outcome in Outcome if outcome is not Outcome.OK]),
            failure=st.none() | failures(),
        )
    )


@named_strategy
def messages() -> SearchStrategy[Message]:
    """Draw system, user, assistant and tool result messages."""
    return st.one_of(system_messages(), user_messages(), assistant_messages(), tool_results())


def _surrounded(
    core: SearchStrategy[B], around: SearchStrategy[B]
) -> SearchStrategy[tuple[B, ...]]:
    """Draw tuples in which at least one block, at any position, is drawn from `core`."""
    some = st.lists(around, max_size=2)
    return st.tuples(some, core, some).map(lambda parts: (*parts[0], parts[1], *parts[2]))


def _call_id_or_self(block: AssistantBlock) -> object:
    return block.id if isinstance(block, AnyToolCall) else (type(block), block)


# -- requests ----------------------------------------------------------------------------------


@named_strategy
def tool_definitions() -> SearchStrategy[ToolDefinition]:
    """Draw tool definitions whose parameters are valid, nested JSON Schemas."""
    return maybe_with_extras(
        st.builds(
            ToolDefinition,
            name=tool_names(),
            description=visible_texts(),
            parameters=_object_schemas(_schemas()),
            strict=st.booleans(),
            original_name=st.none() | outside_tool_names(),
        )
    )


@named_strategy
def requests() -> SearchStrategy[Request]:
    """Draw requests with messages in any order; for a valid order, use `conversations()`."""
    return st.builds(
        Request,
        messages=st.lists(messages(), min_size=1, max_size=4).map(tuple),
        model=texts(max_size=12),
        tools=st.lists(tool_definitions(), max_size=3, unique_by=lambda tool: tool.name).map(tuple),
        max_tokens=st.none() | st.integers(1, 2**70),
        temperature=st.none() | st.floats(0, 2) | st.integers(0, 2),
        top_p=st.none() | st.floats(0, 1),
        stop=st.lists(texts(min_size=1, max_size=8), max_size=2).map(tuple),
        tool_choice=st.none() | st.sampled_from(("auto", "none", "required")),
        extras=st.none() | extras(),
    )


def _schemas() -> SearchStrategy[dict[str, Any]]:
    scalars: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
        {"type": st.sampled_from(("string", "integer", "number", "boolean", "null"))},
        optional={"description": texts(max_size=12)},
    )
    return st.recursive(
        scalars,
        lambda inner: _object_schemas(inner) | inner.map(lambda s: {"type": "array", "items": s}),
        max_leaves=4,
    )


def _object_schemas(inner: SearchStrategy[dict[str, Any]]) -> SearchStrategy[dict[str, Any]]:
    return st.dictionaries(texts(max_size=8), inner, max_size=3).flatmap(
        lambda properties: st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.just(properties),
                "required": st.lists(
                    st.sampled_from(sorted(properties)) if properties else st.nothing(), unique=True
                ),
            }
        )
    )


# -- conversations -----------------------------------------------------------------------------


@st.composite
def conversations(draw: DrawFn, *, alternating: bool = True) -> tuple[Message, ...]:
    """Draw conversations in a valid order; `check_order` reports only reused call ids, if any.

    With `alternating`, they also follow the rules of `ConversationHistory`: the first message is
    the system message, after which user and assistant messages alternate.
    """
    return tuple(_draw_messages(draw, alternating, draw(st.integers(0, _MOST_TURNS))))


@st.composite
def damaged_conversations(draw: DrawFn) -> tuple[Message, ...]:
    """Draw conversations with damage to the order of messages.

    Results are missing, repeated, moved or orphaned; calls share an id; turns are empty or
    missing; the conversation is truncated. Some damage has no effect, so the order may be valid.
    """
    messages = _draw_messages(draw, draw(st.booleans()), draw(st.integers(2, _MOST_TURNS)))
    for kind in draw(st.lists(st.sampled_from(_DAMAGES), min_size=1, max_size=4)):
        _damage(draw, messages, kind)
    return tuple(messages)


def _draw_messages(draw: DrawFn, alternating: bool, turns: int) -> list[Message]:
    messages: list[Message] = []
    if alternating or draw(st.booleans()):
        messages.append(draw(_SYSTEM_MESSAGES))
    ids = draw(_IDS)
    for _ in range(turns):
        last = messages[-1].role if messages else None
        either = (MessageRole.USER, MessageRole.ASSISTANT)
        roles = [role for role in either if not (alternating and role is last)]
        if draw(st.sampled_from(roles)) is MessageRole.USER:
            messages.append(draw(_USER_MESSAGES))
        else:
            turn = _draw_turn(draw, ids)
            messages += [turn, *(_draw_result(draw, call) for call in turn.tool_calls)]
    return messages


def _draw_turn(draw: DrawFn, ids: list[str]) -> AssistantMessage:
    blocks: list[AssistantBlock] = [*draw(_TEXT_BLOCKS)]
    first, count = draw(_FIRST_IDS), draw(_CALL_COUNTS)
    calls = [_draw_call(draw, call_id) for call_id in (ids[first:] + ids[:first])[:count]]
    position = draw(st.integers(0, len(blocks)))
    content = (*blocks[:position], *calls, *blocks[position:])
    if not content:
        return AssistantMessage(content=(Text(""),), stop_reason=StopReason.END_TURN)
    return AssistantMessage(content=content)


def _draw_call(draw: DrawFn, call_id: str) -> AnyToolCall:
    name, arguments = draw(_NAMES), draw(_ARGUMENTS)
    if arguments.endswith("}"):
        return ToolCall(id=call_id, name=name, arguments=arguments)
    return InvalidToolCall(id=call_id, arguments=arguments, reason="the text ends too soon")


def _draw_result(draw: DrawFn, call: AnyToolCall) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(Text(draw(_SHORT_TEXTS)),),
        outcome=draw(_OUTCOMES),
    )


# -- damage to the order -----------------------------------------------------------------------


def _damage(draw: DrawFn, messages: list[Message], kind: str) -> None:
    """Apply one kind of damage; do nothing if there is no result or turn to damage."""
    results = [n for n, message in enumerate(messages) if isinstance(message, ToolResultMessage)]
    turns = [n for n, message in enumerate(messages) if isinstance(message, AssistantMessage)]
    match kind:
        case "drop_result" if results:
            del messages[draw(st.sampled_from(results))]
        case "repeat_result" if results:
            result = messages[draw(st.sampled_from(results))]
            _insert(draw, messages, replace(result, content=(Text(draw(_SHORT_TEXTS)),)))
        case "move_result" if results:
            _insert(draw, messages, messages.pop(draw(st.sampled_from(results))))
        case "swap_results" if results:
            first, second = draw(st.sampled_from(results)), draw(st.sampled_from(results))
            messages[first], messages[second] = messages[second], messages[first]
        case "add_orphan":
            _insert(draw, messages, ToolResultMessage(tool_call_id=draw(identifiers()), content=()))
        case "share_call_id":
            _share_call_id(draw, messages, [n for n in turns if messages[n].tool_calls])
        case "empty_turn" if turns:
            empty = AssistantMessage(content=(), stop_reason=StopReason.ABORTED)
            messages[draw(st.sampled_from(turns))] = empty
        case "drop_turn" if turns:
            del messages[draw(st.sampled_from(turns))]
        case "truncate":
            del messages[draw(st.integers(0, len(messages))) :]
        case _:
            pass


def _share_call_id(draw: DrawFn, messages: list[Message], turns: list[int]) -> None:
    """Add a call that has the id of another call in the same turn, and sometimes its result."""
    if not turns:
        return
    position = draw(st.sampled_from(turns))
    turn = messages[position]
    call = _draw_call(draw, draw(st.sampled_from(turn.tool_calls)).id)
    assert isinstance(turn, AssistantMessage)
    messages[position] = replace(turn, content=(*turn.content, call))
    if draw(st.booleans()):
        messages.insert(position + 1 + len(turn.tool_calls), _draw_result(draw, call))


def _insert(draw: DrawFn, messages: list[Message], message: Message) -> None:
    messages.insert(draw(st.integers(0, len(messages))), message)


# -- entries of a log --------------------------------------------------------------------------


@named_strategy
def controls() -> SearchStrategy[Control]:
    """Draw payloads that control the conversation and are never sent to a model."""
    modes = st.sampled_from(Mode)
    return st.one_of(
        st.builds(ModeChange, old=modes, new=modes),
        st.builds(BranchSwitch, old=identifiers(), new=identifiers()),
        st.builds(Rewind, left=identifiers()),
        st.builds(ModelChange, old=texts(), new=identifiers()),
        st.builds(Label, target=identifiers(), text=identifiers()),
        st.builds(Compaction, through=identifiers(), summary=identifiers()),
        st.builds(Clear),
    )


@named_strategy
def approvals() -> SearchStrategy[Approval]:
    """Draw approvals that are pending, or decided by a user or by a rule."""
    decided = st.sampled_from((ApprovalStatus.APPROVED, ApprovalStatus.DENIED))
    common: dict[str, SearchStrategy[Any]] = {
        "call_id": identifiers(),
        "arguments_sha256": digests(),
        "reason": st.none() | texts(),
    }
    return st.one_of(
        st.builds(Approval, **common, status=st.just(ApprovalStatus.PENDING)),
        st.builds(Approval, **common, status=decided, actor=texts(), rule=st.none() | texts()),
        st.builds(Approval, **common, status=decided, rule=texts()),
    )


@named_strategy
def resolutions() -> SearchStrategy[Resolution]:
    """Draw resolutions of references that are resolved, failed or pending."""
    block = st.one_of(text_blocks(), images(), resources(), opaque_blocks())
    common: dict[str, SearchStrategy[Any]] = {
        "target": identifiers(),
        "block": st.integers(0, 2**70),
        "details": st.none() | json_objects(),
    }
    return st.one_of(
        st.builds(Resolution, **common, status=st.just(ResolutionStatus.PENDING)),
        st.builds(Resolution, **common, status=st.just(ResolutionStatus.FAILED), error=texts()),
        st.builds(
            Resolution,
            **common,
            status=st.just(ResolutionStatus.RESOLVED),
            content=st.lists(block, min_size=1, max_size=3).map(tuple),
        ),
    )


@named_strategy
def payloads() -> SearchStrategy[Payload]:
    """Draw payloads of every kind, including unknown kinds."""
    return st.one_of(
        messages(),
        controls(),
        approvals(),
        resolutions(),
        st.builds(
            ImageAnalysis,
            target=identifiers(),
            block=st.integers(0, 2**70),
            answer=identifiers(),
        ),
        st.builds(Feedback, target=identifiers(), text=identifiers()),
        st.builds(
            Repair, code=identifiers(), explanation=identifiers(), target=st.none() | texts()
        ),
        st.builds(
            ShellCommand, command=texts(), output=texts(), status=st.none() | st.integers(0, 255)
        ),
        st.builds(GrantRevoked, grant=identifiers(), target=identifiers()),
        st.builds(
            Redacted,
            kind=identifiers(),
            sha256=digests(),
            audit_sha256=st.none() | digests(),
            unknown_sha256=st.none() | digests(),
        ),
        st.builds(Redaction, target=identifiers(), actor=identifiers(), reason=identifiers()),
        opaque_blocks(),
    )


@named_strategy
def entries() -> SearchStrategy[Entry]:
    """Draw single entries of a log, with any payload."""
    return st.builds(
        Entry,
        id=identifiers(),
        parent=st.none() | identifiers(),
        time=st.none() | moments(),
        payload=payloads(),
        decision=st.none() | texts(),
        audit=st.none() | json_objects(),
    )


@named_strategy
def documents() -> SearchStrategy[Document]:
    """Draw documents in which the parent of each entry is the previous entry."""
    return st.builds(
        Document,
        id=st.none() | texts(),
        created_at=st.none() | moments(),
        updated_at=st.none() | moments(),
        entries=st.lists(entries(), max_size=4, unique_by=lambda entry: entry.id).map(_chain),
    )


def _chain(entries: list[Entry]) -> tuple[Entry, ...]:
    later = (replace(own, parent=before.id) for before, own in pairwise(entries))
    return (*entries[:1], *later)
