"""What a person says in one run, and when it goes on record: the prompt first, then what is steered.

A prompt that points at something may have to be taken back. What is said behind it is held until
that is clear, or it would be taken back as well, and nobody would know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

from steno.agent.lookup import leave_way_back, points
from steno.agent.notebook import Notebook
from steno.agent.steering import Steered, Wheel
from steno.entry import Entry
from steno.message import UserMessage


@final
class Hearing:
    """Records what is said in one run."""

    def __init__(self, notebook: Notebook, wheel: Wheel, *, actor: str | None, opens: bool) -> None:
        """Take the log and what is steered; `opens` if a prompt that cannot be opened goes back."""
        self._recorder = notebook
        self._queue = wheel
        self._actor = actor
        self._resolves_references = opens
        self._pending_prompt: Steered | None = None
        """What is to be heard first; None once it is on record."""
        self.is_held = False
        """Whether what is said behind the prompt has to wait."""
        self.prompt: Entry | None = None
        """What was heard first."""

    def set_prompt(self, prompt: UserMessage, origin: str | None) -> None:
        """Take what is to be heard first; `origin` is where its words are from."""
        self._pending_prompt = Steered(prompt, {"origin": origin})

    def record_prompt(self) -> None:
        """Record what a person said to begin with, unless that is done."""
        first, self._pending_prompt = self._pending_prompt, None
        if first is None:
            return
        if self._resolves_references:
            leave_way_back(first.message, self._recorder)
        self.prompt = self._record_message(first.message, first.audit)
        self.is_held = self._resolves_references and points(self.prompt)

    def record_due(self, *, is_over: bool) -> bool:
        """Record what is to be heard now, unless it is held; tell whether an answer is wanted."""
        if self.is_held:
            return self._queue.wants_answer
        return self._record_all(self._queue.take_due(is_over=is_over))

    def release(self) -> None:
        """Hold nothing any more: the prompt stays, or is about to be sent."""
        self.is_held = False

    def record_rest(self) -> None:
        """Record what was said and not heard.

        Behind a prompt that was taken back, what wants an answer waits: it is withdrawn, or heard
        in the next run.
        """
        is_there = self.prompt is None or self._recorder.is_on_branch(self.prompt)
        self._record_all(self._queue.take_due(is_over=True) if is_there else self._queue.take_without_answer())

    def _record_all(self, said: Sequence[Steered]) -> bool:
        for one in said:
            self._record_message(one.message, one.audit)
        return any(one.wants_answer for one in said)

    def _record_message(self, said: UserMessage, noted: Mapping[str, Any]) -> Entry:
        about = {"actor": self._actor, **noted}
        audit = {name: what for name, what in about.items() if what is not None}
        return self._recorder.record(said, audit=audit or None)
