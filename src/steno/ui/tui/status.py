"""The status line: mode, activity, model, context and cost.

A part may have a short and a long form. Parts that do not fit are omitted, the least important
first. On a narrow terminal, the status has two lines. The first paint waits for this module, so it
imports nothing slow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final, NamedTuple, final

from textual.app import RenderResult
from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.timer import Timer
from textual.widget import Widget

from steno.messages.usage import Usage
from steno.records.entry import Mode
from steno.render.items import SessionStatus
from steno.render.quantities import format_dollars
from steno.render.terminal_text import display_width, terminal_line, truncate_to_width

_TWO_LINE_WIDTH: Final = 78
"""The width in columns below which the status has two lines."""
_GAP: Final = "  "
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧"
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_NEARLY_FULL: Final = 0.8
_MAX_NAME_LENGTH: Final = 400
"""Longer names are truncated before they are sanitized, because sanitizing takes time."""
_MESSAGE_S: Final = 4.0
_INTERRUPT_HINT: Final = " · Esc interrupt"
_RUN_PART_ORDER: Final = ("model", "context", "branch", "cost", "tokens")
"""The parts by importance; on a narrow line, the last parts are omitted first."""
_SESSION_PART_ORDER: Final = ("title", "folder")


def abbreviate_count(number: int) -> str:
    """Return an abbreviated number, such as 950, 4.2k, 32k or 1.3M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size * 0.9995:
            share = number / size
            digits = f"{share:.1f}".removesuffix(".0") if share < 9.95 else f"{share:.0f}"
            return digits + unit
    return str(number)


# -- parts -------------------------------------------------------------------------------------


class _StatusPart(NamedTuple):
    forms: tuple[str, ...]
    """The short and the long form of a part, or its only form; empty if the value is unknown."""
    style: str = ""


def _status_parts(status: SessionStatus) -> dict[str, _StatusPart]:
    """Return the parts of a status, in the order in which they are drawn."""
    model, branch = _clean_name(status.model), f"⎇ {_clean_name(status.branch)}"
    title = _clean_name(status.title) if status.session is not None else "not recorded"
    folder = _clean_name(status.folder)
    return {
        "model": _two_forms(model.rpartition("/")[2], 24, model, 48)._replace(
            style="$text-primary"
        ),
        "branch": _two_forms(branch, 18, branch, 34),
        "context": _context_part(status),
        "cost": _StatusPart(() if status.cost is None else (format_dollars(status.cost),)),
        "tokens": _token_part(status.usage),
        "title": _two_forms(title, 16, title, 40),
        "folder": _two_forms(folder.rpartition("/")[2], 20, folder, 40),
    }


def _two_forms(short: str, short_width: int, long: str, long_width: int) -> _StatusPart:
    return _StatusPart((truncate_to_width(short, short_width), truncate_to_width(long, long_width)))


def _clean_name(text: str) -> str:
    return terminal_line(text[:_MAX_NAME_LENGTH])


def _context_part(status: SessionStatus) -> _StatusPart:
    used, limit = status.context_tokens, status.context_limit
    if used is None:
        return _StatusPart(())
    if not limit:
        return _StatusPart((f"ctx {abbreviate_count(used)}",))
    share = used / limit
    level = _LEVELS[min(int(share * len(_LEVELS)), len(_LEVELS) - 1)]
    warning = "!" if share >= _NEARLY_FULL else ""
    filled = f"{share:.0%}{warning} {level}"
    return _StatusPart(
        (f"ctx {filled}", f"ctx {abbreviate_count(used)}/{abbreviate_count(limit)} {filled}"),
        "bold $text-warning" if warning else "",
    )


def _token_part(usage: Usage) -> _StatusPart:
    sent, received = usage.input_tokens, usage.output_tokens
    if sent is None and received is None:
        return _StatusPart(())
    total = abbreviate_count((sent or 0) + (received or 0))
    both = f"↑{abbreviate_count(sent or 0)} ↓{abbreviate_count(received or 0)}"
    return _StatusPart((f"{total} tok", f"{both} tok"))


def _fit_parts(
    parts: dict[str, _StatusPart], order: Iterable[str], width: int
) -> list[tuple[str, str]]:
    """Return the texts of the parts that fit, and their styles.

    As many parts as possible are shown in their short form; a long form is used if there is still
    room. The width of a part includes the gap before it.
    """
    chosen: dict[str, str] = {}

    def has_room(name: str, form: str) -> bool:
        forms = {**chosen, name: form}.values()
        return sum(display_width(text) + len(_GAP) for text in forms) <= width

    for name in [name for name in order if parts[name].forms]:
        short_form = parts[name].forms[0]
        if not has_room(name, short_form):
            break
        chosen[name] = short_form
    for name in chosen:
        long_form = parts[name].forms[-1]
        if has_room(name, long_form):
            chosen[name] = long_form
    return [(chosen[name], part.style) for name, part in parts.items() if name in chosen]


# -- the line ----------------------------------------------------------------------------------


