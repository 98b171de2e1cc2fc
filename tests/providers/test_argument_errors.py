"""Arguments of a wrong type are refused at once, with the type to pass instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from steno import ChatMessage
from steno.errors import InvalidRequest, InvalidValue
from steno.json_object import JsonObject
from steno.providers import ApiKey, HttpProvider, HttpTransport, Model, Retries, Vendor, connect
from steno.transport.replay import ReplayTransport
from tests.providers.provider_setup import REQUEST, vendor_row
from tests.transport.http_server import run

MODEL = Model(id="m", raw=JsonObject({}))
LAB = vendor_row("http://lab.example")
ANYHOW: Any = connect

MISTAKES: dict[str, tuple[Callable[[], object], str, str]] = {
    "no vendor": (
        lambda: ANYHOW(None),
        "connect",
        "wrong_type",
    ),
    "a class": (lambda: ANYHOW(Vendor), "connect", "wrong_type"),
    "retries": (
        lambda: ANYHOW("vllm", retries=3),
        "retries",
        "wrong_type",
    ),
    "fewer than no retries": (
        lambda: Retries(max_retries=-1),
        "retries.max_retries",
        "invalid_retries",
    ),
    "half a retry": (
        lambda: Retries(max_retries=0.5),  # type: ignore[arg-type]  # wrong on purpose
        "retries.max_retries",
        "invalid_retries",
    ),
    "a wait into the past": (
        lambda: Retries(first_wait_s=-1),
        "retries.first_wait_s",
        "invalid_retries",
    ),
    "a wait that is no number": (
        lambda: Retries(max_retry_after_s=float("nan")),
        "retries.max_retry_after_s",
        "invalid_retries",
    ),
    "no model": (lambda: ANYHOW("vllm", model=None), "model", "wrong_type"),
    "a model": (
        lambda: ANYHOW("vllm", model=MODEL),
        "model",
        "wrong_type",
    ),
    "key": (lambda: ANYHOW("vllm", key=7), "key", "wrong_type"),
    "key of a provider": (
        lambda: HttpProvider(LAB, key="sk-x"),  # type: ignore[arg-type]  # wrong on purpose
        "key",
        "wrong_type",
    ),
    "name for a row": (
        lambda: HttpProvider("openai"),  # type: ignore[arg-type]  # wrong on purpose
        "vendor",
        "wrong_type",
    ),
    "first_event_s": (
        lambda: ANYHOW("vllm", first_event_s="1 s"),
        "first_event_s",
        "limit_not_positive",
    ),
    "base_url": (lambda: ANYHOW("vllm", base_url=7), "vllm.base_url", "wrong_type"),
    "transport": (
        lambda: ANYHOW("vllm", transport="http"),
        "transport",
        "wrong_type",
    ),
    "limits": (
        lambda: HttpTransport(limits=30),  # type: ignore[arg-type]  # wrong on purpose
        "limits",
        "invalid_limits",
    ),
    "one variable": (
        lambda: vendor_row("http://lab.example", key_variables="LAB_KEY"),
        "lab.key_variables",
        "wrong_type",
    ),
    "no name": (
        lambda: vendor_row("http://lab.example", name=None),
        "vendor",
        "vendor_name_malformed",
    ),
    "no address": (lambda: vendor_row(None), "lab.base_url", "wrong_type"),  # type: ignore[arg-type]  # wrong on purpose
}


@pytest.mark.parametrize("name", MISTAKES)
def test_arguments_of_the_wrong_type_are_refused(name: str) -> None:
    make, place, code = MISTAKES[name]
    with pytest.raises(InvalidValue) as caught:
        make()
    assert (caught.value.place, caught.value.code) == (place, code)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (None, "NoneType"),
        (list(REQUEST.messages), "list"),
        (REQUEST.messages, "tuple"),
        ("Speak.", "str"),
        (ChatMessage.user("Speak."), "UserMessage"),
        ({"messages": []}, "dict"),
    ],
)
def test_only_a_request_is_streamed(wrong: Any, kind: str) -> None:
    provider = connect("vllm", transport=ReplayTransport(()))
    with pytest.raises(InvalidRequest) as caught:
        provider.stream(wrong)
    assert (caught.value.code, caught.value.place) == ("wrong_type", "stream")
    assert caught.value.message.endswith(f"not {kind}")


def test_a_model_is_described_by_its_id() -> None:
    provider: Any = connect("vllm", transport=ReplayTransport(()))
    with pytest.raises(InvalidValue) as caught:
        run(provider.describe(MODEL))
    assert (caught.value.code, caught.value.place) == ("wrong_type", "model")


def test_the_key_is_redacted_in_the_causes_of_an_error() -> None:
    cause = ValueError("sk-very-secret", 7)
    cause.add_note("it was sk-very-secret")
    error = RuntimeError("sk-very-secret")
    error.__cause__, error.__context__ = cause, cause
    cause.__context__ = error
    ApiKey("sk-very-secret").redact_error(error)
    assert error.args == ("***",)
    assert cause.args == ("***", 7)
    assert cause.__notes__ == ["it was ***"]
