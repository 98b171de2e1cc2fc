"""Tell people once what a model sees otherwise than it is on record, and record what was mended."""

from __future__ import annotations

from typing import Final, final

from steno.agent.events import Notice, NoticeCode
from steno.agent.notebook import Notebook
from steno.context import Built, Change, ChangeCode
from steno.entry import Repair

_EXPECTED: Final = (ChangeCode.RESOLVED,)
"""What nobody has to be told: that what is pointed at is shown."""
_RECORDED: Final = (ChangeCode.REPAIRED, ChangeCode.RESOURCE_LEFT_OUT)
"""What the record tells of, too."""


@final
class Reports:
    """What was told in one run."""

    def __init__(self, notebook: Notebook) -> None:
        """Begin with nothing told."""
        self._recorder = notebook
        self._sent: set[tuple[str, str | None]] = set()
        """What was told of which entry."""

    def report(self, built: Built) -> None:
        """Tell what is new about a request."""
        told = [change for change in built.changes if change.code not in _EXPECTED]
        news = [change for change in told if self.send_once(str(change), change.entry)]
        repairs = [_repair_of(change) for change in news if change.code in _RECORDED]
        if repairs:
            past = self._recorder.conversation.entries_view()
            recorded = {entry.payload for entry in past if isinstance(entry.payload, Repair)}
            for repair in repairs:
                if repair not in recorded:
                    self._recorder.record(repair)

    def send_once(self, text: str, entry: str | None = None) -> bool:
        """Tell something of an entry, unless it was told before; tell whether it was news."""
        if (text, entry) in self._sent:
            return False
        self._sent.add((text, entry))
        self._recorder.emit(Notice(NoticeCode.CONTEXT, text))
        return True


def _repair_of(change: Change) -> Repair:
    return Repair(code=str(change.code), explanation=change.explanation, target=change.entry)
