"""Check the first TLS messages of a client, which name the server that it wants. No I/O.

A server of many sites, such as that of a content delivery network, shows the site that the client
names in its TLS messages, not the one that the client asked the proxy for. Without this check, the
permission for one site would be a permission for all sites on the same servers.

A server can ask for a second hello (RFC 8446, 4.1.4), and some servers believe the name in that.
The check therefore follows the messages until the client can no longer send a readable one.
"""

from __future__ import annotations

from typing import Final, final

from steno.errors import InvalidValue
from steno.tools.shell.domain_rules import RefusalReason, is_ip_address, normalize_host

ACCESS_DENIED_ALERT: Final = bytes.fromhex("15 0303 0002 02 31")
"""The TLS record with which a server refuses access; clients show it as a message."""

_CHANGE_CIPHER_SPEC: Final = 20
_ALERT: Final = 21
_HANDSHAKE: Final = 22
_APPLICATION_DATA: Final = 23
_HEADER_BYTES: Final = 5
_MAX_RECORD_BYTES: Final = 2**14 + 2_048
_MAX_HELLO_BYTES: Final = 65_536
_MAJOR_VERSION: Final = 3
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
_EARLY_DATA: Final = 42
_ENCRYPTED_CLIENT_HELLO: Final = 0xFE0D
_MIN_ENCRYPTED_BYTES: Final = 16
"""The size of an encrypted handshake message is at least that of its authentication tag."""


class HelloRefused(Exception):
    """The messages of a client do not name the server that the client may contact."""

    def __init__(self, reason: RefusalReason) -> None:
        super().__init__(reason)
        self.reason: Final = reason


