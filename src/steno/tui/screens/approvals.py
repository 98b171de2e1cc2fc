"""The panel in which a person decides about calls, between the conversation and the prompt.

What is shown and what is about to be decided is for `docket` to know; which keys count and what
can be chosen, for `deciding`; how a call reads, for `call_text`. Here they meet the screen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, final

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Key, Paste
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from steno.call import ToolCall
from steno.errors import StenoError
from steno.ports import Verdict
from steno.printable import on_one_line
from steno.tui.desk import Desk, Pending
from steno.tui.screens.answer_line import AnswerLine
from steno.tui.screens.call_sheet import CallSheet
from steno.tui.screens.choices import Choices
from steno.tui.screens.deciding import SCOPES, Attention, Choice, verdict_in_words
from steno.tui.screens.docket import Docket
from steno.tui.screens.docket_words import calls_of, hint_of, lines_to_read, rule_of, title_of

_SHARE: Final = 0.6
"""How much of the screen it takes at most, unless somebody wants to see more."""
_ROWS_ELSEWHERE: Final = 8
"""How many rows are left for the rest of the screen even then."""
_FEWEST_ROWS: Final = 3
_TITLE: Final = 1
_QUIET_S: Final = 1.0
"""How long nobody may have typed in the prompt for the panel to take the focus unasked."""

_TOO_SOON: Final = "ignored: that came before there was time to read"
_PROSE: Final = "nothing is chosen: letters close together are taken for prose"
_NO_CHOICE: Final = "nothing is chosen: that key stands for no choice"
_NOTHING: Final = "nothing is chosen: first a letter or ← →, then Enter"
_TOO_FAST: Final = "ignored: Enter came too fast behind another key"
_PASTED: Final = "nothing is chosen: a paste decides nothing; Esc leads to the prompt"


@final
class ApprovalPanel(Widget, can_focus=True):
    """Shows the calls that await a decision, one at a time, and takes what a person decides."""

    DEFAULT_CSS = """
    ApprovalPanel {
        display: none;
        height: auto;
        padding: 0 1;
        background: $surface;
        border-top: solid $warning;
        border-title-color: $warning;
        border-title-style: bold;
        &:focus, &:focus-within { border-top: heavy $warning; }
        & > Static { height: auto; }
        & > .calls { text-wrap: nowrap; text-overflow: ellipsis; }
        & > .hint { color: $text-muted; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "confirm", "confirm", show=False),
        Binding("escape", "back", "back", show=False),
        Binding("left", "highlight(-1)", "choice", show=False),
        Binding("right", "highlight(1)", "choice", show=False),
        Binding("ctrl+n", "move(1)", "next call", show=False),
        Binding("ctrl+p", "move(-1)", "previous call", show=False),
        Binding("ctrl+f", "enlarge", "more room", show=False),
        Binding("up", "read('up')", "scroll", show=False),
        Binding("down", "read('down')", "scroll", show=False),
        Binding("pageup", "read('page_up')", "scroll", show=False),
        Binding("pagedown", "read('page_down')", "scroll", show=False),
        Binding("home", "read('home')", "scroll", show=False),
        Binding("end", "read('end')", "scroll", show=False),
    ]

    @final
    class Left(Message):
        """The person goes back to the prompt; nothing is decided by that."""

    def __init__(
        self, desk: Desk | None = None, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the desk, which may come later, and a clock in seconds."""
        super().__init__()
        self.desk = desk
        self._attention = Attention(now)
        self._docket = Docket(self._attention)
        self._preview: tuple[ToolCall, str] | None = None
        """What a call would do that nobody was asked about yet."""
        self._read: object = None
        """What is on the sheet."""
        self._is_large = False
        self._calls = Static(markup=False, classes="calls")
        self._sheet = CallSheet()
        self._rule = Static(markup=False)
        self._choices = Choices()
        self._line = AnswerLine(self._attention)
        self._line.display = False
        self._hint = Static(markup=False, classes="hint")

    def compose(self) -> ComposeResult:
        """Put the parts below each other."""
        yield from (self._calls, self._sheet, self._rule, self._choices, self._line, self._hint)

    def on_mount(self) -> None:
        """Keep to the share of the screen, whatever its size."""
        self.screen.screen_layout_refresh_signal.subscribe(self, self._fit_again)

    # -- what is pending ---------------------------------------------------------------------

    def refresh_pending(self, pending: Sequence[Pending]) -> None:
        """Show what awaits a decision now; what is being decided about stays as it is.

        The panel appears once somebody is asked, and stays until nothing is left to decide.
        """
        self._docket.refresh(pending)
        is_needed = self._docket.is_asked or (self.display and bool(self._docket.undecided))
        if is_needed and not self.display:
            self._attention.appear()
            self.display = True
        elif not is_needed and self.display:
            self._vanish()
        self._look_ahead()
        self._draw()

    def may_take_focus(self, prompt_is_blank: bool, since_last_key_s: float) -> bool:
        """Tell whether the focus may move here unasked: not from somebody who is typing."""
        is_idle = prompt_is_blank and since_last_key_s >= _QUIET_S
        return self.display and is_idle and not self.has_focus_within

    def _vanish(self) -> None:
        if self._docket.told:
            self.notify(self._docket.told, severity="warning", markup=False)
        if self.has_focus_within:
            self.post_message(self.Left())
        self._is_large = False
        self.display = False

    def _look_ahead(self) -> None:
        """Find out what a call would do that waits behind others."""
        shown = self._docket.shown
        if shown is None or shown.question is not None or self.desk is None:
            return
        if self._preview is None or self._preview[0] != shown.call:
            self._preview = (shown.call, "")
            self._fetch_preview(self.desk, shown)

    # A fault of a tool that looks ahead is no reason to end: the arguments are there to read.
    @work(group="preview", exclusive=True, exit_on_error=False)
    async def _fetch_preview(self, desk: Desk, shown: Pending) -> None:
        preview = words = ""
        try:
            preview = await desk.preview(shown.call)
        except StenoError as exc:
            words = f"it cannot be told what it would do: {on_one_line(str(exc))}"
        self._preview = (shown.call, preview)
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
        letter = (event.character or "").lower()
        if not self._attention.takes_letter():
            self._docket.highlight(None, _PROSE if self._attention.is_settled else _TOO_SOON)
        elif letter == "v":
            self._docket.highlight(None)
            self.action_enlarge()
        else:
            offer = self._docket.offer_by(letter)
            self._docket.highlight(offer, _NO_CHOICE if offer is None else "")
        self._draw()

    def on_paste(self, event: Paste) -> None:
        """Let nothing be decided by what is pasted."""
        if self.has_focus:
            event.stop()
            self._attention.takes_letter()
            self._docket.highlight(None, _PASTED)
            self._draw()

    def action_highlight(self, step: int) -> None:
        """Highlight another choice."""
        if self._attention.takes_key():
            self._docket.step(step)
        else:
            self._docket.highlight(None, _TOO_SOON)
        self._draw()

    def action_confirm(self) -> None:
        """Do what is highlighted."""
        if self._attention.takes_enter():
            self._confirm()
        else:
            self._docket.highlight(None, _TOO_FAST if self._attention.is_settled else _TOO_SOON)
        self._draw()

    def action_move(self, step: int) -> None:
        """Show another call, unless somebody writes or looks at all of them."""
        if self._docket.worded is None and not self._docket.listed:
            self._docket.move(step)
            self._look_ahead()
            self._draw()

    def action_enlarge(self) -> None:
        """Take nearly all of the screen to show this call alone, or give it back."""
        self._is_large = not self._is_large
        self._draw()

    def action_read(self, where: str) -> None:
        """Scroll what is to be read."""
        scrolls = {
            "up": self._sheet.scroll_up,
            "down": self._sheet.scroll_down,
            "page_up": self._sheet.scroll_page_up,
            "page_down": self._sheet.scroll_page_down,
            "home": self._sheet.scroll_home,
            "end": self._sheet.scroll_end,
        }
        scrolls[where](animate=False)

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
        if not self._attention.takes_click():
            self._docket.told = _TOO_SOON
        elif offer is not None and offer == self._docket.highlighted:
            self._confirm()
        else:
            self._docket.highlight(offer)
        self._draw()

    def on_focus(self) -> None:
        """Take keys; if something is being written, there."""
        self._attention.take_focus()
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
        if offer is None or shown is None:
            self._docket.told = self._docket.told or _NOTHING
        elif offer.choice is Choice.ONCE:
            self._decide(self.desk, [shown], Verdict(allowed=True, actor=self.desk.actor))
        elif offer.choice is Choice.DENY:
            self._decide(self.desk, [shown], Verdict(allowed=False, actor=self.desk.actor))
        elif offer.choice is Choice.ALL:
            self._docket.list_all()
        elif offer.choice is Choice.THESE:
            listed = self._docket.listed
            self._decide(self.desk, listed, Verdict(allowed=True, actor=self.desk.actor))
        elif offer.choice is Choice.BACK:
            self._docket.drop()
        else:
            self._word(offer.choice, shown)

    def _word(self, choice: Choice, pending: Pending) -> None:
        """Let a rule or a reason be written."""
        self._docket.word(choice)
        question = pending.question
        self._line.value = question.rule if question is not None and choice in SCOPES else ""
        self._line.cursor_position = len(self._line.value)
        self._line.may_be_hasty = choice not in SCOPES

    @on(AnswerLine.Changed)
    def _weigh(self, message: AnswerLine.Changed) -> None:
        message.stop()
        self._docket.told = ""
        self._draw()

    @on(AnswerLine.Hasty)
    def _refuse(self, message: AnswerLine.Hasty) -> None:
        message.stop()
        self._docket.told = _TOO_FAST
        self._draw()

    @on(AnswerLine.Submitted)
    def _decide_in_words(self, message: AnswerLine.Submitted) -> None:
        message.stop()
        if self.desk is None:
            return
        self.refresh_pending(self.desk.pending)
        choice, shown = self._docket.worded, self._docket.shown
        if choice is not None and shown is not None:
            actor = self.desk.actor
            verdict = verdict_in_words(choice, message.value, shown.question, actor=actor)
            if verdict is not None:
                self._decide(self.desk, [shown], verdict)
        self._draw()

    def _decide(self, desk: Desk, calls: Sequence[Pending], verdict: Verdict) -> None:
        self._docket.drop()
        refusals: list[str] = []
        for pending in calls:
            try:
                desk.decide(pending.call.id, verdict)
            except StenoError as exc:
                refusals.append(on_one_line(str(exc)))
        self.refresh_pending(desk.pending)
        self._docket.told = self._docket.told or " · ".join(refusals)

    # -- the screen --------------------------------------------------------------------------

    def _draw(self) -> None:
        """Show what the docket holds now."""
        docket = self._docket
        self._open_line(docket.worded is not None)
        self.border_title = title_of(docket)
        self._put(self._calls, Content("") if self._is_large else calls_of(docket))
        self._put(self._rule, rule_of(docket))
        self._choices.show(docket.offers, docket.highlighted)
        preview = "" if self._preview is None else self._preview[1]
        to_read = (docket.shown, docket.listed, preview)
        if to_read != self._read:
            self._read = to_read
            self._sheet.show(lines_to_read(docket, preview))
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

    def _fit_again(self, _: Screen[object]) -> None:
        self._fit()

    def _fit(self) -> None:
        """Let what is to be read have the rows that the rest leaves, up to our share."""
        screen = self.app.size
        width = self.content_size.width or screen.width - 2
        parts = (self._calls, self._rule, self._choices, self._line, self._hint)
        taken = [part.get_content_height(screen, screen, width) for part in parts if part.display]
        share = int(screen.height * _SHARE)
        if self._is_large:
            share = max(share, screen.height - _ROWS_ELSEWHERE)
        room = max(share - _TITLE - sum(taken), _FEWEST_ROWS)
        self._sheet.lay_out(width, room)
