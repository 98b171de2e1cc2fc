"""The offline assistant: it runs commands literally and is not a language model.

    provider = OfflineProvider()

It needs no installation and no configuration, and uses the same agent loop and tools as a model.
Its response depends only on the request: on the commands of the last user message, its attachments,
and the tool results since. It takes commands only from the text of the user. The same request
always has the same response, byte for byte.
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

from steno.codec import encode_message
from steno.context.notes import ATTACHMENT_START
from steno.json_object import JsonObject
from steno.messages.call import ToolCall
from steno.messages.content import Image, Text
from steno.messages.event import (
    Event,
    Finished,
    TextDelta,
    ToolCallBegin,
    ToolCallDelta,
    ToolCallEnd,
)
from steno.messages.framed_text import read_frame
from steno.messages.message import AssistantMessage, Message, ToolResultMessage, UserMessage
from steno.messages.outcome import Outcome
from steno.messages.request import Request
from steno.messages.tool import ToolDefinition
from steno.messages.usage import StopReason, Usage
from steno.providers.models import Model
from steno.providers.offline_commands import HELP, OfflineStep, ParsedRequest, parse_request
from steno.providers.stream import SourceStream, check_request
from steno.providers.vendor import Capabilities
from steno.schema.convert import parse_text_arguments

MODEL_NAME: Final = "offline/assistant"
LABEL: Final = "[offline assistant, not a language model]"
_CONTEXT_TOKENS: Final = 1_000_000
"""The context window that is reported to callers; the assistant itself has no limit."""
_WORD_AND_SPACE: Final = re.compile(r"\S+\s*|\s+")
_ARGUMENT_NAMES: Final = {
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
"""The names of arguments by role; the first name that the tool definition has is used."""
_MAX_TITLE_LENGTH: Final = 200
_MAX_EXCERPT_LINES: Final = 20
_MAX_LINE_LENGTH: Final = 200
_MAX_TITLES: Final = 10
_MAX_OUTPUT_LINES: Final = 40
_FAILURE_TEXTS: Final = {
    Outcome.ERROR: "failed",
    Outcome.DENIED: "denied",
    Outcome.SKIPPED: "skipped",
    Outcome.TIMEOUT: "timed out",
    Outcome.CANCELLED: "cancelled",
    Outcome.UNAVAILABLE: "the tool is unavailable",
}


@final
class OfflineProvider:
    """A provider that runs the commands of the last user message literally."""

    model: Final = MODEL_NAME

    def __repr__(self) -> str:
        return "OfflineProvider()"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Do nothing: the assistant has no resources."""

    def stream(self, request: Request) -> SourceStream:
        """Return the response to a request, as a stream of words.

        Raises InvalidRequest if `request` is not a Request.
        """
        check_request(request)
        return SourceStream(_AnswerSource(request))

    async def models(self) -> tuple[Model, ...]:
        """Return the only model, which is the assistant itself."""
        return (await self.describe(),)

    async def describe(self) -> Model:
        """Return the description of the assistant as a model."""
        return Model(
            id="assistant",
            title="Offline assistant (not a language model)",
            context_tokens=_CONTEXT_TOKENS,
            capabilities=Capabilities(tools=True, vision=False, thinking=False, strict=False),
            raw=JsonObject({"understands": HELP}),
        )


@final
class _AnswerSource:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._events: Iterator[Event] | None = None

    async def read(self) -> Iterable[Event] | None:
        if self._events is None:
            self._events = _build_events(_build_answer(self._request), self._request)
        await asyncio.sleep(0)  # let the tasks that show or stop the response run
        event = next(self._events, None)
        return None if event is None else (event,)

    def redact(self, error: Exception) -> None:
        """Do nothing: the assistant has no secrets."""

    def close(self) -> None:
        self._events = iter(())


class _OfflineAnswer(NamedTuple):
    text: str
    calls: tuple[ToolCall, ...] = ()


