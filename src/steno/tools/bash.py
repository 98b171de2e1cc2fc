"""The tools `bash`, `bash_output` and `bash_kill`: commands in the foreground and the background.

Each command runs with a filtered environment, limits, and a sandbox if one works on this machine.
`shell.command_parser` splits a command line into the commands that permission rules match, and
`shell.process` runs the command line. A background job ends when the tool that started it is
closed. `bash_output` and `bash_kill` cannot access any other process.
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
from typing import Annotated, ClassVar, Final, final

from msgspec import Meta, Struct

from steno.errors import ToolFailed
from steno.lazy_task import start_task
from steno.messages.call import ToolCall
from steno.messages.tool import ToolDefinition
from steno.ports import (
    CallPreview,
    Capability,
    PreviewKind,
    PreviewPart,
    Subject,
    ToolContext,
    ToolOutput,
)
from steno.tools.calls import call_headline, parse_arguments
from steno.tools.programs import find_program
from steno.tools.shell.command_parser import parse_command_line
from steno.tools.shell.command_subjects import LocatedPath, build_subjects
from steno.tools.shell.process import CommandExit, CommandLimits, CommandProcess, append_notes
from steno.tools.shell.sandbox import (
    NetworkAccess,
    NoSandbox,
    Sandbox,
    SandboxScope,
    SandboxSetting,
    find_hidden_paths,
    find_sandbox,
)
from steno.tools.truncate import truncate_output
from steno.tools.workspace import Workspace
from steno.values import RedactedRepr, is_utf8_text

MAX_COMMAND_BYTES: Final = 100_000
"""The maximum length of a command line.

