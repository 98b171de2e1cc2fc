"""Writes the events of a session line by line, and a recap of its last exchanges.

A listener of a screen reader cannot look back: each event is written once, when it is known, with
its heading.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, dropwhile
from typing import Final, final

from steno.agent.events import (
    CallEnded,
    CallOutput,
    CallStarted,
    EntryRecorded,
    RunEnded,
    TurnStarted,
)
from steno.agent.session_events import (
    InputReturned,
    SessionEvent,
    ShellEnded,
    ShellOutput,
    ShellStarted,
)
from steno.bounded_text import BoundedText, truncate_lines
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall, original_tool_name
from steno.messages.content import Text
from steno.messages.event import TextDelta, ThinkingDelta
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.messages.outcome import Outcome
from steno.records.entry import Compaction, Entry
from steno.render.describe import Headline, describe_exit, describe_result, summarize_arguments
from steno.render.items import ItemKind, TextForm, TranscriptItem
from steno.render.quantities import format_count
from steno.render.session_items import (
    EventDescriber,
    describe_run_usage,
    item_from_prompt,
    queued_prompt_item,
)
from steno.render.terminal_text import terminal_line
from steno.ui.help_text import HINT_TEXTS
from steno.ui.plain.line_writer import LineWriter, omission_line

_FIRST_LINES: Final = 10
_LAST_LINES: Final = 10
_MAX_DIFF_LINES: Final = 60
_MAX_FAILURE_LINES: Final = 10
_RECAP_EXCHANGES: Final = 3
_MAX_RECAP_LINES: Final = 20
_HEADINGS: Final = {
    ItemKind.USER: "You",
    ItemKind.ANSWER: "Answer",
    ItemKind.SHELL: "Shell",
    ItemKind.NOTICE: "Notice",
    ItemKind.ERROR: "Trouble",
    ItemKind.MARKER: "Notice",
}


class _StreamedLines:
    """Splits chunks into lines; the cost per chunk does not depend on the length of the line."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._partial: list[str] = []

    def feed(self, chunk: str) -> None:
        """Add the lines that are complete now."""
        first, *rest = chunk.split("\n")
        self._partial.append(first)
        if rest:
            complete = ["".join(self._partial), *rest[:-1]]
            self._partial = [rest[-1]]
            self._add([line.removesuffix("\r") for line in complete])

    def end(self) -> None:
        """Add the line that was never ended, if there is one."""
        if unfinished := "".join(self._partial):
            self._partial = []
            self._add([unfinished])

    def _add(self, lines: list[str]) -> None:
        raise NotImplementedError


@final
class StreamedText(_StreamedLines):
    """The streamed text of a model or a shell command, under one heading."""

    def __init__(self, writer: LineWriter, heading: str) -> None:
        super().__init__(writer)
        self._heading: str | None = heading
        """None once it is written."""

    def _add(self, lines: list[str]) -> None:
        if self._heading is not None:
            lines = list(dropwhile(lambda line: not line.strip(), lines))
            if not lines:
                return
            self._writer.begin(self._heading, lines.pop(0))
            self._heading = None
        self._writer.write_lines(lines)


