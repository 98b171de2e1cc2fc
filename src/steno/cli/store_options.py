"""Which store a command means, and which session in it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module

from steno.app.errors import UsageError
from steno.app.folders import settings_files, working_folder
from steno.app.sessions import open_store_quietly
from steno.errors import InvalidValue, Missing
from steno.store import MemoryStore, Store
from steno.store.locate import STORE_VARIABLE, StoreAddress, default_address, read_address

# -- stores ----------------------------------------------------------------------------------


def store_address(options: argparse.Namespace) -> StoreAddress:
    """Return the address of the store that was asked for: now, or by the settings."""
    asked: str = getattr(options, "store", "")
    if asked:
        return parse_store_address(asked, "--store")
    named = "" if os.environ.get(STORE_VARIABLE) else _store_from_settings()
    return read_address(named) if named else default_address()


def parse_store_address(text: str, place: str) -> StoreAddress:
    """Read an address of the command line. Raises Misused for what is none."""
    try:
        return read_address(text)
    except InvalidValue as exc:
        raise UsageError(f"{place}: {str(exc).removeprefix('store: ')}") from None


def _store_from_settings() -> str:
    """Return the store that the settings name; to load them takes long, so not for nothing."""
    try:
        folder = working_folder()
    except Missing:
        return ""
    if not any(map(os.path.lexists, settings_files(folder, os.environ))):
        return ""
    load = import_module("steno.app.settings_loader").load_settings_leniently
    store: str | None = load().settings.store
    return store or ""


@contextmanager
def open_existing_store(options: argparse.Namespace) -> Generator[Store]:
    """Open the store that was asked for; none is made.

    There need not be one that nobody has named now: then nothing is in it. Raises Missing.
    """
    address = store_address(options)
    is_asked_for = getattr(options, "store", "") or os.environ.get(STORE_VARIABLE)
    if not is_asked_for and not address.exists:
        yield MemoryStore()
        return
    with open_store_quietly(address, create=False) as store:
        yield store
