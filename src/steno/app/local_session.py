"""The session of a terminal on this machine (`steno.app.session.AgentSession`).

`LocalSession` delegates: `session_state` holds the shared state, `active_run` runs the agent and
shell commands, and each kind of request has a module of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import final

from steno.agent.permissions.gate import last_decision
from steno.app.active_run import ActiveRun
from steno.app.branch_tree import LocalBranchTree
from steno.app.commands.dispatch import CommandDispatcher
from steno.app.commands.model import change_mode, change_model, run_interruptible
from steno.app.completion import find_completions
from steno.app.compose import open_settings_store
from steno.app.input_setup import DEFAULT_MCP_OPTIONS, McpOptions
from steno.app.models import choose_model, list_models
from steno.app.session import (
    AgentSession,
    BranchTree,
    CommandReply,
    ImageReader,
    PendingCall,
    PromptInput,
    SessionList,
    SessionListener,
    SessionStatus,
    Suggestion,
)
from steno.app.session_list import LocalSessionList
from steno.app.session_lookup import SessionStart, apply_start, open_session
from steno.app.session_state import SessionConfig, SessionState
from steno.app.settings_loader import LoadedSettings
from steno.errors import LogError, ToolFailed
from steno.log.conversation import Conversation
from steno.log.queries import entry_decision
from steno.messages.call import ToolCall
from steno.messages.content import Block, Image, ImageBlob, ImageData
from steno.messages.message import Message
from steno.ports import ApprovalDecision, Approver, SetupNotice
from steno.records.entry import ApprovalStatus, Entry, Mode, Resolution
from steno.store import MemoryStore, Store
from steno.values import replace_lone_surrogates


@final
class SessionImages:
    """The images of a session: as sent, or as references were resolved; those are read once."""

    def __init__(self, store: Store) -> None:
        """Take the store of large images."""
        self._store = store
        self._resolved: dict[tuple[str, int], Image] = {}
        """The resolved references of the branch, by entry and block."""
        self._read_position: tuple[int, Entry | None] = (0, None)
        """How many entries of the branch were read, and the last of them."""

    def find(self, conversation: Conversation, entry: str, block: int) -> ImageReader | None:
        """Return a reader for an image of an entry; None if it is not available."""
        with suppress(LogError):  # drawing an image cannot handle a store that fails
            payload = conversation.entry(entry).payload
            if isinstance(payload, Message) and block < len(payload.content):
                resolved = self._resolved_in(conversation).get((entry, block))
                source = _stored_source(payload.content[block]) or _stored_source(resolved)
                return None if source is None else partial(self._read_source, source)
        return None

    def _read_source(self, source: ImageBlob | ImageData) -> bytes | None:
        if isinstance(source, ImageData):
            return source.data
        with suppress(LogError):
            return self._store.blob(source.sha256)
        return None

    def _resolved_in(self, conversation: Conversation) -> dict[tuple[str, int], Image]:
        """Read the new entries of the branch; all of them on another branch, or after a rewind."""
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
    """Return the source of a block, if it is an image whose bytes are stored."""
    source = block.source if isinstance(block, Image) else None
    return source if isinstance(source, ImageBlob | ImageData) else None


@asynccontextmanager
async def open_local_session(
    loaded_settings: LoadedSettings,
    start: SessionStart,
    *,
    is_persistent: bool = True,
    mode: str | None = None,
    mcp_options: McpOptions = DEFAULT_MCP_OPTIONS,
    approver: Approver | None = None,
    is_verbose: bool = False,
    on_progress: Callable[[str], object] = lambda _: None,
) -> AsyncGenerator[AgentSession]:
    """Open a session in a folder; everything is closed at the end of the `async with` block.

    A session that `start` names is resumed; a new one is recorded with its first prompt. `mode`
    replaces the recorded mode. `approver` decides in place of the user. With `is_verbose`, each
    field that a server ignores is reported on its own. `on_progress` receives what the session
    waits for.
    """
    is_persistent = is_persistent or not start.is_new
    on_progress("looking for a model")
    store = await asyncio.to_thread(
        _open_store, loaded_settings, is_persistent=is_persistent, is_new=start.is_new
    )
    state = SessionState(
        SessionConfig(
            loaded_settings,
            start.folder,
            store,
            is_persistent,
            mcp_options,
            on_progress,
            approver,
            is_verbose,
        )
    )
    session = LocalSession(state)
    skipped: list[SetupNotice] = []
    try:
        stored: Conversation | None = None
        if not start.is_new:
            stored = await asyncio.to_thread(_open_stored, store, start, skipped.append)
        recorded = "" if stored is None else stored.model or ""
        await state.use_model(await choose_model(loaded_settings, recorded))
        if stored is None:
            state.prepare_new_session("", loaded_settings.settings.mode)
        else:
            apply_start(stored, start, mode)
            state.resume(state.read_session(stored))
        state.emit_notices((*skipped, *loaded_settings.notices))
        yield session
    finally:
        await session.close()


def _open_store(loaded_settings: LoadedSettings, *, is_persistent: bool, is_new: bool) -> Store:
    return (
        open_settings_store(loaded_settings.settings, is_new=is_new)
        if is_persistent
        else MemoryStore()
    )


def _open_stored(
    store: Store, start: SessionStart, on_skipped: Callable[[SetupNotice], object]
) -> Conversation:
    conversation = open_session(store, start, shows_progress=False, on_skipped=on_skipped)
    conversation.entries_view()  # read the entries here, in the thread
    return conversation


@final
class LocalSession:
    """One open session, the agent that works on it, and the requests of an interface."""

    def __init__(self, state: SessionState) -> None:
        """Take the shared state."""
        self._state = state
        self._active_run = ActiveRun(state)
        self._images = SessionImages(state.config.store)
        self._branches = LocalBranchTree(state)
        self._session_list = LocalSessionList(state)
        self._commands = CommandDispatcher(
            state, self._active_run, self._branches, self._session_list
        )

    # -- state ----------------------------------------------------------------------------

    @property
    def actor(self) -> str:
        """The name of the user."""
        return self._state.actor

    @property
    def status(self) -> SessionStatus:
        """The status."""
        return self._state.status

    @property
    def is_running(self) -> bool:
        """Whether the agent or a shell command runs."""
        return self._active_run.is_running

    @property
    def is_unfinished(self) -> bool:
        """Whether the log ends inside a turn."""
        return self._active_run.is_unfinished

    @property
    def pending_calls(self) -> Sequence[PendingCall]:
        """The calls that await a decision, requested ones first."""
        return self._state.approvals.pending_calls(self._undecided_calls().values())

    @property
    def branches(self) -> BranchTree:
        """The tree of this session."""
        return self._branches

    @property
    def session_list(self) -> SessionList:
        """All sessions."""
        return self._session_list

    def subscribe(self, listener: SessionListener) -> None:
        """Set the listener of all further events."""
        self._state.subscribe(listener)

    def entries(self, branch: str | None = None) -> Sequence[Entry]:
        """Return the recorded entries."""
        return self._state.conversation.entries_view(branch) if self._state.is_recorded else ()

    def find_image(self, entry: str, block: int) -> ImageReader | None:
        """Return a reader for an image: as sent, or as its reference was resolved."""
        return self._images.find(self._state.conversation, entry, block)

    def _undecided_calls(self) -> dict[str, ToolCall]:
        """Return the calls of this turn without a decision."""
        conversation = self._state.conversation
        if not self._state.is_agent_running:
            return {}
        calls = [conversation.outstanding_call(id) for id in conversation.outstanding]
        decisions = {call.id: last_decision(conversation.entries_view(), call) for call in calls}
        return {
            call.id: call
            for call in calls
            if isinstance(call, ToolCall) and _is_undecided(decisions[call.id])
        }

    # -- requests -------------------------------------------------------------------------

    async def send(self, prompt: PromptInput) -> None:
        """Send a prompt: it starts a run, or steers the current one."""
        await self._active_run.send(prompt)

    async def run_shell(self, command: str) -> None:
        """Run a shell command of the user; returns once it runs."""
        await self._active_run.shell.run(command)

    def interrupt(self) -> None:
        """Interrupt the run and the shell command."""
        self._active_run.interrupt()

    def decide(self, call_id: str, decision: ApprovalDecision) -> None:
        """Decide about a pending call, or about one that waits for it."""
        self._state.approvals.decide(call_id, decision, self._undecided_calls())

    async def preview(self, call: ToolCall) -> str:
        """Return the effect that a call would have now. Raises ToolFailed if it cannot succeed."""
        approvals = self._state.approvals
        try:
            text = replace_lone_surrogates(await self._preview_text(call))
        except ToolFailed as exc:
            approvals.record_preview(call, str(exc))
            raise
        approvals.record_preview(call, text)
        return text

    async def _preview_text(self, call: ToolCall) -> str:
        tools = {tool.definition.name: tool for tool in self._state.environment.tools}
        tool = tools.get(call.name)
        if tool is None or tool.definition.check(call):
            return call.arguments
        return await tool.preview(call)

    def change_mode(self, mode: Mode) -> None:
        """Switch between plan and act."""
        change_mode(self._state, mode)

    async def change_model(self, name: str) -> CommandReply:
        """Switch to another model; return the changes in what it sees."""
        return await change_model(self._state, name)

    async def list_models(self) -> Sequence[Suggestion]:
        """Return the models that there are to choose from."""
        return await run_interruptible(self._state, list_models(self._state.config.loaded_settings))

    async def run_command(self, name: str, argument: str = "") -> CommandReply:
        """Run a slash command."""
        return await self._commands.run(name, argument)

    async def complete(self, typed: str) -> Sequence[Suggestion]:
        """Return completions of the typed text."""
        return await find_completions(self._state.command_context, typed)

    async def close(self) -> None:
        """Interrupt whatever runs, and release all resources."""
        self._state.is_closed = True  # from here on nothing starts
        self._state.subscribe(None)
        try:
            await self._active_run.close()
        finally:  # also if the wait is cancelled
            await self._state.close()


def _is_undecided(decision: Entry | None) -> bool:
    return decision is None or entry_decision(decision) == ApprovalStatus.PENDING
