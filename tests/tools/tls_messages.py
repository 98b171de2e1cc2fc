"""TLS messages of a client: real ones, and ones built field by field."""

from __future__ import annotations

import ssl
from typing import NamedTuple

CHANGE_CIPHER_SPEC = b"\x14\x03\x03\x00\x01\x01"
ENCRYPTED_CLIENT_HELLO = (0xFE0D, b"\x00\x00\x01\x00\x01\x07\x00\x00\x00\x00")
EARLY_DATA = (42, b"")


def vector(data: bytes, length_size: int) -> bytes:
    return len(data).to_bytes(length_size, "big") + data


def server_name(name: bytes, kind: int = 0) -> tuple[int, bytes]:
    return 0, vector(bytes([kind]) + vector(name, 2), 2)


def hello_body(*extensions: tuple[int, bytes]) -> bytes:
    joined = b"".join([kind.to_bytes(2, "big") + vector(data, 2) for kind, data in extensions])
    start = b"\x03\x03" + bytes(32) + vector(bytes(32), 1)
    return start + vector(b"\x13\x01", 2) + vector(b"\x00", 1) + vector(joined, 2)


def message(body: bytes, kind: int = 1) -> bytes:
    return bytes([kind]) + vector(body, 3)


def record(content: bytes, kind: int = 22) -> bytes:
    return bytes([kind]) + b"\x03\x01" + vector(content, 2)


def hello(*extensions: tuple[int, bytes]) -> bytes:
    """Return the record of a ClientHello."""
    return record(message(hello_body(*extensions)))


def hello_for(name: str) -> bytes:
    return hello(server_name(name.encode()))


class Handshake(NamedTuple):
    """What a client sent before its first data, in the order of its messages."""

    flights: list[bytes]

    @property
    def all_bytes(self) -> bytes:
        return b"".join(self.flights)


def run_handshake(client: ssl.SSLContext, server: ssl.SSLContext, name: str | None) -> Handshake:
    """Run a real handshake in memory, and let the client send some data."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=name)
    theirs = server.wrap_bio(sent := ssl.MemoryBIO(), to_client, server_side=True)
    flights: list[bytes] = []
    is_done = [False, False]
    while not all(is_done):
        for number, side in enumerate((ours, theirs)):
            try:
                side.do_handshake()
                is_done[number] = True
            except ssl.SSLWantReadError:
                pass
            if number == 0 and (flight := to_server.read()):
                flights.append(flight)
                sent.write(flight)
    ours.write(b"data" * 10)
    flights.append(to_server.read())
    return Handshake(flights)