@final
class StreamedOutput(_StreamedLines):
    """The streamed output of a tool: the first lines as they arrive, the last ones at the end."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__(writer)
        self._lines = BoundedText[list[str]](
            lambda pieces: [*chain.from_iterable(pieces)],
            max_head=_FIRST_LINES,
            max_tail=_LAST_LINES,
        )

    def end(self) -> None:
        """Write the number of omitted lines, and the last lines."""
        super().end()
        _, omitted, last = self._lines.ends()
        self._writer.write_lines([omission_line(omitted), *last] if omitted else last)

    def _add(self, lines: list[str]) -> None:
        self._writer.write_lines(lines[: max(0, _FIRST_LINES - self._lines.total)])
        self._lines.add(lines)


def write_call(writer: LineWriter, call: AnyToolCall, headline: Headline) -> None:
    """Write the tool and the main argument of a call."""
    name = terminal_line(original_tool_name(call))
    writer.write(f"Tool {name}", summarize_arguments(call, headline))


def write_result(writer: LineWriter, result: ToolResultMessage) -> None:
    """Write the result of a call: the number of lines, the change, or the failure."""
    summary, lines = describe_result(result)
    writer.write("Result", summary)
    if result.outcome is Outcome.OK:
        writer.quote(_shorten(lines, _MAX_DIFF_LINES))
    else:
        writer.write_lines(_shorten(lines, _MAX_FAILURE_LINES))


def write_recap(writer: LineWriter, entries: Sequence[Entry], headline: Headline) -> None:
    """Write the last exchanges, and the number of entries before them."""
    prompt_indexes = [
        index for index, entry in enumerate(entries) if isinstance(entry.message, UserMessage)
    ]
    start = prompt_indexes[-_RECAP_EXCHANGES] if len(prompt_indexes) >= _RECAP_EXCHANGES else 0
    if start:
        writer.write(
            "Notice", f"{format_count(start, 'earlier entry', 'earlier entries')}; /tree shows all"
        )
    for entry in entries[start:]:
        _write_entry(writer, entry, headline)


def _write_entry(writer: LineWriter, entry: Entry, headline: Headline) -> None:
    payload = entry.message or entry.payload
    match payload:
        case UserMessage():
            item = item_from_prompt(entry, payload)
            text = "\n".join(filter(None, [item.head, item.body]))
            _write_shortened(writer, _HEADINGS[item.kind], text)
        case AssistantMessage():
            for block in payload.content:
                if isinstance(block, Text) and block.text.strip():
                    _write_shortened(writer, "Answer", block.text)
                elif isinstance(block, ToolCall | InvalidToolCall):
                    write_call(writer, block, headline)
        case ToolResultMessage():
            write_result(writer, payload)
        case _:
            pass


def _write_shortened(writer: LineWriter, heading: str, text: str) -> None:
    lines = text.strip("\n").split("\n")
    writer.write(heading, "\n".join(_shorten(lines, _MAX_RECAP_LINES)))


def _shorten(lines: Sequence[str], max_lines: int) -> list[str]:
    return truncate_lines(lines, max_lines=max_lines, note=omission_line)


@final
class EventWriter:
    """Writes the events of a session."""

    def __init__(self, writer: LineWriter, headline: Headline, *, is_verbose: bool = False) -> None:
        """Take whether thinking is written in full, or only its length."""
        self._writer = writer
        self._headline = headline
        self._is_verbose = is_verbose
        self._streamed_text: tuple[ItemKind, int, StreamedText] | None = None
        self._thinking: list[str] = []
        self._has_streamed_answer = False
        """Whether text of the current answer was written as it arrived."""
        self._running: dict[str, tuple[AnyToolCall, StreamedOutput]] = {}
        self._last_output_call: str | None = None
        """The call whose output was written last."""
        self._shell: StreamedText | None = None
        self._queued: list[str] = []
        self._describer = EventDescriber(headline)

    def write_event(self, event: SessionEvent) -> None:
        """Write an event."""
        match event:
            case TextDelta(index, text):
                self._write_delta(ItemKind.ANSWER, index, text)
            case ThinkingDelta(index, text) if self._is_verbose:
                self._write_delta(ItemKind.THINKING, index, text)
            case ThinkingDelta(_, text):
                self._thinking.append(text)
            case EntryRecorded():
                self._on_recorded(event)
            case TurnStarted():
                self._end_text()
                self._has_streamed_answer = False
            case CallStarted(call):
                self._end_text()
                self._running[call.id] = (call, StreamedOutput(self._writer))
                self._last_output_call = call.id
                write_call(self._writer, call, self._headline)
            case CallOutput(call_id, text) if call_id in self._running:
                call, output = self._running[call_id]
                if self._last_output_call != call_id:
                    self._writer.write("Output", f"of {terminal_line(call.name)}")
                    self._last_output_call = call_id
                output.feed(text)
            case CallEnded(call, result):
                self._on_call_ended(call, result)
            case RunEnded():
                self._on_run_ended(event)
            case InputReturned():
                self._end_text()
                for item in self._describer.describe_event(event):
                    if item.body in self._queued:
                        self._queued.remove(item.body)
                    self._writer.write(item.head.capitalize(), item.body)
            case ShellStarted(command):
                self._end_text()
                self._writer.write("Shell", terminal_line(command))
                self._shell = StreamedText(self._writer, "Output")
            case ShellOutput(text) if self._shell is not None:
                self._shell.feed(text)
            case ShellEnded(status) if self._shell is not None:
                self._shell.end()
                self._shell = None
                self._writer.write("Shell", describe_exit(status))
            case _:
                for item in self._describer.describe_event(event):
                    self._write_item(item)

    def note_queued(self, text: str) -> None:
        """Record that a prompt is queued, and write that."""
        self._queued.append(text)
        self._writer.write("Notice", queued_prompt_item(text, is_steering=True).head)

    # -- text -----------------------------------------------------------------------------

    def _write_delta(self, kind: ItemKind, index: int, text: str) -> None:
        if self._streamed_text is None or self._streamed_text[:2] != (kind, index):
            self._end_text()
            self._has_streamed_answer |= kind is ItemKind.ANSWER
            self._streamed_text = (kind, index, StreamedText(self._writer, kind.value.capitalize()))
        self._end_thinking()
        self._streamed_text[2].feed(text)

    def _end_text(self) -> None:
        self._end_thinking()
        if self._streamed_text is not None:
            self._streamed_text[2].end()
            self._streamed_text = None

    def _end_thinking(self) -> None:
        if self._thinking:
            word_count = len("".join(self._thinking).split())
            self._thinking.clear()
            self._writer.write("Thinking", format_count(word_count, "word", "words"))

    def _on_recorded(self, event: EntryRecorded) -> None:
        """Write the items of an entry; requested changes are reported by their command."""
        payload = event.entry.message or event.entry.payload
        if isinstance(payload, UserMessage) and payload.text in self._queued:
            self._queued.remove(payload.text)
            self._end_text()
            self._writer.write("Heard", terminal_line(payload.text))
        for item in self._describer.describe_event(event):
            match item.kind:
                case ItemKind.ANSWER if not (
                    self._has_streamed_answer and item.form is TextForm.MARKDOWN
                ):
                    self._write_item(item)
                case ItemKind.NOTICE | ItemKind.ERROR:
                    self._write_item(item)
                case ItemKind.MARKER if isinstance(payload, Compaction):
                    self._write_item(item)
                case _:
                    pass
        if isinstance(payload, AssistantMessage):
            self._end_text()
            self._has_streamed_answer = False

    def _write_item(self, item: TranscriptItem) -> None:
        self._end_text()
        self._writer.write(_HEADINGS[item.kind], f"{item.head or item.body}{HINT_TEXTS[item.hint]}")

    # -- calls ----------------------------------------------------------------------------

    def _on_call_ended(self, call: AnyToolCall, result: ToolResultMessage) -> None:
        self._end_text()
        running = self._running.pop(call.id, None)
        if running is None or self._last_output_call != call.id:
            write_call(self._writer, call, self._headline)
        if running is not None:
            running[1].end()
        write_result(self._writer, result)
        self._last_output_call = None

    def _on_run_ended(self, event: RunEnded) -> None:
        self._end_text()
        for _, output in self._running.values():
            output.end()
        self._running.clear()
        self._queued.clear()
        self._has_streamed_answer = False
        for item in self._describer.describe_event(event):
            self._write_item(item)
        self._writer.write("Done", describe_run_usage(event.result))
