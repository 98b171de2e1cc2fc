"""The approval panel between the transcript and the prompt.

`approval_state` keeps the choice, `key_guard` decides which keys count, and `ui.call_text`
describes a call. This module draws them and handles the keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final, NamedTuple, final

from textual import on, work
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Click, Key, Paste
from textual.geometry import Size
from textual.message import Message
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from steno.app.session import AgentSession
from steno.app.session_events import PendingCall
from steno.ports import ApprovalDecision, CallPreview, Capability
from steno.render.describe import summarize_call
from steno.render.terminal_text import terminal_line
from steno.ui.approval_choices import (
    SCOPE_BY_CHOICE,
    ApprovalChoice,
    ApprovalOffer,
    decide_calls,
    decision_from_offer,
    decision_from_text,
    preview_rule,
    rule_obstacle,
    stored_rule_notice,
)
from steno.ui.call_text import CallLine, describe_call, describe_calls
from steno.ui.tui.approval_state import ApprovalState, PreviewLoader
from steno.ui.tui.key_guard import FocusPolicy, KeyGuard, KeyRefusal
from steno.ui.tui.screens.call_pane import CallPane
from steno.ui.tui.screens.widgets import LineInput, balance_rows, show_approval_banner

_CHOICE_META: Final = "choice"
_CHOICE_GAP: Final = " "
APPROVAL_KEYS: Final[tuple[BindingType, ...]] = (
    Binding("enter", "confirm", "confirm", show=False),
    Binding("escape", "back", "back", show=False),
    Binding("left", "highlight(-1)", "choice", show=False),
    Binding("right", "highlight(1)", "choice", show=False),
    Binding("tab", "edit", "edit the rule", show=False),
    Binding("ctrl+n", "move(1)", "next call", show=False),
    Binding("ctrl+p", "move(-1)", "previous call", show=False),
    Binding("ctrl+f", "enlarge", "more room", show=False),
    *[
        Binding(direction.replace("_", ""), f"scroll('{direction}')", "scroll", show=False)
        for direction in ("up", "down", "page_up", "page_down", "home", "end")
    ],
)
_MAX_LISTED_CALLS: Final = 3
_PURPOSE_BY_CAPABILITY: Final = {
    Capability.READ: "wants to read",
    Capability.WRITE: "wants to write",
    Capability.EXECUTE: "wants to execute",
    Capability.NETWORK: "wants to use the network",
}
_ANSWER_NOTES: Final = {
    ApprovalChoice.SESSION: "allow in this session whatever this rule covers:",
    ApprovalChoice.PROJECT: "allow in this folder, for good, whatever this rule covers:",
    ApprovalChoice.USER: "allow in all folders, for good, whatever this rule covers:",
    ApprovalChoice.EXPLAIN: "why not? The model is told:",
}
_UNFOCUSED_HINT: Final = "Ctrl+G decides · Esc interrupts"
_CHOICE_HINT: Final = "letter or ←→ picks · Enter confirms · Esc leaves"
_EDIT_HINT: Final = " · e edits it first"
_REASON_MISSING_HINT: Final = "write a reason; Esc, then d denies without one"
_REASON_HINT: Final = "Enter denies, and the model reads this · Esc goes back"
_RULE_HINT: Final = "Enter stores it · Esc goes back"
_PANEL_SHARE: Final = 0.6
"""The share of the screen that the panel takes at most, unless it is enlarged."""
_MIN_TRANSCRIPT_ROWS: Final = 4
"""The rows of the transcript that stay visible even then."""
_TITLE_ROWS: Final = 1
_MARGIN_MIN_HEIGHT: Final = 28
"""The height of the screen from which two rows around the choices stay empty."""
_MARGIN_ROWS: Final = 2
_FOCUS_CHECK_S: Final = 0.1
"""The pause between two checks whether the panel may take the focus."""


@final
class AnswerInput(LineInput):
    """Takes one line."""

    DEFAULT_CSS: ClassVar[str] = "AnswerInput { background: $surface; }"

    @final
    class Ignored(Message):
        """Enter was pressed and ignored."""

        def __init__(self, reason: KeyRefusal) -> None:
            """Take the reason."""
            super().__init__()
            self.reason = reason

    def __init__(self, key_guard: KeyGuard) -> None:
        """Take the guard that checks keys."""
        super().__init__(select_on_focus=False)
        self._key_guard = key_guard
        self.allows_quick_enter = False
        """Whether Enter counts right after a key, unless it was pasted: a denial does no harm."""

    def on_key(self, event: Key) -> None:
        """Record the key."""
        if event.key != "enter":  # see action_submit
            self._key_guard.check_key()

    async def action_submit(self) -> None:
        """Submit the typed text."""
        refusal = self._key_guard.check_enter(allows_quick_enter=self.allows_quick_enter)
        if refusal is None:
            await super().action_submit()
        else:
            self.post_message(self.Ignored(refusal))


@final
class ChoiceBar(Widget, can_focus=False):
    """Draws the choices. The highlighted one has arrows, for terminals without colours."""

    DEFAULT_CSS: ClassVar[str] = "ChoiceBar { height: auto; }"

    @final
    class ChoiceClicked(Message):
        """A choice was clicked."""

        def __init__(self, choice: ApprovalChoice) -> None:
            """Take the choice."""
            super().__init__()
            self.choice = choice

    def __init__(self) -> None:
        """Start without choices."""
        super().__init__()
        self._offers: tuple[ApprovalOffer, ...] = ()
        self._highlighted: ApprovalOffer | None = None

    def show(self, offers: tuple[ApprovalOffer, ...], highlighted: ApprovalOffer | None) -> None:
        """Show the choices that are possible; at most one is highlighted."""
        offers = tuple([offer for offer in offers if not offer.obstacle])
        if (offers, highlighted) != (self._offers, self._highlighted):
            self._offers, self._highlighted = offers, highlighted
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many rows it takes."""
        return len(self._rows(width))

    def render(self) -> Content:
        """Draw all of them."""
        rows = self._rows(self.size.width)
        return Content("\n").join(
            [Content(_CHOICE_GAP).join(map(self._offer_content, row)) for row in rows]
        )

    def on_click(self, event: Click) -> None:
        """Report the clicked choice."""
        choice = event.style.meta.get(_CHOICE_META)
        if choice is not None:
            self.post_message(self.ChoiceClicked(ApprovalChoice(choice)))

    def _rows(self, width: int) -> list[tuple[ApprovalOffer, ...]]:
        widths = [len(self._offer_text(offer)) for offer in self._offers]
        return [self._offers[row] for row in balance_rows(widths, width, gap=len(_CHOICE_GAP))]

    def _offer_text(self, offer: ApprovalOffer) -> str:
        before, after = "▸◂" if offer == self._highlighted else "  "
        return f"{before}{offer.letter} {offer.label}{after}"

    def _offer_content(self, offer: ApprovalOffer) -> Content:
        text = Content(self._offer_text(offer))
        text = text.stylize(Style.from_meta({_CHOICE_META: str(offer.choice)}))
        if offer == self._highlighted:
            return text.stylize("bold reverse")
        return text.stylize("$primary bold underline", 1, 2)


