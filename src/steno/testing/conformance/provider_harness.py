"""Harnesses that set up a provider to stream the responses of scripts."""

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
    """Sets up a provider that streams the responses of scripts."""

    name: str
    """The name of the provider in the matrix."""

    @abstractmethod
    def provider(self, *scripts: Script) -> Provider:
        """Return a provider that streams these scripts, in order. Raises NotExpressible.

        `StalledConnection` is a server that sends nothing more and keeps the connection open; a
        script without a `TurnEnd` is one that closes it.
        """


class HttpProviderHarness(ProviderHarness):
    """The HTTP provider, with a server in place of the network."""

    def __init__(self, server: ScriptedServer) -> None:
        """Take the server; a vendor must be able to use its wire."""
        self._server = server
        self.name: str = f"http/{server.wire.NAME}"

    def provider(self, *scripts: Script) -> Provider:
        """Return a provider that streams these scripts."""
        vendor = Vendor(name="stage", wire=self._server.wire.NAME, base_url="http://127.0.0.1")
        transport = ReplayTransport([_record_script(self._server, script) for script in scripts])
        return HttpProvider(vendor, transport=transport, retries=Retries(max_retries=0))


class ReplayProviderHarness(ProviderHarness):
    """The replaying provider of `steno.testing`, for any wire."""

    def __init__(self, server: ScriptedServer) -> None:
        """Take the server."""
        self._server = server
        self.name: str = f"replay/{server.wire.NAME}"

    def provider(self, *scripts: Script) -> Provider:
        """Return a provider that streams these scripts."""
        recordings = [_record_script(self._server, script) for script in scripts]
        return ReplayingProvider(self._server.wire, recordings)


class ScriptedProviderHarness(ProviderHarness):
    """The scripted provider of `steno.testing`."""

    name = "scripted"

    def provider(self, *scripts: Script) -> Provider:
        """Return a provider that streams these scripts."""
        return ScriptedProvider([[_scripted_step(line) for line in script] for script in scripts])


def _record_script(server: ScriptedServer, script: Script) -> RecordedResponse:
    """Record the bytes of a script, with an endless wait for a stalled connection."""
    sent = [line for line in script if not isinstance(line, StalledConnection)]
    steps: list[ReplayStep] = list(server.frames(sent))
    if len(sent) < len(script):
        steps.append(math.inf)  # a script stalls at its end, if at all
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
