"""The one list of protected paths and of secrets, for file tools, rules and the sandbox alike.

    level       a file tool changes it     a command changes it      examples
    READ_ONLY   only after approval        only after approval       .git/hooks, .vscode, ~/.bashrc
    ASKS        only after approval        if the sandbox allows     .git, AGENTS.md, .venv

A protected path affects what runs later, outside of every sandbox: git runs hooks and programs
named in its configuration, editors run tasks, shells run their start files. Secrets are a second
list: reading them asks, and commands in a sandbox do not see them.

`PathPolicy` decides by the real path alone and reads no file content. It folds names as git does in
its own defence, because some file systems accept several spellings of a name. Names above a root
folder do not count, since the user chose the root. What only a walk through the folders finds, such
as a bare repository, `path_guard` adds with `PathPolicy.add_found`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple, final
from unicodedata import normalize

from steno.tools.shell.supervisor.placeholders import is_placeholder


class Protection(IntEnum):
    """The levels of protection against changes, from the lowest to the highest."""

    NONE = 0
    ASKS = 1
    """A change by a file tool always asks; commands may change it, as checkouts and installs do."""
    READ_ONLY = 2
    """Every change asks; commands in a sandbox cannot change it."""


@final
class Zone(NamedTuple):
    """The protection of a file or folder, and the rules for the names in it."""

    level: Protection
    children: Mapping[str, Zone]
    """The zones of certain names, folded by `fold_name`."""
    rest: Zone | None = None
    """The zone of all other names; None for this zone itself."""
    is_plain: bool = False
    """Whether names that are protected in any folder are also protected in this one."""

    def child(self, name: str) -> Zone:
        """Return the zone of a folded name in this folder."""
        found = self.children.get(name)
        if found is None and self.is_plain:
            found = _ANYWHERE.get(name)
            if found is None and name.endswith(_READ_ONLY_SUFFIXES):
                found = LOCKED
        return found or self.rest or self


LOCKED: Final = Zone(Protection.READ_ONLY, {})
"""Protected with everything in it."""
PLAIN: Final = Zone(Protection.NONE, {}, is_plain=True)
_ASKING: Final = Zone(Protection.ASKS, {}, is_plain=True)
GIT_DATA: Final = Zone(Protection.ASKS, {})
"""Objects, refs and the index, which git changes all the time and does not run."""


def _lock(*names: str) -> dict[str, Zone]:
    return dict.fromkeys(names, LOCKED)


_WORKTREE: Final = Zone(Protection.ASKS, _lock("config.worktree", "commondir", "gitdir"), GIT_DATA)
_WORKTREES: Final = Zone(Protection.ASKS, {}, _WORKTREE)
GIT_SETTINGS: Final = ("config", "config.worktree", "commondir", "gitdir", "hooks")
"""Names in a git folder: its settings, files that move the settings elsewhere, and its hooks."""
_MODULE: Final = Zone(
    Protection.ASKS,
    # A module name may contain slashes, so that its settings may be at any depth; branches named
    # `config` are not settings.
    {
        **_lock(*GIT_SETTINGS),
        "worktrees": _WORKTREES,
        **dict.fromkeys(("refs", "logs", "objects", "lfs"), GIT_DATA),
    },
)
_MODULES: Final = Zone(Protection.ASKS, {}, _MODULE)
GIT: Final = Zone(
    Protection.READ_ONLY,
    {**_lock(*GIT_SETTINGS), "modules": _MODULES, "worktrees": _WORKTREES},
    GIT_DATA,
)
"""A `.git` folder: nobody may replace it, but git may change its data.

