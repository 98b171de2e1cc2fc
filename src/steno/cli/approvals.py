"""`steno approvals`: the calls that wait for a decision, and deciding about them one by one."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

from steno.agent.interrupted import decide_later
from steno.call import AnyToolCall
from steno.cli.commands import Commands
from steno.cli.compose import user_name
from steno.cli.paper import Paper, print_object
from steno.cli.place import LAST, add_store_option, existing_store, find_session, one_of
from steno.cli.printable import on_one_line, printable
from steno.conversation import Conversation
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
    approvals.set_defaults(run=_approvals)


def _approvals(options: argparse.Namespace) -> int:
    with existing_store(options) as store:
        conversation = store.open(find_session(store, options.session))
        # All names are looked up before the first decision is on record.
        decided = [
            (_find(conversation, name), allowed)
            for names, allowed in ((options.approve, True), (options.deny, False))
            for name in names
        ]
        for call, allowed in decided:
            decide_later(
                conversation,
                call.id,
                allowed=allowed,
                actor=user_name() or "somebody",
                reason=options.reason,
            )
        for call in _waiting(conversation):
            _show(call, conversation, as_json=options.json)
    return 0


def _waiting(conversation: Conversation) -> list[AnyToolCall]:
    """Return the calls without a result that were asked about, decided or not."""
    entries = conversation.entries()
    outstanding = frozenset(conversation.outstanding)
    pending = {call.id: call for call in pending_approvals(entries)}
    for entry in reversed(entries):
        message = entry.message
        if message is not None and message.tool_calls:
            known = approvals_of(entries)
            calls = [call for call in message.tool_calls if call.id in outstanding]
            return [call for call in calls if call.id in pending or call.id in known]
    return []


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
        (f"{on_one_line(call.id)} ", "cyan"), (f"{status}{on_one_line(who)} ", "bold"), call.name
    )
    for line in printable(call.arguments).splitlines():
        Paper().line(f"    {line}")
