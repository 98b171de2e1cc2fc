"""The conformance kit for stores: one list of named cases, for ours and for yours.

A store takes part through a `Subject`: a place of its own, and how it is opened, here and in
another process.

    python -m steno.testing.stores sqlite:/tmp/kit.db --opener my_package:open_my_store

In pytest: `test_my_store = store_test(make_subject)`, from `steno.testing.stores.in_pytest`.
`python -m steno.testing.stores.crash` kills a writer as often as you like.
"""

from steno.testing.conformance.hearing import Unmet
from steno.testing.conformance.run import Result, Verdict, matrix
from steno.testing.stores.cases import STORE_CASES, StoreCase
from steno.testing.stores.killing import run_rounds
from steno.testing.stores.run import run_store_case, run_store_cases
from steno.testing.stores.subject import (
    AddressSubject,
    MemorySubject,
    NotApplicable,
    Scale,
    Subject,
)

__all__ = [
    "STORE_CASES",
    "AddressSubject",
    "MemorySubject",
    "NotApplicable",
    "Result",
    "Scale",
    "StoreCase",
    "Subject",
    "Unmet",
    "Verdict",
    "matrix",
    "run_rounds",
    "run_store_case",
    "run_store_cases",
]
