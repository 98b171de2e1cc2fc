"""Replay a recorded session offline, and check that the loop creates the same log again.

    replayed = await replay(store.records(session))
    assert replayed.is_same

The loop is the real one. It receives everything that came from outside as recorded: messages of
users and models, decisions, results of tools. The entries that the loop makes are compared byte for
byte and digest for digest; the first difference ends the replay. For results and repairs that the
agent writes itself, the replay compares the code instead of the text, so that a later version of
steno may word them differently. An entry that a run does not create, such as a label, is copied,
and its digest is checked.

The recorded program may have been killed, and a later run may have continued the session.
Therefore, where a run would record a different entry than the recorded one, the replay starts a new
run from there; if that does not make the recorded entry either, the replay reports a difference.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, final

import msgspec

from steno.agent.agent import Agent
from steno.agent.events import EntryRecorded, LoopEvent
from steno.agent.recorder import OnEvent, ignore_event
from steno.agent.replay.recorded_run import (
    RecordedCalls,
    RecordedProvider,
    RecordedRun,
    RecordedTool,
    ReplayState,
    ReplayStopped,
    is_made_by_run,
    is_not_run,
)
from steno.agent.run_config import Limits
from steno.agent.steering import PromptInput, SteeringPolicy
from steno.codec import encode_entry
from steno.errors import InvalidValue, LogError
from steno.lazy_task import start_task
from steno.messages.call import is_tool_name
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.records.entry import Entry, Redacted, Rewind
from steno.records.stored_record import Record

_NO_LIMITS: Final = Limits(turns=None, invalid_calls=sys.maxsize)


class ChangedField(NamedTuple):
    """A member that differs between the recorded entry and the replayed entry."""

    name: str
    """The path of the member, such as `payload.content`."""
    recorded: int | None
    """The length of its JSON in the log; None if the recorded entry has no such member."""
    replayed: int | None
    """The length of its JSON in the replay; None if the replayed entry has no such member."""

    def __str__(self) -> str:
        recorded, replayed = _describe_length(self.recorded), _describe_length(self.replayed)
        return f"{self.name}: {recorded} recorded, {replayed} replayed"


@final
class ReplayDifference(NamedTuple):
    """The first recorded entry that the replay did not reproduce."""

    number: int
    """The number of the record of the entry."""
    recorded: Entry
    replayed: Entry | None
    """The entry of the replay; None if the recorded entry does not match its digest."""

    @property
    def parts(self) -> tuple[ChangedField, ...]:
        """The members that differ, by name and length, without their content."""
        if self.replayed is None:
            return ()
        old, new = _encode_fields(self.recorded), _encode_fields(self.replayed)
        names = [name for name in old | new if old.get(name) != new.get(name)]
        return tuple([ChangedField(name, _length(old, name), _length(new, name)) for name in names])

    def __str__(self) -> str:
        fields = "; ".join(map(str, self.parts)) or "the entry does not match its digest"
        return f"entry #{self.number} ({self.recorded.id}): {fields}"


@final
class ReplayResult(NamedTuple):
    """The result of a replay: the number of matching entries, and the first difference if any."""

    entries: int
    """The number of replayed entries that match the log."""
    made_by_loop: int
    """The number of matching entries that the loop created; the others were copied."""
    turns: int
    calls: int
    digest: str | None
    """The digest of the last replayed entry; None if there is none."""
    redacted: tuple[str, ...]
    """The ids of the redacted entries. Without their content, a run cannot always reproduce
    later entries; such entries are copied."""
    difference: ReplayDifference | None

    @property
    def is_same(self) -> bool:
        """Whether the loop reproduced the whole log."""
        return self.difference is None


async def replay(
    records: Iterable[Record], *, branch: str | None = None, on_event: OnEvent = ignore_event
) -> ReplayResult:
    """Replay a branch from its beginning; by default the branch that was written to last.

    `records` are all records of a session, as a store returns them. Nothing is sent, run or stored.
    `on_event` is called with each event, as in a run. Raises Missing if there is no such branch,
    Damaged if its beginning is missing, and InvalidValue if a value is not a record.
    """
    return await _Replayer(RecordedRun(_check_records(records), branch), on_event).run()


def _check_records(records: object) -> tuple[Record, ...]:
    values: tuple[Any, ...] = tuple(records) if isinstance(records, Iterable) else (records,)
    wrong_types = {type(record).__name__ for record in values if not isinstance(record, Record)}
    if wrong_types:
        kind = " or ".join(sorted(wrong_types))
        message = f"must be the records of a session, not {kind}; pass store.records(id)"
        raise InvalidValue(message, place="replay", code="not_records")
    return values


@final
class _Replayer:
    """Replays a recorded session with one or more runs of an agent, one after the other."""

    def __init__(self, recorded_run: RecordedRun, on_event: OnEvent) -> None:
        self._recorded_run = recorded_run
        self._state = ReplayState(recorded_run)
        self._on_event = on_event
        self._agent: Agent | None = None
        self._identity: tuple[str, str | None] = ("", None)
        """The recorded model name and actor that the current agent uses."""
        self._tools = [
            RecordedTool(self._state, name) for name in recorded_run.tools if is_tool_name(name)
        ]

    async def run(self) -> ReplayResult:
        recorded_run, state = self._recorded_run, self._state
        while (entry := recorded_run.next) is not None and not state.is_tampered:
            before = recorded_run.position
            if _begins_run(entry):
                await self._run_from(entry)
            if recorded_run.position == before and not state.is_tampered:
                is_other_made = state.attempt is not None and _begins_run(entry)
                # Without redacted content, the loop cannot reproduce entries that depend on it.
                if is_other_made and not self._redacted_ids():
                    break
                state.copy_next()
        return self._build_result()

    async def _run_from(self, entry: Entry) -> None:
        """Start a run that should record `entry` first, and wait until the run ends.

        The run ends when it is done, or when it records an entry that differs from the log.
        """
        state, payload = self._state, entry.payload
        audit = (entry.audit or {}) if isinstance(payload, UserMessage) else {}
        actor, origin = audit.get("actor"), audit.get("origin")
        roles = (self._next_model(), actor if isinstance(actor, str) else None)
        # After a kill, a new agent continues, because the state of the old one was lost in the
        # recorded session as well. After a run that ended normally, the same agent continues.
        if self._agent is None or state.is_over or roles != self._identity:
            self._agent, self._identity = self._new_agent(*roles), roles
        state.is_over = False
        prompt: PromptInput | None = None
        if isinstance(payload, UserMessage):
            prompt = PromptInput("", message=payload, audit={"origin": origin})
        task = start_task(self._agent.run(prompt, on_event=self._handle_event))
        state.stop = task.cancel
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:  # the replay itself is cancelled
            state.is_over = True
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, (LogError, InvalidValue, ReplayStopped)):
            raise error

    def _new_agent(self, model: str, actor: str | None) -> Agent:
        """Return an agent whose provider, gate and tools only use the log."""
        state = self._state
        calls = RecordedCalls(state)
        return Agent(
            RecordedProvider(state, model),
            state.conversation,
            tools=self._tools,
            gate=calls,
            runner=calls,
            model=model,
            limits=_NO_LIMITS,
            actor=actor,
            sleep=_skip_wait,
        )

    def _next_model(self) -> str:
        """Return the model name for the next response; empty if that response records none."""
        for entry in self._recorded_run.remaining():
            if isinstance(entry.payload, AssistantMessage):
                is_named = bool((entry.audit or {}).get("model"))
                return (self._state.conversation.model or "") if is_named else ""
        return ""

    def _handle_event(self, event: LoopEvent) -> None:
        self._on_event(event)
        if isinstance(event, EntryRecorded):
            self._state.check_next(event.entry)
            if isinstance(event.entry.payload, ToolResultMessage):
                self._steer_recorded()

    def _steer_recorded(self) -> None:
        """Steer the run with the recorded user messages that precede the next response."""
        assert self._agent is not None
        for entry in self._recorded_run.remaining():
            if not isinstance(entry.payload, UserMessage) or not is_made_by_run(entry):
                return
            if (entry.audit or {}).get("actor") != self._identity[1]:
                return
            self._agent.steer(entry.payload, SteeringPolicy.AFTER_CALLS)

    # -- the result ----------------------------------------------------------------------------

    def _redacted_ids(self) -> tuple[str, ...]:
        records = self._recorded_run.records[: self._recorded_run.position]
        entries = [record.entry for record in records if record.entry is not None]
        return tuple([entry.id for entry in entries if isinstance(entry.payload, Redacted)])

    def _build_result(self) -> ReplayResult:
        recorded_run = self._recorded_run
        replayed = recorded_run.records[: recorded_run.position]
        payloads = [record.entry.payload for record in replayed if record.entry is not None]
        turns = [payload for payload in payloads if isinstance(payload, AssistantMessage)]
        difference: ReplayDifference | None = None
        if recorded_run.record is not None and recorded_run.next is not None:
            difference = ReplayDifference(
                recorded_run.record.seq, recorded_run.next, self._state.attempt
            )
        return ReplayResult(
            entries=len(replayed),
            made_by_loop=self._state.made_count,
            turns=len(turns),
            calls=sum(len(turn.tool_calls) for turn in turns),
            digest=replayed[-1].digest if replayed else None,
            redacted=self._redacted_ids(),
            difference=difference,
        )


def _begins_run(entry: Entry) -> bool:
    """Return whether an entry could be the first one that a run records.

    This is never a rewind: a rewind between two runs is an action of the user.
    """
    return is_made_by_run(entry) and not is_not_run(entry) and not isinstance(entry.payload, Rewind)


async def _skip_wait(_: float) -> None:
    """Return at once instead of waiting before a retry, because its outcome is in the log."""


# -- differences -----------------------------------------------------------------------------


def _encode_fields(entry: Entry) -> dict[str, bytes]:
    """Return the JSON of each field of an entry; payload and audit are split into their fields."""
    members: dict[str, Any] = msgspec.json.decode(encode_entry(entry))
    for name in ("payload", "audit"):
        inner = members.pop(name, None)
        if isinstance(inner, dict):
            members |= {f"{name}.{key}": value for key, value in inner.items()}
    return {name: msgspec.json.encode(value) for name, value in members.items()}


def _length(members: dict[str, bytes], name: str) -> int | None:
    return len(members[name].decode()) if name in members else None


def _describe_length(length: int | None) -> str:
    return "nothing" if length is None else f"{length:,} characters"