def _build_events(answer: _OfflineAnswer, request: Request) -> Iterator[Event]:
    pieces = _WORD_AND_SPACE.findall(answer.text)
    for piece in pieces:
        yield TextDelta(0, piece)
    for index, call in enumerate(answer.calls, start=1):
        yield ToolCallBegin(index, call.id, call.name)
        yield ToolCallDelta(index, arguments_delta=call.arguments)
        yield ToolCallEnd(index, call.id)
    # Usage is counted in words.
    read = sum([len((message.text or "").split()) for message in request.messages])
    written = len(pieces) + sum([len(call.arguments.split()) for call in answer.calls])
    reason = StopReason.TOOL_USE if answer.calls else StopReason.END_TURN
    yield Finished(reason, None, Usage(input_tokens=read, output_tokens=written))


# -- the next step -------------------------------------------------------------------------------


class _Progress(NamedTuple):
    done: tuple[tuple[int, ToolResultMessage], ...]
    """The number and the result of each step that was run."""
    upcoming: tuple[int, ...] = ()
    """The numbers of the steps to run next; empty at the end."""
    failed_at: int | None = None


def _build_answer(request: Request) -> _OfflineAnswer:
    prompt, since = _find_last_prompt(request.messages)
    parsed = parse_request(prompt.text, has_attachments=bool(prompt.attachments))
    if parsed.steps:
        progress = _find_progress(parsed.steps, _order_results(since))
        answer = (
            _build_calls(request, [parsed.steps[number] for number in progress.upcoming])
            if progress.upcoming
            else _OfflineAnswer(_build_report(parsed.steps, progress))
        )
    elif parsed.unparsed is None:
        answer = _OfflineAnswer(HELP)
    else:
        quoted = "\n".join([f"> {line}" for line in parsed.unparsed.splitlines()[:5]])
        reason = "I did nothing, because I do not understand this:"
        answer = _OfflineAnswer(f"{reason}\n\n{quoted}\n\n{HELP}")
    if prompt.attachments and not answer.calls:
        answer = _OfflineAnswer(_add_attachments(answer.text, prompt, parsed))
    # Many users see only the last response of a run, so the first response without calls repeats
    # the label.
    has_shown_label = any(
        (message.text or "").startswith(LABEL)
        for message in request.messages
        if isinstance(message, AssistantMessage) and (answer.calls or not message.tool_calls)
    )
    return answer if has_shown_label else answer._replace(text=f"{LABEL}\n\n{answer.text}")


def _find_last_prompt(messages: Sequence[Message]) -> tuple[_OfflinePrompt, Sequence[Message]]:
    """Return the last user message and the messages after it; both empty without a user message."""
    for count, message in enumerate(reversed(messages)):
        if isinstance(message, UserMessage):
            return _read_prompt(message), messages[len(messages) - count :]
    return _OfflinePrompt(), ()


def _order_results(since: Sequence[Message]) -> deque[ToolResultMessage]:
    """Return the tool results in the order of their calls."""
    found = {m.tool_call_id: m for m in since if isinstance(m, ToolResultMessage)}
    calls = [call for m in since if isinstance(m, AssistantMessage) for call in m.tool_calls]
    return deque([found[call.id] for call in calls if call.id in found])


def _find_progress(steps: Sequence[OfflineStep], results: deque[ToolResultMessage]) -> _Progress:
    """Assign the results to the steps, and find the steps to run next."""
    done: list[tuple[int, ToolResultMessage]] = []
    failed: set[int] = set()
    expected = {step.only_if_failed for step in steps}
    for number, step in enumerate(steps):
        if step.only_if_failed is not None and step.only_if_failed not in failed:
            continue
        if not results:
            return _Progress(tuple(done), _find_batch(steps, number, expected))
        result = results.popleft()
        done.append((number, result))
        if result.outcome is not Outcome.OK:
            failed.add(number)
            if number not in expected:
                return _Progress(tuple(done), failed_at=number)
    return _Progress(tuple(done))


