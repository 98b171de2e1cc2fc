"""`steno explain`: the messages of a session that a model would see, compared with the log."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Final

import msgspec

from steno.app.reports.explain import (
    ContextExplanation,
    context_target,
    describe_differences,
    encoding_losses,
    entry_number,
    explanation_as_json,
    parse_context_model,
    recorded_context_model,
    restore_message,
)
from steno.app.session_log import SessionLog
from steno.app.session_lookup import find_session
from steno.app.settings_loader import load_settings_leniently
from steno.cli.arguments import ExitStatus, Subparsers, add_store_option, positive_int
from steno.cli.store_options import open_existing_store
from steno.context import ContextBuilder, token_counter_for
from steno.messages.message import Message
from steno.render.describe import payload_type
from steno.render.message_text import ROLE_STYLES, message_paragraphs
from steno.render.output import print_json
from steno.render.quantities import format_count
from steno.render.table_output import INDENT, StdoutPrinter
from steno.render.terminal_text import terminal_line, truncate_to_width

_DEFAULT_WIDTH: Final = 100
"""The width of a line where there is no terminal."""


def add_commands(commands: Subparsers) -> None:
    """Add the command to the command line."""
    explain = commands.add_parser(
        "explain",
        help="show what a model would see of a session",
        description="Show the messages that a model would get to see of a branch, and report what "
        "it would see otherwise than it is on record: repairs, summaries, what was left out or "
        "shortened, and what the protocol of its vendor has no words for. Tools are not counted, "
        "and nothing is sent.",
        epilog="example: steno explain last --model anthropic/claude-sonnet-4-5",
    )
    explain.add_argument("session", metavar="ID", help="an id, the beginning of one, or last")
    explain.add_argument(
        "--model",
        metavar="PROVIDER/MODEL",
        help="who would see it; else the model on record. `steno models` lists them",
    )
    explain.add_argument("--branch", metavar="B", help="this branch, not the one written to last")
    explain.add_argument(
        "--context-tokens",
        type=positive_int,
        metavar="N",
        help="as if the model could read no more than so many tokens",
    )
    explain.add_argument("--full", action="store_true", help="print messages in full")
    explain.add_argument("--json", action="store_true", help="print one JSON object")
    add_store_option(explain)
    explain.set_defaults(run=_run_explain)


def _run_explain(options: argparse.Namespace) -> int:
    settings = load_settings_leniently().settings
    vendors = settings.providers
    requested_model = None if options.model is None else parse_context_model(options.model, vendors)
    with open_existing_store(options) as store:
        log = SessionLog.read(store, find_session(store, options.session))
        path = log.path(options.branch)
        target_model = requested_model or recorded_context_model(path, vendors)
        context = ContextBuilder(count_tokens=token_counter_for(target_model.model_id)).build(
            path,
            context_target(target_model, settings, options.context_tokens),
            restore_blobs=partial(restore_message, store),
        )
    branch = log.active if options.branch is None else options.branch
    explanation = ContextExplanation(
        log, branch, target_model, context, encoding_losses(target_model, context.request)
    )
    if options.json:
        print_json(msgspec.json.encode(explanation_as_json(explanation)))
    else:
        _print_explanation(StdoutPrinter(), explanation, is_full=options.full)
    return ExitStatus.OK


# -- for people ------------------------------------------------------------------------------


def _print_explanation(
    printer: StdoutPrinter, explanation: ContextExplanation, *, is_full: bool
) -> None:
    context = explanation.built
    model = terminal_line(explanation.model.name) or "any model"
    session, branch = terminal_line(explanation.log.header.id), terminal_line(explanation.branch)
    printer.line(("session ", "dim"), session, (f", branch {branch}, as seen by ", "dim"), model)
    messages = format_count(len(context.request.messages), "message", "messages")
    printer.line((f"{messages}, about {context.tokens:,} tokens", "dim"))
    if not is_full:
        printer.line()
    for message, source in zip(context.request.messages, context.sources, strict=True):
        _print_message(printer, message, entry_number(explanation.log, source), is_full=is_full)
    printer.line()
    differences = describe_differences(explanation)
    for line in differences or ["nothing is seen otherwise than it is on record"]:
        printer.line(line)
    if context.is_over_budget:
        printer.line(("this is more than the model can read", "bold red"))


def _print_message(printer: StdoutPrinter, message: Message, number: str, *, is_full: bool) -> None:
    role = payload_type(message)
    heading = [(f"{number} ", "dim"), (role, ROLE_STYLES[role])]
    if is_full:
        printer.line()
        printer.line(*heading)
        for paragraph in message_paragraphs(message):
            for line in paragraph.text.rstrip("\n").split("\n"):
                printer.line(INDENT, (line, paragraph.style)) if line else printer.line()
        return
    text = " ".join([terminal_line(paragraph.text) for paragraph in message_paragraphs(message)])
    available_width = (printer.width or _DEFAULT_WIDTH) - len(number) - len(role) - 3
    printer.line(*heading, f"  {truncate_to_width(text, max(available_width, 1))}")
