"""`steno audit` and `steno verify`: who decided what, and whether the record is as it was."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, get_args

import msgspec

from steno.call import outside_name
from steno.captions import decided_by, type_of
from steno.chain import Verification
from steno.cli import moments
from steno.cli.commands import Commands, add_store_option
from steno.cli.log import Log
from steno.cli.paper import Column, Paper, note, print_object
from steno.cli.place import (
    UNREADABLE,
    Troubles,
    existing_store,
    find_session,
    headers_of,
)
from steno.cli.progress import progress, working
from steno.cli.words import remark_of
from steno.content import Opaque
from steno.entry import Approval, Entry, Payload
from steno.formats import audit as audit_format
from steno.message import Message, ToolResultMessage
from steno.printable import counted, cut, on_one_line
from steno.store import Store
from steno.tui.call_head import head_of_call
from steno.views import Kind, Query, decision_of, kinds_of, select, tools_of

_BROKEN: Final = 1
_PARTLY: Final = 3
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_COLUMNS: Final = (
    Column("entry", "cyan", is_number=True),
    Column("time", "dim"),
    Column("kind", may_shrink=True),
    Column("decision", "bold"),
    Column("tool", may_shrink=True),
    Column("by", may_shrink=True),
    Column("outcome"),
)
_ABOUT: Final = Column("about")
"""What was decided or done. On a terminal it has lines of its own: none of it may be cut there."""
_REASON: Final = 60
"""How much of a reason is shown; `steno sessions show` has all of it."""
_REMARK: Final = 200
"""How much is shown of what an entry says that is no decision."""
_KINDS: Final = (
    *(kind.value for kind in Kind),
    *(
        str(payload.__struct_config__.tag)
        for payload in get_args(Payload)
        if payload is not Opaque and payload not in get_args(Message)
    ),
)
"""What the table may call an entry, but for what a newer steno wrote."""


def add_commands(commands: Commands) -> None:
    """Add both commands to the command line."""
    _add_audit(commands)
    _add_verify(commands)


def _add_audit(commands: Commands) -> None:
    audit = commands.add_parser(
        "audit",
        help="tell who decided what in a session",
        description="Tell who decided what: everything in a session in the order it was written, "
        "also what was left behind. Times are UTC.",
        epilog="example: steno audit last --tool bash --decision denied --since 2d",
    )
    audit.add_argument("session", metavar="ID", help="an id, the beginning of one, or last")
    audit.add_argument("--json", action="store_true", help="print the audit log as one JSON object")
    for name, what in (("since", "not before"), ("until", "not after")):
        audit.add_argument(
            f"--{name}",
            type=moments.moment,
            metavar="T",
            help=f"{what} this time: 2024-05-17T06:30:00Z, or 2h, 3d (ago)",
        )
    audit.add_argument("--kind", metavar="K", help=", ".join(_KINDS))
    audit.add_argument("--decision", metavar="D", help="what was decided: approved, denied, ...")
    audit.add_argument("--tool", metavar="T", help="calls of this tool, and decisions about them")
    audit.add_argument("--actor", metavar="A", help="what this person or program did")
    audit.add_argument("--branch", metavar="B", help="only what led to the end of this branch")
    add_store_option(audit)
    audit.set_defaults(run=_audit, parser=audit)


def _add_verify(commands: Commands) -> None:
    verify = commands.add_parser(
        "verify",
        help="check that nothing in a session was changed",
        description="Check every record of a session against the chain of digests. Exits with 1 "
        "and names the first bad record if there is one.",
        epilog="Whoever can write to the store can also compute a new chain: keep the digest of a "
        "head elsewhere, and check later that it is still there with --head.",
    )
    verify.add_argument("session", nargs="?", metavar="ID", help="an id, its beginning, or last")
    verify.add_argument("--all", action="store_true", help="check all sessions of the store")
    verify.add_argument(
        "--head", metavar="DIGEST", type=_digest, help="check also that the chain holds this digest"
    )
    verify.add_argument(
        "--allow-newer",
        action="store_true",
        help=f"do not mind entries of a newer version, which only that can check (else exit {_PARTLY})",
    )
    verify.add_argument(
        "--json", action="store_true", help="print an object for each session, one a line"
    )
    add_store_option(verify)
    verify.set_defaults(run=_verify, parser=verify)


def _digest(text: str) -> str:
    if _DIGEST.fullmatch(text.lower()) is None:
        raise argparse.ArgumentTypeError("a digest has 64 hexadecimal digits")
    return text.lower()


# -- audit -----------------------------------------------------------------------------------


def _audit(options: argparse.Namespace) -> int:
    with existing_store(options) as store:
        log = Log.read(store, find_session(store, options.session))
    everything = list(log.entries.values())
    kind: str | None = options.kind
    if kind is not None and kind not in {*_KINDS, *map(type_of, everything)}:
        options.parser.error(f"--kind: it is one of {', '.join(_KINDS)}")
    query = Query(
        since=options.since,
        until=options.until,
        kind=Kind(kind) if kind in tuple(Kind) else None,
        decision=options.decision,
        tool=options.tool,
        actor=options.actor,
    )
    candidates = everything if options.branch is None else log.path(options.branch)
    entries = select(candidates, query, among=everything)
    if kind is not None and query.kind is None:
        entries = tuple([entry for entry in entries if type_of(entry) == kind])
    if options.json:
        print_object(audit_format.encode(log.header, entries).data)
    elif entries:
        _print(entries, log)
    else:
        note("nothing in the session answers to this" + _decisions(options.decision, everything))
    return 0


def _decisions(wanted: str | None, entries: Sequence[Entry]) -> str:
    """Return what to say of a decision that nobody took in a session."""
    found = dict.fromkeys([decision_of(entry) for entry in entries])
    if wanted is None or wanted in found:
        return ""
    taken = [on_one_line(decision) for decision in found if decision]
    there = f"there are {', '.join(taken)}" if taken else "there is none"
    return f"; no decision in it is {on_one_line(wanted)}, {there}"


def _print(entries: Sequence[Entry], log: Log) -> None:
    paper = Paper()
    rows = [_row(entry, log) for entry in entries]
    abouts = [_about(entry, log) for entry in entries]
    if paper.width is None:  # so that `grep` finds it beside its decision
        whole = [[*row, about] for row, about in zip(rows, abouts, strict=True)]
        paper.table((*_COLUMNS, _ABOUT), whole)
    else:
        paper.table(_COLUMNS, rows, below=dict(enumerate(abouts)))


def _row(entry: Entry, log: Log) -> list[str]:
    payload = entry.payload
    kinds = type_of(entry) if entry.message is None else ", ".join(kinds_of(entry))
    outcome = payload.outcome if isinstance(payload, ToolResultMessage) else ""
    return [
        log.number(entry.id),
        moments.shown(entry.time),
        kinds,
        on_one_line(decision_of(entry) or ""),
        on_one_line(", ".join(tools_of(entry, log.tools))),
        _by(entry),
        outcome,
    ]


def _about(entry: Entry, log: Log) -> str:
    """Return what was decided, for how long, and why; what else happened, where it is no message."""
    payload = entry.payload
    if entry.message is not None:
        return ""
    if not isinstance(payload, Approval):
        return cut(on_one_line(remark_of(entry, log)), _REMARK)
    call = log.calls.get(payload.call_id)
    what = "" if call is None else head_of_call(call).removeprefix(on_one_line(outside_name(call)))
    reason = cut(on_one_line(payload.reason or ""), _REASON)
    return " · ".join(filter(None, (what.strip(), _granted(entry), reason)))


def _granted(entry: Entry) -> str:
    """Return what a decision allows beyond the one call; nothing where it was about that alone."""
    audit = entry.audit or {}
    scope, rule = audit.get("scope"), audit.get("grant")
    if not isinstance(scope, str) or not isinstance(rule, str):
        return ""
    return on_one_line(f"for the {scope}: {rule}")


def _by(entry: Entry) -> str:
    actor = None if entry.audit is None else entry.audit.get("actor")
    return decided_by(entry.payload) or (on_one_line(actor) if isinstance(actor, str) else "")


# -- verify ----------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """What is to be said about a session."""

    session: str
    found: Verification | None
    """None where it cannot be read."""
    problem: str | None
    """None where nothing is wrong."""
    head_record: int | None = None
    """The record that has the digest asked for."""


def _verify(options: argparse.Namespace) -> int:
    if options.all == (options.session is not None) or (options.all and options.head):
        options.parser.error("name one session, or use --all (without --head)")
    troubles, status = Troubles(), 0
    with existing_store(options) as store:
        if options.all:
            sessions = sorted(header.id for header in headers_of(store, troubles))
        else:
            sessions = [find_session(store, options.session, doubts=troubles)]
        if len(sessions) == 1:
            with working("verifying the session"):
                verdicts = [verdict_on(store, sessions[0], options.head)]
        else:
            with progress("verifying sessions", len(sessions)) as shown:
                verdicts = [
                    verdict_on(store, session, options.head) for session in shown.track(sessions)
                ]
    for verdict in verdicts:
        if options.json:
            print_object(msgspec.json.encode(_described(verdict)))
        elif verdict.problem is None:
            _tell(verdict, is_one_of_many=options.all)
        if verdict.problem is not None:
            note(f"session {on_one_line(verdict.session)}: {on_one_line(verdict.problem)}")
            status = _BROKEN
        elif verdict.found is not None and verdict.found.foreign and not options.allow_newer:
            note(f"session {on_one_line(verdict.session)}: only a newer steno can check all of it")
            status = status or _PARTLY
    return max(troubles.report(), status) if status != _BROKEN else _BROKEN


def verdict_on(store: Store, session: str, head: str | None = None) -> Verdict:
    """Check a session, and whether it holds the digest of a head if one is given.

    Raises Missing if there is no such session.
    """
    try:
        found = store.verify(session)
    except UNREADABLE as exc:
        return Verdict(session, None, str(exc))
    if found.bad is not None:
        return Verdict(session, found, str(found.bad))
    if head is None:
        return Verdict(session, found, None)
    for record in store.records(session):
        if record.digest == head:
            return Verdict(session, found, None, record.seq)
    problem = (
        "the chain does not hold this digest: it is another session, or its past was rewritten"
    )
    return Verdict(session, found, problem)


def counts_in_words(found: Verification) -> str:
    """Say how much was checked, and what could not be."""
    parts = [counted(found.entries, "entry", "entries")]
    if found.redacted:
        parts.append(f"the content of {found.redacted:,} taken out")
    if found.foreign:
        parts.append(f"{found.foreign:,} of a newer version, whose content was not checked")
    return ", ".join(parts)


def _tell(verdict: Verdict, *, is_one_of_many: bool) -> None:
    found, paper = verdict.found, Paper()
    assert found is not None
    shown = counts_in_words(found)
    if verdict.head_record is not None:
        shown += f", the digest is that of record {verdict.head_record}"
    paper.line(("intact", "bold green"), f"  {on_one_line(verdict.session)}  {shown}")
    if not is_one_of_many:
        for branch, digest in found.heads.items():
            paper.line("  ", (digest or "(nothing yet)", "cyan"), f"  {on_one_line(branch)}")


def _described(verdict: Verdict) -> dict[str, Any]:
    found = verdict.found
    described: dict[str, Any] = {
        "session": verdict.session,
        "intact": verdict.problem is None,
        "problem": verdict.problem,
    }
    if found is not None:
        described |= {
            "entries": found.entries,
            "redacted": found.redacted,
            "foreign": found.foreign,
            "heads": dict(found.heads),
            "bad": None if found.bad is None else found.bad._asdict(),
        }
    if verdict.head_record is not None:
        described["head_record"] = verdict.head_record
    return described
