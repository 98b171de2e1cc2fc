"""A filter that the kernel applies to every system call of a command.

It refuses the calls that would lead out of the sandbox or that no file permission controls. The
filter is a program for a small virtual machine of the kernel, which reads the number of the call
and its arguments as integers. It cannot read memory, such as a path or a socket address.
https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

from __future__ import annotations

import ctypes
import os
import struct

from .kernel import PR_SET_SECCOMP, prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

    from .specification import SocketRule

# Instructions: load a word of the call, compare, test bits, return.
_LOAD: Final = 0x20
_IF_EQUAL: Final = 0x15
_IF_AT_LEAST: Final = 0x35
_IF_ANY_BIT: Final = 0x45
_AND: Final = 0x54
_RETURN: Final = 0x06

_ALLOW: Final = 0x7FFF0000
_EPERM: Final = 0x00050000 | 1
_ENOSYS: Final = 0x00050000 | 38
_EAFNOSUPPORT: Final = 0x00050000 | 97
_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_ARGUMENTS: Final = 16
_MODE_FILTER: Final = 2

_X32_FIRST: Final = 0x40000000
"""The numbers from here on select the x32 variant of the calls of x86-64."""
_NAMESPACE_FLAGS: Final = 0x7E020000
_NEW_TIME_NAMESPACE: Final = 0x80
"""A flag of `unshare`; in `clone`, the same bit is part of a signal number."""
_TERMINAL_REQUESTS: Final = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which type text into a terminal or paste a selection."""
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET = 1, 5
_TYPE_MASK: Final = 0xF
"""The type of a socket without flags such as SOCK_CLOEXEC."""

_ARCHITECTURES: Final = {
    "x86_64": 0xC000003E,
    "aarch64": 0xC00000B7,
    "riscv64": 0xC00000F3,
    "loongarch64": 0xC0000102,
}
_REFUSED: Final = {
    # Namespaces and mounts: a new user namespace would return the capabilities that were dropped.
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    # Files by a handle instead of a path, which ignores hidden paths.
    "open_by_handle_at": (304, 265),
    # Requests that the kernel runs itself, so that no filter sees them.
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # Keys of the user's login session.
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Programs, modules and settings of the kernel, and large parts of it that are often attacked.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
}
"""The numbers of the refused calls, on x86-64 and on the architectures with generic numbers."""
_REFUSED_OUTSIDE: Final = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
}
"""Calls about other processes, refused if the command is not in a process namespace of its own."""
_CLONE3: Final = (435, 435)
_CLONE: Final = (56, 220)
_UNSHARE: Final = (272, 97)
_IOCTL: Final = (16, 29)
_SOCKET: Final = (41, 198)
_SOCKETPAIR: Final = (53, 199)


def build_filter(sockets: SocketRule, *, has_own_processes: bool, machine: str = "") -> bytes:
    """Return the program of a filter; empty if the numbers of this machine's calls are unknown.

    `has_own_processes` states that the command is in a process namespace of its own, where
    debuggers reach only processes of the command.
    """
    machine = machine or os.uname().machine
    if machine not in _ARCHITECTURES:
        return b""
    column = 0 if machine == "x86_64" else 1
    program = [
        _instruction(_LOAD, _ARCHITECTURE),
        # Other calling conventions, such as 32-bit calls, have other numbers.
        _instruction(_IF_EQUAL, _ARCHITECTURES[machine], otherwise=0, skip=1),
        _instruction(_RETURN, _EPERM),
        _instruction(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        program += [
            _instruction(_IF_AT_LEAST, _X32_FIRST, otherwise=1),
            _instruction(_RETURN, _ENOSYS),
        ]
    refused = _REFUSED if has_own_processes else _REFUSED | _REFUSED_OUTSIDE
    for numbers in refused.values():
        program += _if_number(numbers[column], [_instruction(_RETURN, _EPERM)])
    # The flags of `clone3` are in memory. Without it, the C library uses `clone`.
    program += _if_number(_CLONE3[column], [_instruction(_RETURN, _ENOSYS)])
    program += _if_number(_CLONE[column], _refuse_bits(0, _NAMESPACE_FLAGS))
    program += _if_number(_UNSHARE[column], _refuse_bits(0, _NAMESPACE_FLAGS | _NEW_TIME_NAMESPACE))
    program += _if_number(_IOCTL[column], _refuse_values(1, _TERMINAL_REQUESTS))
    program += _if_number(_SOCKET[column], _socket_rule(sockets))
    program += _if_number(_SOCKETPAIR[column], _pair_rule(sockets))
    return b"".join([*program, _instruction(_RETURN, _ALLOW)])


def apply_filter(program: bytes) -> None:
    """Apply a filter to this process and its children for good. Raises OSError if that fails.

    The process must have dropped its privileges.
    """
    instructions = ctypes.create_string_buffer(program, len(program))
    length = len(program) // 8
    prctl(PR_SET_SECCOMP, _MODE_FILTER, struct.pack("@HP", length, ctypes.addressof(instructions)))


def _socket_rule(sockets: SocketRule) -> list[bytes]:
    if sockets == "none":
        return [_instruction(_RETURN, _EPERM)]
    families = (_INET, _INET6, _NETLINK, *((_UNIX,) if sockets == "common" else ()))
    return _allow_values(0, families, _EAFNOSUPPORT)


def _pair_rule(sockets: SocketRule) -> list[bytes]:
    """Return the rule for pairs of sockets.

    A datagram socket of a pair can still send to any Unix socket by its path.
    """
    rule = [*_allow_values(0, (_UNIX,), _EPERM)]
    if sockets == "common":
        return rule
    types = _allow_values(1, (_STREAM, _SEQPACKET), _EPERM, mask=_TYPE_MASK)
    # Instead of allowing the family, continue with the type.
    return [
        _load_argument(0),
        _instruction(_IF_EQUAL, _UNIX, skip=1),
        _instruction(_RETURN, _EPERM),
        *types,
    ]


def _refuse_bits(argument: int, bits: int) -> list[bytes]:
    return [
        _load_argument(argument),
        _instruction(_IF_ANY_BIT, bits, otherwise=1),
        _instruction(_RETURN, _EPERM),
        _instruction(_RETURN, _ALLOW),
    ]


def _refuse_values(argument: int, values: Iterable[int]) -> list[bytes]:
    rule = [_load_argument(argument)]
    for value in values:
        rule += [_instruction(_IF_EQUAL, value, otherwise=1), _instruction(_RETURN, _EPERM)]
    return [*rule, _instruction(_RETURN, _ALLOW)]


def _allow_values(
    argument: int, values: Iterable[int], refusal: int, *, mask: int = 0
) -> list[bytes]:
    rule = [_load_argument(argument), *([_instruction(_AND, mask)] if mask else [])]
    for value in values:
        rule += [_instruction(_IF_EQUAL, value, otherwise=1), _instruction(_RETURN, _ALLOW)]
    return [*rule, _instruction(_RETURN, refusal)]


def _if_number(number: int, rule: list[bytes]) -> list[bytes]:
    """Return the instructions that run a rule, which must end with a return, for one call."""
    return [_instruction(_IF_EQUAL, number, otherwise=len(rule)), *rule]


def _load_argument(index: int) -> bytes:
    """Return the instruction that loads the low half of an argument; all machines have it first."""
    return _instruction(_LOAD, _ARGUMENTS + 8 * index)


def _instruction(code: int, value: int, *, skip: int = 0, otherwise: int = 0) -> bytes:
    """Return one instruction; `skip` and `otherwise` are the numbers of instructions to jump."""
    return struct.pack("=HBBI", code, skip, otherwise, value)
