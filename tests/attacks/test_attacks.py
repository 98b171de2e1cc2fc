"""A share of the attacks in the environment at hand, and checks of the data; `make attacks` runs all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.attacks.__main__ import run_attacks
from tests.attacks.catalog import SANDBOXES, Catalog, load_catalog
from tests.attacks.configurations import ROOT, find_configurations

USER = "root" if os.geteuid() == 0 else "user"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def test_there_are_hundreds_of_attacks_of_every_kind(catalog: Catalog) -> None:
    assert len(catalog.attacks) >= 400
    assert len(catalog.categories) >= 11


def test_every_known_limit_is_documented(catalog: Catalog) -> None:
    for name, reason in catalog.reasons.items():
        file, _, text = reason.documented.partition(": ")
        content = " ".join((ROOT / file).read_text("utf-8").split())
        assert text in content, name
    used = {name for attack in catalog.attacks.values() for name in attack.limit.values()}
    assert used == catalog.reasons.keys()


def test_a_share_of_the_attacks_is_withstood(tmp_path: Path, catalog: Catalog) -> None:
    """With the best sandbox of this machine, which may be none."""
    found = find_configurations(
        tmp_path, [USER], [name for name in SANDBOXES if "alone" not in name]
    )
    best = next(each for each in found if not each.problem)
    chosen = [attack for attack in catalog.attacks.values() if attack.fast]
    results = run_attacks(chosen, [best], jobs=2)
    assert len(results) > 30
    open_ = [
        (each.verdict.id, each.verdict.succeeded)
        for each in results
        if each.verdict.succeeded
        and catalog.attacks[each.verdict.id].limit_for(each.user, each.sandbox) is None
    ]
    assert open_ == []
    assert [each.verdict for each in results if each.verdict.error] == []
