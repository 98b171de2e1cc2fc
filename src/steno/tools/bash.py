"""The tools `bash`, `bash_output` and `bash_kill`: commands in the foreground and the background.

A command gets a clean environment, limits, and a sandbox where one works. `shell.command_parser`
splits a command line into the commands that rules are about; `shell.process` runs it. A background
job ends with the tool that started it, and these tools reach no other process.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from typing import Annotated, Final, final

from msgspec import Meta, Struct

from steno.errors import ToolFailed
from steno.messages.call import ToolCall
from steno.messages.tool import ToolDefinition
from steno.ports import Capability, ToolContext, ToolOutput
from steno.tools.arguments import parse_arguments
from steno.tools.programs import find_program
from steno.tools.shell.command_parser import split_commands
from steno.tools.shell.process import (
    CommandExit,
    CommandLimits,
    CommandProcess,
    append_notes,
    exit_details,
    exit_notes,
    exit_outcome,
)
from steno.tools.shell.sandbox import (
    Sandbox,
    SandboxScope,
    SandboxSetting,
    find_hidden_paths,
    find_sandbox,
)
from steno.tools.truncate import truncate_output
from steno.tools.workspace import Workspace
from steno.values import RedactedRepr

MAX_COMMAND_BYTES: Final = 100_000
"""Linux takes 128 KiB as one argument of a program, and the command is inside of one."""
MAX_WAIT_S: Final = 60
PASSED_VARIABLES: Final = (
    # The user and the machine.
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    # Where tools of a language are, or which of them are in use.
    *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "PYENV_VERSION"),
    *("NVM_DIR", "NVM_BIN", "PNPM_HOME", "VOLTA_HOME", "BUN_INSTALL", "DENO_DIR"),
    *("GOPATH", "GOROOT", "GOBIN", "CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME", "GEM_HOME"),
    *("NIX_PATH", "NIX_PROFILES", "LOCALE_ARCHIVE"),
)
"""Names of variables that are handed on; `*` stands for any ending."""
FIXED_VARIABLES: Final[Mapping[str, str]] = {
    "TERM": "dumb",
    # Nobody is there to turn pages or to type a password.
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}


@final
class CommandAccess(RedactedRepr, frozen=True, kw_only=True):
    """What commands may reach beyond the workspace."""

    network: bool = False
    """Matters where a sandbox can take it away."""
    environment: tuple[str, ...] = ()
    """Names of variables that are handed on besides the usual ones; `*` at the end is any."""
    hidden: tuple[Path, ...] = ()
    """What is not to be read, besides the usual places of secrets."""
    temporary: tuple[Path, ...] = (Path("/tmp"),)  # noqa: S108 - where commands expect it
    """Where commands may write as well, if the sandbox cannot give them a /tmp of their own."""


class BashArguments(Struct, forbid_unknown_fields=True):
    """What a command can be told."""

    command: Annotated[str, Meta(min_length=1, description="The command line, for bash -c.")]
    timeout_s: Annotated[
        int | None, Meta(description="Seconds after which it is ended with all it has started.")
    ] = None
    background: Annotated[
        bool, "Return at once with a job id, for bash_output and bash_kill. For servers."
    ] = False


@final
class BashTool:
    """Runs commands in the workspace. Close it: that ends what runs in the background."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        sandbox: Sandbox | SandboxSetting = SandboxSetting.AUTO,
        access: CommandAccess | None = None,
        limits: CommandLimits | None = None,
        environ: Mapping[str, str] | None = None,
        jobs: BackgroundJobs | None = None,
    ) -> None:
        self.capability: Final = Capability.EXECUTE
        self.ruled_as: Final[tuple[str, ...]] = ()
        self.jobs: Final = jobs if jobs is not None else BackgroundJobs()
        self._workspace = workspace
        self._sandbox = sandbox
        self._access = access if access is not None else CommandAccess()
        self._limits = limits if limits is not None else CommandLimits()
        self._environ = dict(os.environ if environ is None else environ)
        self._scratch: Path | None = None
        self.definition: Final = ToolDefinition.from_type(
            BashArguments,
            name="bash",
            description=(
                "Run a command in the workspace folder and return what it writes. Each call is a "
                "new shell without input. It has "
                f"{self._limits.timeout_s} s unless timeout_s says otherwise, "
                f"{self._limits.max_timeout_s} s at most; processes that it leaves behind are "
                "ended. Writing outside of the workspace and /tmp, reading secrets and using the "
                "network may be forbidden."
            ),
        )

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return the simple commands and redirections of the command line."""
        return split_commands(self._arguments(call).command)

    async def preview(self, call: ToolCall) -> str:
        """Return the command as it is, where it would run, and within which limits."""
        arguments = self._arguments(call)
        sandbox = await asyncio.to_thread(self._find_sandbox)
        seconds = self._timeout_of(arguments)
        notes = [
            f"in {self._workspace.root}",
            "in the background" if arguments.background else "",
            "until it is ended" if seconds is None else f"at most {seconds} s",
            f"sandbox: {sandbox.name}",
            "network allowed" if self._access.network else "",
        ]
        return f"{arguments.command}\n\n{' · '.join(filter(None, notes))}"

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run the command to its end, or start it in the background."""
        arguments = self._arguments(call)
        if arguments.background:
            return await self._run_in_background(arguments)
        voice = _LiveOutput(context, self._limits.shown_output_bytes)
        process, sandbox = await self._start(arguments.command, voice)
        ending = await process.wait(self._timeout_of(arguments))
        voice.close()
        text, details = await asyncio.to_thread(truncate_output, process.capture.take(), context)
        notes = exit_notes(ending)
        return ToolOutput.of(
            append_notes(text, notes) if text or notes else "[no output]",
            outcome=exit_outcome(ending),
            details={**exit_details(ending), "sandbox": sandbox, **details},
        )

    async def aclose(self) -> None:
        """End what runs in the background, and remove what was temporary."""
        await self.jobs.aclose()
        if self._scratch is not None:
            await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)
            self._scratch = None

    async def _run_in_background(self, arguments: BashArguments) -> ToolOutput:
        if self.jobs.running >= self._limits.max_jobs:
            raise ToolFailed(
                f"{self._limits.max_jobs} commands run in the background, and no more may; "
                "end one with bash_kill",
                code="too_many_jobs",
                place="bash",
            )
        process, sandbox = await self._start(arguments.command, None)
        job = self.jobs.add(arguments.command, process, timeout_s=self._timeout_of(arguments))
        return ToolOutput.of(
            f'[started as job {job.id}; call bash_output with job "{job.id}" for what it writes]',
            details={"job": job.id, "sandbox": sandbox},
        )

    async def _start(self, command: str, voice: _LiveOutput | None) -> tuple[CommandProcess, str]:
        """Start a command; return it, and the name of the sandbox it is in."""
        sandbox = await asyncio.to_thread(self._find_sandbox)
        environ = build_environment(self._environ, self._access.environment)
        if sandbox.is_wrapper:
            environ["TMPDIR"] = "/tmp"  # noqa: S108 - the command's own, as the sandbox shows it
        shell = find_program("bash", outside=self._workspace.roots, path=environ["PATH"])
        argv = sandbox.wrap((str(shell or "/bin/sh"), "-c", command), self._sandbox_scope(environ))
        process = await CommandProcess.start(
            argv,
            folder=self._workspace.root,
            environ=environ,
            limits=self._limits,
            is_wrapped=sandbox.is_wrapper,
            listener=voice,
        )
        return process, sandbox.name

    def _find_sandbox(self) -> Sandbox:
        if isinstance(self._sandbox, SandboxSetting):
            self._sandbox = find_sandbox(self._sandbox, outside=self._workspace.roots)
        return self._sandbox

    def _sandbox_scope(self, environ: Mapping[str, str]) -> SandboxScope:
        temporary = self._access.temporary
        if "TMPDIR" in environ:
            temporary = (*temporary, Path(environ["TMPDIR"]))
        return SandboxScope(
            roots=self._workspace.roots,
            hidden=find_hidden_paths(self._environ, self._access.hidden),
            scratch=self._scratch_folder(),
            temporary=temporary,
            network=self._access.network,
        )

    def _scratch_folder(self) -> Path:
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="steno-")).resolve()
            # For programs that end without closing.
            weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        return self._scratch

    def _arguments(self, call: ToolCall) -> BashArguments:
        """Return the arguments. Raises ToolFailed for what no shell could be given."""
        arguments = parse_arguments(call, BashArguments)
        if not arguments.command.strip():
            raise ToolFailed("the command is empty", code="command_empty", place="bash")
        if "\0" in arguments.command:
            raise ToolFailed(
                "the command holds a NUL character, which no shell can read",
                code="command_has_nul",
                place="bash",
            )
        if len(arguments.command.encode()) > MAX_COMMAND_BYTES:
            raise ToolFailed(
                f"the command has more than {MAX_COMMAND_BYTES:,} bytes; "
                "write them to a file first",
                code="command_too_long",
                place="bash",
            )
        if arguments.timeout_s is not None and not (
            1 <= arguments.timeout_s <= self._limits.max_timeout_s
        ):
            raise ToolFailed(
                f"timeout_s must be from 1 to {self._limits.max_timeout_s}",
                code="timeout_out_of_range",
                place="bash",
            )
        return arguments

    def _timeout_of(self, arguments: BashArguments) -> int | None:
        """Return how long a command may run; in the background without end, unless it says so."""
        if arguments.timeout_s is not None or arguments.background:
            return arguments.timeout_s
        return self._limits.timeout_s


