"""The state that the parts of a session share: conversation, model, tools and listeners.

A session is recorded with its first prompt; a session that is opened and closed without a prompt is
not stored. Until the first prompt, its conversation is in memory and contains only the mode.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import cache, partial
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, final

from steno.agent import Agent, EntryRecorded, Notice, NoticeKind, Runner
from steno.agent.session_events import (
    BranchChanged,
    ErrorRaised,
    PendingCallsChanged,
    RunFailed,
    SessionEvent,
    SessionListener,
)
from steno.agent.steering import INTERRUPTED_EARLY, interrupted_before_start
from steno.app.approval_queue import ApprovalQueue
from steno.app.compose import (
    AgentEnvironment,
    environment_notices,
    open_environment_with_servers,
    read_system_prompt,
)
from steno.app.folders import UNKNOWN_USER, display_folder, user_name
from steno.app.mcp import MAX_SERVER_WAIT_S, McpOptions, McpStartup, set_up_servers
from steno.app.models import choose_model
from steno.app.session_edit import begin_session, set_mode
from steno.app.session_lookup import check_folder_is_known, session_folder
from steno.app.settings import LoadedSettings
from steno.app.usage_totals import UsageTotals
from steno.context import estimate_tokens
from steno.errors import Conflict, InvalidValue, Missing, StenoError
from steno.lazy_task import start_task
from steno.log.conversation import Conversation
from steno.messages.content import Image
from steno.ports import Approver, SetupNotice, Tool
from steno.providers.model_discovery import EMBEDDED, ModelSelection
from steno.providers.prices import find_price
from steno.records.entry import Entry, Mode, Rewind
from steno.render.items import SessionStatus
from steno.render.session_items import describe_bug
from steno.store import Store
from steno.store.base import TITLE_SEARCH_ENTRIES, derive_title

_logger: Final = logging.getLogger("steno.app")
_CHANGED_ELSEWHERE: Final = "another program has continued this session; its entries are kept"
_REMOVED_ELSEWHERE: Final = "another program has deleted this session"


T = TypeVar("T")


@final
class OperationLock:
    """A lock for operations that start a run or replace a part of the session (`async with`)."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._cancel_count = 0
        """The number of times that all operations were cancelled."""
        self._jobs: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> None:
        """Wait for the lock. Raises StenoError if all operations were cancelled in the meantime."""
        cancel_count = self._cancel_count
        self._waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self._waiting -= 1
        if cancel_count != self._cancel_count:
            self._lock.release()
            raise interrupted_before_start()

    @property
    def is_held(self) -> bool:
        """Whether an operation holds the lock or waits for it."""
        # A released lock is not locked until the next task that waits for it runs.
        return self._lock.locked() or self._waiting > 0

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()

    async def run_cancellable(
        self, coroutine: Coroutine[Any, Any, T], refusal: str = INTERRUPTED_EARLY
    ) -> T:
        """Run a coroutine that `cancel_all` can cancel; return its result.

        Raises StenoError with the message `refusal` if the coroutine was cancelled.
        """
        cancel_count, task = self._cancel_count, start_task(coroutine)
        self._jobs.add(task)
        try:
            result = await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise  # the caller was cancelled, too
            raise interrupted_before_start(refusal) from None
        finally:
            self._jobs.discard(task)
        if cancel_count != self._cancel_count:  # cancelled just when it was done
            raise interrupted_before_start(refusal)
        return result

    def cancel_all(self) -> None:
        """Refuse operations that wait for the lock, and cancel coroutines in `run_cancellable`."""
        self._cancel_count += 1
        for task in self._jobs:
            task.cancel()


