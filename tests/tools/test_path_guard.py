"""A guard around real commands: what they do to protected paths is undone and reported."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from steno.tools.path_guard import ChangeKind, PathGuard, ProtectedChange
from steno.tools.protected_index import ProtectedIndex
from steno.tools.protected_paths import PathPolicy
from steno.tools.shell.supervisor.placeholders import hold_placeholders, release_placeholders
from tests.tools.search_engines import write_files

pytestmark = pytest.mark.requirement("P-27")

LIMIT_S = 60.0
Run = Callable[..., tuple[ProtectedChange, ...]]
GIT: Final = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def shell(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, **GIT},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.fixture
def project(folder: Path) -> Path:
    """A repository with a commit, a hook, and a package with settings of its own."""
    write_files(
        folder,
        {
            "app.py": "x = 1\n",
            "pkg/.envrc": "use nix\n",
            "pkg/a.py": "",
            "tools/.vscode/tasks.json": "{}\n",
            "src/hooks/use.ts": "",
            "src/config/x": "",
        },
    )
    done = shell(folder, "git init -q . && git add . && git commit -qm 1")
    assert done.returncode == 0, done.stderr
    write_files(folder, {".git/hooks/pre-commit": "#!/bin/sh\ntrue\n"})
    return folder


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    return tmp_path / "storage"


@pytest.fixture
def guard(project: Path, storage: Path, tmp_path: Path) -> PathGuard:
    policy = PathPolicy([project], environ={"HOME": str(tmp_path / "home")})
    return PathGuard(policy, storage)


def state_of(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Return the mode and the content of all entries, apart from the data of git."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        mode = path.lstat().st_mode
        if name.startswith((".git/objects", ".git/logs", ".git/index")):
            continue
        if stat.S_ISREG(mode):
            found[name] = (mode, path.read_bytes())
        else:
            found[name] = (mode, str(path.readlink()) if stat.S_ISLNK(mode) else "")
    return found


def kinds(folder: Path, changes: tuple[ProtectedChange, ...]) -> dict[str, str]:
    return {str(change.path.relative_to(folder)): str(change.kind) for change in changes}


UNDONE: Final = {
    "a hook is planted": (
        "printf evil > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout",
        {".git/hooks/post-checkout": "created"},
    ),
    "a hook is changed": (
        "echo evil >> .git/hooks/pre-commit",
        {".git/hooks/pre-commit": "changed"},
    ),
    "a hook is replaced by a link": (
        "ln -sf /bin/true .git/hooks/pre-commit",
        {".git/hooks/pre-commit": "replaced"},
    ),
    "a program for git status": ("git config core.fsmonitor ./evil", {".git/config": "changed"}),
    "settings of a worktree": (
        "printf '[core]\\nfsmonitor = x' > .git/config.worktree",
        {".git/config.worktree": "created"},
    ),
    "settings elsewhere": ("echo ../evil > .git/commondir", {".git/commondir": "created"}),
    "hooks are removed": ("rm -rf .git/hooks", {".git/hooks": "removed"}),
    "hooks are a link": (
        "mkdir evil; rm -rf .git/hooks; ln -s ../evil .git/hooks; rmdir evil",
        {".git/hooks": "replaced"},
    ),
    "git is a link": ("mv .git x; ln -s x .git", {".git": "replaced"}),
    "git is another folder": (
        "mv .git x; cp -r x .git; echo evil > .git/hooks/post-checkout; rm -rf x/hooks",
        {".git": "replaced", ".git/hooks": "removed"},
    ),
    "git is a file": ("mv .git x; echo 'gitdir: x' > .git", {".git": "replaced"}),
    "git is gone": ("mv .git x", {".git": "removed"}),
    "git is gone to a deeper place": ("mkdir -p a/b; mv .git a/b/.git; rmdir x || :", None),
    "a modified time is set back": (
        "touch -r .git/config t; echo '[a]' >> .git/config; touch -r t .git/config; rm t",
        {".git/config": "changed"},
    ),
    "a mode is changed": ("chmod 777 .git/hooks/pre-commit", {".git/hooks/pre-commit": "changed"}),
    "a file is made unreadable": ("chmod 0 .git/config", {".git/config": "changed"}),
    "a folder is made unreadable": ("chmod 0 .git/hooks", {".git/hooks": "changed"}),
    "a second name of the file": (
        "ln .git/config c; echo '[a]' >> c; rm c",
        {".git/config": "changed"},
    ),
    "an environment": ("echo evil > .envrc", {".envrc": "created"}),
    "an environment in another spelling": ("echo evil > .EnvRC", {".EnvRC": "created"}),
    "an environment is changed in place": ("echo evil >> pkg/.envrc", {"pkg/.envrc": "changed"}),
    "a pipe": ("mkfifo .envrc", {".envrc": "created"}),
    "a pipe replaces a file": ("rm pkg/.envrc; mkfifo pkg/.envrc", {"pkg/.envrc": "replaced"}),
    "a folder replaces a file": ("rm pkg/.envrc; mkdir pkg/.envrc", {"pkg/.envrc": "replaced"}),
    "a name that is not UTF-8": (r"mkdir .vscode; touch .vscode/$'\xff'", {".vscode": "created"}),
    "a link": ("ln -s /etc/passwd .envrc", {".envrc": "created"}),
    "settings of a tool server": ("echo {} > .mcp.json", {".mcp.json": "created"}),
    "a task is changed": (
        "echo evil > tools/.vscode/tasks.json",
        {"tools/.vscode/tasks.json": "changed"},
    ),
    "a task is added": (
        "echo > tools/.vscode/launch.json",
        {"tools/.vscode/launch.json": "created"},
    ),
    "settings are exchanged": (
        "mkdir -p new/.vscode; mv tools/.vscode old; mv new/.vscode tools; rm -r old new",
        {"tools/.vscode/tasks.json": "removed"},
    ),
    "settings move to another folder": ("mv tools/.vscode .vscode", None),
    "a folder cannot be written": (
        "mkdir .idea; touch .idea/x; chmod 500 .idea; chmod 500 .",
        {".idea": "created"},
    ),
}


@pytest.mark.parametrize(("command", "expected"), UNDONE.values(), ids=UNDONE)
def test_a_change_is_undone_and_reported(
    project: Path,
    guard: PathGuard,
    *,
    command: str,
    expected: dict[str, str] | None,
) -> None:
    snapshot = guard.begin()
    assert snapshot.is_complete
    before = state_of(project)
    mode = stat.S_IMODE(project.stat().st_mode)
    shell(project, command)
    changes = guard.finish(snapshot)
    project.chmod(mode)
    after = state_of(project)
    for name in ("a/b", "a"):  # an ordinary folder that the command made
        after.pop(name, None)
    assert after == before
    assert changes
    assert all(change.is_restored for change in changes)
    if expected is not None:
        assert kinds(project, changes) == expected
    assert guard.finish(snapshot) == ()


DEEP: Final = {
    "tasks": ("mkdir -p a/b/c/.vscode; echo {} > a/b/c/.vscode/tasks.json", ["a/b/c/.vscode"]),
    "a repository": ("git init -q a/b/new", ["a/b/new/.git"]),
    "a git file": ("mkdir a; echo 'gitdir: ../x' > a/.git", ["a/.git"]),
    "a bare repository": ("git init -q --bare a/b", ["a/b/HEAD", "a/b/config"]),
    "a repository made by hand": (
        "mkdir -p a/objects a/refs; echo 'ref: refs/heads/x' > a/HEAD; echo > a/config",
        ["a/HEAD", "a/config"],
    ),
    "a repository with its data elsewhere": (
        "mkdir -p a; echo 'ref: refs/heads/x' > a/HEAD; echo ../b > a/commondir",
        ["a/HEAD", "a/commondir"],
    ),
    "a link as a head": ("mkdir -p a/objects a/refs; ln -s refs/x a/HEAD", ["a/HEAD"]),
    "a worktree": ("git worktree add -q a", None),
    "a module": ("mkdir .git/modules; git init -q --separate-git-dir .git/modules/m m", None),
    "a name with a line break": ("mkdir -p $'a\\nb'; touch $'a\\nb/.envrc'", ["a\nb/.envrc"]),
    "in installed packages": ("mkdir -p node_modules/a; git init -q node_modules/a", None),
}


@pytest.mark.parametrize(("command", "expected"), DEEP.values(), ids=DEEP)
def test_what_is_planted_deep_below_goes_to_the_quarantine(
    project: Path,
    storage: Path,
    guard: PathGuard,
    *,
    command: str,
    expected: list[str] | None,
) -> None:
    snapshot = guard.begin()
    done = shell(project, command)
    assert done.returncode == 0, done.stderr
    changes = guard.finish(snapshot)
    assert changes
    for change in changes:
        assert change.kind is ChangeKind.CREATED
        assert change.is_restored
        assert not os.path.lexists(change.path)
        assert change.quarantine is not None
        assert os.path.lexists(change.quarantine)
        assert change.quarantine.is_relative_to(storage)
    if expected is not None:
        assert sorted(kinds(project, changes)) == expected
    assert guard.finish(snapshot) == ()
    if "git" in command:
        assert "evil" not in shell(project, "git status").stderr


HONEST: Final = (
    "true",
    "git checkout -qb topic && echo y > app.py && git commit -qam 2 && git checkout -q master",
    "git branch config && git branch hooks/x && git tag config",
    "git stash; echo z > app.py; git stash; git stash pop; git gc -q; git checkout .",
    "mkdir -p new/deep && echo x > new/deep/file && mv new newer && rm -r newer",
    "git init -q x && rm -rf x",
    "mkdir node_modules && mkdir -p node_modules/a/.vscode && touch node_modules/a/.vscode/s.json",
    "touch HEAD src/HEAD; mkdir objects src/refs",
    "cp -r src/hooks src/hooks2 && echo 1 > src/config/y && touch config",
    "touch .env .gitignore .gitattributes .editorconfig AGENTS.md",
    "ln -s app.py link && ln -s missing dangling && mkfifo pipe && rm pipe",
    "rm -rf pkg",
)


@pytest.mark.parametrize("command", HONEST)
def test_honest_work_is_left_alone(project: Path, guard: PathGuard, command: str) -> None:
    snapshot = guard.begin()
    shell(project, f"({command}) && touch done")
    before = state_of(project)
    assert guard.finish(snapshot) == ()
    assert state_of(project) == before
    assert (project / "done").exists()


def test_a_moved_folder_takes_its_settings_along(project: Path, guard: PathGuard) -> None:
    snapshot = guard.begin()
    shell(project, "mv pkg packages; mkdir pkg; mkdir deep; mv tools deep/tools")
    before = state_of(project)
    changes = guard.finish(snapshot)
    assert kinds(project, changes) == {
        "packages/.envrc": "moved",
        "deep/tools/.vscode": "moved",
    }
    assert state_of(project) == before


@pytest.mark.parametrize(
    "more",
    [
        "echo evil >> packages/.envrc",
        "mv packages/.envrc packages/a; cp packages/a packages/.envrc; echo evil >> packages/.envrc",
        "mkdir pkg; echo evil > pkg/.envrc",
    ],
)
def test_a_moved_folder_does_not_excuse_other_changes(
    project: Path, guard: PathGuard, more: str
) -> None:
    snapshot = guard.begin()
    shell(project, f"mv pkg packages; {more}")
    changes = guard.finish(snapshot)
    assert any(change.kind is not ChangeKind.MOVED for change in changes)
    contents = [path.read_text() for path in project.rglob(".envrc") if path.is_file()]
    assert "evil" not in "".join(contents)


def test_a_relative_git_file_is_not_moved(project: Path, guard: PathGuard) -> None:
    """From another place, it names another git folder."""
    write_files(project, {"m/.git": "gitdir: ../.git/modules/m\n", "x/": ""})
    snapshot = guard.begin()
    shell(project, "mv m x/m")
    assert kinds(project, guard.finish(snapshot)) == {"x/m/.git": "created"}


def test_existing_bare_repositories_are_guarded(project: Path, guard: PathGuard) -> None:
    shell(project, "git init -q --bare fixtures/x.git")
    snapshot = guard.begin()
    shell(
        project,
        "git -C fixtures/x.git config core.fsmonitor evil; touch fixtures/x.git/hooks/pre-push",
    )
    assert kinds(project, guard.finish(snapshot)) == {
        "fixtures/x.git/config": "changed",
        "fixtures/x.git/hooks/pre-push": "created",
    }


def test_pieces_of_a_repository_are_found_when_the_last_one_arrives(
    project: Path, guard: PathGuard
) -> None:
    for step in ("mkdir -p a/objects; echo evil > a/config", "mkdir a/refs"):
        snapshot = guard.begin()
        shell(project, step)
        assert guard.finish(snapshot) == ()
    snapshot = guard.begin()
    shell(project, "echo 'ref: refs/heads/x' > a/HEAD")
    assert "a/HEAD" in kinds(project, guard.finish(snapshot))
    assert "not a git repository" in shell(project / "a", "GIT_DIR=. git status").stderr


def test_folders_that_were_there_before_a_repository_stay(project: Path, guard: PathGuard) -> None:
    snapshot = guard.begin()
    shell(project, "cd src; mkdir objects refs; echo 'ref: refs/heads/x' > HEAD")
    assert kinds(project, guard.finish(snapshot)) == {"src/HEAD": "created"}
    assert (project / "src/hooks/use.ts").exists()
    assert (project / "src/config/x").exists()


def test_paths_that_settings_and_links_name_are_guarded(project: Path, guard: PathGuard) -> None:
    write_files(project, {"scripts/check.sh": "true\n", "ci/hooks/x": "", "ci/git.cfg": ""})
    (project / ".git/hooks/pre-push").symlink_to("../../scripts/check.sh")
    shell(project, "git config core.hooksPath ci/hooks; git config include.path ../ci/git.cfg")
    snapshot = guard.begin()
    shell(
        project,
        "for f in scripts/check.sh ci/hooks/x ci/git.cfg ci/hooks/post-merge; do echo evil >> $f; done",
    )
    assert kinds(project, guard.finish(snapshot)) == {
        "scripts/check.sh": "changed",
        "ci/hooks/x": "changed",
        "ci/git.cfg": "changed",
        "ci/hooks/post-merge": "created",
    }


def test_allowed_paths_may_change(project: Path, guard: PathGuard) -> None:
    snapshot = guard.begin()
    shell(project, "git config user.name B; git init -q sub; echo x > .envrc")
    allowed = [project / ".git/config", project / "sub"]
    assert kinds(project, guard.finish(snapshot, allowed=allowed)) == {".envrc": "created"}
    assert (project / "sub/.git/config").exists()


@pytest.mark.parametrize("name", [".envrc", ".vscode/tasks.json", ".git/config"])
def test_an_approved_change_meanwhile_is_accepted(
    project: Path, guard: PathGuard, name: str
) -> None:
    snapshot = guard.begin()
    with guard.accept(project / name):
        write_files(project, {name: "approved"})
    assert guard.finish(snapshot) == ()
    assert (project / name).read_text() == "approved"


def test_a_change_after_the_approved_one_is_undone(project: Path, guard: PathGuard) -> None:
    snapshot = guard.begin()
    with guard.accept(project / ".envrc"):
        write_files(project, {".envrc": "approved"})
    write_files(project, {".envrc": "evil"})
    assert kinds(project, guard.finish(snapshot)) == {".envrc": "changed"}
    assert (project / ".envrc").read_text() == "approved"


def test_an_approved_command_exempts_others_only_while_it_runs(
    project: Path, guard: PathGuard
) -> None:
    short, long = guard.begin(), guard.begin()
    approved = guard.begin(approved=[project])
    write_files(project, {".envrc": "approved"})
    assert guard.finish(short) == ()
    guard.end(approved)
    write_files(project, {".mcp.json": "evil"})
    assert kinds(project, guard.finish(long)) == {".mcp.json": "created"}
    assert (project / ".envrc").read_text() == "approved"


def test_with_mounts_only_what_they_do_not_cover_is_undone(project: Path, guard: PathGuard) -> None:
    snapshot = guard.begin()
    shell(
        project,
        "echo '#' >> .git/config; rm .git/hooks/pre-commit; touch .git/hooks/pre-push;"
        " echo x > tools/.vscode/launch.json; echo x > tools/.envrc",
    )
    changes = guard.finish(snapshot, enforced=True)
    assert kinds(project, changes) == {"tools/.envrc": "created"}


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_mount_is_gone_when_somebody_replaces_its_file(
    project: Path, guard: PathGuard, times: int
) -> None:
    before = state_of(project)
    snapshot = guard.begin()
    for _ in range(times):  # a file system may use the same inode again
        shell(project, "git config user.name B")
    shell(project, "git config core.fsmonitor ./evil")
    changes = guard.finish(snapshot, enforced=True)
    assert kinds(project, changes) == {".git/config": "changed"}
    assert state_of(project) == before


def test_a_link_is_no_mount(project: Path, guard: PathGuard) -> None:
    shell(project, "mv .git/hooks shared; ln -s ../shared .git/hooks")
    snapshot = guard.begin()
    shell(project, "rm .git/hooks; mkdir .git/hooks; echo evil > .git/hooks/post-merge")
    changes = guard.finish(snapshot, enforced=True)
    assert kinds(project, changes) == {".git/hooks": "replaced"}
    assert (project / ".git/hooks").is_symlink()


@pytest.mark.parametrize(
    "command",
    [
        "mv pkg old; mkdir pkg; echo evil > pkg/.envrc",
        "mv .git x; mkdir .git; cp -r x/* .git; echo evil > .git/hooks/post-merge",
        "mv .git x; ln -s x .git",
    ],
)
def test_a_mount_does_not_cover_a_folder_above_it(
    project: Path, guard: PathGuard, command: str
) -> None:
    snapshot = guard.begin()
    shell(project, command)
    changes = guard.finish(snapshot, enforced=True)
    assert changes
    assert not (project / ".git").is_symlink()
    assert not list(project.rglob("post-merge"))
    assert "evil" not in (project / "pkg/.envrc").read_text()


def test_a_file_with_a_second_name_is_not_covered_by_its_mount(
    project: Path, guard: PathGuard
) -> None:
    (project / "c").hardlink_to(project / ".git/config")
    snapshot = guard.begin()
    shell(project, "echo '[a]' >> c")
    assert kinds(project, guard.finish(snapshot, enforced=True)) == {".git/config": "changed"}


# -- several commands at once ---------------------------------------------------------------------


def test_the_copies_of_another_command_are_kept(project: Path, guard: PathGuard) -> None:
    before = state_of(project)
    first = guard.begin()
    shell(project, "echo evil > .git/config; rm .git/hooks/pre-commit")
    guard.end(guard.begin())
    changes = guard.finish(first)
    assert all(change.is_restored for change in changes)
    assert state_of(project) == before


@pytest.fixture
def held(project: Path) -> Iterator[dict[str, int]]:
    """The placeholders of another command that is running."""
    held = hold_placeholders([str(project / ".vscode"), str(project / ".envrc")])
    yield held
    release_placeholders(held)


def test_the_placeholders_of_another_command_stay(
    project: Path, guard: PathGuard, held: dict[str, int]
) -> None:
    after = guard.begin()
    release_placeholders(held)
    held.clear()
    assert guard.finish(after) == ()
    before = guard.begin()
    held |= hold_placeholders([str(project / ".vscode"), str(project / ".envrc")])
    assert guard.finish(before) == ()
    assert (project / ".envrc").is_dir()


def test_what_replaces_a_placeholder_is_undone(
    project: Path, guard: PathGuard, held: dict[str, int]
) -> None:
    snapshot = guard.begin()
    release_placeholders(held)
    held.clear()
    shell(project, "echo x > .envrc; mkdir .vscode; echo x > .vscode/tasks.json")
    changes = guard.finish(snapshot, enforced=True)
    assert kinds(project, changes) == {".envrc": "created", ".vscode": "created"}
    assert not os.path.lexists(project / ".envrc")


def test_a_held_placeholder_is_emptied_in_its_place(
    project: Path, guard: PathGuard, held: dict[str, int]
) -> None:
    snapshot = guard.begin()
    shell(project, "echo x > .vscode/tasks.json")
    (change,) = guard.finish(snapshot)
    assert change.is_restored
    assert change.quarantine is not None
    assert (change.quarantine / "tasks.json").read_text() == "x\n"
    folder = held[str(project / ".vscode")]
    assert os.path.samestat(os.fstat(folder), (project / ".vscode").lstat())
    assert not list((project / ".vscode").iterdir())
    release_placeholders(held)
    held.clear()
    assert not (project / ".vscode").exists()


# -- the quarantine -------------------------------------------------------------------------------


def test_a_user_can_have_the_new_version_back(project: Path, guard: PathGuard) -> None:
    snapshot = guard.begin()
    shell(
        project, "git config user.name B; git init -q sub; rm -r tools/.vscode; touch tools/.vscode"
    )
    wanted = state_of(project)
    changes = guard.finish(snapshot)
    assert state_of(project) != wanted
    assert all(guard.restore_from_quarantine(change) for change in changes)
    assert state_of(project) == wanted
    assert not guard.restore_from_quarantine(changes[0])


def test_a_new_file_in_the_place_is_not_overwritten(project: Path, guard: PathGuard) -> None:
    snapshot = guard.begin()
    shell(project, "echo 1 > .envrc")
    (change,) = guard.finish(snapshot)
    (project / ".envrc").write_text("2")
    assert not guard.restore_from_quarantine(change)
    assert (project / ".envrc").read_text() == "2"


def test_the_quarantine_is_private(project: Path, storage: Path, guard: PathGuard) -> None:
    assert not storage.exists()
    snapshot = guard.begin()
    shell(project, "touch .envrc")
    guard.finish(snapshot)
    assert stat.S_IMODE((storage / "quarantine").stat().st_mode) == 0o700


@pytest.fixture
def other_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every move to the quarantine fail as between two file systems."""
    rename = os.rename

    def refuse(source: str | Path, target: str | Path, **folders: int) -> None:
        if isinstance(target, Path) or isinstance(source, Path):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", refuse)