Linux limits each argument of a program to 128 KiB, and the command line is a part of one argument.
"""
MAX_WAIT_S: Final = 60
PASSED_VARIABLES: Final = (
    # The user and the machine.
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    # Locations and versions of language toolchains.
    *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "PYENV_VERSION"),
    *("NVM_DIR", "NVM_BIN", "PNPM_HOME", "VOLTA_HOME", "BUN_INSTALL", "DENO_DIR"),
    *("GOPATH", "GOROOT", "GOBIN", "CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME", "GEM_HOME"),
    *("NIX_PATH", "NIX_PROFILES", "LOCALE_ARCHIVE"),
)
"""Names of environment variables that commands inherit; `*` matches any suffix."""
FIXED_VARIABLES: Final[Mapping[str, str]] = {
    "TERM": "dumb",
    # Commands have no terminal: a pager or a password prompt would wait forever.
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}


@final
class CommandAccess(RedactedRepr, frozen=True, kw_only=True):
    """The resources outside of the workspace that commands may use."""

    network: bool = False
    """Whether commands may use the network. Only a sandbox can block it."""
    environment: tuple[str, ...] = ()
    """Names of further environment variables to inherit; `*` at the end matches any suffix."""
    hidden: tuple[Path, ...] = ()
    """Paths that commands may not read, in addition to the known locations of secrets."""
    temporary: tuple[Path, ...] = (Path("/tmp"),)  # noqa: S108 - where commands expect it
    """Further folders that commands may write to, if the sandbox cannot provide a private /tmp."""


class BashArguments(Struct, forbid_unknown_fields=True):
    """The arguments of the tool `bash`."""

    command: Annotated[str, Meta(min_length=1, description="The command line to run with bash -c.")]
    timeout_s: Annotated[
        int | None,
        Meta(
            description="Time limit in seconds; after it, the command and every process it started"
            " are ended."
        ),
    ] = None
    background: Annotated[
        bool,
        "Run the command in the background and return a job ID at once, for bash_output and"
        " bash_kill. Use it for servers and other commands that keep running.",
    ] = False


@final
class BashTool:
    """Runs commands in the workspace. Close it to end the background jobs."""

    headline = staticmethod(call_headline)

    def __init__(
        self,
        workspace: Workspace,
        *,
        sandbox: Sandbox | SandboxSetting = SandboxSetting.AUTO,
        access: CommandAccess | None = None,
        limits: CommandLimits | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.capability: Final = Capability.EXECUTE
        self.rule_aliases: Final[tuple[str, ...]] = ()
        self.jobs: Final = BackgroundJobs()
        self._workspace = workspace
        self._sandbox = sandbox
        self._access = access or CommandAccess()
        self._limits = limits or CommandLimits()
        self._environ = dict(os.environ if environ is None else environ)
        self._scratch: Path | None = None
        self.definition: Final = ToolDefinition.from_type(
            BashArguments,
            name="bash",
            description=(
                "Run a shell command in the working directory and return its output. Each call "
                "starts a new shell: variables and directory changes do not carry over. Commands "
                "get no input, so avoid interactive ones. The time limit is "
                f"{self._limits.timeout_s} s; set timeout_s to change it, up to "
                f"{self._limits.max_timeout_s} s. Processes that still run when the command exits "
                "are ended; set background to keep a command running. Long output is shown in "
                "part, with a note on how to read the rest. Writing outside of the workspace and /tmp,"
                " reading secrets and using the network may be forbidden."
            ),
        )

    @property
    def has_reading_calls(self) -> bool:
        """Whether commands that only read are known: only a sandbox guarantees it."""
        return self._is_confined

    def subjects(self, call: ToolCall) -> tuple[Subject, ...]:
        """Return the simple commands of the command line, and the files that they name."""
        command = self._arguments(call).command
        return build_subjects(
            parse_command_line(command),
            text=command,
            locate=self._locate,
            is_confined=self._is_confined,
        )

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return the command, its working directory, its limits and its sandbox."""
        arguments = self._arguments(call)
        sandbox = await asyncio.to_thread(self._find_sandbox)
        seconds = self._timeout_of(arguments)
        notes = [
            f"in {self._workspace.root}",
            "in the background" if arguments.background else "",
            "no time limit" if seconds is None else f"at most {seconds} s",
            f"sandbox: {sandbox.name}"
            if sandbox.is_confining
            else "no sandbox: this command can change everything that you can",
            "network allowed" if self._access.network else "",
        ]
        return CallPreview(
            (
                PreviewPart(PreviewKind.TEXT, arguments.command),
                PreviewPart(PreviewKind.NOTE, " · ".join(filter(None, notes))),
            ),
            shown_arguments=("command", *(() if arguments.timeout_s is None else ("timeout_s",))),
        )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run the command and wait until it ends, or start it in the background."""
        arguments = self._arguments(call)
        if arguments.background:
            return await self._run_in_background(arguments)
        live_output = _LiveOutput(context, self._limits.max_live_bytes)
        process, sandbox = await self._start(arguments.command, live_output)
        command_exit = await process.wait(self._timeout_of(arguments))
        live_output.close()
        text, details = await asyncio.to_thread(truncate_output, process.capture.take(), context)
        notes = command_exit.notes
        return ToolOutput.of(
            append_notes(text, notes) if text or notes else "[no output]",
            outcome=command_exit.outcome,
            details={**command_exit.details, "sandbox": sandbox, **details},
        )

    async def aclose(self) -> None:
        """End the background jobs, and remove the temporary folder."""
        await self.jobs.aclose()
        if self._scratch is not None:
            await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)
            self._scratch = None

    async def _run_in_background(self, arguments: BashArguments) -> ToolOutput:
        if self.jobs.running >= self._limits.max_jobs:
            problem = f"the limit of {self._limits.max_jobs} background commands is reached"
            raise _refusal(f"{problem}; end one with bash_kill", code="too_many_jobs")
        process, sandbox = await self._start(arguments.command, None)
        job = self.jobs.add(arguments.command, process, timeout_s=self._timeout_of(arguments))
        return ToolOutput.of(
            f'[started as job {job.id}; call bash_output with job "{job.id}" to read its output]',
            details={"job": job.id, "sandbox": sandbox},
        )

    async def _start(
        self, command: str, live_output: _LiveOutput | None
    ) -> tuple[CommandProcess, str]:
        """Start a command; return its process and the name of its sandbox."""
        sandbox = await asyncio.to_thread(self._find_sandbox)
        environ = build_environment(self._environ, self._access.environment)
        if sandbox.has_own_files:
            environ["TMPDIR"] = "/tmp"  # noqa: S108 - a private folder inside the sandbox
        shell = find_program("bash", outside=self._workspace.roots, path=environ["PATH"])
        scope = self._sandbox_scope(environ)
        confinement = await asyncio.to_thread(sandbox.confine, scope)
        process = await CommandProcess.start(
            (str(shell or "/bin/sh"), "-c", command),
            folder=self._workspace.root,
            environ=environ,
            limits=self._limits,
            confinement=confinement,
            on_output=live_output,
        )
        return process, sandbox.name

    @property
    def _is_confined(self) -> bool:
        return not isinstance(self._find_sandbox(), NoSandbox)

    def _locate(self, folder: str, path: str) -> LocatedPath | None:
        """Resolve a path in a working directory, which is relative to the workspace."""
        real = os.path.realpath(self._workspace.root / folder / path)
        if not is_utf8_text(real):
            return None
        policy = self._workspace.policy
        return LocatedPath(
            self._workspace.relative_of_real_path(real),
            is_inside=any(Path(real).is_relative_to(root) for root in self._workspace.roots),
            is_secret=policy.is_secret(real),
            is_protected=policy.is_protected(real),
        )

    def _find_sandbox(self) -> Sandbox:
        if isinstance(self._sandbox, SandboxSetting):
            self._sandbox = find_sandbox(self._sandbox, outside=self._workspace.roots)
        return self._sandbox

    def _sandbox_scope(self, environ: Mapping[str, str]) -> SandboxScope:
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="steno-")).resolve()
            # For programs that end without closing the tool.
            weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        temporary = self._access.temporary
        if "TMPDIR" in environ:
            temporary = (*temporary, Path(environ["TMPDIR"]))
        return SandboxScope(
            roots=self._workspace.roots,
            hidden=find_hidden_paths(self._environ, self._access.hidden),
            scratch=self._scratch,
            temporary=temporary,
            network=NetworkAccess.ALL if self._access.network else NetworkAccess.NONE,
        )

    def _arguments(self, call: ToolCall) -> BashArguments:
        """Return the arguments. Raises ToolFailed if the command or the time limit is invalid."""
        arguments = parse_arguments(call, BashArguments)
        if not arguments.command.strip():
            raise _refusal("the command is empty", code="empty_command")
        if "\0" in arguments.command:
            problem = "the command contains a NUL character; remove it"
            raise _refusal(problem, code="command_has_nul")
        if len(arguments.command.encode()) > MAX_COMMAND_BYTES:
            problem = f"the command has more than {MAX_COMMAND_BYTES:,} bytes"
            raise _refusal(f"{problem}; write long input to a file", code="command_too_long")
        most = self._limits.max_timeout_s
        if arguments.timeout_s is not None and not 1 <= arguments.timeout_s <= most:
            raise _refusal(f"timeout_s must be from 1 to {most}", code="timeout_out_of_range")
        return arguments

    def _timeout_of(self, arguments: BashArguments) -> int | None:
        """Return the time limit in seconds; None for a background job without a limit."""
        if arguments.timeout_s is not None or arguments.background:
            return arguments.timeout_s
        return self._limits.timeout_s


def _refusal(message: str, *, code: str) -> ToolFailed:
    return ToolFailed(message, code=code, place="bash")


class _LiveOutput:
    """Reports the output of a command as text while it runs, up to a limit."""

    def __init__(self, context: ToolContext, max_bytes: int) -> None:
        self._context = context
        self._remaining_bytes = max_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def __call__(self, data: bytes) -> None:
        if self._remaining_bytes <= 0:
            return
        text = self._decoder.decode(data[: self._remaining_bytes])
        self._remaining_bytes -= len(data)
        if self._remaining_bytes <= 0:
            text += "\n[... further output is not shown while the command runs ...]\n"
        if text:
            self._context.report_output(text)

    def close(self) -> None:
        """Report a replacement character if the output ends inside a character."""
        rest = self._decoder.decode(b"", final=True)
        if rest:
            self._context.report_output(rest)


# -- environment ----------------------------------------------------------------------------------

_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|SESSION|PRIVATE|(^|_)(PAT|PWD?|DSN|JWT)$"
    r"|^(AWS|AZURE|GOOGLE|GCP|OPENAI|ANTHROPIC|HF)_|DATABASE_URL|PROXY",
    re.IGNORECASE,
)


def build_environment(environ: Mapping[str, str], extra: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment variables of a command.

    `extra` adds names and patterns of variables to inherit. A variable whose name looks like a
    secret is inherited only if its full name is listed; patterns do not match it.
    """
    patterns = (*PASSED_VARIABLES, *extra)

    passed = {
        name: value
        for name, value in environ.items()
        if name in patterns
        or (not _SECRET_NAME.search(name) and any(fnmatchcase(name, each) for each in patterns))
    }
    return {"PATH": os.defpath, **passed, **FIXED_VARIABLES}


