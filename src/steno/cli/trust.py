"""The command `steno trust`, which shows the configuration of a project and asks to trust it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from steno.app.commands.arguments import OneOf, UsageError, argument, flag
from steno.app.commands.report import Lines, Report, ReportLine, Table
from steno.app.folders import find_project, working_folder
from steno.app.trust import ProjectTrust
from steno.app.trust_review import TrustReview, open_trust_file, review_project
from steno.cli.arguments import ExitStatus, Subparsers, add_command
from steno.cli.report_command import command_context, print_report
from steno.errors import Missing
from steno.render.table_output import Column, print_notice
from steno.render.terminal_text import terminal_line
from steno.values import replace_lone_surrogates

_COLUMNS: Final = (
    Column("project", "cyan", may_shrink=True),
    Column("settings"),
    Column("servers", may_shrink=True),
)
_EPILOG: Final = """\
examples:
  steno trust             # show the settings and servers of this project, and ask
  steno trust --yes       # trust them as they are now, for example in a script
  steno trust --list
  steno trust --revoke --folder ~/code/app

Trust ends with any change of the settings file (.steno/config.toml), and for each server with any
change of its entry in .mcp.json. Instruction files such as AGENTS.md need no trust.
"""


def add_commands(commands: Subparsers) -> None:
    """Add the command to the command line."""
    add_command(
        commands,
        "trust",
        _run_trust,
        "review and trust the settings and servers of a project",
        "Show the settings and MCP servers of the project in this folder that have no effect until "
        "you trust them, and ask. What you trust is their content as it is now.",
        arguments=(
            OneOf(
                (
                    flag("--yes", help="trust them without a question"),
                    flag("--list", help="list the projects that you trust"),
                    flag("--revoke", help="no longer trust this project"),
                )
            ),
            argument(
                "--folder", type=Path, help="the folder of the project (default: this folder)"
            ),
            flag("--json", help="with --list: print one JSON object per project"),
        ),
        epilog=_EPILOG,
    )


def _run_trust(options: argparse.Namespace) -> int:
    if options.json and not options.list:
        options.parser.error("--json: needs --list")
    if options.list:
        return _list_projects(options)
    folder: Path = options.folder or working_folder()
    if options.revoke:
        return _revoke(folder)
    if not folder.is_dir():
        raise UsageError(
            f"folder not found: {terminal_line(str(folder))}",
            code="folder_missing",
            place="--folder",
        )
    return _review_and_trust(review_project(folder), options)


def _review_and_trust(review: TrustReview, options: argparse.Namespace) -> int:
    """Show a review, ask unless `--yes` is given, and trust what was shown."""
    for notice in review.notices:
        print_notice(terminal_line(notice.text))
    project = terminal_line(str(review.project))
    if review.is_trusted:
        print_notice(f"{project}: trusted; nothing has changed since")
        return ExitStatus.OK
    lines = [line for part in review.parts for line in part.lines()]
    lines = lines or ["no settings and no servers; your own servers will start in this folder"]
    print_report(Report([Lines([ReportLine([line]) for line in lines])]))
    if not options.yes:
        ask = command_context(options).ask
        if ask is None:
            raise UsageError(
                "there is no terminal to ask on; add --yes to trust the project",
                code="confirmation_needed",
                place="trust",
            )
        if not ask(f"Trust this content of {project}?", []):
            print_notice(f"{project}: not trusted")
            return ExitStatus.FAILED
    open_trust_file().trust(review.project, review.found)
    print_notice(f"{project}: trusted until it changes")
    return ExitStatus.OK


def _list_projects(options: argparse.Namespace) -> int:
    projects = open_trust_file().read()
    return print_report(
        Report(
            [Table(_COLUMNS, [_row(folder, trust) for folder, trust in projects.items()])]
            if projects
            else [],
            when_empty="no project is trusted",
            data=[
                {"project": folder, "settings": trust.settings, "servers": trust.servers}
                for folder, trust in projects.items()
            ],
        ),
        as_json=options.json,
    )


def _row(folder: str, trust: ProjectTrust) -> list[str]:
    names = ", ".join(sorted(trust.servers))
    settings = "-" if trust.settings is None else "trusted"
    return [terminal_line(folder), settings, terminal_line(names) or "-"]


def _revoke(folder: Path) -> int:
    project = str(find_project(folder)) if folder.is_dir() else os.path.realpath(folder)
    name = terminal_line(replace_lone_surrogates(project))
    if not open_trust_file().revoke(project):
        raise Missing(
            f"not trusted: {name}; run `steno trust --list` to list the trusted projects",
            code="project_not_trusted",
            place="trust",
        )
    print_notice(f"{name}: no longer trusted")
    return ExitStatus.OK
