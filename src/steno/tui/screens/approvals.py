"""The panel in which a person decides about calls, between the conversation and the prompt.

What is shown and what is about to be decided is for `docket` to know; which keys count and what
can be chosen, for `deciding`; how a call reads, for `call_text`. Here they meet the screen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, final

from textual import on, work
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.events import Key, Paste
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from steno.ports import Verdict
from steno.tui.desk import Desk, Pending
from steno.tui.screens.answer_line import AnswerLine
from steno.tui.screens.approval_keys import KEYS
from steno.tui.screens.call_reader import CallReader
from steno.tui.screens.choices import Choices
from steno.tui.screens.deciding import (
    SCOPES,
    Attention,
    CallUp,
    Choice,
    Doubt,
    decide_all,
    verdict_as_shown,
    verdict_in_words,
    where_kept,
)
from steno.tui.screens.docket import Docket
from steno.tui.screens.docket_words import calls_of, hint_of, lines_to_read, note_of, title_of
from steno.tui.screens.foresight import Foresight
from steno.tui.screens.panel_room import room_in
from steno.tui.screens.waiting import tell_pages

_LOOKS_S: Final = 0.1
"""How often it looks whether it may take the focus."""


@final
class ApprovalPanel(Widget, can_focus=True):
    """Shows the calls that await a decision, one at a time, and takes what a person decides."""

    DEFAULT_CSS = """
    ApprovalPanel {
        display: none; height: auto; padding: 0 1; background: $surface;
        border-top: solid $warning;
        border-title-color: $warning;
        border-title-style: bold;
        &:focus, &:focus-within { border-top: heavy $warning; }
        & > Static { height: auto; }
        & > .calls { text-wrap: nowrap; text-overflow: ellipsis; }
        & > .calls, & > .note, & > .hint { color: $text-muted; }
        &.-roomy { padding: 0 1 1 1; & > CallReader { margin-bottom: 1; } }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*KEYS]

    @final
    class Dismissed(Message):
        """The person goes back to the prompt; nothing is decided by that."""

    def __init__(
        self,
        desk: Desk | None = None,
        *,
        idle_s: Callable[[], float] = lambda: 0.0,
        now: Callable[[], float] = time.monotonic,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Take the desk, which may come later, a clock in seconds, and who tells what is kept.

        `idle_s` says for how long the prompt, blank and with the focus, was left alone; 0 where it
        is not. When that is long enough, a new question takes the focus: at once, or later.
        """
        super().__init__()
        self.session = desk
        self._add_notice = tell
        self._focus_request = CallUp(idle_s)
        self._focus_timer: Timer | None = None
        self._key_guard = Attention(now)
        self._approval_state = Docket(self._key_guard)
        self._call_preview = Foresight()
        self._shown_call_key: object = None
        """What is on the sheet."""
        self._calls = Static(markup=False, classes="calls")
        self._call_pane = CallReader()
        self._note = Static(markup=False, classes="note")
        self._choices = Choices()
        self._answer_input = AnswerLine(self._key_guard)
        self._answer_input.display = False
        self._hint = Static(markup=False, classes="hint")

    def compose(self) -> ComposeResult:
        """Put the parts below each other."""
        yield from (self._calls, self._call_pane, self._note, self._choices, self._answer_input, self._hint)

    def on_mount(self) -> None:
        """Keep to the share of the screen, whatever its size, and look whether somebody waits."""
        self.screen.screen_layout_refresh_signal.subscribe(self, self._fit)
        self._focus_timer = self.set_interval(_LOOKS_S, self._take_focus_if_idle, pause=True)

    # -- what is pending ---------------------------------------------------------------------

    def show_pending(self, pending: Sequence[Pending]) -> None:
        """Show what awaits a decision now; what is being decided about stays as it is.

        The panel appears once somebody is asked, and stays until nothing is left to decide.
        """
        is_here = self.display and self.has_focus_within
        self._approval_state.update_pending(pending)
        is_needed = bool(self._approval_state.asked_ids or (self.display and self._approval_state.undecided))
        if is_needed and not self.display:
            self._key_guard.content_changed()
            self.display = True
        elif not is_needed and self.display:
            self._hide_panel()
        is_new = self._focus_request.update(self._approval_state.asked_ids, is_here=is_here)
        if is_new and not self._is_on_top:
            self.app.bell()
        tell_pages(self.app, is_asked=bool(self._approval_state.asked_ids))
        self._take_focus_if_idle()
        self._request_preview()
        self._draw()

    def _take_focus_if_idle(self) -> None:
        """Take the focus from somebody who waits, now or later; never from another screen."""
        if self._focus_timer is not None:
            (self._focus_timer.resume if self._focus_request.is_pending else self._focus_timer.pause)()
        is_seen = self._is_on_top and self.display
        if is_seen and not self.has_focus_within and self._focus_request.is_due:
            self._key_guard.focus_taken()
            self.focus()

    @property
    def _is_on_top(self) -> bool:
        """Whether no page lies above."""
        return self.app.screen is self.screen

    def _hide_panel(self) -> None:
        if self._approval_state.message:
            self.notify(self._approval_state.message, severity="warning", markup=False)
        if self.has_focus_within:
            self.post_message(self.Dismissed())
        self._call_pane.is_large = False
        self.display = False

    def _request_preview(self) -> None:
        """Find out what a call would do that waits behind others."""
        shown = self._approval_state.shown_call
        if shown is not None and self.session is not None and self._call_preview.select(shown):
            self._fetch_preview(self.session, shown)

    # A fault of a tool that looks ahead is no reason to end: the arguments are there to read.
    @work(group="preview", exclusive=True, exit_on_error=False)
    async def _fetch_preview(self, desk: Desk, shown: Pending) -> None:
        words = await self._call_preview.load(desk, shown.call)
        if self._approval_state.shown_call == shown and not self._approval_state.listed_calls:
            self._approval_state.highlight(None, words)
            self._key_guard.content_changed()
            self._draw()

    # -- keys --------------------------------------------------------------------------------

    def on_key(self, event: Key) -> None:
        """Take a character: a choice, if it can be meant as one."""
        if not self.has_focus or not event.is_printable or "+" in event.key:
            return
        event.stop()
        if self._approval_state.answered_choice is not None:  # it was on its way when the line opened
            self._key_guard.check_key()
            self._answer_input.insert_text_at_cursor(event.character or "")
            return
        letter = (event.character or "").lower()
        offer = self._approval_state.offer_for_letter(letter)
        enlarges = letter == "v" and self._call_pane.can_enlarge
        edits = letter == "e" and self._approval_state.is_rule_offered
        is_choice = offer is not None or enlarges or edits
        doubt = self._key_guard.check_letter(letter, is_choice=is_choice)
        if doubt is not None:
            self._approval_state.highlight(None, doubt)
        elif enlarges:
            self._approval_state.highlight(None)
            self.action_enlarge()
        elif edits:
            self._open_answer()
        else:
            self._approval_state.highlight(offer, "" if is_choice else Doubt.NO_CHOICE)
            if offer is not None and offer.choice is Choice.EXPLAIN:
                self._open_answer()  # at once: what is typed next is the reason, and nothing else
        self._draw()

    def on_paste(self, event: Paste) -> None:
        """Let nothing be decided by what is pasted."""
        if self.has_focus:
            event.stop()
            self._key_guard.check_letter(" ")
            self._approval_state.highlight(None, Doubt.PASTED)
            self._draw()

    def action_highlight(self, step: int) -> None:
        """Highlight another choice, unless somebody writes."""
        doubt = self._key_guard.check_key()
        if self._approval_state.answered_choice is not None:
            return
        if doubt is None:
            self._approval_state.highlight_next(step)
        else:
            self._approval_state.highlight(None, doubt)
        self._draw()

    def action_edit(self) -> None:
        """Edit the rule before it is stored; where none is, the key is for somebody else."""
        if self._approval_state.is_rule_offered:
            self._key_guard.check_key()
            self._open_answer()
            self._draw()
        elif self._approval_state.answered_choice is None:
            raise SkipAction

    def action_confirm(self) -> None:
        """Do what is highlighted; what is being written is for its own line to send."""
        doubt = self._key_guard.check_enter()
        if self._approval_state.answered_choice is not None:
            return
        if doubt is None:
            self._confirm()
        else:
            self._approval_state.highlight(None, doubt)
        self._draw()

    def action_move(self, step: int) -> None:
        """Show another call, unless somebody writes or looks at all of them."""
        if self._approval_state.answered_choice is None and not self._approval_state.listed_calls:
            self._approval_state.show_next(step)
            self._request_preview()
            self._draw()

    def action_enlarge(self) -> None:
        """Take nearly all of the screen to show this call alone, or give it back."""
        self._call_pane.is_large = not self._call_pane.is_large
        self._draw()

    def action_read(self, where: str) -> None:
        """Scroll what is to be read."""
        self._call_pane.scroll_by_key(where)

    def action_back(self) -> None:
        """Go back a step: from what is written to the choices, from there to the prompt."""
        if self._approval_state.answered_choice is None and not self._approval_state.listed_calls:
            self.post_message(self.Dismissed())
        self._approval_state.reset()
        self._draw()

    @on(Choices.Clicked)
    def _handle_choice_click(self, message: Choices.Clicked) -> None:
        message.stop()
        offer = self._approval_state.offer_for_choice(message.choice)
        doubt = self._key_guard.check_click()
        if doubt is not None:
            self._approval_state.message = doubt
        elif offer is not None and offer == self._approval_state.highlighted:
            self._confirm()
        else:
            self._approval_state.highlight(offer)
        self._draw()

    def on_focus(self) -> None:
        """Take keys; if something is being written, there."""
        self._focus_request.mark_focused()
        if self._approval_state.answered_choice is not None:
            self._answer_input.focus()
        self._draw()

    def on_blur(self) -> None:
        """Forget what was highlighted: nobody looks."""
        self._approval_state.highlight(None, self._approval_state.message)
        self._draw()

    # -- decisions ---------------------------------------------------------------------------

    def _confirm(self) -> None:
        """Do what is highlighted, if that is still what is asked."""
        if self.session is None:
            return
        self.show_pending(self.session.pending_calls)
        offer, shown = self._approval_state.highlighted, self._approval_state.shown_call
        yes, no = [Verdict(allowed=allowed, actor=self.session.actor) for allowed in (True, False)]
        if offer is None or shown is None:
            self._approval_state.message = self._approval_state.message or Doubt.NOTHING
        elif offer.choice in (Choice.ONCE, Choice.DENY):
            self._decide(self.session, [shown], yes if offer.choice is Choice.ONCE else no)
        elif offer.choice is Choice.ALL:
            self._approval_state.list_all()
        elif offer.choice is Choice.THESE:
            self._decide(self.session, self._approval_state.listed_calls, yes)
        elif offer.choice is Choice.BACK:
            self._approval_state.reset()
        elif rule := verdict_as_shown(offer.choice, shown.request, actor=self.session.actor):
            self._decide(self.session, [shown], rule)
        else:
            self._open_answer()

    def _open_answer(self) -> None:
        """Let the rule or the reason be written that is highlighted."""
        offer, pending = self._approval_state.highlighted, self._approval_state.shown_call
        if offer is None or pending is None:
            return
        choice, question = offer.choice, pending.request
        self._approval_state.begin_answer(choice)
        self._answer_input.value = question.rule if question is not None and choice in SCOPES else ""
        self._answer_input.cursor_position = len(self._answer_input.value)
        self._answer_input.allows_quick_enter = choice not in SCOPES

    @on(AnswerLine.Changed)
    def _handle_answer_changed(self, message: AnswerLine.Changed) -> None:
        message.stop()
        self._approval_state.message = ""
        self._draw()

    @on(AnswerLine.Ignored)
    def _handle_enter_ignored(self, message: AnswerLine.Ignored) -> None:
        message.stop()
        self._approval_state.message = message.reason
        self._draw()

    @on(AnswerLine.Submitted)
    def _handle_answer_submitted(self, message: AnswerLine.Submitted) -> None:
        message.stop()
        if self.session is None:
            return
        self.show_pending(self.session.pending_calls)
        choice, shown, actor = self._approval_state.answered_choice, self._approval_state.shown_call, self.session.actor
        if choice is not None and shown is not None:
            verdict = verdict_in_words(choice, message.value, shown.request, actor=actor)
            if verdict is not None:
                self._decide(self.session, [shown], verdict)
        self._draw()

    def _decide(self, desk: Desk, calls: Sequence[Pending], verdict: Verdict) -> None:
        self._approval_state.reset()
        refusals = decide_all(desk, calls, verdict)
        if not refusals and (kept := where_kept(verdict)):
            self._add_notice(kept)
        self.show_pending(desk.pending_calls)
        self._approval_state.message = self._approval_state.message or " · ".join(refusals)

    # -- the screen --------------------------------------------------------------------------

    def _draw(self) -> None:
        """Show what the docket holds now."""
        docket = self._approval_state
        self._show_answer_input(docket.answered_choice is not None)
        self.border_title = title_of(docket)
        self._set_part(self._calls, Content("") if self._call_pane.is_large else calls_of(docket))
        self._set_part(self._note, note_of(docket))
        self._choices.show(docket.offers, docket.highlighted)
        to_read = (docket.shown_call, docket.listed_calls, self._call_preview.preview)
        if to_read != self._shown_call_key:
            self._shown_call_key = to_read
            self._call_pane.show_lines(lines_to_read(docket, self._call_preview.preview))
        written, is_here = self._answer_input.value, self.has_focus_within
        self._set_part(self._hint, hint_of(docket, written=written, is_here=is_here))
        self._fit()

    def _set_part(self, part: Static, content: Content) -> None:
        part.display = bool(content)
        part.update(content)

    def _show_answer_input(self, is_open: bool) -> None:
        if is_open == self._answer_input.display:
            return
        if not is_open and self._answer_input.has_focus and self.display:
            self.screen.set_focus(self)
        self._answer_input.display = is_open
        self._choices.display = not is_open
        if is_open:
            self.screen.set_focus(self._answer_input)

    def _fit(self, _: object = None) -> None:
        """Let what is to be read have the rows that the rest leaves, up to our share."""
        width = self.content_size.width or self.app.size.width - 2
        parts = (self._calls, self._note, self._choices, self._answer_input, self._hint)
        room = room_in(self, parts, width)
        self.set_class(room.has_margin, "-roomy")
        self._call_pane.fit_rows(width, share=room.share, most=room.most)
