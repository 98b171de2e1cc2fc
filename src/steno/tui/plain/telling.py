"""What happens at a desk, told line by line as it happens.

Whoever listens cannot look back: a thing is said once, when it is known, and says what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from steno.agent.events import (
    CallEnded,
    CallOutput,
    CallStarted,
    Notice,
    Recorded,
    RunEnded,
    TurnStarted,
)
from steno.agent.limits import Ending, RunResult
from steno.call import AnyToolCall
from steno.entry import Compaction, Entry, Resolution
from steno.errors import Unresolved
from steno.event import TextDelta, ThinkingDelta
from steno.message import AssistantMessage, Message, ToolResultMessage, UserMessage
from steno.printable import counted, dollars, on_one_line
from steno.tui.block import Form, Kind
from steno.tui.desk import (
    DeskEvent,
    Returned,
    ShellEnded,
    ShellOutput,
    ShellStarted,
    Trouble,
    Words,
)
from steno.tui.plain.flowing import Output, Speech
from steno.tui.plain.outcomes import tell_call, tell_result
from steno.tui.plain.voice import Voice
from steno.tui.wording import INTERRUPTED, RETRY, blocks_of_answer, mark_of, name_of, reason_of

_HEADS: Final = {Kind.ERROR: "Trouble", Kind.NOTICE: "Notice", Kind.MARK: "Notice"}


@final
class Teller:
    """Tells a voice what happens."""

    def __init__(self, voice: Voice, *, is_verbose: bool = False) -> None:
        """Take whether all of what a model thinks is told, or only how much."""
        self._writer = voice
        self._is_verbose = is_verbose
        self._streamed_text: tuple[Kind, int, Speech] | None = None
        self._thinking: list[str] = []
        self._has_streamed_answer = False
        """Whether words of the answer under way were told as they came."""
        self._running: dict[str, tuple[AnyToolCall, Output]] = {}
        self._last_output_call: str | None = None
        """The call whose output was told last."""
        self._shell: Speech | None = None
        self._queued: list[str] = []
        self._has_reported_failure = False
        """Whether the record has said in this run what could not be opened, and what helps."""
        self._references: dict[str, Message] = {}
        """Messages that point at something, by their entry."""

    def write_event(self, event: DeskEvent) -> None:
        """Say what happens."""
        match event:
            case TextDelta(index, text):
                self._write_delta(Kind.ANSWER, index, text)
            case ThinkingDelta(index, text) if self._is_verbose:
                self._write_delta(Kind.THINKING, index, text)
            case ThinkingDelta(_, text):
                self._thinking.append(text)
            case Recorded(entry):
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
            case Returned(words):
                self._on_input_returned(words)
            case Trouble(text):
                self._end_text()
                self._writer.write("Trouble", text)
            case ShellStarted() | ShellOutput() | ShellEnded():
                self._on_shell_event(event)
            case _:
                pass

    def note_queued(self, text: str) -> None:
        """Say that something is heard later, and then say so."""
        self._queued.append(text)
        self._writer.write("Notice", "this is heard at the next step")

    def _on_input_returned(self, words: Sequence[Words]) -> None:
        self._end_text()
        for one in words:
            if one.text in self._queued:
                self._queued.remove(one.text)
            self._writer.write("Not said", one.text)

    # -- what is said ------------------------------------------------------------------------

    def _write_delta(self, kind: Kind, index: int, text: str) -> None:
        if self._streamed_text is None or self._streamed_text[:2] != (kind, index):
            self._end_text()
            self._has_streamed_answer |= kind is Kind.ANSWER
            self._streamed_text = (kind, index, Speech(self._writer, kind.value.capitalize()))
        self._end_thinking()
        self._streamed_text[2].feed(text)

    def _end_text(self) -> None:
        """Say what is left of what was being said."""
        self._end_thinking()
        if self._streamed_text is not None:
            self._streamed_text[2].end()
            self._streamed_text = None

    def _end_thinking(self) -> None:
        if self._thinking:
            words = len("".join(self._thinking).split())
            self._thinking.clear()
            self._writer.write("Thinking", counted(words, "word", "words"))

    def _on_recorded(self, entry: Entry) -> None:
        payload = entry.payload
        match payload:
            case AssistantMessage():
                self._end_text()
                self._write_answer(entry, payload)
                self._has_streamed_answer = False
            case UserMessage():
                if len(payload.content) > 1:
                    self._references[entry.id] = payload
                if payload.text in self._queued:
                    self._queued.remove(payload.text)
                    self._end_text()
                    self._writer.write("Heard", on_one_line(payload.text))
            case _:
                mark = mark_of(entry, pointer=self._reference_name(payload))
                # Other changes of course were asked for, and are answered there.
                if mark is not None and (
                    mark.kind is not Kind.MARK or isinstance(payload, Compaction)
                ):
                    self._end_text()
                    self._writer.write(_HEADS[mark.kind], mark.body if not mark.head else mark.head)
                    self._has_reported_failure |= mark.kind is Kind.ERROR

    def _write_answer(self, entry: Entry, message: AssistantMessage) -> None:
        """Say what was not said as it came."""
        for block in blocks_of_answer(entry, message):
            was_told = self._has_streamed_answer and block.form is Form.MARKDOWN
            if block.kind is Kind.ANSWER and not was_told:
                self._writer.write("Answer", block.body)

    def _reference_name(self, payload: object) -> str:
        if not isinstance(payload, Resolution):
            return ""
        message = self._references.get(payload.target)
        if message is None or payload.block >= len(message.content):
            return "something"
        return name_of(message.content[payload.block])

    # -- what is done ------------------------------------------------------------------------

    def _on_call_started(self, call: AnyToolCall) -> None:
        self._end_text()
        self._running[call.id] = (call, Output(self._writer))
        self._last_output_call = call.id
        tell_call(self._writer, call)

    def _on_call_output(self, call_id: str, text: str) -> None:
        running = self._running.get(call_id)
        if running is None:
            return
        call, output = running
        if self._last_output_call != call_id:
            self._writer.write("Output", f"of {on_one_line(call.name)}")
            self._last_output_call = call_id
        output.feed(text)

    def _on_call_ended(self, call: AnyToolCall, result: ToolResultMessage) -> None:
        self._end_text()
        running = self._running.pop(call.id, None)
        if running is None or self._last_output_call != call.id:
            tell_call(self._writer, call)
        if running is not None:
            running[1].end()
        tell_result(self._writer, result)
        self._last_output_call = None

    def _on_shell_event(self, event: ShellStarted | ShellOutput | ShellEnded) -> None:
        if isinstance(event, ShellStarted):
            self._end_text()
            self._writer.write("Shell", on_one_line(event.command))
            self._shell = Speech(self._writer, "Output")
            return
        if self._shell is not None and isinstance(event, ShellOutput):
            self._shell.feed(event.text)
        elif self._shell is not None and isinstance(event, ShellEnded):
            self._shell.end()
            self._shell = None
            how = "stopped" if event.status is None else f"ended with status {event.status}"
            self._writer.write("Shell", how)

    def _on_run_ended(self, result: RunResult) -> None:
        self._end_text()
        for _, output in self._running.values():
            output.end()
        self._running.clear()
        self._queued.clear()
        self._has_streamed_answer = False
        if isinstance(result.error, Unresolved):
            what_helps = "" if self._has_reported_failure else f"; {RETRY}, or say something else"
            self._writer.write("Trouble", f"nothing was sent{what_helps}")
        elif result.ending is Ending.FAILED:
            self._writer.write("Trouble", f"{result.error or result.reason}; {RETRY}")
        elif result.ending is Ending.INTERRUPTED:
            self._writer.write("Notice", INTERRUPTED)
        elif result.reason:
            self._writer.write("Notice", reason_of(result))
        self._has_reported_failure = False
        self._writer.write("Done", _spent(result))


def _spent(result: RunResult) -> str:
    tokens = counted(result.usage.total_tokens, "token", "tokens")
    return tokens if result.cost is None else f"{tokens}, {dollars(result.cost)}"
