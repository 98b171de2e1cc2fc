"""The Textual app of the full-screen interface, with its widgets and keys.

The app paints before a session is open and before the controller is imported, so this module
depends on no session and imports nothing slow.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, TypeAlias, final

from textual import events, on
from textual.actions import SkipAction
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from steno.render.items import ItemKind, TranscriptItem
from steno.ui.prompt_state import PromptHistory
from steno.ui.tui.prompt import Prompt
from steno.ui.tui.status import StatusLine
from steno.ui.tui.terminal_driver import TerminalDriver
from steno.ui.tui.themes import THEMES, NoColorFilter
from steno.ui.tui.transcript.view import Transcript

SessionOpener: TypeAlias = Callable[[Callable[[str], None]], AbstractAsyncContextManager[Any]]
"""Opens a session (see `steno.app.session`), and passes its progress to a function as text."""
_PROMPT_HINT: Final = "type a prompt · / commands · @ files · ! shell · /help"
_MAIN_SCREEN_ACTIONS: Final = frozenset(
    {
        *("interrupt", "session", "leave_if_blank", "fold"),
        *("scroll_page", "select", "select_next", "leave_item"),
    }
)
"""The actions that need the transcript to be the top screen."""
_PROMPT_ACTIONS: Final = frozenset({"leave_if_blank", "scroll_page"})
_TRANSCRIPT_ACTIONS: Final = frozenset({"select_next", "leave_item"})
"""The actions that are available only while the transcript has the focus."""
_ITEM_KEYS: Final = frozenset({"y", "e"})
"""The keys that apply to the selected item and not to the prompt."""
_ITEM_KEY_HINTS: Final = "Enter fold · y copy · e edit and resend · Esc back"
_DOUBLE_PRESS_S: Final = 2.0
"""The time within which a second Ctrl+C quits."""


class Controller(Protocol):
    """Handles the input once a session is open; see also `TerminalApp.action_session`."""

    async def run(self, early: Sequence[Prompt.Submitted]) -> None:
        """Submit the input typed before the session was open, and run until the user quits."""
        ...

    def submit(self, submitted: Prompt.Submitted) -> None:
        """Run the submitted text as a prompt or a command."""
        ...

    def complete(self, typed: str) -> None:
        """Request suggestions for the typed text, and show them in the prompt."""
        ...

    def interrupt(self) -> bool:
        """Interrupt all operations in progress; return whether there were any."""
        ...

    def edit_item(self, item: TranscriptItem) -> None:
        """Load a prompt for editing; for a recorded prompt, start a new branch before it."""
        ...

    def leave(self) -> None:
        """Quit; a run in progress is interrupted, and its end is recorded."""
        ...


@final
class TerminalApp(App[int]):
    """The full-screen app, with a transcript, a prompt and a status line."""

    TITLE: str | None = "steno"
    ENABLE_COMMAND_PALETTE: ClassVar[bool] = False
    CSS: ClassVar[str] = """
    Screen { layout: vertical; }
    #transcript { height: 1fr; min-height: 4; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave_item", "back", show=False, priority=True),
        Binding("escape", "interrupt", "interrupt", show=False),
        Binding("shift+tab", "session('change_mode')", "plan/act", priority=True),
        Binding("ctrl+c", "stop", "stop", priority=True),
        Binding("ctrl+d", "leave_if_blank", "quit", priority=True),
        Binding("ctrl+q", "leave", "quit", priority=True),
        Binding("ctrl+o", "fold", "fold", priority=True),
        Binding("ctrl+t", "session('open_tree')", "tree", priority=True),
        Binding("ctrl+g", "session('focus_approvals')", "decide", priority=True),
        Binding("pageup", "scroll_page(-1)", "scroll", priority=True),
        Binding("pagedown", "scroll_page(1)", "scroll", priority=True),
        Binding("alt+up", "select(-1)", "select", priority=True),
        Binding("alt+down", "select(1)", "select", priority=True),
        Binding("up", "select_next(-1)", "select", show=False, priority=True),
        Binding("down", "select_next(1)", "select", show=False, priority=True),
        Binding("f1", "session('open_help')", "help"),
    ]

    def __init__(
        self,
        open_session: SessionOpener,
        load_controller: ControllerLoader,
        *,
        theme: str = "steno-dark",
        history: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(driver_class=TerminalDriver)
        # Set before the first style is computed, because Textual recomputes all styles for a theme.
        for own_theme in THEMES:
            self.register_theme(own_theme)
        self.set_reactive(App.theme, theme)
        self.stylesheet.set_variables(self.get_css_variables())
        if self.no_color:
            self._filters = [NoColorFilter()]  # Textual has no public way to set filters
        self.clock = clock
        self._open_session = open_session
        self._load_controller = load_controller
        self.transcript: Final = Transcript(id="transcript")
        self.prompt: Final = Prompt(PromptHistory(history), id="prompt")
        self.status_line: Final = StatusLine(clock=clock, id="status")
        self._controller: Controller | None = None
        self._early_input: list[Prompt.Submitted] = []
        self._ctrl_c_at = float("-inf")
        self.failure: Exception | None = None
        """The error that ended the session, or prevented it from opening."""
        self.exit_status: int = 0

    def compose(self) -> ComposeResult:
        """Yield the widgets of the first paint."""
        yield from (self.transcript, self.prompt, self.status_line)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Return no commands for Textual's palette; users type commands in the prompt."""
        return ()

    def send_first(self, text: str) -> None:
        """Store a prompt that is sent as soon as the session is open."""
        self._early_input.append(Prompt.Submitted(text, (), ""))

    # -- beginning and end -------------------------------------------------------------------

    def on_mount(self) -> None:
        """Prepare the widgets, and start the session after the first paint."""
        self.prompt.hint = _PROMPT_HINT
        self.prompt.focus()
        self.status_line.show_activity("starting")
        self.watch(self.transcript, "unseen_count", self._show_unseen_count)
        self.call_after_refresh(self._start_session)

    def _show_unseen_count(self, count: int) -> None:
        self.status_line.unseen_count = count

    def _start_session(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            loop.add_signal_handler(number, self._stop_on_signal, number)
        self.run_worker(self._run_session(), name="work", exit_on_error=False)

    async def _run_session(self) -> None:
        """Open a session, run it and close it, all in the same task."""
        try:
            # In a thread, because this import takes as long as the first paint.
            create_controller = await asyncio.to_thread(self._load_controller)
            async with self._open_session(self._show_activity) as session:
                controller = self._controller = create_controller(self, session)
                self.status_line.show_activity(None)
                await controller.run(self._early_input)
        except Exception as exc:  # noqa: BLE001 - run_terminal raises it
            self.failure, self.exit_status = exc, 1
        finally:
            self._controller = None
        self.exit(self.exit_status)

    def _show_activity(self, text: str) -> None:
        """Show the progress of an operation; once the session is open, Esc interrupts it."""
        self.status_line.show_activity(text, is_interruptible=self._controller is not None)

    def _stop_on_signal(self, number: signal.Signals) -> None:
        self.exit_status = 128 + number
        self.action_leave()

    # -- input ----------------------------------------------------------------------------

    @on(Prompt.Submitted)
    def _submit_prompt(self, message: Prompt.Submitted) -> None:
        if self._controller is not None:
            self._controller.submit(message)
        else:
            self._early_input.append(message)
            self.transcript.add_item(
                TranscriptItem(
                    ItemKind.NOTICE, body="starting; the prompt is sent when the session is open"
                )
            )

    @on(Prompt.CompletionRequested)
    def _request_completions(self, message: Prompt.CompletionRequested) -> None:
        if self._controller is not None:
            self._controller.complete(message.typed)

    @on(Prompt.Notified)
    def _show_notice(self, message: Prompt.Notified) -> None:
        self.transcript.add_item(TranscriptItem(ItemKind.NOTICE, body=message.text))

    @on(Transcript.EditRequested)
    def _edit_item(self, message: Transcript.EditRequested) -> None:
        if self._controller is not None:
            self._controller.edit_item(message.item)

    async def on_event(self, event: events.Event) -> None:
        """Redirect text that is typed or pasted outside the prompt to the prompt."""
        is_typed = isinstance(event, events.Paste)
        if isinstance(event, events.Key) and event.is_printable:
            is_typed = event.key not in _ITEM_KEYS or self.transcript.selected is None
        # No widget has the focus while the terminal window has none; a key restores the focus.
        is_main_screen = self.app_focus and len(self.screen_stack) == 1
        if is_typed and is_main_screen and self.focused in (None, self.transcript):
            self._leave_item()
        await super().on_event(event)

    @property
    def _is_transcript_focused(self) -> bool:
        return self.screen_stack[0].focused is self.transcript

    def _leave_item(self) -> None:
        self.transcript.deselect()
        self.prompt.focus_at_once()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _show_keys(self) -> None:
        is_selected = self._is_transcript_focused and self.transcript.selected is not None
        self.status_line.shown_keys = _ITEM_KEY_HINTS if is_selected else None

    def on_approval_panel_dismissed(self) -> None:
        """Focus the prompt.

        Textual finds this handler by its name, because the panel is imported later.
        """
        self.prompt.focus()

    # -- keys --------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether the app handles an action.

        Otherwise, a screen or the focused widget may handle it.
        """
        if action in _PROMPT_ACTIONS and not self.prompt.has_focus_within:
            return False
        if action in _TRANSCRIPT_ACTIONS and not self._is_transcript_focused:
            return False
        return len(self.screen_stack) == 1 or action not in _MAIN_SCREEN_ACTIONS

    def action_interrupt(self) -> None:
        """Interrupt all operations in progress; if there are none, clear the prompt."""
        is_stopped = self._controller is not None and self._controller.interrupt()
        if not is_stopped and self.prompt.has_focus_within and not self.prompt.is_blank:
            self.prompt.clear()
        self.prompt.focus()

    def action_stop(self) -> None:
        """Copy the selection, clear the prompt or interrupt; a second press quits."""
        if self.screen.get_selected_text():
            self.screen.action_copy_text()
            self.screen.clear_selection()
        elif len(self.screen_stack) == 1 and not self.prompt.is_blank:
            self.prompt.clear()
        elif self._controller is None or not self._controller.interrupt():
            if self.clock() - self._ctrl_c_at < _DOUBLE_PRESS_S:
                self.action_leave()
            self._ctrl_c_at = self.clock()
            self.status_line.show_message("press Ctrl+C again to quit")

    def action_leave(self) -> None:
        """Quit; a run is interrupted first, and its end is recorded."""
        if self._controller is not None:
            self._controller.leave()
        else:
            self.exit(self.exit_status)

    def action_leave_if_blank(self) -> None:
        """Quit if the prompt is blank; otherwise delete the character after the cursor."""
        if self.prompt.is_blank:
            self.action_leave()
        else:
            self.prompt.action_delete_right()

    def action_session(self, method: str) -> None:
        """Call a method of the controller without arguments; do nothing if no session is open."""
        if self._controller is not None:
            getattr(self._controller, method)()

    def action_fold(self) -> None:
        """Unfold all items, or fold them again."""
        items = self.transcript.items
        is_any_folded = any(item.is_folded for item in items if item.can_fold)
        self.transcript.fold_all(is_folded=not is_any_folded)

    def action_scroll_page(self, pages: int) -> None:
        """Scroll the transcript while the prompt has the focus."""
        transcript = self.transcript
        scroll = transcript.scroll_page_up if pages < 0 else transcript.scroll_page_down
        scroll(animate=False)

    def action_select(self, step: int) -> None:
        """Focus the transcript, and select the next (1) or previous (-1) item."""
        self.transcript.focus()
        self.action_select_next(step)

    def action_select_next(self, step: int) -> None:
        """Select the next (1) or previous (-1) item while the transcript has the focus."""
        self.transcript.action_select(step)
        self._show_keys()

    def action_leave_item(self) -> None:
        """Return to the prompt from the selected item."""
        if self.transcript.selected is None:
            raise SkipAction
        self._leave_item()

    def action_focus_next(self) -> None:
        """Focus the approval panel if the prompt has the focus; otherwise focus the prompt."""
        if len(self.screen_stack) > 1:
            super().action_focus_next()
        elif self.prompt.has_focus_within:
            self.action_session("focus_approvals")
        else:
            self.prompt.focus()


ControllerLoader: TypeAlias = Callable[[], Callable[[TerminalApp, Any], Controller]]
"""Imports the controller class, and returns a function that creates a controller."""
