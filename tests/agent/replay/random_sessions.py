"""Random sessions of all kinds: models, tools, users, crashes and limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from math import inf
from random import Random
from typing import Any, Final, Literal, final

from steno import ChatMessage, ToolCall
from steno.agent import Agent, CallbackApprover, Gate, Limits, LoopEvent, RunEnded, SteeringPolicy
from steno.agent.permissions.gate import decide_later
from steno.agent.permissions.rules import Permissions
from steno.agent.recorder import OnEvent
from steno.assemble import events_from_message
from steno.errors import CutShort, LogError, Missing, ProviderError, ToolFailed, Unavailable
from steno.log.conversation import Conversation
from steno.messages.call import InvalidToolCall
from steno.messages.message import AssistantMessage
from steno.messages.outcome import Outcome
from steno.messages.usage import StopReason, Usage
from steno.ports import ApprovalRequest, Capability, ToolContext, ToolOutput
from steno.records.entry import Entry, Feedback, Payload, PayloadT
from steno.records.stored_record import Record
from steno.store import MemoryStore
from steno.testing import ScriptedProvider, ScriptedTool
from steno.testing.doubles import ScriptedTurn

_PARAMETERS: Final = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}
_TEXTS: Final = ("Look.", "Yes.", "So it is.", "Hm.", "")


class Disconnected(Exception):
    """The callback raised this."""


@final
class CrashingJournal:
    """The place of one session in a store, until the program dies (`steno.ports.Journal`)."""

    def __init__(self, store: MemoryStore, session: str, left: float) -> None:
        self._store = store
        self._session = session
        self._left = left
        """How many entries it will write."""

    def append(self, entry: Entry, *, branch: str, digest: str, expected: str | None) -> None:
        self._left -= 1
        if self._left < 0:
            raise Unavailable("store: it is dead")
        self._store.append(self._session, entry, branch=branch, digest=digest, expected=expected)

    def extract_blobs(self, payload: Payload) -> Payload:
        return payload

    def restore_blobs(self, payload: PayloadT) -> PayloadT:
        return payload

    def begin_branch(self, name: str, at: str | None) -> None:
        self._store.begin_branch(self._session, name, at)

    def heads(self) -> Mapping[str, str | None]:
        return self._store.heads(self._session)

    def read_back(self, entry_id: str) -> Iterator[tuple[Entry, str]]:
        return self._store.read_back(self._session, entry_id)


@final
class RandomSession:
    """One session, made by chance from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.store = MemoryStore()
        self._ids = 0
        self._stop: Callable[[], object] = lambda: None
        self.id = self.store.new([ChatMessage.system("Work.")]).id

    async def make(self) -> list[Record]:
        """Make it, and return its records."""
        for _ in range(self.chance.randint(1, 5)):
            self._between(self.store.open(self.id))
            left = self._maybe(0.3, self.chance.randint(0, 14), inf)
            journal = CrashingJournal(self.store, self.id, left)
            with suppress(LogError, Disconnected, asyncio.CancelledError):
                await self._run(Conversation(id=self.id, journal=journal))
        return list(self.store.records(self.id))

    # -- people ------------------------------------------------------------------------------

    def _between(self, conversation: Conversation) -> None:
        chance, entries = self.chance, conversation.entries()
        target = chance.choice(entries).id
        if chance.random() < 0.2:
            conversation.label(target, "here")
        if chance.random() < 0.2:
            conversation.append(Feedback(target=target, text="Reconsider."))
        if chance.random() < 0.1:
            conversation.change_mode(chance.choice(["plan", "act"]))
        if chance.random() < 0.1:
            conversation.rewind(target)
        if chance.random() < 0.15:
            name = f"branch-{len(conversation.branches)}"
            conversation.fork(name, at=target)
            conversation.switch(name)
        if conversation.outstanding and chance.random() < 0.5:
            call_id = chance.choice(conversation.outstanding)
            with suppress(Missing):  # it was approved, and may have run
                decide_later(conversation, call_id, allowed=chance.random() < 0.5, actor="ada")
        if conversation.outstanding and chance.random() < 0.1:
            conversation.answer_outstanding()
        if chance.random() < 0.1:
            conversation.clear()

    async def _run(self, conversation: Conversation) -> None:
        chance = self.chance
        agent = Agent(
            ScriptedProvider(iter(self._turn, None)),
            conversation,
            tools=self._tools(),
            gate=Gate(
                Permissions.of(allow=["write"], deny=["fetch"]),
                self._maybe(0.8, CallbackApprover(self._verdict, actor="ada"), None),
            ),
            model=chance.choice(["", "lab/small", "lab/large"]),
            actor=chance.choice([None, "ada", "bob"]),
            limits=Limits(turns=chance.randint(1, 7), invalid_calls=chance.randint(1, 3)),
            sleep=_at_once,
        )
        prompt = self._maybe(0.8, "Go on.", None)
        if prompt is None and len(conversation.messages()) < 2:
            prompt = "Begin."
        task = asyncio.ensure_future(agent.run(prompt, on_event=self._watcher(agent)))
        self._stop = task.cancel
        await task

    def _watcher(self, agent: Agent) -> OnEvent:
        chance = self.chance
        acts = self._maybe(0.6, chance.randint(0, 30), -1)
        deed = chance.choice(["interrupt", "cancel", "leave", "steer", "push", "late", "label"])
        count = 0

        def watch(event: LoopEvent) -> None:
            nonlocal count
            if isinstance(event, RunEnded):
                return
            count += 1
            if count - 1 != acts:
                return
            match deed:
                case "interrupt":
                    agent.interrupt()
                case "cancel":
                    self._stop()
                case "leave":
                    raise Disconnected
                case "steer":
                    agent.steer("Wait.")
                    agent.steer("And now this.")
                case "push":
                    agent.steer("Stop that.", SteeringPolicy.INTERRUPT)
                case "late":
                    agent.steer("One more thing.", SteeringPolicy.AFTER_RUN)
                case _:
                    conversation = agent.conversation
                    conversation.label(conversation.entries()[-1].id, "there")

        return watch

    async def _verdict(self, _: ApprovalRequest) -> bool:
        draw = self.chance.random()
        if draw < 0.1:
            raise Disconnected
        if draw < 0.2:
            self._stop()
        if draw < 0.5:
            await asyncio.sleep(0)
        return draw < 0.8

    # -- models and tools --------------------------------------------------------------------

    def _turn(self) -> ScriptedTurn:
        chance, draw = self.chance, self.chance.random()
        if draw < 0.05:
            return ProviderError("no", retryable=False)
        message = self._message()
        if draw < 0.8:
            return message
        events = list(events_from_message(message))
        events = events[: chance.randint(0, len(events) - 1)]
        if draw < 0.9:
            return [*events, CutShort("cut")]
        if draw < 0.95:
            return [*events, ProviderError("broken")]
        return [*events, _Stop(self._stop)]

    def _message(self) -> AssistantMessage:
        chance = self.chance
        calls = [self._call() for _ in range(chance.choice([0, 1, 1, 2, 3, 4]))]
        text = chance.choice(_TEXTS) or None
        usage = self._maybe(0.5, Usage(input_tokens=5, output_tokens=2), None)
        stop = (
            StopReason.TOOL_USE if calls else chance.choice([StopReason.END_TURN, StopReason.PAUSE])
        )
        return ChatMessage.assistant(text, calls, stop_reason=stop, usage=usage)

    def _call(self) -> ToolCall | InvalidToolCall:
        chance = self.chance
        self._ids += 1
        id = self._maybe(0.9, f"c{self._ids}", f"c{chance.randint(1, 3)}x{self._ids % 2}")
        name = chance.choice(["read", "read", "look", "write", "run", "fetch", "nobody"])
        if chance.random() < 0.1:
            return InvalidToolCall(id=f"i{self._ids}", name=name, arguments="{", reason="no JSON")
        arguments: dict[str, Any] = {"path": "a"} if chance.random() < 0.85 else {}
        return ToolCall(id=f"{id}-{self._ids}", name=name, arguments=json.dumps(arguments))

    def _tools(self) -> list[ScriptedTool]:
        kinds = {
            "read": Capability.READ,
            "look": Capability.READ,
            "write": Capability.WRITE,
            "run": Capability.EXECUTE,
            "fetch": Capability.NETWORK,
        }
        return [
            ScriptedTool(
                name,
                iter(self._answer, None),
                capability=kind,
                parameters=_PARAMETERS,
                preview=self._maybe(0.9, "", ToolFailed("not there")),
            )
            for name, kind in kinds.items()
        ]

    def _answer(self) -> Any:
        draw = self.chance.random()
        if draw < 0.5:
            return "ok"
        if draw < 0.6:
            return ToolFailed("no such file")
        if draw < 0.65:
            return RuntimeError("a fault")
        if draw < 0.75:
            return ToolOutput.of("red", outcome=Outcome.ERROR)
        if draw < 0.85:
            return self._slowly
        return self._stopping if draw < 0.93 else self._stubborn

    async def _slowly(self, call: ToolCall, stage: ToolContext) -> str:
        for turn in range(self.chance.randint(1, 3)):
            stage.report_output(f"{call.id}: {turn}\n")
            await asyncio.sleep(0)
        return "at last"

    async def _stopping(self, _: ToolCall, stage: ToolContext) -> str:
        self._stop()
        stage.report_output("soon")
        await asyncio.sleep(0)
        return "too late"

    async def _stubborn(self, *_: object) -> str:
        self._stop()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            return "finished all the same"
        return "never stopped"

    def _maybe(self, share: float, one: Any, other: Any) -> Any:
        return one if self.chance.random() < share else other


class _Stop(asyncio.Event):
    """A place in a stream where the run is stopped."""

    def __init__(self, stop: Callable[[], object]) -> None:
        super().__init__()
        self._deed = stop

    async def wait(self) -> Literal[True]:
        self._deed()
        return await super().wait()


async def _at_once(_: float) -> None:
    pass
