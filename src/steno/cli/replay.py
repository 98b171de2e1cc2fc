"""The command `steno replay`, which replays a recorded session, unchanged or on another model."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from steno.agent import Agent, AllowingApprover, Runner
from steno.agent.replay.comparison import ModelComparison, RecordedResults, RunSummary, rerun
from steno.agent.replay.verify import ReplayResult, replay
from steno.app.commands.arguments import BRANCH, SESSION, add_arguments, argument, flag
from steno.app.commands.report import Lines, Report, ReportLine, ReportPart, Table
from steno.app.compose import open_environment
from steno.app.folders import working_folder
from steno.app.models import choose_model
from steno.app.session_log import SessionLog, summarize_entry
from steno.app.session_lookup import check_folder_is_known, explain_damage
from steno.app.settings import LoadedSettings, load_settings
from steno.cli.arguments import (
    FOLDER,
    STORE,
    ExitStatus,
    Subparsers,
    enter_folder,
    exit_status_for,
)
from steno.cli.report_command import print_report
from steno.cli.store_options import find_named_session, open_existing_store, read_named_log
from steno.errors import Missing
from steno.messages.call import original_tool_name
from steno.messages.message import AssistantMessage
from steno.providers.prices import find_price
from steno.records.entry import Entry
from steno.records.stored_record import unused_branch_name
from steno.render.describe import entry_type
from steno.render.progress import show_activity
from steno.render.quantities import format_count
from steno.render.run_output import RunDescription, RunReporter
from steno.render.table_output import Column, StyledText, print_notice
from steno.render.terminal_text import terminal_line, truncate_to_width
from steno.store import Store

_EPILOG: Final = """\
examples:
  steno replay last
  steno replay last --model ollama/qwen3 --allow 'bash(pytest *)'

exit status:
  0  the replay matches the log; with --model: the run is complete
  1  the replay differs, or the command failed
  2  the command line is invalid
  4  with --model: the run stopped at a limit

