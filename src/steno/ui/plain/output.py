"""Output line by line: replies, tables, and the events of a session.

A listener of a screen reader cannot look back: each thing is written once, when it is known, with
its heading.
"""

from __future__ import annotations

import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, TextIO, final

from steno.agent.events import (
    CallEnded,
    CallOutput,
    CallStarted,
    EndReason,
    EntryRecorded,
    Notice,
    RunEnded,
    RunResult,
    TurnStarted,
)
from steno.app.session import (
    ErrorRaised,
    InputReturned,
    PromptInput,
    SessionEvent,
    ShellEnded,
    ShellOutput,
    ShellStarted,
)
from steno.errors import Unresolved
from steno.messages.call import AnyToolCall, InvalidToolCall, ToolCall
from steno.messages.content import Text
from steno.messages.event import TextDelta, ThinkingDelta
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.messages.outcome import Outcome
from steno.records.entry import Compaction, Entry, Resolution
from steno.render.describe import summarize_call
from steno.render.items import ItemKind, TextForm
from steno.render.items_from_entries import (
    INTERRUPTED_NOTICE,
    RETRY_HINT,
    ending_reason,
    item_from_prompt,
    items_from_answer,
    marker_from_entry,
    reference_label,
)
from steno.render.quantities import format_count, format_dollars
from steno.render.terminal_text import display_width, terminal_line, terminal_text

_BETWEEN_CELLS: Final = re.compile(r"(?<!\\)\|")
_RULE: Final = re.compile(r":?-+:?")
_CODE: Final = re.compile(r"(`+) ?(.+?) ?\1")
_ESCAPED: Final = re.compile(r"\\([^\w\s])|(?<!`)(`+)(?!`).+?(?<!`)\2(?!`)")
"""An escaped sign, or code, in which a backslash is a character."""
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_GAP: Final = "  "
_INDENT: Final = "  "
_BAR: Final = "│ "
_BOLD: Final = "\x1b[1m"
_RESET: Final = "\x1b[0m"
_DUMB_TERMINALS: Final = ("", "dumb", "unknown")
_MIN_WIDTH: Final = 20
_FIRST_LINES: Final = 10
_LAST_LINES: Final = 10
_MAX_DIFF_LINES: Final = 60
_MAX_FAILURE_LINES: Final = 10
_RECAP_EXCHANGES: Final = 3
_MAX_RECAP_LINES: Final = 20
_HEADINGS: Final = {ItemKind.ERROR: "Trouble", ItemKind.NOTICE: "Notice", ItemKind.MARKER: "Notice"}


def markdown_to_lines(text: str) -> str:
    """Return Markdown with its tables as columns, and nothing escaped any more."""
    lines: list[str] = []
    for is_table, group in groupby(text.split("\n"), _is_row):
        found = list(group)
        lines += (
            _align_rows([_split_cells(line) for line in found])
            if is_table
            else _unescape_lines(found)
        )
    return "\n".join(lines)


def _unescape_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without escapes; in fenced code every backslash is a character."""
    is_code = False
    for line in lines:
        is_fence = _FENCE.match(line) is not None
        yield line if is_code or is_fence else _unescape_text(line)
        is_code ^= is_fence


def _unescape_text(text: str) -> str:
    """Return the text of a line without Markdown escapes."""
    return _ESCAPED.sub(lambda found: found[1] or found[0], text)


def _is_row(line: str) -> bool:
    return line.startswith("| ") and line.endswith(" |")


def _split_cells(line: str) -> list[str]:
    return [_cell_text(cell.strip()) for cell in _BETWEEN_CELLS.split(line[1:-1])]


def _cell_text(cell: str) -> str:
    """Return the text of a cell; its bars are escaped once more."""
    cell = cell.replace("\\|", "|")
    code = _CODE.fullmatch(cell)
    return code[2] if code is not None else _unescape_text(cell)


def _align_rows(rows: Sequence[list[str]]) -> list[str]:
    """Return rows below each other, numbers to the right; the rule below the head is no row."""
    count = max(map(len, rows))
    rule = next((row for row in rows if all(map(_RULE.fullmatch, row))), [])
    shown = [row + [""] * (count - len(row)) for row in rows if row is not rule]
    widths = [max([display_width(row[at]) for row in shown], default=0) for at in range(count)]
    are_numbers = [at < len(rule) and rule[at].endswith(":") for at in range(count)]
    return [_GAP.join(_pad_row(row, widths, are_numbers)).rstrip() for row in shown]


def _pad_row(
    row: Sequence[str], widths: Sequence[int], are_numbers: Sequence[bool]
) -> Iterator[str]:
    for cell, width, is_number in zip(row, widths, are_numbers, strict=True):
        blanks = " " * (width - display_width(cell))
        yield f"{blanks}{cell}" if is_number else f"{cell}{blanks}"


def supports_styles(out: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether the terminal shows bold text and the user has not switched it off."""
    is_able = environ.get("TERM", "") not in _DUMB_TERMINALS and out.isatty()
    return is_able and not environ.get("NO_COLOR")


