"""Our classes implement the ports; the type checkers check this file."""

from __future__ import annotations

from steno.ports import HttpResponse, Provider, Stream, Transport
from steno.providers import HttpProvider, HttpStream, Source, SourceStream, connect
from steno.providers.exchange import HttpExchange
from steno.transport.http import AiohttpResponse, HttpTransport
from steno.transport.replay import ReplayedResponse, ReplayTransport
from tests.providers.provider_setup import REQUEST


def providers(http: HttpProvider) -> tuple[Provider, ...]:
    return (http,)


def streams(http: HttpStream, driven: SourceStream) -> tuple[Stream, ...]:
    return http, driven


def sources(exchange: HttpExchange) -> tuple[Source, ...]:
    return (exchange,)


def transports(http: HttpTransport, replay: ReplayTransport) -> tuple[Transport, ...]:
    return http, replay


def answers(http: AiohttpResponse, replay: ReplayedResponse) -> tuple[HttpResponse, ...]:
    return http, replay


def test_a_provider_is_used_through_its_port() -> None:
    provider: Provider = connect("vllm", transport=ReplayTransport(()))
    stream: Stream = provider.stream(REQUEST)
    stream.close()
