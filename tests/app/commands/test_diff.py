"""`/diff`, with a real git."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from steno import ChatMessage, Conversation, ToolCall
from steno.app.commands.report import Report
from steno.errors import Missing
from steno.messages.outcome import Outcome
from steno.render.items import TextForm
from steno.store import Store
from tests.app.command_setup import run_with_context


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is no repository."""
    for name, value in (
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "ada"),
        ("GIT_AUTHOR_EMAIL", "ada@example.org"),
        ("GIT_COMMITTER_NAME", "ada"),
        ("GIT_COMMITTER_EMAIL", "ada@example.org"),
    ):
        monkeypatch.setenv(name, value)
    made = tmp_path / "work"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def repository(folder: Path) -> Path:
    """A repository with one commit."""
    git("init", "--quiet")
    (folder / "kept.txt").write_text("one\ntwo\n")
    (folder / ".gitignore").write_text("*.log\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    return folder


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, timeout=60)


def shown(
    folder: Path, argument: str = "", *, begin: Callable[[Store], Conversation] | None = None
) -> Report:
    return run_with_context(folder, "diff", argument, begin=begin)


# -- in a repository ---------------------------------------------------------------------------


def test_changes_since_the_last_commit_are_shown_with_new_files(repository: Path) -> None:
    (repository / "kept.txt").write_text("one\nthree\n")
    (repository / "neu ü.txt").write_text("hello\n")
    (repository / "noise.log").write_text("ignored\n")
    reply = shown(repository)
    assert (reply.form, "commit" in reply.title) == (TextForm.DIFF, True)
    assert (
        "--- a/kept.txt\n+++ b/kept.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n" in reply.plain_text
    )
    assert reply.plain_text.endswith("--- /dev/null\n+++ neu ü.txt\n@@ -0,0 +1,1 @@\n+hello\n")
    assert "ignored" not in reply.plain_text


def test_staged_changes_are_included(repository: Path) -> None:
    (repository / "kept.txt").write_text("one\nthree\n")
    git("add", ".")
    assert "+three\n" in shown(repository).plain_text


def test_no_change_is_reported(repository: Path) -> None:
    reply = shown(repository)
    assert reply.form is TextForm.PLAIN
    assert (reply.plain_text.count("\n"), "@@" in reply.plain_text) == (0, False)


def test_a_path_narrows_it(repository: Path) -> None:
    (repository / "kept.txt").write_text("changed\n")
    (repository / "src").mkdir()
    (repository / "src" / "new.txt").write_text("new\n")
    src, file = shown(repository, "src"), shown(repository, "kept.txt")
    assert src.title.endswith(" src")
    assert ("+++ src/new.txt" in src.plain_text, "kept" in src.plain_text) == (True, False)
    assert ("+changed" in file.plain_text, "new.txt" in file.plain_text) == (True, False)
    (repository / "empty").mkdir()
    nothing = shown(repository, "empty")
    assert (nothing.form, " empty." in nothing.plain_text) == (TextForm.PLAIN, True)


def test_in_a_folder_of_a_repository_only_that_is_shown(repository: Path) -> None:
    inner = repository / "inner"
    inner.mkdir()
    (inner / "new.txt").write_text("new\n")
    (repository / "kept.txt").write_text("changed\n")
    text = shown(inner).plain_text
    assert "+++ new.txt" in text
    assert "kept" not in text


def test_before_the_first_commit_everything_is_new(folder: Path) -> None:
    git("init", "--quiet")
    (folder / "staged.txt").write_text("one\n")
    git("add", ".")
    (folder / "other.txt").write_text("two\n")
    text = shown(folder).plain_text
    assert "+++ staged.txt" in text
    assert "+++ other.txt" in text


def test_new_files_that_are_large_or_no_text_or_links_are_named(repository: Path) -> None:
    (repository / "large.txt").write_text("x\n" * 100_000)
    (repository / "picture.bin").write_bytes(b"\0\1\2" * 10)
    secret = repository.parent / "secret.txt"
    secret.write_text("hush\n")
    (repository / "link.txt").symlink_to(secret)
    text = shown(repository).plain_text
    assert text.startswith("3 ")
    assert text.splitlines()[1:] == ["    large.txt", "    link.txt", "    picture.bin"]


def test_a_long_diff_is_truncated_and_marked(repository: Path) -> None:
    (repository / "kept.txt").write_text("some line of a long file\n" * 80_000)
    text = shown(repository).plain_text
    assert len(text) < 1_001_000
    last = text.splitlines()[-1]
    assert all(fact in last for fact in ("1,000,000 bytes", "/diff PATH"))


def test_nothing_in_it_can_act_on_a_terminal(repository: Path) -> None:
    (repository / "kept.txt").write_text("\x1b]0;owned\x07\u202e\n")
    text = shown(repository).plain_text
    assert "\\x1b]0;owned\\x07\\u202e" in text
    assert "\x1b" not in text