@final
class LineWriter:
    """Writes lines to a terminal or a pipe, and makes all text printable."""

    def __init__(self, out: TextIO, environ: Mapping[str, str]) -> None:
        """Take the stream, and the environment."""
        self._out = out
        self._is_styled = supports_styles(out, environ)
        self._has_width = out.isatty()
        self._typed_line: Callable[[], str] | None = None
        self.is_closed: bool = False
        """Whether the reader has gone away."""

    def write(self, heading: str, text: str = "") -> None:
        """Write a heading and a text; further lines follow below it."""
        first, *rest = terminal_text(text).rstrip("\n").split("\n")
        if rest:
            first, rest = "", [first, *rest]
        self._print([*self._with_heading(heading, first), *self._indented(rest)])

    def begin(self, heading: str, line: str) -> None:
        """Write a heading and the first line; `write_lines` writes the rest."""
        self._print(self._with_heading(heading, terminal_text(line)))

    def write_lines(self, lines: Iterable[str]) -> None:
        """Write further lines of a text."""
        self._print(self._indented([terminal_text(line) for line in lines]))

    def quote(self, lines: Iterable[str]) -> None:
        """Write foreign text with a bar before each line, however long a line is."""
        width = self._width(len(_BAR))
        self._print(
            [_BAR + part for line in lines for part in _break_line(terminal_text(line), width)]
        )

    def write_prompt(self, prompt: str) -> None:
        """Write a prompt of steno; the user answers on the same line."""
        self._write("\n".join(_break_line(prompt, self._width(1))))

    def end_line(self) -> None:
        """End an unfinished line."""
        self._write("\n")

    def set_typed_line(self, typed: Callable[[], str] | None) -> None:
        """Set the text of the line that the user types, if there is one.

        Output goes below that line, which is then shown again.
        """
        self._typed_line = typed

    def _with_heading(self, heading: str, text: str) -> list[str]:
        head = f"{terminal_line(heading)}:"
        first, *rest = _break_line(f"{head} {text}".rstrip(), self._width(len(_INDENT)))
        if self._is_styled and first.startswith(head):
            first = f"{_BOLD}{head}{_RESET}{first[len(head) :]}"
        return [first, *[f"{_INDENT}{line}" for line in rest]]

    def _indented(self, lines: Iterable[str]) -> list[str]:
        width = self._width(len(_INDENT))
        return [f"{_INDENT}{part}".rstrip() for line in lines for part in _break_line(line, width)]

    def _width(self, used: int) -> int | None:
        """Return the columns beside those that are taken; None if the width is unknown."""
        columns = shutil.get_terminal_size().columns if self._has_width else 0
        return columns - used if columns >= _MIN_WIDTH else None

    def _print(self, lines: Sequence[str]) -> None:
        text = "".join([f"{line}\n" for line in lines])
        self._write(text if self._typed_line is None else f"\n{text}{self._typed_line()}")

    def _write(self, text: str) -> None:
        if self.is_closed:
            return
        encoding = self._out.encoding or "utf-8"
        try:
            self._out.write(text.encode(encoding, "backslashreplace").decode(encoding))
            self._out.flush()
        except (OSError, ValueError):  # closed at the other end, or at ours
            self.is_closed = True


def _break_line(line: str, width: int | None) -> Iterator[str]:
    """Break a line before the terminal does: a line that the terminal breaks has no bar.

    It breaks between words where it can; the text before a word keeps its position.
    """
    if width is None or (display_width(line) <= width and "\t" not in line):
        yield line
        return
    used, start = 0, 0
    line = line.expandtabs()
    for index, character in enumerate(line):
        character_width = display_width(character)
        if used + character_width > width:
            end = line.rfind(" ", start, index) + 1
            if not line[start:end].strip():  # one long word
                end = index
            yield line[start:end]
            used, start = display_width(line[end:index]), end
        used += character_width
    yield line[start:]