@pytest.mark.usefixtures("other_device")
def test_a_quarantine_may_be_on_another_file_system(project: Path, guard: PathGuard) -> None:
    snapshot = guard.begin()
    shell(
        project,
        "git init -q sub; echo 1 > .envrc; mkdir .vscode; ln -s /x .vscode/y; chmod 500 .vscode",
    )
    wanted = state_of(project)
    changes = guard.finish(snapshot)
    assert kinds(project, changes) == {
        ".envrc": "created",
        ".vscode": "created",
        "sub/.git": "created",
    }
    assert all(change.is_restored for change in changes)
    assert all(guard.restore_from_quarantine(change) for change in changes)
    assert state_of(project).keys() == wanted.keys()


@pytest.mark.usefixtures("other_device")
def test_what_cannot_be_copied_is_renamed_in_its_place(project: Path, guard: PathGuard) -> None:
    snapshot = guard.begin()
    shell(project, "mkfifo .envrc")
    (change,) = guard.finish(snapshot)
    assert change.quarantine is not None
    assert change.quarantine.parent == project
    assert not (project / ".envrc").exists()


# -- limits ---------------------------------------------------------------------------------------


def test_a_change_cannot_be_missed_because_the_clock_is_coarse(
    project: Path, storage: Path
) -> None:
    """Two changes may have the same change time; a recent one therefore proves nothing."""
    policy = PathPolicy([project], environ={"HOME": "/nowhere"})
    index = ProtectedIndex(policy, now_ns=lambda: (project / "pkg").stat().st_ctime_ns)
    index.refresh()
    assert index.folders[str(project / "pkg")].settled_ns == 0
    late = ProtectedIndex(policy, now_ns=lambda: (project / "pkg").stat().st_ctime_ns + 10**9)
    late.refresh()
    assert late.folders[str(project / "pkg")].settled_ns