# -- background jobs ------------------------------------------------------------------------------

_MAX_ENDED_JOBS: Final = 64
"""The number of ended jobs to retain, so that their output can still be read."""


@final
class Job:
    """A command that runs in the background."""

    def __init__(
        self, id: str, command: str, process: CommandProcess, timeout_s: int | None
    ) -> None:
        self.id = id
        self.command = command
        self._process = process
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.output_lock: Final = asyncio.Lock()
        """Held while output is read, so that two calls do not read the same output."""
        self._exit_task = start_task(process.wait(timeout_s), name=f"bash job {id}")
        # Retrieve an exception here, since asyncio warns about exceptions never retrieved.
        self._exit_task.add_done_callback(lambda task: task.cancelled() or task.exception())

    @property
    def is_running(self) -> bool:
        """Whether the command is still running."""
        return not self._exit_task.done()

    async def wait(self, seconds: float) -> None:
        """Wait until the command has ended, for at most `seconds`."""
        await asyncio.wait([self._exit_task], timeout=seconds)

    async def end(self) -> None:
        """End the command and every process it started."""
        self._process.stop()
        await asyncio.wait([self._exit_task])

    @contextmanager
    def take_output(self) -> Generator[tuple[str, CommandExit | None], None, None]:
        """Yield the output since the last call, and the exit of the command, or None while it runs.

        If the `with` block raises, the next call yields the output again. Raises ToolFailed if the
        command could not be started.
        """
        command_exit = None if self.is_running else self._exit_task.result()
        state, data = self._decoder.getstate(), self._process.capture.take()
        try:
            yield self._decoder.decode(data, final=command_exit is not None), command_exit
        except BaseException:
            self._decoder.setstate(state)
            self._process.capture.restore(data)
            raise