def shorten_lines(lines: Sequence[str], max_lines: int) -> list[str]:
    """Return the first and the last lines, with a line about the number between."""
    if len(lines) <= max_lines:
        return list(lines)
    half = max_lines // 2
    omitted = len(lines) - 2 * half
    return [*lines[:half], f"… {omitted:,} lines are not shown …", *lines[-half:]]


@final
class _ChunkLines:
    """Splits chunks into lines; the cost per chunk does not depend on the length of the line."""

    def __init__(self) -> None:
        self._partial: list[str] = []

    def feed(self, chunk: str) -> list[str]:
        """Return the lines that are whole now."""
        first, *rest = chunk.split("\n")
        self._partial.append(first)
        if not rest:
            return []
        complete = ["".join(self._partial), *rest[:-1]]
        self._partial = [rest[-1]]
        return [line.removesuffix("\r") for line in complete]

    def rest(self) -> list[str]:
        """Return the line that was never ended, if there is one."""
        unfinished, self._partial = "".join(self._partial), []
        return [unfinished] if unfinished else []


@final
class StreamedText:
    """The streamed text of a model, under one heading."""

    def __init__(self, writer: LineWriter, heading: str) -> None:
        """Take the heading."""
        self._writer = writer
        self._heading = heading
        self._chunk_lines = _ChunkLines()
        self._has_begun = False

    def feed(self, chunk: str) -> None:
        """Write the complete lines."""
        self._write_lines(self._chunk_lines.feed(chunk))

    def end(self) -> None:
        """Write the rest."""
        self._write_lines(self._chunk_lines.rest())

    def _write_lines(self, lines: list[str]) -> None:
        if not self._has_begun:
            while lines and not lines[0].strip():
                lines = lines[1:]
            if not lines:
                return
            self._has_begun = True
            self._writer.begin(self._heading, lines[0])
            lines = lines[1:]
        self._writer.write_lines(lines)


@final
class StreamedOutput:
    """The streamed output of a tool: the first lines as they arrive, the last ones at the end."""

    def __init__(
        self, writer: LineWriter, first: int = _FIRST_LINES, last: int = _LAST_LINES
    ) -> None:
        """Take how many lines are written at each end."""
        self._writer = writer
        self._chunk_lines = _ChunkLines()
        self._first = first
        self._last: deque[str] = deque(maxlen=last)
        self._count = 0

    def feed(self, chunk: str) -> None:
        """Write the complete lines, unless the limit is reached."""
        self._add_lines(self._chunk_lines.feed(chunk))

    def end(self) -> None:
        """Write the number of omitted lines, and the last lines."""
        self._add_lines(self._chunk_lines.rest())
        held = self._count - self._first
        omitted = held - len(self._last)
        if omitted > 0:
            self._writer.write_lines([f"… {omitted:,} lines are not shown …"])
        self._writer.write_lines(self._last)

    def _add_lines(self, lines: list[str]) -> None:
        immediate = lines[: max(0, self._first - self._count)]
        self._writer.write_lines(immediate)
        self._last.extend(lines[len(immediate) :])
        self._count += len(lines)


def write_call(writer: LineWriter, call: AnyToolCall) -> None:
    """Write the tool and the main argument of a call."""
    name, _, about = summarize_call(call).partition(" ")
    writer.write(f"Tool {name}", about)


def write_result(writer: LineWriter, result: ToolResultMessage) -> None:
    """Write the result of a call: the number of lines, the change, or the failure."""
    lines = result.text.strip("\n").split("\n") if result.text.strip() else []
    diff = (result.details or {}).get("diff")
    if result.outcome is not Outcome.OK:
        first, *rest = lines or ["nothing more is known"]
        writer.begin("Result", f"{result.outcome}: {first}")
        writer.write_lines(shorten_lines(rest, _MAX_FAILURE_LINES))
    elif isinstance(diff, str) and diff.strip():
        writer.write("Result", "ok, this has changed")
        writer.quote(shorten_lines(diff.strip("\n").split("\n"), _MAX_DIFF_LINES))
    else:
        writer.write("Result", f"ok, {format_count(len(lines), 'line', 'lines')}")


