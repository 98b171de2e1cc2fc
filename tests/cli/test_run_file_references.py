"""`steno -p` with prompts that reference files."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.store import open_store
from tests.app.project_setup import events_of, make_project, scripted_model
from tests.cli.program import run_process, run_steno
from tests.cli.reference_setup import check_last_log, input_rows, last_text, resolutions


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a file in it, which is where we are."""
    return make_project(tmp_path, monkeypatch)


@pytest.fixture
def notes(project: Path) -> Path:
    file = project / "notes.md"
    file.write_text("one\ntwo\nthree\n", encoding="utf-8")
    return file


@pytest.mark.requirement("S2-12", "S2-13")
def test_the_model_reads_the_lines_that_a_prompt_points_at(home: Path, notes: Path) -> None:
    with scripted_model(home, "I see.") as model:
        output = run_process("-p", "What is in @notes.md:1-2?")
    assert (output.status, output.out) == (0, "I see.\n")
    assert last_text(model) == (
        "What is in @notes.md:1-2?\n\nnotes.md, lines 1 to 2 of 3:\n     1\tone\n     2\ttwo\n"
    )
    [found] = resolutions()
    assert found.details is not None
    assert found.details["allowed_by"] == "default read"
    check_last_log()


def test_folders_patterns_and_names_with_blanks_are_opened_too(home: Path, project: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text("A = 1\n", encoding="utf-8")
    (project / "src" / "b.py").write_text("B = 2\n", encoding="utf-8")
    (project / "to do.txt").write_text("rest\n", encoding="utf-8")
    with scripted_model(home, "I see.") as model:
        assert run_steno("-p", "See @src/, @src/*.py and @'to do.txt'.").status == 0
    text = last_text(model)
    assert "A = 1" in text
    assert "B = 2" in text
    assert "to do.txt, line 1 of 1:\n     1\trest\n" in text
    assert [(row["kind"], row["name"]) for row in input_rows()] == [
        ("folder", "src"),
        ("pattern", "src/*.py"),
        ("file", "to do.txt"),
    ]
    check_last_log()


# -- what cannot be opened -----------------------------------------------------------------------


@pytest.mark.requirement("S2-11")
def test_nothing_is_sent_if_a_file_is_missing_and_retry_sends_it_later(
    home: Path, notes: Path, project: Path
) -> None:
    with scripted_model(home, "Now I see.") as model:
        output = run_process("-p", "Compare @notes.md and @note.md")
        assert (output.status, output.out, model.seen) == (1, "", [])
        last = output.err.splitlines()[-1]
        assert ": 'note.md': " in last
        assert all(hint in last for hint in (" 'notes.md'?", " \\@ ", "-c --retry", "-c -p"))
        (project / "note.md").write_text("four\n", encoding="utf-8")
        output = run_steno("-c", "--retry")
        assert (output.status, output.out) == (0, "Now I see.\n")
        assert model.sent_roles() == ["system", "user"]
        assert last_text(model).startswith(
            "Compare @notes.md and @note.md\n\nnotes.md, lines 1 to 3"
        )
        assert last_text(model).endswith("note.md, line 1 of 1:\n     1\tfour\n")
        output = run_steno("-c", "--retry")
        assert (output.status, output.out) == (2, "")
        assert (output.code, output.place) == ("nothing_unsent", "--retry")
    assert [row["status"] for row in input_rows("--all")] == [
        "resolved",
        "failed",
        "resolved",
        "resolved",
    ]
    check_last_log()


def test_a_session_continues_after_a_prompt_that_could_not_be_sent(home: Path) -> None:
    with scripted_model(home, "First.", "Then.") as model:
        assert run_steno("-p", "Begin.").status == 0
        assert run_steno("-c", "-p", "See @gone.md").status == 1
        assert run_steno("-c", "-p", "Never mind.").status == 0
        assert [text for text in map(str, model.seen[-1]["messages"]) if "gone.md" in text] == []
    assert model.sent_roles() == ["system", "user", "assistant", "user"]
    check_last_log()


def test_without_a_session_no_retry_is_suggested(home: Path) -> None:
    with scripted_model(home) as model:
        output = run_steno("-p", "See @gone.md", "--no-session", "-q")
    assert (output.status, output.out, model.seen) == (1, "", [])
    assert ": 'gone.md': " in output.err
    assert "--retry" not in output.err
    assert output.err.count("\n") == 1


def test_the_suggested_retry_names_the_session_that_was_named(home: Path) -> None:
    with scripted_model(home, "First."):
        run_steno("-p", "Begin.")
        output = run_steno("-r", "last", "-p", "See @gone.md", "-q")
    assert "-r last --retry" in output.err
    assert "-r last -p" in output.err


@pytest.mark.requirement("S2-14")
@pytest.mark.parametrize("prompt", ["@notes.md", "@./notes.md", "@*.md", "@'notes.md':1"])
def test_a_file_that_a_rule_denies_is_not_read_for_a_reference(
    home: Path, notes: Path, prompt: str
) -> None:
    with scripted_model(home) as model:
        output = run_steno("-p", f"See {prompt}", "--deny", "read(notes.md)", "-q")
    assert (output.status, model.seen) == (1, [])
    assert "notes.md: " in output.err
    assert "(deny read(notes.md))" in output.err
    assert "three" not in output.err


@pytest.mark.parametrize(
    ("prompt", "name", "facts"),
    [
        ("@notes.md:4", "notes.md", (" 3 lines", " line 4")),
        ("@notes.md:2-9", "notes.md", (" 3 lines", " line 4", " 2-3")),
        ("@data.bin", "data.bin", (" text ",)),
        ("@link.md", "link.md", ()),
    ],
)
def test_the_reason_why_a_reference_cannot_be_opened_is_reported(
    home: Path, notes: Path, prompt: str, name: str, facts: tuple[str, ...]
) -> None:
    (notes.parent / "data.bin").write_bytes(bytes(range(256)))
    (home / "outside.md").write_text("secret\n", encoding="utf-8")
    (notes.parent / "link.md").symlink_to(home / "outside.md")
    with scripted_model(home) as model:
        output = run_steno("-p", f"See {prompt}", "-q")
    assert (output.status, output.out, model.seen) == (1, "", [])
    assert f": '{name}': " in output.err
    assert all(fact in output.err for fact in facts)
    assert "secret" not in output.err


# -- where it stands -----------------------------------------------------------------------------


def test_mentions_in_piped_input_are_not_resolved(home: Path, notes: Path) -> None:
    with scripted_model(home, "Fine.") as model:
        output = run_process("-p", "Review this.", data=b"+see @notes.md and @gone.md\n")
    assert output.status == 0
    assert last_text(model) == "Review this.\n\n+see @notes.md and @gone.md\n"
    assert input_rows() == []


def test_a_prompt_on_stdin_points_at_things_like_any_other(home: Path, notes: Path) -> None:
    with scripted_model(home, "Fine.") as model:
        assert run_process("-p", "-", data=b"See @notes.md:3").status == 0
    assert last_text(model) == "See @notes.md:3\n\nnotes.md, line 3 of 3:\n     3\tthree\n"


# -- later ---------------------------------------------------------------------------------------


def test_a_changed_file_is_reported_as_an_event_of_its_own(home: Path, notes: Path) -> None:
    with scripted_model(home, "I see.", "Still."):
        run_steno("-p", "What is in @notes.md?")
        notes.write_text("other\n", encoding="utf-8")
        output = run_steno("-c", "-p", "And now?", "--output-format", "stream-json")
    assert (output.status, output.err) == (0, "")
    [notice] = [event for event in events_of(output) if event["type"] == "notice"]
    assert (notice["code"], notice["text"].split()[0]) == ("input", "notes.md")
    with open_store() as store:
        [header] = store.headers()
    assert header.id == events_of(output)[0]["session"]
