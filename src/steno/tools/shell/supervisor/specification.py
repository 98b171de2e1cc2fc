"""The types of what steno and the supervisor exchange; the supervisor itself does not load them."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

MountKind: TypeAlias = Literal[
    "writable",
    "read_only",
    "placeholder",
    "new_file",
    "hidden_folder",
    "hidden_file",
    "hidden_socket",
    "empty_folder",
]
"""How a path appears to the command.

    writable        the file or folder itself, writable
    read_only       the file or folder itself, read-only
    placeholder     an empty read-only folder, which the supervisor creates and removes
    new_file        an empty writable file, which the supervisor creates, and removes if unchanged
    hidden_folder   an empty read-only folder that only the command sees
    hidden_file     a file that cannot be opened
    hidden_socket   the same for a Unix socket, which may have vanished when the command starts
    empty_folder    an empty writable folder that only the command sees
"""
SocketRule: TypeAlias = Literal["none", "local", "common"]
"""The sockets that a command may create.

    none      no sockets, only pairs of connected ones
    local     TCP, UDP and similar, but no Unix sockets
    common    Unix, TCP, UDP and netlink sockets
"""


class Mount(TypedDict):
    """One path of the view that a command has of the file system."""

    kind: MountKind
    path: str
    source: str
    """The path to show at `path`; the same path unless the command sees something else there."""


class BubblewrapConfinement(TypedDict):
    """A sandbox around the command, made by the program `bwrap`."""

    mechanism: Literal["bubblewrap"]
    command: list[str]
    """The program and its options."""
    hidden_sockets: list[str]
    """The Unix sockets to cover, except for those that have vanished when the command starts."""
    placeholders: list[str]
    new_files: list[str]
    """The approved files that are missing."""
    sockets: SocketRule
    scopes_sockets: bool
    """Whether Landlock keeps the command from abstract Unix sockets of other programs."""
    listens: bool
    """Whether steno receives a socket that listens inside the network of the command."""


class LandlockConfinement(TypedDict):
    """A sandbox that the process of the command applies to itself."""

    mechanism: Literal["landlock"]
    mounts: list[Mount] | None
    """The view of the file system, outer paths first; None if namespaces are not allowed."""
    folder: str
    """The working directory."""
    placeholders: list[str]
    new_files: list[str]
    """The approved files that are missing."""
    writable: list[str]
    hidden: list[str]
    """Real paths that must not be read, unless they are inside a writable path."""
    revealed: list[str]
    """Real paths that may be read even so."""
    allows_network: bool
    sockets: SocketRule


Confinement: TypeAlias = BubblewrapConfinement | LandlockConfinement


class CommandSpecification(TypedDict):
    """The command to run, its sandbox and its limits."""

    argv: list[str]
    confinement: Confinement | None
    grace_s: float
    max_processes: int
    max_file_bytes: int
    max_memory_bytes: int | None


class CommandStatus(TypedDict):
    """The final report of the supervisor about the command."""

    exit_code: int
    """The exit code of the command.

    If a signal ended the command, this is 128 plus the number of the signal, as in shells.
    """
    leftover: int
    """The number of processes that were still running after the command and had to be ended."""
    limit: Literal["", "processes", "memory"]
    """The limit for which the command was ended; empty if it was not ended."""
    failure: str
    """The reason why the command could not be started; empty if it was started."""
