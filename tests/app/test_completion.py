"""Completion of `@` and `/`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steno.app.commands.context import CommandContext
from steno.app.commands.table import Suggestion
from steno.app.completion import TimedCache, complete_path, find_completions
from steno.inputs.mentions import parse_mentions
from steno.messages.content import FileReference
from steno.tools import Workspace
from tests.app.command_setup import state_of, with_context
from tests.app.project_setup import make_project, write_settings
from tests.cli.reference_setup import trust_settings, write_servers
from tests.inputs.mcp.real_servers import everything_spec, own_spec, time_spec

FILES = (
    "README.md",
    "docs/guide.md",
    "src/steno/cli/desk/desk.py",
    "src/steno/cli/main.py",
    "src/steno/desktop.py",
    "tests/my desk.txt",
    ".github/ci.yml",
    "build/out.txt",
)


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with some files, of which git is to ignore one folder."""
    made = make_project(tmp_path, monkeypatch)
    (made / "note.txt").unlink()
    (made / ".gitignore").write_text("build/\n")
    for name in FILES:
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("x\n")
    return made


def offered(folder: Path, typed: str, **flags: Any) -> Sequence[Suggestion]:
    async def ask(context: CommandContext) -> Sequence[Suggestion]:
        return await find_completions(state_of(context).environment, typed)

    return with_context(folder, ask, **flags)


def texts(folder: Path, typed: str) -> list[str]:
    return [candidate.text for candidate in offered(folder, typed)]


# -- files -------------------------------------------------------------------------------------


def test_an_at_alone_offers_what_lies_at_the_top(project: Path) -> None:
    assert offered(project, "@") == [
        Suggestion("@src/", expects_more=True),
        Suggestion("@docs/", expects_more=True),
        Suggestion("@tests/", expects_more=True),
        Suggestion("@README.md"),
    ]


def test_the_beginning_of_the_path_counts_most_in_any_case(project: Path) -> None:
    assert texts(project, "@read") == ["@README.md"]
    assert texts(project, "@src/steno/cli/d")[0] == "@src/steno/cli/desk/"
    assert texts(project, "@./do")[:2] == ["@docs/", "@docs/guide.md"]


def test_then_come_names_that_begin_so_and_then_those_that_hold_it(project: Path) -> None:
    assert texts(project, "@desk") == [
        "@src/steno/desktop.py",
        "@src/steno/cli/desk/",
        "@src/steno/cli/desk/desk.py",
        '@"tests/my desk.txt"',
    ]


def test_steps_may_be_shortened_to_their_beginnings(project: Path) -> None:
    assert texts(project, "@s/c/ma") == ["@src/steno/cli/main.py"]
    assert texts(project, "@s/st/cl") == ["@src/steno/cli/"]


def test_after_a_folder_its_content_is_suggested_nearest_first(project: Path) -> None:
    assert texts(project, "@src/steno/") == [
        "@src/steno/cli/",
        "@src/steno/desktop.py",
        "@src/steno/cli/desk/",
        "@src/steno/cli/main.py",
        "@src/steno/cli/desk/desk.py",
    ]


def test_ignored_or_hidden_files_are_suggested_only_if_spelled_out(project: Path) -> None:
    assert texts(project, "@build") == []
    assert texts(project, "@ci") == []
    assert texts(project, "@.gith") == ["@.github/", "@.github/ci.yml"]


@pytest.mark.parametrize(
    "typed", ["@", "@main", "@src/steno/cli/", "@__py", "@src/steno/cli/__pycache__/"]
)
def test_compiled_files_are_not_suggested(project: Path, typed: str) -> None:
    folder = project / "src" / "steno" / "cli"
    (folder / "__pycache__").mkdir()
    for name in ("__pycache__/main.cpython-311.pyc", "main.o", "main.so"):
        (folder / name).write_bytes(b"\0")
    (project / "main.pyc").write_bytes(b"\0")
    assert [one for one in texts(project, typed) if "pyc" in one or one.endswith("o")] == []


def test_quotes_may_be_open(project: Path) -> None:
    assert texts(project, '@"tests/my') == ['@"tests/my desk.txt"']
    assert texts(project, "@'tests/my desk.txt'") == ['@"tests/my desk.txt"']
    assert texts(project, r"@tests/my\ d") == ['@"tests/my desk.txt"']


def test_a_folder_with_a_blank_stays_open(project: Path) -> None:
    (project / "my folder").mkdir()
    (project / "my folder" / "a.txt").write_text("x")
    assert offered(project, "@my")[0] == Suggestion('@"my folder/', expects_more=True)
    assert texts(project, '@"my folder/') == ['@"my folder/a.txt"']


def test_folders_that_were_added_are_offered_by_their_whole_path(
    project: Path, tmp_path: Path, home: Path
) -> None:
    other = home / "notes"
    other.mkdir()
    (other / "todo.md").write_text("x")
    found = [
        [one.text for one in offered(project, typed, add_dirs=[str(other)])]
        for typed in (f"@{other}/to", "@~/notes/to")
    ]
    assert found == [[f"@{other}/todo.md"], ["@~/notes/todo.md"]]


