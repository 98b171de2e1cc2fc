"""A command's definition, and the context that it runs in.

This module is loaded by every command, so it imports nothing heavy: the types of an open session
are those of `steno.app`, which loads them when they are used.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple, TypeAlias

from steno import app
from steno.app.commands.arguments import (
    TEXT,
    Argument,
    add_arguments,
    keep_text,
    with_optional_session,
)
from steno.app.commands.report import Report
from steno.app.session_log import SessionLog
from steno.app.session_lookup import LAST_SESSION, UnreadableSessions, find_session
from steno.errors import Missing
from steno.records.entry import Entry
from steno.render.describe import Headline
from steno.render.progress import ShowProgress, no_progress
from steno.store import Store
from steno.tools.calls import call_headline


class OpenBranch(NamedTuple):
    """The branch of an open session as it was when a command began."""

    session: str
    name: str
    entries: Sequence[Entry]
    context_tokens: int | None
    """The size of the context window of the model; None if it is unknown."""


class CommandContext(NamedTuple):
    """The folder, the store and, in a terminal, the open session of a command."""

    folder: Path
    open_store: Callable[[], AbstractContextManager[Store]]
    """Opens the store of the command; the store of an open session is not closed afterwards."""
    show_progress: ShowProgress = no_progress
    show_activity: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext()
    """Shows an activity whose progress cannot be counted."""
    notify: Callable[[str], object] = lambda _: None
    """Receives notices that do not belong to the report."""
    ask: Callable[[str, Sequence[str]], bool] | None = None
    """Asks a question about some lines before a permanent change; None if there is no terminal."""
    headline: Headline = call_headline
    """Returns the headline of a call."""
    is_persistent: bool = True
    """Whether the store outlives the program."""
    session: app.AgentSession | None = None
    """The open session; None on the command line."""
    branch: OpenBranch | None = None
    """The open branch; None on the command line."""

    @property
    def open_session(self) -> app.AgentSession:
        """The open session, for a command that only a terminal has."""
        assert self.session is not None, "a slash command has an open session"
        return self.session

    @property
    def open_session_id(self) -> str | None:
        """The id of the open session; None on the command line."""
        return None if self.branch is None else self.branch.session

    def find_session(self, store: Store, name: str | None) -> str:
        """Return the id of the session `name`.

        If `name` is None, return the id of the open session, or of the last one if no session is
        open. Raises Missing if no session matches, or if several sessions match.
        """
        if name is None and self.branch is not None:
            return self.branch.session
        unreadable = UnreadableSessions()
        session = find_session(
            store,
            LAST_SESSION if name is None else name,
            unreadable=unreadable,
            show_progress=self.show_progress,
        )
        for line in unreadable.lines:
            self.notify(line)
        return session

    def read_log(self, store: Store, name: str | None) -> SessionLog:
        """Read the session that `find_session` returns.

        Raises Missing if there is no such session or nothing is recorded yet, and Damaged if it
        cannot be read.
        """
        session = self.find_session(store, name)
        try:
            return SessionLog.read(store, session, self.show_progress)
        except Missing:
            if self.open_branch_of(session) is None:
                raise
            text = "nothing is recorded yet"
            raise Missing(text, code="empty_session", place="session") from None

    def open_branch_of(self, session: str) -> str | None:
        """Return the name of the open branch of a session; None if the session is not open."""
        if self.branch is None or self.branch.session != session:
            return None
        return self.branch.name


RunCommand: TypeAlias = Callable[[CommandContext, argparse.Namespace], Report | Awaitable[Report]]


class GroupAction(NamedTuple):
    """A command of a group, such as `steno sessions tree`."""

    name: str
    run: RunCommand
    help: str
    description: str
    arguments: tuple[Argument, ...] = ()


class CommandDefinition(NamedTuple):
    """The function of a command and its arguments, with the texts of the command line."""

    run: RunCommand
    """Runs the command and returns its report. Raises StenoError.

    A terminal runs a plain function in a thread, while the agent may run: it reads the store and
    `context.branch`, but not the state of the session. A coroutine function runs on the event loop
    and may read and change that state; it runs blocking work in a thread itself. A plain function
    that changes the state returns a coroutine, which is awaited on the event loop.
    """
    arguments: tuple[Argument, ...] = (TEXT,)
    split: Callable[[str], list[str]] = keep_text
    """Turns the text after a slash command into arguments."""
    help: str = ""
    description: str = ""
    epilog: str = ""
    add_actions: Callable[[argparse.ArgumentParser, bool], None] | None = None
    """Adds the commands of a group, or arguments that differ in a terminal (`in_terminal`)."""
    reads_store: bool = False
    """Whether the command has the option `--store` on the command line."""

    def add_to(self, parser: argparse.ArgumentParser, *, in_terminal: bool) -> None:
        """Add the arguments to a parser; in a terminal the session is by default the open one."""
        arguments = with_optional_session(self.arguments) if in_terminal else self.arguments
        add_arguments(parser, arguments)
        if self.add_actions is not None:
            self.add_actions(parser, in_terminal)
        parser.set_defaults(parser=parser)
