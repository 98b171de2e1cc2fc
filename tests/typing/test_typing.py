"""Code that a strict type checker accepts, and code that it must report.

Lines of the files in `must_fail` that end in `# E: code` have to be reported, with that code among
others, and no other line may be. The files are not Python files, so no other tool reads them; they
are copied and checked together with `must_pass.py`, all in one run.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mypy.api
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MUST_PASS = HERE / "must_pass.py"
MUST_FAIL = sorted((HERE / "must_fail").glob("*.py.txt"))

Reports = dict[str, set[tuple[int, str]]]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """Run mypy once over everything; return line and code of each error by file."""
    folder = tmp_path_factory.mktemp("typing")
    files = [folder / path.name.removesuffix(".txt") for path in MUST_FAIL]
    for source, target in zip(MUST_FAIL, files, strict=True):
        target.write_text(source.read_text("utf-8"), "utf-8")
    passing = folder / MUST_PASS.name
    passing.write_text(MUST_PASS.read_text("utf-8"), "utf-8")
    config = folder / "mypy.ini"
    config.write_text(f"[mypy]\nmypy_path = {ROOT / 'src'}\n", "utf-8")
    output, errors, _ = mypy.api.run(
        [
            *("--config-file", str(config), "--cache-dir", str(folder / "cache")),
            *("--strict", "--warn-unreachable", "--no-error-summary", "--no-color-output"),
            *("--enable-error-code", "truthy-bool", "--python-version", "3.11"),
            *map(str, [*files, passing]),
        ]
    )
    assert not errors, errors
    found: Reports = {}
    for line in output.splitlines():
        if match := re.match(r"(.+?):(\d+): error: .*\[([\w-]+)\]$", line):
            found.setdefault(Path(match[1]).name, set()).add((int(match[2]), match[3]))
    return found


def expected(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        if match := re.search(r"# E: ([\w-]+)$", line):
            yield number, match[1]


@pytest.mark.requirement("NFR-004a-35")
def test_everyday_code_passes(reports: Reports) -> None:
    assert reports.get(MUST_PASS.name, set()) == set()


@pytest.mark.requirement("NFR-004a-35")
def test_the_source_itself_passes(reports: Reports) -> None:
    """It is read from `src`, so its own errors are reported in the same run."""
    checked = {path.name.removesuffix(".txt") for path in MUST_FAIL} | {MUST_PASS.name}
    assert {name: lines for name, lines in reports.items() if name not in checked} == {}


@pytest.mark.requirement("S4-01", "S4-12", "FR-004a-12", "NFR-004a-35", "NFR-004a-37")
@pytest.mark.parametrize("path", MUST_FAIL, ids=lambda path: path.name.partition(".")[0])
def test_wrong_code_is_reported_line_by_line(path: Path, reports: Reports) -> None:
    wanted = set(expected(path))
    assert wanted
    found = reports.get(path.name.removesuffix(".txt"), set())
    assert sorted({line for line, _ in found}) == sorted({line for line, _ in wanted})
    assert wanted <= found


@pytest.mark.requirement("NFR-004a-35")
def test_two_strict_checkers_are_part_of_the_check() -> None:
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    assert settings["mypy"]["strict"] is True
    assert settings["pyright"]["typeCheckingMode"] == "strict"
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\ncheck:")[2].partition("\n\n")[0]
    assert "-m mypy" in recipe
    assert "-m pyright" in recipe
