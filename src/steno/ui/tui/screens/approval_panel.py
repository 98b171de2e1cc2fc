"""The approval panel between the transcript and the prompt: the call, the choices, and an input.

`ui.approval_state` contains the state and decides which keys are accepted, and `render.call_text`
describes a call. This module draws the panel and forwards the keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias, final

from rich.cells import chop_cells
from rich.segment import Segment
from textual import on, work
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Click, Key, Paste
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from steno.app.approval_queue import PendingCall
from steno.app.session import AgentSession
from steno.render.call_text import CallLine, LineTone, describe_call, describe_calls
from steno.render.quantities import format_count
from steno.render.terminal_text import display_width
from steno.ui.approval_state import (
    ApprovalChoice,
    ApprovalOffer,
    ApprovalState,
    KeyGuard,
    KeyRefusal,
)
from steno.ui.tui.screens.widgets import LineInput, balance_rows, show_approval_banner
from steno.ui.tui.transcript.text_lines import TAB_SIZE

_QUOTE_BAR: Final = "│ "
_MIN_ROWS: Final = 3
_CHOICE_META: Final = "choice"
_CHOICE_GAP: Final = " "
_PANEL_SHARE: Final = 0.6
"""The maximal share of the screen that the panel takes, unless it is enlarged."""
_MIN_TRANSCRIPT_ROWS: Final = 4
"""The number of rows of the transcript that stay visible if the panel is enlarged."""
_TITLE_ROWS: Final = 1
_MARGIN_MIN_HEIGHT: Final = 28
"""The minimal height of the screen for empty rows around the choices."""
_MARGIN_ROWS: Final = 2
_IDLE_S: Final = 1.0
"""The idle time of the prompt after which a request takes the focus."""
_FOCUS_CHECK_S: Final = 0.1
"""The interval of the check whether the panel may take the focus."""


# -- the call ---------------------------------------------------------------------------------


_WrappedRow: TypeAlias = tuple[tuple[str, str], ...]
"""Texts, each with the name of its style."""


@final
class _CallText(ScrollView, can_focus=False):
    """The lines of a call, which can be scrolled if they do not fit."""

    DEFAULT_CSS: ClassVar[str] = """
    _CallText {
        scrollbar-size-vertical: 1; scrollbar-gutter: stable; overflow-x: hidden;
        & > .call-text--bar { color: $text-muted; }
        & > .call-text--heading { color: $text-muted; text-style: bold; }
        & > .call-text--note { color: $text-muted; }
        & > .call-text--file { text-style: bold; }
        & > .call-text--hunk { color: $primary; text-style: bold; }
        & > .call-text--added { color: $success; }
        & > .call-text--removed { color: $error; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "call-text--bar",
        *[f"call-text--{tone}" for tone in LineTone],
    }

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[CallLine] = ()
        self._rows: list[_WrappedRow] = []
        self._width = 0
        self._visible_rows = 0

    def show_lines(self, lines: Sequence[CallLine]) -> None:
        self._lines, self._width = lines, 0
        self.scroll_to(y=0, animate=False)

    @property
    def rows_below(self) -> int:
        return max(0, len(self._rows) - self._visible_rows - self.scroll_offset.y)

    def wrap_to_width(self, width: int) -> int:
        """Wrap the lines to a width, and return the number of rows."""
        if width != self._width:
            self._width = width
            columns = max(width - self.styles.scrollbar_size_vertical - len(_QUOTE_BAR), 2)
            self._rows = [row for line in self._lines for row in _wrap_call_line(line, columns)]
            self.virtual_size = Size(width, len(self._rows))
            self.refresh(layout=True)
        return len(self._rows)

    def limit_rows(self, max_rows: int) -> None:
        """Limit the height; rows that do not fit are reached by scrolling."""
        self._visible_rows = min(len(self._rows), max_rows)
        self.styles.height = self._visible_rows

    def render_line(self, y: int) -> Strip:
        number = y + self.scroll_offset.y
        if number >= len(self._rows):
            return Strip.blank(self.size.width, self.rich_style)
        style = self.get_component_rich_style
        segments = [Segment(text, style(f"call-text--{name}")) for text, name in self._rows[number]]
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)


def _wrap_call_line(line: CallLine, columns: int) -> Iterator[_WrappedRow]:
    """Yield the rows of a line; the counts of a diff stay next to the file name."""
    parts = [(part.text.expandtabs(TAB_SIZE), part.tone) for part in (line, *line.counts)]
    bar = () if line.tone is LineTone.HEADING else ((_QUOTE_BAR, "bar"),)
    start = 0
    for text in _wrap_text("".join([text for text, _ in parts]), columns):
        end = start + len(text)
        yield (*bar, *_slice_parts(parts, start, end))
        start = end


