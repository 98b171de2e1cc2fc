"""`steno -p`: its prompt, its session and its model."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.store import open_store
from tests.app.project_setup import OFFLINE, make_project, result_of, scripted_model, write_settings
from tests.cli.program import CommandOutput, run_process, run_steno


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a file in it, which is where we are."""
    return make_project(tmp_path, monkeypatch)


def as_json(*arguments: str | Path, data: bytes = b"") -> CommandOutput:
    return run_steno(*arguments, "--output-format", "json", "-q", data=data)


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def sent_prompt(home: Path, *arguments: str, data: bytes = b"") -> str:
    """Return the prompt that the model receives."""
    with scripted_model(home, "Yes.") as model:
        assert run_steno(*arguments, data=data).status == 0
        content: str = model.seen[0]["messages"][-1]["content"]
        return content


# -- the prompt ----------------------------------------------------------------------------------


def test_the_answer_is_on_stdout_and_the_rest_on_stderr(home: Path) -> None:
    with scripted_model(home, ["It is ", "fine."]):
        output = run_steno("-p", "How is it?")
    assert (output.status, output.out) == (0, "It is fine.\n")
    assert output.err.startswith("lab/tester · act mode · session ")


def test_quiet_prints_only_the_answer(home: Path) -> None:
    with scripted_model(home, "Fine."):
        assert run_steno("-p", "How is it?", "-q") == (0, "Fine.\n", "")


def test_the_prompt_comes_from_the_option_from_stdin_or_from_both(home: Path) -> None:
    assert sent_prompt(home, "-p", "Look.") == "Look."
    assert sent_prompt(home, "run", data=b"Look.\n") == "Look.\n"
    assert sent_prompt(home, "-p", "-", data=b"Look.\n") == "Look.\n"
    assert sent_prompt(home, "-p", "Review:", data="± a\n".encode()) == "Review:\n\n± a\n"
    assert sent_prompt(home, "-p", "Look.", data=b" \n") == "Look."


@pytest.mark.parametrize("arguments", [["run"], ["-p", ""], ["-p", "  "], ["-p", "-"], ["-c"]])
def test_nothing_to_do_is_a_mistake_on_the_command_line(arguments: list[str]) -> None:
    output = run_steno(*arguments)
    assert (output.status, output.out) == (2, "")
    assert "steno -p " in output.err


def test_input_that_is_not_text_is_refused(home: Path) -> None:
    output = run_steno("-p", "Look.", data=b"\xff\xfe")
    assert (output.status, output.code, output.place) == (1, "not_utf8", "stdin")
    output = run_steno("-p", "\udcff")
    assert (output.status, output.code, output.place) == (2, "not_utf8", "--prompt")
    assert files_below(home) == []


def test_a_far_too_long_input_is_refused() -> None:
    output = run_steno("-p", "Look.", data=b"x" * (10 * 1024 * 1024 + 1))
    assert (output.status, output.code, output.place) == (1, "input_too_large", "stdin")
    assert "10,485,760" in output.err


# -- sessions ------------------------------------------------------------------------------------


def test_a_session_is_stored_and_continued(home: Path) -> None:
    with scripted_model(home, "One.", "Two.", "Three.") as model:
        first = result_of(as_json("-p", "a"))
        second = result_of(as_json("-c", "-p", "b"))
        third = result_of(as_json("-r", first["session"][:13], "-p", "c"))
    assert first["session"] == second["session"] == third["session"]
    assert model.sent_roles() == ["system", *["user", "assistant"] * 2, "user"]


