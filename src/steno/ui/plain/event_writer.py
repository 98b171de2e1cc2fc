"""A writer for the events of a session, line by line, and for a recap of the last exchanges.

Each event or streamed line is written once, when it is complete, because a user of a screen reader
cannot glance back.
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
from steno.messages.call import AnyToolCall
from steno.messages.event import TextDelta, ThinkingDelta
from steno.messages.message import MessageRole
from steno.records.entry import Entry
from steno.render.describe import Headline
from steno.render.headed_text import (
    ITEM_HEADINGS,
    OUTPUT_HEADING,
    HeadedText,
    headed_call,
    headed_exit,
    headed_item,
    headed_output,
    headed_result,
    headed_run_end,
    headed_shell_command,
    headed_steering,
    headed_thinking,
    recap,
)
from steno.render.items import ItemKind, TextForm, TranscriptItem
from steno.render.session_items import EventDescriber, queued_prompt_item
from steno.ui.help_text import HINT_TEXTS
from steno.ui.plain.line_writer import LineWriter, omission_line

_FIRST_LINES: Final = 10
_LAST_LINES: Final = 10
_MAX_DIFF_LINES: Final = 60
_MAX_FAILURE_LINES: Final = 10
_MAX_RECAP_LINES: Final = 20


class _StreamedLines:
    """Splits chunks into lines; the cost per chunk does not grow with the length of the line."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._partial: list[str] = []

    def feed(self, chunk: str) -> None:
        """Add a chunk, and process the lines that it completes."""
        first, *rest = chunk.split("\n")
        self._partial.append(first)
        if rest:
            complete = ["".join(self._partial), *rest[:-1]]
            self._partial = [rest[-1]]
            self._add([line.removesuffix("\r") for line in complete])

    def end(self) -> None:
        """Process the unfinished line, if there is one."""
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
        """The heading; None once it is written."""

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
    """The streamed output of a tool.

    The first lines are written at once, and the last lines at the end.
    """

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


def write_headed(writer: LineWriter, headed: HeadedText) -> None:
    """Write a heading with its text and hint, then its lines.

    If there are many lines, some are omitted.
    """
    writer.write(headed.heading, f"{headed.text}{HINT_TEXTS[headed.hint]}")
    if headed.is_quoted:
        writer.quote(_shorten(headed.lines, _MAX_DIFF_LINES))
    else:
        writer.write_lines(_shorten(headed.lines, _MAX_FAILURE_LINES))


def write_recap(writer: LineWriter, entries: Sequence[Entry], headline: Headline) -> None:
    """Write the last exchanges, and the number of entries before them."""
    for headed in recap(entries, headline):
        lines = _shorten(headed.text.split("\n"), _MAX_RECAP_LINES)
        write_headed(writer, headed._replace(text="\n".join(lines)))


def _shorten(lines: Sequence[str], max_lines: int) -> list[str]:
    return truncate_lines(lines, max_lines=max_lines, note=omission_line)


@final
class EventWriter:
    """Writes the events of a session as lines with headings."""

    def __init__(self, writer: LineWriter, headline: Headline, *, is_verbose: bool = False) -> None:
        """Set the output.

        If `is_verbose` is true, thinking is written in full, otherwise only its number of words.
        """
        self._writer = writer
        self._headline = headline
        self._is_verbose = is_verbose
        self._streamed_text: tuple[ItemKind, int, StreamedText] | None = None
        self._thinking: list[str] = []
        self._has_streamed_answer = False
        """Whether text of the current response was written as it arrived."""
        self._running: dict[str, tuple[AnyToolCall, StreamedOutput]] = {}
        self._last_output_call: str | None = None
        """The ID of the call whose heading or output was written last; None if it has ended."""
        self._shell: StreamedText | None = None
        self._queued: list[str] = []
        self._describer = EventDescriber(headline)

    def write_event(self, event: SessionEvent) -> None:
        """Write an event; streamed text is written as soon as a line is complete."""
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
                self._write(headed_call(call, self._headline))
            case CallOutput(call_id, text) if call_id in self._running:
                call, output = self._running[call_id]
                if self._last_output_call != call_id:
                    self._write(headed_output(call))
                    self._last_output_call = call_id
                output.feed(text)
            case CallEnded():
                self._on_call_ended(event)
            case RunEnded():
                self._on_run_ended(event)
            case InputReturned():
                self._end_text()
                for item in self._describer.describe_event(event):
                    if item.body in self._queued:
                        self._queued.remove(item.body)
                    self._write(headed_item(item))
            case ShellStarted(command):
                self._end_text()
                self._write(headed_shell_command(command))
                self._shell = StreamedText(self._writer, OUTPUT_HEADING)
            case ShellOutput(text) if self._shell is not None:
                self._shell.feed(text)
            case ShellEnded(status) if self._shell is not None:
                self._shell.end()
                self._shell = None
                self._write(headed_exit(status))
            case _:
                for item in self._describer.describe_event(event):
                    self._write_item(item)

    def note_queued(self, text: str) -> None:
        """Record that a prompt is queued, and write a notice."""
        self._queued.append(text)
        notice = queued_prompt_item(text, is_steering=True).head
        self._write(HeadedText(ITEM_HEADINGS[ItemKind.NOTICE], notice))

    def _write(self, headed: HeadedText) -> None:
        write_headed(self._writer, headed)

    # -- text -----------------------------------------------------------------------------

    def _write_delta(self, kind: ItemKind, index: int, text: str) -> None:
        if self._streamed_text is None or self._streamed_text[:2] != (kind, index):
            self._end_text()
            self._has_streamed_answer |= kind is ItemKind.ANSWER
            self._streamed_text = (kind, index, StreamedText(self._writer, ITEM_HEADINGS[kind]))
        self._end_thinking()
        self._streamed_text[2].feed(text)

    def _end_text(self) -> None:
        self._end_thinking()
        if self._streamed_text is not None:
            self._streamed_text[2].end()
            self._streamed_text = None

    def _end_thinking(self) -> None:
        if self._thinking:
            self._write(headed_thinking("".join(self._thinking)))
            self._thinking.clear()

    def _on_recorded(self, event: EntryRecorded) -> None:
        """Write the items of a recorded entry, except those that were already written."""
        message = event.entry.message
        for item in self._describer.describe_event(event):
            match item.kind:
                case ItemKind.USER if message is not None and message.text in self._queued:
                    self._queued.remove(message.text)
                    self._end_text()
                    self._write(headed_steering(message.text))
                case ItemKind.ANSWER if not (
                    self._has_streamed_answer and item.form is TextForm.MARKDOWN
                ):
                    self._write_item(item)
                case ItemKind.NOTICE | ItemKind.ERROR:
                    self._write_item(item)
                case ItemKind.MARKER if item.form is TextForm.MARKDOWN:  # a summary
                    self._write_item(item)
                case _:
                    pass
        if message is not None and message.role is MessageRole.ASSISTANT:
            self._end_text()
            self._has_streamed_answer = False

    def _write_item(self, item: TranscriptItem) -> None:
        self._end_text()
        self._write(headed_item(item))

    # -- calls ----------------------------------------------------------------------------

    def _on_call_ended(self, event: CallEnded) -> None:
        call = event.call
        self._end_text()
        running = self._running.pop(call.id, None)
        if running is None or self._last_output_call != call.id:
            self._write(headed_call(call, self._headline))
        if running is not None:
            running[1].end()
        self._write(headed_result(event.result))
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
        self._write(headed_run_end(event.result))
