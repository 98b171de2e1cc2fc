"""`steno feedback`: give feedback on a message; the model reads it with its next turn."""

from __future__ import annotations

import argparse

from steno.app.folders import user_name
from steno.cli.arguments import ExitStatus, Subparsers, add_store_option
from steno.cli.store_options import open_existing_store, read_named_log
from steno.errors import InvalidValue
from steno.records.entry import Feedback
from steno.render.describe import entry_type
from steno.render.table_output import print_notice
from steno.render.terminal_text import terminal_line
from steno.values import is_utf8_text


def add_commands(commands: Subparsers) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "feedback",
        help="remark on a message; the model reads it with the next turn",
        description="Remark on a message of a session: that it is wrong, or worth another thought. "
        "The model reads the remark when the session goes on: steno -r ID -p 'go on'.",
        epilog="example: steno feedback last 12 'Please reconsider: the test is right.'",
    )
    parser.add_argument("session", metavar="ID", help="an id, the beginning of one, or last")
    parser.add_argument(
        "entry",
        metavar="ENTRY",
        help="its number (as 12 or #12), its id, the beginning of it, or a label",
    )
    parser.add_argument("text", metavar="TEXT", help="what to say about it")
    parser.add_argument("--branch", metavar="B", help="this branch, not the one written to last")
    add_store_option(parser)
    parser.set_defaults(run=_run_feedback)


def _run_feedback(options: argparse.Namespace) -> int:
    if not options.text.strip() or not is_utf8_text(options.text):
        raise InvalidValue(
            "the remark is blank, or no UTF-8 text", code="remark_invalid", place="feedback"
        )
    with open_existing_store(options) as store:
        log = read_named_log(store, options.session)
        session = log.header.id
        target, branch = log.find_entry(options.entry), options.branch or log.active
        number = log.number(target.id)
        if target.message is None:
            raise InvalidValue(
                f"{number} is no message but {entry_type(target)}; name what was said",
                code="not_a_message",
                place="feedback",
            )
        if all(entry.id != target.id for entry in log.path(branch)):
            raise InvalidValue(
                f"{number} is not on branch {terminal_line(branch)}, so its model would not "
                "know what is meant; name the branch with --branch",
                code="not_on_branch",
                place="feedback",
            )
        actor = user_name()
        store.open(session).append(
            Feedback(target=target.id, text=options.text),
            branch=branch,
            audit=None if actor is None else {"actor": actor},
        )
        print_notice(f"the model reads it with the next turn of branch {terminal_line(branch)}")
    return ExitStatus.OK
