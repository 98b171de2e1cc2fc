"""The output of failed programs shows which access the sandbox blocked."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.ports import AccessKind, SandboxAccess
from steno.tools.shell.blocked_access import find_blocked
from steno.tools.shell.sandbox import (
    BubblewrapSandbox,
    LandlockSandbox,
    NetworkAccess,
    NoSandbox,
    SandboxScope,
)

BUBBLEWRAP = BubblewrapSandbox("/usr/bin/bwrap")
ALONE = LandlockSandbox(7)


@pytest.fixture
def scope(tmp_path: Path) -> SandboxScope:
    """A workspace with a protected and a hidden file, and a folder beside it."""
    work = tmp_path / "work"
    (work / ".git" / "hooks").mkdir(parents=True)
    (work / ".env").write_text("")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "file").write_text("")
    return SandboxScope(
        roots=(work,),
        protected=(work / ".git" / "hooks", work / ".git" / "config", work / ".envrc"),
        hidden=(work / ".env",),
        scratch=tmp_path / "scratch",
    )


NETWORK = {
    "curl: (6) Could not resolve host: example.org": "example.org",
    "fatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com": "github.com",
    "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError("
    "'<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a new "
    "connection: [Errno -3] Temporary failure in name resolution')': /simple/x/": "*",
    "ERROR: HTTPSConnectionPool(host='pypi.org', port=443): Failed to resolve 'pypi.org'": "pypi.org",
    "npm ERR! request to https://registry.npmjs.org/left-pad failed, reason: getaddrinfo EAI_AGAIN "
    "registry.npmjs.org": "registry.npmjs.org",
    "Error: getaddrinfo ENOTFOUND api.example.com": "api.example.com",
    'go: example.org/m: Get "https://proxy.golang.org/m/@v/list": dial tcp: lookup '
    "proxy.golang.org: Temporary failure in name resolution": "proxy.golang.org",
    "  [6] Could not resolve hostname (Could not resolve host: index.crates.io)": "index.crates.io",
    "wget: unable to resolve host address ‘example.org’": "example.org",
    "ssh: Could not resolve hostname github.com: Temporary failure in name resolution": "github.com",
    "  Temporary failure resolving 'deb.debian.org'": "deb.debian.org",
    "ping: example.org: Temporary failure in name resolution": "example.org",
    "    super().__init__(family)  # socket.py\nPermissionError: [Errno 1] Operation not permitted": "*",
    "connect: Network is unreachable": "*",
    "socket: Operation not permitted": "*",
}


@pytest.mark.parametrize(("line", "domain"), NETWORK.items())
def test_a_domain_is_named_if_the_sandbox_can_allow_it(
    scope: SandboxScope, line: str, domain: str
) -> None:
    found = find_blocked(line.encode(), 1, scope, BUBBLEWRAP)
    assert SandboxAccess(AccessKind.NETWORK, domain) in found
    assert len(found) == 1


def test_landlock_allows_the_network_as_a_whole(scope: SandboxScope) -> None:
    found = find_blocked(b"curl: (6) Could not resolve host: example.org", 6, scope, ALONE)
    assert found == (SandboxAccess(AccessKind.NETWORK, "*"),)


WRITES = {
    "bash: line 1: {beside}/new: Read-only file system": "{beside}",
    "touch: cannot touch '{beside}/file': Read-only file system": "{beside}/file",
    "OSError: [Errno 30] Read-only file system: '{beside}/file'": "{beside}/file",
    "Error: EROFS: read-only file system, open '{beside}/a/b'": "{beside}",
    "open {beside}/file: read-only file system": "{beside}/file",
    "error: failed to create directory `{beside}/target`\n\nCaused by:\n  Read-only file system "
    "(os error 30)": "{beside}",
    "npm ERR! code EROFS\nnpm ERR! path {beside}/file\nnpm ERR! errno EROFS": "{beside}/file",
    "mkdir: cannot create directory ‘{beside}/x’: Read-only file system": "{beside}",
    "error: could not write config file .git/config: Device or resource busy": "{work}/.git",
    "cp: cannot create regular file '.git/hooks/x': Read-only file system": "{work}/.git/hooks",
    "bash: .envrc: Is a directory": "{work}",
}


@pytest.mark.parametrize(("line", "target"), WRITES.items())
def test_a_write_names_what_would_have_to_be_writable(
    scope: SandboxScope, tmp_path: Path, line: str, target: str
) -> None:
    names = {"beside": tmp_path / "beside", "work": scope.roots[0]}
    # The folder beside is in /tmp, which other sandboxes replace.
    found = find_blocked(line.format(**names).encode(), 1, scope, ALONE)
    assert found == (SandboxAccess(AccessKind.WRITE, target.format(**names)),)


def test_a_hidden_file_is_named(scope: SandboxScope) -> None:
    found = find_blocked(b"cat: .env: Permission denied\n", 1, scope, BUBBLEWRAP)
    assert found == (SandboxAccess(AccessKind.READ, str(scope.roots[0] / ".env")),)


@pytest.mark.parametrize(
    "line",
    [
        "cat: missing: No such file or directory",
        "bash: ./script: Permission denied",
        "FAILED tests/test_x.py::test_permission - assert 'Permission denied' in text",
        "cp: cannot create regular file '/proc/1/mem/x': Read-only file system",
        "curl: (7) Failed to connect to 127.0.0.1 port 1: Connection refused",
        "mv: cannot move 'src/a' to 'b': Device or resource busy",
        "",
    ],
)
def test_ordinary_failures_are_not_blocked(scope: SandboxScope, line: str) -> None:
    assert find_blocked(line.encode(), 1, scope, BUBBLEWRAP) == ()


def test_only_a_failed_and_confined_command_was_blocked(scope: SandboxScope) -> None:
    line = b"curl: (6) Could not resolve host: example.org"
    assert find_blocked(line, 0, scope, BUBBLEWRAP) == ()
    assert find_blocked(line, 1, scope, NoSandbox("x")) == ()
    allowed = SandboxScope(roots=scope.roots, scratch=scope.scratch, network=NetworkAccess.ALL)
    assert find_blocked(line, 1, allowed, BUBBLEWRAP) == ()


def test_any_output_is_read_in_bounded_time(scope: SandboxScope) -> None:
    for data in (
        b"a." * 200_000 + b"name resolution",
        b"'" * 100_000,
        b"\xff" * 100_000,
        b"\0: Permission denied",
    ):
        find_blocked(data, 1, scope, BUBBLEWRAP)
    lines = b"".join(b"/x/%d: Permission denied\n" % number for number in range(20_000))
    assert len(find_blocked(lines, 1, scope, BUBBLEWRAP)) <= 8
