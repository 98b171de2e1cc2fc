"""The distribution: its names, its extras, and the page that a package index shows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from steno.errors import install_command

ROOT = Path(__file__).parents[1]
HINT = re.compile(r"pip install (?:--\S+ )*'?(steno[\w-]*)(?:\[([\w,]+)\])?")
EXTRA = re.compile(r"""(?:install_command\(|\bextra=)['"](\w+)""")
TEXTS = [
    *(ROOT / "src").rglob("*.py"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "examples").rglob("*.py"),
    ROOT / "README.md",
]


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def extras_in(requirement: str) -> set[str]:
    """Return the extras that a requirement such as `steno-agent[cli,http]` names."""
    return set(requirement.partition("[")[2].rstrip("]").split(","))


@pytest.mark.requirement("P-01")
def test_the_command_has_the_names_of_the_import_and_of_the_distribution() -> None:
    scripts = project()["scripts"]
    assert project()["name"] == "steno-agent"
    assert scripts.keys() == {"steno", "steno-agent"}
    assert len(set(scripts.values())) == 1


@pytest.mark.requirement("P-01")
def test_the_extra_all_contains_every_other_extra() -> None:
    extras: dict[str, list[str]] = project()["optional-dependencies"]
    (terminal,) = extras["terminal"]
    (everything,) = extras["all"]
    assert extras_in(terminal) < extras.keys()
    assert extras_in(everything) | extras_in(terminal) == extras.keys() - {"all"}


@pytest.mark.requirement("P-02")
def test_every_hint_to_install_a_part_names_our_distribution_and_an_extra() -> None:
    """`steno` on the package index belongs to another project."""
    extras = project()["optional-dependencies"]
    hints = [
        (path.relative_to(ROOT).as_posix(), *found)
        for path in TEXTS
        for found in HINT.findall(path.read_text("utf-8"))
    ]
    assert len(hints) >= 10
    assert [hint for hint in hints if hint[1] != "steno-agent"] == []
    named = {name for hint in hints for name in hint[2].split(",") if name}
    passed = {name for path in TEXTS for name in EXTRA.findall(path.read_text("utf-8"))}
    assert len(passed) >= 8
    assert named | passed <= extras.keys()
    assert install_command("http") == "pip install 'steno-agent[http]'"
    assert not any("steno[" in path.read_text("utf-8") for path in TEXTS if "adr" not in path.parts)
