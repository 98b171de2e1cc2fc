"""Benchmark: imports, each in a fresh interpreter, and the modules that they load."""

from __future__ import annotations

import resource
import subprocess
import sys

from bench.findings import Finding, compare, fact
from bench.harness import Case, Stopwatch

PEERS = ("langchain_core.messages", "openai", "pydantic_ai", "anthropic")
# msgspec imports typing_extensions if it is installed. Peers install it here; an environment with
# only steno does not have it, so it is hidden.
ALONE = "import sys; sys.modules['typing_extensions'] = None; "
# aiohttp is installed here for steno. SDKs import it if it is installed, so it is hidden from them.
UNAIDED = "import sys; sys.modules['aiohttp'] = None; "
LIST_FOREIGN = f"""
{ALONE}
before = set(sys.modules)
import steno
tops = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*sorted(tops - sys.stdlib_module_names - {{"steno"}}))
"""


def run(watch: Stopwatch) -> list[Finding]:
    """Time the imports, and list the third-party modules that steno loads."""
    empty, ours, msgspec, *others = watch.measure(
        "import: fresh interpreters",
        [
            Case("nothing", lambda: _run_python(ALONE)),
            Case("steno", lambda: _run_python(ALONE + "import steno")),
            Case("msgspec", lambda: _run_python(ALONE + "import msgspec")),
            *map(_import, PEERS),
        ],
        clock=_children_cpu,
    )
    foreign = _run_python(LIST_FOREIGN).split()
    work = "import steno, interpreter included"
    return [
        *compare(work, ours, msgspec, slower=1.6),
        *compare(work, ours, empty, *others),
        *compare("import steno, interpreter subtracted", ours.minus(empty), msgspec.minus(empty)),
        fact(
            "third-party modules after import steno",
            " ".join(foreign) or "none",
            goal="msgspec",
            met=foreign == ["msgspec"],
        ),
    ]


def _import(module: str) -> Case:
    return Case(module.partition(".")[0], lambda: _run_python(f"{UNAIDED}import {module}"))


def _run_python(code: str) -> str:
    # Isolated: neither environment variables nor the current folder affect imports.
    command = [sys.executable, "-I", "-c", code]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
