"""Commands in the background: where they are kept, and the tools that ask about them and end them.

A job ends with the tool that began it. What it says is kept in bounded memory until it was told,
and is told once. These tools reach jobs alone, never any other process.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from typing import Annotated, Final, final

from msgspec import Meta, Struct

from steno.errors import ToolFailed
from steno.messages.call import ToolCall
from steno.messages.tool import ToolDefinition
from steno.ports import Capability, ToolContext, ToolOutput
from steno.tools.arguments import parse_arguments
from steno.tools.shell.exit_report import append_notes, exit_details, exit_notes
from steno.tools.shell.process import CommandExit, CommandProcess
from steno.tools.truncate import truncate_output

MAX_WAIT_S: Final = 60
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
            raise ToolFailed(f"job: there is none of this id; those there are: {known}") from None

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


class BashKillArguments(Struct, forbid_unknown_fields=True):
    """Which job to end."""

    job: Annotated[str, "The id that bash gave."]


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

    async def run(self, call: ToolCall, stage: ToolContext) -> ToolOutput:
        """Return what is new."""
        arguments = parse_arguments(call, BashOutputArguments)
        job = self._jobs.get(arguments.job)
        async with job.output_lock:
            if arguments.wait_s:
                await job.wait(arguments.wait_s)
            return await _build_job_output(job, stage)


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

    async def run(self, call: ToolCall, stage: ToolContext) -> ToolOutput:
        """End it, and return the last that it said."""
        job = self._jobs.get(parse_arguments(call, BashKillArguments).job)
        await job.end()
        async with job.output_lock:
            return await _build_job_output(job, stage)


async def _build_job_output(job: Job, stage: ToolContext) -> ToolOutput:
    with job.take_output() as (text, ending):
        shown, details = await asyncio.to_thread(truncate_output, text, stage)
    known = {"job": job.id, "running": ending is None}
    if ending is None:
        return ToolOutput.of(append_notes(shown, ["still running"]), details={**known, **details})
    notes = exit_notes(ending) or ["exit code 0"]
    return ToolOutput.of(
        append_notes(shown, notes), details={**known, **exit_details(ending), **details}
    )
