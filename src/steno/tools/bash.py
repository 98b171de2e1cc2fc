"""The tools `bash`, `bash_output` and `bash_kill`: commands in the foreground and the background.

`shell.command_subjects` splits a command line into the subjects that permission rules match, and
`shell.confined_command` runs the command line with limits and a sandbox. A background job ends when
the tool that started it is closed. `bash_output` and `bash_kill` cannot access any other process.
"""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Annotated, ClassVar, Final, final

from msgspec import Meta, Struct

from steno.errors import ToolFailed
from steno.lazy_task import start_task
from steno.messages.call import ToolCall
from steno.messages.tool import ToolDefinition
from steno.ports import (
    AccessKind,
    CallPreview,
    Capability,
    PreviewKind,
    PreviewPart,
    SandboxAccess,
    Subject,
    ToolContext,
    ToolOutput,
)
from steno.tools.calls import call_headline, parse_arguments
from steno.tools.shell.command_parser import parse_command_line
from steno.tools.shell.command_subjects import LocatedPath, build_subjects
from steno.tools.shell.confined_command import (
    CommandAccess,
    CommandReport,
    CommandRequest,
    CommandRunner,
    ConfinedCommand,
    describe_blocked,
)
from steno.tools.shell.network_proxy import FindUpstream
from steno.tools.shell.process import CommandLimits, append_notes
from steno.tools.shell.sandbox import Sandbox, SandboxSetting
from steno.tools.truncate import truncate_output
from steno.tools.workspace import Workspace
from steno.values import is_utf8_text