def _slice_parts(
    parts: Iterable[tuple[str, LineTone]], start: int, end: int
) -> Iterator[tuple[str, str]]:
    """Yield the parts, or pieces of them, that are between two positions of the joined text."""
    for text, tone in parts:
        if shown := text[max(start, 0) : max(end, 0)]:
            yield shown, tone.value
        start, end = start - len(text), end - len(text)


def _wrap_text(line: str, columns: int) -> Iterator[str]:
    """Yield a line in parts that fit, broken after spaces; no character is omitted.

    A word that does not fit is broken if the row has no space after its first third. A break at an
    earlier space would leave the row almost empty, and less of the call would be visible.
    """
    start = 0
    while display_width(line[start : start + columns + 1]) > columns:
        end = start + len(chop_cells(line[start : start + columns], columns)[0])
        if line[end : end + 1] == " ":
            end += 1  # the space is beyond the edge, and invisible
        elif (blank := line.rfind(" ", start, end)) - start > columns // 3:
            end = blank + 1
        yield line[start:end]
        start = end
    if start < len(line) or not line:
        yield line[start:]


@final
class _CallPane(Vertical, can_focus=False):
    """The lines of a call, and a footer with the number of hidden lines and the keys."""

    DEFAULT_CSS: ClassVar[str] = """
    _CallPane {
        height: auto;
        & > Static { height: 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_large = False
        self._fits_large = True
        """Whether all rows fit if the pane is enlarged."""
        self._footer_text = ""
        self.text_view = _CallText()
        self._footer = Static(markup=False)

    def compose(self) -> ComposeResult:
        yield from (self.text_view, self._footer)

    def on_mount(self) -> None:
        self.watch(self.text_view, "scroll_y", self._update_footer, init=False)

    @property
    def can_enlarge(self) -> bool:
        """Whether the pane can be enlarged, or shrunk again."""
        return self._footer.display

    def fit_rows(self, width: int, *, share: int, max_rows: int) -> None:
        """Set the width, and limit the height to `share` rows, or to `max_rows` if enlarged."""
        share, max_rows = max(share, _MIN_ROWS), max(max_rows, _MIN_ROWS)
        available_rows = max_rows if self.is_large else min(share, max_rows)
        rows = self.text_view.wrap_to_width(width)
        self._fits_large = rows < max_rows
        self._footer.display = self.is_large or rows > available_rows
        self.text_view.limit_rows(available_rows - self._footer.display)
        self._update_footer()

    def _update_footer(self) -> None:
        below, parts = self.text_view.rows_below, list[str]()
        if below:
            parts += [f"… {format_count(below, 'more line', 'more lines')}", "↓ scroll"]
        elif self.text_view.scroll_offset.y > 0:
            parts += ["↑ scroll"]
        enlarge_hint = "v show all" if self._fits_large else "v show more"
        footer = " · ".join([*parts, "v show less" if self.is_large else enlarge_hint])
        if footer != self._footer_text:  # an update changes the layout, which calls this again
            self._footer_text = footer
            self._footer.update(footer)


# -- input and choices -----------------------------------------------------------------------


@final
class _AnswerInput(LineInput):
    """The input for a rule or a reason."""

    DEFAULT_CSS: ClassVar[str] = "_AnswerInput { background: $surface; }"

    @dataclass
    class Ignored(Message):
        """Enter was pressed and ignored."""

        reason: KeyRefusal

    def __init__(self, key_guard: KeyGuard) -> None:
        super().__init__(select_on_focus=False)
        self._key_guard = key_guard
        self.allows_quick_enter = False
        """Whether Enter may quickly follow another key, because it denies a call. An Enter in a
        paste is always ignored."""

    def on_key(self, event: Key) -> None:
        if event.key != "enter":  # see action_submit
            self._key_guard.check_key()

    async def action_submit(self) -> None:
        refusal = self._key_guard.check_enter(allows_quick_enter=self.allows_quick_enter)
        if refusal is None:
            await super().action_submit()
        else:
            self.post_message(self.Ignored(refusal))


@final
class _ChoiceBar(Widget, can_focus=False):
    """Draws the choices. Arrows mark the highlighted choice, for terminals without colours."""

    DEFAULT_CSS: ClassVar[str] = "_ChoiceBar { height: auto; }"

    @dataclass
    class ChoiceClicked(Message):
        """A choice was clicked."""

        choice: ApprovalChoice

    def __init__(self) -> None:
        super().__init__()
        self._offers: tuple[ApprovalOffer, ...] = ()
        self._highlighted: ApprovalOffer | None = None

    def show(self, offers: tuple[ApprovalOffer, ...], highlighted: ApprovalOffer | None) -> None:
        """Show the available choices; at most one is highlighted."""
        offers = tuple([offer for offer in offers if not offer.obstacle])
        if (offers, highlighted) != (self._offers, self._highlighted):
            self._offers, self._highlighted = offers, highlighted
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._rows(width))

    def render(self) -> Content:
        gap, rows = Content(_CHOICE_GAP), self._rows(self.size.width)
        return Content("\n").join([gap.join(map(self._offer_content, row)) for row in rows])

    def on_click(self, event: Click) -> None:
        choice = event.style.meta.get(_CHOICE_META)
        if choice is not None:
            self.post_message(self.ChoiceClicked(ApprovalChoice(choice)))

    def _rows(self, width: int) -> list[tuple[ApprovalOffer, ...]]:
        widths = [len(self._offer_text(offer)) for offer in self._offers]
        return [self._offers[row] for row in balance_rows(widths, width, gap=len(_CHOICE_GAP))]

    def _offer_text(self, offer: ApprovalOffer) -> str:
        before, after = "▸◂" if offer == self._highlighted else "  "
        return f"{before}{offer.key} {offer.label}{after}"

    def _offer_content(self, offer: ApprovalOffer) -> Content:
        text = Content(self._offer_text(offer))
        text = text.stylize(Style.from_meta({_CHOICE_META: str(offer.choice)}))
        if offer == self._highlighted:
            return text.stylize("bold reverse")
        return text.stylize("$primary bold underline", 1, 2)


# -- the panel --------------------------------------------------------------------------------


@final
class ApprovalPanel(Widget, can_focus=True):
    """Shows the pending calls one at a time, and reads the decisions."""

    DEFAULT_CSS: ClassVar[str] = """
    ApprovalPanel {
        display: none; height: auto; padding: 0 1; background: $surface;
        border-top: solid $warning; border-title-color: $warning; border-title-style: bold;
        &:focus, &:focus-within { border-top: heavy $warning; }
        & > Static { height: auto; }
        & > .calls { text-wrap: nowrap; text-overflow: ellipsis; }
        & > .calls, & > .note, & > .hint { color: $text-muted; }
        &.-roomy { padding: 0 1 1 1; & > _CallPane { margin-bottom: 1; } }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("enter", "confirm"),
        ("escape", "back"),
        ("left", "highlight(-1)"),
        ("right", "highlight(1)"),
        ("tab", "edit"),
        ("ctrl+n", "move(1)"),
        ("ctrl+p", "move(-1)"),
        ("ctrl+f", "enlarge"),
        ("pageup", "scroll('page_up')"),
        ("pagedown", "scroll('page_down')"),
        *[(key, f"scroll('{key}')") for key in ("up", "down", "home", "end")],
    ]

    class Dismissed(Message):
        """The user returns to the prompt without a decision."""

    def __init__(
        self,
        session: AgentSession,
        *,
        idle_s: Callable[[], float] = lambda: 0.0,
        now: Callable[[], float] = time.monotonic,
        on_notice: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Set the session, a clock in seconds, and a function for notices.

        `idle_s` returns the seconds since the last key if the prompt is blank and focused, and
        otherwise 0. If the prompt is idle for long enough, a new request takes the focus.
        """
        super().__init__()
        self._idle_s = idle_s
        self._asked_ids: frozenset[str] = frozenset()
        self._awaits_focus = False
        """Whether there is a request that has not had the focus yet. A new request takes the focus
        once, and never while the user types."""
        self._focus_timer: Timer | None = None
        self._session = session
        self._state = ApprovalState(session, now=now, on_notice=on_notice)
        self._key_guard = self._state.key_guard
        self._shown_call_key: object = None
        self._calls = Static(markup=False, classes="calls")
        self._call_pane = _CallPane()
        self._note = Static(markup=False, classes="note")
        self._choices = _ChoiceBar()
        self._answer_input = _AnswerInput(self._key_guard)
        self._answer_input.display = False
        self._hint = Static(markup=False, classes="hint")

    def compose(self) -> ComposeResult:
        """Yield the parts from top to bottom."""
        yield from (self._calls, self._call_pane)
        yield from (self._note, self._choices, self._answer_input, self._hint)

    def on_mount(self) -> None:
        """Follow the size of the screen, and create the timer that checks the focus."""
        self.screen.screen_layout_refresh_signal.subscribe(self, self._fit)
        self._focus_timer = self.set_interval(_FOCUS_CHECK_S, self._take_focus_if_idle, pause=True)

    # -- pending calls --------------------------------------------------------------------

    def show_pending(self, pending: Sequence[PendingCall]) -> None:
        """Show the pending calls; a call about which the user is deciding stays visible.

        The panel appears with the first request, and stays until every call has a decision.
        """
        has_focus = self.display and self.has_focus_within
        self._state.update_pending(pending)
        is_needed = bool(self._state.asked_ids or (self.display and self._state.undecided))
        if is_needed and not self.display:
            self._key_guard.content_changed()
            self.display = True
        elif not is_needed and self.display:
            self._hide_panel()
        asked_ids = self._state.asked_ids
        is_new = not asked_ids <= self._asked_ids
        self._asked_ids = asked_ids
        self._awaits_focus = bool(asked_ids) and not has_focus and (self._awaits_focus or is_new)
        if is_new and not self._is_on_top:
            self.app.bell()
        show_approval_banner(self.app, is_asked=bool(asked_ids))
        self._take_focus_if_idle()
        self._request_preview()
        self._draw()

    def _take_focus_if_idle(self) -> None:
        """Take the focus if the user is idle; never from another screen."""
        timer = self._focus_timer
        if timer is not None and self._awaits_focus:
            timer.resume()
        elif timer is not None:
            timer.pause()
        is_seen = self._is_on_top and self.display and not self.has_focus_within
        if is_seen and self._awaits_focus and self._idle_s() >= _IDLE_S:
            self._key_guard.focus_taken()
            self.focus()

    @property
    def _is_on_top(self) -> bool:
        return self.app.screen is self.screen

    def _hide_panel(self) -> None:
        if self._state.message:
            self.notify(self._state.message, severity="warning", markup=False)
        if self.has_focus_within:
            self.post_message(self.Dismissed())
        self._call_pane.is_large = False
        self.display = False

    def _request_preview(self) -> None:
        if pending := self._state.select_preview():
            self._fetch_preview(pending)

    # A preview that fails must not end the program: the arguments are visible without it.
    @work(group="preview", exclusive=True, exit_on_error=False)
    async def _fetch_preview(self, pending: PendingCall) -> None:
        if await self._state.load_preview(pending):
            self._draw()

    # -- keys --------------------------------------------------------------------------------

    def on_key(self, event: Key) -> None:
        """Select a choice by its letter, if keys are accepted now."""
        if not self.has_focus or not event.is_printable or "+" in event.key:
            return
        event.stop()
        if self._state.edited_choice is not None:
            # The key was pressed before the input had the focus.
            self._key_guard.check_key()
            self._answer_input.insert_text_at_cursor(event.character or "")
            return
        letter = (event.character or "").lower()
        if self._state.press_letter(letter, can_enlarge=self._call_pane.can_enlarge):
            self._call_pane.is_large = not self._call_pane.is_large
        self._draw()

    def on_paste(self, event: Paste) -> None:
        """Ignore a paste, because pasted text must not decide about a call."""
        if self.has_focus:
            event.stop()
            self._state.paste()
            self._draw()

    def action_highlight(self, step: int) -> None:
        """Highlight the next (1) or previous (-1) choice, unless the input is open."""
        self._state.press_arrow(step)
        self._draw()

    def action_edit(self) -> None:
        """Edit the rule before it is stored; without a rule, the app handles the key."""
        if self._state.is_rule_offered:
            self._key_guard.check_key()
            self._state.begin_answer()
            self._draw()
        elif self._state.edited_choice is None:
            raise SkipAction

    def action_confirm(self) -> None:
        """Confirm the highlighted choice; the input submits its own text."""
        self._state.press_enter()
        self.show_pending(self._session.pending_calls)

    def action_move(self, step: int) -> None:
        """Show the next (1) or previous (-1) call, unless the input or the list is open."""
        if self._state.edited_choice is None and not self._state.listed_calls:
            self._state.show_next(step)
            self._request_preview()
            self._draw()

    def action_enlarge(self) -> None:
        """Enlarge the call to most of the screen, or shrink it."""
        self._call_pane.is_large = not self._call_pane.is_large
        self._draw()

    def action_scroll(self, direction: str) -> None:
        """Scroll the call."""
        getattr(self._call_pane.text_view, f"scroll_{direction}")(animate=False)

    def action_back(self) -> None:
        """Go back one step: from the input or the list to the choices, then to the prompt."""
        if self._state.edited_choice is None and not self._state.listed_calls:
            self.post_message(self.Dismissed())
        self._state.reset()
        self._draw()

    @on(_ChoiceBar.ChoiceClicked)
    def _handle_choice_click(self, message: _ChoiceBar.ChoiceClicked) -> None:
        message.stop()
        self._state.click(message.choice)
        self.show_pending(self._session.pending_calls)

    def on_focus(self) -> None:
        """Pass the focus to the input if it is open."""
        self._awaits_focus = False  # after the user leaves the panel, it does not take the focus
        if self._state.edited_choice is not None:
            self._answer_input.focus()
        self._draw()

    def on_blur(self) -> None:
        """Remove the highlight from the choices."""
        self._state.highlight(None, self._state.message)
        self._draw()

    @on(_AnswerInput.Changed)
    def _handle_answer_changed(self, message: _AnswerInput.Changed) -> None:
        message.stop()
        self._state.message = ""
        self._draw()

    @on(_AnswerInput.Ignored)
    def _handle_enter_ignored(self, message: _AnswerInput.Ignored) -> None:
        message.stop()
        self._state.message = message.reason
        self._draw()

    @on(_AnswerInput.Submitted)
    def _handle_answer_submitted(self, message: _AnswerInput.Submitted) -> None:
        message.stop()
        self._state.submit(message.value)
        self.show_pending(self._session.pending_calls)

    # -- the screen --------------------------------------------------------------------------

    def _draw(self) -> None:
        state = self._state
        self._show_answer_input(state.edited_choice is not None)
        self.border_title = Content(state.title)
        rows = [
            Content.styled(text, "$foreground bold" if is_shown else "")
            for text, is_shown in ([] if self._call_pane.is_large else state.call_rows)
        ]
        self._choices.show(state.offers, state.highlighted)
        key = (state.shown_call, state.listed_calls, state.loaded_preview)
        if key != self._shown_call_key:
            self._shown_call_key = key
            self._call_pane.text_view.show_lines(self._call_lines())
        hint = state.hint(typed=self._answer_input.value, has_focus=self.has_focus_within)
        for part, content in (
            (self._calls, Content("\n").join(rows)),
            (self._note, Content(state.note)),
            (self._hint, Content(hint)),
        ):
            part.display = bool(content)
            part.update(content)
        self._fit()

    def _call_lines(self) -> list[CallLine]:
        shown, listed = self._state.shown_call, self._state.listed_calls
        if listed or shown is None:
            return describe_calls([(pending.call, pending.request) for pending in listed])
        preview = shown.request.preview if shown.request else self._state.loaded_preview
        return describe_call(shown.call, preview, request=shown.request)

    def _show_answer_input(self, is_open: bool) -> None:
        if is_open == self._answer_input.display:
            return
        if not is_open and self._answer_input.has_focus and self.display:
            self.screen.set_focus(self)
        self._answer_input.display = is_open
        self._choices.display = not is_open
        if is_open:
            rule = self._state.offered_rule
            self._answer_input.value, self._answer_input.cursor_position = rule, len(rule)
            is_reason = self._state.edited_choice is ApprovalChoice.REASON
            self._answer_input.allows_quick_enter = is_reason
            self.screen.set_focus(self._answer_input)

    def _fit(self, _: object = None) -> None:
        """Set the height of the call to the rows that remain, up to its share of the screen."""
        screen = self.app.size
        width = self.content_size.width or screen.width - 2
        parts = (self._calls, self._note, self._choices, self._answer_input, self._hint)
        is_roomy = screen.height >= _MARGIN_MIN_HEIGHT
        other_rows = _TITLE_ROWS + (_MARGIN_ROWS if is_roomy else 0)
        for part in parts:
            if part.display:
                other_rows += part.get_content_height(screen, screen, width)
        self.set_class(is_roomy, "-roomy")
        self._call_pane.fit_rows(
            width,
            share=int(screen.height * _PANEL_SHARE) - other_rows,
            max_rows=self._max_rows() - other_rows,
        )

    def _max_rows(self) -> int:
        """Return the maximal height of the panel at which the transcript stays visible."""
        fixed_rows = 0
        for widget in self.screen.children:
            height = widget.styles.height
            is_flexible = height is not None and height.is_fraction
            if widget is not self and widget.display and not is_flexible:
                fixed_rows += widget.outer_size.height
        return self.app.size.height - _MIN_TRANSCRIPT_ROWS - fixed_rows
