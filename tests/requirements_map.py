"""The map from requirements to tests: `requirements.toml` and the markers in the test files.

The test files are parsed, not imported. Reading the whole suite takes a fraction of a second, and
the result does not depend on which tests are run. This requires ids as string literals in the
markers of tests; any other marker is reported as a fault.

Run as a program, this module prints the map. It exits with 1 if a due requirement has no test, or
if a marker is wrong.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

TESTS = Path(__file__).parent
CATALOG = TESTS / "requirements.toml"


class Requirement(NamedTuple):
    """One requirement."""

    id: str
    source: str
    step: int
    behaviour: str


class Catalog(NamedTuple):
    """All requirements, in the order of the file."""

    done_through_step: int
    sources: Mapping[str, str]
    requirements: Mapping[str, Requirement]

    def due(self) -> Iterator[Requirement]:
        """Yield the requirements that must have a test."""
        return (r for r in self.requirements.values() if r.step <= self.done_through_step)


class Coverage(NamedTuple):
    """The markers in the test files."""

    tests: Mapping[str, tuple[str, ...]]
    """The marked tests, classes and modules of each id."""
    faults: tuple[str, ...]
    """Markers that cannot be read, each with its file and line."""


def load_catalog(path: Path = CATALOG) -> Catalog:
    """Read the requirements. Raises an error if a field is missing or has the wrong type."""
    document = tomllib.loads(path.read_text("utf-8"))
    sources = {str(key): str(title) for key, title in document["sources"].items()}
    requirements = {
        key: Requirement(key, str(row["source"]), int(row["step"]), str(row["behaviour"]))
        for key, row in document["requirements"].items()
    }
    return Catalog(int(document["done_through_step"]), sources, requirements)


def read_coverage(root: Path = TESTS) -> Coverage:
    """Read the markers of every test file under `root`."""
    tests: dict[str, list[str]] = {}
    faults: list[str] = []
    for path in sorted(root.rglob("test_*.py")):
        place = path.relative_to(root.parent).as_posix()
        try:
            module = ast.parse(path.read_bytes(), filename=place)
        except SyntaxError as exc:
            faults.append(f"{place}:{exc.lineno}: does not parse")
            continue
        _read_module(module, place, tests, faults)
    unique = {key: tuple(dict.fromkeys(names)) for key, names in tests.items()}
    return Coverage(unique, tuple(faults))


def unknown_ids(ids: Iterable[str], catalog: Catalog) -> list[str]:
    """Return the ids that are not in the catalog, sorted."""
    return sorted(set(ids) - catalog.requirements.keys())


def find_gaps(catalog: Catalog, coverage: Coverage) -> list[Requirement]:
    """Return the due requirements that have no test."""
    return [r for r in catalog.due() if r.id not in coverage.tests]


# -- reading markers ------------------------------------------------------------------------------

_Owner: TypeAlias = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _read_module(
    module: ast.Module, place: str, tests: dict[str, list[str]], faults: list[str]
) -> None:
    read: set[ast.AST] = set()
    for name, expression in _marked(module, place):
        for node in ast.walk(expression):
            if isinstance(node, ast.Call) and _is_marker(node.func):
                read.add(node.func)
                if ids := _literal_ids(node):
                    for key in ids:
                        tests.setdefault(key, []).append(name)
                else:
                    faults.append(f"{place}:{node.lineno}: ids must be string literals")
    for node in ast.walk(module):
        if _is_marker(node) and node not in read:
            assert isinstance(node, ast.Attribute)
            faults.append(
                f"{place}:{node.lineno}: a marker needs ids and belongs on a test that runs"
            )


def _marked(owner: _Owner, name: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield each expression that can mark a test, with the name of the test, class or module."""
    for node in owner.body:
        match node:
            case ast.Assign(targets=[ast.Name("pytestmark")], value=value):
                yield name, value
            case ast.Assign(targets=[ast.Attribute(ast.Name(of), "pytestmark")], value=value):
                yield f"{name}::{of}", value
            case ast.ClassDef() if _counts_as_test(node):
                yield from ((f"{name}::{node.name}", mark) for mark in node.decorator_list)
                yield from _marked(node, f"{name}::{node.name}")
            case ast.FunctionDef() | ast.AsyncFunctionDef() if _counts_as_test(node):
                yield from ((f"{name}::{node.name}", mark) for mark in node.decorator_list)
            case _:
                pass


def _counts_as_test(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether pytest collects and runs `node`, and fails if it fails."""
    if not node.name.lower().startswith("test"):
        return False
    marks = (mark.func if isinstance(mark, ast.Call) else mark for mark in node.decorator_list)
    return not any(
        isinstance(mark, ast.Attribute) and mark.attr in {"skip", "xfail"} for mark in marks
    )


def _is_marker(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(ast.Attribute(attr="mark") | ast.Name("mark"), "requirement"):
            return True
        case _:
            return False


def _literal_ids(call: ast.Call) -> list[str]:
    ids = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return ids if len(ids) == len(call.args) and not call.keywords else []


# -- printing -------------------------------------------------------------------------------------


def render(catalog: Catalog, coverage: Coverage) -> Iterator[str]:
    """Yield the lines of the map: the requirements of each source with their tests, then the errors."""
    for source, title in catalog.sources.items():
        rows = [r for r in catalog.requirements.values() if r.source == source]
        tested = sum(r.id in coverage.tests for r in rows)
        yield f"{source}  {title}: {len(rows)} requirements, {tested} with tests"
        for row in rows:
            yield f"  {row.id:<13} {row.behaviour}"
            names = coverage.tests.get(row.id, ())
            yield from (f"      {name}" for name in names)
            if not names:
                is_due = row.step <= catalog.done_through_step
                yield "      GAP" if is_due else f"      step {row.step}"
        yield ""
    due = list(catalog.due())
    gaps = find_gaps(catalog, coverage)
    yield (
        f"{len(due)} of {len(catalog.requirements)} requirements are due "
        f"(through step {catalog.done_through_step}); {len(due) - len(gaps)} of them have a test."
    )
    yield from (f"gap: {gap.id} {gap.behaviour}" for gap in gaps)
    for key in unknown_ids(coverage.tests, catalog):
        yield f"unknown id: {key} in {', '.join(coverage.tests[key])}"
    yield from (f"fault: {fault}" for fault in coverage.faults)


def main() -> int:
    """Print the map, and return 1 if a due requirement has no test or a marker is wrong."""
    catalog, coverage = load_catalog(), read_coverage()
    print("\n".join(render(catalog, coverage)))
    wrong = find_gaps(catalog, coverage) or unknown_ids(coverage.tests, catalog) or coverage.faults
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
