"""A tool for tests that does what a script says.

    weather = ScriptedTool("weather", ["Sunny.", ToolFailed("no such town")])
    await Agent(provider, conversation, tools=[weather]).run("What about Oslo?")
    assert weather.calls[0].get("town", str) == "Oslo"

Nothing here sleeps or looks at a clock. A script waits where it holds an `asyncio.Event`, until
the test sets it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, TypeAlias, cast, final

from steno.call import ToolCall
from steno.ports import Capability, Stage, ToolOutput
from steno.testing.providers import ScriptRanOut
from steno.tool import ToolDefinition

ScriptedAnswer: TypeAlias = (
    str
    | ToolOutput
    | BaseException
    | Sequence["asyncio.Event | ScriptedAnswer"]
    | Callable[[ToolCall, Stage], "ScriptedAnswer | Awaitable[ScriptedAnswer]"]
)
"""What comes of one call: text, an output, something that is raised, events to wait for and then
one of these, or a function, plain or async, that returns one."""

_ANYTHING: Final = {"type": "object", "additionalProperties": True}


@final
class ScriptedTool:
    """Answers calls with the answers of a script, in order, and remembers the calls.

    Without answers every call is answered with `ok`; a list of answers has to last. What a call
    is about (`subjects`) and what is shown of it (`preview`) is always the same, or what a
    function makes of the call; an exception is raised. Any arguments fit, unless `parameters`
    say otherwise.
    """

    def __init__(
        self,
        name: str,
        answers: Iterable[ScriptedAnswer] | None = None,
        *,
        capability: Capability = Capability.READ,
        subjects: Sequence[str] | Callable[[ToolCall], tuple[str, ...]] | Exception = (),
        preview: str | Callable[[ToolCall], str] | Exception = "",
        parameters: Mapping[str, Any] = _ANYTHING,
        description: str = "Does what a test says.",
    ) -> None:
        """Take the script. An iterator is asked for the next answer when it is needed."""
        if isinstance(answers, str):
            raise TypeError("answers must be a list of answers, not one text")
        self.definition: Final = ToolDefinition(
            name=name, description=description, parameters=parameters, strict=False
        )
        self.capability: Final = capability
        self.ruled_as: Final[tuple[str, ...]] = ()
        self._answers = iter(repeat("ok") if answers is None else answers)
        self._subjects = subjects
        self._preview = preview
        self.calls: Final[list[ToolCall]] = []
        """Every call that was begun."""
        self.ended: Final[list[ToolCall]] = []
        """Those that came to their end, with an output or an exception of the script."""
        self.stopped: Final[list[ToolCall]] = []
        """Those that were cancelled while they waited."""
        self.begun: Final = asyncio.Event()
        """Set as soon as a call begins."""

    def subjects(self, call: ToolCall) -> tuple[str, ...]:
        """Return what the script says a call is about."""
        if isinstance(self._subjects, Exception):
            raise self._subjects
        return self._subjects(call) if callable(self._subjects) else tuple(self._subjects)

    async def preview(self, call: ToolCall) -> str:
        """Return what the script shows of a call."""
        if isinstance(self._preview, Exception):
            raise self._preview
        return self._preview(call) if callable(self._preview) else self._preview

    async def run(self, call: ToolCall, stage: Stage) -> ToolOutput:
        """Do what the script says.

        Raises ScriptRanOut if there is no answer left, which ends the run of an agent as well.
        """
        self.calls.append(call)
        self.begun.set()
        try:
            output = await self._play(self._next(), call, stage)
        except asyncio.CancelledError:
            self.stopped.append(call)
            raise
        except BaseException:
            self.ended.append(call)
            raise
        self.ended.append(call)
        return output

    def _next(self) -> ScriptedAnswer:
        answer = next(self._answers, None)
        if answer is None:
            name, number = self.definition.name, len(self.calls)
            raise ScriptRanOut(f"script: {name} has no answer for call {number}")
        return answer

    async def _play(self, answer: Any, call: ToolCall, stage: Stage) -> ToolOutput:
        while True:
            if callable(answer):
                answer = answer(call, stage)
            elif inspect.isawaitable(answer):
                answer = await answer
            elif isinstance(answer, BaseException):
                raise answer
            elif isinstance(answer, str):
                return ToolOutput.of(answer)
            elif isinstance(answer, (list, tuple)):
                *steps, answer = answer
                for step in steps:
                    await step.wait()
            else:
                return cast("ToolOutput", answer)  # a test may want something else to come back