A `.git` file, which names the real git folder, is protected with the same zone.
"""


def _settings_of(*names: str) -> Zone:
    """Return the zone of a folder of another version control system with these settings files."""
    return Zone(Protection.ASKS, _lock(*names), GIT_DATA)


_HG: Final = _settings_of("hgrc", "hgrc-not-shared", "sharedpath")
INSTALLED: Final = Zone(Protection.ASKS, {".git": GIT, ".hg": _HG})
"""Installed programs. Packages bring settings for editors along, which no editor reads there."""
BARE_REPOSITORY: Final = Zone(
    Protection.NONE,
    {
        **_lock(*GIT_SETTINGS),
        "modules": _MODULES,
        "worktrees": _WORKTREES,
        **dict.fromkeys(("refs", "logs", "objects", "lfs"), GIT_DATA),
    },
    rest=PLAIN,
    is_plain=True,
)
"""A folder that git takes for a repository because of the names in it; see `is_repository`."""
_REPOSITORY_NAMES: Final = (
    frozenset({"head", "objects", "refs"}),
    frozenset({"head", "commondir"}),
)
REPOSITORY_NAMES: Final = frozenset().union(*_REPOSITORY_NAMES)
"""The folded names that `is_repository` needs."""


def is_repository(names: Set[str]) -> bool:
    """Return whether git takes a folder with these folded names for a repository."""
    return any(needed <= names for needed in _REPOSITORY_NAMES)


_ANYWHERE: Final[Mapping[str, Zone]] = {
    # Version control: settings name programs, hooks are programs.
    ".git": GIT,
    ".hg": _HG,
    ".sl": _settings_of("config", "hgrc"),
    ".jj": Zone(
        Protection.ASKS,
        {
            **_lock("workspace-config.toml"),
            # A file instead of the folder names the real one; its settings are in the folder.
            "repo": Zone(Protection.ASKS, _lock("config.toml"), GIT_DATA),
        },
        GIT_DATA,
    ),
    ".pijul": _settings_of("config"),
    **_lock(".gitconfig", ".hgrc", ".husky", ".githooks", ".git-hooks"),
    **_lock(".pre-commit-config.yaml", ".overcommit.yml"),
    **_lock("lefthook.yml", ".lefthook.yml", "lefthook-local.yml", ".lefthook-local.yml"),
    # Agents and their servers.
    **_lock(".steno", ".mcp.json", ".claude", ".cursor", ".codex", ".gemini", ".windsurf"),
    **_lock(".continue", ".opencode", ".roo", ".kiro", ".amazonq", ".aider.conf.yml"),
    **_lock("opencode.json", "opencode.jsonc", ".crush.json", "crush.json", ".trae", ".clinerules"),
    **_lock(".kilocode", ".junie", ".qwen", ".augment", ".factory", ".copilot"),
    # Editors and debuggers: tasks, launch settings, start files in the working directory.
    **_lock(".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".devcontainer.json"),
    **_lock(".helix", ".vs", ".theia", ".rprofile", ".irbrc", ".pryrc"),
    **_lock(".vimrc", ".gvimrc", ".exrc", ".nvimrc", ".nvim.lua", ".lvimrc"),
    **_lock(".dir-locals.el", ".dir-locals-2.el", ".emacs", ".emacs.d", ".vim"),
    **_lock(".gdbinit", ".lldbinit", ".pdbrc"),
    # Environments that a shell loads when it enters a folder.
    **_lock(".envrc", ".mise.toml", ".mise.local.toml", "mise.toml", "mise.local.toml", ".mise"),
    # Start files of shells and sessions.
    **_lock(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases"),
    **_lock(".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc"),
    **_lock(".cshrc", ".tcshrc", ".login", ".logout", ".inputrc", ".tmux.conf", ".screenrc"),
    **_lock(".xinitrc", ".xsession", ".xsessionrc", ".xprofile", ".pam_environment"),
    # Keys.
    **_lock(".ssh", ".gnupg"),
    # Instructions of agents, and installed programs.
    **dict.fromkeys(
        (
            *("agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md"),
            *(".cursorrules", ".windsurfrules"),
        ),
        _ASKING,
    ),
    **dict.fromkeys((".venv", "site-packages", "node_modules", ".direnv"), INSTALLED),
    ".github": Zone(
        Protection.NONE, {"copilot-instructions.md": _ASKING}, rest=PLAIN, is_plain=True
    ),
}
"""The zones of names at any depth."""
_READ_ONLY_SUFFIXES: Final = (".code-workspace", ".sublime-project")
READ_ONLY_HOME_PATHS: Final = (
    # Start files and folders of programs; most start files are in `_ANYWHERE`.
    *(".config/fish", ".config/nushell", ".config/zsh", ".config/bash", ".config/environment.d"),
    *(".config/autostart", ".config/systemd", ".local/share/systemd", ".config/plasma-workspace"),
    *(".local/share/applications", ".local/share/dbus-1", ".config/cron", ".crontab"),
    *(".local/bin", "bin", ".config/git", ".config/hg", ".config/jj", ".config/direnv"),
    *(".config/mise", ".config/tmux", ".config/nvim", ".config/vim", ".config/Code/User"),
    *(".config/VSCodium/User", ".config/Cursor/User", ".config/zed", ".config/JetBrains"),
    *(
        ".config/kitty",
        ".config/alacritty",
        ".config/wezterm",
        ".wezterm.lua",
        ".config/starship.toml",
    ),
    *(".npmrc", ".yarnrc", ".yarnrc.yml", ".config/pip", ".pip", ".pypirc", ".condarc"),
    *(".config/uv", ".cargo/config", ".cargo/config.toml", ".cargo/env", ".cargo/bin"),
    *(".gradle/init.gradle", ".gradle/init.d", ".m2/settings.xml", ".docker/config.json"),
    *(".config/ptpython", ".ipython/profile_default/startup", ".pythonrc", ".pythonstartup"),
    *("Library/LaunchAgents", "Library/Preferences"),
    *(".config/steno", ".local/share/steno", ".local/state/steno"),
)
"""Paths below the home folder that are protected with everything in them."""

HIDDEN_HOME_PATHS: Final = (
    # Keys and passwords.
    *(".ssh", ".gnupg", ".password-store", ".netrc", ".git-credentials", ".pgpass", ".my.cnf"),
    *(".local/share/keyrings", ".config/git/credentials", ".vault-token", ".config/age"),
    *(".config/sops", ".local/share/kwalletd", ".config/keepassxc", "Library/Keychains"),
    # Clouds, registries, remote machines.
    *(".aws", ".azure", ".config/gcloud", ".kube", ".docker", ".config/gh", ".config/hub"),
    *(".config/op", ".config/doctl", ".oci", ".terraform.d/credentials.tfrc.json", ".terraformrc"),
    *(".npmrc", ".pypirc", ".config/pip", ".gem/credentials", ".bundle/config", ".m2/settings.xml"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".cache/huggingface/token"),
    *(".config/glab-cli", ".config/containers/auth.json", ".config/rclone", ".s3cfg", ".boto"),
    *(".config/heroku", ".config/flyctl", ".fly", ".config/netlify", ".config/vercel"),
    *(".composer/auth.json", ".config/composer/auth.json", ".nuget/NuGet", ".databrickscfg"),
    *(".gradle/gradle.properties", ".kaggle", ".config/wandb", ".cache/huggingface/stored_tokens"),
    # Agents and model providers.
    *(".claude", ".claude.json", ".codex", ".gemini", ".cursor", ".config/Cursor", ".continue"),
    *(".config/github-copilot", ".copilot", ".config/anthropic", ".config/openai", ".openai"),
    *(
        ".local/share/opencode",
        ".config/opencode",
        ".config/goose",
        ".aider",
        ".config/io.datasette.llm",
    ),
    # Browsers, and histories of other sessions.
    *(".mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware"),
    *(".config/microsoft-edge", ".config/vivaldi", ".thunderbird", "Library/Cookies"),
    *("Library/Application Support/Google/Chrome", "Library/Application Support/Firefox"),
    *(".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history"),
    *(".node_repl_history", ".sqlite_history", ".rediscli_history", ".local/share/fish"),
    *(".config/steno", ".local/share/steno", ".local/state/steno"),
)
"""Paths below the home folder that may contain secrets, with everything in them."""
_XDG_FOLDERS: Final = {
    "XDG_CONFIG_HOME": ".config/",
    "XDG_DATA_HOME": ".local/share/",
    "XDG_STATE_HOME": ".local/state/",
    "XDG_CACHE_HOME": ".cache/",
}
"""Environment variables for folders to use instead of these subfolders of the home folder."""
_SECRET_NAMES: Final = frozenset(
    {
        *(".ssh", ".gnupg", ".password-store", ".netrc", "_netrc", ".git-credentials", ".pgpass"),
        *(".my.cnf", ".vault-token", ".pypirc", ".s3cfg", ".boto", ".databrickscfg"),
        *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", "id_xmss"),
    }
)
"""Names of files and folders that may contain secrets, at any depth."""
_SECRET_PAIRS: Final = frozenset(
    {
        *((".aws", "credentials"), (".docker", "config.json"), (".kube", "config")),
        *((".cargo", "credentials"), (".cargo", "credentials.toml"), ("gcloud", "credentials.db")),
        *(
            (".claude", ".credentials.json"),
            (".codex", "auth.json"),
            (".gemini", "oauth_creds.json"),
        ),
    }
)
"""A folder and a name in it that may contain secrets, at any depth."""
_SECRET_SUFFIXES: Final = (".kdbx", ".ppk")
_ENV_EXAMPLES: Final = frozenset(
    {"example", "sample", "template", "dist", "defaults", "default", "tpl", "schema"}
)
"""The last parts of names such as `.env.example`, which contain no secrets."""


def is_env_file_name(folded: str) -> bool:
    """Return whether a folded name is `.env` or `.env.NAME`, except for an example."""
    if folded == ".env":
        return True
    return folded.startswith(".env.") and folded.rpartition(".")[2] not in _ENV_EXAMPLES


def is_secret_name(folded: str) -> bool:
    """Return whether a file or folder with a folded name may contain secrets, at any depth."""
    return folded in _SECRET_NAMES or folded.endswith(_SECRET_SUFFIXES)


def is_secret_pair(folder: str, folded: str) -> bool:
    """Return whether a name may contain secrets in a folder of this name; both are folded."""
    return (folder, folded) in _SECRET_PAIRS


# -- names ----------------------------------------------------------------------------------------

_IGNORED_BY_HFS: Final = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_ORDINARY_NAME: Final = re.compile(r"[^:~]*[^:~. ]")
_SHORT_NAMES: Final = {"git~1": ".git", "gi7eba~1": ".git"}
"""Short names of NTFS for `.git`."""


def fold_name(name: str) -> str:
    """Return the form of a name that all its spellings on any file system have in common.

    File systems may ignore case, Unicode normalization, certain invisible characters (HFS+), dots
    and spaces at the end, and the name of a stream after a colon (NTFS).
    """
    if name.isascii() and _ORDINARY_NAME.fullmatch(name):
        return name.lower()
    folded = normalize("NFC", _IGNORED_BY_HFS.sub("", name).casefold())
    folded = folded.partition(":")[0].rstrip(". ")
    return _SHORT_NAMES.get(folded, folded)


def _fold_path(path: str) -> str:
    return "/".join([fold_name(name) for name in path.split("/") if name])


# -- locations ------------------------------------------------------------------------------------


def find_home(environ: Mapping[str, str]) -> Path:
    """Return the home folder; it may not exist."""
    home = environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - Path.home() may raise
    return Path(home)


def locate_home_paths(names: Sequence[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the paths of names below the home folder, also in folders that variables move."""
    home = find_home(environ)
    paths = [Path(home, name) for name in names]
    for variable, default_prefix in _XDG_FOLDERS.items():
        if folder := environ.get(variable):
            moved = [name for name in names if name.startswith(default_prefix)]
            paths += [Path(folder, name.removeprefix(default_prefix)) for name in moved]
    return tuple(paths)


