"""The command `steno approvals`, which lists calls that wait for approval and records decisions."""

from __future__ import annotations

import argparse
from typing import Any

from steno.agent.permissions.gate import decide_later
from steno.app.commands.arguments import SESSION_NAMES, Argument, argument, flag
from steno.app.commands.report import Lines, Report, ReportLine
from steno.app.folders import UNKNOWN_USER, user_name
from steno.app.permissions import KeyFileSigner
from steno.app.session_lookup import LAST_SESSION, explain_damage, pick_one
from steno.cli.arguments import STORE, Subparsers, add_command
from steno.cli.report_command import print_report
from steno.cli.store_options import find_named_session, open_existing_store
from steno.log.conversation import Conversation
from steno.log.queries import approvals_of, pending_approvals
from steno.messages.call import AnyToolCall, original_tool_name
from steno.render.call_text import describe_arguments
from steno.render.describe import summarize_call
from steno.render.table_output import INDENT
from steno.render.terminal_text import terminal_line, terminal_text


def add_commands(commands: Subparsers) -> None:
    """Add the command to the command line."""
    add_command(
        commands,
        "approvals",
        _run_approvals,
        "list the calls that wait for approval; approve or deny them",
        "List the calls of a session that were still waiting for approval when steno exited, and approve "
        "or deny them. Your decisions take effect when you resume the session: "
        "steno -r ID -p 'continue'.",
        arguments=(
            argument(
                "session",
                nargs="?",
                default=LAST_SESSION,
                metavar="ID",
                help=f"{SESSION_NAMES}; default: last",
            ),
            _call_option("--approve", "approve this call; repeatable"),
            _call_option("--deny", "deny this call; repeatable"),
            argument(
                "--reason", metavar="TEXT", help="the reason for a denial; the model reads it"
            ),
            flag("--json", help="print one JSON object per call"),
            STORE,
        ),
        epilog="example:\n  steno approvals last --approve call_1 --deny call_2 --reason 'run the tests first'",
    )


def _call_option(name: str, help: str) -> Argument:
    return argument(name, action="append", default=[], metavar="CALL", help=help)


def _run_approvals(options: argparse.Namespace) -> int:
    with open_existing_store(options) as store:
        session = find_named_session(store, options.session)
        with explain_damage(session):
            conversation = store.open(session)
            for call_id, allowed in _parse_decisions(options, conversation).items():
                decide_later(
                    conversation,
                    call_id,
                    allowed=allowed,
                    actor=user_name() or UNKNOWN_USER,
                    reason=options.reason,
                    sign_text=KeyFileSigner(),
                )
            return print_report(_report_waiting(conversation), as_json=options.json)


def _parse_decisions(options: argparse.Namespace, conversation: Conversation) -> dict[str, bool]:
    """Return the decisions by call ID; all are checked before the first one is recorded."""
    decisions: dict[str, bool] = {}
    for names, allowed in ((options.approve, True), (options.deny, False)):
        for name in names:
            call_id = _find_call(conversation, name).id
            if decisions.setdefault(call_id, allowed) is not allowed:
                options.parser.error("--approve and --deny name the same call; choose one of them")
    return decisions


def _find_call(conversation: Conversation, name: str) -> AnyToolCall:
    calls = {call.id: call for call in pending_approvals(conversation.entries())}
    if name in calls:
        return calls[name]
    matching = [id for id in calls if name and id.startswith(name)]
    return calls[
        pick_one(matching, f"call {terminal_line(name)}", "run `steno approvals` to list the calls")
    ]


def _report_waiting(conversation: Conversation) -> Report:
    """Return a report of the calls that needed approval and have no result yet."""
    approvals = approvals_of(conversation.entries())
    lines: list[ReportLine] = []
    data: list[dict[str, Any]] = []
    for call in map(conversation.outstanding_call, conversation.outstanding):
        if call.id not in approvals:
            continue
        approval = approvals[call.id]
        data.append(
            {
                "call_id": call.id,
                "tool": original_tool_name(call),
                "arguments": call.arguments,
                "status": str(approval.status),
                "actor": approval.actor,
            }
        )
        actor = "" if approval.actor is None else f" by {terminal_text(approval.actor)}"
        heading = (f"{approval.status}{actor} ", "bold")
        call_id = (f"{terminal_line(call.id)} ", "cyan")
        lines.append(ReportLine([call_id, heading, summarize_call(call)]))
        lines += [ReportLine([f"{INDENT}{line.text}"]) for line in describe_arguments(call)]
    notices = () if data else ("no call in this session waits for approval",)
    return Report([Lines(lines)], data=data, notices=notices)
