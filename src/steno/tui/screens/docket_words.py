"""What the approval panel says around a call: a title, the other calls, and what to do."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from steno.ports import Capability
from steno.printable import on_one_line
from steno.tui.call_head import head_of_call
from steno.tui.desk import Pending
from steno.tui.screens.call_text import Line, lines_of, lines_of_all
from steno.tui.screens.deciding import Choice, obstacle_to_rules, read_rule
from steno.tui.screens.docket import Docket

_MOST_LISTED: Final = 3
_WANTS: Final = {
    Capability.READ: "wants to read",
    Capability.WRITE: "wants to write",
    Capability.EXECUTE: "wants to execute",
    Capability.NETWORK: "wants to use the network",
}
_ASKED_FOR: Final = {
    Choice.SESSION: "allow in this session whatever this rule covers:",
    Choice.PROJECT: "allow in this folder, for good, whatever this rule covers:",
    Choice.USER: "allow in all folders, for good, whatever this rule covers:",
    Choice.EXPLAIN: "why not? The model is told:",
}
_ELSEWHERE: Final = "Ctrl+G decides · Esc interrupts"
_HOW: Final = "letter or ←→ picks · Enter confirms · Esc leaves"
_EDITS: Final = " · e edits it first"
_NO_REASON: Final = "write a reason; Esc, then d denies without one"
_REASON: Final = "Enter denies, and the model reads this · Esc goes back"
_STORES: Final = "Enter stores it · Esc goes back"


def title_of(docket: Docket) -> Content:
    """Return what is asked about, and how many more there are."""
    if docket.listed_calls:
        return Content(f" allow these {len(docket.listed_calls)} calls once? ")
    shown = docket.shown_call
    if shown is None:
        return Content("")
    called = shown.call.original_name
    name = shown.call.name if called is None else f"{shown.call.name} ({on_one_line(called)})"
    number, count = docket.pending.index(shown) + 1, len(docket.pending)
    which = f"· {number} of {count} " if count > 1 else ""
    more = "· Ctrl+N next " if len(docket.undecided) > 1 else ""
    return Content(f" permission · {name}{_purpose(shown)} {which}{more}")


def _purpose(pending: Pending) -> str:
    """Return what a call is for, behind its name; nothing where the name says it."""
    if pending.request is None:
        return " · not asked yet"
    capability = pending.request.capability
    return "" if pending.call.name == capability else f" {_WANTS[capability]}"


def calls_of(docket: Docket) -> Content:
    """Return the calls around the one shown, one in a row; nothing if it is the only one."""
    pending, shown = docket.pending, docket.shown_call
    if shown is None or len(pending) < 2 or docket.listed_calls:
        return Content("")
    here = pending.index(shown)
    first = max(0, min(here - 1, len(pending) - _MOST_LISTED))
    rows = [_row(one, is_shown=one == shown) for one in pending[first : first + _MOST_LISTED]]
    return Content("\n").join(rows)


def _row(pending: Pending, *, is_shown: bool) -> Content:
    row = Content(
        f"{'▸' if is_shown else ' '} {_standing(pending):7}  {head_of_call(pending.call)}"
    )
    return row.stylize("$foreground bold") if is_shown else row


def _standing(pending: Pending) -> str:
    if pending.decision is not None:
        return "allowed" if pending.decision.allowed else "denied"
    return "waits" if pending.request is None else "asked"


def lines_to_read(docket: Docket, preview: str) -> list[Line]:
    """Return what there is to read; `preview` is for a call that nobody was asked about yet."""
    if docket.listed_calls:
        return lines_of_all(docket.listed_calls)
    shown = docket.shown_call
    if shown is None:
        return []
    return lines_of(shown, preview if shown.request is None else shown.request.preview)


def note_of(docket: Docket) -> Content:
    """Return what is to be written, or why nothing wider than once is offered."""
    shown = docket.shown_call
    if shown is None or docket.listed_calls:
        return Content("")
    if docket.answered_choice is not None:
        return Content(_ASKED_FOR[docket.answered_choice])
    obstacle = obstacle_to_rules(shown.request)
    return Content(f"only once or not: {obstacle}" if obstacle else "")


def hint_of(docket: Docket, *, written: str, is_here: bool) -> Content:
    """Return what the person should know now, or can do next; `is_here` if keys come here."""
    if docket.message:
        return Content(docket.message)
    if docket.answered_choice is Choice.EXPLAIN:
        return Content(_REASON if written.strip() else _NO_REASON)
    if docket.answered_choice is not None and docket.shown_call is not None and docket.shown_call.request is not None:
        reading = read_rule(written, docket.shown_call.request)
        return Content(reading.description if reading.rule is None else f"{reading.description} · {_STORES}")
    if docket.highlighted is not None:
        edits = _EDITS if docket.is_rule_offered else ""
        return Content(f"Enter: {docket.highlighted.meaning}{edits}")
    return Content(_HOW if is_here else _ELSEWHERE)