class _LiveOutput:
    """Says what a command writes, as text, up to a limit."""

    def __init__(self, context: ToolContext, max_bytes: int) -> None:
        self._context = context
        self._left = max_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def __call__(self, data: bytes) -> None:
        if self._left <= 0:
            return
        text = self._decoder.decode(data[: self._left])
        self._left -= len(data)
        if self._left <= 0:
            text += "\n[... there is more, which is not shown while it runs ...]\n"
        if text:
            self._context.report_output(text)

    def close(self) -> None:
        """Say the rest, if the last character was never finished."""
        rest = self._decoder.decode(b"", final=True)
        if rest:
            self._context.report_output(rest)


# -- environment ----------------------------------------------------------------------------------

_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|SESSION|PRIVATE|(^|_)(PAT|PWD?|DSN|JWT)$"
    r"|^(AWS|AZURE|GOOGLE|GCP|OPENAI|ANTHROPIC|HF)_|DATABASE_URL|PROXY",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Tell whether a variable of this name may hold a secret."""
    return _SECRET_NAME.search(name) is not None


def build_environment(environ: Mapping[str, str], extra: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables a command is run with.

    `extra` are more names to hand on. A name that looks like a secret is handed on only if it is
    written out in full there: no pattern covers it.
    """
    patterns = (*PASSED_VARIABLES, *extra)
    passed = {
        name: value
        for name, value in environ.items()
        if name in patterns
        or (not is_secret_name(name) and any(fnmatchcase(name, each) for each in patterns))
    }
    return {"PATH": os.defpath, **passed, **FIXED_VARIABLES}


