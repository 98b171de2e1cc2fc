"""The parts of an open session that commands read and change."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple

from steno.app.active_run import ActiveRun
from steno.app.branch_tree import BranchTree
from steno.app.session_list import SessionList
from steno.app.session_state import SessionState, explain_conflicts


class OpenSession(NamedTuple):
    """An open session, as commands see it."""

    state: SessionState
    active_run: ActiveRun
    branches: BranchTree
    session_list: SessionList

    def explain_conflicts(self) -> AbstractContextManager[None]:
        """Explain errors of a block that arise if another program changes the session."""
        return explain_conflicts(self.state)
