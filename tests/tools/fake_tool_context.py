"""A tool context for tests: it stores blobs and reported output in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from steno.errors import Missing
from steno.ports import SandboxAccess, Subject


class FakeToolContext:
    """A `ToolContext` without a log."""

    def __init__(
        self,
        *,
        denied: Collection[str] = (),
        subjects: tuple[Subject, ...] | None = None,
        access: tuple[SandboxAccess, ...] = (),
    ) -> None:
        """Create a context with the subjects that a rule denies, and the approved ones, if any."""
        self.reported: list[str] = []
        self.blobs: dict[str, bytes] = {}
        self.denied = frozenset(denied)
        self.subjects = subjects
        self.access = access

    def is_denied(self, subject: str) -> bool:
        return subject in self.denied

    def report_output(self, text: str) -> None:
        self.reported.append(text)

    def put_blob(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self.blobs[sha256] = data
        return sha256

    def read_blob(self, sha256: str) -> bytes:
        try:
            return self.blobs[sha256]
        except KeyError:
            raise Missing("blob: nothing is kept under this name") from None
