"""The offline assistant: it does what it is told, word for word, and is no language model.

    provider = OfflineProvider()

It works with nothing installed and nothing configured, and drives the same loop and the same
tools as a model does. All it knows is in the request: what the last user message asks for, what
is shown with it, and what became of the calls since. It obeys the words of the person and nothing
else. The same request has the same answer, to the last byte.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, Self, final

from steno.call import ToolCall
from steno.codec import encode_message
from steno.errors import InvalidRequest
from steno.event import Event, Finished, TextDelta, ToolCallBegin, ToolCallDelta, ToolCallEnd
from steno.json_object import JsonObject
from steno.message import AssistantMessage, Message, ToolResultMessage, UserMessage
from steno.outcome import Outcome
from steno.providers.models import Model
from steno.providers.offline_report import Done, report
from steno.providers.offline_shown import Heard, hear, list_shown, show_beginnings
from steno.providers.offline_steps import HELP, Spelling, Step, Understood, understand
from steno.providers.stream import SourceStream
from steno.providers.vendor import Capabilities
from steno.request import Request
from steno.schema.words import read_words
from steno.tool import ToolDefinition
from steno.usage import StopReason, Usage

MODEL: Final = "offline/assistant"
LABEL: Final = "[offline assistant, not a language model]"
_CONTEXT_TOKENS: Final = 1_000_000
"""It reads everything and is none the wiser for it; some number has to stand here."""
_PIECE: Final = re.compile(r"\S+\s*|\s+")
_NAMES: Final = {
    "path": ("path", "file_path", "filename", "file"),
    "pattern": ("pattern", "regex", "query"),
    "old": ("old", "old_text", "old_string", "search"),
    "new": ("new", "new_text", "new_string", "replace"),
    "content": ("content", "text"),
    "command": ("command", "cmd"),
    "offset": ("offset", "first_line", "start_line"),
    "limit": ("limit", "lines"),
    "replace_all": ("replace_all", "all"),
}
"""What tools call their arguments, by role; the first name that the definition has counts."""


@final
class OfflineProvider:
    """Answers requests by doing literally what the last user message says."""

    model: Final = MODEL

    def __repr__(self) -> str:
        return "OfflineProvider()"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def stream(self, request: Request) -> SourceStream:
        """Return the answer to a request, to be read word by word. Raises InvalidRequest."""
        if not isinstance(request, Request):
            kind = type(request).__name__
            raise InvalidRequest(f"stream: takes a Request(messages=(…,)), not {kind}")
        return SourceStream(_Speech(request))

    async def models(self) -> tuple[Model, ...]:
        """Return the one that there is."""
        return (await self.describe(),)

    async def describe(self) -> Model:
        """Return what there is to know about it."""
        return Model(
            id="assistant",
            title="Offline assistant (not a language model)",
            context_tokens=_CONTEXT_TOKENS,
            capabilities=Capabilities(tools=True, vision=False, thinking=False, strict=False),
            raw=JsonObject({"understands": HELP}),
        )


@final
class _Speech:
    """Tells one answer, an event at a time."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._events: Iterator[Event] | None = None

    async def read(self) -> Iterable[Event] | None:
        if self._events is None:
            self._events = _tell(_answer(self._request), self._request)
        await asyncio.sleep(0)  # so that whoever shows the words, or stops them, gets a turn
        event = next(self._events, None)
        return None if event is None else (event,)

    def redact(self, error: Exception) -> None:
        """Leave it: there is nothing secret."""

    def close(self) -> None:
        self._events = iter(())


class _Answer(NamedTuple):
    """What is said, and what is called for."""

    text: str
    calls: tuple[ToolCall, ...] = ()


def _tell(answer: _Answer, request: Request) -> Iterator[Event]:
    pieces = _PIECE.findall(answer.text)
    for piece in pieces:
        yield TextDelta(0, piece)
    for index, call in enumerate(answer.calls, start=1):
        yield ToolCallBegin(index, call.id, call.name)
        yield ToolCallDelta(index, arguments_delta=call.arguments)
        yield ToolCallEnd(index, call.id)
    # Whoever counts gets words, the only tokens that there are here.
    heard = sum([len((message.text or "").split()) for message in request.messages])
    said = len(pieces) + sum([len(call.arguments.split()) for call in answer.calls])
    reason = StopReason.TOOL_USE if answer.calls else StopReason.END_TURN
    yield Finished(reason, None, Usage(input_tokens=heard, output_tokens=said))


# -- what to do next -------------------------------------------------------------------------


class _Progress(NamedTuple):
    """How far the steps have come."""

    done: tuple[Done, ...]
    upcoming: tuple[int, ...] = ()
    """The steps whose turn it is; none if there is nothing left to do."""
    failed_at: int | None = None


def _answer(request: Request) -> _Answer:
    heard, since = _last_heard(request.messages)
    understood = understand(heard.text, is_shown=bool(heard.attachments))
    answer = _go_on(request, understood, since)
    if heard.attachments and not answer.calls:
        answer = _Answer(_with_shown(answer.text, heard, understood))
    if _has_said_so(request.messages, to_the_end=not answer.calls):
        return answer
    return answer._replace(text=f"{LABEL}\n\n{answer.text}")


def _go_on(request: Request, understood: Understood, since: Sequence[Message]) -> _Answer:
    """Return the next calls, or what there is to say if none is left."""
    if not understood.steps:
        return _Answer(_explain(understood))
    progress = _progress(understood.steps, _results(since))
    if progress.upcoming:
        return _call(request, [understood.steps[number] for number in progress.upcoming])
    return _Answer(report(understood.steps, progress.done, failed_at=progress.failed_at))