def find_hidden_paths(environ: Mapping[str, str], more: tuple[Path, ...] = ()) -> tuple[Path, ...]:
    """Return the real paths of existing files and folders that commands should not read.

    `more` contains paths in addition to `HIDDEN_HOME_PATHS`.
    """
    paths = _secret_locations(environ, more)
    return tuple(dict.fromkeys([path.resolve() for path in paths if _exists(path)]))


def _secret_locations(environ: Mapping[str, str], more: Iterable[Path]) -> list[Path]:
    paths = [*locate_home_paths(HIDDEN_HOME_PATHS, environ), *more]
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        paths.append(Path(runtime))  # sockets of services, among them those of key agents
    return paths


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _both_spellings(paths: Iterable[Path]) -> tuple[str, ...]:
    """Return each absolute path as it is written, and its real path, without repetitions."""
    real_folders: dict[str, str] = {}
    found: dict[str, None] = {}
    for path in paths:
        if not path.is_absolute():
            continue
        written = os.path.normpath(path)
        folder, name = os.path.split(written)
        if folder not in real_folders:
            real_folders[folder] = os.path.realpath(folder)
        found[written] = None
        real = f"{real_folders[folder].rstrip('/')}/{name}"
        found[os.path.realpath(real) if os.path.islink(real) else real] = None  # noqa: PTH114 - a str
    return tuple(found)


