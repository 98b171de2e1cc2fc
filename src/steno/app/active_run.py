"""The run of the agent, as a separate task.

Callers do not wait for its end; listeners receive the results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, final

from msgspec.structs import replace

from steno.agent import ApprovalRequested, CallEnded, LoopEvent, PromptInput, RunEnded, RunResult
from steno.agent.recorder import rewind_branch
from steno.agent.session_events import InputReturned, RunFailed, RunStarted
from steno.agent.steering import find_unsent_prompt, interrupted_before_start, is_unanswered
from steno.app.branch_tree import prompt_from_message
from steno.app.compose import AgentEnvironment
from steno.app.permissions import build_rule_hint
from steno.app.session_state import SessionState, as_steno_error
from steno.app.shell_command import ShellCommandRunner
from steno.errors import InvalidValue, Missing, StenoError
from steno.inputs.images.prepare import MAX_IMAGE_FILE_BYTES, BadImage, check_image_type
from steno.inputs.mcp.prompts import expand_prompt, parse_prompt_command
from steno.inputs.mentions import is_url
from steno.lazy_task import start_task
from steno.log.conversation import Conversation
from steno.log.queries import last_message
from steno.messages.content import Image, ImageData, RecognitionMode
from steno.messages.message import AssistantMessage, SystemMessage, UserMessage
from steno.messages.usage import StopReason
from steno.ports import SetupNotice
from steno.records.entry import Entry
from steno.regular_file import open_regular_file
from steno.render.terminal_text import terminal_line
from steno.tools import Workspace

_CUT_OFF_REASONS: Final = (StopReason.ABORTED, StopReason.ERROR, StopReason.LENGTH)
_STOP_TIMEOUT_S: Final = 3.0
"""The time after which a cancelled task is cancelled again."""
_MAX_STOP_ATTEMPTS: Final = 3


class _ReturnedPrompt(NamedTuple):
    """A prompt with an unresolved reference, and the prompts that were sent after it."""

    conversation: Conversation
    message: UserMessage | None
    followers: Sequence[PromptInput]


def _report_start(started: asyncio.Future[StenoError | None], error: StenoError | None) -> None:
    """Report whether a run has started, unless that was already reported.

    `error` is None if the run has started.
    """
    if not started.done():
        started.set_result(error)


def _report_end(started: asyncio.Future[StenoError | None], run: asyncio.Task[RunResult]) -> None:
    """Report that a run was interrupted, if it ended before it started.

    Its error is marked as retrieved, because listeners receive it.
    """
    _report_start(started, interrupted_before_start())
    if not run.cancelled():
        run.exception()  # mark the error as retrieved, or asyncio would log it


@final
class ActiveRun:
    """Runs the agent, one run at a time, and stops it together with the user's shell command."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self.shell: Final = ShellCommandRunner(state)
        self._run: asyncio.Task[RunResult] | None = None
        """The last run."""
        self._compaction: asyncio.Task[Entry | None] | None = None
        self._started: asyncio.Future[StenoError | None] | None = None
        """Resolves to None when the last run has accepted its prompt, or else to the error."""
        self._is_starting = False
        """Whether the task of a run or a compaction has not begun yet; an interrupt resets it."""
        self._has_events = False
        """Whether the last run has sent an event."""
        self._prompt: PromptInput | None = None
        """The prompt of the last run, as typed; None for a continuation."""
        self._returned: _ReturnedPrompt | None = None
        """The last returned prompt, for a retry."""

    @property
    def is_running(self) -> bool:
        """Whether the agent or a shell command runs."""
        return self._state.is_agent_running or self._state.is_shell_running

    @property
    def is_unfinished(self) -> bool:
        """Whether the log ends inside a turn, and the agent does not run."""
        state = self._state
        if not state.is_recorded or state.is_agent_running:
            return False
        if state.conversation.outstanding or self._unsent_prompt is not None:
            return True
        last = last_message(state.conversation.entries_view())
        return last is not None and not isinstance(last.payload, AssistantMessage | SystemMessage)

    @property
    def has_unanswered_prompt(self) -> bool:
        """Whether the last prompt was not sent, or has no response."""
        state = self._state
        return state.is_recorded and (
            self._unsent_prompt is not None or is_unanswered(state.conversation)
        )

    # -- the agent ---------------------------------------------------------------------------

    async def send(self, prompt: PromptInput) -> None:
        """Start a run with a prompt. If the agent is running, steer the run with the prompt."""
        state = self._state
        async with state.lock:
            state.check_open()
            prepared, notices = await state.lock.run_cancellable(self._read_prompt(prompt))
            state.check_open()
            if not state.is_agent_running:
                state.check_prompt_size(prepared.message_text)
            for notice in notices:
                state.emit_input_notice(notice)
            if state.is_agent_running:
                state.agent.steer(prepared, state.environment.settings.steering)
            else:
                await self._start(prepared)

    async def _read_prompt(
        self, prompt: PromptInput
    ) -> tuple[PromptInput, tuple[SetupNotice, ...]]:
        environment = self._state.environment
        if not prompt.text.strip() and not prompt.images and not prompt.piped.strip():
            raise InvalidValue(
                "the prompt is empty; type a prompt such as: What does this project do?",
                code="empty_prompt",
            )
        try:
            return await _prepare_prompt(prompt, environment)
        except OSError as exc:
            raise InvalidValue(
                f"{exc.filename}: {exc.strerror or exc}", code="image_unreadable", place="image"
            ) from exc

    async def retry(self, image_mode: RecognitionMode | None = None) -> None:
        """Send an unsent prompt again, or continue the last turn.

        The prompts that were returned with the unsent prompt are sent again too; `image_mode`
        replaces the mode of its images. If the last response was cut off, the branch is rewound to
        the entry before it. Raises Missing if there is nothing to retry.
        """
        state = self._state
        async with state.lock:
            state.check_idle()
            unsent = self._unsent_prompt
            if unsent is None or unsent.message is None:
                if not self.is_unfinished and not self.has_unanswered_prompt:
                    self._rewind_cut_off_response()
                await self._start(None)
                return
            message, returned = unsent.message, self._returned
            followers: Sequence[PromptInput] = ()
            if returned is not None and returned.conversation is state.conversation:
                followers = returned.followers if returned.message == message else ()
            typed = prompt_from_message(message, unsent.audit)
            if image_mode is not None:
                message = _with_image_mode(message, image_mode)
            await self._start(typed._replace(message=message, audit=unsent.audit), followers)

    def _rewind_cut_off_response(self) -> None:
        """Rewind the branch to the entry before the last response.

        Raises Missing if the last message is not a response that was cut off.
        """
        last = last_message(self._state.conversation.entries_view())
        payload = None if last is None else last.payload
        is_cut_off = (
            isinstance(payload, AssistantMessage) and payload.stop_reason in _CUT_OFF_REASONS
        )
        if last is None or last.parent is None or not is_cut_off:
            raise Missing(
                "nothing to retry; send a new prompt",
                code="nothing_to_retry",
                place="retry",
            )
        with self._state.explain_conflicts():
            rewind_branch(self._state.conversation, last.parent)
        self._state.emit_branch_changed()

    async def compact(self) -> Entry | None:
        """Let the model summarize the conversation; return the entry of the summary.

        Return None if nothing was summarized.
        """
        state = self._state
        async with state.lock:
            state.check_idle()
            if not state.is_recorded:
                return None
            state.is_agent_running = self._is_starting = True
            self._compaction = start_task(self._summarize())
            try:
                with state.explain_conflicts():
                    return await self._compaction
            finally:
                self._set_idle()

    async def _summarize(self) -> Entry | None:
        is_interrupted, self._is_starting = not self._is_starting, False
        if is_interrupted:
            return None
        return await self._state.agent.compact(on_event=self._state.emit)

    async def _start(
        self, prompt: PromptInput | None, followers: Sequence[PromptInput] = ()
    ) -> None:
        """Start a run, and queue `followers` after its prompt; on return, the run can be steered.

        Raises StenoError if the run fails before its first event; its prompt is not recorded in
        that case. This method does not wait for MCP servers: if the prompt waits for them and is
        then not sent, an `InputReturned` event returns it.
        """
        await self._state.lock.run_cancellable(self._state.open_store())
        self._state.check_open()
        agent = self._state.agent
        self._state.is_agent_running = self._is_starting = True
        self._has_events = False
        self._prompt = prompt
        for follower in followers:
            agent.enqueue(follower, self._state.environment.settings.steering)
        self._started = started = asyncio.get_running_loop().create_future()
        self._run = start_task(self._run_agent(prompt, started))
        self._run.add_done_callback(partial(_report_end, started))
        if (error := await started) is not None:
            raise error

    async def _run_agent(
        self, prompt: PromptInput | None, started: asyncio.Future[StenoError | None]
    ) -> RunResult:
        error: StenoError | None = None
        try:
            is_interrupted, self._is_starting = not self._is_starting, False
            if self._state.start_mcp():
                _report_start(started, None)
            if is_interrupted:
                raise interrupted_before_start()
            with self._state.explain_conflicts():
                return await self._state.agent.run(prompt, on_event=self._on_event)
        except asyncio.CancelledError:
            error = StenoError("already closed", code="session_closed", place="session")
            raise
        except Exception as exc:
            error = as_steno_error(exc)
            raise
        finally:
            returned: list[PromptInput] = []
            if self._run is asyncio.current_task():  # else the next run has started already
                first = () if self._has_events or prompt is None else (prompt,)
                returned = [*first, *self._state.agent.withdraw()]
                self._set_idle()
            if not started.done():
                started.set_result(error)
            elif error is not None:
                self._emit_returned(returned)
                self._state.emit(RunFailed(str(error), error.code))

    def _emit_returned(self, prompts: Sequence[PromptInput]) -> None:
        if prompts:
            self._state.emit(InputReturned(tuple([prompt.typed for prompt in prompts])))

    def _on_event(self, event: LoopEvent) -> None:
        if not self._has_events:
            self._has_events = True
            assert self._started is not None
            _report_start(self._started, None)
            self._state.emit(RunStarted())
        if isinstance(event, RunEnded):
            self._finish_run()
        elif isinstance(event, ApprovalRequested) and self._state.config.approver is None:
            self._state.approvals.announce(event.request)
        elif isinstance(event, CallEnded):
            self._state.approvals.forget(event.call.id)
        self._state.emit(event)
        if isinstance(event, CallEnded):
            environment = self._state.environment
            tool = environment.find_tool(event.call.name)
            if hint := build_rule_hint(event, tool, environment.settings.allow):
                self._state.emit(hint)

    def _finish_run(self) -> None:
        """Mark the agent as idle, and send `InputReturned` for prompts that were not sent.

        These are a prompt with an unresolved reference, and all queued prompts.
        """
        unsent, followers = self._unsent_prompt, self._state.agent.withdraw()
        first = () if unsent is None or self._prompt is None else (self._prompt,)
        if unsent is not None:
            self._returned = _ReturnedPrompt(self._state.conversation, unsent.message, followers)
        self._set_idle()
        self._emit_returned((*first, *followers))

    def _set_idle(self) -> None:
        self._state.is_agent_running = False
        self._state.approvals.forget_all()

    @property
    def _unsent_prompt(self) -> PromptInput | None:
        return find_unsent_prompt(self._state.conversation) if self._state.is_recorded else None

    async def wait(self) -> RunResult:
        """Wait for the end of the last run, and return its result.

        Raises the error of the run, or StenoError if no run was started or the session was closed.
        """
        run = self._run
        if run is None:
            raise StenoError("no run has been started yet", code="no_run", place="session")
        await asyncio.wait([run])
        if run.cancelled():
            raise StenoError("already closed", code="session_closed", place="session")
        return run.result()

    # -- the end -----------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Interrupt the run and the shell command; a second call abandons tools that do not stop.

        Prompts that no model has read are withdrawn first, because the run would otherwise continue
        with them. Prompts that are still being prepared, or wait for their turn, are refused.
        """
        state = self._state
        state.lock.cancel_all()
        if state.is_agent_running:
            if not self._is_starting and not state.agent.is_waiting:
                # Else they return together with the prompt that waits.
                self._emit_returned(state.agent.withdraw())
            self._is_starting = False
            state.agent.interrupt()
        self.shell.interrupt()

    async def close(self) -> None:
        """Cancel the run and the shell command, and wait for their end for a limited time.

        Unread prompts are recorded without a response.
        """
        tasks = [self._run, self._compaction, self.shell.task]
        for _ in range(_MAX_STOP_ATTEMPTS):
            running = [task for task in tasks if task is not None and not task.done()]
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running, timeout=_STOP_TIMEOUT_S)


async def _prepare_prompt(
    prompt: PromptInput, environment: AgentEnvironment
) -> tuple[PromptInput, tuple[SetupNotice, ...]]:
    """Return a prompt with its message, and notices for the user.

    An MCP server expands a command such as `/server:prompt`. Raises OSError if an image cannot be
    read, and StenoError if the prompt is invalid or the server fails.
    """
    mode = environment.settings.image_mode
    images = await asyncio.to_thread(
        lambda: [_load_image(image, environment.workspace) for image in prompt.images]
    )
    parse, servers = environment.resolver.prompt, environment.servers
    command = parse_prompt_command(prompt.text)
    if command is None or command.server not in servers.specs:
        parsed = await asyncio.to_thread(
            parse, prompt.text, appended=prompt.piped, images=images, mode=mode
        )
        notices = parsed.notices
        if command is not None:
            text = f"{command.command}: unknown MCP server; sent as text"
            notices += (SetupNotice("command_left_as_text", text),)
        return prompt._replace(message=parsed.message), notices
    expanded = await expand_prompt(command, [servers.get(command.server)])
    content = _with_image_mode(expanded, mode).content
    if prompt.piped.strip() or images:
        rest = await asyncio.to_thread(parse, "", appended=prompt.piped, images=images, mode=mode)
        content += rest.message.content
    audit = {"origin": prompt.text.strip()}
    return prompt._replace(message=UserMessage(content), audit=audit), ()


def _with_image_mode(message: UserMessage, mode: RecognitionMode) -> UserMessage:
    blocks = [
        replace(block, mode=mode) if isinstance(block, Image) else block
        for block in message.content
    ]
    return replace(message, content=tuple(blocks))


def _load_image(image: str | bytes, workspace: Workspace) -> str | ImageData:
    """Return an image that the user names or pastes, as a URL, a path or its data.

    The user may name any readable file. A file in the workspace is returned as its path in the
    workspace, and any other file as its data. Raises OSError if the file cannot be read, and
    InvalidValue if it is not an image.
    """
    if isinstance(image, bytes):
        return _validate_image(image, "the pasted data")
    if is_url(image):
        return image
    name = terminal_line(image)
    try:
        real_path = Path(image).expanduser().resolve(strict=True)
    except RuntimeError:  # the home of an unknown user
        raise InvalidValue(
            f"{name}: the home folder cannot be determined; use an absolute path",
            code="home_unknown",
            place="image",
        ) from None
    except OSError as exc:
        exc.filename = image  # which part of the path Python reports depends on its version
        raise
    if any(real_path.is_relative_to(root) for root in workspace.roots):
        return workspace.relative_of_real_path(str(real_path))
    if not real_path.is_file():  # a pipe may never have data, and a device may never end
        raise InvalidValue(f"{name} is not a file", code="not_a_file", place="image")
    with open_regular_file(real_path) as file:
        return _validate_image(file.read(MAX_IMAGE_FILE_BYTES + 1), name)


def _validate_image(data: bytes, name: str) -> ImageData:
    """Return the data as an image. Raises InvalidValue if it is not one, or too large."""
    if len(data) > MAX_IMAGE_FILE_BYTES:
        text = f"{name} is larger than {MAX_IMAGE_FILE_BYTES:,} bytes"
        raise InvalidValue(text, code="image_too_large", place="image")
    try:
        check_image_type(data)
    except BadImage as exc:
        raise InvalidValue(f"{name} {exc}", code=exc.code, place="image") from None
    return ImageData(data)
