"""Recordings are replayed like responses of a server."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given

from steno import Assembler, AssistantMessage, StopReason
from steno.assemble import events_from_message
from steno.errors import InvalidValue, ProtocolError, StenoError, Unreachable
from steno.ports import HttpRequest, Stream
from steno.providers import HttpProvider
from steno.testing import assistant_messages
from steno.transport.replay import RecordedResponse, ReplayTransport
from tests.providers.provider_setup import REQUEST, RecordedSleep, vendor_row
from tests.transport.http_server import END, STREAM, chat_chunks, chunk, run


def playing(
    *responses: RecordedResponse | StenoError, patience: RecordedSleep | None = None
) -> HttpProvider:
    sleep = (patience or RecordedSleep()).sleep
    return HttpProvider(
        vendor_row("http://lab.example"), transport=ReplayTransport(responses), sleep=sleep
    )


def test_a_recording_is_replayed_unchanged() -> None:
    provider = playing(RecordedResponse(tuple(chat_chunks("Hel", "lo"))))
    assert run(provider.stream(REQUEST).collect()).text == "Hello"


def test_pauses_are_kept_by_the_clock_that_is_passed_in() -> None:
    patience = RecordedSleep()
    first, *rest = chat_chunks("Hello")
    recorded = RecordedResponse((0.25, first, 3.0, *rest))
    transport = ReplayTransport([recorded], sleep=patience.sleep)
    provider = HttpProvider(vendor_row("http://lab.example"), transport=transport)
    assert run(provider.stream(REQUEST).collect()).text == "Hello"
    assert patience.waited == [0.25, 3.0]


def test_errors_occur_where_they_were_recorded() -> None:
    recorded = RecordedResponse(
        (*chat_chunks("Hel", finish=None), Unreachable("lab: the connection was lost"))
    )
    stream = playing(recorded).stream(REQUEST)
    with pytest.raises(Unreachable):
        run(stream.collect())
    assert stream.message().text == "Hel"


def test_a_server_that_could_not_be_reached_is_tried_again() -> None:
    refused = Unreachable("lab: no connection", retryable=True)
    provider = playing(refused, RecordedResponse(tuple(chat_chunks("Hello"))))
    assert run(provider.stream(REQUEST).collect()).text == "Hello"


def test_without_another_recording_the_server_is_unreachable() -> None:
    with pytest.raises(Unreachable) as caught:
        run(playing().stream(REQUEST).collect())
    assert caught.value.code == "recording_exhausted"


def test_closing_ends_a_pause() -> None:
    async def main() -> None:
        transport = ReplayTransport(
            [RecordedResponse((*chat_chunks("Hel", finish=None), math.inf))]
        )
        provider = HttpProvider(vendor_row("http://lab.example"), transport=transport)
        stream: Stream = provider.stream(REQUEST)
        await anext(stream)
        reader = asyncio.create_task(stream.collect())
        await asyncio.sleep(0)
        stream.close()
        assert (await reader).stop_reason is StopReason.ABORTED
        assert transport.opened[0].is_closed
        with pytest.raises(Unreachable) as caught:
            await transport.opened[0].read()
        assert caught.value.code == "response_closed"

    run(main())


# -- recorded HTTP -------------------------------------------------------------------------------


def test_a_recorded_response_is_read_chunk_by_chunk() -> None:
    data = STREAM + chunk(b"one") + b"3;name=value\r\ntwo\r\n" + END
    recorded = RecordedResponse.from_http(data)
    assert recorded == RecordedResponse(
        (b"one", b"two"), 200, "text/event-stream", (("transfer-encoding", "chunked"),)
    )


def test_a_recorded_response_without_chunks_is_one_piece() -> None:
    recorded = RecordedResponse.from_http(b"HTTP/1.1 404 Not Found\r\nX-A: b\r\n\r\nbody")
    assert (recorded.steps, recorded.status, recorded.headers) == ((b"body",), 404, (("x-a", "b"),))


def test_a_recording_that_broke_off_breaks_off_again() -> None:
    async def main() -> None:
        transport = ReplayTransport(
            [RecordedResponse.from_http(STREAM + chunk(b"one") + b"5\r\ntw")]
        )
        response = await transport.open(HttpRequest("POST", "http://lab.example", {}))
        assert [await response.read(), await response.read()] == [b"one", b"tw"]
        with pytest.raises(Unreachable) as caught:
            await response.read()
        assert caught.value.code == "connection_lost"

    run(main())


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 OK\r\n\r\n"])
def test_data_that_is_not_an_http_response_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidValue) as caught:
        RecordedResponse.from_http(data)
    assert caught.value.code == "invalid_recording"


# -- whole responses -----------------------------------------------------------------------------


@given(assistant_messages())
def test_a_whole_response_as_events_is_the_same_message(message: AssistantMessage) -> None:
    """Equal except for details that a stream cannot express; an assembled message is unchanged."""
    once = assembled(message)
    assert assembled(once) == once
    assert (once.text or "") == (message.text or "")
    assert [call.id for call in once.tool_calls] == [call.id for call in message.tool_calls]
    assert once.usage == message.usage


def assembled(message: AssistantMessage) -> AssistantMessage:
    assembler = Assembler()
    for event in events_from_message(message):
        assembler.feed(event)
    return assembler.message()


def test_nonsense_in_a_recording_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        run(playing(RecordedResponse((b"data: {no json\n\n",))).stream(REQUEST).collect())
