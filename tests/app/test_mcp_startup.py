"""Slow servers, or ones that never answer: they block nothing, and none stays running."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from steno.agent import EndReason, Notice, PromptInput, RunEnded
from steno.agent.session_events import InputReturned, RunFailed, SessionEvent, ShellEnded
from steno.app.mcp import McpOptions, McpStartup, ServerSetup
from steno.errors import Unresolved
from steno.inputs.mcp.connection import McpServers
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.ports import SetupNotice
from tests.app.project_setup import make_project, scripted_model
from tests.app.session_setup import SessionUser, offered_mcp_tools, open_user_session, run
from tests.cli.reference_setup import trust_settings, write_servers
from tests.inputs.mcp.connection_setup import PLAIN_SERVER, children, plain_spec

pytestmark = pytest.mark.requirement("S4-15")
OPEN = McpOptions()
TOOLS = ["mcp__slow__good"]
HELLO, BRIEF = PromptInput("Hello?"), PromptInput("And be brief.")
WAITING = "waiting for MCP server slow"
TAKE_BACK = "interrupt to take back your prompt"
WITHOUT = "mcp slow: not ready yet; your prompt is sent without its tools"
THERE = "mcp slow: ready; its tools are available from the next prompt on"


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHELL", "/bin/sh")
    return make_project(tmp_path, monkeypatch)


@pytest.fixture
def gate(project: Path) -> Path:
    """Set up a server that does not answer until the gate is written to."""
    gate = project.parent / "gate"
    os.mkfifo(gate)
    set_up(project, f"read _ <{shlex.quote(str(gate))}; exec {server()}")
    return gate


def server() -> str:
    return shlex.join([sys.executable, PLAIN_SERVER])


def set_up(project: Path, script: str) -> None:
    spec = McpServerSpec(name="slow", command="/bin/sh", args=("-c", script))
    write_servers(project / ".mcp.json", spec)


async def let_in(gate: Path) -> None:
    """Let the server begin."""
    await asyncio.to_thread(gate.write_text, "go\n")


async def started(others: set[int]) -> set[int]:
    """Wait until a server is started, and return who it is."""
    while not (found := children() - others):  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.005)
    return found


def notices(user: SessionUser) -> list[str]:
    return [notice.text for notice in user.events_of(Notice)]


async def wait_for_notice(user: SessionUser, text: str) -> None:
    await user.until(lambda: any(one.startswith(text) for one in notices(user)))


async def begin_waiting(user: SessionUser) -> None:
    """Send a prompt, and wait until it waits for the server."""
    await user.session.send(HELLO)
    await wait_for_notice(user, WAITING)
    assert user.session.is_running


async def stop_waiting(user: SessionUser, *later: PromptInput) -> None:
    """Send a prompt, and interrupt it while it waits for the server."""
    await begin_waiting(user)
    for prompt in later:
        await user.session.send(prompt)
    user.session.interrupt()
    await user.until(lambda: user.events_of(RunFailed))
    assert [one.code for one in user.events_of(RunFailed)] == ["interrupted"]
    assert user.events_of(InputReturned) == [InputReturned((HELLO, *later))]


# -- while it starts ---------------------------------------------------------------------------


def test_everything_but_the_model_answers_while_a_server_has_not(
    project: Path, home: Path, gate: Path
) -> None:
    async def main() -> None:
        others = children()
        async with open_user_session(project, outside=OPEN) as user:
            pids = await started(others)
            assert user.session.status.model == "lab/tester"
            assert (await user.session.run_command("usage")).body
            assert [one.text for one in await user.session.complete("@no")] == ["@note.txt"]
            await user.session.run_shell("echo here")
            await user.until(lambda: user.events_of(ShellEnded))
            assert user.texts == ["$ echo here\nhere\n"]
            assert pids <= children()

    with scripted_model(home, settings=trust_settings(project)):
        run(main())


def test_the_first_prompt_waits_for_a_server_and_offers_its_tools(
    project: Path, home: Path, gate: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project, outside=OPEN) as user:
            await begin_waiting(user)
            assert model.seen == []
            await let_in(gate)
            await user.end()
            assert notices(user).count(f"{WAITING}, at most 10 s; {TAKE_BACK}") == 1
            assert WITHOUT not in notices(user)

    with scripted_model(home, "Hello.", settings=trust_settings(project)) as model:
        run(main())
    assert [offered_mcp_tools(request) for request in model.seen] == [TOOLS]


def test_interrupting_stops_the_wait_and_nothing_is_sent(
    project: Path, home: Path, gate: Path
) -> None:
    async def main() -> None:
        others = children()
        async with open_user_session(project, outside=OPEN) as user:
            pids = await started(others)
            await stop_waiting(user)
            assert not user.session.is_running
            assert not user.session.is_unfinished
            assert user.texts == []
            assert children() - others == pids
            assert user.session.status.session == ""
            assert await user.session.session_list.summaries() == []

    with scripted_model(home, settings=trust_settings(project)) as model:
        run(main())
    assert model.seen == []


def test_input_after_a_waiting_prompt_is_sent_with_it(
    project: Path, home: Path, gate: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project, outside=OPEN) as user:
            await begin_waiting(user)
            await user.session.send(BRIEF)
            await let_in(gate)
            await user.end()
            assert user.texts == ["Hello?", "And be brief.", "Hello."]

    settings = f'steering = "interrupt"\n{trust_settings(project)}'
    with scripted_model(home, "Hello.", settings=settings) as model:
        run(main())
    assert len(model.seen) == 1


def test_input_after_a_waiting_prompt_is_returned_with_it_in_order(
    project: Path, home: Path, gate: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project, outside=OPEN) as user:
            await stop_waiting(user, BRIEF, PromptInput("In verse."))
            assert user.texts == []

    with scripted_model(home, settings=trust_settings(project)) as model:
        run(main())
    assert model.seen == []


def test_a_shell_command_runs_while_a_prompt_waits_and_both_are_recorded(
    project: Path, home: Path, gate: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project, outside=OPEN) as user:
            await begin_waiting(user)
            await user.session.run_shell("echo here")
            await user.until(lambda: user.events_of(ShellEnded))
            assert user.texts == ["$ echo here\nhere\n"]
            await let_in(gate)
            await user.end()
            assert user.texts == ["$ echo here\nhere\n", "Hello?", "Hello."]

    with scripted_model(home, "Hello.", settings=trust_settings(project)) as model:
        run(main())
    assert len(model.seen) == 1


@pytest.mark.requirement("S2-28")
@pytest.mark.parametrize("steering", ["after_calls", "after_run", "interrupt"])
def test_input_after_an_unreadable_prompt_is_returned_and_retried_with_it(
    project: Path, home: Path, gate: Path, steering: str
) -> None:
    prompt = PromptInput("Look at @gone.txt")

    async def main() -> None:
        async with open_user_session(project, outside=OPEN) as user:
            await user.session.send(prompt)
            await wait_for_notice(user, WAITING)
            await user.session.send(BRIEF)
            await let_in(gate)
            ended = await user.end()
            assert isinstance(ended.result.error, Unresolved)
            assert user.texts == []
            assert user.session.is_unfinished
            await user.session.run_command("retry")
            await user.end(1)
            assert user.events_of(InputReturned) == [InputReturned((prompt, BRIEF))] * 2
            # An interface that receives the end returns its pending input.
            assert [type(event) for event in user.events[-2:]] == [InputReturned, RunEnded]
            assert model.seen == []
            (project / "gone.txt").write_text("here\n", encoding="utf-8")
            await user.session.run_command("retry")
            ended = await user.end(2)
            assert ended.result.end_reason is EndReason.DONE
            assert [one for one in user.texts if one != "I see."] == [prompt.text, BRIEF.text]
            assert len(user.events_of(InputReturned)) == 2

    settings = f'steering = "{steering}"\n{trust_settings(project)}'
    with scripted_model(home, "I see.", "I see.", settings=settings) as model:
        run(main())


def test_input_returned_with_one_prompt_is_not_sent_after_another(
    project: Path, home: Path, gate: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project, outside=OPEN) as user:
            await user.session.send(PromptInput("Look at @gone.txt"))
            await wait_for_notice(user, WAITING)
            await user.session.send(BRIEF)
            await let_in(gate)
            await user.end()
            await user.send("Look at @other.txt")
            (project / "other.txt").write_text("here\n", encoding="utf-8")
            await user.session.run_command("retry")
            await user.end(2)
            assert user.texts == ["Look at @other.txt", "I see."]

    with scripted_model(home, "I see.", settings=trust_settings(project)):
        run(main())


def test_interrupting_at_the_end_of_the_wait_sends_nothing(
    project: Path, home: Path, gate: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project, outside=OPEN) as user:
            await stop_waiting(user)
            happened: list[SessionEvent] = []
            is_over = asyncio.Event()

            def on_event(event: SessionEvent) -> None:
                happened.append(event)
                if isinstance(event, Notice) and event.text == WITHOUT:  # the last of the wait
                    asyncio.get_running_loop().call_soon(user.session.interrupt)
                if isinstance(event, RunFailed | RunEnded):
                    is_over.set()

            user.session.subscribe(on_event)
            await user.session.send(HELLO)
            await is_over.wait()
            assert happened[-2] == InputReturned((HELLO,))
            assert isinstance(happened[-1], RunFailed)
            assert happened[-1].code == "interrupted"
            assert user.texts == []

    with scripted_model(home, "Hello.", settings=trust_settings(project)) as model:
        run(main())
    assert model.seen == []


def test_a_repeated_prompt_goes_without_a_server_and_the_next_with_it(
    project: Path, home: Path, gate: Path
) -> None:
    async def main() -> None:
        async with open_user_session(project, outside=OPEN) as user:
            await stop_waiting(user)
            await user.send("Hello?")
            assert notices(user).count(WITHOUT) == 1
            await let_in(gate)
            await wait_for_notice(user, THERE)
            await user.send("And now?")
            assert notices(user).count(WITHOUT) == 1

    with scripted_model(home, "Hello.", "Yes.", settings=trust_settings(project)) as model:
        run(main())
    assert [offered_mcp_tools(request) for request in model.seen] == [[], TOOLS]


def test_a_server_that_exceeds_the_wait_is_left_out(tmp_path: Path) -> None:
    progress: list[str] = []
    noted: list[SetupNotice] = []

    async def main() -> None:
        specs = [plain_spec("hang"), replace(plain_spec("hang"), name="b")]
        servers = McpServers(specs, folder=tmp_path)
        arrivals = McpStartup(
            ServerSetup(servers, ()),
            prepare_image=lambda data: pytest.fail("there is nothing to fit"),
            on_change=lambda: None,
            on_progress=progress.append,
            on_notice=noted.append,
            silent_wait_s=0.01,
            max_wait_s=0.01,
        )
        others = children()
        assert not arrivals.is_pending
        arrivals.start()
        assert arrivals.is_pending
        while len(children() - others) < 2:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)
        await arrivals.wait()
        await arrivals.wait()
        assert arrivals.tools == ((), ())
        assert len(children() - others) == 2
        await arrivals.aclose()
        await arrivals.aclose()
        assert children() == others

    run(main())
    assert progress == ["waiting for MCP servers b, plain"]
    without = "not ready yet; your prompt is sent without its tools"
    waiting = f"{progress[0]}, at most 0.01 s; {TAKE_BACK}"
    assert noted == [
        ("waiting_for_servers", waiting),
        ("server_not_ready", f"mcp b: {without}"),
        ("server_not_ready", f"mcp plain: {without}"),
    ]


# -- other models ------------------------------------------------------------------------------


def test_another_model_works_with_the_servers_that_run(
    project: Path, home: Path, gate: Path
) -> None:
    async def main() -> None:
        others = children()
        async with open_user_session(project, outside=OPEN) as user:
            await begin_waiting(user)
            await let_in(gate)
            await user.end()
            pids = children() - others
            await user.session.change_model("offline")
            await user.session.change_model("lab/tester")
            await user.send("And now?")
            assert children() - others == pids

    with scripted_model(home, "Hello.", "Yes.", settings=trust_settings(project)) as model:
        run(main())
    assert [offered_mcp_tools(request) for request in model.seen] == [TOOLS, TOOLS]


def test_another_model_can_be_chosen_while_a_server_has_not_answered(
    project: Path, home: Path, gate: Path
) -> None:
    async def main() -> None:
        others = children()
        async with open_user_session(project, outside=OPEN) as user:
            pids = await started(others)
            await user.session.change_model("offline")
            await user.session.change_model("lab/tester")
            assert children() - others == pids
            await begin_waiting(user)
            await let_in(gate)
            await user.end()

    with scripted_model(home, "Hello.", settings=trust_settings(project)) as model:
        run(main())
    assert [offered_mcp_tools(request) for request in model.seen] == [TOOLS]


def test_servers_start_with_the_first_model_that_calls_tools(
    project: Path, home: Path, gate: Path
) -> None:
    async def main() -> None:
        others = children()
        async with open_user_session(project, outside=OPEN) as user:
            await user.send("Hello?")
            assert children() == others
            await user.session.change_model("offline")
            await started(others)

    only_talks = '[models."lab/tester"]\ntools = false\n'
    with scripted_model(home, "Hello.", settings=f"{trust_settings(project)}{only_talks}"):
        run(main())


# -- those that fail ---------------------------------------------------------------------------


def test_a_failed_server_is_reported_and_used_once_it_answers(project: Path, home: Path) -> None:
    repaired = project.parent / "repaired"
    set_up(project, f"test -e {shlex.quote(str(repaired))} || exit 3; exec {server()}")

    async def main() -> None:
        async with open_user_session(project, outside=OPEN) as user:
            await wait_for_notice(user, "mcp slow: cannot be started: ")
            await user.send("Hello?")
            repaired.touch()
            listed = (await user.session.run_command("mcp")).body
            assert "`slow` | stdio | responds" in listed
            assert "mcp slow\\: " in listed
            await user.send("And now?")

    with scripted_model(home, "Hello.", "Yes.", settings=trust_settings(project)) as model:
        run(main())
    assert [offered_mcp_tools(request) for request in model.seen] == [[], TOOLS]


# -- the end -----------------------------------------------------------------------------------


async def leave(user: SessionUser) -> None:
    """Go in order."""


async def leave_what_waits(user: SessionUser) -> None:
    await begin_waiting(user)


async def crash(user: SessionUser) -> None:
    raise ZeroDivisionError("a face that cannot draw")


async def be_cancelled(user: SessionUser) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.Event().wait()


@pytest.mark.parametrize("end", [leave, leave_what_waits, crash, be_cancelled])
def test_a_server_that_is_still_starting_is_stopped(
    project: Path, home: Path, gate: Path, end: Callable[[SessionUser], Awaitable[None]]
) -> None:
    async def sit(others: set[int]) -> None:
        async with open_user_session(project, outside=OPEN) as user:
            await started(others)
            await end(user)

    async def main() -> None:
        others = children()
        [_] = await asyncio.gather(asyncio.create_task(sit(others)), return_exceptions=True)
        assert children() == others

    with scripted_model(home, settings=trust_settings(project)):
        run(main())


def test_closing_while_a_server_is_awaited_records_the_prompt(
    project: Path, home: Path, gate: Path
) -> None:
    async def leave_early() -> None:
        async with open_user_session(project, outside=OPEN) as user:
            await begin_waiting(user)
            await user.session.send(BRIEF)

    async def come_back() -> None:
        async with open_user_session(project, continues=True) as user:
            assert user.texts == ["Hello?", "And be brief."]
            assert user.session.is_unfinished

    with scripted_model(home, settings=trust_settings(project)) as model:
        run(leave_early())
        run(come_back())
    assert model.seen == []
