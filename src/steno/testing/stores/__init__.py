"""The conformance kit for stores: named test cases for the stores of steno and your own.

The kit uses a store through a `StoreHarness`, which has the address of an empty store and the
function that opens this address, in this process and in other processes.

    python -m steno.testing.stores sqlite:/tmp/kit.db --opener my_package:open_my_store

In pytest: `test_my_store = store_test(make_harness)`, from `steno.testing.stores.in_pytest`.
`python -m steno.testing.stores.crash` kills a writer process many times and checks the store after
each kill.
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
