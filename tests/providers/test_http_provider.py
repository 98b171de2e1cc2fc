"""The HTTP provider sends requests, retries before the first event, and closes connections at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain, repeat
from typing import Any

import pytest

from steno import (
    ChatMessage,
    Event,
    Finished,
    Request,
    StopReason,
    TextDelta,
    ToolCall,
    ToolCallEnd,
    ToolDefinition,
    ToolResult,
    Usage,
)
from steno.errors import (
    AuthenticationFailed,
    ContextOverflow,
    CutShort,
    InvalidValue,
    NotFound,
    Overloaded,
    ProtocolError,
    ProviderError,
    RateLimited,
    StenoError,
    Unreachable,
)
from steno.ports import HttpRequest
from steno.providers import Auth, HttpProvider, HttpStream, Retries, TimeLimits, connect
from steno.transport.replay import RecordedResponse, ReplayTransport
from tests.providers.provider_setup import (
    KEY,
    REQUEST,
    RecordedSleep,
    make_provider,
    run_provider,
    vendor_row,
)
from tests.transport.http_server import (
    CUT,
    END,
    HANG_UP,
    STALL,
    STREAM,
    Script,
    chat_chunks,
    chunk,
    chunked_stream,
    reply,
    response_head,
    run,
    run_server,
)

LOOK = ToolDefinition(name="look", description="Look.", parameters={"type": "object"})


def busy(status: int = 503, **headers: str) -> list[bytes]:
    return reply(status, {"error": {"message": "busy"}}, **headers)


# -- requests ------------------------------------------------------------------------------------


@pytest.mark.requirement("S4-03", "S4-06", "S1-06")
def test_a_request_is_sent_in_the_format_of_the_vendor_and_returns_events() -> None:
    async def main() -> None:
        request = Request(
            messages=(ChatMessage.system("Be brief."), ChatMessage.user("Speak.")),
            model="m",
            tools=(LOOK,),
            max_tokens=7,
            temperature=0.5,
        )
        async with (
            run_server(chunked_stream("Hel", "lo")) as server,
            make_provider(server.url + "/v1") as provider,
        ):
            async with provider.stream(request) as stream:
                events = [event async for event in stream]
            assert events[:2] == [TextDelta(0, "Hel"), TextDelta(0, "lo")]
            assert isinstance(events[2], Finished)
            assert stream.message().text == "Hello"
        seen = server.seen[0]
        assert (seen.method, seen.path) == ("POST", "/v1/chat/completions")
        assert seen.headers["authorization"] == f"Bearer {KEY}"
        assert seen.headers["content-type"] == "application/json"
        assert seen.json["stream"] is True
        assert (seen.json["max_tokens"], seen.json["temperature"]) == (7, 0.5)
        assert [m["role"] for m in seen.json["messages"]] == ["system", "user"]
        assert seen.json["tools"][0]["function"]["name"] == "look"

    run(main())


@pytest.mark.requirement("S4-06")
def test_settings_that_a_request_does_not_set_are_not_sent() -> None:
    async def main() -> None:
        async with run_server(chunked_stream("a"), chunked_stream("b")) as server:
            open_request = Request(messages=(ChatMessage.user("Speak."),))
            async with make_provider(server.url) as provider:
                await provider.stream(open_request).collect()
            async with make_provider(server.url, model="mine") as provider:
                await provider.stream(open_request).collect()
        assert server.seen[0].json.keys() == {"stream", "stream_options", "messages"}
        assert server.seen[1].json["model"] == "mine"

    run(main())


def test_nothing_is_sent_before_the_first_event_is_read() -> None:
    async def main() -> None:
        async with (
            run_provider(chunked_stream("a")) as (server, provider),
            provider.stream(REQUEST),
        ):
            pass
        assert server.connections == 0

    run(main())


@pytest.mark.parametrize(
    ("auth", "header"),
    [
        (Auth.BEARER, ("authorization", f"Bearer {KEY}")),
        (Auth.X_API_KEY, ("x-api-key", KEY)),
        (Auth.X_GOOG_API_KEY, ("x-goog-api-key", KEY)),
        (Auth.API_KEY, ("api-key", KEY)),
        (Auth.NONE, None),
    ],
)
def test_the_key_is_sent_in_the_header_of_the_vendor(
    auth: Auth, header: tuple[str, str] | None
) -> None:
    async def main() -> None:
        async with run_server(chunked_stream("a")) as server:
            rows: dict[str, Any] = {"auth": auth, "headers": (("x-team", "lab"),)}
            async with make_provider(server.url, **rows) as provider:
                await provider.stream(REQUEST).collect()
        carrying = [item for item in server.seen[0].headers.items() if KEY in item[1]]
        assert carrying == ([header] if header else [])
        assert server.seen[0].headers["x-team"] == "lab"

    run(main())


def test_a_server_on_loopback_needs_no_key() -> None:
    async def main() -> None:
        async with run_provider(chunked_stream("a"), key="") as (server, provider):
            await provider.stream(REQUEST).collect()
        assert "authorization" not in server.seen[0].headers

    run(main())


def test_the_body_of_the_next_turn_begins_with_the_bytes_of_the_last() -> None:
    async def main() -> None:
        first = Request(model="m", messages=(ChatMessage.system("S"), ChatMessage.user("U")))
        async with run_provider(chunked_stream("a"), chunked_stream("x"), chunked_stream("b")) as (
            server,
            provider,
        ):
            answer = await provider.stream(first).collect()
            await provider.stream(REQUEST).collect()  # another conversation in between
            more = (*first.messages, answer, ChatMessage.user("And?"))
            await provider.stream(Request(model="m", messages=more)).collect()
        bodies = [seen.body for seen in server.seen]
        assert bodies[2].startswith(bodies[0].removesuffix(b"]}"))

    run(main())


def test_losses_are_reported() -> None:
    async def main() -> None:
        failed = ToolResult.error("c1", "no such file")
        calls = ChatMessage.assistant(None, [ToolCall.create("look", id="c1")])
        request = Request(model="m", messages=(ChatMessage.user("U"), calls, failed))
        async with run_provider(chunked_stream("a")) as (_, provider):
            stream = provider.stream(request)
            assert [loss.code for loss in stream.losses] == ["outcome"]
            await stream.collect()

    run(main())


def test_the_envelope_of_a_response_is_kept() -> None:
    async def main() -> None:
        event = {"id": "c-1", "model": "m-2", "choices": [{"delta": {}, "finish_reason": "stop"}]}
        body = f"data: {json.dumps(event)}\n\n".encode()
        async with run_provider([STREAM, chunk(body), END]) as (_, provider):
            stream = provider.stream(REQUEST)
            assert stream.envelope == {}
            await stream.collect()
            assert stream.envelope["id"] == "c-1"
            assert stream.envelope["model"] == "m-2"

    run(main())


# -- odd responses -------------------------------------------------------------------------------


def test_events_in_pieces_of_one_byte_are_the_same_events() -> None:
    async def main() -> None:
        whole = b"".join(chat_chunks("Hel", "lo"))
        bytewise = [STREAM, *(chunk(whole[n : n + 1]) for n in range(len(whole))), END]
        async with run_provider(chunked_stream("Hel", "lo"), bytewise) as (_, provider):
            first = [event async for event in provider.stream(REQUEST)]
            assert [event async for event in provider.stream(REQUEST)] == first

    run(main())


WHOLE: dict[str, Any] = {
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "Looking.",
                "tool_calls": [
                    {"id": "c1", "function": {"name": "look", "arguments": '{"at": "x"}'}}
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4},
}


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "application/json"])
def test_a_response_that_is_not_a_stream_is_read(content_type: str) -> None:
    async def main() -> None:
        async with run_provider(reply(200, WHOLE, content_type)) as (_, provider):
            stream = provider.stream(REQUEST)
            events: list[Event] = [event async for event in stream]
        assert events[0] == TextDelta(0, "Looking.")
        ends = [event for event in events if isinstance(event, ToolCallEnd)]
        assert [end.id for end in ends] == ["c1"]
        assert isinstance(events[-1], Finished)
        message = stream.message()
        assert message.text == "Looking."
        assert message.tool_calls[0].arguments == '{"at": "x"}'
        assert message.stop_reason is StopReason.TOOL_USE
        assert message.usage is not None
        assert message.usage.output_tokens == 4

    run(main())


def test_a_stream_under_the_name_of_json_is_read_as_a_stream() -> None:
    async def main() -> None:
        body = b"".join(chat_chunks("Hello"))
        async with run_provider(reply(200, body)) as (_, provider):
            assert (await provider.stream(REQUEST).collect()).text == "Hello"

    run(main())


def test_an_error_with_status_200_is_an_error() -> None:
    async def main() -> None:
        body = {"error": {"message": "bad", "type": "invalid_request_error"}}
        async with run_provider(reply(200, body)) as (_, provider):
            with pytest.raises(ProviderError, match="bad"):
                await provider.stream(REQUEST).collect()

    run(main())


@pytest.mark.requirement("S4-03")
def test_a_response_is_complete_even_if_the_connection_stays_open() -> None:
    async def main() -> None:
        script: Script = [STREAM, *map(chunk, chat_chunks("Hello")), STALL]
        async with run_provider(script) as (server, provider):
            message = await provider.stream(REQUEST).collect()
            assert (message.text, message.stop_reason) == ("Hello", StopReason.END_TURN)
            await server.hung_up.wait()

    run(main())


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, {"error": {"message": "no", "type": "invalid_request_error"}}, ProviderError),
        (400, {"error": {"message": "x", "code": "context_length_exceeded"}}, ContextOverflow),
        (401, {"error": {"message": "no"}}, AuthenticationFailed),
        (403, b"<html>Forbidden</html>", AuthenticationFailed),
        (404, {"error": "model not found"}, NotFound),
        (501, b"", Overloaded),
    ],
)
def test_permanent_errors_are_raised_at_once(
    status: int, body: object, error: type[ProviderError]
) -> None:
    async def main() -> None:
        patience = RecordedSleep()
        async with run_provider(reply(status, body, x_request_id="r-1"), patience=patience) as (
            server,
            provider,
        ):
            stream = provider.stream(REQUEST)
            with pytest.raises(error) as caught:
                await stream.collect()
        assert caught.value.status == status
        assert caught.value.request_id == "r-1"
        assert stream.message().stop_reason is StopReason.ERROR
        assert patience.waited == []
        assert len(server.seen) == 1

    run(main())


def test_a_redirect_is_an_error_and_the_key_is_not_sent_elsewhere() -> None:
    async def main() -> None:
        async with run_server() as other:
            place = f"{other.url}/login?token=s3cret"
            script: Script = [response_head(307, location=place, content_length="0")]
            async with run_provider(script) as (server, provider):
                with pytest.raises(ProviderError) as caught:
                    await provider.stream(REQUEST).collect()
            assert (caught.value.code, caught.value.status) == ("redirected", 307)
            assert caught.value.place == f"{server.url}/chat/completions"
            assert f"{other.url}/login;" in caught.value.message
            assert "s3cret" not in str(caught.value)
            assert other.seen == []

    run(main())


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("http://lab.example/v1", "http://lab.example/v1, which would send the key unencrypted;"),
        ("/login?next=x", "https://lab.example/login;"),
        ("https://user:word@other.example/", "https://other.example/;"),
        ("", "the server redirects;"),
        ("https://[", "the server redirects;"),
    ],
)
def test_the_error_for_a_redirect_names_its_target_without_secrets(
    location: str, target: str
) -> None:
    headers = (("location", location),)
    transport = ReplayTransport([RecordedResponse((), 302, "text/html", headers)])
    provider = connect("vllm", base_url="https://lab.example/v1", transport=transport)
    with pytest.raises(ProviderError) as caught:
        run(provider.stream(REQUEST).collect())
    assert (caught.value.code, caught.value.status) == ("redirected", 302)
    assert target in caught.value.message
    assert "word" not in str(caught.value)
    assert len(transport.sent) == 1


# -- responses of other servers ------------------------------------------------------------------

PAGE = b"<!DOCTYPE html><html><body>Please log in.</body></html>"


@pytest.mark.parametrize(
    ("body", "content_type", "shown"),
    [
        (PAGE, "text/html; charset=utf-8", "text/html"),
        (b"\xef\xbb\xbf\n" + PAGE, "text/event-stream", "text/event-stream"),
        (PAGE, "", "no content type"),
        (b"It works!\n", "text/plain", "text/plain"),
        (b"<p>Log in.</p>\n", "text/html", "text/html"),
        (b'{"status": "ok"}', "application/json", "application/json"),
        (b"null", "application/json", "application/json"),
        (PAGE, "<script>", "no content type"),
    ],
)
@pytest.mark.parametrize("vendor", ["openai", "anthropic", "google", "ollama"])
def test_a_page_instead_of_a_stream_is_a_protocol_error_with_its_address(
    vendor: str, body: bytes, content_type: str, shown: str
) -> None:
    recorded = RecordedResponse((body,), 200, content_type)
    transport = ReplayTransport([recorded] * 3)
    provider = connect(vendor, key=KEY, base_url="http://lab.example/v1", transport=transport)
    with pytest.raises(ProtocolError) as caught:
        run(provider.stream(REQUEST).collect())
    assert caught.value.place.startswith("http://lab.example/v1/")
    assert not isinstance(caught.value, CutShort)
    assert caught.value.code == "wrong_protocol"
    assert f"({shown})" in caught.value.message
    assert str(provider.vendor.wire) in caught.value.message
    assert "?" not in str(caught.value)
    assert len(transport.sent) == 1


def test_an_event_stream_under_the_name_of_a_page_is_read() -> None:
    """Some servers never set a content type."""

    async def main() -> None:
        async with run_provider(reply(200, b"".join(chat_chunks("Hello")), "text/html")) as (
            _,
            provider,
        ):
            assert (await provider.stream(REQUEST).collect()).text == "Hello"

    run(main())


# -- errors with advice --------------------------------------------------------------------------


def test_the_error_for_not_found_names_the_address() -> None:
    async def main() -> None:
        page = b"<html><head><title>404 &amp; gone</title></head><body>...</body></html>"
        answers = [RecordedResponse((page,), 404, "text/html")] * 2
        provider = connect("google", key=KEY, transport=ReplayTransport(answers))
        with pytest.raises(NotFound) as caught:
            await provider.stream(REQUEST).collect()
        address = "https://generativelanguage.googleapis.com/v1beta/models"
        assert caught.value.message.startswith("404 & gone; ")
        assert f" {address}/m:streamGenerateContent;" in caught.value.message
        with pytest.raises(NotFound) as caught:
            await provider.models()
        assert f" {address};" in caught.value.message

    run(main())


def test_the_text_of_an_error_is_one_line() -> None:
    async def main() -> None:
        body = {"message": "a\nb", "type": "c\x1b[31md", "code": "e\r\nf"}
        async with run_provider(reply(400, {"error": body, "request_id": "g\nh"})) as (
            _,
            provider,
        ):
            with pytest.raises(ProviderError) as caught:
                await provider.stream(REQUEST).collect()
        raised = caught.value
        assert (raised.message, raised.status, raised.request_id) == ("a b", 400, "g h")
        assert (raised.provider_type, raised.provider_code) == ("c [31md", "e f")
        assert "\n" not in str(raised)

    run(main())


def test_the_error_for_a_method_not_allowed_names_the_address() -> None:
    """Web sites that use the path for something else respond with 405."""

    async def main() -> None:
        async with run_provider(reply(405, b"No.")) as (server, provider):
            with pytest.raises(ProviderError) as caught:
                await provider.stream(REQUEST).collect()
        assert f" {server.url}/chat/completions;" in caught.value.message

    run(main())


@pytest.mark.parametrize(
    ("vendor", "key", "said"),
    [
        ("google", KEY, "check the key: set GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("vllm", None, "no key was sent: set VLLM_API_KEY"),
        ("lmstudio", None, "no key was sent: pass it as key=..."),
    ],
)
def test_the_error_for_a_refused_key_names_its_variable(
    vendor: str, key: str | None, said: str
) -> None:
    body = json.dumps({"error": {"message": f"Wrong: {KEY}"}}).encode()
    transport = ReplayTransport([RecordedResponse((body,), 401, "application/json")])
    provider = connect(vendor, key=key, environ={}, transport=transport)
    with pytest.raises(AuthenticationFailed) as caught:
        run(provider.stream(REQUEST).collect())
    assert caught.value.message.endswith(f"; {said}")
    assert key is None or key not in str(caught.value)


def test_an_error_with_a_truncated_body_is_still_that_error() -> None:
    async def main() -> None:
        script: Script = [response_head(401, content_length="500"), b"wrong k", HANG_UP]
        async with run_provider(script) as (_, provider):
            with pytest.raises(AuthenticationFailed) as caught:
                await provider.stream(REQUEST).collect()
            assert caught.value.message.startswith("wrong k")

    run(main())


# -- retries -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        *(busy(429), busy(500), busy(503), busy(529)),
        *([CUT], [HANG_UP], [STREAM, CUT], [STREAM, END]),
        [STREAM, chunk(b": keep-alive\n\n"), CUT],
        [STREAM, chunk(b'data: {"error": {"message": "x", "type": "overloaded_error"}}\n\n'), END],
    ],
    ids=[
        *("429", "500", "503", "529"),
        *("reset", "closed", "no body", "empty body", "only a comment", "error as first event"),
    ],
)
def test_failures_before_the_first_event_are_retried(failure: Script) -> None:
    async def main() -> None:
        patience = RecordedSleep()
        async with run_provider(failure, failure, chunked_stream("Hello"), patience=patience) as (
            server,
            provider,
        ):
            assert (await provider.stream(REQUEST).collect()).text == "Hello"
        assert patience.waited == [0.5, 1.0]
        assert len({seen.body for seen in server.seen}) == 1

    run(main())


def test_the_error_is_raised_after_the_last_retry() -> None:
    async def main() -> None:
        async with run_provider(busy(), busy(), busy(), chunked_stream("late")) as (
            server,
            provider,
        ):
            with pytest.raises(Overloaded):
                await provider.stream(REQUEST).collect()
        assert len(server.seen) == 3

    run(main())


def test_the_wait_between_retries_has_a_maximum() -> None:
    assert Retries(max_retries=10_000).wait_s(CutShort("x"), tried=5_000, jitter=0) == 8


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_not_active"])
def test_an_error_for_no_credit_is_not_retried(code: str) -> None:
    async def main() -> None:
        body = {"error": {"message": "Pay first.", "type": code, "code": code}}
        async with run_provider(reply(429, body)) as (server, provider):
            with pytest.raises(RateLimited):
                await provider.stream(REQUEST).collect()
        assert len(server.seen) == 1

    run(main())


def test_the_caller_sets_the_number_of_retries() -> None:
    async def main() -> None:
        patience = RecordedSleep()
        async with run_server(*[busy()] * 7) as server:
            retries = Retries(max_retries=6)
            async with make_provider(server.url, patience=patience, retries=retries) as provider:
                with pytest.raises(Overloaded):
                    await provider.stream(REQUEST).collect()
            async with make_provider(server.url, retries=Retries(max_retries=0)) as provider:
                with pytest.raises(Overloaded):
                    await provider.stream(REQUEST).collect()
        assert patience.waited == [0.5, 1, 2, 4, 8, 8]
        assert len(server.seen) == 8

    run(main())


def test_waits_are_spread_by_jitter() -> None:
    async def main() -> None:
        patience = RecordedSleep()
        async with run_provider(
            busy(), busy(), chunked_stream("a"), patience=patience, jitter=1.0
        ) as (
            _,
            provider,
        ):
            await provider.stream(REQUEST).collect()
        assert patience.waited == [0.375, 0.75]

    run(main())


@pytest.mark.parametrize(
    ("headers", "waited"),
    [
        ({"retry_after": "7"}, [7.0]),
        ({"retry_after_ms": "1500"}, [1.5]),
        (
            {
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
                "retry_after": "Wed, 21 Oct 2026 07:28:20 GMT",
            },
            [20.0],
        ),
    ],
    ids=["seconds", "milliseconds", "date"],
)
def test_the_wait_that_a_provider_asks_for_is_used(
    headers: dict[str, str], waited: list[float]
) -> None:
    async def main() -> None:
        patience = RecordedSleep()
        async with run_provider(
            busy(429, **headers), chunked_stream("a"), patience=patience, jitter=1.0
        ) as (
            _,
            provider,
        ):
            await provider.stream(REQUEST).collect()
        assert patience.waited == waited

    run(main())


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"retry_after": "90"}, " 90 s"),
        ({"retry_after_ms": "90250"}, " 90.25 s"),
        ({"retry_after": "1234567"}, " 1234567 s"),
    ],
)
def test_an_error_names_the_requested_wait_once(headers: dict[str, str], text: str) -> None:
    async def main() -> None:
        async with run_provider(reply(429, b"", **headers)) as (_, provider):
            with pytest.raises(RateLimited) as caught:
                await provider.stream(REQUEST).collect()
        assert caught.value.status == 429
        assert str(caught.value).count(text) == 1

    run(main())


def test_a_request_is_not_repeated_if_the_requested_wait_is_too_long() -> None:
    async def main() -> None:
        patience = RecordedSleep()
        async with run_provider(busy(429, retry_after="3600"), patience=patience) as (_, provider):
            with pytest.raises(RateLimited) as caught:
                await provider.stream(REQUEST).collect()
        assert caught.value.retry_after_s == 3600
        assert patience.waited == []

    run(main())


@pytest.mark.parametrize(
    ("rest", "error"),
    [
        ([CUT], Unreachable),
        ([END], CutShort),
        ([chunk(b'data: {"error": {"message": "x", "code": 503}}\n\n')], Overloaded),
        ([chunk(b"data: {no json\n\n")], ProtocolError),
    ],
    ids=["reset", "ended early", "error event", "nonsense"],
)
@pytest.mark.requirement("S4-03", "S4-05")
def test_a_request_is_not_repeated_after_the_first_event(
    rest: list[Any], error: type[Exception]
) -> None:
    async def main() -> None:
        script: Script = [STREAM, *map(chunk, chat_chunks("Hel", finish=None)), *rest]
        async with run_provider(script, chunked_stream("other")) as (server, provider):
            stream = provider.stream(REQUEST)
            with pytest.raises(error):
                await stream.collect()
            assert stream.message().text == "Hel"
            assert stream.message().stop_reason is StopReason.ERROR
        assert len(server.seen) == 1

    run(main())


def test_a_time_limit_raises_an_error_that_names_it() -> None:
    async def main() -> None:
        script: Script = [STREAM, *map(chunk, chat_chunks("Hel", finish=None)), STALL]
        limits = TimeLimits(idle_s=0.05)
        async with run_provider(script, limits=limits) as (_, provider):
            stream = provider.stream(REQUEST)
            with pytest.raises(Unreachable, match=r" 0\.05 s$") as caught:
                await stream.collect()
            assert caught.value.code == "idle_timeout"
            assert stream.message().text == "Hel"

    run(main())


class Fed:
    """A transport and its one response, whose pieces the test provides."""

    status = 200

    def __init__(
        self, read: Callable[[], Awaitable[bytes]], content_type: str = "text/event-stream"
    ) -> None:
        self.headers = {"content-type": content_type}
        self._read = read
        self.opened = 0
        self.is_closed = False

    async def open(self, _: HttpRequest) -> Fed:
        self.opened += 1
        return self

    async def read(self) -> bytes:
        return await self._read()

    def close(self) -> Any:
        self.is_closed = True


@pytest.mark.parametrize(
    ("content_type", "first", "then"),
    [
        ("text/event-stream", b": keep-alive\n\n", b": keep-alive\n\n"),
        ("application/json", b"{", b"\n"),
    ],
    ids=["comments", "blank lines in a whole answer"],
)
def test_a_server_that_sends_only_comments_is_given_up(
    content_type: str, first: bytes, then: bytes
) -> None:
    async def main() -> None:
        pieces = chain((first,), repeat(then))

        async def read() -> bytes:
            await asyncio.sleep(0)
            return next(pieces)

        fed, patience = Fed(read, content_type), RecordedSleep()
        settings: dict[str, Any] = {"transport": fed, "patience": patience, "first_event_s": 0.01}
        async with make_provider("http://lab.example", **settings) as provider:
            with pytest.raises(Unreachable) as caught:
                await provider.stream(REQUEST).collect()
            assert (caught.value.code, caught.value.place) == ("no_event", "lab")
        assert not caught.value.retryable
        assert (fed.opened, patience.waited) == (1, [])
        assert fed.is_closed

    run(main())


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_limit_that_is_not_positive_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidValue) as caught:
        connect("vllm", first_event_s=seconds)
    assert (caught.value.code, caught.value.place) == ("limit_not_positive", "first_event_s")
    connect("vllm", first_event_s=None)


# -- closing -------------------------------------------------------------------------------------

STALLS: dict[str, Script] = {
    "before the head": [STALL],
    "before the body": [STREAM, STALL],
    "before the first event": [STREAM, chunk(b": hello\n\n"), STALL],
    "inside the stream": [STREAM, *map(chunk, chat_chunks("Hel", finish=None)), STALL],
    "inside an error": [response_head(500, content_length="9"), b"{", STALL],
    "inside a whole answer": [response_head(content_type="application/json"), b"{", STALL],
}


@asynccontextmanager
async def waiting_reader(where: str) -> AsyncGenerator[tuple[HttpStream, asyncio.Task[Any]]]:
    """Start to read a response that stalls; at the end its connection must be closed."""
    async with run_provider(STALLS[where], chunked_stream("again")) as (server, provider):
        stream = provider.stream(REQUEST)
        if where == "inside the stream":
            await anext(stream)
        reader = asyncio.create_task(stream.collect())
        await server.stalled.wait()
        await asyncio.sleep(0)  # let it begin to wait
        yield stream, reader
        await server.hung_up.wait()
    assert len(server.seen) == 1


@pytest.mark.requirement("S4-04")
@pytest.mark.parametrize("where", STALLS)
def test_cancelling_ends_a_waiting_read_and_closes_the_connection(where: str) -> None:
    async def main() -> None:
        async with waiting_reader(where) as (stream, reader):
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
        assert stream.message().stop_reason is StopReason.ABORTED
        assert stream.message().text == ("Hel" if where == "inside the stream" else None)

    run(main())


@pytest.mark.requirement("S4-04")
@pytest.mark.parametrize("where", STALLS)
def test_closing_ends_a_waiting_read_and_the_connection(where: str) -> None:
    async def main() -> None:
        async with waiting_reader(where) as (stream, reader):
            stream.close()
            message = await reader
        assert message.stop_reason is StopReason.ABORTED
        assert message.text == ("Hel" if where == "inside the stream" else None)

    run(main())


@pytest.mark.requirement("S4-04")
@pytest.mark.parametrize("is_ours", [True, False], ids=["closed by us", "cut by the server"])
def test_the_usage_of_a_truncated_response_is_in_its_message(is_ours: bool) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8}
    counted = {"choices": [{"index": 0, "delta": {"content": "Hel"}}], "usage": usage}
    script: list[bytes | str] = [
        STREAM,
        chunk(b"data: %b\n\n" % json.dumps(counted).encode()),
        STALL if is_ours else CUT,
    ]

    async def main() -> None:
        async with run_provider(script) as (_, provider), provider.stream(REQUEST) as stream:
            await anext(stream)
            if is_ours:
                stream.close()
            else:
                with pytest.raises(StenoError):
                    await anext(stream)
            message = stream.message()
        assert message.text == "Hel"
        assert message.usage == Usage(input_tokens=7, output_tokens=1)

    run(main())


@pytest.mark.requirement("S4-04")
def test_closing_while_the_first_bytes_arrive_closes_the_connection() -> None:
    """Both happen in one iteration of the event loop: the read ends before it can be cancelled."""

    async def main() -> None:
        waits = asyncio.Event()
        piece: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def read() -> bytes:
            waits.set()
            return await piece

        fed = Fed(read)
        async with make_provider("http://lab.example", transport=fed) as provider:
            stream = provider.stream(REQUEST)
            reader = asyncio.create_task(stream.collect())
            await waits.wait()
            piece.set_result(chat_chunks("Hel", finish=None)[0])
            stream.close()
            message = await reader
        assert fed.is_closed
        assert (message.stop_reason, message.content) == (StopReason.ABORTED, ())

    run(main())


@pytest.mark.requirement("S4-04")
def test_closing_ends_the_wait_before_a_retry() -> None:
    async def main() -> None:
        waiting = asyncio.Event()

        class Forever(RecordedSleep):
            async def sleep(self, seconds: float) -> None:
                waiting.set()
                await asyncio.Event().wait()

        async with run_provider(busy(), chunked_stream("again"), patience=Forever()) as (
            server,
            provider,
        ):
            stream = provider.stream(REQUEST)
            reader = asyncio.create_task(stream.collect())
            await waiting.wait()
            stream.close()
            assert (await reader).stop_reason is StopReason.ABORTED
        assert len(server.seen) == 1

    run(main())


@pytest.mark.requirement("S4-04")
def test_leaving_the_stream_closes_the_connection() -> None:
    async def main() -> None:
        async with run_provider(STALLS["inside the stream"]) as (server, provider):
            async with provider.stream(REQUEST) as stream:
                async for _ in stream:
                    break
            await server.hung_up.wait()
            assert stream.message().stop_reason is StopReason.ABORTED

    run(main())


def test_a_closed_provider_raises_at_once() -> None:
    async def main() -> None:
        async with run_server(chunked_stream("a"), chunked_stream("b")) as server:
            async with connect("vllm", base_url=server.url, environ={}) as provider:
                await provider.stream(REQUEST).collect()
                unread = provider.stream(REQUEST)
            uses: list[Callable[[], Awaitable[object]]] = [
                unread.collect,
                provider.models,
                partial(provider.describe, "m"),
                provider.__aenter__,
            ]
            with pytest.raises(StenoError) as caught:
                provider.stream(REQUEST)
            errors = [caught.value]
            for use in uses:
                with pytest.raises(StenoError) as caught:
                    await use()
                errors.append(caught.value)
            assert {(error.code, error.place) for error in errors} == {("provider_closed", "vllm")}
            await provider.close()
        assert len(server.seen) == 1

    run(main())


@pytest.mark.parametrize("where", ["before the head", "before the first event"])
def test_closing_a_provider_ends_waiting_reads_and_opens_no_connection(where: str) -> None:
    async def main() -> None:
        async with run_server(STALLS[where], chunked_stream("again")) as server:
            provider = HttpProvider(vendor_row(server.url), sleep=RecordedSleep().sleep)
            reader = asyncio.create_task(provider.stream(REQUEST).collect())
            await server.stalled.wait()
            await asyncio.sleep(0)  # let it begin to wait
            await provider.close()
            with pytest.raises(StenoError) as caught:
                await reader
            assert caught.value.code == "provider_closed"
        assert len(server.seen) == 1

    run(main())


def test_closing_a_provider_does_not_close_a_passed_transport() -> None:
    async def main() -> None:
        transport = ReplayTransport([RecordedResponse(tuple(chat_chunks("a")))])
        async with connect("vllm", transport=transport):
            pass
        other = connect("vllm", transport=transport)
        assert (await other.stream(REQUEST).collect()).text == "a"

    run(main())


def test_many_streams_run_side_by_side() -> None:
    async def main() -> None:
        texts = [f"answer {n}" for n in range(20)]
        async with run_provider(*[chunked_stream(text) for text in texts]) as (_, provider):
            streams = [provider.stream(REQUEST).collect() for _ in texts]
            messages = await asyncio.gather(*streams)
        assert sorted(str(message.text) for message in messages) == sorted(texts)

    run(main())