def _last_heard(messages: Sequence[Message]) -> tuple[Heard, Sequence[Message]]:
    """Return the last user message, and what came after it."""
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if isinstance(message, UserMessage):
            return hear(message), messages[position + 1 :]
    return Heard(), ()


def _with_shown(text: str, heard: Heard, understood: Understood) -> str:
    """Say what was shown, or how it begins where that is what was asked."""
    is_asked_about = understood.asks_about_attachments or not heard.text.strip()
    if understood.unparsed is not None or not is_asked_about:
        return f"{list_shown(heard.attachments)}\n\n{text}"
    beginnings = f"This is what I was shown, or how it begins.\n\n{show_beginnings(heard.attachments)}"
    return f"{beginnings}\n\n{text}" if understood.steps else beginnings


def _has_said_so(messages: Sequence[Message], *, to_the_end: bool) -> bool:
    """Tell whether it has introduced itself; a real model may have spoken before it.

    Of a turn many see only what was said at its end, so the first of these says it once more.
    """
    return any(
        (message.text or "").startswith(LABEL)
        for message in messages
        if isinstance(message, AssistantMessage) and not (to_the_end and message.tool_calls)
    )


def _explain(understood: Understood) -> str:
    if understood.unparsed is None:
        return HELP
    quoted = "\n".join([f"> {line}" for line in understood.unparsed.splitlines()[:5]])
    return f"I did nothing, because I do not understand this:\n\n{quoted}\n\n{HELP}"


def _results(since: Sequence[Message]) -> deque[ToolResultMessage]:
    """Return the results of our calls, in the order in which they were made."""
    found = {m.tool_call_id: m for m in since if isinstance(m, ToolResultMessage)}
    calls = [call for m in since if isinstance(m, AssistantMessage) for call in m.tool_calls]
    return deque([found[call.id] for call in calls if call.id in found])


def _progress(steps: Sequence[Step], results: deque[ToolResultMessage]) -> _Progress:
    """Go through the steps as far as there are results."""
    done: list[Done] = []
    failed: set[int] = set()
    expected = {step.only_if_failed for step in steps}
    for number, step in enumerate(steps):
        if step.only_if_failed is not None and step.only_if_failed not in failed:
            continue
        if not results:
            return _Progress(tuple(done), _together(steps, number, expected))
        result = results.popleft()
        done.append(Done(number, result))
        if result.outcome is not Outcome.OK:
            failed.add(number)
            if number not in expected:
                return _Progress(tuple(done), failed_at=number)
    return _Progress(tuple(done))


def _together(steps: Sequence[Step], start: int, expected: set[int | None]) -> tuple[int, ...]:
    """Return the steps that can be done at once: readers, whose results no other one waits for."""
    end = start + 1
    while (
        steps[start].is_reader
        and end < len(steps)
        and steps[end].is_reader
        and steps[end].only_if_failed == steps[start].only_if_failed
        and not expected & {end - 1, end}
    ):
        end += 1
    return tuple(range(start, end))


# -- calls -----------------------------------------------------------------------------------


def _call(request: Request, steps: Sequence[Step]) -> _Answer:
    tools = {tool.name: tool for tool in request.tools}
    arguments: list[dict[str, Any]] = []
    for step in steps:
        fitting = _fit(step, tools)
        if isinstance(fitting, str):
            return _Answer(f"I cannot {step.description}: {fitting}.")
        arguments.append(fitting)
    digest = _digest(request.messages)
    calls = [
        ToolCall(
            id=f"offline_{digest}_{number}",
            name=step.tool,
            arguments=json.dumps(fitting, ensure_ascii=False),
        )
        for number, (step, fitting) in enumerate(zip(steps, arguments, strict=True))
    ]
    doing = ", and ".join([step.description for step in steps])
    return _Answer(f"I {doing}.", tuple(calls))


def _fit(step: Step, tools: Mapping[str, ToolDefinition]) -> dict[str, Any] | str:
    """Return the arguments under the names that the tool has for them, or why there are none."""
    tool = tools.get(step.tool)
    if tool is None:
        return f"there is no tool `{step.tool}` here{_others(step, tools)}"
    match step.argument_format:
        case Spelling.ROLES:
            return _by_role(step, tool)
        case Spelling.JSON:
            return {**step.arguments}
        case Spelling.WORDS:
            return read_words(step.arguments, tool.parameters)


def _others(step: Step, tools: Iterable[str]) -> str:
    """Return which tools there are, where somebody has named one that there is not."""
    if step.argument_format is Spelling.ROLES:
        return ""
    names = get_close_matches(step.tool, tools, n=3) or sorted(tools)
    return f"; there is {', '.join([f'`{name}`' for name in names]) or 'none'}"


def _by_role(step: Step, tool: ToolDefinition) -> dict[str, Any] | str:
    known = tool.parameters.get("properties", {})
    fitting: dict[str, Any] = {}
    for role, value in step.arguments.items():
        name = next((name for name in _NAMES[role] if name in known), None)
        if name is None:
            return f"the tool `{step.tool}` takes no {role}"
        fitting[name] = value
    missing = [name for name in tool.parameters.get("required", ()) if name not in fitting]
    if missing:
        return f"the tool `{step.tool}` wants more than I can say: {', '.join(missing)}"
    return fitting


def _digest(messages: Sequence[Message]) -> str:
    """Return what no other state of the conversation has, so that no two calls share an id."""
    state = hashlib.sha256()
    for message in messages:
        state.update(encode_message(message))
    return state.hexdigest()[:12]