def write_recap(writer: LineWriter, entries: Sequence[Entry]) -> None:
    """Write the last exchanges, and the number of entries before them."""
    prompt_indexes = [
        index for index, entry in enumerate(entries) if isinstance(entry.payload, UserMessage)
    ]
    start = prompt_indexes[-_RECAP_EXCHANGES] if len(prompt_indexes) >= _RECAP_EXCHANGES else 0
    if start:
        writer.write(
            "Notice", f"{format_count(start, 'earlier entry', 'earlier entries')}; /tree shows all"
        )
    for entry in entries[start:]:
        _write_entry(writer, entry)


def _write_entry(writer: LineWriter, entry: Entry) -> None:
    payload = entry.payload
    match payload:
        case UserMessage():
            item = item_from_prompt(entry, payload)
            heading = "Shell" if item.kind is ItemKind.SHELL else "You"
            _write_shortened(writer, heading, "\n".join(filter(None, [item.head, item.body])))
        case AssistantMessage():
            for block in payload.content:
                if isinstance(block, Text) and block.text.strip():
                    _write_shortened(writer, "Answer", block.text)
                elif isinstance(block, ToolCall | InvalidToolCall):
                    write_call(writer, block)
        case ToolResultMessage():
            write_result(writer, payload)
        case _:
            pass


def _write_shortened(writer: LineWriter, heading: str, text: str) -> None:
    writer.write(heading, "\n".join(shorten_lines(text.strip("\n").split("\n"), _MAX_RECAP_LINES)))


