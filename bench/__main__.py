"""Run the benchmarks and report: `python -m bench`, from the root of the repository."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bench import (
    agent,
    arguments,
    assembly,
    codec,
    construct,
    history,
    log,
    long_content,
    loopback,
    memory,
    plot,
    report,
    sandbox,
    startup,
    terminal,
    tools,
    wires,
)
from bench.findings import Finding
from bench.harness import Settings, Stopwatch

WORKS: dict[str, Callable[[Stopwatch], list[Finding]]] = {
    "construct": construct.run,
    "long": long_content.run,
    "codec": codec.run,
    "arguments": arguments.run,
    "assembly": assembly.run,
    "memory": memory.run,
    "startup": startup.run,
    "history": history.run,
    "tools": tools.run,
    "sandbox": sandbox.run,
    "wires": wires.run,
    "loopback": loopback.run,
    "log": log.run,
    "agent": agent.run,
    "terminal": terminal.run,
}
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Measure, print the table, write the results; return 1 if --strict is set and a goal missed."""
    options = _read_options()
    watch = Stopwatch(Settings.quick() if options.quick else Settings())
    gc.freeze()  # objects created by imports must not cost any candidate collector time
    findings = [found for name in options.only or WORKS for found in WORKS[name](watch)]
    RESULTS.mkdir(exist_ok=True)
    name = "partial" if options.only else "latest"
    report.save(findings, RESULTS / name, asdict(watch.settings))
    plot.draw(findings, RESULTS / f"{name}.svg")
    print(report.in_text(findings))
    print()
    print(report.verdict(findings))
    print(f"Wrote {name}.md, {name}.json and {name}.svg to bench/results.")
    return int(options.strict and any(found.met is False for found in findings))


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        choices=WORKS,
        help=f"run only this benchmark, one of {', '.join(WORKS)}; repeatable",
    )
    parser.add_argument("--quick", action="store_true", help="use short rounds")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is missed")
    return parser.parse_args()


sys.exit(main())