def _find_batch(
    steps: Sequence[OfflineStep], start: int, expected: set[int | None]
) -> tuple[int, ...]:
    """Return the numbers of the steps to run next: one step, or consecutive steps that only read.

    Several steps run together only if no other step depends on the failure of one of them.
    """
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


# -- calls ---------------------------------------------------------------------------------------


def _build_calls(request: Request, steps: Sequence[OfflineStep]) -> _OfflineAnswer:
    tools = {tool.name: tool for tool in request.tools}
    arguments: list[dict[str, Any]] = []
    for step in steps:
        fitting = _build_arguments(step, tools)
        if isinstance(fitting, str):
            return _OfflineAnswer(f"I cannot {step.description}: {fitting}.")
        arguments.append(fitting)
    state = hashlib.sha256()  # of the conversation, so that ids are unique and reproducible
    for message in request.messages:
        state.update(encode_message(message))
    digest = state.hexdigest()[:12]
    calls = [
        ToolCall(
            id=f"offline_{digest}_{number}",
            name=step.tool,
            arguments=json.dumps(fitting, ensure_ascii=False),
        )
        for number, (step, fitting) in enumerate(zip(steps, arguments, strict=True))
    ]
    doing = ", and ".join([step.description for step in steps])
    return _OfflineAnswer(f"I {doing}.", tuple(calls))


def _build_arguments(
    step: OfflineStep, tools: Mapping[str, ToolDefinition]
) -> dict[str, Any] | str:
    """Return the arguments with the names that the tool uses, or the reason for a refusal."""
    tool = tools.get(step.tool)
    if tool is None:
        reason = f"the tool `{step.tool}` is not available"
        if step.argument_format == "roles":
            return reason
        # The user wrote the name, perhaps with a typing error.
        names = get_close_matches(step.tool, tools, n=3) or sorted(tools)
        return f"{reason}; available: {', '.join([f'`{name}`' for name in names]) or 'none'}"
    match step.argument_format:
        case "roles":
            return _build_arguments_by_role(step, tool)
        case "json":
            return {**step.arguments}
        case "words":
            return parse_text_arguments(step.arguments, tool.parameters)


def _build_arguments_by_role(step: OfflineStep, tool: ToolDefinition) -> dict[str, Any] | str:
    known = tool.parameters.get("properties", {})
    fitting: dict[str, Any] = {}
    for role, value in step.arguments.items():
        name = next((name for name in _ARGUMENT_NAMES[role] if name in known), None)
        if name is None:
            return f"the tool `{step.tool}` has no argument for the {role}"
        fitting[name] = value
    missing = [name for name in tool.parameters.get("required", ()) if name not in fitting]
    if missing:
        return f"the tool `{step.tool}` requires further arguments: {', '.join(missing)}"
    return fitting


# -- attachments -----------------------------------------------------------------------------------


class _Attachment(NamedTuple):
    title: str
    """The first line of the attachment: `src/main.py, lines 1 to 6 of 6`."""
    lines: tuple[str, ...] = ()


class _OfflinePrompt(NamedTuple):
    text: str = ""
    attachments: tuple[_Attachment, ...] = ()


def _read_prompt(message: UserMessage) -> _OfflinePrompt:
    """Separate the text of the user from the attachments.

    A message begins with the text of the user, if there is any. Attachments, such as files, the
    text of images and resources of MCP servers, are separate blocks after it. Commands in an
    attachment are never run.
    """
    blocks: Sequence[object] = message.content
    text = ""
    if blocks and isinstance(blocks[0], Text) and not ATTACHMENT_START.match(blocks[0].text):
        text, blocks = blocks[0].text, blocks[1:]
    attachments: list[_Attachment] = []
    for block in blocks:
        if isinstance(block, Text):
            attachments.append(_read_attachment(block.text))
        elif isinstance(block, Image):
            attachments.append(_Attachment("an image, which I cannot read"))
    return _OfflinePrompt(text, tuple(attachments))


