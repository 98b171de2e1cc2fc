"""Golden files: documents of every released format, and what they load as today.

`STENO_WRITE_GOLDEN=1` writes the expected files anew; look at the difference before you commit.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from steno import (
    AssistantMessage,
    Image,
    InvalidToolCall,
    Opaque,
    Outcome,
    StopReason,
    ToolCall,
    ToolResult,
)
from steno.codec import decode_document, encode_document
from steno.messages.content import ImageData
from steno.records.entry import Payload
from tests.every_payload import DOCUMENT, DOCUMENT_OF_VERSION_3, PAYLOADS

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
OLD = ["v0_flat_chat", "v0_openai_calls", "v1_session"]
CURRENT = [
    "v2_from_v0_flat_chat",
    "v2_from_v0_openai_calls",
    "v2_from_v1_session",
    "v2_everything",
    "v3_everything",
]


def read(name: str) -> bytes:
    return (GOLDEN / f"{name}.json").read_bytes()


@pytest.mark.parametrize("name", OLD)
@pytest.mark.requirement("S2-10", "FR-004a-24", "FR-004a-26", "P-07")
def test_older_versions_load_as_the_recorded_documents(name: str) -> None:
    document = decode_document(read(name))
    pretty = msgspec.json.format(encode_document(document), indent=2) + b"\n"
    expected = GOLDEN / f"v2_from_{name}.json"
    if os.environ.get("STENO_WRITE_GOLDEN"):
        expected.write_bytes(pretty)
    assert pretty == expected.read_bytes()


@pytest.mark.requirement("S2-08", "S2-01", "S2-02", "S2-03", "S2-04", "S2-05", "S2-06", "S2-07")
def test_every_payload_and_block_is_written_as_it_always_was() -> None:
    assert {type(payload) for payload in PAYLOADS} == set(get_args(Payload))
    for name, document in {
        "v2_everything": DOCUMENT,
        "v3_everything": DOCUMENT_OF_VERSION_3,
    }.items():
        written = msgspec.json.format(encode_document(document), indent=2) + b"\n"
        if os.environ.get("STENO_WRITE_GOLDEN"):
            (GOLDEN / f"{name}.json").write_bytes(written)
        assert written == read(name)
        assert decode_document(written).messages == document.messages


@pytest.mark.parametrize("name", CURRENT)
@pytest.mark.requirement("S2-08", "NFR-004a-31")
def test_the_current_version_is_written_as_it_was_read(name: str) -> None:
    written = encode_document(decode_document(read(name)))
    assert msgspec.json.format(written, indent=2) + b"\n" == read(name)


@pytest.mark.requirement("FR-004a-26", "FR-004a-46")
def test_a_flat_chat_list_becomes_messages() -> None:
    system, user, turn, first, second, last = decode_document(read("v0_flat_chat")).messages
    assert system.text == "You mend Python projects."
    assert user.text == "Why does the build fail? 构建失败了 🙈"
    assert turn.text is None
    assert [call.arguments for call in turn.tool_calls] == [
        '{"path": "pyproject.toml", "limit": 1.0e2}',
        "{}",
    ]
    assert (first.tool_call_id, second.text) == ("call_001", "")
    assert last.text == "The name must be a string: put it in quotes."


@pytest.mark.requirement("S2-15")
def test_calls_in_the_openai_format_keep_their_ids_and_arguments() -> None:
    turn = decode_document(read("v0_openai_calls")).messages[2]
    good, broken = turn.tool_calls
    assert isinstance(good, ToolCall)
    assert (good.id, good.original_name) == ("call_a", "get-sum")
    assert good.parsed == {"a": 2, "b": 3}
    assert isinstance(broken, InvalidToolCall)
    assert (broken.id, broken.arguments) == ("call_b", '{"text": "half')


def test_unknown_members_of_a_flat_list_are_kept() -> None:
    document = decode_document(read("v0_openai_calls"))
    written = encode_document(document)
    assert b'"model":"any"' in written
    assert b'"name":"ada"' in written
    critic = document.entries[-1].payload
    assert isinstance(critic, Opaque)
    assert critic.kind == "critic"
    assert b"Not one of ours." in written


@pytest.mark.requirement("S2-10", "S4-09", "S4-10")
def test_a_session_of_version_1_becomes_entries_with_their_times() -> None:
    document = decode_document(read("v1_session"))
    assert document.id == "session-7"
    assert str(document.created_at) == "2026-03-01 08:00:00+00:00"
    assert [str(entry.time) for entry in document.entries] == [
        "None",
        "2026-03-01 08:00:00+00:00",
        "2026-03-01 08:00:04+00:00",
        "2026-03-01 08:00:05+00:00",
        "None",
        "None",
    ]
    system, user, turn, result, last = document.messages
    assert system.text == "You keep the tests green."
    image = user.content[1]
    assert isinstance(image, Image)
    assert image.source == ImageData(b"\x89PNG\r\n\x1a\n")
    assert isinstance(turn, AssistantMessage)
    assert turn.usage is not None
    assert turn.usage.total_tokens == 367
    assert turn.tool_calls[0].arguments == '{"pattern": "def test_parse", "context": 2}'
    assert isinstance(result, ToolResult)
    assert result.outcome is Outcome.ERROR
    assert isinstance(last, AssistantMessage)
    assert (last.stop_reason, last.raw_stop_reason) == (StopReason.UNKNOWN, "melted")


@pytest.mark.requirement("S2-09")
def test_an_unknown_message_of_an_old_session_is_kept_to_the_letter() -> None:
    weather = decode_document(read("v1_session")).entries[-1].payload
    assert isinstance(weather, Opaque)
    assert weather.raw == '{"type":"weather_report","sky":"clear","wind":1.50}'
