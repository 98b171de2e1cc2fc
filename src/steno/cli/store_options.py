"""Functions that find the store and the session named by the options of a command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from steno.app.commands.arguments import UsageError
from steno.app.folders import settings_files, working_folder
from steno.app.session_log import SessionLog
from steno.app.session_lookup import UnreadableSessions, find_session, open_store_at
from steno.cli.arguments import ExitStatus
from steno.cli.command_table import read_store_setting
from steno.errors import InvalidValue, Missing
from steno.render.progress import ShowProgress, no_progress, show_progress
from steno.render.table_output import print_notice
from steno.store import MemoryStore, Store
from steno.store.locate import STORE_VARIABLE, StoreAddress, default_address, read_address


def store_address(options: argparse.Namespace) -> StoreAddress:
    """Return the address of the store from the options or the settings, or the default."""
    option: str | None = getattr(options, "store", None)
    if option is not None:  # an empty one is an error: it must not select the default store
        return parse_store_address(option, "--store")
    address = "" if os.environ.get(STORE_VARIABLE) else _store_from_settings()
    return read_address(address) if address else default_address()


def parse_store_address(text: str, option: str) -> StoreAddress:
    """Parse an address from the command line. Raises UsageError if it is invalid."""
    try:
        return read_address(text)
    except InvalidValue as exc:
        raise UsageError(exc.message, code=exc.code, place=option) from None


def _store_from_settings() -> str:
    """Return the address of the store in the settings; empty if it is not set.

    Loading settings is slow, so they are loaded only if a settings file exists.
    """
    try:
        folder = working_folder()
    except Missing:
        return ""
    if not any(map(os.path.lexists, settings_files(folder, os.environ))):
        return ""
    return read_store_setting() or ""


@contextmanager
def open_existing_store(options: argparse.Namespace) -> Generator[Store]:
    """Open the store that the options name, without creating it.

    Raises Missing if the store of an option or of the environment does not exist. If the store of
    the settings, or the default store, does not exist, an empty one is opened in memory.
    """
    address = store_address(options)
    is_named = getattr(options, "store", "") or os.environ.get(STORE_VARIABLE)
    if not is_named and not address.exists:
        yield MemoryStore()
        return
    with open_store_at(address, create=False) as store:
        yield store


def progress_display() -> ShowProgress:
    """Return `show_progress`, or `no_progress` if stderr is not a terminal."""
    return show_progress if sys.stderr.isatty() else no_progress


def find_named_session(store: Store, name: str) -> str:
    """Return the ID of a session, and print notices about unreadable sessions.

    Raises Missing if the session does not exist.
    """
    unreadable = UnreadableSessions()
    session = find_session(store, name, unreadable=unreadable, show_progress=progress_display())
    report_unreadable(unreadable)
    return session


def read_named_log(store: Store, name: str) -> SessionLog:
    """Read the log of a session that an option names.

    Raises Missing if the session does not exist, and Damaged if it cannot be read.
    """
    return SessionLog.read(store, find_named_session(store, name), progress_display())


def report_unreadable(sessions: UnreadableSessions) -> ExitStatus:
    """Print a notice for each session that could not be read, and return the exit status."""
    for line in sessions.lines:
        print_notice(line)
    return ExitStatus.FAILED if sessions else ExitStatus.OK