@final
class EventWriter:
    """Writes the events of a session."""

    def __init__(self, writer: LineWriter, *, is_verbose: bool = False) -> None:
        """Take whether thinking is written in full, or only its length."""
        self._writer = writer
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
        self._has_reported_failure = False
        """Whether this run has reported an unresolved reference already."""
        self._messages_with_references: dict[str, UserMessage] = {}
        """Messages with references, by the id of their entry."""

    def write_event(self, event: SessionEvent) -> None:
        """Write an event."""
        match event:
            case TextDelta(index, text):
                self._write_delta(ItemKind.ANSWER, index, text)
            case ThinkingDelta(index, text) if self._is_verbose:
                self._write_delta(ItemKind.THINKING, index, text)
            case ThinkingDelta(_, text):
                self._thinking.append(text)
            case EntryRecorded(entry):
                self._on_recorded(entry)
            case TurnStarted():
                self._end_text()
                self._has_streamed_answer = False
            case CallStarted(call):
                self._on_call_started(call)
            case CallOutput(call_id, text):
                self._on_call_output(call_id, text)
            case CallEnded(call, result):
                self._on_call_ended(call, result)
            case Notice(_, text):
                self._end_text()
                self._writer.write("Notice", text)
            case RunEnded(result):
                self._on_run_ended(result)
            case InputReturned(prompts):
                self._on_input_returned(prompts)
            case ErrorRaised(text):
                self._end_text()
                self._writer.write("Trouble", text)
            case ShellStarted() | ShellOutput() | ShellEnded():
                self._on_shell_event(event)
            case _:
                pass

    def note_queued(self, text: str) -> None:
        """Record that a prompt is queued, and write that."""
        self._queued.append(text)
        self._writer.write("Notice", "this is heard at the next step")

    def _on_input_returned(self, prompts: Sequence[PromptInput]) -> None:
        self._end_text()
        for prompt in prompts:
            if prompt.text in self._queued:
                self._queued.remove(prompt.text)
            self._writer.write("Not said", prompt.text)

    # -- text -----------------------------------------------------------------------------

    def _write_delta(self, kind: ItemKind, index: int, text: str) -> None:
        if self._streamed_text is None or self._streamed_text[:2] != (kind, index):
            self._end_text()
            self._has_streamed_answer |= kind is ItemKind.ANSWER
            self._streamed_text = (kind, index, StreamedText(self._writer, kind.value.capitalize()))
        self._end_thinking()
        self._streamed_text[2].feed(text)

    def _end_text(self) -> None:
        """Write the rest of the streamed text."""
        self._end_thinking()
        if self._streamed_text is not None:
            self._streamed_text[2].end()
            self._streamed_text = None

    def _end_thinking(self) -> None:
        if self._thinking:
            word_count = len("".join(self._thinking).split())
            self._thinking.clear()
            self._writer.write("Thinking", format_count(word_count, "word", "words"))

    def _on_recorded(self, entry: Entry) -> None:
        payload = entry.payload
        match payload:
            case AssistantMessage():
                self._end_text()
                self._write_answer(entry, payload)
                self._has_streamed_answer = False
            case UserMessage():
                if len(payload.content) > 1:
                    self._messages_with_references[entry.id] = payload
                if payload.text in self._queued:
                    self._queued.remove(payload.text)
                    self._end_text()
                    self._writer.write("Heard", terminal_line(payload.text))
            case _:
                marker = marker_from_entry(entry, pointer=self._reference_name(payload))
                # Other rewinds were requested, and are reported by their command.
                if marker is not None and (
                    marker.kind is not ItemKind.MARKER or isinstance(payload, Compaction)
                ):
                    self._end_text()
                    self._writer.write(
                        _HEADINGS[marker.kind], marker.body if not marker.head else marker.head
                    )
                    self._has_reported_failure |= marker.kind is ItemKind.ERROR

    def _write_answer(self, entry: Entry, message: AssistantMessage) -> None:
        """Write the parts of an answer that were not streamed."""
        for item in items_from_answer(entry, message):
            was_streamed = self._has_streamed_answer and item.form is TextForm.MARKDOWN
            if item.kind is ItemKind.ANSWER and not was_streamed:
                self._writer.write("Answer", item.body)

    def _reference_name(self, payload: object) -> str:
        if not isinstance(payload, Resolution):
            return ""
        message = self._messages_with_references.get(payload.target)
        if message is None or payload.block >= len(message.content):
            return "something"
        return reference_label(message.content[payload.block])

    # -- calls ----------------------------------------------------------------------------

    def _on_call_started(self, call: AnyToolCall) -> None:
        self._end_text()
        self._running[call.id] = (call, StreamedOutput(self._writer))
        self._last_output_call = call.id
        write_call(self._writer, call)

    def _on_call_output(self, call_id: str, text: str) -> None:
        running = self._running.get(call_id)
        if running is None:
            return
        call, output = running
        if self._last_output_call != call_id:
            self._writer.write("Output", f"of {terminal_line(call.name)}")
            self._last_output_call = call_id
        output.feed(text)

    def _on_call_ended(self, call: AnyToolCall, result: ToolResultMessage) -> None:
        self._end_text()
        running = self._running.pop(call.id, None)
        if running is None or self._last_output_call != call.id:
            write_call(self._writer, call)
        if running is not None:
            running[1].end()
        write_result(self._writer, result)
        self._last_output_call = None

    def _on_shell_event(self, event: ShellStarted | ShellOutput | ShellEnded) -> None:
        if isinstance(event, ShellStarted):
            self._end_text()
            self._writer.write("Shell", terminal_line(event.command))
            self._shell = StreamedText(self._writer, "Output")
            return
        if self._shell is not None and isinstance(event, ShellOutput):
            self._shell.feed(event.text)
        elif self._shell is not None and isinstance(event, ShellEnded):
            self._shell.end()
            self._shell = None
            ending = "stopped" if event.status is None else f"ended with status {event.status}"
            self._writer.write("Shell", ending)

    def _on_run_ended(self, result: RunResult) -> None:
        self._end_text()
        for _, output in self._running.values():
            output.end()
        self._running.clear()
        self._queued.clear()
        self._has_streamed_answer = False
        if isinstance(result.error, Unresolved):
            hint = "" if self._has_reported_failure else f"; {RETRY_HINT}, or say something else"
            self._writer.write("Trouble", f"nothing was sent{hint}")
        elif result.ending is EndReason.FAILED:
            self._writer.write("Trouble", f"{result.error or result.reason}; {RETRY_HINT}")
        elif result.ending is EndReason.INTERRUPTED:
            self._writer.write("Notice", INTERRUPTED_NOTICE)
        elif result.reason:
            self._writer.write("Notice", ending_reason(result))
        self._has_reported_failure = False
        self._writer.write("Done", _usage_text(result))


def _usage_text(result: RunResult) -> str:
    tokens = format_count(result.usage.total_tokens, "token", "tokens")
    return tokens if result.cost is None else f"{tokens}, {format_dollars(result.cost)}"
