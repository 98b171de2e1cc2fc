"""`steno feedback`: give feedback on a message; the model reads it with its next turn."""

from __future__ import annotations

import argparse

from steno.app.commands.arguments import BRANCH, ENTRY, SESSION, argument
from steno.app.folders import user_name
from steno.cli.arguments import STORE, ExitStatus, Subparsers, add_command
from steno.cli.store_options import open_existing_store, read_named_log
from steno.errors import InvalidValue
from steno.records.entry import Feedback
from steno.render.describe import entry_type
from steno.render.table_output import print_notice
from steno.render.terminal_text import terminal_line
from steno.values import is_utf8_text


def add_commands(commands: Subparsers) -> None:
    """Add the command."""
    add_command(
        commands,
        "feedback",
        _run_feedback,
        "remark on a message; the model reads it with the next turn",
        "Remark on a message of a session: that it is wrong, or worth another thought. "
        "The model reads the remark when the session goes on: steno -r ID -p 'go on'.",
        arguments=(
            SESSION,
            ENTRY,
            argument("text", metavar="TEXT", help="what to say about it"),
            BRANCH,
            STORE,
        ),
        epilog="example: steno feedback last 12 'Please reconsider: the test is right.'",
    )


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
