"""Shell commands of the user."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from steno import InvalidValue
from steno.app.shell_command import MAX_RECORDED_BYTES, ShellResult, run_shell_command
from steno.errors import Unavailable

LIMIT_S = 60


def ran(command: str, folder: Path) -> tuple[ShellResult, list[str]]:
    outputs: list[str] = []

    async def main() -> ShellResult:
        async with asyncio.timeout(LIMIT_S):
            return await run_shell_command(command, folder, outputs.append)

    return asyncio.run(main()), outputs


@pytest.fixture(autouse=True)
def shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")


def test_a_command_runs_in_the_folder_and_both_outputs_are_collected(tmp_path: Path) -> None:
    result, outputs = ran("pwd; echo oops >&2; exit 3", tmp_path)
    assert result == ShellResult(3, f"{tmp_path}\noops\n")
    assert "".join(outputs) == result.output


def test_a_command_has_the_environment_of_the_user_and_no_pager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "hush")
    monkeypatch.setenv("TERM", "xterm")
    result, _ = ran('echo "$MY_API_KEY $TERM $PAGER $GIT_PAGER"; cat', tmp_path)
    assert result == ShellResult(0, "hush dumb cat cat\n")


def test_the_person_s_own_shell_runs_it_if_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own shell"
    own.write_text('#!/bin/sh\necho "mine: $1 $2"\n')
    own.chmod(0o755)
    monkeypatch.setenv("SHELL", str(own))
    assert ran("anything", tmp_path)[0] == ShellResult(0, "mine: -c anything\n")
    for other in ("/not/there", "sh", ""):
        monkeypatch.setenv("SHELL", other)
        assert ran("echo usual", tmp_path)[0] == ShellResult(0, "usual\n")


def test_output_is_streamed_while_the_command_runs(tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    os.mkfifo(go_on)

    def collect(text: str) -> None:
        if "first" in text:  # it waits for us, so this comes while it runs
            go_on.write_text("second\n")

    async def main() -> ShellResult:
        async with asyncio.timeout(LIMIT_S):
            return await run_shell_command("echo first; cat 'go on'", tmp_path, collect)

    assert asyncio.run(main()) == ShellResult(0, "first\nsecond\n")


def test_a_character_split_over_chunks_is_decoded_as_one(tmp_path: Path) -> None:
    result, outputs = ran(r"printf '\303'; sleep 0.1; printf '\274\377'", tmp_path)
    assert result == ShellResult(0, "ü\N{REPLACEMENT CHARACTER}")
    assert "".join(outputs) == result.output


def test_long_output_is_truncated_in_the_middle_and_streamed_in_full(tmp_path: Path) -> None:
    result, outputs = ran("echo first; yes | head -c 300000; echo last", tmp_path)
    assert result.output.startswith("first\ny\n")
    assert result.output.endswith("y\nlast\n")
    missing = 300_011 - MAX_RECORDED_BYTES
    assert f"\n[... {missing:,} bytes were not kept ...]\n" in result.output
    assert len("".join(outputs)) == 300_011


def test_a_signal_is_a_status_as_shells_have_it(tmp_path: Path) -> None:
    assert ran("kill -9 $$", tmp_path)[0].status == 137


def test_background_processes_are_ended_and_reported(tmp_path: Path) -> None:
    result, _ = ran("sleep 600 & echo $!", tmp_path)
    pid, note = result.output.splitlines()
    assert note == "[1 process that it left running was ended with it]"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_cancelling_ends_all_processes(tmp_path: Path) -> None:
    outputs: list[str] = []

    async def main() -> None:
        started = asyncio.Event()

        def collect(text: str) -> None:
            outputs.append(text)
            started.set()

        command = "sleep 600 & (sleep 600 & echo $! $$; wait)"
        task = asyncio.create_task(run_shell_command(command, tmp_path, collect))
        async with asyncio.timeout(LIMIT_S):
            await started.wait()
            task.cancel()
            await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(main())
    for pid in map(int, "".join(outputs).split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("command", ["", "  ", "echo \0", "echo \ud800"])
def test_an_empty_or_invalid_command_is_refused(tmp_path: Path, command: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        ran(command, tmp_path)
    assert (caught.value.code, caught.value.place) == ("empty_command", "shell")


def test_a_deleted_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        ran("echo", tmp_path / "gone")
    assert (caught.value.code, caught.value.place) == ("shell_unavailable", "shell")
