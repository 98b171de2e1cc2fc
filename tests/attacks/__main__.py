"""Run the attacks, print a summary, and write the page in the documentation.

    python -m tests.attacks [--only ID]... [--category C]... [--sandbox S]... [--user U]...
                            [--json FILE] [--jobs N] [--write]

The exit status is 1 if an attack succeeded that is no known limit, and 2 if an attack could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

from tests.attacks import report
from tests.attacks.catalog import SANDBOXES, USERS, Attack, load_catalog
from tests.attacks.configurations import ROOT, Configuration, find_configurations
from tests.attacks.worker import Verdict

_BAR: Final = 40


class Result(NamedTuple):
    """A verdict, and the configuration that it is about."""

    user: str
    sandbox: str
    verdict: Verdict


def main() -> int:
    """Run the program and return the exit status."""
    options = _read_options()
    catalog = load_catalog()
    chosen = [
        attack
        for attack in catalog.attacks.values()
        if (not options.only or attack.id in options.only)
        and (not options.category or attack.category in options.category)
        and (attack.fast or not options.fast)
    ]
    base = Path(tempfile.mkdtemp(prefix="sa-", dir="/var/tmp"))
    base.chmod(0o755)
    try:
        configurations = [*find_configurations(base, options.user, options.sandbox)]
        results = run_attacks(chosen, configurations, jobs=options.jobs)
    finally:
        shutil.rmtree(base, ignore_errors=True)
        subprocess.run(["rm", "-rf", base], check=False)
    for configuration in configurations:
        if configuration.problem:
            print(f"not run: {configuration.name}: {configuration.problem}")
    if options.json:
        rows = [[each.user, each.sandbox, *each.verdict] for each in results]
        Path(options.json).write_text(json.dumps(rows, indent=1), "utf-8")
    status = _summarize(results, catalog.attacks, shows_text=options.verbose)
    if options.write:
        is_complete = not (options.only or options.category or options.fast)
        problems = [c for c in configurations if c.problem]
        if is_complete and not problems:
            report.write(catalog, results)
        else:
            print("the page was not written, because the run is not complete")
    return status


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description="Run the attacks.")
    parser.add_argument("--only", action="append", metavar="ID", help="run this attack; repeatable")
    parser.add_argument("--category", action="append", help="run this category; repeatable")
    parser.add_argument("--sandbox", action="append", choices=SANDBOXES, help="repeatable")
    parser.add_argument("--user", action="append", choices=USERS, help="repeatable")
    parser.add_argument("--fast", action="store_true", help="run the share that `make test` runs")
    parser.add_argument("--json", metavar="FILE", help="write every verdict to this file")
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--write", action="store_true", help="write docs/security/attacks.md")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the output of attacks")
    options = parser.parse_args()
    options.sandbox = options.sandbox or SANDBOXES
    options.user = options.user or USERS
    return options


# -- running -------------------------------------------------------------------------------------


def run_attacks(
    attacks: Sequence[Attack], configurations: Iterable[Configuration], *, jobs: int
) -> list[Result]:
    results: list[Result] = []
    usable = [each for each in configurations if not each.problem]
    total = sum(attack.runs_in(each.user, each.sandbox) for each in usable for attack in attacks)
    for configuration in usable:
        queue: SimpleQueue[str] = SimpleQueue()
        for attack in attacks:
            if attack.runs_in(configuration.user, configuration.sandbox):
                queue.put(attack.id)
        threads = [
            threading.Thread(
                target=_work, args=(configuration, number, queue, results, total), daemon=True
            )
            for number in range(min(jobs, max(1, queue.qsize())))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print(file=sys.stderr)
    return results


def _work(
    configuration: Configuration,
    number: int,
    queue: SimpleQueue[str],
    results: list[Result],
    total: int,
) -> None:
    """Give the ids in a queue to a worker until the queue is empty; restart a worker that dies."""
    worker: subprocess.Popen[str] | None = None
    while True:
        try:
            id = queue.get_nowait()
        except Empty:
            break
        if worker is None or worker.poll() is not None:
            worker = _start(configuration)
        assert worker.stdin is not None
        assert worker.stdout is not None
        verdict = Verdict(id, (), "the worker died", 0.0, "")
        try:
            worker.stdin.write(f"{id}\n")
            worker.stdin.flush()
            if line := worker.stdout.readline():
                row = json.loads(line)
                verdict = Verdict(**{**row, "succeeded": tuple(row["succeeded"])})
        except BrokenPipeError:
            pass
        results.append(Result(configuration.user, configuration.sandbox, verdict))
        _show_progress(len(results), total, f"{configuration.name} {id}")
    if worker is not None:
        worker.communicate()


def _start(configuration: Configuration) -> subprocess.Popen[str]:
    return subprocess.Popen(
        configuration.command,
        cwd=ROOT,
        env=configuration.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _show_progress(done: int, total: int, name: str) -> None:
    filled = _BAR * done // max(1, total)
    bar = "#" * filled + "." * (_BAR - filled)
    end = "" if sys.stderr.isatty() else "\n"
    if end and done % 50 and done != total:
        return
    print(f"\r[{bar}] {done}/{total} {name:40}", end=end, file=sys.stderr, flush=True)


# -- summary -------------------------------------------------------------------------------------


def _summarize(results: Sequence[Result], attacks: dict[str, Attack], *, shows_text: bool) -> int:
    """Print what succeeded and what could not run; return the exit status."""
    groups: dict[str, dict[str, list[str]]] = {
        "could not run": {},
        "not needed": {},
        "succeeded": {},
    }
    for user, sandbox, verdict in sorted(results, key=lambda each: each.verdict.id):
        attack, place = attacks[verdict.id], f"{user}/{sandbox}"
        limit = attack.limit_for(user, sandbox)
        if shows_text:
            said = ", ".join(verdict.succeeded) or "withstood"
            print(f"-- {verdict.id} {place}: {said} {verdict.error}\n{verdict.text}\n")
        head = f"{verdict.id} {attack.title}"
        if verdict.error:
            kind, head = "could not run", f"{head}: {verdict.error}"
        elif verdict.succeeded and limit is None:
            kind, head = "succeeded", f"{head} ({', '.join(verdict.succeeded)})"
        elif limit is not None and not verdict.succeeded:
            kind, head = "not needed", f"{head} ({limit})"
        else:
            continue
        groups[kind].setdefault(head, []).append(place)
    titles = {"not needed": "known limits that were withstood"}
    for kind, lines in groups.items():
        if lines:
            print(f"\n{titles.get(kind, kind)}:")
        for head, places in lines.items():
            print(f"  {head}\n      {_join_places(places)}")
    open_, broken = (
        sum(map(len, groups[kind].values())) for kind in ("succeeded", "could not run")
    )
    withstood = sum(not each.verdict.succeeded and not each.verdict.error for each in results)
    limits = len(results) - withstood - open_ - broken
    print(
        f"\n{len({each.verdict.id for each in results})} attacks, {len(results)} runs: "
        f"{withstood} withstood, {limits} known limits, {open_} succeeded, {broken} could not run"
    )
    return 1 if open_ else 2 if broken else 0


def _join_places(places: Sequence[str]) -> str:
    """Return the configurations of an attack, grouped by user."""
    by_user: dict[str, list[str]] = {}
    for place in places:
        user, _, sandbox = place.partition("/")
        by_user.setdefault(user, []).append(sandbox)
    return "; ".join([f"{user}: {', '.join(names)}" for user, names in by_user.items()])


if __name__ == "__main__":
    sys.exit(main())
