"""Errors of providers: every shape, and whether a retry can help."""

from __future__ import annotations

import pickle

import pytest

from steno import ProviderError, StenoError
from steno.errors import (
    AuthenticationFailed,
    ContextOverflow,
    NotFound,
    Overloaded,
    RateLimited,
)
from steno.wire.errors import decode_error


@pytest.mark.parametrize(
    ("body", "message", "type", "code"),
    [
        (
            '{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"c"}}',
            *("no", "invalid_request_error", "c"),
        ),
        (
            '{"error":{"message":"no","type":"BadRequestError","code":400}}',
            "no",
            "BadRequestError",
            "400",
        ),
        (
            '{"object":"error","message":"no","type":"BadRequestError","code":400}',
            "no",
            "BadRequestError",
            "400",
        ),
        (
            '{"type":"error","error":{"type":"overloaded_error","message":"no"},"request_id":"r1"}',
            *("no", "overloaded_error", None),
        ),
        ('{"error":"no"}', "no", None, None),
        (
            '{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}',
            "no",
            "INVALID_ARGUMENT",
            "400",
        ),
        (
            '[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}]',
            "no",
            "INVALID_ARGUMENT",
            "400",
        ),
        ('{"detail":"no"}', "no", None, None),
        ('{"message":"no"}', "no", None, None),
        ("<html>Bad\n\tGateway</html>", "<html>Bad Gateway</html>", None, None),
        ("", "the provider reported an error without a message", None, None),
    ],
)
def test_every_shape_of_a_body_is_read(
    body: str, message: str, type: str | None, code: str | None
) -> None:
    error = decode_error(400, body)
    assert (error.message, error.provider_type, error.provider_code) == (message, type, code)


@pytest.mark.parametrize(
    ("status", "body", "cls", "retryable"),
    [
        (400, '{"error":{"message":"no"}}', ProviderError, False),
        (401, "", AuthenticationFailed, False),
        (403, "", AuthenticationFailed, False),
        (404, "", NotFound, False),
        (408, "", ProviderError, True),
        (429, "", RateLimited, True),
        (429, '{"error":{"message":"pay","code":"insufficient_quota"}}', RateLimited, False),
        (500, "", Overloaded, True),
        (501, "", Overloaded, False),
        (503, "", Overloaded, True),
        (529, "", Overloaded, True),
        (
            400,
            '{"error":{"message":"too long","code":"context_length_exceeded"}}',
            ContextOverflow,
            False,
        ),
        (400, '{"error":{"message":"prompt is too long: 9 tokens > 8"}}', ContextOverflow, False),
        (
            400,
            '{"error":{"message":"x","type":"exceed_context_size_error"}}',
            ContextOverflow,
            False,
        ),
        (
            200,
            '{"type":"error","error":{"type":"overloaded_error","message":"x"}}',
            Overloaded,
            True,
        ),
        (200, '{"error":{"message":"x","type":"invalid_request_error"}}', ProviderError, False),
    ],
)
def test_an_error_has_a_type_and_states_whether_to_retry(
    status: int, body: str, cls: type, retryable: bool
) -> None:
    error = decode_error(status, body)
    assert type(error) is cls
    assert error.retryable is retryable
    assert error.status == status


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        (
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            30.0,
        ),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({}, None),
    ],
)
def test_a_provider_may_say_how_long_to_wait(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert decode_error(429, "", headers).retry_after_s == seconds


def test_the_id_of_the_request_is_found_in_body_and_headers() -> None:
    assert decode_error(400, '{"request_id":"r1","error":"x"}').request_id == "r1"
    assert decode_error(400, "", {"X-Request-Id": "r2"}).request_id == "r2"
    assert "r2" in str(decode_error(400, "", {"X-Request-Id": "r2"}))


def test_an_error_survives_a_pickle() -> None:
    error = decode_error(429, '{"error":{"message":"slow down","code":"c"}}', {"retry-after": "3"})
    back = pickle.loads(pickle.dumps(error))
    assert isinstance(back, RateLimited)
    assert isinstance(back, StenoError)
    assert (str(back), back.retry_after_s, back.provider_code, back.code) == (
        str(error),
        3.0,
        "c",
        "rate_limited",
    )


def test_an_error_message_is_one_line_of_limited_length() -> None:
    error = decode_error(500, "\x1b[31m" + "x" * 10_000)
    assert len(error.message) < 2_100
    assert "\x1b" not in error.message


def test_google_sends_the_delay_in_the_details() -> None:
    info = '{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}'
    error = decode_error(429, f'{{"error": {{"code": 429, "message": "x", "details": [{info}]}}}}')
    assert (error.retry_after_s, error.retryable) == (34.0, True)