def test_a_limit_of_folders_is_reported_and_accuses_nobody(project: Path, storage: Path) -> None:
    for number in range(30):
        write_files(project, {f"d{number:02}/e/.envrc": "x"})
    guard = PathGuard(PathPolicy([project], environ={"HOME": "/nowhere"}), storage, max_folders=45)
    snapshot = guard.begin()
    assert not snapshot.is_complete
    assert snapshot.state.reason == "folders"
    shell(project, "rm -rf d00 d01 d02 d03 d04 d05 d06 d07 d08 d09; touch .envrc")
    # Folders that are examined now, but were not before, are not new.
    assert kinds(project, guard.finish(snapshot)) == {".envrc": "created"}


def test_the_walk_can_be_stopped(project: Path, guard: PathGuard) -> None:
    for number in range(600):
        (project / f"n{number}").mkdir()
    snapshot = guard.begin(should_stop=lambda: True)
    assert snapshot.state.reason == "stopped"
    assert guard.begin().is_complete


def test_deep_folders_are_bounded(project: Path, guard: PathGuard) -> None:
    shell(project, "for i in $(seq 300); do mkdir d && cd d || exit; done; touch .envrc")
    snapshot = guard.begin()
    assert snapshot.state.reason == "depth"
    assert guard.finish(snapshot) == ()


