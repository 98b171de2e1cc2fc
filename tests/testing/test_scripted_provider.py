"""The providers for tests stream their scripts and recordings."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given

from steno import (
    AssistantMessage,
    ChatMessage,
    Event,
    Finished,
    InvalidRequest,
    InvalidToolCall,
    ProviderError,
    Request,
    StopReason,
    Text,
    TextDelta,
    ToolCall,
    ToolCallEnd,
)
from steno.errors import CutShort, InvalidValue, RateLimited
from steno.ports import Provider
from steno.testing import (
    ReplayingProvider,
    ScriptedProvider,
    ScriptedStep,
    ScriptRanOut,
    assistant_messages,
)
from steno.transport.replay import RecordedResponse
from steno.wire import openai_chat

T = TypeVar("T")

REQUEST = Request(model="m-1", messages=(ChatMessage.user("Well?"),))
END_TURN = Finished(StopReason.END_TURN, "stop")
CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"Hello."}}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(60):
            return await coroutine

    return asyncio.run(bounded())


def answer(provider: Provider, request: Request = REQUEST) -> AssistantMessage:
    return run(provider.stream(request).collect())


async def read(provider: Provider) -> list[Event]:
    return [event async for event in provider.stream(REQUEST)]


# -- scripted --------------------------------------------------------------------------------------


@pytest.mark.requirement("S4-16")
def test_turns_are_returned_in_order_and_requests_recorded() -> None:
    provider = ScriptedProvider(["One.", ChatMessage.assistant("Two.")])
    other = Request(messages=(ChatMessage.user("And?"),))
    assert answer(provider).text == "One."
    assert answer(provider, other).text == "Two."
    assert provider.requests == [REQUEST, other]


def test_a_message_without_a_stop_reason_gets_the_usual_one() -> None:
    call = ToolCall(id="a", name="read")
    provider = ScriptedProvider(["Hi.", ChatMessage.assistant(None, [call])])
    assert answer(provider).stop_reason is StopReason.END_TURN
    found = answer(provider)
    assert (found.tool_calls, found.stop_reason) == ((call,), StopReason.TOOL_USE)


@given(assistant_messages())
def test_any_message_is_returned_as_scripted(message: AssistantMessage) -> None:
    found = answer(ScriptedProvider([message]))
    assert found == msgspec.structs.replace(message, stop_reason=found.stop_reason)
    assert message.stop_reason in (None, found.stop_reason)


def test_a_message_is_streamed_as_events() -> None:
    call = InvalidToolCall(id="a", name="read", arguments="{", reason="cut")
    message = AssistantMessage(content=(Text("Hi."), call), stop_reason=StopReason.LENGTH)
    events = run(read(ScriptedProvider([message])))
    assert events[0] == TextDelta(0, "Hi.")
    assert isinstance(events[-2], ToolCallEnd)
    assert events[-1] == Finished(StopReason.LENGTH)


def test_scripted_events_are_streamed_unchanged() -> None:
    turn: list[ScriptedStep] = [TextDelta(0, "Hel"), TextDelta(0, "lo"), END_TURN]
    assert run(read(ScriptedProvider([turn]))) == turn


def test_events_without_an_end_are_a_stream_that_was_cut() -> None:
    with pytest.raises(CutShort):
        answer(ScriptedProvider([[TextDelta(0, "Hel")]]))


def test_an_error_is_raised_in_its_place() -> None:
    provider = ScriptedProvider(
        [RateLimited("later", retryable=True), [TextDelta(0, "Hal"), ProviderError("died")], "Hi."]
    )
    with pytest.raises(RateLimited, match="later"):
        answer(provider)

    async def interrupted() -> AssistantMessage:
        stream = provider.stream(REQUEST)
        with pytest.raises(ProviderError, match="died"):
            await stream.collect()
        return stream.message()

    partial = run(interrupted())
    assert (partial.text, partial.stop_reason) == ("Hal", StopReason.ERROR)
    assert answer(provider).text == "Hi."


def test_a_function_returns_the_turn_for_a_request() -> None:
    def echo(request: Request) -> str:
        return f"You said: {request.messages[-1].text}"

    provider = ScriptedProvider(repeat(echo))
    assert [answer(provider).text for _ in range(3)] == ["You said: Well?"] * 3


def test_a_script_waits_until_the_test_sets_the_event() -> None:
    async def scene() -> list[str]:
        go_on = asyncio.Event()
        happened: list[str] = []
        turn: list[ScriptedStep] = [TextDelta(0, "Wait"), go_on, TextDelta(0, "ed"), END_TURN]
        stream = ScriptedProvider([turn]).stream(REQUEST)
        happened.append(repr(await anext(stream)))
        rest = asyncio.ensure_future(stream.collect())
        for _ in range(10):
            await asyncio.sleep(0)
        happened.append(f"done: {rest.done()}")
        go_on.set()
        happened.append((await rest).text or "")
        return happened

    assert run(scene()) == ["TextDelta(index=0, text=<4 characters>)", "done: False", "Waited"]


def test_a_script_that_ran_out_raises() -> None:
    provider = ScriptedProvider(["Only one."])
    answer(provider)
    with pytest.raises(ScriptRanOut, match="request 2"):
        answer(provider)
    assert not issubclass(ScriptRanOut, Exception)  # code that handles failures must not catch it


def test_a_turn_is_taken_when_it_is_read() -> None:
    provider = ScriptedProvider(["One.", "Two."])
    provider.stream(REQUEST).close()
    assert provider.requests == []
    assert answer(provider).text == "One."


def test_a_string_for_a_list_of_turns_is_refused() -> None:
    with pytest.raises(TypeError, match="a list of turns"):
        ScriptedProvider("Hello.")


# -- replaying -------------------------------------------------------------------------------------


@pytest.mark.requirement("S4-16")
def test_recorded_bytes_and_files_are_replayed(tmp_path: Path) -> None:
    file = tmp_path / "answer.sse"
    file.write_bytes(CHUNK.replace(b"Hello.", b"From a file.") + END)
    provider = ReplayingProvider("openai_chat", [CHUNK + END, file])
    assert [answer(provider).text for _ in range(2)] == ["Hello.", "From a file."]
    assert provider.requests == [REQUEST, REQUEST]
    assert provider.sent[0].json["messages"] == [{"role": "user", "content": "Well?"}]


def test_a_wire_of_your_own_can_be_replayed() -> None:
    assert answer(ReplayingProvider(openai_chat, [CHUNK + END])).text == "Hello."


def test_a_recorded_http_response_is_read_with_its_status() -> None:
    body = b'{"error":{"message":"slow down"}}'
    head = b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 7\r\n"
    with pytest.raises(RateLimited, match="slow down") as caught:
        answer(ReplayingProvider("openai_chat", [head + b"\r\n" + body]))
    assert caught.value.retry_after_s == 7


def test_a_recorded_whole_response_is_read() -> None:
    body = b'{"choices":[{"index":0,"message":{"content":"Hi."},"finish_reason":"stop"}]}'
    recorded = RecordedResponse((body[:20], body[20:]), content_type="application/json")
    found = answer(ReplayingProvider("openai_chat", [recorded]))
    assert (found.text, found.stop_reason) == ("Hi.", StopReason.END_TURN)


@pytest.mark.parametrize(
    ("recordings", "text"),
    [
        (CHUNK, "must be a list of bytes, Path or RecordedResponse, not bytes"),
        ("an.sse", "must be a list of bytes, Path or RecordedResponse, not str"),
        (7, "must be a list of bytes, Path or RecordedResponse, not int"),
        (
            ["an.sse"],
            "each must be bytes, Path or RecordedResponse, not str; for a file, pass a Path",
        ),
        ([CHUNK, None], "each must be bytes, Path or RecordedResponse, not NoneType"),
    ],
)
def test_an_item_that_is_not_a_recording_is_refused(recordings: Any, text: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        ReplayingProvider("openai_chat", recordings)
    assert str(caught.value) == f"recordings: {text}"


def test_items_of_an_iterator_are_checked_when_they_are_played() -> None:
    recordings: Any = iter([CHUNK + END, "an.sse"])
    provider = ReplayingProvider("openai_chat", recordings)
    assert answer(provider).text == "Hello."
    with pytest.raises(InvalidValue, match="recordings: each must be bytes"):
        answer(provider)


def test_recordings_that_ran_out_raise() -> None:
    with pytest.raises(ScriptRanOut, match="request 1"):
        answer(ReplayingProvider("openai_chat", []))


def test_a_request_that_the_wire_refuses_raises_at_once() -> None:
    class Refusing:
        def __getattr__(self, name: str) -> Any:
            return getattr(openai_chat, name)

        def encode_request(self, request: Request, **settings: Any) -> Any:
            raise InvalidRequest("request: unsupported")

    with pytest.raises(InvalidRequest):
        ReplayingProvider(Refusing(), []).stream(REQUEST)
