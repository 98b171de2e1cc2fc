"""Output is not lost: of background jobs until it was read, of a command that is stopped."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from steno import ToolCall
from steno.agent import Agent, CallOutput, Gate, LoopEvent, Permissions
from steno.agent.results import PARTIAL_OUTPUT_HEADING, ResultCode
from steno.log.conversation import Conversation
from steno.log.queries import result_code
from steno.messages.outcome import Outcome
from steno.ports import Capability, ToolOutput
from steno.testing import ScriptedProvider
from steno.tools import CommandLimits, Toolbox
from steno.tools.bash import BashKillTool, BashOutputTool
from steno.tools.shell.process import OutputCapture
from steno.tools.shell.sandbox import NoSandbox
from steno.tools.workspace import Workspace
from tests.agent.agent_setup import results_of, turn_with_calls
from tests.tools.command_setup import PATIENCE_S, bounded, call, details_of, make_bash, text_of
from tests.tools.fake_tool_context import FakeToolContext

NO_SANDBOX = NoSandbox("a test")


class Slow(FakeToolContext):
    """A context that stores blobs slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def put_blob(self, data: bytes) -> str:
        self.begun.set()
        assert self.go_on.wait(PATIENCE_S)
        return super().put_blob(data)


def asked(job: str, **arguments: object) -> ToolCall:
    return ToolCall.create("bash_output", {"job": job, **arguments})


def test_output_of_a_job_is_returned_again_if_the_call_was_stopped(workspace: Workspace) -> None:
    shelf = FakeToolContext()

    async def main() -> ToolOutput:
        tool, slow = make_bash(workspace, NO_SANDBOX), Slow()
        reader = BashOutputTool(tool.jobs)
        begun = await tool.run(
            call("seq 30000; printf '\\303'", background=True), FakeToolContext()
        )
        job = details_of(begun)["job"]
        await tool.jobs.get(job).wait(PATIENCE_S)
        task = asyncio.create_task(reader.run(asked(job), slow))
        assert await asyncio.to_thread(slow.begun.wait, PATIENCE_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        slow.go_on.set()
        told = await reader.run(asked(job), shelf)
        assert text_of(await reader.run(asked(job), shelf)) == "[exit code 0]"
        await tool.aclose()
        return told

    told = bounded(main())
    whole = shelf.blobs[details_of(told)["full_output"]].decode()
    assert whole == "".join([f"{number}\n" for number in range(1, 30_001)]) + "\ufffd"


def test_two_who_ask_about_a_job_at_once_come_one_after_the_other(workspace: Workspace) -> None:
    async def main() -> ToolOutput:
        tool = make_bash(workspace, NO_SANDBOX)
        reader = BashOutputTool(tool.jobs)
        command = "echo one; until [ -e go ]; do sleep 0.02; done; echo two"
        begun = await tool.run(call(command, background=True), FakeToolContext())
        job = details_of(begun)["job"]
        calls = [
            reader.run(asked(job, wait_s=int(PATIENCE_S)), FakeToolContext()) for _ in range(2)
        ]
        tasks = [asyncio.ensure_future(one) for one in calls]
        await asyncio.sleep(0)
        (workspace.root / "go").touch()
        first, second = await asyncio.gather(*tasks)
        assert text_of(first) == "one\ntwo\n[exit code 0]"
        await tool.aclose()
        return second

    assert text_of(bounded(main())) == "[exit code 0]"


def test_restored_output_comes_before_newer_output() -> None:
    capture = OutputCapture(max_bytes=8)
    capture.feed(b"abc")
    taken = capture.take()
    capture.feed(b"de")
    capture.restore(taken)
    assert capture.take() == b"abcde"
    capture.feed(b"0123456789")
    capture.restore(b"abcdef")
    assert len(capture.take()) < 60
    assert capture.take() == b""


def test_to_end_a_job_is_to_run_something_and_needs_no_question(workspace: Workspace) -> None:
    kill = BashKillTool(make_bash(workspace, NO_SANDBOX).jobs)
    assert kill.capability is Capability.EXECUTE
    ended = ToolCall.create("bash_kill", {"job": "1"})
    conversation = Conversation()
    agent = Agent(ScriptedProvider([turn_with_calls(ended), "Done."]), conversation, tools=[kill])
    asyncio.run(asyncio.wait_for(agent.run("Go."), PATIENCE_S))
    (result,) = results_of(conversation)
    assert result.text == "job: unknown ID; known jobs: none"


def test_a_command_that_is_interrupted_leaves_what_it_wrote(workspace: Workspace) -> None:
    conversation = Conversation()

    async def main() -> ToolOutput:
        tool = make_bash(workspace, NO_SANDBOX)
        agent = Agent(
            ScriptedProvider([turn_with_calls(call("echo begun; sleep 1000"))]),
            conversation,
            tools=[tool],
            gate=Gate(Permissions.of(allow=["bash"])),
        )

        def watch(event: LoopEvent) -> None:
            if isinstance(event, CallOutput):
                agent.interrupt()

        await agent.run("Go.", on_event=watch)
        await tool.aclose()
        return ToolOutput.of("")

    bounded(main())
    (result,) = results_of(conversation)
    assert result.outcome is Outcome.CANCELLED
    assert result_code(result) == ResultCode.CALL_STOPPED
    assert result.text.endswith(f"{PARTIAL_OUTPUT_HEADING}\nbegun\n")


def test_a_toolbox_passes_limits_and_environment_to_commands(
    workspace: Workspace, tmp_path: Path
) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    async def main() -> ToolOutput:
        limits = CommandLimits(timeout_s=7, max_timeout_s=9)
        async with Toolbox(
            workspace, sandbox=NO_SANDBOX, limits=limits, environ=environ
        ) as toolbox:
            bash = next(tool for tool in toolbox.tools if tool.definition.name == "bash")
            assert "The time limit is 7 s; set timeout_s to change it, up to 9 s." in (
                bash.definition.description
            )
            return await bash.run(call("echo $HOME"), FakeToolContext())

    assert text_of(bounded(main())) == f"{tmp_path}\n"