def test_a_file_that_is_too_large_to_restore_goes_to_the_quarantine(
    project: Path, guard: PathGuard
) -> None:
    large = project / ".vscode" / "large"
    write_files(project, {".vscode/large": b"0" * (5 * 1024 * 1024)})
    snapshot = guard.begin()
    shell(project, "echo evil >> .vscode/large")
    changes = guard.finish(snapshot)
    assert not any(change.is_restored for change in changes)
    assert not large.exists()


def test_a_process_that_still_writes_does_not_win(project: Path, guard: PathGuard) -> None:
    snapshot = guard.begin()
    path = project / ".envrc"
    path.write_text("evil")

    def write_again() -> bool:
        path.write_text("evil")
        return False

    changes = guard.finish(snapshot, should_stop=write_again)
    assert kinds(project, changes) == {".envrc": "created"}
    assert not path.exists()


def test_files_of_steno_are_left_to_steno(project: Path, storage: Path) -> None:
    """The store changes while a command runs, and its old state must not return."""
    write_files(project, {".steno/steno.db": "1", ".steno/config.toml": "1"})
    own = [project / ".steno/steno.db"]
    guard = PathGuard(PathPolicy([project], environ={"HOME": "/nowhere"}, own=own), storage)
    snapshot = guard.begin()
    shell(project, "echo 2 > .steno/steno.db; echo 2 > .steno/config.toml")
    assert kinds(project, guard.finish(snapshot)) == {".steno/config.toml": "changed"}


