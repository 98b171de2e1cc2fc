"""Write the page docs/security/attacks.md from the results of a complete run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol

from tests.attacks.catalog import SANDBOXES, USERS, Catalog
from tests.attacks.worker import Verdict

PAGE: Final = Path(__file__).parents[2] / "docs" / "security" / "attacks.md"
_SANDBOX_TITLES: Final = {
    "bubblewrap": "bubblewrap",
    "landlock": "Landlock",
    "landlock-alone": "Landlock alone",
    "none": "none",
}
_HEADING: Final = """\
# Attacks

`make attacks` runs attacks on steno and writes this page.
Each attack is a row of data in `tests/attacks/data`: what it tries, and the observation that proves its success.
It runs in a fresh folder, against the tools, the library and the command line as users have them.

{count} attacks were run in {runs} combinations of a user and a sandbox.
{withstood} of them were withstood, and {limits} are known limits, which the second table explains.

- *root* is the superuser, *user* a user without rights.
- *Landlock* may create namespaces of its own; *Landlock alone* may not, as in many containers.
- *none* is steno without a sandbox: a command has all rights of the user, so many attacks with commands succeed.
- A dash means that the attacks of a category do not depend on the sandbox, or that the configuration has none.

## Results

A cell contains the number of attacks that were withstood, and the number of known limits after a plus sign.

"""
_LIMITS_HEADING: Final = """
## Known limits

| limit | attacks | documented in |
|---|---|---|
"""


class _Result(Protocol):
    @property
    def user(self) -> str: ...
    @property
    def sandbox(self) -> str: ...
    @property
    def verdict(self) -> Verdict: ...


def write(catalog: Catalog, results: Sequence[_Result]) -> None:
    """Write the page."""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page_text(catalog, results), "utf-8")


def page_text(catalog: Catalog, results: Sequence[_Result]) -> str:
    """Return the page for the results of a complete run."""
    withstood = sum(not each.verdict.succeeded for each in results)
    open_ = [each for each in results if _is_open(catalog, each)]
    parts = [
        _HEADING.format(
            count=len({each.verdict.id for each in results}),
            runs=f"{len(results):,}",
            withstood=f"{withstood:,}",
            limits=f"{len(results) - withstood - len(open_):,}",
        ),
        *_table(catalog, results),
        *_open(catalog, open_),
        *_limits(catalog, results),
    ]
    return "".join(parts)


def _is_open(catalog: Catalog, result: _Result) -> bool:
    """Return whether an attack succeeded that is no known limit, or could not run."""
    limit = catalog.attacks[result.verdict.id].limit_for(result.user, result.sandbox)
    return bool(result.verdict.error) or bool(result.verdict.succeeded and limit is None)


def _open(catalog: Catalog, results: Sequence[_Result]) -> Iterable[str]:
    """Yield the list of the attacks that succeed and should not; there should be none."""
    places: dict[str, list[str]] = {}
    for each in sorted(results, key=lambda each: each.verdict.id):
        place = f"{each.user}, {_SANDBOX_TITLES[each.sandbox]}"
        places.setdefault(each.verdict.id, []).append(place)
    if places:
        yield "\n## Not withstood\n\n| attack | what it does | as |\n|---|---|---|\n"
    for id, names in places.items():
        yield f"| {id} | {catalog.attacks[id].title} | {'; '.join(names)} |\n"


def _table(catalog: Catalog, results: Sequence[_Result]) -> Iterable[str]:
    columns = [(user, sandbox) for user in USERS for sandbox in SANDBOXES]
    titles = [f"{user}, {_SANDBOX_TITLES[sandbox]}" for user, sandbox in columns]
    yield f"| category | attacks | {' | '.join(titles)} |\n"
    yield f"|---|--:|{'--:|' * len(columns)}\n"
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for each in results:
        category = catalog.attacks[each.verdict.id].category
        is_open = _is_open(catalog, each)
        kind = "open" if is_open else "limit" if each.verdict.succeeded else "withstood"
        counts[category, each.user, each.sandbox, kind] += 1
    for category, title in catalog.categories.items():
        number = sum(attack.category == category for attack in catalog.attacks.values())
        cells: list[str] = []
        for column in columns:
            good, known, bad = (
                counts[category, *column, kind] for kind in ("withstood", "limit", "open")
            )
            cell = f"{good}{f' + {known}' if known else ''}{f' (**{bad} not**)' if bad else ''}"
            cells.append(cell if good or known or bad else "–")
        yield f"| {title} | {number} | {' | '.join(cells)} |\n"


def _limits(catalog: Catalog, results: Sequence[_Result]) -> Iterable[str]:
    ids: dict[str, dict[str, None]] = {}
    for each in sorted(results, key=lambda each: each.verdict.id):
        name = catalog.attacks[each.verdict.id].limit_for(each.user, each.sandbox)
        if each.verdict.succeeded and name is not None:
            ids.setdefault(name, {})[each.verdict.id] = None
    if ids:
        yield _LIMITS_HEADING
    for name, reason in catalog.reasons.items():
        if name in ids:
            file = reason.documented.partition(": ")[0]
            link = f"[{file.rpartition('/')[2]}]({_relative(file)})"
            yield f"| {reason.text} | {', '.join(ids[name])} | {link} |\n"


def _relative(file: str) -> str:
    return f"../{file.removeprefix('docs/')}" if file.startswith("docs/") else f"../../{file}"
