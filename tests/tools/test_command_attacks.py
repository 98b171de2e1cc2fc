"""Commands that try to exceed their rights and limits: secrets, processes, memory, time."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from steno import Outcome
from steno.ports import ToolOutput
from steno.tools.shell.process import CommandLimits
from steno.tools.shell.sandbox import BubblewrapSandbox, Sandbox
from steno.tools.workspace import Workspace
from tests.tools.command_setup import (
    EVERY_SANDBOX,
    WaitableToolContext,
    bounded,
    call,
    details_of,
    every_sandbox,
    make_bash,
    run,
    running_processes,
    sandbox_id,
    text_of,
    unique_seconds,
    wait_until,
)
from tests.tools.fake_tool_context import FakeToolContext

SECRETS = {"OPENAI_API_KEY": "sk-stolen", "DB_PASSWORD": "sk-stolen", "SOME_TOKEN": "sk-stolen"}


# -- secrets -------------------------------------------------------------------------------------


@every_sandbox
@pytest.mark.parametrize(
    "command",
    [
        "env",
        "export -p",
        "cat /proc/self/environ",
        "cat /proc/$PPID/environ",
        "cat /proc/1/environ",
    ],
)
def test_secrets_of_the_environment_do_not_reach_a_command(
    workspace: Workspace, sandbox: Sandbox, command: str
) -> None:
    assert "stolen" not in text_of(run(make_bash(workspace, sandbox, environ=SECRETS), command))


@every_sandbox
def test_startup_files_of_the_shell_are_not_run(
    workspace: Workspace, folder: Path, sandbox: Sandbox
) -> None:
    for name in (".bashrc", ".profile", ".bash_profile"):
        (folder / name).write_text("echo EVIL\n")
    tool = make_bash(workspace, sandbox, home=folder, environ={"BASH_ENV": str(folder / ".bashrc")})
    assert text_of(run(tool, "echo good")) == "good\n"


# -- processes that want to stay -----------------------------------------------------------------

STAYING = {
    "in the background": "sleep {seconds} &",
    "that keep the output": "sleep {seconds} & disown",
    "without hanging up": "nohup sleep {seconds} > /dev/null 2>&1 &",
    "in a session of their own": "setsid sleep {seconds} & setsid -f sleep {seconds}",
    "that forked twice": "( ( setsid sh -c 'sleep {seconds} & sleep {seconds}' & ) & )",
    "that ignore signals": "( trap '' TERM HUP INT; sleep {seconds}; sleep {seconds} ) &",
    "in many generations": 'sh -c \'sh -c "sh -c \\"setsid sleep {seconds} &\\" &" &\'',
}


@every_sandbox
@pytest.mark.parametrize("command", STAYING.values(), ids=STAYING.keys())
def test_processes_left_behind_are_ended_with_their_command(
    workspace: Workspace, sandbox: Sandbox, command: str
) -> None:
    seconds = unique_seconds()
    output = run(make_bash(workspace, sandbox), command.format(seconds=seconds) + "\necho done")
    assert text_of(output).startswith("done\n")
    assert output.outcome is Outcome.OK
    assert running_processes(seconds) == []
    # Processes that end with their PID namespace are not counted.
    if not isinstance(sandbox, BubblewrapSandbox):
        assert "of its processes still ran when it ended" in text_of(output)


@every_sandbox
@pytest.mark.parametrize("command", STAYING.values(), ids=STAYING.keys())
def test_cancelling_leaves_no_process(workspace: Workspace, sandbox: Sandbox, command: str) -> None:
    seconds = unique_seconds()

    async def main() -> ToolOutput:
        context = WaitableToolContext()
        tool = make_bash(workspace, sandbox)
        line = f"{command.format(seconds=seconds)}\necho ready; sleep {seconds}"
        running = asyncio.create_task(tool.run(call(line), context))
        await context.wait_for_output("ready")
        assert running_processes(seconds)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert running_processes(seconds) == []
        await tool.aclose()
        return ToolOutput.of("")

    bounded(main())


@every_sandbox
def test_cancelling_twice_leaves_no_process(workspace: Workspace, sandbox: Sandbox) -> None:
    seconds = unique_seconds()

    async def main() -> ToolOutput:
        context = WaitableToolContext()
        tool = make_bash(workspace, sandbox, limits=CommandLimits(grace_s=1000))
        # Short sleeps: bash runs the trap for a signal just before a sleep only after that sleep.
        wait = "while :; do sleep 0.1; done"
        line = f"sleep {seconds} & trap 'echo asked' TERM; echo ready; {wait}"
        running = asyncio.create_task(tool.run(call(line), context))
        await context.wait_for_output("ready")
        running.cancel()
        await context.wait_for_output("asked")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert running_processes(seconds) == []
        await tool.aclose()
        return ToolOutput.of("")

    bounded(main())


@every_sandbox
def test_a_command_that_ignores_the_end_of_its_time_is_ended_all_the_same(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    seconds = unique_seconds()
    command = f"trap '' TERM INT HUP; setsid sleep {seconds} & while :; do sleep {seconds}; done"
    output = run(make_bash(workspace, sandbox), command, timeout_s=1)
    assert output.outcome is Outcome.TIMEOUT
    assert details_of(output)["signal"] == "SIGKILL"
    assert running_processes(seconds) == []


@every_sandbox
def test_a_command_that_stops_itself_is_ended_all_the_same(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    seconds = unique_seconds()
    output = run(make_bash(workspace, sandbox), f"sleep {seconds} & kill -STOP $! $$", timeout_s=1)
    assert output.outcome is Outcome.TIMEOUT
    assert running_processes(seconds) == []


@every_sandbox
def test_a_command_that_stops_its_watcher_is_ended_all_the_same(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    seconds = unique_seconds()
    command = f"setsid sleep {seconds} & kill -STOP $PPID; sleep {seconds}"
    output = run(make_bash(workspace, sandbox), command, timeout_s=1)
    assert output.outcome is Outcome.TIMEOUT
    assert running_processes(seconds) == []


@every_sandbox
def test_a_command_that_kills_its_group_ends_no_other_process(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    output = run(make_bash(workspace, sandbox), "echo before; kill -KILL 0; echo after")
    assert text_of(output) == "before\n[exit code 137, ended by signal SIGKILL]"


@every_sandbox
def test_commands_end_with_the_program_that_ran_them(
    workspace: Workspace, folder: Path, sandbox: Sandbox
) -> None:
    """A program that is killed cannot end its commands itself."""
    seconds = unique_seconds()
    (folder / "program.py").write_text(
        textwrap.dedent(f"""
            import asyncio
            from pathlib import Path
            from tests.tools.command_setup import EVERY_SANDBOX, call, make_bash, sandbox_id
            from tests.tools.fake_tool_context import FakeToolContext
            from steno.tools.workspace import Workspace

            class PrintingContext(FakeToolContext):
                def report_output(self, text):
                    print(text, flush=True)

            sandbox, = [each for each in EVERY_SANDBOX if sandbox_id(each) == {sandbox_id(sandbox)!r}]
            tool = make_bash(Workspace([Path({str(folder)!r})]), sandbox)
            line = "setsid sleep {seconds} & echo ready; sleep {seconds}"
            asyncio.run(tool.run(call(line), PrintingContext()))
        """)
    )
    program = subprocess.Popen(
        [sys.executable, folder / "program.py"],
        stdout=subprocess.PIPE,
        # Files that it leaves when it is killed.
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(["src", "."])},
        cwd=Path(__file__).parents[2],
    )
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        assert running_processes(seconds)
        program.send_signal(signal.SIGKILL)
    wait_until(lambda: not running_processes(seconds))


# -- too much ------------------------------------------------------------------------------------


@every_sandbox
def test_too_many_processes_are_all_ended(workspace: Workspace, sandbox: Sandbox) -> None:
    """Like a fork bomb, but with at most 200 processes if the limit fails."""
    seconds = unique_seconds()
    tool = make_bash(workspace, sandbox, limits=CommandLimits(max_processes=40))
    command = f"for i in {{1..200}}; do setsid sleep {seconds} & done; wait"
    output = run(tool, command)
    assert output.outcome is Outcome.ERROR
    assert running_processes(seconds) == []
    if os.geteuid() == 0:  # other users reach the limit of the kernel first
        assert details_of(output)["cause"] == "processes"
        assert text_of(output) == "[ended: it exceeded the process limit]"


@every_sandbox
def test_an_endless_flood_is_ended_and_takes_little_memory(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    context = FakeToolContext()
    limits = CommandLimits(max_output_bytes=60_000_000, max_captured_bytes=1_000_000, grace_s=0.5)
    run(make_bash(workspace, sandbox, limits=limits), "true")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    output = run(make_bash(workspace, sandbox, limits=limits), "yes", context)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert output.outcome is Outcome.ERROR
    assert text_of(output).endswith("[ended: it exceeded the output limit]")
    assert details_of(output)["cause"] == "output"
    assert sum(map(len, context.reported)) < 1_100_000
    assert len(context.blobs[details_of(output)["full_output"]]) < 1_100_000
    assert (after - before) * 1024 < 30_000_000


@every_sandbox
def test_a_large_output_is_read_to_its_end(workspace: Workspace, sandbox: Sandbox) -> None:
    context = FakeToolContext()
    output = run(make_bash(workspace, sandbox), "yes | head -c 50000000; echo end", context)
    assert output.outcome is Outcome.OK
    assert text_of(output).endswith("y\nend\n")
    kept = context.blobs[details_of(output)["full_output"]]
    assert len(kept) < 10_001_000
    assert b"[... 40,000,004 bytes were not kept ...]" in kept


@every_sandbox
def test_one_endless_line_is_cut(workspace: Workspace, sandbox: Sandbox) -> None:
    output = run(make_bash(workspace, sandbox), "head -c 3000000 /dev/zero | tr '\\0' x")
    assert len(text_of(output)) < 60_000


def test_control_characters_reach_the_model_and_the_stage_as_text(workspace: Workspace) -> None:
    """The code that prints them strips them; here they are neither lost nor interpreted."""
    context = FakeToolContext()
    output = run(
        make_bash(workspace, EVERY_SANDBOX[0]), r"printf '\033]0;title\007\033[2Jx\r\b'", context
    )
    assert text_of(output) == "\x1b]0;title\x07\x1b[2Jx\r\b"
    assert "".join(context.reported) == text_of(output)
