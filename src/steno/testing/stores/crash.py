"""Kill a writer process many times, and check the store after each kill.

Run it with `python -m steno.testing.stores.crash ADDRESS... --rounds 200`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from steno.testing.case_results import CaseFailure
from steno.testing.stores.crash_rounds import ROUNDS_VARIABLE, run_crash_rounds
from steno.testing.stores.store_harness import AddressStoreHarness, add_opener_argument


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the crash rounds for every address; return 1 if a store fails, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m steno.testing.stores.crash",
        description="Kill a writer process many times and check the store after each kill.",
    )
    parser.add_argument(
        "address", nargs="+", help="the address of a store, as for `steno.store.open_store`"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=int(os.environ.get(ROUNDS_VARIABLE) or 200),
        help="the number of kills (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="the random seed for the steps and the kill times"
    )
    add_opener_argument(parser)
    options = parser.parse_args(arguments)
    failed = False
    for address in options.address:
        harness = AddressStoreHarness(address.partition(":")[0], address, opener=options.opener)
        started_at = time.monotonic()
        try:
            acknowledged = run_crash_rounds(harness, options.rounds, seed=options.seed)
            outcome = f"ok, {acknowledged} steps acknowledged"
        except CaseFailure as exc:
            failed, outcome = True, f"FAIL, {exc}"
        spent = time.monotonic() - started_at
        sys.stdout.write(f"{harness.name}: {options.rounds} kills in {spent:.0f} s: {outcome}\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