def _read_attachment(text: str) -> _Attachment:
    frame = read_frame(text.strip("\n"))
    if frame is not None:
        return _Attachment(frame.label[:_MAX_TITLE_LENGTH], tuple(frame.text.splitlines()))
    title, *lines = text.strip("\n").splitlines() or [""]
    if title.startswith("["):  # a note instead of an attachment
        title = title[1:].removesuffix("]")
    return _Attachment(title.removesuffix(":")[:_MAX_TITLE_LENGTH], tuple(lines))


def _add_attachments(text: str, prompt: _OfflinePrompt, parsed: ParsedRequest) -> str:
    """Return an answer that begins with the titles or the first lines of the attachments.

    The first lines are shown if the prompt is empty or asks about the attachments, and the text
    then follows only if the prompt also has commands. Otherwise, the text follows the titles.
    """
    shown = prompt.attachments[:_MAX_TITLES]
    more = len(prompt.attachments) - len(shown)
    is_asked_about = parsed.asks_about_attachments or not prompt.text.strip()
    if parsed.unparsed is not None or not is_asked_about:
        titles = "; ".join([one.title for one in shown])
        return f"Attachments: {titles}{f'; and {more:,} more' if more else ''}.\n\n{text}"
    parts = ["The attachments, or their first lines:"]
    for one in shown:
        if one.lines:
            excerpt = _shorten(one.lines, _MAX_EXCERPT_LINES, "… {:,} more lines")
            parts += [f"{one.title}:", _fence_lines(excerpt)]
        else:
            parts.append(one.title)
    parts += [f"… and {more:,} more"] if more else []
    parts += [text] if parsed.steps else []
    return "\n\n".join(parts)


def _shorten(
    lines: Sequence[str], maximum: int, note: str, *, from_the_end: bool = False
) -> Sequence[str]:
    """Return the first or last lines, and a note with the number of omitted lines."""
    left = len(lines) - maximum
    if left <= 0:
        return lines
    noted = note.format(left)
    return [noted, *lines[-maximum:]] if from_the_end else [*lines[:maximum], noted]


def _fence_lines(lines: Sequence[str]) -> str:
    """Return lines in a code block whose fence does not occur in them. Long lines are truncated."""
    shown = [line[:_MAX_LINE_LENGTH] for line in lines]
    backticks = [len(run) for line in shown for run in re.findall("`+", line)]
    fence = "`" * max(3, 1 + max(backticks, default=0))
    return "\n".join([fence, *shown, fence])


# -- the report at the end -------------------------------------------------------------------------


def _build_report(steps: Sequence[OfflineStep], progress: _Progress) -> str:
    """Return the report about the steps, of which at least one was run."""
    done = progress.done
    lines = [f"- {steps[number].description}: {_summarize(result)}" for number, result in done]
    number, last = done[-1]
    parts = ["\n".join(lines) if len(lines) > 1 else lines[0].removeprefix("- ")]
    if output := last.text.splitlines():
        is_command = steps[number].tool == "bash"
        note = "… {} earlier lines" if is_command else "… {} more lines"
        shown = _shorten(output, _MAX_OUTPUT_LINES, note, from_the_end=is_command)
        parts.append(_fence_lines(shown))
    if progress.failed_at is not None:
        left = [s.description for s in steps[progress.failed_at + 1 :] if s.only_if_failed is None]
        parts.append("I stopped there." + "".join([f"\n- not done: {doing}" for doing in left]))
    return "\n\n".join(parts)


def _summarize(result: ToolResultMessage) -> str:
    if result.outcome is not Outcome.OK:
        return _FAILURE_TEXTS.get(result.outcome, "failed")
    count = len(result.text.splitlines())
    return f"done, {count} line{'' if count == 1 else 's'} of output" if count else "done"