def test_no_program_that_the_repository_names_is_run(repository: Path) -> None:
    marker = repository.parent / "ran"
    program = repository.parent / "evil"
    program.write_text(f"#!/bin/sh\necho $0 >> {marker}\ncat\n")
    program.chmod(0o755)
    hook = repository / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(program.read_text())
    hook.chmod(0o755)
    (repository / ".gitattributes").write_text("*.txt diff=evil filter=evil\n")
    for name in (
        *("core.fsmonitor", "core.pager", "pager.diff", "diff.external", "core.sshCommand"),
        *("diff.evil.command", "diff.evil.textconv", "filter.evil.clean", "filter.evil.process"),
    ):
        git("config", name, str(program))
    git("config", "filter.evil.required", "true")
    (repository / "kept.txt").write_text("one\nthree\n")
    marker.unlink(missing_ok=True)
    assert "-two\n+three\n" in shown(repository).plain_text
    assert not marker.exists()


def test_nor_is_one_that_a_submodule_names(repository: Path) -> None:
    marker = repository.parent / "ran"
    inner = repository.parent / "inner"
    git("clone", "--quiet", str(repository), str(inner))
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    git("commit", "--quiet", "-m", "second")
    program = repository.parent / "evil"
    program.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
    program.chmod(0o755)
    git("-C", "sub", "config", "filter.inner.clean", str(program))
    (repository / "sub" / ".gitattributes").write_text("*.txt filter=inner\n")
    (repository / "sub" / "kept.txt").write_text("two\none\n")  # as long as before
    (repository / "kept.txt").write_text("changed\n")
    assert "+changed\n" in shown(repository).plain_text
    assert not marker.exists()


def test_a_filter_of_the_user_s_own_settings_still_counts(repository: Path) -> None:
    git("config", "--global", "filter.upper.clean", "tr a-z A-Z")
    (repository / ".gitattributes").write_text("*.txt filter=upper\n")
    (repository / "kept.txt").write_text("one\nthree\n")
    assert "+THREE\n" in shown(repository).plain_text


# -- anywhere else -----------------------------------------------------------------------------


def changing(store: Store) -> Conversation:
    """Begin a session in which two files were changed, one by a tool of the user's own."""
    conversation = store.new([ChatMessage.user("Go")])
    steps = (
        ("edit", "src/a.py", "--- src/a.py\n+++ src/a.py\n@@ -1 +1 @@\n-x\n+y\n", Outcome.OK),
        ("patch", "b.txt", "--- /dev/null\n+++ b.txt\n@@ -0,0 +1 @@\n+new", Outcome.OK),
        ("edit", "c.txt", "--- c.txt\n", Outcome.ERROR),
        ("read", "d.txt", "", Outcome.OK),
    )
    for number, (tool, path, diff, outcome) in enumerate(steps):
        conversation.append(ChatMessage.assistant("", [ToolCall(id=f"c{number}", name=tool)]))
        details = {"path": path, "diff": diff}
        conversation.append(
            ChatMessage.tool_result(
                f"c{number}", "done", tool_name=tool, outcome=outcome, details=details
            )
        )
    return conversation


def test_without_git_it_is_what_the_agent_has_changed(folder: Path) -> None:
    reply = shown(folder, begin=changing)
    assert (reply.form, "agent" in reply.title) == (TextForm.DIFF, True)
    assert reply.plain_text == (
        "--- src/a.py\n+++ src/a.py\n@@ -1 +1 @@\n-x\n+y\n"
        "--- /dev/null\n+++ b.txt\n@@ -0,0 +1 @@\n+new\n"
    )


def test_a_path_narrows_that_as_well(folder: Path) -> None:
    assert shown(folder, "src", begin=changing).plain_text.startswith("--- src/a.py")
    assert shown(folder, "./b.txt", begin=changing).plain_text.startswith("--- /dev/null")
    (folder / "c.txt").write_text("unchanged\n")
    nothing = shown(folder, "c.txt", begin=changing)
    assert (nothing.form, " c.txt." in nothing.plain_text) == (TextForm.PLAIN, True)


def test_an_unknown_path_is_an_error_and_not_an_unchanged_file(folder: Path) -> None:
    for _ in range(2):  # first without a repository, then in one
        with pytest.raises(Missing) as caught:
            shown(folder, "nowhere", begin=changing)
        assert (caught.value.code, caught.value.place) == ("path_missing", "/diff")
        git("init", "--quiet")


def test_an_error_of_git_is_reported_and_recorded_changes_are_shown(folder: Path) -> None:
    git("init", "--quiet")
    (folder / ".git" / "config").write_text("[core\n")
    reply = shown(folder, begin=changing)
    assert reply.title.startswith("Diff: git: fatal: ")
    assert "agent" in reply.title
    assert reply.plain_text.startswith("--- src/a.py")