def panel_title(state: ApprovalState) -> Content:
    """Return the tool, its purpose and the number of calls."""
    if state.listed_calls:
        return Content(f" allow these {len(state.listed_calls)} calls once? ")
    shown = state.shown_call
    if shown is None:
        return Content("")
    original_name = shown.call.original_name
    name = (
        shown.call.name
        if original_name is None
        else f"{shown.call.name} ({terminal_line(original_name)})"
    )
    number, count = state.pending.index(shown) + 1, len(state.pending)
    position = f"· {number} of {count} " if count > 1 else ""
    next_hint = "· Ctrl+N next " if len(state.undecided) > 1 else ""
    return Content(f" permission · {name}{_call_purpose(shown)} {position}{next_hint}")


def _call_purpose(pending: PendingCall) -> str:
    """Return the purpose of a call; empty if its name states it."""
    if pending.request is None:
        return " · not asked yet"
    capability = pending.request.capability
    return "" if pending.call.name == capability else f" {_PURPOSE_BY_CAPABILITY[capability]}"


def panel_calls(state: ApprovalState) -> Content:
    """Return the calls around the one shown, one in a row; nothing if it is the only one."""
    pending, shown = state.pending, state.shown_call
    if shown is None or len(pending) < 2 or state.listed_calls:
        return Content("")
    index = pending.index(shown)
    first = max(0, min(index - 1, len(pending) - _MAX_LISTED_CALLS))
    rows = [
        _call_row(call, is_shown=call == shown)
        for call in pending[first : first + _MAX_LISTED_CALLS]
    ]
    return Content("\n").join(rows)