Without --model, no request is sent and no tool runs: responses, prompts, decisions and tool results
are read from the log, and every entry that steno derives from them is compared with the log.
"""
_COMPARISON_COLUMNS: Final = (
    Column("", "dim"),
    Column("recorded", may_shrink=True),
    Column("new", may_shrink=True),
)
_MAX_RESPONSE_LENGTH: Final = 200
_MAX_SUMMARY_LENGTH: Final = 200


_MODEL_OPTIONS: Final = (
    argument("--model", metavar="PROVIDER/MODEL", help="the model to run; see `steno models`"),
    argument(
        "--allow",
        action="append",
        metavar="RULE",
        help="allow calls that match this rule, such as 'bash(git log *)' or 'write(src/**)'; "
        "repeatable",
    ),
    argument(
        "--deny",
        action="append",
        metavar="RULE",
        help="deny calls that match this rule; overrides --allow; repeatable",
    ),
    flag("--yes", help="allow calls that need approval"),
    FOLDER,
    flag("-q", "--quiet", help="on stderr, print only errors"),
)


def add_commands(commands: Subparsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "replay",
        help="replay a recorded session and compare the result with the log",
        description="Replay a recorded session and check that it produces the same entries. With "
        "--model, send its prompts to another model in a new branch, and compare the responses.",
        epilog=_EPILOG,
    )
    add_arguments(parser, [SESSION, BRANCH, flag("--json", help="print one JSON object")])
    group = parser.add_argument_group("run on another model")
    for names, settings in _MODEL_OPTIONS:
        group.add_argument(*names, **settings)
    add_arguments(parser, [STORE])
    parser.set_defaults(run=_run_replay, parser=parser)


def _run_replay(options: argparse.Namespace) -> int:
    if options.model is not None:
        return rerun_session(options)
    if options.allow or options.deny or options.yes or options.folder is not None:
        options.parser.error(
            "--allow, --deny, --yes and --folder need --model; without it, no tool runs"
        )
    with open_existing_store(options) as store:
        log = read_named_log(store, options.session)
    branch = log.active if options.branch is None else options.branch
    path = log.path(branch)  # raises Missing, with the names of all branches
    with show_activity("replaying"):
        replayed = asyncio.run(replay(log.records, branch=branch))
    lines = list(_replay_lines(replayed, log))
    if len(path) < len(log.entries):
        entries = format_count(len(path), "entry", "entries")
        text = f"{entries} of branch {terminal_line(branch)}; {len(log.entries):,} in the session"
        lines.append([text])
    notices: list[str] = []
    if replayed.redacted:
        numbers = ", ".join(map(log.number, replayed.redacted))
        redacted = format_count(len(replayed.redacted), "entry is", "entries are")
        notices = [f"{redacted} redacted and cannot be replayed: {numbers}"]
    report = Report(
        [Lines(list(map(ReportLine, lines)))],
        data=[_replay_as_json(replayed, log, branch)],
        notices=tuple(notices),
        is_failed=not replayed.is_same,
    )
    return print_report(report, as_json=options.json)


# -- unchanged -------------------------------------------------------------------------------


def _replay_as_json(replayed: ReplayResult, log: SessionLog, branch: str) -> dict[str, Any]:
    difference = replayed.difference
    return {
        "session": log.header.id,
        "branch": branch,
        "same": replayed.is_same,
        "entries": replayed.entries,
        "replayed_entries": replayed.made_by_loop,
        "turns": replayed.turns,
        "calls": replayed.calls,
        "digest": replayed.digest,
        "redacted": replayed.redacted,
        "difference": None
        if difference is None
        else {
            "number": difference.number,
            "id": difference.recorded.id,
            "type": entry_type(difference.recorded),
            "parts": [
                {"name": part.name, "recorded": part.recorded, "replayed": part.replayed}
                for part in difference.parts
            ],
        },
    }


def _replay_lines(replayed: ReplayResult, log: SessionLog) -> Iterator[list[StyledText]]:
    difference = replayed.difference
    style = "bold green" if difference is None else "bold red"
    entries = format_count(replayed.entries, "entry", "entries")
    made, unchanged = replayed.made_by_loop, replayed.entries - replayed.made_by_loop
    yield [
        ("same" if difference is None else "different", style),
        f": {entries}, {made:,} replayed and {unchanged:,} taken from the log",
    ]
    turns = format_count(replayed.turns, "turn", "turns")
    yield [f"{turns}, {format_count(replayed.calls, 'call', 'calls')}"]
    if replayed.digest is not None:
        yield [("digest ", "dim"), replayed.digest]
    if difference is None:
        return
    is_damaged = difference.replayed is None
    problem = "does not match its digest" if is_damaged else "differs"
    yield [f"#{difference.number} ({terminal_line(difference.recorded.id)}) {problem}:"]
    yield ["  recorded  ", *_entry_pieces(difference.recorded, log)]
    if difference.replayed is None:
        name = terminal_line(log.header.id)
        yield [f"run `steno verify {name}` to see whether this entry or an earlier one was changed"]
        return
    yield ["  replayed  ", *_entry_pieces(difference.replayed, log)]
    for part in difference.parts:
        yield [f"  {terminal_line(str(part))}"]


def _entry_pieces(entry: Entry, log: SessionLog) -> tuple[tuple[str, str], str]:
    decision = "" if entry.decision is None else f" [{terminal_line(entry.decision)}]"
    summary = truncate_to_width(summarize_entry(entry, log), _MAX_SUMMARY_LENGTH)
    return (entry_type(entry), "bold"), f"{decision}  {summary}"


# -- on another model -------------------------------------------------------------------------


def rerun_session(options: argparse.Namespace) -> int:
    """Run a session on another model, print the comparison, and return the exit status."""
    enter_folder(options.folder)
    flags = {name: getattr(options, name) for name in ("model", "allow", "deny")}
    loaded = load_settings(flags=flags)
    for notice in () if options.quiet else loaded.notices:
        print_notice(terminal_line(notice.text))
    with open_existing_store(options) as store:
        session = find_named_session(store, options.session)
        with explain_damage(session):
            comparison = asyncio.run(_compare_models(options, loaded, store, session))
    report = Report(list(_comparison_parts(comparison)), data=[_comparison_as_json(comparison)])
    print_report(report, as_json=options.json)
    stopped = comparison.stopped
    if stopped is None:
        return ExitStatus.OK
    print_notice(
        f"not all prompts were sent: {stopped.end_reason}: {terminal_line(stopped.reason)}"
    )
    return exit_status_for(stopped.end_reason)


async def _compare_models(
    options: argparse.Namespace, loaded: LoadedSettings, store: Store, session: str
) -> ModelComparison:
    folder = working_folder()
    check_folder_is_known(store.header(session), is_chosen=options.folder is not None)
    conversation = store.open(session)
    if options.branch is not None and options.branch not in conversation.branches:
        known = ", ".join(map(terminal_line, conversation.branches))
        raise Missing(f"not found; use one of {known}", code="branch_missing", place="branch")
    reporter = RunReporter(quiet=options.quiet)
    model = await choose_model(loaded)
    approver = AllowingApprover() if options.yes else None
    async with open_environment(loaded, model, folder, approver) as environment:
        for notice in () if options.quiet else environment.notices:
            print_notice(terminal_line(notice.text))

        def build_agent(recorded: RecordedResults) -> Agent:
            return environment.agent_for(
                conversation,
                runner=recorded.wrap_runner(Runner(store)),
                gate=recorded.wrap_gate(environment.gate),
            )

        name = f"replay-{model.name}"
        if name in conversation.branches:
            name = unused_branch_name(name, conversation.branches, first=2)
        mode = str(conversation.mode)
        reporter.begin(RunDescription(session, name, model.name, mode, str(folder)))
        try:
            return await rerun(
                conversation,
                build_agent,
                name=name,
                branch=options.branch,
                price_of=cache(find_price),
                on_event=reporter.on_event,
            )
        finally:
            reporter.close()


def _comparison_as_json(comparison: ModelComparison) -> dict[str, Any]:
    divergence, stopped = comparison.divergence, comparison.stopped
    return {
        "branch": comparison.branch,
        "recorded": _side_as_json(comparison.recorded),
        "new": _side_as_json(comparison.new),
        "difference": None
        if divergence is None
        else {
            "turn": divergence.turn,
            "recorded": _response_as_json(divergence.recorded),
            "new": _response_as_json(divergence.new),
        },
        "reused": comparison.reused_results,
        "stopped": None
        if stopped is None
        else {"ending": stopped.end_reason, "reason": stopped.reason},
    }


def _side_as_json(side: RunSummary) -> dict[str, Any]:
    usage = side.usage
    return {
        "model": side.model,
        "turns": side.turns,
        "calls": side.calls,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
        "cost": None if side.cost is None else str(side.cost),
        "endings": side.stop_reasons,
        "text": side.text,
    }


def _response_as_json(response: AssistantMessage | None) -> dict[str, Any] | None:
    if response is None:
        return None
    calls = [
        {"name": original_tool_name(call), "arguments": call.arguments}
        for call in response.tool_calls
    ]
    return {"text": response.text, "calls": calls}


def _comparison_parts(comparison: ModelComparison) -> Iterator[ReportPart]:
    divergence = comparison.divergence
    if divergence is None:
        yield Lines([ReportLine([("same", "bold green"), ": the responses are the same"])])
    else:
        turn = f": the first difference is in turn {divergence.turn}"
        responses = (("recorded", divergence.recorded), ("new", divergence.new))
        yield Lines(
            [
                ReportLine([("different", "bold yellow"), turn]),
                *[
                    ReportLine([(f"  {name:8}  ", "dim"), _summarize_response(response)])
                    for name, response in responses
                ],
            ]
        )
    sides = (comparison.recorded, comparison.new)
    rows = [
        ("model", [terminal_line(side.model) or "?" for side in sides]),
        ("turns", [f"{side.turns:,}" for side in sides]),
        ("calls", [f"{side.calls:,}" for side in sides]),
        ("tokens in", [_format_number(side.usage.input_tokens) for side in sides]),
        ("tokens out", [_format_number(side.usage.output_tokens) for side in sides]),
        ("cost", ["?" if side.cost is None else f"{side.cost:.4f}" for side in sides]),
        ("stop reason", [_format_endings(side) for side in sides]),
        ("last text", [truncate_to_width(terminal_line(side.text), 60) for side in sides]),
    ]
    yield Table(_COMPARISON_COLUMNS, [(name, *cells) for name, cells in rows])
    reused = format_count(comparison.reused_results, "recorded result", "recorded results")
    branch = (terminal_line(comparison.branch), "bold")
    yield Lines([ReportLine([f"{reused} reused; new branch ", branch])])


def _summarize_response(response: AssistantMessage | None) -> str:
    if response is None:
        return "(no response)"
    calls = [f"→ {original_tool_name(call)} {call.arguments}" for call in response.tool_calls]
    line = terminal_line(" ".join([response.text or "", *calls]))
    return truncate_to_width(line, _MAX_RESPONSE_LENGTH) or "(empty)"


def _format_number(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _format_endings(side: RunSummary) -> str:
    counts = Counter(side.stop_reasons).items()
    endings = [ending if number == 1 else f"{number} x {ending}" for ending, number in counts]
    return ", ".join(endings) or "?"