# -- background jobs ------------------------------------------------------------------------------

_MAX_ENDED_JOBS: Final = 64
"""How many jobs that have ended can still be asked about."""


@final
class Job:
    """One command in the background."""

    def __init__(
        self, id: str, command: str, process: CommandProcess, timeout_s: int | None
    ) -> None:
        self.id = id
        self.command = command
        self._process = process
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.output_lock: Final = asyncio.Lock()
        """For those who ask: what is told to one is not told to another, so each comes in turn."""
        self._ending = asyncio.create_task(process.wait(timeout_s), name=f"bash job {id}")
        # Whoever asks gets the failure; if nobody does, that is no reason to complain.
        self._ending.add_done_callback(lambda task: task.cancelled() or task.exception())

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return not self._ending.done()

    async def wait(self, seconds: float) -> None:
        """Wait for its end, at most for some time."""
        await asyncio.wait([self._ending], timeout=seconds)

    async def end(self) -> None:
        """End it, with all that it has started."""
        self._process.stop()
        await asyncio.wait([self._ending])

    @contextmanager
    def take_output(self) -> Generator[tuple[str, CommandExit | None], None, None]:
        """Give what it has said since it was last told, and how it ended if it has.

        It counts as told if the block comes to its end. Raises ToolFailed if it turned out that
        it could not be started.
        """
        ending = None if self.is_running else self._ending.result()
        state, said = self._decoder.getstate(), self._process.capture.take()
        try:
            yield self._decoder.decode(said, final=ending is not None), ending
        except BaseException:
            self._decoder.setstate(state)
            self._process.capture.restore(said)
            raise