def _call_row(pending: PendingCall, *, is_shown: bool) -> Content:
    row = Content(
        f"{'▸' if is_shown else ' '} {_call_state(pending):7}  {summarize_call(pending.call, pending.headline)}"
    )
    return row.stylize("$foreground bold") if is_shown else row


def _call_state(pending: PendingCall) -> str:
    if pending.decision is not None:
        return "allowed" if pending.decision.allowed else "denied"
    return "waits" if pending.request is None else "asked"


def panel_lines(state: ApprovalState, preview: CallPreview) -> list[CallLine]:
    """Return the lines to read; `preview` belongs to a call without a request."""
    if state.listed_calls:
        return describe_calls(state.listed_calls)
    shown = state.shown_call
    if shown is None:
        return []
    return describe_call(shown, preview if shown.request is None else shown.request.preview)


def panel_note(state: ApprovalState) -> Content:
    """Return the label of the input, or the reason why no rule is offered."""
    shown = state.shown_call
    if shown is None or state.listed_calls:
        return Content("")
    if state.edited_choice is not None:
        return Content(_ANSWER_NOTES[state.edited_choice])
    obstacle = rule_obstacle(shown.request)
    return Content(f"only once or not: {obstacle}" if obstacle else "")


def panel_hint(state: ApprovalState, *, typed: str, has_focus: bool) -> Content:
    """Return a message or the next keys; `has_focus` states whether the panel has the focus."""
    if state.message:
        return Content(state.message)
    if state.edited_choice is ApprovalChoice.EXPLAIN:
        return Content(_REASON_HINT if typed.strip() else _REASON_MISSING_HINT)
    if (
        state.edited_choice is not None
        and state.shown_call is not None
        and state.shown_call.request is not None
    ):
        preview = preview_rule(typed, state.shown_call.request)
        return Content(
            preview.description if preview.rule is None else f"{preview.description} · {_RULE_HINT}"
        )
    if state.highlighted is not None:
        edit_hint = _EDIT_HINT if state.is_rule_offered else ""
        return Content(f"Enter: {state.highlighted.meaning}{edit_hint}")
    return Content(_CHOICE_HINT if has_focus else _UNFOCUSED_HINT)


class PanelRows(NamedTuple):
    """The rows that are left for the call."""

    share: int
    max_rows: int
    """When the panel is enlarged."""
    has_margin: bool
    """Whether empty rows fit around the choices."""


def available_rows(panel: Widget, parts: Iterable[Widget], width: int) -> PanelRows:
    """Return the rows that the other parts of the panel leave, for a width."""
    screen = panel.app.size
    heights = [part.get_content_height(screen, screen, width) for part in parts if part.display]
    is_roomy = screen.height >= _MARGIN_MIN_HEIGHT
    other_rows = _TITLE_ROWS + sum(heights) + (_MARGIN_ROWS if is_roomy else 0)
    share = int(screen.height * _PANEL_SHARE) - other_rows
    return PanelRows(share, _max_panel_rows(panel) - other_rows, is_roomy)


def _max_panel_rows(panel: Widget) -> int:
    """Return the maximal height of the panel: enough rows of flexible widgets stay visible."""
    others = [widget for widget in panel.screen.children if widget is not panel and widget.display]
    fixed = [widget.outer_size.height for widget in others if not _can_shrink(widget)]
    return panel.app.size.height - _MIN_TRANSCRIPT_ROWS - sum(fixed)


def _can_shrink(widget: Widget) -> bool:
    height = widget.styles.height
    return height is not None and height.is_fraction


