"""Report the results: a table for the terminal, and files in Markdown and JSON."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.findings import Finding, show_ratio, show_timing

HEAD = ("work", "steno", "peer", "its cost", "steno is", "goal", "ok?")
PACKAGES = (
    "steno-agent",
    "msgspec",
    "orjson",
    "pydantic",
    "pydantic-ai-slim",
    "langchain-core",
    "openai",
    "anthropic",
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "openai-agents",
    "textual",
    "aiohttp",
)


def rows(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Return the cells of the table; a benchmark is named on its first line only."""
    table: list[tuple[str, ...]] = []
    last = ""
    for found in findings:
        named = (found.work, _ours(found)) if found.work != last else ("", "")
        peer = found.peer
        theirs = ("", "") if peer is None else (peer.name, show_timing(peer, found.unit))
        ratio = "" if found.ratio is None else show_ratio(found.ratio, found.unit)
        met = "" if found.met is None else "yes" if found.met else "NO"
        table.append((*named, *theirs, ratio, found.goal, met))
        last = found.work
    return table


def _ours(found: Finding) -> str:
    return found.ours if isinstance(found.ours, str) else show_timing(found.ours, found.unit)


def in_text(findings: Sequence[Finding]) -> str:
    """Return the table for a terminal."""
    table = [HEAD, *rows(findings)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def verdict(findings: Sequence[Finding]) -> str:
    """Return a paragraph that states whether the goals are met, and lists missed goals."""
    goals = [found for found in findings if found.met is not None]
    missed = [found for found in goals if not found.met]
    if not missed:
        return f"All {len(goals)} goals are met."
    lines = [f"!!! {len(missed)} of {len(goals)} goals are MISSED:"]
    for found in missed:
        if found.peer is not None and found.ratio is not None:
            is_now = f"{show_ratio(found.ratio, found.unit)} than {found.peer.name}"
        else:
            is_now = _ours(found)
        lines.append(f"!!!   {found.work}: {is_now}, goal {found.goal}")
    return "\n".join(lines)


def save(findings: Sequence[Finding], path: Path, settings: dict[str, Any]) -> None:
    """Write `path`.json and `path`.md."""
    where = _describe_run(settings)
    record = {**where, "findings": [{**asdict(f), "ratio": f.ratio} for f in findings]}
    text = json.dumps(record, indent=1, ensure_ascii=False)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(_in_markdown(findings, where), encoding="utf-8")


def _in_markdown(findings: Sequence[Finding], where: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items())
    table = [HEAD, ("---",) * len(HEAD), *rows(findings)]
    lines = [
        "# Speed and size",
        "",
        f"- machine: {where['machine']}",
        f"- Python: {where['python']}",
        f"- versions: {versions}",
        f"- command: `{where['command']}`, {where['when']}",
        f"- CPU time, {where['settings']['rounds']} rounds: minimum (median)",
        "- ratio: of minima or of medians, whichever is less favourable to steno",
        "",
        *(f"| {' | '.join(row)} |" for row in table),
        "",
        *(f"{line}  " for line in verdict(findings).splitlines()),
    ]
    return "\n".join(lines) + "\n"


def _describe_run(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": {name: version(name) for name in PACKAGES},
        "command": shlex.join(["python", "-m", "bench", *sys.argv[1:]]),
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "settings": settings,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
