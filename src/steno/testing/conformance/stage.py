"""How a provider takes part: somebody who can make it answer as a script says."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod

from steno.errors import ProviderError
from steno.event import Finished, TextDelta, ThinkingDelta, ToolCallDelta
from steno.ports import Provider
from steno.providers import HttpProvider, Retries, Vendor
from steno.testing.conformance.script import (
    CallPart,
    End,
    Fail,
    Line,
    Say,
    Script,
    Silence,
    Think,
    WholeCall,
)
from steno.testing.conformance.speaker import CannotSay, Speaker
from steno.testing.providers import ReplayingProvider, ScriptedProvider, ScriptedStep
from steno.transport.replay import Recorded, ReplayTransport, Step


class Stage(ABC):
    """Sets up a provider that answers as scripts say."""

    name: str
    """What to call the provider."""

    @abstractmethod
    def provider(self, *answers: Script) -> Provider:
        """Return a provider that gives these answers, in order. Raises CannotSay.

        `Silence` is a server that says nothing more and does not hang up; a script without an
        `End` is one that hangs up.
        """


class HttpStage(Stage):
    """The HTTP provider, with a speaker in place of the network."""

    def __init__(self, speaker: Speaker) -> None:
        """Take who speaks; the wire must be one that vendors speak."""
        self._speaker = speaker
        self.name = f"http/{speaker.wire.NAME}"

    def provider(self, *answers: Script) -> Provider:
        """Return a provider that gives these answers."""
        vendor = Vendor(name="stage", wire=self._speaker.wire.NAME, base_url="http://127.0.0.1")
        transport = ReplayTransport([_recorded(self._speaker, script) for script in answers])
        return HttpProvider(vendor, transport=transport, retries=Retries(most=0))


class ReplayStage(Stage):
    """The replaying provider of `steno.testing`, for any wire."""

    def __init__(self, speaker: Speaker) -> None:
        """Take who speaks."""
        self._speaker = speaker
        self.name = f"replay/{speaker.wire.NAME}"

    def provider(self, *answers: Script) -> Provider:
        """Return a provider that gives these answers."""
        recordings = [_recorded(self._speaker, script) for script in answers]
        return ReplayingProvider(self._speaker.wire, recordings)


class ScriptedStage(Stage):
    """The scripted provider of `steno.testing`."""

    name = "scripted"

    def provider(self, *answers: Script) -> Provider:
        """Return a provider that gives these answers."""
        return ScriptedProvider([[_step(line) for line in script] for script in answers])


def _recorded(speaker: Speaker, script: Script) -> Recorded:
    """Let a speaker say a script, with silence where the script has it."""
    heard = [line for line in script if not isinstance(line, Silence)]
    steps: list[Step] = list(speaker.frames(heard))
    if len(heard) < len(script):
        steps.append(math.inf)  # a script is silent at its end, if at all
    return Recorded(tuple(steps))


def _step(line: Line) -> ScriptedStep:
    match line:
        case Say():
            return TextDelta(0, line.text)
        case Think():
            return ThinkingDelta(1, line.text)
        case CallPart():
            return ToolCallDelta(line.index, line.id, line.name, line.arguments)
        case WholeCall():
            return ToolCallDelta(None, line.id, line.name, line.arguments)
        case End():
            return Finished(line.reason, line.raw, line.usage)
        case Fail():
            return ProviderError(line.message, status=200)
        case Silence():
            return asyncio.Event()
        case _:
            raise CannotSay(line)
