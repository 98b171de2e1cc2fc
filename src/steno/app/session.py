"""The session of every interface: one conversation, and the agent that works on it.

An interface subscribes to events (`SessionEvent`), reads entries, and sends requests. It does not
use providers, stores or tools directly, and needs no terminal.

All methods are called in one event loop. A refused request raises StenoError with a message for
the user, and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from itertools import takewhile
from typing import Any, Final, TypeAlias, TypeVar, final

from steno.agent import EntryRecorded, PromptInput, RunResult
from steno.agent.permissions.gate import preview_call
from steno.agent.permissions.grants import last_decision
from steno.agent.session_events import SessionListener
from steno.app.active_run import ActiveRun
from steno.app.approval_queue import PendingCall
from steno.app.branch_tree import BranchTree
from steno.app.commands.context import CommandContext
from steno.app.commands.explain import list_context_changes
from steno.app.commands.report import Paragraph, Report, code
from steno.app.commands.slash_commands import run_slash_command
from steno.app.commands.table import Suggestion
from steno.app.completion import find_completions
from steno.app.compose import open_settings_store
from steno.app.environment import user_environment
from steno.app.mcp import DEFAULT_MCP_OPTIONS, McpOptions
from steno.app.models import check_temperature, choose_model, list_models, name_model_in_errors
from steno.app.session_edit import apply_start, set_mode
from steno.app.session_list import SessionList
from steno.app.session_log import SessionLog
from steno.app.session_lookup import SessionStart, open_session
from steno.app.session_state import SessionConfig, SessionState
from steno.app.settings import LoadedSettings
from steno.errors import InvalidRequest, InvalidValue, LogError, ToolFailed
from steno.log.conversation import Conversation
from steno.log.queries import entry_decision
from steno.log.tree import ends_beginning
from steno.messages.call import AnyToolCall, ToolCall
from steno.messages.content import Block, Image, ImageBlob, ImageData, RecognitionMode
from steno.ports import (
    ApprovalDecision,
    Approver,
    CallPreview,
    PreviewKind,
    PreviewPart,
    SetupNotice,
)
from steno.providers.model_discovery import find_model
from steno.records.entry import (
    ApprovalStatus,
    Compaction,
    Entry,
    Mode,
    Resolution,
)
from steno.render.items import SessionStatus
from steno.render.quantities import format_count
from steno.store import MemoryStore

T = TypeVar("T")
_MAX_DIFFERENCES: Final = 20


class AgentSession:
    """An open session: its status, its events, and the operations of a user interface."""

    branches: BranchTree
    """The tree of this session. It cannot be changed while the agent runs."""
    session_list: SessionList
    """All stored sessions."""

    def __init__(self, state: SessionState) -> None:
        """Take the shared state. Use `open` to open a session."""
        self.state: Final = state
        """The state shared by the parts of the session, for commands, not for interfaces."""
        self.active_run: Final = ActiveRun(state)
        self._images = SessionImages(state.read_blob)
        self.branches = BranchTree(state)
        self.session_list = SessionList(state)
        self._command_context = CommandContext(
            folder=state.config.folder,
            open_store=lambda: nullcontext(state.store),
            headline=self.headline,
            is_persistent=state.config.is_persistent,
            session=self,
        )

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        loaded_settings: LoadedSettings,
        start: SessionStart,
        *,
        is_persistent: bool = True,
        mode: str | None = None,
        mcp_options: McpOptions = DEFAULT_MCP_OPTIONS,
        approver: Approver | None = None,
        is_interactive: bool = True,
        on_progress: Callable[[str], object] = lambda _: None,
        on_skipped: Callable[[SetupNotice], object] | None = None,
    ) -> AsyncGenerator[AgentSession]:
        """Open a session in a folder; everything is closed at the end of the `async with` block.

        A session that `start` names is resumed; a new one is recorded with its first prompt. `mode`
        replaces the recorded mode of a resumed session. `approver` decides in place of the user. If
        `is_interactive` is false, calls that need a decision are denied unless there is an
        `approver`, the first prompt opens the store, and prompts wait for all MCP servers.
        `on_progress` receives descriptions of what the session waits for. `on_skipped` receives
        notices about unreadable sessions of the folder; if it is None, they are sent as events.
        """
        on_progress("searching for a model")
        settings, skipped = loaded_settings.settings, list[SetupNotice]()
        is_persistent = is_persistent or not start.is_new
        open_store = partial(open_settings_store, settings, is_new=start.is_new)
        state = SessionState(
            SessionConfig(
                loaded_settings=loaded_settings,
                folder=start.folder,
                open_store=open_store if is_persistent else MemoryStore,
                is_persistent=is_persistent,
                mcp_options=mcp_options,
                on_progress=on_progress,
                approver=approver,
                is_interactive=is_interactive,
                is_folder_chosen=start.is_folder_chosen,
            )
        )
        session = cls(state)
        try:
            stored: Conversation | None = None
            if not start.is_new:
                await state.open_store()
                stored = await asyncio.to_thread(
                    _open_stored, state, start, on_skipped or skipped.append
                )
            recorded = "" if stored is None else stored.model or ""
            model = await choose_model(loaded_settings, recorded)
            check_temperature(loaded_settings, model)
            await state.use_model(model)
            if stored is None:
                if is_interactive:  # its error is reported before the first prompt
                    await state.open_store()
                state.prepare_new_session("", settings.mode)
            else:
                apply_start(stored, start, mode)
                state.resume(state.read_session(stored))
            state.emit_notices((*skipped, *loaded_settings.notices))
            yield session
        finally:
            await session.close()

    async def close(self) -> None:
        """Interrupt the run and the shell command, and release all resources."""
        self.state.is_closed = True  # from here on nothing starts
        try:
            await self.active_run.close()
        finally:  # also if the wait is cancelled
            self.state.remove_listeners()
            await self.state.close()

    # -- status -------------------------------------------------------------------------------

    @property
    def actor(self) -> str:
        """The name of the user, for recorded decisions."""
        return self.state.actor

    @property
    def status(self) -> SessionStatus:
        """The status of the session, which is fast to read even in a long session."""
        return self.state.status

    @property
    def is_running(self) -> bool:
        """Whether the agent or a shell command runs."""
        return self.active_run.is_running

    @property
    def is_unfinished(self) -> bool:
        """Whether the log ends with an unanswered prompt, call or result, and the agent is idle."""
        return self.active_run.is_unfinished

    @property
    def has_unanswered_prompt(self) -> bool:
        """Whether the last prompt was not sent, or has no response."""
        return self.active_run.has_unanswered_prompt

    @property
    def pending_calls(self) -> Sequence[PendingCall]:
        """The calls that wait for approval, starting with those whose approval was requested."""
        return self.state.approvals.pending_calls(self._undecided_calls().values())

    def subscribe(self, listener: SessionListener) -> Callable[[], None]:
        """Add a listener of all further events; return the function that removes it."""
        return self.state.subscribe(listener)

    def entries(self, branch: str | None = None) -> Sequence[Entry]:
        """Return the entries of a branch, by default the active one, without copying them.

        There are no entries before the session is recorded.
        """
        return self.state.conversation.entries_view(branch) if self.state.is_recorded else ()

    def find_image(self, entry: str, block: int) -> ImageReader | None:
        """Return a reader for an image of an entry; None if the image is not available.

        The reader can be called in any thread.
        """
        return self._images.find(self.state.conversation, entry, block)

    # -- the run ------------------------------------------------------------------------------

    async def send(self, prompt: PromptInput) -> None:
        """Send a prompt, which starts a run or steers the current one.

        Returns once the prompt is accepted; listeners receive the results. Raises StenoError if the
        prompt is refused.
        """
        if not isinstance(prompt, PromptInput):
            raise InvalidValue(
                'must be a PromptInput, as in PromptInput("List the files.")',
                code="wrong_type",
                place="prompt",
            )
        await self.active_run.send(prompt)

    async def retry(self, image_mode: RecognitionMode | None = None) -> None:
        """Send an unsent prompt again, or continue where the log stops.

        `image_mode` replaces the mode of the images in the prompt.
        """
        await self.active_run.retry(image_mode)

    async def wait(self) -> RunResult:
        """Wait for the end of the last run, and return its result. Raises its error."""
        return await self.active_run.wait()

    async def run_shell(self, command: str) -> None:
        """Start a shell command of the user. Its output is recorded when the command ends."""
        await self.active_run.shell.run(command)

    def interrupt(self) -> None:
        """Interrupt the run and the shell command, if they are running.

        Prompts that no model has read, or that wait for servers, are returned with `InputReturned`.
        Prompts that are still being prepared, or wait for their turn, are refused. The output of an
        interrupted shell command is still recorded.
        """
        self.active_run.interrupt()

    def decide(self, call_id: str, decision: ApprovalDecision) -> None:
        """Decide about a call of this turn. Raises StenoError if it does not await a decision."""
        if not isinstance(decision, ApprovalDecision):
            raise InvalidValue(
                f"must be an ApprovalDecision, not {type(decision).__name__}",
                code="wrong_type",
                place="approval",
            )
        self.state.approvals.decide(call_id, decision, self._undecided_calls())

    def headline(self, call: AnyToolCall) -> str:
        """Return the headline of a call, which its tool provides if the tool is available."""
        return self.state.environment.headline(call)

    def call_content(self, call: ToolCall) -> PreviewPart | None:
        """Return the text that a call writes; None if it writes no text.

        If the tool of the call is available, the tool provides the text.
        """
        return self.state.environment.call_content(call)

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return the effect that a call would have now. Raises ToolFailed if it cannot succeed."""
        approvals = self.state.approvals
        tool = self.state.environment.find_tool(call.name)
        if tool is None or tool.definition.check(call):
            preview = CallPreview((PreviewPart(PreviewKind.ARGUMENTS, call.arguments),))
        else:
            try:
                preview = await preview_call(tool, call)
            except ToolFailed as exc:
                approvals.record_preview(call, CallPreview.of(str(exc)))
                raise
        approvals.record_preview(call, preview)
        return preview

    def _undecided_calls(self) -> dict[str, ToolCall]:
        """Return the calls of this turn without a decision, by id."""
        conversation = self.state.conversation
        if not self.state.is_agent_running:
            return {}
        undecided: dict[str, ToolCall] = {}
        for id in conversation.outstanding:
            call = conversation.outstanding_call(id)
            decision = last_decision(conversation.entries_view(), call)
            is_decided = decision is not None and entry_decision(decision) != ApprovalStatus.PENDING
            if isinstance(call, ToolCall) and not is_decided:
                undecided[call.id] = call
        return undecided

    # -- commands -----------------------------------------------------------------------------

    def change_mode(self, mode: Mode) -> None:
        """Switch to plan or act mode; the mode takes effect with the next decision about a call."""
        with self.state.explain_conflicts():
            entry = set_mode(self.state.conversation, mode)
        if entry is not None and self.state.is_recorded:
            self.state.emit(EntryRecorded(entry))

    def clear_context(self) -> bool:
        """Empty the context of the model; all entries stay in the log.

        Return False if it contains nothing but system messages, which a clear keeps. Raises
        StenoError while the agent or a shell command runs.
        """
        self.state.check_can_move()
        conversation = self.state.conversation
        current = takewhile(
            lambda entry: not entry.clears_context, reversed(conversation.entries_view())
        )
        if not any(map(_adds_to_context, current)):
            return False
        with self.state.explain_conflicts():
            entry = conversation.clear()
        self.state.emit(EntryRecorded(entry))
        return True

    async def change_model(self, name: str) -> Report:
        """Switch to another model; return a report on how its context differs from the log.

        The search for the model can be interrupted. The change is recorded with the next request.
        """
        state = self.state
        async with state.lock:
            state.check_idle()
            vendors = state.config.loaded_settings.settings.providers
            search = find_model(name, vendors=vendors, environ=user_environment())
            with name_model_in_errors(name, "/model"):
                model = await self._run_interruptible(search)
            if model.name == state.environment.model_selection.name:
                return Report([Paragraph(code(model.name), " is already in use.")])
            await state.use_model(model)
            differences = (
                await asyncio.to_thread(_context_differences, state) if state.is_recorded else []
            )
        parts = [Paragraph("The model is ", code(model.name), " from the next request on.")]
        if differences:
            parts.append(Paragraph("Its context differs from the log:"))
            parts += [Paragraph(line, marker="-") for line in differences[:_MAX_DIFFERENCES]]
        if (omitted := len(differences) - _MAX_DIFFERENCES) > 0:
            parts.append(Paragraph(f"and {format_count(omitted, 'more', 'more')}", marker="-"))
        return Report(parts, "Model" if differences else "")

    async def list_models(self) -> Sequence[Suggestion]:
        """Return the models to choose from."""
        return await self._run_interruptible(list_models(self.state.config.loaded_settings))

    async def _run_interruptible(self, search: Coroutine[Any, Any, T]) -> T:
        """Run a search for models. Raises StenoError if the user interrupts it."""
        name = self.state.environment.model_selection.name
        refusal = f"/model: interrupted; still using {name}"
        return await self.state.lock.run_cancellable(search, refusal)

    async def run_command(self, name: str, argument: str = "") -> Report:
        """Run a slash command, and return its output."""
        return await run_slash_command(self._command_context, name, argument)

    async def complete(self, typed: str) -> Sequence[Suggestion]:
        """Return completions of `@...` (files, folders, resources) or `/...` (prompts)."""
        return await find_completions(self.state.environment, typed)


