"""Which paths are protected and which are secret, by their real path alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steno.tools.path_guard import PathGuard
from steno.tools.protected_paths import FoundPaths, PathPolicy, Protection, fold_name
from steno.tools.workspace import Workspace

pytestmark = pytest.mark.requirement("P-26")

READ_ONLY = [
    *[".git", ".git/hooks", ".git/hooks/pre-commit", ".git/config", ".git/config.worktree"],
    *[".git/commondir", ".git/gitdir", ".git/modules/a/config", ".git/modules/lib/b/hooks/x"],
    *[".git/modules/a/modules/b/config", ".git/worktrees/w/config.worktree"],
    *[".git/worktrees/w/commondir", "deep/down/.git/hooks/post-checkout", "sub/.git"],
    *[".hg/hgrc", ".jj/repo/config.toml", ".gitconfig", ".githooks/pre-push", ".husky/_/x"],
    *[".pre-commit-config.yaml", "lefthook.yml", ".steno/config.toml", ".mcp.json"],
    *[".vscode/tasks.json", "a/b/c/.vscode", ".idea/runConfigurations/a.xml", "x.code-workspace"],
    *[".envrc", "a/.envrc", ".devcontainer/devcontainer.json", ".devcontainer.json"],
    *[".cursor/mcp.json", ".claude/settings.json", ".codex/config.toml", ".zed/tasks.json"],
    *[".bashrc", ".profile", "dotfiles/.zshrc", ".inputrc", ".ssh/config", ".exrc", ".gdbinit"],
    *["mise.toml", ".mise/tasks/x", ".helix/languages.toml", ".Rprofile", ".irbrc", ".pryrc"],
    *[".vs/tasks.vs.json", ".theia/tasks.json", "x.sublime-project", "opencode.json"],
    *[".crush.json", ".trae/mcp.json", ".clinerules/x.md", ".kilocode/mcp.json", ".junie/x"],
    *[".qwen/settings.json", ".augment/x", ".factory/mcp.json", ".copilot/config"],
    # Other spellings of the same names.
    *[".GIT/hooks/x", ".Git/Config", ".g\u200cit/config", "git~1/config", ".git./config", ".git "],
    *[".git::$INDEX_ALLOCATION/hooks/x", ".VSCODE/tasks.json", ".\u017fteno/x", ".EnvRC"],
    # Packages bring no repositories along.
    *["node_modules/a/.git/config", ".venv/src/a/.git/hooks/x"],
]
ASKS = [
    *[".git/HEAD", ".git/index", ".git/refs/heads/config", ".git/objects/aa/hooks"],
    *[".git/modules/a/refs/heads/config", ".git/logs/HEAD", ".git/info/exclude"],
    *[
        "AGENTS.md",
        "docs/agents.md",
        "CLAUDE.md",
        ".cursorrules",
        ".github/copilot-instructions.md",
    ],
    *[".venv/bin/python", "venv/lib/python3.12/site-packages/x.py", "node_modules/a/index.js"],
    *["node_modules/a/.vscode/settings.json", ".direnv/python-3.12/bin/pip"],
]
ORDINARY = [
    *["README.md", "src/app.py", "git/hooks/x", "hooks/use.ts", "config", "src/config/x", "HEAD"],
    *[".github/workflows/ci.yml", ".gitignore", ".gitattributes", ".gitmodules", ".editorconfig"],
    *["vscode/tasks.json", "envrc", "x.vscode/y", "docs/ssh/config", "bin/tool", ".env.example"],
    *["node_modules.md", "package.json", "Makefile", ".agents", "a:b", "...", " "],
]
SECRETS = [
    *[".env", "a/b/.env", ".env.local", ".env.production", ".ENV", ".Env.Local", ".env."],
    *["id_rsa", "keys/id_ed25519", "ID_RSA", ".ssh/known_hosts", ".netrc", ".git-credentials"],
    *[".aws/credentials", ".docker/config.json", ".kube/config", ".claude/.credentials.json"],
    *["vault.kdbx", "key.ppk", ".gnupg/x"],
]
NOT_SECRET = [
    *[".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults", "env"],
    *[".env.production.example", "id_rsa.pub", ".aws/task.json", "test/cert.pem", "src/env.py"],
    *[".docker/Dockerfile", ".claude/settings.json", ".environment", "prod.environ"],
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def policy(folder: Path, home: Path) -> PathPolicy:
    return PathPolicy([folder], environ={"HOME": str(home)})


@pytest.mark.parametrize("name", READ_ONLY)
def test_a_path_that_makes_something_run_later_is_read_only(
    policy: PathPolicy, folder: Path, name: str
) -> None:
    assert policy.protection(f"{folder}/{name}") is Protection.READ_ONLY
    assert policy.is_read_only(f"{folder}/{name}")
    assert policy.is_protected(f"{folder}/{name}")


@pytest.mark.parametrize("name", ASKS)
def test_commands_may_change_what_file_tools_ask_about(
    policy: PathPolicy, folder: Path, name: str
) -> None:
    assert policy.protection(f"{folder}/{name}") is Protection.ASKS
    assert policy.is_protected(f"{folder}/{name}")


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_paths_are_not_protected(policy: PathPolicy, folder: Path, name: str) -> None:
    assert policy.protection(f"{folder}/{name}") is Protection.NONE
    assert not policy.is_protected(f"{folder}/{name}")


@pytest.mark.parametrize("name", SECRETS)
def test_reading_a_secret_asks_and_so_does_changing_it(
    policy: PathPolicy, folder: Path, name: str
) -> None:
    assert policy.is_secret(f"{folder}/{name}")
    assert policy.is_protected(f"{folder}/{name}")


@pytest.mark.parametrize("name", NOT_SECRET)
def test_examples_and_public_parts_are_not_secret(
    policy: PathPolicy, folder: Path, name: str
) -> None:
    assert not policy.is_secret(f"{folder}/{name}")


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        *[("README.md", "readme.md"), (".GIT", ".git"), ("a\u0301", "\xe1"), ("\xc1", "\xe1")],
        *[("GIT~1", ".git"), (".git . .", ".git"), (".git\ufeff", ".git"), ("x:y", "x"), ("", "")],
        *[("\udcff", "\udcff"), ("...", "")],
    ],
)
def test_the_spellings_of_a_name_have_one_form(name: str, folded: str) -> None:
    assert fold_name(name) == folded


# -- places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *[".config/autostart/x.desktop", ".local/bin/git", ".config/systemd/user/x", "bin/ls"],
        *[".config/fish/config.fish", ".config/git/config", ".npmrc", ".config/steno/config.toml"],
        *[".BASHRC", "Library/LaunchAgents/x.plist"],
    ],
)
def test_start_files_of_the_home_folder_are_read_only(home: Path, name: str) -> None:
    inside = PathPolicy([home], environ={"HOME": str(home)})
    assert inside.is_read_only(f"{home}/{name}")
    outside = PathPolicy([home / "work"], environ={"HOME": str(home)})
    assert outside.is_read_only(f"{home}/{name}")


@pytest.mark.parametrize(
    "name",
    [
        *[".aws/config", ".claude/history.jsonl", ".codex/auth.json", ".config/gcloud/x", ".npmrc"],
        *[".config/github-copilot/hosts.json", ".config/anthropic/key", ".bash_history"],
        *[".local/share/steno/steno.db", ".config/steno/grants.toml"],
    ],
)
def test_secrets_are_secret_although_the_workspace_contains_them(home: Path, name: str) -> None:
    assert PathPolicy([home], environ={"HOME": str(home)}).is_secret(f"{home}/{name}")


def test_variables_move_secrets_and_settings(tmp_path: Path, home: Path) -> None:
    moved = tmp_path / "moved"
    environ = {"HOME": str(home), "XDG_CONFIG_HOME": str(moved)}
    policy = PathPolicy([tmp_path], environ=environ)
    assert policy.is_secret(f"{moved}/gcloud/credentials")
    assert policy.is_read_only(f"{moved}/autostart/x")
    assert policy.is_secret(f"{home}/.config/gcloud/credentials")


def test_a_location_that_is_a_link_is_protected_by_its_real_path(
    tmp_path: Path, home: Path
) -> None:
    dotfiles = tmp_path / "dotfiles"
    (dotfiles / "config").mkdir(parents=True)
    (home / ".config").symlink_to(dotfiles / "config")
    (dotfiles / "cloud").mkdir()
    (home / ".aws").symlink_to(dotfiles / "cloud")
    policy = PathPolicy([dotfiles], environ={"HOME": str(home)})
    assert policy.is_read_only(f"{dotfiles}/config/autostart/x")
    assert policy.is_secret(f"{dotfiles}/config/gcloud/x")
    assert policy.is_secret(f"{dotfiles}/cloud/credentials")
    assert not policy.is_protected(f"{dotfiles}/config/other")


def test_files_of_steno_are_protected_and_secret_wherever_they_are(folder: Path) -> None:
    own = (folder / "sessions" / "steno.db", folder / "keys")
    policy = PathPolicy([folder], environ={"HOME": "/nowhere"}, own=own)
    for name in ("sessions/steno.db", "keys", "keys/a", "KEYS/a"):
        assert policy.is_read_only(f"{folder}/{name}")
        assert policy.is_secret(f"{folder}/{name}")
    assert not policy.is_protected(f"{folder}/sessions/other")


def test_names_above_a_root_do_not_count(tmp_path: Path) -> None:
    root = tmp_path / ".claude" / "worktrees" / "x"
    root.mkdir(parents=True)
    outer = tmp_path
    for roots in ([root], [outer, root]):
        policy = PathPolicy(roots, environ={"HOME": str(tmp_path)})
        assert not policy.is_protected(f"{root}/src/app.py")
        assert not policy.is_secret(f"{root}/src/app.py")
        assert policy.is_read_only(f"{root}/.envrc")
        assert policy.is_read_only(f"{tmp_path}/.claude/settings.json")


def test_a_root_with_a_protected_name_is_protected(tmp_path: Path) -> None:
    policy = PathPolicy([tmp_path / ".vscode"], environ={"HOME": "/nowhere"})
    assert policy.is_read_only(f"{tmp_path}/.vscode/tasks.json")


def test_own_files_stay_protected_inside_of_a_root_within_them(tmp_path: Path) -> None:
    policy = PathPolicy([tmp_path / "own" / "x"], environ={}, own=[tmp_path / "own"])
    assert policy.is_read_only(f"{tmp_path}/own/x/file")


def test_a_policy_never_raises(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for home in ("", "relative", str(loop), "/nonexistent", "/dev/null"):
        policy = PathPolicy([tmp_path], environ={"HOME": home, "XDG_CONFIG_HOME": "relative"})
        assert policy.is_secret(f"{tmp_path}/.env")
        policy.sandbox_hidden()
        policy.sandbox_protected()


# -- lists for the sandbox ------------------------------------------------------------------------


def test_the_target_of_a_protected_link_is_protected(folder: Path, home: Path) -> None:
    (folder / ".git" / "hooks").mkdir(parents=True)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "check.sh").write_text("")
    (folder / ".git" / "hooks" / "pre-commit").symlink_to("../../scripts/check.sh")
    (folder / "env").write_text("")
    (folder / ".envrc").symlink_to("env")
    (folder / ".vscode").symlink_to(".")
    policy = PathPolicy([folder], environ={"HOME": str(home)})
    assert policy.is_read_only(f"{folder}/scripts/check.sh")
    assert policy.is_read_only(f"{folder}/env")
    assert not policy.is_protected(f"{folder}/scripts/other.sh")


def test_the_sandbox_gets_existing_paths_and_missing_ones(folder: Path, home: Path) -> None:
    (folder / ".git" / "hooks").mkdir(parents=True)
    (folder / ".git" / "config").write_text("")
    (folder / ".vscode").mkdir()
    found = PathPolicy([folder], environ={"HOME": str(home)}).sandbox_protected()
    names = [str(path.relative_to(folder)) for path in found]
    assert {".git/hooks", ".git/config", ".vscode"} <= {*names}
    assert {".envrc", ".steno", ".mcp.json", ".idea"} <= {*names}
    # git stops if these are folders.
    assert not {".git/config.worktree", ".gitconfig"} & {*names}
    # git refuses an empty file of this name, and other programs an empty `.git`.
    assert ".git/commondir" not in names
    assert ".git" not in names


def test_the_sandbox_hides_existing_secrets_inside_and_outside(
    folder: Path, home: Path, tmp_path: Path
) -> None:
    (home / ".aws").mkdir()
    (folder / ".env").write_text("KEY=1")
    (folder / ".env.local").symlink_to(tmp_path / "shared")
    (tmp_path / "shared").write_text("KEY=1")
    (folder / ".env.test").mkdir()
    policy = PathPolicy([folder], environ={"HOME": str(home)}, hidden=[tmp_path / "more"])
    assert {*policy.sandbox_hidden()} == {home / ".aws", folder / ".env", tmp_path / "shared"}
    assert policy.is_secret(f"{tmp_path}/shared")
    (tmp_path / "more").write_text("x")
    assert tmp_path / "more" in policy.sandbox_hidden()
    policy.add_found(FoundPaths(secrets=(f"{folder}/deep/.env", f"{folder}/.env.local")))
    assert folder / ".env" not in policy.sandbox_hidden()


def test_a_folder_of_secrets_around_a_root_is_not_hidden(home: Path) -> None:
    root = home / ".claude" / "worktrees" / "x"
    root.mkdir(parents=True)
    policy = PathPolicy([root], environ={"HOME": str(home)})
    assert home / ".claude" not in policy.sandbox_hidden()


def test_a_workspace_has_a_policy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    workspace = Workspace(folder)
    assert workspace.policy.is_secret(workspace.real_path(".aws/x"))
    assert workspace.real_path("a/b") == os.path.join(folder, "a/b")  # noqa: PTH118 - a str
    policy = PathPolicy([folder], environ={})
    assert Workspace(folder, policy=policy).policy is policy


def test_the_running_program_is_read_only_but_no_secret(folder: Path, tmp_path: Path) -> None:
    package = folder / ".venv/lib/site-packages/steno"
    package.mkdir(parents=True)
    (package / "main.py").write_text("x = 1")
    programs = [folder / ".venv", package]
    policy = PathPolicy([folder], environ={"HOME": "/nowhere"}, programs=programs)
    for name in (".venv/pyvenv.cfg", ".venv/lib/site-packages/a.pth"):
        assert policy.is_read_only(f"{folder}/{name}")
        assert not policy.is_secret(f"{folder}/{name}")
    guard = PathGuard(policy, tmp_path / "storage")
    snapshot = guard.begin()
    assert folder / ".venv" in policy.sandbox_protected()
    assert folder / ".venv" not in policy.sandbox_hidden()
    (package / "main.py").write_text("x = 2")
    (change,) = guard.finish(snapshot)
    assert change.path == package / "main.py"
    assert (package / "main.py").read_text() == "x = 1"
