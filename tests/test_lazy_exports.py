"""Names that a package loads when they are first used."""

import subprocess
import sys
from types import ModuleType

import pytest

import steno
import steno.inputs

_FIRST_USE = """
import sys, steno
loaded = set(sys.modules)
assert {"Agent", "Conversation"} <= set(dir(steno)) - set(vars(steno))
assert set(sys.modules) == loaded
agent = steno.Agent
assert vars(steno)["Agent"] is agent
"""


def test_a_name_is_listed_before_it_is_loaded_and_kept_after() -> None:
    subprocess.run([sys.executable, "-c", _FIRST_USE], check=True)


@pytest.mark.parametrize("package", [steno, steno.inputs])
def test_all_public_names_are_listed(package: ModuleType) -> None:
    assert set(dir(package)) >= set(package.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        _ = steno.inputs.no_such_name