class SessionConfig(NamedTuple):
    """The fixed configuration of a session."""

    loaded_settings: LoadedSettings
    folder: Path
    open_store: Callable[[], Store]
    is_persistent: bool
    mcp_options: McpOptions
    on_progress: Callable[[str], object]
    """Receives a description of what the session waits for."""
    approver: Approver | None = None
    """Decides about calls in place of the user, unless it is None."""
    is_interactive: bool = True
    """Whether a user can decide about calls.

    If not, and if there is no `approver`, calls that need approval are denied.
    """
    is_folder_chosen: bool = False
    """Whether the user has named `folder`, which an imported session requires."""


class ResumableSession(NamedTuple):
    """A stored session that can be resumed, with its title and notices."""

    conversation: Conversation
    title: str
    notices: tuple[SetupNotice, ...]


@final
class SessionState:
    """The state of the open session: conversation, model, tools, listeners."""

    def __init__(self, config: SessionConfig) -> None:
        """Take the configuration. Prompts can be sent after the first call of `use_model`."""
        self.config = config
        self.actor: str = user_name() or UNKNOWN_USER
        self.lock: OperationLock = OperationLock()
        """Held while an operation starts a run or replaces a part of the session."""
        self.is_agent_running = False
        self.is_shell_running = False
        self.is_closed: bool = False
        self.approvals: ApprovalQueue = ApprovalQueue(lambda: self.emit(PendingCallsChanged()))
        self.environment: AgentEnvironment
        self.conversation: Conversation = Conversation()
        self.is_recorded: bool = False
        """Whether the session is stored; if not, the next prompt stores it."""
        self.title: str = ""
        self._system_prompt = ""
        self._agent: Agent | None = None
        self._usage_totals = UsageTotals(cache(find_price))
        self._mcp_startup: McpStartup | None = None
        """The MCP servers. They start with the first model and keep running if it changes."""
        self._store: Store | None = None
        self._opening: asyncio.Future[Store] | None = None
        self._open_resources = AsyncExitStack()
        self._listeners: dict[int, SessionListener] = {}
        """The listeners, by the number of their subscription."""
        self._subscriptions = count()
        self._failed: set[int] = set()
        """The subscriptions whose listener has failed; only the first failure is reported."""
        self._held_events: list[SessionEvent] = []
        self._sent_notices: set[SetupNotice] = set()

    @property
    def store(self) -> Store:
        """The store. Raises StenoError before it is opened."""
        if self._store is None:
            raise StenoError("the store is not open yet", code="store_not_open", place="session")
        return self._store

    async def open_store(self) -> None:
        """Open the store in a thread if it is not open yet. Raises Unavailable if that fails."""
        self.check_open()
        if self._store is not None:
            return
        if self._opening is None:
            loop = asyncio.get_running_loop()
            self._opening = loop.run_in_executor(None, self.config.open_store)
        try:
            # A thread cannot be cancelled: after an interrupt, the next call awaits the same one.
            store = await asyncio.shield(self._opening)
        except Exception:
            self._opening = None
            raise
        self.check_open()  # else `close` has closed it
        self._store = store

    def read_blob(self, digest: str) -> bytes:
        """Return the content of a blob, such as a large image. Raises LogError if that fails."""
        return self.store.blob(digest)

    # -- events ---------------------------------------------------------------------------

    def subscribe(self, listener: SessionListener) -> Callable[[], None]:
        """Add a listener of all further events; return the function that removes it.

        If there was no listener before, it also receives the notices and errors that were kept
        until now.
        """
        number = next(self._subscriptions)
        self._listeners[number] = listener
        if self._held_events:
            asyncio.get_running_loop().call_soon(self._deliver_held_events)
        return partial(self._unsubscribe, number)

    def _unsubscribe(self, number: int) -> None:
        self._listeners.pop(number, None)

    def remove_listeners(self) -> None:
        """Remove all listeners."""
        self._listeners.clear()

    def _deliver_held_events(self) -> None:
        events, self._held_events = self._held_events, []
        for event in events:
            self.emit(event)

    def emit(self, event: SessionEvent) -> None:
        """Send an event to the listeners.

        If there are none, keep notices and errors until a listener is added.
        """
        if isinstance(event, EntryRecorded):
            self._count_entry(event.entry)
        if not self._listeners:
            if isinstance(event, (Notice, ErrorRaised, RunFailed)):
                self._held_events.append(event)
            return
        for number, listener in list(self._listeners.items()):
            try:
                listener(event)
            except Exception as exc:  # the run continues if a listener fails
                if number not in self._failed:  # it may fail with every event
                    self._failed.add(number)
                    _logger.exception("session: a listener failed at %s", type(event).__name__)
                    self.emit(ErrorRaised(describe_bug(exc), code="listener_failed"))

    def emit_notices(self, notices: Iterable[SetupNotice]) -> None:
        """Send notices about the environment, except those that were already sent."""
        for notice in notices:
            if notice not in self._sent_notices:
                self._sent_notices.add(notice)
                self.emit(Notice(NoticeKind.CONTEXT, notice.text, notice.code))

    def emit_input_notice(self, notice: SetupNotice) -> None:
        """Send a notice about a prompt or a server."""
        self.emit(Notice(NoticeKind.INPUT, notice.text, notice.code))

    # -- status ---------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise StenoError if the session is closed."""
        if self.is_closed:
            raise StenoError("already closed", code="session_closed", place="session")

    def check_idle(self) -> None:
        """Raise StenoError if the session is closed, or the agent or a shell command runs."""
        self.check_open()
        if self.is_agent_running:
            raise StenoError(
                "the agent is running; interrupt it or wait until it is done", code="agent_busy"
            )
        if self.is_shell_running:
            raise StenoError(
                "your command is still running; interrupt it or wait until it is done",
                code="shell_running",
            )

    def check_can_move(self) -> None:
        """Raise StenoError if the session is closed or busy, or an operation is in progress."""
        self.check_idle()
        if self.lock.is_held:  # a prompt that is being prepared belongs to this branch
            raise StenoError(
                "another operation is in progress; wait until it is done", code="session_busy"
            )

    @property
    def agent(self) -> Agent:
        """The agent of the session."""
        if self._agent is None:
            self._agent = self.environment.agent_for(
                self.conversation,
                runner=Runner(self.store),
                before_run=self._wait_for_mcp,
                begin_run=self._begin_run,
            )
        return self._agent

    def _begin_run(self) -> tuple[Conversation, Sequence[Tool]]:
        """Record the session if it is not stored yet; return its conversation and its tools."""
        conversation = self.ensure_recorded()
        return conversation, self.environment.tools

    @property
    def status(self) -> SessionStatus:
        """The values of a status line."""
        totals, conversation = self._usage_totals, self.conversation
        session = conversation.id if self.is_recorded else ""
        return SessionStatus(
            session=session if self.config.is_persistent else None,
            title=self.title,
            folder=display_folder(str(self.config.folder)),
            branch=conversation.branch,
            model=self.environment.model_selection.name,
            mode=conversation.mode,
            usage=totals.usage,
            cost=totals.cost,
            context_tokens=totals.context_tokens,
            context_limit=self.environment.target.context_tokens,
        )

    def _count_entry(self, entry: Entry) -> None:
        if isinstance(entry.payload, Rewind):
            # The view already has later entries, which are reported after this one.
            entries = self.conversation.entries_view()
            self._usage_totals.rebuild(takewhile(lambda earlier: earlier.id != entry.id, entries))
        else:
            self._usage_totals.add(entry)
        self.title = self.title or derive_title([entry])

    # -- the session -------------------------------------------------------------------------

    def prepare_new_session(self, title: str, mode: Mode) -> None:
        """Leave the current session, so that the next prompt starts a new one."""
        self._system_prompt, notices = read_system_prompt(
            self.config.loaded_settings, self.config.folder
        )
        conversation = Conversation()
        set_mode(conversation, mode)
        self._replace_conversation(conversation, is_recorded=False, title=title)
        self.emit_notices(notices)

    def check_prompt_size(self, text: str) -> None:
        """Raise InvalidValue if a prompt is too long for the embedded model, if that is in use."""
        model, limit = self.environment.model_selection, self.environment.target.context_tokens
        if model.vendor != EMBEDDED or limit is None:
            return
        tokens = estimate_tokens(text if self.is_recorded else self._system_prompt + text)
        if tokens > limit:
            raise InvalidValue(
                f"about {tokens:,} tokens do not fit the context window of {model.name} "
                f"({limit:,} tokens); shorten the prompt, refer to files instead of including their "
                "content, or choose another model with --model",
                code="prompt_too_long",
                place="prompt",
            )

    def ensure_recorded(self) -> Conversation:
        """Record the session if it is not stored yet; return its conversation.

        The agent is not replaced, because its first prompt may be waiting for tools.
        """
        if not self.is_recorded:
            self.conversation = begin_session(
                self.store,
                self.config.folder,
                self._system_prompt,
                self.conversation.mode,
                title=self.title,
            )
            self.is_recorded = True
            for entry in self.conversation.entries_view():
                self.emit(EntryRecorded(entry))
        return self.conversation

    def read_session(self, conversation: Conversation) -> ResumableSession:
        """Read a stored session without changing the open session.

        This method may be called in any thread. Raises Missing if the session was imported and the
        user has not chosen a folder.
        """
        header, entries = self.store.header(conversation.id), conversation.entries_view()
        check_folder_is_known(header, is_chosen=self.config.is_folder_chosen)
        title = header.title or derive_title(islice(entries, TITLE_SEARCH_ENTRIES))
        folder, start_folder = str(self.config.folder), session_folder(header)
        notices: list[SetupNotice] = []
        if start_folder is not None and start_folder != folder:
            text = f"session: started in {start_folder}, continues in {folder}"
            notices.append(SetupNotice("session_from_other_folder", text))
        return ResumableSession(conversation, title, tuple(notices))

    def resume(self, session: ResumableSession) -> None:
        """Switch to a stored session."""
        self._replace_conversation(session.conversation, is_recorded=True, title=session.title)
        self.emit_notices(session.notices)

    def _replace_conversation(
        self, conversation: Conversation, *, is_recorded: bool, title: str
    ) -> None:
        self.conversation, self.is_recorded, self.title = conversation, is_recorded, title
        self._agent = None
        self._count_branch()

    def emit_branch_changed(self) -> None:
        """Recompute the totals of the branch, and notify listeners that they must draw it again."""
        self._count_branch()
        self.emit(BranchChanged())

    def _count_branch(self) -> None:
        self._usage_totals.rebuild(self.conversation.entries_view() if self.is_recorded else ())

    @contextmanager
    def explain_conflicts(self) -> Generator[None]:
        """Explain errors that occur because another program has changed or deleted the session.

        Such an error is replaced with Conflict or Missing, with advice for the user.
        """
        is_interactive = self.config.is_interactive
        try:
            yield
        except Conflict as exc:
            hint = "continue after them with -c, or in a new branch with -c --fork"
            if is_interactive:
                hint = "continue after them with /resume, or in a new branch with /fork"
            text = f"{_CHANGED_ELSEWHERE}; {hint}"
            raise Conflict(text, code="session_changed", place="session") from exc
        except Missing as exc:
            if self._session_exists():
                raise
            text = _REMOVED_ELSEWHERE + ("; start another with /new" if is_interactive else "")
            raise Missing(text, code="session_removed", place="session") from exc

    def _session_exists(self) -> bool:
        try:
            self.store.header(self.conversation.id)
        except Missing:
            return not self.is_recorded
        return True

    # -- model and tools ------------------------------------------------------------------

    async def use_model(self, model: ModelSelection) -> None:
        """Switch to a model, and close the resources of the previous one.

        The MCP servers keep running. If the model cannot be opened, the session is unchanged.
        """
        config, stack = self.config, AsyncExitStack()
        # The first lookup of prices and limits takes a moment.
        await asyncio.to_thread(find_price, model.name)
        startup = self._mcp_startup = self._mcp_startup or self._create_mcp_startup()
        approver = config.approver or (self.approvals if config.is_interactive else None)
        environment = await stack.enter_async_context(
            open_environment_with_servers(
                config.loaded_settings,
                model,
                config.folder,
                approver,
                startup.server_setup,
                is_stored=config.is_persistent,
            )
        )
        if self.is_closed:
            await stack.aclose()
        self.check_open()
        previous, self._open_resources = self._open_resources, stack
        self.environment, self._agent = environment, None
        try:
            await previous.aclose()
        except Exception:
            _logger.exception("session: closing the resources of the previous model failed")
        self.emit_notices((*environment.notices, *environment_notices(environment, config.folder)))
        if environment.supports_tools:
            startup.start()
            self._update_tools()
        else:
            text = f"{model.name} does not support tools; it can only write text"
            self.emit_notices([SetupNotice("model_without_tools", text)])

    def _create_mcp_startup(self) -> McpStartup:
        """Find the configured servers. Raises InvalidValue if a configuration file is invalid."""
        config = self.config
        return McpStartup(
            set_up_servers(
                config.loaded_settings,
                config.folder,
                config.mcp_options,
                notify=self.emit_input_notice,
            ),
            prepare_image=self._prepare_image,
            on_change=self._update_tools,
            on_progress=config.on_progress,
            on_notice=self.emit_input_notice,
            max_wait_s=MAX_SERVER_WAIT_S if config.is_interactive else None,
        )

    def _prepare_image(self, data: bytes) -> Image:  # for the current model
        return self.environment.resolver.prepare_image(data)

    def _update_tools(self) -> None:
        """Use the MCP tools that are available now, from the next run on."""
        if self._mcp_startup is not None and self.environment.supports_tools:
            self.environment = self.environment._replace(mcp_tools=self._mcp_startup.tools)
            self.emit_notices(self.environment.server_notices)

    def start_mcp(self) -> bool:
        """Start MCP servers that have not started; return whether a prompt would wait for a server.

        Return False if the model does not support tools.
        """
        if self._mcp_startup is None or not self.environment.supports_tools:
            return False
        self._mcp_startup.start()
        return self._mcp_startup.is_pending

    async def _wait_for_mcp(self) -> None:
        if self._mcp_startup is not None and self.environment.supports_tools:
            await self._mcp_startup.wait()

    async def use_recorded_model(self, recorded: str | None) -> None:
        """Switch to the recorded model of a session.

        If the model is not available, send a notice and keep the current model.
        """
        if recorded is None or recorded == self.environment.model_selection.name:
            return
        try:
            model = await choose_model(self.config.loaded_settings, recorded)
            if model.name != self.environment.model_selection.name:
                await self.use_model(model)
        except StenoError as exc:
            text = f"{exc}; using {self.environment.model_selection.name} instead"
            self.emit(Notice(NoticeKind.CONTEXT, text, "recorded_model_unavailable"))

    async def close(self) -> None:
        """Release all resources; further calls do nothing."""
        self.is_closed = True
        async with AsyncExitStack() as stack:  # close each of them, even if another fails
            if self._store is not None:
                stack.callback(self._store.close)
            elif self._opening is not None:
                self._opening.add_done_callback(_close_unused_store)
            stack.push_async_callback(self._open_resources.aclose)
            if self._mcp_startup is not None:
                stack.push_async_callback(self._mcp_startup.aclose)


def _close_unused_store(opening: asyncio.Future[Store]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def as_steno_error(exc: Exception) -> StenoError:
    """Return `exc` as a StenoError that has a message and a code."""
    if isinstance(exc, StenoError) and str(exc):
        return exc
    return StenoError(str(exc) or type(exc).__name__, code="internal_error")
