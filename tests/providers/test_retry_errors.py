"""Errors after several attempts name the vendor and the number of attempts."""

from __future__ import annotations

import json

import pytest

from steno import StopReason
from steno.errors import ContextOverflow, CutShort, Overloaded, ProviderError, RateLimited
from steno.providers import Retries, connect
from steno.transport.replay import RecordedResponse, ReplayTransport
from tests.providers.provider_setup import KEY, REQUEST
from tests.transport.http_server import run

BUSY = RecordedResponse(
    (b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}',),
    529,
    "application/json",
)
NO_KEY = RecordedResponse((b'{"error": {"message": "Who is it?"}}',), 401, "application/json")
AT_ONCE = Retries(max_retries=2, first_wait_s=0)


def test_an_error_after_several_attempts_names_their_number_and_the_vendor() -> None:
    transport = ReplayTransport([BUSY] * 3)
    provider = connect("anthropic", key=KEY, transport=transport, retries=AT_ONCE)
    with pytest.raises(Overloaded) as caught:
        run(provider.stream(REQUEST).collect())
    assert (caught.value.status, caught.value.provider_type) == (529, "overloaded_error")
    assert caught.value.message.endswith("3 requests to anthropic failed")


def test_an_error_names_the_vendor_and_not_the_provider_in_its_seals() -> None:
    transport = ReplayTransport([RecordedResponse(())] * 3)
    provider = connect("openai-responses", key=KEY, transport=transport, retries=AT_ONCE)
    with pytest.raises(CutShort) as caught:
        run(provider.stream(REQUEST).collect())
    assert caught.value.message.endswith("3 requests to openai-responses failed")


def test_a_request_for_the_list_of_models_is_retried() -> None:
    transport = ReplayTransport([BUSY, NO_KEY])
    provider = connect("anthropic", key=KEY, transport=transport, retries=AT_ONCE)
    with pytest.raises(ProviderError) as caught:
        run(provider.models())
    assert caught.value.message.endswith("2 requests to anthropic failed")
    assert caught.value.status == 401


def test_an_error_of_the_first_attempt_names_no_number() -> None:
    transport = ReplayTransport([NO_KEY])
    provider = connect("anthropic", key=KEY, transport=transport)
    with pytest.raises(ProviderError) as caught:
        run(provider.stream(REQUEST).collect())
    assert "requests to" not in str(caught.value)


# -- errors inside of a stream -------------------------------------------------------------------


def failing(code: str, *before: dict[str, object]) -> RecordedResponse:
    """Return a stream of Responses that fails, after some events."""
    error = {"code": code, "message": "boom"}
    failed = {"type": "response.failed", "response": {"status": "failed", "error": error}}
    lines = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in (*before, failed)]
    return RecordedResponse(tuple(lines))


@pytest.mark.parametrize(
    ("code", "cls", "tries"),
    [
        ("server_error", Overloaded, 3),
        ("rate_limit_exceeded", RateLimited, 3),
        ("context_length_exceeded", ContextOverflow, 1),
    ],
)
def test_a_response_that_fails_before_the_first_event_raises(
    code: str, cls: type[ProviderError], tries: int
) -> None:
    transport = ReplayTransport([failing(code)] * 3)
    provider = connect("openai-responses", key=KEY, transport=transport, retries=AT_ONCE)
    with pytest.raises(cls) as caught:
        run(provider.stream(REQUEST).collect())
    assert caught.value.provider_code == code
    assert len(transport.sent) == tries


def test_a_response_that_fails_after_some_text_keeps_it_and_raises() -> None:
    said = {
        "type": "response.output_text.delta",
        "item_id": "m",
        "output_index": 0,
        "content_index": 0,
        "delta": "Hel",
    }
    transport = ReplayTransport([failing("server_error", said)] * 3)
    stream = connect("openai-responses", key=KEY, transport=transport, retries=AT_ONCE).stream(
        REQUEST
    )
    with pytest.raises(Overloaded) as caught:
        run(stream.collect())
    assert caught.value.provider_code == "server_error"
    message = stream.message()
    assert (message.text, message.stop_reason) == ("Hel", StopReason.ERROR)
    assert len(transport.sent) == 1
