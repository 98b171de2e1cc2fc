"""Find out from the output of a failed command which access its sandbox blocked.

A kernel reports a blocked access to the program, not to the sandbox, and each program describes it
in its own words. The result is a proposal for the user, who decides about it: a program can print
anything. A path is proposed only if the sandbox blocks it and steno itself has access to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from steno.ports import AccessKind, SandboxAccess
from steno.tools.shell.sandbox import NetworkAccess, Sandbox, SandboxScope

ALL_DOMAINS: Final = "*"
_MAX_BYTES: Final = 65_536
"""The part of the output to read, at its end, where programs report why they failed."""
_MAX_LINE: Final = 2000
_MAX_FOUND: Final = 8
_MAX_PATH: Final = 4096
_PRIVATE_TMP: Final = Path("/tmp")  # noqa: S108 - inside the sandbox
_KERNEL_FOLDERS: Final = ("/proc", "/sys", "/dev")
_MAX_NAMES: Final = 300
"""The number of possible paths to look up."""
_LINES_BEFORE: Final = 3
"""The number of lines above a reason in which programs such as cargo name the path."""

_REFUSED = re.compile(
    r"Read-only file system|Permission denied|Operation not permitted|Device or resource busy"
    r"|No such file or directory|Is a directory|\b(?:EROFS|EACCES|EPERM|EBUSY|ENOENT|EISDIR)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"'([^'\n]+)'|\"([^\"\n]+)\"|`([^`'\n]+)[`']|\u2018([^\u2019\n]+)\u2019")
_NPM_PATH = re.compile(r"^npm (?:ERR!|error) (?:path|dest) (.+)$")
_OFFLINE = re.compile(
    r"name resolution|Name or service not known|nodename nor servname|could not resolve"
    r"|couldn't resolve|Temporary failure resolving|unable to resolve|failed to resolve"
    r"|Network is unreachable|no such host|Couldn't connect to server|Could not connect to"
    r"|Failed to establish a new connection|error sending request for url|dial tcp"
    r"|\b(?:EAI_AGAIN|ENETUNREACH|ENOTFOUND)\b|Cannot assign requested address",
    re.IGNORECASE,
)
_NAME: Final = r"([A-Za-z0-9][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9-]{1,63})+)"
_DOMAINS = (
    re.compile(rf"https?://(?:[^/@\s]{{1,200}}@)?{_NAME}"),
    re.compile(
        r"(?:host|hostname|host address|resolving|resolve|lookup|EAI_AGAIN|ENOTFOUND|connect to"
        rf"|host=)[:=]?\s?['\"\u2018`(]?{_NAME}",
        re.IGNORECASE,
    ),
    re.compile(rf"^[a-z0-9_.-]{{1,40}}: {_NAME}: (?:Temporary failure|Name or service)"),
)
_FILE_ENDINGS: Final = (".py", ".js", ".go", ".rs", ".c", ".h", ".json", ".toml", ".lock", ".local")


def find_blocked(
    output: bytes, exit_code: int | None, scope: SandboxScope, sandbox: Sandbox
) -> tuple[SandboxAccess, ...]:
    """Return the accesses that a sandbox blocked, as far as the output of a command shows them.

    A domain is named only if the sandbox can allow single domains; otherwise the target is `*`. For
    a missing file, the target is the folder that would have to be writable. Returns an empty tuple
    if the command succeeded.
    """
    if exit_code == 0 or not sandbox.is_confining:
        return ()
    text = output[-_MAX_BYTES:].decode(errors="replace")
    lines = [line[:_MAX_LINE] for line in text.splitlines()]
    found = dict.fromkeys(
        [*_find_paths(lines, scope, sandbox), *_find_network(lines, scope, sandbox)]
    )
    return tuple(found)[:_MAX_FOUND]


# -- paths ----------------------------------------------------------------------------------------


def _find_paths(lines: list[str], scope: SandboxScope, sandbox: Sandbox) -> Iterator[SandboxAccess]:
    names = islice(_all_names(lines), _MAX_NAMES)
    protected = tuple([Path(os.path.realpath(path)) for path in scope.protected])
    for name, reason in names:
        if (access := _classify(name, reason, scope, sandbox, protected)) is not None:
            yield access


def _all_names(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield what may be the path of a message, and the reason that the message states."""
    npm_paths = [match[1] for line in lines if (match := _NPM_PATH.match(line))]
    for number, line in enumerate(lines):
        reason = _REFUSED.search(line)
        if reason is None:
            continue
        names = [*_path_names(line, reason.start()), *npm_paths]
        before = lines[max(0, number - _LINES_BEFORE) : number]
        if not names:
            names = [name for each in reversed(before) for name in _quoted_names(each)]
        for name in dict.fromkeys(names):
            yield name, reason[0].lower()


