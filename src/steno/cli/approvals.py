"""`steno approvals`: the calls that wait for a decision, and deciding about them one by one."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

from steno.agent.interrupted import decide_later
from steno.call import AnyToolCall
from steno.cli.commands import Commands, add_store_option
from steno.cli.compose import user_name
from steno.cli.paper import Paper, note, print_object
from steno.cli.place import LAST, existing_store, find_session, one_of, telling_damage
from steno.cli.seal import OwnSeal
from steno.conversation import Conversation
from steno.printable import on_one_line, printable
from steno.views import approvals_of, pending_approvals


def add_commands(commands: Commands) -> None:
    """Add the command."""
    approvals = commands.add_parser(
        "approvals",
        help="show the calls that wait for a decision, and decide",
        description="Show the calls of a session that wait for somebody to decide about them: "
        "those that were asked about when the program ended. What is decided here is acted on "
        "when the session goes on: steno -r ID -p 'go on'.",
        epilog="example: steno approvals last --approve call_1 --deny call_2 --reason 'not on Fridays'",
    )
    approvals.add_argument("session", nargs="?", default=LAST, help="the session (default: last)")
    approvals.add_argument(
        "--approve", action="append", default=[], metavar="CALL", help="let this call run"
    )
    approvals.add_argument(
        "--deny", action="append", default=[], metavar="CALL", help="do not let this call run"
    )
    approvals.add_argument("--reason", metavar="TEXT", help="what the model is told of a denial")
    approvals.add_argument("--json", action="store_true", help="a line of JSON for each call")
    add_store_option(approvals)
    approvals.set_defaults(run=_approvals, parser=approvals)


def _approvals(options: argparse.Namespace) -> int:
    with existing_store(options) as store:
        session = find_session(store, options.session)
        with telling_damage(session):
            waiting = _decide(options, store.open(session))
    if not waiting:
        note("no call of this session waits for a decision")
    return 0


def _decide(options: argparse.Namespace, conversation: Conversation) -> list[AnyToolCall]:
    """Record what was decided, show what waits, and return that."""
    for call_id, allowed in _decisions(options, conversation).items():
        decide_later(
            conversation,
            call_id,
            allowed=allowed,
            actor=user_name() or "somebody",
            reason=options.reason,
            seal=OwnSeal(),
        )
    waiting = _waiting(conversation)
    for call in waiting:
        _show(call, conversation, as_json=options.json)
    return waiting


def _decisions(options: argparse.Namespace, conversation: Conversation) -> dict[str, bool]:
    """Return what was decided, by call: all of it makes sense before any of it is on record."""
    decided: dict[str, bool] = {}
    for names, allowed in ((options.approve, True), (options.deny, False)):
        for name in names:
            call_id = _find(conversation, name).id
            if decided.setdefault(call_id, allowed) is not allowed:
                options.parser.error("a call is either approved or denied")
    return decided


def _waiting(conversation: Conversation) -> list[AnyToolCall]:
    """Return the calls without a result that were asked about, decided or not."""
    known = approvals_of(conversation.entries())
    outstanding = map(conversation.outstanding_call, conversation.outstanding)
    return [call for call in outstanding if call.id in known]


def _find(conversation: Conversation, name: str) -> AnyToolCall:
    calls = {call.id: call for call in pending_approvals(conversation.entries())}
    if name in calls:
        return calls[name]
    found = [id for id in calls if name and id.startswith(name)]
    return calls[one_of(found, f"call {on_one_line(name)}", "`steno approvals` shows them")]


def _show(call: AnyToolCall, conversation: Conversation, *, as_json: bool) -> None:
    approval = approvals_of(conversation.entries()).get(call.id)
    status = "undecided" if approval is None else str(approval.status)
    if as_json:
        told: dict[str, Any] = {
            "call_id": call.id,
            "tool": call.name,
            "arguments": call.arguments,
            "status": status,
            "actor": None if approval is None else approval.actor,
        }
        print_object(msgspec.json.encode(told))
        return
    who = "" if approval is None or approval.actor is None else f" by {approval.actor}"
    Paper().line(
        (f"{on_one_line(call.id)} ", "cyan"),
        (f"{status}{printable(who)} ", "bold"),
        on_one_line(call.name),
    )
    for line in printable(call.arguments).splitlines():
        Paper().line(f"    {line}")
