"""The controller that connects a session to the full-screen interface.

It runs typed text as prompts and commands, and shows events as transcript items. This module is
imported after the first paint, unlike `app`, which draws the screen.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, final

from steno.agent import PromptInput
from steno.agent.events import ApprovalRequested, EntryRecorded, RunEnded
from steno.agent.session_events import (
    BranchChanged,
    ErrorRaised,
    InputReturned,
    PendingCallsChanged,
    RunFailed,
    SessionEvent,
    ShellEnded,
)
from steno.app.commands.report import Report, text_report
from steno.app.commands.table import (
    QUIT_HINT,
    QUIT_WORDS,
    SLASH_COMMANDS_BY_NAME,
    Suggestion,
    TypedCommand,
    parse_slash_command,
)
from steno.app.session import AgentSession
from steno.errors import InvalidValue, StenoError
from steno.records.entry import Mode
from steno.render.items import ItemKind, TranscriptItem
from steno.render.live_items import LiveItems
from steno.render.session_items import (
    ChangeSummarizer,
    describe_activity,
    describe_bug,
)
from steno.render.terminal_text import terminal_line
from steno.ui.help_text import TERMINAL_KEYS, UNFINISHED_NOTICE, build_help
from steno.ui.tui.app import TerminalApp
from steno.ui.tui.prompt import Prompt
from steno.ui.tui.screens.approval_panel import ApprovalPanel
from steno.ui.tui.screens.pager import PagerScreen
from steno.ui.tui.screens.sessions_screen import SessionsScreen
from steno.ui.tui.screens.tree_screen import TreeScreen
from steno.ui.tui.screens.widgets import PickerScreen
from steno.ui.tui.themes import all_theme_names, theme_named

_logger: Final = logging.getLogger("steno.ui")
_MAX_INLINE_LINES: Final = 15
"""The number of line breaks from which a report is shown in the pager, not in the transcript."""
_NO_PROMPT: Final = PromptInput("")
_SLOW_S: Final = 0.3
"""The duration after which an operation is shown as an activity."""
_INTERRUPTIBLE_COMMANDS: Final = ("compact", "model")
"""The commands that may take long and that Esc interrupts."""


@final
class SessionController:
    """Runs one session in the full-screen interface."""

    def __init__(
        self, app: TerminalApp, session: AgentSession, *, is_verbose: bool = False
    ) -> None:
        """Set the app and the session; with `is_verbose`, every change to a request is shown."""
        self._is_verbose = is_verbose
        self._app = app
        self._session = session
        self._prompt = app.prompt
        self._status_line = app.status_line
        app.transcript.set_image_source(session.find_image)
        self._live_items = LiveItems(app.transcript, session.headline, session.call_content)
        self._panel = ApprovalPanel(
            session,
            idle_s=self._idle_s,
            now=app.clock,
            on_notice=lambda text: self._live_items.add_text(ItemKind.NOTICE, text),
        )
        self._interruptible_count = 0
        """The number of operations in progress, other than runs, that can be interrupted."""
        self._shown_session: str | None = ""
        self._leaving = asyncio.Event()

    async def run(self, early: Sequence[Prompt.Submitted]) -> None:
        """Show the session, submit the early input, and run until the user quits.

        `early` is the input that was typed before the session was open.
        """
        await self._app.screen_stack[0].mount(self._panel, before=self._prompt)
        self._session.subscribe(ChangeSummarizer(self._on_event, is_verbose=self._is_verbose))
        self._reload()
        for submitted in early:
            self.submit(submitted)
        await self._leaving.wait()
        self._status_line.show_activity("closing the session")
        await self._session.close()

    def leave(self) -> None:
        """Quit; a run in progress is interrupted, and its end is recorded."""
        self._leaving.set()

    # -- events ---------------------------------------------------------------------------

    def _on_event(self, event: SessionEvent) -> None:
        self._live_items.apply(event)
        activity = describe_activity(event, lambda: self._session.status.model)
        if activity is not None:
            self._status_line.show_activity(activity, is_interruptible=True)
        match event:
            case ApprovalRequested() | PendingCallsChanged():
                self._show_pending()
            case EntryRecorded():
                self._show_status()
            case RunEnded() | RunFailed() | ShellEnded() | ErrorRaised():
                self._update_idle()
            case InputReturned(prompts):
                self._return_to_prompt(prompts)
            case BranchChanged():
                self._reload()
            case _:
                pass

    def _update_idle(self) -> None:
        """Show the status; if the session is idle, return queued prompts to the input."""
        if not self._session.is_running:
            self._status_line.show_activity(None)
            self._return_to_prompt(self._live_items.abandon_pending())
        self._show_pending()
        self._show_status()

    def _reload(self) -> None:
        self._live_items.load(self._session.entries())
        # The notice is not repeated when the user only switches branches inside the session.
        is_opened = self._session.status.session != self._shown_session
        if is_opened and self._session.is_unfinished and not self._session.is_running:
            self._live_items.add_text(ItemKind.NOTICE, UNFINISHED_NOTICE)
        self._show_pending()
        self._show_status()

    def _show_status(self) -> None:
        status = self._session.status
        self._shown_session = status.session
        self._status_line.session_status = status
        self._app.transcript.show_greeting(terminal_line(f"{status.folder} · {status.model}"))

    def _show_pending(self) -> None:
        pending = self._session.pending_calls
        self._panel.show_pending(pending)
        if any(call.request is not None for call in pending):
            self._status_line.show_activity("waiting for approval")

    def _idle_s(self) -> float:
        """Return the seconds since the last key if the prompt is blank and focused; otherwise 0."""
        prompt = self._prompt
        is_idle = prompt.is_blank and prompt.has_focus_within
        return time.monotonic() - prompt.last_key_at if is_idle else 0.0

    # -- input ----------------------------------------------------------------------------

    def submit(self, submitted: Prompt.Submitted) -> None:
        """Run the submitted text as a prompt or a command; a long paste is never a command."""
        if not submitted.text.strip() and not submitted.images:
            return
        if submitted.text.strip() in QUIT_WORDS and not submitted.images:
            self._live_items.add_text(ItemKind.NOTICE, QUIT_HINT)
            return
        command = parse_slash_command(submitted.text) if submitted.typed.startswith("/") else None
        if submitted.typed.startswith("!"):
            self._start(self._run_shell(submitted.text))
        elif command is not None and not submitted.images:
            self._start(self._run_command(submitted.text, command))
        else:
            self._start(self._send(PromptInput(submitted.text, submitted.images)))

    async def _run_shell(self, text: str) -> None:
        with self._reporting_errors(PromptInput(text)):
            await self._session.run_shell(text[1:].strip())

    async def _send(self, prompt: PromptInput) -> None:
        pending_input = self._live_items.pending_input
        item = pending_input.add(prompt, is_steering=self._session.is_running)
        with self._reporting_errors(prompt):
            try:
                with self._showing_activity("reading the prompt", is_interruptible=True):
                    await self._session.send(prompt)
            except BaseException:
                pending_input.reject(item)
                raise
            pending_input.accept(item)

    async def _run_command(self, text: str, typed: TypedCommand) -> None:
        # A rejected command returns to the prompt only if the user may want to correct it.
        is_editable = bool(typed.argument) or typed.name not in SLASH_COMMANDS_BY_NAME
        with self._reporting_errors(PromptInput(text) if is_editable else _NO_PROMPT):
            match typed:
                case TypedCommand("quit", _):
                    self.leave()
                case TypedCommand("help", _):
                    self.open_help()
                case TypedCommand("theme", name):
                    await self._change_theme(name)
                case TypedCommand("tree", _):
                    prompt = await self._app.push_screen_wait(TreeScreen(self._session))
                    if prompt is not None:
                        self._load_prompt(prompt)
                case TypedCommand("resume", ""):
                    await self._app.push_screen_wait(SessionsScreen(self._session))
                case TypedCommand("model", ""):
                    await self._pick_model()
                case TypedCommand(name, argument):
                    with self._showing_activity(
                        f"/{name}", is_interruptible=name in _INTERRUPTIBLE_COMMANDS
                    ):
                        self._show_report(await self._session.run_command(name, argument))
        self._show_status()

    def _show_report(self, report: Report) -> None:
        if report.body.count("\n") < _MAX_INLINE_LINES:
            title, form = report.title, report.form
            self._live_items.add_text(ItemKind.REPLY, report.body, head=title, form=form)
        else:
            self._app.push_screen(PagerScreen(report))

    @contextmanager
    def _showing_activity(self, text: str, *, is_interruptible: bool = False) -> Generator[None]:
        """Show an activity while the `with` block runs, if it is slow and no run is in progress."""
        show = partial(self._status_line.show_activity, text, is_interruptible=is_interruptible)
        timer = asyncio.get_running_loop().call_later(_SLOW_S, show)
        if self._session.is_running:
            timer.cancel()
        self._interruptible_count += is_interruptible
        try:
            yield
        finally:
            self._interruptible_count -= is_interruptible
            timer.cancel()
            self._update_idle()

    async def _change_theme(self, name: str) -> None:
        names = all_theme_names()
        if not name:
            picker = PickerScreen("Theme", [*map(Suggestion, names)], self._app.theme)
            picked = await self._app.push_screen_wait(picker)
            name = picked or ""
        if not name:
            return
        theme = theme_named(name)
        if theme is None:
            raise InvalidValue(
                f"unknown theme {terminal_line(name)}; use one of {', '.join(names)}",
                code="unknown_theme",
                place="theme",
            )
        self._app.theme = theme
        report = await self._session.run_command("theme", theme)
        self._live_items.add_text(ItemKind.NOTICE, f"theme {theme}; {report.body}")

    async def _pick_model(self) -> None:
        current = self._session.status.model
        with self._showing_activity("listing models", is_interruptible=True):
            choices = await self._session.list_models()
        name = await self._app.push_screen_wait(PickerScreen("Model", choices, current))
        if not name:  # the report explains how to use a model that is not listed
            self._show_report(await self._session.run_command("model"))
        elif name != current:
            with self._showing_activity(f"/model {name}", is_interruptible=True):
                self._show_report(await self._session.change_model(name))

    # -- keys --------------------------------------------------------------------------------

    def complete(self, typed: str) -> None:
        """Request suggestions for the typed text, and show them in the prompt."""
        self._start(self._complete(typed))

    async def _complete(self, typed: str) -> None:
        self._prompt.show_suggestions(typed, await self._session.complete(typed))

    def interrupt(self) -> bool:
        """Interrupt all operations in progress; return whether there were any."""
        is_interruptible = self._session.is_running or self._interruptible_count > 0
        self._session.interrupt()
        return is_interruptible

    def change_mode(self) -> None:
        """Switch between plan and act mode."""
        other = Mode.ACT if self._session.status.mode is Mode.PLAN else Mode.PLAN
        with self._reporting_errors():
            self._session.change_mode(other)
        self._show_status()

    def open_help(self) -> None:
        """Show the help."""
        self._app.push_screen(PagerScreen(text_report(build_help(TERMINAL_KEYS), "Help")))

    def open_tree(self) -> None:
        """Show the branch tree."""
        self._start(self._run_command("", TypedCommand("tree", "")))

    def edit_item(self, item: TranscriptItem) -> None:
        """Load a prompt for editing; for a recorded prompt, start a new branch before it."""
        prompt = self._live_items.pending_input.take_back(item)
        if prompt is not None:
            self._load_prompt(prompt)
        elif item.entry is None:
            self._status_line.show_message("only a recorded prompt can be edited")
        else:
            with self._reporting_errors():
                self._load_prompt(self._session.branches.fork_before(item.entry))

    def _load_prompt(self, prompt: PromptInput) -> None:
        self._prompt.load(prompt.text, prompt.images)
        self._prompt.focus()

    def focus_approvals(self) -> None:
        """Focus the approval panel if a call is pending."""
        if self._session.pending_calls:
            self._panel.focus()

    # -- errors ---------------------------------------------------------------------------

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._app.run_worker(self._report_failure(coroutine), exit_on_error=False)

    async def _report_failure(self, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            await coroutine
        except Exception as exc:
            _logger.exception("internal error")
            self._live_items.add_text(ItemKind.ERROR, describe_bug(exc))

    @contextmanager
    def _reporting_errors(self, prompt: PromptInput = _NO_PROMPT) -> Generator[None]:
        """Show an error that the `with` block raises, and return the prompt to the input.

        An unexpected exception is raised again.
        """
        try:
            yield
        except (StenoError, OSError) as exc:
            self._live_items.add_text(ItemKind.ERROR, str(exc))
            self._return_to_prompt([prompt])
        except Exception:
            self._return_to_prompt([prompt])
            raise

    def _return_to_prompt(self, prompts: Sequence[PromptInput]) -> None:
        """Load unsent prompts into the input; if the input contains text, show them as items."""
        unsent = [prompt for prompt in prompts if prompt.text or prompt.images]
        if unsent and self._prompt.is_blank:
            images = [image for prompt in unsent for image in prompt.images]
            # An empty line separates the prompts.
            self._prompt.load("\n\n".join([prompt.text for prompt in unsent]), images)
        else:
            for prompt in unsent:
                self._live_items.pending_input.show_returned(prompt)
