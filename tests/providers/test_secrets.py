"""An API key is sent only to its server and appears in no error, log or repr."""

from __future__ import annotations

import logging
import pickle
import traceback
from typing import Any

import pytest

from steno.errors import AuthenticationFailed, InvalidValue, Overloaded, ProviderError, StenoError
from steno.ports import HttpRequest
from steno.providers import ApiKey, HttpTransport, Retries, connect
from steno.transport.replay import RecordedResponse, ReplayTransport
from tests.providers.provider_setup import KEY, REQUEST, make_provider, run_provider
from tests.transport.http_proxy import run_proxy
from tests.transport.http_server import (
    CUT,
    END,
    STREAM,
    chat_chunks,
    chunk,
    chunked_stream,
    reply,
    run,
)

ECHO = f"Incorrect API key provided: {KEY}. Look it up."


def everything_about(error: BaseException) -> str:
    """Return all that a debugger, a log or a report would show of an error."""
    shown = [*traceback.format_exception(error), repr(error), str(vars(error)), str(error.args)]
    others = [other for other in (error.__context__, error.__cause__) if other is not None]
    return "\n".join([*shown, *map(everything_about, others)])


@pytest.mark.parametrize(
    "script",
    [
        reply(401, {"error": {"message": ECHO, "type": f"t-{KEY}", "code": f"c-{KEY}"}}),
        reply(401, ECHO.encode(), "text/plain", x_request_id=f"r-{KEY}"),
        reply(200, {"error": {"message": ECHO}}),
        [STREAM, chunk(b'data: {"error": {"message": "%b"}}\n\n' % ECHO.encode()), END],
        [
            STREAM,
            *map(chunk, chat_chunks("Hel", finish=None)),
            chunk(b'data: {"error": {"message": "%b"}}\n\n' % ECHO.encode()),
        ],
    ],
    ids=["json", "text and header", "whole answer", "first event", "later event"],
)
def test_a_key_that_the_server_echoes_is_hidden_in_the_error(script: list[Any]) -> None:
    async def main() -> None:
        async with run_provider(script) as (_, provider):
            with pytest.raises(ProviderError) as caught:
                await provider.stream(REQUEST).collect()
            assert "Incorrect API key provided: ***. Look it up." in str(caught.value)
            assert KEY not in everything_about(caught.value)

    run(main())


def test_a_key_is_hidden_in_the_errors_of_model_lists_too() -> None:
    async def main() -> None:
        async with run_provider(reply(401, {"error": ECHO})) as (_, provider):
            with pytest.raises(AuthenticationFailed) as caught:
                await provider.models()
            assert KEY not in everything_about(caught.value)

    run(main())


@pytest.mark.parametrize("script", [[CUT], [STREAM, CUT], [b"nonsense\r\n\r\n"]], ids=str)
def test_errors_of_the_connection_hold_no_key(script: list[Any]) -> None:
    async def main() -> None:
        async with run_provider(script, retries=Retries(max_retries=0)) as (_, provider):
            with pytest.raises(StenoError) as caught:
                await provider.stream(REQUEST).collect()
            assert KEY not in everything_about(caught.value)

    run(main())


def test_errors_of_a_proxy_hold_neither_its_password_nor_the_key() -> None:
    async def main() -> None:
        async with run_proxy(0, refuse_with=407) as proxy:
            address = proxy.url.replace("//", "//user:s3cret-word@")
            carrier = HttpTransport(environ={}, proxy=address)
            async with make_provider("https://lab.example", transport=carrier) as provider:
                with pytest.raises(StenoError) as caught:
                    await provider.stream(REQUEST).collect()
            shown = everything_about(caught.value)
            assert KEY not in shown
            assert "s3cret-word" not in shown
            await carrier.close()

    run(main())


def test_nothing_that_is_logged_holds_a_key(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        scripts: list[Any] = [reply(503, {"error": ECHO}), [CUT], chunked_stream("a")]
        async with run_provider(*scripts) as (_, provider):
            await provider.stream(REQUEST).collect()

    with caplog.at_level(logging.DEBUG):
        run(main())
    assert "lab: Overloaded, retry in 0.5 s" in caplog.text
    assert "lab: Unreachable, retry in 1.0 s" in caplog.text
    assert KEY not in caplog.text
    assert "Incorrect" not in caplog.text


def test_no_repr_holds_a_key() -> None:
    async def main() -> None:
        async with make_provider("https://lab.example") as provider:
            stream = provider.stream(REQUEST)
            things = [
                provider,
                stream,
                ApiKey(KEY),
                *vars(provider).values(),
                *vars(stream).values(),
            ]
            shown = [repr(thing) for thing in things]
            assert KEY not in "".join([*shown, str(provider), repr(vars(provider))])

    run(main())
    outgoing = HttpRequest("POST", "https://lab.example", {"authorization": KEY}, b"{}")
    assert repr(outgoing) == "HttpRequest(POST https://lab.example, <2 bytes>)"


def test_a_key_cannot_be_pickled() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(ApiKey(KEY))


@pytest.mark.parametrize("text", ["a b", "schlüssel", "line\nbreak", "\x00"])
def test_text_that_a_header_cannot_contain_is_not_a_key(text: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        ApiKey(text)
    assert (caught.value.code, caught.value.place) == ("invalid_key", "key")


def test_blanks_around_a_key_are_not_part_of_it() -> None:
    """A key from a file often ends with a line feed."""
    assert ApiKey(f" {KEY}\n").reveal() == KEY


def test_a_very_short_key_is_not_redacted() -> None:
    error = Overloaded("an apt answer", status=503)
    ApiKey("a").redact_error(error)
    ApiKey("").redact_error(error)
    assert str(error) == "an apt answer (status 503)"


# -- the environment -----------------------------------------------------------------------------


def test_the_key_comes_from_the_variable_that_the_row_names() -> None:
    async def main() -> None:
        body = b"".join(chat_chunks("a"))
        carrier = ReplayTransport([RecordedResponse((body,)), RecordedResponse((body,))])
        environ = {"GEMINI_API_KEY": "  ", "OPENAI_API_KEY": KEY, "OTHER": "x"}
        provider = connect("openai", environ=environ, transport=carrier)
        await provider.stream(REQUEST).collect()
        given = connect("openai", key="another", environ=environ, transport=carrier)
        await given.stream(REQUEST).collect()
        assert [sent.headers["authorization"] for sent in carrier.sent] == [
            f"Bearer {KEY}",
            "Bearer another",
        ]

    run(main())


@pytest.mark.parametrize("environ", [{}, {"GEMINI_API_KEY": " "}])
def test_the_error_for_a_missing_key_names_its_variable(environ: dict[str, str]) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        connect("google", environ=environ)
    assert (caught.value.code, caught.value.place) == ("key_missing", "google")
    assert "GEMINI_API_KEY or GOOGLE_API_KEY" in caught.value.message


def test_the_first_variable_that_holds_a_key_counts() -> None:
    provider = connect("google", environ={"GEMINI_API_KEY": "", "GOOGLE_API_KEY": KEY})
    assert provider.vendor.name == "google"


def test_an_empty_key_is_no_key() -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        connect("openai", key=" ", environ={})
    assert (caught.value.code, caught.value.place) == ("key_missing", "openai")
    assert "OPENAI_API_KEY" in caught.value.message