@final
class ClientHelloCheck:
    """Passes the bytes of a client on to the server, as soon as they are checked."""

    def __init__(self, host: str, *, requires_tls: bool, allows_encrypted_name: bool) -> None:
        """Take the host that the client asked for, as `normalize_host` returns it.

        `requires_tls` refuses everything that is not TLS. `allows_encrypted_name` accepts ECH, and
        with it any server; a client that only pretends to use ECH (GREASE) looks the same.
        """
        self._host = host
        self.requires_tls = requires_tls
        self._allows_encrypted_name = allows_encrypted_name
        self._buffer = bytearray()
        self._handshake = bytearray()
        self._held = bytearray()
        self._has_begun = False
        self._has_changed_cipher = False
        self._has_early_data = False
        self.has_hello = False
        """Whether the first message is complete, or the client does not use TLS."""
        self.is_done = False
        """Whether all further bytes are passed on unchecked."""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that may be sent to the server. Raises HelloRefused."""
        if self.is_done:
            return data
        if data and not self._has_begun:
            self._has_begun = True
            self._check_first_byte(data[0])
        self._buffer += data
        passed = bytearray()
        while not self.is_done:
            record = self._take_record()
            if record is None:
                return bytes(passed)
            self._check_record(record[0], record[_HEADER_BYTES:])
            self._held += record
            if not self._handshake:  # no message is incomplete
                passed += self._held
                self._held.clear()
        passed += self._held + self._buffer
        self._held.clear()
        self._buffer.clear()
        return bytes(passed)

    def _check_first_byte(self, kind: int) -> None:
        if kind != _HANDSHAKE:
            if self.requires_tls:
                raise HelloRefused(RefusalReason.NOT_TLS)
            self.has_hello = self.is_done = True

    def _take_record(self) -> bytes | None:
        if len(self._buffer) < _HEADER_BYTES:
            return None
        size = int.from_bytes(self._buffer[3:_HEADER_BYTES], "big")
        if self._buffer[1] != _MAJOR_VERSION or not 0 < size <= _MAX_RECORD_BYTES:
            raise HelloRefused(RefusalReason.INVALID_HELLO)
        end = _HEADER_BYTES + size
        if len(self._buffer) < end:
            return None
        record = bytes(self._buffer[:end])
        del self._buffer[:end]
        return record

    def _check_record(self, kind: int, content: bytes) -> None:
        if self._handshake and kind != _HANDSHAKE:  # a message must not be interrupted
            raise HelloRefused(RefusalReason.INVALID_HELLO)
        if kind == _HANDSHAKE:
            if self._is_encrypted(content):
                self.is_done = True
            else:
                self._handshake += content
                self._check_messages()
        elif kind == _APPLICATION_DATA:
            # Early data precedes the answer of the server, which may ask for a second hello.
            self.is_done = not self._has_early_data
        elif kind == _CHANGE_CIPHER_SPEC and content == b"\x01":
            self._has_changed_cipher = True
        elif kind != _ALERT:
            raise HelloRefused(RefusalReason.INVALID_HELLO)

    def _is_encrypted(self, content: bytes) -> bool:
        """Return whether a handshake record is encrypted, which it can be after a cipher change.

        TLS 1.3 clients send a meaningless cipher change before a second hello, which is readable.
        """
        if not self._has_changed_cipher or self._handshake:
            return False
        if len(content) < _MIN_ENCRYPTED_BYTES:
            raise HelloRefused(RefusalReason.INVALID_HELLO)
        return content[0] != _CLIENT_HELLO or content[4] != _MAJOR_VERSION

    def _check_messages(self) -> None:
        while len(self._handshake) >= 4 and not self.is_done:
            if self._handshake[0] != _CLIENT_HELLO:
                if not self.has_hello:
                    raise HelloRefused(RefusalReason.INVALID_HELLO)
                # After a certificate or a key, the client can no longer send a readable hello.
                self._handshake.clear()
                self.is_done = True
                return
            end = 4 + int.from_bytes(self._handshake[1:4], "big")
            if end > _MAX_HELLO_BYTES:
                raise HelloRefused(RefusalReason.INVALID_HELLO)
            if len(self._handshake) < end:
                return
            self._check_hello(bytes(self._handshake[4:end]))
            del self._handshake[:end]

    def _check_hello(self, body: bytes) -> None:
        extensions = _read_extensions(body)
        self._has_early_data |= _EARLY_DATA in extensions
        if _ENCRYPTED_CLIENT_HELLO in extensions and not self._allows_encrypted_name:
            raise HelloRefused(RefusalReason.SERVER_NAME_ENCRYPTED)
        name = extensions.get(_SERVER_NAME)
        if name is None:
            if not is_ip_address(self._host):
                raise HelloRefused(RefusalReason.SERVER_NAME_MISSING)
        elif _read_server_name(name) != self._host:
            raise HelloRefused(RefusalReason.SERVER_NAME_MISMATCH)
        self.has_hello = True


class _Fields:
    """Reads the fields of a message in order; a field that exceeds the message is refused."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def take(self, size: int) -> bytes:
        self._at += size
        if self._at > len(self._data):
            raise HelloRefused(RefusalReason.INVALID_HELLO)
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, length_size: int) -> bytes:
        return self.take(self.number(length_size))


def _read_extensions(hello: bytes) -> dict[int, bytes]:
    """Return the extensions of a ClientHello by their types (RFC 8446, 4.1.2)."""
    fields = _Fields(hello)
    fields.take(2 + 32)  # version and random
    fields.vector(1)  # session
    fields.vector(2)  # cipher suites
    fields.vector(1)  # compression methods
    if fields.is_at_end:
        return {}
    extensions = _Fields(fields.vector(2))
    found: dict[int, bytes] = {}
    while not extensions.is_at_end:
        kind = extensions.number(2)
        if kind in found:
            raise HelloRefused(RefusalReason.INVALID_HELLO)
        found[kind] = extensions.vector(2)
    if not fields.is_at_end:
        raise HelloRefused(RefusalReason.INVALID_HELLO)
    return found


def _read_server_name(extension: bytes) -> str | None:
    """Return the only name in the extension (RFC 6066, 3); None if it is not a host name."""
    outer = _Fields(extension)
    names = _Fields(outer.vector(2))
    kind, name = names.number(1), names.vector(2)
    if kind != 0 or not names.is_at_end or not outer.is_at_end:
        raise HelloRefused(RefusalReason.INVALID_HELLO)
    try:
        return normalize_host(name.decode("ascii"))
    except (UnicodeDecodeError, InvalidValue):
        return None