def test_the_policy_learns_what_the_guard_finds(project: Path, tmp_path: Path) -> None:
    write_files(project, {"deep/a/.env": "KEY", "deep/a/.idea/x": "", "deep/b/.git/config": ""})
    policy = PathPolicy([project], environ={"HOME": str(tmp_path)})
    PathGuard(policy, tmp_path / "storage").begin()
    names = {str(path.relative_to(project)) for path in policy.sandbox_protected()}
    assert {"deep/a/.idea", "deep/b/.git/config", "deep/b/.git/hooks", ".git/hooks"} <= names
    assert "deep/a/.idea/x" not in names
    assert project / "deep/a/.env" in policy.sandbox_hidden()


def test_the_next_git_commands_of_the_user_run_nothing(
    project: Path, tmp_path: Path, guard: PathGuard
) -> None:
    mark = tmp_path / "mark"
    write_files(
        project,
        {
            "Makefile": f"test:\n\tprintf '#!/bin/sh\\ntouch {mark}\\n' > .git/hooks/pre-commit\n"
            "\tchmod +x .git/hooks/pre-commit\n"
            f"\tgit config core.fsmonitor 'touch {mark}; false'\n"
            f"\tgit init -q --bare sub && git -C sub config core.fsmonitor 'touch {mark}; false'\n"
        },
    )
    snapshot = guard.begin()
    done = shell(project, "make test")
    assert done.returncode == 0, done.stderr
    assert guard.finish(snapshot)
    done = shell(project, "git status && git add . && git commit -qm 2 && cd sub && git status")
    assert done.returncode == 0, done.stderr
    assert not mark.exists()
