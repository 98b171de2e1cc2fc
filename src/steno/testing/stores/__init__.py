"""The conformance kit for stores: one list of named cases, for ours and for yours.

A store takes part through a `StoreHarness`: an empty place, and the function that opens it, here
and in another process.

    python -m steno.testing.stores sqlite:/tmp/kit.db --opener my_package:open_my_store

In pytest: `test_my_store = store_test(make_harness)`, from `steno.testing.stores.in_pytest`.
`python -m steno.testing.stores.crash` kills a writer any number of times.
"""

from steno.testing.case_results import CaseFailure, CaseOutcome, CaseResult, format_matrix
from steno.testing.stores.cases import STORE_CASES, StoreCase, run_store_case, run_store_cases
from steno.testing.stores.crash_rounds import run_crash_rounds
from steno.testing.stores.store_harness import (
    AddressStoreHarness,
    CaseScale,
    MemoryStoreHarness,
    NotApplicable,
    StoreHarness,
)

__all__ = [
    "STORE_CASES",
    "AddressStoreHarness",
    "CaseFailure",
    "CaseOutcome",
    "CaseResult",
    "CaseScale",
    "MemoryStoreHarness",
    "NotApplicable",
    "StoreCase",
    "StoreHarness",
    "format_matrix",
    "run_crash_rounds",
    "run_store_case",
    "run_store_cases",
]
