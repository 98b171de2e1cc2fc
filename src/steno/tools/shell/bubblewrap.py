"""Bubblewrap: the options with which `bwrap` shows a command a smaller world.

All of the file system can be read but what is hidden, the workspace can be written, and /tmp is
the command's own. Other processes cannot be seen, and neither can sockets of services in /run.
This file runs nothing.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from steno.tools.shell.landlock import ROOT_KEEPS

_ALWAYS: Final = (
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--die-with-parent",
    "--new-session",
    # Root could use its rights to mount everything anew.
    *("--cap-drop", "ALL"),
)
AS_USER: Final = ("--unshare-user",)
AS_ROOT: Final = tuple(word for name in ROOT_KEEPS for word in ("--cap-add", name))
"""Root of the machine keeps what it needs for files of others; a new user namespace has no others."""
_SETTINGS: Final = ("sys", "sysrq-trigger", "irq", "bus", "fs")
"""What root could change of the whole machine in /proc, without any rights but its name."""
_SEEN_IN_RUN: Final = (
    "/run/current-system",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
)
"""Programs of NixOS, and what /etc/resolv.conf may lead to; the rest of /run is sockets."""


def build_arguments(
    bwrap: str,
    rights: tuple[str, ...],
    *,
    roots: tuple[Path, ...],
    hidden: tuple[Path, ...],
    scratch: Path,
    network: bool,
    folder: Path,
) -> tuple[str, ...]:
    """Return the beginning of a command line that confines the rest of it.

    `rights` is AS_USER or AS_ROOT; `hidden` are real paths; `scratch` is shown as /tmp.
    """
    mounts = [
        *[(Path(path), option) for path, option in _system(scratch)],
        *[(path, _hide(path)) for path in hidden if path not in roots],
        *[(root, ("--bind", str(root), str(root))) for root in roots],
    ]
    # A mount covers what was mounted below it before, so the outer ones come first.
    mounts.sort(key=lambda mount: len(mount[0].parts))
    return (
        bwrap,
        *_ALWAYS,
        *rights,
        *(() if network else ("--unshare-net",)),
        *[word for _, option in mounts for word in option],
        *("--chdir", str(folder), "--"),
    )


def _system(scratch: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "/", ("--ro-bind", "/", "/")
    yield "/dev", ("--dev", "/dev")
    yield "/proc", ("--proc", "/proc")
    for name in _SETTINGS:
        yield f"/proc/{name}", ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
    yield "/tmp", ("--bind", str(scratch), "/tmp")  # noqa: S108 - the command's own
    if Path("/run").is_dir():
        yield "/run", ("--tmpfs", "/run")
        for path in _SEEN_IN_RUN:
            yield path, ("--ro-bind-try", path, path)


def _hide(path: Path) -> tuple[str, ...]:
    """Return what covers a file or a folder with nothing."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return ()
    if stat.S_ISDIR(mode):
        return ("--tmpfs", str(path))
    return ("--ro-bind", "/dev/null", str(path))
