"""Benchmark: a command that does nothing, in each sandbox and without one."""

from __future__ import annotations

import asyncio
import os
import resource
import tempfile
from functools import partial
from pathlib import Path

from bench import report
from bench.findings import Finding, below
from bench.harness import Case, Settings, Stopwatch
from steno.tools.shell.process import CommandLimits, CommandProcess
from steno.tools.shell.sandbox import (
    LandlockSandbox,
    NoSandbox,
    Sandbox,
    SandboxScope,
    find_working_sandboxes,
)

LIMIT_S = 15e-3
PROTECTED = (".git/hooks", ".git/config", ".steno", ".mcp.json", ".vscode", ".idea", ".envrc")


def run(watch: Stopwatch) -> list[Finding]:
    """Time `true` with a typical scope, from the call to the exit, with the processes of the sandbox."""
    sandboxes = [NoSandbox("a benchmark"), *find_working_sandboxes()]
    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory() as name:
        scope = _make_scope(Path(name).resolve())
        none, *confined = watch.measure(
            "sandbox: a command that does nothing",
            [Case(_name(each), partial(_run, loop, each, scope)) for each in sandboxes],
            clock=_cpu,
        )
    loop.close()
    return [
        Finding(f"`true` with sandbox {none.name}", none),
        *[
            below(
                f"`true` with sandbox {timing.name}, more than without", timing.minus(none), LIMIT_S
            )
            for timing in confined
        ],
    ]


def _name(sandbox: Sandbox) -> str:
    is_alone = isinstance(sandbox, LandlockSandbox) and not sandbox.has_namespaces
    return f"{sandbox.name} without namespaces" if is_alone else sandbox.name


def _make_scope(folder: Path) -> SandboxScope:
    """Return the scope of a repository: half of the protected paths exist."""
    work, scratch = folder / "work", folder / "scratch"
    (work / ".git" / "hooks").mkdir(parents=True)
    (work / ".git" / "config").touch()
    (work / ".env").touch()
    scratch.mkdir()
    return SandboxScope(
        roots=(work,),
        protected=tuple(work / name for name in PROTECTED),
        hidden=(work / ".env",),
        scratch=scratch,
    )


def _run(loop: asyncio.AbstractEventLoop, sandbox: Sandbox, scope: SandboxScope) -> None:
    loop.run_until_complete(_run_true(sandbox, scope))


async def _run_true(sandbox: Sandbox, scope: SandboxScope) -> None:
    process = await CommandProcess.start(
        ("true",),
        folder=scope.roots[0],
        environ={"PATH": os.environ["PATH"]},
        limits=CommandLimits(),
        confinement=sandbox.confine(scope),
    )
    ended = await process.wait()
    assert ended.exit_code == 0, process.capture.take()


def _cpu() -> float:
    """Return the CPU time of this process and of the ended processes that descend from it."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    print(report.in_text(run(Stopwatch(Settings()))))
