"""Two programs at work on one session: who comes second is told so, and what to do about it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from steno.app.session_state import SessionState
from steno.errors import Conflict, Missing

_CHANGED_ELSEWHERE: Final = (
    "session: another program has gone on with it meanwhile, and what it said is kept; "
    "/resume goes on behind it, /fork beside it"
)
_REMOVED_ELSEWHERE: Final = "session: another program has removed it meanwhile; /new begins another"


@contextmanager
def explain_conflicts(state: SessionState) -> Generator[None]:
    """Record something. Raises Conflict, Missing in words for a person, if another was faster."""
    try:
        yield
    except Conflict as exc:
        raise Conflict(_CHANGED_ELSEWHERE) from exc
    except Missing as exc:
        if _session_exists(state):
            raise
        raise Missing(_REMOVED_ELSEWHERE) from exc


def _session_exists(state: SessionState) -> bool:
    try:
        state.config.store.header(state.conversation.id)
    except Missing:
        return not state.is_recorded
    return True
