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
    class Left(Message):
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
        self.desk = desk
        self._tell = tell
        self._call_up = CallUp(idle_s)
        self._looks: Timer | None = None
        self._attention = Attention(now)
        self._docket = Docket(self._attention)
        self._foresight = Foresight()
        self._read: object = None
        """What is on the sheet."""
        self._calls = Static(markup=False, classes="calls")
        self._reader = CallReader()
        self._note = Static(markup=False, classes="note")
        self._choices = Choices()
        self._line = AnswerLine(self._attention)
        self._line.display = False
        self._hint = Static(markup=False, classes="hint")

    def compose(self) -> ComposeResult:
        """Put the parts below each other."""
        yield from (self._calls, self._reader, self._note, self._choices, self._line, self._hint)

    def on_mount(self) -> None:
        """Keep to the share of the screen, whatever its size, and look whether somebody waits."""
        self.screen.screen_layout_refresh_signal.subscribe(self, self._fit)
        self._looks = self.set_interval(_LOOKS_S, self._come_forward, pause=True)

    # -- what is pending ---------------------------------------------------------------------

    def refresh_pending(self, pending: Sequence[Pending]) -> None:
        """Show what awaits a decision now; what is being decided about stays as it is.

        The panel appears once somebody is asked, and stays until nothing is left to decide.
        """
        is_here = self.display and self.has_focus_within
        self._docket.refresh(pending)
        is_needed = bool(self._docket.asked or (self.display and self._docket.undecided))
        if is_needed and not self.display:
            self._attention.appear()
            self.display = True
        elif not is_needed and self.display:
            self._vanish()
        is_new = self._call_up.ask(self._docket.asked, is_here=is_here)
        if is_new and not self._is_on_top:
            self.app.bell()
        tell_pages(self.app, is_asked=bool(self._docket.asked))
        self._come_forward()
        self._look_ahead()
        self._draw()

    def _come_forward(self) -> None:
        """Take the focus from somebody who waits, now or later; never from another screen."""
        if self._looks is not None:
            (self._looks.resume if self._call_up.is_wanted else self._looks.pause)()
        is_seen = self._is_on_top and self.display
        if is_seen and not self.has_focus_within and self._call_up.is_due:
            self._attention.take_focus()
            self.focus()

    @property
    def _is_on_top(self) -> bool:
        """Whether no page lies above."""
        return self.app.screen is self.screen

    def _vanish(self) -> None:
        if self._docket.told:
            self.notify(self._docket.told, severity="warning", markup=False)
        if self.has_focus_within:
            self.post_message(self.Left())
        self._reader.is_large = False
        self.display = False

    def _look_ahead(self) -> None:
        """Find out what a call would do that waits behind others."""
        shown = self._docket.shown
        if shown is not None and self.desk is not None and self._foresight.turn_to(shown):
            self._fetch_preview(self.desk, shown)

    # A fault of a tool that looks ahead is no reason to end: the arguments are there to read.
    @work(group="preview", exclusive=True, exit_on_error=False)
    async def _fetch_preview(self, desk: Desk, shown: Pending) -> None:
        words = await self._foresight.look(desk, shown.call)
        if self._docket.shown == shown and not self._docket.listed:
            self._docket.highlight(None, words)
            self._attention.appear()
            self._draw()

    # -- keys --------------------------------------------------------------------------------

    def on_key(self, event: Key) -> None:
        """Take a character: a choice, if it can be meant as one."""
        if not self.has_focus or not event.is_printable or "+" in event.key:
            return
        event.stop()
        if self._docket.worded is not None:  # it was on its way when the line opened
            self._attention.key()
            self._line.insert_text_at_cursor(event.character or "")
            return
        letter = (event.character or "").lower()
        offer = self._docket.offer_by(letter)
        enlarges = letter == "v" and self._reader.can_enlarge
        edits = letter == "e" and self._docket.is_rule_offered
        is_choice = offer is not None or enlarges or edits
        doubt = self._attention.letter(letter, is_choice=is_choice)
        if doubt is not None:
            self._docket.highlight(None, doubt)
        elif enlarges:
            self._docket.highlight(None)
            self.action_enlarge()
        elif edits:
            self._edit()
        else:
            self._docket.highlight(offer, "" if is_choice else Doubt.NO_CHOICE)
            if offer is not None and offer.choice is Choice.EXPLAIN:
                self._edit()  # at once: what is typed next is the reason, and nothing else
        self._draw()

    def on_paste(self, event: Paste) -> None:
        """Let nothing be decided by what is pasted."""
        if self.has_focus:
            event.stop()
            self._attention.letter(" ")
            self._docket.highlight(None, Doubt.PASTED)
            self._draw()

    def action_highlight(self, step: int) -> None:
        """Highlight another choice, unless somebody writes."""
        doubt = self._attention.key()
        if self._docket.worded is not None:
            return
        if doubt is None:
            self._docket.step(step)
        else:
            self._docket.highlight(None, doubt)
        self._draw()

    def action_edit(self) -> None:
        """Edit the rule before it is stored; where none is, the key is for somebody else."""
        if self._docket.is_rule_offered:
            self._attention.key()
            self._edit()
            self._draw()
        elif self._docket.worded is None:
            raise SkipAction

    def action_confirm(self) -> None:
        """Do what is highlighted; what is being written is for its own line to send."""
        doubt = self._attention.enter()
        if self._docket.worded is not None:
            return
        if doubt is None:
            self._confirm()
        else:
            self._docket.highlight(None, doubt)
        self._draw()

    def action_move(self, step: int) -> None:
        """Show another call, unless somebody writes or looks at all of them."""
        if self._docket.worded is None and not self._docket.listed:
            self._docket.move(step)
            self._look_ahead()
            self._draw()

    def action_enlarge(self) -> None:
        """Take nearly all of the screen to show this call alone, or give it back."""
        self._reader.is_large = not self._reader.is_large
        self._draw()

    def action_read(self, where: str) -> None:
        """Scroll what is to be read."""
        self._reader.read_on(where)

    def action_back(self) -> None:
        """Go back a step: from what is written to the choices, from there to the prompt."""
        if self._docket.worded is None and not self._docket.listed:
            self.post_message(self.Left())
        self._docket.drop()
        self._draw()

    @on(Choices.Clicked)
    def _click(self, message: Choices.Clicked) -> None:
        message.stop()
        offer = self._docket.offer_of(message.choice)
        doubt = self._attention.click()
        if doubt is not None:
            self._docket.told = doubt
        elif offer is not None and offer == self._docket.highlighted:
            self._confirm()
        else:
            self._docket.highlight(offer)
        self._draw()

    def on_focus(self) -> None:
        """Take keys; if something is being written, there."""
        self._call_up.arrive()
        if self._docket.worded is not None:
            self._line.focus()
        self._draw()

    def on_blur(self) -> None:
        """Forget what was highlighted: nobody looks."""
        self._docket.highlight(None, self._docket.told)
        self._draw()

    # -- decisions ---------------------------------------------------------------------------

    def _confirm(self) -> None:
        """Do what is highlighted, if that is still what is asked."""
        if self.desk is None:
            return
        self.refresh_pending(self.desk.pending)
        offer, shown = self._docket.highlighted, self._docket.shown
        yes, no = [Verdict(allowed=allowed, actor=self.desk.actor) for allowed in (True, False)]
        if offer is None or shown is None:
            self._docket.told = self._docket.told or Doubt.NOTHING
        elif offer.choice in (Choice.ONCE, Choice.DENY):
            self._decide(self.desk, [shown], yes if offer.choice is Choice.ONCE else no)
        elif offer.choice is Choice.ALL:
            self._docket.list_all()
        elif offer.choice is Choice.THESE:
            self._decide(self.desk, self._docket.listed, yes)
        elif offer.choice is Choice.BACK:
            self._docket.drop()
        elif rule := verdict_as_shown(offer.choice, shown.question, actor=self.desk.actor):
            self._decide(self.desk, [shown], rule)
        else:
            self._edit()

    def _edit(self) -> None:
        """Let the rule or the reason be written that is highlighted."""
        offer, pending = self._docket.highlighted, self._docket.shown
        if offer is None or pending is None:
            return
        choice, question = offer.choice, pending.question
        self._docket.word(choice)
        self._line.value = question.rule if question is not None and choice in SCOPES else ""
        self._line.cursor_position = len(self._line.value)
        self._line.may_be_hasty = choice not in SCOPES

    @on(AnswerLine.Changed)
    def _weigh(self, message: AnswerLine.Changed) -> None:
        message.stop()
        self._docket.told = ""
        self._draw()

    @on(AnswerLine.Ignored)
    def _refuse(self, message: AnswerLine.Ignored) -> None:
        message.stop()
        self._docket.told = message.doubt
        self._draw()

    @on(AnswerLine.Submitted)
    def _decide_in_words(self, message: AnswerLine.Submitted) -> None:
        message.stop()
        if self.desk is None:
            return
        self.refresh_pending(self.desk.pending)
        choice, shown, actor = self._docket.worded, self._docket.shown, self.desk.actor
        if choice is not None and shown is not None:
            verdict = verdict_in_words(choice, message.value, shown.question, actor=actor)
            if verdict is not None:
                self._decide(self.desk, [shown], verdict)
        self._draw()

    def _decide(self, desk: Desk, calls: Sequence[Pending], verdict: Verdict) -> None:
        self._docket.drop()
        refusals = decide_all(desk, calls, verdict)
        if not refusals and (kept := where_kept(verdict)):
            self._tell(kept)
        self.refresh_pending(desk.pending)
        self._docket.told = self._docket.told or " · ".join(refusals)

    # -- the screen --------------------------------------------------------------------------

    def _draw(self) -> None:
        """Show what the docket holds now."""
        docket = self._docket
        self._open_line(docket.worded is not None)
        self.border_title = title_of(docket)
        self._put(self._calls, Content("") if self._reader.is_large else calls_of(docket))
        self._put(self._note, note_of(docket))
        self._choices.show(docket.offers, docket.highlighted)
        to_read = (docket.shown, docket.listed, self._foresight.preview)
        if to_read != self._read:
            self._read = to_read
            self._reader.show(lines_to_read(docket, self._foresight.preview))
        written, is_here = self._line.value, self.has_focus_within
        self._put(self._hint, hint_of(docket, written=written, is_here=is_here))
        self._fit()

    def _put(self, part: Static, content: Content) -> None:
        part.display = bool(content)
        part.update(content)

    def _open_line(self, is_open: bool) -> None:
        if is_open == self._line.display:
            return
        if not is_open and self._line.has_focus and self.display:
            self.screen.set_focus(self)
        self._line.display = is_open
        self._choices.display = not is_open
        if is_open:
            self.screen.set_focus(self._line)

    def _fit(self, _: object = None) -> None:
        """Let what is to be read have the rows that the rest leaves, up to our share."""
        width = self.content_size.width or self.app.size.width - 2
        parts = (self._calls, self._note, self._choices, self._line, self._hint)
        room = room_in(self, parts, width)
        self.set_class(room.is_roomy, "-roomy")
        self._reader.fit(width, share=room.share, most=room.most)
