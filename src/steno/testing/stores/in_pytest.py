"""Run the conformance kit for stores in pytest, with one test for each case.

    test_my_store = store_test(lambda folder: AddressStoreHarness("mine", f"mine:{folder}"))

Cases that do not apply to the store are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

try:
    import pytest
except ModuleNotFoundError as _exc:
    raise ImportError("steno.testing.stores.in_pytest needs pytest: pip install pytest") from _exc

from steno.testing.case_results import CaseOutcome
from steno.testing.stores.cases import STORE_CASES, StoreCase, run_store_case
from steno.testing.stores.store_harness import StoreHarness

__all__ = ["store_test"]


def store_test(make_harness: Callable[[Path], StoreHarness]) -> Callable[..., None]:
    """Return a parametrized test that runs each case; `make_harness` receives an empty folder."""

    @pytest.mark.parametrize("case", STORE_CASES, ids=lambda case: case.__name__)
    def test(case: StoreCase, tmp_path: Path) -> None:
        result = run_store_case(case, make_harness(tmp_path))
        if result.outcome is CaseOutcome.NOT_APPLICABLE:
            pytest.skip(result.reason)
        if result.outcome is CaseOutcome.FAIL:
            pytest.fail(str(result), pytrace=False)

    return test
