"""A socket that listens inside the network of a sandbox, handed to steno.

The sandbox has a network namespace without any way out. A socket belongs to the namespace in which
it was created, wherever it is used: a process enters the namespace, creates the socket, passes it
to steno and ends. Programs in the sandbox connect to it by TCP, and steno decides about each
connection. No process of steno remains in the sandbox.
"""

from __future__ import annotations

import fcntl
import os
import struct

from .kernel import setns
from .orders import LISTENER_PORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_NEW_USER: Final = 0x10000000
_NEW_NETWORK: Final = 0x40000000
_NS_GET_USERNS: Final = 0xB701
_FREEBIND: Final = 15
_BACKLOG: Final = 128
_PID_FIELD: Final = b'"child-pid":'


def send_listener(info_fd: int, steno_fd: int) -> None:
    """Wait until bwrap reports its process in the sandbox, then create the socket and pass it on.

    This process stays in the namespaces of the sandbox. Raises OSError or ValueError if it fails.
    """
    import _socket  # noqa: PLC0415 - few commands need it, and `socket` takes longer to load

    _enter_network(_read_pid(info_fd))
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    # The address may be used before bwrap has added it to the namespace.
    listener.setsockopt(0, _FREEBIND, 1)
    listener.bind(("127.0.0.1", LISTENER_PORT))
    listener.listen(_BACKLOG)
    rights = struct.pack("@i", listener.fileno())
    steno = _socket.socket(fileno=steno_fd)
    steno.sendmsg([b"l"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])


def _read_pid(info_fd: int) -> int:
    text = b""
    while chunk := os.read(info_fd, 4096):
        text += chunk
        rest = text.partition(_PID_FIELD)[2].lstrip()
        digits = rest[: len(rest) - len(rest.lstrip(b"0123456789"))]
        if digits and len(digits) < len(rest):
            return int(digits)
    raise ValueError("bwrap reported no process")


def _enter_network(pid: int) -> None:
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    # bwrap may have created several user namespaces; one of them owns the network namespace.
    owner = fcntl.ioctl(network, _NS_GET_USERNS)
    if not os.path.samestat(os.fstat(owner), os.stat("/proc/self/ns/user")):
        setns(owner, _NEW_USER)
    setns(network, _NEW_NETWORK)
