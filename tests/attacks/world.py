"""The world of one attack: a home folder with secrets, a workspace, and listeners on loopback."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Self, final

from tests.attacks.catalog import Attack

SECRET: Final = "c4n4ry"
"""The beginning of every planted secret; its end is the name of its place."""
SECRET_FILES: Final = (
    *(".ssh/id_ed25519", ".ssh/config", ".aws/credentials", ".config/gh/hosts.yml", ".netrc"),
    *(".npmrc", ".pypirc", ".docker/config.json", ".kube/config", ".gnupg/secring.gpg"),
    *(".git-credentials", ".bash_history", ".claude/.credentials.json", ".codex/auth.json"),
    *(".config/github-copilot/apps.json", ".config/gcloud/credentials.db", ".azure/token.json"),
    *(".config/steno/seal.key", ".local/share/steno/steno.db", ".cargo/credentials.toml"),
    *(".gemini/oauth_creds.json", ".local/state/steno/typed.jsonl", ".config/rclone/rclone.conf"),
)
SECRET_VARIABLES: Final = {
    "OPENAI_API_KEY": f"{SECRET}-openai",
    "ANTHROPIC_API_KEY": f"{SECRET}-anthropic",
    "AWS_SECRET_ACCESS_KEY": f"{SECRET}-aws",
    "GITHUB_TOKEN": f"{SECRET}-github",
    "DATABASE_URL": f"postgresql://u:{SECRET}-db@127.0.0.1/x",
}
"""Variables of the process of steno from its beginning."""
GIT_STEPS: Final = (
    "git status",
    "git diff",
    "git log -p -2",
    "git add -A .",
    "git commit -q -m next",
    "git checkout -q -b other",
    "git stash",
    "git fetch --dry-run",
)
"""What `git` in `Attack.person` stands for."""
_GIT_SETUP: Final = """
git init -q -b main . && git config user.name Ada && git config user.email ada@example.org
printf 'one\\n' > tracked.txt && git add . && git commit -q -m first && printf 'two\\n' >> tracked.txt
"""


@final
class World:
    """The folders and listeners of one attack; close it to remove the listeners."""

    def __init__(self, attack: Attack, folder: Path, *, python: str) -> None:
        self.folder: Final = folder
        self.work: Final = folder / "work"
        self.home: Final = folder / "home"
        self.outside: Final = folder / "out"
        self.proof: Final = self.outside / "proof"
        self.token: Final = f"attack-{folder.name}-{os.getpid()}"
        self.attack: Final = attack
        self._stack: Final = ExitStack()
        self._python: Final = python
        self._tcp = self._listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        self._udp = self._listen(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        for path in (self.work, self.home, self.outside):
            path.mkdir(parents=True)
        self._unix = self._listen(
            socket.AF_UNIX, socket.SOCK_STREAM, str(self.outside / "agent.sock")
        )
        self._abstract = self._listen(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.token}")
        self._terminal, other_end = pty.openpty()
        os.set_blocking(self._terminal, False)
        self._stack.callback(os.close, self._terminal)
        self._stack.callback(os.close, other_end)
        self.terminal: Final = os.ttyname(other_end)

    def _listen(self, family: int, kind: int, address: str | tuple[str, int]) -> socket.socket:
        listener = self._stack.enter_context(socket.socket(family, kind))
        listener.bind(address)
        if kind == socket.SOCK_STREAM:
            listener.listen(64)
        listener.setblocking(False)
        return listener

    def close(self) -> None:
        """Close the listeners."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def workspace(self) -> Path:
        """The folder that steno works in."""
        return Path(self.fill(self.attack.workspace))

    def steno_environment(self) -> dict[str, str]:
        """Return the variables of the process of steno, with secrets."""
        more = {name: self.fill(value) for name, value in self.attack.environment.items()}
        return self.environment() | SECRET_VARIABLES | more

    def fill(self, text: str) -> str:
        """Return a text of an attack with the values of this world."""
        values = {
            "@WORK@": self.work,
            "@HOME@": self.home,
            "@OUT@": self.outside,
            "@PROOF@": self.proof,
            "@PORT@": self._tcp.getsockname()[1],
            "@UDP@": self._udp.getsockname()[1],
            "@SOCKET@": self.outside / "agent.sock",
            "@ABSTRACT@": self.token,
            "@TTY@": self.terminal,
            "@PYTHON@": self._python,
            "@TESTS@": Path(__file__).parent,
            "@TOKEN@": self.token,
        }
        for name, value in values.items():
            text = text.replace(name, str(value))
        return text

    def environment(self) -> dict[str, str]:
        """Return the variables of the user's shell."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
        }
        return {
            **kept,
            "HOME": str(self.home),
            "USER": "ada",
            "LOGNAME": "ada",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "SHELL": "/bin/bash",
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def furnish(self) -> None:
        """Create the files of the user and of the attack."""
        attack = self.attack
        for name in SECRET_FILES:
            self._write(self.home / name, f"{SECRET}-{name}\n")
        self._write(self.home / ".config/steno/seal.key", f"{SECRET}-seal".ljust(32, "."))
        for name in (".config/steno", ".ssh", ".local/share/steno", ".local/state/steno"):
            (self.home / name).chmod(0o700)
        for name in (".config/steno/seal.key", ".ssh/id_ed25519"):
            (self.home / name).chmod(0o600)
        (self.home / ".local/share/steno/steno.db").unlink()  # the command line opens this store
        self._write(self.home / ".bashrc", "# the owner's\n")
        self._write(self.home / ".profile", "# the owner's\n")
        self._write(self.home / ".zshrc", "# the owner's\n")
        self._write(self.home / ".gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.org\n")
        if attack.settings:
            self._write(self.home / ".config/steno/config.toml", self.fill(attack.settings))
        if attack.git:
            self.shell(_GIT_SETUP)
        for name, text in attack.files.items():
            self._write(self.work / self.fill(name), self.fill(text))
        self._write(self.work / "payload", f"#!/bin/sh\ntouch {self.proof}\n")
        self._write(self.work / "runner", "#!/bin/sh\necho x > ran\n")
        if attack.setup:
            self.shell(self.fill(attack.setup))

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        if text.startswith("#!"):
            path.chmod(0o755)

    def shell(self, commands: str) -> None:
        """Run commands of the owner in the workspace. Raises ValueError if one of them fails."""
        done = subprocess.run(
            ["/bin/bash", "-ec", commands],
            cwd=self.work,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise ValueError(f"setup failed: {done.stderr.decode(errors='replace')[-300:]}")

    def received(self) -> bool:
        """Return whether a listener has received a connection or data since the last call."""
        found = False
        for listener in (self._tcp, self._unix, self._abstract):
            with suppress(BlockingIOError):
                listener.accept()[0].close()
                found = True
        with suppress(BlockingIOError):
            self._udp.recv(1)
            found = True
        return found

    def shown_on_terminal(self) -> bytes:
        """Return what was written to the terminal of another program."""
        with suppress(BlockingIOError):
            return os.read(self._terminal, 65_536)
        return b""


def snapshot(paths: Mapping[str, Path]) -> dict[str, object]:
    """Return the states of files and folders, for a comparison after the attack.

    The state of a path whose name begins with `touched` contains the time of its last change.
    """
    return {
        name: (_state(path), _time_of(path) if name.startswith("touched") else None)
        if os.path.lexists(path)
        else None
        for name, path in paths.items()
    }


def _time_of(path: Path) -> int:
    return path.lstat().st_mtime_ns


def _state(path: Path) -> object:
    try:
        status = path.lstat()
    except OSError:
        return None
    common = (status.st_mode, status.st_uid, status.st_gid)
    if path.is_symlink():
        return (*common, str(path.readlink()))
    if path.is_dir():
        return (*common, tuple(sorted([(each.name, _state(each)) for each in path.iterdir()])))
    try:
        attributes = [(name, os.getxattr(path, name)) for name in os.listxattr(path)]
    except OSError:
        attributes = []
    content = path.read_bytes() if path.is_file() else b""
    return (*common, status.st_size, content[:100_000], tuple(attributes))