def _path_names(line: str, end: int) -> Iterator[str]:
    """Yield what may be the path of a message: quoted text, and the words before the reason."""
    yield from _quoted_names(line)
    part = line[:end].rstrip().removesuffix("(").rstrip().rstrip(":,")
    segment = part.rpartition(": ")[2].strip()
    if segment:
        yield segment
        yield segment.rpartition(" ")[2]


def _quoted_names(line: str) -> Iterator[str]:
    for match in _QUOTED.finditer(line):
        yield next(group for group in match.groups() if group is not None)


def _classify(
    name: str, reason: str, scope: SandboxScope, sandbox: Sandbox, protected: tuple[Path, ...]
) -> SandboxAccess | None:
    """Return the access to a path that the sandbox blocks; None if it does not block it."""
    if not name or len(name) > _MAX_PATH or "\0" in name:
        return None
    if "/" not in name and " " in name:  # a part of a sentence
        return None
    path = Path(os.path.realpath(Path(scope.roots[0], name)))
    hidden = next((each for each in scope.hidden if path.is_relative_to(each)), None)
    if hidden is not None and path not in scope.roots:
        return SandboxAccess(AccessKind.READ, str(hidden))
    if "no such" in reason or reason == "enoent":
        return None
    areas = [*(() if scope.is_read_only else scope.roots), *scope.writable, scope.scratch]
    areas += [_PRIVATE_TMP] if sandbox.has_own_files else scope.usable_temporary
    is_inside = any(map(path.is_relative_to, areas))
    if any(map(path.is_relative_to, _KERNEL_FOLDERS)):
        return None
    is_protected = any(map(path.is_relative_to, protected))
    if is_inside and not is_protected:
        return None
    if not is_inside and ("busy" in reason or "directory" in reason or reason == "eisdir"):
        return None
    if not is_inside and not ("/" in name or path.parent == scope.roots[0]):
        return None
    target = path
    while not os.path.lexists(target):
        target = target.parent
    # Without the rights of the user, more access in the sandbox would change nothing.
    return SandboxAccess(AccessKind.WRITE, str(target)) if os.access(target, os.W_OK) else None


# -- network --------------------------------------------------------------------------------------


def _find_network(
    lines: list[str], scope: SandboxScope, sandbox: Sandbox
) -> Iterator[SandboxAccess]:
    if scope.network is NetworkAccess.ALL:
        return
    offline = [
        line
        for number, line in enumerate(lines)
        if _OFFLINE.search(line)
        # A traceback shows the call above the reason.
        or (line.endswith("Operation not permitted") and _calls_socket(lines, number))
    ]
    if not offline:
        return
    domains = {name: None for line in offline for name in _domain_names(line)}
    if not domains or not sandbox.has_proxy:
        yield SandboxAccess(AccessKind.NETWORK, ALL_DOMAINS)
        return
    for name in domains:
        yield SandboxAccess(AccessKind.NETWORK, name)


def _calls_socket(lines: list[str], number: int) -> bool:
    return any("socket" in line for line in lines[max(0, number - _LINES_BEFORE) : number + 1])


def _domain_names(line: str) -> Iterator[str]:
    for pattern in _DOMAINS:
        for match in pattern.finditer(line):
            name = match[1].lower().rstrip(".-")
            if not name.startswith(("127.", "0.")) and not name.endswith(_FILE_ENDINGS):
                yield name
