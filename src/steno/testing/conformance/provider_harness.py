"""How a provider takes part: somebody who can make it answer as a script says."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod

from steno.errors import ProviderError
from steno.messages.event import Finished, TextDelta, ThinkingDelta, ToolCallDelta
from steno.ports import Provider
from steno.providers import HttpProvider, Retries, Vendor
from steno.testing.conformance.scripted_server import (
    CallFragment,
    NotExpressible,
    Script,
    ScriptedServer,
    ScriptLine,
    ServerFailure,
    StalledConnection,
    TextPiece,
    ThinkingPiece,
    TurnEnd,
    WholeCall,
)
from steno.testing.doubles import ReplayingProvider, ScriptedProvider, ScriptedStep
from steno.transport.replay import RecordedResponse, ReplayStep, ReplayTransport


class ProviderHarness(ABC):
    """Sets up a provider that answers as scripts say."""

    name: str
    """What to call the provider."""

    @abstractmethod
    def provider(self, *answers: Script) -> Provider:
        """Return a provider that gives these answers, in order. Raises NotExpressible.

        `StalledConnection` is a server that says nothing more and does not hang up; a script without an
        `TurnEnd` is one that hangs up.
        """


class HttpProviderHarness(ProviderHarness):
    """The HTTP provider, with a server in place of the network."""

    def __init__(self, server: ScriptedServer) -> None:
        """Take who speaks; the wire must be one that vendors speak."""
        self._server = server
        self.name: str = f"http/{server.wire.NAME}"

    def provider(self, *answers: Script) -> Provider:
        """Return a provider that gives these answers."""
        vendor = Vendor(name="stage", wire=self._server.wire.NAME, base_url="http://127.0.0.1")
        transport = ReplayTransport([_record_script(self._server, script) for script in answers])
        return HttpProvider(vendor, transport=transport, retries=Retries(most=0))


class ReplayProviderHarness(ProviderHarness):
    """The replaying provider of `steno.testing`, for any wire."""

    def __init__(self, server: ScriptedServer) -> None:
        """Take who speaks."""
        self._server = server
        self.name: str = f"replay/{server.wire.NAME}"

    def provider(self, *answers: Script) -> Provider:
        """Return a provider that gives these answers."""
        recordings = [_record_script(self._server, script) for script in answers]
        return ReplayingProvider(self._server.wire, recordings)


class ScriptedProviderHarness(ProviderHarness):
    """The scripted provider of `steno.testing`."""

    name = "scripted"

    def provider(self, *answers: Script) -> Provider:
        """Return a provider that gives these answers."""
        return ScriptedProvider([[_scripted_step(line) for line in script] for script in answers])


def _record_script(server: ScriptedServer, script: Script) -> RecordedResponse:
    """Let a server say a script, with silence where the script has it."""
    decoded = [line for line in script if not isinstance(line, StalledConnection)]
    steps: list[ReplayStep] = list(server.frames(decoded))
    if len(decoded) < len(script):
        steps.append(math.inf)  # a script is silent at its end, if at all
    return RecordedResponse(tuple(steps))


def _scripted_step(line: ScriptLine) -> ScriptedStep:
    match line:
        case TextPiece():
            return TextDelta(0, line.text)
        case ThinkingPiece():
            return ThinkingDelta(1, line.text)
        case CallFragment():
            return ToolCallDelta(line.index, line.id, line.name, line.arguments)
        case WholeCall():
            return ToolCallDelta(None, line.id, line.name, line.arguments)
        case TurnEnd():
            return Finished(line.reason, line.raw, line.usage)
        case ServerFailure():
            return ProviderError(line.message, status=200)
        case StalledConnection():
            return asyncio.Event()
        case _:
            raise NotExpressible(line)