def _adds_to_context(entry: Entry) -> bool:
    """Return whether a clear can remove the entry, or a system message after it."""
    return isinstance(entry.payload, Compaction) or ends_beginning(entry)


def _context_differences(state: SessionState) -> list[str]:
    store, environment = state.store, state.environment
    log = SessionLog(store.header(state.conversation.id), store.records(state.conversation.id))
    vendors = environment.settings.providers
    try:
        return list_context_changes(
            store, log, environment.model_selection.name, vendors=vendors, target=environment.target
        )
    except InvalidRequest:  # there is no message yet
        return []


def _open_stored(
    state: SessionState, start: SessionStart, on_skipped: Callable[[SetupNotice], object]
) -> Conversation:
    conversation = open_session(state.store, start, on_skipped)
    conversation.entries_view()  # read the entries here, in the thread
    return conversation


ImageReader: TypeAlias = Callable[[], bytes | None]
"""A function that returns the bytes of an image; None if they cannot be read. It may be slow."""


@final
class SessionImages:
    """The images of a session, as sent or as resolved from references.

    Each entry is searched only once for resolved references.
    """

    def __init__(self, read_blob: Callable[[str], bytes]) -> None:
        """Take the function that reads a large image by its digest."""
        self._read_blob = read_blob
        self._resolved: dict[tuple[str, int], Image] = {}
        """The resolved references of the branch, by entry and block."""
        self._read_position: tuple[int, Entry | None] = (0, None)
        """The number of entries of the branch that were read, and the last of them."""

    def find(self, conversation: Conversation, entry: str, block: int) -> ImageReader | None:
        """Return a reader for an image of an entry; None if it is not available."""
        with suppress(LogError):  # drawing an image cannot handle a store that fails
            message = conversation.entry(entry).message
            if message is not None and block < len(message.content):
                resolved = self._resolved_in(conversation).get((entry, block))
                source = _stored_source(message.content[block]) or _stored_source(resolved)
                return None if source is None else partial(self._read_source, source)
        return None

    def _read_source(self, source: ImageBlob | ImageData) -> bytes | None:
        if isinstance(source, ImageData):
            return source.data
        with suppress(LogError):
            return self._read_blob(source.sha256)
        return None

    def _resolved_in(self, conversation: Conversation) -> dict[tuple[str, int], Image]:
        """Return the resolved images of the active branch, by entry and block.

        Only new entries are read. After a switch of branches or a rewind, all entries are read
        again.
        """
        entries, (count, last) = conversation.entries_view(), self._read_position
        if count > len(entries) or (count and entries[count - 1] is not last):
            self._resolved, count = {}, 0
        for number in range(count, len(entries)):
            payload = entries[number].payload
            if isinstance(payload, Resolution):
                image = next((block for block in payload.content if isinstance(block, Image)), None)
                if image is not None:
                    self._resolved[payload.target, payload.block] = image
                else:
                    self._resolved.pop((payload.target, payload.block), None)
        self._read_position = (len(entries), entries[-1] if entries else None)
        return self._resolved


def _stored_source(block: Block | None) -> ImageBlob | ImageData | None:
    """Return the source of an image whose bytes are stored; None for any other block."""
    source = block.source if isinstance(block, Image) else None
    return source if isinstance(source, ImageBlob | ImageData) else None
