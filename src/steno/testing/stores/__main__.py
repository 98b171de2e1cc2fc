"""Print the matrix: `python -m steno.testing.stores ADDRESS...`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from steno.errors import StenoError
from steno.testing.conformance.run import Verdict, matrix
from steno.testing.stores.cases import STORE_CASES
from steno.testing.stores.run import run_store_case
from steno.testing.stores.subject import (
    OPEN_STORE,
    AddressSubject,
    MemorySubject,
    Subject,
    opener_argument,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the kit; return 1 if anything failed, 2 if a place cannot be used, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m steno.testing.stores",
        description="Runs every case against every store and prints a matrix: ok, a dash where a"
        " store does not promise it, or FAIL with the reason below.",
    )
    parser.add_argument(
        "address", nargs="+", help="an empty place, as `steno.store.open_store` takes it"
    )
    parser.add_argument(
        "--opener",
        default=OPEN_STORE,
        type=opener_argument,
        metavar="MODULE:FUNCTION",
        help="opens a store of your own",
    )
    parser.add_argument(
        "--root",
        type=Path,
        metavar="PATH",
        help="where such a store has its files, which are damaged and put back: a folder, or what"
        " their names begin with",
    )
    parser.add_argument(
        "--case",
        action="append",
        choices=[case.__name__ for case in STORE_CASES],
        metavar="NAME",
        help="run only this case; may be given more than once",
    )
    asked = parser.parse_args(arguments)
    cases = [case for case in STORE_CASES if asked.case is None or case.__name__ in asked.case]
    subjects = [_subject(address, asked.opener, asked.root) for address in asked.address]
    for subject in subjects:
        try:
            with subject.open() as store:
                is_empty = not any(True for _ in store.headers())
        except (StenoError, ImportError) as exc:
            sys.stderr.write(f"{subject.name}: it cannot be opened: {exc}\n")
            return 2
        if not is_empty:
            sys.stderr.write(f"{subject.name}: the kit needs a place that is empty\n")
            return 2
    with _silence():
        results = [run_store_case(case, subject) for subject in subjects for case in cases]
    sys.stdout.write(matrix(results))
    return int(any(result.outcome is Verdict.FAIL for result in results))


@contextmanager
def _silence() -> Generator[None]:
    """Do not warn of what is newer or damaged: that is part of the kit."""
    loggers = [logging.getLogger(f"steno.{name}") for name in ("codec", "store")]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, was_disabled in zip(loggers, before, strict=True):
            logger.disabled = was_disabled


def _subject(address: str, opener: str, root: Path | None) -> Subject:
    if address == "memory:":
        return MemorySubject()
    return AddressSubject(address.partition(":")[0], address, opener=opener, root=root)


if __name__ == "__main__":
    sys.exit(main())