@final
class StatusLine(Widget):
    """A widget that shows the status on one line, or on two lines if the terminal is narrow."""

    DEFAULT_CSS: ClassVar[str] = """
    StatusLine {
        height: auto; max-height: 2; padding: 0 1; background: $panel; color: $text-muted;
        text-wrap: nowrap; text-overflow: clip;
    }
    """

    session_status: reactive[SessionStatus | None] = reactive(None)
    shown_keys: reactive[str | None] = reactive(None)
    """Key hints to show in place of the activity; None to show the activity."""
    unseen_count: reactive[int] = reactive(0)
    """The number of new or changed items below the visible items."""
    _shown_message: reactive[str | None] = reactive(None)

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._clock = clock
        self._current_activity: str | None = None
        self._is_interruptible = False
        self._since = 0.0
        self._message_timer: Timer | None = None

    def show_activity(self, text: str | None, *, is_interruptible: bool = False) -> None:
        """Show an activity and its duration, or no activity if None.

        An interruptible activity is followed by the key hint, if there is room.
        """
        if (text, is_interruptible) == (self._current_activity, self._is_interruptible):
            return
        if text != self._current_activity:
            self._current_activity, self._since = text, self._clock()
            if self.is_attached:
                self._count_seconds()
        self._is_interruptible = is_interruptible
        self.refresh()

    def show_message(self, text: str) -> None:
        """Show a message for a few seconds in place of the activity."""
        if self._message_timer is not None:
            self._message_timer.stop()
        self._shown_message = text
        self._message_timer = self.set_timer(_MESSAGE_S, self._clear_message)

    def on_mount(self) -> None:
        """Start counting the seconds of the current activity, if there is one."""
        self._count_seconds()

    def _count_seconds(self) -> None:
        self.auto_refresh = None if self._current_activity is None else 1

    def _clear_message(self) -> None:
        self._shown_message = None

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines, which is 2 if the terminal is narrow and 1 otherwise."""
        return 2 if width < _TWO_LINE_WIDTH else 1

    def render(self) -> RenderResult:
        """Return the one or two lines of the status."""
        width = self.content_size.width
        if width < _TWO_LINE_WIDTH:
            first = self._align_parts(self._left_part(width), _SESSION_PART_ORDER, width)
            return Content("\n").join([first, self._align_parts(Content(), _RUN_PART_ORDER, width)])
        return self._align_parts(
            self._left_part(self._max_left_width(width)),
            _RUN_PART_ORDER + _SESSION_PART_ORDER,
            width,
        )

    def _max_left_width(self, width: int) -> int:
        """Return the maximal width of the left part, which is larger if it contains key hints."""
        if self.shown_keys is not None:
            return width
        return width * 3 // 4 if self._shows_interrupt_hint else width // 2

    def _align_parts(self, left: Content, order: Sequence[str], width: int) -> Content:
        """Return a line with the left part, and the status parts that fit on the right."""
        if self.session_status is None:
            return left
        # The right part must not move when the duration of the activity on the left gets longer.
        left_width = max(left.cell_length, width // 3) if left else 0
        fitting = _fit_parts(_status_parts(self.session_status), order, width - left_width)
        right = Content(_GAP).join([Content.styled(text, style) for text, style in fitting])
        gap = " " * (width - left.cell_length - right.cell_length)
        return left + gap + right if left else right

    def _left_part(self, width: int) -> Content:
        """Return the mode and the activity, which are never omitted."""
        status = self.session_status
        mode = "" if status is None else f" {status.mode.upper()} "
        is_plan = status is not None and status.mode == Mode.PLAN
        style = "bold reverse" if is_plan else "bold reverse $text-success"
        unseen = f"{_GAP}↓ {self.unseen_count} new below" if self.unseen_count else ""
        columns = width - display_width(mode) - 1 - display_width(unseen)
        activity = truncate_to_width(self._activity_text(), columns)
        if self._shows_interrupt_hint and display_width(activity + _INTERRUPT_HINT) <= columns:
            activity += _INTERRUPT_HINT
        return Content.assemble(
            (mode, style), " " if mode else "", (activity, "$text"), (unseen, "bold $text-primary")
        )

    @property
    def _shows_interrupt_hint(self) -> bool:
        is_hidden = self._shown_message is not None or self.shown_keys is not None
        return self._is_interruptible and self._current_activity is not None and not is_hidden

    def _activity_text(self) -> str:
        if self._shown_message is not None:
            return _clean_name(self._shown_message)
        if self.shown_keys is not None:
            return self.shown_keys
        if self._current_activity is None:
            return "starting …" if self.session_status is None else "idle"
        seconds = int(self._clock() - self._since)
        elapsed = f" {seconds} s" if seconds < 60 else f" {seconds // 60} min {seconds % 60} s"
        spinner = _SPINNER[seconds % len(_SPINNER)]
        return f"{spinner} {truncate_to_width(_clean_name(self._current_activity), 40)}{elapsed if seconds else ''}"
