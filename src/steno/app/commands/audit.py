"""`steno audit` and `/audit`: who decided what in a session, and whether its log is intact."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, get_args

import msgspec

from steno.agent.permissions.grants import GrantSigner, SignatureState
from steno.app.commands.arguments import SESSION, argument, flag, parse_time, split_words
from steno.app.commands.context import CommandContext, CommandDefinition
from steno.app.commands.report import Paragraph, Report, ReportPart, Table, bold, code
from steno.app.permissions import KeyFileSigner
from steno.app.session_log import SessionLog, describe_log_entry, restore_entry
from steno.app.verification import SessionVerification, describe_verification, verify_session
from steno.errors import LogError, Missing
from steno.formats import audit as audit_format
from steno.log.queries import (
    EntryKind,
    EntryQuery,
    approvals_by_call,
    entry_decision,
    entry_decisions,
    entry_kinds,
    select_entries,
    shell_command_of,
    tools_of,
)
from steno.messages.content import Opaque
from steno.messages.message import Message, ToolResultMessage
from steno.records.entry import Approval, Entry, Payload
from steno.render.describe import (
    Headline,
    describe_decider,
    entry_type,
    payload_type,
    summarize_arguments,
)
from steno.render.quantities import format_time
from steno.render.table_output import Column
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.store import Store

_TITLE: Final = "Audit"
_COLUMNS: Final = (
    Column("entry", "cyan", is_number=True),
    Column("time", "dim"),
    Column("kind", may_shrink=True),
    Column("decision", "bold"),
    Column("tool", may_shrink=True),
    Column("by", may_shrink=True),
    Column("outcome"),
)
_DETAILS_COLUMN: Final = Column("about")
ENTRY_KINDS: Final = (
    *(kind.value for kind in EntryKind),
    *(
        payload_type(payload)
        for payload in get_args(Payload)
        if payload is not Opaque and payload not in get_args(Message)
    ),
)
"""The known kinds of entries; entries of a newer steno may have others."""
_TYPES_BY_KIND: Final = {"repair": ("repair", "grant_revoked")}
"""The entry types of each kind that older versions of steno used for several types."""
_MAX_REASON_LENGTH: Final = 60
"""The maximal width of a reason; `steno sessions show` prints all of it."""
_MAX_DETAILS_LENGTH: Final = 200
"""The maximal width of the description of an entry that is not a decision."""
_SIGNATURE_MARKS: Final = {
    SignatureState.MISSING: "unsigned",
    SignatureState.INVALID: "signature invalid or from another machine",
}
"""The marks of decisions without a valid signature."""


_ARGUMENTS: Final = (
    SESSION,
    flag("--json", help="print the audit log as one JSON object"),
    *[
        argument(
            f"--{name}",
            type=parse_time,
            metavar="T",
            help=f"only entries {limit} this time: 2024-05-17T06:30:00Z, or an age such as 2h or 3d",
        )
        for name, limit in (("since", "since"), ("until", "until"))
    ],
    argument("--kind", metavar="K", help=f"only entries of this kind: {', '.join(ENTRY_KINDS)}"),
    argument(
        "--decision",
        metavar="D",
        help="only entries with this decision, as in --json: approved, tool_call_denied, ...",
    ),
    argument(
        "--tool",
        metavar="T",
        help="only calls of this tool, and decisions about them; T is the original or mapped name",
    ),
    argument("--actor", metavar="A", help="only entries by this user or program"),
    argument("--branch", metavar="B", help="only entries of this branch"),
)


def _run_audit(context: CommandContext, options: argparse.Namespace) -> Report:
    parts: list[ReportPart] = []
    with context.open_store() as store:
        session = context.find_session(store, options.session)
        if context.branch is not None:
            try:
                verification = verify_session(store, session)
            except Missing:
                return Report([Paragraph("Nothing is recorded yet.")], _TITLE)
            parts.append(_describe_integrity(context, verification))
        try:
            log = SessionLog.read(store, session, context.show_progress)
        except LogError:
            if not parts:
                raise
            return Report(parts, _TITLE)
        entries = _select_entries(log, options)
        signatures = _signature_states(log, entries)
        if options.json:
            return Report(data=[msgspec.Raw(_encode_entries(store, log, entries, signatures))])
    if not entries:
        missing = _describe_missing_decision(options.decision, log)
        return Report(parts, _TITLE, f"no entry matches{missing}")
    rows = [_entry_row(entry, log, options.decision) for entry in entries]
    details = [_describe_details(entry, log, context.headline, signatures) for entry in entries]
    return Report([*parts, Table(_COLUMNS, rows, details=(_DETAILS_COLUMN, details))], _TITLE)


COMMAND: CommandDefinition = CommandDefinition(
    _run_audit,
    _ARGUMENTS,
    split_words,
    help="show who decided what in a session",
    description="List the entries of a session in the order they were written, with decisions "
    "and who made them. Abandoned entries are included. Times are UTC.",
    epilog="example:\n  steno audit last --tool bash --decision denied --since 2d",
    reads_store=True,
)


def _describe_integrity(context: CommandContext, verification: SessionVerification) -> Paragraph:
    if verification.problem is not None:
        return Paragraph(bold("The log was changed:"), f" {verification.problem}")
    assert verification.chain is not None
    head = verification.chain.heads.get(context.open_branch_of(verification.session) or "")
    return Paragraph(
        "The log is ",
        bold("intact"),
        f": {describe_verification(verification.chain)}.",
        *((" The digest of this branch is ", code(head), ".") if head else ()),
        "" if context.is_persistent else " It is only in memory, and lost when steno ends.",
    )


def _select_entries(log: SessionLog, options: argparse.Namespace) -> Sequence[Entry]:
    all_entries = list(log.entries.values())
    kind: str | None = options.kind
    if kind is not None and kind not in {*ENTRY_KINDS, *map(entry_type, all_entries)}:
        options.parser.error(f"--kind: must be one of {', '.join(ENTRY_KINDS)}")
    query = EntryQuery(
        since=options.since,
        until=options.until,
        kind=EntryKind(kind) if kind in tuple(EntryKind) else None,
        decision=options.decision,
        tool=options.tool,
        actor=options.actor,
    )
    candidates = all_entries if options.branch is None else log.path(options.branch)
    entries = select_entries(candidates, query, call_entries=all_entries)
    if kind is None or query.kind is not None:
        return entries
    types = _TYPES_BY_KIND.get(kind, (kind,))
    return [entry for entry in entries if entry_type(entry) in types]


def _signature_states(log: SessionLog, entries: Iterable[Entry]) -> dict[str, SignatureState]:
    """Return the state of the signature of each decision about a call, by the id of its entry."""
    signer = GrantSigner(log.header.id, KeyFileSigner(creates_key=False))
    return {
        entry.id: signer.signature_state(entry)
        for entry in entries
        if isinstance(entry.payload, Approval)
    }


def _encode_entries(
    store: Store,
    log: SessionLog,
    entries: Iterable[Entry],
    signatures: Mapping[str, SignatureState],
) -> bytes:
    """Encode a selection of the entries of a session, with the content of their blobs."""
    restored = [restore_entry(store, entry)[0] for entry in entries]
    log_entries = list(log.entries.values())
    return audit_format.encode(
        log.header, restored, log_entries=log_entries, signatures=signatures
    ).data


def _describe_missing_decision(decision: str | None, log: SessionLog) -> str:
    """Return a text that reports that the session lacks a decision.

    The text is empty if an entry has the decision, if there is no entry, or if `decision` is None.
    """
    entries = list(log.entries.values())
    approvals = approvals_by_call(entries)
    decisions = dict.fromkeys(chain.from_iterable(entry_decisions(e, approvals) for e in entries))
    if decision is None or not decisions or decision in decisions:
        return ""
    listed = [terminal_line(decision) for decision in decisions if decision]
    return f"; this session has no decision {terminal_line(decision)}, only {', '.join(listed)}"


def _entry_row(entry: Entry, log: SessionLog, decision: str | None) -> list[str]:
    """Return the cells for an entry. `decision` is the one that was searched for.

    It may be derived; otherwise, the table contains recorded decisions only.
    """
    payload = entry.payload
    actor = None if entry.audit is None else entry.audit.get("actor")
    return [
        log.number(entry.id),
        format_time(entry.time) or "-",
        _printed_kind(entry),
        terminal_line(entry_decision(entry) or decision or ""),
        terminal_line(", ".join(tools_of(entry, log.calls))),
        describe_decider(payload) or (terminal_line(actor) if isinstance(actor, str) else ""),
        payload.outcome if isinstance(payload, ToolResultMessage) else "",
    ]


def _printed_kind(entry: Entry) -> str:
    if entry.message is None or shell_command_of(entry) is not None:
        return entry_type(entry)
    return ", ".join(entry_kinds(entry))


def _describe_details(
    entry: Entry, log: SessionLog, headline: Headline, signatures: Mapping[str, SignatureState]
) -> str:
    """Return the subject, grant, reason and signature of a decision, or describe another entry.

    The result is empty for a message, unless the message records a shell command.
    """
    payload, audit = entry.payload, entry.audit or {}
    if (shell := shell_command_of(entry)) is not None:
        return truncate_to_width(terminal_line(shell.command), _MAX_DETAILS_LENGTH)
    if entry.message is not None:
        return ""
    if not isinstance(payload, Approval):
        return truncate_to_width(terminal_line(describe_log_entry(entry, log)), _MAX_DETAILS_LENGTH)
    call = log.calls.get(entry.id)
    scope, rule = audit.get("scope"), audit.get("grant")
    is_grant = isinstance(scope, str) and isinstance(rule, str)
    parts = (
        "" if call is None else summarize_arguments(call, headline),
        terminal_line(f"for the {scope}: {rule}") if is_grant else "",
        truncate_to_width(terminal_line(payload.reason or ""), _MAX_REASON_LENGTH),
        _SIGNATURE_MARKS.get(signatures[entry.id], ""),
    )
    return " · ".join(filter(None, parts))