@final
class ApprovalPanel(Widget, can_focus=True):
    """Shows the pending calls one at a time, and reads the decisions."""

    DEFAULT_CSS: ClassVar[str] = """
    ApprovalPanel {
        display: none; height: auto; padding: 0 1; background: $surface;
        border-top: solid $warning;
        border-title-color: $warning;
        border-title-style: bold;
        &:focus, &:focus-within { border-top: heavy $warning; }
        & > Static { height: auto; }
        & > .calls { text-wrap: nowrap; text-overflow: ellipsis; }
        & > .calls, & > .note, & > .hint { color: $text-muted; }
        &.-roomy { padding: 0 1 1 1; & > CallPane { margin-bottom: 1; } }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*APPROVAL_KEYS]

    @final
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
        """Take the session, a clock in seconds, and a function for notices.

        `idle_s` returns how long the prompt has been blank, focused and unused; 0 if it is not.
        After a while, a new request takes the focus.
        """
        super().__init__()
        self.session = session
        self._add_notice = on_notice
        self._focus_policy = FocusPolicy(idle_s)
        self._focus_timer: Timer | None = None
        self._key_guard = KeyGuard(now)
        self._approval_state = ApprovalState(self._key_guard)
        self._call_preview = PreviewLoader()
        self._shown_call_key: object = None
        """The call or list that is shown."""
        self._calls = Static(markup=False, classes="calls")
        self._call_pane = CallPane()
        self._note = Static(markup=False, classes="note")
        self._choices = ChoiceBar()
        self._answer_input = AnswerInput(self._key_guard)
        self._answer_input.display = False
        self._hint = Static(markup=False, classes="hint")

    def compose(self) -> ComposeResult:
        """Yield the parts from top to bottom."""
        yield from (
            self._calls,
            self._call_pane,
            self._note,
            self._choices,
            self._answer_input,
            self._hint,
        )

    def on_mount(self) -> None:
        """Follow the size of the screen, and start the check of the focus."""
        self.screen.screen_layout_refresh_signal.subscribe(self, self._fit)
        self._focus_timer = self.set_interval(_FOCUS_CHECK_S, self._take_focus_if_idle, pause=True)

    # -- pending calls --------------------------------------------------------------------

    def show_pending(self, pending: Sequence[PendingCall]) -> None:
        """Show the pending calls; the call that the user decides about stays.

        The panel appears with the first request, and stays until every call has a decision.
        """
        has_focus = self.display and self.has_focus_within
        self._approval_state.update_pending(pending)
        is_needed = bool(
            self._approval_state.asked_ids or (self.display and self._approval_state.undecided)
        )
        if is_needed and not self.display:
            self._key_guard.content_changed()
            self.display = True
        elif not is_needed and self.display:
            self._hide_panel()
        is_new = self._focus_policy.update(self._approval_state.asked_ids, has_focus=has_focus)
        if is_new and not self._is_on_top:
            self.app.bell()
        show_approval_banner(self.app, is_asked=bool(self._approval_state.asked_ids))
        self._take_focus_if_idle()
        self._request_preview()
        self._draw()

    def _take_focus_if_idle(self) -> None:
        """Take the focus if the user is idle; never from another screen."""
        timer = self._focus_timer
        if timer is not None and self._focus_policy.is_pending:
            timer.resume()
        elif timer is not None:
            timer.pause()
        is_seen = self._is_on_top and self.display
        if is_seen and not self.has_focus_within and self._focus_policy.is_due:
            self._key_guard.focus_taken()
            self.focus()

    @property
    def _is_on_top(self) -> bool:
        """Whether no other screen is above."""
        return self.app.screen is self.screen

    def _hide_panel(self) -> None:
        if self._approval_state.message:
            self.notify(self._approval_state.message, severity="warning", markup=False)
        if self.has_focus_within:
            self.post_message(self.Dismissed())
        self._call_pane.is_large = False
        self.display = False

    def _request_preview(self) -> None:
        """Load the preview of a waiting call."""
        shown = self._approval_state.shown_call
        if shown is not None and self._call_preview.select(shown):
            self._fetch_preview(shown)

    # A failing preview does not end the program: the arguments are visible.
    @work(group="preview", exclusive=True, exit_on_error=False)
    async def _fetch_preview(self, shown: PendingCall) -> None:
        error = await self._call_preview.load(self.session, shown.call)
        if self._approval_state.shown_call == shown and not self._approval_state.listed_calls:
            self._approval_state.highlight(None, error)
            self._key_guard.content_changed()
            self._draw()

    # -- keys --------------------------------------------------------------------------------

    def on_key(self, event: Key) -> None:
        """Handle a character: a choice, if it counts as one."""
        if not self.has_focus or not event.is_printable or "+" in event.key:
            return
        event.stop()
        if self._approval_state.edited_choice is not None:
            # The key was pressed before the input opened.
            self._key_guard.check_key()
            self._answer_input.insert_text_at_cursor(event.character or "")
            return
        letter = (event.character or "").lower()
        offer = self._approval_state.offer_for_letter(letter)
        enlarges = letter == "v" and self._call_pane.can_enlarge
        edits_rule = letter == "e" and self._approval_state.is_rule_offered
        is_choice = offer is not None or enlarges or edits_rule
        refusal = self._key_guard.check_letter(letter, is_choice=is_choice)
        if refusal is not None:
            self._approval_state.highlight(None, refusal.text)
        elif enlarges:
            self._approval_state.highlight(None)
            self.action_enlarge()
        elif edits_rule:
            self._open_answer()
        else:
            self._approval_state.highlight(offer, "" if is_choice else KeyRefusal.NO_CHOICE.text)
            if offer is not None and offer.choice is ApprovalChoice.EXPLAIN:
                self._open_answer()  # at once: the next keys are the reason, and nothing else
        self._draw()

    def on_paste(self, event: Paste) -> None:
        """Ignore a paste: it decides nothing."""
        if self.has_focus:
            event.stop()
            self._key_guard.check_letter(" ")
            self._approval_state.highlight(None, KeyRefusal.PASTE.text)
            self._draw()

    def action_highlight(self, step: int) -> None:
        """Highlight another choice, unless the input is open."""
        refusal = self._key_guard.check_key()
        if self._approval_state.edited_choice is not None:
            return
        if refusal is None:
            self._approval_state.highlight_next(step)
        else:
            self._approval_state.highlight(None, refusal.text)
        self._draw()

    def action_edit(self) -> None:
        """Edit the rule before it is stored; without a rule, pass the key on."""
        if self._approval_state.is_rule_offered:
            self._key_guard.check_key()
            self._open_answer()
            self._draw()
        elif self._approval_state.edited_choice is None:
            raise SkipAction

    def action_confirm(self) -> None:
        """Confirm the highlighted choice; the input submits its own text."""
        refusal = self._key_guard.check_enter()
        if self._approval_state.edited_choice is not None:
            return
        if refusal is None:
            self._confirm()
        else:
            self._approval_state.highlight(None, refusal.text)
        self._draw()

    def action_move(self, step: int) -> None:
        """Show another call, unless the input or the list is open."""
        if self._approval_state.edited_choice is None and not self._approval_state.listed_calls:
            self._approval_state.show_next(step)
            self._request_preview()
            self._draw()

    def action_enlarge(self) -> None:
        """Enlarge the call to most of the screen, or shrink it."""
        self._call_pane.is_large = not self._call_pane.is_large
        self._draw()

    def action_scroll(self, direction: str) -> None:
        """Scroll the call."""
        self._call_pane.scroll_by_key(direction)

    def action_back(self) -> None:
        """Go back one step: from the input to the choices, from there to the prompt."""
        if self._approval_state.edited_choice is None and not self._approval_state.listed_calls:
            self.post_message(self.Dismissed())
        self._approval_state.reset()
        self._draw()

    @on(ChoiceBar.ChoiceClicked)
    def _handle_choice_click(self, message: ChoiceBar.ChoiceClicked) -> None:
        message.stop()
        offer = self._approval_state.offer_for_choice(message.choice)
        refusal = self._key_guard.check_click()
        if refusal is not None:
            self._approval_state.message = refusal.text
        elif offer is not None and offer == self._approval_state.highlighted:
            self._confirm()
        else:
            self._approval_state.highlight(offer)
        self._draw()

    def on_focus(self) -> None:
        """Handle the focus; an open input gets it."""
        self._focus_policy.mark_focused()
        if self._approval_state.edited_choice is not None:
            self._answer_input.focus()
        self._draw()

    def on_blur(self) -> None:
        """Drop the highlight."""
        self._approval_state.highlight(None, self._approval_state.message)
        self._draw()

    # -- decisions ---------------------------------------------------------------------------

    def _confirm(self) -> None:
        """Apply the highlighted choice, if its request is still pending."""
        self.show_pending(self.session.pending_calls)
        offer, shown = self._approval_state.highlighted, self._approval_state.shown_call
        allow, deny = [
            ApprovalDecision(allowed=allowed, actor=self.session.actor) for allowed in (True, False)
        ]
        if offer is None or shown is None:
            self._approval_state.message = (
                self._approval_state.message or KeyRefusal.NOTHING_CHOSEN.text
            )
        elif offer.choice in (ApprovalChoice.ONCE, ApprovalChoice.DENY):
            self._decide([shown], allow if offer.choice is ApprovalChoice.ONCE else deny)
        elif offer.choice is ApprovalChoice.ALL:
            self._approval_state.list_all()
        elif offer.choice is ApprovalChoice.THESE:
            self._decide(self._approval_state.listed_calls, allow)
        elif offer.choice is ApprovalChoice.BACK:
            self._approval_state.reset()
        elif rule_decision := decision_from_offer(
            offer.choice, shown.request, actor=self.session.actor
        ):
            self._decide([shown], rule_decision)
        else:
            self._open_answer()

    def _open_answer(self) -> None:
        """Open the input for the rule or the reason of the highlighted choice."""
        offer, pending = self._approval_state.highlighted, self._approval_state.shown_call
        if offer is None or pending is None:
            return
        choice, request = offer.choice, pending.request
        self._approval_state.begin_answer(choice)
        self._answer_input.value = (
            request.rule if request is not None and choice in SCOPE_BY_CHOICE else ""
        )
        self._answer_input.cursor_position = len(self._answer_input.value)
        self._answer_input.allows_quick_enter = choice not in SCOPE_BY_CHOICE

    @on(AnswerInput.Changed)
    def _handle_answer_changed(self, message: AnswerInput.Changed) -> None:
        message.stop()
        self._approval_state.message = ""
        self._draw()

    @on(AnswerInput.Ignored)
    def _handle_enter_ignored(self, message: AnswerInput.Ignored) -> None:
        message.stop()
        self._approval_state.message = message.reason.text
        self._draw()

    @on(AnswerInput.Submitted)
    def _handle_answer_submitted(self, message: AnswerInput.Submitted) -> None:
        message.stop()
        self.show_pending(self.session.pending_calls)
        choice, shown = self._approval_state.edited_choice, self._approval_state.shown_call
        if choice is not None and shown is not None:
            decision = decision_from_text(
                choice, message.value, shown.request, actor=self.session.actor
            )
            if decision is not None:
                self._decide([shown], decision)
        self._draw()

    def _decide(self, calls: Sequence[PendingCall], decision: ApprovalDecision) -> None:
        self._approval_state.reset()
        errors = decide_calls(self.session, calls, decision)
        if not errors and (notice := stored_rule_notice(decision)):
            self._add_notice(notice)
        self.show_pending(self.session.pending_calls)
        self._approval_state.message = self._approval_state.message or " · ".join(errors)

    # -- the screen --------------------------------------------------------------------------

    def _draw(self) -> None:
        """Draw the state."""
        state = self._approval_state
        self._show_answer_input(state.edited_choice is not None)
        self.border_title = panel_title(state)
        self._set_part(self._calls, Content("") if self._call_pane.is_large else panel_calls(state))
        self._set_part(self._note, panel_note(state))
        self._choices.show(state.offers, state.highlighted)
        key = (state.shown_call, state.listed_calls, self._call_preview.preview)
        if key != self._shown_call_key:
            self._shown_call_key = key
            self._call_pane.show_lines(panel_lines(state, self._call_preview.preview))
        text, has_focus = self._answer_input.value, self.has_focus_within
        self._set_part(self._hint, panel_hint(state, typed=text, has_focus=has_focus))
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
        """Give the call the rows that the other parts leave, up to the share."""
        width = self.content_size.width or self.app.size.width - 2
        parts = (self._calls, self._note, self._choices, self._answer_input, self._hint)
        rows = available_rows(self, parts, width)
        self.set_class(rows.has_margin, "-roomy")
        self._call_pane.fit_rows(width, share=rows.share, max_rows=rows.max_rows)
