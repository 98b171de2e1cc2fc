"""`steno sessions show`: a conversation, readably."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from steno.aside import digests_of
from steno.captions import decided_by, noted_of, type_of
from steno.cli import moments
from steno.cli.log import Log
from steno.cli.paper import Paper, Styled, print_object
from steno.cli.place import existing_store, find_session
from steno.cli.words import SPEAKERS, Passage, passages_of, remark_of
from steno.codec import encode_entry
from steno.entry import Entry
from steno.errors import Damaged, Missing
from steno.formats.papers.telling import tokens
from steno.message import Message, ToolResultMessage
from steno.outcome import Outcome
from steno.printable import counted, on_one_line
from steno.store import Store
from steno.store.store import title_of
from steno.views import tools_of, usage_of

_INDENT: Final = "    "
_FEW_LINES, _FEW_CHARACTERS = 12, 2_000
"""How much is shown of what is there to be looked up."""
_MANY_LINES, _MANY_CHARACTERS = 400, 40_000
"""How much is shown of what is there to be read."""


def show(options: argparse.Namespace) -> int:
    """Print the entries of a branch."""
    with existing_store(options) as store:
        log = Log.read(store, find_session(store, options.session))
        path = log.path(options.branch)
        if not options.json:
            path = [_with_result(store, entry) for entry in path]
    if options.json:
        for entry in path:
            print_object(encode_entry(entry))
        return 0
    paper = Paper()
    branch = log.active if options.branch is None else options.branch
    _print_header(paper, log, branch, path)
    for entry in path:
        paper.line()
        _print_entry(paper, log, entry, is_whole=options.all)
    usage = tokens(usage_of(path))
    if usage:
        paper.line()
        paper.line(("usage: ", "dim"), usage)
    return 0


def _with_result(store: Store, entry: Entry) -> Entry:
    """Return an entry with the long result that lies beside it, if that can be had."""
    if isinstance(entry.payload, ToolResultMessage) and digests_of(entry.payload):
        with suppress(Missing, Damaged):
            return replace(entry, payload=store.restore_blobs(entry.payload))
    return entry


def _print_header(paper: Paper, log: Log, branch: str, path: list[Entry]) -> None:
    header = log.header
    title = on_one_line(header.title or title_of(path))
    if title:
        paper.line((title, "bold"))
    paper.line(("session ", "dim"), on_one_line(header.id))
    began = f"begun {moments.shown(header.created_at)}, " if header.created_at else ""
    others = len(log.heads) - 1
    more = f" (and {others} more)" if others > 0 else ""
    entries = counted(len(path), "entry", "entries")
    paper.line((f"{began}{entries}, branch {on_one_line(branch)}{more}", "dim"))


def _print_entry(paper: Paper, log: Log, entry: Entry, *, is_whole: bool) -> None:
    kind, message = type_of(entry), entry.message
    style = "dim" if message is None else SPEAKERS[kind]
    pieces: list[Styled] = [(f"{log.number(entry.id)} ", "dim"), (kind, style)]
    if isinstance(message, ToolResultMessage):
        pieces += _fate(message, ", ".join(tools_of(entry, log.tools)))
    pieces.append((f"  {moments.shown(entry.time)}", "dim"))
    decision = _decision(entry)
    if decision:
        pieces.append((f"  {decision}", "dim"))
    paper.line(*pieces)
    for passage in _passages(message, entry, log):
        _print_passage(paper, passage, is_whole=is_whole)


def _fate(result: ToolResultMessage, tool: str) -> list[Styled]:
    style = "green" if result.outcome is Outcome.OK else "red"
    name = f"{on_one_line(tool)} ({on_one_line(result.tool_call_id)})".lstrip()
    took = "" if result.duration_s is None else f" {result.duration_s:.2f} s"
    return [f" {name} ", (f"{result.outcome}{took}", style)]


def _decision(entry: Entry) -> str:
    if decided_by(entry.payload):  # it is said below
        return ""
    told = " ".join(filter(None, [on_one_line(entry.decision or ""), *noted_of(entry)]))
    return f"[{told}]" if told else ""


def _passages(message: Message | None, entry: Entry, log: Log) -> list[Passage]:
    if message is None:
        return [Passage(remark_of(entry, log), "dim")]
    return list(passages_of(message))


def _print_passage(paper: Paper, passage: Passage, *, is_whole: bool) -> None:
    text, omitted = passage.text.rstrip("\n"), ""
    if not is_whole:
        text, omitted = _shortened(text, may_be_cut=passage.is_detail)
    for line in text.split("\n"):
        paper.line(_INDENT, (line, passage.style)) if line else paper.line()
    if omitted:
        paper.line(_INDENT, (omitted, "dim"))


def _shortened(text: str, *, may_be_cut: bool) -> tuple[str, str]:
    """Return the beginning of a text, and what to say about the rest of it."""
    most_lines, most_characters = (
        (_FEW_LINES, _FEW_CHARACTERS) if may_be_cut else (_MANY_LINES, _MANY_CHARACTERS)
    )
    shown = "\n".join(text[:most_characters].split("\n")[:most_lines])
    left = len(text) - len(shown)
    return shown, f"… {left:,} more characters (--all shows them)" if left else ""
