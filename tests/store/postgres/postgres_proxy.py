"""A loopback proxy in front of PostgreSQL that drops connections at a chosen statement."""

from __future__ import annotations

import socket
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from threading import Event, Thread
from typing import Self

from tests.store.postgres.postgres_server import name_in


class Loss(Enum):
    """The fate of the statement at which the connection is lost."""

    UNSENT = auto()
    """The server never receives it."""
    UNANSWERED = auto()
    """The server executes it, and the client never receives the response."""
    LATE = auto()
    """The server receives it only when the test lets it through."""


class Proxy:
    """Forwards bytes between clients on loopback and a server on a Unix socket."""

    def __init__(self, target: Path) -> None:
        self._target = str(target)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._plan: tuple[bytes, Loss] | None = None
        self._for_good = False
        self._is_open = True
        self.was_lost = Event()
        self.let_through = Event()
        Thread(target=self._accept, daemon=True).start()

    def address(self, database_address: str) -> str:
        """Return the address of a database through this proxy."""
        host, port = self._listener.getsockname()
        options = "sslmode=disable&gssencmode=disable"
        return f"postgresql://postgres@{host}:{port}/{name_in(database_address)}?{options}"

    def lose(self, word: bytes, loss: Loss, *, for_good: bool = False) -> None:
        """Lose the next connection on which a client sends `word`; with `for_good`, all later ones."""
        self._plan = word, loss
        self._for_good = for_good

    def recover(self) -> None:
        """Accept connections again."""
        self._is_open = True

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.let_through.set()
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._is_open:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            Thread(target=self._listen, args=(client, server), daemon=True).start()
            Thread(target=_carry, args=(server, client), daemon=True).start()

    def _listen(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while chunk := client.recv(65536):
                if self._plan is not None and self._plan[0] in chunk:
                    (_, loss), self._plan = self._plan, None
                    self._is_open = not self._for_good
                    self._lose(client, server, chunk, loss)
                    return
                server.sendall(chunk)
        _end(server)

    def _lose(self, client: socket.socket, server: socket.socket, chunk: bytes, loss: Loss) -> None:
        # Its other thread finds no client: the response is lost with the connection.
        _end(client)
        self.was_lost.set()
        if loss is Loss.LATE:
            self.let_through.wait(60)
        if loss is not Loss.UNSENT:
            server.sendall(chunk)
            server.shutdown(socket.SHUT_WR)
        else:
            _end(server)


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(65536):
            target.sendall(chunk)
    _end(target)
    source.close()


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
