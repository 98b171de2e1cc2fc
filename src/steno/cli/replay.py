"""`steno replay`: run a recorded session again, as it is or on another model."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any, Final

import msgspec

from steno.agent.replay import Difference, Replayed, replay
from steno.captions import type_of
from steno.cli.commands import Commands, add_store_option
from steno.cli.log import Log
from steno.cli.paper import Paper, note, print_object
from steno.cli.place import existing_store, find_session
from steno.cli.progress import working
from steno.cli.rerunning import rerun_session
from steno.cli.words import gist_of
from steno.entry import Entry
from steno.printable import counted, cut, on_one_line

DIFFERENT: Final = 1
_GIST: Final = 200
_EPILOG: Final = """\
examples:
  steno replay last
  steno replay last --model ollama/qwen3 --allow 'bash(pytest *)'

exit status:
  0  the same record came out; with --model: the other model is done
  1  something else came out, or it could not be done
  2  the command line makes no sense
  4  with --model: a limit was reached

Without --model nothing is sent and nothing runs: what models, people and tools said is taken from
the record, and everything that steno makes of it is compared with the record.
"""


def add_commands(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "replay",
        help="run a recorded session again and compare",
        description="Run a recorded session again and prove that the same record comes out; or, "
        "with --model, let another model work on the same in a new branch, and compare.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("session", metavar="ID", help="an id, the beginning of one, or last")
    parser.add_argument("--branch", metavar="B", help="this branch, not the one written to last")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    group = parser.add_argument_group("on another model")
    group.add_argument(
        "--model", metavar="PROVIDER/MODEL", help="who answers; `steno models` lists them"
    )
    group.add_argument(
        "--allow",
        action="append",
        metavar="RULE",
        help="what it may do, such as 'bash(git log *)', 'write(src/**)'",
    )
    group.add_argument(
        "--deny", action="append", metavar="RULE", help="counts more than any --allow"
    )
    group.add_argument("--yes", action="store_true", help="allow what would be asked")
    group.add_argument("-q", "--quiet", action="store_true", help="nothing on stderr but errors")
    add_store_option(parser)
    parser.set_defaults(run=_replay, parser=parser)


def _replay(options: argparse.Namespace) -> int:
    if options.model is not None:
        return rerun_session(options)
    if options.allow or options.deny or options.yes:
        options.parser.error("--allow, --deny and --yes: need --model; else nothing is run")
    with existing_store(options) as store:
        log = Log.read(store, find_session(store, options.session))
    branch = log.active if options.branch is None else options.branch
    path = log.path(branch)  # which says what branches there are, if it is none of them
    with working("replaying"):
        replayed = asyncio.run(replay(log.records, branch=branch))
    if options.json:
        print_object(msgspec.json.encode(_described(replayed, log, branch)))
    else:
        _print(replayed, log)
        if len(path) < len(log.entries):
            entries = counted(len(path), "entry", "entries")
            Paper().line(
                f"{entries} of branch {on_one_line(branch)}; {len(log.entries):,} in the session"
            )
    if replayed.redacted:
        named = ", ".join(map(log.number, replayed.redacted))
        missing = counted(len(replayed.redacted), "entry was", "entries were")
        note(f"the content of {missing} taken out and cannot be replayed: {named}")
    return 0 if replayed.is_same else DIFFERENT


def _described(replayed: Replayed, log: Log, branch: str) -> dict[str, Any]:
    told = replayed._asdict()
    difference = told.pop("difference")
    return {
        "session": log.header.id,
        "branch": branch,
        "same": replayed.is_same,
        **told,
        "difference": None if difference is None else _described_difference(difference),
    }


def _described_difference(difference: Difference) -> dict[str, Any]:
    return {
        "number": difference.number,
        "id": difference.recorded.id,
        "type": type_of(difference.recorded),
        "parts": [part._asdict() for part in difference.parts],
    }


def _print(replayed: Replayed, log: Log) -> None:
    paper, difference = Paper(), replayed.difference
    style = "bold green" if difference is None else "bold red"
    entries = counted(replayed.entries, "entry", "entries")
    given = replayed.entries - replayed.made
    paper.line(
        ("same" if difference is None else "different", style),
        f": {entries} as recorded, {replayed.made:,} made again and {given:,} taken as they are",
    )
    turns = counted(replayed.turns, "turn", "turns")
    paper.line(f"{turns}, {counted(replayed.calls, 'call', 'calls')}")
    if replayed.digest is not None:
        paper.line(("digest ", "dim"), replayed.digest)
    if difference is not None:
        _print_difference(paper, difference, log)


def _print_difference(paper: Paper, difference: Difference, log: Log) -> None:
    entry_id = on_one_line(difference.recorded.id)
    if difference.came is None:
        paper.line(f"#{difference.number} ({entry_id}) is not what its digest was made of:")
        paper.line("  on record  ", *_shown(difference.recorded, log))
        paper.line("`steno verify` tells whether it, or what came before it, was changed")
        return
    paper.line(f"#{difference.number} ({entry_id}) is not what comes out:")
    paper.line("  on record  ", *_shown(difference.recorded, log))
    paper.line("  came out   ", *_shown(difference.came, log))
    for part in difference.parts:
        paper.line(f"  {on_one_line(str(part))}")


def _shown(entry: Entry, log: Log) -> tuple[tuple[str, str], str]:
    decision = "" if entry.decision is None else f" [{on_one_line(entry.decision)}]"
    return (type_of(entry), "bold"), f"{decision}  {cut(gist_of(entry, log), _GIST)}"