@final
class BackgroundJobs:
    """The background jobs by id, including jobs that ended recently."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._numbers = count(1)

    @property
    def running(self) -> int:
        """The number of jobs that are still running."""
        return sum(job.is_running for job in self._jobs.values())

    def add(self, command: str, process: CommandProcess, *, timeout_s: int | None) -> Job:
        """Add a started command as a job. `timeout_s` is its time limit; None for no limit."""
        ended = [id for id, job in self._jobs.items() if not job.is_running]
        for id in ended[: max(0, len(ended) - _MAX_ENDED_JOBS + 1)]:
            del self._jobs[id]
        job = Job(str(next(self._numbers)), command, process, timeout_s)
        self._jobs[job.id] = job
        return job

    def get(self, id: str) -> Job:
        """Return a job. Raises ToolFailed if no job has this id."""
        try:
            return self._jobs[id]
        except KeyError:
            message = f"unknown ID; known jobs: {', '.join(self._jobs) or 'none'}"
            raise ToolFailed(message, code="job_not_found", place="job") from None

    async def aclose(self) -> None:
        """End all jobs."""
        jobs = [*self._jobs.values()]
        self._jobs.clear()
        await asyncio.gather(*[job.end() for job in jobs])


class BashKillArguments(Struct, forbid_unknown_fields=True):
    """The arguments of the tool `bash_kill`."""

    job: Annotated[str, "The job ID that bash returned."]


class BashOutputArguments(BashKillArguments, forbid_unknown_fields=True):
    """The arguments of the tool `bash_output`."""

    wait_s: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_WAIT_S,
            description="Wait up to this many seconds for the command to end.",
        ),
    ] = 0


class _JobTool:
    """The base class of the tools that act on a background job."""

    rule_aliases: tuple[str, ...] = ()
    headline = staticmethod(call_headline)
    _arguments: ClassVar[type[BashKillArguments]]

    def __init__(self, jobs: BackgroundJobs) -> None:
        self._jobs = jobs

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return an empty tuple, since permission rules cannot match jobs."""
        return ()

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return the command of the job."""
        return CallPreview.of(self._jobs.get(parse_arguments(call, self._arguments).job).command)


@final
class BashOutputTool(_JobTool):
    """Reads the output of a background job."""

    capability = Capability.READ
    definition = ToolDefinition.from_type(
        BashOutputArguments,
        name="bash_output",
        description="Return the output that a background command has written since your last call, "
        "and whether the command is still running. Set wait_s to wait for its end.",
    )
    _arguments = BashOutputArguments

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Return the output that the job has written since the last call."""
        arguments = parse_arguments(call, BashOutputArguments)
        job = self._jobs.get(arguments.job)
        async with job.output_lock:
            if arguments.wait_s:
                await job.wait(arguments.wait_s)
            return await _build_job_output(job, context)


@final
class BashKillTool(_JobTool):
    """Ends a background job."""

    capability = Capability.EXECUTE
    definition = ToolDefinition.from_type(
        BashKillArguments,
        name="bash_kill",
        description="End a background command and every process it started. Returns the rest of "
        "its output.",
    )
    _arguments = BashKillArguments

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """End the job, and return the rest of its output."""
        job = self._jobs.get(parse_arguments(call, BashKillArguments).job)
        await job.end()
        async with job.output_lock:
            return await _build_job_output(job, context)


async def _build_job_output(job: Job, context: ToolContext) -> ToolOutput:
    with job.take_output() as (text, command_exit):
        shown, blob_details = await asyncio.to_thread(truncate_output, text, context)
    details = {"job": job.id, "running": command_exit is None}
    if command_exit is None:
        notes = ["still running"]
    else:
        notes = command_exit.notes or ["exit code 0"]
        details |= command_exit.details
    return ToolOutput.of(append_notes(shown, notes), details=details | blob_details)