def test_denied_files_are_not_suggested(project: Path, home: Path) -> None:
    (home / "secret.txt").write_text("x")
    assert texts(project, f"@{home}/") == []
    assert texts(project, "@../") == []


def test_there_are_never_too_many(project: Path) -> None:
    for number in range(70):
        (project / f"many{number}.txt").write_text("x")
    assert len(texts(project, "@many")) == 50


def test_an_ordinary_word_gets_no_suggestions(project: Path) -> None:
    assert texts(project, "hello") == []
    assert texts(project, "") == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="/\0"), min_size=1))
def test_a_suggested_path_refers_to_exactly_that_file(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    folder = tmp_path_factory.mktemp("one")
    try:
        (folder / name).write_text("x")
    except OSError:  # the file system has no such names
        return
    workspace = Workspace([folder])
    for candidate in asyncio.run(complete_path(workspace, name[:1])):
        mentions = parse_mentions(f"Look at {candidate.text} now.", workspace=workspace)
        assert mentions.blocks == (FileReference(path=name),)


# -- servers -----------------------------------------------------------------------------------


def answered(folder: Path, typed: str) -> dict[str, Suggestion]:
    """Return the suggestions once a server has answered, however slow it is."""

    async def ask(context: CommandContext) -> dict[str, Suggestion]:
        while not (found := await find_completions(state_of(context).environment, typed)):
            pass
        return {one.text: one for one in found}

    return with_context(folder, ask, limit_s=30)


def test_resources_of_servers_are_offered_by_the_name_of_the_server(
    project: Path, home: Path
) -> None:
    write_servers(project / ".mcp.json", everything_spec(), time_spec())
    write_settings(home, trust_settings(project))
    found = answered(project, "@everything:demo://resource/")
    assert "@everything:demo://resource/static/document/features.md" in found
    template = found["@everything:demo://resource/dynamic/text/"]
    assert template.expects_more
    assert any(text.startswith("@everything:demo://") for text in answered(project, "@ev"))


def test_prompts_of_servers_are_offered_with_what_they_need(project: Path, home: Path) -> None:
    write_servers(project / ".mcp.json", everything_spec())
    write_settings(home, trust_settings(project))
    found = answered(project, "/everything:")
    assert found["/everything:args-prompt"].expects_more
    assert found["/everything:args-prompt"].description.startswith("city=… [state=…] · ")
    assert not found["/everything:simple-prompt"].expects_more
    assert [*answered(project, "/simple")] == ["/everything:simple-prompt"]
    assert texts(project, "/everything:simple-prompt x") == []


def test_a_server_that_fails_takes_nothing_from_the_others(project: Path, home: Path) -> None:
    dead = own_spec(name="dead")
    write_servers(project / ".mcp.json", everything_spec())
    text = (project / ".mcp.json").read_text()
    broken = f'{{"mcpServers": {{"dead": {{"command": "{dead.command}", "args": ["-c", ""]}}, '
    (project / ".mcp.json").write_text(text.replace('{"mcpServers": {', broken))
    write_settings(home, trust_settings(project))
    assert "/everything:simple-prompt" in answered(project, "/")


# -- lists that are remembered -----------------------------------------------------------------


class Topic:
    """Something to ask about."""


def test_a_list_is_asked_for_once_until_it_is_old() -> None:
    asked: list[Topic] = []
    clock = [0.0]

    async def ask(topic: Topic) -> tuple[int, ...]:
        asked.append(topic)
        return (len(asked),)

    async def main() -> None:
        lists = TimedCache(ask, max_age_s=5, max_wait_s=5, now=lambda: clock[0])
        topic, other = Topic(), Topic()
        first, second = await asyncio.gather(lists.get(topic), lists.get(topic))
        assert first == second == (1,)
        assert await lists.get(other) == (2,)
        clock[0] = 4.9
        assert await lists.get(topic) == (1,)
        clock[0] = 5.0
        assert await lists.get(topic) == (3,)

    asyncio.run(main())


def test_a_slow_server_is_not_awaited_and_its_suggestions_come_next_time() -> None:
    async def main() -> None:
        may_answer = asyncio.Event()

        async def ask(topic: Topic) -> tuple[str, ...]:
            await may_answer.wait()
            return ("late",)

        lists = TimedCache(ask, max_age_s=60, max_wait_s=0.01)
        topic = Topic()
        assert await lists.get(topic) == ()
        may_answer.set()
        answered = [await lists.get(topic) for _ in range(2)]
        assert answered[-1] == ("late",)

    asyncio.run(main())


def test_cancelling_the_wait_does_not_cancel_the_question() -> None:
    asked: list[Topic] = []

    async def main() -> None:
        may_answer = asyncio.Event()

        async def ask(topic: Topic) -> tuple[str, ...]:
            asked.append(topic)
            await may_answer.wait()
            return ("answer",)

        lists = TimedCache(ask, max_age_s=60, max_wait_s=5)
        topic = Topic()
        waiting = asyncio.create_task(lists.get(topic))
        await asyncio.sleep(0)
        waiting.cancel()  # the user continues typing
        await asyncio.wait({waiting})
        may_answer.set()
        assert await lists.get(topic) == ("answer",)
        assert asked == [topic]

    asyncio.run(main())
