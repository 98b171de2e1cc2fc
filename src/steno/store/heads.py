"""The last entry of every branch, as it follows from the records of a session."""

from __future__ import annotations

from typing import final


@final
class Heads:
    """The ends of all branches, in their order: the one whose entry was written last at the end.

    Branches that nothing was written to yet stand first. So to fork, and to go on where one was,
    does not make the fork the branch that a session opens with.
    """

    __slots__ = ("_begun", "_written")

    def __init__(self) -> None:
        """Start without a branch."""
        self._begun: dict[str, str | None] = {}
        self._written: dict[str, str | None] = {}

    def begin(self, branch: str, at: str | None) -> None:
        """Take note of a branch that begins."""
        self._written.pop(branch, None)
        self._begun[branch] = at

    def write(self, branch: str, entry_id: str) -> None:
        """Take note of an entry that was written to a branch."""
        self._begun.pop(branch, None)
        self._written.pop(branch, None)  # the latest stands last
        self._written[branch] = entry_id

    def of(self, branch: str) -> str | None:
        """Return the last entry of a branch; None if it has none, or there is no such branch."""
        return self._written.get(branch) or self._begun.get(branch)

    def all(self) -> dict[str, str | None]:
        """Return the last entry of every branch."""
        return self._begun | self._written

    def __contains__(self, branch: str) -> bool:
        return branch in self._written or branch in self._begun
