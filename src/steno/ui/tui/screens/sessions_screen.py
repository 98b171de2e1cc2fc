"""The list of sessions: search, resume, rename, delete, or start a new session.

The list is read again when the user pauses typing; the result of an older search is dropped. A
session is deleted only after the user has seen its name and typed `y`.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.style import Style
from textual.timer import Timer
from textual.widgets import Input, Static

from steno.app.session import AgentSession
from steno.app.session_lookup import SessionSummary
from steno.errors import StenoError
from steno.ids import utc_now
from steno.render.quantities import format_age, format_count
from steno.render.terminal_text import display_width, terminal_line
from steno.ui.tui.screens.widgets import FilteredList, InputScreen, ListRow, TitledScreen, fit_name

_TYPING_PAUSE_S: Final = 0.15
"""The pause after typing that starts the search."""
_ROW_MARGIN: Final = 3
"""The number of columns for the mark before the cells of a row and the space after them."""
_SESSION_KEYS: Final = (
    *("Enter resume", "F2 rename", "Del delete"),
    *("Ctrl+N new", "Tab folder/all", "Esc close"),
)


class _SessionColumn(NamedTuple):
    name: str
    width: int
    from_width: int
    """The minimal width of the list for this column."""


_COLUMNS: Final = (
    _SessionColumn("last used", 12, 0),
    _SessionColumn("entries", 9, 68),
    _SessionColumn("branches", 10, 76),
    _SessionColumn("folder", 30, 96),
)


def _fit_columns(width: int, title: str, cells: Sequence[str]) -> tuple[str, str]:
    """Return the title, padded or truncated to the free width, and the columns that fit."""
    columns = [
        (column, cell)
        for column, cell in zip(_COLUMNS, cells, strict=True)
        if width >= column.from_width
    ]
    free_width = width - sum(column.width for column, _ in columns)
    title = fit_name(title, free_width)
    # The end of a path identifies it.
    fitted = [
        (column.width, fit_name(cell[::-1], column.width - 2)[::-1]) for column, cell in columns
    ]
    cells_text = "".join([" " * (width - display_width(cell)) + cell for width, cell in fitted])
    return title + " " * (free_width - display_width(title)), cells_text


def _draw_session(
    width: int,
    detail: Style,
    *,
    summary: SessionSummary,
    now: datetime,
    current: str | None,
    search: str,
) -> Sequence[Content]:
    cells = (
        format_age(summary.changed_at, now),
        str(summary.entries),
        str(len(summary.branches)),
        terminal_line(summary.folder or "-"),
    )
    title, cells_text = _fit_columns(width - _ROW_MARGIN, summary.title or "(no title)", cells)
    head = _underline_matches(Content(title), search)
    mark = "● " if summary.id == current else "  "
    lines = [Content.assemble(mark, head, (cells_text, detail))]
    if summary.snippet:
        snippet = Content.styled(fit_name(summary.snippet, width - 4), detail)
        lines.append(Content("    ") + _underline_matches(snippet, search))
    return lines


def _underline_matches(text: Content, search: str) -> Content:
    pattern = "|".join(map(re.escape, search.split()))
    return text.highlight_regex(f"(?i){pattern}", style="bold underline") if pattern else text


def _draw_column_names(width: int, detail: Style) -> Sequence[Content]:
    names = [column.name for column in _COLUMNS]
    title, cells_text = _fit_columns(width - _ROW_MARGIN, "session", names)
    return [Content(f"  {title}{cells_text}")]


# -- the screen --------------------------------------------------------------------------------


@final
class SessionsScreen(TitledScreen[None]):
    """The list of sessions."""

    DEFAULT_CSS: ClassVar[str] = """
    SessionsScreen {
        background: $background; overflow: hidden;
        & > .sessions--note { height: auto; max-height: 3; padding: 0 1; color: $text-muted; }
        & > .sessions--note.-error { color: $text-error; }
    }
    """
    # With priority, because the input also uses some of these keys.
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "dismiss(None)"),
        Binding("tab,shift+tab", "toggle_here", show=False, priority=True),
        Binding("f2,ctrl+r", "rename", show=False, priority=True),
        Binding("ctrl+d,delete", "delete", show=False, priority=True),
        Binding("ctrl+n", "new", show=False, priority=True),
    ]

    def __init__(self, session: AgentSession) -> None:
        super().__init__(keys=_SESSION_KEYS)
        self._session = session
        self._results: Sequence[SessionSummary] = ()
        """The result of the last search, with sessions of this folder first."""
        self._shown: Sequence[SessionSummary] = ()
        self._search: str | None = None
        """The text of the last search; None before the first search."""
        self._only_this_folder = False
        self._is_busy = False
        self._search_timer: Timer | None = None
        self._list = FilteredList("type to search titles and messages", _draw_column_names)
        self._note = Static(markup=False, classes="sessions--note")

    def compose_content(self) -> ComposeResult:
        """Yield the list and the note below it."""
        yield from (self._list, self._note)

    def on_mount(self) -> None:
        """List all sessions."""
        self._start_search()

    # -- list -----------------------------------------------------------------------------

    @on(Input.Changed)
    def _search_after_pause(self) -> None:
        if self._search_timer is not None:
            self._search_timer.stop()
        self._search_timer = self.set_timer(_TYPING_PAUSE_S, self._start_search)

    def _start_search(self) -> None:
        self._show_note("searching …")
        self.run_worker(self._fetch(self._list.typed), group="fetch", exclusive=True)

    async def _fetch(self, search: str, selected_id: str | None = None) -> None:
        """Read the sessions; a later search cancels this one, so no outdated result is shown."""
        try:
            summaries = await self._session.session_list.summaries(search)
        except StenoError as exc:
            self._show_note(str(exc), is_error=True)
            return
        self._results = sorted(summaries, key=lambda summary: not summary.is_in_this_folder)
        self._search = search
        self._show_sessions(selected_id)

    def _show_sessions(self, selected_id: str | None = None, *, index: int = 0) -> None:
        """Show the result of the search.

        The cursor is on the session with `selected_id`. If it is not shown, the cursor is on the
        row at `index`.
        """
        in_this_folder = [summary for summary in self._results if summary.is_in_this_folder]
        self._shown = in_this_folder if self._only_this_folder else self._results
        ids = [summary.id for summary in self._shown]
        current = self._session.status.session
        draw = partial(_draw_session, now=utc_now(), current=current, search=self._search or "")
        rows = [
            ListRow(partial(draw, summary=summary), 2 if summary.snippet else 1)
            for summary in self._shown
        ]
        self._list.show(rows, ids.index(selected_id) if selected_id in ids else index)
        scope = "this folder" if self._only_this_folder else "all folders, this one first"
        self.title_bar.text = f"Sessions · {scope}"
        if self._shown:
            note = format_count(len(self._shown), "session", "sessions")
        elif self._results:
            count = format_count(len(self._results), "session", "sessions")
            note = f"no session in this folder, {count} in other folders · Tab show all"
        else:
            note = "no session contains these words" if self._search else "no sessions yet"
        self._show_note(note)

    def _show_note(self, text: str, *, is_error: bool = False) -> None:
        self._note.update(("✗ " if is_error else "") + terminal_line(text))
        self._note.set_class(is_error, "-error")

    # -- actions --------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable keys while an action is in progress."""
        return not self._is_busy

    def action_toggle_here(self) -> None:
        """Switch between the sessions of this folder and those of all folders."""
        summary = self._session_at_cursor()
        self._only_this_folder = not self._only_this_folder
        self._show_sessions(None if summary is None else summary.id)

    def action_new(self) -> None:
        """Start a new session."""
        operation = self._session.session_list.new()
        self._start_operation(self._run_and_close("starting a session …", operation))

    @on(FilteredList.Chosen)
    def _choose(self, event: FilteredList.Chosen) -> None:
        # The list must match the typed text, so that no other session is resumed by accident.
        if not self._is_busy and self._search == self._list.typed:
            summary = self._shown[event.index]
            operation = self._session.session_list.resume(summary.id)
            activity = f"opening {fit_name(summary.title, 40)} …"
            self._start_operation(self._run_and_close(activity, operation))

    def action_rename(self) -> None:
        """Rename the session under the cursor."""
        if summary := self._session_at_cursor():
            self._start_operation(self._rename(summary))

    def action_delete(self) -> None:
        """Delete the session under the cursor after a confirmation."""
        if summary := self._session_at_cursor():
            self._start_operation(self._delete(summary))

    def _session_at_cursor(self) -> SessionSummary | None:
        index = self._list.index
        return None if index is None else self._shown[index]

    def _start_operation(self, operation: Coroutine[Any, Any, None]) -> None:
        self._is_busy = True
        self.run_worker(self._run_operation(operation), group="work")

    async def _run_operation(self, operation: Coroutine[Any, Any, None]) -> None:
        try:
            await operation
        except StenoError as exc:
            self._show_note(str(exc), is_error=True)
        finally:
            self._is_busy = False

    async def _run_and_close(self, activity: str, operation: Coroutine[Any, Any, None]) -> None:
        self._show_note(activity)
        await operation
        self.dismiss(None)

    async def _rename(self, summary: SessionSummary) -> None:
        screen = InputScreen("New title", str.strip, default=summary.title, replaces_default=False)
        if title := await self.app.push_screen_wait(screen):
            await self._session.session_list.rename(summary.id, title)
            await self._fetch(self._list.typed, summary.id)

    async def _delete(self, summary: SessionSummary) -> None:
        name = fit_name(summary.title, 60) or "(no title)"
        facts = f"{format_age(summary.changed_at, utc_now())}, {format_count(summary.entries, 'entry', 'entries')}"
        question = f"Delete “{name}” ({facts}) permanently?"
        screen = InputScreen(question, str.strip, keys="y then Enter delete · Esc cancel")
        if (await self.app.push_screen_wait(screen) or "").lower() not in {"y", "yes"}:
            self._show_note(f"“{name}” was not deleted")
            return
        await self._session.session_list.delete(summary.id)
        index = self._list.index or 0
        self._results = [other for other in self._results if other.id != summary.id]
        self._show_sessions(index=index)
