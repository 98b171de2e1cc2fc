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

_HEADS: Final = {Kind.TROUBLE: "Trouble", Kind.NOTICE: "Notice", Kind.MARK: "Notice"}


@final
class Teller:
    """Tells a voice what happens."""

    def __init__(self, voice: Voice, *, is_verbose: bool = False) -> None:
        """Take whether all of what a model thinks is told, or only how much."""
        self._voice = voice
        self._is_verbose = is_verbose
        self._speech: tuple[Kind, int, Speech] | None = None
        self._thought: list[str] = []
        self._has_spoken = False
        """Whether words of the answer under way were told as they came."""
        self._running: dict[str, tuple[AnyToolCall, Output]] = {}
        self._heard_last: str | None = None
        """The call whose output was told last."""
        self._shell: Speech | None = None
        self._queued: list[str] = []
        self._has_told_why = False
        """Whether the record has said in this run what could not be opened, and what helps."""
        self._pointed: dict[str, Message] = {}
        """Messages that point at something, by their entry."""

    def tell(self, event: DeskEvent) -> None:
        """Say what happens."""
        match event:
            case TextDelta(index, text):
                self._say(Kind.ANSWER, index, text)
            case ThinkingDelta(index, text) if self._is_verbose:
                self._say(Kind.THINKING, index, text)
            case ThinkingDelta(_, text):
                self._thought.append(text)
            case Recorded(entry):
                self._record(entry)
            case TurnStarted():
                self._end_speech()
                self._has_spoken = False
            case CallStarted(call):
                self._start(call)
            case CallOutput(call_id, text):
                self._hear(call_id, text)
            case CallEnded(call, result):
                self._end_call(call, result)
            case Notice(_, text):
                self._end_speech()
                self._voice.say("Notice", text)
            case RunEnded(result):
                self._end(result)
            case Returned(words):
                self._take_back(words)
            case Trouble(text):
                self._end_speech()
                self._voice.say("Trouble", text)
            case ShellStarted() | ShellOutput() | ShellEnded():
                self._tell_shell(event)
            case _:
                pass

    def queue(self, text: str) -> None:
        """Say that something is heard later, and then say so."""
        self._queued.append(text)
        self._voice.say("Notice", "this is heard at the next step")

    def _take_back(self, words: Sequence[Words]) -> None:
        self._end_speech()
        for one in words:
            if one.text in self._queued:
                self._queued.remove(one.text)
            self._voice.say("Not said", one.text)

    # -- what is said ------------------------------------------------------------------------

    def _say(self, kind: Kind, index: int, text: str) -> None:
        if self._speech is None or self._speech[:2] != (kind, index):
            self._end_speech()
            self._has_spoken |= kind is Kind.ANSWER
            self._speech = (kind, index, Speech(self._voice, kind.value.capitalize()))
        self._end_thought()
        self._speech[2].feed(text)

    def _end_speech(self) -> None:
        """Say what is left of what was being said."""
        self._end_thought()
        if self._speech is not None:
            self._speech[2].end()
            self._speech = None

    def _end_thought(self) -> None:
        if self._thought:
            words = len("".join(self._thought).split())
            self._thought.clear()
            self._voice.say("Thinking", counted(words, "word", "words"))

    def _record(self, entry: Entry) -> None:
        payload = entry.payload
        match payload:
            case AssistantMessage():
                self._end_speech()
                self._tell_answer(entry, payload)
                self._has_spoken = False
            case UserMessage():
                if len(payload.content) > 1:
                    self._pointed[entry.id] = payload
                if payload.text in self._queued:
                    self._queued.remove(payload.text)
                    self._end_speech()
                    self._voice.say("Heard", on_one_line(payload.text))
            case _:
                mark = mark_of(entry, pointer=self._pointer_of(payload))
                # Other changes of course were asked for, and are answered there.
                if mark is not None and (
                    mark.kind is not Kind.MARK or isinstance(payload, Compaction)
                ):
                    self._end_speech()
                    self._voice.say(_HEADS[mark.kind], mark.body if not mark.head else mark.head)
                    self._has_told_why |= mark.kind is Kind.TROUBLE

    def _tell_answer(self, entry: Entry, message: AssistantMessage) -> None:
        """Say what was not said as it came."""
        for block in blocks_of_answer(entry, message):
            was_told = self._has_spoken and block.form is Form.MARKDOWN
            if block.kind is Kind.ANSWER and not was_told:
                self._voice.say("Answer", block.body)

    def _pointer_of(self, payload: object) -> str:
        if not isinstance(payload, Resolution):
            return ""
        message = self._pointed.get(payload.target)
        if message is None or payload.block >= len(message.content):
            return "something"
        return name_of(message.content[payload.block])

    # -- what is done ------------------------------------------------------------------------

    def _start(self, call: AnyToolCall) -> None:
        self._end_speech()
        self._running[call.id] = (call, Output(self._voice))
        self._heard_last = call.id
        tell_call(self._voice, call)

    def _hear(self, call_id: str, text: str) -> None:
        running = self._running.get(call_id)
        if running is None:
            return
        call, output = running
        if self._heard_last != call_id:
            self._voice.say("Output", f"of {on_one_line(call.name)}")
            self._heard_last = call_id
        output.feed(text)

    def _end_call(self, call: AnyToolCall, result: ToolResultMessage) -> None:
        self._end_speech()
        running = self._running.pop(call.id, None)
        if running is None or self._heard_last != call.id:
            tell_call(self._voice, call)
        if running is not None:
            running[1].end()
        tell_result(self._voice, result)
        self._heard_last = None

    def _tell_shell(self, event: ShellStarted | ShellOutput | ShellEnded) -> None:
        if isinstance(event, ShellStarted):
            self._end_speech()
            self._voice.say("Shell", on_one_line(event.command))
            self._shell = Speech(self._voice, "Output")
            return
        if self._shell is not None and isinstance(event, ShellOutput):
            self._shell.feed(event.text)
        elif self._shell is not None and isinstance(event, ShellEnded):
            self._shell.end()
            self._shell = None
            how = "stopped" if event.status is None else f"ended with status {event.status}"
            self._voice.say("Shell", how)

    def _end(self, result: RunResult) -> None:
        self._end_speech()
        for _, output in self._running.values():
            output.end()
        self._running.clear()
        self._queued.clear()
        self._has_spoken = False
        if isinstance(result.error, Unresolved):
            what_helps = "" if self._has_told_why else f"; {RETRY}, or say something else"
            self._voice.say("Trouble", f"nothing was sent{what_helps}")
        elif result.ending is Ending.FAILED:
            self._voice.say("Trouble", f"{result.error or result.reason}; {RETRY}")
        elif result.ending is Ending.INTERRUPTED:
            self._voice.say("Notice", INTERRUPTED)
        elif result.reason:
            self._voice.say("Notice", reason_of(result))
        self._has_told_why = False
        self._voice.say("Done", _spent(result))


def _spent(result: RunResult) -> str:
    tokens = counted(result.usage.total_tokens, "token", "tokens")
    return tokens if result.cost is None else f"{tokens}, {dollars(result.cost)}"
