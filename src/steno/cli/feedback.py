"""The command `steno feedback`, which records feedback that the model reads in its next turn."""

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
    """Add the command to the command line."""
    add_command(
        commands,
        "feedback",
        _run_feedback,
        "give feedback on a message; the model reads it in the next turn",
        "Give feedback on a message of a session, for example that it is wrong. The model reads "
        "it when you resume the session: steno -r ID -p 'continue'.",
        arguments=(
            SESSION,
            ENTRY,
            argument("text", metavar="TEXT", help="the feedback"),
            BRANCH,
            STORE,
        ),
        epilog="example:\n  steno feedback last 12 'Reconsider this: the test is right.'",
    )


def _run_feedback(options: argparse.Namespace) -> int:
    if not options.text.strip() or not is_utf8_text(options.text):
        raise InvalidValue(
            "the feedback is blank or not UTF-8 text", code="remark_invalid", place="feedback"
        )
    with open_existing_store(options) as store:
        log = read_named_log(store, options.session)
        session = log.header.id
        target, branch = log.find_entry(options.entry), options.branch or log.active
        number = log.number(target.id)
        if target.message is None:
            raise InvalidValue(
                f"{number} is not a message ({entry_type(target)}); name a message",
                code="not_a_message",
                place="feedback",
            )
        if all(entry.id != target.id for entry in log.path(branch)):
            raise InvalidValue(
                f"{number} is not on branch {terminal_line(branch)}, so the model would not see the "
                "message; choose the branch with --branch",
                code="not_on_branch",
                place="feedback",
            )
        actor = user_name()
        store.open(session).append(
            Feedback(target=target.id, text=options.text),
            branch=branch,
            audit=None if actor is None else {"actor": actor},
        )
        print_notice(
            f"the model reads the feedback in the next turn of branch {terminal_line(branch)}"
        )
    return ExitStatus.OK
