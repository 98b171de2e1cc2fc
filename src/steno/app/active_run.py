"""What runs at a desk: the agent, and a command of the person. Each in a task of its own.

Whoever asks for it is not kept waiting; what comes of it is told to who watches.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, final

from steno.agent import CallEnded, EntryRecorded, LoopEvent, Notice, NoticeCode, RunEnded
from steno.agent.bounded_text import BoundedText as Heard
from steno.agent.rewind import UnsentPrompt, find_unsent_prompt, rewind_branch
from steno.app import prompt_input
from steno.app.branch_tree import prompt_from_message
from steno.app.conflicts import explain_conflicts
from steno.app.folders import display_folder
from steno.app.run_control import INTERRUPTED_BEFORE_START
from steno.app.session import (
    ErrorRaised,
    InputReturned,
    PromptInput,
    ShellEnded,
    ShellOutput,
    ShellStarted,
)
from steno.app.session_state import SessionState
from steno.app.user_shell import OutputLimiter, ShellResult, run_shell
from steno.errors import InvalidValue, Missing, StenoError
from steno.log.conversation import Conversation
from steno.log.queries import SHELL_AUDIT_KEY, SHELL_STATUS_AUDIT_KEY
from steno.messages.message import AssistantMessage, ChatMessage, SystemMessage, UserMessage
from steno.messages.usage import StopReason
from steno.records.entry import Entry
from steno.values import replace_lone_surrogates

_STOPPED_MARK: Final = "[stopped]"
_ONLY_CD: Final = re.compile(r"\s*cd(?:\s+[^;&|\n]*)?")
_CUT_OFF_REASONS: Final = (StopReason.ABORTED, StopReason.ERROR, StopReason.LENGTH)
_STOP_TIMEOUT_S: Final = 3.0
"""How long what is told to stop may take before it is told so again."""
_MAX_STOP_ATTEMPTS: Final = 3


class _SteeredPrompt(NamedTuple):
    """What was said during a run."""

    message: UserMessage
    prompt: PromptInput
    """As it was typed."""
    origin: str | None


class _ReturnedPrompt(NamedTuple):
    """A prompt that could not be opened, and what was said behind it."""

    conversation: Conversation
    prompt: UserMessage
    steered: Sequence[_SteeredPrompt]


def _report_start(begun: asyncio.Future[str], trouble: str) -> None:
    """Say how a run has begun, unless it has: one that is cancelled at once does not get to it."""
    if not begun.done():
        begun.set_result(trouble)


@final
class ActiveRun:
    """Runs one thing after the other."""

    def __init__(self, bench: SessionState) -> None:
        """Take what it works on; nothing runs yet."""
        self._state = bench
        self._run: asyncio.Task[Any] | None = None
        self._command: asyncio.Task[None] | None = None
        self._started: asyncio.Future[str] | None = None
        """Of the last run: done when it is taken; else it says why not."""
        self._has_events = False
        """Whether anything has come of the last run."""
        self._prompt: PromptInput | None = None
        """What the last run began with, as it was typed; None where it only goes on."""
        self._steered: list[_SteeredPrompt] = []
        """What was said during this run."""
        self._returned: _ReturnedPrompt | None = None
        """What came back last, for who tries again."""

    @property
    def is_running(self) -> bool:
        """Whether anything is under way."""
        return self._state.is_agent_running or self._state.is_shell_running

    @property
    def is_unfinished(self) -> bool:
        """Whether the record ends in the middle, and nobody is at work on it."""
        bench = self._state
        if not bench.is_recorded or bench.is_agent_running:
            return False
        last = self._last_message()
        is_answered = last is None or isinstance(last.payload, (AssistantMessage, SystemMessage))
        return (
            bool(bench.conversation.outstanding)
            or not is_answered
            or self._unsent_prompt is not None
        )

    # -- the agent ---------------------------------------------------------------------------

    async def send(self, words: PromptInput) -> None:
        """Begin a run with what a person says, or steer the one that is under way."""
        bench = self._state
        async with bench.lock:
            bench.check_open()
            said = await bench.lock.run_cancellable(self._read_prompt(words))
            bench.check_open()
            if bench.is_agent_running and said.message is not None:
                self._steer(_SteeredPrompt(said.message, words, said.origin))
            else:
                bench.check_prompt_size(said.text)
                self._prompt = words
                await self._start(said.message, said.origin)
            for text in said.notes:
                bench.emit(Notice(NoticeCode.INPUT, text))

    def _steer(self, said: _SteeredPrompt) -> None:
        steering = self._state.environment.settings.steering
        self._state.agent.steer(said.message, steering, noted={"origin": said.origin})
        self._steered.append(said)

    async def _read_prompt(self, words: PromptInput) -> prompt_input.PreparedPrompt:
        equipment = self._state.environment
        if not words.text.strip() and not words.images:
            raise InvalidValue("say what to do, as in: What does this project do?")
        read = prompt_input.RawPrompt(words.text, images=words.images)
        mode = equipment.settings.image_mode
        try:
            return await prompt_input.prepare_prompt(
                read, equipment.input_setup, mode, place="image"
            )
        except OSError as exc:
            raise InvalidValue(f"image: {exc.filename}: {exc.strerror or exc}") from exc

    async def retry(self) -> None:
        """Say again what could not be sent, and what came back with it, or go on with the record."""
        bench = self._state
        async with bench.lock:
            bench.check_idle()
            unsent = self._unsent_prompt
            if unsent is not None:
                self._prompt = prompt_from_message(unsent.message, unsent.audit)
                behind = self._steered_with(unsent.message)
                await self._start(unsent.message, unsent.audit.get("origin"), behind)
                return
            if not self.is_unfinished:
                self._rewind_cut_off_answer()
            self._prompt = None
            await self._start(None)

    def _steered_with(self, prompt: UserMessage) -> Sequence[_SteeredPrompt]:
        """Return what came back with a prompt; nothing, if that was another."""
        back = self._returned
        if back is None or back.conversation is not self._state.conversation:
            return ()
        return back.steered if back.prompt == prompt else ()

    def _rewind_cut_off_answer(self) -> None:
        """Go back behind what was asked, if the answer was cut off. Raises Missing if not."""
        last = self._last_message()
        payload = None if last is None else last.payload
        is_broken = (
            isinstance(payload, AssistantMessage) and payload.stop_reason in _CUT_OFF_REASONS
        )
        if last is None or last.parent is None or not is_broken:
            raise Missing("retry: everything that was said has been answered; say something else")
        with explain_conflicts(self._state):
            rewind_branch(self._state.conversation, last.parent)
        self._state.emit_branch_changed()

    async def compact(self) -> Entry | None:
        """Let the model sum up what was said so far; return the entry, None if there is none."""
        bench = self._state
        async with bench.lock:
            bench.check_idle()
            if not bench.is_recorded:
                return None
            bench.is_agent_running = True
            summing_up = asyncio.create_task(bench.agent.compact(watch=bench.emit))
            self._run = summing_up
            try:
                with explain_conflicts(bench):
                    return await summing_up
            finally:
                self._set_idle()

    async def _start(
        self,
        message: UserMessage | None,
        origin: str | None = None,
        behind: Sequence[_SteeredPrompt] = (),
    ) -> None:
        """Begin a run, with what is said `behind` its prompt; it can be steered when this returns.

        Raises StenoError if it fails before anything has come of it: nothing was said then. For
        servers nobody is kept waiting: words that wait for them and are not said come back.
        """
        self._state.is_agent_running = True
        self._state.agent.expect_run()
        for one in behind:
            self._steer(one)
        self._has_events = False
        self._started = begun = asyncio.get_running_loop().create_future()
        self._run = asyncio.create_task(self._run_agent(message, origin, begun))
        self._run.add_done_callback(lambda _: _report_start(begun, INTERRUPTED_BEFORE_START))
        if trouble := await begun:
            raise StenoError(trouble)

    async def _run_agent(
        self, message: UserMessage | None, origin: str | None, begun: asyncio.Future[str]
    ) -> None:
        trouble = ""
        try:
            if self._state.start_mcp():
                _report_start(begun, "")
            with explain_conflicts(self._state):
                await self._state.agent.run(message, watch=self._on_event, origin=origin)
        except Exception as exc:  # noqa: BLE001 - whatever it was, somebody has to be told
            trouble = str(exc) or type(exc).__name__
        finally:
            unsaid: tuple[PromptInput, ...] = ()
            if self._run is asyncio.current_task():  # else the next run has begun already
                first = [] if self._has_events or self._prompt is None else [self._prompt]
                unsaid = (*first, *[one.prompt for one in self._withdraw_pending()])
                self._set_idle()
            if not begun.done():
                begun.set_result(trouble)
            elif trouble:
                if unsaid:
                    self._state.emit(InputReturned(unsaid))
                self._state.emit(ErrorRaised(trouble))

    def _withdraw_pending(self) -> list[_SteeredPrompt]:
        """Take back what was said during this run and not heard; return it as it was said."""
        unheard = self._state.agent.withdraw()
        back, heard = list[_SteeredPrompt](), list[_SteeredPrompt]()
        for one in self._steered:
            is_unheard = not self._has_events or any(one.message is other for other in unheard)
            (back if is_unheard else heard).append(one)
        self._steered = heard
        return back

    def _on_event(self, event: LoopEvent) -> None:
        self._has_events = True
        if self._started is not None and not self._started.done():
            self._started.set_result("")
        if isinstance(event, RunEnded):
            self._finish_run()
        elif isinstance(event, CallEnded):
            self._state.approvals.forget(event.call.id)
        self._state.emit(event)

    def _finish_run(self) -> None:
        """Give back a prompt that could not be opened, with what was held behind it."""
        unsent, behind = self._unsent_prompt, self._withdraw_pending()
        first = [] if unsent is None or self._prompt is None else [self._prompt]
        if unsent is not None:
            self._returned = _ReturnedPrompt(self._state.conversation, unsent.message, behind)
        self._set_idle()
        if first or behind:
            self._state.emit(InputReturned((*first, *[one.prompt for one in behind])))

    def _set_idle(self) -> None:
        self._state.is_agent_running = False
        self._state.approvals.forget_all()
        self._steered.clear()

    @property
    def _unsent_prompt(self) -> UnsentPrompt | None:
        return find_unsent_prompt(self._state.conversation) if self._state.is_recorded else None

    def _last_message(self) -> Entry | None:
        """Return the last message of the branch, but for what a person's own commands printed."""
        said = (
            entry
            for entry in reversed(self._state.conversation.entries_view())
            if entry.message is not None and SHELL_AUDIT_KEY not in (entry.audit or {})
        )
        return next(said, None)

    # -- commands of the person --------------------------------------------------------------

    async def run_shell(self, command: str) -> None:
        """Run a command; what it prints goes on record as said by the person."""
        bench = self._state
        async with bench.lock:
            bench.check_open()
            if not command.strip():
                raise InvalidValue("shell: say which command to run, as in !git status")
            if bench.is_shell_running:
                raise StenoError("shell: your last command still runs; interrupt it, or wait")
            is_amidst = bench.is_agent_running and not bench.agent.is_waiting
            if bench.conversation.outstanding and not is_amidst:
                raise StenoError("shell: calls of the last turn await their results; /retry first")
            bench.is_shell_running = True
            bench.emit(ShellStarted(command))
            if _ONLY_CD.fullmatch(command):
                folder = display_folder(str(bench.config.folder))
                told = (
                    f"cd changes nothing here: each ! starts in the folder of the session, {folder}"
                )
                bench.emit(Notice(NoticeCode.INPUT, told))
            self._command = asyncio.create_task(self._run_command(command))
            await asyncio.sleep(0)  # from here on it can be interrupted

    async def _run_command(self, command: str) -> None:
        bench = self._state
        heard = Heard(OutputLimiter(lambda text: bench.emit(ShellOutput(text))))
        status: int | None = None
        try:
            try:
                ran = await run_shell(command, bench.config.folder, heard.add)
            except asyncio.CancelledError:  # by us: it is on record how far it came
                ran = ShellResult(
                    None, "\n".join(filter(None, [heard.text.rstrip("\n"), _STOPPED_MARK]))
                )
            status = ran.status
            with explain_conflicts(bench):
                self._record_shell(command, ran)
        except Exception as exc:  # noqa: BLE001 - whatever it was, somebody has to be told
            bench.emit(ErrorRaised(str(exc) or type(exc).__name__))
        finally:
            bench.is_shell_running = False
            bench.emit(ShellEnded(status))

    def _record_shell(self, command: str, ran: ShellResult) -> None:
        bench = self._state
        message = ChatMessage.user(replace_lone_surrogates(f"$ {command}\n{ran.output}"))
        noted = {SHELL_AUDIT_KEY: command} | (
            {} if ran.status is None else {SHELL_STATUS_AUDIT_KEY: ran.status}
        )
        if bench.is_agent_running and bench.agent.is_running:
            bench.agent.steer(message, noted=noted, asks=False)
            return
        bench.ensure_recorded()
        audit = {"actor": bench.actor, **noted}
        bench.emit(EntryRecorded(bench.conversation.append(message, audit=audit)))

    # -- the end -----------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Stop what is being said and done; who is told twice waits for nothing any more.

        What was said and not heard is taken back before, or the run would go on because of it. What
        is still being read, or waits for its turn, is refused to who said it.
        """
        bench = self._state
        bench.lock.cancel_all()
        if bench.is_agent_running:
            if not bench.agent.is_waiting:  # else it comes back with what it was said behind
                self._return_pending()
            bench.agent.interrupt()
        if self._command is not None and bench.is_shell_running:
            self._command.cancel()

    def _return_pending(self) -> None:
        if unheard := self._withdraw_pending():
            self._state.emit(InputReturned(tuple([one.prompt for one in unheard])))

    async def close(self) -> None:
        """Stop everything, and wait for it; who was told often enough is not waited for.

        What was said and not heard stays: it goes on record unanswered.
        """
        under_way = [task for task in (self._run, self._command) if task is not None]
        for _ in range(_MAX_STOP_ATTEMPTS):
            under_way = [task for task in under_way if not task.done()]
            for task in under_way:
                task.cancel()
            if under_way:
                await asyncio.wait(under_way, timeout=_STOP_TIMEOUT_S)