# -- the policy -----------------------------------------------------------------------------------


class _Place(NamedTuple):
    """The state of the walk from the root of the file system to a path."""

    key: str
    """The folded path."""
    name: str
    """The folded name."""
    zone: Zone
    is_secret: bool
    is_own: bool
    """Whether the path belongs to steno itself."""


_TOP: Final = _Place("", "", PLAIN, is_secret=False, is_own=False)
_MAX_CACHED_FOLDERS: Final = 50_000


class FoundPaths(NamedTuple):
    """The paths in the roots that a walk found; see `path_guard`."""

    protected: tuple[str, ...] = ()
    """Existing files and folders that commands must not change, without those inside of others."""
    extra: tuple[str, ...] = ()
    """Paths that are protected for a reason other than their names, such as targets of links."""
    git_folders: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


@final
class PathPolicy:
    """Decides which paths are protected and which are secret, for one set of root folders.

    Paths are absolute real paths, as text. Methods may be called from any thread.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        environ: Mapping[str, str],
        own: Sequence[Path] = (),
        hidden: Sequence[Path] = (),
        programs: Sequence[Path] = (),
    ) -> None:
        """Create a policy for real root folders.

        `own` contains the files and folders of steno, `hidden` further secrets, and `programs` files
        and folders of which the running program consists: they are protected, but no secrets. None
        of them need exist.
        """
        self.roots: Final = tuple(map(str, roots))
        self._environ = dict(environ)
        self._own_paths = tuple(own)
        self._hidden_paths = tuple(hidden)
        self._program_paths = tuple(programs)
        self._root_keys: Final = frozenset(map(_fold_path, self.roots))
        self._found = FoundPaths()
        self.refresh()

    def refresh(self) -> None:
        """Resolve the links in the known locations again."""
        locked = locate_home_paths(READ_ONLY_HOME_PATHS, self._environ)
        secrets = _secret_locations(self._environ, self._hidden_paths)
        self.own: tuple[str, ...] = _both_spellings(self._own_paths)
        self._programs = _both_spellings(self._program_paths)
        # An environment has too many files to compare all of them around each command.
        compared = [
            path
            for path in self._programs
            if not any(other.startswith(f"{path}/") for other in self._programs)
            and not path.endswith("/site-packages")
        ]
        self.locked_locations: tuple[str, ...] = (*_both_spellings(locked), *compared)
        self._secret_locations = _both_spellings(secrets)
        self._own_keys = frozenset(map(_fold_path, self.own))
        self._locked_keys = frozenset(map(_fold_path, (*self.locked_locations, *self._programs)))
        linked = [
            os.path.realpath(path)
            for path in (*self._found.secrets, *self._secrets_at_top())
            if os.path.islink(path)  # noqa: PTH114 - a str
        ]
        self._secret_keys = frozenset(map(_fold_path, (*self._secret_locations, *linked)))
        self._linked = tuple(self._linked_at_top())
        self._extra_keys = frozenset(map(_fold_path, (*self._found.extra, *self._linked)))
        self._folders: dict[str, _Place] = {}

    def add_found(self, found: FoundPaths) -> None:
        """Set the paths that the latest walk through the roots found."""
        if found.extra != self._found.extra:
            self._extra_keys = frozenset(map(_fold_path, (*found.extra, *self._linked)))
            self._folders = {}
        self._found = found

    # -- decisions ---------------------------------------------------------------------------

    def protection(self, real: str) -> Protection:
        """Return the protection of a path against changes, apart from that of secrets."""
        place = self._find_place(real)
        if place.is_own:
            return Protection.READ_ONLY
        return place.zone.level

    def is_read_only(self, real: str) -> bool:
        """Return whether commands must not change a path."""
        return self.protection(real) is Protection.READ_ONLY

    def is_protected(self, real: str) -> bool:
        """Return whether a change of a path by a file tool always asks."""
        return self.protection(real) is not Protection.NONE or self.is_secret(real)

    def is_secret(self, real: str) -> bool:
        """Return whether reading a path asks, because it may contain secrets."""
        place = self._find_place(real)
        return place.is_secret or place.is_own or is_env_file_name(place.name)

    def _find_place(self, real: str) -> _Place:
        head, _, name = real.rstrip("/").rpartition("/")
        return self._step(self._find_folder(head), name) if name else self._find_folder(head)

    def _find_folder(self, path: str) -> _Place:
        folders = self._folders
        if (found := folders.get(path)) is not None:
            return found
        place = _TOP
        for name in path.split("/"):
            if name:
                place = self._step(place, name)
        if len(folders) < _MAX_CACHED_FOLDERS:
            folders[path] = place
        return place

    def _step(self, above: _Place, name: str) -> _Place:
        folded = fold_name(name)
        key = f"{above.key}/{folded}" if above.key else folded
        is_own = above.is_own or key in self._own_keys
        if key in self._root_keys:
            # The user chose this folder, so that only its own name counts, not those above it.
            above = _TOP
        zone = above.zone.child(folded)
        if key in self._locked_keys or key in self._extra_keys:
            zone = LOCKED
        is_secret = (
            above.is_secret
            or is_secret_name(folded)
            or is_secret_pair(above.name, folded)
            or key in self._secret_keys
        )
        return _Place(key, folded, zone, is_secret, is_own)

    # -- lists for the sandbox ---------------------------------------------------------------

    def sandbox_protected(self) -> tuple[Path, ...]:
        """Return the real paths that commands must not change, outer paths first.

        These are the existing files and folders in the roots that the latest walk found, or without
        a walk those at the top of each root, and after them missing ones at the top of each root
        and in each git folder (`missing_paths`).
        """
        existing = self._found.protected or tuple(self._protected_at_top())
        located = [
            path
            for path in (*self.locked_locations, *self._programs, *self.own)
            if self._is_in_root(path)
        ]
        present = [path for path in (*existing, *located) if os.path.lexists(path)]
        return tuple(
            map(Path, dict.fromkeys([*_without_inner(present), *map(str, self.missing_paths())]))
        )

    def missing_paths(self) -> tuple[Path, ...]:
        """Return missing files and folders that a command must not create.

        An empty folder in their place changes nothing for honest programs. For `.gitconfig` and
        `config.worktree` it would: git does not start if they are folders. The placeholder of
        another running command counts as missing, because that command removes it.
        """
        missing: list[str] = []
        for root in self.roots:
            missing += [f"{root}/{name}" for name in (*_MISSING_FOLDERS, *_MISSING_FILES)]
        for folder in self._found.git_folders or [f"{root}/.git" for root in self.roots]:
            if os.path.isdir(folder):  # noqa: PTH112 - a str
                missing += [f"{folder}/hooks", f"{folder}/config"]
        return tuple(
            [Path(path) for path in missing if not os.path.lexists(path) or is_placeholder(path)]
        )

    def sandbox_hidden(self) -> tuple[Path, ...]:
        """Return the real paths of existing secrets, outside and inside of the roots.

        A folder that contains a root is left out, since its commands run there.
        """
        own_and_located = [*self._secret_locations, *self.own, *self._found.secrets]
        at_top = () if self._found.secrets else self._secrets_at_top()
        real = [
            os.path.realpath(path) for path in (*own_and_located, *at_top) if os.path.lexists(path)
        ]
        shown = [
            path
            for path in dict.fromkeys(real)
            if not self._contains_root(path) and os.path.lexists(path)
        ]
        return tuple(map(Path, _without_inner(shown)))

    def _is_in_root(self, path: str) -> bool:
        return any(path.startswith(f"{root}/") for root in self.roots)

    def _protected_at_top(self) -> Iterator[str]:
        for root in self.roots:
            for name in _list_folder(root):
                zone = PLAIN.child(fold_name(name))
                path = f"{root}/{name}"
                if zone is LOCKED or (zone is GIT and not os.path.isdir(path)):  # noqa: PTH112 - a str
                    yield path
                elif zone.children:
                    for inner in _list_folder(path):
                        if zone.child(fold_name(inner)) is LOCKED:
                            yield f"{path}/{inner}"

    def _linked_at_top(self) -> Iterator[str]:
        """Yield the targets of protected links at the top of each root, and of links to hooks."""
        for path in self._protected_at_top():
            hooks = _list_folder(path) if path.endswith("/hooks") else []
            for each in (path, *[f"{path}/{name}" for name in hooks]):
                if os.path.islink(each):  # noqa: PTH114 - a str
                    target = os.path.realpath(each)
                    if self._is_in_root(target) and not self._contains_root(target):
                        yield target

    def _contains_root(self, path: str) -> bool:
        return any(root == path or root.startswith(f"{path}/") for root in self.roots)

    def _secrets_at_top(self) -> Iterator[str]:
        for root in self.roots:
            for name in _list_folder(root):
                folded = fold_name(name)
                if is_secret_name(folded) or (
                    is_env_file_name(folded) and os.path.isfile(f"{root}/{name}")  # noqa: PTH113 - a str
                ):
                    yield f"{root}/{name}"


_MISSING_FOLDERS: Final = (
    *(".steno", ".vscode", ".idea", ".husky", ".githooks", ".devcontainer", ".claude", ".cursor"),
)
_MISSING_FILES: Final = (".mcp.json", ".envrc")


def _list_folder(path: str) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208 - a str
    except OSError:
        return []


def _without_inner(paths: Iterable[str]) -> list[str]:
    """Return paths sorted, without those inside of others."""
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda path: path.split("/")):
        if not kept or not path.startswith(f"{kept[-1]}/"):
            kept.append(path)
    return kept
