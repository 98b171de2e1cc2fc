"""`steno approvals`: list the calls that wait for a decision, and decide about them one by one."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

from steno.agent.permissions.gate import decide_later
from steno.app.folders import user_name
from steno.app.session_lookup import LAST_SESSION, explain_damage, pick_one
from steno.app.signing_key import KeyFileSigner
from steno.cli.arguments import ExitStatus, Subparsers, add_store_option
from steno.cli.store_options import find_named_session, open_existing_store
from steno.log.conversation import Conversation
from steno.log.queries import approvals_of, pending_approvals
from steno.messages.call import AnyToolCall
from steno.render.output import print_json
from steno.render.table_output import StdoutPrinter, print_notice
from steno.render.terminal_text import terminal_line, terminal_text


def add_commands(commands: Subparsers) -> None:
    """Add the command."""
    approvals = commands.add_parser(
        "approvals",
        help="show the calls that wait for a decision, and decide",
        description="Show the calls of a session that wait for somebody to decide about them: "
        "those that were asked about when the program ended. What is decided here is acted on "
        "when the session goes on: steno -r ID -p 'go on'.",
        epilog="example: steno approvals last --approve call_1 --deny call_2 --reason 'not on Fridays'",
    )
    approvals.add_argument(
        "session", nargs="?", default=LAST_SESSION, help="the session (default: last)"
    )
    approvals.add_argument(
        "--approve", action="append", default=[], metavar="CALL", help="let this call run"
    )
    approvals.add_argument(
        "--deny", action="append", default=[], metavar="CALL", help="do not let this call run"
    )
    approvals.add_argument("--reason", metavar="TEXT", help="what the model is told of a denial")
    approvals.add_argument("--json", action="store_true", help="a line of JSON for each call")
    add_store_option(approvals)
    approvals.set_defaults(run=_run_approvals, parser=approvals)


def _run_approvals(options: argparse.Namespace) -> int:
    with open_existing_store(options) as store:
        session = find_named_session(store, options.session)
        with explain_damage(session):
            waiting = _record_decisions(options, store.open(session))
    if not waiting:
        print_notice("no call of this session waits for a decision")
    return ExitStatus.OK


def _record_decisions(options: argparse.Namespace, conversation: Conversation) -> list[AnyToolCall]:
    """Record the decisions, print the calls that wait, and return them."""
    for call_id, allowed in _parse_decisions(options, conversation).items():
        decide_later(
            conversation,
            call_id,
            allowed=allowed,
            actor=user_name() or "somebody",
            reason=options.reason,
            sign_text=KeyFileSigner(),
        )
    waiting = _waiting_calls(conversation)
    for call in waiting:
        _print_call(call, conversation, as_json=options.json)
    return waiting


def _parse_decisions(options: argparse.Namespace, conversation: Conversation) -> dict[str, bool]:
    """Return the decisions by call id; all of them are checked before any is recorded."""
    decisions: dict[str, bool] = {}
    for names, allowed in ((options.approve, True), (options.deny, False)):
        for name in names:
            call_id = _find_call(conversation, name).id
            if decisions.setdefault(call_id, allowed) is not allowed:
                options.parser.error("a call is either approved or denied")
    return decisions


def _waiting_calls(conversation: Conversation) -> list[AnyToolCall]:
    """Return the calls without a result that needed approval, decided or not."""
    approvals = approvals_of(conversation.entries())
    outstanding = map(conversation.outstanding_call, conversation.outstanding)
    return [call for call in outstanding if call.id in approvals]


def _find_call(conversation: Conversation, name: str) -> AnyToolCall:
    calls = {call.id: call for call in pending_approvals(conversation.entries())}
    if name in calls:
        return calls[name]
    matching = [id for id in calls if name and id.startswith(name)]
    return calls[pick_one(matching, f"call {terminal_line(name)}", "`steno approvals` shows them")]


def _print_call(call: AnyToolCall, conversation: Conversation, *, as_json: bool) -> None:
    approval = approvals_of(conversation.entries()).get(call.id)
    status = "undecided" if approval is None else str(approval.status)
    if as_json:
        members: dict[str, Any] = {
            "call_id": call.id,
            "tool": call.name,
            "arguments": call.arguments,
            "status": status,
            "actor": None if approval is None else approval.actor,
        }
        print_json(msgspec.json.encode(members))
        return
    actor_text = "" if approval is None or approval.actor is None else f" by {approval.actor}"
    StdoutPrinter().line(
        (f"{terminal_line(call.id)} ", "cyan"),
        (f"{status}{terminal_text(actor_text)} ", "bold"),
        terminal_line(call.name),
    )
    for line in terminal_text(call.arguments).splitlines():
        StdoutPrinter().line(f"    {line}")
