"""The list of requirements is complete, every due requirement has a test, and every id is known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements_map import (
    TESTS,
    Catalog,
    Coverage,
    Requirement,
    find_gaps,
    load_catalog,
    read_coverage,
    render,
    unknown_ids,
)

COUNTS = {"FR-004a": 115, "NFR-004a": 40, "S1": 12, "S2": 36, "S3": 8, "S4": 18, "P": 38}


def coverage_of(tmp_path: Path, source: str) -> Coverage:
    suite = tmp_path / "tests"
    suite.mkdir()
    (suite / "test_it.py").write_text(source, "utf-8")
    return read_coverage(suite)


# -- this project ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def coverage() -> Coverage:
    """The markers of this project."""
    return read_coverage()


def test_every_due_requirement_has_a_test(coverage: Coverage) -> None:
    gaps = find_gaps(load_catalog(), coverage)
    if gaps:
        pytest.fail("no test for: " + ", ".join(gap.id for gap in gaps), pytrace=False)


def test_every_id_in_a_test_is_a_requirement(coverage: Coverage) -> None:
    assert not unknown_ids(coverage.tests, load_catalog())
    assert not coverage.faults


def test_every_requirement_of_the_source_documents_is_tested_from_outside() -> None:
    """`tests/acceptance` is written from the documents S0 to S4."""
    coverage = read_coverage(TESTS / "acceptance")
    demands = [key for key, row in load_catalog().requirements.items() if row.source != "P"]
    assert len(demands) == 236
    assert not coverage.faults
    if missing := [key for key in demands if key not in coverage.tests]:
        pytest.fail("no test in tests/acceptance for: " + ", ".join(missing), pytrace=False)


def test_list_of_requirements_is_complete() -> None:
    expected = {f"{stem}-{n:02d}" for stem, count in COUNTS.items() for n in range(1, count + 1)}
    expected |= {f"S0-V{n}" for n in range(1, 8)}
    assert load_catalog().requirements.keys() == expected


def test_every_requirement_has_a_source_a_step_and_a_unique_text() -> None:
    catalog = load_catalog()
    rows = catalog.requirements.values()
    assert {row.source for row in rows} == catalog.sources.keys()
    assert all(1 <= row.step <= 6 for row in rows)
    assert all(row.id.startswith(row.source) or row.source == "S0" for row in rows)
    assert all(row.behaviour.endswith(".") for row in rows)
    assert len({row.behaviour for row in rows}) == len(rows)


# -- the map --------------------------------------------------------------------------------------


def test_markers_are_read_from_functions_classes_modules_and_parameters(tmp_path: Path) -> None:
    coverage = coverage_of(
        tmp_path,
        """
import pytest
pytestmark = [pytest.mark.requirement("A"), pytest.mark.live]

@pytest.mark.requirement("B", "C")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.requirement("D"))])
def test_one(x): ...

@pytest.mark.requirement("B")
class TestTwo:
    @pytest.mark.requirement("E")
    async def test_three(self): ...

TestTwo.pytestmark = pytest.mark.requirement("F")
""",
    )
    assert coverage.faults == ()
    assert coverage.tests == {
        "A": ("tests/test_it.py",),
        "B": ("tests/test_it.py::test_one", "tests/test_it.py::TestTwo"),
        "C": ("tests/test_it.py::test_one",),
        "D": ("tests/test_it.py::test_one",),
        "E": ("tests/test_it.py::TestTwo::test_three",),
        "F": ("tests/test_it.py::TestTwo",),
    }


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.requirement(KEY)\ndef test_it(): ...",
        "@pytest.mark.requirement()\ndef test_it(): ...",
        "@pytest.mark.requirement\ndef test_it(): ...",
        "@pytest.mark.requirement('A', id='B')\ndef test_it(): ...",
        "@pytest.mark.requirement('A')\ndef helper(): ...",
        "@pytest.mark.skip\n@pytest.mark.requirement('A')\ndef test_it(): ...",
        "@pytest.mark.xfail(reason='x')\n@pytest.mark.requirement('A')\ndef test_it(): ...",
        "needs_a = pytest.mark.requirement('A')",
        "def test_it(:",
    ],
)
def test_marker_without_ids_or_without_a_running_test_is_a_fault(
    tmp_path: Path, source: str
) -> None:
    coverage = coverage_of(tmp_path, source)
    assert coverage.tests == {}
    assert len(coverage.faults) == 1
    assert coverage.faults[0].startswith("tests/test_it.py:")


def test_only_due_requirements_are_gaps() -> None:
    rows = [Requirement("A", "S0", 1, "Now."), Requirement("B", "S0", 2, "Later.")]
    catalog = Catalog(1, {"S0": "Source"}, {row.id: row for row in rows})
    nothing = Coverage({}, ())
    assert [gap.id for gap in find_gaps(catalog, nothing)] == ["A"]
    assert find_gaps(catalog, Coverage({"A": ("tests/test_it.py::test_a",)}, ())) == []
    assert list(render(catalog, nothing)) == [
        "S0  Source: 2 requirements, 0 with tests",
        "  A             Now.",
        "      GAP",
        "  B             Later.",
        "      step 2",
        "",
        "1 of 2 requirements are due (through step 1); 0 of them have a test.",
        "gap: A Now.",
    ]


def test_unknown_id_stops_the_run_before_the_first_test(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.requirement('FR-004a-999')\ndef test_it(): ...\n", "utf-8"
    )
    project = TESTS.parent
    pytest_here = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", f"--rootdir={project}"]
    run = subprocess.run(
        [*pytest_here, "-p", "tests.conftest", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == pytest.ExitCode.USAGE_ERROR, run.stdout + run.stderr
    assert "'FR-004a-999'" in run.stderr
    assert "tests/requirements.toml" in run.stderr
