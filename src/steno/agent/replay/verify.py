"""Run a recorded session again, offline, and prove that the same record comes out.

    replayed = await replay(store.records(session))
    assert replayed.is_same

The loop is the real one. What came from outside is given to it as it is on record: what people
and models said, what was decided, what tools returned. Everything that it makes of this is
compared, byte for byte and digest for digest; the first difference ends the replay. What no run
makes, such as a label, is taken as it is, and its digest is checked.

A program may be killed anywhere, and goes on in another run. So where a run would record
something else than what is on record, a new one is tried from there; only if that does not make
the next entry either, the record is not one that this loop makes.
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
from steno.agent.replay.doubles import (
    RecordedGate,
    RecordedProvider,
    RecordedRunner,
    RecordedTool,
    ReplayState,
    ReplayStopped,
)
from steno.agent.replay.recorded_run import RecordedRun, is_made_by_run, is_not_run
from steno.agent.run_config import Limits
from steno.agent.steering import SteeringPolicy
from steno.codec import encode_entry
from steno.errors import InvalidValue, LogError
from steno.messages.call import is_tool_name
from steno.messages.message import AssistantMessage, ToolResultMessage, UserMessage
from steno.records.entry import Entry, Redacted, Rewind
from steno.records.stored_record import Record

_NO_LIMITS: Final = Limits(turns=None, invalid_calls=sys.maxsize)


class ChangedField(NamedTuple):
    """A part of an entry that came out otherwise; lengths are those of its JSON."""

    name: str
    """Such as `payload.content`."""
    recorded: int | None
    """None where there is none on record."""
    came: int | None
    """None where none came out."""

    def __str__(self) -> str:
        return f"{self.name}: {_describe_length(self.recorded)} on record, {_describe_length(self.came)} came out"


@final
class ReplayDifference(NamedTuple):
    """The first entry that is not what comes out."""

    number: int
    """That of its record."""
    recorded: Entry
    came: Entry | None
    """None where the entry is what comes out, or none that a run makes, and its digest is another."""

    @property
    def parts(self) -> tuple[ChangedField, ...]:
        """What is different, as far as a program may tell: never what it says."""
        return () if self.came is None else _find_changed_fields(self.recorded, self.came)

    def __str__(self) -> str:
        what = "; ".join(map(str, self.parts)) or "it is not the entry that its digest was made of"
        return f"entry #{self.number} ({self.recorded.id}): {what}"


@final
class ReplayResult(NamedTuple):
    """What came of a replay."""

    entries: int
    """How many entries came out as they are on record."""
    made: int
    """How many of them the loop has made again; the others were taken as they are."""
    turns: int
    calls: int
    digest: str | None
    """Of the last of these entries; None if there is none."""
    redacted: tuple[str, ...]
    """Entries whose content was taken out: what a run cannot make without them is taken as it is."""
    difference: ReplayDifference | None

    @property
    def is_same(self) -> bool:
        """Whether the same record came out, to its end."""
        return self.difference is None


async def replay(
    records: Iterable[Record], *, branch: str | None = None, watch: OnEvent = ignore_event
) -> ReplayResult:
    """Replay what led to the end of a branch; without one, of that which was written to last.

    `records` are all of a session, as a store returns them. Nothing is sent, run or stored.
    `watch` is told what happens, as in a run. Raises Missing if there is no such branch, Damaged
    if its beginning is not there, InvalidValue for what are no records.
    """
    return await _Replayer(RecordedRun(_check_records(records), branch), watch).run()


def _check_records(records: object) -> tuple[Record, ...]:
    found: tuple[Any, ...] = tuple(records) if isinstance(records, Iterable) else (records,)
    others = {type(record).__name__ for record in found if not isinstance(record, Record)}
    if others:
        kind = " or ".join(sorted(others))
        raise InvalidValue(
            f"replay: takes the records of a session, not {kind}; store.records(id)?"
        )
    return found


@final
class _Replayer:
    """Plays a tape, one run after the other."""

    def __init__(self, tape: RecordedRun, watch: OnEvent) -> None:
        self._recorded_run = tape
        self._state = ReplayState(tape)
        self._on_event = watch
        self._agent: Agent | None = None
        self._roles: tuple[str, str | None] = ("", None)
        """What the model is called in the record, and who speaks."""
        self._tools = [RecordedTool(self._state, name) for name in tape.tools if is_tool_name(name)]

    async def run(self) -> ReplayResult:
        tape, play = self._recorded_run, self._state
        while (entry := tape.next) is not None and not play.is_tampered:
            before = tape.position
            if _begins_run(entry):
                await self._run_from(entry)
            if tape.position == before and not play.is_tampered:
                if self._differs(entry):
                    break
                play.copy_next()
        return self._build_result()

    def _differs(self, entry: Entry) -> bool:
        """Tell whether a run has made something else of where the record stands."""
        if self._state.attempt is None or not _begins_run(entry):
            return False
        # What was taken out is missed in what follows: nobody can tell what would have come of it.
        return not self._redacted_ids()

    async def _run_from(self, entry: Entry) -> None:
        """Let a run begin here, and see how far it comes."""
        play, said = self._state, entry.payload
        audit = (entry.audit or {}) if isinstance(said, UserMessage) else {}
        actor, origin = audit.get("actor"), audit.get("origin")
        roles = (self._next_model(), actor if isinstance(actor, str) else None)
        # Who was killed knows nothing any more; others remember what they have read.
        if self._agent is None or play.is_over or roles != self._roles:
            self._agent, self._roles = self._new_agent(*roles), roles
        play.is_over = False
        prompt = said if isinstance(said, UserMessage) else None
        task = asyncio.ensure_future(
            self._agent.run(prompt, watch=self._handle_event, origin=origin)
        )
        play.stop = task.cancel
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:  # we are told to end, and nobody asks what came of it
            play.is_over = True
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, (LogError, InvalidValue, ReplayStopped)):
            raise error

    def _new_agent(self, model: str, actor: str | None) -> Agent:
        """Make an agent that sees what is on record, and nothing else."""
        play = self._state
        return Agent(
            RecordedProvider(play, model),
            play.conversation,
            tools=self._tools,
            gate=RecordedGate(play),
            runner=RecordedRunner(play),
            model=model,
            limits=_NO_LIMITS,
            actor=actor,
            sleep=_skip_wait,
        )

    def _next_model(self) -> str:
        """Return what the model is called in the next answer; empty if the record does not say."""
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
        """Say what was said before the next answer, while the run is under way."""
        assert self._agent is not None
        for entry in self._recorded_run.remaining():
            if not isinstance(entry.payload, UserMessage) or not is_made_by_run(entry):
                return
            if (entry.audit or {}).get("actor") != self._roles[1]:
                return
            self._agent.steer(entry.payload, SteeringPolicy.AFTER_CALLS)

    # -- what came of it -----------------------------------------------------------------------

    def _redacted_ids(self) -> tuple[str, ...]:
        entries = [
            record.entry for record in self._recorded_run.records[: self._recorded_run.position]
        ]
        return tuple([e.id for e in entries if e is not None and isinstance(e.payload, Redacted)])

    def _build_result(self) -> ReplayResult:
        tape, played = self._recorded_run, self._recorded_run.records[: self._recorded_run.position]
        payloads = [record.entry.payload for record in played if record.entry is not None]
        turns = [payload for payload in payloads if isinstance(payload, AssistantMessage)]
        difference: ReplayDifference | None = None
        if tape.record is not None and tape.next is not None:
            difference = ReplayDifference(tape.record.seq, tape.next, self._state.attempt)
        return ReplayResult(
            entries=len(played),
            made=self._state.made_count,
            turns=len(turns),
            calls=sum(len(turn.tool_calls) for turn in turns),
            digest=played[-1].digest if played else None,
            redacted=self._redacted_ids(),
            difference=difference,
        )


def _begins_run(entry: Entry) -> bool:
    """Tell whether a run could record this first; back to earlier entries only people go."""
    return is_made_by_run(entry) and not is_not_run(entry) and not isinstance(entry.payload, Rewind)


async def _skip_wait(_: float) -> None:
    """Wait for nobody: what failed then comes out right now."""


# -- differences -----------------------------------------------------------------------------


def _find_changed_fields(recorded: Entry, came: Entry) -> tuple[ChangedField, ...]:
    old, new = _encode_fields(recorded), _encode_fields(came)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return tuple(
        [ChangedField(name, _json_length(old, name), _json_length(new, name)) for name in names]
    )


def _encode_fields(entry: Entry) -> dict[str, bytes]:
    """Return the parts of an entry as JSON, those of its payload and its audit by themselves."""
    members: dict[str, Any] = msgspec.json.decode(encode_entry(entry))
    for name in ("payload", "audit"):
        inner = members.pop(name, None)
        if isinstance(inner, dict):
            members |= {f"{name}.{key}": value for key, value in inner.items()}
    return {name: msgspec.json.encode(value) for name, value in members.items()}


def _json_length(members: dict[str, bytes], name: str) -> int | None:
    found = members.get(name)
    return None if found is None else len(found.decode())


def _describe_length(length: int | None) -> str:
    return "nothing" if length is None else f"{length:,} characters"
