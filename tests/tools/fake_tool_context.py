"""What a tool has around it in a test: it keeps bytes in memory and remembers what was said."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from steno.errors import Missing


class FakeToolContext:
    """A `Stage` without a log."""

    def __init__(
        self, *, denied: Collection[str] = (), subjects: tuple[str, ...] | None = None
    ) -> None:
        """Take the names that a rule forbids, and what was decided about if anybody did."""
        self.said: list[str] = []
        self.kept: dict[str, bytes] = {}
        self.denied = frozenset(denied)
        self.subjects = subjects

    def is_denied(self, subject: str) -> bool:
        return subject in self.denied

    def report_output(self, text: str) -> None:
        self.said.append(text)

    def put_blob(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self.kept[sha256] = data
        return sha256

    def read_blob(self, sha256: str) -> bytes:
        try:
            return self.kept[sha256]
        except KeyError:
            raise Missing("blob: nothing is kept under this name") from None