def test_the_last_session_is_that_of_this_folder(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = result_of(as_json("-p", "list files", *OFFLINE))["session"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    output = as_json("-c", "-p", "list files", *OFFLINE)
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == ("folder_without_session", "session")
    there = result_of(as_json("-p", "list files", *OFFLINE))["session"]
    monkeypatch.chdir(tmp_path / "project")
    assert result_of(as_json("-c", "-p", "list files", *OFFLINE))["session"] == here
    assert result_of(as_json("-r", there, "-p", "list files", *OFFLINE))["session"] == there
    assert result_of(as_json("-r", "last", "-p", "list files", *OFFLINE))["session"] == there


def test_continuing_a_session_in_another_folder_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_steno("-p", "list files", *OFFLINE)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    output = run_steno("-r", "last", "-p", "list files", *OFFLINE)
    assert output.status == 0
    [notice] = [line for line in output.err.splitlines() if f"{tmp_path}/project" in line]
    assert f"{tmp_path}/elsewhere" in notice


def test_a_damaged_session_does_not_stop_continuing_another(tmp_path: Path) -> None:
    store = f"jsonl:{tmp_path / 'store'}"
    good = result_of(as_json("-p", "list files", *OFFLINE, "--store", store))["session"]
    bad = result_of(as_json("-p", "list files", *OFFLINE, "--store", store))["session"]
    (broken,) = [path for path in (tmp_path / "store").rglob("*.jsonl") if bad in str(path)]
    first, second, *rest = broken.read_bytes().splitlines(keepends=True)
    broken.write_bytes(b"".join([first, second[:40] + b"\n", *rest]))
    assert run_steno("sessions", "show", bad, "--store", store).status == 1
    output = as_json("-c", "-p", "list files", *OFFLINE, "--store", store)
    assert result_of(output)["session"] == good
    [passed_over] = [line for line in output.err.splitlines() if bad in line]
    assert f"session {bad}: skipped, although it may be the latest" in passed_over
    assert "line 2" in passed_over
    assert passed_over.endswith(f"; run `steno verify {bad}` to check it")
    assert good not in output.err


def test_if_every_session_of_the_folder_is_damaged_that_is_reported(tmp_path: Path) -> None:
    store = f"jsonl:{tmp_path / 'store'}"
    bad = result_of(as_json("-p", "list files", *OFFLINE, "--store", store))["session"]
    (broken,) = (tmp_path / "store").rglob("*.jsonl")
    first, second, *rest = broken.read_bytes().splitlines(keepends=True)
    broken.write_bytes(b"".join([first, second[:40] + b"\n", *rest]))
    output = as_json("-c", "-p", "list files", *OFFLINE, "--store", store)
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == ("folder_sessions_unreadable", "session")
    assert f"`steno verify {bad}`" in output.err
    assert "`steno verify --all`" in output.err


def test_a_session_that_is_not_there_is_named_with_advice() -> None:
    output = as_json("-r", "nope", "-p", "list files", *OFFLINE)
    assert (output.status, output.out) == (1, "")
    assert (output.code, output.place) == ("name_unknown", "session nope")


def test_a_fork_leaves_the_other_branch_as_it_is(home: Path) -> None:
    with scripted_model(home, "One.", "Two.", "Three.", "Four.") as model:
        first = result_of(as_json("-p", "a"))
        forked = result_of(as_json("-c", "--fork", "-p", "b"))
        named = result_of(as_json("-c", "--fork", "idea", "-p", "c"))
        on = result_of(as_json("-c", "-p", "d"))
    assert [run["branch"] for run in (first, forked, named, on)] == [
        *("main", "fork-1", "idea", "idea"),
    ]
    assert model.sent_roles(1) == ["system", "user", "assistant", "user"]
    with open_store() as store:
        conversation = store.open(first["session"])
        assert [message.text for message in conversation.messages("main")][1:] == ["a", "One."]


def test_a_fork_of_a_name_that_is_taken_is_refused() -> None:
    run_steno("-p", "list files", *OFFLINE)
    output = run_steno("-c", "--fork", "main", "-p", "list files")
    assert (output.status, output.code, output.place) == (1, "branch_exists", "--fork")


@pytest.mark.parametrize(
    "arguments",
    [
        ["-p", "x", "--fork"],
        ["-c", "--no-session", "-p", "x"],
        ["-c", "-r", "last", "-p", "x"],
        ["-c", "-p", "x", "--system-prompt", "y"],
        ["-c", "-p", "x", "--append-system-prompt", "y"],
        ["-p", "x", "--ask", "--yes"],
        ["-p", "x", "--mode", "dream"],
        ["-p", "x", "--max-turns", "0"],
        ["-p", "x", "--output-format", "xml"],
    ],
)
def test_options_that_make_no_sense_are_refused(arguments: list[str], home: Path) -> None:
    output = run_steno(*arguments)
    assert (output.status, output.out) == (2, "")
    assert output.err.startswith("usage: steno run")
    assert files_below(home) == []


def test_without_a_session_nothing_is_on_the_disk(home: Path, project: Path) -> None:
    before = files_below(project)
    output = run_process("-p", "read note.txt", *OFFLINE, "--no-session", "--output-format", "json")
    assert output.status == 0
    assert result_of(output)["session"] is None
    assert list(home.iterdir()) == []
    assert files_below(project) == before


def test_a_failure_before_the_start_stores_nothing(home: Path) -> None:
    output = as_json("-p", "x", "--model", "unknown/x")
    assert (output.status, output.out) == (2, "")
    assert (output.code, output.place) == ("provider_unknown", "--model unknown/x")
    assert files_below(home) == []


def test_a_fork_is_not_begun_if_the_model_is_not_there() -> None:
    session = result_of(as_json("-p", "list files", *OFFLINE))["session"]
    assert as_json("-c", "--fork", "-p", "x", "--model", "nobody/x").status == 2
    with open_store() as store:
        assert list(store.open(session).branches) == ["main"]


# -- which store -----------------------------------------------------------------------------------


def test_every_command_finds_the_store_in_the_same_place(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flag counts more than the variable, and that more than the settings."""
    write_settings(home, f'store = "sqlite:{tmp_path}/set.db"')
    by_setting = result_of(as_json("-p", "list files", *OFFLINE))["session"]
    assert (tmp_path / "set.db").exists()
    assert by_setting in run_steno("sessions", "list", "--json").out
    assert run_steno("audit", by_setting).status == 0
    assert "set.db, 1 session" in run_steno("doctor").out
    monkeypatch.setenv("STENO_STORE", f"jsonl:{tmp_path}/variable")
    by_variable = result_of(as_json("-p", "list files", *OFFLINE))["session"]
    assert by_variable in run_steno("sessions", "list", "--json").out
    assert by_setting not in run_steno("sessions", "list", "--json").out
    flag = ("--store", f"sqlite:{tmp_path}/flag.db")
    by_flag = result_of(as_json("-p", "list files", *OFFLINE, *flag))["session"]
    assert by_flag in run_steno("sessions", "list", "--json", *flag).out
    assert by_variable not in run_steno("sessions", "list", "--json", *flag).out


def test_a_store_of_the_settings_that_is_not_there_yet_is_empty(home: Path) -> None:
    write_settings(home, f'store = "sqlite:{home}/mine.db"')
    assert run_steno("sessions", "list").status == 0
    assert not (home / "mine.db").exists()


def test_an_untrusted_project_cannot_set_the_store(project: Path) -> None:
    (project / ".steno").mkdir()
    (project / ".steno" / "config.toml").write_text('store = "sqlite:stolen.db"')
    output = run_steno("-p", "list files", *OFFLINE)
    assert output.status == 0
    assert f"steno: {project}/.steno/config.toml: " in output.err
    assert run_steno("sessions", "list", "--json").out.count("\n") == 1
    assert not (project / "stolen.db").exists()


# -- the model and its request ---------------------------------------------------------------------


def test_the_model_of_the_session_is_used_unless_another_is_named(home: Path) -> None:
    run_steno("-p", "list files", *OFFLINE)
    with scripted_model(home, "Hello."):
        assert result_of(as_json("-c", "-p", "list files"))["model"] == "offline/assistant"
        other = result_of(as_json("-c", "-p", "hello", "--model", "lab/tester"))
    assert (other["model"], other["text"]) == ("lab/tester", "Hello.")


def test_a_session_whose_model_is_gone_is_refused_with_a_remedy(home: Path) -> None:
    with scripted_model(home, "Hello."):
        run_steno("-p", "hello")
    write_settings(home, "")
    output = run_steno("-c", "-p", "hello")
    assert output.status == 1
    assert output.code == "provider_unknown"
    assert output.place == "recorded model lab/tester"
    assert "--model" in output.err
    assert run_steno("-c", "-p", "list files", *OFFLINE).status == 0


def test_the_system_prompt_can_be_replaced_and_appended_to(home: Path) -> None:
    with scripted_model(home, "a", "b", "c", settings='append_system_prompt = "Be kind."') as model:
        run_steno("-p", "x", "--append-system-prompt", "Be brief.")
        run_steno("-p", "x", "--system-prompt", "Be a cat.")
        run_steno("-c", "-p", "y")
    usual, replaced, gone_on = [request["messages"][0]["content"] for request in model.seen]
    assert usual.startswith("You are steno")
    assert usual.endswith("Be kind.\n\nBe brief.")
    assert replaced == gone_on == "Be a cat.\n\nBe kind."


def test_settings_and_variables_count_and_flags_count_more(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted_model(home, "a", "b", settings="temperature = 0.5\nmax_tokens = 70") as model:
        monkeypatch.setenv("STENO_MAX_TOKENS", "80")
        run_steno("-p", "x")
        run_steno("-p", "x", "--temperature", "0.1", "--max-tokens", "90")
    asked = [(request["temperature"], request["max_tokens"]) for request in model.seen]
    assert asked == [(0.5, 80), (0.1, 90)]


def test_a_model_found_by_default_is_reported_with_its_source(home: Path) -> None:
    with scripted_model(home, "Hello.", "Hello.") as model:
        assert "http://127.0.0.1:" not in run_steno("-p", "x").err
        write_settings(home, model.settings)
        output = run_steno("-p", "x")
    assert output.out == "Hello.\n"
    [notice] = [line for line in output.err.splitlines() if "http://127.0.0.1:" in line]
    assert "lab/tester" in notice


def test_arguments_without_an_option_are_the_prompt_without_a_terminal() -> None:
    output = run_steno("what is there?", "--model", "offline", "-q")
    assert output.status == 0
    assert "[offline assistant" in output.out