@final
class BackgroundJobs:
    """The commands that run in the background, by their ids."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._numbers = count(1)

    @property
    def running(self) -> int:
        """How many have not ended."""
        return sum(job.is_running for job in self._jobs.values())

    def add(self, command: str, process: CommandProcess, *, timeout_s: int | None) -> Job:
        """Keep a command that was started, and end it after some time if one is given."""
        ended = [id for id, job in self._jobs.items() if not job.is_running]
        for id in ended[: max(0, len(ended) - _MAX_ENDED_JOBS + 1)]:
            del self._jobs[id]
        job = Job(str(next(self._numbers)), command, process, timeout_s)
        self._jobs[job.id] = job
        return job

    def get(self, id: str) -> Job:
        """Return a job. Raises ToolFailed."""
        try:
            return self._jobs[id]
        except KeyError:
            known = ", ".join(self._jobs) or "none"
            raise ToolFailed(
                f"there is none of this id; those there are: {known}",
                code="job_not_found",
                place="job",
            ) from None

    async def aclose(self) -> None:
        """End all of them."""
        jobs = [*self._jobs.values()]
        self._jobs.clear()
        await asyncio.gather(*[job.end() for job in jobs])


class BashOutputArguments(Struct, forbid_unknown_fields=True):
    """What can be asked about a job."""

    job: Annotated[str, "The id that bash gave."]
    wait_s: Annotated[
        int, Meta(ge=0, le=MAX_WAIT_S, description="Wait up to so many seconds for its end.")
    ] = 0


@final
class BashOutputTool:
    """Tells what a command in the background has said."""

    def __init__(self, jobs: BackgroundJobs) -> None:
        self.capability: Final = Capability.READ
        self.ruled_as: Final[tuple[str, ...]] = ()
        self._jobs = jobs
        self.definition: Final = ToolDefinition.from_type(
            BashOutputArguments,
            name="bash_output",
            description="Read what a background command has written since you last asked, and "
            "whether it still runs.",
        )

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return nothing: a job is nothing that one could write a rule about."""
        return ()

    async def preview(self, call: ToolCall) -> str:
        """Return the command in question."""
        return self._jobs.get(parse_arguments(call, BashOutputArguments).job).command

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Return what is new."""
        arguments = parse_arguments(call, BashOutputArguments)
        job = self._jobs.get(arguments.job)
        async with job.output_lock:
            if arguments.wait_s:
                await job.wait(arguments.wait_s)
            return await _build_job_output(job, context)


class BashKillArguments(Struct, forbid_unknown_fields=True):
    """Which job to end."""

    job: Annotated[str, "The id that bash gave."]


@final
class BashKillTool:
    """Ends a command in the background."""

    def __init__(self, jobs: BackgroundJobs) -> None:
        self.capability: Final = Capability.EXECUTE
        self.ruled_as: Final[tuple[str, ...]] = ()
        self._jobs = jobs
        self.definition: Final = ToolDefinition.from_type(
            BashKillArguments,
            name="bash_kill",
            description="End a background command and every process it has started.",
        )

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return nothing: a job is nothing that one could write a rule about."""
        return ()

    async def preview(self, call: ToolCall) -> str:
        """Return the command in question."""
        return self._jobs.get(parse_arguments(call, BashKillArguments).job).command

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """End it, and return the last that it said."""
        job = self._jobs.get(parse_arguments(call, BashKillArguments).job)
        await job.end()
        async with job.output_lock:
            return await _build_job_output(job, context)


async def _build_job_output(job: Job, context: ToolContext) -> ToolOutput:
    with job.take_output() as (text, ending):
        shown, details = await asyncio.to_thread(truncate_output, text, context)
    known = {"job": job.id, "running": ending is None}
    if ending is None:
        return ToolOutput.of(append_notes(shown, ["still running"]), details={**known, **details})
    notes = exit_notes(ending) or ["exit code 0"]
    return ToolOutput.of(
        append_notes(shown, notes), details={**known, **exit_details(ending), **details}
    )
