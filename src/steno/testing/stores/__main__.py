"""Run the conformance kit for stores, and print the results as a matrix."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from steno.errors import StenoError
from steno.testing.case_results import CaseOutcome, format_matrix
from steno.testing.stores.cases import STORE_CASES, run_store_case
from steno.testing.stores.store_harness import (
    AddressStoreHarness,
    MemoryStoreHarness,
    StoreHarness,
    add_opener_argument,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the kit and print the matrix.

    Return 0 if no case failed, 1 if a case failed, and 2 if a store cannot be opened or is not
    empty.
    """
    parser = argparse.ArgumentParser(
        prog="python -m steno.testing.stores",
        description="Run every case against every store and print a matrix. A cell is ok, a dash"
        " if the case does not apply to the store, or FAIL with the reason below the matrix.",
    )
    parser.add_argument(
        "address", nargs="+", help="the address of an empty store, as for `steno.store.open_store`"
    )
    add_opener_argument(parser)
    parser.add_argument(
        "--root",
        type=Path,
        metavar="PATH",
        help="the folder or path prefix of the store's files, if --opener is used;"
        " the kit damages and restores these files",
    )
    parser.add_argument(
        "--case",
        action="append",
        choices=[case.__name__ for case in STORE_CASES],
        metavar="NAME",
        help="run only this case; can be repeated",
    )
    options = parser.parse_args(arguments)
    cases = [case for case in STORE_CASES if options.case is None or case.__name__ in options.case]
    harnesses = [
        _build_harness(address, options.opener, options.root) for address in options.address
    ]
    for harness in harnesses:
        try:
            with harness.open() as store:
                is_empty = not any(True for _ in store.headers())
        except (StenoError, ImportError) as exc:
            sys.stderr.write(f"{harness.name}: the store cannot be opened: {exc}\n")
            return 2
        if not is_empty:
            sys.stderr.write(f"{harness.name}: the store is not empty; use an empty store\n")
            return 2
    with _silence_loggers():
        results = [run_store_case(case, harness) for harness in harnesses for case in cases]
    sys.stdout.write(format_matrix(results))
    return int(any(result.outcome is CaseOutcome.FAIL for result in results))


@contextmanager
def _silence_loggers() -> Generator[None]:
    """Suppress warnings about newer or damaged records, which the kit writes on purpose."""
    loggers = [logging.getLogger(f"steno.{name}") for name in ("codec", "store")]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, was_disabled in zip(loggers, before, strict=True):
            logger.disabled = was_disabled


def _build_harness(address: str, opener: str, root: Path | None) -> StoreHarness:
    if address == "memory:":
        return MemoryStoreHarness()
    return AddressStoreHarness(address.partition(":")[0], address, opener=opener, root=root)


if __name__ == "__main__":
    sys.exit(main())