MAX_COMMAND_BYTES: Final = 100_000
"""The maximum length of a command line.

Linux limits each argument of a program to 128 KiB, and the command line is a part of one argument.
"""
MAX_WAIT_S: Final = 60


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
        find_upstream: FindUpstream | None = None,
    ) -> None:
        """Create the tool. `find_upstream` finds the user's own proxy for the proxy of commands."""
        self.capability: Final = Capability.EXECUTE
        self.rule_aliases: Final[tuple[str, ...]] = ()
        self.jobs: Final = BackgroundJobs()
        self._workspace = workspace
        self._limits = limits or CommandLimits()
        self._runner: Final = CommandRunner(
            workspace,
            sandbox=sandbox,
            access=access or CommandAccess(),
            limits=self._limits,
            environ=dict(os.environ if environ is None else environ),
            find_upstream=find_upstream,
        )
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
        return self.sandbox.is_confining

    @property
    def folder(self) -> str:
        """The real path of the working directory, to which paths in rules are relative."""
        return os.path.realpath(self._workspace.root)

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of commands; the first use tests what works and may block for a moment."""
        return self._runner.sandbox

    def subjects(self, call: ToolCall) -> tuple[Subject, ...]:
        """Return the simple commands of the command line, and the files that they name."""
        command = self._arguments(call).command
        return build_subjects(
            parse_command_line(command),
            text=command,
            locate=self._locate,
            is_confined=self.sandbox.is_confining,
        )

    async def preview(self, call: ToolCall) -> CallPreview:
        """Return the command, its working directory, its limits and its sandbox."""
        arguments = self._arguments(call)
        sandbox = await asyncio.to_thread(lambda: self.sandbox)
        seconds = self._timeout_of(arguments)
        notes = [
            f"in {self._workspace.root}",
            "in the background" if arguments.background else "",
            "no time limit" if seconds is None else f"at most {seconds} s",
            f"sandbox: {sandbox.name}"
            if sandbox.is_confining
            else "no sandbox: this command can change everything that you can",
            "network allowed" if self._runner.access.network else "",
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
        request = self._build_request(arguments.command, context)
        if arguments.background:
            return await self._run_in_background(arguments, request)
        live_output = _LiveOutput(context, self._limits.max_live_bytes)
        command = await self._runner.start(request, on_output=live_output)
        report = await command.wait(self._timeout_of(arguments))
        live_output.close()
        output = command.capture.take()
        text, details = await asyncio.to_thread(truncate_output, output, context)
        blocked = report.find_blocked(output)
        notes = [*report.notes, *describe_blocked(blocked)]
        return ToolOutput.of(
            append_notes(text, notes) if text or notes else "[no output]",
            outcome=report.outcome,
            details={**report.details, **_describe_access(request.access, blocked), **details},
            blocked=blocked,
        )

    async def aclose(self) -> None:
        """End the background jobs, and remove the temporary folder."""
        await self.jobs.aclose()
        await self._runner.aclose()

    async def _run_in_background(
        self, arguments: BashArguments, request: CommandRequest
    ) -> ToolOutput:
        if self.jobs.running >= self._limits.max_jobs:
            problem = f"the limit of {self._limits.max_jobs} background commands is reached"
            raise _refusal(f"{problem}; end one with bash_kill", code="too_many_jobs")
        command = await self._runner.start(request)
        job = self.jobs.add(arguments.command, command, timeout_s=self._timeout_of(arguments))
        return ToolOutput.of(
            f'[started as job {job.id}; call bash_output with job "{job.id}" to read its output]',
            details={"job": job.id, "sandbox": command.sandbox.name},
        )

    def _build_request(self, command: str, context: ToolContext) -> CommandRequest:
        """Return a command with the access that its approved subjects and the gate give to it."""
        subjects = context.subjects or ()
        access = list(context.access)
        for subject in subjects:
            if subject.is_protected and not subject.is_unknown:
                # The user has approved this path, so the sandbox must not block it.
                # Without a sandbox, the capability of a command that reads a secret is EXECUTE.
                is_read = subject.rule_tool == "read" or subject.capability is Capability.READ
                path = os.path.realpath(self._workspace.root / subject.text)
                access.append(SandboxAccess(AccessKind.READ if is_read else AccessKind.WRITE, path))
        return CommandRequest(
            command,
            is_read_only=bool(subjects)
            and all(subject.capability is Capability.READ for subject in subjects),
            access=tuple(dict.fromkeys(access)),
        )

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


def _describe_access(
    given: tuple[SandboxAccess, ...], blocked: tuple[SandboxAccess, ...]
) -> dict[str, object]:
    """Return the details of a result about the access that a command had and that it lacked."""
    return {
        name: [{"kind": str(each.kind), "target": each.target} for each in access]
        for name, access in (("access", given), ("blocked", blocked))
        if access
    }


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


# -- background jobs ------------------------------------------------------------------------------

_MAX_ENDED_JOBS: Final = 64
"""The number of ended jobs to retain, so that their output can still be read."""


@final
class Job:
    """A command that runs in the background."""

    def __init__(
        self, id: str, command: str, running: ConfinedCommand, timeout_s: int | None
    ) -> None:
        self.id = id
        self.command = command
        self._running = running
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.output_lock: Final = asyncio.Lock()
        """Held while output is read, so that two calls do not read the same output."""
        self._exit_task = start_task(running.wait(timeout_s), name=f"bash job {id}")
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
        self._running.stop()
        await asyncio.wait([self._exit_task])

    @contextmanager
    def take_output(self) -> Generator[tuple[str, CommandReport | None], None, None]:
        """Yield the output since the last call, and the report of the command; None while it runs.

        If the `with` block raises, the next call yields the output again. Raises ToolFailed if the
        command could not be started.
        """
        report = None if self.is_running else self._exit_task.result()
        state, data = self._decoder.getstate(), self._running.capture.take()
        try:
            yield self._decoder.decode(data, final=report is not None), report
        except BaseException:
            self._decoder.setstate(state)
            self._running.capture.restore(data)
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

    def add(self, command: str, running: ConfinedCommand, *, timeout_s: int | None) -> Job:
        """Add a started command as a job. `timeout_s` is its time limit; None for no limit."""
        ended = [id for id, job in self._jobs.items() if not job.is_running]
        for id in ended[: max(0, len(ended) - _MAX_ENDED_JOBS + 1)]:
            del self._jobs[id]
        job = Job(str(next(self._numbers)), command, running, timeout_s)
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
    with job.take_output() as (text, report):
        shown, blob_details = await asyncio.to_thread(truncate_output, text, context)
    details = {"job": job.id, "running": report is None}
    if report is None:
        notes = ["still running"]
    else:
        notes = report.notes or ["exit code 0"]
        details |= report.details
    return ToolOutput.of(append_notes(shown, notes), details=details | blob_details)
