"""Commands run to their end, within limits, and all of their output is returned."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from steno import Outcome, ToolCall
from steno.errors import ToolFailed
from steno.ports import Capability, PreviewKind, Subject, Tool, ToolOutput
from steno.tools.bash import BashKillTool, BashOutputTool, BashTool
from steno.tools.shell.confined_command import CommandAccess
from steno.tools.shell.environment import build_environment
from steno.tools.shell.process import CommandLimits, OutputCapture
from steno.tools.shell.sandbox import NoSandbox, Sandbox, SandboxSetting, find_sandbox
from steno.tools.workspace import Workspace
from tests.raised_errors import raises_code
from tests.tools.command_setup import (
    EVERY_SANDBOX,
    PATIENCE_S,
    SANDBOXES,
    WaitableToolContext,
    bounded,
    call,
    details_of,
    every_sandbox,
    make_bash,
    run,
    running_processes,
    text_of,
    unique_seconds,
    wait_until,
)
from tests.tools.fake_tool_context import FakeToolContext

BEST = EVERY_SANDBOX[0]


# -- one command ---------------------------------------------------------------------------------


@pytest.mark.requirement("S4-13")
@every_sandbox
def test_a_command_runs_in_the_workspace_and_returns_its_output(
    workspace: Workspace, folder: Path, sandbox: Sandbox
) -> None:
    output = run(make_bash(workspace, sandbox), "pwd; echo out; echo err >&2; touch made")
    assert text_of(output) == f"{folder}\nout\nerr\n"
    assert output.outcome is Outcome.OK
    assert (folder / "made").exists()
    details = details_of(output)
    assert details["exit_code"] == 0
    assert details["sandbox"] == sandbox.name
    assert details["duration_s"] > 0


@every_sandbox
def test_a_command_that_fails_is_an_error_with_its_exit_code(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    output = run(make_bash(workspace, sandbox), "echo no; exit 3")
    assert text_of(output) == "no\n[exit code 3]"
    assert output.outcome is Outcome.ERROR
    assert details_of(output)["exit_code"] == 3
    assert details_of(output)["signal"] is None


@every_sandbox
def test_a_signal_that_ended_a_command_is_named(workspace: Workspace, sandbox: Sandbox) -> None:
    output = run(make_bash(workspace, sandbox), "kill -SEGV $$")
    assert text_of(output) == "[exit code 139, ended by signal SIGSEGV]"
    assert details_of(output)["signal"] == "SIGSEGV"


@every_sandbox
def test_a_command_without_output_has_a_result(workspace: Workspace, sandbox: Sandbox) -> None:
    assert text_of(run(make_bash(workspace, sandbox), "true")) == "[no output]"


@every_sandbox
def test_a_command_has_no_input_to_wait_for(workspace: Workspace, sandbox: Sandbox) -> None:
    assert text_of(run(make_bash(workspace, sandbox), "cat; read x || echo none")) == "none\n"


@every_sandbox
def test_a_program_whose_reader_is_gone_ends_quietly(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    assert text_of(run(make_bash(workspace, sandbox), "yes | head -n 2")) == "y\ny\n"


def test_output_is_reported_while_the_command_runs(workspace: Workspace) -> None:
    async def main() -> ToolOutput:
        context = WaitableToolContext()
        tool = make_bash(workspace, BEST)
        command = (
            "printf 'gr\\303'; printf '\\274n'; until [ -e go ]; do sleep 0.02; done; echo end"
        )
        running = asyncio.create_task(tool.run(call(command), context))
        await context.wait_for_output("grün")
        assert not running.done()
        (workspace.root / "go").touch()
        output = await running
        assert "".join(context.reported) == "grünend\n"
        await tool.aclose()
        return output

    assert text_of(bounded(main())) == "grünend\n"


def test_bytes_that_are_no_text_are_replaced(workspace: Workspace) -> None:
    context = FakeToolContext()
    output = run(make_bash(workspace, BEST), "printf 'a\\377b\\303'", context)
    assert text_of(output) == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"
    assert "".join(context.reported) == text_of(output)


def test_long_output_is_shortened_and_kept_whole(workspace: Workspace) -> None:
    context = FakeToolContext()
    output = run(make_bash(workspace, BEST), "seq 100000", context)
    kept = context.blobs[details_of(output)["full_output"]]
    assert kept.split() == [str(number).encode() for number in range(1, 100_001)]
    assert text_of(output).startswith("1\n2\n")
    assert text_of(output).endswith("\n100000\n")
    assert len(text_of(output)) < 100_000


# -- limits --------------------------------------------------------------------------------------


@every_sandbox
def test_a_command_that_takes_too_long_is_a_timeout_with_its_output(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    seconds = unique_seconds()
    output = run(make_bash(workspace, sandbox), f"echo begun; sleep {seconds}", timeout_s=1)
    assert output.outcome is Outcome.TIMEOUT
    assert text_of(output).startswith("begun\n[ended after ")
    assert running_processes(seconds) == []


@every_sandbox
def test_a_command_may_clean_up_when_its_time_is_over(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    limits = CommandLimits(timeout_s=1, grace_s=PATIENCE_S)
    command = "trap 'echo clean; exit 0' TERM; sleep 1000 & wait"
    output = run(make_bash(workspace, sandbox, limits=limits), command)
    assert output.outcome is Outcome.TIMEOUT
    assert text_of(output).startswith("clean\n[ended after ")


@every_sandbox
def test_every_process_is_asked_once_to_end(
    workspace: Workspace, folder: Path, sandbox: Sandbox
) -> None:
    # Processes that stay give the others time for their handlers before a second signal could
    # come; one has left the group.
    (folder / "be").write_text('trap "echo $1 asked" TERM\nsleep 2 & wait; wait')
    command = """
        setsid bash be other &
        for _ in $(seq 40); do (trap '' TERM; exec sleep 2) & done
        . ./be first"""
    limits = CommandLimits(timeout_s=1, grace_s=PATIENCE_S)
    lines = text_of(run(make_bash(workspace, sandbox, limits=limits), command)).splitlines()
    assert sorted(line for line in lines if "asked" in line) == ["first asked", "other asked"]


@pytest.mark.parametrize("seconds", [0, -1, 601])
def test_a_time_limit_beyond_the_most_is_refused(workspace: Workspace, seconds: int) -> None:
    with raises_code(ToolFailed, "timeout_out_of_range"):
        run(make_bash(workspace, BEST), "true", timeout_s=seconds)


def test_a_file_cannot_grow_beyond_its_limit(workspace: Workspace, folder: Path) -> None:
    tool = make_bash(workspace, BEST, limits=CommandLimits(max_file_bytes=1000))
    output = run(tool, "head -c 5000 /dev/zero > large")
    assert output.outcome is Outcome.ERROR
    assert details_of(output)["cause"] == "file_size"
    assert details_of(output)["signal"] == "SIGXFSZ"
    assert (folder / "large").stat().st_size == 1000


@every_sandbox
def test_memory_can_be_limited(workspace: Workspace, sandbox: Sandbox) -> None:
    """The limit is for all processes together: `tail` keeps what `sleep` does not read."""
    tool = make_bash(workspace, sandbox, limits=CommandLimits(max_memory_bytes=200 << 20))
    output = run(
        tool, "for i in 1 2; do head -c 150M /dev/zero | tail -c 150M | sleep 1000 & done; wait"
    )
    assert output.outcome is Outcome.ERROR
    assert details_of(output)["cause"] == "memory"


def test_memory_that_processes_share_counts_once(workspace: Workspace) -> None:
    # Without a sandbox, which may hide the folder of this Python.
    tool = make_bash(
        workspace,
        find_sandbox(SandboxSetting.OFF),
        limits=CommandLimits(max_memory_bytes=300 << 20),
    )
    program = (
        "import os; b = b'x' * (200 << 20); os.fork(); os.fork(); import time; time.sleep(0.5)"
    )
    assert run(tool, f'{sys.executable} -c "{program}"; wait').outcome is Outcome.OK


def test_capture_keeps_all_up_to_its_limit() -> None:
    capture = OutputCapture(10)
    for piece in (b"abc", b"defg", b"hij"):
        capture.feed(piece)
    assert capture.take() == b"abcdefghij"
    assert capture.take() == b""


def test_capture_keeps_beginning_and_end_of_long_output() -> None:
    capture = OutputCapture(10)
    for number in range(1000):
        capture.feed(b"%d," % number)
    assert capture.take() == b"0,1,2\n[... 3,880 bytes were not kept ...]\n,999,"
    assert capture.total == 0


# -- what is refused, and what people see --------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "code"),
    [
        *[(" ", "empty_command"), ("\n\t", "empty_command"), ("echo \0", "command_has_nul")],
        *[("x" * 100_001, "command_too_long"), ("ö" * 50_001, "command_too_long")],
    ],
)
def test_a_command_that_no_shell_can_take_is_refused(
    workspace: Workspace, command: str, code: str
) -> None:
    tool = make_bash(workspace, BEST)
    with raises_code(ToolFailed, code, place="bash"):
        tool.subjects(call(command))
    with raises_code(ToolFailed, code, place="bash"):
        run(tool, command)


def test_arguments_that_do_not_fit_are_refused(workspace: Workspace) -> None:
    tool = make_bash(workspace, BEST)
    with raises_code(ToolFailed, "invalid_arguments", place="bash"):
        tool.subjects(ToolCall.create("bash", {"command": 1}))


def test_subjects_are_the_commands_of_the_line(workspace: Workspace) -> None:
    tool = make_bash(workspace, BEST)
    subjects = tool.subjects(call("git log | head > x"))
    assert [(subject.rule_tool, subject.text) for subject in subjects] == [
        ("", "git log"),
        ("", "head"),
        ("write", "x"),
    ]
    assert tool.subjects(call("echo $(id)"))[0].is_unknown


def test_a_preview_shows_the_command_its_place_and_its_limits(
    workspace: Workspace, folder: Path
) -> None:
    tool = make_bash(workspace, BEST)
    preview = asyncio.run(tool.preview(call("rm  -rf x", timeout_s=7)))
    assert preview.text == f"rm  -rf x\n\nin {folder} · at most 7 s · sandbox: {BEST.name}"
    assert [part.kind for part in preview.parts] == [PreviewKind.TEXT, PreviewKind.NOTE]
    assert preview.shown_arguments == ("command", "timeout_s")
    preview = asyncio.run(tool.preview(call("serve", background=True)))
    assert "in the background · no time limit" in preview.text
    assert preview.shown_arguments == ("command",)
    assert [*folder.iterdir()] == []


def test_the_tool_is_described_for_models(workspace: Workspace) -> None:
    tool: Tool = make_bash(workspace, BEST)
    assert tool.capability is Capability.EXECUTE
    assert tool.definition.name == "bash"
    assert "120 s" in tool.definition.description
    assert tool.definition.check(call("ls", timeout_s=5, background=True)) == ()
    assert tool.definition.check(ToolCall.create("bash", {"cmd": "ls"})) != ()


def test_a_deleted_workspace_is_an_error(workspace: Workspace, folder: Path) -> None:
    folder.rmdir()
    with raises_code(ToolFailed, "command_not_started"):
        run(make_bash(workspace, BEST), "true")


# -- the environment -----------------------------------------------------------------------------


def test_commands_see_what_they_need_of_the_environment_and_nothing_secret() -> None:
    needed = {"PATH": "/bin", "HOME": "/h", "LANG": "C.UTF-8", "LC_ALL": "C", "VIRTUAL_ENV": "/v"}
    keys = {"OPENAI_API_KEY": "1", "AWS_PROFILE": "2", "GITHUB_TOKEN": "3", "LC_SECRET": "4"}
    means = {"BASH_ENV": "/evil", "LD_PRELOAD": "/evil.so", "SSH_AUTH_SOCK": "/agent"}
    other = {"TERM": "xterm", "https_proxy": "http://user:password@proxy", "MY_SETTING": "5"}
    seen = build_environment({**needed, **keys, **means, **other})
    assert {name: seen.pop(name) for name in needed} == needed
    assert seen == {
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
    }


def test_more_of_the_environment_is_handed_on_by_name_but_no_secret_by_a_pattern() -> None:
    environ = {"MY_A": "1", "MY_TOKEN": "2", "MY_KEY": "3"}
    passed = build_environment(environ, ["MY_*", "MY_KEY"])
    assert {name for name in passed if name.startswith("MY_")} == {"MY_A", "MY_KEY"}


@every_sandbox
def test_configured_variables_are_passed_to_the_command(
    workspace: Workspace, sandbox: Sandbox
) -> None:
    access = CommandAccess(environment=("WANTED",), temporary=())
    tool = make_bash(workspace, sandbox, access=access, environ={"WANTED": "yes", "UNWANTED": "no"})
    assert text_of(run(tool, "echo $WANTED $UNWANTED")) == "yes\n"


# -- in the background ---------------------------------------------------------------------------


async def ask(tool: Tool, job: str, **arguments: object) -> ToolOutput:
    name = tool.definition.name
    return await tool.run(ToolCall.create(name, {"job": job, **arguments}), FakeToolContext())


@every_sandbox
def test_the_output_of_a_job_is_read_piece_by_piece(workspace: Workspace, sandbox: Sandbox) -> None:
    async def main() -> ToolOutput:
        tool = make_bash(workspace, sandbox)
        reader = BashOutputTool(tool.jobs)
        command = "echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 4"
        begun = await tool.run(call(command, background=True), FakeToolContext())
        job = details_of(begun)["job"]
        assert text_of(begun).startswith(f"[started as job {job}; ")
        first = ""
        while "one" not in first:
            first = text_of(await ask(reader, job))
        assert first == "one\n[still running]"
        (workspace.root / "go").touch()
        last = await ask(reader, job, wait_s=int(PATIENCE_S))
        assert text_of(await ask(reader, job)) == "[exit code 4]"
        await tool.aclose()
        return last

    last = bounded(main())
    assert text_of(last) == "two\n[exit code 4]"
    assert details_of(last)["running"] is False
    assert details_of(last)["exit_code"] == 4


@every_sandbox
def test_a_job_is_ended_with_all_that_it_started(workspace: Workspace, sandbox: Sandbox) -> None:
    seconds = unique_seconds()

    async def main() -> ToolOutput:
        tool = make_bash(workspace, sandbox)
        begun = await tool.run(
            call(f"setsid sleep {seconds} & sleep {seconds}", background=True), FakeToolContext()
        )
        ended = await ask(BashKillTool(tool.jobs), details_of(begun)["job"])
        assert running_processes(seconds) == []
        await tool.aclose()
        return ended

    assert text_of(bounded(main())) == "[ended on request]"


@every_sandbox
def test_jobs_end_when_the_tool_is_closed(workspace: Workspace, sandbox: Sandbox) -> None:
    seconds = unique_seconds()

    async def main() -> ToolOutput:
        tool = make_bash(workspace, sandbox)
        begun = await tool.run(call(f"sleep {seconds}", background=True), FakeToolContext())
        await tool.run(call(f"setsid sleep {seconds}", background=True), FakeToolContext())
        await asyncio.to_thread(wait_until, lambda: bool(running_processes(seconds)))
        await tool.aclose()
        return begun

    bounded(main())
    assert running_processes(seconds) == []


def test_jobs_end_with_the_event_loop_if_the_tool_is_not_closed(workspace: Workspace) -> None:
    seconds = unique_seconds()
    tool = make_bash(workspace, BEST)
    bounded(tool.run(call(f"sleep {seconds}", background=True), FakeToolContext()))
    assert running_processes(seconds) == []


def test_a_job_can_have_a_time_limit(workspace: Workspace) -> None:
    async def main() -> ToolOutput:
        tool = make_bash(workspace, BEST)
        begun = await tool.run(call("sleep 1000", background=True, timeout_s=1), FakeToolContext())
        ended = await ask(BashOutputTool(tool.jobs), details_of(begun)["job"], wait_s=20)
        await tool.aclose()
        return ended

    assert text_of(bounded(main())).startswith("[ended after ")


def test_there_are_only_so_many_jobs_at_once(workspace: Workspace) -> None:
    async def main() -> ToolOutput:
        tool = make_bash(workspace, BEST, limits=CommandLimits(max_jobs=1))
        begun = await tool.run(call("sleep 1000", background=True), FakeToolContext())
        with raises_code(ToolFailed, "too_many_jobs"):
            await tool.run(call("sleep 1000", background=True), FakeToolContext())
        await ask(BashKillTool(tool.jobs), details_of(begun)["job"])
        again = await tool.run(call("true", background=True), FakeToolContext())
        await tool.aclose()
        return again

    assert details_of(bounded(main()))["job"] == "2"


def test_a_job_that_does_not_exist_is_an_error(workspace: Workspace) -> None:
    tool = make_bash(workspace, BEST)
    for companion in (BashOutputTool(tool.jobs), BashKillTool(tool.jobs)):
        with raises_code(ToolFailed, "job_not_found", place="job"):
            asyncio.run(ask(companion, "7"))
        with raises_code(ToolFailed, "job_not_found", place="job"):
            asyncio.run(companion.preview(ToolCall.create(companion.definition.name, {"job": "7"})))
        assert companion.subjects(call("x")) == ()


# -- the sandbox that is found -------------------------------------------------------------------


def test_the_best_sandbox_is_used_unless_it_is_switched_off(workspace: Workspace) -> None:
    for setting, name in ((SandboxSetting.AUTO, SANDBOXES[0].name), (SandboxSetting.OFF, "none")):
        output = run(BashTool(workspace, sandbox=setting), "true")
        assert details_of(output)["sandbox"] == name


def test_an_approved_reader_of_a_secret_gets_no_access_to_write_it(
    workspace: Workspace, folder: Path
) -> None:
    secret = folder / ".env"
    secret.write_text("KEY=1\n")
    tool = make_bash(workspace, NoSandbox("none"))
    subject = Subject(
        text=".env", capability=Capability.EXECUTE, rule_tool="read", is_protected=True
    )
    output = run(tool, "cat < .env", FakeToolContext(subjects=(subject,)))
    assert details_of(output)["access"] == [{"kind": "read", "target": str(secret)}]
