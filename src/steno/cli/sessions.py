"""`steno sessions`: the command line of everything that is about single conversations."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final, NamedTuple

from steno.cli import changing, drawing, exchange, listing, showing
from steno.cli.commands import Commands, add_store_option, count

_BY_LINES: Final = "print JSON, one object a line (`jq -s` makes an array of them)"
_SESSION: Final = "an id, the beginning of one, or last (the one written to last)"
_ENTRY: Final = "its number (as 12 or #12), its id, the beginning of it, or a label"
_FORMATS: Final = "steno (one branch in one document), jsonl (all of the session with its digests), audit, session, rows, chat"
_PAPERS: Final = "or, for people and never read back, markdown, html"


class _Action(NamedTuple):
    """A command of the group."""

    name: str
    run: Callable[[argparse.Namespace], int]
    help: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]


def add_commands(commands: Commands) -> None:
    """Add the group to the command line."""
    group = commands.add_parser(
        "sessions",
        help="look at, search, copy and change kept conversations",
        description="Look at the conversations that are kept in a store, and work with them.",
        epilog="'steno sessions COMMAND --help' tells more about a command; without one it lists.",
    )
    add_store_option(group)
    group.set_defaults(run=listing.list_sessions, limit=None, here=False, json=False)
    actions = group.add_subparsers(title="commands", metavar="COMMAND")
    for action in _ACTIONS:
        parser = actions.add_parser(action.name, help=action.help, description=action.description)
        action.add_arguments(parser)
        add_store_option(parser)
        parser.set_defaults(run=action.run)


def _add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="ID", help=_SESSION)


def _add_json(parser: argparse.ArgumentParser, help: str = _BY_LINES) -> None:
    parser.add_argument("--json", action="store_true", help=help)


def _list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=count, metavar="N", help="print so many at most")
    parser.add_argument("--here", action="store_true", help="only those begun in this folder")
    _add_json(parser)


def _show(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("--branch", metavar="B", help="this branch, not the one written to last")
    parser.add_argument("--all", action="store_true", help="print long results and texts in full")
    _add_json(parser, "print the entries as they are stored, one JSON object a line")


def _tree(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("--all", action="store_true", help="draw every entry, fold nothing")
    _add_json(parser)


def _search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="WORD", help="a whole word; all of them")
    parser.add_argument(
        "--limit", type=count, default=20, metavar="N", help="print so many at most (20)"
    )
    _add_json(parser)


def _export(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument(
        "--format",
        choices=exchange.FORMATS,
        metavar="F",
        help=f"{_FORMATS}, {_PAPERS}; else what FILE ends in says (.json, .jsonl, .md, .html), "
        "or steno",
    )
    parser.add_argument("--branch", metavar="B", help="this branch, not the one written to last")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there, not to stdout")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    parser.add_argument("--strict", action="store_true", help="exit with 3 if anything was lost")
    parser.add_argument("--report", metavar="FILE", help="write all losses there, as a JSON array")
    parser.add_argument("--quiet", action="store_true", help="do not tell what was lost")


def _import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what to read; - is stdin")
    parser.add_argument(
        "--format", choices=exchange.FORMATS, metavar="F", help=f"{_FORMATS}; else it is found out"
    )
    parser.add_argument("--title", metavar="T", help="give the session this title")
    parser.add_argument("--id", metavar="ID", help="give the session this id")


def _fork(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("--at", metavar="ENTRY", help=f"go on behind this entry: {_ENTRY}")
    parser.add_argument(
        "--name", metavar="NAME", help="the branch; else it is named after the time"
    )
    parser.add_argument("--clone", action="store_true", help="copy the session, and leave it alone")


def _label(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("entry", metavar="ENTRY", help=_ENTRY)
    parser.add_argument("text", metavar="TEXT", help="what it is called; no number")


def _rename(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("title", metavar="TITLE", help="what the list shows of it from now on")


def _redact(parser: argparse.ArgumentParser) -> None:
    _add_session(parser)
    parser.add_argument("entry", metavar="ENTRY", help=_ENTRY)
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why; it is recorded")
    parser.add_argument("--actor", metavar="NAME", help="who; else the user of this machine")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _remove(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", nargs="+", metavar="ID", help=_SESSION)
    parser.add_argument("--yes", action="store_true", help="do not ask")


_ACTIONS: Final = (
    _Action(
        "list",
        listing.list_sessions,
        "list the sessions, the latest first",
        "List the sessions of a store, the one written to last first.",
        _list,
    ),
    _Action(
        "show",
        showing.show,
        "print a conversation",
        "Print what was said, called, returned and decided on a branch. Long results are cut. "
        "Control characters are shown as escapes. Times are UTC.",
        _show,
    ),
    _Action(
        "tree",
        drawing.tree,
        "draw the branches of a session",
        "Draw all entries of a session, with branches, labels and what was left behind. Long runs "
        "are folded.",
        _tree,
    ),
    _Action(
        "search",
        listing.search,
        "find entries and titles by their words",
        "Find the titles and then the entries of all sessions that hold all the words, the newest "
        "first. Words are whole ones, in any order and in any case: 'test' does not find 'tests'.",
        _search,
    ),
    _Action(
        "export",
        exchange.export_session,
        "write a session to a file",
        "Write a session in one of several formats. What a format has no words for is listed on "
        "stderr, one line for each kind of loss.",
        _export,
    ),
    _Action(
        "import",
        exchange.import_session,
        "read a session from a file",
        "Add a session from a file and print its id. A file that cannot be read adds nothing.",
        _import,
    ),
    _Action(
        "fork",
        changing.fork,
        "begin a branch, or copy a session",
        "Begin a branch that shares everything up to an entry, and print its name; with --clone "
        "copy the whole session and print the id of the copy.",
        _fork,
    ),
    _Action(
        "label",
        changing.label,
        "give an entry a name",
        "Give an entry a name, by which other commands find it.",
        _label,
    ),
    _Action(
        "rename",
        changing.rename,
        "give a session another title",
        "Give a session another title. Its id and everything in it stay as they are.",
        _rename,
    ),
    _Action(
        "redact",
        changing.redact,
        "take the content out of an entry",
        "Take the content out of an entry for good. That it was done, by whom and why is recorded, "
        "and the chain of digests stays valid.",
        _redact,
    ),
    _Action(
        "rm",
        changing.remove,
        "remove sessions",
        "Remove sessions for good, and the images that only they refer to.",
        _remove,
    ),
)
